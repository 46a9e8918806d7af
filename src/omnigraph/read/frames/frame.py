"""Rows of a match while it is computed: which entity each variable stands for, and nothing of its properties yet.

A frame is columns of integers. A variable is bound to a population (the entities of one table that can be spoken of,
numbered from 0) and has one position in it for each row. Properties are fetched when something asks for them, for the
rows that are left by then. Rows that differ only in variables that nothing asks for any more are kept once, with the
number of rows they stand for: paths that are only counted are never made.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.storage.columns import Values, value_codes

Positions: TypeAlias = npt.NDArray[np.int64]
"""Places in a population, or in the rows of a frame."""
Mask: TypeAlias = npt.NDArray[np.bool_]

_SPARSE: Final = 4
"""An array of this many places for each row is filled faster than its rows are hashed."""


class EntitySet(Protocol):
    """Entities of one table at one version, numbered from 0; it may grow at its end while a query runs."""

    @property
    def table_key(self) -> str:
        """The table whose rows they are."""
        ...

    def __len__(self) -> int: ...

    def is_key(self, column: str) -> bool:
        """Whether no two of them can have the same value of a property, and each has one."""
        ...

    def take_ids(self, positions: Positions) -> pa.StringArray:
        """The ids at some positions, in their order."""
        ...

    def take_values(self, column: str, positions: Positions) -> Values:
        """A property of the entities at some positions, in their order; null where the table lacks the column."""
        ...


@dataclass(frozen=True, slots=True)
class EntityColumn:
    """What a variable stands for in each row of a frame."""

    entities: EntitySet
    positions: Positions


def _no_bindings() -> Mapping[str, EntityColumn]:
    return {}


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows of a match.

    ``weights``: how many equal rows each one stands for; one, where it is None. ``ranks``: what the nearest ranking
    below gave to each row. ``tags``: for which row of an outer match, while a negation is asked.
    """

    num_rows: int
    bindings: Mapping[str, EntityColumn] = field(default_factory=_no_bindings)
    weights: Positions | None = None
    ranks: Positions | None = None
    tags: Positions | None = None

    def take(self, rows: Positions) -> Frame:
        """Some of the rows, in this order; a row may come several times."""
        return Frame(
            len(rows),
            {name: EntityColumn(each.entities, each.positions[rows]) for name, each in self.bindings.items()},
            _take(self.weights, rows),
            _take(self.ranks, rows),
            _take(self.tags, rows),
        )

    def filter(self, mask: Mask) -> Frame:
        """The rows for which the mask is true."""
        return self if bool(mask.all()) else self.take(np.flatnonzero(mask))

    def bind(self, variable: str, population: EntitySet, positions: Positions) -> Frame:
        """The same rows with one more variable."""
        return replace(self, bindings={**self.bindings, variable: EntityColumn(population, positions)})

    def select(self, variables: Collection[str]) -> Frame:
        """The same rows without the other variables; their number stays."""
        return replace(self, bindings={name: each for name, each in self.bindings.items() if name in variables})

    @property
    def total_rows(self) -> int:
        """How many rows it stands for."""
        return self.num_rows if self.weights is None else int(self.weights.sum())


def _take(column: Positions | None, rows: Positions) -> Positions | None:
    return None if column is None else column[rows]


def empty_positions() -> Positions:
    """No position at all."""
    return np.zeros(0, np.int64)


def number_tuples(columns: Sequence[Positions]) -> tuple[Positions, Positions]:
    """Number the distinct tuples of some columns: a row that has each, and for each row the number of its tuple."""
    first, numbers = _number_codes(columns[0])
    for column in columns[1:]:
        if len(first) == len(numbers):
            # Every row is apart already.
            break
        # Codes stay below the number of rows times the largest position, so they never overflow.
        first, numbers = _number_codes(numbers * (int(column.max(initial=0)) + 1) + column)
    return first, numbers


def _number_codes(codes: Positions) -> tuple[Positions, Positions]:
    """The same of one column; nothing is sorted, which would take far longer."""
    size = int(codes.max(initial=0)) + 1
    if size > _SPARSE * (len(codes) + 1):
        return _number_codes(value_codes(cast("Values", pa.array(codes))))
    row_of = np.full(size, -1, np.int64)
    # Of several rows with the same code the first one stays, because it is written last.
    row_of[codes[::-1]] = np.arange(len(codes))[::-1]
    present = np.flatnonzero(row_of >= 0)
    first = row_of[present]
    row_of[present] = np.arange(len(present))
    return first, row_of[codes]


def concat_frames(frames: Sequence[Frame]) -> Frame:
    """Frames with the same variables in the same populations as one."""
    first, *rest = frames
    if not rest:
        return first
    return Frame(
        sum(frame.num_rows for frame in frames),
        {
            name: EntityColumn(each.entities, np.concatenate([frame.bindings[name].positions for frame in frames]))
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
    return np.concatenate(
        [one if frame.weights is None else frame.weights for one, frame in zip(ones, frames, strict=True)]
    )


def _concat_columns(columns: Sequence[Positions | None]) -> Positions | None:
    present = [column for column in columns if column is not None]
    return np.concatenate(present) if present else None
