"""``omnigraph export`` and ``index``: both forms of their answers, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from tests.cli.conftest import BRANCH, PROJECT, Answer, Command, Stocked, error_of

GRAPH = ("-g", "brain.og")
PEOPLE = '{"type":"Person","data":{"id":"ann","name":"ann"}}\n{"type":"Person","data":{"id":"bob","name":"bob"}}\n'
EVE = '{"type":"Person","data":{"id":"eve","name":"eve"}}\n'


def test_records_go_to_stdout_at_any_moment(omnigraph: Command, stocked: Stocked) -> None:
    words = ("export", "--type", "Person", *GRAPH)
    assert omnigraph(*words) == Answer(0, PEOPLE, "")
    assert omnigraph(*words, "--branch", BRANCH).out == PEOPLE + EVE
    assert omnigraph(*words, "--at", stocked.genesis).out == ""
    assert omnigraph("export", "--type", "City", "--type", "Firm", *GRAPH).out.count("\n") == 1


@pytest.mark.usefixtures("stocked")
def test_what_is_exported_can_be_loaded(omnigraph: Command, tmp_path: Path) -> None:
    og.init(tmp_path / "copy.og", (tmp_path / "brain.og" / "_schema.pg").read_text())
    assert omnigraph("load", "-", "-g", "copy.og", stdin=omnigraph("export", *GRAPH).out.encode()).code == 0
    assert omnigraph("export", "-g", "copy.og").out == omnigraph("export", *GRAPH).out


def test_a_file_and_what_is_said_about_it(omnigraph: Command, stocked: Stocked) -> None:
    answer = omnigraph("export", "-o", "x.jsonl", "--type", "Person", *GRAPH)
    assert answer == Answer(
        0, f"x.jsonl: 2 nodes, 0 edges, at commit {stocked.main_head}\n\nkind  type    rows\nnode  Person     2\n", ""
    )
    assert Path("x.jsonl").read_text() == PEOPLE


@pytest.mark.usefixtures("stocked")
def test_the_ending_gives_the_format_and_a_dash_is_stdout(omnigraph: Command) -> None:
    for name, first in (("c.parquet", "node/City/00000.parquet"), ("c.csv", "node/City.csv")):
        answer = omnigraph("export", "-o", name, "--json", *GRAPH)
        assert (answer.json["format"], answer.json["path"]) == (name.removeprefix("c."), name)
        assert Path(name, first).is_file()
    assert omnigraph("export", "-o", "-", "--type", "Person", *GRAPH) == Answer(0, PEOPLE, "")
    refused = omnigraph("export", "-o", "c.xlsx", *GRAPH)
    assert (refused.code, refused.out) == (1, "")
    assert "the extension of 'c.xlsx' names no format" in refused.err
    assert sorted(each.name for each in Path().iterdir()) == ["brain.og", "c.csv", "c.parquet"]


def test_json_has_the_documented_keys(omnigraph: Command, stocked: Stocked) -> None:
    answer = omnigraph("export", "-o", "tables", "--format", "parquet", "--branch", BRANCH, "--json", *GRAPH)
    assert (answer.code, answer.err) == (0, "")
    assert answer.json == {
        "commit": stocked.branch_head,
        "branch": BRANCH,
        "format": "parquet",
        "path": "tables",
        "nodes": {"City": 1, "Firm": 0, "Person": 3},
        "edges": {"Knows": 0},
    }
    assert Path("tables/node/Person/00000.parquet").is_file()


@pytest.mark.usefixtures("stocked")
@pytest.mark.parametrize(
    ("words", "exit_code", "complaint"),
    [
        (["--format", "parquet"], 2, "--format parquet needs -o PATH"),
        (["--format", "csv", "-o", "-"], 2, "--format csv needs -o PATH"),
        (["--format", "xml"], 2, "xml"),
        (["--type", "Persn"], 1, "did you mean 'Person'?"),
        (["--branch", "nope"], 1, "no branch 'nope'"),
        (["-o", "nowhere/x.jsonl"], 1, "there is no folder 'nowhere'"),
        (["-o", "brain.og", "--format", "parquet"], 1, "'brain.og' already exists"),
    ],
    ids=str,
)
def test_bad_input_is_said(omnigraph: Command, words: list[str], exit_code: int, complaint: str) -> None:
    answer = omnigraph("export", *words, *GRAPH)
    assert (answer.code, answer.out) == (exit_code, "")
    assert complaint in answer.err
    assert [each.name for each in Path().iterdir()] == ["brain.og"]


@pytest.mark.usefixtures("stocked")
def test_one_object_on_stdout_leaves_no_place_for_records(omnigraph: Command) -> None:
    answer = omnigraph("export", "--json", *GRAPH)
    assert answer.code == 2
    assert "--json needs -o PATH" in str(error_of(answer)["message"])


# --------------------------------------------------------------------------------------------- index


@pytest.fixture
def evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    monkeypatch.chdir(tmp_path)
    graph = og.init("brain.og", PROJECT / "evidence.pg")
    graph.load(PROJECT / "evidence.jsonl")
    return graph


def test_indexes_are_built_once_in_a_commit_of_their_own(omnigraph: Command, evidence: og.Graph) -> None:
    answer = omnigraph("index", "--type", "Condition", "--type", "Cites", "--as", "act-ann", *GRAPH)
    made = evidence.commits(upkeep=True)[0]
    first, blank, header, *rows = answer.out.splitlines()
    assert (answer.code, answer.err) == (0, "indexing branch main in brain.og\n")
    assert (first, blank) == (f"main: 6 built, 0 present, 0 deferred, commit {made.id}", "")
    assert header.split() == ["kind", "type", "column", "index", "outcome"]
    assert ["edge", "Cites", "dst", "BTREE", "built"] in [row.split() for row in rows]
    assert made.actor == "act-ann"
    again = omnigraph("index", "--type", "Condition", "--type", "Cites", "--quiet", *GRAPH)
    assert again == Answer(0, "main: 0 built, 6 present, 0 deferred, no commit\n", "")


@pytest.mark.usefixtures("stocked")
def test_json_of_index_and_what_is_deferred(omnigraph: Command) -> None:
    found = omnigraph("index", "--type", "Person", "--type", "Firm", "--json", *GRAPH).json
    assert list(found) == ["branch", "commit", "built", "present", "deferred"]
    assert found["branch"] == "main"
    assert {"table_key": "node:Person", "column": "id", "kind": "BTREE"} in list(found["built"] or ())  # pyright: ignore[reportArgumentType, reportUnknownArgumentType]  a list
    deferred = str(found["deferred"])
    assert "node:Firm" in deferred
    assert "reason" in deferred


@pytest.mark.usefixtures("stocked")
def test_an_unknown_type_or_branch_is_said(omnigraph: Command) -> None:
    assert "did you mean 'Person'?" in omnigraph("index", "--type", "Persn", *GRAPH).err
    assert "no branch 'nope'" in omnigraph("index", "--branch", "nope", *GRAPH).err
