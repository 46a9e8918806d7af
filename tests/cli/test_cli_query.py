"""``omnigraph query``: its rows in every form, on a terminal and elsewhere, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.cli.render.output import json_text
from omnigraph.cli.render.page import Page, fit_widths
from omnigraph.cli.render.query_rows import Format, QueryRows
from omnigraph.errors import Json, ParameterError
from tests.cli.conftest import BRANCH, Answer, Command, Stocked, error_of

GRAPH = ("-g", "brain.og")
ALL = "query all() { match { $p: Person } return { $p.name } order { $p.name } }"
ONE = "query one($name: String, $n: I32?) { match { $p: Person { name: $name } } return { $p.name as who, $n as n } }"
MIXED = """
node Thing {
  code: String @key  count: I64?  share: F64?  day: Date?  at: DateTime?  tags: [String]?
  point: Vector(8)?  flag: Bool?
}
"""
THINGS: list[dict[str, object]] = [
    {
        "code": 'a,"b"\nc\x1b[31m',
        "count": 5000,
        "share": 0.5,
        "day": "2024-05-01",
        "at": "2024-05-01T10:30:00Z",
        "tags": ["x", "y"],
        "point": [0, 1, 2, 3, 4, 5, 6, 7],
        "flag": True,
    },
    {"code": "b"},
]
EVERYTHING = """query q() {
  match { $t: Thing }
  return { $t.code as code, $t.count as count, $t.share as share, $t.day as day, $t.at as at,
           $t.tags as tags, $t.point as point, $t.flag as flag }
  order { $t.code } }"""


@pytest.fixture
def things(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    monkeypatch.chdir(tmp_path)
    graph = og.init("brain.og", MIXED)
    graph.load([{"type": "Thing", "data": data} for data in THINGS])
    return graph


@pytest.mark.usefixtures("stocked")
def test_a_table_elsewhere_than_on_a_terminal_is_plain(omnigraph: Command) -> None:
    assert omnigraph("query", "-e", ALL, *GRAPH) == Answer(0, "p.name\nann\nbob\n", "")


def test_json_has_the_documented_keys(omnigraph: Command, stocked: Stocked) -> None:
    words = ("query", "-e", ALL, "--branch", BRANCH, *GRAPH)
    expected = {
        "query_name": "all",
        "columns": ["p.name"],
        "rows": [{"p.name": "ann"}, {"p.name": "bob"}, {"p.name": "eve"}],
        "row_count": 3,
        "branch": BRANCH,
        "commit": stocked.branch_head,
    }
    for option in (("--json",), ("--format", "json"), ("--json", "--format", "json")):
        answer = omnigraph(*words, *option)
        assert (answer.code, answer.err, answer.json) == (0, "", expected)
        assert list(answer.json) == list(expected)


def test_another_moment(omnigraph: Command, stocked: Stocked) -> None:
    assert omnigraph("query", "-e", ALL, "--at", stocked.genesis, *GRAPH) == Answer(0, "p.name\n", "no rows\n")
    assert omnigraph("query", "-e", ALL, "--at", stocked.main_head, *GRAPH).out == "p.name\nann\nbob\n"


@pytest.mark.usefixtures("stocked")
def test_parameters_from_everywhere(omnigraph: Command) -> None:
    words = ("query", "-e", ONE, "--format", "jsonl", *GRAPH)
    expected = '{"who":"ann","n":3}\n'
    assert omnigraph(*words, "-p", "name=ann", "-p", "n=3").out == expected
    assert omnigraph(*words, "--params", '{"name": "ann"}', "-p", "n=3").out == expected
    assert omnigraph(*words, "--params-file", "-", stdin=b'{"name": "ann", "n": 3}').out == expected
    assert omnigraph("query", "-", "-p", "name=bob", *GRAPH, stdin=ONE.encode()).out == "who     n\nbob  null\n"


@pytest.mark.usefixtures("things")
def test_every_form_of_every_type(omnigraph: Command) -> None:
    def asked(form: Format) -> str:
        answer = omnigraph("query", "-e", EVERYTHING, "--format", form, *GRAPH)
        assert answer.code == 0, answer.err
        return answer.out

    rows = [json.loads(line) for line in asked("jsonl").splitlines()]
    whole = {**THINGS[0], "at": "2024-05-01T10:30:00.000Z", "point": [float(n) for n in range(8)]}
    assert rows == [whole, {**dict.fromkeys(whole), "code": "b"}]
    header, first, second = csv.reader(io.StringIO(asked("csv")))
    assert header == list(rows[0])
    assert first[:5] == [THINGS[0]["code"], "5000", "0.5", "2024-05-01", "2024-05-01T10:30:00.000Z"]
    assert first[5:] == ['["x","y"]', "[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]", "true"]
    assert second == ["b", *[""] * 7]
    assert asked("kv").split("\n\n")[1] == "\n".join(
        ["code   b", *(f"{name:<5}  null" for name in list(rows[0])[1:]), ""]
    )
    table = asked("table").splitlines()
    assert len(table) == 3
    assert "\x1b" not in table[1]
    assert "[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]" in table[1]
    assert table[1].index("5000") + 4 == table[0].index("count") + 5, "numbers stand to the right"


@pytest.mark.usefixtures("stocked")
def test_a_plan_and_what_it_took(omnigraph: Command) -> None:
    explained = omnigraph("query", "-e", ALL, "--explain", *GRAPH)
    assert (explained.code, explained.err) == (0, "")
    assert "Scan $p: Person" in explained.out
    found = omnigraph("query", "-e", ALL, "--explain", "--json", *GRAPH).json
    assert list(found) == ["query_name", "branch", "plan"]
    assert str(found["plan"]) + "\n" == explained.out
    profiled = omnigraph("query", "-e", ALL, "--profile", *GRAPH)
    assert "2 rows in" in profiled.out
    found = omnigraph("query", "-e", ALL, "--profile", "--json", *GRAPH).json
    assert list(found)[:3] == ["query_name", "branch", "row_count"]
    assert found["row_count"] == 2


@pytest.mark.usefixtures("stocked")
def test_the_profile_of_a_long_match_as_json(omnigraph: Command) -> None:
    steps = " ".join(f"$p{number} knows $p{number + 1}" for number in range(1_200))
    profiled = omnigraph(
        "query",
        "-e",
        f"query q() {{ match {{ $p0: Person {steps} }} return {{ $p0 }} }}",
        "--profile",
        "--json",
        *GRAPH,
    )
    assert (profiled.code, profiled.err) == (0, "")
    assert profiled.out.count('"operator": "Expand') == 1_200


def test_json_text_is_that_of_the_standard_library() -> None:
    values: list[dict[str, Json]] = [
        {},
        {"a": []},
        {"a": [1, {"b": None, "ü\n": ["x", {}, [[]]]}], "c": 0.5, "d": True},
    ]
    for value in values:
        assert json_text(value) == json.dumps(value, indent=2, ensure_ascii=False) + "\n"


@pytest.mark.usefixtures("stocked")
@pytest.mark.parametrize(
    ("words", "exit_code", "complaint"),
    [
        ([], 2, "'query' takes either a FILE or -e SRC"),
        (["x.gq", "-e", ALL], 2, "'query' takes either a FILE or -e SRC"),
        (["nothing.gq"], 1, "no such file: nothing.gq"),
        (["-e", ALL + ONE], 1, "the text has several queries: all, one"),
        (["-e", ALL + ONE, "--name", "al"], 1, "did you mean 'all'?"),
        (["-e", ALL, "--branch", "nope"], 1, "no branch 'nope'"),
        (["-e", ALL, "--at", "v99"], 1, "no manifest version 99"),
        (["-e", ALL, "--at", "01ARZ3NDEKTSV4RRFFQ69G5FAV"], 1, "no commit 01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        (["-e", ONE], 1, "param 'name': missing"),
        (["-e", ONE, "-p", "nam=x"], 1, "did you mean 'name'?"),
        (["-e", ONE, "-p", "name=x", "-p", "n=x"], 1, "param 'n': expected I32? as JSON"),
        (["-e", 'query q() { insert Person { name: "x" } }'], 1, "'q' is a mutation"),
        (["-e", "query q() { match { $p: Persn } return { $p } }"], 1, "did you mean 'Person'?"),
        (["-e", ALL, "--format", "xml"], 2, "xml"),
        (["-e", ALL, "--explain", "--profile"], 2, "cannot be used together"),
        (["-e", ALL, "--explain", "--format", "csv"], 2, "are for rows"),
    ],
    ids=str,
)
def test_bad_input_is_said(omnigraph: Command, words: list[str], exit_code: int, complaint: str) -> None:
    answer = omnigraph("query", *words, *GRAPH)
    assert (answer.code, answer.out) == (exit_code, "")
    assert complaint in answer.err


@pytest.mark.usefixtures("stocked")
def test_errors_as_json(omnigraph: Command) -> None:
    assert error_of(omnigraph("query", "-e", ONE, "--json", *GRAPH))["code"] == "parameter_error"
    twice = omnigraph("query", "-e", ALL, "--json", "--format", "csv", *GRAPH)
    assert twice.code == 2
    assert "--json and --format csv cannot be used together" in str(error_of(twice)["message"])


def test_a_query_writes_nothing_and_mutate_sends_reads_away(omnigraph: Command, stocked: Stocked) -> None:
    before = {path: path.stat().st_mtime_ns for path in stocked.path.rglob("*")}
    assert omnigraph("query", "-e", ALL, *GRAPH).code == 0
    assert {path: path.stat().st_mtime_ns for path in stocked.path.rglob("*")} == before


# --------------------------------------------------------------------------------------------- a terminal


def drawn(graph: og.Graph, text: str, width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of a table on a terminal of this width."""
    monkeypatch.setenv("NO_COLOR", "1")
    page = Page(quiet=False)
    file = io.StringIO()
    for console in (page.out, page.err):
        console.file, console._force_terminal, console.width = file, True, width
    QueryRows(graph.query(text), "table").draw(page)
    return file.getvalue().splitlines()


