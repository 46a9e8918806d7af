"""Frames: the rows of a match as columns of integers, one column for each bound variable.

A variable is bound to a set of entities of one table, numbered from 0; its column holds one position in that set for
each row. Properties are fetched late, for the rows that are left. Rows that differ only in variables that nothing
needs any more are kept once, with a weight, so paths that are only counted are never made.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Final, Protocol, cast

import numpy as np
import pyarrow as pa

from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames.parts import Mask, Positions, concat_numbers, find_rows, take_rows
from omnigraph.storage.columns import Values, column_of


class EntitySet(Protocol):
    """Entities of one table version, numbered from 0. The set may grow at its end while a query runs."""

    @property
    def table_key(self) -> str:
        """The table of the entities."""
        ...

    def __len__(self) -> int: ...

    def is_key(self, column: str) -> bool:
        """Whether a property is the key: never null, and different for each entity."""
        ...

    def take_ids(self, positions: Positions) -> pa.StringArray:
        """Return the ids at some positions."""
        ...

    def take_values(self, column: str, positions: Positions) -> Values:
        """Return the values of a property at some positions."""
        ...


@dataclass(frozen=True, slots=True)
class EntityColumn:
    """The entity that a variable is bound to in each row, as a position in a set of entities."""

    entities: EntitySet
    positions: Positions


class _MarkValues:
    """The two values of a mark, as a set of entities: a mark is a column of positions in it, like any variable."""

    table_key: str = ""

    def __len__(self) -> int:
        return 2

    def is_key(self, column: str) -> bool:
        raise AssertionError(f"a mark has no {column}")

    def take_ids(self, positions: Positions) -> pa.StringArray:
        raise AssertionError(f"{len(positions)} marks have no ids")

    def take_values(self, column: str, positions: Positions) -> Values:
        raise AssertionError(f"{len(positions)} marks have no {column}")


_MARK_VALUES: Final = _MarkValues()
TRUE_MARK: Final = 1
"""The position of a mark that is true; 0 is false."""


@dataclass(frozen=True, slots=True, eq=False)
class _ResultRows:
    """The rows of a result, as a set of entities whose properties are its columns."""

    table: pa.Table
    table_key: str = ""

    def __len__(self) -> int:
        return self.table.num_rows

    def is_key(self, column: str) -> bool:
        raise AssertionError(f"a result has no key {column}")

    def take_ids(self, positions: Positions) -> pa.StringArray:
        raise AssertionError(f"{len(positions)} rows of a result have no ids")

    def take_values(self, column: str, positions: Positions) -> Values:
        return column_of(self.table, column).take(positions)


RESULT: Final = ""
"""The variable that stands for the rows of a result. No query has one of this name."""


def frame_of_columns(table: pa.Table) -> Frame:
    """Return the rows of a result as a frame, for expressions over its columns."""
    return Frame(table.num_rows, {RESULT: EntityColumn(_ResultRows(table), np.arange(table.num_rows))})


@dataclass(frozen=True, slots=True)
class OptionalEntities:
    """The entities of a set, and at position 0 none: a variable of an optional block may be absent."""

    base: EntitySet | None

    @property
    def table_key(self) -> str:
        """The table of the entities."""
        return "" if self.base is None else self.base.table_key

    def __len__(self) -> int:
        return 1 if self.base is None else 1 + len(self.base)

    def is_key(self, column: str) -> bool:
        """Never: the key of an absent entity is null."""
        del column
        return False

    def take_ids(self, positions: Positions) -> pa.StringArray:
        """Return the ids at some positions; null for an absent entity."""
        found = None if self.base is None else self.base.take_ids(positions[positions > 0] - 1)
        return cast("pa.StringArray", _spread(cast("Values | None", found), positions > 0))

    def take_values(self, column: str, positions: Positions) -> Values:
        """Return the values of a property at some positions; null for an absent entity."""
        found = None if self.base is None else self.base.take_values(column, positions[positions > 0] - 1)
        return _spread(found, positions > 0)


def _spread(values: Values | None, present: Mask) -> Values:
    """Put values where a mask is true, and nulls elsewhere."""
    if values is None:
        return cast("Values", pa.nulls(len(present), pa.string()))
    places = pa.array(np.cumsum(present) - 1, pa.int64(), mask=~present)
    return values.take(places)


def _no_bindings() -> Mapping[str, EntityColumn]:
    return {}


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows of a match.

    ``weights``: how many equal rows each row represents; one, if None. ``ranks``: the rank from the nearest ranking
    below. ``tags``: the outer row that a row belongs to, while a block runs.
    """

    num_rows: int
    bindings: Mapping[str, EntityColumn] = field(default_factory=_no_bindings)
    weights: Positions | None = None
    ranks: Positions | None = None
    tags: Positions | None = None

    def take(self, rows: Positions) -> Frame:
        """Return the given rows, in this order; a row may be repeated."""
        return Frame(
            len(rows),
            {
                name: EntityColumn(each.entities, take_rows(each.positions, rows))
                for name, each in self.bindings.items()
            },
            _take(self.weights, rows),
            _take(self.ranks, rows),
            _take(self.tags, rows),
        )

    def slice(self, begin: int, end: int) -> Frame:
        """Return the rows in a range, without copying them."""
        if begin <= 0 and end >= self.num_rows:
            return self
        rows = slice(begin, min(end, self.num_rows))
        return Frame(
            max(0, rows.stop - begin),
            {name: EntityColumn(each.entities, each.positions[rows]) for name, each in self.bindings.items()},
            *(None if each is None else each[rows] for each in (self.weights, self.ranks, self.tags)),
        )

    def filter(self, mask: Mask) -> Frame:
        """Return the rows for which the mask is true."""
        return self if bool(mask.all()) else self.take(find_rows(mask))

    def bind(self, variable: str, entities: EntitySet, positions: Positions) -> Frame:
        """Return the same rows with one more variable."""
        return replace(self, bindings={**self.bindings, variable: EntityColumn(entities, positions)})

    def drop_absent(self, variable: str) -> Frame:
        """Return the rows in which a variable is present."""
        binding = self.bindings[variable]
        if not isinstance(binding.entities, OptionalEntities):
            return self
        rows = self.take(find_rows(binding.positions > 0))
        base = binding.entities.base
        return rows if base is None else rows.bind(variable, base, rows.bindings[variable].positions - 1)

    def mark(self, name: str, mask: Mask) -> Frame:
        """Return the same rows with a mark."""
        return self.bind(name, _MARK_VALUES, mask.astype(np.int64))

    def select(self, variables: Collection[str]) -> Frame:
        """Return the same rows with these variables only."""
        return replace(self, bindings={name: each for name, each in self.bindings.items() if name in variables})

    @property
    def row_bytes(self) -> int:
        """The bytes of one row."""
        others = (self.weights is not None) + (self.ranks is not None) + (self.tags is not None)
        return 8 * (len(self.bindings) + others)

    @property
    def nbytes(self) -> int:
        """The bytes of all rows."""
        return self.num_rows * self.row_bytes

    @property
    def total_rows(self) -> int:
        """The number of rows, with weights."""
        return self.num_rows if self.weights is None else int(self.weights.sum())


