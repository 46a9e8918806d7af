"""``omnigraph load``: files, stdin, both forms of its answer, what is refused, and the bar."""

from __future__ import annotations

import gzip
import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

import omnigraph as og
from omnigraph.arguments import parse_txn
from omnigraph.cli.commands.load import read_column_names
from omnigraph.cli.render.output import TextOutput
from omnigraph.errors import ExpectedVersionMismatch, Json, ValidationError, Violation
from tests.cli.conftest import BRANCH, Answer, Command, Stocked, error_of
from tests.graphs import rows_of

GRAPH = ("-g", "brain.og")
KEYS = [
    "commit",
    "branch",
    "mode",
    "engine",
    "nodes",
    "edges",
    "rejected",
    "rejects_path",
    "replayed",
    "notes",
    "counts",
    "rounded",
]
GOOD = b"""{"edge": "Knows", "from": "eve", "to": "ann"}
{"type": "Person", "data": {"name": "eve"}}
{"type": "City", "data": {"name": "bonn"}}
"""
# Wrong in lines 2, 3 and 5.
BAD = b"""{"type": "Person", "data": {"name": "eve"}}
{"type": "Persn", "data": {"name": "dan"}}
{"type": "City", "data": {"nme": "bonn"}}

{"edge": "Knows", "from": "eve", "to": "nobody"}
"""


def people(branch: str = "main") -> list[str]:
    return sorted(str(row["name"]) for row in rows_of(og.open("brain.og", "ro"), "Person", branch))


@pytest.fixture
def files(stocked: Stocked) -> Path:
    """Two files of records beside the graph."""
    folder = stocked.path.parent
    (folder / "good.jsonl").write_bytes(GOOD)
    (folder / "bad.jsonl").write_bytes(BAD)
    return folder


@pytest.mark.usefixtures("files")
def test_a_merge_of_a_file_that_is_loaded_changes_nothing(omnigraph: Command) -> None:
    assert omnigraph("load", "good.jsonl", "--mode", "merge", *GRAPH).code == 0
    commits = og.open("brain.og", "ro").commits()
    for more in ((), ("--identity", "Knows=from,to")):
        answer = omnigraph("load", "good.jsonl", "--mode", "merge", *more, *GRAPH)
        assert (answer.code, answer.out.splitlines()[0]) == (0, "main: 2 nodes, 1 edge, nothing changed")
    assert og.open("brain.og", "ro").commits() == commits


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("given", "code", "says"),
    [
        (("--identity", "Knows"), 2, "--identity takes TYPE=COLUMNS"),
        (("--identity", "Knows=from", "--identity", "Knows=to"), 2, "twice"),
        (("--identity", "Knows=form", "--mode", "merge"), 1, "did you mean 'from'"),
        (("--identity", "Knows=from"), 1, "looks for no stored rows"),
    ],
)
def test_identities_that_are_refused(omnigraph: Command, given: tuple[str, ...], code: int, says: str) -> None:
    answer = omnigraph("load", "good.jsonl", *given, *GRAPH)
    assert answer.code == code
    assert says in answer.err


@pytest.mark.usefixtures("files")
def test_a_load_is_one_commit_and_the_target_is_said_first(omnigraph: Command) -> None:
    answer = omnigraph("load", "good.jsonl", "-m", "one more", "--as", "act-ann", *GRAPH)
    made = og.open("brain.og", "ro").commits()[0]
    assert answer == Answer(
        0,
        f"main: 2 nodes, 1 edge loaded, commit {made.id}\n\n"
        "kind  type    rows\nnode  City       1\nnode  Person     1\nedge  Knows      1\n",
        "loading 1 file into branch main in brain.og\n",
    )
    assert (made.actor, made.message) == ("act-ann", "one more")
    assert people() == ["ann", "bob", "eve"]


@pytest.mark.usefixtures("files")
def test_a_load_says_what_became_of_every_record(omnigraph: Command) -> None:
    Path("again.jsonl").write_text(
        '{"type": "Person", "data": {"name": "ann"}}\n{"type": "Person", "data": {"name": "new"}}\nnot json\n'
    )
    omnigraph("load", "again.jsonl", "--on-error", "quarantine", "--mode", "merge", *GRAPH)
    answer = omnigraph("load", "again.jsonl", "--on-error", "quarantine", "--mode", "merge", *GRAPH)
    assert answer.out.splitlines()[2:] == [
        "",
        "kind  type     unchanged  rejected",
        "node  Person           2         0",
        "      unknown          0         1",
    ]


