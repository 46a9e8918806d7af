"""Tables as executors read them for a load: by fragments, in the columns that are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import pyarrow as pa

from omnigraph.storage.columns import column_of, to_list
from omnigraph.storage.pinned import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_IN_A_TASK: Final = 1_000_000
"""Fragments are read by as many tasks as have about so many rows each."""

FEW_ROWS: Final = 100
"""So few incoming rows this process handles itself, in less time than a job takes to begin. More are not looked up by
their values in every case, and then whole columns of the tables would have to come here."""
_NUMBER: Final = "id"
"""The column of Spark's own ranges."""

Work: TypeAlias = Callable[[Table, Sequence[int]], Iterable[pa.RecordBatch]]
"""What a task does with some fragments of a table."""


def on_fragments(
    session: SparkSession, table: Table, groups: Sequence[Sequence[int]], work: Work, schema: str
) -> DataFrame:
    """What the executors make of groups of fragments of a table, one task for each."""
    count = len(groups)
    return session.range(0, count, 1, count).mapInArrow(partial(_worked, table, groups, work), schema)


def _worked(
    table: Table, groups: Sequence[Sequence[int]], work: Work, numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in to_list(column_of(batch, _NUMBER)):
            yield from work(table, groups[cast(int, number)])
