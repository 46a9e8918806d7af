"""Merges across schema changes: several common ancestors, and defaults that changed since."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import MergeConflicts, Unsupported
from omnigraph.graph import Graph
from tests.selection import daily
from tests.write.evolve.people_graph import load

BEFORE = "node P { name: String @key\n  x: I32?\n  note: String? }"
CHANGES = {
    "none": (),
    "dropped": (BEFORE.replace("  x: I32?\n", ""),),
    "wider": (BEFORE.replace("I32", "I64"),),
    "added": (BEFORE.replace("x: I32?", 'x: I32?\n  flag: String @default("on")'),),
    "another default": tuple(
        BEFORE.replace("x: I32?", f'x: I32?\n  flag: String @default("{each}")') for each in ("on", "off")
    ),
    "dropped and added": (BEFORE.replace("  x: I32?\n", ""), BEFORE),
    "dropped and added with another type": (BEFORE.replace("  x: I32?\n", ""), BEFORE.replace("x: I32", "x: String")),
}


def _cross(graph: Graph, schemas: tuple[str, ...], *, between: bool) -> None:
    """Let two branches merge each other's first commit: they have two last common ancestors then.

    The schema changes between the two merges, or after them.
    """
    load(graph, _row("a1"), _row("b0", note="a"), branch="a")
    load(graph, _row("b1"), _row("a0", note="b"), branch="b")
    firsts = [graph.commits(branch)[0].id for branch in ("a", "b")]
    graph.merge(firsts[1], "a")
    for schema in schemas if between else ():
        graph.apply_schema(schema)
    graph.merge(firsts[0], "b")
    for schema in () if between else schemas:
        graph.apply_schema(schema)


def _row(name: str, **values: object) -> dict[str, object]:
    return {"type": "P", "data": {"name": name, **values}}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A graph with two branches."""
    graph = omnigraph.init(tmp_path / "graph.og", BEFORE)
    load(graph, _row("p0", x=1), _row("p1", x=2))
    graph.create_branch("a")
    graph.create_branch("b")
    return graph


@pytest.mark.parametrize("between", daily([False, True], [True]))
@pytest.mark.parametrize("change", daily(CHANGES, ["wider", "dropped and added with another type"]))
def test_several_common_ancestors_from_before_a_schema_change(graph: Graph, change: str, between: bool) -> None:
    _cross(graph, CHANGES[change], between=between)
    load(graph, _row("p0", note="a"), _row("a2"), branch="a")
    load(graph, _row("b2"), branch="b")
    graph.merge("a", "b")
    rows = {row["name"]: row["note"] for row in graph.nodes("P", branch="b").to_arrow().to_pylist()}
    assert rows == {
        "p0": "a", "p1": None, "a0": "b", "a1": None, "a2": None, "b0": "a", "b1": None, "b2": None,
    }  # fmt: skip
    assert omnigraph.open(graph.uri).verify().findings == ()


def test_a_conflict_over_several_ancestors_is_still_one(graph: Graph) -> None:
    _cross(graph, CHANGES["wider"], between=False)
    load(graph, _row("p1", x=5), branch="a")
    load(graph, _row("p1", x=6), branch="b")
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("a", "b")
    assert [conflict.id for conflict in caught.value.conflicts] == ["p1"]


def test_several_common_ancestors_from_before_a_rename_are_refused(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "graph.og", BEFORE)
    for branch in ("a", "b"):
        graph.create_branch(branch)
    _cross(graph, (), between=False)
    crossed = graph.commits("a")[0].id
    for branch in ("a", "b"):
        # A branch that has rows stands in the way of a rename.
        graph.mutate('query q() { delete P where name != "" }', branch=branch)
    graph.apply_schema(BEFORE.replace("note: String?", 'text: String? @rename_from("note")'))
    with pytest.raises(Unsupported, match="'note' was renamed to 'text'"):
        graph.merge(crossed, "b")


def test_a_changed_default_makes_no_conflicts(graph: Graph) -> None:
    for schema in CHANGES["another default"]:
        graph.apply_schema(schema)
    load(graph, _row("p0", note="b"), branch="b")
    graph.merge("b")
    flags = {row["name"]: row["flag"] for row in graph.nodes("P").to_arrow().to_pylist()}
    # The load replaced the row without a value, so the default of now was written.
    assert flags == {"p0": "off", "p1": "on"}
    graph.mutate('query q() { update P set { note: "main" } where name = "p1" }')
    graph.mutate('query q() { update P set { x: 9 } where name = "p0" }', branch="a")
    graph.merge("a", by="property", dry_run=True)
    assert {row["name"]: row["flag"] for row in graph.nodes("P", branch="a").to_arrow().to_pylist()} == {
        "p0": "on",
        "p1": "on",
    }
