"""The rows of one type on their way in, once they are read: few lie in memory, many in fragments that nobody sees.

Fragments lie in the folder of the table that will show them, or, where that may not be written to yet, in a table of
this machine. Rules look at them through a detached version, and only at the columns that they need. Rows are staged
as often as the commit asks for it, and written once for each folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.storage import table as tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, is_among, is_not_among, places
from omnigraph.storage.filters import AnyOf
from omnigraph.storage.pinned import ROW_ADDRESS, Table
from omnigraph.storage.staging import FragmentText
from omnigraph.storage.table import WriteMode
from omnigraph.write.blobs import load_blobs
from omnigraph.write.load.positions import RowNumbers, RowPositions
from omnigraph.write.spill import spill_rows

_ROWS_WITH_BLOBS: Final = 64
"""Blobs are read for so few rows at a time."""


class RowStorage(Protocol):
    """Where the rows of one type lie."""

    def read_columns(self, names: Sequence[str], without: Values) -> pa.Table:
        """Some columns of all rows but those of some ids, taking no memory that grows with them."""
        ...

    def find_rows(self, ids: Values, names: Sequence[str] | None) -> Iterator[tuple[RowNumbers, pa.Table]]:
        """The rows of some ids, by pieces, with their numbers; in some columns, or as they can be written again."""
        ...

    def write_to(self, table: Table, mode: WriteMode, without: Values) -> tuple[FragmentText, ...]:
        """All rows but those of some ids, written once more, as fragments in the folder of a table."""
        ...


@dataclass(slots=True)
class IncomingRows:
    """All incoming rows of one type. ``fresh``: their ids were all made here."""

    type: NodeType | EdgeType
    fresh: bool
    positions: RowPositions
    storage: RowStorage
    _written: list[_WrittenFragments] = field(default_factory=list["_WrittenFragments"])

    @property
    def count(self) -> int:
        """How many there are."""
        return self.positions.count

    @property
    def is_large(self) -> bool:
        """Whether writing them takes its time."""
        return isinstance(self.storage, StagedRows)

    def write_fragments(self, table: Table, mode: WriteMode, without: Values) -> tuple[FragmentText, ...]:
        """The rows, but those of some ids, as fragments in the folder of a table; written if they are not there yet."""
        if isinstance(self.storage, StagedRows) and not len(without) and self.storage.target.is_usable_by(table, mode):
            return self.storage.fragments
        for known in self._written:
            if known.excluded_ids.equals(without) and known.target.is_usable_by(table, mode):
                return known.fragments
        made = _WrittenFragments(FragmentTarget(table, mode), without, self.storage.write_to(table, mode, without))
        self._written.append(made)
        return made.fragments


@dataclass(frozen=True, slots=True)
class _WrittenFragments:
    """Fragments in the folder of a table: all rows but those of some ids."""

    target: FragmentTarget
    excluded_ids: Values
    fragments: tuple[FragmentText, ...]


@dataclass(frozen=True, slots=True)
class FragmentTarget:
    """A pinned table in whose folder fragments are written, to join its rows or to replace them.

    ``folder`` is that folder below the root of the graph; None where it is no part of the graph.
    """

    table: Table
    mode: WriteMode
    folder: str | None = None

    def is_usable_by(self, table: Table, mode: WriteMode) -> bool:
        """Whether what is written here can be shown by that table, whatever its version."""
        return (self.table.uri, self.table.branch, self.mode) == (table.uri, table.branch, mode)


@dataclass(frozen=True, slots=True)
class InMemoryRows:
    """Rows in memory."""

    rows: pa.Table

    def read_columns(self, names: Sequence[str], without: Values) -> pa.Table:
        """Some columns of the rows but those of some ids."""
        return _without(self.rows.select(list(names)), without)

    def find_rows(self, ids: Values, names: Sequence[str] | None) -> Iterator[tuple[RowNumbers, pa.Table]]:
        """The rows of some ids."""
        numbers = places(cast("Values", is_among(column_of(self.rows, "id"), ids)))
        rows = self.rows if names is None else self.rows.select(list(names))
        yield numbers, rows.take(numbers)

    def write_to(self, table: Table, mode: WriteMode, without: Values) -> tuple[FragmentText, ...]:
        """The rows but those of some ids, in the folder of a table."""
        return tables.write_rows(table, to_reader(self.rows.schema, [self.rows], without), mode)


@dataclass
class StagedRows:
    """Rows in fragments at their home, read through a detached version."""

    type: NodeType | EdgeType
    target: FragmentTarget
    fragments: tuple[FragmentText, ...]
    _columns: dict[tuple[str, ...], pa.Table] = field(default_factory=dict[tuple[str, ...], pa.Table])

    def read_columns(self, names: Sequence[str], without: Values) -> pa.Table:
        """Some columns of the rows but those of some ids, in a file; of all rows they are read once."""
        key, schema = tuple(names), arrow_schema(self.type).empty_table().select(list(names)).schema
        if not len(without) and key in self._columns:
            return self._columns[key]
        pieces = (_without(piece.select(list(names)), without).cast(schema) for piece in self._scan(names))
        found = spill_rows(schema, pieces)
        if not len(without):
            self._columns[key] = found
        return found

    def find_rows(self, ids: Values, names: Sequence[str] | None) -> Iterator[tuple[RowNumbers, pa.Table]]:
        """The rows of some ids."""
        for piece in self._scan(names, AnyOf(("id",), cast("pa.StringArray", ids)).sql()):
            found = piece.filter(is_among(column_of(piece, "id"), ids))
            yield self._numbers(found), self._whole(found) if names is None else found.select(list(names))

    def write_to(self, table: Table, mode: WriteMode, without: Values) -> tuple[FragmentText, ...]:
        """The rows but those of some ids, in the folder of a table."""
        schema = arrow_schema(self.type)
        pieces = attach_blobs(self.detached, schema, self._scan(None))
        return tables.write_rows(table, to_reader(schema, pieces, without), mode)

    @cached_property
    def detached(self) -> Table:
        """A detached version that shows the rows, behind those of the pin that are to stay."""
        if self.target.mode == "append":
            staged = tables.append_fragments(self.target.table, self.fragments)
        else:
            staged = tables.overwrite_fragments(self.target.table, arrow_schema(self.type), self.fragments)
        assert staged is not None
        return tables.audit_version(self.target.table, staged)

    @cached_property
    def last_other_fragment(self) -> int | None:
        """The last fragment that is not of these rows: theirs are numbered after all others, replaced ones too."""
        return max(self.target.table.fragment_rows(), default=None)

    @cached_property
    def _fragment_rows(self) -> tuple[npt.NDArray[np.uint64], RowNumbers]:
        """The ids of the fragments, and the number of the first row in each: none has lost a row yet."""
        rows = sorted(self.detached.fragment_rows().items())
        own = [
            (id_, count) for id_, count in rows if self.last_other_fragment is None or id_ > self.last_other_fragment
        ]
        return np.array([id_ for id_, _ in own], np.uint64), np.cumsum([0, *(count for _, count in own)])

    def _scan(self, columns: Sequence[str] | None, filter_: str | None = None) -> Iterator[pa.Table]:
        """Rows in their order, by pieces, with their addresses."""
        reader = self.detached.scan(
            columns, filter=filter_, with_row_address=True, after_fragment=self.last_other_fragment, one_by_one=True
        )
        return (pa.Table.from_batches([batch]) for batch in reader)

    def _numbers(self, rows: pa.Table) -> RowNumbers:
        fragments, starts = self._fragment_rows
        addresses = rows[ROW_ADDRESS].to_numpy()
        return starts[np.searchsorted(fragments, addresses >> 32)] + (addresses & 0xFFFFFFFF).astype(np.int64)

    def _whole(self, rows: pa.Table) -> pa.Table:
        return load_blobs(self.detached, rows, arrow_schema(self.type))


def attach_blobs(table: Table, schema: pa.Schema, pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Rows of a table that were read with their addresses, as they can be written again: with their blobs."""
    has_blobs = any(pa.types.is_struct(type_) for type_ in schema.types)
    for piece in pieces:
        at_once = _ROWS_WITH_BLOBS if has_blobs else max(1, piece.num_rows)
        for start in range(0, piece.num_rows, at_once):
            yield load_blobs(table, piece.slice(start, at_once), schema)


def to_reader(schema: pa.Schema, pieces: Iterable[pa.Table], without: Values) -> pa.RecordBatchReader:
    """Whole rows but those of some ids, to be written."""
    batches = (
        pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        for piece in pieces
        for batch in _without(piece, without).to_batches()
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


def _without(rows: pa.Table, ids: Values) -> pa.Table:
    return rows.filter(is_not_among(column_of(rows, "id"), ids)) if len(ids) else rows
