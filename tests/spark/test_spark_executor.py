"""Tasks on executors: in order, one by one, and with the errors of this process; indexes and compaction run there."""

from __future__ import annotations

import gc
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import omnigraph
from omnigraph.errors import NotFound, ReadOnly
from omnigraph.graph import Graph
from omnigraph.maintain.optimize import plan_worthwhile_tasks, stage_compaction
from omnigraph.spark.executor import SparkExecutor
from omnigraph.storage import tables
from omnigraph.write import indexes
from tests.graphs import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Ship { code: String @key  name: String @index  crew: I32? @index }
edge Tows: Ship -> Ship
"""


def _squared(number: int) -> tuple[int, int]:
    return number**2, os.getpid()


def _walked_over(_: int) -> tuple[int, int]:
    """How many objects a full collection walks over here, and how many it leaves out."""
    return len(gc.get_objects()), gc.get_freeze_count()


def _missing(name: str) -> None:
    raise NotFound(f"there is no {name}", details={"name": name})


def ships(first: int, count: int) -> list[dict[str, object]]:
    numbers = range(first, first + count)
    return [{"type": "Ship", "data": {"code": f"s{each}", "name": f"ship number{each}"}} for each in numbers]


@pytest.fixture
def fleet(tmp_path: Path) -> Graph:
    """A graph whose table of ships has a fragment for each load."""
    graph = omnigraph.init(tmp_path / "fleet.og", SCHEMA)
    for first in range(0, 12, 3):
        graph.load(ships(first, 3))
    return graph


def test_outcomes_come_in_the_order_of_the_items(spark: SparkSession) -> None:
    runner = SparkExecutor(spark, "counting")
    found = runner.run(_squared, list(range(5)))
    assert [square for square, _ in found] == [0, 1, 4, 9, 16]
    assert os.getpid() not in {process for _, process in found}
    assert runner.run(_squared, []) == []
    assert runner.parallelism == 2


def test_a_worker_collects_no_garbage_of_modules_after_each_task(spark: SparkSession) -> None:
    frozen_here = gc.get_freeze_count()
    runner = SparkExecutor(spark, "counting")
    counts = [runner.run(_walked_over, [0, 1]) for _ in range(3)][-1]
    assert all(walked < frozen for walked, frozen in counts), counts
    assert gc.get_freeze_count() == frozen_here


def test_what_a_task_raises_is_raised_here(spark: SparkSession) -> None:
    with pytest.raises(NotFound, match="there is no ship") as caught:
        SparkExecutor(spark, "looking").run(_missing, ["ship"])
    assert (caught.value.code, caught.value.details) == ("not_found", {"name": "ship"})


def test_indexes_are_built_on_executors(spark: SparkSession, fleet: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "MIN_ROWS_IN_A_SEGMENT", 1)
    report = fleet.spark(spark).ensure_indexes(types=["Ship"], actor="ann")
    assert {index.column for index in report.built} == {"id", "code", "name", "crew"}
    assert report.commit == fleet.commits(upkeep=True)[0]
    assert report.commit is not None
    assert report.commit.actor == "ann"
    table = fleet.snapshot().table("Ship")
    assert {each.columns[0]: each.rows for each in table.list_indexes().values()} == dict.fromkeys(
        ("id", "code", "name", "crew"), 12
    )
    found = fleet.query('query q() { match { $s: Ship  search($s.name, "number7") } return { $s.code } }').rows
    assert found == [{"s.code": "s7"}]
    assert table.count_rows("id = 's11'") == 1
    assert fleet.spark(spark).ensure_indexes().commit is None
    reader = omnigraph.open(fleet.uri, "ro").spark(spark)
    with pytest.raises(ReadOnly):
        reader.ensure_indexes()


def test_a_load_is_followed_by_what_the_schema_declares(spark: SparkSession, fleet: Graph) -> None:
    frame = spark.createDataFrame([("x", "ship x")], "code string, name string")
    sg = fleet.spark(spark)
    result = sg.load(nodes={"Ship": frame}, indexes="always")
    assert [each.message for each in fleet.commits(upkeep=True)[:2]] == ["ensure indexes", None]
    assert fleet.commits()[0] == result.commit
    assert set(fleet.snapshot().table("Ship").list_indexes()) == {"id_idx", "code_idx", "name_idx", "crew_idx"}
    assert sg.load(nodes={"Ship": spark.createDataFrame([("y", "y")], "code string, name string")}).commit is not None
    assert fleet.commits()[0].message is None, "a small load leaves them as they are"


def test_a_table_is_compacted_on_executors(spark: SparkSession, fleet: Graph) -> None:
    before, table = rows_of(fleet, "Ship"), fleet.snapshot().table("Ship")
    staged = stage_compaction(table, SparkExecutor(spark, "compacting"), partial(plan_worthwhile_tasks, target_rows=6))
    assert staged is not None
    after = tables.commit(table, staged, "operation")
    assert (len(table.fragment_rows()), len(after.fragment_rows())) == (4, 2)
    assert after.scan(["id"]).read_all()["id"].to_pylist() == [row["id"] for row in before]


def test_a_graph_is_optimized_on_executors(spark: SparkSession, fleet: Graph) -> None:
    fleet.load(ships(100, 3))
    before = rows_of(fleet, "Ship")
    result = fleet.spark(spark).optimize(types=["Ship"])
    assert [commit.message for commit in result.commits] == ["compact tables", "ensure indexes"]
    assert [(table.fragments, "id" in table.indexed) for table in result.tables] == [(1, True)]
    assert sorted(map(str, rows_of(fleet, "Ship"))) == sorted(map(str, before))
    assert fleet.spark(spark).optimize(types=["Ship"]).commits == ()
