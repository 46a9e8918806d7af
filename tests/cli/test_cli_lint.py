"""``omnigraph lint``."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import Json
from omnigraph.language.source import MAX_SOURCE_BYTES
from tests.cli.conftest import Command

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n"
GOOD = "query all() { match { $p: Person } return { $p.name } }\n"
TWO_MISTAKES = "query bad() {\n  match { $p: Person }\n  return { $p.nam, $p.agee }\n}\n"
WARNED = 'query add() { insert Person { name: "Ann" } }\n'
BROKEN = "query broken( {\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a schema and query files."""
    monkeypatch.chdir(tmp_path)
    texts = {"s.pg": SCHEMA, "good.gq": GOOD, "bad.gq": TWO_MISTAKES, "warned.gq": WARNED, "broken.gq": BROKEN}
    for name, text in texts.items():
        Path(name).write_text(text, "utf-8")
    return tmp_path


def error_of(found: dict[str, Json]) -> dict[str, Json]:
    error = found["error"]
    assert isinstance(error, dict)
    return error


@pytest.mark.usefixtures("here")
def test_a_good_file_prints_nothing_on_stdout(omnigraph: Command) -> None:
    answer = omnigraph("lint", "good.gq", "--schema", "s.pg")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == "1 query in 1 file: 0 errors, 0 warnings\n"


@pytest.mark.usefixtures("here")
def test_quiet_leaves_the_talk_out(omnigraph: Command) -> None:
    answer = omnigraph("lint", "good.gq", "--schema", "s.pg", "--quiet")
    assert (answer.code, answer.out, answer.err) == (0, "", "")


@pytest.mark.usefixtures("here")
def test_every_problem_of_every_file_is_shown_with_its_line_and_a_caret(omnigraph: Command) -> None:
    answer = omnigraph("lint", "bad.gq", "broken.gq", "good.gq", "--schema", "s.pg")
    assert answer.code == 1
    assert answer.out.startswith(
        "bad.gq:3:15  T6  Person has no property 'nam'\n"
        "  3 |   return { $p.nam, $p.agee }\n"
        "    |               ^^^ did you mean 'name'?\n"
        "bad.gq:3:23  T6  Person has no property 'agee'\n"
    )
    assert "\nbroken.gq:1:" in answer.out
    assert answer.err == "2 queries in 3 files: 3 errors, 0 warnings\n"


@pytest.mark.usefixtures("here")
def test_warnings_alone_do_not_fail(omnigraph: Command) -> None:
    answer = omnigraph("lint", "warned.gq", "--schema", "s.pg")
    assert answer.code == 0
    assert answer.out.startswith("warned.gq:1:7  L101")
    assert answer.err == "1 query in 1 file: 0 errors, 1 warning\n"


@pytest.mark.usefixtures("here")
def test_json_of_one_file_is_its_report(omnigraph: Command) -> None:
    answer = omnigraph("lint", "bad.gq", "--schema", "s.pg", "--json")
    assert (answer.code, answer.err) == (1, "")
    found = answer.json
    assert found["status"] == "error"
    assert found["schema_source"] == {"kind": "file", "path": "s.pg"}
    assert found["query_path"] == "bad.gq"
    assert found["errors"] == 1
    assert isinstance(found["results"], list)


@pytest.mark.usefixtures("here")
def test_json_of_several_files_has_sums_and_the_reports(omnigraph: Command) -> None:
    found = omnigraph("lint", "bad.gq", "warned.gq", "good.gq", "--schema", "s.pg", "--json").json
    files = found.pop("files")
    assert found == {"status": "error", "queries_processed": 3, "errors": 1, "warnings": 1, "infos": 0}
    assert isinstance(files, list)
    alone = [omnigraph("lint", name, "--schema", "s.pg", "--json").json for name in ("bad.gq", "warned.gq", "good.gq")]
    assert files == alone


