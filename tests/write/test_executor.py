"""Executors: indexes are built in segments, wherever the tasks run, and are the same as those built as a whole."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar, cast

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.storage.tables import IndexKind, Table
from omnigraph.write import indexes
from omnigraph.write.executor import LOCAL, Executor
from omnigraph.write.indexes import ensure_indexes

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

SHELF = """
node Book { code: String @key  title: String @index  pages: I32 @index  gist: Vector(2) @index }
edge Near: Book -> Book
"""
LOADS = 4


class Travelling:
    """Runs tasks here, but only what pickles comes to them, and back."""

    def __init__(self, parallelism: int = 3) -> None:
        self.parallelism = parallelism
        self.runs: list[int] = []

    def run(self, task: Callable[[Item], Outcome], items: Sequence[Item]) -> list[Outcome]:
        self.runs.append(len(items))
        return [_there_and_back(_there_and_back(task)(_there_and_back(item))) for item in items]


def _there_and_back(value: Outcome) -> Outcome:
    return cast("Outcome", pickle.loads(pickle.dumps(value)))  # noqa: S301  our own


@pytest.fixture
def shelf(tmp_path: Path) -> Graph:
    """A graph whose tables have a fragment for each load."""
    graph = omnigraph.init(tmp_path / "shelf.og", SHELF)
    for load in range(LOADS):
        numbers = range(load * 10, load * 10 + 10)
        books = pa.table(
            {
                "code": [f"b{each}" for each in numbers],
                "title": [f"the fox number{each}" for each in numbers],
                "pages": pa.array([each % 7 for each in numbers], pa.int32()),
                "gist": pa.array([[float(each), 1.0] for each in numbers], pa.list_(pa.float32(), 2)),
            }
        )
        graph.load(nodes={"Book": books}, edges={"Near": pa.table({"from": [f"b{load * 10}"], "to": ["b0"]})})
    return graph


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are cut like many."""
    monkeypatch.setattr(indexes, "MIN_ROWS_IN_A_SEGMENT", 1)


def answers(graph: Graph) -> list[object]:
    """What indexes of each kind find."""
    table = graph.snapshot().table("Book")
    assert "ScalarIndexQuery" in plan(table, "pages = 3")
    by_title = 'query q() { match { $b: Book  search($b.title, "number17") } return { $b.code } }'
    by_gist = "query q() { match { $b: Book } return { $b.code } order { nearest($b.gist, [31.0, 1.0]) } limit 3 }"
    return [
        table.count_rows("pages = 3"),
        table.count_rows("id = 'b39'"),
        graph.query(by_title).rows,
        graph.query(by_gist).rows,
    ]


def plan(table: Table, condition: str) -> str:
    return table.dataset.scanner(filter=condition).explain_plan()


@pytest.mark.usefixtures("in_pieces")
def test_as_many_columns_as_tasks_need_no_joining(shelf: Graph) -> None:
    runner = Travelling(5)
    ensure_indexes(shelf._manifest, "main", ["Book"], executor=runner)
    assert runner.runs[-2:] == [5, 0]


@pytest.mark.usefixtures("in_pieces")
def test_indexes_built_in_segments_find_what_whole_ones_find(shelf: Graph, tmp_path: Path) -> None:
    runner, other = Travelling(15), omnigraph.open(shutil.copytree(shelf.uri, tmp_path / "other.og"))
    report = ensure_indexes(shelf._manifest, "main", executor=runner)
    assert report.deferred == ()
    assert {index.kind for index in report.built} == set(IndexKind)
    # Of books five indexes in three pieces, of edges three in four; then they are joined.
    # Before, four pieces are looked at for vectors.
    assert sorted(runner.runs) == sorted([4, 5 * 3, 5, 3 * 4, 3])
    found = {each.columns[0]: each.rows for each in shelf.snapshot().table("Book").list_indexes().values()}
    assert set(found.values()) == {LOADS * 10}
    in_pieces = answers(shelf)
    ensure_indexes(other._manifest, "main")
    assert in_pieces == answers(other)
    assert in_pieces[:2] == [6, 1]


@pytest.mark.usefixtures("in_pieces")
def test_this_process_builds_each_index_as_a_whole(shelf: Graph) -> None:
    local: Executor = LOCAL
    assert ensure_indexes(shelf._manifest, "main", ["Near"], executor=local).commit is not None
    segments = {index.name: len(index.segments) for index in shelf.snapshot().table("Near").dataset.describe_indices()}
    assert segments == {"id_idx": 1, "src_idx": 1, "dst_idx": 1}


def test_few_rows_are_one_segment_for_any_executor(shelf: Graph) -> None:
    runner = Travelling()
    ensure_indexes(shelf._manifest, "main", ["Near"], executor=runner)
    assert runner.runs == [3, 0]
