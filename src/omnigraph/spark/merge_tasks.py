"""What executors do of a merge: rows that may have changed go to the part of their ids, and are brought together there.

A part holds all that the three sides may have changed of its ids, of every table, so no part needs to know of another.
Rows arrive packed, many in one, and lie in files of the executor until their part is complete. What comes of them is
written as fragments that nobody sees, beside the graph; only receipts and what is at odds travel on.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from omnigraph.errors import Conflict
from omnigraph.language.schema.catalog import EdgeType, NodeType
from omnigraph.read.changed import stretches_between
from omnigraph.read.side_by_side import Side
from omnigraph.spark.load_proofs import parts_of
from omnigraph.storage import table as tables
from omnigraph.storage.columns import Values, column_of, to_list
from omnigraph.storage.pinned import ROW_ADDRESS, Table
from omnigraph.storage.staging import FragmentText
from omnigraph.write.gathering import MOST_HELD
from omnigraph.write.merge_choices import Choices, Notes
from omnigraph.write.merge_deltas import Counts, Merger, Settled
from omnigraph.write.merge_rows import By
from omnigraph.write.merge_sides import Changed, stretches_of
from omnigraph.write.rules import check_rows

PACKS: Final = "part int, table int, stream int, body binary"
RECEIPTS: Final = "body binary"
IDS: Final = pa.schema([pa.field("id", pa.string())])
"""Rows that go, as they lie in fragments."""

_PACKS: Final = pa.schema(
    [
        pa.field("part", pa.int32()),
        pa.field("table", pa.int32()),
        pa.field("stream", pa.int32()),
        pa.field("body", pa.binary()),
    ]
)
_BYTES_AT_ONCE: Final = 32 * 1024 * 1024
"""A task divides so much at a time: with more of it packs become larger, and so does its memory."""


class Stream(IntEnum):
    """Which rows of a table a pack holds: what theirs changed, before and after; what ours changed; the overlay."""

    BEFORE_THEIRS = 0
    THEIRS = 1
    BEFORE_OURS = 2
    OURS = 3
    OVERLAY = 4


# --------------------------------------------------------------------------------------------- to the parts


@dataclass(frozen=True, slots=True)
class TouchedRows:
    """Rows of one side of a table that may have changed."""

    table: int
    stream: Stream
    side: Side

    def packed(self, parts: int) -> Iterator[pa.RecordBatch]:
        """The rows, divided by their ids."""
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in self.side.stream(self.side.schema.names).rows:
            held.append(batch)
            size += batch.nbytes
            if size > _BYTES_AT_ONCE:
                yield from self._packs(held, parts)
                held, size = [], 0
        if held:
            yield from self._packs(held, parts)

    def _packs(self, held: Sequence[pa.RecordBatch], parts: int) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches(held)
        for part, places in _divided(column_of(rows, "id"), parts):
            sink = pa.BufferOutputStream()
            with ipc.new_stream(sink, rows.schema) as stream:
                stream.write_table(rows.take(places))
            yield _pack(part, self.table, self.stream, sink.getvalue().to_pybytes())


@dataclass(frozen=True, slots=True)
class OverlaidRows:
    """What the base of a table has over its snapshot."""

    table: int
    overlay: Changed

    def packed(self, parts: int) -> Iterator[pa.RecordBatch]:
        """The rows, divided by their ids."""
        for part, places in _divided(self.overlay.ids, parts):
            mine = self.overlay.of(self.overlay.ids.take(places))
            yield _pack(part, self.table, Stream.OVERLAY, pickle.dumps(mine))


def scatter(parts: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The task of some rows: packs for the parts that their ids belong to."""
    for batch in batches:
        for body in cast("list[bytes]", to_list(column_of(batch, "body"))):
            rows = cast("TouchedRows | OverlaidRows", pickle.loads(body))  # noqa: S301  made by our own driver
            yield from rows.packed(parts)


def _divided(ids: Values, parts: int) -> Iterator[tuple[int, np.ndarray[tuple[int], np.dtype[np.int64]]]]:
    """The parts that some ids belong to, and where the ids of each stand."""
    belong = parts_of(cast("pa.StringArray", ids), parts)
    order = np.argsort(belong, kind="stable").astype(np.int64)
    bounds = [0, *np.cumsum(np.bincount(belong, minlength=parts)).tolist()]
    for part, (start, end) in enumerate(pairwise(bounds)):
        if end > start:
            yield part, order[start:end]


