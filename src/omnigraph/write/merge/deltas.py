"""The delta of each table: the rows to write to ours and the ids to delete, and the conflicts on the way.

Rows to write are kept in memory, or in a local file if they are many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain
from typing import Final, Literal, TypeAlias, cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import Conflict, ConflictKey
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import Mask
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, is_among, to_bool_array, to_list
from omnigraph.write.merge.alignment import AlignedRange
from omnigraph.write.merge.conflict_images import build_images, to_public_name
from omnigraph.write.merge.three_way import ConflictKind, Decision, MergeBy, RowIndexes
from omnigraph.write.mutation import replace_columns
from omnigraph.write.spill import spill_rows

MAX_ROWS_IN_MEMORY: Final = 1_000_000
MAX_BYTES_IN_MEMORY: Final = 256 * 1024 * 1024
"""The limit in memory for the rows of one table. Beyond it they go to a local file."""

NewValues: TypeAlias = "Mapping[str, Values]"
"""New values of some columns, one value each, that neither side has."""
PreferredSide: TypeAlias = Literal["ours", "theirs"]
Choice: TypeAlias = PreferredSide | NewValues
Choose: TypeAlias = Callable[[ConflictKey, NodeType | EdgeType], Choice | None]
"""Decides a conflict; None leaves it unresolved."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many entities of a type were inserted, updated and deleted.

    ``doubled``: how many of the inserted ones the target had inserted too, with the same values, under other ids. Only
    a type without a key can have them.
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    doubled: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.inserted + other.inserted,
            self.updated + other.updated,
            self.deleted + other.deleted,
            self.doubled + other.doubled,
        )


@dataclass(frozen=True, slots=True)
class TableDelta:
    """The rows to write to one table, whether each of them ``is_new`` there, and the ids to delete.

    ``is_decided``: it differs from what theirs changed, since something was resolved or merged. ``resolved`` counts the
    rows in which a change of theirs lost a conflict.
    """

    type: NodeType | EdgeType
    rows: pa.Table
    is_new: Mask
    deleted_ids: Values
    is_decided: bool = False
    resolved: int = 0

    @property
    def has_changes(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.rows.num_rows or len(self.deleted_ids))

    @property
    def counts(self) -> Counts:
        """How many rows are inserted, updated and deleted."""
        inserted = int(self.is_new.sum())
        return Counts(inserted, self.rows.num_rows - inserted, len(self.deleted_ids))

    def without(self, ids: Values) -> TableDelta:
        """Return the delta without the rows of these ids: they stay as in ours."""
        kept = ~to_bool_array(is_among(column_of(self.rows, "id"), ids))
        left = self.deleted_ids.filter(pa.array(~to_bool_array(is_among(self.deleted_ids, ids))))
        rows = self.rows.filter(pa.array(kept))
        return replace(self, rows=rows, is_new=self.is_new[kept], deleted_ids=left, is_decided=True)

    def with_rows(self, rows: pa.Table, new: Mask) -> TableDelta:
        """Return the delta with these rows added. Their ids must not be in it."""
        return replace(self, rows=pa.concat_tables([self.rows, rows]), is_new=np.concatenate([self.is_new, new]))

    def with_deleted(self, ids: Values) -> TableDelta:
        """Return the delta with these ids deleted."""
        return replace(self, deleted_ids=pa.concat_arrays([self.deleted_ids, ids]))

    def count_ids(self, ids: Values) -> int:
        """Return how many of some ids are written or deleted."""
        return sum(is_among(own, ids).true_count for own in (column_of(self.rows, "id"), self.deleted_ids))

    def rows_of(self, ids: Sequence[str]) -> pa.Table:
        """Return the rows to write that have some ids."""
        return self.rows.filter(is_among(column_of(self.rows, "id"), pa.array(ids, pa.string())))


def empty_delta(type_: NodeType | EdgeType) -> TableDelta:
    """Return a delta that changes nothing."""
    return TableDelta(type_, arrow_schema(type_).empty_table(), np.zeros(0, np.bool_), pa.array([], pa.string()))


