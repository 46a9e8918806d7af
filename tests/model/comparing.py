"""A graph beside its model: every difference is an assertion that names the branch or the commit."""

from __future__ import annotations

from itertools import pairwise
from typing import cast

from omnigraph.graph import Graph
from omnigraph.manifest.snapshot import Pin, Snapshot
from tests.model.graph_model import GraphModel
from tests.model.graph_writes import Nodes, Rows
from tests.model.replica import Replica


def assert_same_history(graph: Graph, model: GraphModel) -> None:
    """The same branches, heads, parents and commits in the same order; versions and times only ever grow."""
    shown = {branch.name: (branch.head, branch.parent) for branch in graph.branches()}
    assert shown == {name: (branch.head.id, branch.parent) for name, branch in model.branches.items()}
    assert list(shown) == ["main", *sorted(name for name in shown if name != "main")]
    for name, branch in model.branches.items():
        commits = list(reversed(graph.commits(name)))
        found = [(commit.id, commit.parents, commit.branch) for commit in commits]
        assert found == [(it.id, (it.parent,) if it.parent else (), it.branch) for it in branch.history], name
        for older, newer in pairwise(commits):
            assert (older.manifest_version, older.created_at) < (newer.manifest_version, newer.created_at), name


def assert_same_rows(graph: Graph, model: GraphModel) -> None:
    """Every branch shows the same rows now."""
    for name, branch in model.branches.items():
        assert rows_in(graph.snapshot(name)) == branch.head.rows, name


def assert_same_past(graph: Graph, model: GraphModel) -> None:
    """Every commit shows the rows that it showed when it was made, by its id and by its version."""
    for commit in model.commits():
        snapshot = graph.snapshot(at=commit.id)
        assert rows_in(snapshot) == commit.rows, commit.id
        assert rows_in(graph.snapshot(commit.branch, at=snapshot.manifest_version)) == commit.rows, commit.id


def assert_same_feed(graph: Graph, model: GraphModel) -> None:
    """Whoever follows main, or the branch with the longest history, has seen all that every commit shows."""
    longest = max(model.branches, key=lambda name: len(model.branches[name].history))
    for name in {"main", longest}:
        replica = Replica()
        blocks = graph.changes("beginning", branch=name)
        for block, commit in zip(blocks, model.branches[name].history, strict=True):
            replica.apply(block)
            assert block.commit.id == commit.id, name
            assert replica.rows(commit.rows.nodes) == commit.rows, commit.id


def assert_same_tags(graph: Graph, model: GraphModel) -> None:
    """The same names for the same commits, which show what they showed."""
    assert {tag.name: (tag.commit, tag.branch) for tag in graph.tags()} == {
        name: (commit.id, commit.branch) for name, commit in model.tags.items()
    }
    for name, commit in model.tags.items():
        assert rows_in(graph.snapshot(at=name)) == commit.rows, name


def rows_in(snapshot: Snapshot) -> Rows:
    """Everything that a snapshot shows; the counts of its tables must agree with what the manifest says."""
    nodes: dict[str, Nodes] = {}
    for pin in snapshot.pins.values():
        if pin.kind == "node":
            names, sizes = _columns(snapshot, pin, "name", "size")
            nodes[pin.type_name] = dict(zip(cast("list[str]", names), cast("list[int | None]", sizes), strict=True))
            assert len(nodes[pin.type_name]) == len(names), f"a key twice in {pin.table_key}"
    sources, targets = _columns(snapshot, snapshot.pins["edge:Knows"], "src", "dst")
    pairs = zip(cast("list[str]", sources), cast("list[str]", targets), strict=True)
    return Rows(nodes).with_knows(*pairs)


def _columns(snapshot: Snapshot, pin: Pin, *names: str) -> list[list[object]]:
    rows = snapshot.table(pin.table_key).scan(names).read_all()
    assert rows.num_rows == pin.row_count, pin.table_key
    return [cast("list[object]", rows[name].to_pylist()) for name in names]
