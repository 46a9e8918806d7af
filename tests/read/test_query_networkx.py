"""Facts about random graphs, as queries tell them and as networkx does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt
import pytest

from omnigraph.graph import Graph
from omnigraph.read.frames import Strategy
from omnigraph.read.frames.cache import shared_cache
from omnigraph.read.match import counting
from omnigraph.read.match import expand as expanding
from omnigraph.read.query import QueryOptions, QueryRequest, run_query
from tests.read.walked_graphs import Links, new_graph, people

SIZE = 24


class Nodes(Protocol):
    """A graph of networkx, as far as it is looked at here."""

    def to_undirected(self) -> Nodes: ...


class Networkx(Protocol):
    """What is used of networkx, which has no types."""

    def MultiDiGraph(self, edges: Iterable[tuple[str, str]]) -> Nodes: ...  # noqa: N802  its name there
    def Graph(self, graph: Nodes) -> Nodes: ...  # noqa: N802  its name there
    def shortest_path_length(self, graph: Nodes) -> Iterable[tuple[str, Mapping[str, int]]]: ...
    def connected_components(self, graph: Nodes) -> Iterable[set[str]]: ...
    def triangles(self, graph: Nodes) -> Mapping[str, int]: ...
    def to_numpy_array(self, graph: Nodes, nodelist: list[str]) -> npt.NDArray[np.float64]: ...


networkx = cast("Networkx", pytest.importorskip("networkx"))
NAMES = [f"p{number}" for number in range(SIZE)]


@pytest.fixture(scope="module", params=[1, 3])
def pairs(request: pytest.FixtureRequest) -> list[tuple[str, str]]:
    """Parallel edges, no loops, and some people who know nobody."""
    seed = cast(int, request.param)
    ends = np.random.default_rng(seed).integers(0, SIZE - 2, (20 * seed, 2)).tolist()
    return [(NAMES[one], NAMES[other]) for one, other in ends if one != other]


@pytest.fixture(scope="module")
def graph(pairs: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Graph:
    made = new_graph(tmp_path_factory.mktemp("networkx"))
    made.load(nodes={"Person": people(NAMES)}, edges={"Knows": Links([*pairs, *pairs[:5]]).table()})
    return made


@pytest.fixture
def known(pairs: list[tuple[str, str]]) -> Nodes:
    return networkx.MultiDiGraph([*pairs, *pairs[:5]])


@pytest.fixture(params=[*Strategy, "every row worth counting"])
def strategy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Strategy:
    shared_cache().clear()
    if isinstance(request.param, Strategy):
        return request.param
    monkeypatch.setattr(counting, "_WORTH_COLLAPSING", 1)
    monkeypatch.setattr(expanding, "_WORTH_PROPAGATING", 1)
    monkeypatch.setattr(expanding, "_MANY_HOPS", 2**40)
    return Strategy.ARRAYS


def asked(graph: Graph, strategy: Strategy, match: str, columns: str) -> list[tuple[object, ...]]:
    question = QueryRequest(f"query q() {{ match {{ {match} }} return {{ {columns} }} }}")
    rows = run_query(graph._manifest, question, "main", options=QueryOptions(strategy=strategy)).rows
    return sorted(cast("list[tuple[str, ...]]", [tuple(row.values()) for row in rows]))


@pytest.mark.parametrize(("minimum", "maximum"), [(1, 1), (1, 2), (2, 2), (1, 4), (3, 5), (1, SIZE)])
@pytest.mark.parametrize("edge", ["knows", "<knows>"])
def test_neighbourhoods(graph: Graph, known: Nodes, strategy: Strategy, edge: str, minimum: int, maximum: int) -> None:
    far = networkx.shortest_path_length(known if edge == "knows" else known.to_undirected())
    expected = [(one, other) for one, ends in far for other, hops in ends.items() if minimum <= hops <= maximum]
    match = f"$a: Person  $a {edge}{{{minimum},{maximum}}} $b"
    assert asked(graph, strategy, match, "$a, $b") == sorted(expected)
    assert asked(graph, strategy, match, "count($b) as n") == [(len(expected),)]


@pytest.mark.parametrize("hops", [1, 2, 3, 6])
def test_counts_of_walks(graph: Graph, known: Nodes, strategy: Strategy, hops: int) -> None:
    """A step without an edge variable counts neighbours, one with it counts edges: powers of the adjacency matrix."""
    edges = networkx.to_numpy_array(known, [name for name in NAMES if name in _linked(known)])
    for step, matrix in (("$a{} knows $a{}", edges > 0), ("$a{} $e{}:knows $a{}", edges)):
        walks = np.linalg.matrix_power(matrix.astype(np.int64), hops)
        match = " ".join(
            step.format(*((hop, hop + 1) if "$e" not in step else (hop, hop, hop + 1))) for hop in range(hops)
        )
        assert asked(graph, strategy, match, f"count($a{hops}) as n") == [(int(walks.sum()),)]
        ends = asked(graph, strategy, match, f"$a{hops}, count($a0) as n")
        assert sorted(cast("list[int]", [number for _, number in ends])) == sorted(walks.sum(0)[walks.sum(0) > 0])


def _linked(known: Nodes) -> set[str]:
    return set[str]().union(*networkx.connected_components(known.to_undirected()))


def test_components(graph: Graph, known: Nodes, strategy: Strategy) -> None:
    rows = asked(graph, strategy, f"$a: Person  $a <knows>{{1,{SIZE}}} $b", "$a, $b")
    parts = {name: {name} for name in NAMES}
    for one, other in cast("list[tuple[str, str]]", rows):
        parts[one].add(other)
    components = [*networkx.connected_components(known.to_undirected())]
    alone = [{name} for name in NAMES if name not in _linked(known)]
    assert {frozenset(part) for part in parts.values()} == {frozenset(part) for part in [*components, *alone]}


def test_triangles(graph: Graph, known: Nodes, strategy: Strategy) -> None:
    around = "$a <knows> $b  $b <knows> $c  $c <knows> $a"
    triangles = sum(networkx.triangles(networkx.Graph(known.to_undirected())).values()) // 3
    assert asked(graph, strategy, around, "count($a) as n") == [(6 * triangles,)]
    edges = networkx.to_numpy_array(known, sorted(_linked(known))) > 0
    rings = int(np.trace(np.linalg.matrix_power(edges.astype(np.int64), 3)))
    assert asked(graph, strategy, around.replace("<", "").replace(">", ""), "count($a) as n") == [(rings,)]
