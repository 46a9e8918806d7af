"""Compare two versions of one table row by row, and give the before and after images of the rows that differ.

Rows are matched by id and compared by the values of all columns. Only one range of ids is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.changes.equality import compare_blobs, compare_values
from omnigraph.read.changes.id_ranges import RangeRows, RowStream, group_by_id_range
from omnigraph.read.changes.type_pairs import ColumnPair, TypePair
from omnigraph.read.frames import Mask, find_positions
from omnigraph.read.rows import blob_properties_of, estimate_blob_sizes, read_writable_blobs, split_by_bytes
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, compute, to_bool_array
from omnigraph.storage.lagging_columns import NO_LAG, choose_wider_type, read_compared_column
from omnigraph.storage.tables import ROW_ADDRESS, Addresses, Table

ROWS_AT_ONCE: Final = 8192
BYTES_AT_ONCE: Final = 32 * 1024 * 1024
"""The limit of one group of changes; a single row may be larger."""

Places: TypeAlias = npt.NDArray[np.int64]


class Op(StrEnum):
    """How a row changed."""

    INSERTED = "inserted"
    UPDATED = "updated"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Changed rows of one table that have the same ``op``, sorted by id.

    The images are whole rows in the columns of the type's table, blobs included, in the form that a write takes. The
    two images of an update are aligned by position.
    """

    table_key: str
    op: Op
    before: pa.RecordBatch | None
    """None for inserted rows."""
    after: pa.RecordBatch | None
    """None for deleted rows."""
    addresses: Addresses | None = None
    """The row addresses in the table before, aligned with ``before``."""
    columns: tuple[ColumnPair, ...] = ()
    """The columns that are reported where they differ."""

    @property
    def rows(self) -> pa.RecordBatch:
        """The image that every row has: the image after, or the image before for deleted rows."""
        image = self.before if self.after is None else self.after
        assert image is not None
        return image

    @property
    def num_rows(self) -> int:
        """The number of changed rows."""
        return self.rows.num_rows


