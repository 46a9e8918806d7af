"""Distances from one node or several: in hops, and along the lightest paths."""

from __future__ import annotations

from typing import Final

import numpy as np

from omnigraph.analytics.kernels.blocks import NumberedGraph
from omnigraph.analytics.kernels.sparse import Numbers, find_lightest_paths
from omnigraph.deadlines import check_deadline
from omnigraph.read.frames import Positions, sort_distinct

UNREACHABLE: Final = -1
_MANY: Final = 16
"""A frontier of more than one in so many nodes is found by a scan of all levels rather than by a sort."""


def measure_hops(graph: NumberedGraph, sources: Positions) -> Positions:
    """Return the number of hops from the nearest source to each node, or ``UNREACHABLE``."""
    levels = np.full(graph.num_nodes, UNREACHABLE, np.int64)
    frontier = sort_distinct(sources)
    levels[frontier] = 0
    level = 0
    while len(frontier):
        check_deadline()
        level += 1
        reached = graph.outgoing.gather(frontier)
        reached = reached[levels[reached] == UNREACHABLE]
        levels[reached] = level
        is_wide = len(reached) * _MANY > graph.num_nodes
        frontier = np.flatnonzero(levels == level) if is_wide else sort_distinct(reached).astype(np.int64)
    return levels


def measure_paths(graph: NumberedGraph, sources: Positions) -> Numbers:
    """Return the weight of the lightest path from the nearest source to each node; infinite if there is none."""
    if graph.weights is None:
        levels = measure_hops(graph, sources)
        return np.where(levels == UNREACHABLE, np.inf, levels.astype(np.float64))
    check_deadline()
    distances = find_lightest_paths(graph.outgoing.matrix, sort_distinct(sources))
    check_deadline()
    return distances
