"""How alike nodes are by their neighbours, scores of pairs that may become edges, and embeddings."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph.analytics.kernels.blocks import NumberedGraph, map_in_threads, split_rows
from omnigraph.analytics.kernels.neighbourhoods import list_simple_neighbours
from omnigraph.analytics.kernels.sparse import Numbers, SparseMatrix, find_runs, make_sparse, rows_of, transpose
from omnigraph.deadlines import check_deadline
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import Positions

SimilarityMetric: TypeAlias = Literal["jaccard", "overlap"]
LinkMetric: TypeAlias = Literal["common_neighbours", "adamic_adar", "preferential_attachment"]
_PRODUCTS_PER_BLOCK: Final = 20_000_000


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
    costs = (edges @ np.diff(turned.indptr).astype(np.float64)).astype(np.int64) + 1

    def score(rows: tuple[int, int]) -> ScoredPairs:
        found = edges[slice(*rows)] @ turned
        nodes, others = rows_of(found) + rows[0], found.indices.astype(np.int64)
        mine, theirs = sizes[nodes], sizes[others]
        whole = mine + theirs - found.data if metric == "jaccard" else np.minimum(mine, theirs)
        scores = found.data / whole
        kept = np.flatnonzero((nodes != others) & (scores >= cutoff))
        return _keep_best(ScoredPairs(nodes[kept], others[kept], scores[kept]), top_k)

    parts = map_in_threads(score, split_rows(costs, _PRODUCTS_PER_BLOCK))
    nothing = np.zeros(0, np.int64)
    return ScoredPairs(
        np.concatenate([nothing, *(part.nodes for part in parts)]),
        np.concatenate([nothing, *(part.others for part in parts)]),
        np.concatenate([np.zeros(0), *(part.scores for part in parts)]),
    )


def _keep_best(pairs: ScoredPairs, count: int) -> ScoredPairs:
    order = np.lexsort((pairs.others, -pairs.scores, pairs.nodes))
    nodes = pairs.nodes[order]
    # The place of each pair among those of its node.
    begins = find_runs(nodes)
    places = np.arange(len(nodes)) - np.repeat(begins, np.diff(np.append(begins, len(nodes))))
    best = order[places < count]
    return ScoredPairs(pairs.nodes[best], pairs.others[best], pairs.scores[best])


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
