"""A diff as a DataFrame: executors compare the rows, and no row passes through this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.changes import Diff, DiffSide, TypePair, find_type_candidates, read_diff_records
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.merge.candidate_rows import (
    CandidateInput,
    StreamSource,
    choose_partition_count,
    split_candidates,
)
from omnigraph.spark.shuffle import ReceivedRows, receive_rows, shuffle_rows
from omnigraph.spark.source import CHANGE_ARROW_SCHEMA, CHANGE_FIELDS, to_change_row
from omnigraph.spark.task_errors import map_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DIFF_SCHEMA: Final = StructType(list(CHANGE_FIELDS))
_ROWS_AT_ONCE: Final = 1_024


class _DiffStream(IntEnum):
    BEFORE = 0
    AFTER = 1


@dataclass(frozen=True, slots=True)
class _ComparedTable:
    """One type, and the source of its rows on each side."""

    pair: TypePair
    sources: Mapping[_DiffStream, StreamSource]


def diff_to_dataframe(session: SparkSession, diff: Diff) -> DataFrame:
    """Return the changed entities of a diff. Candidate rows are found now, from metadata; rows are compared lazily."""
    tables: list[_ComparedTable] = []
    rows: list[CandidateInput] = []
    sides: list[DiffSide] = []
    for number, pair in enumerate(diff.types):
        found = find_type_candidates(diff.before, diff.after, pair)
        sides += found.sides()
        sources: dict[_DiffStream, StreamSource] = {}
        for stream, candidates, type_ in zip(_DiffStream, (found.before, found.after), pair.types, strict=True):
            sources[stream] = StreamSource(None if candidates is None else candidates.table, type_)
            rows += (CandidateInput(number, stream, DiffSide(piece, type_)) for piece in split_candidates(candidates))
        tables.append(_ComparedTable(pair, sources))
    if not rows:
        return session.createDataFrame([], DIFF_SCHEMA)
    executor = SparkExecutor(session, "comparing")
    partitions = choose_partition_count(sides, executor.parallelism)
    return map_batches(shuffle_rows(executor, rows, partitions), partial(_compare_partition, tables), DIFF_SCHEMA)


def _compare_partition(tables: Sequence[_ComparedTable], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Task over one partition: yield the entities that differ."""
    with TemporaryDirectory(prefix="omnigraph-diff-") as folder:
        received = receive_rows(Path(folder), batches)
        for number in sorted({table for table, _ in received}):
            yield from _compare_table(tables[number], number, received)


def _compare_table(
    table: _ComparedTable, number: int, received: Mapping[tuple[int, int], ReceivedRows]
) -> Iterator[pa.RecordBatch]:
    before, after = (table.sources[stream].to_side(received.get((number, stream))) for stream in _DiffStream)
    batch: list[dict[str, object]] = []
    for record in read_diff_records(table.pair, before, after):
        batch.append(dict(zip(CHANGE_ARROW_SCHEMA.names, to_change_row(record), strict=True)))
        if len(batch) == _ROWS_AT_ONCE:
            yield pa.RecordBatch.from_pylist(batch, CHANGE_ARROW_SCHEMA)
            batch = []
    yield pa.RecordBatch.from_pylist(batch, CHANGE_ARROW_SCHEMA)
