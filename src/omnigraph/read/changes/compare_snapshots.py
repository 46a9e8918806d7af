"""Compare two snapshots: which tables changed, and which rows of one table, with their before and after images.

Tables of the same version are not opened. Of the others, only rows that can differ are read (see ``candidates.py``),
one range of ids at a time (see ``id_ranges.py``). They are matched by id and compared by value, so a row that was
rewritten unchanged, moved by a compaction or restored is not a change.

A property that only one of the two schemas has counts as null on the other side, among the rows that can differ: a
schema change that leaves the files of a table alone does not change its rows. So does a property that was dropped and
added again: it is another one, even if its name and its type are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from omnigraph.errors import NotFound
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.changes.candidates import CandidateRows, find_candidates, select_all_rows
from omnigraph.read.changes.compare_rows import ChangedRows, DiffSide, compare_sides


def find_changed_tables(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """Return the sorted keys of the tables that have different versions in the two snapshots; opens no table."""
    keys = {*before.pins, *after.pins}
    if before.schema_ir_hash == after.schema_ir_hash:
        keys = {key for key in keys if before.pins.get(key) != after.pins.get(key)}
    return tuple(sorted(key for key in keys if _is_changed(before, after, key)))


def _is_changed(before: Snapshot, after: Snapshot, table_key: str) -> bool:
    return _version_of(before, table_key) != _version_of(after, table_key)


def _version_of(snapshot: Snapshot, table_key: str) -> tuple[str, str | None, int] | None:
    """The folder, branch and version of a table in a snapshot; None if the snapshot does not show it.

    A branch keeps the table of a type that was dropped on main. Once it has the new schema, nobody sees the rows.
    """
    pin = snapshot.pins.get(table_key)
    if pin is None or snapshot.catalog().find_type(table_key) is None:
        return None
    return pin.location, pin.branch, pin.version


def read_changes(
    before: Snapshot, after: Snapshot, table_key: str, columns: Sequence[str] | None = None
) -> Iterator[tuple[ChangedRows, ...]]:
    """Yield the changes of one table in groups of ascending ids, each with at most one part for each op.

    ``columns`` are the columns of the images; without blobs among them, no blob is read for an image.
    """
    if _is_changed(before, after, table_key):
        yield from compare_sides(table_key, *find_table_candidates(before, after, table_key).sides(), columns)


@dataclass(frozen=True, slots=True)
class TableCandidates:
    """The rows of one table that may differ, on both sides, and its type on each. A side may have no table."""

    before: CandidateRows | None
    after: CandidateRows | None
    types: tuple[NodeType | EdgeType, NodeType | EdgeType]
    unrelated: frozenset[str] = frozenset()
    """The names that stand for different properties on the two sides."""

    def sides(self) -> tuple[DiffSide, DiffSide]:
        """Return both sides of the comparison."""
        return (
            DiffSide(self.before, self.types[0], self.unrelated),
            DiffSide(self.after, self.types[1], self.unrelated),
        )


def find_table_candidates(before: Snapshot, after: Snapshot, table_key: str) -> TableCandidates:
    """Find the rows of one table that may differ. Only metadata is read."""
    types = resolve_types(before, after, table_key)
    if not _is_changed(before, after, table_key):
        return TableCandidates(None, None, types)
    old, new = (snapshot.table(table_key) if _version_of(snapshot, table_key) else None for snapshot in (before, after))
    names = {*types[0].properties} & {*types[1].properties}
    unrelated = before.unrelated_columns(after, table_key) & names
    if old is not None and new is not None and not unrelated:
        return TableCandidates(*find_candidates(old, new), types)
    # Files that both have hold values of the dropped property, which the other one does not show.
    olds, news = (None if table is None else select_all_rows(table) for table in (old, new))
    return TableCandidates(olds, news, types, unrelated)


def resolve_types(before: Snapshot, after: Snapshot, table_key: str) -> tuple[NodeType | EdgeType, NodeType | EdgeType]:
    """Return the type on each side. A side whose schema lacks it has no rows, and is given the type of the other."""
    old, new = (snapshot.catalog().find_type(table_key) for snapshot in (before, after))
    known = old or new
    if known is None:
        raise NotFound(f"neither schema has the type of '{table_key}'", details={"table_key": table_key})
    return old or known, new or known
