"""Indexes on ids and ends, and declared ones: built once, in a commit of their own, and only where they pay."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Barrier, Lock
from typing import TypeVar, cast

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import ConflictError, NotFound
from omnigraph.graph import Graph
from omnigraph.language.schema import TableKey
from omnigraph.storage import tables
from omnigraph.storage.tables import IndexKind, Table, upkeep
from omnigraph.write import indexes
from omnigraph.write.executor import LocalExecutor
from omnigraph.write.indexes import IndexSpec, ensure_id_indexes, ensure_indexes
from omnigraph.write.load import run as load
from tests.graphs import written
from tests.write.mutation.interleaving import meanwhile

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

SHELF = """
node Book {
  code: String @key
  title: String? @index
  kind: enum(novel, poem)? @index
  pages: I32? @index
  rating: F64? @index
  lent: Bool? @index
  printed: Date? @index
  seen: DateTime? @index
  gist: Vector(2)? @index
  tags: [String]?
  note: String?
  @index(tags)
}
node Box { name: String @index }
edge Near: Book -> Book { why: String? @index  @index(src, dst) }
"""
B, T, V = IndexKind.BTREE, IndexKind.INVERTED, IndexKind.IVF_FLAT
KINDS = {
    "id": B,
    "code": T,
    "title": T,
    "kind": B,
    "pages": B,
    "rating": B,
    "lent": B,
    "printed": B,
    "seen": B,
    "gist": V,
}
BOOK: dict[str, object] = {
    "code": "b1",
    "title": "The running foxes",
    "kind": "novel",
    "pages": 7,
    "rating": 0.5,
    "lent": True,
    "printed": "2001-05-04",
    "seen": "2024-01-01T08:00:00Z",
    "gist": [1.0, 0.0],
}


@pytest.fixture
def shelf(tmp_path: Path) -> Graph:
    graph = omnigraph.init(tmp_path / "shelf.og", SHELF)
    records = [
        {"type": "Book", "data": BOOK},
        {"type": "Book", "data": {"code": "b2"}},
        {"edge": "Near", "from": "b1", "to": "b2", "data": {"why": "a shelf"}},
    ]
    path = tmp_path / "shelf.jsonl"
    path.write_text("\n".join(json.dumps(record) for record in records))
    graph.load(path)
    return graph


def indexed(graph: Graph, name: str, branch: str = "main") -> dict[str, int]:
    return {index.columns[0]: index.rows for index in graph.snapshot(branch).table(name).list_indexes().values()}


def kinds(graph: Graph, name: str) -> dict[str, str]:
    return {index.columns[0]: index.kind for index in graph.snapshot().table(name).list_indexes().values()}


def ports(first: int, count: int) -> pa.Table:
    codes = [f"x{number}" for number in range(first, first + count)]
    return pa.table({"code": codes, "name": codes})


# --------------------------------------------------------------------------------------------- what is declared


def test_each_declaration_requires_the_index_of_its_type(shelf: Graph) -> None:
    report = ensure_indexes(shelf._manifest, "main", actor="act-ann")
    assert kinds(shelf, "Book") == KINDS
    assert kinds(shelf, "Near") == {"id": B, "src": B, "dst": B, "why": T}
    assert set(report.built) == {
        *(IndexSpec(TableKey.of_node("Book"), column, kind) for column, kind in KINDS.items()),
        *(IndexSpec(TableKey.of_edge("Near"), column, B) for column in ("id", "src", "dst")),
        IndexSpec(TableKey.of_edge("Near"), "why", T),
    }
    assert (report.commit, report.present) == (shelf.commits(upkeep=True)[0], ())
    assert report.commit is not None
    assert report.commit.actor == "act-ann"


def test_what_cannot_be_built_is_deferred_with_a_reason(shelf: Graph) -> None:
    reasons = {
        (each.index.table_key, each.index.column): each.reason
        for each in ensure_indexes(shelf._manifest, "main").deferred
    }
    assert reasons == {
        ("node:Book", "tags"): "lists and blobs have no index",
        ("node:Box", "id"): "the table has no rows",
        ("node:Box", "name"): "the table has no rows",
    }


def test_vector_indexes_are_deferred_until_a_row_has_a_vector(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.og", SHELF)
    graph.mutate('query q() { insert Book { code: "b1" } }')
    report = ensure_indexes(graph._manifest, "main", ["Book"])
    assert {each.index.column: each.reason for each in report.deferred}["gist"] == "no row has a vector"
    assert "title" in indexed(graph, "Book"), "a column of nulls has an index that finds nothing"
    graph.mutate('query q() { insert Book { code: "b2", gist: [1.0, 2.0] } }')
    again = ensure_indexes(graph._manifest, "main", ["Book"])
    assert IndexSpec(TableKey.of_node("Book"), "gist", V) in again.built


def test_a_vector_that_no_index_can_hold_stops_nothing_else(shelf: Graph) -> None:
    shelf.mutate('query q($v: Vector(2)) { insert Book { code: "b3", gist: $v } }', params={"v": [1e30, 0.0]})
    report = ensure_indexes(shelf._manifest, "main", ["Book"])
    reasons = {each.index.column: each.reason for each in report.deferred}
    assert reasons["gist"] == "a vector is too long for an index"
    assert indexed(shelf, "Book")["title"] == 3


class TwoProcesses(LocalExecutor):
    """An executor with room for two tasks, that remembers what it ran on."""

    parallelism = 2

    def __init__(self) -> None:
        self.ran: list[object] = []

    def run(self, task: Callable[[Item], Outcome], items: Sequence[Item]) -> list[Outcome]:
        self.ran.append(list(items))
        return super().run(task, items)


def test_vectors_are_looked_at_by_the_executor(shelf: Graph) -> None:
    shelf.mutate('query q($v: Vector(2)) { insert Book { code: "b3", gist: $v } }', params={"v": [1e30, 0.0]})
    executor, fragments = TwoProcesses(), sorted(shelf.snapshot().table("Book").fragment_rows())
    report = ensure_indexes(shelf._manifest, "main", ["Book"], executor=executor)
    assert "a vector is too long for an index" in {each.reason for each in report.deferred}
    groups = cast("list[tuple[int, ...]]", executor.ran[0])
    assert len(groups) == 2
    assert sorted(fragment for group in groups for fragment in group) == fragments


def test_a_second_time_there_is_nothing_to_do(shelf: Graph) -> None:
    first = ensure_indexes(shelf._manifest, "main")
    before = written(shelf)
    second = ensure_indexes(shelf._manifest, "main")
    assert (second.commit, second.built) == (None, ())
    assert set(second.present) == set(first.built)
    assert second.deferred == first.deferred
    assert written(shelf) == before


def test_only_indexes_that_lag_are_rebuilt(shelf: Graph) -> None:
    ensure_indexes(shelf._manifest, "main")
    near = shelf.snapshot().pins["edge:Near"]
    shelf.mutate('query q() { insert Book { code: "b3", title: "A fox" } }')
    report = ensure_indexes(shelf._manifest, "main")
    assert {index.table_key for index in report.built} == {"node:Book"}
    assert set(indexed(shelf, "Book").values()) == {3}
    assert shelf.snapshot().pins["edge:Near"] == near


def segments_of(graph: Graph, column: str, type_: str = "Book") -> list[set[int]]:
    """The fragments of each segment of an index of books."""
    table = graph.snapshot().table(type_)
    return [set(each.fragment_ids) for each in tables.index_segments(table, f"{column}_idx")]


FOXES = 'query q() { match { $b: Book  search($b.title, "fox") } return { $b.code as code } order { code } }'
NEAREST = "query q() { match { $b: Book } return { $b.code as code } order { nearest($b.gist, [0.0, 1.0]) } limit 2 }"


def test_indexes_grow_by_the_rows_that_they_lack(shelf: Graph) -> None:
    more = [{**BOOK, "code": f"c{number}"} for number in range(20)]
    shelf.load([{"type": "Book", "data": each} for each in more])
    ensure_indexes(shelf._manifest, "main")
    first = segments_of(shelf, "title")
    shelf.load([{"type": "Book", "data": {**BOOK, "code": "d", "title": "A fox", "gist": [0.0, 2.0]}}])
    ensure_indexes(shelf._manifest, "main")
    added = {max(shelf.snapshot().table("Book").fragment_rows())}
    for column in ("id", "title", "gist"):
        assert segments_of(shelf, column) == [*first, added], column
    assert set(indexed(shelf, "Book").values()) == {23}
    assert len(shelf.query(FOXES).rows) == 22
    assert shelf.query(NEAREST).rows[0] == {"code": "d"}


def test_a_changed_row_is_not_found_by_what_it_said_before(shelf: Graph) -> None:
    more = [{**BOOK, "code": f"c{number}"} for number in range(20)]
    shelf.load([{"type": "Book", "data": each} for each in more])
    ensure_indexes(shelf._manifest, "main")
    shelf.mutate('query q() { update Book set { title: "Ships", gist: [0.0, 1.0], pages: 9 } where code = "c7" }')
    ensure_indexes(shelf._manifest, "main")
    assert set(indexed(shelf, "Book").values()) == {22}
    assert "c7" not in [row["code"] for row in shelf.query(FOXES).rows]
    assert shelf.query(NEAREST).rows[0] == {"code": "c7"}
    pages = "query q() { match { $b: Book { pages: 7 } } return { count($b) as n } }"
    assert shelf.query(pages).rows == [{"n": 20}]


@pytest.mark.parametrize(("rows", "size", "segments"), [(1, 1 << 30, 1), (1, 16, 2), (500_000, 1 << 30, 1)])
def test_vectors_are_indexed_by_several_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, size: int, segments: int
) -> None:
    monkeypatch.setattr(indexes, "MIN_ROWS_IN_A_SEGMENT", rows)
    monkeypatch.setattr(indexes, "MAX_VECTOR_BYTES_IN_A_SEGMENT", size)
    graph = omnigraph.init(tmp_path / "docs.og", "node Doc { code: String @key  gist: Vector(2)? @index }")
    for number in range(4):
        gist = None if number == 1 else [float(number), 1.0]
        graph.load([{"type": "Doc", "data": {"code": f"d{number}", "gist": gist}}])
    executor = SixTasks()
    ensure_indexes(graph._manifest, "main", executor=executor)
    assert indexed(graph, "Doc") == {"id": 4, "code": 4, "gist": 4}
    assert len(segments_of(graph, "gist", "Doc")) == segments
    nearest = (
        "query q() { match { $d: Doc } return { $d.code as code } order { nearest($d.gist, [3.0, 1.0]) } limit 3 }"
    )
    assert [row["code"] for row in graph.query(nearest).rows] == ["d3", "d2", "d0"]


def test_an_index_of_many_values_stays_in_segments_that_a_task_can_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "MIN_ROWS_IN_A_SEGMENT", 1)
    monkeypatch.setattr(indexes, "MAX_ROWS_IN_A_SEGMENT", 4)
    monkeypatch.setattr(indexes, "MAX_TEXTS_IN_A_SEGMENT", 6)
    monkeypatch.setattr(upkeep, "FULL_SEGMENT_ROWS", 4)
    graph = omnigraph.init(
        tmp_path / "docs.og", "node Book { code: String @key  title: String? @index  pages: I32? @index }"
    )
    for number in range(12):
        title = "A fox" + " and a hen" * (number % 3)
        graph.load([{"type": "Book", "data": {"code": f"b{number}", "title": title, "pages": number}}])
    ranked = _rank_by_words(graph)
    ensure_indexes(graph._manifest, "main", executor=SixTasks())
    first = segments_of(graph, "id")
    assert [len(each) for each in first] == [6, 6]
    assert [len(each) for each in segments_of(graph, "title")] == [6, 6]
    assert [len(each) for each in segments_of(graph, "pages")] == [4, 4, 4]
    assert set(indexed(graph, "Book").values()) == {12}
    assert _rank_by_words(graph) == ranked
    # Full segments stay as they are, whatever comes.
    graph.load([{"type": "Book", "data": {"code": f"c{number}"}} for number in range(3)])
    ensure_indexes(graph._manifest, "main", executor=SixTasks())
    assert segments_of(graph, "id")[:2] == first
    assert set(indexed(graph, "Book").values()) == {15}
    graph.mutate('query q() { update Book set { title: "Ships" } where code = "b7" }')
    graph.mutate('query q() { delete Book where code = "b8" }')
    by_key = "query q($code: String) { match { $b: Book { code: $code } } return { $b.title as title } }"
    found = {code: graph.query(by_key, params={"code": code}).rows for code in ("b0", "b7", "b8", "b11", "c2")}
    assert found == {
        "b0": [{"title": "A fox"}],
        "b7": [{"title": "Ships"}],
        "b8": [],
        "b11": [{"title": "A fox and a hen and a hen"}],
        "c2": [{"title": None}],
    }


def _rank_by_words(graph: Graph) -> list[tuple[object, object]]:
    """Return books with their scores: they must not depend on the segments that a word is in."""
    text = """query q() {
        match { $b: Book  search($b.title, "hen") }
        return { $b.code as code, bm25($b.title, "hen") as score } order { code }
    }"""
    return [(row["code"], row["score"]) for row in graph.query(text).rows]


class SixTasks(LocalExecutor):
    """An executor that could run six tasks at the same time, so two for each of three columns."""

    parallelism = 6


def test_rows_that_were_deleted_do_not_make_an_index_lag(shelf: Graph) -> None:
    ensure_indexes(shelf._manifest, "main")
    shelf.mutate('query q() { delete Book where code = "b2" }')
    built = ensure_indexes(shelf._manifest, "main", ["Book"]).built
    assert {index.kind for index in built} == {IndexKind.INVERTED}, "only scores of words depend on deleted rows"
    assert ensure_indexes(shelf._manifest, "main", ["Book"]).commit is None


def test_some_types_by_name_or_table_key(shelf: Graph) -> None:
    ensure_indexes(shelf._manifest, "main", ["Near"])
    assert indexed(shelf, "Book") == {}
    ensure_indexes(shelf._manifest, "main", ["node:Book", "Book"])
    assert set(indexed(shelf, "Book")) == set(KINDS)
    with pytest.raises(NotFound, match="no type 'Boook'") as caught:
        ensure_indexes(shelf._manifest, "main", ["Boook"])
    assert caught.value.hint == "did you mean 'Book'?"


def test_a_branch_is_not_forked_for_an_index(fleet: Graph) -> None:
    fleet.create_branch("b")
    fleet.load(nodes={"Port": ports(0, 5)}, branch="b")
    report = ensure_indexes(fleet._manifest, "b")
    assert indexed(fleet, "Port", "b")["id"] == 7
    assert fleet.snapshot("b").pins["node:Vessel"].branch is None
    assert indexed(fleet, "Port") == {}
    reasons = {each.index.table_key.type_name: each.reason for each in report.deferred}
    assert reasons["Vessel"] == "branch 'main' owns the table until this branch writes to it"


# --------------------------------------------------------------------------------------------- ids and ends


def test_ids_and_ends_in_one_commit(fleet: Graph) -> None:
    before = fleet.snapshot()
    report = ensure_id_indexes(fleet._manifest, "main", fleet.snapshot().pins, actor="act-ann")
    assert report.commit == fleet.commits(upkeep=True)[0]
    assert indexed(fleet, "Vessel") == {"id": 3}
    assert indexed(fleet, "Tows") == {"id": 1, "src": 1, "dst": 1}
    assert indexed(fleet, "HomePort") == {}
    after = fleet.snapshot()
    assert after.pins["edge:Tows"].version == before.pins["edge:Tows"].version + 1


def test_two_indexes_are_built_at_a_time(fleet: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    build, together = tables.build_segment, Barrier(2)
    guard, running, most = Lock(), 0, 0

    def watch(table: Table, column: str, kind: IndexKind, fragments: Sequence[int]) -> tables.Segment:
        nonlocal running, most
        with guard:
            running += 1
            most = max(most, running)
        # Nobody comes through alone, and an even number of indexes is built.
        together.wait(60)
        made = build(table, column, kind, fragments)
        with guard:
            running -= 1
        return made

    monkeypatch.setattr(tables, "build_segment", watch)
    report = ensure_id_indexes(fleet._manifest, "main", ["edge:CallsAt", "node:Port"])
    assert sorted((index.table_key, index.column) for index in report.built) == [
        *(("edge:CallsAt", column) for column in ("dst", "id", "src")),
        ("node:Port", "id"),
    ]
    assert most == indexes.BUILT_AT_ONCE


def test_a_load_leaves_small_gaps(fleet: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "MAX_UNCOVERED", 10)
    ensure_id_indexes(fleet._manifest, "main", ["node:Port"])
    fleet.load(nodes={"Port": ports(0, 10)})
    assert ensure_id_indexes(fleet._manifest, "main", ["node:Port"]).commit is None
    fleet.load(nodes={"Port": ports(10, 1)})
    assert ensure_id_indexes(fleet._manifest, "main", ["node:Port"]).commit is not None
    assert indexed(fleet, "Port") == {"id": 13}
    assert fleet.snapshot().table("Port").count_rows("id = 'x10'") == 1


def test_large_loads_are_indexed_afterwards(fleet: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "INDEX_ABOVE_ROWS", 5)
    fleet.load(nodes={"Port": ports(0, 5)})
    assert indexed(fleet, "Port") == {}
    result = fleet.load(nodes={"Port": ports(5, 6)})
    assert indexed(fleet, "Port") == {"id": 13}
    assert result.commit == fleet.commits()[0]
    fleet.load(nodes={"Leg": pa.table({"line": ["a"] * 9, "seq": list(range(9))})}, indexes="never")
    assert indexed(fleet, "Leg") == {}
    fleet.load(nodes={"Leg": pa.table({"line": ["b"], "seq": [1]})}, indexes="always")
    assert indexed(fleet, "Leg") == {"id": 10}


def test_rows_written_meanwhile_are_not_lost(fleet: Graph) -> None:
    with meanwhile(lambda: fleet.load(nodes={"Port": ports(0, 5)})):
        report = ensure_indexes(fleet._manifest, "main", ["node:Port"])
    assert fleet.snapshot().pins["node:Port"].row_count == 7
    assert indexed(fleet, "Port")["id"] == 2
    assert fleet.snapshot().table("Port").count_rows("id = 'x4'") == 1
    assert IndexSpec(TableKey.of_node("Port"), "id", B) in report.built


def test_an_index_that_fails_does_not_fail_the_load(
    fleet: Graph, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def busy(*_: object) -> None:
        raise ConflictError("busy")

    monkeypatch.setattr(load, "ensure_id_indexes", busy)
    assert fleet.load(nodes={"Port": ports(0, 1)}, indexes="always").commit is not None
    assert "were not built: busy" in caplog.text
