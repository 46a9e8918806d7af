"""Frames: what holds for the rows of a match, whatever made them."""

from __future__ import annotations

import numpy as np

from omnigraph.read.frames.frame import Frame, concat_frames


def test_frames_of_which_one_is_weighted_are_one_with_a_weight_for_each_row() -> None:
    counted = Frame(1, weights=np.array([7]))
    both = concat_frames([Frame(2), counted])
    assert both.weights is not None
    assert (both.num_rows, both.weights.tolist(), both.total_rows) == (3, [1, 1, 7], 9)
    assert concat_frames([Frame(2), Frame(1)]).weights is None
