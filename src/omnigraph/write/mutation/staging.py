"""The staging area of a mutation: its changes so far, in memory, on top of one snapshot.

Later statements see earlier changes: a search reads the pinned version without replaced and deleted rows, and the
pending rows. Nothing is written here; the commit stages the change of each table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from functools import partial
from typing import Final, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.rows import read_writable_blobs
from omnigraph.storage import tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.filters import Condition
from omnigraph.storage.lagging_columns import read_declared_column
from omnigraph.storage.tables import FragmentText, StagedChange, Table, combine_batches, find_addresses
from omnigraph.write.commit import TableChange
from omnigraph.write.row_values import can_have_legacy_ids, refuse_legacy_ids
from omnigraph.write.rules import IncomingMode, RowChanges, RowLocations, empty_ids

_MAX_SMALL_CHANGE: Final = 1_000

LocationSource: TypeAlias = "RowLocations | Callable[[], RowLocations | None] | None"
"""The locations of the rows to replace or delete, or a function that finds them when the change is staged."""


WrittenFragments: TypeAlias = "dict[tuple[str, str | None], tuple[FragmentText, ...]]"
"""The fragments of the rows to write, by the location and the branch of their table."""


@dataclass(slots=True)
class StagingArea:
    """The tables with pending changes, and the keys of the tables whose rows statements or the caller have read.

    What was read stays read: copies share the keys, so a call that failed counts too.
    """

    snapshot: Snapshot
    reads: set[str] = field(default_factory=set[str])
    pending: dict[str, PendingTable] = field(default_factory=dict[str, "PendingTable"])

    def copy(self) -> StagingArea:
        """Return a copy whose changes do not show here."""
        return StagingArea(self.snapshot, self.reads, {key: table.copy() for key, table in self.pending.items()})

    def table(self, type_: NodeType | EdgeType) -> PendingTable:
        """Return the table of a type with its pending changes. A table with ids in a legacy form is refused."""
        pending = self.pending.get(type_.table_key)
        if pending is None:
            pending = PendingTable(type_, self.snapshot)
            if isinstance(type_, NodeType) and can_have_legacy_ids(type_):
                refuse_legacy_ids(type_, pending.pinned)
            self.pending[type_.table_key] = pending
        return pending

    def find_ids(self, type_: NodeType | EdgeType, condition: Condition) -> pa.StringArray:
        """Return the ids of the rows that match a condition, pending changes included."""
        self.reads.add(type_.table_key)
        return self.table(type_).find_ids(condition)

    def read_matching(self, type_: NodeType | EdgeType, condition: Condition) -> pa.Table:
        """Return the whole rows that match a condition, pending changes included, ready to be written again."""
        self.reads.add(type_.table_key)
        return self.table(type_).read_matching(condition)

    def list_changed(self) -> Iterator[PendingTable]:
        """Return the tables that have changes, sorted by key."""
        return (self.pending[key] for key in sorted(self.pending) if self.pending[key].has_changes)


@dataclass(slots=True)
class PendingTable:
    """One pinned table, the rows to insert or upsert, and the ids to delete."""

    type: NodeType | EdgeType
    snapshot: Snapshot
    _parts: list[pa.Table] = field(default_factory=list[pa.Table])
    _deleted_ids: pa.StringArray = field(default_factory=empty_ids)
    _is_combined: bool = False
    _has_only_new_ids: bool = True

    @property
    def pinned(self) -> Table:
        """The table at its pin. It is opened on first use: inserts alone do not read it."""
        return self.snapshot.table(self.type.table_key)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the table."""
        return arrow_schema(self.type)

    def copy(self) -> PendingTable:
        """Return a copy. Rows are shared, since they are immutable."""
        return replace(self, _parts=list(self._parts))

    def insert(self, rows: pa.Table) -> None:
        """Add rows with generated ids, which no other row can have."""
        self._parts.append(rows)
        self._is_combined = False

    def upsert(self, rows: pa.Table) -> None:
        """Add rows that replace rows with the same ids, pending or not. The last row of an id wins."""
        self._parts.append(rows)
        self._is_combined = self._has_only_new_ids = False

    def delete(self, ids: pa.StringArray) -> None:
        """Delete rows, pending or not."""
        left = self.rows
        self._parts = [left.filter(pc.invert(pc.is_in(left["id"], value_set=ids)))]
        self._deleted_ids = _unite_ids(self._deleted_ids, ids)

    @property
    def rows(self) -> pa.Table:
        """The pending rows, one per id, in insertion order."""
        if not self._is_combined:
            rows = pa.concat_tables([self.schema.empty_table(), *self._parts])
            self._parts = [rows if self._has_only_new_ids else _keep_last_per_id(rows)]
            self._is_combined = True
        return self._parts[0]

    @property
    def deleted_ids(self) -> pa.StringArray:
        """The ids to delete, without those that were added again."""
        if not len(self._deleted_ids):
            return self._deleted_ids
        return _to_one_array(
            self._deleted_ids.filter(pc.invert(pc.is_in(self._deleted_ids, value_set=_to_one_array(self.rows["id"]))))
        )

    @property
    def has_changes(self) -> bool:
        """Whether there is anything to write."""
        return self.rows.num_rows > 0 or len(self._deleted_ids) > 0

    def find_ids(self, condition: Condition) -> pa.StringArray:
        """Return the ids of the rows that match a condition."""
        pending = self.rows.filter(condition.evaluate(self.rows))
        return _unite_ids(_to_one_array(self._read_pinned(condition, ["id"])["id"]), _to_one_array(pending["id"]))

    def read_matching(self, condition: Condition) -> pa.Table:
        """Return the rows that match a condition."""
        committed = self._read_pinned(condition, None)
        return pa.concat_tables([committed, self.rows.filter(condition.evaluate(self.rows))])

    def to_row_changes(self) -> RowChanges:
        """Return the change as the rules check it."""
        return RowChanges(
            self.type.table_key,
            self.rows,
            self.deleted_ids,
            IncomingMode.FRESH if self._has_only_new_ids else IncomingMode.UPSERT,
        )

    def to_change(self, locations: LocationSource = None) -> TableChange:
        """Return the change as the commit stages it. ``locations`` saves the search for the rows it replaces."""
        stage = partial(
            _stage,
            rows=self.rows,
            deleted_ids=self.deleted_ids,
            has_only_new_ids=self._has_only_new_ids,
            locations=locations,
            written={},
        )
        return TableChange(
            self.type.table_key, stage, is_small=self.rows.num_rows + len(self._deleted_ids) <= _MAX_SMALL_CHANGE
        )

    def _read_pinned(self, condition: Condition, columns: list[str] | None) -> pa.Table:
        """Read the pinned rows that match a condition and are neither replaced nor deleted."""
        pinned = self.pinned
        found = _scan(pinned, condition, columns, with_row_address=columns is None)
        hidden = _unite_ids(self._deleted_ids, _to_one_array(self.rows["id"]))
        if len(hidden):
            found = found.filter(pc.invert(pc.is_in(found["id"], value_set=hidden)))
        return found if columns else self._to_declared(found)

    def _to_declared(self, rows: pa.Table) -> pa.Table:
        """Convert scanned rows, with their addresses, to the columns of the schema. The table may lag behind it."""
        columns = [
            read_writable_blobs(self.pinned, name, rows)
            if pa.types.is_struct(target) and name in rows.column_names
            else read_declared_column(self.type, self.pinned.lag, rows, name, target)
            for name, target in zip(self.schema.names, self.schema.types, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=self.schema)


def _stage(
    table: Table,
    *,
    rows: pa.Table,
    deleted_ids: pa.StringArray,
    has_only_new_ids: bool,
    locations: LocationSource,
    written: WrittenFragments,
) -> StagedChange | None:
    """Stage the change on a version of the table. Many rows are written once, and reused on a later version.

    Locations that do not hold in this version are looked up again.
    """
    if rows.num_rows > _MAX_SMALL_CHANGE:
        folder = table.uri, table.branch
        fragments = written[folder] = written.get(folder) or tables.write_rows(table, rows)
    else:
        fragments = None
    if has_only_new_ids and not len(deleted_ids):
        return tables.append(table, rows) if fragments is None else tables.append_fragments(table, fragments)
    known = locations() if callable(locations) else locations
    addresses = None if known is None else known.find_in(table)
    if addresses is None:
        addresses = find_addresses(table, pa.table({"id": _unite_ids(_to_one_array(rows["id"]), deleted_ids)}))
    if fragments is not None:
        return (
            tables.replace_by_fragments(table, addresses, fragments)
            if len(addresses)
            else tables.append_fragments(table, fragments)
        )
    if not len(addresses):
        return tables.append(table, rows)
    return tables.replace_rows(table, addresses, rows) if rows.num_rows else tables.delete_at(table, addresses)


def _scan(table: Table, condition: Condition, columns: list[str] | None, *, with_row_address: bool) -> pa.Table:
    """Read the rows that match a condition. Conditions that Lance cannot evaluate are applied piece by piece."""
    sql = condition.to_sql()
    if sql is not None:
        return table.scan(columns, filter=sql, with_row_address=with_row_address).read_all()
    scanned = None if columns is None else list(dict.fromkeys([*columns, *condition.columns]))
    reader = table.scan(scanned, with_row_address=with_row_address)
    pieces = combine_batches(reader.schema, reader)
    return pa.concat_tables([reader.schema.empty_table(), *(rows.filter(condition.evaluate(rows)) for rows in pieces)])


def _keep_last_per_id(rows: pa.Table) -> pa.Table:
    if pc.count_distinct(rows["id"]).as_py() == rows.num_rows:
        return rows
    positions = rows.select(["id"]).append_column("position", pa.array(range(rows.num_rows), pa.int64()))
    last = positions.group_by("id").aggregate([("position", "max")])["position_max"]
    return rows.take(last.take(pc.array_sort_indices(last)))


def _to_one_array(column: pa.ChunkedArray[pa.StringScalar] | pa.StringArray) -> pa.StringArray:
    """Combine the chunks of an id column."""
    combined = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return cast(pa.StringArray, combined)


def _unite_ids(one: pa.StringArray, other: pa.StringArray) -> pa.StringArray:
    return pc.unique(pa.concat_arrays([one, other]))
