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
    unrelated: frozenset[str] = frozenset()
    """The columns of both images that are different properties, which only have the name in common."""

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
    unrelated: frozenset[str] = frozenset()
    """The names that stand for other properties on the other side, because one was dropped and another one added."""

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
        """Return a column in the given type, which may be the newer type of the other side."""
        lag = NO_LAG if self.candidates is None else self.candidates.table.lag
        return read_compared_column(self.type, lag, rows, name, type_)


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
    table_key: str, before: DiffSide, after: DiffSide, columns: Sequence[str] | None = None
) -> Iterator[tuple[ChangedRows, ...]]:
    """Yield the rows that differ in groups of ascending ids, each with at most one part for each op.

    Every id of a group is lower than all ids of the next one. ``columns`` are the columns of the images.
    """
    # With one side empty there is nothing to compare, so only the columns of the images are read.
    one_sided = not (before.num_rows and after.num_rows)
    streams = (
        side.open_stream(columns if one_sided and columns is not None else side.schema.names)
        for side in (before, after)
    )
    for chunked in group_by_id_range(*streams):
        # `take` is slow on chunked columns, and is called many times below.
        rows = RangeRows(*(each.combine_chunks() for each in chunked))
        pairs = _find_differing_pairs(before, after, rows)
        sizes = _estimate_image_bytes(before, rows.before, pairs.before, columns)
        sizes += _estimate_image_bytes(after, rows.after, pairs.after, columns)
        for group in split_by_bytes(sizes, BYTES_AT_ONCE, ROWS_AT_ONCE):
            yield tuple(_build_changes(table_key, before, after, rows, pairs.select(group), columns))


# --------------------------------------------------------------------------------------------- which rows differ


def _find_differing_pairs(before: DiffSide, after: DiffSide, rows: RangeRows) -> RowPairs:
    olds, news = column_of(rows.before, "id"), column_of(rows.after, "id")
    matches = find_positions(olds, news).astype(np.int64)
    deleted, common = np.flatnonzero(matches < 0), np.flatnonzero(matches >= 0)
    inserted = np.setdiff1d(np.arange(len(news)), matches[common], assume_unique=True)
    updated = common[_mark_differing(before, after, rows, RowPairs(common, matches[common]))]
    pairs = RowPairs(
        np.concatenate([deleted, updated, np.full(len(inserted), -1)]),
        np.concatenate([np.full(len(deleted), -1), matches[updated], inserted]),
    )
    ids = pa.concat_arrays([olds.take(deleted), olds.take(updated), news.take(inserted)])
    order = compute("array_sort_indices", ids).to_numpy().astype(np.int64)
    return RowPairs(pairs.before[order], pairs.after[order])


def _mark_differing(before: DiffSide, after: DiffSide, rows: RangeRows, pairs: RowPairs) -> Mask:
    """Return for each pair of rows whether they differ in any column."""
    masks = [
        _mark_differing_batch(before, after, rows, pairs.select(slice(begin, begin + ROWS_AT_ONCE)))
        for begin in range(0, len(pairs), ROWS_AT_ONCE)
    ]
    return np.concatenate([np.zeros(0, np.bool_), *masks])


def _mark_differing_batch(before: DiffSide, after: DiffSide, rows: RangeRows, pairs: RowPairs) -> Mask:
    old, new = rows.before.take(pairs.before), rows.after.take(pairs.after)
    same = np.ones(len(pairs), np.bool_)
    unrelated = before.unrelated | after.unrelated
    for name in unrelated:
        same &= _is_null_column(before, old, name) & _is_null_column(after, new, name)
    blobs = {*blob_properties_of(before.type), *blob_properties_of(after.type)} - unrelated
    for name, type_ in _list_compared_types(before.schema, after.schema).items():
        if name not in blobs and name not in unrelated:
            same &= compare_values(before.read_column(old, name, type_), after.read_column(new, name, type_))
    for name in blobs:
        # Blobs are read last, and only of rows that are equal in all other columns.
        at = np.flatnonzero(same)
        same[at] = _compare_blob_column(name, (before, old.take(at)), (after, new.take(at)))
    return ~same


def _compare_blob_column(name: str, one: tuple[DiffSide, pa.Table], other: tuple[DiffSide, pa.Table]) -> Mask:
    if all(name in rows.column_names for _, rows in (one, other)):
        return compare_blobs(name, (one[0].table, one[1]), (other[0].table, other[1]))
    same = np.ones(one[1].num_rows, np.bool_)
    for _, rows in (one, other):
        if name in rows.column_names:
            same &= to_bool_array(compute("is_null", column_of(rows, name)))
    return same


def _is_null_column(side: DiffSide, rows: pa.Table, name: str) -> Mask:
    """Return where a property is null. It has no counterpart on the other side, so any other value is a change."""
    declared = cast("pa.DataType", side.schema.field(name).type)
    found = column_of(rows, name) if name in rows.column_names else side.read_column(rows, name, declared)
    return to_bool_array(compute("is_null", found))


def _list_compared_types(before: pa.Schema, after: pa.Schema) -> dict[str, pa.DataType]:
    """Return the columns of both sides, in the wider type where the types differ."""
    olds, news = (dict(zip(schema.names, schema.types, strict=True)) for schema in (before, after))
    return {name: choose_wider_type(olds.get(name, type_), type_) for name, type_ in {**olds, **news}.items()}


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


def _build_changes(
    table_key: str,
    before: DiffSide,
    after: DiffSide,
    rows: RangeRows,
    pairs: RowPairs,
    columns: Sequence[str] | None,
) -> Iterator[ChangedRows]:
    """Build the images of some pairs, one part for each op that occurs."""

    def old_image(at: Places) -> pa.RecordBatch:
        return before.build_image(rows.before.take(at), columns)

    def new_image(at: Places) -> pa.RecordBatch:
        return after.build_image(rows.after.take(at), columns)

    is_deleted, is_inserted = pairs.after < 0, pairs.before < 0
    if is_deleted.any():
        at = pairs.before[is_deleted]
        yield ChangedRows(table_key, Op.DELETED, old_image(at), None, _addresses_at(rows.before, at))
    if is_inserted.any():
        yield ChangedRows(table_key, Op.INSERTED, None, new_image(pairs.after[is_inserted]))
    updated = pairs.select(~(is_deleted | is_inserted))
    if len(updated):
        addresses = _addresses_at(rows.before, updated.before)
        images = old_image(updated.before), new_image(updated.after)
        yield ChangedRows(table_key, Op.UPDATED, *images, addresses, before.unrelated | after.unrelated)


def _addresses_at(rows: pa.Table, at: Places) -> Addresses:
    return column_of(rows, ROW_ADDRESS).to_numpy(zero_copy_only=False).astype(np.uint64, copy=False)[at]
