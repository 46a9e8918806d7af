"""The graph that loads on Spark are killed over: what is there before, what a load brings, and what is to be seen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

import omnigraph
from omnigraph.errors import Json
from omnigraph.graph import Graph
from tests.graphs import rows_of
from tests.spark.cluster_load import SCHEMA, SHIPS

Shown: TypeAlias = dict[str, list[Mapping[str, Json]]]

_OLD = (0, 3, SHIPS)
"""The ships that are there before; all but the last come again."""


def old_graph(folder: Path) -> Graph:
    """A graph of a few ships."""
    graph = omnigraph.init(folder, SCHEMA)
    ships = [{"code": f"s{number}", "name": f"old {number}", "crew": 1} for number in _OLD]
    graph.load([{"type": "Ship", "data": ship} for ship in ships])
    return graph


def old_graph_with_a_tow(folder: Path) -> Graph:
    """A graph in which a merge finds an edge that it brings."""
    graph = old_graph(folder)
    ship = {"code": "s1", "name": "old 1", "crew": 1}
    graph.load([{"type": "Ship", "data": ship}, {"edge": "Tows", "from": "s1", "to": "s0"}])
    return graph


def assert_merged_once(graph: Graph, states: tuple[Shown, Shown]) -> None:
    """Everything that :func:`tests.spark.cluster_load.load_fleet` brings is there, and each edge once."""
    found = shown(graph)
    assert found["Ship"] == states[1]["Ship"]
    ends = [[(row["src"], row["dst"]) for row in rows] for rows in (found["Tows"], states[1]["Tows"])]
    assert sorted(ends[0], key=str) == sorted(ends[1], key=str)
    assert_whole(graph)


def load_here(graph: Graph) -> None:
    """What :func:`tests.spark.cluster_load.load_fleet` loads, by this process."""
    ships = [{"code": f"s{each}", "name": f"new {each}", "crew": each % 7} for each in range(SHIPS)]
    tows = [{"id": f"t{each}", "from": f"s{each}", "to": f"s{each - 1}"} for each in range(1, SHIPS)]
    nodes, edges = (pa.Table.from_pylist(rows) for rows in (ships, tows))
    graph.load(nodes={"Ship": nodes}, edges={"Tows": edges}, mode="merge")


def shown(graph: Graph) -> Shown:
    """All rows, by type."""
    found = {name: rows_of(graph, name) for name in ("Ship", "Tows")}
    return {name: sorted(rows, key=lambda row: str(row["id"])) for name, rows in found.items()}


def states_around(folder: Path) -> tuple[Shown, Shown]:
    """The graph before the load and after it, as this process makes it."""
    graph = old_graph(folder)
    before = shown(graph)
    load_here(graph)
    return before, shown(graph)


def assert_whole(graph: Graph) -> None:
    """Every table of every commit can be read, to its last row."""
    commits = graph.commits()
    assert commits
    for commit in commits:
        for key, pin in graph.snapshot(at=commit.id).pins.items():
            assert len(rows_of(graph, key, at=commit.id)) == pin.row_count, (commit.id, key)


def assert_nothing_happened(graph: Graph, states: tuple[Shown, Shown]) -> None:
    """Nothing of the load is to be seen, and the next one works."""
    assert shown(graph) == states[0]
    assert_whole(graph)
    load_here(graph)
    assert shown(graph) == states[1]
    assert_whole(graph)
