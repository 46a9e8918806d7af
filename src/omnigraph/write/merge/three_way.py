"""Three sides of the same rows: what the base had, what ours has now, what theirs has now, and what comes of it.

One pure function over Arrow columns, aligned by place. It reads nothing and knows no table, so whoever brings the
rows of three sides together gets the same decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.read.changes import Mask, compare_values
from omnigraph.read.frames import find_positions
from omnigraph.storage.columns import Rows, Values, column_of, compute, truths

MergeBy: TypeAlias = Literal["row", "property"]
RowIndexes: TypeAlias = npt.NDArray[np.int64]


class ConflictKind(StrEnum):
    """What two sides can disagree about, or break together."""

    DIVERGENT_INSERT = "DivergentInsert"
    DIVERGENT_UPDATE = "DivergentUpdate"
    DELETE_VS_UPDATE = "DeleteVsUpdate"
    ORPHAN_EDGE = "OrphanEdge"
    UNIQUE = "UniqueViolation"
    CARDINALITY = "CardinalityViolation"
    VALUE = "ValueConstraintViolation"


@dataclass(frozen=True, slots=True)
class SideRows:
    """Rows as one side has them, a row for each place; what stands where a row is not ``there`` means nothing."""

    rows: pa.Table
    exists: Mask

    def take(self, places: RowIndexes) -> SideRows:
        """Some of the places."""
        return SideRows(self.rows.take(places), self.exists[places])


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of each place.

    ``taken``: theirs replaces ours, or is put together with it; where the row is gone from theirs, it goes.
    ``conflicts`` have to be decided. ``from_theirs`` says by column whose value a taken row gets, ``open`` which values
    of a conflict are at odds.
    """

    ours: SideRows
    theirs: SideRows
    taken: Mask
    conflicts: Mask
    from_theirs: Mapping[str, Mask]
    open: Mapping[str, Mask]
    kinds: Mapping[int, ConflictKind]

    def open_columns(self, place: int) -> tuple[str, ...]:
        """The columns of a conflict whose values are at odds."""
        return tuple(name for name, mask in self.open.items() if mask[place])

    def upserted(self) -> RowIndexes:
        """The places whose rows are written."""
        return np.flatnonzero(self.taken & self.theirs.exists)

    def deleted(self) -> RowIndexes:
        """The places whose rows go."""
        return np.flatnonzero(self.taken & ~self.theirs.exists)

    def merge_rows(self, places: RowIndexes, *, open_from_theirs: bool = False) -> pa.Table:
        """The rows that come of some places: each column from the side that it is taken from."""
        found: list[Values] = []
        for name in self.ours.rows.column_names:
            theirs = self.from_theirs[name][places]
            if open_from_theirs:
                theirs = theirs | self.open[name][places]
            # A row that ours lacks is theirs altogether, and the other way round.
            theirs = (theirs | ~self.ours.exists[places]) & self.theirs.exists[places]
            found.append(_choose_values(self.ours.rows, self.theirs.rows, name, places, theirs))
        return pa.Table.from_arrays(found, schema=self.ours.rows.schema)


def align_rows(ids: Values, rows: Rows) -> SideRows:
    """Rows in the order of ids; those of no id among them are left out."""
    if not rows.num_rows:
        return SideRows(_null_rows(rows.schema, len(ids)), np.zeros(len(ids), np.bool_))
    at = find_positions(ids, column_of(rows, "id")).astype(np.int64)
    there = at >= 0
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    return SideRows(table.take(np.maximum(at, 0)), there)


def _null_rows(schema: pa.Schema, count: int) -> pa.Table:
    columns = [pa.nulls(count, cast("pa.StructType", type_)) for type_ in schema.types]
    return pa.Table.from_arrays(columns, schema=schema)


