"""What Spark counted: the bytes of shuffles, and how much each task of a stage got of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def shuffled_bytes(spark: SparkSession) -> int:
    """The bytes that shuffles have written since the session began."""
    executors = _status_store(spark).executorList(True)
    return sum(executors.apply(each).totalShuffleWrite() for each in range(executors.size()))


def received_bytes(spark: SparkSession, group: str) -> list[list[int]]:
    """How many bytes each task got from a shuffle, for each stage of the jobs of a group that reads one."""
    tracker, store = spark.sparkContext.statusTracker(), _status_store(spark)
    jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
    found: list[list[int]] = []
    for stage in sorted({stage for job in jobs for stage in cast("list[int]", job.stageIds)}):
        tasks = store.taskList(stage, 0, 10_000)
        metrics = [tasks.apply(each).taskMetrics().get().shuffleReadMetrics() for each in range(tasks.size())]
        sizes = [int(each.localBytesRead() + each.remoteBytesRead()) for each in metrics]
        if any(sizes):
            found.append(sizes)
    return found


def _status_store(spark: SparkSession) -> Any:
    # Spark has no Python API for it.
    return cast("Any", spark.sparkContext)._jsc.sc().statusStore()
