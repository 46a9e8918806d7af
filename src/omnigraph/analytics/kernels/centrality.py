"""Betweenness by Brandes' algorithm: how many shortest paths lead over each node."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from omnigraph.analytics.kernels.blocks import AdjacencyBlock, NumberedGraph, map_in_threads
from omnigraph.analytics.kernels.sparse import Numbers
from omnigraph.deadlines import check_deadline
from omnigraph.read.frames import Positions, sort_distinct

_SOURCES_PER_TASK: Final = 16


def compute_betweenness(graph: NumberedGraph, samples: int | None, seed: int) -> Numbers:
    """Return for each node the sum of its shares of the shortest paths between all ordered pairs of other nodes.

    With ``samples``, only paths from so many nodes, drawn by chance, are followed, and the sum is scaled up. Parallel
    edges count once.
    """
    count = graph.num_nodes
    sources = np.arange(count)
    if samples is not None and samples < count:
        sources = np.sort(np.random.default_rng(seed).choice(count, samples, replace=False))
    tasks = [sources[begin : begin + _SOURCES_PER_TASK] for begin in range(0, len(sources), _SOURCES_PER_TASK)]
    total = np.zeros(count)
    edges = graph.distinct
    # A few tasks at a time: each returns a value for every node.
    for begin in range(0, len(tasks), _SOURCES_PER_TASK):
        for part in map_in_threads(partial(_sum_shares, edges), tasks[begin : begin + _SOURCES_PER_TASK]):
            total += part
    return total if not len(sources) else total * (count / len(sources))


def _sum_shares(edges: AdjacencyBlock, sources: Positions) -> Numbers:
    total = np.zeros(edges.num_nodes)
    for source in sources:
        total += _share_paths(edges, int(source))
    return total


def _share_paths(edges: AdjacencyBlock, source: int) -> Numbers:
    """Return the shares of all nodes in the shortest paths from one source."""
    levels = np.full(edges.num_nodes, -1, np.int64)
    paths = np.zeros(edges.num_nodes)
    levels[source], paths[source] = 0, 1.0
    frontier = np.array([source])
    steps: list[tuple[Positions, Positions]] = []
    while len(frontier):
        check_deadline()
        begins = np.repeat(frontier, edges.indptr[frontier + 1] - edges.indptr[frontier])
        ends = edges.gather(frontier).astype(np.int64)
        is_on_path = levels[ends] < 0
        begins, ends = begins[is_on_path], ends[is_on_path]
        np.add.at(paths, ends, paths[begins])
        frontier = sort_distinct(ends)
        levels[frontier] = len(steps) + 1
        steps.append((begins, ends))
    shares = np.zeros(edges.num_nodes)
    for begins, ends in reversed(steps):
        np.add.at(shares, begins, paths[begins] / paths[ends] * (1 + shares[ends]))
    shares[source] = 0
    return shares
