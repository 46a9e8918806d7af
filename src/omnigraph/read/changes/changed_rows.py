"""What changed between two snapshots, table by table and row by row, with the rows before and after.

Tables of the same version are not opened, and of the others only rows are read that can differ (see ``touched.py``).
These are put side by side by their ids and compared by value, so rows that were written again as they were, moved by a
compaction or brought back do not show. Nothing is held but a range of ids at a time (see ``sorting.py``).

A property that only one of the two schemas has counts as null on the other side, among the rows that can differ: a
change of the schema that leaves the files of a table alone is no change of its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from omnigraph.errors import NotFound
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.changes.candidates import CandidateRows, find_candidates, select_all_rows
from omnigraph.read.changes.compare import DiffSide, Stretch, differing
from omnigraph.storage.staging import Addresses


class Op(StrEnum):
    """What became of a row."""

    INSERTED = "inserted"
    UPDATED = "updated"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """A part of what changed in one table; all its rows have the same ``op`` and are sorted by id.

    The images are whole rows in the columns of the type's table, with the blobs themselves, as they can be written
    again. Those of an update are aligned by position.
    """

    table_key: str
    op: Op
    before: pa.RecordBatch | None
    """None for rows that were inserted."""
    after: pa.RecordBatch | None
    """None for rows that were deleted."""
    addresses: Addresses | None = None
    """Where the rows lie in the table before, aligned with ``before``."""

    @property
    def rows(self) -> pa.RecordBatch:
        """The image that every row has: the newer one, or the last one of what was deleted."""
        image = self.before if self.after is None else self.after
        assert image is not None
        return image

    @property
    def num_rows(self) -> int:
        """How many rows changed."""
        return self.rows.num_rows


def find_changed_tables(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """The keys of the tables that the two show at other versions, sorted; no table is opened.

    A branch that lags may still have a table of a type that is in neither schema: nobody sees its rows.
    """
    keys = {key for key in {*before.pins, *after.pins} if _place(before, key) != _place(after, key)}
    known = {type_.table_key for side in (before, after) for type_ in side.catalog().types()} if keys else set[str]()
    return tuple(sorted(keys & known))


def _place(snapshot: Snapshot, table_key: str) -> tuple[str, str | None, int] | None:
    pin = snapshot.pins.get(table_key)
    return None if pin is None else (pin.location, pin.branch, pin.version)


def changed_rows(
    before: Snapshot, after: Snapshot, table_key: str, columns: Sequence[str] | None = None
) -> Iterator[ChangedRows]:
    """What changed in one table, in parts of few rows. ``columns`` are those of the images; blobs may be left out."""
    for stretch in read_changes(before, after, table_key, columns):
        yield from stretch


def read_changes(
    before: Snapshot, after: Snapshot, table_key: str, columns: Sequence[str] | None = None
) -> Iterator[tuple[ChangedRows, ...]]:
    """The same, as stretches of ids: every id of one is lower than those of the next. At most a part for each op."""
    if _place(before, table_key) != _place(after, table_key):
        yield from compare_sides(table_key, *find_table_candidates(before, after, table_key).sides(), columns)


def compare_sides(
    table_key: str, before: DiffSide, after: DiffSide, columns: Sequence[str] | None = None
) -> Iterator[tuple[ChangedRows, ...]]:
    """The same for rows that were found already, wherever they lie."""
    for stretch in differing(before, after, columns):
        yield tuple(_parts(table_key, stretch))


@dataclass(frozen=True, slots=True)
class TableCandidates:
    """The rows of one table that may differ, on both sides, and its type on each. A side may have no table."""

    before: CandidateRows | None
    after: CandidateRows | None
    types: tuple[NodeType | EdgeType, NodeType | EdgeType]

    def sides(self) -> tuple[DiffSide, DiffSide]:
        """Both sides, to be compared."""
        return DiffSide(self.before, self.types[0]), DiffSide(self.after, self.types[1])


def find_table_candidates(before: Snapshot, after: Snapshot, table_key: str) -> TableCandidates:
    """The rows of one table that may differ. Only metadata is read."""
    types = resolve_types(before, after, table_key)
    if _place(before, table_key) == _place(after, table_key):
        return TableCandidates(None, None, types)
    return TableCandidates(*_touched(before, after, table_key), types)


def resolve_types(before: Snapshot, after: Snapshot, table_key: str) -> tuple[NodeType | EdgeType, NodeType | EdgeType]:
    """The type on each side. Where a schema does not have it, there are no rows that could need another."""
    old, new = (snapshot.catalog().find_type(table_key) for snapshot in (before, after))
    known = old or new
    if known is None:
        raise NotFound(f"neither schema has the type of '{table_key}'", details={"table_key": table_key})
    return old or known, new or known


def _touched(before: Snapshot, after: Snapshot, table_key: str) -> tuple[CandidateRows | None, CandidateRows | None]:
    old, new = (snapshot.table(table_key) if table_key in snapshot.pins else None for snapshot in (before, after))
    if old is not None and new is not None:
        return find_candidates(old, new)
    return None if old is None else select_all_rows(old), None if new is None else select_all_rows(new)


def _parts(table_key: str, stretch: Stretch) -> Iterator[ChangedRows]:
    if stretch.deleted is not None:
        yield ChangedRows(table_key, Op.DELETED, stretch.deleted, None, stretch.deleted_at)
    if stretch.inserted is not None:
        yield ChangedRows(table_key, Op.INSERTED, None, stretch.inserted)
    if stretch.updated is not None:
        yield ChangedRows(table_key, Op.UPDATED, *stretch.updated, stretch.updated_at)
