"""How frames are joined follows from their rows, and never from what Spark guesses; work is divided by bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from omnigraph.spark import sized_frames
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.load import incoming_rows as load_incoming
from omnigraph.spark.sized_frames import (
    MAX_BROADCAST_BYTES,
    PARTITION_BYTES,
    JoinKind,
    SizedFrame,
    count_partitions,
    divide_fragments,
    join_by_size,
)
from tests.spark.load.spark_loads import FIRST, codes, file_of, new_graph, ship

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BROADCAST = "BroadcastHashJoin"
SORTED = "SortMergeJoin"


def plan_of(frame: DataFrame) -> str:
    """The physical plan."""
    text = StringIO()
    with redirect_stdout(text):
        frame.explain()
    return text.getvalue()


def _list_ids(count: int, step: int) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"id": pa.array([f"n{number}" for number in range(0, count * step, step)])})


def made_by_python(spark: SparkSession, count: int, step: int = 1) -> DataFrame:
    """A frame that tasks make, of which Spark guesses that it is small."""
    return SparkExecutor(spark, "making rows").map_items(partial(_list_ids, count), [step], "id string")


# --------------------------------------------------------------------------------------------- joins


@pytest.mark.parametrize(
    "how", [*(pytest.param(how, marks=pytest.mark.slow) for how in ("left_semi", "left_anti")), "inner"]
)
def test_many_rows_are_never_broadcast_whatever_spark_guesses(spark: SparkSession, how: JoinKind) -> None:
    many = SizedFrame(made_by_python(spark, 20), 10_000_000, 32)
    more = SizedFrame(made_by_python(spark, 5, 2), MAX_BROADCAST_BYTES // 32 + 1, 32)
    assert BROADCAST in plan_of(many.frame.join(more.frame, "id", how)), "this is what Spark would do"
    joined = join_by_size(many, more, ["id"], how, 2)
    plan = plan_of(joined)
    assert SORTED in plan
    assert BROADCAST not in plan
    # The shuffles are those that follow from the bytes.
    assert plan.count(f", {count_partitions(many.max_bytes + more.max_bytes, 2)})") == 2
    assert joined.count() == {"left_semi": 5, "left_anti": 15, "inner": 5}[how]


def test_few_rows_are_broadcast_whatever_spark_guesses(spark: SparkSession) -> None:
    many, few = SizedFrame(made_by_python(spark, 20), 60_000_000, 32), SizedFrame(made_by_python(spark, 5), 5, 32)
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        for joined in (join_by_size(many, few, ["id"], "left_semi", 2), join_by_size(few, many, ["id"], "inner", 2)):
            plan = plan_of(joined)
            assert BROADCAST in plan
            assert SORTED not in plan
            assert joined.count() == 5
        # Only the right side of such a join can be broadcast, and it has many rows.
        assert SORTED in plan_of(join_by_size(few, many, ["id"], "left_semi", 2))
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


@pytest.mark.parametrize("most", [MAX_BROADCAST_BYTES, 0], ids=["few", "many"])
def test_a_merge_load_joins_by_the_number_of_its_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    plans: list[str] = []

    def collect(executor: SparkExecutor, frame: DataFrame) -> list[tuple[object, ...]]:
        plans.append(plan_of(frame))
        return original(executor, frame)

    original = SparkExecutor.collect
    monkeypatch.setattr(SparkExecutor, "collect", collect)
    monkeypatch.setattr(load_incoming, "LOCAL_LOAD_ROWS", 0)
    monkeypatch.setattr(sized_frames, "MAX_BROADCAST_BYTES", most)
    graph = new_graph(tmp_path / "ships.og", FIRST)
    # The names are unique, so a rule has to know which of them are replaced.
    changed = file_of(tmp_path / "more.jsonl", [ship("a", "Anna"), ship("d", "name of a")])
    graph.spark(spark).load(changed, mode="merge")
    assert codes(graph) == {"a": "Anna", "b": "name of b", "c": "name of c", "d": "name of a"}
    kinds = {kind for plan in plans for kind in (BROADCAST, SORTED) if kind in plan}
    assert kinds == ({BROADCAST} if most else {SORTED})
    assert sum(BROADCAST in plan or SORTED in plan for plan in plans) == 2, "the rule, and what is replaced"


# --------------------------------------------------------------------------------------------- sizes


def test_the_number_of_partitions_follows_the_bytes() -> None:
    assert count_partitions(0, 8) == 1
    assert count_partitions(1_000, 8) == 1, "eight tasks of a few rows would only cost time"
    assert count_partitions(8 * 1024 * 1024, 8) == 8
    assert count_partitions(100 * PARTITION_BYTES, 8) == 100
    assert count_partitions(10**15, 8) == sized_frames.MAX_PARTITIONS


def test_fragments_are_divided_by_the_bytes_of_their_rows() -> None:
    fragments = dict.fromkeys(range(20), 50_000)
    assert len(divide_fragments(fragments, 32, 1)) == 1
    assert len(divide_fragments(fragments, 32, 4)) == 4, "all cores have work"
    assert len(divide_fragments(fragments, 4 * 1536, 1)) == 20, "vectors are large"
