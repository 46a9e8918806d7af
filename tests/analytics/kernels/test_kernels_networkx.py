"""Each algorithm on graphs of several shapes, beside networkx, or beside its definition where networkx has another.

The six algorithms of LDBC Graphalytics are held to its rules: levels, labels and components exactly, the others up to a
ten-thousandth of their size.
"""

from __future__ import annotations

from collections import Counter
from typing import cast

import numpy as np
import pytest

from omnigraph.analytics.kernels import blocks, components, hub_triangles
from omnigraph.analytics.kernels.blocks import NumberedGraph, cut_block, split_rows
from omnigraph.analytics.kernels.centrality import compute_betweenness
from omnigraph.analytics.kernels.communities import choose_labels, propagate_labels
from omnigraph.analytics.kernels.components import compute_cores, find_components
from omnigraph.analytics.kernels.distances import measure_hops, measure_paths
from omnigraph.analytics.kernels.likeness import (
    LinkMetric,
    embed_by_projection,
    score_links,
)
from omnigraph.analytics.kernels.neighbourhoods import compute_clustering, count_triangles
from omnigraph.analytics.kernels.ranking import compute_degrees, compute_pagerank
from omnigraph.analytics.kernels.sparse import Numbers
from omnigraph.read.frames import Positions
from tests.analytics.shapes import SHAPES, Peer, graph_of, networkx, peer_of, weights_of


