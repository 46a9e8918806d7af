"""Plans: a file held against a graph, with every mapping type-checked as far as that is possible without Spark."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from omnigraph.graph import Graph
from omnigraph.pipeline.column_types import ViewColumns, infer_expression
from tests.pipeline.pipelines import GOOD, changed, make_project, places, planned, problems_of

PERSON = "Person: {view: adults, columns: {name: full_name, age: cast(age AS int)}}"
RUN = "pipeline june.pipeline.yaml"
KNOWS = "Knows: {view: links, from: a, to: b, columns: {since: since}}"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return make_project(tmp_path)


def test_a_plan_says_what_is_read_mapped_and_written(graph: Graph, tmp_path: Path) -> None:
    plan = planned(graph, tmp_path, GOOD)
    people, links = plan.sources
    assert (people.files, people.size) == (2, 49)
    assert links.columns is not None
    assert links.columns.names == ("a", "b", "since")
    person, knows = plan.mappings
    assert [(each.name, each.target_text, str(each.expression_type)) for each in person.columns] == [
        ("name", "String", "string"),
        ("age", "I32?", "int32"),
    ]
    assert [(each.name, each.target_text, str(each.expression_type)) for each in knows.columns] == [
        ("from", "Person.name", "string"),
        ("to", "Person.name", "string"),
        ("since", "I32?", "int32"),
    ]
    assert [each.name for each in plan.checks] == ["young"]
    assert plan.creates_branch
    assert plan.notes == ()


@pytest.mark.parametrize(
    ("old", "new", "expected", "said"),
    [
        ("raw/people/*.csv", "raw/poeple/*.csv", ("P302", 5, 31), "there is no file raw/poeple/*.csv"),
        ("raw/links.parquet", "checks.gq", ("P302", 6, 34), "checks.gq is not a valid parquet file"),
        ("name: full_name", "name: fullname", ("P207", 10, 42), "did you mean 'full_name'?"),
        ("cast(age AS int)}", "cast(agee AS int)}", ("P207", 10, 58), "'adults' has no column 'agee'"),
        ("age: cast(age AS int)}", "age: age}", ("P204", 10, 58), "write cast(age AS int)"),
        ("since: since", "since: a", ("P204", 12, 57), "Knows.since is I32?, but this is string"),
        ("since: since", "since: 'true'", ("P204", 12, 57), "but this is bool"),
        ("name: full_name", "naem: full_name", ("P202", 10, 36), "did you mean 'name'?"),
        ("name: full_name, ", "", ("P203", 10, 3), "Person.name is in the key"),
        ("Person: {", "Persn: {", ("P201", 10, 3), "did you mean 'Person'?"),
        ("  Person: {", "  Knows: {", ("P201", 10, 3), "it is a type of edges"),
        ("view: links", "view: link", ("P206", 12, 17), "did you mean 'links'?"),
        ("to: b", "to: [a, b]", ("P205", 12, 37), "does not match the key of Person"),
        ("since: since", "from: a", ("P202", 12, 50), "belong beside 'columns'"),
        ("name: young", "name: yuong", ("P208", 14, 29), "did you mean 'young'?"),
        ("file: checks.gq", "file: none.gq", ("P208", 14, 12), "no such file"),
        ("name: young, params: {limit: 18}", "name: add", ("P208", 14, 29), "'add' is a mutation"),
        ("limit: 18", "limit: soon", ("P208", 14, 29), "param 'limit'"),
        (", from: main", "", ("P209", 3, 29), "add from: main"),
        ("from: main", "from: mian", ("P209", 3, 46), "mian"),
        ("load/june", "load//june", ("P209", 3, 29), "a segment between '/' is empty"),
        ("from: main", "from: main, identity: {Knows: [form]}", ("P210", 3, 63), "did you mean 'from'"),
        ("from: main", "from: main, identity: {Person: [age]}", ("P210", 3, 63), "its key (name) identifies it"),
        ("from: main", "from: main, identity: {Knows: from}", ("P104", 3, 70), "a list"),
        ("from: main", "from: main, txn: {app: a, number: -1}", ("P105", 3, 74), "load.txn.number is '-1'"),
        ("from: main", "from: main, txn: {app: a}", ("P102", 3, 57), "number"),
    ],
)
def test_each_mistake_is_told_at_its_place(
    graph: Graph, tmp_path: Path, old: str, new: str, expected: tuple[str, int, int], said: str
) -> None:
    problems = problems_of(graph, tmp_path, changed(old, new))
    assert expected in places(problems)
    problem = problems[places(problems).index(expected)]
    assert said in f"{problem.message} {problem.hint}"


def test_problems_of_the_file_the_schema_and_the_checks_come_together(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "checks.gq").write_text("query young($limit: I32) { match { $p: Persn } return { $p.name } }")
    text = changed("since: since", "sinc: since", changed("version: 1", "version: 9"))
    problems = problems_of(graph, tmp_path, changed("load:", "laod:", text))
    assert [code for code, _, _ in places(problems)] == ["P105", "P101", "P202", "T1"]
    assert problems[-1].position.file == str(tmp_path / "checks.gq")


@pytest.mark.parametrize(
    ("into", "message"),
    [("mian", "there is no branch 'mian'"), ("load/june", "'load/june' would be merged into itself")],
)
def test_what_cannot_be_merged_into(graph: Graph, tmp_path: Path, into: str, message: str) -> None:
    (problem,) = problems_of(graph, tmp_path, changed("from: main", f"from: main, merge_into: {into}"))
    assert (*places([problem])[0], problem.message) == ("P209", 3, 64, message)


def test_a_branch_that_is_merged_is_made_at_every_run(graph: Graph, tmp_path: Path) -> None:
    text = changed(", from: main", ", merge_into: main")
    first = planned(graph, tmp_path, text)
    assert (first.creates_branch, first.replaced_head, first.notes) == (True, None, ())
    graph.load([{"type": "Note", "data": {"text": "a"}}], branch="load/june", from_branch="main", message=RUN)
    again = planned(graph, tmp_path, text)
    assert (again.creates_branch, again.replaced_head) == (True, graph.commits("load/june")[0].id)
    assert again.notes == ("branch load/june already exists; the run replaces it by a new one",)


def test_a_branch_with_commits_of_others_is_not_replaced(graph: Graph, tmp_path: Path) -> None:
    graph.load([{"type": "Note", "data": {"text": "a"}}], branch="load/june", from_branch="main", message=RUN)
    others = graph.load([{"type": "Note", "data": {"text": "b"}}], branch="load/june").commit
    assert others is not None
    text = changed("from: main", "from: main, merge_into: main")
    (problem,) = problems_of(graph, tmp_path, text)
    assert places([problem]) == [("P209", 3, 29)]
    assert f"it has commit {others.id}, which no run of this file made" in problem.message
    graph.merge("load/june")
    assert problems_of(graph, tmp_path, text) == []
    (problem,) = problems_of(graph, tmp_path, changed("branch: load/june, from: main", "merge_into: load/june"))
    assert (*places([problem])[0], problem.message.endswith("main cannot be replaced")) == ("P209", 3, 33, True)


def test_a_type_cannot_be_mapped_twice_by_two_spellings(graph: Graph, tmp_path: Path) -> None:
    problems = problems_of(graph, tmp_path, changed(KNOWS, f"{KNOWS}\n  knows: {{view: links, from: a, to: b}}"))
    assert places(problems) == [("P103", 13, 3)]


@pytest.mark.parametrize(
    ("end", "parts"),
    [
        ("[line, seq]", {"to.line": "line", "to.seq": "seq"}),
        ("[seq, line]", {"to.line": "line", "to.seq": "seq"}),
        ("[upper(line), seq + 1]", {"to.line": "upper(line)", "to.seq": "seq + 1"}),
        ("{seq: number, line: word}", {"to.line": "word", "to.seq": "number"}),
    ],
)
def test_the_end_of_an_edge_is_a_whole_key(graph: Graph, tmp_path: Path, end: str, parts: dict[str, str]) -> None:
    text = changed(KNOWS, f"Rides: {{view: rides, from: who, to: {end}}}")
    plan = planned(graph, tmp_path, changed("views:", "views:\n  rides: SELECT 1", text))
    found = {each.name: each.expression.value for each in plan.mappings[1].columns}
    assert found == {"from": "who", **parts}


@pytest.mark.parametrize("end", ["[line]", "{line: line}", "{line: line, sequence: seq}", "[]"])
def test_a_part_of_a_key_is_no_end(graph: Graph, tmp_path: Path, end: str) -> None:
    text = changed(KNOWS, f"Rides: {{view: rides, from: who, to: {end}}}")
    problems = problems_of(graph, tmp_path, changed("views:", "views:\n  rides: SELECT 1", text))
    assert [(code, line) for code, line, _ in places(problems)] == [("P205", 13)]
    assert problems[0].hint == "its key is line, seq"


def test_an_end_of_a_type_without_a_key_is_its_id(graph: Graph, tmp_path: Path) -> None:
    text = changed(PERSON, "Note: {view: adults, columns: {id: full_name, text: age}}")
    assert [each.name for each in planned(graph, tmp_path, text).mappings[0].columns] == ["id", "text"]


def test_checks_on_main_and_an_origin_that_is_not_used_are_noted(graph: Graph, tmp_path: Path) -> None:
    plan = planned(graph, tmp_path, changed("branch: load/june", "branch: main"))
    assert not plan.creates_branch
    assert [
        bool(re.search(word, note)) for word, note in zip(("already on main", "not used"), plan.notes, strict=True)
    ] == [
        True,
        True,
    ]


def test_a_secret_is_not_told_by_a_problem_of_a_check(graph: Graph, tmp_path: Path) -> None:
    problems = problems_of(graph, tmp_path, changed("limit: 18", "limit: '${LIMIT}'"), {"LIMIT": "xyzzy"})
    assert places(problems) == [("P208", 14, 29)]
    assert "xyzzy" not in problems[0].render()


def test_a_secret_is_not_told_by_the_place_of_a_check_or_the_name_of_a_branch(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "xyzzy.gq").write_text("query young($limit: I32) { match { $p: Persn } return { $p.name } }")
    graph.create_branch("xyzzy")
    text = changed("file: checks.gq", "file: '${WORD}.gq'", changed("branch: load/june", "branch: '${WORD}/june'"))
    problems = problems_of(graph, tmp_path, text, {"WORD": "xyzzy"})
    assert [each.code for each in problems] == ["P209", "T1"]
    assert problems[1].position.file == str(tmp_path / "${WORD}.gq")
    assert "xyzzy" not in "".join(each.render() for each in problems)


# --------------------------------------------------------------------------------------------- columns and expressions


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("a", "int64"),
        ("A", "int64"),
        ("`a`", "int64"),
        ("t.a", "int64"),
        ("cast(b AS double)", "double"),
        ("CAST( a + 1 as STRING )", "string"),
        ("cast(cast(b AS int) AS bigint)", "int64"),
        ("cast(b AS array<int>)", "list<item: int32>"),
        ("cast(b AS decimal(10, 2))", None),
        ("cast(a AS int) + cast(b AS int)", None),
        ("cast(b AS int) || 'x)'", None),
        ("7", "int32"),
        ("-3000000000", "int64"),
        ("99999999999999999999", None),
        ("'x'", "string"),
        ("null", "null"),
        ("true", "bool"),
        ("date '2024-05-01'", "date32[day]"),
        ("current_date", None),
        ("upper(b)", None),
        ("s.a", None),
    ],
)
def test_what_an_expression_gives(expression: str, type_: str | None) -> None:
    columns = ViewColumns.from_names(["a", "b"], [pa.int64(), pa.string()])
    given = infer_expression(expression, "t", columns)
    assert given.unknown_column is None
    assert (given.type and str(given.type)) == type_


@pytest.mark.parametrize("expression", ["c", "`c`", "t.c", "cast(c AS int)"])
def test_a_column_that_is_not_there(expression: str) -> None:
    assert infer_expression(expression, "t", ViewColumns.from_names(["a"], [pa.int64()])).unknown_column == "c"
    assert infer_expression(expression, "t", None).unknown_column is None


@pytest.mark.parametrize(
    ("options", "text", "columns"),
    [
        ("{header: true}", "\ufeffa,b\n1,2\n", {"a": "string", "b": "string"}),
        ("{header: true, sep: ';'}", 'x;"y z"\n', {"x": "string", "y z": "string"}),
        ("{header: true, inferSchema: true}", "a\n1\n", {"a": "None"}),
        ("{}", "1,2\n", {"_c0": "string", "_c1": "string"}),
        ("{header: true}", "", {}),
        ("{header: true}", "\n \na,b\n1,2\n", {"a": "string", "b": "string"}),
        ("{header: true, comment: '#'}", "# x\na\n", None),
        ("{header: true}", "a,A\n", None),
    ],
)
def test_the_header_of_a_csv_file(
    graph: Graph, tmp_path: Path, options: str, text: str, columns: dict[str, str] | None
) -> None:
    (tmp_path / "x.csv").write_text(text)
    file = changed("views:", f"  x: {{format: csv, path: x.csv, options: {options}}}\nviews:")
    found = planned(graph, tmp_path, file).sources[-1].columns
    assert (found and {name: str(type_) for name, type_ in found.types.items()}) == columns


def test_stored_types_are_known_where_spark_reads_them_as_they_are(graph: Graph, tmp_path: Path) -> None:
    table = pa.table({"n": pa.array([1], pa.uint64()), "t": ["x"], "d": pa.array([1], pa.date32())})
    (tmp_path / "x").mkdir()
    pq.write_table(table, tmp_path / "x" / "part-0.parquet")
    (tmp_path / "x" / "_SUCCESS").touch()
    orc.write_table(table.drop_columns(["n"]), tmp_path / "x.orc")
    file = changed("views:", "  p: {format: parquet, path: x}\n  o: {format: orc, path: x.orc}\nviews:")
    *_, parquet, stored = planned(graph, tmp_path, file).sources
    assert parquet.columns is not None
    assert {name: str(type_) for name, type_ in parquet.columns.types.items()} == {
        "n": "None",
        "t": "string",
        "d": "date32[day]",
    }
    assert parquet.files == 1
    assert stored.columns is not None
    assert stored.columns.names == ("t", "d")


def test_folders_that_are_columns_are_left_to_spark(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "x" / "day=7").mkdir(parents=True)
    pq.write_table(pa.table({"t": ["x"]}), tmp_path / "x" / "day=7" / "a.parquet")
    file = changed("views:", "  p: {format: parquet, path: x}\nviews:")
    assert planned(graph, tmp_path, file).sources[-1].columns is None


@pytest.mark.parametrize(
    ("sql", "known"),
    [
        ("select * from People", True),
        ("SELECT * FROM people WHERE age > 3 ORDER BY age LIMIT 7;", True),
        ("SELECT * FROM adults", True),
        ("SELECT * FROM people WHERE true UNION SELECT * FROM links", False),
        ("SELECT * FROM people p JOIN links", False),
        ("SELECT *, 1 AS x FROM people", False),
        ("SELECT * FROM elsewhere", False),
    ],
)
def test_a_view_that_only_leaves_out_rows_has_the_columns_of_its_source(
    graph: Graph, tmp_path: Path, sql: str, known: bool
) -> None:
    text = changed("nodes:", f"  v: {sql}\nnodes:", changed("view: adults", "view: v"))
    name = planned(graph, tmp_path, text).mappings[0].columns[0]
    assert (name.expression_type is not None) is known


UPDATE = """
version: 1
graph: brain.og
load: {mode: update}
sources:
  people: {format: csv, path: raw/people/*.csv, options: {header: true}}
  links: {format: parquet, path: raw/links.parquet}
nodes:
  Person: {view: people, columns: {name: full_name, age: cast(age AS int)}}
  Note: {view: people, columns: {id: full_name}}
edges:
  Knows: {view: links, columns: {id: a, since: since}}
"""


def test_an_update_needs_what_names_its_rows_and_nothing_else(graph: Graph, tmp_path: Path) -> None:
    plan = planned(graph, tmp_path, UPDATE)
    assert [[column.name for column in each.columns] for each in plan.mappings] == [
        ["name", "age"],
        ["id"],
        ["id", "since"],
    ]
    missing = UPDATE.replace("name: full_name, age", "age")
    assert places(problems_of(graph, tmp_path, missing)) == [("P203", 8, 3)]
    merged = {code for code, *_ in places(problems_of(graph, tmp_path, UPDATE.replace("mode: update", "mode: merge")))}
    assert merged > {"P203"}
