"""``omnigraph init``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.language.schema import parse_schema
from omnigraph.storage.location import Location
from tests.case_files import CASES
from tests.cli.conftest import Answer, Command, error_of
from tests.cli.nobody import as_nobody
from tests.crash import run
from tests.s3 import S3Server

SCHEMA = "node Person { name: String @key }\nnode City { name: String @key }\nedge LivesIn: Person -> City\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a schema."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.pg").write_text(SCHEMA)
    return tmp_path


@pytest.mark.usefixtures("here")
def test_a_graph_is_made_and_the_place_is_said_first(omnigraph: Command) -> None:
    answer = omnigraph("init", "brain.og", "--schema", "s.pg", "--as", "act-ann")
    (first,) = og.open("brain.og", "ro").commits()
    assert answer == Answer(
        0, f"brain.og: 2 node types, 1 edge type, commit {first.id}\n", "creating a graph at brain.og\n"
    )
    assert first.actor == "act-ann"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("flag", ["--quiet", "-q"])
def test_quiet_leaves_the_place_out(omnigraph: Command, flag: str) -> None:
    assert omnigraph("init", "brain.og", "--schema", "s.pg", flag).err == ""


@pytest.mark.usefixtures("here")
def test_json_of_init_is_that_of_info(omnigraph: Command) -> None:
    answer = omnigraph("init", "brain.og", "--schema", "s.pg", "--json")
    assert (answer.code, answer.err) == (0, "")
    assert answer.json == omnigraph("info", "-g", "brain.og", "--json").json


@pytest.mark.usefixtures("here")
def test_the_schema_may_come_from_stdin(omnigraph: Command) -> None:
    assert omnigraph("init", "brain.og", "--schema", "-", stdin=SCHEMA.encode()).code == 0
    assert og.open("brain.og").schema.hash == parse_schema(SCHEMA).hash


def test_a_graph_that_exists_is_not_touched(omnigraph: Command, here: Path) -> None:
    omnigraph("init", "brain.og", "--schema", "s.pg")
    before = {path: path.stat().st_mtime_ns for path in (here / "brain.og").rglob("*") if path.is_file()}
    again = omnigraph("init", "brain.og", "--schema", "s.pg")
    assert (again.code, again.out) == (1, "")
    assert "error: there is a graph at brain.og already\nhint: open it, or choose another place\n" in again.err
    after = {path: path.stat().st_mtime_ns for path in (here / "brain.og").rglob("*") if path.is_file()}
    # The lock file says who held it last.
    assert {path for path in before if before[path] != after[path]} <= set((here / "brain.og" / "__locks").iterdir())
    assert error_of(omnigraph("init", "brain.og", "--schema", "s.pg", "--json"))["code"] == "already_exists"


@pytest.mark.usefixtures("here")
def test_an_unfinished_init_is_finished_with_its_schema_and_conflicts_with_another(omnigraph: Command) -> None:
    Path("brain.og").mkdir()
    Path("brain.og", "_schema.pg").write_text(SCHEMA)
    Path("other.pg").write_text("node Dog { name: String @key }")
    other = omnigraph("init", "brain.og", "--schema", "other.pg")
    assert other.code == 3
    assert "an unfinished init at brain.og has another schema" in other.err
    assert omnigraph("init", "brain.og", "--schema", "s.pg").code == 0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"node Person { name: Strin }\nnode Person { id: String }", "bad.pg:1:21"),
        (b"node \xff", "S000  invalid UTF-8 byte 0xff"),
    ],
)
def test_a_schema_with_problems_makes_nothing(omnigraph: Command, here: Path, text: bytes, complaint: str) -> None:
    Path("bad.pg").write_bytes(text)
    answer = omnigraph("init", "brain.og", "--schema", "bad.pg")
    assert (answer.code, answer.out) == (1, "")
    assert complaint in answer.err
    assert not (here / "brain.og").exists()
    assert error_of(omnigraph("init", "brain.og", "--schema", "bad.pg", "--json"))["code"] == "schema_error"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["init", "brain.og"], 2, "Missing option '--schema'"),
        (["init", "--schema", "s.pg"], 2, "Missing argument"),
        (["init", "brain.og", "--schema", "s.pg", "-g", "x"], 2, "takes its graph as URI, not as -g"),
        (["init", "brain.og", "--schema", "nope.pg"], 1, "no such file: nope.pg"),
        (["init", "s.pg", "--schema", "s.pg"], 1, "s.pg is a file; a graph is a folder"),
        (["init", "", "--schema", "s.pg"], 1, "the location of the graph is empty"),
        (["init", "ftp://h/p", "--schema", "s.pg"], 1, "unknown scheme 'ftp'"),
    ],
    ids=str,
)
def test_wrong_words(omnigraph: Command, words: list[str], code: int, complaint: str) -> None:
    answer = omnigraph(*words)
    assert (answer.code, answer.out) == (code, "")
    assert complaint in answer.err
    assert not Path("brain.og").exists()


def test_a_folder_that_cannot_be_written_is_read_only(forbidden: Path) -> None:
    place = forbidden / "brain.og"
    words = ("init", str(place), "--schema", str(CASES / "vessels.pg"))
    answer = run(as_nobody, words)
    assert answer.code == 1
    assert f"in {place}: permission denied" in answer.err
    assert error_of(run(as_nobody, (*words, "--json")))["code"] == "read_only"


@pytest.mark.usefixtures("here")
def test_storage_options_reach_the_object_store(
    omnigraph: Command, s3_server: S3Server, s3_location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    options = [word for key, value in s3_server.options.items() for word in ("--storage-option", f"{key}={value}")]
    made = omnigraph("init", s3_location.uri, "--schema", "s.pg", "--json", *options)
    assert made.code == 0, made.out
    assert omnigraph(*options, "-g", s3_location.uri, "info", "--json").json == made.json