@pytest.mark.usefixtures("here")
def test_stdin_may_hold_the_queries_or_the_schema(omnigraph: Command) -> None:
    queries = omnigraph("lint", "-", "--schema", "s.pg", stdin=TWO_MISTAKES.encode())
    assert queries.code == 1
    assert queries.out.startswith("<stdin>:3:15  T6")
    assert omnigraph("lint", "good.gq", "--schema", "-", stdin=SCHEMA.encode()).code == 0


@pytest.mark.usefixtures("here")
def test_a_broken_schema_is_reported_together_with_the_syntax_of_the_queries(omnigraph: Command) -> None:
    Path("s.pg").write_text("node Person { name: Sting }\nedge Knows: Person\n")
    answer = omnigraph("lint", "broken.gq", "bad.gq", "--schema", "s.pg")
    assert answer.code == 1
    assert answer.out == ""
    assert [line.split(":")[0] for line in answer.err.splitlines() if ".gq:" in line or ".pg:" in line] == [
        "s.pg",
        "s.pg",
        "broken.gq",
    ]
    error = error_of(omnigraph("lint", "broken.gq", "bad.gq", "--schema", "s.pg", "--json").json)
    assert error["code"] == "schema_error"
    details = error["details"]
    assert isinstance(details, dict)
    problems = details["problems"]
    assert isinstance(problems, list)
    assert len(problems) == 3


@pytest.mark.usefixtures("here")
def test_every_file_that_cannot_be_read_is_named(omnigraph: Command) -> None:
    Path("folder").mkdir()
    answer = omnigraph("lint", "nope.gq", "good.gq", "folder", "--schema", "s.pg")
    assert answer.code == 1
    assert "no such file: nope.gq" in answer.err
    assert "cannot read folder: Is a directory" in answer.err
    assert omnigraph("lint", "nope.gq", "--schema", "s.pg", "--json").json == {
        "error": {"code": "not_found", "message": "no such file: nope.gq", "hint": "check the path", "details": {}}
    }


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x7fELF\x00\x01", "NUL byte in source text"),
        (b"query q() {\xff}", "invalid UTF-8 byte 0xff"),
    ],
)
def test_a_file_that_is_no_text_is_a_problem_with_a_place(omnigraph: Command, data: bytes, message: str) -> None:
    Path("binary.gq").write_bytes(data)
    answer = omnigraph("lint", "binary.gq", "good.gq", "--schema", "s.pg")
    assert answer.code == 1
    assert answer.out.startswith("binary.gq:1:")
    assert f"Q000  {message}" in answer.out
    assert "\x00" not in answer.out
    as_schema = omnigraph("lint", "good.gq", "--schema", "binary.gq")
    assert as_schema.code == 1
    assert f"S000  {message}" in as_schema.err


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", ["large.gq", "-"])
def test_a_large_file_is_refused_by_size(omnigraph: Command, name: str) -> None:
    Path("large.gq").write_bytes(b" " * (MAX_SOURCE_BYTES + 1))
    error = error_of(omnigraph("lint", name, "--schema", "s.pg", "--json", stdin=Path("large.gq").read_bytes()).json)
    assert error["code"] == "source_too_large"


@pytest.mark.usefixtures("here")
def test_a_long_line_is_cut_around_the_caret(omnigraph: Command) -> None:
    blanks = " " * 5000
    Path("long.gq").write_text(f"query q() {{{blanks}match {{ $p: Persn }} return {{ $p.name }}{blanks}}}\n")
    answer = omnigraph("lint", "long.gq", "--schema", "s.pg")
    head, line, caret = answer.out.splitlines()[:3]
    assert head.startswith("long.gq:1:5024  T1")
    assert len(line) < 200
    at = caret.index("^")
    assert line[at : at + 5] == "Persn"


@pytest.mark.usefixtures("here")
def test_control_characters_of_a_file_do_not_reach_the_terminal(omnigraph: Command) -> None:
    Path("evil.gq").write_text("query q() { match { $p: Persn /* \x1b[2J\x07 */ } return { $p.name } }\n")
    answer = omnigraph("lint", "evil.gq", "--schema", "s.pg")
    assert "␛[2J␇" in answer.out
    assert "\x1b" not in answer.out
