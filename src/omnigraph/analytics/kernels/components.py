"""Weakly and strongly connected components, named after their smallest node, and cores."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from omnigraph.analytics.kernels.blocks import AdjacencyBlock, BlockEngine, NumberedGraph, State
from omnigraph.analytics.kernels.neighbourhoods import list_simple_neighbours
from omnigraph.analytics.kernels.sparse import label_components, link_pairs
from omnigraph.deadlines import check_deadline
from omnigraph.read.frames import Positions

_MANY_EDGES: Final = 500_000
_SAMPLED_EDGE: Final = 8
"""Of many edges every so-manieth is looked at first."""


def find_components(graph: NumberedGraph, connection: Literal["weak", "strong"]) -> Positions:
    """Return for each node the smallest node of its component."""
    check_deadline()
    if not graph.num_nodes:
        return np.zeros(0, np.int64)
    labels = _label_weakly(graph) if connection == "weak" else label_components(graph.distinct.structure, "strong")[1]
    check_deadline()
    return name_after_smallest(labels)


def _label_weakly(graph: NumberedGraph) -> Positions:
    """Return the number of the weak component of each node, without an array of neighbours.

    Most nodes are linked by a sample of the edges already; of all others only those between two parts count.
    """
    begins, ends, size = graph.begins, graph.ends, graph.num_nodes
    step = _SAMPLED_EDGE if len(begins) > _MANY_EDGES else 1
    _, parts = label_components(link_pairs(begins[::step], ends[::step], size), "weak")
    if step == 1:
        return parts
    check_deadline()
    ones, others = parts[begins], parts[ends]
    between = np.flatnonzero(ones != others)
    check_deadline()
    _, united = label_components(link_pairs(ones[between], others[between], size), "weak")
    return united[parts]


def link_rows(block: AdjacencyBlock, state: State) -> State:  # noqa: ARG001  a kernel
    """Return pairs of nodes that link everything that the edges of the block link, in two rows: a forest."""
    inside = link_pairs(block.row_numbers + np.int32(block.first), block.neighbours, block.num_nodes)
    named = name_after_smallest(label_components(inside, "weak")[1]) if block.num_nodes else np.zeros(0, np.int64)
    linked = np.flatnonzero(named != np.arange(block.num_nodes))
    return np.stack([linked, named[linked]])


def find_components_in_blocks(engine: BlockEngine) -> Positions:
    """Return for each node the smallest node of its weak component: a forest of each block, united here."""
    forests = engine.map_blocks("outgoing", link_rows, np.zeros(0))
    links = np.concatenate([np.zeros((2, 0), np.int64), *forests], axis=1)
    return find_components(NumberedGraph(engine.num_nodes, *links.astype(np.int32)), "weak")


def name_after_smallest(labels: Positions) -> Positions:
    """Return for each node the smallest node with the same label; labels are numbers below that of the nodes."""
    smallest = np.empty(len(labels), np.int64)
    # The last of several assignments wins: from the largest node down, the smallest of each group.
    smallest[labels[::-1]] = np.arange(len(labels) - 1, -1, -1)
    return smallest[labels]


def compute_cores(graph: NumberedGraph) -> Positions:
    """Return the core number of each node: the largest k such that it is in a subgraph of nodes of degree k or more.

    Directions, loops and parallel edges do not count. Nodes of the smallest degree are peeled off, round by round.
    """
    simple = list_simple_neighbours(graph)
    degrees = np.diff(simple.indptr).astype(np.int64)
    cores = np.zeros(graph.num_nodes, np.int64)
    is_left = np.ones(graph.num_nodes, np.bool_)
    left = np.arange(graph.num_nodes)
    level = 0
    while len(left):
        level = max(level, int(degrees[left].min()))
        peeled = left[degrees[left] <= level]
        while len(peeled):
            check_deadline()
            cores[peeled] = level
            is_left[peeled] = False
            touched = simple.gather(peeled)
            touched = touched[is_left[touched]]
            distinct, counts = np.unique(touched, return_counts=True)
            degrees[distinct] -= counts
            peeled = distinct[degrees[distinct] <= level].astype(np.int64)
        left = left[is_left[left]]
    return cores
