"""Sets of entities: positions, ids and properties of full tables as they grow, and of partial tables."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.errors import StorageError
from omnigraph.graph import Graph
from omnigraph.language.schema import parse_schema
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames import entity_sets, lookup
from omnigraph.read.frames.cache import Cache
from omnigraph.read.frames.contents import read_contents
from omnigraph.read.frames.entity_sets import FullTable, PartialTable, open_full_table
from omnigraph.read.frames.frame import Positions
from omnigraph.read.frames.lookup import SortedTexts, find_positions, mostly_ascend, sort_texts
from omnigraph.storage.columns import Values, to_list
from tests.graphs import rows_of
from tests.read.walked_graphs import SCHEMA, Scans, people
from tests.selection import sized

NAMES = [f"p{number}" for number in range(40)]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraph.init(tmp_path / "people.og", SCHEMA)
    graph.load(nodes={"Person": people(NAMES)})
    return graph


@pytest.fixture
def cache() -> Cache:
    return Cache(2**30)


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> Scans:
    return Scans(monkeypatch)


def whole(graph: Graph, cache: Cache, snapshot: Snapshot | None = None, name: str = "Person") -> FullTable:
    type_ = graph.schema.catalog.nodes[name]
    return open_full_table(snapshot or graph.snapshot(), type_.table_key, type_, cache)


def texts(*ids: str) -> Values:
    return cast("Values", pa.array(ids, pa.string()))


def at(*positions: int) -> Positions:
    return np.array(positions, np.int64)


def ids_in(table: FullTable) -> list[object]:
    return to_list(table.load_column("id"))


# --------------------------------------------------------------------------------------------- full tables


def test_ids_properties_and_places(graph: Graph, cache: Cache) -> None:
    table = whole(graph, cache)
    assert (table.table_key, len(table)) == ("node:Person", 40)
    assert to_list(cast("Values", table.take_ids(at(3, 0, 3)))) == ["p3", "p0", "p3"]
    assert to_list(table.take_values("age", at(39, 1))) == [39, 1]
    assert table.locate(texts("p7", "nobody", "p0", "p7")).tolist() == [7, -1, 0, 7]
    assert len(table.locate(texts())) == 0
    assert table.locate(texts(*reversed(NAMES), "x")).tolist() == [*reversed(range(40)), -1]
    assert table.take_values("age", at()).type == pa.int32()


def test_a_column_is_read_once_for_all_readers(graph: Graph, cache: Cache, scans: Scans) -> None:
    whole(graph, cache).load_column("age")
    assert scans.taken() == [40]
    for _ in range(3):
        whole(graph, cache).load_column("age")
        whole(graph, cache).take_values("age", at(1))
    assert scans.taken() == []


def test_few_values_are_fetched_alone_until_that_has_cost_as_much_as_the_column(
    graph: Graph, cache: Cache, scans: Scans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entity_sets, "_READ_SECONDS", (1.0, 0.0, 0.0))
    monkeypatch.setattr(entity_sets, "_FETCH_SECONDS", (0.3, 0.0))
    graph.mutate('query gone() { delete Person where name = "p5" }')
    table = whole(graph, cache)
    expected = [row["age"] for row in rows_of(graph, "Person")]
    scans.taken()
    for _ in range(3):
        assert to_list(table.take_values("age", at(38, 4, 5, 4))) == [expected[each] for each in (38, 4, 5, 4)]
    assert scans.taken() == []
    assert to_list(table.take_values("age", at(38, 4))) == [expected[38], expected[4]]
    assert scans.taken() == [39]


def test_whether_a_table_is_loaded(graph: Graph, cache: Cache) -> None:
    assert not whole(graph, cache).is_loaded()
    whole(graph, cache).locate(texts("p1"))
    assert whole(graph, cache).is_loaded()
    assert whole(graph, cache, name="City").is_loaded()


def test_a_table_that_is_not_there_yet_is_empty(graph: Graph, cache: Cache) -> None:
    type_ = graph.schema.catalog.nodes["Person"]
    table = open_full_table(graph.snapshot(), "node:Nothing", type_, cache)
    assert (len(table), ids_in(table), table.locate(texts("a")).tolist()) == (0, [], [-1])


def test_added_rows_are_read_alone(graph: Graph, cache: Cache, scans: Scans) -> None:
    before = whole(graph, cache)
    before.load_column("id")
    before.load_column("age")
    scans.taken()
    graph.load(nodes={"Person": people(["q0", "q1"], first_age=70)})
    scans.taken()
    table = whole(graph, cache)
    assert ids_in(table) == [*NAMES, "q0", "q1"]
    assert to_list(table.load_column("age"))[-2:] == [70, 71]
    assert scans.taken() == [2, 2]
    assert ids_in(before) == NAMES
    assert table.locate(texts("q1", "p3")).tolist() == [41, 3]


@pytest.mark.parametrize(
    "change",
    [
        'query change() { delete Person where name = "p5" }',
        'query change() { update Person set { age: 3 } where name = "p5" }',
    ],
    ids=["delete", "update"],
)
def test_rows_that_went_make_it_read_anew(graph: Graph, cache: Cache, scans: Scans, change: str) -> None:
    whole(graph, cache).load_column("id")
    graph.mutate(change)
    table = whole(graph, cache)
    expected = [row["id"] for row in rows_of(graph, "Person")]
    scans.taken()
    assert ids_in(table) == expected
    assert scans.taken() == [len(expected)]


def test_versions_with_the_same_rows_share_what_is_in_memory(graph: Graph, cache: Cache, scans: Scans) -> None:
    first = whole(graph, cache)
    first.load_column("id")
    graph.create_branch("side")
    graph.load([{"type": "City", "data": {"name": "here"}}])
    graph.load(nodes={"City": pa.table({"name": ["there"]})}, indexes="always")
    scans.taken()
    for snapshot in (graph.snapshot("side"), graph.snapshot()):
        other = whole(graph, cache, snapshot)
        assert (other == first, hash(other) == hash(first)) == (True, True)
        assert ids_in(other) == NAMES
    assert scans.taken() == []
    graph.load(nodes={"Person": people(["q0"])}, branch="side")
    assert whole(graph, cache, graph.snapshot("side")) != first


def test_a_branch_that_is_made_again_is_another(graph: Graph, cache: Cache) -> None:
    found: list[list[object]] = []
    versions: list[tuple[str | None, int]] = []
    for name in ("x", "y"):
        graph.create_branch("side")
        graph.load(nodes={"Person": people([name])}, branch="side")
        snapshot = graph.snapshot("side")
        versions.append((snapshot.pins["node:Person"].branch, snapshot.pins["node:Person"].version))
        found.append(ids_in(whole(graph, cache, snapshot))[40:])
        graph.delete_branch("side")
    assert versions[0] == versions[1]
    assert found == [["x"], ["y"]]


def test_a_graph_that_is_made_again_at_its_place_is_another(tmp_path: Path, cache: Cache) -> None:
    found: list[list[object]] = []
    for name in ("x", "y"):
        graph = omnigraph.init(tmp_path / "again.og", SCHEMA)
        graph.load(nodes={"Person": people([name])})
        found.append(ids_in(whole(graph, cache)))
        shutil.rmtree(tmp_path / "again.og")
    assert found == [["x"], ["y"]]


def test_branches_that_lost_different_rows_are_told_apart(graph: Graph, cache: Cache) -> None:
    graph.create_branch("side")
    gone = "query gone($who: String) { delete Person where name = $who }"
    found: list[list[object]] = []
    for branch, who in (("main", "p5"), ("side", "p6")):
        graph.mutate(gone, params={"who": who}, branch=branch)
        found.append(ids_in(whole(graph, cache, graph.snapshot(branch))))
    assert found == [[name for name in NAMES if name != who] for who in ("p5", "p6")]


def test_an_index_is_known_and_changes_no_contents(graph: Graph, cache: Cache) -> None:
    before = read_contents(graph.snapshot(), "node:Person", cache)
    graph.load(nodes={"Person": people(["q0"])}, indexes="always")
    after = read_contents(graph.snapshot(), "node:Person", cache)
    assert (before.indexed, after.indexed) == (frozenset(), {"id"})
    assert (after.extends(before), before.extends(after), after == before) == (True, False, False)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 4)),
        st.tuples(st.just("delete"), st.integers(0, 60)),
        st.tuples(st.just("update"), st.integers(0, 60)),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=sized(6, 60))
@given(STEPS)
def test_any_history_gives_what_a_fresh_look_gives(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    graph = omnigraph.init(tmp_path_factory.mktemp("history") / "people.og", SCHEMA)
    cache, next_name = Cache(2**30), 0
    for kind, number in [("add", 3), *steps]:
        if kind == "add":
            graph.load(nodes={"Person": people([f"n{next_name + each}" for each in range(number)])})
            next_name += number
        elif number < next_name:
            change = "delete Person" if kind == "delete" else "update Person set { age: 7 }"
            graph.mutate(f'query change() {{ {change} where name = "n{number}" }}')
        rows = rows_of(graph, "Person")
        table, ids = whole(graph, cache), [row["id"] for row in rows]
        assert ids_in(table) == ids
        assert to_list(table.load_column("age")) == [row["age"] for row in rows]
        assert table.locate(texts(*cast("list[str]", ids))).tolist() == list(range(len(ids)))


# --------------------------------------------------------------------------------------------- looking up texts


@given(st.lists(st.text(max_size=3), unique=True, min_size=1), st.lists(st.text(max_size=3)))
def test_texts_are_found_with_and_without_an_order(known: list[str], wanted: list[str]) -> None:
    expected = [known.index(text) if text in known else -1 for text in [*wanted, *known]]
    order = sort_texts(texts(*known))
    assert order.locate(texts(*wanted, *known)).tolist() == expected
    assert order.locate(texts(*[*wanted, *known] * 33)).tolist() == expected * 33
    assert find_positions(texts(*wanted, *known), texts(*known)).tolist() == expected
    assert entity_sets._locate_few(texts(*wanted, *known), texts(*known)).tolist() == expected


words = st.text(st.sampled_from("ab\x00é𝄞"), max_size=12)


@given(st.sampled_from(["", "person-", "x" * 20]), st.lists(words, unique=True, min_size=1), st.lists(words))
def test_many_texts_are_found_by_their_bytes(prefix: str, known: list[str], wanted: list[str]) -> None:
    there = [prefix + text for text in known]
    searched = [*wanted, *(prefix + text for text in wanted), *there] * 33
    expected = [there.index(text) if text in there else -1 for text in searched]
    order = sort_texts(texts("before", *there).slice(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "_MANY_TEXTS", 1)
        patch.setattr(lookup, "_KEYED_AT_ONCE", 7)
        assert order.locate(texts("before", *searched).slice(1)).tolist() == expected


def test_an_order_is_made_when_looking_through_has_cost_as_much(
    graph: Graph, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entity_sets, "_SORT_SECONDS", 3.5 * entity_sets._SCAN_SECONDS)
    monkeypatch.setattr(entity_sets, "_ORDERED_SORT_SECONDS", entity_sets._SORT_SECONDS)
    made: list[Values] = []
    make = entity_sets.sort_texts

    def counted(known: Values) -> SortedTexts:
        made.append(known)
        return make(known)

    monkeypatch.setattr(entity_sets, "sort_texts", counted)
    for looks in range(1, 10):
        assert whole(graph, cache).locate(texts("p9", "no")).tolist() == [9, -1]
        assert len(made) == (1 if looks >= 4 else 0)


def test_a_part_of_very_many_ids_is_found_by_an_order_that_is_made_once(
    graph: Graph, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    sorted_: list[int] = []

    def sorting(ids: Values) -> SortedTexts:
        sorted_.append(len(ids))
        return sort_texts(ids)

    monkeypatch.setattr(entity_sets, "sort_texts", sorting)
    table = whole(graph, cache)
    few, most = ("p9", "no", "p3", "p30"), ("no", *NAMES[:38])
    assert table.locate(texts(*few)).tolist() == [9, -1, 3, 30]
    assert sorted_ == []
    monkeypatch.setattr(entity_sets, "_MOST_HASHED", 38)
    for part, places in ((most, [-1, *range(38)]), (few, [9, -1, 3, 30]), (most, [-1, *range(38)])):
        assert table.locate(texts(*part)).tolist() == places
        assert sorted_ == [40]
    sorted_.clear()
    table = whole(graph, Cache(2**20))
    assert table.locate(texts(*NAMES)).tolist() == list(range(40))
    assert sorted_ == []


# --------------------------------------------------------------------------------------------- rows seen by a query


def seen_people(graph: Graph) -> PartialTable:
    return PartialTable(graph.snapshot().table("Person"), graph.schema.catalog.nodes["Person"])


def rows(ids: Sequence[str], **columns: Values) -> pa.Table:
    return pa.table({"id": texts(*ids), **columns})


def test_rows_are_numbered_as_they_come(graph: Graph) -> None:
    seen = seen_people(graph)
    assert seen.intern(rows(["p7", "p1", "p7"])).tolist() == [0, 1, 0]
    assert seen.intern(rows([])).tolist() == []
    assert seen.intern(rows(["p2", "p1", "p2", "p3"])).tolist() == [2, 1, 2, 3]
    assert (len(seen), seen.table_key) == (4, "node:Person")
    assert to_list(cast("Values", seen.take_ids(at(3, 0)))) == ["p3", "p7"]


def test_what_rows_bring_is_not_fetched_again(graph: Graph, scans: Scans) -> None:
    seen = seen_people(graph)
    # Another age than in the table shows where the answer comes from.
    seen.intern(rows(["p7", "p1"], age=pa.array([70, None], pa.int64())))
    seen.intern(rows(["p2"]))
    assert to_list(seen.take_values("age", at(1, 0, 0))) == [None, 70, 70]
    assert scans.taken() == []
    assert to_list(seen.take_values("age", at(2, 1, 0, 2))) == [2, None, 70, 2]
    assert scans.taken() == [1]
    seen.intern(rows(["p9", "p8"]))
    assert to_list(seen.take_values("age", at(4, 3))) == [8, 9]
    assert scans.taken() == [2]
    assert to_list(seen.take_values("age", np.arange(5))) == [70, None, 2, 9, 8]
    assert scans.taken() == []
    assert seen.take_values("age", at(0)).type == pa.int32()


@pytest.mark.parametrize("listed", [1, 7, 1_000], ids=["one scan", "lists", "one list"])
def test_many_rows_are_fetched_in_lists_or_by_one_scan(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, listed: int
) -> None:
    monkeypatch.setattr(entity_sets, "MAX_LISTED_VALUES", listed)
    seen = seen_people(graph)
    seen.intern(rows(NAMES[::-1]))
    assert to_list(seen.take_values("age", np.arange(40))) == list(range(40))[::-1]


def test_a_column_that_the_table_lacks_is_null(graph: Graph, cache: Cache) -> None:
    wider = parse_schema(SCHEMA.replace("age: I32?", "age: I32?  nick: String?"))
    type_ = wider.catalog.nodes["Person"]
    seen = PartialTable(graph.snapshot().table("Person"), type_)
    seen.intern(rows(["p1", "p2"]))
    table = open_full_table(graph.snapshot(), "node:Person", type_, cache)
    for values in (
        seen.take_values("nick", at(1, 0)),
        table.take_values("nick", at(1, 0)),
        table.load_column("nick").slice(0, 2),
    ):
        assert (to_list(values), values.type) == ([None, None], pa.string())


def test_an_entity_without_a_row_is_an_error(graph: Graph) -> None:
    seen = seen_people(graph)
    seen.intern(rows(["p1", "nobody"]))
    assert to_list(seen.take_values("age", at(0))) == [1]
    with pytest.raises(StorageError, match="node:Person has no row 'nobody'"):
        seen.take_values("age", at(0, 1))


def test_ids_that_ascend_are_told_from_shuffled_ones() -> None:
    ordered = [f"person-{number:05}" for number in range(5_000)]
    assert mostly_ascend(pa.array(ordered))
    assert mostly_ascend(pa.array([str(number) for number in range(5_000)]))
    assert mostly_ascend(pa.array(["one"]))
    assert mostly_ascend(pa.array([], pa.string()))
    assert not mostly_ascend(pa.array(ordered[::-1]))
    assert not mostly_ascend(pa.array([text for pair in zip(ordered, ordered[::-1], strict=True) for text in pair]))
