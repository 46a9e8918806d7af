"""Random walks, and vectors of nodes from what walks meet together.

All walks take a step at the same time. The second-order steps of node2vec are drawn by rejection: a step is proposed by
the weights alone and then accepted by its bias, so that no table for each edge is needed.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from omnigraph.analytics.kernels.blocks import AdjacencyBlock, NumberedGraph
from omnigraph.analytics.kernels.sparse import Numbers, SparseMatrix, make_sparse_from_pairs, replace_values, rows_of
from omnigraph.deadlines import check_deadline
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import Positions

ENDED: Final = -1
"""Stands in a walk after its last node."""
_POWER_ROUNDS: Final = 4
_MORE_COLUMNS: Final = 10
_PAIRS_AT_A_TIME: Final = 20_000_000


@dataclass(frozen=True, slots=True)
class WalkBias:
    """How a walk prefers its steps, as node2vec names them: 1 and 1 is no preference."""

    return_: float = 1.0
    """Called p: with a larger one, a step back to the node before is rarer."""
    in_out: float = 1.0
    """Called q: with a larger one, a step away from the neighbours of the node before is rarer."""

    @property
    def is_none(self) -> bool:
        """Whether only the node that a walk stands on counts."""
        return self.return_ == self.in_out == 1


def walk_randomly(
    graph: NumberedGraph, starts: Positions, length: int, bias: WalkBias, seed: int
) -> npt.NDArray[np.int64]:
    """Walk from each start along ``length`` edges, by their weights; return a row of nodes for each walk."""
    walks = np.full((len(starts), length + 1), ENDED, np.int64)
    walks[:, 0] = starts
    steps = _StepDraw.over(graph.outgoing, bias)
    chance = np.random.default_rng(seed)
    active = np.arange(len(starts))
    for at in range(length):
        check_deadline()
        active = active[steps.can_leave(walks[active, at])]
        if not len(active):
            break
        before = walks[active, at - 1] if at and not bias.is_none else None
        walks[active, at + 1] = steps.draw(walks[active, at], before, chance)
    return walks


@dataclass(frozen=True, slots=True)
class _StepDraw:
    edges: AdjacencyBlock
    totals: Numbers | None
    """The running sums of the weights of all edges, with a zero before them."""
    keys: Positions
    """All pairs of neighbours as numbers in ascending order; empty without a bias."""
    bias: WalkBias

    @classmethod
    def over(cls, edges: AdjacencyBlock, bias: WalkBias) -> _StepDraw:
        totals = None if edges.weights is None else np.concatenate([[0.0], np.cumsum(edges.weights)])
        none = np.zeros(0, np.int64)
        keys = none if bias.is_none else edges.row_numbers * np.int64(edges.num_nodes) + edges.neighbours
        return cls(edges, totals, keys, bias)

    def can_leave(self, nodes: Positions) -> npt.NDArray[np.bool_]:
        begins, ends = self.edges.indptr[nodes], self.edges.indptr[nodes + 1]
        return begins < ends if self.totals is None else self.totals[begins] < self.totals[ends]

    def draw(self, nodes: Positions, before: Positions | None, chance: np.random.Generator) -> Positions:
        if before is None:
            return self._propose(nodes, chance)
        found = np.empty(len(nodes), np.int64)
        largest = max(1.0, 1 / self.bias.return_, 1 / self.bias.in_out)
        waiting = np.arange(len(nodes))
        while len(waiting):
            check_deadline()
            proposed = self._propose(nodes[waiting], chance)
            weights = self._weigh(before[waiting], proposed)
            is_taken = chance.random(len(waiting)) * largest <= weights
            found[waiting[is_taken]] = proposed[is_taken]
            waiting = waiting[~is_taken]
        return found

    def _propose(self, nodes: Positions, chance: np.random.Generator) -> Positions:
        begins, ends = self.edges.indptr[nodes].astype(np.int64), self.edges.indptr[nodes + 1].astype(np.int64)
        drawn = chance.random(len(nodes))
        if self.totals is None:
            places = begins + (drawn * (ends - begins)).astype(np.int64)
        else:
            low, high = self.totals[begins], self.totals[ends]
            places = np.searchsorted(self.totals, low + drawn * (high - low), side="right") - 1
        # A product of floats may be rounded up to the end.
        return self.edges.neighbours[np.minimum(places, ends - 1)].astype(np.int64)

    def _weigh(self, before: Positions, proposed: Positions) -> Numbers:
        wanted = before * np.int64(self.edges.num_nodes) + proposed
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        are_neighbours = self.keys[places] == wanted
        weights = np.where(are_neighbours, 1.0, 1 / self.bias.in_out)
        return np.where(proposed == before, 1 / self.bias.return_, weights)


# --------------------------------------------------------------------------------------------- vectors


def embed_by_walks(
    graph: NumberedGraph, dimension: int, *, walks: int, length: int, window: int, bias: WalkBias, seed: int
) -> npt.NDArray[np.float32]:
    """Return a vector for each node from random walks, in the manner of node2vec.

    Nodes that walks meet within ``window`` steps of each other are counted; the logarithms of how much oftener than by
    chance that happens are the products of the vectors, by a singular value decomposition. The training of node2vec
    with negative samples approximates the same matrix.
    """
    count = graph.num_nodes
    starts = np.repeat(np.arange(count), walks)
    met = _count_meetings(walk_randomly(graph, starts, length, bias, seed), window, count)
    return _factorize(_to_mutual_information(met), dimension, np.random.default_rng(seed))


def _count_meetings(walks: npt.NDArray[np.int64], window: int, count: int) -> SparseMatrix:
    """Return how often two nodes stand within a window of each other, symmetrically."""
    nothing = np.zeros(0, np.int64)
    total = make_sparse_from_pairs(np.zeros(0), nothing, nothing, count)
    rows_at_a_time = max(1, _PAIRS_AT_A_TIME // (walks.shape[1] * window))
    for begin in range(0, len(walks), rows_at_a_time):
        check_deadline()
        part = walks[begin : begin + rows_at_a_time]
        pairs = [(part[:, :-step].ravel(), part[:, step:].ravel()) for step in range(1, window + 1)]
        ones, others = (np.concatenate([nothing, *side]) for side in zip(*pairs, strict=True))
        met = (ones != ENDED) & (others != ENDED)
        ones, others = ones[met], others[met]
        found = make_sparse_from_pairs(
            np.ones(2 * len(ones)), np.concatenate([ones, others]), np.concatenate([others, ones]), count
        )
        total = total + found
    return total


def _to_mutual_information(met: SparseMatrix) -> SparseMatrix:
    """Return the logarithm of how much oftener than by chance two nodes meet, where that is above 0."""
    if not len(met.data):
        return met
    sums = met @ np.ones(met.shape[0])
    ratios = met.data * sums.sum() / (sums[rows_of(met)] * sums[met.indices])
    return replace_values(met, np.maximum(np.log(ratios), 0.0))


def _factorize(matrix: SparseMatrix, dimension: int, chance: np.random.Generator) -> npt.NDArray[np.float32]:
    """Return the largest singular vectors, each times the root of its value, by random projections."""
    check_deadline()
    count = matrix.shape[0]
    vectors = np.zeros((count, dimension), np.float32)
    if not count:
        return vectors
    sketch = chance.standard_normal((count, min(count, dimension + _MORE_COLUMNS)))
    for _ in range(_POWER_ROUNDS):
        check_deadline()
        sketch = np.linalg.qr(matrix @ sketch)[0]
    turned, values, _ = np.linalg.svd((matrix @ sketch), full_matrices=False)
    kept = min(dimension, len(values))
    turned = turned[:, :kept]
    # Singular vectors have no sign of their own: the largest component of each is positive.
    signs = np.sign(turned[np.abs(turned).argmax(axis=0), np.arange(kept)])
    vectors[:, :kept] = turned * np.where(signs == 0, 1.0, signs) * np.sqrt(values[:kept])
    # What is exactly nothing is not left to rounding.
    vectors[np.diff(matrix.indptr) == 0] = 0
    return vectors
