"""Rows that may have changed go to the part that their ids belong to, where all sides of an id meet.

Metadata says which rows these are (``read/changes/candidates.py``). Tasks read them and send them on packed, many in
one, and in their part they lie in files of the executor until it is complete. No part needs to know of another.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.read.changes import CandidateFragment, CandidateRows, DiffSide
from omnigraph.spark.load import assign_partitions
from omnigraph.storage.columns import column_of, to_list
from omnigraph.storage.table import ROW_ADDRESS, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MIN_ROWS_PER_PARTITION: Final = 5_000
_ROWS_PER_TASK: Final = 250_000
_BYTES_PER_PARTITION: Final = 64 * 1024 * 1024
_MAX_PARTITIONS: Final = 4_096
_GUESSED_BYTES: Final = 32
"""What a value takes whose type does not say."""
_BYTES_AT_ONCE: Final = 32 * 1024 * 1024
"""A task divides so much at a time: with more of it packs become larger, and so does its memory."""

_PACKS: Final = "part int, table int, stream int, body binary"
_PACK: Final = pa.schema(
    [
        pa.field("part", pa.int32()),
        pa.field("table", pa.int32()),
        pa.field("stream", pa.int32()),
        pa.field("body", pa.binary()),
    ]
)


# --------------------------------------------------------------------------------------------- which rows


class ShuffleInput(Protocol):
    """Rows that go to parts; pickled, they are the order of a task."""

    def pack(self, parts: int) -> Iterator[pa.RecordBatch]:
        """The rows, divided by their ids."""
        ...


def choose_partition_count(sides: Sequence[DiffSide], at_once: int) -> int:
    """Into how many parts rows go: none is very large, and all executors have something to do."""
    rows = sum(side.num_rows for side in sides)
    size = sum(side.num_rows * _row_bytes(side.schema) for side in sides)
    busy = min(at_once, rows // MIN_ROWS_PER_PARTITION)
    return max(1, min(_MAX_PARTITIONS, max(busy, size // _BYTES_PER_PARTITION)))


def split_candidates(touched: CandidateRows | None) -> Iterator[CandidateRows]:
    """Rows in pieces that a task reads."""
    if touched is None:
        return
    held: list[CandidateFragment] = []
    for part in touched.parts:
        held.append(part)
        if sum(each.num_rows for each in held) >= _ROWS_PER_TASK:
            yield CandidateRows(touched.table, tuple(held))
            held = []
    if held:
        yield CandidateRows(touched.table, tuple(held))


def shuffle_rows(session: SparkSession, rows: Sequence[ShuffleInput], parts: int) -> DataFrame:
    """Packs of all these rows, each part in a partition of its own."""
    numbers = pa.array(range(len(rows)), pa.int32())
    bodies = pa.array([pickle.dumps(each) for each in rows], pa.binary())
    given = session.createDataFrame(pa.table({"number": numbers, "body": bodies}))
    packs = given.repartitionById(len(rows), "number").mapInArrow(partial(run_pack_tasks, parts), _PACKS)
    return packs.repartitionById(parts, "part")


def _row_bytes(schema: pa.Schema) -> int:
    """About how many bytes a row takes; blobs do not travel with it."""
    return sum(_value_bytes(type_) for type_ in schema.types)


def _value_bytes(type_: pa.DataType) -> int:
    try:
        return max(1, type_.bit_width // 8)
    except ValueError:
        return _GUESSED_BYTES


# --------------------------------------------------------------------------------------------- to the parts


def run_pack_tasks(parts: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The task of some rows: packs for the parts that their ids belong to."""
    for batch in batches:
        for body in cast("list[bytes]", to_list(column_of(batch, "body"))):
            rows = cast("ShuffleInput", pickle.loads(body))  # noqa: S301  made by our own driver
            yield from rows.pack(parts)


@dataclass(frozen=True, slots=True)
class CandidateInput:
    """Rows of one side of a table that may have changed. Table and stream are numbers that the part knows."""

    table: int
    stream: int
    side: DiffSide

    def pack(self, parts: int) -> Iterator[pa.RecordBatch]:
        """The rows, divided by their ids."""
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in self.side.open_stream(self.side.schema.names).rows:
            held.append(batch)
            size += batch.nbytes
            if size > _BYTES_AT_ONCE:
                yield from pack_rows(self.table, self.stream, pa.Table.from_batches(held), parts)
                held, size = [], 0
        if held:
            yield from pack_rows(self.table, self.stream, pa.Table.from_batches(held), parts)


def pack_rows(table: int, stream: int, rows: pa.Table, parts: int) -> Iterator[pa.RecordBatch]:
    """Rows, packed for the parts that their ids belong to."""
    belong = assign_partitions(cast("pa.StringArray", column_of(rows, "id")), parts)
    order = np.argsort(belong, kind="stable").astype(np.int64)
    bounds = [0, *np.cumsum(np.bincount(belong, minlength=parts)).tolist()]
    for part, (start, end) in enumerate(pairwise(bounds)):
        if end > start:
            sink = pa.BufferOutputStream()
            with ipc.new_stream(sink, rows.schema) as writer:
                writer.write_table(rows.take(order[start:end]))
            values = ([part], [table], [stream], [sink.getvalue().to_pybytes()])
            columns = [pa.array(value, type_) for value, type_ in zip(values, _PACK.types, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=_PACK)


# --------------------------------------------------------------------------------------------- in a part


@dataclass(slots=True)
class ReceivedRows:
    """The rows of one stream that arrived for a part, in a file."""

    path: Path
    num_rows: int = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows."""
        with pa.memory_map(str(self.path)) as file:
            reader = ipc.open_file(file)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)


def receive_rows(folder: Path, batches: Iterable[pa.RecordBatch]) -> Mapping[tuple[int, int], ReceivedRows]:
    """All that a part gets, by table and stream."""
    found: dict[tuple[int, int], ReceivedRows] = {}
    with ExitStack() as stack:
        files: dict[Path, ipc.RecordBatchFileWriter] = {}
        for batch in batches:
            columns = (to_list(column_of(batch, name)) for name in ("table", "stream", "body"))
            for table, stream, body in cast("Iterator[tuple[int, int, bytes]]", zip(*columns, strict=True)):
                here = found.setdefault((table, stream), ReceivedRows(folder / f"{table}-{stream}.arrow"))
                for rows in ipc.open_stream(body):
                    if here.path not in files:
                        files[here.path] = stack.enter_context(ipc.new_file(str(here.path), rows.schema))
                    files[here.path].write_batch(rows)
                    here.num_rows += rows.num_rows
    return found


@dataclass(frozen=True, slots=True)
class _ReceivedCandidates:
    """Rows of one side that may have changed, in a file of this executor."""

    table: Table
    received: ReceivedRows

    @property
    def num_rows(self) -> int:
        """How many there are."""
        return self.received.num_rows

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows with their addresses."""
        return (batch.select([*columns, ROW_ADDRESS]) for batch in self.received.batches())


@dataclass(frozen=True, slots=True)
class StreamSource:
    """Where the rows of a stream come from: the table, if there is one, and its type there."""

    table: Table | None
    type: NodeType | EdgeType

    def to_side(self, here: ReceivedRows | None) -> DiffSide:
        """What has arrived of it, to be compared."""
        if self.table is None or here is None:
            return DiffSide(None, self.type)
        return DiffSide(_ReceivedCandidates(self.table, here), self.type)
