"""A table before and after a change, divided into the parts that set rules use.

Rows are read when a rule asks for them. A few rows are looked up by value, so that an index helps; all lookups in one
column are announced first and then done lookups. For more rows the columns are scanned once. For large changes
they are streamed into files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from enum import StrEnum
from functools import cached_property
from typing import Protocol, cast

import numpy as np
import pyarrow as pa

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import (
    Values,
    column_of,
    find_true,
    is_among,
    is_not_among,
    normalize_zero,
)
from omnigraph.storage.lagging_columns import NO_LAG, ColumnLag, read_declared_column
from omnigraph.storage.tables import (
    ROW_ADDRESS,
    Addresses,
    Table,
    build_value_filters,
    can_look_up,
    find_addresses,
    have_same_layout,
    map_addresses,
)
from omnigraph.write.rules.set_rules import TablePart
from omnigraph.write.spill import spill_rows


class IncomingMode(StrEnum):
    """What happens to rows of the pinned version that have the ids of incoming rows."""

    FRESH = "fresh"
    """The ids were just generated: they are distinct, and the table has none of them."""
    INSERT = "insert"
    """An id that exists already is a violation."""
    UPSERT = "upsert"
    """Incoming rows replace the rows of the same ids."""
    OVERWRITE = "overwrite"
    """Incoming rows replace all rows."""


def empty_ids() -> pa.StringArray:
    """Return an array of no ids."""
    return pa.array([], pa.string())


class ColumnSource(Protocol):
    """Rows that are read when a rule asks for them."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        ...

    def select(self, columns: list[str]) -> pa.Table:
        """Return some columns of all rows, so that they can be read again."""
        ...

    def iterate(self, columns: list[str]) -> Iterator[pa.Table]:
        """Yield some columns of all rows in pieces. Nothing of them is kept."""
        ...


@dataclass(frozen=True, slots=True)
class RowChanges:
    """The incoming rows and the removed ids of one table.

    ``incoming`` needs only the columns of ``list_rule_columns``. An id is either removed or incoming, not both.
    """

    table_key: str
    incoming: pa.Table | ColumnSource
    removed: pa.StringArray = field(default_factory=empty_ids)
    mode: IncomingMode = IncomingMode.UPSERT


@dataclass(frozen=True, slots=True)
class RequiredValues:
    """A lookup: the rows that have one of these values in a column."""

    column: str
    values: Values


@dataclass(frozen=True, slots=True)
class RowLocations:
    """The addresses of the rows that a change replaces or removes, in one version of their table."""

    table: Table
    addresses: Addresses

    def is_valid_in(self, table: Table) -> bool:
        """Whether the addresses hold in another table: the same version, or a fresh fork of it."""
        if table.version != self.table.version or table.uri != self.table.uri:
            return False
        return table.branch == self.table.branch or have_same_layout(table, self.table)

    def find_in(self, table: Table) -> Addresses | None:
        """Return the addresses in another version that shows the same rows at them; None if some rows have moved."""
        if self.is_valid_in(table):
            return self.addresses
        if (table.uri, table.branch) != (self.table.uri, self.table.branch):
            return None
        addresses, is_kept = map_addresses(self.addresses, self.table, table)
        return addresses if is_kept.all() else None


@dataclass(frozen=True, slots=True)
class _LookupResult:
    """The rows of the pinned version that have one of the strings in a column, and their addresses."""

    texts: Values
    rows: pa.Table
    addresses: Addresses

    def has_all_rows(self, columns: Iterable[str], texts: Values) -> bool:
        """Whether it has all rows with these strings, in all of these columns."""
        stored = set(self.rows.column_names)
        return all(column in stored for column in columns) and not len(subtract_values(texts, self.texts))


