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

from omnigraph.errors import Conflict
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
Choice: TypeAlias = Literal["ours", "theirs"] | NewValues
Choose: TypeAlias = Callable[[Conflict, NodeType | EdgeType], Choice | None]
"""Decides a conflict; None leaves it unresolved."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many entities of a type were inserted, updated and deleted."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.inserted + other.inserted, self.updated + other.updated, self.deleted + other.deleted)


@dataclass(frozen=True, slots=True)
class TableDelta:
    """The rows to write to one table, whether each of them ``is_new`` there, and the ids to delete.

    ``is_decided``: it differs from what theirs changed, since something was resolved or merged.
    """

    type: NodeType | EdgeType
    rows: pa.Table
    is_new: Mask
    deleted_ids: Values
    is_decided: bool = False

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
        return TableDelta(self.type, self.rows.filter(pa.array(kept)), self.is_new[kept], left, is_decided=True)

    def with_rows(self, rows: pa.Table, new: Mask) -> TableDelta:
        """Return the delta with these rows added. Their ids must not be in it."""
        return replace(self, rows=pa.concat_tables([self.rows, rows]), is_new=np.concatenate([self.is_new, new]))

    def with_deleted(self, ids: Values) -> TableDelta:
        """Return the delta with these ids deleted."""
        return replace(self, deleted_ids=pa.concat_arrays([self.deleted_ids, ids]))

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

    def pieces() -> Iterator[pa.Table]:
        for each in deltas:
            is_new.append(each.is_new)
            deleted_ids.append(each.deleted_ids)
            is_decided.append(each.is_decided)
            yield each.rows

    rows = _collect_rows(arrow_schema(type_), pieces())
    all_new = np.concatenate([np.zeros(0, np.bool_), *is_new])
    return TableDelta(type_, rows, all_new, pa.concat_arrays(deleted_ids), is_decided=any(is_decided))


@dataclass(frozen=True, slots=True)
class RangeDelta:
    """The delta of one range of ids. The fields are those of a table's delta."""

    rows: pa.Table
    is_new: Mask
    deleted_ids: Values
    is_decided: bool


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
            merge = _RangeMerge(type_, aligned, aligned.decide(self.by))
            self._resolve_conflicts(merge)
            written = list(merge.rows)
            yield RangeDelta(
                pa.concat_tables([rows for rows, _ in written]),
                np.concatenate([~aligned.ours.exists[indexes] for _, indexes in written]),
                aligned.ids.take(merge.deleted),
                merge.is_decided,
            )

    def sort_conflicts(self) -> tuple[Conflict, ...]:
        """Return the unresolved conflicts sorted by id, however the rows were divided."""
        return tuple(sorted(self.open, key=lambda conflict: conflict.id))

    def _resolve_conflicts(self, merge: _RangeMerge) -> None:
        """Resolve the conflicts of a range, as far as someone decides them."""
        for index, conflict in merge.find_conflicts():
            choice = self.choose(conflict, merge.type)
            if choice is None:
                self.open.append(conflict)
            else:
                merge.apply(index, choice)


class _RangeMerge:
    """The merge of one range of rows so far."""

    def __init__(self, type_: NodeType | EdgeType, aligned: AlignedRange, decision: Decision) -> None:
        self.type = type_
        self._aligned = aligned
        self._decision = decision
        self._added: list[tuple[pa.Table, RowIndexes]] = []
        self._deleted: list[int] = []

    @property
    def is_decided(self) -> bool:
        """Whether the result differs from the changes of theirs."""
        return bool(self._decision.conflicts.any() or (~self._decision.taken).any())

    @property
    def rows(self) -> Iterator[tuple[pa.Table, RowIndexes]]:
        """The rows to write, and their indexes in the range."""
        indexes = self._decision.find_upserts()
        return iter([(self._decision.merge_rows(indexes), indexes), *self._added])

    @property
    def deleted(self) -> RowIndexes:
        """The indexes of the rows to delete."""
        return np.concatenate([self._decision.find_deletes(), np.array(self._deleted, np.int64)])

    def find_conflicts(self) -> list[tuple[int, Conflict]]:
        """Return the conflicts with their indexes."""
        indexes = np.flatnonzero(self._decision.conflicts)
        if not len(indexes):
            return []
        sides = (self._aligned.base, self._aligned.ours, self._aligned.theirs)
        images = zip(*(build_images(self.type, side.take(indexes)) for side in sides), strict=True)
        ids = cast("list[str]", to_list(self._aligned.ids.take(indexes)))
        return [
            (index, self._build_conflict(index, id_, *three))
            for index, id_, three in zip(indexes.tolist(), ids, images, strict=True)
        ]

    def _build_conflict(
        self,
        index: int,
        id_: str,
        base: Mapping[str, object] | None,
        ours: Mapping[str, object] | None,
        theirs: Mapping[str, object] | None,
    ) -> Conflict:
        kind = self._decision.kinds[index]
        properties = tuple(to_public_name(name) for name in self._decision.list_open_columns(index))
        name = f"{self.type.name} '{id_}'"
        match kind:
            case ConflictKind.DIVERGENT_INSERT:
                message = f"both sides inserted {name}, with different {_quote_names(properties)}"
            case ConflictKind.DIVERGENT_UPDATE:
                message = f"both sides changed {_quote_names(properties)} of {name}"
            case _:
                deleter, other = ("ours", "theirs") if ours is None else ("theirs", "ours")
                message = f"{deleter} deleted {name}, {other} changed it"
        return Conflict(str(kind), self.type.name, id_, base, ours, theirs, message, properties)

    def apply(self, index: int, choice: Choice) -> None:
        """Apply the decision about a conflict."""
        ours, theirs = self._decision.ours.exists[index], self._decision.theirs.exists[index]
        at = np.array([index], np.int64)
        if choice == "theirs" and not theirs:
            self._deleted.append(index)
        elif choice == "theirs":
            self._added.append((self._decision.merge_rows(at, open_from_theirs=True), at))
        elif choice == "ours":
            # If both have the row, properties that only theirs changed are still taken.
            if ours and theirs and any(mask[index] for mask in self._decision.from_theirs.values()):
                self._added.append((self._decision.merge_rows(at), at))
        else:
            self._added.append((replace_columns(self._decision.merge_rows(at), choice), at))


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