@pytest.mark.usefixtures("files")
def test_an_overwrite_without_rows_asks_for_the_flag(omnigraph: Command) -> None:
    Path("none.csv").write_text("from,to\n")
    refused = omnigraph("load", "--edge", "Knows=none.csv", "--mode", "overwrite", *GRAPH)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.splitlines()[1:] == [
        "error: the overwrite has no rows of Knows",
        "hint: --allow-empty removes all rows",
    ]
    assert omnigraph("load", "--edge", "Knows=none.csv", "--mode", "overwrite", "--allow-empty", *GRAPH).code == 0


@pytest.mark.usefixtures("files")
def test_json_has_the_fields_of_the_result(omnigraph: Command) -> None:
    answer = omnigraph("load", "good.jsonl", "--json", *GRAPH)
    assert (answer.code, answer.err) == (0, "")
    assert list(answer.json) == KEYS
    assert answer.json == {
        "commit": og.open("brain.og", "ro").commits()[0].id,
        "branch": "main",
        "mode": "append",
        "engine": "local",
        "nodes": {"City": 1, "Person": 1},
        "edges": {"Knows": 1},
        "rejected": 0,
        "rejects_path": None,
        "replayed": False,
        "notes": [],
        "counts": {
            key: {"inserted": 1, "updated": 0, "unchanged": 0, "rejected": 0, "skipped": 0}
            for key in ("edge:Knows", "node:City", "node:Person")
        },
        "rounded": [],
    }


def test_rounded_values_are_reported_and_strict_rejects_them(omnigraph: Command, stocked: Stocked) -> None:
    folder = stocked.path.parent
    (folder / "events.pg").write_text("node Event { at: DateTime?  seconds: DateTime? }")
    (folder / "events.jsonl").write_text(
        '{"type": "Event", "data": {"at": "2024-05-01T10:00:00.1234Z", "seconds": 1700000000}}\n'
    )
    assert omnigraph("init", "events.og", "--schema", "events.pg").code == 0
    answer = omnigraph("load", "events.jsonl", "-g", "events.og")
    assert "note: Event.at: 1 value rounded, first in events.jsonl:1" in answer.err
    assert "note: Event.seconds: every integer (1) is in January 1970" in answer.err
    found = omnigraph("load", "events.jsonl", "--json", "-g", "events.og").json
    assert found["rounded"] == [
        {
            "type": "Event",
            "property": "at",
            "count": 1,
            "file": "events.jsonl",
            "line": 1,
            "table_key": "node:Event",
        }
    ]
    refused = omnigraph("load", "events.jsonl", "--strict", "-g", "events.og")
    assert refused.code == 1
    assert "exact values  'at': 2024-05-01T10:00:00.1234Z has digits below a millisecond" in refused.err


def test_several_files_compressed_ones_and_stdin_are_one_load(omnigraph: Command, files: Path) -> None:
    (files / "more.jsonl.gz").write_bytes(gzip.compress(b'{"type": "Person", "data": {"name": "gus"}}\n'))
    record = b'{"edge": "Knows", "from": "gus", "to": "eve"}'
    found = omnigraph("load", "-", "more.jsonl.gz", "good.jsonl", "--json", *GRAPH, stdin=record).json
    assert (found["nodes"], found["edges"]) == ({"City": 1, "Person": 2}, {"Knows": 2})
    assert people() == ["ann", "bob", "eve", "gus"]


@pytest.mark.usefixtures("stocked")
def test_the_mode_and_the_branch_are_as_asked(omnigraph: Command) -> None:
    words = ("load", "-", "--mode", "overwrite", "--branch", "new", "--from", BRANCH, *GRAPH)
    assert omnigraph(*words, stdin=b'{"type": "Person", "data": {"name": "dan"}}').code == 0
    assert (people("new"), people(), people(BRANCH)) == (["dan"], ["ann", "bob"], ["ann", "bob", "eve"])


