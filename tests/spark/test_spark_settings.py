"""Spark as clusters have it: several shuffle partitions, adaptive plans, generated code; many rows in the long run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast
from uuid import uuid4

import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.spark import sized_frames
from tests.selection import daily, sized

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDINARY: Final = {
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
}
SHIPS: Final = sized(2_000, 1_000_000)
QUERIES: Final = {
    "group": "match { $a: Ship } return { $a.kind as kind, count($a) as n }",
    "group of a join": "match { $a: Ship  $a tows $b } return { $b.kind as kind, count($a) as n }",
    "distinct": "match { $a: Ship  $a tows $b } return distinct { $b.kind as kind }",
    "sort": "match { $a: Ship } return { $a.code as code } order { $a.kind, $a.code desc }",
    "block": "match { $a: Ship  not { $a tows $b } } return { $a.code as code }",
    "optional": "match { $a: Ship  optional { $a tows $b } } return { $a.code as code, $b.code as other }",
    "walk": "match { $a: Ship  $a tows{1,2} $b } return { $a.code as code, $b.code as other }",
}


@pytest.fixture
def ordinary(spark: SparkSession) -> Generator[SparkSession]:
    """The one session, with other settings meanwhile."""
    before = {name: spark.conf.get(name, None) for name in ORDINARY}
    for name, value in ORDINARY.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


@pytest.mark.slow
def test_a_load_a_merge_and_a_query(ordinary: SparkSession, tmp_path: Path) -> None:
    graph = omnigraph.init(
        tmp_path / "ships.og", "node Ship { code: String @key  name: String }  edge Tows: Ship -> Ship"
    )
    sg = graph.spark(ordinary)
    ships = ordinary.range(0, SHIPS, 1, 6).selectExpr("concat('s', id) as code", "concat('ship ', id) as name")
    tows = ordinary.range(0, SHIPS - 1, 1, 6).selectExpr("concat('s', id) as `from`", "concat('s', id + 1) as `to`")
    loaded = sg.load(nodes={"Ship": ships}, edges={"Tows": tows})
    assert (loaded.nodes, loaded.edges) == ({"Ship": SHIPS}, {"Tows": SHIPS - 1})
    changed = ships.where(f"code in ('s0', 's{SHIPS - 1}')").selectExpr("code", "'other' as name")
    more = ordinary.range(SHIPS, SHIPS + 500, 1, 3).selectExpr("concat('s', id) as code", "'more' as name")
    sg.load(nodes={"Ship": changed.unionByName(more)}, mode="merge")
    assert sg.nodes("Ship").count() == SHIPS + 500
    assert sg.nodes("Ship", filter={"name": "other"}).count() == 2
    walked = sg.query(
        "query q() { match { $a: Ship  $a tows{2,3} $b } return { count($b) as n } }", engine="spark"
    ).collect()
    assert walked[0]["n"] == 2 * SHIPS - 5


@pytest.fixture
def fleet(tmp_path: Path) -> Graph:
    graph = omnigraph.init(tmp_path / "fleet.og", "node Ship { code: String @key  kind: I32 }  edge Tows: Ship -> Ship")
    ships = [{"type": "Ship", "data": {"code": f"s{number:03}", "kind": number % 7}} for number in range(200)]
    tows = [{"edge": "Tows", "from": f"s{number:03}", "to": f"s{number // 2:03}"} for number in range(1, 150)]
    graph.load([*ships, *tows])
    return graph


@pytest.mark.parametrize("adaptive", daily(["true", "false"], ["false"]))
@pytest.mark.parametrize("name", daily(QUERIES, ["group of a join", "walk"]))
def test_a_small_graph_needs_one_task_in_every_stage(
    ordinary: SparkSession, fleet: Graph, name: str, adaptive: str
) -> None:
    ordinary.conf.set("spark.sql.adaptive.enabled", adaptive)
    source = f"query q() {{ {QUERIES[name]} }}"
    with counted_tasks(ordinary) as count:
        found = fleet.spark(ordinary).query(source, engine="spark")
        rows = [row.asDict() for row in found.collect()]
    expected = fleet.query(source).rows
    assert rows == expected if name == "sort" else by_text(rows) == by_text(expected)
    # The frontiers of a walk are put together, and each is one task.
    assert max(count()) <= (2 if name == "walk" else 1)


def test_groups_are_aggregated_before_they_are_shuffled(
    ordinary: SparkSession, fleet: Graph, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.spark(ordinary).query(f"query q() {{ {QUERIES['group']} }}", engine="spark").explain()
    plan = capsys.readouterr().out
    assert plan.index("Exchange hashpartitioning") < plan.index("partial_count")


@pytest.mark.parametrize("task_bytes", daily([8_192, 2_048, 1_024], [2_048, 1_024]))
def test_more_data_get_more_tasks(
    ordinary: SparkSession,
    fleet: Graph,
    task_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(sized_frames, "PARTITION_BYTES", task_bytes)
    sort, group = (f"query q() {{ {QUERIES[name]} }}" for name in ("sort", "group"))
    # 200 rows of 64 bytes.
    needed = -(-12_800 // task_bytes)
    with counted_tasks(ordinary) as count:
        ordered = fleet.spark(ordinary).query(sort, engine="spark")
        assert [row.asDict() for row in ordered.collect()] == fleet.query(sort).rows
    assert max(count()) >= needed
    with counted_tasks(ordinary) as count:
        grouped = fleet.spark(ordinary).query(group, engine="spark")
        assert by_text([row.asDict() for row in grouped.collect()]) == by_text(fleet.query(group).rows)
    # Spark aggregates before it shuffles to as many partitions as its setting says; fewer tasks may read them.
    assert max(count()) == min(needed, 8)
    assert ("set spark.sql.shuffle.partitions to" in caplog.text) == (needed > 8)


@contextmanager
def counted_tasks(spark: SparkSession) -> Generator[Callable[[], list[int]]]:
    """Run jobs; then return the number of tasks in each of their stages."""
    group = uuid4().hex
    spark.sparkContext.setJobGroup(group, "counted")
    tracker = spark.sparkContext.statusTracker()

    def count() -> list[int]:
        jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
        stages = {stage for job in jobs for stage in cast("list[int]", job.stageIds)}
        return [info.numTasks for info in map(tracker.getStageInfo, stages) if info is not None]

    yield count
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # pyright: ignore[reportArgumentType]  None clears it


def by_text(rows: Iterable[Mapping[str, object]]) -> list[str]:
    return sorted(map(str, rows))
