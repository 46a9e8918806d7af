"""The three-way decision: what becomes of each row, given its state in the base, in ours and in theirs.

A pure function over Arrow columns that are aligned by index. It reads nothing and knows no table, so every merge engine
gets the same decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from itertools import compress
from typing import Final, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.changes import compare_values
from omnigraph.read.frames import Mask, find_positions
from omnigraph.storage.columns import Rows, Values, column_of, compute, to_bool_array

MergeBy: TypeAlias = Literal["row", "property"]
RowIndexes: TypeAlias = npt.NDArray[np.int64]
NO_SOURCES: Final[Mapping[str, str]] = {}
"""For a type without derived columns."""


class ConflictKind(StrEnum):
    """How two sides can conflict: in their changes, or by breaking a rule together."""

    DIVERGENT_INSERT = "DivergentInsert"
    DIVERGENT_UPDATE = "DivergentUpdate"
    DELETE_VS_UPDATE = "DeleteVsUpdate"
    ORPHAN_EDGE = "OrphanEdge"
    UNIQUE = "UniqueViolation"
    CARDINALITY = "CardinalityViolation"
    VALUE = "ValueConstraintViolation"


@dataclass(frozen=True, slots=True)
class SideRows:
    """The rows of one side, aligned by index. Where ``exists`` is false, the row is a placeholder."""

    rows: pa.Table
    exists: Mask

    def take(self, indexes: RowIndexes) -> SideRows:
        """Return the rows at some indexes."""
        return SideRows(self.rows.take(indexes), self.exists[indexes])


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of each row, by index.

    ``taken``: theirs replaces ours or is merged with it; if theirs has no row, the row is deleted. ``conflicts``: must
    be decided. ``from_theirs``: by column, whether a taken row gets the value of theirs. ``open``: by column, whether
    the values of a conflict differ. ``sources``: by derived column, the column that decides for it.
    """

    base: SideRows
    ours: SideRows
    theirs: SideRows
    taken: Mask
    conflicts: Mask
    from_theirs: Mapping[str, Mask]
    open: Mapping[str, Mask]
    sources: Mapping[str, str]

    def list_open_columns(self, indexes: RowIndexes) -> list[tuple[str, ...]]:
        """Return for each of some conflicts the columns whose values differ."""
        names = list(self.open)
        rows = np.column_stack([self.open[name][indexes] for name in names]).tolist()
        return [tuple(compress(names, row)) for row in rows]

    def classify_conflicts(self, indexes: RowIndexes) -> list[ConflictKind]:
        """Return the kind of each of some conflicts."""
        is_update = self.ours.exists[indexes] & self.theirs.exists[indexes]
        in_base = self.base.exists[indexes]
        return [
            ConflictKind.DIVERGENT_INSERT
            if not known
            else ConflictKind.DIVERGENT_UPDATE
            if update
            else ConflictKind.DELETE_VS_UPDATE
            for known, update in zip(in_base.tolist(), is_update.tolist(), strict=True)
        ]

    def find_partly_taken(self, indexes: RowIndexes) -> RowIndexes:
        """Return those of some conflicts in which a property that only theirs changed is taken."""
        in_both_sides = self.ours.exists[indexes] & self.theirs.exists[indexes]
        has_taken = np.logical_or.reduce([mask[indexes] for mask in self.from_theirs.values()])
        return indexes[in_both_sides & has_taken]

    def find_upserts(self) -> RowIndexes:
        """Return the indexes of the rows to write."""
        return np.flatnonzero(self.taken & self.theirs.exists)

    def find_deletes(self) -> RowIndexes:
        """Return the indexes of the rows to delete."""
        return np.flatnonzero(self.taken & ~self.theirs.exists)

    def merge_rows(self, indexes: RowIndexes, *, open_from_theirs: bool = False) -> pa.Table:
        """Merge the rows at some indexes: take each column from the side that was decided."""
        found: list[Values] = []
        for name in self.ours.rows.column_names:
            theirs = self.from_theirs[name][indexes]
            if open_from_theirs:
                theirs = theirs | self.open[name][indexes] | self.open[self.sources.get(name, name)][indexes]
            # A row that only one side has is taken whole from that side.
            theirs = (theirs | ~self.ours.exists[indexes]) & self.theirs.exists[indexes]
            found.append(_choose_values(self.ours.rows, self.theirs.rows, name, indexes, theirs))
        return pa.Table.from_arrays(found, schema=self.ours.rows.schema)


def align_rows(ids: Values, rows: Rows) -> SideRows:
    """Align rows with ids. Rows with other ids are left out."""
    if not rows.num_rows:
        return SideRows(_build_null_rows(rows.schema, len(ids)), np.zeros(len(ids), np.bool_))
    positions = find_positions(ids, column_of(rows, "id")).astype(np.int64)
    exists = positions >= 0
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    return SideRows(table.take(np.maximum(positions, 0)), exists)


