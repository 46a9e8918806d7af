"""The incoming rows of one type, after they were read: few are kept in memory, many in invisible fragments.

Fragments are written to the folder of the table that will show them. If that folder may not be written to yet, they go
to a local table. Rules read the fragments through a detached version, and only the columns that they need. The commit
may stage the rows several times; they are written once for each folder.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Final, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import OmniGraphError
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.rows import BlobValue, read_blobs_at
from omnigraph.storage import tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, find_true, is_among, is_not_among, to_list
from omnigraph.storage.filters import ValueIn
from omnigraph.storage.objects import Objects
from omnigraph.storage.tables import ROW_ADDRESS, FragmentText, Table, WriteMode
from omnigraph.storage.tables import delete_fragments as discard_files
from omnigraph.write.load.rows.positions import GeneratedIds, RowNumbers, RowPositions
from omnigraph.write.load.rows.validation import RejectedRecord
from omnigraph.write.row_values import load_blobs
from omnigraph.write.spill import spill_rows

BLOB_ROWS_AT_ONCE: Final = 64
"""Read blobs for this many rows at a time, since blobs are large."""
_log = logging.getLogger("omnigraph")

NumberedRows: TypeAlias = "tuple[RowNumbers, pa.Table]"
"""Rows with their row numbers."""


class RowStorage(Protocol):
    """Keeps the rows of one type."""

    @property
    def is_in_memory(self) -> bool:
        """Whether the rows are few enough to be kept in memory."""
        ...

    def read_columns(self, names: Sequence[str], excluded_ids: Values) -> pa.Table:
        """Return some columns of all rows except the excluded ids. Memory does not grow with the rows."""
        ...

    def find_rows(self, ids: Values, names: Sequence[str] | None) -> Iterator[NumberedRows]:
        """Yield the rows of some ids with their row numbers, in pieces; whole rows if ``names`` is None."""
        ...

    def scan(self, names: Sequence[str] | None) -> Iterator[NumberedRows]:
        """Yield some columns of all rows with their row numbers, in pieces, in order.

        Blobs are as the storage has them, values or descriptors. If ``names`` is None, the rows are whole, with blobs
        in the form that a write takes.
        """
        ...

    def read_blobs(self, column: str, numbers: RowNumbers) -> list[bytes | None]:
        """Return the bytes of a blob column in some rows; None for nulls and external objects."""
        ...

    def collect(self, schema: pa.Schema, pieces: Iterable[pa.Table]) -> pa.Table:
        """Return pieces of these rows as one table, in memory or in a local file like the rows."""
        ...

    def write_to(self, table: Table, mode: WriteMode, excluded_ids: Values) -> tuple[FragmentText, ...]:
        """Write all rows except the excluded ids as fragments into the folder of a table."""
        ...


class UnmatchedRecords(Protocol):
    """Incoming rows whose stored rows were not found."""

    @property
    def count(self) -> int:
        """The number of rows."""
        ...

    def to_records(self, incoming: IncomingRows, limit: int | None) -> Iterator[RejectedRecord]:
        """Yield each row as a rejected record; at most so many. ``incoming`` are the rows as they were read."""
        ...


@dataclass(slots=True)
class IncomingRows:
    """All incoming rows of one type. ``storage`` leaves out those that the graph has already."""

    type: NodeType | EdgeType
    generated: GeneratedIds
    positions: RowPositions
    storage: RowStorage
    unchanged: int = 0
    """The number of rows that ``positions`` counts, but that are not written: unchanged ones, and unmatched ones."""
    left_out: int = 0
    """The number of rows that the graph has already, and that ``positions`` does not count."""
    replaced: int = 0
    """The number of stored rows that rows of a merge replace."""
    has_taken_ids: bool = False
    """Whether rows have taken the ids of the stored rows that they replace."""
    unmatched: UnmatchedRecords | None = None
    """The rows of an update whose stored rows were not found. They are not among the rows to write."""
    changed_columns: frozenset[str] | None = None
    """The columns in which rows of an update differ from their stored rows; None if any may, or if rows are new."""
    _written: list[_WrittenFragments] = field(default_factory=list["_WrittenFragments"])

    @property
    def count(self) -> int:
        """The number of rows to write."""
        return self.positions.count - self.unchanged

    @property
    def given(self) -> int:
        """The number of rows that the input has."""
        return self.positions.count + self.left_out

    @property
    def unmatched_count(self) -> int:
        """The number of rows of an update whose stored rows were not found."""
        return 0 if self.unmatched is None else self.unmatched.count

    @property
    def unchanged_count(self) -> int:
        """The number of rows that the graph has already."""
        return self.unchanged + self.left_out - self.unmatched_count

    @property
    def has_generated_ids(self) -> bool:
        """Whether this load generated all ids, so that no stored row has one of them."""
        return 0 < self.generated.count == self.positions.count and not self.has_taken_ids

    @property
    def is_large(self) -> bool:
        """Whether writing the rows takes long."""
        return not self.storage.is_in_memory

    def write_new_rows(self, table: Table, mode: WriteMode, excluded_ids: Values) -> tuple[FragmentText, ...]:
        """Return fragments in the folder of a table with all rows except the excluded ids; write them if needed."""
        if (
            isinstance(self.storage, StagedRows)
            and not len(excluded_ids)
            and self.storage.target.is_usable_by(table, mode)
        ):
            return self.storage.fragments
        for written in self._written:
            if (
                written.storage == self.storage
                and written.excluded_ids.equals(excluded_ids)
                and written.target.is_usable_by(table, mode)
            ):
                return written.fragments
        fragments = self.storage.write_to(table, mode, excluded_ids)
        self._written.append(_WrittenFragments(self.storage, FragmentTarget(table, mode), excluded_ids, fragments))
        return fragments


@dataclass(frozen=True, slots=True)
class _WrittenFragments:
    """Fragments in the folder of a table that hold all rows of a storage except the excluded ids."""

    storage: RowStorage
    target: FragmentTarget
    excluded_ids: Values
    fragments: tuple[FragmentText, ...]


@dataclass(frozen=True, slots=True)
class FragmentTarget:
    """A pinned table whose folder receives fragments, to append to its rows or to replace them.

    ``folder`` is relative to the root of the graph; None if the folder is not part of the graph.
    """

    table: Table
    mode: WriteMode
    folder: str | None = None

    def is_usable_by(self, table: Table, mode: WriteMode) -> bool:
        """Whether any version of ``table`` can show fragments that were written here."""
        return (self.table.uri, self.table.branch, self.mode) == (table.uri, table.branch, mode)

    def discard(self, objects: Objects, fragments: Iterable[FragmentText]) -> None:
        """Delete fragments of a failed load. Call it only if no commit was ever asked to show them."""
        if self.folder is None:
            return
        try:
            discard_files(objects, self.folder, fragments)
        except OmniGraphError as error:
            # No version refers to the fragments, so cleanup deletes them once they are old.
            _log.warning("the fragments of a failed load in %s were not deleted: %s", self.folder, error)


@dataclass(frozen=True, slots=True, eq=False)
class InMemoryRows:
    """Keeps rows in memory."""

    rows: pa.Table

    @property
    def is_in_memory(self) -> bool:
        """They are."""
        return True

    def read_columns(self, names: Sequence[str], excluded_ids: Values) -> pa.Table:
        """Return some columns of the rows except the excluded ids."""
        return exclude_ids(self.rows.select(list(names)), excluded_ids)

    def find_rows(self, ids: Values, names: Sequence[str] | None) -> Iterator[NumberedRows]:
        """Yield the rows of some ids with their row numbers."""
        numbers = find_true(cast("Values", is_among(column_of(self.rows, "id"), ids)))
        rows = self.rows if names is None else self.rows.select(list(names))
        yield numbers, rows.take(numbers)

    def scan(self, names: Sequence[str] | None) -> Iterator[NumberedRows]:
        """Yield some columns of all rows with their row numbers."""
        rows = self.rows if names is None else self.rows.select(list(names))
        yield np.arange(rows.num_rows), rows

    def read_blobs(self, column: str, numbers: RowNumbers) -> list[bytes | None]:
        """Return the bytes of a blob column in some rows."""
        found = cast("list[BlobValue | None]", to_list(column_of(self.rows, column).take(numbers)))
        return [None if each is None else each["data"] for each in found]

    def collect(self, schema: pa.Schema, pieces: Iterable[pa.Table]) -> pa.Table:
        """Return pieces of these rows as one table."""
        return pa.concat_tables([schema.empty_table(), *pieces])

    def write_to(self, table: Table, mode: WriteMode, excluded_ids: Values) -> tuple[FragmentText, ...]:
        """Write the rows except the excluded ids into the folder of a table."""
        return tables.write_rows(table, to_reader(self.rows.schema, [self.rows], excluded_ids), mode)


@dataclass(eq=False)
class StagedRows:
    """Keeps rows in fragments and reads them through a detached version. ``schema`` is that of the fragments."""

    type: NodeType | EdgeType
    schema: pa.Schema
    target: FragmentTarget
    fragments: tuple[FragmentText, ...]
    _columns: dict[tuple[str, ...], pa.Table] = field(default_factory=dict[tuple[str, ...], pa.Table])

    @property
    def is_in_memory(self) -> bool:
        """They are in files."""
        return False

    def read_columns(self, names: Sequence[str], excluded_ids: Values) -> pa.Table:
        """Return some columns of the rows except the excluded ids, in a local file. Without exclusions it is cached."""
        key, schema = tuple(names), self.schema.empty_table().select(list(names)).schema
        if not len(excluded_ids) and key in self._columns:
            return self._columns[key]
        pieces = (exclude_ids(piece.select(list(names)), excluded_ids).cast(schema) for piece in self._scan(names))
        found = spill_rows(schema, pieces)
        if not len(excluded_ids):
            self._columns[key] = found
        return found

    def iterate_columns(self, names: Sequence[str]) -> Iterator[pa.Table]:
        """Yield some columns of all rows in pieces, in order, and keep nothing."""
        reader = self.detached.scan(names, after_fragment=self.last_other_fragment, one_by_one=True)
        return (pa.Table.from_batches([batch]) for batch in reader)

    def find_rows(self, ids: Values, names: Sequence[str] | None) -> Iterator[NumberedRows]:
        """Yield the rows of some ids with their row numbers."""
        for piece in self._scan(names, ValueIn(("id",), cast("pa.StringArray", ids)).to_sql()):
            found = piece.filter(is_among(column_of(piece, "id"), ids))
            yield self._number_rows(found), self._load_blobs(found) if names is None else found.select(list(names))

    def scan(self, names: Sequence[str] | None) -> Iterator[NumberedRows]:
        """Yield some columns of all rows with their row numbers, in pieces, in order."""
        for piece in self._scan(names):
            if names is not None:
                yield self._number_rows(piece), piece.select(list(names))
                continue
            first = int(self._number_rows(piece.slice(0, 1))[0]) if piece.num_rows else 0
            for rows in attach_blobs(self.detached, self.schema, [piece]):
                yield np.arange(first, first + rows.num_rows), rows
                first += rows.num_rows

    def read_blobs(self, column: str, numbers: RowNumbers) -> list[bytes | None]:
        """Return the bytes of a blob column in some rows."""
        fragments, starts = self._fragment_rows
        owners = np.searchsorted(starts, numbers, side="right") - 1
        addresses = (fragments[owners] << np.uint64(32)) | (numbers - starts[owners]).astype(np.uint64)
        return read_blobs_at(self.detached, column, addresses)

    def collect(self, schema: pa.Schema, pieces: Iterable[pa.Table]) -> pa.Table:
        """Return pieces of these rows as one table, in a local file."""
        return spill_rows(schema, (piece.cast(schema) for piece in pieces))

    def write_to(self, table: Table, mode: WriteMode, excluded_ids: Values) -> tuple[FragmentText, ...]:
        """Write the rows except the excluded ids into the folder of a table."""
        pieces = (rows for _, rows in self.scan(None))
        return tables.write_rows(table, to_reader(arrow_schema(self.type), pieces, excluded_ids), mode)

    @cached_property
    def detached(self) -> Table:
        """A detached version that shows the fragments, after the pinned rows if they are appended."""
        if self.target.mode == "append":
            staged = tables.append_fragments(self.target.table, self.fragments)
        else:
            staged = tables.overwrite_fragments(self.target.table, self.schema, self.fragments)
        assert staged is not None
        return tables.audit_version(self.target.table, staged)

    @cached_property
    def last_other_fragment(self) -> int | None:
        """The last fragment id of the pinned table: the ids of these fragments are larger, also in an overwrite."""
        return max(self.target.table.fragment_rows(), default=None)

    @property
    def own_fragments(self) -> Mapping[int, int]:
        """The fragments of these rows in the detached version, with their row counts."""
        last = self.last_other_fragment
        return {id_: rows for id_, rows in self.detached.fragment_rows().items() if last is None or id_ > last}

    @cached_property
    def _fragment_rows(self) -> tuple[npt.NDArray[np.uint64], RowNumbers]:
        """The fragment ids, and the number of the first row of each. No fragment has deletions yet."""
        own = sorted(self.own_fragments.items())
        return np.array([id_ for id_, _ in own], np.uint64), np.cumsum([0, *(count for _, count in own)])

    def _scan(self, columns: Sequence[str] | None, filter_: str | None = None) -> Iterator[pa.Table]:
        """Scan the rows in order, in pieces, with their addresses."""
        reader = self.detached.scan(
            columns, filter=filter_, with_row_address=True, after_fragment=self.last_other_fragment, one_by_one=True
        )
        return (pa.Table.from_batches([batch]) for batch in reader)

    def _number_rows(self, rows: pa.Table) -> RowNumbers:
        fragments, starts = self._fragment_rows
        addresses = rows[ROW_ADDRESS].to_numpy()
        return starts[np.searchsorted(fragments, addresses >> 32)] + (addresses & 0xFFFFFFFF).astype(np.int64)

    def _load_blobs(self, rows: pa.Table) -> pa.Table:
        return load_blobs(self.detached, rows, self.schema)


def attach_blobs(table: Table, schema: pa.Schema, pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Turn scanned rows with addresses into rows that can be written again: load their blobs, a few rows at a time."""
    has_blobs = any(pa.types.is_struct(type_) for type_ in schema.types)
    for piece in pieces:
        at_once = BLOB_ROWS_AT_ONCE if has_blobs else max(1, piece.num_rows)
        for start in range(0, piece.num_rows, at_once):
            yield load_blobs(table, piece.slice(start, at_once), schema)


def to_reader(schema: pa.Schema, pieces: Iterable[pa.Table], excluded_ids: Values) -> pa.RecordBatchReader:
    """Return the columns of a schema, in rows except the excluded ids, as a reader that can be written."""
    batches = (
        pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        for piece in pieces
        for batch in exclude_ids(piece, excluded_ids).select(schema.names).to_batches()
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


def exclude_ids(rows: pa.Table, ids: Values) -> pa.Table:
    """Return the rows without those that have one of some ids."""
    return rows.filter(is_not_among(column_of(rows, "id"), ids)) if len(ids) else rows
