"""Communities by label propagation, as LDBC Graphalytics defines it."""

from __future__ import annotations

import numpy as np

from omnigraph.analytics.kernels.blocks import AdjacencyBlock, BlockEngine, State
from omnigraph.deadlines import check_deadline
from omnigraph.read.frames import Positions


def choose_labels(block: AdjacencyBlock, state: State) -> State:
    """Return the most frequent label among the neighbours of each row, of several the smallest."""
    own = state[block.first : block.first + block.num_rows].copy()
    if not len(block.neighbours):
        return own
    # Labels are nodes, so a row and a label make one number; sorted, equal labels of a row stand together.
    keys = block.row_numbers * np.int64(block.num_nodes) + state[block.neighbours]
    keys.sort()
    runs = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    counts = np.diff(np.append(runs, len(keys)))
    rows, labels = np.divmod(keys[runs], block.num_nodes)
    begins = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
    most = np.maximum.reduceat(counts, begins)
    is_most = counts == np.repeat(most, np.diff(np.append(begins, len(rows))))
    own[rows[begins]] = np.minimum.reduceat(np.where(is_most, labels, block.num_nodes), begins)
    return own


def propagate_labels(engine: BlockEngine, iterations: int) -> Positions:
    """Give each node its own label, then in each round the most frequent label of its neighbours.

    All nodes change at once. An edge counts in both directions, so two nodes with edges both ways count twice.
    """
    labels = np.arange(engine.num_nodes)
    for _ in range(iterations):
        check_deadline()
        newer = engine.map_rows("both", choose_labels, labels)
        if np.array_equal(newer, labels):
            break
        labels = newer
    return labels
