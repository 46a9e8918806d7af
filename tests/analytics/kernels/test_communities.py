"""Louvain and Leiden beside networkx: as good by modularity, the same for the same seed, and connected for Leiden."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

import numpy as np
import pytest

from omnigraph.analytics.kernels import (
    NumberedGraph,
    compute_modularity,
    find_communities_leiden,
    find_communities_louvain,
)
from omnigraph.read.frames import Positions
from tests.analytics.shapes import SHAPES, graph_of, peer_of
from tests.selection import daily

networkx: Any = pytest.importorskip("networkx")

Method = Callable[[NumberedGraph, float, int], Positions]
METHODS: Final[dict[str, Method]] = {"louvain": find_communities_louvain, "leiden": find_communities_leiden}
GRAPHS: Final[dict[str, Callable[[], Any]]] = {
    "karate": networkx.karate_club_graph,
    "planted": lambda: networkx.planted_partition_graph(10, 30, 0.3, 0.01, seed=1),
    "caves": lambda: networkx.connected_caveman_graph(12, 8),
    "grid": lambda: networkx.convert_node_labels_to_integers(networkx.grid_2d_graph(15, 15)),
    "preferential": lambda: networkx.barabasi_albert_graph(400, 3, seed=2),
    "small world": lambda: networkx.watts_strogatz_graph(400, 8, 0.1, seed=2),
    "tree": lambda: networkx.balanced_tree(3, 5),
}


def without_weights(name: str) -> tuple[Any, NumberedGraph]:
    peer = networkx.Graph(list(GRAPHS[name]().edges()))
    pairs = np.array(list(peer.edges()), np.int32)
    return peer, NumberedGraph(len(peer), *(np.ascontiguousarray(side) for side in pairs.T))


def sets_of(communities: Positions) -> list[set[int]]:
    return [set(np.flatnonzero(communities == name).tolist()) for name in np.unique(communities)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", daily(GRAPHS, ["karate", "planted", "grid"]))
def test_communities_are_as_good_as_those_of_networkx(name: str, method: str) -> None:
    peer, graph = without_weights(name)
    found = METHODS[method](graph, 1.0, 1)
    known = networkx.community.modularity(peer, networkx.community.louvain_communities(peer, seed=1))
    reached = networkx.community.modularity(peer, sets_of(found))
    assert reached == pytest.approx(compute_modularity(graph, found))
    assert reached >= known - 0.01
    if method == "leiden":
        assert all(networkx.is_connected(peer.subgraph(members)) for members in sets_of(found))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", SHAPES)
def test_any_shape_has_communities_that_are_named_after_their_smallest_node(shape: str, method: str) -> None:
    for weighted in (False, True):
        graph = graph_of(shape, weighted=weighted)
        found = METHODS[method](graph, 1.0, 3)
        assert found.tolist() == METHODS[method](graph, 1.0, 3).tolist()
        assert all(min(members) == found[next(iter(members))] for members in sets_of(found))
        if not len(graph.begins):
            assert found.tolist() == list(range(graph.num_nodes))
            continue
        peer = networkx.MultiGraph()
        peer.add_nodes_from(range(graph.num_nodes))
        peer.add_edges_from(cast("Any", peer_of(shape, weighted=weighted)).edges(data=True))
        known = networkx.community.modularity(peer, sets_of(found))
        assert compute_modularity(graph, found) == pytest.approx(known)
        # Never worse than every node alone.
        assert known >= compute_modularity(graph, np.arange(graph.num_nodes)) - 1e-12


def test_a_larger_resolution_has_more_communities() -> None:
    _, graph = without_weights("planted")
    counts = [len(set(find_communities_leiden(graph, each, 0).tolist())) for each in (0.1, 1.0, 8.0)]
    assert counts == sorted(counts)
    assert counts[0] < 10 == counts[1] < counts[2]


def test_weights_decide() -> None:
    # Two pairs, with light edges between them.
    begins, ends = np.array([0, 2, 0, 1], np.int32), np.array([1, 3, 2, 3], np.int32)
    light = NumberedGraph(4, begins, ends, np.array([9.0, 9.0, 1.0, 1.0]))
    heavy = NumberedGraph(4, begins, ends, np.array([1.0, 1.0, 9.0, 9.0]))
    for method in METHODS.values():
        assert method(light, 1.0, 0).tolist() == [0, 0, 2, 2]
        assert method(heavy, 1.0, 0).tolist() == [0, 1, 0, 1]


def test_a_disconnected_community_is_split() -> None:
    from omnigraph.analytics.kernels.modularity import _split_into_connected
    from omnigraph.analytics.kernels.sparse import make_sparse_from_pairs

    ends: Iterable[tuple[int, int]] = [(0, 1), (1, 0), (2, 3), (3, 2), (1, 2), (2, 1)]
    rows, columns = np.array(list(ends)).T
    weights = make_sparse_from_pairs(np.ones(len(rows)), rows, columns, 5)
    found = _split_into_connected(weights, np.array([0, 0, 1, 0, 1]))
    assert len(set(found.tolist())) == 4
    assert found[0] == found[1]
