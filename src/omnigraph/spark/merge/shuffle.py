"""Shuffle candidate rows by id, so that all sides of an id are in one partition.

Candidates are the rows that may have changed, according to metadata (``read/changes/candidates.py``). Tasks read and
pack them, many rows into one; the task of a partition writes them to local files until it has all of them. Partitions
are independent of each other.
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
"""The size of a value whose type has no fixed width."""
_BYTES_AT_ONCE: Final = 32 * 1024 * 1024
"""A task packs this many bytes at a time. More would make larger packs, but need more memory."""

_PACKS: Final = "partition int, table int, stream int, body binary"
_PACK: Final = pa.schema(
    [
        pa.field("partition", pa.int32()),
        pa.field("table", pa.int32()),
        pa.field("stream", pa.int32()),
        pa.field("body", pa.binary()),
    ]
)


# --------------------------------------------------------------------------------------------- input


class ShuffleInput(Protocol):
    """Rows that one task reads and packs. It is pickled and sent to the executor."""

    def pack(self, partitions: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows, packed by hash partition of their ids."""
        ...


def choose_partition_count(sides: Sequence[DiffSide], parallelism: int) -> int:
    """Choose the number of partitions: none is very large, and all executors have work."""
    rows = sum(side.num_rows for side in sides)
    size = sum(side.num_rows * _row_bytes(side.schema) for side in sides)
    busy = min(parallelism, rows // MIN_ROWS_PER_PARTITION)
    return max(1, min(_MAX_PARTITIONS, max(busy, size // _BYTES_PER_PARTITION)))


def split_candidates(candidates: CandidateRows | None) -> Iterator[CandidateRows]:
    """Split candidate rows into pieces for one task each."""
    if candidates is None:
        return
    pending: list[CandidateFragment] = []
    for part in candidates.parts:
        pending.append(part)
        if sum(each.num_rows for each in pending) >= _ROWS_PER_TASK:
            yield CandidateRows(candidates.table, tuple(pending))
            pending = []
    if pending:
        yield CandidateRows(candidates.table, tuple(pending))


def shuffle_rows(session: SparkSession, rows: Sequence[ShuffleInput], partitions: int) -> DataFrame:
    """Read, pack and shuffle rows; each partition of the result holds all packs of its ids."""
    numbers = pa.array(range(len(rows)), pa.int32())
    bodies = pa.array([pickle.dumps(each) for each in rows], pa.binary())
    given = session.createDataFrame(pa.table({"number": numbers, "body": bodies}))
    packs = given.repartitionById(len(rows), "number").mapInArrow(partial(run_pack_tasks, partitions), _PACKS)
    return packs.repartitionById(partitions, "partition")


def _row_bytes(schema: pa.Schema) -> int:
    """Return the approximate size of a row in bytes; blobs are not shuffled."""
    return sum(_value_bytes(type_) for type_ in schema.types)


def _value_bytes(type_: pa.DataType) -> int:
    try:
        return max(1, type_.bit_width // 8)
    except ValueError:
        return _GUESSED_BYTES


# --------------------------------------------------------------------------------------------- packing


def run_pack_tasks(partitions: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Unpickle the inputs of a task, and yield their packs."""
    for batch in batches:
        for body in cast("list[bytes]", to_list(column_of(batch, "body"))):
            rows = cast("ShuffleInput", pickle.loads(body))  # noqa: S301  pickled by our own driver
            yield from rows.pack(partitions)


@dataclass(frozen=True, slots=True)
class CandidateInput:
    """Shuffle input: candidate rows of one side of a table. Table and stream are numbers that tasks know."""

    table: int
    stream: int
    side: DiffSide

    def pack(self, partitions: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows, packed by hash partition of their ids."""
        pending: list[pa.RecordBatch] = []
        size = 0
        for batch in self.side.open_stream(self.side.schema.names).rows:
            pending.append(batch)
            size += batch.nbytes
            if size > _BYTES_AT_ONCE:
                yield from pack_rows(self.table, self.stream, pa.Table.from_batches(pending), partitions)
                pending, size = [], 0
        if pending:
            yield from pack_rows(self.table, self.stream, pa.Table.from_batches(pending), partitions)


def pack_rows(table: int, stream: int, rows: pa.Table, partitions: int) -> Iterator[pa.RecordBatch]:
    """Yield rows, packed by hash partition of their ids."""
    numbers = assign_partitions(cast("pa.StringArray", column_of(rows, "id")), partitions)
    order = np.argsort(numbers, kind="stable").astype(np.int64)
    bounds = [0, *np.cumsum(np.bincount(numbers, minlength=partitions)).tolist()]
    for partition, (start, end) in enumerate(pairwise(bounds)):
        if end > start:
            sink = pa.BufferOutputStream()
            with ipc.new_stream(sink, rows.schema) as writer:
                writer.write_table(rows.take(order[start:end]))
            values = ([partition], [table], [stream], [sink.getvalue().to_pybytes()])
            columns = [pa.array(value, type_) for value, type_ in zip(values, _PACK.types, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=_PACK)


# --------------------------------------------------------------------------------------------- in a partition


@dataclass(slots=True)
class ReceivedRows:
    """The rows of one stream that a partition received, in a local file."""

    path: Path
    num_rows: int = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read the rows."""
        with pa.memory_map(str(self.path)) as file:
            reader = ipc.open_file(file)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)


def receive_rows(folder: Path, batches: Iterable[pa.RecordBatch]) -> Mapping[tuple[int, int], ReceivedRows]:
    """Write the rows of a partition to local files, by table and stream."""
    found: dict[tuple[int, int], ReceivedRows] = {}
    with ExitStack() as stack:
        files: dict[Path, ipc.RecordBatchFileWriter] = {}
        for batch in batches:
            columns = (to_list(column_of(batch, name)) for name in ("table", "stream", "body"))
            for table, stream, body in cast("Iterator[tuple[int, int, bytes]]", zip(*columns, strict=True)):
                received = found.setdefault((table, stream), ReceivedRows(folder / f"{table}-{stream}.arrow"))
                for rows in ipc.open_stream(body):
                    if received.path not in files:
                        files[received.path] = stack.enter_context(ipc.new_file(str(received.path), rows.schema))
                    files[received.path].write_batch(rows)
                    received.num_rows += rows.num_rows
    return found


@dataclass(frozen=True, slots=True)
class _ReceivedCandidates:
    """The candidate rows of one side, in a file of this executor."""

    table: Table
    received: ReceivedRows

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self.received.num_rows

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows with their addresses."""
        return (batch.select([*columns, ROW_ADDRESS]) for batch in self.received.batches())


@dataclass(frozen=True, slots=True)
class StreamSource:
    """Where the rows of a stream come from: the table, if it exists, and its type in that snapshot."""

    table: Table | None
    type: NodeType | EdgeType
    unrelated: frozenset[str] = frozenset()
    """See :class:`DiffSide`."""

    def to_side(self, received: ReceivedRows | None) -> DiffSide:
        """Return the received rows as one side of a comparison."""
        if self.table is None or received is None:
            return DiffSide(None, self.type, self.unrelated)
        return DiffSide(_ReceivedCandidates(self.table, received), self.type, self.unrelated)
