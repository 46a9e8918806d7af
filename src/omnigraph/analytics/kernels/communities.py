"""Communities by label propagation, as LDBC Graphalytics defines it."""

from __future__ import annotations

import numpy as np

from omnigraph.analytics.kernels.blocks import AdjacencyBlock, BlockEngine, State
from omnigraph.analytics.kernels.sparse import find_runs
from omnigraph.deadlines import check_deadline
from omnigraph.read.frames import Positions


def choose_labels(block: AdjacencyBlock, state: State) -> State:
    """Return the most frequent label among the neighbours of each row, of several the smallest.

    The state has the label of each node, and its complement, which is negative, if it is that of the round before. A
    row whose neighbours have the labels of the round before keeps its own.
    """
    labels = np.where(state < 0, ~state, state)
    own = labels[block.first : block.first + block.num_rows].copy()
    rows, neighbours = block.row_numbers, block.neighbours
    has_news = np.zeros(block.num_rows, np.bool_)
    has_news[rows[(state >= 0)[neighbours]]] = True
    if not has_news.all():
        kept = np.flatnonzero(has_news[rows])
        rows, neighbours = rows[kept], neighbours[kept]
    if not len(rows):
        return own
    # Labels are nodes, so a row and a label make one number; sorted, equal labels of a row stand together.
    bits = np.int64(max(1, block.num_nodes - 1).bit_length())
    largest = (np.int64(1) << bits) - 1
    keys = rows.astype(np.int64) << bits | labels[neighbours]
    keys.sort()
    runs = find_runs(keys)
    counts = np.diff(runs, append=len(keys))
    rows = keys[runs] >> bits
    # The largest of these numbers has the largest count and then the smallest label.
    scores = counts << bits | (largest - (keys[runs] & largest))
    begins = find_runs(rows)
    own[rows[begins]] = largest - (np.maximum.reduceat(scores, begins) & largest)
    return own


def propagate_labels(engine: BlockEngine, iterations: int) -> Positions:
    """Give each node its own label, then in each round the most frequent label of its neighbours.

    All nodes change at once. An edge counts in both directions, so two nodes with edges both ways count twice.
    """
    labels = np.arange(engine.num_nodes)
    state = labels
    for _ in range(iterations):
        check_deadline()
        newer = engine.map_rows("both", choose_labels, state)
        is_new = newer != labels
        if not is_new.any():
            break
        labels, state = newer, np.where(is_new, newer, ~newer)
    return labels
