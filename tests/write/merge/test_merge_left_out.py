"""What a merge leaves out, it reports: by table, with a count and the reason."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.write.merge import LeftOut, MergeBy, MergeResult
from omnigraph.write.merge.deltas import Counts
from tests.write.merge.social_graph import edit, knows, make, person, state

SCHEMA = """
node Person { name: String @key  age: I32?  nick: String? }
node City { name: String @key }
edge Knows: Person -> Person { note: String? }
edge LivesIn: Person -> City
"""
WITHOUT_NICK = SCHEMA.replace("  nick: String?", "")
WITHOUT_NOTE = SCHEMA.replace(" { note: String? }", "")
WITHOUT_CITY = SCHEMA.replace("node City { name: String @key }\n", "").replace("edge LivesIn: Person -> City\n", "")


def load(graph: Graph, branch: str, *records: Mapping[str, object]) -> None:
    graph.load(records, mode="merge", branch=branch)


def ann(**values: object) -> dict[str, object]:
    return {"type": "Person", "data": {"name": "ann", **values}}


def left_out(result: MergeResult) -> set[tuple[str, str, int, str | None]]:
    return {(each.table_key, each.reason, each.count, each.property_name) for each in result.left_out}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A branch that changes two people, an edge and a city, and adds one of each."""
    graph = omnigraph.init(tmp_path / "g.og", SCHEMA)
    edge: dict[str, object] = {"edge": "Knows", "from": "ann", "to": "ann", "data": {"id": "k", "note": "old"}}
    bob: dict[str, object] = {"type": "Person", "data": {"name": "bob", "nick": "b"}}
    load(graph, "main", ann(age=1, nick="a"), bob, {"type": "City", "data": {"name": "oslo"}}, edge)
    graph.create_branch("dev")
    load(
        graph,
        "dev",
        ann(age=2, nick="changed"),
        {"type": "Person", "data": {"name": "bob"}},
        {"type": "Person", "data": {"name": "cid"}},
        {**edge, "data": {"id": "k", "note": "new"}},
        {"type": "City", "data": {"name": "rome"}},
        {"edge": "LivesIn", "from": "ann", "to": "rome"},
    )
    return graph


@pytest.mark.parametrize(
    ("schemas", "expected"),
    [
        ((WITHOUT_NICK,), {("node:Person", "dropped-property", 2, "nick")}),
        ((WITHOUT_NICK, SCHEMA), {("node:Person", "dropped-property", 2, "nick")}),
        ((WITHOUT_NOTE,), {("edge:Knows", "dropped-property", 1, "note")}),
        ((WITHOUT_CITY,), {("node:City", "dropped-type", 1, None), ("edge:LivesIn", "dropped-type", 1, None)}),
        ((WITHOUT_CITY, SCHEMA), {("node:City", "dropped-type", 1, None), ("edge:LivesIn", "dropped-type", 1, None)}),
        ((SCHEMA.replace("age: I32", "age: I64"),), set[object]()),
        ((SCHEMA.replace("age: I32?", "age: I32?  mail: String?"),), set[object]()),
    ],
)
def test_changes_of_what_the_schema_dropped(graph: Graph, schemas: tuple[str, ...], expected: set[object]) -> None:
    for schema in schemas:
        graph.apply_schema(schema)
    tried = graph.merge("dev", dry_run=True)
    result = graph.merge("dev")
    assert left_out(tried) == left_out(result) == expected
    assert result.nodes["Person"].inserted == 1
    assert all(str(each.type) in each.table_key and each.message for each in result.left_out)


def test_a_revert_does_not_bring_back_a_dropped_property(graph: Graph) -> None:
    load(graph, "main", ann(age=1, nick="other"))
    reverted = graph.commits()[0]
    graph.apply_schema(WITHOUT_NICK)
    result = graph.revert(reverted.id)
    assert left_out(result) == {("node:Person", "dropped-property", 1, "nick")}


def test_a_merge_back_after_a_revert_reports_what_stays_undone(tmp_path: Path) -> None:
    graph = make(tmp_path, {"ann": person(1), "bob": person(1)})
    graph.create_branch("dev")
    edit(graph, "dev", people={"ann": person(2), "cid": person(3), "bob": None}, knows={"a-c": knows("ann", "cid")})
    merged = graph.merge("dev").commit
    assert merged is not None
    assert graph.merge("dev").left_out == ()
    graph.revert(merged.id, side=1)
    undone = {("node:Person", "undone", 3, None), ("edge:Knows", "undone", 1, None)}
    again = graph.merge("dev")
    assert (again.outcome, again.commit, left_out(again)) == ("already-up-to-date", None, undone)
    edit(graph, "dev", people={"dan": person(4), "ann": person(5)})
    result = graph.merge("dev", prefer="ours")
    # What was undone and changed again is a conflict; the rest is still undone.
    assert result.nodes == {"Person": Counts(1, 0, 0)}
    assert left_out(result) == {
        ("node:Person", "resolved", 1, None),
        ("node:Person", "undone", 2, None),
        ("edge:Knows", "undone", 1, None),
    }
    assert state(graph)["Person", "ann"] == person(1)


def test_a_repeated_merge_reports_what_lost_a_conflict_before(tmp_path: Path) -> None:
    graph = make(tmp_path, {"ann": person(1), "bob": person(1)})
    graph.create_branch("dev")
    edit(graph, "dev", people={"ann": person(2), "bob": person(2)})
    edit(graph, people={"ann": person(3)})
    graph.merge("dev", prefer="ours")
    edit(graph, people={"bob": person(1)})
    again = graph.merge("dev")
    assert (again.outcome, left_out(again)) == ("already-up-to-date", {("node:Person", "undone", 1, None)})


def test_a_branch_that_only_goes_on_leaves_nothing_out(tmp_path: Path) -> None:
    graph = make(tmp_path, {"ann": person(1)})
    graph.create_branch("dev")
    for age in range(2, 5):
        edit(graph, people={"ann": person(age)})
        edit(graph, "dev", people={f"p{age}": person(age)})
        assert graph.merge("main", "dev").left_out == ()
        assert graph.merge("main", "dev").left_out == ()


@pytest.mark.parametrize("by", ["row", "property"])
def test_rules_that_are_decided_for_the_target(tmp_path: Path, by: MergeBy) -> None:
    graph = make(tmp_path, {"ann": person(1), "bob": person(1)})
    graph.create_branch("dev")
    edit(graph, "dev", people={"bob": None, "cid": person(1)})
    edit(graph, knows={"a-b": knows("ann", "bob")})
    tried = graph.merge("dev", by=by, dry_run=True)
    assert (len(tried.conflicts), tried.left_out) == (1, ())
    result = graph.merge("dev", by=by, prefer="ours")
    assert result.left_out == (LeftOut("node:Person", "resolved", 1),)
    assert result.nodes == {"Person": Counts(1, 0, 0)}
