"""Degrees and PageRank."""

from __future__ import annotations

import numpy as np

from omnigraph.analytics.kernels.blocks import AdjacencyBlock, BlockEngine, State
from omnigraph.analytics.kernels.sparse import Numbers
from omnigraph.deadlines import check_deadline
from omnigraph.read.frames import Positions


def sum_neighbours(block: AdjacencyBlock, state: State) -> State:
    """Return the weighted sum of the values of the neighbours of each row."""
    return block.matrix @ state


def compute_degrees(engine: BlockEngine) -> tuple[Positions, Positions]:
    """Return how many edges end at each node, and how many begin there."""
    return engine.count_neighbours("incoming"), engine.count_neighbours("outgoing")


def compute_pagerank(
    engine: BlockEngine,
    *,
    damping: float,
    iterations: int,
    tolerance: float | None,
    teleport: Numbers | None,
    start: Numbers | None = None,
) -> Numbers:
    """Return the PageRank of each node as LDBC Graphalytics defines it.

    ``teleport`` has the probability of each node to be jumped to; without it, all are equal. Where no edge leads on,
    the rank is spread by the same probabilities. ``start`` has the ranks to begin with.
    """
    count = engine.num_nodes
    if not count:
        return np.zeros(0)
    jumps: Numbers = np.full(count, 1 / count) if teleport is None else teleport
    weights = engine.sum_weights("outgoing")
    is_dangling = weights == 0
    divisors = np.where(is_dangling, 1.0, weights)
    ranks: Numbers = jumps if start is None else start
    for _ in range(iterations):
        check_deadline()
        shares = np.where(is_dangling, 0.0, ranks / divisors)
        received = engine.map_rows("incoming", sum_neighbours, shares)
        lost = float(ranks[is_dangling].sum())
        newer: Numbers = (1 - damping) * jumps + damping * (received + lost * jumps)
        change = float(np.abs(newer - ranks).sum())
        ranks = newer
        if tolerance is not None and change < tolerance:
            break
    return ranks
