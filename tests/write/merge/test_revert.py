"""Reverting a commit: the inverse as a new commit, with conflicts where later commits changed the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import MergeConflicts, NotFound, ParameterError, Unsupported
from omnigraph.graph import Graph
from omnigraph.write.merge.deltas import Counts
from tests.graphs import written
from tests.write.merge.social_graph import SCHEMA, edit, knows, make, person, state


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Three people."""
    return make(tmp_path, {name: person(30) for name in ("ann", "bob", "cid")}, {"a-b": knows("ann", "bob")})


def test_a_revert_undoes_one_commit_and_keeps_what_came_after(graph: Graph) -> None:
    undone = edit(graph, people={"dan": person(4), "ann": person(31), "cid": None}, knows={"a-b": None})
    edit(graph, people={"bob": person(77)})
    result = graph.revert(undone.id, actor="act-ann")
    assert result.commit is not None
    assert (result.base, result.source, result.outcome) == (undone.id, undone.parents[0], "merged")
    assert result.commit.parents == (result.target,)
    assert result.commit.message == f"revert {undone.id}"
    assert (result.nodes, result.edges) == ({"Person": Counts(1, 1, 1)}, {"Knows": Counts(1, 0, 0)})
    assert state(graph) == {
        ("Person", "ann"): person(30),
        ("Person", "bob"): person(77),
        ("Person", "cid"): person(30),
        ("Knows", "a-b"): knows("ann", "bob"),
    }


def test_a_revert_can_be_reverted_and_done_once_only(graph: Graph) -> None:
    before = state(graph)
    undone = edit(graph, people={"dan": person(4)})
    after = state(graph)
    first = graph.revert(undone.id)
    assert state(graph) == before
    again = graph.revert(undone.id)
    assert (again.outcome, again.commit) == ("already-up-to-date", None)
    assert first.commit is not None
    graph.revert(first.commit.id, message="after all")
    assert state(graph) == after
    assert graph.commits()[0].message == "after all"


def test_what_went_on_since_is_a_conflict(graph: Graph) -> None:
    undone = edit(graph, people={"ann": person(31)})
    edit(graph, people={"ann": person(32)})
    before = written(graph)
    with pytest.raises(MergeConflicts) as raised:
        graph.revert(undone.id)
    assert written(graph) == before
    (found,) = raised.value.conflicts
    assert found.kind == "DivergentUpdate"
    assert [image and image["age"] for image in (found.base, found.ours, found.theirs)] == [31, 32, 30]
    assert graph.revert(undone.id, dry_run=True).conflicts == (found,)
    graph.revert(undone.id, prefer="theirs")
    assert state(graph)["Person", "ann"] == person(30)


def test_rules_hold_for_a_revert(graph: Graph) -> None:
    undone = edit(graph, people={"dan": person(4)})
    edit(graph, knows={"d-a": knows("dan", "ann")})
    with pytest.raises(MergeConflicts) as raised:
        graph.revert(undone.id)
    assert [(found.kind, found.id) for found in raised.value.conflicts] == [("OrphanEdge", "d-a")]


def test_a_merge_is_reverted_to_one_of_its_sides(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"dan": person(4)})
    edit(graph, people={"eve": person(5)})
    ours, theirs = state(graph), state(graph, "dev")
    merged = graph.merge("dev").commit
    assert merged is not None
    with pytest.raises(ParameterError, match="is a merge, and has two parents"):
        graph.revert(merged.id)
    with pytest.raises(ParameterError, match="has no side 3"):
        graph.revert(merged.id, side=3)
    graph.create_branch("other")
    graph.revert(merged.id, side=1)
    assert state(graph) == ours
    graph.revert(merged.id, side=2, branch="other")
    assert state(graph, "other") == theirs


def test_a_commit_of_another_branch_can_be_reverted_here(graph: Graph) -> None:
    graph.create_branch("dev")
    undone = edit(graph, "dev", people={"dan": person(4), "ann": person(31)})
    graph.merge("dev")
    graph.revert(undone.id)
    assert state(graph)["Person", "ann"] == person(30)
    assert ("Person", "dan") not in state(graph)
    assert ("Person", "dan") in state(graph, "dev")


def test_a_schema_change_is_refused_with_a_reason(graph: Graph) -> None:
    graph.create_branch("dev")
    added = graph.apply_schema(SCHEMA.replace("age: I32?", "age: I32?  nick: String?"), message="add nick").commit
    edit(graph, "dev", people={"dan": person(4)})
    caught_up = graph.commits("dev")[1]
    assert added is not None
    for branch, commit in (("main", added), ("dev", caught_up)):
        before = written(graph, branch)
        for dry_run in (False, True):
            with pytest.raises(Unsupported, match=f"{commit.id} changed the schema") as raised:
                graph.revert(commit.id, branch=branch, dry_run=dry_run)
            assert raised.value.details["parent"] == commit.parents[0]
        assert written(graph, branch) == before


def test_bad_input_is_refused(graph: Graph) -> None:
    before = written(graph)
    first = graph.commits()[-1]
    with pytest.raises(ParameterError, match="is the first commit"):
        graph.revert(first.id)
    with pytest.raises(ParameterError, match="has no side 2"):
        graph.revert(graph.commits()[0].id, side=2)
    with pytest.raises(NotFound, match="'nobody'"):
        graph.revert("nobody")
    assert written(graph) == before
