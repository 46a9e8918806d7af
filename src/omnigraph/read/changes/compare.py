"""The rows of two sides of one table, side by side: which differ, and their images in stretches of ids.

Rows meet by their ids and are compared by the values of all columns. Only a range of ids is here at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.read.changes.equality import Mask, compare_blobs, compare_values
from omnigraph.read.changes.id_ranges import RangeRows, RowStream, group_by_id_range
from omnigraph.read.frames import find_positions
from omnigraph.read.rows import blob_properties_of, estimate_blob_sizes, read_writable_blobs
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, compute, truths
from omnigraph.storage.lagging_columns import read_compared_column
from omnigraph.storage.pinned import ROW_ADDRESS, Table
from omnigraph.storage.staging import Addresses

ROWS_AT_ONCE: Final = 8192
BYTES_AT_ONCE: Final = 32 * 1024 * 1024
"""No stretch is larger, but for a single row that is."""

Places: TypeAlias = npt.NDArray[np.int64]
Image: TypeAlias = pa.RecordBatch | None


class CandidateSource(Protocol):
    """Rows of a table that may differ from those of the other side, wherever they are read from."""

    @property
    def table(self) -> Table:
        """The table that they are of."""
        ...

    @property
    def num_rows(self) -> int:
        """How many there are."""
        ...

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows with their addresses, in small batches."""
        ...


