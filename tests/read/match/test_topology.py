"""Arrays of edges in the cache: built once, extended when rows were added, and made anew when rows went."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import StorageError
from omnigraph.graph import Graph
from omnigraph.language.query.typed_tree import TraversalDirection
from omnigraph.read.frames.cache import Cache
from omnigraph.read.match import topology
from omnigraph.read.match.topology import Adjacency, find_edges, is_adjacency_loaded, load_adjacency
from omnigraph.storage import table_writes as tables
from tests.deleting import delete_where
from tests.graphs import rows_of
from tests.read.match.walked_graphs import Links, Scans, new_graph, people, random_graph
from tests.selection import sized

Step = tuple[str, str, str]
BUDGET = 2**30


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return random_graph(tmp_path, 5)


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> Scans:
    return Scans(monkeypatch)


def arrays(
    graph: Graph, cache: Cache, direction: TraversalDirection = TraversalDirection.OUT, edge: str = "Knows"
) -> Adjacency:
    catalog = graph.schema.catalog
    return load_adjacency(
        graph.snapshot(), catalog.edges[edge], direction, distinct=False, catalog=catalog, cache=cache
    )


def steps_in(found: Adjacency, graph: Graph) -> list[Step]:
    """What arrays say, in ids of nodes and edges."""
    names = [str(row["id"]) for row in rows_of(graph, "Person")]
    edges = [str(row["id"]) for row in rows_of(graph, "Knows")]
    begins, ends, by = find_edges(found, np.arange(found.num_nodes))
    steps = zip(begins, ends, by, strict=True)
    return sorted((names[int(begin)], names[int(end)], edges[int(edge)]) for begin, end, edge in steps)


def steps_of(graph: Graph) -> list[Step]:
    return sorted((str(row["src"]), str(row["dst"]), str(row["id"])) for row in rows_of(graph, "Knows"))


def test_arrays_are_built_once_and_every_direction_from_the_same_rows(graph: Graph, scans: Scans) -> None:
    cache = Cache(BUDGET)
    found = arrays(graph, cache)
    assert scans.taken() == [33, 12]
    assert arrays(graph, cache) is found
    for direction in TraversalDirection:
        arrays(graph, cache, direction)
    assert scans.taken() == []
    assert steps_in(found, graph) == steps_of(graph)


def test_whether_arrays_are_there(graph: Graph) -> None:
    cache, catalog, now = Cache(BUDGET), graph.schema.catalog, graph.snapshot()

    def is_there(direction: TraversalDirection, edge: str = "Knows") -> bool:
        return is_adjacency_loaded(now, catalog.edges[edge], direction, distinct=True, catalog=catalog, cache=cache)

    assert not is_there(TraversalDirection.OUT)
    arrays(graph, cache, TraversalDirection.IN)
    assert (
        is_there(TraversalDirection.OUT),
        is_there(TraversalDirection.IN),
        is_there(TraversalDirection.OUT, "LivesIn"),
    ) == (True, True, False)


def test_added_edges_and_nodes_are_read_alone(graph: Graph, scans: Scans) -> None:
    cache = Cache(BUDGET)
    arrays(graph, cache)
    graph.load(nodes={"Person": people(["q0", "q1"])}, edges={"Knows": Links([("q0", "p1"), ("p1", "q1")]).table()})
    scans.taken()
    found = arrays(graph, cache)
    assert sorted(scans.taken()) == [2, 2]
    assert steps_in(found, graph) == steps_of(graph)


def test_added_nodes_alone_need_no_edge_to_be_read(graph: Graph, scans: Scans) -> None:
    cache = Cache(BUDGET)
    before = arrays(graph, cache)
    graph.load(nodes={"Person": people(["q0"])})
    scans.taken()
    found = arrays(graph, cache)
    assert scans.taken() == []
    assert (before.num_nodes, found.num_nodes, found.num_neighbours) == (12, 13, 13)
    assert steps_in(found, graph) == steps_of(graph)


def test_nodes_that_moved_are_found_again_without_reading_edges(graph: Graph, scans: Scans) -> None:
    cache = Cache(BUDGET)
    arrays(graph, cache)
    graph.mutate('query older() { update Person set { age: 99 } where name = "p1" }')
    scans.taken()
    found = arrays(graph, cache)
    assert scans.taken() == [12]
    assert steps_in(found, graph) == steps_of(graph)


def test_a_node_that_went_without_its_edges_is_an_error(graph: Graph) -> None:
    cache, catalog, now = Cache(BUDGET), graph.schema.catalog, graph.snapshot()
    arrays(graph, cache)
    table = now.table("Person")
    staged = delete_where(table, "id = 'p1'")
    assert staged is not None
    moved = replace(now.pins["node:Person"], version=tables.commit(table, staged, "op").version)
    torn = replace(now, pins={**now.pins, "node:Person": moved})
    with pytest.raises(StorageError, match="not in node:Person, for example 'p1'"):
        load_adjacency(
            torn, catalog.edges["Knows"], TraversalDirection.OUT, distinct=False, catalog=catalog, cache=cache
        )


def test_edges_that_went_make_it_read_anew(graph: Graph, scans: Scans) -> None:
    cache = Cache(BUDGET)
    arrays(graph, cache)
    graph.mutate('query apart() { delete Knows where from = "p1" }')
    left = len(steps_of(graph))
    assert 0 < left < 33
    scans.taken()
    found = arrays(graph, cache)
    assert scans.taken() == [left]
    assert steps_in(found, graph) == steps_of(graph)


def test_without_a_budget_everything_is_read_every_time(graph: Graph, scans: Scans) -> None:
    cache = Cache(0)
    arrays(graph, cache)
    scans.taken()
    found = arrays(graph, cache)
    # Both ends ask for the ids at once; where one waits for the other they are read once.
    assert set(scans.taken()) == {33, 12}
    assert cache.all_keys() == ()
    assert steps_in(found, graph) == steps_of(graph)


def test_edges_are_read_in_blocks(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "_EDGES_PER_BLOCK", 1)
    for _ in range(3):
        graph.load(edges={"Knows": Links([("p1", "p2"), ("p3", "p1")]).table()})
    assert steps_in(arrays(graph, Cache(BUDGET)), graph) == steps_of(graph)


def test_threads_share_one_build(graph: Graph, scans: Scans) -> None:
    cache, snapshot, catalog = Cache(BUDGET), graph.snapshot(), graph.schema.catalog

    def ask(number: int) -> Adjacency:
        direction = list(TraversalDirection)[number % 3]
        edge = catalog.edges["Knows"]
        return load_adjacency(snapshot, edge, direction, distinct=True, catalog=catalog, cache=cache)

    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(ask, range(18)))
    assert len({id(each) for each in found}) == 3
    assert sorted(scans.taken()) == [12, 33]


MUTATIONS = {
    "update": "query q($who: String) { update Person set { age: 5 } where name = $who }",
    "leave": "query q($who: String) { delete Person where name = $who }",
    "apart": "query q($who: String) { delete Knows where from = $who }",
}
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["person", "edge", "edge", "edge", "both", "update", "leave", "apart"]),
        st.integers(0, 40),
        st.integers(0, 40),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=sized(6, 100))
@given(CHANGES)
def test_any_history_gives_what_a_fresh_build_gives(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, int, int]]
) -> None:
    graph, cache = new_graph(tmp_path_factory.mktemp("history")), Cache(BUDGET)
    graph.load(nodes={"Person": people(["n0", "n1"])}, edges={"Knows": Links([("n0", "n1")]).table()})
    next_name = 2
    for kind, one, other in changes:
        names = sorted(str(row["id"]) for row in rows_of(graph, "Person"))
        if kind in ("person", "both") or not names:
            graph.load(nodes={"Person": people([f"n{next_name}"])})
            names, next_name = [*names, f"n{next_name}"], next_name + 1
        begin, end = names[one % len(names)], names[other % len(names)]
        match kind:
            case "edge" | "both":
                graph.load(edges={"Knows": Links([(begin, end), (end, begin)][: 1 + one % 2]).table()})
            case "person":
                pass
            case _:
                graph.mutate(MUTATIONS[kind], params={"who": begin})
        for direction in TraversalDirection:
            kept, fresh = arrays(graph, cache, direction), arrays(graph, Cache(BUDGET), direction)
            assert kept.edges is not None
            assert fresh.edges is not None
            assert kept.indptr.tolist() == fresh.indptr.tolist()
            assert kept.neighbours.tolist() == fresh.neighbours.tolist()
            assert kept.edges.tolist() == fresh.edges.tolist()
        assert steps_in(arrays(graph, cache), graph) == steps_of(graph)
