"""What a mutation has done so far, in memory, over one snapshot: each table's rows to come and rows to go.

Later statements see it: what is looked for is looked for in the pinned version without the rows that were replaced or
removed, and in the pending rows. Nothing is written here; each table's change is staged when the commit asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage import table as tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.filters import Condition
from omnigraph.storage.locating import addresses_of, in_large_pieces
from omnigraph.storage.pinned import Table
from omnigraph.storage.staging import Staged
from omnigraph.write.blobs import load_blobs
from omnigraph.write.commit import TableChange
from omnigraph.write.legacy_ids import may_have_legacy_ids, refuse_legacy_ids
from omnigraph.write.rules import IncomingMode, RowChanges, RowLocations, empty_ids

_MAX_SMALL_CHANGE: Final = 1_000

LocationSource: TypeAlias = "RowLocations | Callable[[], RowLocations | None] | None"
"""Where the rows lie that make room, or how to find it once the change is staged."""


@dataclass(slots=True)
class StagingArea:
    """The tables that were touched, and the keys of those whose rows decided something."""

    snapshot: Snapshot
    reads: set[str] = field(default_factory=set[str])
    pending: dict[str, PendingTable] = field(default_factory=dict[str, "PendingTable"])

    def copy(self) -> StagingArea:
        """The same again, to go on from without changing this."""
        return StagingArea(self.snapshot, set(self.reads), {key: table.copy() for key, table in self.pending.items()})

    def table(self, type_: NodeType | EdgeType) -> PendingTable:
        """The table of a type, with what is pending on it. One whose ids have an old form is refused."""
        pending = self.pending.get(type_.table_key)
        if pending is None:
            pending = PendingTable(type_, self.snapshot)
            if isinstance(type_, NodeType) and may_have_legacy_ids(type_):
                refuse_legacy_ids(type_, pending.pinned)
            self.pending[type_.table_key] = pending
        return pending

    def find_ids(self, type_: NodeType | EdgeType, condition: Condition) -> pa.StringArray:
        """The ids of the rows that fulfil a condition now."""
        self.reads.add(type_.table_key)
        return self.table(type_).find_ids(condition)

    def read_matching(self, type_: NodeType | EdgeType, condition: Condition) -> pa.Table:
        """The rows that fulfil a condition now, whole, ready to be written again."""
        self.reads.add(type_.table_key)
        return self.table(type_).read_matching(condition)

    def list_changed(self) -> Iterator[PendingTable]:
        """The tables that change, by key."""
        return (self.pending[key] for key in sorted(self.pending) if self.pending[key].has_changes)


@dataclass(slots=True)
class PendingTable:
    """One table at its pin, the rows that replace or join its rows, and the ids of those that go."""

    type: NodeType | EdgeType
    snapshot: Snapshot
    _parts: list[pa.Table] = field(default_factory=list[pa.Table])
    _deleted_ids: pa.StringArray = field(default_factory=empty_ids)
    _is_combined: bool = False
    _has_only_new_ids: bool = True

    @property
    def pinned(self) -> Table:
        """The table at its pin, opened when it is asked for: inserts alone read nothing of it."""
        return self.snapshot.table(self.type.table_key)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return arrow_schema(self.type)

    def copy(self) -> PendingTable:
        """The same again; rows are shared, since they never change."""
        return replace(self, _parts=list(self._parts))

    def insert(self, rows: pa.Table) -> None:
        """Rows whose ids were made up for them: nothing in the table can have them."""
        self._parts.append(rows)
        self._is_combined = False

    def upsert(self, rows: pa.Table) -> None:
        """Rows that take the place of those with the same ids, pending or not; of two in one table the later counts."""
        self._parts.append(rows)
        self._is_combined = self._has_only_new_ids = False

    def delete(self, ids: pa.StringArray) -> None:
        """Take rows out, pending or not."""
        left = self.rows
        self._parts = [left.filter(pc.invert(pc.is_in(left["id"], value_set=ids)))]
        self._deleted_ids = _unite_ids(self._deleted_ids, ids)

    @property
    def rows(self) -> pa.Table:
        """The pending rows, one for each id, in the order in which they came."""
        if not self._is_combined:
            came = pa.concat_tables([self.schema.empty_table(), *self._parts])
            self._parts = [came if self._has_only_new_ids else _keep_last_per_id(came)]
            self._is_combined = True
        return self._parts[0]

    @property
    def deleted_ids(self) -> pa.StringArray:
        """The ids that are gone; one that was put back since is not."""
        if not len(self._deleted_ids):
            return self._deleted_ids
        return _to_one_array(
            self._deleted_ids.filter(pc.invert(pc.is_in(self._deleted_ids, value_set=_to_one_array(self.rows["id"]))))
        )

    @property
    def has_changes(self) -> bool:
        """Whether there is something to write."""
        return self.rows.num_rows > 0 or len(self._deleted_ids) > 0

    def find_ids(self, condition: Condition) -> pa.StringArray:
        """The ids of the rows that fulfil a condition."""
        pending = self.rows.filter(condition.mask(self.rows))
        return _unite_ids(_to_one_array(self._read_pinned(condition, ["id"])["id"]), _to_one_array(pending["id"]))

    def read_matching(self, condition: Condition) -> pa.Table:
        """The rows that fulfil a condition."""
        committed = self._read_pinned(condition, None)
        return pa.concat_tables([committed, self.rows.filter(condition.mask(self.rows))])

    def to_image(self) -> RowChanges:
        """The change as the rules look at it."""
        return RowChanges(
            self.type.table_key,
            self.rows,
            self.deleted_ids,
            IncomingMode.FRESH if self._has_only_new_ids else IncomingMode.UPSERT,
        )

    def to_change(self, locations: LocationSource = None) -> TableChange:
        """The change as the commit stages it. ``standing``: where the rows lie that make room, if that is known."""
        stage = partial(
            _stage, rows=self.rows, removed=self.deleted_ids, only_new=self._has_only_new_ids, standing=locations
        )
        return TableChange(
            self.type.table_key, stage, is_small=self.rows.num_rows + len(self._deleted_ids) <= _MAX_SMALL_CHANGE
        )

    def _read_pinned(self, condition: Condition, columns: list[str] | None) -> pa.Table:
        """The rows of the pinned version that fulfil a condition and are neither replaced nor removed."""
        pinned = self.pinned
        found = _scan(pinned, condition, columns, with_row_address=columns is None)
        hidden = _unite_ids(self._deleted_ids, _to_one_array(self.rows["id"]))
        if len(hidden):
            found = found.filter(pc.invert(pc.is_in(found["id"], value_set=hidden)))
        return found if columns else load_blobs(pinned, found, self.schema)


def _stage(
    table: Table, *, rows: pa.Table, removed: pa.StringArray, only_new: bool, standing: LocationSource
) -> Staged | None:
    """The change on a version of its table: rows that make room are looked for there, since another may have others."""
    if only_new and not len(removed):
        return tables.append(table, rows)
    known = standing() if callable(standing) else standing
    if known is not None and known.is_valid_in(table):
        addresses = known.addresses
    else:
        addresses = addresses_of(table, pa.table({"id": _unite_ids(_to_one_array(rows["id"]), removed)}))
    if not len(addresses):
        return tables.append(table, rows)
    return tables.replace_rows(table, addresses, rows) if rows.num_rows else tables.delete_at(table, addresses)


def _scan(table: Table, condition: Condition, columns: list[str] | None, *, with_row_address: bool) -> pa.Table:
    """The rows of a table that fulfil a condition; piece by piece, where Lance cannot be told all of it."""
    sql = condition.sql()
    if sql is not None:
        return table.scan(columns, filter=sql, with_row_address=with_row_address).read_all()
    wanted = None if columns is None else list(dict.fromkeys([*columns, *condition.columns]))
    reader = table.scan(wanted, with_row_address=with_row_address)
    pieces = in_large_pieces(reader.schema, reader)
    return pa.concat_tables([reader.schema.empty_table(), *(rows.filter(condition.mask(rows)) for rows in pieces)])


def _keep_last_per_id(rows: pa.Table) -> pa.Table:
    if pc.count_distinct(rows["id"]).as_py() == rows.num_rows:
        return rows
    positions = rows.select(["id"]).append_column("position", pa.array(range(rows.num_rows), pa.int64()))
    last = positions.group_by("id").aggregate([("position", "max")])["position_max"]
    return rows.take(last.take(pc.array_sort_indices(last)))


def _to_one_array(column: pa.ChunkedArray[pa.StringScalar] | pa.StringArray) -> pa.StringArray:
    """A column of ids in one piece."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return cast(pa.StringArray, whole)


def _unite_ids(one: pa.StringArray, other: pa.StringArray) -> pa.StringArray:
    return pc.unique(pa.concat_arrays([one, other]))