@dataclass(frozen=True, slots=True)
class DiffSide:
    """The rows of one side that may differ, and the type that gives them their columns. A side may have no table."""

    candidates: CandidateSource | None
    type: NodeType | EdgeType

    @property
    def num_rows(self) -> int:
        """How many rows may differ."""
        return 0 if self.candidates is None else self.candidates.num_rows

    @property
    def table(self) -> Table:
        """The table, of a side that has rows."""
        assert self.candidates is not None
        return self.candidates.table

    @property
    def schema(self) -> pa.Schema:
        """The columns that the schema of this side declares."""
        return arrow_schema(self.type)

    def open_stream(self, columns: Sequence[str]) -> RowStream:
        """The rows in some columns; those that the table lacks stay away."""
        touched = self.candidates
        if touched is None:
            return RowStream(iter(()), 0, lambda: iter(()))
        there = set(touched.table.schema.names)
        wanted = [name for name in dict.fromkeys(("id", *columns)) if name in there]
        return RowStream(touched.read(wanted), touched.num_rows, lambda: touched.read(["id"]))

    def build_image(self, rows: pa.Table, columns: Sequence[str] | None) -> pa.RecordBatch:
        """Rows as they can be written again, in the columns that are wanted of those that the schema has."""
        names = self.schema.names
        wanted = names if columns is None else [name for name in columns if name in names]
        schema = pa.schema([cast("pa.Field[pa.DataType]", self.schema.field(name)) for name in wanted])
        blobs = {*blob_properties_of(self.type)} & {*rows.column_names}
        found = [
            read_writable_blobs(self.table, name, rows) if name in blobs else self.brought(rows, name, type_)
            for name, type_ in zip(schema.names, schema.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(found, schema=schema)

    def brought(self, rows: pa.Table, name: str, type_: pa.DataType) -> Values:
        """A column in a type that a schema declares: a table may lag behind it, and that of the other side be newer."""
        return read_compared_column(self.type, rows, name, type_)


@dataclass(frozen=True, slots=True)
class RowPairs:
    """Rows of both sides by id, in the order of the ids: where each is on each side, -1 where it is not."""

    before: Places
    after: Places

    def __len__(self) -> int:
        return len(self.before)

    def select(self, chosen: slice | Mask) -> RowPairs:
        """Some of them."""
        return RowPairs(self.before[chosen], self.after[chosen])


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows that differ, of some ids that lie next to one another: the images of those that only one side has, and of
    those that both have, aligned by position. For rows of the side before also where they lie there."""

    deleted: Image
    deleted_at: Addresses
    inserted: Image
    updated: tuple[pa.RecordBatch, pa.RecordBatch] | None
    updated_at: Addresses


def differing(before: DiffSide, after: DiffSide, columns: Sequence[str] | None) -> Iterator[Stretch]:
    """All rows that differ, lower ids first; ``columns`` are those of the images."""
    # Without another side there is nothing to compare, and only what is asked for has to be read.
    alone = not (before.num_rows and after.num_rows)
    streams = (
        side.open_stream(columns if alone and columns is not None else side.schema.names) for side in (before, after)
    )
    for found in group_by_id_range(*streams):
        # Rows are taken out of here again and again, which is slow while they are in pieces.
        sides = RangeRows(*(rows.combine_chunks() for rows in found))
        pairs = _differing_pairs(before, after, sides)
        weights = _weights(before, sides.before, pairs.before, columns)
        weights += _weights(after, sides.after, pairs.after, columns)
        for cut in _cuts(weights):
            yield _stretch(before, after, sides, pairs.select(cut), columns)


# --------------------------------------------------------------------------------------------- which differ


def _differing_pairs(before: DiffSide, after: DiffSide, sides: RangeRows) -> RowPairs:
    olds, news = column_of(sides.before, "id"), column_of(sides.after, "id")
    there = find_positions(olds, news).astype(np.int64)
    gone, met = np.flatnonzero(there < 0), np.flatnonzero(there >= 0)
    fresh = np.setdiff1d(np.arange(len(news)), there[met], assume_unique=True)
    met = met[_differ(before, after, sides, RowPairs(met, there[met]))]
    pairs = RowPairs(
        np.concatenate([gone, met, np.full(len(fresh), -1)]),
        np.concatenate([np.full(len(gone), -1), there[met], fresh]),
    )
    ids = pa.concat_arrays([olds.take(gone), olds.take(met), news.take(fresh)])
    order = compute("array_sort_indices", ids).to_numpy().astype(np.int64)
    return RowPairs(pairs.before[order], pairs.after[order])


def _differ(before: DiffSide, after: DiffSide, sides: RangeRows, pairs: RowPairs) -> Mask:
    """For each pair of rows whether some column tells them apart."""
    few = [
        _differ_of_few(before, after, sides, pairs.select(slice(begin, begin + ROWS_AT_ONCE)))
        for begin in range(0, len(pairs), ROWS_AT_ONCE)
    ]
    return np.concatenate([np.zeros(0, np.bool_), *few])


def _differ_of_few(before: DiffSide, after: DiffSide, sides: RangeRows, pairs: RowPairs) -> Mask:
    one, other = sides.before.take(pairs.before), sides.after.take(pairs.after)
    same = np.ones(len(pairs), np.bool_)
    blobs = {*blob_properties_of(before.type), *blob_properties_of(after.type)}
    for name, type_ in {**_types(before.schema), **_types(after.schema)}.items():
        if name not in blobs:
            same &= compare_values(before.brought(one, name, type_), after.brought(other, name, type_))
    for name in blobs:
        # Bytes are read last, and only of rows that nothing else tells apart.
        at = np.flatnonzero(same)
        same[at] = _same_blobs(name, (before, one.take(at)), (after, other.take(at)))
    return ~same


def _same_blobs(name: str, one: tuple[DiffSide, pa.Table], other: tuple[DiffSide, pa.Table]) -> Mask:
    if all(name in rows.column_names for _, rows in (one, other)):
        return compare_blobs(name, (one[0].table, one[1]), (other[0].table, other[1]))
    same = np.ones(one[1].num_rows, np.bool_)
    for _, rows in (one, other):
        if name in rows.column_names:
            same &= truths(compute("is_null", column_of(rows, name)))
    return same


def _types(schema: pa.Schema) -> dict[str, pa.DataType]:
    return dict(zip(schema.names, schema.types, strict=True))


# --------------------------------------------------------------------------------------------- their images


def _cuts(weights: npt.NDArray[np.float64]) -> Iterator[slice]:
    """Where to cut rows of some weights, so that no piece has too many rows or bytes."""
    numbers = np.cumsum(weights) // BYTES_AT_ONCE + np.arange(len(weights)) // ROWS_AT_ONCE
    starts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
    for start, end in zip(starts, [*starts[1:], len(weights)][: len(starts)], strict=True):
        yield slice(start, end)


def _weights(side: DiffSide, rows: pa.Table, at: Places, columns: Sequence[str] | None) -> npt.NDArray[np.float64]:
    """About how many bytes the image of each row takes; none where the row is not on this side."""
    weights = np.full(rows.num_rows + 1, rows.nbytes / max(1, rows.num_rows))
    for name in {*blob_properties_of(side.type)} & {*rows.column_names}:
        if columns is None or name in columns:
            weights[:-1] += estimate_blob_sizes(rows, name)
    weights[-1] = 0
    return weights[at]


def _stretch(
    before: DiffSide, after: DiffSide, sides: RangeRows, pairs: RowPairs, columns: Sequence[str] | None
) -> Stretch:
    gone, fresh = pairs.after < 0, pairs.before < 0
    both = pairs.select(~(gone | fresh))

    def image(side: DiffSide, rows: pa.Table, at: Places) -> pa.RecordBatch:
        return side.build_image(rows.take(at), columns)

    return Stretch(
        image(before, sides.before, pairs.before[gone]) if gone.any() else None,
        _addresses(sides.before, pairs.before[gone]),
        image(after, sides.after, pairs.after[fresh]) if fresh.any() else None,
        (image(before, sides.before, both.before), image(after, sides.after, both.after)) if len(both) else None,
        _addresses(sides.before, both.before),
    )


def _addresses(rows: pa.Table, at: Places) -> Addresses:
    if not len(at):
        return np.zeros(0, np.uint64)
    return column_of(rows, ROW_ADDRESS).to_numpy(zero_copy_only=False).astype(np.uint64, copy=False)[at]
