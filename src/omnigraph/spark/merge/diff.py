"""What changed between two moments of the graph as a DataFrame: executors find and show it, and no row comes here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from omnigraph.read.changes import Diff, DiffSide, find_table_candidates, read_diff_records
from omnigraph.spark.merge.shuffle import Arrived, Origin, TouchedRows, arrived, divided, in_parts, number_of_parts
from omnigraph.spark.source import ARROW, FIELDS, row_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA: Final = StructType(list(FIELDS))
_ROWS_AT_ONCE: Final = 1_024


class _Stream(IntEnum):
    BEFORE = 0
    AFTER = 1


@dataclass(frozen=True, slots=True)
class _Compared:
    """One table, on both sides."""

    table_key: str
    origins: Mapping[_Stream, Origin]


def frame_of(session: SparkSession, diff: Diff) -> DataFrame:
    """The entities of a diff. Which rows to look at is found here, in metadata; nothing else before it is asked for."""
    tables: list[_Compared] = []
    rows: list[TouchedRows] = []
    sides: list[DiffSide] = []
    for number, key in enumerate(diff.tables):
        found = find_table_candidates(diff.before, diff.after, key)
        sides += found.sides()
        pairs = zip(_Stream, (found.before, found.after), found.types, strict=True)
        origins: dict[_Stream, Origin] = {}
        for stream, touched, type_ in pairs:
            origins[stream] = Origin(None if touched is None else touched.table, type_)
            rows += (TouchedRows(number, stream, DiffSide(few, type_)) for few in divided(touched))
        tables.append(_Compared(key, origins))
    if not rows:
        return session.createDataFrame([], SCHEMA)
    parts = number_of_parts(sides, session.sparkContext.defaultParallelism)
    return in_parts(session, rows, parts).mapInArrow(partial(_compare, tables), SCHEMA)


def _compare(tables: Sequence[_Compared], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The task of one part: what differs in it."""
    with TemporaryDirectory(prefix="omnigraph-diff-") as folder:
        here = arrived(Path(folder), batches)
        for number in sorted({table for table, _ in here}):
            yield from _differences(tables[number], number, here)


def _differences(table: _Compared, number: int, here: Mapping[tuple[int, int], Arrived]) -> Iterator[pa.RecordBatch]:
    before, after = (table.origins[stream].side(here.get((number, stream))) for stream in _Stream)
    held: list[dict[str, object]] = []
    for record in read_diff_records(table.table_key, before, after):
        held.append(dict(zip(ARROW.names, row_of(record), strict=True)))
        if len(held) == _ROWS_AT_ONCE:
            yield pa.RecordBatch.from_pylist(held, ARROW)
            held = []
    yield pa.RecordBatch.from_pylist(held, ARROW)
