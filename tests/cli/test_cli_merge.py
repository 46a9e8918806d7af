"""``omnigraph merge`` and ``omnigraph revert``."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

import omnigraph as og
from omnigraph.cli.session import VARIABLE
from omnigraph.errors import Json
from omnigraph.graph import Graph
from tests.cli.conftest import Command, error_of
from tests.write.merge.social_graph import edit, knows, make, person, state
from tests.write.writers import run_right_after

GRAPH = ("-g", "merge.og")


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """A branch that can be merged, in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    found = make(tmp_path, {"ann": person(30), "bob": person(30)}, {"a-b": knows("ann", "bob", 1)})
    found.create_branch("dev")
    edit(found, "dev", people={"ann": person(31), "cid": person(1)}, knows={"a-b": knows("ann", "bob", 2)})
    return found


@pytest.fixture
def at_odds(graph: Graph) -> Graph:
    """The same, with a person that both sides changed."""
    edit(graph, people={"ann": person(32)})
    return graph


def test_a_merge_says_what_it_did(omnigraph: Command, graph: Graph) -> None:
    answer = omnigraph("merge", "dev", "-m", "june", "--as", "act-ann", *GRAPH)
    head = og.open("merge.og", "ro").commits()[0]
    assert (answer.code, answer.err) == (0, "merging dev into branch main in merge.og\n")
    assert answer.out.splitlines() == [
        f"main: fast-forward, commit {head.id}",
        "",
        "kind  type    inserted  updated  deleted",
        "node  Person         1        1        0",
        "edge  Knows          0        1        0",
    ]
    assert (head.message, head.actor, len(head.parents)) == ("june", "act-ann", 2)
    assert omnigraph("merge", "dev", *GRAPH, "--quiet").out == "main: already-up-to-date\n"
    assert state(graph) == state(graph, "dev")


def test_json_is_one_object(omnigraph: Command, graph: Graph) -> None:
    head, theirs = graph.commits()[0].id, graph.commits("dev")[0].id
    tried = omnigraph("merge", "dev", "--dry-run", "--json", *GRAPH)
    assert (tried.code, tried.err) == (0, "")
    assert tried.json == {
        "outcome": "fast-forward",
        "branch": "main",
        "commit": None,
        "base": head,
        "source": theirs,
        "target": head,
        "conflicts": [],
        "nodes": {"Person": {"inserted": 1, "updated": 1, "deleted": 0, "doubled": 0}},
        "edges": {"Knows": {"inserted": 0, "updated": 1, "deleted": 0, "doubled": 0}},
        "left_out": [],
    }
    assert graph.commits()[0].id == head
    done = omnigraph("merge", "dev", "--delete-branch", "--json", *GRAPH)
    assert done.json["commit"] == og.open("merge.og", "ro").commits()[0].id
    assert [branch.name for branch in og.open("merge.og", "ro").branches()] == ["main"]


def test_a_branch_that_a_tag_needs_is_neither_merged_nor_deleted(omnigraph: Command, graph: Graph) -> None:
    graph.create_tag("june", "dev")
    head = graph.commits()[0]
    error = error_of(omnigraph("merge", "dev", "--delete-branch", "--json", *GRAPH))
    assert (error["code"], error["hint"]) == ("conflict", "delete the tag 'june' first")
    assert graph.commits()[0] == head


def test_a_branch_that_was_merged_and_kept(omnigraph: Command, graph: Graph) -> None:
    def depend() -> None:
        graph.create_tag("june", "dev")

    with run_right_after("table.stage", "", depend):
        answer = omnigraph("merge", "dev", "--delete-branch", *GRAPH)
    assert (answer.code, answer.out.startswith("main: fast-forward, commit")) == (0, True)
    assert "merged, but the branch was not deleted: branch 'dev' cannot be deleted: the tag 'june'" in answer.err


def test_conflicts_exit_with_3_and_are_listed(omnigraph: Command, at_odds: Graph) -> None:
    head = at_odds.commits()[0]
    answer = omnigraph("merge", "dev", *GRAPH)
    assert (answer.code, answer.out) == (3, "")
    assert answer.err.splitlines() == [
        "merging dev into branch main in merge.og",
        "DivergentUpdate  both sides changed 'age' of Person 'ann'",
        "    age: base 30, ours 32, theirs 31",
        "error: 1 conflict",
        "hint: decide each: prefer ours or theirs, or resolve them from the file that a dry run writes",
    ]
    error = error_of(omnigraph("merge", "dev", "--json", *GRAPH))
    (conflict,) = cast("list[dict[str, Json]]", cast("dict[str, Json]", error["details"])["conflicts"])
    assert error["code"] == "merge_conflicts"
    assert (conflict["kind"], conflict["id"], conflict["properties"]) == ("DivergentUpdate", "ann", ["age"])
    assert conflict["theirs"] == {"id": "ann", "name": "ann", **person(31)}
    tried = omnigraph("merge", "dev", "--dry-run", *GRAPH, "--quiet")
    assert (tried.code, tried.err) == (3, "")
    assert tried.out.splitlines()[0] == "main: 1 conflict; nothing was written"
    assert at_odds.commits()[0] == head


