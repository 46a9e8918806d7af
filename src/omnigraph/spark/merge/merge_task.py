"""The task of a merge on an executor: merge the rows of one partition and write the result.

A partition holds all candidate rows of its ids, of the three sides and of every table (see ``candidate_rows.py``). The
merged rows are written to fragments beside the graph that nobody sees; only a report with the conflicts and the
violations of row rules goes to the driver.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import IntEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa

from omnigraph.errors import Conflict, Violation
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.changes import compare_sides, pair_same_type
from omnigraph.spark.merge.candidate_rows import StreamSource
from omnigraph.spark.shuffle import Packer, ReceivedRows, receive_rows
from omnigraph.storage import tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of
from omnigraph.storage.tables import FragmentText, Table
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
"""The columns of fragments that hold deleted rows."""


class MergeStream(IntEnum):
    """Which rows of a table these are: the changes of theirs, before and after; those of ours; the overlay."""

    BEFORE_THEIRS = 0
    THEIRS = 1
    BEFORE_OURS = 2
    OURS = 3
    OVERLAID = 4
    BEFORE_OVERLAY = 5
    OVERLAY = 6


@dataclass(frozen=True, slots=True)
class OverlayInput:
    """Shuffle input: the overlay of a merge base, which are the rows that differ from its snapshot."""

    table: int
    overlay: RowImages

    def pack(self, partitions: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows, packed by hash partition of their ids."""
        ids = pa.Table.from_arrays([self.overlay.ids], schema=IDS)
        for stream, rows in (
            (MergeStream.OVERLAID, ids),
            (MergeStream.BEFORE_OVERLAY, self.overlay.before),
            (MergeStream.OVERLAY, self.overlay.after),
        ):
            yield from Packer(self.table, stream, "id", partitions).pack(rows)


# --------------------------------------------------------------------------------------------- in a partition


@dataclass(frozen=True, slots=True)
class TableMergeReport:
    """The result of one partition for one table.

    ``rows`` and ``removed`` are fragments, the latter with ids only. ``is_decided``: a conflict was resolved;
    ``resolved`` counts the rows in which theirs lost one.
    ``violations`` are those of row rules. ``open`` are the unresolved conflicts.
    """

    table: int
    rows: tuple[FragmentText, ...]
    removed: tuple[FragmentText, ...]
    counts: Counts
    is_decided: bool
    resolved: int
    violations: tuple[Violation, ...]
    open: tuple[Conflict, ...]


@dataclass(frozen=True, slots=True)
class MergeReport:
    """The result of one partition, and the notes of its conflict resolver."""

    tables: tuple[TableMergeReport, ...]
    notes: ResolverNotes


@dataclass(frozen=True, slots=True)
class MergeTaskTable:
    """One table: its type, and the source of the rows of each stream."""

    type: NodeType | EdgeType
    sources: Mapping[MergeStream, StreamSource]


@dataclass(frozen=True, slots=True)
class MergeTask:
    """What every task of a merge needs."""

    tables: tuple[MergeTaskTable, ...]
    by: MergeBy
    resolver: ConflictResolver
    scratch: Table

    def merge_partition(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Merge the rows of one partition; yield the pickled report."""
        with TemporaryDirectory(prefix="omnigraph-merge-") as folder:
            received = receive_rows(Path(folder), batches)
            merged = tuple(self._merge_table(table, received) for table in sorted({table for table, _ in received}))
            report = MergeReport(merged, self.resolver.to_notes())
            yield pa.record_batch({"body": pa.array([pickle.dumps(report)], pa.binary())})

    def _merge_table(self, number: int, received: Mapping[tuple[int, int], ReceivedRows]) -> TableMergeReport:
        table = self.tables[number]
        type_, pair = table.type, pair_same_type(table.type)
        sides = {stream: source.to_side(received.get((number, stream))) for stream, source in table.sources.items()}
        theirs = compare_sides(pair, sides[MergeStream.BEFORE_THEIRS], sides[MergeStream.THEIRS])
        ours = compare_sides(pair, sides[MergeStream.BEFORE_OURS], sides[MergeStream.OURS])
        ranges = align_ranges(theirs, ours, _read_overlay(type_, number, received), type_)
        merger = TableMerger(self.by, self.resolver.choose)
        writer = _MergedTableWriter(type_, self.scratch)
        for delta in merger.merge_ranges(type_, ranges):
            writer.add(delta)
        return writer.finish(number, merger.sort_conflicts())


def _read_overlay(
    type_: NodeType | EdgeType, table: int, received: Mapping[tuple[int, int], ReceivedRows]
) -> RowImages | None:
    """Return the part of the overlay that belongs to the ids of this partition."""
    if (table, MergeStream.OVERLAID) not in received:
        return None
    ids, before, after = (
        _to_table(schema, received.get((table, stream)))
        for stream, schema in (
            (MergeStream.OVERLAID, IDS),
            (MergeStream.BEFORE_OVERLAY, arrow_schema(type_)),
            (MergeStream.OVERLAY, arrow_schema(type_)),
        )
    )
    return RowImages(column_of(ids, "id"), before, after)


def _to_table(schema: pa.Schema, received: ReceivedRows | None) -> pa.Table:
    return schema.empty_table() if received is None else pa.Table.from_batches(received.batches(), schema)


@dataclass(slots=True)
class _MergedTableWriter:
    """Buffers the merged rows of one table, and writes them when the buffer is full."""

    type: NodeType | EdgeType
    scratch: Table
    counts: Counts = field(default_factory=Counts)
    is_decided: bool = False
    resolved: int = 0
    violations: list[Violation] = field(default_factory=list[Violation])
    _rows: list[pa.Table] = field(default_factory=list[pa.Table])
    _bytes: int = 0
    _fragments: list[FragmentText] = field(default_factory=list[FragmentText])
    _removed: list[Values] = field(default_factory=list[Values])

    def add(self, delta: RangeDelta) -> None:
        """Add the merged rows of an id range."""
        inserted, removed = int(delta.is_new.sum()), len(delta.deleted_ids)
        self.counts = self.counts + Counts(inserted, delta.rows.num_rows - inserted, removed)
        self.is_decided = self.is_decided or delta.is_decided
        self.resolved += delta.resolved
        self.violations += check_rows(self.type, delta.rows)
        if delta.rows.num_rows:
            self._rows.append(delta.rows)
            self._bytes += delta.rows.nbytes
        if removed:
            self._removed.append(delta.deleted_ids)
        if self._bytes > MAX_BUFFERED_BYTES:
            self._write()

    def finish(self, table: int, open_: tuple[Conflict, ...]) -> TableMergeReport:
        """Write the remaining rows and return the report."""
        self._write()
        deleted: tuple[FragmentText, ...] = ()
        if self._removed:
            ids = pa.Table.from_arrays([pa.concat_arrays(self._removed)], schema=IDS)
            deleted = tables.write_rows(self.scratch, ids, "overwrite")
        return TableMergeReport(
            table,
            tuple(self._fragments),
            deleted,
            self.counts,
            self.is_decided,
            self.resolved,
            tuple(self.violations),
            open_,
        )

    def _write(self) -> None:
        if self._rows:
            self._fragments += tables.write_rows(self.scratch, pa.concat_tables(self._rows), "overwrite")
            self._rows, self._bytes = [], 0
