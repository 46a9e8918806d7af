"""Triangles and local clustering coefficients, over neighbourhoods without loops and parallel edges.

Each edge is directed from the node with fewer neighbours to the one with more. A triangle then has a lowest, a middle
and a highest node, and no node has many edges that lead on, so that the sparse products below stay small.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from omnigraph.analytics.kernels.blocks import AdjacencyBlock, NumberedGraph, map_in_threads, split_rows
from omnigraph.analytics.kernels.sparse import (
    Numbers,
    SparseMatrix,
    make_sparse,
    make_sparse_from_pairs,
    replace_values,
    rows_of,
    transpose,
)
from omnigraph.deadlines import check_deadline
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import Positions
from omnigraph.read.topology import build_adjacency

_PRODUCTS_PER_BLOCK: Final = 20_000_000
"""How many multiplications one block of a sparse product takes: a bound of its memory."""


def list_simple_neighbours(graph: NumberedGraph) -> AdjacencyBlock:
    """Return the neighbours of each node as one block: each once, whatever the directions, and never the node."""
    matrix = _count_directions(graph)
    return AdjacencyBlock(0, matrix.indptr, matrix.indices, None, graph.num_nodes)


def _count_directions(graph: NumberedGraph) -> SparseMatrix:
    """Return for each two neighbours the number of directions that edges between them have: 1 or 2."""
    check_deadline()
    size = (graph.num_nodes, graph.num_nodes)
    proper = np.flatnonzero(graph.begins != graph.ends)
    hops = graph.begins[proper], graph.ends[proper], proper.astype(np.int32)
    distinct = build_adjacency(hops, size, distinct=True)
    directed = make_sparse(np.ones(len(distinct.neighbours)), distinct.neighbours, distinct.indptr, size)
    return directed + transpose(directed)


@dataclass(frozen=True, slots=True)
class _OrientedGraph:
    """The edges from each node to its higher neighbours, in the order of degrees, and the place of each node there."""

    ones: SparseMatrix
    directions: SparseMatrix
    places: Positions
    degrees: Positions


def _orient_by_degree(graph: NumberedGraph) -> _OrientedGraph:
    directions = _count_directions(graph)
    degrees = np.diff(directions.indptr).astype(np.int64)
    places = np.empty(graph.num_nodes, np.int64)
    places[np.argsort(degrees, kind="stable")] = np.arange(graph.num_nodes)
    rows, columns = places[rows_of(directions)], places[directions.indices]
    is_up = rows < columns
    upper = make_sparse_from_pairs(directions.data[is_up], rows[is_up], columns[is_up], graph.num_nodes)
    return _OrientedGraph(replace_values(upper, np.ones(len(upper.data))), upper, places, degrees)


def count_triangles(graph: NumberedGraph) -> Positions:
    """Return the number of triangles that each node is part of."""
    oriented = _orient_by_degree(graph)
    up = oriented.ones
    lowest, highest = _sum_masked_product(up, up, up)
    middle, _ = _sum_masked_product(transpose(up), up, up)
    return np.rint(lowest + middle + highest).astype(np.int64)[oriented.places]


def compute_clustering(graph: NumberedGraph) -> Numbers:
    """Return the local clustering coefficient of each node as LDBC Graphalytics defines it.

    The number of directed edges between its neighbours, divided by the largest possible number; 0 for fewer than two
    neighbours.
    """
    oriented = _orient_by_degree(graph)
    up, directions = oriented.ones, oriented.directions
    # The edge that is opposite to a node counts once for each of its directions.
    lowest, _ = _sum_masked_product(up, directions, up)
    middle, _ = _sum_masked_product(transpose(up), directions, up)
    _, highest = _sum_masked_product(transpose(directions), up, up)
    between = (lowest + middle + highest)[oriented.places]
    possible = oriented.degrees * (oriented.degrees - 1)
    return np.where(possible > 0, between / np.maximum(possible, 1), 0.0)


def _sum_masked_product(left: SparseMatrix, right: SparseMatrix, mask: SparseMatrix) -> tuple[Numbers, Numbers]:
    """Return the sums of the rows and of the columns of ``left @ right``, at the places where ``mask`` has a one."""
    costs = (left @ np.diff(right.indptr).astype(np.float64)).astype(np.int64) + 1

    def multiply(rows: tuple[int, int]) -> tuple[Numbers, Numbers]:
        chosen = slice(*rows)
        product = (left[chosen] @ right).multiply(mask[chosen])
        return product.sum(axis=1), product.sum(axis=0)

    found = map_in_threads(multiply, split_rows(costs, _PRODUCTS_PER_BLOCK))
    rows = np.concatenate([np.zeros(0), *(part for part, _ in found)])
    columns = np.zeros(left.shape[0])
    for _, part in found:
        columns += part
    return rows, columns
