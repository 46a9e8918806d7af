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
from omnigraph.read.changes.equality import Mask, same_blobs, same_values
from omnigraph.read.changes.id_ranges import Sides, Stream, in_ranges
from omnigraph.read.frames import places_of
from omnigraph.read.rows import blob_sizes, blobs_of, whole_blobs
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, absent, column_of, compute, truths
from omnigraph.storage.missing import missing_column
from omnigraph.storage.pinned import ROW_ADDRESS, Table
from omnigraph.storage.staging import Addresses

ROWS_AT_ONCE: Final = 8192
BYTES_AT_ONCE: Final = 32 * 1024 * 1024
"""No stretch is larger, but for a single row that is."""

Places: TypeAlias = npt.NDArray[np.int64]
Image: TypeAlias = pa.RecordBatch | None


class Candidates(Protocol):
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
class Side:
    """The rows of one side that may differ, and the type that gives them their columns. A side may have no table."""

    touched: Candidates | None
    type: NodeType | EdgeType

    @property
    def num_rows(self) -> int:
        """How many rows may differ."""
        return 0 if self.touched is None else self.touched.num_rows

    @property
    def table(self) -> Table:
        """The table, of a side that has rows."""
        assert self.touched is not None
        return self.touched.table

    @property
    def schema(self) -> pa.Schema:
        """The columns that the schema of this side declares."""
        return arrow_schema(self.type)

    def stream(self, columns: Sequence[str]) -> Stream:
        """The rows in some columns; those that the table lacks stay away."""
        touched = self.touched
        if touched is None:
            return Stream(iter(()), 0, lambda: iter(()))
        there = set(touched.table.schema.names)
        wanted = [name for name in dict.fromkeys(("id", *columns)) if name in there]
        return Stream(touched.read(wanted), touched.num_rows, lambda: touched.read(["id"]))

    def image(self, rows: pa.Table, columns: Sequence[str] | None) -> pa.RecordBatch:
        """Rows as they can be written again, in the columns that are wanted of those that the schema has."""
        names = self.schema.names
        wanted = names if columns is None else [name for name in columns if name in names]
        schema = pa.schema([cast("pa.Field[pa.DataType]", self.schema.field(name)) for name in wanted])
        blobs = {*blobs_of(self.type)} & {*rows.column_names}
        found = [
            whole_blobs(self.table, name, rows) if name in blobs else self.brought(rows, name, type_)
            for name, type_ in zip(schema.names, schema.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(found, schema=schema)

    def brought(self, rows: pa.Table, name: str, type_: pa.DataType) -> Values:
        """A column in a type that a schema declares: a table may lag behind it, and that of the other side be newer."""
        if name not in rows.column_names:
            known = name in self.type.properties
            return missing_column(self.type, name, rows.num_rows).cast(type_) if known else absent(rows.num_rows, type_)
        found = column_of(rows, name)
        return found if found.type == type_ else found.cast(type_)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Rows of both sides by id, in the order of the ids: where each is on each side, -1 where it is not."""

    before: Places
    after: Places

    def __len__(self) -> int:
        return len(self.before)

    def part(self, chosen: slice | Mask) -> Pairs:
        """Some of them."""
        return Pairs(self.before[chosen], self.after[chosen])


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows that differ, of some ids that lie next to one another: the images of those that only one side has, and of
    those that both have, aligned by position. For rows of the side before also where they lie there."""

    deleted: Image
    deleted_at: Addresses
    inserted: Image
    updated: tuple[pa.RecordBatch, pa.RecordBatch] | None
    updated_at: Addresses


def differing(before: Side, after: Side, columns: Sequence[str] | None) -> Iterator[Stretch]:
    """All rows that differ, lower ids first; ``columns`` are those of the images."""
    # Without another side there is nothing to compare, and only what is asked for has to be read.
    alone = not (before.num_rows and after.num_rows)
    streams = (side.stream(columns if alone and columns is not None else side.schema.names) for side in (before, after))
    for found in in_ranges(*streams):
        # Rows are taken out of here again and again, which is slow while they are in pieces.
        sides = Sides(*(rows.combine_chunks() for rows in found))
        pairs = _differing_pairs(before, after, sides)
        weights = _weights(before, sides.before, pairs.before, columns)
        weights += _weights(after, sides.after, pairs.after, columns)
        for cut in _cuts(weights):
            yield _stretch(before, after, sides, pairs.part(cut), columns)


# --------------------------------------------------------------------------------------------- which differ


def _differing_pairs(before: Side, after: Side, sides: Sides) -> Pairs:
    olds, news = column_of(sides.before, "id"), column_of(sides.after, "id")
    there = places_of(olds, news).astype(np.int64)
    gone, met = np.flatnonzero(there < 0), np.flatnonzero(there >= 0)
    fresh = np.setdiff1d(np.arange(len(news)), there[met], assume_unique=True)
    met = met[_differ(before, after, sides, Pairs(met, there[met]))]
    pairs = Pairs(
        np.concatenate([gone, met, np.full(len(fresh), -1)]),
        np.concatenate([np.full(len(gone), -1), there[met], fresh]),
    )
    ids = pa.concat_arrays([olds.take(gone), olds.take(met), news.take(fresh)])
    order = compute("array_sort_indices", ids).to_numpy().astype(np.int64)
    return Pairs(pairs.before[order], pairs.after[order])


def _differ(before: Side, after: Side, sides: Sides, pairs: Pairs) -> Mask:
    """For each pair of rows whether some column tells them apart."""
    few = [
        _differ_of_few(before, after, sides, pairs.part(slice(begin, begin + ROWS_AT_ONCE)))
        for begin in range(0, len(pairs), ROWS_AT_ONCE)
    ]
    return np.concatenate([np.zeros(0, np.bool_), *few])


def _differ_of_few(before: Side, after: Side, sides: Sides, pairs: Pairs) -> Mask:
    one, other = sides.before.take(pairs.before), sides.after.take(pairs.after)
    same = np.ones(len(pairs), np.bool_)
    blobs = {*blobs_of(before.type), *blobs_of(after.type)}
    for name, type_ in {**_types(before.schema), **_types(after.schema)}.items():
        if name not in blobs:
            same &= same_values(before.brought(one, name, type_), after.brought(other, name, type_))
    for name in blobs:
        # Bytes are read last, and only of rows that nothing else tells apart.
        at = np.flatnonzero(same)
        same[at] = _same_blobs(name, (before, one.take(at)), (after, other.take(at)))
    return ~same


def _same_blobs(name: str, one: tuple[Side, pa.Table], other: tuple[Side, pa.Table]) -> Mask:
    if all(name in rows.column_names for _, rows in (one, other)):
        return same_blobs(name, (one[0].table, one[1]), (other[0].table, other[1]))
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


def _weights(side: Side, rows: pa.Table, at: Places, columns: Sequence[str] | None) -> npt.NDArray[np.float64]:
    """About how many bytes the image of each row takes; none where the row is not on this side."""
    weights = np.full(rows.num_rows + 1, rows.nbytes / max(1, rows.num_rows))
    for name in {*blobs_of(side.type)} & {*rows.column_names}:
        if columns is None or name in columns:
            weights[:-1] += blob_sizes(rows, name)
    weights[-1] = 0
    return weights[at]


def _stretch(before: Side, after: Side, sides: Sides, pairs: Pairs, columns: Sequence[str] | None) -> Stretch:
    gone, fresh = pairs.after < 0, pairs.before < 0
    both = pairs.part(~(gone | fresh))

    def image(side: Side, rows: pa.Table, at: Places) -> pa.RecordBatch:
        return side.image(rows.take(at), columns)

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