def overlay_rows(below: SideRows, above: SideRows, touched: Mask) -> SideRows:
    """One side with another one over it, which decides wherever it was touched."""
    places = np.arange(len(below.exists))
    columns = [
        _choose_values(below.rows, above.rows, name, places, touched & above.exists) for name in below.rows.column_names
    ]
    rows = pa.Table.from_arrays(columns, schema=below.rows.schema)
    return SideRows(rows, np.where(touched, above.exists, below.exists))


def decide_rows(base: SideRows, ours: SideRows, theirs: SideRows, by: MergeBy) -> Decision:
    """The three-way decision, for each place. The sides have the same columns and the same number of places."""
    columns = [name for name in ours.rows.column_names if name != "id"]
    same = {
        pair: {name: _compare_column(one.rows, other.rows, name) for name in columns}
        for pair, one, other in (("bo", base, ours), ("bt", base, theirs), ("ot", ours, theirs))
    }
    ours_stayed = _compare_rows(base, ours, same["bo"].values())
    theirs_stayed = _compare_rows(base, theirs, same["bt"].values())
    agree = _compare_rows(ours, theirs, same["ot"].values())
    contested = ~(theirs_stayed | agree | ours_stayed)
    everywhere = contested & base.exists & ours.exists & theirs.exists
    both = contested & ours.exists & theirs.exists
    taken = ours_stayed & ~(theirs_stayed | agree)
    from_theirs: dict[str, Mask] = {"id": taken}
    open_: dict[str, Mask] = {"id": np.zeros(len(taken), np.bool_)}
    for name in columns:
        differs = ~same["ot"][name]
        if by == "row":
            open_[name], from_theirs[name] = both & differs, taken
            continue
        only_theirs = everywhere & same["bo"][name] & ~same["bt"][name]
        only_ours = everywhere & same["bt"][name]
        open_[name] = both & differs & ~only_theirs & ~only_ours
        from_theirs[name] = taken | only_theirs
    at_odds = np.logical_or.reduce([*open_.values()])
    conflicts = contested if by == "row" else contested & (at_odds | ~everywhere)
    kinds = {place: _classify_conflict(base, ours, theirs, place) for place in np.flatnonzero(conflicts).tolist()}
    return Decision(ours, theirs, taken | (contested & ~conflicts), conflicts, from_theirs, open_, kinds)


def _classify_conflict(base: SideRows, ours: SideRows, theirs: SideRows, place: int) -> ConflictKind:
    if not base.exists[place]:
        return ConflictKind.DIVERGENT_INSERT
    both = ours.exists[place] and theirs.exists[place]
    return ConflictKind.DIVERGENT_UPDATE if both else ConflictKind.DELETE_VS_UPDATE


def _compare_rows(one: SideRows, other: SideRows, columns: Iterable[Mask]) -> Mask:
    same = one.exists & other.exists
    for mask in columns:
        same = same & mask
    return same | ~(one.exists | other.exists)


def _compare_column(one: pa.Table, other: pa.Table, name: str) -> Mask:
    return _compare_values(column_of(one, name), column_of(other, name))


def _compare_values(one: Values, other: Values) -> Mask:
    """Whether two columns hold the same; the images of blobs are their bytes, or where these lie outside."""
    if not pa.types.is_struct(one.type):
        return compare_values(one, other)
    missing, other_missing = truths(compute("is_null", one)), truths(compute("is_null", other))
    same = ~(missing | other_missing)
    for name in ("data", "uri", "position", "size"):
        parts = (compute("struct_field", each, options=pc.StructFieldOptions([name])) for each in (one, other))
        same &= _compare_values(*parts)
    return same | (missing & other_missing)


def _choose_values(ours: pa.Table, theirs: pa.Table, name: str, places: RowIndexes, from_theirs: Mask) -> Values:
    """A column at some places, each from one side or the other; of any type."""
    both = pa.concat_arrays([column_of(ours, name), column_of(theirs, name)])
    return both.take(places + np.where(from_theirs, ours.num_rows, 0))
