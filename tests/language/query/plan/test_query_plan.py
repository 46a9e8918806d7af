"""Compiling a query: which one is meant, what is reported when it cannot be, and that planning is a function."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from omnigraph.errors import NotFound, QueryError
from omnigraph.language.query import compile_query, find_query
from omnigraph.language.query.plan import MutationPlan, print_plan
from omnigraph.language.query.plan.planner import plan_read
from omnigraph.language.query.typed_statements import TypedMutation
from omnigraph.language.query.typed_tree import TypedRead
from omnigraph.language.schema import parse_schema
from omnigraph.language.source import Source

ROOT = Path(__file__).parents[4]
CATALOG = parse_schema(ROOT / "tests" / "cases" / "vessels.pg").catalog
VESSELS = "query vessels() { match { $v: Vessel } return { $v.name } }\n"
PORTS = "query ports() { match { $p: Port } return { $p.name } }\n"
BROKEN = "query broken() { match { $p: Prt } return { $p.name, $q.name } }\n"
SCRAP = "query scrap($code: String) { delete Vessel where code = $code }\n"


def test_the_only_query_needs_no_name() -> None:
    assert compile_query(VESSELS, CATALOG).name == "vessels"


def test_a_query_is_chosen_by_name() -> None:
    assert compile_query(VESSELS + PORTS, CATALOG, "ports").name == "ports"


def test_several_queries_and_no_name() -> None:
    with pytest.raises(NotFound, match="the text has several queries: vessels, ports") as caught:
        compile_query(VESSELS + PORTS, CATALOG)
    assert caught.value.details == {"queries": ["vessels", "ports"]}


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(NotFound, match="the text has no 'vesels', but vessels, ports") as caught:
        compile_query(VESSELS + PORTS, CATALOG, "vesels")
    assert caught.value.hint == "did you mean 'vessels'?"


def test_a_text_without_queries() -> None:
    with pytest.raises(NotFound, match="the text has no query"):
        compile_query("// nothing\n", CATALOG)


def test_a_broken_query_does_not_keep_another_from_running() -> None:
    assert compile_query(VESSELS + BROKEN, CATALOG, "vessels").name == "vessels"


def test_every_problem_of_a_query_is_raised() -> None:
    with pytest.raises(QueryError) as caught:
        compile_query(VESSELS + BROKEN, CATALOG, "broken")
    assert [problem.code for problem in caught.value.problems] == ["T1", "T6"]


def test_every_syntax_problem_is_raised() -> None:
    with pytest.raises(QueryError) as caught:
        find_query("query a( { }\nquery b() { match }\n")
    assert [problem.position.line for problem in caught.value.problems] == [1, 2]


def test_a_path_and_a_source_are_read(tmp_path: Path) -> None:
    file = tmp_path / "some.gq"
    file.write_text(VESSELS, "utf-8")
    assert find_query(file) == find_query(Source(VESSELS)) == find_query(VESSELS)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "some.gq"
    file.write_bytes(b"query \xff")
    with pytest.raises(QueryError) as caught:
        find_query(file)
    assert caught.value.problems[0].code == "Q000"


def test_a_mutation_without_a_match_has_no_other_plan() -> None:
    compiled = compile_query(SCRAP, CATALOG)
    assert isinstance(compiled.typed, TypedMutation)
    assert compiled.plan == MutationPlan(compiled.typed, None)
    assert print_plan(compiled.plan).startswith("Mutation scrap\n└─ Delete Vessel where code = $code")


def test_the_documented_plan_is_the_plan() -> None:
    page = (ROOT / "docs" / "reference" / "query-language.md").read_text("utf-8")
    shown = re.search(r"```gq\n([^`]*)```\n\n```text\n(Project [^`]*)\n```", page)
    assert shown is not None
    assert print_plan(compile_query(shown.group(1), CATALOG).plan) == shown.group(2)


def test_a_long_match_is_a_deep_plan() -> None:
    steps = " ".join(f"$v{number} tows $v{number + 1}" for number in range(1500))
    compiled = compile_query(f"query long() {{ match {{ {steps} }} return {{ $v0 }} }}", CATALOG)
    assert print_plan(compiled.plan).count("Expand") == 1500


def test_planning_the_same_query_twice_gives_the_same_plan() -> None:
    typed = compile_query(VESSELS, CATALOG).typed
    assert isinstance(typed, TypedRead)
    assert plan_read(typed) == plan_read(typed)
    assert hash(plan_read(typed)) == hash(plan_read(typed))
