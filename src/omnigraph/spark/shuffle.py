"""Shuffle rows by a key, packed: tasks read rows and pack many into one; all rows of a key come to one partition.

A pack belongs to a partition, a section and a stream; the last two are numbers that the task of a partition knows.
Spark moves a pack as one row, because unpacking the rows would cost it more than everything else. The task of a
partition writes what it gets to local files until it has all of it, so its memory does not grow with the partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc as ipc

from omnigraph.lazy_dataclass import dataclass
from omnigraph.spark.executor import SparkExecutor
from omnigraph.storage.columns import column_of, to_list

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PACK_COLUMNS: Final = "partition int, section int, stream int, body binary"
_PACK: Final = pa.schema(
    [
        pa.field("partition", pa.int32()),
        pa.field("section", pa.int32()),
        pa.field("stream", pa.int32()),
        pa.field("body", pa.binary()),
    ]
)
_PARTITION: Final = "partition"
_BYTES_AT_ONCE: Final = 32 * 1024 * 1024
"""A task packs this many bytes at a time. More would make larger packs, but need more memory."""

_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(32)
_WORD: Final = 8
_MASKS: Final = np.array([(1 << 8 * length) - 1 for length in range(_WORD + 1)], np.uint64)
"""Masks that keep the first n bytes of a word, for the last word of a text."""

TextHashes: TypeAlias = npt.NDArray[np.uint64]
PartitionNumbers: TypeAlias = npt.NDArray[np.uint16]


class ShuffleInput(Protocol):
    """Rows that one task reads and packs. It is pickled and sent to the executor."""

    def pack(self, partitions: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows, packed by hash partition of their keys."""
        ...


def shuffle_rows(executor: SparkExecutor, rows: Sequence[ShuffleInput], partitions: int) -> DataFrame:
    """Read, pack and shuffle rows; each partition of the result holds all packs of its keys."""
    return gather_packs(executor.map_items(partial(_pack_input, partitions), rows, PACK_COLUMNS), partitions)


def gather_packs(packs: DataFrame, partitions: int) -> DataFrame:
    """Bring each pack to its partition."""
    return packs.repartitionById(partitions, _PARTITION)


def _pack_input(partitions: int, rows: ShuffleInput) -> Iterator[pa.RecordBatch]:
    return rows.pack(partitions)


# --------------------------------------------------------------------------------------------- packing


@dataclass(frozen=True, slots=True)
class Packer:
    """Packs the rows of one stream of a section by hash partition of a text column, the key."""

    section: int
    stream: int
    key: str
    partitions: int

    def pack_batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the packs of a stream of rows."""
        pending: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            pending.append(batch)
            size += batch.nbytes
            if size > _BYTES_AT_ONCE:
                yield from self.pack(pa.Table.from_batches(pending))
                pending, size = [], 0
        if pending:
            yield from self.pack(pa.Table.from_batches(pending))

    def pack(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the packs of some rows. Rows whose key is null are left out: no other row has their key."""
        keys = column_of(rows, self.key)
        if keys.null_count:
            rows = rows.filter(keys.is_valid())
            keys = column_of(rows, self.key)
        numbers = assign_partitions(cast("pa.StringArray", keys), self.partitions)
        order = np.argsort(numbers, kind="stable").astype(np.int64)
        for partition, part in split_order(numbers, self.partitions):
            sink = pa.BufferOutputStream()
            with ipc.new_stream(sink, rows.schema) as writer:
                writer.write_table(rows.take(order[part]))
            yield make_pack(partition, self.section, self.stream, sink.getvalue())


def make_pack(partition: int, section: int, stream: int, body: pa.Buffer) -> pa.RecordBatch:
    """Return one pack as a row."""
    values = ([partition], [section], [stream], [body.to_pybytes()])
    columns = [pa.array(value, type_) for value, type_ in zip(values, _PACK.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=_PACK)


def split_order(numbers: PartitionNumbers, partitions: int) -> Iterator[tuple[int, slice]]:
    """Yield each partition that has rows, and where they are among the rows in the order of their partitions."""
    bounds = [0, *np.cumsum(np.bincount(numbers, minlength=partitions)).tolist()]
    for partition, (start, end) in enumerate(pairwise(bounds)):
        if end > start:
            yield partition, slice(start, end)


def assign_partitions(texts: pa.StringArray, partitions: int) -> PartitionNumbers:
    """Return the hash partition of each text: equal texts share one, and partitions get about equally many texts."""
    if partitions == 1:
        return np.zeros(len(texts), np.uint16)
    return ((hash_texts(texts) >> _SHIFT) % np.uint64(partitions)).astype(np.uint16)


def hash_texts(texts: pa.StringArray) -> TextHashes:
    """Return the hash of each text; the upper half of its bits is mixed best."""
    _, offsets, data = texts.buffers()
    if offsets is None or not len(texts):
        return np.zeros(len(texts), np.uint64)
    bounds = np.frombuffer(memoryview(offsets), np.int32)[texts.offset : texts.offset + len(texts) + 1]
    first, size = int(bounds[0]), int(bounds[-1] - bounds[0])
    # Words are read at any byte offset, so the last one may extend beyond the texts.
    padded = np.zeros(size + _WORD, np.uint8)
    if data is not None:
        padded[:size] = np.frombuffer(memoryview(data), np.uint8)[first : first + size]
    words: TextHashes = np.ndarray((size + 1,), np.dtype("<u8"), padded, strides=(1,))
    starts, lengths = (bounds[:-1] - first).astype(np.int64), np.diff(bounds).astype(np.int64)
    hashes: TextHashes = lengths.astype(np.uint64) * _MULTIPLIER
    for at in range(0, int(lengths.max(initial=0)), _WORD):
        longer = np.flatnonzero(lengths > at)
        word = words[starts[longer] + at] & _MASKS[np.minimum(lengths[longer] - at, _WORD)]
        step = (hashes[longer] ^ word) * _MULTIPLIER
        hashes[longer] = step ^ (step >> _SHIFT)
    return hashes


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
    """Write the rows of a partition to local files, by section and stream."""
    found: dict[tuple[int, int], ReceivedRows] = {}
    with ExitStack() as stack:
        files: dict[Path, ipc.RecordBatchFileWriter] = {}
        for section, stream, body in list_packs(batches):
            received = found.setdefault((section, stream), ReceivedRows(folder / f"{section}-{stream}.arrow"))
            for rows in ipc.open_stream(body):
                if received.path not in files:
                    files[received.path] = stack.enter_context(ipc.new_file(str(received.path), rows.schema))
                files[received.path].write_batch(rows)
                received.num_rows += rows.num_rows
    return found


def list_packs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, bytes]]:
    """Yield the section, the stream and the body of each pack."""
    for batch in batches:
        columns = (to_list(column_of(batch, name)) for name in ("section", "stream", "body"))
        yield from cast("Iterator[tuple[int, int, bytes]]", zip(*columns, strict=True))