@pytest.fixture(params=SHAPES)
def shape(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that graphs have several blocks."""
    monkeypatch.setattr(blocks.cut_block, "__defaults__", (50,))


def simple_of(shape: str) -> Peer:
    """The graph without directions, loops and parallel edges."""
    count, pairs = SHAPES[shape]
    made = networkx.MultiDiGraph()
    made.add_nodes_from(range(count))
    made.add_weighted_edges_from((a, b, 1.0) for a, b in pairs if a != b)
    return networkx.Graph(made)


def test_degrees(shape: str) -> None:
    count, pairs = SHAPES[shape]
    ends, begins = compute_degrees(graph_of(shape))
    assert begins.tolist() == [Counter(a for a, _ in pairs)[node] for node in range(count)]
    assert ends.tolist() == [Counter(b for _, b in pairs)[node] for node in range(count)]


def pagerank(
    graph: NumberedGraph, iterations: int = 20, tolerance: float | None = None, teleport: Numbers | None = None
) -> list[float]:
    return compute_pagerank(graph, damping=0.85, iterations=iterations, tolerance=tolerance, teleport=teleport).tolist()


def numbered(values: Positions) -> dict[int, int]:
    return dict(enumerate(cast("list[int]", values.tolist())))


def rank_by_definition(shape: str, iterations: int) -> list[float]:
    """PageRank as the specification of Graphalytics writes it."""
    count, pairs = SHAPES[shape]
    degrees = Counter(a for a, _ in pairs)
    ranks = [1 / count] * count
    for _ in range(iterations):
        lost = sum(ranks[node] for node in range(count) if not degrees[node])
        newer = [(1 - 0.85) / count + 0.85 * lost / count] * count
        for a, b in pairs:
            newer[b] += 0.85 * ranks[a] / degrees[a]
        ranks = newer
    return ranks


@pytest.mark.parametrize("iterations", [0, 1, 20])
def test_pagerank_is_as_defined(shape: str, iterations: int) -> None:
    if shape == "nothing":
        assert pagerank(graph_of(shape)) == []
        return
    found = pagerank(graph_of(shape), iterations)
    assert found == pytest.approx(rank_by_definition(shape, iterations), rel=1e-9)
    assert sum(found) == pytest.approx(1)


@pytest.mark.parametrize("weighted", [False, True])
def test_pagerank_ends_where_networkx_does(shape: str, weighted: bool) -> None:
    if shape == "nothing":
        return
    known = networkx.pagerank(peer_of(shape, weighted=weighted), 0.85, tol=1e-14, max_iter=1000)
    found = pagerank(graph_of(shape, weighted=weighted), 1000, 1e-14)
    assert found == pytest.approx([known[node] for node in range(len(known))], rel=1e-4)


def test_personalized_pagerank(shape: str) -> None:
    count, _ = SHAPES[shape]
    if count < 2:
        return
    teleport = np.zeros(count)
    teleport[[0, 1]] = 0.25, 0.75
    chosen = {0: 0.25, 1: 0.75}
    known = networkx.pagerank(peer_of(shape), 0.85, personalization=chosen, tol=1e-14, max_iter=1000)
    found = pagerank(graph_of(shape), 1000, 1e-14, teleport=teleport)
    assert found == pytest.approx([known[node] for node in range(count)], rel=1e-4, abs=1e-12)


def test_components_of_many_edges_begin_with_a_sample_of_them(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = find_components(graph_of(shape), "weak").tolist()
    monkeypatch.setattr(components, "_MANY_EDGES", 0)
    for every in (2, 8):
        monkeypatch.setattr(components, "_SAMPLED_EDGE", every)
        assert find_components(graph_of(shape), "weak").tolist() == known


@pytest.mark.parametrize("connection", ["weak", "strong"])
def test_components_are_named_after_their_smallest_node(shape: str, connection: str) -> None:
    peer = peer_of(shape)
    if connection == "weak":
        known, found = networkx.weakly_connected_components(peer), find_components(graph_of(shape), "weak")
    else:
        known, found = networkx.strongly_connected_components(peer), find_components(graph_of(shape), "strong")
    smallest = {node: min(members) for members in known for node in members}
    assert numbered(found) == smallest


def propagate_by_definition(shape: str, iterations: int) -> list[int]:
    count, pairs = SHAPES[shape]
    labels = list(range(count))
    for _ in range(iterations):
        heard: list[Counter[int]] = [Counter() for _ in range(count)]
        for a, b in pairs:
            heard[a][labels[b]] += 1
            heard[b][labels[a]] += 1
        labels = [
            min(votes, key=lambda label: (-votes[label], label)) if votes else own
            for own, votes in zip(labels, heard, strict=True)
        ]
    return labels


@pytest.mark.parametrize("iterations", [0, 1, 2, 10])
def test_label_propagation_is_as_defined(shape: str, iterations: int) -> None:
    known = propagate_by_definition(shape, iterations)
    assert propagate_labels(graph_of(shape), iterations).tolist() == known
    if any(a == b for a, b in SHAPES[shape][1]):
        return
    # Without directions each neighbour counts twice as often, and the winner is the same.
    assert propagate_labels(graph_of(shape, both=True), iterations).tolist() == known


def test_labels_are_compared_where_a_neighbour_has_a_new_one() -> None:
    (block,) = cut_block(graph_of("components").both, 10_000)
    labels = np.arange(60) // 4 * 4
    assert choose_labels(block, ~labels).tolist() == labels.tolist()
    # Of three nodes in a ring, two hear that the first has another label, and choose it, as the smaller one.
    state = ~np.arange(60)
    state[4] = 4
    assert np.flatnonzero(choose_labels(block, state) != np.arange(60)).tolist() == [5, 6]


@pytest.fixture(params=[0, 1, 5, 40, 2**15])
def hubs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many hubs, and few of their lists at once."""
    monkeypatch.setattr(hub_triangles, "_HUBS", request.param)
    monkeypatch.setattr(hub_triangles, "_LISTED_AT_ONCE", 20)
    monkeypatch.setattr(hub_triangles, "_PAIRS_PER_TASK", 30)


@pytest.mark.usefixtures("hubs")
def test_triangles(shape: str) -> None:
    known = networkx.triangles(simple_of(shape))
    assert numbered(count_triangles(graph_of(shape))) == known


def cluster_by_definition(shape: str) -> list[float]:
    count, pairs = SHAPES[shape]
    edges = {(a, b) for a, b in pairs if a != b}
    around: list[set[int]] = [set() for _ in range(count)]
    for a, b in edges:
        around[a].add(b)
        around[b].add(a)
    found: list[float] = []
    for near in around:
        between = sum((a, b) in edges for a in near for b in near)
        found.append(between / (len(near) * (len(near) - 1)) if len(near) > 1 else 0.0)
    return found


@pytest.mark.usefixtures("hubs")
def test_clustering_is_as_defined(shape: str) -> None:
    assert compute_clustering(graph_of(shape)).tolist() == pytest.approx(cluster_by_definition(shape))


def test_cores(shape: str) -> None:
    assert numbered(compute_cores(graph_of(shape))) == networkx.core_number(simple_of(shape))


@pytest.mark.parametrize("sources", [[0], [0, 1], [1, 1]])
def test_levels_and_distances(shape: str, sources: list[int]) -> None:
    if SHAPES[shape][0] < 2:
        return
    given = np.array(sources)
    peer = peer_of(shape, weighted=True)
    # What an edge does not have weighs 1.
    hops = networkx.multi_source_dijkstra_path_length(peer, {*sources}, weight="hops")
    levels = measure_hops(graph_of(shape), given)
    assert {node: level for node, level in enumerate(levels.tolist()) if level >= 0} == hops
    lightest = networkx.multi_source_dijkstra_path_length(peer, {*sources}, weight="weight")
    for weighted, known in ((False, hops), (True, lightest)):
        found = measure_paths(graph_of(shape, weighted=weighted), given)
        assert {node: each for node, each in enumerate(found.tolist()) if each < np.inf} == known


def test_betweenness(shape: str) -> None:
    known = networkx.betweenness_centrality(networkx.DiGraph(peer_of(shape)), normalized=False)
    found = compute_betweenness(graph_of(shape), None, 0).tolist()
    assert found == pytest.approx([known[node] for node in range(len(known))])
    assert compute_betweenness(graph_of(shape), 10**6, 7).tolist() == found


def test_sampled_betweenness_is_seeded_and_scaled() -> None:
    graph = graph_of("circle")
    # From every node the same paths begin, so any sample tells the average.
    found = [compute_betweenness(graph, 3, seed) for seed in (1, 1, 2)]
    assert found[0].tolist() == found[1].tolist() != found[2].tolist()
    assert [each.sum() for each in found] == pytest.approx([compute_betweenness(graph, None, 0).sum()] * 3)


def test_link_scores(shape: str) -> None:
    count, _ = SHAPES[shape]
    if not count:
        return
    chance = np.random.default_rng(3)
    pairs = [(int(a), int(b)) for a, b in chance.integers(0, count, (30, 2))]
    pairs = [(a, b) for a, b in pairs if a != b] or [(0, 0)]
    peer = simple_of(shape)
    nodes, others = np.array(pairs).T
    known = {
        "common_neighbours": [float(len(list(networkx.common_neighbors(peer, a, b)))) for a, b in pairs],
        "adamic_adar": [score for _, _, score in networkx.adamic_adar_index(peer, pairs)],
        "preferential_attachment": [score for _, _, score in networkx.preferential_attachment(peer, pairs)],
    }
    for metric, scores in known.items():
        found = score_links(graph_of(shape), nodes, others, cast("LinkMetric", metric))
        assert found.tolist() == pytest.approx(scores)


def test_vectors_are_seeded_and_near_for_nodes_of_one_group() -> None:
    graph = graph_of("components", both=True)
    vectors, again, other = (embed_by_projection(graph, 64, (0.0, 1.0, 1.0), seed) for seed in (1, 1, 2))
    assert vectors.shape == (60, 64)
    assert vectors.dtype == np.float32
    assert vectors.tolist() == again.tolist() != other.tolist()
    alike = vectors @ vectors.T
    assert alike[0, 1] > 5 * abs(alike[0, 4])
    # A node without edges has no direction.
    assert not vectors[3].any()
    assert embed_by_projection(graph_of("nothing"), 8, (1.0,), 0).shape == (0, 8)


def test_results_do_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    def everything() -> list[list[float]]:
        graph = graph_of("rmat", weighted=True)
        return [pagerank(graph), propagate_labels(graph, 5).tolist(), compute_degrees(graph)[0].tolist()]

    found = everything()
    for entries in (1, 7, 1_000_000):
        monkeypatch.setattr(blocks.cut_block, "__defaults__", (entries,))
        assert everything() == found


def test_blocks_cover_all_rows_once() -> None:
    whole = graph_of("rmat", weighted=True).outgoing
    parts = cut_block(whole, 60)
    assert len(parts) > 5
    assert [part.first for part in parts] == [0, *np.cumsum([part.num_rows for part in parts])[:-1]]
    assert np.concatenate([part.neighbours for part in parts]).tolist() == whole.neighbours.tolist()
    weights = [part.weights for part in parts if part.weights is not None]
    assert np.concatenate(weights).tolist() == (whole.weights if whole.weights is not None else np.zeros(0)).tolist()
    assert weights_of("rmat").sum() == np.concatenate(weights).sum()


def test_a_row_that_costs_too_much_stands_alone() -> None:
    assert split_rows(np.array([1, 1, 9, 1, 1, 1]), 2) == [(0, 2), (2, 3), (3, 5), (5, 6)]
    assert split_rows(np.array([], np.int64), 2) == []