@pytest.mark.parametrize(("option", "age"), [("--ours", 32), ("--theirs", 31)])
def test_one_side_may_be_right(omnigraph: Command, at_odds: Graph, option: str, age: int) -> None:
    assert omnigraph("merge", "dev", option, *GRAPH).code == 0
    assert state(at_odds)["Person", "ann"] == person(age)


def test_conflicts_are_decided_in_a_file(omnigraph: Command, at_odds: Graph) -> None:
    tried = omnigraph("merge", "dev", "--dry-run", "--out", "june.yaml", *GRAPH)
    assert tried.code == 3
    assert tried.err.splitlines()[-1] == "resolve the conflicts in june.yaml, then merge with --resolve june.yaml"
    undecided = omnigraph("merge", "dev", "--resolve", "june.yaml", *GRAPH)
    assert undecided.code == 3
    assert "june.yaml:9  undecided  it is undecided" in undecided.err
    again = omnigraph("merge", "dev", "--dry-run", "--out", "june.yaml", *GRAPH)
    assert (again.code, "there is a file june.yaml already" in again.err) == (1, True)
    file = Path("june.yaml")
    file.write_text(file.read_text().replace("choose: null", "choose: {age: 40}"))
    assert omnigraph("merge", "dev", "--resolve", "june.yaml", *GRAPH).code == 0
    assert state(at_odds)["Person", "ann"] == person(40)


def test_a_merge_by_property_into_another_branch(omnigraph: Command, graph: Graph) -> None:
    graph.create_branch("other", "main")
    edit(graph, "other", people={"ann": person(30, "ann@x")})
    assert omnigraph("merge", "dev", "--into", "other", *GRAPH).code == 3
    assert omnigraph("merge", "dev", "--into", "other", "--by", "property", *GRAPH).code == 0
    assert state(graph, "other")["Person", "ann"] == person(31, "ann@x")


def test_bad_input_is_told(omnigraph: Command, graph: Graph) -> None:
    head = graph.commits()[0].id
    for words, code, message in (
        (("merge", "main"), 1, "'main' cannot be merged into itself"),
        (("merge", "nobody"), 1, "no branch, commit, version, date or tag 'nobody'"),
        (("merge", "dev", "--into", "nobody"), 1, "no branch 'nobody'"),
        (("merge", "dev", "--ours", "--theirs"), 2, "--ours and --theirs cannot be used together"),
        (("merge", "dev", "--out", "x.yaml"), 2, "--out goes with --dry-run"),
        (("merge", "dev", "--resolve", "x.yaml"), 1, "no such file: x.yaml"),
        (("merge", "dev", "--if-commit", graph.commits()[1].id), 4, f"the head of 'main' is {head}"),
        (("merge", "dev", "--by", "column"), 2, "column"),
    ):
        answer = omnigraph(*words, *GRAPH)
        assert (answer.code, message in answer.err) == (code, True), (words, answer.err)
    assert graph.commits()[0].id == head


def test_a_commit_is_reverted(omnigraph: Command, graph: Graph) -> None:
    before = state(graph)
    merged = graph.merge("dev").commit
    assert merged is not None
    refused = omnigraph("revert", merged.id, *GRAPH)
    assert (refused.code, "has two parents" in refused.err, "side 1 is" in refused.err) == (1, True, True)
    tried = omnigraph("revert", merged.id, "--side", "1", "--dry-run", "--json", *GRAPH)
    assert (tried.code, tried.json["commit"], tried.json["base"]) == (0, None, merged.id)
    done = omnigraph("revert", merged.id, "--side", "1", *GRAPH)
    head = og.open("merge.og", "ro").commits()[0]
    assert (done.code, done.out.splitlines()[0]) == (0, f"main: merged, commit {head.id}")
    assert done.err == f"reverting {merged.id} on branch main in merge.og\n"
    assert state(graph) == before


def test_a_revert_with_conflicts_exits_with_3(omnigraph: Command, graph: Graph) -> None:
    undone = edit(graph, people={"ann": person(33)})
    edit(graph, people={"ann": person(34)})
    assert omnigraph("revert", undone.id, *GRAPH).code == 3
    assert omnigraph("revert", undone.id, "--dry-run", "--out", "back.yaml", *GRAPH).code == 3
    file = Path("back.yaml")
    file.write_text(file.read_text().replace("choose: null", "choose: theirs"))
    assert omnigraph("revert", undone.id, "--resolve", "back.yaml", *GRAPH).code == 0
    assert state(graph)["Person", "ann"] == person(30)
