"""The operators that follow edges: arrays and lookups find the same rows as the plain evaluator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import islice, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.errors import StorageError
from omnigraph.graph import Graph
from omnigraph.language.query.plan.operators import Connect, ConnectEdges, Cross, Expand, ExpandEdges, NodeScan, WalkEnd
from omnigraph.language.query.typed_tree import EdgeStep, TraversalDirection
from omnigraph.read.frames import entity_sets
from omnigraph.read.frames.cache import Cache
from omnigraph.read.frames.entity_sets import PartialTable
from omnigraph.read.frames.frame import EntityColumn, EntitySet, Frame, Mask, Positions
from omnigraph.read.frames.query_tables import QueryTables, Strategy
from omnigraph.read.match import bound_pairs, walk_context
from omnigraph.read.match import strategy as strategies
from omnigraph.read.match.bound_pairs import make_edge_finder
from omnigraph.read.match.expand import (
    EntityFilter,
    connect,
    connect_edges,
    connect_paths,
    expand,
    expand_edges,
    expand_paths,
)
from omnigraph.read.match.strategy import EdgeSizes, choose_strategy, edge_walk_of, estimate_lookup
from omnigraph.read.match.walk_context import load_walk_context
from omnigraph.storage.columns import Values, to_list
from omnigraph.storage.tables import writes
from tests.language.query.plan import plan_evaluator
from tests.read.walked_graphs import Links, ample_memory, evaluated, ids_of, new_graph, people, random_graph
from tests.selection import LARGE, daily, sized

Operator = Expand | ExpandEdges | Connect | ConnectEdges
PEOPLE, CITIES = NodeScan("a", "Person", ()), NodeScan("a", "City", ())
PAIRS = Cross(PEOPLE, NodeScan("b", "Person", ()))
HOMES = Cross(PEOPLE, NodeScan("b", "City", ()))
STRATEGIES = pytest.mark.parametrize("strategy", list(Strategy))


def operators() -> Iterator[Operator]:
    """Every operator in every direction, near and far."""
    hops = [(1, 1), (1, 2), (2, 2), (1, 4), (2, 3), (3, 5), (2, 1), (0, 1), (2, None), (0, None)]
    for left, (least, most) in product(WalkEnd, hops):
        both = (EdgeStep("Knows", TraversalDirection.IN), EdgeStep("Likes", TraversalDirection.OUT))
        yield Expand(PEOPLE, "a", both, "b", "Person", least, most, (), left)
        yield Connect(PAIRS, "a", both, "b", least, most, left)
        yield Expand(PEOPLE, "a", both, "b", "Person", least, most, (), left, "w")
        yield Connect(PAIRS, "a", both, "b", least, most, left, "w")
    for left in WalkEnd:
        lives = (EdgeStep("LivesIn", TraversalDirection.OUT),)
        yield Expand(PEOPLE, "a", lives, "b", "City", 1, 1, (), left, "w")
        yield Connect(HOMES, "a", lives, "b", 1, 1, left, "w")
    for direction, (least, most) in product(TraversalDirection, hops):
        yield Expand(PEOPLE, "a", (EdgeStep("Knows", direction),), "b", "Person", least, most, ())
        yield Connect(PAIRS, "a", (EdgeStep("Knows", direction),), "b", least, most)
    for direction in TraversalDirection:
        yield ExpandEdges(PEOPLE, "a", "Knows", direction, "e", (), "b", "Person", ())
        yield ConnectEdges(PAIRS, "a", "Knows", direction, "e", (), "b")
    for least in (1, 2):
        yield Expand(PEOPLE, "a", (EdgeStep("LivesIn", TraversalDirection.OUT),), "b", "City", least, 1, ())
        yield Expand(CITIES, "a", (EdgeStep("LivesIn", TraversalDirection.IN),), "b", "Person", least, 1, ())
    yield ExpandEdges(PEOPLE, "a", "LivesIn", TraversalDirection.OUT, "e", (), "b", "City", ())
    yield ExpandEdges(CITIES, "a", "LivesIn", TraversalDirection.IN, "e", (), "b", "Person", ())
    yield Connect(HOMES, "a", (EdgeStep("LivesIn", TraversalDirection.OUT),), "b", 1, 1)
    yield ConnectEdges(HOMES, "b", "LivesIn", TraversalDirection.IN, "e", (), "a")


def execute(frame: Frame, plan: Operator, tables: QueryTables, entity_filter: EntityFilter | None = None) -> Frame:
    memory = ample_memory()
    edges = load_walk_context(frame.bindings[plan.source], edge_walk_of(plan), tables)
    match plan:
        case Expand(path=str()):
            return expand_paths(frame, plan, edges, make_edge_finder(plan, tables), memory, entity_filter)
        case Expand():
            return expand(frame, plan, edges, memory, entity_filter)
        case Connect(path=str()):
            return connect_paths(frame, plan, edges, tables, memory)
        case ExpandEdges():
            return expand_edges(frame, plan, edges, memory, entity_filter)
        case Connect():
            return connect(frame, plan, edges, tables, memory)
        case ConnectEdges():
            return connect_edges(frame, plan, edges, memory, entity_filter)


def open_tables(graph: Graph, strategy: Strategy, kept: Cache | None = None) -> QueryTables:
    return QueryTables(graph.snapshot(), graph.schema.catalog, kept or Cache(2**30), strategy)


def scan(plan: NodeScan | Cross, tables: QueryTables, *, partial: bool = False) -> Frame:
    """All nodes that scans find, or all pairs of them."""
    if isinstance(plan, Cross):
        assert isinstance(plan.left, NodeScan)
        assert isinstance(plan.right, NodeScan)
        left, right = scan(plan.left, tables, partial=partial), scan(plan.right, tables, partial=not partial)
        one, other = np.divmod(np.arange(left.num_rows * right.num_rows), right.num_rows)
        return Frame(len(one), {**left.take(one).bindings, **right.take(other).bindings})
    type_ = tables.catalog.nodes[plan.node_type]
    whole = tables.full_table_of(type_)
    every = np.arange(len(whole))
    if not partial:
        return Frame(len(whole), {plan.variable: EntityColumn(whole, every)})
    rows = PartialTable(tables.snapshot.table(type_.table_key), type_)
    # In another order than in the table, so that no position can be taken for another by chance.
    positions = rows.intern(pa.table({"id": whole.take_ids(every[::-1])}))
    return Frame(len(whole), {plan.variable: EntityColumn(rows, positions)})


@cache
def plain(graph: Graph, manifest_version: int) -> plan_evaluator.Graph:
    """A graph at its newest version, read once."""
    assert graph.snapshot().manifest_version == manifest_version
    return evaluated(graph)


def expected(plan: Operator, graph: Graph) -> list[tuple[tuple[str, object], ...]]:
    return evaluate(plan, graph, graph.snapshot().manifest_version)


@cache
def evaluate(plan: Operator, graph: Graph, manifest_version: int) -> list[tuple[tuple[str, object], ...]]:
    """What a plan means, worked out once for all the ways to execute it."""
    rows = plan_evaluator.match_rows(plan, plain(graph, manifest_version))
    return sorted(tuple(sorted((name, _identity(entity)) for name, entity in row.items())) for row in rows)


def _identity(found: object) -> object:
    if isinstance(found, plan_evaluator.Path):
        return found.nodes, found.edges
    assert isinstance(found, plan_evaluator.Entity)
    return found.id


@pytest.fixture(scope="module", params=[1, pytest.param(2, marks=pytest.mark.slow)])
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """A random graph that nobody writes to."""
    return random_graph(tmp_path_factory.mktemp("walked"), request.param)


@pytest.mark.costly
@STRATEGIES
@pytest.mark.parametrize("partial", [False, True], ids=["full tables", "partial tables"])
def test_every_operator_finds_what_the_plan_says(graph: Graph, strategy: Strategy, partial: bool) -> None:
    found = 0
    # By day, every operator with the two ways to find edges; where they are combined with others, every third one.
    every = sized(3, 1) if partial or strategy is Strategy.AUTO else 1
    for plan in islice(operators(), None, None, every):
        assert isinstance(plan.input, NodeScan | Cross)
        tables = open_tables(graph, strategy)
        frame = execute(scan(plan.input, tables, partial=partial), plan, tables)
        assert ids_of(frame) == expected(plan, graph), plan
        found += frame.num_rows
    assert found > 1_000


@pytest.mark.costly
def test_walks_that_meet_find_what_one_walk_finds(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bound_pairs, "_MANY_EDGES", 0)
    monkeypatch.setattr(bound_pairs, "_FEW_PAIRS", 1_000)
    found = 0
    for plan in operators():
        if isinstance(plan, Connect):
            assert isinstance(plan.input, Cross)
            tables = open_tables(graph, Strategy.ARRAYS)
            frame = execute(scan(plan.input, tables, partial=True), plan, tables)
            assert ids_of(frame) == expected(plan, graph), plan
            found += frame.num_rows
    assert found > 1_000


@pytest.mark.costly
def test_lists_of_many_ids_find_each_edge_once(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in (3, 1) if LARGE else (1,):
        monkeypatch.setattr(entity_sets, "MAX_LISTED_VALUES", limit)
        for plan in islice(operators(), None, None, sized(2, 1)):
            assert isinstance(plan.input, NodeScan | Cross)
            tables = open_tables(graph, Strategy.INDEX)
            assert ids_of(execute(scan(plan.input, tables), plan, tables)) == expected(plan, graph), plan


@STRATEGIES
def test_steps_follow_each_other_in_one_query(graph: Graph, strategy: Strategy) -> None:
    first = Expand(PEOPLE, "a", (EdgeStep("Knows", TraversalDirection.OUT),), "b", "Person", 1, 2, ())
    second = ExpandEdges(first, "b", "Knows", TraversalDirection.BOTH, "e", (), "c", "Person", ())
    third = Connect(second, "c", (EdgeStep("Knows", TraversalDirection.IN),), "a", 1, 3)
    fourth = Expand(third, "c", (EdgeStep("LivesIn", TraversalDirection.OUT),), "home", "City", 1, 1, ())
    tables = open_tables(graph, strategy)
    frame = scan(PEOPLE, tables)
    for plan in (first, second, third, fourth):
        frame = execute(frame, plan, tables)
    assert frame.num_rows
    assert ids_of(frame) == expected(fourth, graph)


def test_steps_that_change_their_way_in_between(graph: Graph) -> None:
    first = Expand(PEOPLE, "a", (EdgeStep("Knows", TraversalDirection.OUT),), "b", "Person", 1, 1, ())
    second = Expand(first, "b", (EdgeStep("Knows", TraversalDirection.IN),), "c", "Person", 1, 2, ())
    third = ConnectEdges(second, "c", "Knows", TraversalDirection.OUT, "e", (), "a")
    for strategies_tried in product((Strategy.ARRAYS, Strategy.INDEX), repeat=3):
        kept = Cache(2**30)
        all_tables = [open_tables(graph, strategy, kept) for strategy in strategies_tried]
        frame = scan(PEOPLE, all_tables[0])
        for plan, tables in zip((first, second, third), all_tables, strict=True):
            frame = execute(frame, plan, tables)
        assert ids_of(frame) == expected(third, graph), strategies_tried


@STRATEGIES
def test_only_what_is_kept_is_reached_and_asked_about_once(graph: Graph, strategy: Strategy) -> None:
    asked: list[tuple[str, list[object]]] = []

    def passes(entities: EntitySet, positions: Positions) -> Mask:
        ids = to_list(_texts(entities.take_ids(positions)))
        asked.append((entities.table_key, ids))
        if entities.table_key.startswith("edge:"):
            return np.array([str(id_) > "0" for id_ in ids], np.bool_)
        return np.array([id_ in {"p1", "p2", "p5"} for id_ in ids], np.bool_)

    plan = ExpandEdges(PEOPLE, "a", "Knows", TraversalDirection.OUT, "e", (), "b", "Person", ())
    tables = open_tables(graph, strategy)
    frame = execute(scan(PEOPLE, tables), plan, tables, passes)
    assert ids_of(frame) == [row for row in expected(plan, graph) if dict(row)["b"] in {"p1", "p2", "p5"}]
    assert [key for key, _ in asked] == ["edge:Knows", "node:Person"]
    assert all(len(set(ids)) == len(ids) for _, ids in asked)
    walked = Expand(PEOPLE, "a", (EdgeStep("Knows", TraversalDirection.BOTH),), "b", "Person", 1, 3, ())
    frame = execute(scan(PEOPLE, tables), walked, tables, passes)
    assert ids_of(frame) == [row for row in expected(walked, graph) if dict(row)["b"] in {"p1", "p2", "p5"}]
    between = ConnectEdges(PAIRS, "a", "Knows", TraversalDirection.OUT, "e", (), "b")

    def none(_: EntitySet, positions: Positions) -> Mask:
        return np.zeros(len(positions), np.bool_)

    assert execute(scan(PAIRS, tables), between, tables, none).num_rows == 0


def _texts(ids: pa.StringArray) -> Values:
    return ids.cast(pa.string())


@STRATEGIES
def test_rows_keep_their_weights_and_tags(graph: Graph, strategy: Strategy) -> None:
    plan = Expand(PEOPLE, "a", (EdgeStep("Knows", TraversalDirection.OUT),), "b", "Person", 1, 2, ())
    tables = open_tables(graph, strategy)
    plain = scan(PEOPLE, tables)
    numbers = np.arange(plain.num_rows)
    frame = execute(Frame(plain.num_rows, plain.bindings, weights=numbers + 1, tags=numbers), plan, tables)
    assert frame.tags is not None
    assert frame.weights is not None
    assert frame.tags.tolist() == frame.bindings["a"].positions.tolist()
    assert frame.weights.tolist() == (frame.tags + 1).tolist()


@STRATEGIES
def test_properties_of_what_was_reached(graph: Graph, strategy: Strategy) -> None:
    ages = {row["id"]: row["age"] for row in plan_rows(graph)}
    plan = Expand(PEOPLE, "a", (EdgeStep("Knows", TraversalDirection.OUT),), "b", "Person", 1, 1, ())
    tables = open_tables(graph, strategy)
    found = execute(scan(PEOPLE, tables), plan, tables).bindings["b"]
    assert to_list(found.entities.take_values("age", found.positions)) == [
        ages[id_] for id_ in to_list(_texts(found.entities.take_ids(found.positions)))
    ]
    assert set(to_list(found.entities.take_values("note", found.positions))) == {None}


def plan_rows(graph: Graph) -> list[dict[str, object]]:
    return [dict(node.properties) for node in evaluated(graph).nodes["Person"].values()]


@pytest.mark.parametrize("strategy", daily(Strategy, [Strategy.AUTO]))
def test_a_graph_without_edges_and_one_without_rows(tmp_path: Path, strategy: Strategy) -> None:
    graph = new_graph(tmp_path)
    for names in ([], ["p0", "p1"]):
        if names:
            graph.load(nodes={"Person": people(names), "City": pa.table({"name": ["here"]})})
        for plan in operators():
            assert isinstance(plan.input, NodeScan | Cross)
            tables = open_tables(graph, strategy)
            # A walk of no hops finds its source.
            stays = isinstance(plan, Expand | Connect) and plan.minimum == 0
            assert execute(scan(plan.input, tables), plan, tables).num_rows == (len(names) if stays else 0)


@STRATEGIES
def test_branches_and_the_past_are_walked_as_they_are(tmp_path: Path, strategy: Strategy) -> None:
    graph = random_graph(tmp_path, 7)
    plan = Expand(PEOPLE, "a", (EdgeStep("Knows", TraversalDirection.BOTH),), "b", "Person", 1, 2, ())
    kept, before, old = Cache(2**30), expected(plan, graph), graph.snapshot().commit
    assert old is not None
    graph.create_branch("side")
    graph.load(edges={"Knows": Links([("p10", "p11"), ("p11", "p0")]).table()})
    graph.mutate('query gone() { delete Person where name = "p3" }', branch="side")
    for snapshot in (graph.snapshot(), graph.snapshot("side"), graph.snapshot(at=old.id)):
        tables = QueryTables(snapshot, graph.schema.catalog, kept, strategy)
        found = ids_of(execute(scan(PEOPLE, tables), plan, tables))
        if snapshot.branch == "side":
            assert found != before
            assert all("p3" not in dict(row).values() for row in found)
        else:
            assert found == (before if snapshot.commit == old else expected(plan, graph))


# --------------------------------------------------------------------------------------------- the choice


def test_few_nodes_are_looked_up_and_many_are_not() -> None:
    large = EdgeSizes(edges=10_000_000, nodes=2_000_000, degree=10)
    assert choose_strategy(1, large, indexed=True) is Strategy.INDEX
    assert choose_strategy(1_000_000, large, indexed=True) is Strategy.ARRAYS
    assert choose_strategy(1, EdgeSizes(1_000, 200, degree=10), indexed=False) is Strategy.ARRAYS


def test_one_node_with_very_many_edges_is_not_looked_up() -> None:
    interests = EdgeSizes(edges=250_000, nodes=100_041, degree=250_000 / 41)
    people = EdgeSizes(edges=250_000, nodes=100_041, degree=2.5)
    assert choose_strategy(1, interests, indexed=True) is Strategy.ARRAYS
    assert choose_strategy(1, people, indexed=True) is Strategy.INDEX


def test_lookups_that_have_cost_as_much_as_arrays_are_given_up() -> None:
    large = EdgeSizes(edges=10_000_000, nodes=2_000_000, degree=10)
    cost, spent, lookups = estimate_lookup(10, large, indexed=True), 0.0, 0
    while choose_strategy(10, large, indexed=True, spent=spent) is Strategy.INDEX:
        spent, lookups = spent + cost, lookups + 1
    assert 100 < lookups < 10_000


def test_a_search_that_widens_goes_over_to_arrays(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    lists: list[int] = []
    rows_with = entity_sets.lookup_rows

    def counted(*args: object, **kwargs: object) -> pa.Table:
        lists.append(len(args[2]))  # pyright: ignore[reportArgumentType]  the values
        return rows_with(*args, **kwargs)  # pyright: ignore[reportArgumentType]  as they came

    monkeypatch.setattr(walk_context, "lookup_rows", counted)
    monkeypatch.setattr(strategies, "_SECONDS_PER_BUILT_EDGE", 1.3e-3 / 33)
    monkeypatch.setattr(strategies, "_SECONDS_PER_BUILT_NODE", 0.0)
    monkeypatch.setattr(strategies, "_SECONDS_PER_SCANNED_EDGE", 0.0)
    plan = Expand(PEOPLE, "a", (EdgeStep("Knows", TraversalDirection.OUT),), "b", "Person", 1, 4, ())
    tables = open_tables(graph, Strategy.AUTO)
    frame = scan(PEOPLE, tables).take(np.array([0]))
    found = execute(frame, plan, tables)
    assert len(lists) == 1
    assert ids_of(found) == [row for row in expected(plan, graph) if dict(row)["a"] == "p0"]
    assert not isinstance(found.bindings["b"].entities, PartialTable)


# --------------------------------------------------------------------------------------------- what cannot be


@pytest.mark.parametrize("end", ["from", "to"])
def test_an_edge_to_nowhere_is_an_error_by_arrays(tmp_path: Path, end: str) -> None:
    tables = dangling(tmp_path, end, Strategy.ARRAYS)
    plan = Expand(PEOPLE, "a", (EdgeStep("Knows", TraversalDirection.OUT),), "b", "Person", 1, 1, ())
    with pytest.raises(
        StorageError, match=r"1 edges of 'Knows' have a (src|dst) that is not in node:Person, for example 'gone'"
    ):
        execute(scan(PEOPLE, tables), plan, tables)


def test_an_edge_to_nowhere_is_an_error_by_lookups_as_soon_as_something_is_asked_of_it(tmp_path: Path) -> None:
    tables = dangling(tmp_path, "to", Strategy.INDEX)
    plan = Expand(PEOPLE, "a", (EdgeStep("Knows", TraversalDirection.OUT),), "b", "Person", 1, 1, ())
    found = execute(scan(PEOPLE, tables), plan, tables).bindings["b"]
    with pytest.raises(StorageError, match="node:Person has no row 'gone'"):
        found.entities.take_values("age", found.positions)


def dangling(folder: Path, end: str, strategy: Strategy) -> QueryTables:
    """A graph with an edge behind the back of the rules: the table of the snapshot has it."""
    graph = new_graph(folder)
    graph.load(nodes={"Person": people(["p0", "p1"])}, edges={"Knows": Links([("p0", "p1")]).table()})
    table = graph.snapshot().table("Knows")
    ends = {"from": "p0", "to": "p1", end: "gone"}
    row = {"id": "e9", "src": ends["from"], "dst": ends["to"], "since": None}
    staged = writes.append(table, pa.Table.from_pylist([row], schema=table.schema))
    assert staged is not None
    moved = writes.commit(table, staged, "op")
    snapshot = graph.snapshot()
    pins = {**snapshot.pins, "edge:Knows": replace(snapshot.pins["edge:Knows"], version=moved.version)}
    return QueryTables(replace(snapshot, pins=pins), graph.schema.catalog, Cache(2**30), strategy)
