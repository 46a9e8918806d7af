"""Columns of a table that lags behind the schema: the one place that says what a reader sees of them.

A branch keeps its tables as an older schema made them until it is written to. A property that came later reads as null,
or as the default that it came with: a default that is changed afterwards changes no row. A column of a narrower type is
cast. A column of a dropped property whose name another one has now is hidden: it is not read as the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.language.schema import EdgeType, NodeType, Property, parse_default
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.arrow_schema import arrow_field, column_types
from omnigraph.storage.columns import Rows, Values, column_of, make_nulls

_TIME: Final = pa.timestamp("ms", "UTC")


@dataclass(frozen=True, slots=True)
class ColumnLag:
    """How the columns of a table differ from the properties that it is read with."""

    hidden: frozenset[str] = frozenset()
    """Stored columns of dropped properties whose names others have now."""
    added: Mapping[str, Property] = field(default_factory=dict[str, Property])
    """The properties that the table is older than, as they were when they were added."""

    def first_property(self, type_: NodeType | EdgeType, name: str) -> Property:
        """Return a property as it was when it was added, which decides about the rows that were there already."""
        return self.added.get(name, type_.properties[name])

    def reads_null(self, type_: NodeType | EdgeType, name: str) -> bool:
        """Whether a property that the table has no column for reads as null."""
        first = self.first_property(type_, name)
        return first.type.nullable or first.default is None

    def describe_defaults(self) -> tuple[str, ...]:
        """Return the properties that read as a default, with its text. Cached values depend on it."""
        filled = (each for each in self.added.values() if not each.type.nullable and each.default is not None)
        return tuple(sorted(f"{each.name} = {each.default}" for each in filled))


NO_LAG: Final = ColumnLag()


def has_declared_column(type_: NodeType | EdgeType, stored: Mapping[str, pa.DataType], name: str) -> bool:
    """Whether a table holds a column exactly as the schema declares it, so that the storage may filter by it."""
    found, declared = stored.get(name), column_types(type_).get(name)
    if found is None or declared is None:
        return False
    return found == declared[0] or pa.types.is_struct(declared[0])


def fill_missing_column(type_: NodeType | EdgeType, lag: ColumnLag, name: str, count: int) -> Values:
    """Return the values of a property that the table has no column for: nulls, or the default that it came with."""
    target = _declared_type(type_, name)
    first = lag.first_property(type_, name)
    if first.default is None or lag.reads_null(type_, name):
        return make_nulls(count, target)
    came_as = arrow_field(name, first.type).type
    # Made from a datetime object, or cast from a timestamp, a date64 would lose the time of day.
    is_time = came_as == pa.date64()
    one = cast("Values", pa.array([parse_default(first.default, first.type)], _TIME if is_time else came_as))
    return _cast(one.cast(pa.int64()).cast(came_as) if is_time else one, target).take(np.zeros(count, np.int64))


def read_declared_column(
    type_: NodeType | EdgeType, lag: ColumnLag, rows: Rows, name: str, target: pa.DataType
) -> Values:
    """Return a column of stored rows in the type that the schema declares. Blobs stay as the table shows them."""
    if name not in rows.schema.names:
        return fill_missing_column(type_, lag, name, rows.num_rows)
    found = column_of(rows, name)
    return found if pa.types.is_struct(target) else _cast(found, target)


def read_compared_column(
    type_: NodeType | EdgeType, lag: ColumnLag, rows: Rows, name: str, target: pa.DataType
) -> Values:
    """Return a column in a type of another schema, which it is compared with; nulls for what this schema lacks."""
    if name not in type_.properties and name not in rows.schema.names:
        return make_nulls(rows.num_rows, target)
    return _cast(read_declared_column(type_, lag, rows, name, target), target)


def read_renamed_column(
    type_: NodeType | EdgeType, lag: ColumnLag, rows: Rows, source: str | None, column: pa.Field[pa.DataType]
) -> Values:
    """Return a column from the one that held it before; ``source`` is None for a property that is new."""
    if source is None or source not in rows.schema.names:
        return fill_missing_column(type_, lag, column.name, rows.num_rows)
    return column_of(rows, source).cast(column.type)


def choose_wider_type(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type of one property that holds all values of two schemas: a property is only ever widened."""
    is_number = pa.types.is_primitive(one) and pa.types.is_primitive(other)
    return one if is_number and one.bit_width > other.bit_width else other


def _declared_type(type_: NodeType | EdgeType, name: str) -> pa.DataType:
    return arrow_field(name, type_.properties[name].type).type


def _cast(values: Values, target: pa.DataType) -> Values:
    return values if values.type == target else values.cast(target)
