"""Tasks of lower rooms on the executors of Spark: one Spark task for each."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, cast

import pyarrow as pa

from omnigraph.spark.spark_errors import translate_spark_errors
from omnigraph.storage.columns import column_of, to_list
from omnigraph.storage.pinned import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

ROWS_PER_TASK: Final = 1_000_000
"""Fragments are read by as many tasks as have about so many rows each."""
_RANGE_ID: Final = "id"
"""The column of Spark's own ranges."""
_NUMBER: Final = "number"
_BODY: Final = "body"
_ROWS: Final = pa.schema([pa.field(_NUMBER, pa.int32()), pa.field(_BODY, pa.binary())])

FragmentTask: TypeAlias = Callable[[Table, Sequence[int]], Iterable[pa.RecordBatch]]
"""What a task does with some fragments of a table."""


@dataclass(frozen=True, slots=True)
class SparkExecutor:
    """Runs tasks in a session."""

    session: SparkSession
    activity: str
    """What the tasks do, for the error that says so when one fails."""

    @property
    def parallelism(self) -> int:
        """How many tasks the executors that are there can run at the same time."""
        return self.session.sparkContext.defaultParallelism

    def run(self, task: Callable[[Item], Outcome], items: Sequence[Item]) -> list[Outcome]:
        """What the task makes of each item, in their order."""
        if not items:
            return []
        numbers = pa.array(range(len(items)), pa.int32())
        bodies = pa.array([pickle.dumps(item) for item in items], pa.binary())
        with translate_spark_errors(self.activity):
            given = self.session.createDataFrame(pa.Table.from_arrays([numbers, bodies], schema=_ROWS))
            # Evaluated once: each time the tasks run they write files.
            apart = given.repartitionById(len(items), _NUMBER)
            told = apart.mapInArrow(partial(_run_tasks, task), f"{_NUMBER} int, {_BODY} binary").collect()
        found = dict(cast("list[tuple[int, bytes]]", told))
        # Made by our own tasks.
        return [cast("Outcome", pickle.loads(bytes(found[number]))) for number in range(len(items))]  # noqa: S301


def _run_tasks(task: Callable[[Item], object], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        numbers, bodies = (to_list(column_of(batch, name)) for name in (_NUMBER, _BODY))
        for number, body in zip(cast("list[int]", numbers), cast("list[bytes]", bodies), strict=True):
            item = cast("Item", pickle.loads(body))  # noqa: S301  made by our own driver
            outcome = pickle.dumps(task(item))
            yield pa.RecordBatch.from_arrays([pa.array([number], pa.int32()), pa.array([outcome])], schema=_ROWS)


def map_fragments(
    session: SparkSession, table: Table, groups: Sequence[Sequence[int]], work: FragmentTask, schema: str
) -> DataFrame:
    """What the executors make of groups of fragments of a table, one task for each."""
    count = len(groups)
    return session.range(0, count, 1, count).mapInArrow(partial(_run_fragment_tasks, table, groups, work), schema)


def _run_fragment_tasks(
    table: Table, groups: Sequence[Sequence[int]], work: FragmentTask, numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in to_list(column_of(batch, _RANGE_ID)):
            yield from work(table, groups[cast(int, number)])