@pytest.mark.usefixtures("files")
def test_a_txn_is_loaded_once(omnigraph: Command) -> None:
    words = ("load", "good.jsonl", "--txn", "import:7", *GRAPH)
    first = omnigraph(*words, "--json").json
    again = omnigraph(*words, "--json").json
    assert (first["replayed"], again["replayed"]) == (False, True)
    assert first["commit"] == again["commit"]
    assert omnigraph(*words).out == f"main: loaded before, by commit {first['commit']}\n"


@pytest.mark.usefixtures("files")
def test_all_that_is_wrong_is_listed_by_file_and_line(omnigraph: Command) -> None:
    answer = omnigraph("load", "bad.jsonl", "--quiet", *GRAPH)
    assert (answer.code, answer.out) == (1, "")
    *lines, error, hint = answer.err.splitlines()
    assert lines[0] == "bad.jsonl:2  known types  no node type 'Persn'; did you mean 'Person'?"
    assert lines[1] == "bad.jsonl:3  known properties  City has no property 'nme'; did you mean 'name'?"
    assert lines[2] == "bad.jsonl:3  required  on City: 'name' is missing"
    assert lines[3].startswith("bad.jsonl:5  edge Knows: Person -> Person  '")
    assert "'nobody'" in lines[3]
    assert (len(lines), error) == (4, "error: 4 violations")
    assert hint.startswith("hint: nothing was loaded; correct the records")
    assert people() == ["ann", "bob"]


@pytest.mark.usefixtures("files")
def test_json_of_a_refused_load_has_the_violations(omnigraph: Command) -> None:
    answer = omnigraph("load", "bad.jsonl", "--json", *GRAPH)
    assert answer.code == 1
    found = error_of(answer)
    violations = cast("list[dict[str, Json]]", found["violations"])
    assert (found["code"], found["details"]) == ("validation_error", {"count": len(violations), "more": False})
    names = ["file", "line", "type", "table_key", "id", "property", "rule", "value", "message"]
    assert list(violations[0]) == names
    assert [(each["file"], each["line"]) for each in violations[:2]] == [("bad.jsonl", 2), ("bad.jsonl", 3)]


def test_what_set_rules_find_is_listed_by_file_and_line_too(omnigraph: Command, files: Path) -> None:
    (files / "a.jsonl").write_text(
        '{"edge": "Knows", "from": "ann", "to": "nobody"}\n{"edge": "Knows", "from": "bob", "to": "nobody"}\n'
    )
    (files / "b.jsonl").write_text(
        '{"edge": "Knows", "from": "nobody", "to": "ann"}\n{"type": "Person", "data": {"name": "ann"}}\n'
    )
    places = ["a.jsonl:1", "a.jsonl:2", "b.jsonl:1", "b.jsonl:2"]
    lines = omnigraph("load", "b.jsonl", "a.jsonl", "--quiet", *GRAPH).err.splitlines()
    assert [line.split()[0] for line in lines[:-2]] == places
    found = error_of(omnigraph("load", "b.jsonl", "a.jsonl", "--json", *GRAPH))
    violations = cast("list[dict[str, Json]]", found["violations"])
    assert [f"{each['file']}:{each['line']}" for each in violations] == places


@pytest.mark.usefixtures("stocked")
def test_many_records_with_one_problem_are_one_line(omnigraph: Command) -> None:
    answer = omnigraph("load", "-", *GRAPH, stdin=b"no record\n" * 300)
    lines = answer.err.splitlines()
    assert lines[1].startswith("300  not JSON")
    assert lines[1].endswith("(<stdin>:1, 2, 3)")
    assert lines[2] == "error: 300 violations"
    assert len(lines) == 4


@pytest.mark.usefixtures("files")
def test_an_existing_key_is_a_conflict_of_the_data_not_of_writers(omnigraph: Command) -> None:
    answer = omnigraph("load", "-", "--json", *GRAPH, stdin=b'{"type": "Person", "data": {"name": "ann"}}')
    assert answer.code == 1
    assert error_of(answer)["code"] == "key_conflict"


