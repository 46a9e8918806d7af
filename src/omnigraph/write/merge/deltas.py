"""What the branch that is merged into gets, table by table, and the conflicts on the way there.

Rows that are to be written lie in memory, or in a file once they are many; of those that are to go, the ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, Literal, TypeAlias, cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import Conflict
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.read.changes import Mask
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, is_among, to_list, truths
from omnigraph.write.merge.alignment import AlignedRange
from omnigraph.write.merge.conflict_images import build_images, shown_name
from omnigraph.write.merge.three_way import ConflictKind, Decision, MergeBy, RowIndexes
from omnigraph.write.spill import spill_rows

MAX_ROWS_IN_MEMORY: Final = 1_000_000
MAX_BYTES_IN_MEMORY: Final = 256 * 1024 * 1024
"""Of one table so much is held in memory; what is more goes to a file of this machine."""

NewValues: TypeAlias = "Mapping[str, Values]"
"""One value for each column that gets another one than either side has."""
Choice: TypeAlias = Literal["ours", "theirs"] | NewValues
Choose: TypeAlias = Callable[[Conflict, NodeType | EdgeType], Choice | None]
"""What was decided about a conflict; None if nothing was."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many entities of a type came, changed and went."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.inserted + other.inserted, self.updated + other.updated, self.deleted + other.deleted)


@dataclass(frozen=True, slots=True)
class TableDelta:
    """Rows to be written to one table, whether each of them is ``new`` there, and the ids of those that go.

    ``decided``: it is not simply what theirs changed, since something was decided or put together.
    """

    type: NodeType | EdgeType
    rows: pa.Table
    is_new: Mask
    deleted_ids: Values
    is_decided: bool = False

    @property
    def has_changes(self) -> bool:
        """Whether there is something to write."""
        return bool(self.rows.num_rows or len(self.deleted_ids))

    @property
    def counts(self) -> Counts:
        """How many rows come, change and go."""
        inserted = int(self.is_new.sum())
        return Counts(inserted, self.rows.num_rows - inserted, len(self.deleted_ids))

    def without(self, ids: Values) -> TableDelta:
        """The same, but the rows of these ids stay as ours has them."""
        kept = ~truths(is_among(column_of(self.rows, "id"), ids))
        left = self.deleted_ids.filter(pa.array(~truths(is_among(self.deleted_ids, ids))))
        return TableDelta(self.type, self.rows.filter(pa.array(kept)), self.is_new[kept], left, is_decided=True)

    def with_rows(self, rows: pa.Table, new: Mask) -> TableDelta:
        """The same, and these rows, whose ids are not in it."""
        return replace(self, rows=pa.concat_tables([self.rows, rows]), new=np.concatenate([self.is_new, new]))

    def with_deleted(self, ids: Values) -> TableDelta:
        """The same, and these ids gone."""
        return replace(self, removed=pa.concat_arrays([self.deleted_ids, ids]))

    def rows_of(self, ids: Sequence[str]) -> pa.Table:
        """The rows of some ids, as far as they are written."""
        return self.rows.filter(is_among(column_of(self.rows, "id"), pa.array(ids, pa.string())))


def empty_delta(type_: NodeType | EdgeType) -> TableDelta:
    """Nothing."""
    return TableDelta(type_, arrow_schema(type_).empty_table(), np.zeros(0, np.bool_), pa.array([], pa.string()))


def replace_values(row: pa.Table, values: NewValues) -> pa.Table:
    """One row with other values in some columns."""
    columns = [values.get(name, column_of(row, name)) for name in row.column_names]
    return pa.Table.from_arrays(columns, schema=row.schema)


# --------------------------------------------------------------------------------------------- one table


def combine_deltas(type_: NodeType | EdgeType, settled: Iterable[RangeDelta]) -> TableDelta:
    """What ours gets in one table, out of all its stretches."""
    new: list[Mask] = []
    removed: list[Values] = [pa.array([], pa.string())]
    decided: list[bool] = []

    def pieces() -> Iterator[pa.Table]:
        for each in settled:
            new.append(each.is_new)
            removed.append(each.deleted_ids)
            decided.append(each.is_decided)
            yield each.rows

    rows = _collect_rows(arrow_schema(type_), pieces())
    fresh = np.concatenate([np.zeros(0, np.bool_), *new])
    return TableDelta(type_, rows, fresh, pa.concat_arrays(removed), is_decided=any(decided))


@dataclass(frozen=True, slots=True)
class RangeDelta:
    """What has come of one stretch; the fields are those of a delta."""

    rows: pa.Table
    is_new: Mask
    deleted_ids: Values
    is_decided: bool


