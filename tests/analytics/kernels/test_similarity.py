"""Which nodes are most alike, beside the definition: with hubs, with many equal scores, and in many blocks."""

from __future__ import annotations

import numpy as np
import pytest

from omnigraph.analytics.kernels import likeness
from omnigraph.analytics.kernels.blocks import NumberedGraph
from omnigraph.analytics.kernels.likeness import ScoredPairs, SimilarityMetric, find_similar
from tests.analytics.shapes import SHAPES, Pairs, rmat
from tests.selection import sized


def hubs(count: int) -> Pairs:
    """Most nodes lead to one, two or all of three hubs and to nothing else, so that most scores are equal."""
    return [(node, hub) for node in range(3, count) for hub in range(3) if node % 7 & 1 << hub]


GRAPHS = {
    **SHAPES,
    "hubs": (90, hubs(90)),
    "hubs and others": (128, [*hubs(80), *rmat(7, 600, 3)]),
    "two hubs out": (90, [(hub, node) for hub in (4, 80) for node in range(90) if node % (3 + hub % 2)]),
}


def number(count: int, pairs: Pairs) -> NumberedGraph:
    begins, ends = np.array(pairs, np.int32).reshape(-1, 2).T
    return NumberedGraph(count, np.ascontiguousarray(begins), np.ascontiguousarray(ends))


def compare_all(name: str, metric: str, cutoff: float) -> list[tuple[int, int, float]]:
    """Every node with every other one, best first."""
    count, pairs = GRAPHS[name]
    near: list[set[int]] = [set() for _ in range(count)]
    for begin, end in pairs:
        near[begin].add(end)
    known: list[tuple[int, int, float]] = []
    for node in range(count):
        scored: list[tuple[float, int]] = []
        for other in range(count):
            common = len(near[node] & near[other])
            whole = len(near[node] | near[other]) if metric == "jaccard" else min(len(near[node]), len(near[other]))
            if node != other and common and common / whole >= cutoff:
                scored.append((-common / whole, other))
        known += [(node, other, -score) for score, other in sorted(scored)]
    return known


def to_tuples(found: ScoredPairs) -> list[tuple[int, int, float]]:
    return list(zip(found.nodes.tolist(), found.others.tolist(), found.scores.tolist(), strict=True))


@pytest.mark.parametrize("metric", ["jaccard", "overlap"])
@pytest.mark.parametrize("cutoff", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("name", GRAPHS)
def test_similarity_is_as_defined(
    name: str, metric: SimilarityMetric, cutoff: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = number(*GRAPHS[name])
    known = compare_all(name, metric, cutoff)
    places: dict[int, int] = {}
    numbered = [(places.setdefault(pair[0], at), at, pair) for at, pair in enumerate(known)]
    for top_k in (1, 4, 10**30):
        expected = [pair for begin, at, pair in numbered if at - begin < top_k]
        for products in (100, 10**6):
            monkeypatch.setattr(likeness, "_PRODUCTS_PER_BLOCK", products)
            assert to_tuples(find_similar(graph, metric, top_k, cutoff)) == expected


@pytest.mark.parametrize("top_k", [1, 7, 300, 10**9])
def test_many_neighbours_and_many_blocks(top_k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scale = sized(10, 12)
    pairs = rmat(scale, 20 * 2**scale, 4)
    edges = np.zeros((2**scale, 2**scale))
    edges[tuple(np.array(pairs).T)] = 1
    common, sizes = edges @ edges.T, edges.sum(axis=1)
    scores = common / np.maximum(sizes[:, np.newaxis] + sizes - common, 1)
    np.fill_diagonal(scores, 0.0)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :top_k]
    known = [
        (node, other, score)
        for node, (others, mine) in enumerate(
            zip(best.tolist(), np.take_along_axis(scores, best, 1).tolist(), strict=True)
        )
        for other, score in zip(others, mine, strict=True)
        if score
    ]
    for products in (5000, 10**6):
        monkeypatch.setattr(likeness, "_PRODUCTS_PER_BLOCK", products)
        assert to_tuples(find_similar(number(2**scale, pairs), "jaccard", top_k, 0.0)) == known