@pytest.mark.usefixtures("files")
def test_rejected_records_go_to_a_file_that_is_named(omnigraph: Command) -> None:
    answer = omnigraph("load", "bad.jsonl", "--on-error", "quarantine", "--rejects", "rejects.jsonl", *GRAPH)
    assert answer.code == 0
    assert answer.out.splitlines()[1] == "3 records rejected, see rejects.jsonl"
    rows = [cast("dict[str, Json]", json.loads(line)) for line in Path("rejects.jsonl").read_text().splitlines()]
    assert sorted(cast("list[int]", [row["line"] for row in rows])) == [2, 3, 5]
    assert people() == ["ann", "bob", "eve"]


def test_without_a_name_the_file_lies_next_to_the_graph(omnigraph: Command, files: Path) -> None:
    found = omnigraph("load", "bad.jsonl", "--on-error", "quarantine", "--json", *GRAPH).json
    assert found["rejected"] == 3
    path = files / str(found["rejects_path"])
    assert path.parent == files / "brain.og.rejects"
    assert len(path.read_text().splitlines()) == 3


def test_a_check_finds_everything_and_writes_nothing(omnigraph: Command, files: Path, stocked: Stocked) -> None:
    before = sorted(files.rglob("*"))
    answer = omnigraph("load", "good.jsonl", "--check", *GRAPH)
    assert answer.out.startswith("main: 2 nodes, 1 edge can be loaded; nothing was written\n")
    assert answer.err == "checking 1 file for branch main in brain.og\n"
    assert omnigraph("load", "bad.jsonl", "--check", *GRAPH).code == 1
    lines = omnigraph("load", "-", "--check", "--quiet", *GRAPH, stdin=b"no record\n" * 300).err.splitlines()
    assert lines[-2] == "error: 300 violations"
    assert og.open("brain.og", "ro").commits()[0].id == stocked.main_head
    assert sorted(files.rglob("*")) == before


@pytest.mark.usefixtures("files")
def test_an_empty_file_makes_no_commit(omnigraph: Command) -> None:
    answer = omnigraph("load", "-", *GRAPH)
    assert (answer.code, answer.out) == (0, "main: 0 nodes, 0 edges loaded, no commit\n")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("words", "exit_code", "complaint"),
    [
        ([], 2, "'load' takes files of records, or tables"),
        (["-", "-"], 2, "'-' (stdin) can be read only once"),
        (["a.jsonl", "good.jsonl", "b.jsonl"], 1, "no such file: a.jsonl, b.jsonl"),
        (["brain.og"], 1, "'brain.og' is a folder"),
        (["good.jsonl", "--mode", "upsert"], 2, "'upsert' is not one of"),
        (["good.jsonl", "--on-error", "ignore"], 2, "'ignore' is not one of"),
        (["-", "--engine", "spark"], 1, "only from files"),
        (["good.jsonl", "--rejects", "r.jsonl"], 2, "--rejects goes with --on-error quarantine"),
        (["bad.jsonl", "--on-error", "quarantine", "--rejects", "good.jsonl"], 1, "'good.jsonl' exists already"),
        (["good.jsonl", "--txn", "import"], 2, "--txn takes APP:N, for example import:7, not 'import'"),
        (["good.jsonl", "--txn", ":7"], 2, "--txn takes APP:N"),
        (["good.jsonl", "--txn", "import:-7"], 2, "--txn takes APP:N"),
        (["good.jsonl", "--branch", "nope"], 1, "no branch 'nope'"),
        (["good.jsonl", "--branch", "new", "--from", "nope"], 1, "'nope'"),
    ],
    ids=str,
)
def test_bad_input_changes_nothing_and_is_said(
    omnigraph: Command, words: list[str], exit_code: int, complaint: str
) -> None:
    answer = omnigraph("load", *words, *GRAPH)
    assert (answer.code, answer.out) == (exit_code, "")
    assert complaint in answer.err
    assert people() == ["ann", "bob"]


def test_a_name_of_an_application_may_have_a_colon() -> None:
    assert parse_txn("etl:people:12") == ("etl:people", 12)


def test_a_record_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = Violation("T", "r\x1b", "one\ntwo\x07", "a\x1b[2J.jsonl", 1)
    TextOutput().error(ValidationError("m", [evil]))
    assert capsys.readouterr().err.splitlines() == ["a␛[2J.jsonl:1  r␛  one␊two␇", "error: 1 violation"]