def test_a_table_fits_the_terminal(things: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = drawn(things, EVERYTHING, 200, monkeypatch)
    assert "[0.0, 1.0, 2.0, … 8 items]" in wide[1]
    assert '["x","y"]' in wide[1]
    for width in (40, 60, 80):
        lines = drawn(things, EVERYTHING, width, monkeypatch)
        assert len(lines) == 3
        assert max(map(len, lines)) <= width
    narrow = drawn(things, EVERYTHING, 80, monkeypatch)
    assert narrow[0].split() == ["code", "count", "share", "day", "at", "tags", "point", "flag"]
    assert "…" in narrow[1]


def test_a_terminal_stops_at_200_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = og.init(tmp_path / "g.og", "node N { n: I32 @key }")
    graph.load([{"type": "N", "data": {"n": number}} for number in range(1_234)])
    text = "query q() { match { $n: N } return { $n.n } order { $n.n } }"
    lines = drawn(graph, text, 80, monkeypatch)
    assert len(lines) == 202
    assert lines[200:] == ["199", "and 1,034 more; --format jsonl shows all, -o FILE keeps them"]


@pytest.mark.parametrize(
    ("widths", "room", "expected"),
    [
        ([3, 4], 20, [3, 4]),
        ([3, 40], 20, [3, 17]),
        ([30, 40], 20, [10, 10]),
        ([2, 30, 40], 22, [2, 10, 10]),
        ([30, 40, 50], 3, [4, 4, 4]),
        ([1, 40], 3, [1, 4]),
        ([], 10, []),
    ],
)
def test_narrow_columns_keep_their_width(widths: list[int], room: int, expected: list[int]) -> None:
    assert fit_widths(widths, room) == expected


# --------------------------------------------------------------------------------------------- files, limits


@pytest.mark.usefixtures("things")
@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.json", "rows.md", "rows.arrow", "rows.parquet"])
def test_rows_go_to_a_file_whose_ending_says_its_format(omnigraph: Command, name: str) -> None:
    answer = omnigraph("query", "-e", EVERYTHING, "-o", name, *GRAPH)
    assert (answer.code, answer.err) == (0, "")
    assert re.fullmatch(rf"{name}: 2 rows, at commit \w+\n", answer.out)
    rows = [json.loads(line) for line in omnigraph("query", "-e", EVERYTHING, "--format", "jsonl", *GRAPH).out.split()]
    path = Path(name)
    match path.suffix:
        case ".csv" | ".md":
            form = "csv" if path.suffix == ".csv" else "markdown"
            assert path.read_text() == omnigraph("query", "-e", EVERYTHING, "--format", form, *GRAPH).out
        case ".jsonl":
            assert [json.loads(line) for line in path.read_text().splitlines()] == rows
        case ".json":
            assert json.loads(path.read_text())["rows"] == rows
        case ".arrow":
            assert pa.ipc.open_stream(path.read_bytes()).read_all().column("code").to_pylist() == [
                row["code"] for row in rows
            ]
        case _:
            assert pq.read_table(path).column("count").to_pylist() == [5000, None]


@pytest.mark.usefixtures("things")
def test_what_a_file_of_rows_needs(omnigraph: Command) -> None:
    for words, complaint in (
        (["-o", "rows.xyz"], "the extension of 'rows.xyz' names no format"),
        (["-o", "rows.csv", "--format", "table"], "--format table is for people"),
        (["--format", "parquet"], "--format parquet is not text: -o FILE writes it"),
        (["--explain", "-o", "rows.csv"], "are for rows"),
        (["--profile", "--limit", "1"], "are for rows"),
        (["--limit", "-1"], "greater than or equal to 0"),
    ):
        answer = omnigraph("query", "-e", EVERYTHING, *words, *GRAPH)
        assert (answer.code, answer.out) == (2, ""), words
        assert complaint in answer.err, words
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["brain.og"]
    Path("rows.csv").mkdir()
    assert omnigraph("query", "-e", EVERYTHING, "-o", "rows.csv", *GRAPH).code == 1


@pytest.mark.usefixtures("things")
def test_a_file_of_rows_as_json(omnigraph: Command) -> None:
    found = omnigraph("query", "-e", EVERYTHING, "-o", "rows.data", "--format", "csv", "--json", *GRAPH).json
    assert list(found) == ["query_name", "columns", "row_count", "branch", "commit", "path", "format"]
    assert (found["row_count"], found["path"], found["format"]) == (2, "rows.data", "csv")


@pytest.mark.usefixtures("stocked")
def test_a_limit_is_that_of_every_format(omnigraph: Command) -> None:
    words = ("query", "-e", ALL, *GRAPH)
    assert omnigraph(*words, "--limit", "1").out == "p.name\nann\n"
    assert omnigraph(*words, "--limit", "0", "--format", "csv").out == "p.name\n"
    assert omnigraph(*words, "--limit", "0", "--format", "csv", "-o", "-").out == "p.name\n"
    assert omnigraph(*words, "--limit", "9", "--format", "jsonl").out == '{"p.name":"ann"}\n{"p.name":"bob"}\n'
    assert omnigraph(*words, "--limit", "1", "--json").json["row_count"] == 1


def test_null_and_texts_that_look_like_it(tmp_path: Path, omnigraph: Command) -> None:
    graph = og.init(tmp_path / "g.og", "node N { n: I32 @key  text: String? }")
    texts = [None, "null", "", "a|b"]
    graph.load([{"type": "N", "data": {"n": n, "text": text}} for n, text in enumerate(texts)])
    text = "query q() { match { $n: N } return { $n.text as text } order { $n.n } }"
    words = ("query", "-e", text, "-g", str(tmp_path / "g.og"))
    assert omnigraph(*words).out == 'text\nnull\n"null"\n""\na|b\n'
    lines = ["| text |", "| --- |", "| null |", '| "null" |', '| "" |', "| a\\|b |"]
    assert omnigraph(*words, "--format", "markdown").out.splitlines() == lines


def test_the_head_of_a_result_computes_no_more(things: og.Graph) -> None:
    result = things.query(EVERYTHING)
    assert result.head(1).rows == result.rows[:1]
    assert result.head(5).rows == result.rows
    assert result.head(0).columns == result.columns
    with pytest.raises(ParameterError, match="limit is -1"):
        result.head(-1)


def test_any_library_reads_a_result_as_arrow(things: og.Graph) -> None:
    result = things.query(EVERYTHING)
    assert pa.table(result).equals(result.to_arrow())
