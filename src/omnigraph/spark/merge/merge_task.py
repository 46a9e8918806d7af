"""What executors do of a merge: they bring the rows of a part together, and write what comes of them.

A part holds all that the three sides may have changed of its ids, of every table (see ``meeting.py``). What comes of
the rows is written as fragments that nobody sees, beside the graph; only receipts and what is at odds travel on.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa

from omnigraph.errors import Conflict
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.read.changes import compare_sides
from omnigraph.spark.merge.shuffle import ReceivedRows, StreamSource, pack_rows, receive_rows
from omnigraph.storage import table_writes as tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of
from omnigraph.storage.staging import FragmentText
from omnigraph.storage.table import Table
from omnigraph.write.load import MAX_BUFFERED_BYTES
from omnigraph.write.merge import (
    ConflictResolver,
    Counts,
    MergeBy,
    RangeDelta,
    ResolverNotes,
    RowImages,
    TableMerger,
    align_ranges,
)
from omnigraph.write.rules import check_rows

MERGE_REPORT_COLUMNS: Final = "body binary"
IDS: Final = pa.schema([pa.field("id", pa.string())])
"""Rows that go, as they lie in fragments."""


class MergeStream(IntEnum):
    """Which rows of a table these are: what theirs changed, before and after; what ours changed; the overlay."""

    BEFORE_THEIRS = 0
    THEIRS = 1
    BEFORE_OURS = 2
    OURS = 3
    OVERLAID = 4
    BEFORE_OVERLAY = 5
    OVERLAY = 6


@dataclass(frozen=True, slots=True)
class OverlayInput:
    """What the base of a table has over its snapshot."""

    table: int
    overlay: RowImages

    def pack(self, parts: int) -> Iterator[pa.RecordBatch]:
        """The rows, divided by their ids."""
        ids = pa.Table.from_arrays([self.overlay.ids], schema=IDS)
        for stream, rows in (
            (MergeStream.OVERLAID, ids),
            (MergeStream.BEFORE_OVERLAY, self.overlay.before),
            (MergeStream.OVERLAY, self.overlay.after),
        ):
            yield from pack_rows(self.table, stream, rows, parts)


# --------------------------------------------------------------------------------------------- in a part


@dataclass(frozen=True, slots=True)
class TableMergeReport:
    """What has come of the ids of one part in one table.

    ``rows`` and ``removed`` lie in fragments, the latter only as ids. ``broken``: a row breaks a rule by itself.
    """

    table: int
    rows: tuple[FragmentText, ...]
    removed: tuple[FragmentText, ...]
    counts: Counts
    decided: bool
    breaks_rule: bool
    open: tuple[Conflict, ...]


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What has come of one part, and what was noted of the choices."""

    tables: tuple[TableMergeReport, ...]
    notes: ResolverNotes


@dataclass(frozen=True, slots=True)
class MergeTaskTable:
    """One table: its type, and where the rows of each stream of a side come from."""

    type: NodeType | EdgeType
    sources: Mapping[MergeStream, StreamSource]


@dataclass(frozen=True, slots=True)
class MergeTask:
    """What every part is told."""

    tables: tuple[MergeTaskTable, ...]
    by: MergeBy
    choices: ConflictResolver
    scratch: Table

    def merge_partition(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The task of one part."""
        with TemporaryDirectory(prefix="omnigraph-merge-") as folder:
            here = receive_rows(Path(folder), batches)
            found = tuple(self._merge_table(table, here) for table in sorted({table for table, _ in here}))
            receipt = MergeReport(found, self.choices.notes())
            yield pa.record_batch({"body": pa.array([pickle.dumps(receipt)], pa.binary())})

    def _merge_table(self, number: int, here: Mapping[tuple[int, int], ReceivedRows]) -> TableMergeReport:
        orders = self.tables[number]
        key, type_ = orders.type.table_key, orders.type
        sides = {stream: origin.to_side(here.get((number, stream))) for stream, origin in orders.sources.items()}
        came = compare_sides(key, sides[MergeStream.BEFORE_THEIRS], sides[MergeStream.THEIRS])
        mine = compare_sides(key, sides[MergeStream.BEFORE_OURS], sides[MergeStream.OURS])
        merger = TableMerger(self.by, self.choices.choose)
        written = _MergedTableWriter(type_, self.scratch)
        for settled in merger.merge_ranges(type_, align_ranges(came, mine, _read_overlay(type_, number, here), type_)):
            written.add(settled)
        return written.finish(number, merger.sorted_conflicts())


def _read_overlay(
    type_: NodeType | EdgeType, table: int, here: Mapping[tuple[int, int], ReceivedRows]
) -> RowImages | None:
    """What the base has over its snapshot of the ids of this part."""
    if (table, MergeStream.OVERLAID) not in here:
        return None
    ids, before, after = (
        _to_table(schema, here.get((table, stream)))
        for stream, schema in (
            (MergeStream.OVERLAID, IDS),
            (MergeStream.BEFORE_OVERLAY, arrow_schema(type_)),
            (MergeStream.OVERLAY, arrow_schema(type_)),
        )
    )
    return RowImages(column_of(ids, "id"), before, after)


def _to_table(schema: pa.Schema, here: ReceivedRows | None) -> pa.Table:
    return schema.empty_table() if here is None else pa.Table.from_batches(here.batches(), schema)


@dataclass(slots=True)
class _MergedTableWriter:
    """What comes of the rows of one table, written as soon as it is much."""

    type: NodeType | EdgeType
    scratch: Table
    counts: Counts = field(default_factory=Counts)
    decided: bool = False
    breaks_rule: bool = False
    _rows: list[pa.Table] = field(default_factory=list[pa.Table])
    _bytes: int = 0
    _fragments: list[FragmentText] = field(default_factory=list[FragmentText])
    _removed: list[Values] = field(default_factory=list[Values])

    def add(self, settled: RangeDelta) -> None:
        """Take what has come of a stretch."""
        inserted, removed = int(settled.is_new.sum()), len(settled.deleted_ids)
        self.counts = self.counts + Counts(inserted, settled.rows.num_rows - inserted, removed)
        self.decided = self.decided or settled.is_decided
        self.breaks_rule = self.breaks_rule or bool(check_rows(self.type, settled.rows, 1))
        if settled.rows.num_rows:
            self._rows.append(settled.rows)
            self._bytes += settled.rows.nbytes
        if removed:
            self._removed.append(settled.deleted_ids)
        if self._bytes > MAX_BUFFERED_BYTES:
            self._write()

    def finish(self, table: int, open_: tuple[Conflict, ...]) -> TableMergeReport:
        """Write what is left; what there is to tell."""
        self._write()
        gone: tuple[FragmentText, ...] = ()
        if self._removed:
            ids = pa.Table.from_arrays([pa.concat_arrays(self._removed)], schema=IDS)
            gone = tables.write_rows(self.scratch, ids, "overwrite")
        return TableMergeReport(table, tuple(self._fragments), gone, self.counts, self.decided, self.breaks_rule, open_)

    def _write(self) -> None:
        if self._rows:
            self._fragments += tables.write_rows(self.scratch, pa.concat_tables(self._rows), "overwrite")
            self._rows, self._bytes = [], 0