def test_a_violation_names_as_much_of_its_place_as_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    places = [("a.parquet", 3), ("a.parquet", None), (None, 3), (None, None)]
    TextOutput().error(ValidationError("m", [Violation("T", "r", "bad", *place) for place in places]))
    found = sorted(capsys.readouterr().err.splitlines())
    assert found == ["a.parquet  r  bad", "a.parquet:3  r  bad", "error: 4 violations", "r  bad", "record:3  r  bad"]


def test_an_error_without_violations_is_its_message(capsys: pytest.CaptureFixture[str]) -> None:
    TextOutput().error(ValidationError("the ids are old", hint="rewrite them"))
    TextOutput().error(ExpectedVersionMismatch("node:Person", 1, 2))
    assert capsys.readouterr().err.startswith("error: the ids are old\nhint: rewrite them\nerror: stale view")


@pytest.mark.costly
@pytest.mark.usefixtures("stocked")
def test_a_bar_appears_on_a_terminal_while_a_load_waits_for_its_input() -> None:
    primary, secondary = pty.openpty()
    shown = bytearray()
    with subprocess.Popen(
        [sys.executable, "-m", "omnigraph", "load", "-", *GRAPH],
        env={**os.environ, "TERM": "xterm-256color"},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=secondary,
    ) as child:
        os.close(secondary)
        while b"0:00:01" not in shown:
            assert select.select([primary], [], [], 30)[0], "no bar in 30 s"
            shown += os.read(primary, 65536)
        assert b"bytes" in shown
        child.communicate(b'{"type": "Person", "data": {"name": "eve"}}')
    os.close(primary)
    assert child.returncode == 0
    assert people() == ["ann", "bob", "eve"]


# --------------------------------------------------------------------------------------------- tables


@pytest.fixture
def tables(stocked: Stocked) -> Path:
    """A table of people and one of their acquaintances beside the graph."""
    folder = stocked.path.parent
    (folder / "people.csv").write_text("full;notes\neve;x\ngus;\n")
    (folder / "knows.csv").write_text("a;b\neve;gus\nann;eve\n")
    return folder


TABLES = ("--node", "Person=people.csv", "--edge", "Knows=knows.csv", "--option", "sep=;")
MAPPED = (*TABLES, "--map", "Person.name=full", "--map", "Knows.from=a", "--map", "Knows.to=b")


@pytest.mark.usefixtures("tables")
def test_tables_are_loaded_beside_records(omnigraph: Command) -> None:
    words = ("load", "-", *MAPPED, "--ignore", "Person.notes", *GRAPH)
    answer = omnigraph(*words, "--json", stdin=b'{"type": "City", "data": {"name": "bonn"}}')
    assert (answer.json["nodes"], answer.json["edges"]) == ({"City": 1, "Person": 2}, {"Knows": 2})
    assert people() == ["ann", "bob", "eve", "gus"]
    checked = omnigraph("load", *MAPPED, "--ignore", "Person.*", "--check", "--mode", "merge", *GRAPH)
    assert checked.err == "checking 2 files for branch main in brain.og\n"
    assert checked.out.startswith("main: 2 nodes, 2 edges can be loaded; nothing was written\n")


@pytest.mark.usefixtures("tables")
def test_a_column_that_becomes_the_id_of_edges_is_noted(omnigraph: Command) -> None:
    Path("more.csv").write_text("from,to,id\nann,bob,k1\n")
    answer = omnigraph("load", "--edge", "Knows=more.csv", "--check", *GRAPH)
    assert (answer.code, answer.err.splitlines()[-1]) == (
        0,
        "note: Knows: 1 row took the id from the column id; if it is something else, map it to a property or ignore it",
    )
    loaded = omnigraph("load", "--edge", "Knows=more.csv", "--json", *GRAPH)
    assert loaded.json["notes"] == [answer.err.splitlines()[-1].removeprefix("note: ")]


@pytest.mark.usefixtures("tables")
def test_columns_of_tables_are_complained_about_together(omnigraph: Command) -> None:
    answer = omnigraph("load", *TABLES, *GRAPH)
    assert (answer.code, answer.out) == (1, "")
    for complaint in ("people.csv: no property 'full'", "people.csv: column 'name' is missing", "knows.csv: column"):
        assert complaint in answer.err
    assert people() == ["ann", "bob"]