class CandidateSource(Protocol):
    """Rows of a table that may differ from the other side, read from the table or from somewhere else."""

    @property
    def table(self) -> Table:
        """The table that the rows belong to."""
        ...

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        ...

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows with their addresses, in small batches."""
        ...


@dataclass(frozen=True, slots=True)
class DiffSide:
    """One side of a comparison: the rows that may differ, and the type that declares their columns.

    ``candidates`` is None if this side has no table.
    """

    candidates: CandidateSource | None
    type: NodeType | EdgeType

    @property
    def num_rows(self) -> int:
        """The number of rows that may differ."""
        return 0 if self.candidates is None else self.candidates.num_rows

    @property
    def table(self) -> Table:
        """The table of a side that has rows."""
        assert self.candidates is not None
        return self.candidates.table

    @property
    def schema(self) -> pa.Schema:
        """The columns that the schema of this side declares."""
        return arrow_schema(self.type)

    def open_stream(self, columns: Sequence[str]) -> RowStream:
        """Open a stream of the rows in the given columns; columns that the table lacks are left out."""
        candidates = self.candidates
        if candidates is None:
            return RowStream(iter(()), 0, lambda: iter(()))
        stored = set(candidates.table.schema.names)
        names = [name for name in dict.fromkeys(("id", *columns)) if name in stored]
        return RowStream(candidates.read(names), candidates.num_rows, lambda: candidates.read(["id"]))

    def build_image(self, rows: pa.Table, columns: Sequence[str] | None) -> pa.RecordBatch:
        """Build the image of rows in the form that a write takes, in the given columns that the schema has."""
        names = self.schema.names
        selected = names if columns is None else [name for name in columns if name in names]
        schema = pa.schema([cast("pa.Field[pa.DataType]", self.schema.field(name)) for name in selected])
        blobs = {*blob_properties_of(self.type)} & {*rows.column_names}
        found = [
            read_writable_blobs(self.table, name, rows) if name in blobs else self.read_column(rows, name, type_)
            for name, type_ in zip(schema.names, schema.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(found, schema=schema)

    def read_column(self, rows: pa.Table, name: str, type_: pa.DataType) -> Values:
        """Return a column in the given type, which may be the one of the other side."""
        lag = NO_LAG if self.candidates is None else self.candidates.table.lag
        return read_compared_column(self.type, lag, rows, name, type_)


SideTable: TypeAlias = tuple[DiffSide, pa.Table]
"""Rows of one side, and the side."""


@dataclass(frozen=True, slots=True)
class RowPairs:
    """Rows of both sides, paired and ordered by id: the position of each row on each side, -1 if it is not there."""

    before: Places
    after: Places

    def __len__(self) -> int:
        return len(self.before)

    def select(self, chosen: slice | Mask) -> RowPairs:
        """Return some of the pairs."""
        return RowPairs(self.before[chosen], self.after[chosen])


def compare_sides(
    pair: TypePair, before: DiffSide, after: DiffSide, columns: Sequence[str] | None = None
) -> Iterator[tuple[ChangedRows, ...]]:
    """Yield the rows that differ in groups of ascending ids, each with at most one part for each op.

    Every id of a group is lower than all ids of the next one. ``columns`` are the columns of the images.
    """
    chosen = tuple(pair.list_names(columns, side) for side in (0, 1))
    # With one side empty there is nothing to compare, so only the columns of the images are read.
    one_sided = not (before.num_rows and after.num_rows)
    streams = (
        side.open_stream(names if one_sided and names is not None else side.schema.names)
        for side, names in zip((before, after), chosen, strict=True)
    )
    builder = _ImageBuilder(pair, (before, after), chosen)
    for chunked in group_by_id_range(*streams):
        # `take` is slow on chunked columns, and is called many times below.
        rows = RangeRows(*(each.combine_chunks() for each in chunked))
        pairs = _find_differing_pairs(pair.columns, before, after, rows)
        for group in split_by_bytes(builder.estimate_bytes(rows, pairs), BYTES_AT_ONCE, ROWS_AT_ONCE):
            yield tuple(builder.build_changes(rows, pairs.select(group)))


# --------------------------------------------------------------------------------------------- which rows differ


def _find_differing_pairs(
    columns: Sequence[ColumnPair], before: DiffSide, after: DiffSide, rows: RangeRows
) -> RowPairs:
    olds, news = column_of(rows.before, "id"), column_of(rows.after, "id")
    matches = find_positions(olds, news).astype(np.int64)
    deleted, common = np.flatnonzero(matches < 0), np.flatnonzero(matches >= 0)
    inserted = np.setdiff1d(np.arange(len(news)), matches[common], assume_unique=True)
    updated = common[_mark_differing(columns, before, after, rows, RowPairs(common, matches[common]))]
    pairs = RowPairs(
        np.concatenate([deleted, updated, np.full(len(inserted), -1)]),
        np.concatenate([np.full(len(deleted), -1), matches[updated], inserted]),
    )
    ids = pa.concat_arrays([olds.take(deleted), olds.take(updated), news.take(inserted)])
    order = compute("array_sort_indices", ids).to_numpy().astype(np.int64)
    return RowPairs(pairs.before[order], pairs.after[order])


def _mark_differing(
    columns: Sequence[ColumnPair], before: DiffSide, after: DiffSide, rows: RangeRows, pairs: RowPairs
) -> Mask:
    """Return for each pair of rows whether they differ in any column."""
    masks = [
        _mark_differing_batch(columns, before, after, rows, pairs.select(slice(begin, begin + ROWS_AT_ONCE)))
        for begin in range(0, len(pairs), ROWS_AT_ONCE)
    ]
    return np.concatenate([np.zeros(0, np.bool_), *masks])


def _mark_differing_batch(
    columns: Sequence[ColumnPair], before: DiffSide, after: DiffSide, rows: RangeRows, pairs: RowPairs
) -> Mask:
    one, other = (before, rows.before.take(pairs.before)), (after, rows.after.take(pairs.after))
    same = np.ones(len(pairs), np.bool_)
    blobs: list[ColumnPair] = []
    for column in columns:
        if _is_blob(before, column.before) or _is_blob(after, column.after):
            blobs.append(column)
        else:
            same &= _compare_column(column, one, other)
    for column in blobs:
        # Blobs are read last, and only of rows that are equal in all other columns.
        at = np.flatnonzero(same)
        same[at] = _compare_blob_column(column, (before, one[1].take(at)), (after, other[1].take(at)))
    return ~same


def _is_blob(side: DiffSide, name: str | None) -> bool:
    return name in blob_properties_of(side.type)


def _compare_column(column: ColumnPair, one: SideTable, other: SideTable) -> Mask:
    """Return where a column is equal. Where one side does not have it, it is equal to null."""
    if column.before is None or column.after is None:
        return _is_null(*one, column.before) if column.after is None else _is_null(*other, column.after)
    types = (
        cast("pa.DataType", side.schema.field(name).type)
        for side, name in ((one[0], column.before), (other[0], column.after))
    )
    type_ = choose_wider_type(*types)
    return compare_values(
        one[0].read_column(one[1], column.before, type_), other[0].read_column(other[1], column.after, type_)
    )


def _compare_blob_column(column: ColumnPair, one: SideTable, other: SideTable) -> Mask:
    stored = [
        (side, rows, name)
        for (side, rows), name in ((one, column.before), (other, column.after))
        if name is not None and name in rows.column_names
    ]
    if len(stored) == 2:
        return compare_blobs(*((side.table, rows, name) for side, rows, name in stored))
    same = np.ones(one[1].num_rows, np.bool_)
    for _, rows, name in stored:
        same &= to_bool_array(compute("is_null", column_of(rows, name)))
    return same


def _is_null(side: DiffSide, rows: pa.Table, name: str | None) -> Mask:
    """Return where a property is null that the other side does not have: any other value is a change."""
    assert name is not None
    declared = cast("pa.DataType", side.schema.field(name).type)
    return to_bool_array(compute("is_null", side.read_column(rows, name, declared)))


# --------------------------------------------------------------------------------------------- their images


def _estimate_image_bytes(
    side: DiffSide, rows: pa.Table, at: Places, columns: Sequence[str] | None
) -> npt.NDArray[np.float64]:
    """Estimate the size of the image of each row; zero where the row is not on this side."""
    sizes = np.full(rows.num_rows + 1, rows.nbytes / max(1, rows.num_rows))
    for name in {*blob_properties_of(side.type)} & {*rows.column_names}:
        if columns is None or name in columns:
            sizes[:-1] += estimate_blob_sizes(rows, name)
    # Position -1, a row that is not there, reads this last entry.
    sizes[-1] = 0
    return sizes[at]


@dataclass(frozen=True, slots=True)
class _ImageBuilder:
    """Builds the images of changed rows; ``columns`` are those of the images on each side."""

    pair: TypePair
    sides: tuple[DiffSide, DiffSide]
    columns: tuple[Sequence[str] | None, ...]

    def estimate_bytes(self, rows: RangeRows, pairs: RowPairs) -> npt.NDArray[np.float64]:
        """Estimate the size of both images of each pair."""
        before, after = (
            _estimate_image_bytes(side, table, at, columns)
            for side, table, at, columns in zip(
                self.sides, rows, (pairs.before, pairs.after), self.columns, strict=True
            )
        )
        return before + after

    def build_changes(self, rows: RangeRows, pairs: RowPairs) -> Iterator[ChangedRows]:
        """Build the images of some pairs, one part for each op that occurs."""
        key = self.pair.key
        is_deleted, is_inserted = pairs.after < 0, pairs.before < 0
        if is_deleted.any():
            at = pairs.before[is_deleted]
            yield ChangedRows(key, Op.DELETED, self._build_image(rows, 0, at), None, _addresses_at(rows.before, at))
        if is_inserted.any():
            yield ChangedRows(key, Op.INSERTED, None, self._build_image(rows, 1, pairs.after[is_inserted]))
        updated = pairs.select(~(is_deleted | is_inserted))
        if len(updated):
            images = self._build_image(rows, 0, updated.before), self._build_image(rows, 1, updated.after)
            addresses = _addresses_at(rows.before, updated.before)
            columns = (*self.pair.columns, *self.pair.dropped)
            yield ChangedRows(key, Op.UPDATED, *images, addresses, columns)

    def _build_image(self, rows: RangeRows, side: int, at: Places) -> pa.RecordBatch:
        return self.sides[side].build_image(rows[side].take(at), self.columns[side])


def _addresses_at(rows: pa.Table, at: Places) -> Addresses:
    return column_of(rows, ROW_ADDRESS).to_numpy(zero_copy_only=False).astype(np.uint64, copy=False)[at]