def _pack(part: int, table: int, stream: Stream, body: bytes) -> pa.RecordBatch:
    values = ([part], [table], [int(stream)], [body])
    columns = [pa.array(value, type_) for value, type_ in zip(values, _PACKS.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=_PACKS)


# --------------------------------------------------------------------------------------------- in a part


@dataclass(frozen=True, slots=True)
class TableReceipt:
    """What has come of the ids of one part in one table.

    ``rows`` and ``removed`` lie in fragments, the latter only as ids. ``broken``: a row breaks a rule by itself.
    """

    table: int
    rows: tuple[FragmentText, ...]
    removed: tuple[FragmentText, ...]
    counts: Counts
    decided: bool
    broken: bool
    open: tuple[Conflict, ...]


@dataclass(frozen=True, slots=True)
class PartReceipt:
    """What has come of one part, and what was noted of the choices."""

    tables: tuple[TableReceipt, ...]
    notes: Notes


@dataclass(frozen=True, slots=True)
class TableOrders:
    """One table: its type, and for each stream of rows the table that they are of and its type there."""

    type: NodeType | EdgeType
    sides: Mapping[Stream, tuple[Table | None, NodeType | EdgeType]]


@dataclass(frozen=True, slots=True)
class Orders:
    """What every part is told."""

    tables: tuple[TableOrders, ...]
    by: By
    choices: Choices
    scratch: Table

    def bring(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The task of one part."""
        with TemporaryDirectory(prefix="omnigraph-merge-") as folder:
            arrived = _arrived(Path(folder), batches)
            found = tuple(self._brought(table, arrived) for table in sorted({table for table, _ in arrived}))
            receipt = PartReceipt(found, self.choices.notes())
            yield pa.record_batch({"body": pa.array([pickle.dumps(receipt)], pa.binary())})

    def _brought(self, number: int, arrived: Mapping[tuple[int, Stream], _Arrived]) -> TableReceipt:
        orders = self.tables[number]
        key, type_ = orders.type.table_key, orders.type
        sides = {stream: _side(*orders.sides[stream], arrived.get((number, stream))) for stream in orders.sides}
        came = stretches_between(key, sides[Stream.BEFORE_THEIRS], sides[Stream.THEIRS])
        mine = stretches_between(key, sides[Stream.BEFORE_OURS], sides[Stream.OURS])
        over = arrived.get((number, Stream.OVERLAY))
        merger = Merger(self.by, self.choices.choose)
        written = _Written(type_, self.scratch)
        for settled in merger.settle(type_, stretches_of(came, mine, None if over is None else over.overlay, type_)):
            written.add(settled)
        return written.receipt(number, merger.in_order())


@dataclass(slots=True)
class _Arrived:
    """The rows of one stream that arrived for a part, in a file; an overlay is held."""

    path: Path
    num_rows: int = 0
    overlay: Changed | None = None


def _arrived(folder: Path, batches: Iterable[pa.RecordBatch]) -> Mapping[tuple[int, Stream], _Arrived]:
    found: dict[tuple[int, Stream], _Arrived] = {}
    with ExitStack() as stack:
        files: dict[Path, ipc.RecordBatchFileWriter] = {}
        for batch in batches:
            columns = (to_list(column_of(batch, name)) for name in ("table", "stream", "body"))
            for table, stream, body in cast("Iterator[tuple[int, int, bytes]]", zip(*columns, strict=True)):
                arrived = found.setdefault((table, Stream(stream)), _Arrived(folder / f"{table}-{stream}.arrow"))
                if stream == Stream.OVERLAY:
                    arrived.overlay = cast("Changed", pickle.loads(body))  # noqa: S301  made by our own tasks
                    continue
                for rows in ipc.open_stream(body):
                    if arrived.path not in files:
                        files[arrived.path] = stack.enter_context(ipc.new_file(str(arrived.path), rows.schema))
                    files[arrived.path].write_batch(rows)
                    arrived.num_rows += rows.num_rows
    return found


@dataclass(frozen=True, slots=True)
class _FiledRows:
    """Rows of one side that may have changed, in a file of this executor."""

    table: Table
    path: Path
    num_rows: int

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows with their addresses."""
        with pa.memory_map(str(self.path)) as file:
            reader = ipc.open_file(file)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number).select([*columns, ROW_ADDRESS])


def _side(table: Table | None, type_: NodeType | EdgeType, arrived: _Arrived | None) -> Side:
    if table is None or arrived is None:
        return Side(None, type_)
    return Side(_FiledRows(table, arrived.path, arrived.num_rows), type_)


@dataclass(slots=True)
class _Written:
    """What comes of the rows of one table, written as soon as it is much."""

    type: NodeType | EdgeType
    scratch: Table
    counts: Counts = field(default_factory=Counts)
    decided: bool = False
    broken: bool = False
    _rows: list[pa.Table] = field(default_factory=list[pa.Table])
    _bytes: int = 0
    _fragments: list[FragmentText] = field(default_factory=list[FragmentText])
    _removed: list[Values] = field(default_factory=list[Values])

    def add(self, settled: Settled) -> None:
        """Take what has come of a stretch."""
        inserted, removed = int(settled.new.sum()), len(settled.removed)
        self.counts = self.counts + Counts(inserted, settled.rows.num_rows - inserted, removed)
        self.decided = self.decided or settled.decided
        self.broken = self.broken or bool(check_rows(self.type, settled.rows, 1))
        if settled.rows.num_rows:
            self._rows.append(settled.rows)
            self._bytes += settled.rows.nbytes
        if removed:
            self._removed.append(settled.removed)
        if self._bytes > MOST_HELD:
            self._write()

    def receipt(self, table: int, open_: tuple[Conflict, ...]) -> TableReceipt:
        """Write what is left; what there is to tell."""
        self._write()
        gone: tuple[FragmentText, ...] = ()
        if self._removed:
            ids = pa.Table.from_arrays([pa.concat_arrays(self._removed)], schema=IDS)
            gone = tables.write_rows(self.scratch, ids, "overwrite")
        return TableReceipt(table, tuple(self._fragments), gone, self.counts, self.decided, self.broken, open_)

    def _write(self) -> None:
        if self._rows:
            self._fragments += tables.write_rows(self.scratch, pa.concat_tables(self._rows), "overwrite")
            self._rows, self._bytes = [], 0
