"""Random walks follow edges by their chances; vectors of nodes that walks meet together are alike."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import cast

import numpy as np
import pytest

from omnigraph.analytics.kernels import ENDED, NumberedGraph, WalkBias, embed_by_walks, walk_randomly
from tests.analytics.shapes import SHAPES, graph_of

NONE = WalkBias()


def edges_of(*pairs: tuple[int, int], weights: list[float] | None = None) -> NumberedGraph:
    ends = np.array(pairs, np.int32)
    given = None if weights is None else np.array(weights)
    return NumberedGraph(int(ends.max()) + 1, ends[:, 0].copy(), ends[:, 1].copy(), given)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bias", [NONE, WalkBias(0.5, 2.0)])
def test_a_walk_follows_edges_until_none_leads_on(shape: str, bias: WalkBias) -> None:
    count, pairs = SHAPES[shape]
    leaves = {a for a, _ in pairs}
    graph = graph_of(shape)
    walks = walk_randomly(graph, np.arange(count), 7, bias, 5)
    assert walks.shape == (count, 8)
    assert walks.tolist() == walk_randomly(graph, np.arange(count), 7, bias, 5).tolist()
    for start, walk in enumerate(cast("list[list[int]]", walks.tolist())):
        assert walk[0] == start
        nodes = [node for node in walk if node != ENDED]
        assert walk == nodes + [ENDED] * (8 - len(nodes))
        assert set(pairwise(nodes)) <= set(pairs)
        assert len(nodes) == 8 or nodes[-1] not in leaves


def share_of(graph: NumberedGraph, step: int, node: int, bias: WalkBias = NONE) -> float:
    walks = walk_randomly(graph, np.zeros(4000, np.int64), step, bias, 1)
    return Counter(cast("list[int]", walks[:, step].tolist()))[node] / 4000


def test_steps_are_drawn_by_weights_and_parallel_edges() -> None:
    assert share_of(edges_of((0, 1), (0, 1), (0, 1), (0, 2)), 1, 1) == pytest.approx(0.75, abs=0.03)
    assert share_of(edges_of((0, 1), (0, 2), weights=[1.0, 4.0]), 1, 2) == pytest.approx(0.8, abs=0.03)
    # An edge of no weight is never followed, and a node with no others is an end.
    assert share_of(edges_of((0, 1), (0, 2), weights=[0.0, 4.0]), 1, 2) == 1
    assert share_of(edges_of((0, 1), (1, 0), weights=[0.0, 4.0]), 1, ENDED) == 1


def test_the_bias_is_that_of_node2vec() -> None:
    # From 0 only 1 is reached; from there back, to a neighbour of 0 that leads back to it, or away.
    graph = edges_of((0, 1), (1, 0), (1, 2), (1, 3), (0, 2), (2, 0))
    only = edges_of((0, 1), (1, 0), (1, 2), (1, 3))
    # Away from 0: 2 and 3 have the weight 1 / q each, and 0 has 1 / p.
    assert share_of(only, 2, 0, WalkBias(0.25, 1.0)) == pytest.approx(4 / 6, abs=0.03)
    assert share_of(only, 2, 0, WalkBias(1.0, 0.25)) == pytest.approx(1 / 9, abs=0.03)
    walks = walk_randomly(graph, np.zeros(8000, np.int64), 2, WalkBias(4.0, 2.0), 2)
    over = walks[walks[:, 1] == 1][:, 2]
    weights = {0: 1 / 4, 2: 1.0, 3: 1 / 2}
    found = {node: float((over == node).mean()) for node in weights}
    assert found == {node: pytest.approx(weight / 1.75, abs=0.03) for node, weight in weights.items()}


def test_vectors_are_alike_for_nodes_that_walks_meet() -> None:
    graph = graph_of("components", both=True)
    vectors, again, other = (
        embed_by_walks(graph, 32, walks=4, length=6, window=3, bias=NONE, seed=seed) for seed in (1, 1, 2)
    )
    assert (vectors.shape, vectors.dtype) == ((60, 32), np.float32)
    assert vectors.tolist() == again.tolist() != other.tolist()
    alike = vectors @ vectors.T
    assert alike[0, 1] > 1
    assert abs(alike[0, 4]) < 0.1
    # A node without edges meets nobody.
    assert not vectors[3].any()


@pytest.mark.parametrize("shape", ["nothing", "one node", "no edges", "a loop", "complete"])
def test_small_graphs_have_vectors(shape: str) -> None:
    count, _ = SHAPES[shape]
    found = embed_by_walks(graph_of(shape), 16, walks=2, length=3, window=2, bias=NONE, seed=0)
    assert found.shape == (count, 16)
    assert np.isfinite(found).all()