class ChangedTable:
    """One table before and after a change. ``was_read`` says whether the pinned version was read."""

    def __init__(self, type_: NodeType | EdgeType, snapshot: Snapshot, changes: RowChanges | None) -> None:
        self._type = type_
        self._schema = arrow_schema(type_)
        self._snapshot = snapshot
        self._changes = changes or RowChanges(type_.table_key, self._schema.empty_table())
        self._scans: dict[tuple[str, ...], pa.Table] = {}
        self._announced: dict[str, list[tuple[Sequence[str], Values]]] = {}
        self._lookups: dict[str, _LookupResult] = {}
        self.was_read = False

    def read_part(self, part: TablePart, columns: Sequence[str], required: RequiredValues | None = None) -> pa.Table:
        """Read one part in these columns, perhaps with ``id``; of the kept rows only those that are required."""
        match part:
            case TablePart.INCOMING:
                return self._changes.incoming.select(list(columns))
            case TablePart.KEPT:
                return self._read_kept(columns, required)
            case TablePart.SUPERSEDED:
                return self._read_superseded(columns)
            case TablePart.DELETED:
                return self._read_deleted(columns)

    @property
    def incoming_count(self) -> int:
        """The number of incoming rows."""
        return self._changes.incoming.num_rows

    def iterate_incoming(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield some columns of the incoming rows in pieces."""
        incoming = self._changes.incoming
        return (
            iter([incoming.select(list(columns))]) if isinstance(incoming, pa.Table) else incoming.iterate([*columns])
        )

    def announce(self, columns: Sequence[str], required: RequiredValues) -> None:
        """Announce a lookup of kept rows, so that the first lookup reads for all. For a few values only."""
        self._announced.setdefault(required.column, []).append((columns, required.values))

    def locate_changed_rows(self) -> RowLocations | None:
        """Return the addresses of replaced and removed rows, or None if no rule has looked them up."""
        found = self._lookups.get("id")
        pinned = None if found is None else self._pinned
        if found is None or pinned is None or not found.has_all_rows((), self._superseded_ids):
            return None
        is_superseded = is_among(column_of(found.rows, "id"), self._superseded_ids)
        return RowLocations(pinned, found.addresses[find_true(cast("Values", is_superseded))])

    @property
    def _incoming_ids(self) -> Values:
        return column_of(self._changes.incoming.select(["id"]), "id")

    @property
    def _superseded_ids(self) -> Values:
        """The ids that are replaced or removed, unless all rows are overwritten."""
        removed = cast("Values", self._changes.removed)
        if self._changes.mode is not IncomingMode.UPSERT:
            return removed
        return pa.concat_arrays([removed, self._incoming_ids])

    def _read_kept(self, columns: Sequence[str], required: RequiredValues | None) -> pa.Table:
        if self._changes.mode is IncomingMode.OVERWRITE:
            return self._make_empty(columns)
        if required is None or required.column != "id":
            return _drop_ids(self._read_pinned(("id", *columns), required), self._superseded_ids)
        # Superseded ids cannot be among the kept rows: often nothing is left to read.
        values = subtract_values(required.values, self._superseded_ids)
        if self._changes.mode is IncomingMode.FRESH:
            values = subtract_values(values, self._incoming_ids)
        return self._read_pinned(columns, RequiredValues("id", values))

    def _read_superseded(self, columns: Sequence[str]) -> pa.Table:
        if self._changes.mode is IncomingMode.OVERWRITE:
            return self._read_pinned(columns, None)
        return self._read_pinned(columns, RequiredValues("id", self._superseded_ids))

    def _read_deleted(self, columns: Sequence[str]) -> pa.Table:
        if self._changes.mode is IncomingMode.OVERWRITE:
            return _drop_ids(self._read_pinned(columns, None), self._incoming_ids)
        return pa.table({"id": self._changes.removed}).select(list(columns))

    def _make_empty(self, columns: Sequence[str]) -> pa.Table:
        return self._schema.empty_table().select(list(columns))

    # ----------------------------------------------------------------------------------------- reading the pin

    @cached_property
    def _pinned(self) -> Table | None:
        # A type that is newer than the branch has no table there before its first row.
        key = self._type.table_key
        return self._snapshot.table(key) if key in self._snapshot.pins else None

    @property
    def _lag(self) -> ColumnLag:
        return NO_LAG if self._pinned is None else self._pinned.lag

    def _read_pinned(self, columns: Sequence[str], required: RequiredValues | None) -> pa.Table:
        columns = tuple(dict.fromkeys(columns))
        values = None if required is None else required.values.unique().drop_null()
        if (values is not None and not len(values)) or self._pinned is None:
            return self._make_empty(columns)
        self.was_read = True
        if required is None or values is None:
            return self._scan_columns(columns)
        if self._can_look_up(required.column, values):
            return self._find_rows(columns, required.column, values)
        found = self._scan_columns(tuple(dict.fromkeys((*columns, required.column))))
        held = column_of(found, required.column)
        return found.filter(is_among(normalize_zero(held), normalize_zero(values))).select(columns)

    def _scan_columns(self, columns: tuple[str, ...]) -> pa.Table:
        assert self._pinned is not None
        if columns not in self._scans:
            self._scans[columns] = self._to_schema(self._pinned.scan(self._list_stored(columns)).read_all(), columns)
        return self._scans[columns]

    def _find_rows(self, columns: Sequence[str], column: str, values: Values) -> pa.Table:
        """Find the rows with one of the values in a column, lookups with the lookups announced for it."""
        if not pa.types.is_string(values.type):
            return self._look_up(columns, column, values).rows.select(columns)
        found = self._lookups.get(column)
        if found is None or not found.has_all_rows(columns, values):
            found = self._lookups[column] = self._look_up(*self._add_announced(columns, column, values))
        if len(found.texts) == len(values):
            return found.rows.select(columns)
        return found.rows.select(columns).filter(is_among(column_of(found.rows, column), values))

    def _add_announced(self, columns: Sequence[str], column: str, texts: Values) -> tuple[Sequence[str], str, Values]:
        announced = self._announced.get(column, [])
        lookups = [texts, *(each for _, each in announced)]
        if column == "id" and self._can_look_up("id", self._superseded_ids):
            # Staging the change needs the addresses of these rows next.
            lookups.append(self._superseded_ids)
        all_columns = dict.fromkeys((column, *columns, *(name for names, _ in announced for name in names)))
        all_texts = pa.concat_arrays(lookups).unique().drop_null()
        return tuple(all_columns), column, all_texts if self._can_look_up(column, all_texts) else texts

    def _look_up(self, columns: Sequence[str], column: str, values: Values) -> _LookupResult:
        assert self._pinned is not None
        stored, pinned = self._list_stored(columns), self._pinned
        filters = build_value_filters(self._type, column, values)
        found = pa.concat_tables(pinned.scan(stored, filter=each, with_row_address=True).read_all() for each in filters)
        return _LookupResult(values, self._to_schema(found, columns), found[ROW_ADDRESS].to_numpy())

    def _can_look_up(self, column: str, values: Values) -> bool:
        """Whether the values are few enough for a filter, and the pinned version has the column as declared."""
        return self._pinned is not None and can_look_up(self._pinned, self._type, column, values)

    def _list_stored(self, columns: Sequence[str]) -> list[str]:
        assert self._pinned is not None
        names = set(self._pinned.schema.names)
        return [column for column in columns if column in names]

    def _to_schema(self, found: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Convert stored rows to the types of the schema, which the table of a branch may lag behind."""
        types = {column: cast("pa.DataType", self._schema.field(column).type) for column in columns}
        return pa.table(
            {
                column: read_declared_column(self._type, self._lag, found, column, type_)
                for column, type_ in types.items()
            }
        )


# --------------------------------------------------------------------------------------------- large changes


class LargeChangedTable(ChangedTable):
    """A changed table that streams columns into files: memory does not grow with the number of rows.

    It looks up nothing by value: all kept rows are read. Affected rows are known by their addresses, eight bytes each.
    """

    def _read_kept(self, columns: Sequence[str], required: RequiredValues | None) -> pa.Table:  # noqa: ARG002  see the class
        if self._changes.mode is IncomingMode.OVERWRITE:
            return self._make_empty(columns)
        return self._stream_pinned(columns, affected=False)

    def _read_superseded(self, columns: Sequence[str]) -> pa.Table:
        return self._stream_pinned(columns, affected=None if self._changes.mode is IncomingMode.OVERWRITE else True)

    def _read_deleted(self, columns: Sequence[str]) -> pa.Table:
        if self._changes.mode is IncomingMode.OVERWRITE:
            return self._stream_pinned(columns, affected=False)
        return super()._read_deleted(columns)

    def _stream_pinned(self, columns: Sequence[str], *, affected: bool | None) -> pa.Table:
        """Spill the rows of the pin: all (None), those that the change replaces or removes, or the others."""
        self.was_read = True
        if self._pinned is None or not self._pinned.count_rows():
            return self._make_empty(columns)
        return spill_rows(self._make_empty(columns).schema, self._scan_pieces(self._pinned, columns, affected=affected))

    def _scan_pieces(self, pinned: Table, columns: Sequence[str], *, affected: bool | None) -> Iterator[pa.Table]:
        for batch in pinned.scan(self._list_stored(columns), with_row_address=True, one_by_one=True):
            piece = pa.Table.from_batches([batch])
            if affected is not None and len(self._affected):
                addresses = piece[ROW_ADDRESS].to_numpy()
                at = np.minimum(np.searchsorted(self._affected, addresses), len(self._affected) - 1)
                piece = piece.take(np.flatnonzero((self._affected[at] == addresses) == affected))
            elif affected:
                continue
            yield self._to_schema(piece, columns).cast(self._make_empty(columns).schema)

    @cached_property
    def _affected(self) -> Addresses:
        """The sorted addresses of the rows that are replaced or removed."""
        removed, incoming = pa.table({"id": self._changes.removed}), self._changes.incoming.select(["id"])
        replaces = self._changes.mode in (IncomingMode.UPSERT, IncomingMode.OVERWRITE)
        ids = pa.concat_tables([removed, incoming.cast(removed.schema)]) if replaces else removed
        return np.zeros(0, np.uint64) if self._pinned is None else np.sort(find_addresses(self._pinned, ids))


def _drop_ids(rows: pa.Table, ids: Values) -> pa.Table:
    if not rows.num_rows or not len(ids):
        return rows
    return rows.filter(is_not_among(column_of(rows, "id"), ids))


def subtract_values(values: Values, others: Values) -> Values:
    """Return the values that are not among the others."""
    if not len(values) or not len(others):
        return values
    return values.filter(is_not_among(values, others))
