"""Triangles and local clustering coefficients, over neighbourhoods without loops and parallel edges.

Each edge is directed from the node with fewer neighbours to the one with more. A triangle then has a lowest, a middle
and a highest node, and no node has many edges that lead on. Triangles of hubs are found by a table of bits, all others
by sparse products, which are small without hubs.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from omnigraph.analytics.kernels.blocks import AdjacencyBlock, NumberedGraph, map_in_threads, split_rows
from omnigraph.analytics.kernels.hub_triangles import count_hub_triangles, count_others, sum_opposite_edges
from omnigraph.analytics.kernels.sparse import (
    Numbers,
    SparseMatrix,
    replace_values,
    rows_of,
    sort_pairs,
    transpose,
)
from omnigraph.deadlines import check_deadline
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import Positions

_PRODUCTS_PER_BLOCK: Final = 20_000_000
"""How many multiplications one block of a sparse product takes: a bound of its memory."""


def list_simple_neighbours(graph: NumberedGraph) -> AdjacencyBlock:
    """Return the neighbours of each node as one block: each once, whatever the directions, and never the node."""
    pairs = _count_directions(graph)
    matrix = pairs + transpose(pairs)
    return AdjacencyBlock(0, matrix.indptr, matrix.indices, None, graph.num_nodes)


def _count_directions(graph: NumberedGraph) -> SparseMatrix:
    """Return for each two neighbours, the smaller one first, the number of directions between them: 1 or 2."""
    check_deadline()
    edges = graph.distinct
    proper = np.flatnonzero(edges.row_numbers != edges.neighbours)
    begins, ends = edges.row_numbers[proper], edges.neighbours[proper]
    ones = np.ones(len(begins), np.int8)
    check_deadline()
    pairs = sort_pairs(np.minimum(begins, ends), np.maximum(begins, ends), ones, (graph.num_nodes, graph.num_nodes))
    pairs.sum_duplicates()
    return pairs


@dataclass(frozen=True, slots=True)
class _OrientedGraph:
    """The edges from each node to its higher neighbours, in the order of degrees, and the place of each node there."""

    directions: SparseMatrix
    """The number of directions of each edge."""
    places: Positions
    degrees: Positions

    @property
    def others(self) -> SparseMatrix:
        """The edges of nodes that are no hubs."""
        return self.directions[: count_others(self.directions.shape[0])]


def _orient_by_degree(graph: NumberedGraph) -> _OrientedGraph:
    pairs = _count_directions(graph)
    degrees = np.diff(pairs.indptr) + np.bincount(pairs.indices, minlength=graph.num_nodes)
    places = np.empty(graph.num_nodes, np.int32)
    places[np.argsort(degrees, kind="stable")] = np.arange(graph.num_nodes, dtype=np.int32)
    check_deadline()
    ones, others = places[rows_of(pairs)], places[pairs.indices]
    up = sort_pairs(np.minimum(ones, others), np.maximum(ones, others), pairs.data, pairs.shape)
    return _OrientedGraph(up, places.astype(np.int64), degrees)


def count_triangles(graph: NumberedGraph) -> Positions:
    """Return the number of triangles that each node is part of."""
    oriented = _orient_by_degree(graph)
    return _count_oriented(oriented)[oriented.places]


def _count_oriented(oriented: _OrientedGraph) -> Positions:
    """Return the number of triangles of each node, in the order of degrees."""
    found = count_hub_triangles(oriented.directions)
    # In all others, the lowest and the middle node are no hubs.
    directions = oriented.others
    up = replace_values(directions, np.ones(len(directions.data)))
    inner = _take_square(up)
    lowest, highest = _sum_masked_product(inner, up, up)
    middle, _ = _sum_masked_product(transpose(inner), up, up)
    found[: len(lowest)] += lowest + middle
    return np.rint(found + highest).astype(np.int64)


def compute_clustering(graph: NumberedGraph) -> Numbers:
    """Return the local clustering coefficient of each node as LDBC Graphalytics defines it.

    The number of directed edges between its neighbours, divided by the largest possible number; 0 for fewer than two
    neighbours.
    """
    oriented = _orient_by_degree(graph)
    between = _count_opposite_edges(oriented)[oriented.places]
    possible = oriented.degrees * (oriented.degrees - 1)
    return np.where(possible > 0, between / np.maximum(possible, 1), 0.0)


def _count_opposite_edges(oriented: _OrientedGraph) -> Numbers | Positions:
    """Return for each node, in the order of degrees, the number of directed edges between its neighbours."""
    counts = oriented.directions.data
    if len(counts) and (counts == counts[0]).all():
        return int(counts[0]) * _count_oriented(oriented)
    # The edge that is opposite to a node counts once for each of its directions.
    found = sum_opposite_edges(oriented.directions)
    directions = replace_values(oriented.others, oriented.others.data.astype(np.float64))
    up = replace_values(directions, np.ones(len(directions.data)))
    inner = _take_square(up)
    lowest, _ = _sum_masked_product(inner, directions, up)
    middle, _ = _sum_masked_product(transpose(inner), directions, up)
    _, highest = _sum_masked_product(transpose(_take_square(directions)), up, up)
    found[: len(lowest)] += lowest + middle
    return found + highest


def _take_square(matrix: SparseMatrix) -> SparseMatrix:
    """Return the first columns of a matrix, as many as it has rows."""
    return matrix[:, : matrix.shape[0]]


def _sum_masked_product(left: SparseMatrix, right: SparseMatrix, mask: SparseMatrix) -> tuple[Numbers, Numbers]:
    """Return the sums of the rows and of the columns of ``left @ right``, at the places where ``mask`` has a one."""
    costs = (left @ np.diff(right.indptr).astype(np.float64)).astype(np.int64) + 1

    def multiply(rows: tuple[int, int]) -> tuple[Numbers, Numbers]:
        chosen = slice(*rows)
        product = (left[chosen] @ right).multiply(mask[chosen])
        return product.sum(axis=1), product.sum(axis=0)

    found = map_in_threads(multiply, split_rows(costs, _PRODUCTS_PER_BLOCK))
    rows = np.concatenate([np.zeros(0), *(part for part, _ in found)])
    columns = np.zeros(right.shape[1])
    for _, part in found:
        columns += part
    return rows, columns
