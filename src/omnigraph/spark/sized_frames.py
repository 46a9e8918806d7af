"""DataFrames whose size is known, and joins that are chosen by it.

Spark guesses the size of a frame that Python makes: a few kilobytes if a task yields it, the maximum if our data source
reads it. By the first guess it would send any number of rows through the driver, as a broadcast; by the second it would
sort a table of ten rows. The snapshot knows better, so every join says by a hint how it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as fn

from omnigraph.lazy_dataclass import dataclass
from omnigraph.spark.executor import union_all
from omnigraph.write.executor import group_evenly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

JoinKind: TypeAlias = Literal["inner", "left", "left_semi", "left_anti"]

MAX_BROADCAST_BYTES: Final = 8 * 1024 * 1024
"""A frame up to this size is sent to all executors; larger ones are shuffled."""
PARTITION_BYTES: Final = 64 * 1024 * 1024
"""The size of a task's input, about."""
MAX_PARTITIONS: Final = 4_096
MIN_PARTITION_BYTES: Final = 1024 * 1024
"""Less than this is not divided, however many cores are idle."""
MAX_TASK_ROWS: Final = 1_000_000
_MIN_TASK_ROWS: Final = 100_000
"""Smaller tasks would take longer to start than to run."""


@dataclass(frozen=True, slots=True, eq=False)
class SizedFrame:
    """A DataFrame that has at most ``max_rows`` rows, of about ``row_bytes`` each."""

    frame: DataFrame
    max_rows: int
    row_bytes: int

    @property
    def max_bytes(self) -> int:
        """The size of all rows, at most."""
        return self.max_rows * self.row_bytes

    @property
    def can_broadcast(self) -> bool:
        """Whether the rows are few enough to be sent to all executors through the driver."""
        return self.max_bytes <= MAX_BROADCAST_BYTES


def union_sized(frames: Iterable[SizedFrame]) -> SizedFrame:
    """Concatenate frames with the same columns."""
    given = list(frames)
    rows = sum(each.max_rows for each in given)
    return SizedFrame(union_all(each.frame for each in given), rows, max(each.row_bytes for each in given))


def join_by_size(left: SizedFrame, right: SizedFrame, on: Sequence[str], how: JoinKind, parallelism: int) -> DataFrame:
    """Join two frames on columns that both have; broadcast the smaller one if it is small, else shuffle both."""
    columns = list(on)
    if right.can_broadcast and (how != "inner" or right.max_bytes <= left.max_bytes):
        return left.frame.join(right.frame.hint("broadcast"), columns, how)
    if how == "inner" and left.can_broadcast:
        return left.frame.hint("broadcast").join(right.frame, columns, how)
    count = count_partitions(left.max_bytes + right.max_bytes, parallelism)
    # Sorted, a side that exceeds the memory of an executor is spilled to its disk.
    shuffled = left.frame.repartition(count, *columns).hint("merge")
    return shuffled.join(right.frame.repartition(count, *columns), columns, how)


def join_pairs(
    left: SizedFrame, right: SizedFrame, equal: Sequence[tuple[str, str]], how: JoinKind, partitions: Callable[[], int]
) -> DataFrame:
    """Join two frames on pairs of equal columns; broadcast the smaller one if it is small, else shuffle both.

    ``partitions`` returns how many partitions rows are shuffled to; it is asked only if they are.
    """
    condition = reduce(Column.__and__, (fn.col(one) == fn.col(other) for one, other in equal))
    if right.can_broadcast and (how != "inner" or right.max_bytes <= left.max_bytes):
        return left.frame.join(right.frame.hint("broadcast"), condition, how)
    if how == "inner" and left.can_broadcast:
        return left.frame.hint("broadcast").join(right.frame, condition, how)
    count = partitions()
    shuffled = left.frame.repartition(count, *(one for one, _ in equal)).hint("merge")
    return shuffled.join(right.frame.repartition(count, *(other for _, other in equal)), condition, how)


def hint_join(left: DataFrame, right: SizedFrame, on: list[str] | Column, how: JoinKind) -> DataFrame:
    """Join a frame of unknown size with one whose size is known: broadcast that if it is small, else shuffle both."""
    return left.join(right.frame.hint("broadcast" if right.can_broadcast else "merge"), on, how)


def join_by_condition(left: SizedFrame, right: SizedFrame, condition: Column) -> DataFrame:
    """Inner join of two frames of known sizes: broadcast the smaller one if it is small, else shuffle both."""
    if left.can_broadcast and left.max_bytes < right.max_bytes:
        return left.frame.hint("broadcast").join(right.frame, condition)
    return hint_join(left.frame, right, condition, "inner")


def count_partitions(size: int, parallelism: int) -> int:
    """Return how many partitions to divide rows of this size in bytes into: none is large, and all cores have work."""
    busy = min(parallelism, size // MIN_PARTITION_BYTES)
    return max(1, min(MAX_PARTITIONS, max(busy, -(-size // PARTITION_BYTES))))


def divide_fragments(fragments: Mapping[int, int], row_bytes: int, parallelism: int) -> list[tuple[int, ...]]:
    """Divide fragments, given with their row counts, into tasks: none is large, and all cores have work."""
    most = min(MAX_TASK_ROWS, max(1, PARTITION_BYTES // row_bytes))
    share = -(-sum(fragments.values()) // parallelism)
    return group_evenly(fragments, max(1, min(most, max(share, _MIN_TASK_ROWS))))
