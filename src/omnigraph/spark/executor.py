"""The one seam for distributed work: every job of this package is built and run here.

An item of work becomes one Spark task; what a task yields becomes a DataFrame, or returns to this process. Only the
interface that a session over Spark Connect has too is used, and nothing is kept on executors: a lost executor costs the
time to repeat its tasks.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial, reduce
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, cast

import pyarrow as pa

from omnigraph.lazy_dataclass import dataclass
from omnigraph.spark.diagnosis import translate_spark_errors
from omnigraph.spark.task_errors import map_batches
from omnigraph.storage.columns import column_of, to_list
from omnigraph.storage.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

_RANGE_ID: Final = "id"
"""The column of ``session.range``."""
_NUMBER: Final = "number"
_BODY: Final = "body"
_ROWS: Final = pa.schema([pa.field(_NUMBER, pa.int32()), pa.field(_BODY, pa.binary())])
_MAX_BYTES_WITH_TASKS: Final = 256 * 1024
"""Items up to this size in total are sent with the code of every task. Larger ones are shuffled: each to its task."""
_LOCAL_RELATION: Final = "spark.sql.execution.arrow.localRelationThreshold"
_SETTING: Final = Lock()
_SPLITS: Final = re.compile(r"\bRange \(.*\bsplits=(\d+)\)")

FragmentTask: TypeAlias = Callable[[Table, Sequence[int]], Iterable[pa.RecordBatch]]
"""Reads some fragments of a table and yields batches."""


@dataclass(frozen=True, slots=True)
class SparkExecutor:
    """Runs tasks on the executors of a Spark session."""

    session: SparkSession
    activity: str
    """What the tasks do, for the error message if one fails."""
    _cores: list[int] = field(default_factory=list[int], repr=False, compare=False)

    def doing(self, activity: str) -> SparkExecutor:
        """Return an executor for another activity."""
        return replace(self, activity=activity)

    @property
    def parallelism(self) -> int:
        """The number of tasks that the executors could run at the same time when it was first asked."""
        if not self._cores:
            self._cores.append(self._count_cores())
        return self._cores[0]

    def _count_cores(self) -> int:
        # The plan of a range names them, also over Spark Connect, which has no other way to ask. No job runs.
        ((plan,),) = cast("list[tuple[str]]", self.collect(self.session.sql("explain select id from range(1)")))
        found = _SPLITS.search(plan)
        assert found is not None, plan
        return max(1, int(found[1]))

    def run(self, task: Callable[[Item], Outcome], items: Sequence[Item]) -> list[Outcome]:
        """Run the task on each item and return the results in order."""
        return self.prepare(task, items)()

    def prepare(self, task: Callable[[Item], Outcome], items: Sequence[Item]) -> Callable[[], list[Outcome]]:
        """Return a function that runs the task on each item, each time it is called. Spark plans the job once."""
        if not items:
            return list[Outcome]
        numbered = list(enumerate(items))
        frame = self.map_items(partial(_run_task, task), numbered, f"{_NUMBER} int, {_BODY} binary")

        def run() -> list[Outcome]:
            outcomes = dict(cast("list[tuple[int, bytes]]", self.collect(frame)))
            # Pickled by our own tasks.
            return [cast("Outcome", pickle.loads(bytes(outcomes[at]))) for at in range(len(items))]  # noqa: S301

        return run

    def map_items(
        self, task: Callable[[Item], Iterable[pa.RecordBatch]], items: Sequence[Item], schema: str | StructType
    ) -> DataFrame:
        """Run a Spark task for each item, when the DataFrame is evaluated; the batches of all become its rows."""
        bodies = [pickle.dumps(item) for item in items]
        count = len(bodies)
        with translate_spark_errors(self.activity):
            if sum(map(len, bodies)) <= _MAX_BYTES_WITH_TASKS:
                numbers = self.session.range(0, count, 1, count)
                return map_batches(numbers, partial(_map_numbers, task, bodies), schema)
            given = self.session.createDataFrame(_number_bodies(bodies))
            return map_batches(given.repartitionById(count, _NUMBER), partial(_map_bodies, task), schema)

    @property
    def can_map_many(self) -> bool:
        """Whether :meth:`map_many` works: over Spark Connect, every frame of a few items is taken for a small one."""
        from pyspark.sql import SparkSession as ClassicSession

        return isinstance(cast("object", self.session), ClassicSession)

    def map_many(
        self, task: Callable[[Item], Iterable[pa.RecordBatch]], items: Sequence[Item], schema: StructType
    ) -> DataFrame:
        """Like :meth:`map_items`, but Spark knows nothing about the size of the rows, and so never broadcasts them."""
        rows = _number_bodies([pickle.dumps(item) for item in items])
        with translate_spark_errors(self.activity), self._without_local_relations():
            # Each batch becomes a partition.
            given = self.session.createDataFrame(pa.Table.from_batches(rows.to_batches(max_chunksize=1), _ROWS))
            return map_batches(given, partial(_map_bodies, task), schema)

    @contextmanager
    def _without_local_relations(self) -> Generator[None]:
        """Let Spark make an RDD of what it is given: it derives sizes from that of a local relation."""
        # Two threads at once would take the other's setting for that of the user.
        with _SETTING:
            before = self.session.conf.get(_LOCAL_RELATION)
            self.session.conf.set(_LOCAL_RELATION, "0")
            try:
                yield
            finally:
                self.session.conf.set(_LOCAL_RELATION, cast(str, before))

    def map_fragments(
        self, table: Table, groups: Sequence[Sequence[int]], task: FragmentTask, schema: str | StructType
    ) -> DataFrame:
        """Run a task on each group of fragments of a table; the batches of all tasks become one DataFrame."""
        return self.map_items(partial(task, table), list(groups), schema)

    def collect(self, frame: DataFrame) -> list[tuple[object, ...]]:
        """Evaluate a DataFrame once and return its rows. Tasks that write files write them each time they run."""
        with translate_spark_errors(self.activity):
            return cast("list[tuple[object, ...]]", frame.collect())

    def to_arrow(self, frame: DataFrame) -> pa.Table:
        """Evaluate a DataFrame once and return its rows as Arrow, which takes far less memory than tuples."""
        with translate_spark_errors(self.activity):
            return frame.toArrow()


def _number_bodies(bodies: Sequence[bytes]) -> pa.Table:
    return pa.Table.from_arrays([pa.array(range(len(bodies)), pa.int32()), pa.array(bodies, pa.binary())], schema=_ROWS)


# --------------------------------------------------------------------------------------------- on executors


def _map_numbers(
    task: Callable[[Item], Iterable[pa.RecordBatch]], bodies: Sequence[bytes], numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in cast("list[int]", to_list(column_of(batch, _RANGE_ID))):
            # Pickled by our own driver.
            yield from task(cast("Item", pickle.loads(bodies[number])))  # noqa: S301


def _map_bodies(
    task: Callable[[Item], Iterable[pa.RecordBatch]], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for body in cast("list[bytes]", to_list(column_of(batch, _BODY))):
            # Pickled by our own driver.
            yield from task(cast("Item", pickle.loads(body)))  # noqa: S301


def _run_task(task: Callable[[Item], object], numbered: tuple[int, Item]) -> Iterator[pa.RecordBatch]:
    number, item = numbered
    outcome = pickle.dumps(task(item))
    yield pa.RecordBatch.from_arrays([pa.array([number], pa.int32()), pa.array([outcome])], schema=_ROWS)


def union_all(frames: Iterable[DataFrame]) -> DataFrame:
    """Concatenate DataFrames with the same columns."""
    return reduce(lambda some, others: some.unionByName(others), frames)
