"""Louvain and Leiden beside networkx: as good by modularity, the same for the same seed, and connected for Leiden."""

from __future__ import annotations

from collections.abc import Callable
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
    from omnigraph.analytics.kernels.modularity import split_into_connected

    graph = NumberedGraph(5, np.array([0, 2, 1], np.int32), np.array([1, 3, 2], np.int32))
    assert split_into_connected(graph, np.array([0, 0, 1, 0, 1])).tolist() == [0, 0, 2, 3, 4]


def test_communities_of_leiden_are_split_whatever_moves_leave_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    from omnigraph.analytics.kernels import modularity

    def join_all(_: object, communities: Positions, __: object) -> Positions:
        return np.zeros_like(communities)

    monkeypatch.setattr(modularity, "_climb_levels", join_all)
    graph = NumberedGraph(4, np.array([0, 2], np.int32), np.array([1, 3], np.int32))
    assert find_communities_leiden(graph, 1.0, 0).tolist() == [0, 0, 2, 2]


@pytest.mark.parametrize("weighted", [False, True])
def test_moves_keep_count_of_modularity_and_of_who_has_to_be_looked_at_again(weighted: bool) -> None:
    from omnigraph.analytics.kernels import modularity

    graph = graph_of("rmat", weighted=weighted)
    network = modularity._make_network(graph, 1.0)
    assert network is not None
    partition = modularity._Partition(network, modularity._number_nodes(network))
    chance = np.random.default_rng(4)
    linked = np.flatnonzero(np.diff(network.links.indptr))
    for _ in range(3):
        before = partition.labels.copy()
        margins = np.zeros(network.num_nodes)
        for nodes in np.array_split(chance.permutation(linked), 4):
            margins[nodes] = partition.improve(nodes)
        shrunk = partition.settle(before)
        assert partition.modularity == pytest.approx(compute_modularity(graph, partition.labels.astype(np.int64)))
        # Links to communities are what they were, but for neighbours that moved.
        is_moved = partition.labels != before
        assert np.all(shrunk[network.links @ is_moved.astype(np.float64) == 0] == 0)
        stay = np.flatnonzero(~is_moved & (shrunk > 0))
        known = [count_shrunk(network.links, before, partition.labels, int(node)) for node in stay]
        assert shrunk[stay] == pytest.approx(known)


def count_shrunk(links: Any, before: Any, labels: Any, node: int) -> float:
    row = slice(links.indptr[node], links.indptr[node + 1])
    pairs = [
        (other, float(weight))
        for other, weight in zip(links.indices[row], links.data[row], strict=True)
        if before[other] != labels[other]
    ]
    left = sum(weight for other, weight in pairs if before[other] == labels[node])
    return left + sum(weight for other, weight in pairs if labels[other] != labels[node])


def test_margins_are_what_it_costs_to_leave_a_community() -> None:
    from omnigraph.analytics.kernels import modularity

    graph = graph_of("rmat", weighted=True)
    network = modularity._make_network(graph, 1.0)
    assert network is not None
    labels = np.random.default_rng(7).integers(0, 5, graph.num_nodes).astype(np.int32)
    partition = modularity._Partition(network, labels)
    linked = np.flatnonzero(np.diff(network.links.indptr))
    margins = partition.improve(linked)
    for node, margin in zip(linked[:50], margins, strict=False):
        moved = labels.copy()
        neighbours = network.links.indices[network.links.indptr[node] : network.links.indptr[node + 1]]
        costs: list[float] = []
        for name in set(labels[neighbours].tolist()) - {int(labels[node])}:
            moved[node] = name
            costs.append(modularity._measure(network, labels) - modularity._measure(network, moved))
        assert margin * 2 / network.total == pytest.approx(min(costs, default=np.inf), abs=1e-12)


def test_levels_have_the_sums_of_the_weights_between_communities() -> None:
    from omnigraph.analytics.kernels import modularity

    graph = graph_of("rmat", weighted=True)
    network = modularity._make_network(graph, 1.0)
    assert network is not None
    labels = np.random.default_rng(5).integers(0, 7, graph.num_nodes).astype(np.int32)
    merged = modularity._merge_nodes(network, labels, 7)
    assert graph.weights is not None
    known = np.zeros((7, 7))
    for ends in ((graph.begins, graph.ends), (graph.ends, graph.begins)):
        np.add.at(known, tuple(labels[end] for end in ends), graph.weights)
    found = cast("Any", merged.links).toarray()
    assert np.allclose(found, known - np.diag(np.diag(known)))
    assert merged.loops == pytest.approx(np.trace(known))
    assert merged.degrees == pytest.approx(known.sum(1))


def test_what_leiden_found_is_not_improved_by_moves_of_single_nodes() -> None:
    _, graph = without_weights("planted")
    found = find_communities_leiden(graph, 1.0, 2)
    reached = compute_modularity(graph, found)
    chance = np.random.default_rng(6)
    for node in chance.integers(0, graph.num_nodes, 40):
        for name in np.unique(found):
            moved = found.copy()
            moved[node] = name
            assert compute_modularity(graph, moved) <= reached + 1e-9
