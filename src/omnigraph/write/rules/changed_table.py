"""What tables look like after a change, in the parts that set rules speak of.

Nothing is read before a rule asks for it. Few rows are found by their values, so that an index serves them; what rules
will look for in one column is announced, and then found together. For many, the columns are scanned once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final, cast

import pyarrow as pa

from omnigraph.language.query import ComparisonOperator
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.language.values import ConstantValue
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, compute, is_among, is_not_among, places, to_list
from omnigraph.storage.filters import Compared, listing
from omnigraph.storage.fragments import same_places
from omnigraph.storage.locating import can_be_listed, listings
from omnigraph.storage.missing import missing_column
from omnigraph.storage.pinned import ROW_ADDRESS, Table
from omnigraph.storage.staging import Addresses
from omnigraph.write.rules.set_rules import TablePart

_MOST_COMPARED: Final = 100
"""Values other than texts are compared one by one, which only pays for few of them."""


class IncomingMode(StrEnum):
    """How incoming rows meet the rows of the pinned version."""

    FRESH = "fresh"
    """Their ids were just made: each is another, and none of them can be there."""
    INSERT = "insert"
    """An id that is there already is a violation."""
    UPSERT = "upsert"
    """They replace the rows of the same ids."""
    OVERWRITE = "overwrite"
    """They replace all rows."""


def empty_ids() -> pa.StringArray:
    """No row."""
    return pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class RowChanges:
    """How one table changes.

    ``incoming`` needs the columns of ``rule_columns`` only. An id is removed or comes in, not both.
    """

    table_key: str
    incoming: pa.Table
    removed: pa.StringArray = field(default_factory=empty_ids)
    mode: IncomingMode = IncomingMode.UPSERT


@dataclass(frozen=True, slots=True)
class RequiredValues:
    """Which rows of a pinned table are wanted: those with one of the values in a column."""

    column: str
    values: Values


@dataclass(frozen=True, slots=True)
class RowLocations:
    """Where the rows lie that a change replaces or removes, in one version of their table."""

    table: Table
    addresses: Addresses

    def is_valid_in(self, table: Table) -> bool:
        """Whether they lie there in that table too: the same version, or a fork that was just made of it."""
        if table.version != self.table.version or table.uri != self.table.uri:
            return False
        return table.branch == self.table.branch or same_places(table, self.table)


@dataclass(frozen=True, slots=True)
class _LookupResult:
    """The rows of the pinned version that have one of the texts in a column."""

    texts: Values
    rows: pa.Table
    addresses: Addresses

    def covers(self, columns: Iterable[str], texts: Values) -> bool:
        """Whether all rows of these texts are here, and all that is wanted of them."""
        there = set(self.rows.column_names)
        return all(column in there for column in columns) and not len(_without(texts, self.texts))


class ChangedTable:
    """One table before and after a change. It knows whether anything had to be read of it."""

    def __init__(self, type_: NodeType | EdgeType, snapshot: Snapshot, image: RowChanges | None) -> None:
        self._type = type_
        self._schema = arrow_schema(type_)
        self._snapshot = snapshot
        self._image = image or RowChanges(type_.table_key, self._schema.empty_table())
        self._scans: dict[tuple[str, ...], pa.Table] = {}
        self._announced: dict[str, list[tuple[Sequence[str], Values]]] = {}
        self._found: dict[str, _LookupResult] = {}
        self.was_read = False

    def read_part(self, part: TablePart, columns: Sequence[str], wanted: RequiredValues | None = None) -> pa.Table:
        """The rows of one part, in these columns and perhaps ``id``; kept rows only as far as they are wanted."""
        match part:
            case TablePart.INCOMING:
                return self._image.incoming.select(list(columns))
            case TablePart.KEPT:
                return self._kept(columns, wanted)
            case TablePart.SUPERSEDED:
                return self._gone(columns)
            case TablePart.DELETED:
                return self._lost(columns)

    def announce(self, columns: Sequence[str], wanted: RequiredValues) -> None:
        """Say which kept rows will be asked for, so that the first read brings them all. Few values only."""
        self._announced.setdefault(wanted.column, []).append((columns, wanted.values))

    def locate_changed_rows(self) -> RowLocations | None:
        """Where the rows lie that are replaced or removed; None where no rule had a reason to look for ids."""
        found = self._found.get("id")
        pinned = None if found is None else self._pinned
        if found is None or pinned is None or not found.covers((), self._gone_ids):
            return None
        gone = is_among(column_of(found.rows, "id"), self._gone_ids)
        return RowLocations(pinned, found.addresses[places(cast("Values", gone))])

    @property
    def _incoming_ids(self) -> Values:
        return column_of(self._image.incoming, "id")

    @property
    def _gone_ids(self) -> Values:
        """The ids of all rows that do not stay as they are, of a change that is no overwrite."""
        removed = cast("Values", self._image.removed)
        if self._image.mode is not IncomingMode.UPSERT:
            return removed
        return pa.concat_arrays([removed, self._incoming_ids])

    def _kept(self, columns: Sequence[str], wanted: RequiredValues | None) -> pa.Table:
        if self._image.mode is IncomingMode.OVERWRITE:
            return self._none(columns)
        if wanted is None or wanted.column != "id":
            return _without_ids(self._read(("id", *columns), wanted), self._gone_ids)
        # Of ids it is known beforehand which cannot be among the kept rows: often nothing is left to be read.
        values = _without(wanted.values, self._gone_ids)
        if self._image.mode is IncomingMode.FRESH:
            values = _without(values, self._incoming_ids)
        return self._read(columns, RequiredValues("id", values))

    def _gone(self, columns: Sequence[str]) -> pa.Table:
        if self._image.mode is IncomingMode.OVERWRITE:
            return self._read(columns, None)
        return self._read(columns, RequiredValues("id", self._gone_ids))

    def _lost(self, columns: Sequence[str]) -> pa.Table:
        if self._image.mode is IncomingMode.OVERWRITE:
            return _without_ids(self._read(columns, None), self._incoming_ids)
        return pa.table({"id": self._image.removed}).select(list(columns))

    def _none(self, columns: Sequence[str]) -> pa.Table:
        return self._schema.empty_table().select(list(columns))

    # ----------------------------------------------------------------------------------------- reading the pin

    @cached_property
    def _pinned(self) -> Table | None:
        # A type may be younger than the branch, and has no table there before its first row.
        key = self._type.table_key
        return self._snapshot.table(key) if key in self._snapshot.pins else None

    def _read(self, columns: Sequence[str], wanted: RequiredValues | None) -> pa.Table:
        columns = tuple(dict.fromkeys(columns))
        values = None if wanted is None else wanted.values.unique().drop_null()
        if (values is not None and not len(values)) or self._pinned is None:
            return self._none(columns)
        self.was_read = True
        if wanted is None or values is None:
            return self._scan(columns)
        if self._are_few(wanted.column, values):
            return self._find(columns, wanted.column, values)
        found = self._scan(tuple(dict.fromkeys((*columns, wanted.column))))
        held = column_of(found, wanted.column)
        return found.filter(is_among(_without_sign_of_zero(held), _without_sign_of_zero(values))).select(columns)

    def _scan(self, columns: tuple[str, ...]) -> pa.Table:
        assert self._pinned is not None
        if columns not in self._scans:
            self._scans[columns] = self._shaped(self._pinned.scan(self._there(columns)).read_all(), columns)
        return self._scans[columns]

    def _find(self, columns: Sequence[str], column: str, values: Values) -> pa.Table:
        """The rows that have one of the values in a column; what was announced for it is read with them."""
        if not pa.types.is_string(values.type):
            return self._looked_up(columns, column, values).rows.select(columns)
        found = self._found.get(column)
        if found is None or not found.covers(columns, values):
            found = self._found[column] = self._looked_up(*self._with_announced(columns, column, values))
        if len(found.texts) == len(values):
            return found.rows.select(columns)
        return found.rows.select(columns).filter(is_among(column_of(found.rows, column), values))

    def _with_announced(self, columns: Sequence[str], column: str, texts: Values) -> tuple[Sequence[str], str, Values]:
        announced = self._announced.get(column, [])
        together = [texts, *(each for _, each in announced)]
        if column == "id" and self._are_few("id", self._gone_ids):
            # Whoever stages the change looks for these next.
            together.append(self._gone_ids)
        all_columns = dict.fromkeys((column, *columns, *(name for names, _ in announced for name in names)))
        all_texts = pa.concat_arrays(together).unique().drop_null()
        return tuple(all_columns), column, all_texts if self._are_few(column, all_texts) else texts

    def _looked_up(self, columns: Sequence[str], column: str, values: Values) -> _LookupResult:
        assert self._pinned is not None
        there, pinned = self._there(columns), self._pinned
        filters = [self._listed(column, each) for each in listings(values)] or ["false"]
        found = pa.concat_tables(pinned.scan(there, filter=each, with_row_address=True).read_all() for each in filters)
        return _LookupResult(values, self._shaped(found, columns), found[ROW_ADDRESS].to_numpy())

    def _are_few(self, column: str, values: Values) -> bool:
        """Whether the values can be listed in filters. A column that the pin lacks has no value of them anyway."""
        if self._pinned is None or not self._there((column,)):
            return False
        if not pa.types.is_string(values.type):
            return len(values) <= _MOST_COMPARED
        return can_be_listed(self._pinned, column, len(values))

    def _listed(self, column: str, values: Values) -> str:
        """The filter that lists the values."""
        if pa.types.is_string(values.type):
            return listing(column, cast("pa.StringArray", values))
        type_ = self._type.properties[column].type
        compared = (Compared(column, type_, ComparisonOperator.EQUAL, value).sql() for value in _constants(values))
        return " OR ".join(compared) or "false"

    def _there(self, columns: Sequence[str]) -> list[str]:
        assert self._pinned is not None
        names = set(self._pinned.schema.names)
        return [column for column in columns if column in names]

    def _shaped(self, found: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Rows in the types of the schema: a table of a branch may lag behind it."""
        names = set(found.column_names)
        shaped: dict[str, Values] = {}
        for column in columns:
            type_ = cast("pa.DataType", self._schema.field(column).type)
            there = column in names
            known = column_of(found, column).cast(type_) if there else None
            shaped[column] = missing_column(self._type, column, found.num_rows) if known is None else known
        return pa.table(shaped)


def _without_ids(rows: pa.Table, ids: Values) -> pa.Table:
    if not rows.num_rows or not len(ids):
        return rows
    return rows.filter(is_not_among(column_of(rows, "id"), ids))


def _without(values: Values, others: Values) -> Values:
    if not len(values) or not len(others):
        return values
    return values.filter(is_not_among(values, others))


def _without_sign_of_zero(values: Values) -> Values:
    """Arrow tells -0.0 from 0.0, rules do not."""
    return compute("add", values, pa.scalar(0, values.type)) if pa.types.is_floating(values.type) else values


def _constants(values: Values) -> list[ConstantValue]:
    """Values as constants of a condition: dates as days, times as milliseconds; what is not finite equals nothing."""
    if pa.types.is_floating(values.type):
        values = values.take(places(compute("is_finite", values)))
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_date64(values.type):
        values = values.cast(pa.int64())
    return cast("list[ConstantValue]", to_list(values))
