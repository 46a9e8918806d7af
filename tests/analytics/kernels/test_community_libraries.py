"""Communities by networkit: the same for the same seed, named as ours, connected for Leiden."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any, Final

import numpy as np
import pytest

import omnigraph as og
from omnigraph.analytics import run_algorithm
from omnigraph.analytics.kernels import (
    CommunityLibrary,
    CommunityMethod,
    NumberedGraph,
    compute_modularity,
    find_communities,
    find_components,
)
from tests.analytics.shapes import SHAPES, graph_of

METHODS: Final[tuple[CommunityMethod, ...]] = ("louvain", "leiden")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", SHAPES)
def test_any_shape_has_communities_that_are_named_after_their_smallest_node(
    shape: str, method: CommunityMethod
) -> None:
    for weighted in (False, True):
        graph = graph_of(shape, weighted=weighted)
        found = find_communities(graph, method, "networkit", 1.0, 3)
        assert found.tolist() == find_communities(graph, method, "networkit", 1.0, 3).tolist()
        for name in np.unique(found):
            assert np.flatnonzero(found == name)[0] == name
        if method == "leiden":
            inside = np.flatnonzero(found[graph.begins] == found[graph.ends])
            parts = NumberedGraph(graph.num_nodes, graph.begins[inside], graph.ends[inside])
            assert find_components(parts, "weak").tolist() == found.tolist()
        if len(graph.begins):
            ours = compute_modularity(graph, find_communities(graph, method, "omnigraph", 1.0, 3))
            assert compute_modularity(graph, found) >= ours - 0.05


def test_a_seed_decides_whatever_the_threads_and_who_calls() -> None:
    graph = graph_of("rmat")
    known = find_communities(graph, "leiden", "networkit", 1.0, 5).tolist()
    # Its import takes longer than these tests, and not all workers run them.
    networkit: Any = import_module("networkit")
    networkit.setNumberOfThreads(2)
    others: list[object] = []
    caller = Thread(target=lambda: others.append(find_communities(graph, "leiden", "networkit", 1.0, 5).tolist()))
    caller.start()
    caller.join()
    assert others == [known]
    assert networkit.getMaxNumberOfThreads() == 2


@pytest.mark.parametrize("library", ["omnigraph", "networkit"])
@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_edges_does_not_decide(method: CommunityMethod, library: CommunityLibrary) -> None:
    for shape in SHAPES:
        graph = graph_of(shape, weighted=True)
        order = np.random.default_rng(1).permutation(len(graph.begins))
        for weights in (graph.weights, None):
            known = NumberedGraph(graph.num_nodes, graph.begins, graph.ends, weights)
            other = None if weights is None else weights[order]
            turned = NumberedGraph(graph.num_nodes, graph.begins[order], graph.ends[order], other)
            found, same = (find_communities(each, method, library, 1.0, 3) for each in (turned, known))
            assert found.tolist() == same.tolist(), shape


def test_weights_and_the_resolution_decide() -> None:
    begins, ends = np.array([0, 2, 0, 1], np.int32), np.array([1, 3, 2, 3], np.int32)
    heavy = NumberedGraph(4, begins, ends, np.array([1.0, 1.0, 9.0, 9.0]))
    for method in METHODS:
        assert find_communities(heavy, method, "networkit", 1.0, 0).tolist() == [0, 1, 0, 1]
        assert find_communities(heavy, method, "networkit", 50.0, 0).tolist() == [0, 1, 2, 3]


def test_a_graph_has_communities_by_networkit(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g.og", "node Port { code: String @key }\nedge Leg: Port -> Port")
    ports = [{"type": "Port", "data": {"code": code}} for code in "abcd"]
    graph.load([*ports, *({"edge": "Leg", "from": a, "to": b} for a, b in ("ab", "cd"))])
    for method in METHODS:
        found = run_algorithm(graph.analytics.project(), method, {"library": "networkit"})
        assert [row["community_id"] for row in found.rows] == ["a", "a", "c", "c"]
        assert found.provenance.parameters == {"resolution": 1.0, "seed": 0, "library": "networkit"}
