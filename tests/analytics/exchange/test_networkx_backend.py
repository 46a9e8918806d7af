"""The backend for NetworkX: each function gives what the function of NetworkX gives."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from omnigraph.analytics.exchange import networkx_backend as backend

networkx: Any = pytest.importorskip("networkx")
GROUP: Final = "networkx.backends"
DIRECTED: Final = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "e"), ("d", "a"), ("f", "d")]


def make(kind: Any) -> Any:
    made = kind()
    made.add_weighted_edges_from((a, b, number % 3 + 1) for number, (a, b) in enumerate(DIRECTED))
    made.add_node("alone")
    return made


def as_sets(found: Any) -> set[frozenset[str]]:
    return {frozenset(each) for each in found}


@pytest.mark.parametrize("kind", [networkx.DiGraph, networkx.Graph, networkx.MultiDiGraph])
@pytest.mark.parametrize("weight", ["weight", None])
def test_ranks(kind: Any, weight: str | None) -> None:
    graph = make(kind)
    given = backend.convert_from_nx(graph, edge_attrs=None if weight is None else {weight: 1})
    known = networkx.pagerank(graph, weight=weight, tol=1e-12)
    assert backend.pagerank(given, tol=1e-12, weight=weight) == pytest.approx(known, abs=1e-9)


def test_groups_and_counts() -> None:
    directed, simple = make(networkx.DiGraph), make(networkx.Graph)
    simple.remove_edge("e", "e")
    there, here = backend.convert_from_nx(directed), backend.convert_from_nx(simple)
    for name, graph, given in (
        ("weakly_connected_components", directed, there),
        ("strongly_connected_components", directed, there),
        ("connected_components", simple, here),
    ):
        assert as_sets(getattr(backend, name)(given)) == as_sets(getattr(networkx, name)(graph))
    assert backend.triangles(here) == networkx.triangles(simple)
    assert backend.core_number(here) == networkx.core_number(simple)
    for graph, given in ((directed, there), (simple, here)):
        for normalized in (True, False):
            known = networkx.betweenness_centrality(graph, normalized=normalized)
            assert backend.betweenness_centrality(given, normalized=normalized) == pytest.approx(known)
    assert as_sets(backend.louvain_communities(here, seed=1)) == as_sets(
        networkx.community.louvain_communities(simple, weight=None, seed=1)
    )


@pytest.mark.parametrize("name", backend._LEFT)
def test_what_is_not_computed_here_is_left_to_networkx(name: str) -> None:
    assert backend.can_run(name, (1,), {}) is True
    for parameter in backend._LEFT[name]:
        assert backend.can_run(name, (1,), {parameter: "given"}) == f"{parameter} is left to networkx"
    assert "personalization" in str(backend.can_run("pagerank", (1, 0.85, {}, 100), {}))


@pytest.fixture
def installed() -> Iterator[None]:
    if not any(each.name == "omnigraph" for each in entry_points(group=GROUP)):
        pytest.skip("installed before the entry point was declared")
    # It warns whenever it takes a converted graph from its cache.
    with networkx.config(cache_converted_graphs=False):
        yield


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("kind", [networkx.Graph, networkx.DiGraph, networkx.MultiGraph, networkx.MultiDiGraph])
def test_networkx_calls_the_algorithms_that_have_seeds(kind: Any) -> None:
    graph = make(kind)
    for given in ({}, {"seed": 1}, {"normalized": False}):
        known = networkx.betweenness_centrality(graph, **given)
        assert networkx.betweenness_centrality(graph, backend="omnigraph", **given) == pytest.approx(known)
    seeded = [networkx.community.louvain_communities(graph, seed=3, backend="omnigraph") for _ in range(2)]
    assert seeded[0] == seeded[1]
    for seed in (None, np.random.RandomState(1), np.random.default_rng(1)):
        found = networkx.community.louvain_communities(graph, seed=seed, backend="omnigraph")
        assert networkx.community.is_partition(graph, found)
        assert networkx.community.modularity(graph, found) > 0
    with pytest.raises(NotImplementedError, match="omnigraph"):
        networkx.betweenness_centrality(graph, k=2, backend="omnigraph")


@pytest.mark.usefixtures("installed")
def test_what_networkx_refuses_is_refused() -> None:
    graph = make(networkx.DiGraph)
    networkx.pagerank(graph, max_iter=30, tol=1e-4, backend="omnigraph")
    for rounds in (0, 1, 3):
        for backend_name in ("networkx", "omnigraph"):
            with pytest.raises(networkx.PowerIterationFailedConvergence):
                networkx.pagerank(graph, max_iter=rounds, tol=1e-9, backend=backend_name)
    assert networkx.pagerank(networkx.Graph(), max_iter=0, backend="omnigraph") == {}
    unknown = networkx.DiGraph([("a", "b", {"weight": None})])
    with pytest.raises(networkx.PowerIterationFailedConvergence):
        networkx.pagerank(unknown, backend="omnigraph")
    with pytest.raises(networkx.NetworkXNotImplemented, match="self loops"):
        networkx.core_number(make(networkx.Graph), backend="omnigraph")


@pytest.mark.usefixtures("installed")
def test_cores_of_directed_graphs_are_left_to_networkx() -> None:
    pair = networkx.DiGraph([("a", "b"), ("b", "a")])
    assert backend.can_run("core_number", (pair,), {}) == "a directed graph is left to networkx"
    with networkx.config(backend_priority=["omnigraph"]):
        assert networkx.core_number(pair) == {"a": 2, "b": 2}
        assert networkx.core_number(pair.to_undirected()) == {"a": 1, "b": 1}


@pytest.mark.usefixtures("installed")
def test_nodes_may_be_anything() -> None:
    graph = networkx.MultiDiGraph()
    graph.add_edge(1, ("a", 2), weight=2.5)
    graph.add_edge(1, ("a", 2))
    graph.add_edge(frozenset({1}), 1.5, weight=0)
    graph.add_edge("\u540d", 1)
    found = networkx.pagerank(graph, tol=1e-12, backend="omnigraph")
    assert found == pytest.approx(networkx.pagerank(graph, tol=1e-12), abs=1e-9)


@pytest.mark.usefixtures("installed")
def test_networkx_finds_the_backend_by_an_entry_point() -> None:
    declared = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))
    assert declared["project"]["entry-points"][GROUP] == {"omnigraph": backend.__name__}
    graph = make(networkx.DiGraph)
    assert networkx.pagerank(graph, backend="omnigraph") == pytest.approx(networkx.pagerank(graph), abs=1e-5)
    with pytest.raises(NotImplementedError, match="omnigraph"):
        networkx.pagerank(graph, dangling={"a": 1}, backend="omnigraph")
    assert as_sets(networkx.weakly_connected_components(graph, backend="omnigraph")) == as_sets(
        networkx.weakly_connected_components(graph)
    )