# --------------------------------------------------------------------------------------------- one table


def combine_deltas(type_: NodeType | EdgeType, deltas: Iterable[RangeDelta]) -> TableDelta:
    """Combine the deltas of all ranges into the delta of the table."""
    is_new: list[Mask] = []
    deleted_ids: list[Values] = [pa.array([], pa.string())]
    is_decided: list[bool] = []
    resolved: list[int] = []

    def pieces() -> Iterator[pa.Table]:
        for each in deltas:
            is_new.append(each.is_new)
            deleted_ids.append(each.deleted_ids)
            is_decided.append(each.is_decided)
            resolved.append(each.resolved)
            yield each.rows

    rows = _collect_rows(arrow_schema(type_), pieces())
    all_new = np.concatenate([np.zeros(0, np.bool_), *is_new])
    ids = pa.concat_arrays(deleted_ids)
    return TableDelta(type_, rows, all_new, ids, is_decided=any(is_decided), resolved=sum(resolved))


@dataclass(frozen=True, slots=True)
class RangeDelta:
    """The delta of one range of ids. The fields are those of a table's delta."""

    rows: pa.Table
    is_new: Mask
    deleted_ids: Values
    is_decided: bool
    resolved: int


@dataclass(frozen=True, slots=True)
class TableMerger:
    """Merges the ranges of one table and resolves their conflicts."""

    by: MergeBy
    choose: Choose
    open: list[Conflict] = field(default_factory=list[Conflict])
    """The unresolved conflicts."""

    def merge_ranges(self, type_: NodeType | EdgeType, ranges: Iterable[AlignedRange]) -> Iterator[RangeDelta]:
        """Yield the delta of each range. Rows with an unresolved conflict stay as in ours."""
        for aligned in ranges:
            decision = aligned.decide(self.by)
            choices = self._resolve_conflicts(type_, aligned, decision)
            written = list(choices.merge_rows(decision))
            yield RangeDelta(
                pa.concat_tables([rows for rows, _ in written]),
                np.concatenate([~aligned.ours.exists[indexes] for _, indexes in written]),
                aligned.ids.take(choices.find_deletes(decision)),
                bool(decision.conflicts.any() or (~decision.taken).any()),
                len(choices.ours),
            )

    def sort_conflicts(self) -> tuple[Conflict, ...]:
        """Return the unresolved conflicts sorted by id, however the rows were divided."""
        return tuple(sorted(self.open, key=lambda conflict: conflict.id))

    def _resolve_conflicts(
        self, type_: NodeType | EdgeType, aligned: AlignedRange, decision: Decision
    ) -> _ConflictChoices:
        """Resolve the conflicts of a range, as far as someone decides them. Only open ones need the values of rows."""
        indexes = np.flatnonzero(decision.conflicts)
        undecided: list[tuple[int, ConflictKey]] = []
        ours: list[int] = []
        theirs: list[int] = []
        values: list[tuple[int, NewValues]] = []
        for index, key in zip(indexes.tolist(), _build_keys(type_, aligned, decision, indexes), strict=True):
            choice = self.choose(key, type_)
            if choice is None:
                undecided.append((index, key))
            elif choice == "ours":
                ours.append(index)
            elif choice == "theirs":
                theirs.append(index)
            else:
                values.append((index, choice))
        self.open.extend(_build_conflicts(type_, aligned, undecided))
        return _ConflictChoices(np.array(ours, np.int64), np.array(theirs, np.int64), values)


def combine_values(values: Sequence[NewValues]) -> Iterator[tuple[RowIndexes, NewValues]]:
    """Combine the new values of rows that get the same columns; yield the positions of the rows with the columns."""
    by_names: dict[tuple[str, ...], list[int]] = {}
    for position, columns in enumerate(values):
        by_names.setdefault(tuple(sorted(columns)), []).append(position)
    for names, positions in by_names.items():
        combined = {name: pa.concat_arrays([values[position][name] for position in positions]) for name in names}
        yield np.array(positions, np.int64), combined