@dataclass(frozen=True, slots=True)
class TableMerger:
    """How rows are brought together, and who decides what cannot be."""

    by: MergeBy
    choose: Choose
    open: list[Conflict] = field(default_factory=list[Conflict])
    """Conflicts that nobody decided."""

    def merge_ranges(self, type_: NodeType | EdgeType, stretches: Iterable[AlignedRange]) -> Iterator[RangeDelta]:
        """What ours gets of each stretch; what is at odds and not decided stays as ours has it."""
        for stretch in stretches:
            done = _RangeMerge(type_, stretch, stretch.decide(self.by))
            self._resolve_conflicts(done)
            written = list(done.rows)
            yield RangeDelta(
                pa.concat_tables([rows for rows, _ in written]),
                np.concatenate([~stretch.ours.exists[places] for _, places in written]),
                stretch.ids.take(done.deleted),
                done.is_decided,
            )

    def sorted_conflicts(self) -> tuple[Conflict, ...]:
        """The conflicts of one table, by id: however its rows were divided."""
        return tuple(sorted(self.open, key=lambda conflict: conflict.id))

    def _resolve_conflicts(self, done: _RangeMerge) -> None:
        """Decide the conflicts of a stretch, as far as somebody does."""
        for place, conflict in done.find_conflicts():
            choice = self.choose(conflict, done.type)
            if choice is None:
                self.open.append(conflict)
            else:
                done.apply(place, choice)


class _RangeMerge:
    """A stretch of rows and what has come of it so far."""

    def __init__(self, type_: NodeType | EdgeType, stretch: AlignedRange, decision: Decision) -> None:
        self.type = type_
        self._stretch = stretch
        self._decision = decision
        self._added: list[tuple[pa.Table, RowIndexes]] = []
        self._removed: list[int] = []

    @property
    def is_decided(self) -> bool:
        """Whether it is something else than the changes of theirs."""
        return bool(self._decision.conflicts.any() or (~self._decision.taken).any())

    @property
    def rows(self) -> Iterator[tuple[pa.Table, RowIndexes]]:
        """The rows that are written, and their places in the stretch."""
        places = self._decision.upserted()
        return iter([(self._decision.merge_rows(places), places), *self._added])

    @property
    def deleted(self) -> RowIndexes:
        """The places of the rows that go."""
        return np.concatenate([self._decision.deleted(), np.array(self._removed, np.int64)])

    def find_conflicts(self) -> list[tuple[int, Conflict]]:
        """What has to be decided, each with its place."""
        places = np.flatnonzero(self._decision.conflicts)
        if not len(places):
            return []
        sides = (self._stretch.base, self._stretch.ours, self._stretch.theirs)
        images = zip(*(build_images(self.type, side.take(places)) for side in sides), strict=True)
        ids = cast("list[str]", to_list(self._stretch.ids.take(places)))
        return [
            (place, self._build_conflict(place, id_, *three))
            for place, id_, three in zip(places.tolist(), ids, images, strict=True)
        ]

    def _build_conflict(
        self,
        place: int,
        id_: str,
        base: Mapping[str, object] | None,
        ours: Mapping[str, object] | None,
        theirs: Mapping[str, object] | None,
    ) -> Conflict:
        kind = self._decision.kinds[place]
        properties = tuple(shown_name(name) for name in self._decision.open_columns(place))
        name = f"{self.type.name} '{id_}'"
        match kind:
            case ConflictKind.DIVERGENT_INSERT:
                message = f"both sides inserted {name}, with different {_quote_names(properties)}"
            case ConflictKind.DIVERGENT_UPDATE:
                message = f"both sides changed {_quote_names(properties)} of {name}"
            case _:
                who, other = ("ours", "theirs") if ours is None else ("theirs", "ours")
                message = f"{who} deleted {name}, {other} changed it"
        return Conflict(str(kind), self.type.name, id_, base, ours, theirs, message, properties)

    def apply(self, place: int, choice: Choice) -> None:
        """Do what was decided about a conflict."""
        ours, theirs = self._decision.ours.exists[place], self._decision.theirs.exists[place]
        at = np.array([place], np.int64)
        if choice == "theirs" and not theirs:
            self._removed.append(place)
        elif choice == "theirs":
            self._added.append((self._decision.merge_rows(at, open_from_theirs=True), at))
        elif choice == "ours":
            # Where both have the row, properties that only theirs changed come along.
            if ours and theirs and any(mask[place] for mask in self._decision.from_theirs.values()):
                self._added.append((self._decision.merge_rows(at), at))
        else:
            self._added.append((replace_values(self._decision.merge_rows(at), choice), at))


def _quote_names(properties: tuple[str, ...]) -> str:
    return ", ".join(f"'{name}'" for name in properties) or "values"


def _collect_rows(schema: pa.Schema, pieces: Iterator[pa.Table]) -> pa.Table:
    """Rows in memory, or in a file if they are many."""
    held: list[pa.Table] = [schema.empty_table()]
    count = size = 0
    for piece in pieces:
        held.append(piece)
        count, size = count + piece.num_rows, size + piece.nbytes
        if count > MAX_ROWS_IN_MEMORY or size > MAX_BYTES_IN_MEMORY:
            return spill_rows(schema, chain(held, pieces))
    return pa.concat_tables(held)
