"""``omnigraph changes poll | baseline``: blocks in three forms, and a cursor that is kept in a file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import cast

import pytest

import omnigraph as og
from omnigraph.errors import Json
from tests.cli.conftest import BRANCH, Answer, Command, Stocked, error_of
from tests.manifest.publishing import commit_rows

GRAPH = ("-g", "brain.og")
POLL = ("changes", "poll")


def events(answer: Answer) -> list[dict[str, Json]]:
    return [cast("dict[str, Json]", json.loads(line)) for line in answer.out.splitlines()]


def blocks(answer: Answer) -> list[dict[str, Json]]:
    assert list(answer.json) == ["branch", "blocks", "cursor"]
    return cast("list[dict[str, Json]]", answer.json["blocks"])


def add(name: str, branch: str = "main") -> str:
    return commit_rows(og.open("brain.og"), {"Firm": [name]}, branch).commit.id


def test_people_see_what_each_commit_changed(omnigraph: Command, stocked: Stocked) -> None:
    answer = omnigraph(*POLL, "--start", "beginning", *GRAPH)
    first, nothing, _, second, *changes, _, cursor = answer.out.splitlines()
    assert first.startswith(f"commit {stocked.genesis}  20")
    assert re.search(r"Z \((just now|\d+ \w+ ago)\)  act-ann$", first)
    assert nothing == "nothing changed"
    assert second.startswith(f"commit {stocked.main_head}  20")
    assert changes == ['+ City ulm  name: "ulm"', '+ Person ann  name: "ann"', '+ Person bob  name: "bob"']
    assert cursor == f"cursor {og.open('brain.og', 'ro').changes().cursor}"
    assert (answer.code, answer.err) == (0, "")


def test_programs_follow_events(omnigraph: Command, stocked: Stocked) -> None:
    found = events(omnigraph(*POLL, "--start", f"after:{stocked.genesis}", "--format", "jsonl", *GRAPH))
    assert [event["event"] for event in found] == ["commit", "change", "change", "change", "complete", "end"]
    commit, ulm, *_, complete, end = found
    assert (commit["id"], commit["parents"], commit["actor"]) == (stocked.main_head, [stocked.genesis], "tests")
    assert ulm == {
        "event": "change",
        "op": "inserted",
        "kind": "node",
        "type": "City",
        "id": "ulm",
        "before": None,
        "after": {"name": "ulm"},
        "changed": [],
    }
    assert complete == {"event": "complete", "commit": stocked.main_head, "changes": 3, "cursor": end["cursor"]}
    assert end["branch"] == "main"
    assert events(omnigraph(*POLL, "--cursor", str(end["cursor"]), "--format", "jsonl", *GRAPH)) == [end]


def test_json_is_one_object(omnigraph: Command, stocked: Stocked) -> None:
    answer = omnigraph(*POLL, "--start", "beginning", "--branch", BRANCH, "--type", "Person", "--json", *GRAPH)
    found = blocks(answer)
    assert [cast("dict[str, Json]", block["commit"])["id"] for block in found] == [
        stocked.genesis,
        stocked.main_head,
        stocked.branch_head,
    ]
    assert [[change["id"] for change in cast("list[dict[str, Json]]", block["changes"])] for block in found] == [
        [],
        ["ann", "bob"],
        ["eve"],
    ]
    assert answer.json["branch"] == BRANCH
    assert answer.json["cursor"] == found[-1]["cursor"]


@pytest.mark.usefixtures("stocked")
def test_a_file_keeps_the_cursor_between_polls(omnigraph: Command, tmp_path: Path) -> None:
    file = tmp_path / "state.cursor"
    poll = (*POLL, "--cursor", str(file), "--start", "beginning", "--json", *GRAPH)
    assert len(blocks(omnigraph(*poll, "--limit", "1"))) == 1
    assert len(blocks(omnigraph(*poll))) == 1
    assert blocks(omnigraph(*poll)) == []
    made = add("acme")
    assert [cast("dict[str, Json]", block["commit"])["id"] for block in blocks(omnigraph(*poll))] == [made]
    assert file.read_text() == f"{og.open('brain.og', 'ro').changes().cursor}\n"
    assert [found.name for found in tmp_path.iterdir() if found.name.startswith(".")] == []
    # With the cursor in a file nobody needs to see it.
    assert omnigraph(*POLL, "--cursor", str(file), *GRAPH).out == ""


@pytest.mark.usefixtures("stocked")
def test_a_poll_that_fails_leaves_the_file_alone(omnigraph: Command, tmp_path: Path) -> None:
    file = tmp_path / "state.cursor"
    omnigraph(*POLL, "--cursor", str(file), *GRAPH)
    kept = file.read_text()
    answer = omnigraph(*POLL, "--cursor", str(file), "--branch", BRANCH, *GRAPH)
    assert (answer.code, answer.out) == (1, "")
    assert "the cursor belongs to branch 'main', not to 'review/june'\nhint: " in answer.err
    assert file.read_text() == kept


def test_a_baseline_begins_anew(omnigraph: Command, stocked: Stocked, tmp_path: Path) -> None:
    file = tmp_path / "state.cursor"
    found = events(omnigraph("changes", "baseline", "--cursor", str(file), "--format", "jsonl", *GRAPH))
    assert [event.get("id") for event in found] == [stocked.main_head, "ulm", "ann", "bob", None, None]
    made = add("acme")
    polled = events(omnigraph(*POLL, "--cursor", str(file), "--format", "jsonl", *GRAPH))
    assert [event.get("id") for event in polled] == [made, "acme", None, None]
    first = blocks(omnigraph("changes", "baseline", stocked.genesis, "--json", *GRAPH))
    assert (len(first), first[0]["changes"]) == (1, [])
    assert "+ Person ann" in omnigraph("changes", "baseline", *GRAPH).out


@pytest.mark.usefixtures("stocked")
@pytest.mark.parametrize(
    ("words", "exit_code", "code", "complaint"),
    [
        (["poll", "--start", "soon"], 1, "parameter_error", "start is 'soon'"),
        (["poll", "--start", "after:nope"], 1, "not_found", "no commit, version, date or tag 'nope'"),
        (["poll", "--cursor", "ogc1.xyz"], 1, "parameter_error", "is not a cursor"),
        (["poll", "--cursor", "ogc1.xyz", "--start", "now"], 2, "parameter_error", "both say where to start"),
        (["poll", "--cursor", "."], 1, "parameter_error", "the cursor cannot be read from ."),
        (["poll", "--cursor", "missing/x"], 1, "not_found", "there is no folder 'missing'"),
        (["poll", "--type", "Persons"], 1, "not_found", "no type 'Persons' in this graph"),
        (["poll", "--branch", "nope"], 1, "not_found", "no branch 'nope'"),
        (["poll", "--limit", "0"], 2, "parameter_error", "--limit"),
        (["baseline", "--cursor", "missing/x"], 1, "not_found", "there is no folder 'missing'"),
        (["baseline", "v99"], 1, "not_found", "no manifest version 99"),
        (["baseline", "--cursor", "ogc1.xyz"], 2, "parameter_error", "--cursor names a file"),
    ],
    ids=str,
)
def test_what_cannot_be_followed_is_said(
    omnigraph: Command, words: list[str], exit_code: int, code: str, complaint: str
) -> None:
    answer = omnigraph("changes", *words, *GRAPH)
    assert (answer.code, answer.out) == (exit_code, "")
    assert complaint in answer.err
    assert error_of(omnigraph("changes", *words, "--json", *GRAPH))["code"] == code


@pytest.mark.usefixtures("stocked")
def test_json_and_a_format_exclude_each_other(omnigraph: Command) -> None:
    error = error_of(omnigraph(*POLL, "--format", "jsonl", "--json", *GRAPH))
    assert "--json and --format jsonl cannot be used together" in str(error["message"])
