"""Walks over random graphs, against the distances that networkx finds."""

from __future__ import annotations

from typing import Protocol, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.language.query.typed_tree import TraversalDirection
from omnigraph.read.match.breadth_first import WalkBounds, walk
from omnigraph.read.topology.adjacency import build_adjacency, orient_edges
from tests.read.walked_graphs import ample_memory


class Networkx(Protocol):
    """What is used of networkx, which has no types."""

    def MultiDiGraph(self, edges: list[tuple[int, int]]) -> object: ...  # noqa: N802  its name there

    def single_source_shortest_path_length(self, graph: object, source: int, cutoff: int) -> dict[int, int]: ...


networkx = cast("Networkx", pytest.importorskip("networkx"))
SIZE = 30


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_destinations_are_as_far_as_their_shortest_path(seed: int, maximum: int) -> None:
    pairs = np.random.default_rng(seed).integers(0, SIZE, (50, 2), np.int32)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    graph = networkx.MultiDiGraph([(int(begin), int(end)) for begin, end in pairs])
    steps = orient_edges(pairs[:, 0], pairs[:, 1], TraversalDirection.OUT)
    arrays = build_adjacency(steps, (SIZE, SIZE), distinct=True)
    start = int(pairs[0, 0])
    distances = networkx.single_source_shortest_path_length(graph, start, cutoff=maximum)
    for minimum in range(1, maximum + 1):
        _, found = walk(arrays, np.array([start]), WalkBounds(minimum, maximum), ample_memory())
        assert found.tolist() == sorted(node for node, hops in distances.items() if hops >= minimum)
