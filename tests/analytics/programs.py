"""Programs for the Pregel interface, which run here and on Spark."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.analytics.kernels.pregel import StateColumns

Columns = npt.NDArray[Any]


def find_smallest(step: int, state: StateColumns, messages: Columns) -> tuple[StateColumns, Columns]:
    """The smallest number that leads to each node; only nodes that change speak. Combined by min."""
    if not step:
        return {"smallest": state["node"]}, state["node"]
    smallest = np.minimum(state["smallest"], messages)
    has_changed = smallest < state["smallest"]
    return {"smallest": smallest}, np.ma.masked_array(smallest, ~has_changed)


def rank(step: int, state: StateColumns, messages: Columns) -> tuple[StateColumns, Columns | None]:
    """Ten rounds of PageRank without the rank that dead ends lose."""
    ranks = 1 / state["count"] if not step else 0.15 / state["count"] + 0.85 * messages
    if step == 10:
        return {"rank": ranks}, None
    return {**state, "rank": ranks}, ranks / np.maximum(state["degree"], 1)


def find_distance(step: int, state: StateColumns, messages: Columns) -> tuple[StateColumns, Columns]:
    """The lightest path from node 0. Combined by min, along plus_weight."""
    distance = np.where(state["node"] == 0, 0.0, np.inf) if not step else np.minimum(state["distance"], messages)
    is_nearer = np.isfinite(distance) if not step else distance < state["distance"]
    return {"node": state["node"], "distance": distance}, np.ma.masked_array(distance, ~is_nearer)
