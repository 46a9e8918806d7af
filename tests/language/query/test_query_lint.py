"""What a lint report says beside its JSON, and that the documentation lists every code. The cases show the JSON."""

from __future__ import annotations

import re
from pathlib import Path

import orjson

from omnigraph.language.query import LintReport, SchemaSource, Severity, lint_queries
from omnigraph.language.query.check.codes import CODES
from omnigraph.language.query.lint import LINT_CODES
from omnigraph.language.query.parser import SYNTAX_CODE
from omnigraph.language.schema import parse_schema
from omnigraph.language.source import Source

ROOT = Path(__file__).parents[3]
CATALOG = parse_schema(ROOT / "tests" / "cases" / "vessels.pg").catalog


def lint(text: str) -> LintReport:
    return lint_queries(text, CATALOG, "vessels.pg")


def test_error_is_the_first_problem_and_problems_are_all() -> None:
    (result,) = lint("query q() { match { $v: Vesel } return { $v.name, $x.name } }").results
    assert result.error == f"type error: T1: {result.problems[0].message}"
    assert [problem.code for problem in result.problems] == ["T1", "T6"]
    assert result.operation is None


def test_problems_of_a_report_stand_in_order_of_the_text() -> None:
    report = lint(
        "query seed() { insert Port { code: 'p' } }\n".replace("'", '"')
        + "query pairs() { match { $v: Vessel $p: Port } return { $v, $p } }\n"
        + "query wrong() { match { $v: Vessel } return { $v.nam } }\n"
        + "query wrong() { match { $v: Vessel } return { $v } }\n"
    )
    assert [(severity, problem.code, problem.position.line) for severity, problem in report.problems] == [
        (Severity.WARNING, "L101", 1),
        (Severity.ERROR, "T12", 1),
        (Severity.WARNING, "L301", 2),
        (Severity.ERROR, "T6", 3),
        (Severity.ERROR, "Q006", 4),
    ]
    assert (report.errors, report.warnings, report.infos) == (3, 2, 0)


def test_findings_are_sorted_by_severity_type_and_property() -> None:
    report = lint(
        "query a($c: String) { update Vessel set { name: $c } where code = $c }\n"
        "query a($c: String) { update Port set { name: $c } where code = $c }\n"
        "query pairs() { match { $v: Vessel $p: Port } return { $v, $p } }\n"
    )
    assert [(found.problem.code, found.type_name, found.property) for found in report.findings] == [
        ("Q006", None, None),
        ("L301", None, None),
        ("L201", "Port", "depth"),
        *(("L201", "Vessel", name) for name in ("launched", "prof", "score", "tags", "tonnage")),
    ]


def test_an_empty_text_is_fine() -> None:
    report = lint("// nothing yet\n")
    assert (report.to_json()["status"], report.results, report.findings) == ("ok", (), ())


def test_parts_of_anonymous_ends_only_are_not_named() -> None:
    report = lint("query q() { match { $v: Vessel  $_ tows $_ } return { $v } }")
    assert report.findings == ()


def test_a_file_that_is_no_text_is_a_finding(tmp_path: Path) -> None:
    file = tmp_path / "some.gq"
    file.write_bytes(b"query q() {\n\xff")
    report = lint_queries(file, CATALOG, "vessels.pg")
    assert [(found.problem.code, found.problem.position.line) for found in report.findings] == [(SYNTAX_CODE, 2)]
    assert report.query_path == str(file)


def test_where_the_schema_came_from() -> None:
    source = Source("", "some.gq")
    from_graph = lint_queries(source, CATALOG, SchemaSource("graph", "s3://bucket/graph"))
    assert from_graph.to_json()["schema_source"] == {"kind": "graph", "uri": "s3://bucket/graph"}
    from_file = lint_queries(source, CATALOG, "vessels.pg").to_json()
    assert from_file["schema_source"] == {"kind": "file", "path": "vessels.pg"}
    assert from_file["query_path"] == "some.gq"


def test_a_report_is_json_and_leaves_out_what_is_empty() -> None:
    report = lint("query q() { match { $v: Vessel } return { $v.tags } }")
    (result,) = orjson.loads(orjson.dumps(report.to_json()))["results"]
    assert set(result) == {"name", "kind", "status", "operation"}
    assert result["operation"]["result"] == [
        {"name": "v.tags", "kind": "list", "item_kind": "string", "nullable": True}
    ]


def test_every_code_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "query-language.md").read_text("utf-8")
    documented = re.findall(r"^\| `([TQL]\d+)` \|", page, re.MULTILINE)
    assert sorted(documented) == sorted([SYNTAX_CODE, *CODES, *LINT_CODES])


def test_in_before_a_text_is_told_wherever_it_stands() -> None:
    report = lint(
        "query a() {\n"
        '  match { $v: Vessel  $v.name in ("A")  not { $v tows $w  $w.name in "B" } }\n'
        '  return { $v.name, case { $v.code in ["A"]: 1, $v.code in "C": 2 } as n }\n'
        "}\n"
    )
    assert [(problem.code, problem.position.line) for _, problem in report.problems] == [
        ("L303", 2),
        ("L303", 2),
        ("L303", 3),
    ]