def test_wrong_values_of_tables_have_file_and_line(omnigraph: Command, tables: Path) -> None:
    (tables / "knows.csv").write_text("a;b\neve;gus\nann;nobody\n")
    answer = omnigraph("load", *MAPPED, "--ignore", "Person.notes", "--quiet", *GRAPH)
    assert answer.err.splitlines()[0].startswith("knows.csv:3  edge Knows: Person -> Person")
    assert people() == ["ann", "bob"]


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("words", "exit_code", "complaint"),
    [
        (["people.csv"], 1, "--node Person=people.csv"),
        (["--node", "people.csv"], 2, "--node takes TYPE=FILE"),
        (["--edge", "Knows="], 2, "--edge takes TYPE=FILE"),
        (["--node", "Person=-"], 2, "cannot be read from '-'"),
        (["--node", "Person=none/*.csv"], 1, "no file 'none/*.csv'"),
        (["--node", "Persn=people.csv"], 1, "did you mean 'Person'?"),
        (["--node", "Person=people.csv", "--map", "name=full"], 2, "--map takes TYPE.NAME=COLUMN"),
        (["--node", "Person=people.csv", "--map", "Person.a=x", "--map", "Person.a=y"], 2, "gives Person.a twice"),
        (["--node", "Person=people.csv", "--ignore", "notes"], 2, "--ignore takes TYPE.COLUMN"),
        (["--node", "Person=people.csv", "--option", "header"], 2, "--option takes NAME=VALUE"),
        (["--node", "Person=people.csv", "--option", "separator=;"], 1, "option 'separator'"),
    ],
    ids=str,
)
def test_bad_tables_change_nothing_and_are_said(
    omnigraph: Command, words: list[str], exit_code: int, complaint: str
) -> None:
    answer = omnigraph("load", *words, *GRAPH)
    assert (answer.code, answer.out) == (exit_code, "")
    assert complaint in answer.err
    assert people() == ["ann", "bob"]


def test_several_columns_are_the_parts_of_a_key() -> None:
    assert read_column_names(["At.to=line,seq", "At.from.name=n,m", "At.name=a,b"]) == {
        "At": {"to": ["line", "seq"], "from.name": "n,m", "name": "a,b"}
    }


def test_a_table_with_the_key_and_one_column_updates(omnigraph: Command, tmp_path: Path) -> None:
    schema = "node Port { code: String @key  name: String  depth: F64? }"
    graph = og.init(tmp_path / "ports.og", schema)
    graph.load([{"type": "Port", "data": {"code": code, "name": code * 2}} for code in "ab"])
    (tmp_path / "depths.csv").write_text("code,depth\nb,12.5\n")
    words = ("load", "--node", f"Port={tmp_path / 'depths.csv'}", "--mode", "update", "-g", str(tmp_path / "ports.og"))
    assert omnigraph(*words).out.startswith("main: 1 node, 0 edges loaded, commit ")
    assert sorted((str(row["name"]), row["depth"]) for row in rows_of(graph, "Port")) == [("aa", None), ("bb", 12.5)]
    assert omnigraph(*words).out.splitlines()[0] == "main: 1 node, 0 edges, nothing changed"
    (tmp_path / "depths.csv").write_text("code,depth\nb,1\nz,2\n")
    answer = omnigraph(*words)
    assert answer.code == 1
    assert "depths.csv:3" in answer.err
    assert "there is no Port to update with the key 'z'" in answer.err


def test_a_blob_whose_file_is_missing_needs_an_option(
    omnigraph: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    og.init("docs.og", "node Doc { name: String @key  body: Blob? }")
    Path("docs.csv").write_text(f"name,body\na,{(tmp_path / 'gone.bin').as_uri()}\n")
    words = ("load", "-g", "docs.og", "--node", "Doc=docs.csv")
    refused = omnigraph(*words)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.splitlines()[1].endswith("or give allow_missing_blobs (--allow-missing-blobs)")
    assert omnigraph(*words, "--allow-missing-blobs").code == 0
