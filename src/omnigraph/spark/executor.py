"""Run Python tasks on Spark executors, one Spark task for each: pickled work items, or groups of table fragments.

Errors of Spark become errors of OmniGraph here.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, cast

import pyarrow as pa

from omnigraph.errors import NotFound, OmniGraphError, StorageError
from omnigraph.storage.columns import column_of, to_list
from omnigraph.storage.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

ROWS_PER_TASK: Final = 1_000_000
"""The number of rows that a task over fragments reads, about."""
_RANGE_ID: Final = "id"
"""The column of ``session.range``."""
_NUMBER: Final = "number"
_BODY: Final = "body"
_MISSING: Final = "PATH_NOT_FOUND"
_OWN_ERROR: Final = re.compile(r"^omnigraph\.errors\.\w+: (.+)$", re.MULTILINE)
_ROWS: Final = pa.schema([pa.field(_NUMBER, pa.int32()), pa.field(_BODY, pa.binary())])

FragmentTask: TypeAlias = Callable[[Table, Sequence[int]], Iterable[pa.RecordBatch]]
"""Reads some fragments of a table and yields batches."""


@dataclass(frozen=True, slots=True)
class SparkExecutor:
    """Runs tasks on the executors of a Spark session."""

    session: SparkSession
    activity: str
    """What the tasks do, for the error message if one fails."""

    @property
    def parallelism(self) -> int:
        """The number of tasks that the current executors can run at the same time."""
        return self.session.sparkContext.defaultParallelism

    def run(self, task: Callable[[Item], Outcome], items: Sequence[Item]) -> list[Outcome]:
        """Run the task on each item and return the results in order."""
        if not items:
            return []
        numbers = pa.array(range(len(items)), pa.int32())
        bodies = pa.array([pickle.dumps(item) for item in items], pa.binary())
        with translate_spark_errors(self.activity):
            frame = self.session.createDataFrame(pa.Table.from_arrays([numbers, bodies], schema=_ROWS))
            one_per_task = frame.repartitionById(len(items), _NUMBER)
            # Collected once: tasks write files each time they run.
            rows = one_per_task.mapInArrow(partial(_run_tasks, task), f"{_NUMBER} int, {_BODY} binary").collect()
        outcomes = dict(cast("list[tuple[int, bytes]]", rows))
        # Pickled by our own tasks.
        return [cast("Outcome", pickle.loads(bytes(outcomes[number]))) for number in range(len(items))]  # noqa: S301


def _run_tasks(task: Callable[[Item], object], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        numbers, bodies = (to_list(column_of(batch, name)) for name in (_NUMBER, _BODY))
        for number, body in zip(cast("list[int]", numbers), cast("list[bytes]", bodies), strict=True):
            item = cast("Item", pickle.loads(body))  # noqa: S301  pickled by our own driver
            outcome = pickle.dumps(task(item))
            yield pa.RecordBatch.from_arrays([pa.array([number], pa.int32()), pa.array([outcome])], schema=_ROWS)


def map_fragments(
    session: SparkSession, table: Table, groups: Sequence[Sequence[int]], task: FragmentTask, schema: str
) -> DataFrame:
    """Run a task on each group of fragments of a table; the batches of all tasks become one DataFrame."""
    count = len(groups)
    return session.range(0, count, 1, count).mapInArrow(partial(_run_fragment_tasks, table, groups, task), schema)


def _run_fragment_tasks(
    table: Table, groups: Sequence[Sequence[int]], task: FragmentTask, numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in to_list(column_of(batch, _RANGE_ID)):
            yield from task(table, groups[cast(int, number)])


def union_all(frames: Iterable[DataFrame]) -> DataFrame:
    """Concatenate DataFrames with the same columns."""
    return reduce(lambda some, others: some.unionByName(others), frames)


# --------------------------------------------------------------------------------------------- errors of Spark


@contextmanager
def translate_spark_errors(activity: str) -> Generator[None]:
    """Raise errors of Spark from the block as errors of OmniGraph. ``activity`` says what failed."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        if error.getCondition() == _MISSING:
            path = (error.getMessageParameters() or {}).get("path", "")
            raise NotFound(f"there is no file '{path.removeprefix('file:')}'") from error
        raise _to_storage_error(activity, error) from error
    except Py4JError as error:
        raise _to_storage_error(activity, error) from error


def _to_storage_error(activity: str, error: Exception) -> OmniGraphError:
    text = str(error)
    own = _OWN_ERROR.findall(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reason = own[-1] if own else (lines[0] if lines else type(error).__name__)
    return StorageError(f"{activity} failed on Spark: {reason}", hint="see the log of Spark; nothing was changed")