def _take(column: Positions | None, rows: Positions) -> Positions | None:
    return None if column is None else take_rows(column, rows)


def empty_positions() -> Positions:
    """Return an array without positions."""
    return np.zeros(0, np.int64)


def concat_frames(frames: Sequence[Frame]) -> Frame:
    """Concatenate frames with the same variables in the same sets of entities."""
    first, *rest = frames
    if not rest:
        return first
    return Frame(
        sum(frame.num_rows for frame in frames),
        {
            name: EntityColumn(each.entities, concat_numbers([frame.bindings[name].positions for frame in frames]))
            for name, each in first.bindings.items()
        },
        _concat_weights(frames),
        _concat_columns([frame.ranks for frame in frames]),
        _concat_columns([frame.tags for frame in frames]),
    )


def _concat_weights(frames: Sequence[Frame]) -> Positions | None:
    if all(frame.weights is None for frame in frames):
        return None
    ones = [np.ones(frame.num_rows, np.int64) for frame in frames]
    return concat_numbers(
        [one if frame.weights is None else frame.weights for one, frame in zip(ones, frames, strict=True)]
    )


def _concat_columns(columns: Sequence[Positions | None]) -> Positions | None:
    present = [column for column in columns if column is not None]
    return concat_numbers(present) if present else None
