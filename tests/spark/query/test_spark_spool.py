"""Frames that several steps of a query read: written beside the graph, read from there, and gone at the end."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

import omnigraph
from omnigraph.errors import StorageError
from omnigraph.graph import Graph
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.spark import sized_frames, spool
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.source import SparkSnapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = """
node Ship { code: String @key  about: String @index  shape: Vector(2) @index }
edge Tows: Ship -> Ship
"""
WALK = 'query q() { match { $a: Ship { code: "s0" }  $a tows{1,4} $b } return { $b.code as code } order { code } }'
FUSED = """
query q() {
  match { $s: Ship }
  return { $s.code as code }
  order { rrf(bm25($s.about, "tug"), nearest($s.shape, [1.0, 0.0])) }
  limit 3
}
"""


@pytest.fixture(scope="module")
def ships(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of ships, of which each tows the next."""
    folder = tmp_path_factory.mktemp("ships") / "ships.og"
    graph = omnigraph.init(folder, SCHEMA)
    nodes = [
        {"type": "Ship", "data": {"code": f"s{at}", "about": "a tug" if at % 2 else "a ferry", "shape": [at / 9, 0.5]}}
        for at in range(8)
    ]
    graph.load([*nodes, *({"edge": "Tows", "from": f"s{at}", "to": f"s{at + 1}"} for at in range(7))])
    return folder


@pytest.fixture
def graph(ships: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Graph]:
    for name in ("localCheckpoint", "checkpoint", "persist", "cache"):
        # What executors hold is lost with them.
        monkeypatch.delattr(ClassicFrame, name)
    yield omnigraph.open(ships)
    assert not _beside(ships).exists(), "nothing lies beside it"


def _beside(ships: Path) -> Path:
    return ships.with_name(f"{ships.name}.loading")


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of rows is too many for this process."""
    for module in (sized_frames, spool):
        monkeypatch.setattr(module, "MAX_BROADCAST_BYTES", 0)


def rows_of(frame: DataFrame) -> list[str]:
    return [row["code"] for row in frame.collect()]


@pytest.mark.slow
def test_few_rows_leave_no_files(spark: SparkSession, graph: Graph, ships: Path) -> None:
    frame = graph.spark(spark).query(WALK, engine="spark")
    assert not _beside(ships).exists(), "before anybody reads the frame"
    assert rows_of(frame) == ["s1", "s2", "s3", "s4"]
    fused = graph.spark(spark).query(FUSED, engine="spark")
    assert not _beside(ships).exists()
    assert rows_of(fused) == [row["code"] for row in graph.query(FUSED).rows]


@pytest.mark.slow
@pytest.mark.usefixtures("many")
def test_many_rows_are_read_from_files_until_the_graph_is_closed(
    spark: SparkSession, graph: Graph, ships: Path
) -> None:
    with graph.spark(spark) as open_:
        frame = open_.query(WALK, engine="spark")
        assert list(_beside(ships).glob("*/*.parquet"))
        assert rows_of(frame) == ["s1", "s2", "s3", "s4"]
        # Frames that are made of it read the same files, as often as they like.
        assert frame.where("code > 's2'").count() == 2
        assert rows_of(open_.query(FUSED, engine="spark")) == [row["code"] for row in graph.query(FUSED).rows]


@pytest.mark.usefixtures("many")
def test_nothing_is_left_of_a_query_that_fails(
    spark: SparkSession, graph: Graph, ships: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    collect = SparkExecutor.collect

    def fail_later(executor: SparkExecutor, frame: DataFrame) -> list[tuple[object, ...]]:
        calls.append(executor.activity)
        if len(calls) == 3:
            assert list(_beside(ships).glob("*/*.parquet"))
            raise StorageError("no disk")
        return collect(executor, frame)

    monkeypatch.setattr(SparkExecutor, "collect", fail_later)
    with pytest.raises(StorageError, match="no disk"):
        graph.spark(spark).query(WALK, engine="spark")


def test_a_destination_that_only_gives_its_id_is_not_read(
    spark: SparkSession, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    rows = SparkSnapshot.rows

    def watch(tables: SparkSnapshot, type_: NodeType | EdgeType, *more: Any, **named: Any) -> DataFrame:
        read.append(type_.name)
        return rows(tables, type_, *more, **named)

    monkeypatch.setattr(SparkSnapshot, "rows", watch)
    asked = 'query q() { match { $a: Ship { code: "s3" }  $a tows $b } return { $b as code } }'
    assert rows_of(graph.spark(spark).query(asked, engine="spark")) == ["s4"]
    assert sorted(read) == ["Ship", "Tows"]
    read.clear()
    assert rows_of(graph.spark(spark).query(asked.replace("$b as", "$b.code as"), engine="spark")) == ["s4"]
    assert sorted(read) == ["Ship", "Ship", "Tows"]
