"""Diffs and change feeds across schema changes: a name that was dropped and added again is another property."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.read.changes.compare_rows import Op
from tests.selection import daily
from tests.write.evolve.people_graph import load

NAMES = ("ann", "bob", "cid")
AGAIN = {
    "I32?": None,
    "I64?": None,
    "String?": None,
    "Date?": None,
    "Blob?": None,
    "[I32]?": None,
    "Vector(2)?": None,
    'I32 @default("2")': 2,
    'String @default("2")': "2",
}


def _schema(property_: str) -> str:
    return f"node P {{ name: String @key\n  note: String?\n  {property_} }}"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A graph whose rows have the values 1, 2 and null."""
    graph = omnigraph.init(tmp_path / "graph.og", _schema("x: I32?"))
    load(graph, *({"type": "P", "data": {"name": name, "x": x}} for name, x in zip(NAMES, (1, 2, None), strict=True)))
    return graph


def _re_add(graph: Graph, declared: str) -> None:
    for property_ in ("", f"x: {declared}"):
        graph.apply_schema(_schema(property_))


def _changes(graph: Graph, before: str, after: str) -> dict[str, tuple[object, object, tuple[str, ...]]]:
    diff = graph.diff(before, after)
    found = list(diff.entities())
    assert {change.op for change in found} <= {Op.UPDATED}
    assert [(each.updated, each.type) for each in diff.summary()] == ([(len(found), "P")] if found else [])
    assert [list(change.changed) for change in found] == diff.to_arrow("P")["changed"].to_pylist()
    assert [record["id"] for record in diff.records()] == [change.id for change in found]
    return {change.id: ((change.before or {})["x"], (change.after or {})["x"], change.changed) for change in found}


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("declared", daily(AGAIN, ["I32?", "I64?", 'String @default("2")']))
def test_the_old_values_are_not_those_of_the_new_property(graph: Graph, declared: str, is_compacted: bool) -> None:
    past = graph.commits()[0].id
    _re_add(graph, declared)
    if is_compacted:
        load(graph, {"type": "P", "data": {"name": "dan"}})
        graph.mutate('query q() { delete P where name = "dan" }')
        graph.optimize()
    value = AGAIN[declared]
    expected = {name: (old, value, ("x",)) for name, old in zip(NAMES, (1, 2, None), strict=True)}
    if value is None:
        # Null is null, whichever property it is.
        del expected["cid"]
    for opened in (graph, omnigraph.open(graph.uri)):
        assert _changes(opened, past, "main") == expected
        assert _changes(opened, "main", past) == {
            name: (after, before, changed) for name, (before, after, changed) in expected.items()
        }


def test_a_branch_that_catches_up_reports_the_values_that_are_gone(graph: Graph) -> None:
    graph.create_branch("dev")
    feed = graph.changes(branch="dev")
    _re_add(graph, "String?")
    load(graph, {"type": "P", "data": {"name": "ann", "note": "n", "x": "1"}}, branch="dev")
    catch_up, write = graph.changes(branch="dev", cursor=feed.cursor)
    assert [(change.id, change.changed) for change in catch_up.entities()] == [("ann", ("x",)), ("bob", ("x",))]
    assert [(change.id, change.changed) for change in write.entities()] == [("ann", ("note", "x"))]


def test_what_the_past_left_in_memory_is_not_shown_now(graph: Graph) -> None:
    past = graph.commits()[0].id
    _re_add(graph, "I32?")
    query = "query q() { match { $p: P } return { $p.x } order { $p.name } }"
    # A column that is read often enough stays in memory.
    for _ in range(50):
        assert [row["p.x"] for row in graph.query(query, at=past).rows] == [1, 2, None]
        assert [row["p.x"] for row in graph.query(query).rows] == [None, None, None]


@pytest.mark.parametrize("after", ["main", "past"])
def test_a_value_that_the_narrower_type_cannot_hold(graph: Graph, after: str) -> None:
    past = graph.commits()[0].id
    graph.apply_schema(_schema("x: I64?"))
    load(graph, {"type": "P", "data": {"name": "ann", "x": 2**40}})
    sides = (past, "main") if after == "main" else ("main", past)
    (changed,) = _changes(graph, *sides).values()
    assert changed == ((1, 2**40, ("x",)) if after == "main" else (2**40, 1, ("x",)))


@pytest.mark.parametrize("story", [["dropped"], ["dropped", "added", "dropped"], ["dropped", "added"]])
def test_rows_of_a_type_that_was_dropped_are_deleted_where_a_branch_takes_the_schema(
    tmp_path: Path, story: list[str]
) -> None:
    boat = "\nnode Boat { code: String @key }"
    graph = omnigraph.init(tmp_path / "graph.og", _schema("") + boat)
    graph.create_branch("dev")
    graph.mutate('query q() { insert Boat { code: "b" } }', branch="dev")
    before = graph.commits("dev")[0].id
    for step in story:
        graph.apply_schema(_schema("") + (boat if step == "added" else ""))
    graph.mutate('query q() { insert P { name: "dan" } }', branch="dev")
    told = [
        (change.type, change.id, change.op)
        for block in graph.changes("beginning", branch="dev")
        for change in block.entities()
    ]
    assert told == [("Boat", "b", Op.INSERTED), ("Boat", "b", Op.DELETED), ("P", "dan", Op.INSERTED)]
    compared = [(change.type, change.id, change.op) for change in graph.diff(before, "dev").entities()]
    assert compared == [("Boat", "b", Op.DELETED), ("P", "dan", Op.INSERTED)]
    assert graph.verify().findings == ()
