"""``omnigraph diff``: both forms of its answer, what a terminal sees, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import cast

import pytest

import omnigraph as og
from omnigraph.errors import Json
from omnigraph.storage import tables
from tests.cli.conftest import BRANCH, Command, Stocked, error_of

GRAPH = ("-g", "brain.og")
SCHEMA = """
node Person { name: String @key  age: I64?  note: String?  place: Vector(4)?  photo: Blob? }
edge Knows: Person -> Person { since: I64? }
"""
CHANGE = """
query grow($photo: Blob, $note: String) {
  update Person set { age: 42, note: $note, place: [1, 2, 3, 4], photo: $photo } where name = "bob"
  insert Person { name: "ann", age: 7 }
  insert Knows { from: "ann", to: "bob", since: 1990 }
}
query cut() { delete Person where name = "cid" }
"""


@pytest.fixture
def changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A graph whose branch differs in every way; the heads of main and of the branch."""
    monkeypatch.chdir(tmp_path)
    graph = og.init("brain.og", SCHEMA)
    names = [{"name": "bob", "age": 41}, {"name": "cid", "note": "gone soon"}]
    graph.load([{"type": "Person", "data": data} for data in names])
    graph.create_branch(BRANCH)
    graph.mutate(CHANGE, "grow", {"photo": "base64:aGVsbG8=", "note": "two\nlines \x1b[31m"}, branch=BRANCH)
    graph.mutate(CHANGE, "cut", branch=BRANCH)
    return graph.commits()[0].id, graph.commits(BRANCH)[0].id


def test_a_branch_alone_shows_its_own_changes(omnigraph: Command, changed: tuple[str, str]) -> None:
    own = omnigraph("diff", BRANCH, "--stat", *GRAPH).out.splitlines()[2:]
    assert own == omnigraph("diff", *changed, "--stat", *GRAPH).out.splitlines()[2:]
    with og.open("brain.og") as graph:
        graph.load([{"type": "Person", "data": {"name": "dan"}}])
    assert omnigraph("diff", BRANCH, "--stat", *GRAPH).out.splitlines()[2:] == own
    tips = omnigraph("diff", BRANCH, "--stat", "--tips", *GRAPH).out.splitlines()[2:]
    assert tips == omnigraph("diff", "main", BRANCH, "--stat", *GRAPH).out.splitlines()[2:] != own


def test_text_reads_like_a_diff(omnigraph: Command, changed: tuple[str, str]) -> None:
    answer = omnigraph("diff", "main", BRANCH, *GRAPH)
    lines = answer.out.splitlines()
    assert (answer.code, answer.err) == (0, "")
    assert lines[:10] == [
        f"main at {changed[0]} → {BRANCH} at {changed[1]}",
        "",
        "kind  type    inserted  updated  deleted",
        "node  Person         1        1        1",
        "edge  Knows          1        0        0",
        "",
        '+ Person ann  age: 7, name: "ann"',
        "~ Person bob",
        "    age: 41 → 42",
        '    note: null → "two\\nlines \\u001b[31m"',
    ]
    assert lines[10:13] == [
        '    photo: null → "base64:aGVsbG8="',
        "    place: null → [1.0,2.0,3.0,4.0]",
        '- Person cid  name: "cid", note: "gone soon"',
    ]
    (knows,) = lines[13:]
    assert knows.startswith("+ Knows 0")
    assert knows.endswith("  ann → bob  since: 1990")
    assert omnigraph("diff", BRANCH, *GRAPH).out == answer.out


@pytest.mark.usefixtures("changed")
def test_a_terminal_sees_colours_and_no_more_than_fits(omnigraph: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "30")
    lines = omnigraph("diff", BRANCH, *GRAPH).out.splitlines()
    assert any(line.startswith("\x1b[1;32m+ Person ann") for line in lines)
    assert any(line.startswith("\x1b[1;31m- Person cid") and "…" in line for line in lines)
    assert "    age: \x1b[31m41\x1b[0m → \x1b[32m42\x1b[0m" in lines
    assert "    photo: \x1b[31mnull\x1b[0m → \x1b[32m5 bytes\x1b[0m" in lines
    assert any("[1.0, 2.0, 3.0, … 4 items]" in line for line in lines)