def _build_null_rows(schema: pa.Schema, count: int) -> pa.Table:
    columns = [pa.nulls(count, cast("pa.StructType", type_)) for type_ in schema.types]
    return pa.Table.from_arrays(columns, schema=schema)


def overlay_rows(below: SideRows, above: SideRows, is_changed: Mask) -> SideRows:
    """Put one side on top of another: its state wins wherever it changed."""
    indexes = np.arange(len(below.exists))
    columns = [
        _choose_values(below.rows, above.rows, name, indexes, is_changed & above.exists)
        for name in below.rows.column_names
    ]
    rows = pa.Table.from_arrays(columns, schema=below.rows.schema)
    return SideRows(rows, np.where(is_changed, above.exists, below.exists))


def decide_rows(
    base: SideRows, ours: SideRows, theirs: SideRows, by: MergeBy, sources: Mapping[str, str] = NO_SOURCES
) -> Decision:
    """Decide each row. The sides have the same columns and are aligned by index.

    ``sources`` has for each derived column, such as an embedding, the column that it is computed from. Where the
    sources differ, both columns come from the same side, since the one does not fit the other otherwise.
    """
    columns = [name for name in ours.rows.column_names if name != "id"]
    same = {
        pair: {name: _compare_column(one.rows, other.rows, name) for name in columns}
        for pair, one, other in (("bo", base, ours), ("bt", base, theirs), ("ot", ours, theirs))
    }
    ours_unchanged = _combine_columns(base, ours, same["bo"].values())
    theirs_unchanged = _combine_columns(base, theirs, same["bt"].values())
    agree = _combine_columns(ours, theirs, same["ot"].values())
    contested = ~(theirs_unchanged | agree | ours_unchanged)
    in_all_sides = contested & base.exists & ours.exists & theirs.exists
    in_both_sides = contested & ours.exists & theirs.exists
    taken = ours_unchanged & ~(theirs_unchanged | agree)
    from_theirs: dict[str, Mask] = {"id": taken}
    open_: dict[str, Mask] = {"id": np.zeros(len(taken), np.bool_)}
    for name in columns:
        differs = ~same["ot"][name]
        if by == "row":
            open_[name], from_theirs[name] = in_both_sides & differs, taken
            continue
        only_theirs = in_all_sides & same["bo"][name] & ~same["bt"][name]
        only_ours = in_all_sides & same["bt"][name]
        open_[name] = in_both_sides & differs & ~only_theirs & ~only_ours
        from_theirs[name] = taken | only_theirs
    for derived, source in sources.items() if by == "property" else ():
        is_source_different = ~same["ot"][source]
        open_[derived] = open_[derived] & ~is_source_different
        from_theirs[derived] = np.where(is_source_different, from_theirs[source], from_theirs[derived])
    at_odds = np.logical_or.reduce([*open_.values()])
    conflicts = contested if by == "row" else contested & (at_odds | ~in_all_sides)
    return Decision(base, ours, theirs, taken | (contested & ~conflicts), conflicts, from_theirs, open_, sources)


def compare_rows(one: SideRows, other: SideRows) -> Mask:
    """Return for each row whether two sides have the same, or both have none."""
    return _combine_columns(one, other, (_compare_column(one.rows, other.rows, name) for name in one.rows.column_names))


def _combine_columns(one: SideRows, other: SideRows, columns: Iterable[Mask]) -> Mask:
    same = one.exists & other.exists
    for mask in columns:
        same = same & mask
    return same | ~(one.exists | other.exists)


def _compare_column(one: pa.Table, other: pa.Table, name: str) -> Mask:
    return find_equal_values(column_of(one, name), column_of(other, name))


def find_equal_values(one: Values, other: Values) -> Mask:
    """Return for each row whether two columns hold the same value. Blobs are compared by content or location."""
    if not pa.types.is_struct(one.type):
        return compare_values(one, other)
    missing, other_missing = to_bool_array(compute("is_null", one)), to_bool_array(compute("is_null", other))
    same = ~(missing | other_missing)
    for name in ("data", "uri", "position", "size"):
        parts = (compute("struct_field", each, options=pc.StructFieldOptions([name])) for each in (one, other))
        same &= find_equal_values(*parts)
    return same | (missing & other_missing)


def _choose_values(ours: pa.Table, theirs: pa.Table, name: str, indexes: RowIndexes, from_theirs: Mask) -> Values:
    """Choose the values at some indexes from one side or the other, for columns of any type."""
    values = pa.concat_arrays([column_of(ours, name), column_of(theirs, name)])
    return values.take(indexes + np.where(from_theirs, ours.num_rows, 0))
