"""How alike nodes are by their neighbours, scores of pairs that may become edges, and embeddings."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph.analytics.kernels.blocks import NumberedGraph, map_in_threads, split_rows
from omnigraph.analytics.kernels.neighbourhoods import list_simple_neighbours
from omnigraph.analytics.kernels.sparse import (
    IntegerArray,
    Numbers,
    SparseMatrix,
    find_runs,
    make_sparse,
    transpose,
)
from omnigraph.deadlines import check_deadline
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import Positions

SimilarityMetric: TypeAlias = Literal["jaccard", "overlap"]
LinkMetric: TypeAlias = Literal["common_neighbours", "adamic_adar", "preferential_attachment"]
_PRODUCTS_PER_BLOCK: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class ScoredPairs:
    """Pairs of nodes with a score each."""

    nodes: Positions
    others: Positions
    scores: Numbers


def find_similar(graph: NumberedGraph, metric: SimilarityMetric, top_k: int, cutoff: float) -> ScoredPairs:
    """Return for each node the ``top_k`` others whose sets of out-neighbours are most alike, best first.

    Jaccard divides the common neighbours by those of both, overlap by those of the smaller set. Pairs without a common
    neighbour, or with a score below the cutoff, are left out. Of equal scores the smaller node comes first.
    """
    edges = graph.distinct.structure
    sizes = np.diff(edges.indptr).astype(np.float64)
    turned = transpose(edges)
    count = min(top_k, graph.num_nodes)
    costs = (edges @ np.diff(turned.indptr).astype(np.float64)).astype(np.int64) + 1

    def score(rows: tuple[int, int]) -> ScoredPairs:
        common = edges[slice(*rows)] @ turned
        lengths = np.diff(common.indptr)
        mine, theirs = np.repeat(sizes[slice(*rows)], lengths), sizes[common.indices]
        scores = common.data / (mine + theirs - common.data if metric == "jaccard" else np.minimum(mine, theirs))
        nodes, others = np.repeat(np.arange(*rows), lengths), common.indices.astype(np.int64)
        if cutoff > 0:
            kept = np.flatnonzero(scores >= cutoff)
            nodes, others, scores = nodes[kept], others[kept], scores[kept]
            lengths = np.bincount(nodes - rows[0], minlength=rows[1] - rows[0])
        # A node is not compared with itself; no other score is 0.
        scores[nodes == others] = 0.0
        return _keep_best(ScoredPairs(nodes, others, scores), lengths, count)

    parts = map_in_threads(score, split_rows(costs, _PRODUCTS_PER_BLOCK))
    nothing = np.zeros(0, np.int64)
    return ScoredPairs(
        np.concatenate([nothing, *(part.nodes for part in parts)]),
        np.concatenate([nothing, *(part.others for part in parts)]),
        np.concatenate([np.zeros(0), *(part.scores for part in parts)]),
    )


def _keep_best(pairs: ScoredPairs, lengths: IntegerArray, count: int) -> ScoredPairs:
    """Return the ``count`` best pairs of each node, best first, without those of score 0.

    The pairs are grouped by node, in ascending order; so many belong to each.
    """
    limits = np.repeat(_find_limits(pairs.scores, lengths, count), lengths)
    better, level = pairs.scores > limits, np.flatnonzero((pairs.scores == limits) & (limits > 0))
    # Of those at the limit the smallest are kept, so that few are left to be put in order.
    missing = np.repeat(count - _sum_runs(better, lengths), lengths)
    level = level[np.lexsort((pairs.others[level], pairs.nodes[level]))]
    level = level[_number_in_runs(pairs.nodes[level]) < missing[level]]
    best = np.concatenate([np.flatnonzero(better), level])
    best = best[np.lexsort((pairs.others[best], -pairs.scores[best], pairs.nodes[best]))]
    return ScoredPairs(pairs.nodes[best], pairs.others[best], pairs.scores[best])


def _find_limits(scores: Numbers, lengths: IntegerArray, count: int) -> Numbers:
    """Return the ``count``-th best score of each run of so many scores; 0 if it has no more than so many."""
    ends = np.cumsum(lengths, dtype=np.int64)
    limits = np.zeros(len(lengths))
    classes = np.where(lengths > count, np.frexp(lengths)[1], 0)
    for each in np.unique(classes[classes > 0]).tolist():
        # Runs of similar lengths, one below the other, so that they are divided in one call.
        runs = np.flatnonzero(classes == each)
        width = int(lengths[runs].max())
        places = np.arange(-width, 0)
        is_there = places >= -lengths[runs, np.newaxis]
        table = scores[np.maximum(ends[runs, np.newaxis] + places, 0)] * is_there
        table.partition(width - count, axis=1)
        limits[runs] = table[:, width - count]
    return limits


def _sum_runs(values: npt.NDArray[np.bool_], lengths: IntegerArray) -> Positions:
    """Return how many values of each run are true."""
    sums = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    ends = np.cumsum(lengths, dtype=np.int64)
    return sums[ends] - sums[ends - lengths]


def _number_in_runs(values: Positions) -> Positions:
    """Return the place of each value in its run of equal ones."""
    begins = find_runs(values)
    return np.arange(len(values)) - np.repeat(begins, np.diff(np.append(begins, len(values))))


def score_links(graph: NumberedGraph, nodes: Positions, others: Positions, metric: LinkMetric) -> Numbers:
    """Return the score of each pair, by neighbours whatever the directions; loops and parallel edges do not count."""
    simple = list_simple_neighbours(graph)
    degrees = np.diff(simple.indptr).astype(np.float64)
    if metric == "preferential_attachment":
        return degrees[nodes] * degrees[others]
    weights = np.ones(graph.num_nodes)
    if metric == "adamic_adar":
        # A common neighbour has two neighbours or more.
        weights = np.where(degrees > 1, 1 / np.log(np.maximum(degrees, 2)), 0.0)
    check_deadline()
    common = _take_rows(simple.structure, nodes).multiply(_take_rows(simple.structure, others))
    return common.tocsr() @ weights


def _take_rows(matrix: SparseMatrix, rows: Positions) -> SparseMatrix:
    counts = np.diff(matrix.indptr)[rows]
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    shifts = matrix.indptr[rows] - indptr[:-1]
    columns = matrix.indices[np.arange(int(indptr[-1])) + np.repeat(shifts, counts)]
    return make_sparse(np.ones(len(columns)), columns, indptr, (len(rows), matrix.shape[1]))


def embed_by_projection(
    graph: NumberedGraph, dimension: int, weights: tuple[float, ...], seed: int
) -> npt.NDArray[np.float32]:
    """Return a vector for each node by FastRP: random vectors, averaged over neighbours again and again.

    Each round has a weight. Edges count in both directions, by their weights; rows of each round have length 1.
    """
    count = graph.num_nodes
    chance = np.random.default_rng(seed)
    # Sparse random signs: two thirds are zero, and products keep their lengths on average.
    state: npt.NDArray[np.float64] = chance.choice(
        [-(3**0.5), 0.0, 3**0.5], (count, dimension), p=[1 / 6, 2 / 3, 1 / 6]
    )
    edges = graph.both.matrix
    sums = edges @ np.ones(count)
    scale = np.where(sums > 0, 1 / np.where(sums > 0, sums, 1.0), 0.0)[:, np.newaxis]
    found = np.zeros((count, dimension))
    for weight in weights:
        check_deadline()
        state = scale * (edges @ state)
        found += weight * _normalize(state)
    return found.astype(np.float32)


def _normalize(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return rows / np.where(lengths > 0, lengths, 1.0)