@pytest.mark.usefixtures("changed")
def test_stat_counts_only(omnigraph: Command) -> None:
    answer = omnigraph("diff", BRANCH, "--stat", *GRAPH)
    assert answer.out.splitlines()[2:] == [
        "kind  type    inserted  updated  deleted",
        "node  Person         1        1        1",
        "edge  Knows          1        0        0",
    ]
    only = omnigraph("diff", BRANCH, "--stat", "--type", "Knows", "--format", "csv", *GRAPH).out
    assert only == "kind,type,inserted,updated,deleted\nedge,Knows,1,0,0\n"
    assert json.loads(omnigraph("diff", BRANCH, "--stat", "--type", "Knows", "--format", "jsonl", *GRAPH).out) == {
        "kind": "edge",
        "type": "Knows",
        "inserted": 1,
        "updated": 0,
        "deleted": 0,
    }


def test_json_is_one_object(omnigraph: Command, changed: tuple[str, str]) -> None:
    found = omnigraph("diff", BRANCH, "--json", *GRAPH).json
    assert list(found) == ["before", "after", "summary", "entities"]
    assert [cast("dict[str, Json]", found[side])["commit"] for side in ("before", "after")] == list(changed)
    ann, bob, cid, knows = cast("list[dict[str, Json]]", found["entities"])
    assert [each["op"] for each in (ann, bob, cid, knows)] == ["inserted", "updated", "deleted", "inserted"]
    assert (bob["kind"], bob["type"], bob["id"]) == ("node", "Person", "bob")
    assert bob["changed"] == ["age", "note", "photo", "place"]
    assert bob["before"] == {"age": 41, "name": "bob", "note": None, "photo": None, "place": None}
    assert (ann["before"], cid["after"]) == (None, None)
    assert list(omnigraph("diff", BRANCH, "--json", "--stat", *GRAPH).json) == ["before", "after", "summary"]


@pytest.mark.usefixtures("changed")
def test_the_forms_for_programs_say_the_same(omnigraph: Command) -> None:
    entities = omnigraph("diff", BRANCH, "--json", *GRAPH).json["entities"]
    lines = omnigraph("diff", BRANCH, "--format", "jsonl", *GRAPH).out.splitlines()
    assert [json.loads(line) for line in lines] == entities
    rows = list(csv.DictReader(io.StringIO(omnigraph("diff", BRANCH, "--format", "csv", *GRAPH).out)))
    columns = ("op", "kind", "type", "id")
    assert [[row[column] for column in columns] for row in rows] == [
        [each[column] for column in columns] for each in cast("list[dict[str, Json]]", entities)
    ]
    assert [json.loads(row["after"]) if row["after"] else None for row in rows] == [
        each["after"] for each in cast("list[dict[str, Json]]", entities)
    ]


def test_moments_other_than_branches(omnigraph: Command, stocked: Stocked) -> None:
    since = omnigraph("diff", stocked.genesis, "--stat", "--format", "csv", *GRAPH).out
    assert since == "kind,type,inserted,updated,deleted\nnode,City,1,0,0\nnode,Person,2,0,0\n"
    assert omnigraph("diff", "v1", "--stat", "--format", "csv", *GRAPH).out == since
    on_branch = omnigraph("diff", "v1", "--branch", BRANCH, "--stat", "--format", "csv", *GRAPH).out
    assert on_branch.endswith("node,Person,3,0,0\n")
    assert omnigraph("diff", "main", stocked.main_head, *GRAPH).out.endswith("\n\nnothing changed\n")


@pytest.mark.usefixtures("stocked")
@pytest.mark.parametrize(
    ("words", "exit_code", "complaint"),
    [
        ([], 2, "A"),
        (["nobody"], 1, "no branch, commit, version, date or tag 'nobody'"),
        (["main", "review/jun"], 1, "did you mean 'review/june'?"),
        (["v99"], 1, "has no manifest version 99"),
        ([BRANCH, "--type", "Persn"], 1, "neither snapshot has a type 'Persn'"),
        ([BRANCH, "--format", "xml"], 2, "xml"),
        ([BRANCH, "--format", "csv", "--json"], 2, "--json and --format csv cannot be used together"),
    ],
)
def test_what_is_refused(omnigraph: Command, words: list[str], exit_code: int, complaint: str) -> None:
    answer = omnigraph("diff", *words, *GRAPH)
    assert answer.code == exit_code
    assert complaint in (answer.out if "--json" in words else answer.err)


def test_a_commit_whose_versions_were_cleaned_up(omnigraph: Command, stocked: Stocked) -> None:
    graph = og.open("brain.og")
    person = graph.snapshot().table("Person")
    tables.drop_versions(person, [graph.snapshot(at=stocked.genesis).pins["node:Person"].version])
    answer = omnigraph("diff", stocked.genesis, "--json", *GRAPH)
    error = error_of(answer)
    assert (answer.code, error["code"]) == (1, "history_gone")
    assert "'node:Person' cannot be read" in cast(str, error["message"])
