"""Rules in a merge: what holds on each side but breaks in the merge, and how it is decided."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import MergeConflicts
from omnigraph.graph import Graph
from omnigraph.write.merge.deltas import Counts
from tests.write.merge.social_graph import conflicts_of, edit, knows, make, person, state


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Three people, two of whom know each other."""
    people = {name: person(30) for name in ("ann", "bob", "cid")}
    return make(tmp_path, people, {"a-b": knows("ann", "bob", 2001)})


def test_an_edge_to_a_node_that_ours_deleted_is_an_orphan(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", knows={"b-c": knows("bob", "cid", 2024)})
    edit(graph, people={"cid": None})
    (found,) = conflicts_of(graph)
    assert (found.kind, found.type, found.id, found.properties) == ("OrphanEdge", "Knows", "b-c", ("to",))
    assert (found.base, found.ours, found.theirs) == (None, None, {"id": "b-c", **knows("bob", "cid", 2024)})
    assert "cid" in found.message
    graph.create_branch("mine")
    graph.merge("dev", "mine", prefer="ours")
    assert state(graph, "mine") == state(graph)
    graph.merge("dev", prefer="theirs")
    assert state(graph) == state(graph, "dev")


def test_an_edge_of_ours_to_a_node_that_theirs_deleted_is_an_orphan(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"cid": None})
    edit(graph, knows={"b-c": knows("bob", "cid", 2024)})
    (found,) = conflicts_of(graph)
    assert (found.kind, found.id, found.base, found.theirs) == ("OrphanEdge", "b-c", None, None)
    graph.create_branch("mine")
    graph.merge("dev", "mine", prefer="ours")
    assert state(graph, "mine") == state(graph)
    graph.merge("dev", prefer="theirs")
    assert state(graph) == state(graph, "dev")


def test_two_edges_that_share_a_lost_node_are_two_conflicts(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", knows={"a-c": knows("ann", "cid"), "c-b": knows("cid", "bob")})
    edit(graph, people={"cid": None})
    found = conflicts_of(graph)
    assert sorted((each.id, each.properties) for each in found) == [("a-c", ("to",)), ("c-b", ("from",))]


def test_a_value_that_both_sides_gave_away_breaks_unique(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"ann": person(30, "post@x")})
    edit(graph, people={"bob": person(30, "post@x")})
    (found,) = conflicts_of(graph)
    assert (found.kind, found.type, found.id, found.properties) == ("UniqueViolation", "Person", "ann", ("mail",))
    entry = {"kind": found.kind, "type": "Person", "id": "ann", "choose": {"mail": "ann@x"}}
    for branch in ("mine", "values"):
        graph.create_branch(branch)
    graph.merge("dev", "mine", prefer="ours")
    assert state(graph, "mine") == state(graph)
    graph.merge("dev", "values", resolve={"conflicts": [entry]})
    assert state(graph, "values") == {**state(graph), ("Person", "ann"): person(30, "ann@x")}
    graph.merge("dev", prefer="theirs")
    assert state(graph) == state(graph, "dev")


def test_edges_that_both_sides_added_break_cardinality_together(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", knows={"a-c": knows("ann", "cid")})
    edit(graph, knows={"a-a": knows("ann", "ann")})
    (found,) = conflicts_of(graph)
    assert (found.kind, found.type, found.id) == ("CardinalityViolation", "Knows", "a-c")
    graph.create_branch("mine")
    graph.merge("dev", "mine", prefer="ours")
    assert state(graph, "mine") == state(graph)
    graph.merge("dev", prefer="theirs")
    assert state(graph) == state(graph, "dev")


def test_a_given_value_meets_the_rules_of_its_row(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"ann": person(31)})
    edit(graph, people={"ann": person(32)})
    entry = {"kind": "DivergentUpdate", "type": "Person", "id": "ann", "choose": {"age": 200}}
    with pytest.raises(MergeConflicts) as raised:
        graph.merge("dev", resolve={"conflicts": [entry]})
    (found,) = raised.value.conflicts
    assert (found.kind, found.id, found.properties) == ("ValueConstraintViolation", "ann", ("age",))


def test_all_conflicts_are_reported_at_once(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"ann": person(31), "bob": person(30, "post@x")}, knows={"b-c": knows("bob", "cid")})
    edit(graph, people={"ann": person(32), "cid": None, "dan": person(1, "post@x")})
    assert sorted(found.kind for found in conflicts_of(graph)) == ["DivergentUpdate", "OrphanEdge", "UniqueViolation"]


def test_the_ends_of_an_edge_are_properties_too(graph: Graph) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", knows={"a-b": knows("ann", "bob", 1999)})
    edit(graph, knows={"a-b": knows("ann", "cid", 2001)})
    assert [found.properties for found in conflicts_of(graph)] == [("to", "since")]
    assert graph.merge("dev", by="property").edges == {"Knows": Counts(0, 1, 0)}
    assert state(graph)["Knows", "a-b"] == knows("ann", "cid", 1999)