def _build_keys(
    type_: NodeType | EdgeType, aligned: AlignedRange, decision: Decision, indexes: RowIndexes
) -> Iterator[ConflictKey]:
    """Yield what identifies each conflict of a range."""
    kinds, columns = decision.classify_conflicts(indexes), decision.list_open_columns(indexes)
    ids = cast("list[str]", to_list(aligned.ids.take(indexes)))
    for kind, id_, names in zip(kinds, ids, columns, strict=True):
        yield ConflictKey(str(kind), type_.table_key, id_, tuple(to_public_name(name) for name in names))


def _build_conflicts(
    type_: NodeType | EdgeType, aligned: AlignedRange, undecided: Sequence[tuple[int, ConflictKey]]
) -> Iterator[Conflict]:
    """Yield the unresolved conflicts of a range, with the entity as each side has it."""
    if not undecided:
        return
    indexes = np.array([index for index, _ in undecided], np.int64)
    sides = (aligned.base, aligned.ours, aligned.theirs)
    images = zip(*(build_images(type_, side.take(indexes)) for side in sides), strict=True)
    for (_, key), (base, ours, theirs) in zip(undecided, images, strict=True):
        message = _describe_conflict(key, type_.name, is_in_ours=ours is not None)
        yield Conflict(key.kind, key.table_key, key.id, base, ours, theirs, message, key.properties)


def _describe_conflict(key: ConflictKey, type_name: str, *, is_in_ours: bool) -> str:
    name = f"{type_name} '{key.id}'"
    match key.kind:
        case ConflictKind.DIVERGENT_INSERT:
            return f"both sides inserted {name}, with different {_quote_names(key.properties)}"
        case ConflictKind.DIVERGENT_UPDATE:
            return f"both sides changed {_quote_names(key.properties)} of {name}"
        case _:
            deleter, other = ("theirs", "ours") if is_in_ours else ("ours", "theirs")
            return f"{deleter} deleted {name}, {other} changed it"


@dataclass(frozen=True, slots=True)
class _ConflictChoices:
    """The decided conflicts of one range, by index: for ours, for theirs, or for new values."""

    ours: RowIndexes
    theirs: RowIndexes
    values: Sequence[tuple[int, NewValues]]

    def merge_rows(self, decision: Decision) -> Iterator[tuple[pa.Table, RowIndexes]]:
        """Yield the rows to write, and their indexes in the range."""
        # If both sides have the row, properties that only theirs changed are taken even if ours is chosen.
        for indexes in (decision.find_upserts(), decision.find_partly_taken(self.ours)):
            yield decision.merge_rows(indexes), indexes
        taken = self.theirs[decision.theirs.exists[self.theirs]]
        yield decision.merge_rows(taken, open_from_theirs=True), taken
        indexes = np.array([index for index, _ in self.values], np.int64)
        for positions, columns in combine_values([columns for _, columns in self.values]):
            chosen = indexes[positions]
            yield replace_columns(decision.merge_rows(chosen), columns), chosen

    def find_deletes(self, decision: Decision) -> RowIndexes:
        """Return the indexes of the rows to delete."""
        return np.concatenate([decision.find_deletes(), self.theirs[~decision.theirs.exists[self.theirs]]])


def _quote_names(properties: tuple[str, ...]) -> str:
    return ", ".join(f"'{name}'" for name in properties) or "values"


def _collect_rows(schema: pa.Schema, pieces: Iterator[pa.Table]) -> pa.Table:
    """Collect rows in memory, or in a local file if they are many."""
    kept: list[pa.Table] = [schema.empty_table()]
    count = size = 0
    for piece in pieces:
        kept.append(piece)
        count, size = count + piece.num_rows, size + piece.nbytes
        if count > MAX_ROWS_IN_MEMORY or size > MAX_BYTES_IN_MEMORY:
            return spill_rows(schema, chain(kept, pieces))
    return pa.concat_tables(kept)
