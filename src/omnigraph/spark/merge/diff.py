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
from omnigraph.spark.merge.shuffle import (
    CandidateInput,
    ReceivedRows,
    StreamSource,
    choose_partition_count,
    receive_rows,
    shuffle_rows,
    split_candidates,
)
from omnigraph.spark.source import CHANGE_ARROW_SCHEMA, CHANGE_FIELDS, to_change_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DIFF_SCHEMA: Final = StructType(list(CHANGE_FIELDS))
_ROWS_AT_ONCE: Final = 1_024


class _DiffStream(IntEnum):
    BEFORE = 0
    AFTER = 1


@dataclass(frozen=True, slots=True)
class _ComparedTable:
    """One table, on both sides."""

    table_key: str
    sources: Mapping[_DiffStream, StreamSource]


def diff_to_dataframe(session: SparkSession, diff: Diff) -> DataFrame:
    """The entities of a diff. Which rows to look at is found here, in metadata; nothing else before it is asked for."""
    tables: list[_ComparedTable] = []
    rows: list[CandidateInput] = []
    sides: list[DiffSide] = []
    for number, key in enumerate(diff.tables):
        found = find_table_candidates(diff.before, diff.after, key)
        sides += found.sides()
        pairs = zip(_DiffStream, (found.before, found.after), found.types, strict=True)
        origins: dict[_DiffStream, StreamSource] = {}
        for stream, touched, type_ in pairs:
            origins[stream] = StreamSource(None if touched is None else touched.table, type_)
            rows += (CandidateInput(number, stream, DiffSide(few, type_)) for few in split_candidates(touched))
        tables.append(_ComparedTable(key, origins))
    if not rows:
        return session.createDataFrame([], DIFF_SCHEMA)
    parts = choose_partition_count(sides, session.sparkContext.defaultParallelism)
    return shuffle_rows(session, rows, parts).mapInArrow(partial(_compare_partition, tables), DIFF_SCHEMA)


def _compare_partition(tables: Sequence[_ComparedTable], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The task of one part: what differs in it."""
    with TemporaryDirectory(prefix="omnigraph-diff-") as folder:
        here = receive_rows(Path(folder), batches)
        for number in sorted({table for table, _ in here}):
            yield from _compare_table(tables[number], number, here)


def _compare_table(
    table: _ComparedTable, number: int, here: Mapping[tuple[int, int], ReceivedRows]
) -> Iterator[pa.RecordBatch]:
    before, after = (table.sources[stream].to_side(here.get((number, stream))) for stream in _DiffStream)
    held: list[dict[str, object]] = []
    for record in read_diff_records(table.table_key, before, after):
        held.append(dict(zip(CHANGE_ARROW_SCHEMA.names, to_change_row(record), strict=True)))
        if len(held) == _ROWS_AT_ONCE:
            yield pa.RecordBatch.from_pylist(held, CHANGE_ARROW_SCHEMA)
            held = []
    yield pa.RecordBatch.from_pylist(held, CHANGE_ARROW_SCHEMA)
