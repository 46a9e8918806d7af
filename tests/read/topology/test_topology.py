"""Arrays of edges in the cache: built once, and corrected for the rows that commits remove and add."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import StorageError
from omnigraph.graph import Graph
from omnigraph.language.query.typed_tree import EdgeStep, TraversalDirection
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames import QueryTables, version_delta
from omnigraph.read.frames.cache import Cache
from omnigraph.read.topology import edge_ends
from omnigraph.read.topology.adjacency import Neighbourhood, are_neighbours, count_hops, find_edges, find_neighbours
from omnigraph.read.topology.corrected_adjacency import is_step_loaded, load_steps
from omnigraph.read.topology.current_topology import open_topology
from omnigraph.read.topology.extended_adjacency import ExtendedAdjacency
from omnigraph.storage import tables
from omnigraph.storage.columns import to_list
from tests.deleting import delete_where
from tests.graphs import rows_of
from tests.read.walked_graphs import Links, Scans, new_graph, people, random_graph
from tests.selection import sized

Step = tuple[str, str, str]
BUDGET = 2**30


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return random_graph(tmp_path, 5)


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> Scans:
    return Scans(monkeypatch)


def query_tables(graph: Graph, cache: Cache, snapshot: Snapshot | None = None) -> QueryTables:
    return QueryTables(snapshot or graph.snapshot(), graph.schema.catalog, cache)


def arrays(
    graph: Graph, cache: Cache, direction: TraversalDirection = TraversalDirection.OUT, edge: str = "Knows"
) -> Neighbourhood:
    return load_steps([EdgeStep(edge, direction)], query_tables(graph, cache), distinct=False)


def steps_in(graph: Graph, cache: Cache, direction: TraversalDirection = TraversalDirection.OUT) -> list[Step]:
    """What arrays say, in ids of nodes and edges."""
    opened = query_tables(graph, cache)
    found = load_steps([EdgeStep("Knows", direction)], opened, distinct=False)
    topology = open_topology(graph.schema.catalog.edges["Knows"], opened)
    people, every = topology.sources, topology.sources.all_positions()
    rows, ends, edges = find_edges(found, every)
    columns = [people.take_ids(every[rows]), people.take_ids(ends), topology.edges.take_ids(edges)]
    return sorted(zip(*(map(str, each.to_pylist()) for each in columns), strict=True))


def steps_of(graph: Graph, direction: TraversalDirection = TraversalDirection.OUT) -> list[Step]:
    rows = [(str(row["src"]), str(row["dst"]), str(row["id"])) for row in rows_of(graph, "Knows")]
    back = [(end, begin, edge) for begin, end, edge in rows]
    match direction:
        case TraversalDirection.OUT:
            return sorted(rows)
        case TraversalDirection.IN:
            return sorted(back)
        case TraversalDirection.BOTH:
            return sorted([*rows, *(step for step in back if step[0] != step[1])])


def test_arrays_are_built_once_and_every_direction_from_the_same_rows(graph: Graph, scans: Scans) -> None:
    cache = Cache(BUDGET)
    found = arrays(graph, cache)
    assert scans.taken() == [33, 12]
    assert arrays(graph, cache) is found
    for direction in TraversalDirection:
        arrays(graph, cache, direction)
    assert scans.taken() == []
    assert steps_in(graph, cache) == steps_of(graph)


def test_whether_arrays_are_there(graph: Graph, scans: Scans) -> None:
    cache = Cache(BUDGET)

    def is_there(direction: TraversalDirection, edge: str = "Knows") -> bool:
        return is_step_loaded(EdgeStep(edge, direction), query_tables(graph, cache), distinct=True)

    def look() -> tuple[bool, ...]:
        return (
            is_there(TraversalDirection.OUT),
            is_there(TraversalDirection.IN),
            is_there(TraversalDirection.OUT, "LivesIn"),
        )

    assert not is_there(TraversalDirection.OUT)
    arrays(graph, cache, TraversalDirection.IN)
    assert look() == (True, True, False)
    graph.load(nodes={"Person": people(["q0"])}, edges={"Knows": Links([("q0", "p1")]).table()})
    scans.taken()
    assert look() == (True, True, False)
    assert scans.taken() == []


def test_added_edges_and_nodes_are_read_alone(graph: Graph, scans: Scans) -> None:
    cache = Cache(BUDGET)
    arrays(graph, cache)
    graph.load(nodes={"Person": people(["q0", "q1"])}, edges={"Knows": Links([("q0", "p1"), ("p1", "q1")]).table()})
    scans.taken()
    arrays(graph, cache)
    assert sorted(scans.taken()) == [2, 2]
    assert steps_in(graph, cache) == steps_of(graph)


def test_added_nodes_alone_need_no_edge_to_be_read(graph: Graph, scans: Scans) -> None:
    cache = Cache(BUDGET)
    before = arrays(graph, cache)
    graph.load(nodes={"Person": people(["q0"])})
    scans.taken()
    found = arrays(graph, cache)
    assert scans.taken() == []
    assert (before.num_nodes, found.num_nodes, found.num_neighbours) == (12, 13, 13)
    assert steps_in(graph, cache) == steps_of(graph)


ONE_ROW: dict[str, tuple[str, list[int]]] = {
    "update a node": ('update Person set { age: 99 } where name = "p1"', [1]),
    "delete edges": ('delete Knows where from = "p1"', []),
    "delete a node with its edges": ('delete Person where name = "p1"', []),
    "insert a node": ('insert Person { name: "q0" }', []),
    "insert an edge": ('insert Knows { from: "p1", to: "p11" }', [1]),
    "update an edge": ('match { $a: Person { name: "p11" } $a $e:knows $b } update $e set { since: 7 }', [1]),
    "insert both": ('insert Person { name: "q0" } insert Knows { from: "q0", to: "p1" }', [1, 1]),
}


@pytest.mark.parametrize(("text", "rows_read"), ONE_ROW.values(), ids=ONE_ROW.keys())
@pytest.mark.parametrize("branch", ["main", "side"])
def test_a_small_commit_costs_the_rows_that_it_wrote(
    graph: Graph, scans: Scans, text: str, rows_read: list[int], branch: str
) -> None:
    cache = Cache(BUDGET)
    graph.load(edges={"Knows": Links([("p11", "p2")]).table()})
    arrays(graph, cache)
    graph.create_branch("side")
    graph.mutate(f"query small() {{ {text} }}", branch=branch)
    scans.taken()
    opened = query_tables(graph, cache, graph.snapshot(branch))
    for direction in TraversalDirection:
        assert isinstance(load_steps([EdgeStep("Knows", direction)], opened, distinct=False), ExtendedAdjacency)
    assert scans.taken() == rows_read


def test_a_node_that_went_without_its_edges_is_an_error(graph: Graph) -> None:
    cache, now = Cache(BUDGET), graph.snapshot()
    table = now.table("Person")
    staged = delete_where(table, "id = 'p1'")
    assert staged is not None
    moved = replace(now.pins["node:Person"], version=tables.commit(table, staged, "op").version)
    torn = query_tables(graph, cache, replace(now, pins={**now.pins, "node:Person": moved}))
    with pytest.raises(StorageError, match="edges of 'Knows' have a src that is not in node:Person, for example 'p1'"):
        load_steps([EdgeStep("Knows", TraversalDirection.OUT)], torn, distinct=False)


def test_many_changes_make_it_read_anew(graph: Graph, scans: Scans, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_delta, "_FEW_CHANGES", 2)
    cache = Cache(BUDGET)
    arrays(graph, cache)
    graph.mutate('query apart() { delete Knows where from = "p1" }')
    left = len(steps_of(graph))
    assert 0 < left < 31
    scans.taken()
    assert not isinstance(arrays(graph, cache), ExtendedAdjacency)
    assert scans.taken() == [left]
    assert steps_in(graph, cache) == steps_of(graph)


def test_without_a_budget_everything_is_read_every_time(graph: Graph, scans: Scans) -> None:
    cache = Cache(0)
    arrays(graph, cache)
    scans.taken()
    arrays(graph, cache)
    # Both ends ask for the ids at once; where one waits for the other they are read once.
    assert set(scans.taken()) == {33, 12}
    assert cache.all_keys() == ()
    assert steps_in(graph, cache) == steps_of(graph)


def test_edges_are_read_in_blocks(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_ends, "_EDGES_PER_BLOCK", 1)
    for _ in range(3):
        graph.load(edges={"Knows": Links([("p1", "p2"), ("p3", "p1")]).table()})
    assert steps_in(graph, Cache(BUDGET)) == steps_of(graph)


def test_threads_share_one_build(graph: Graph, scans: Scans) -> None:
    cache, snapshot = Cache(BUDGET), graph.snapshot()

    def ask(number: int) -> Neighbourhood:
        step = EdgeStep("Knows", list(TraversalDirection)[number % 3])
        return load_steps([step], query_tables(graph, cache, snapshot), distinct=True)

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


@pytest.mark.costly
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
                links = Links([(begin, end), (end, begin)][: 1 + one % 2]).table()
                graph.load(edges={"Knows" if other % 3 else "Likes": links})
            case "person":
                pass
            case _:
                graph.mutate(MUTATIONS[kind], params={"who": begin})
        for direction in TraversalDirection:
            assert steps_in(graph, cache, direction) == steps_of(graph, direction)
        check_operations(graph, cache)


def check_operations(graph: Graph, cache: Cache) -> None:
    """All that walks ask of arrays, kept and fresh, by the ids of nodes."""
    for steps in (["Knows"], ["Likes"], ["Knows", "Likes"]):
        for direction in TraversalDirection:
            found = [
                operations(graph, each, [EdgeStep(name, direction) for name in steps])
                for each in (cache, Cache(BUDGET))
            ]
            assert found[0] == found[1]


def operations(graph: Graph, cache: Cache, steps: Sequence[EdgeStep]) -> dict[str, object]:
    opened = query_tables(graph, cache)
    nodes = open_topology(graph.schema.catalog.edges["Knows"], opened).sources
    positions = nodes.all_positions()
    names = [str(name) for name in nodes.take_ids(positions).to_pylist()]
    order = np.argsort(np.array(names, object))
    sorted_positions, sorted_names = positions[order], sorted(names)
    found = load_steps(steps, opened, distinct=True)
    rows, ends = find_neighbours(found, sorted_positions)
    weights = np.zeros(found.num_nodes, np.int64)
    weights[sorted_positions] = 1 + np.arange(len(names))
    pairs = [each.ravel() for each in np.meshgrid(sorted_positions, sorted_positions)]
    assert found.num_hops == found.degrees().sum() == len(rows)
    assert (found.num_nodes, found.num_neighbours) == (len(nodes), len(nodes))
    assert (np.diff(ends)[np.diff(rows) == 0] > 0).all()
    return {
        "names": sorted_names,
        "ranks": np.argsort(nodes.rank_ids()[sorted_positions]).tolist(),
        "located": (nodes.locate(nodes.take_ids(sorted_positions)) == sorted_positions).all(),
        "hops": sorted(zip(rows.tolist(), nodes.take_ids(ends).to_pylist(), strict=True)),
        "degrees": found.degrees()[sorted_positions].tolist(),
        "counts": count_hops(found, sorted_positions).tolist(),
        "received": found.propagate(weights)[sorted_positions].tolist(),
        "pairs": are_neighbours(found, *pairs).tolist(),
        "ages": to_list(nodes.take_values("age", sorted_positions)),
    }
