"""Compare two snapshots: which tables changed, and which rows of one table, with their before and after images.

Tables of the same version are not opened. Of the others, only rows that can differ are read (see ``candidates.py``),
one range of ids at a time (see ``id_ranges.py``). They are matched by id and compared by value, so a row that was
rewritten unchanged, moved by a compaction or restored is not a change.

Types and properties are those of the schemas, whatever they are called (see ``type_pairs.py``). A property that the
older schema does not have counts as null there, so that rows which a schema change filled with a default are changes,
even of a table that lags behind and holds no default yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.changes.candidates import CandidateRows, find_candidates, select_all_rows
from omnigraph.read.changes.compare_rows import ChangedRows, DiffSide, compare_sides
from omnigraph.read.changes.type_pairs import ColumnPair, Type, TypePair, find_pair, pair_types
from omnigraph.storage.tables import Table


def find_changed_types(before: Snapshot, after: Snapshot) -> tuple[TypePair, ...]:
    """Return the types whose rows may differ, node types first, by name; opens no table."""
    return tuple(pair for pair in pair_types(before, after) if _is_changed(before, after, pair))


def find_changed_tables(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """Return the sorted table keys, of both sides, of the types whose rows may differ; opens no table."""
    return tuple(sorted({key for pair in find_changed_types(before, after) for key in pair.keys}))


def _is_changed(before: Snapshot, after: Snapshot, pair: TypePair) -> bool:
    versions = _version_of(before, pair.before), _version_of(after, pair.after)
    return versions[0] != versions[1] or (versions[0] is not None and any(pair.list_one_sided()))


def _version_of(snapshot: Snapshot, type_: Type | None) -> tuple[str, str | None, int] | None:
    """The folder, branch and version of the table of a type in a snapshot; None if the snapshot does not show it.

    A branch keeps the table of a type that was dropped on main. Once it has the new schema, nobody sees the rows.
    """
    pin = None if type_ is None else snapshot.pins.get(type_.table_key)
    return None if pin is None else (pin.location, pin.branch, pin.version)


def read_changes(
    before: Snapshot, after: Snapshot, table_key: str, columns: Sequence[str] | None = None
) -> Iterator[tuple[ChangedRows, ...]]:
    """Yield the changes of one table in groups of ascending ids, each with at most one part for each op.

    ``columns`` are the columns of the images, by their names after; without blobs among them, no blob is read for an
    image.
    """
    return read_type_changes(before, after, find_pair(before, after, table_key), columns)


def read_type_changes(
    before: Snapshot, after: Snapshot, pair: TypePair, columns: Sequence[str] | None = None
) -> Iterator[tuple[ChangedRows, ...]]:
    """Yield the changes of one type, like :func:`read_changes`."""
    if _is_changed(before, after, pair):
        yield from compare_sides(pair, *find_type_candidates(before, after, pair).sides(), columns)


@dataclass(frozen=True, slots=True)
class TableCandidates:
    """The rows of one type that may differ, on both sides. A side may have no table."""

    before: CandidateRows | None
    after: CandidateRows | None
    pair: TypePair

    def sides(self) -> tuple[DiffSide, DiffSide]:
        """Return both sides of the comparison."""
        types = self.pair.types
        return DiffSide(self.before, types[0]), DiffSide(self.after, types[1])


def find_table_candidates(before: Snapshot, after: Snapshot, table_key: str) -> TableCandidates:
    """Find the rows of one table that may differ. Only metadata is read."""
    return find_type_candidates(before, after, find_pair(before, after, table_key))


def find_type_candidates(before: Snapshot, after: Snapshot, pair: TypePair) -> TableCandidates:
    """Find the rows of one type that may differ. Only metadata is read."""
    if not _is_changed(before, after, pair):
        return TableCandidates(None, None, pair)
    old, new = _open_table(before, pair.before), _open_table(after, pair.after)
    if old is None or new is None:
        olds, news = (None if table is None else select_all_rows(table) for table in (old, new))
        return TableCandidates(olds, news, pair)
    if any(_is_shown_by_old_files(pair, column, (old, new)) for column in pair.list_one_sided()):
        return TableCandidates(select_all_rows(old), select_all_rows(new), pair)
    return TableCandidates(*find_candidates(old, new), pair)


def _open_table(snapshot: Snapshot, type_: Type | None) -> Table | None:
    return None if _version_of(snapshot, type_) is None or type_ is None else snapshot.table(type_.table_key)


def _is_shown_by_old_files(pair: TypePair, column: ColumnPair, tables: tuple[Table, Table]) -> bool:
    """Whether files that both versions have may show values of a property that only one of the schemas has.

    They hold the values of a dropped property. One that was added later is not in them, but reads as its default while
    the table lags behind.
    """
    side = 0 if column.after is None else 1
    table, type_ = tables[side], pair.types[side]
    if column.name in table.column_types:
        return (side == 1) != pair.is_after_newer
    return not table.lag.reads_null(type_, column.name)
