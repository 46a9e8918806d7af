"""Columns of a table that lags behind the schema: what a reader sees where the table has another column, or none.

A branch keeps its tables as an older schema made them until it is written to. A column that is missing there reads as
null or as its default, one of a narrower type is cast, one that was renamed is found under its older name.
"""

from __future__ import annotations

from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.language.schema import EdgeType, NodeType, parse_default
from omnigraph.storage.arrow_schema import arrow_field
from omnigraph.storage.columns import Rows, Values, column_of, make_nulls

_TIME: Final = pa.timestamp("ms", "UTC")


def fill_missing_column(type_: NodeType | EdgeType, name: str, count: int) -> Values:
    """Return the values of a property that the table has no column for: its default if it is required, else nulls."""
    declared = type_.properties[name]
    target = arrow_field(name, declared.type).type
    if declared.type.nullable or declared.default is None:
        return make_nulls(count, target)
    # Made from a datetime object, or cast from a timestamp, a date64 would lose the time of day.
    is_time = target == pa.date64()
    one = cast("Values", pa.array([parse_default(declared.default, declared.type)], _TIME if is_time else target))
    return (one.cast(pa.int64()).cast(target) if is_time else one).take(np.zeros(count, np.int64))


def read_declared_column(type_: NodeType | EdgeType, rows: Rows, name: str, target: pa.DataType) -> Values:
    """Return a column of stored rows in the type that the schema declares. Blobs stay as the table shows them."""
    if name not in rows.schema.names:
        return fill_missing_column(type_, name, rows.num_rows)
    found = column_of(rows, name)
    return found if found.type == target or pa.types.is_struct(target) else found.cast(target)


def read_compared_column(type_: NodeType | EdgeType, rows: Rows, name: str, target: pa.DataType) -> Values:
    """Return a column in a type of another schema, which it is compared with; nulls for what this schema lacks."""
    if name not in rows.schema.names:
        if name not in type_.properties:
            return make_nulls(rows.num_rows, target)
        return fill_missing_column(type_, name, rows.num_rows).cast(target)
    found = column_of(rows, name)
    return found if found.type == target else found.cast(target)


def read_renamed_column(
    type_: NodeType | EdgeType, rows: Rows, source: str | None, column: pa.Field[pa.DataType]
) -> Values:
    """Return a column from the one that held it before; ``source`` is None for a property that is new."""
    if source is None or source not in rows.schema.names:
        return fill_missing_column(type_, column.name, rows.num_rows)
    return column_of(rows, source).cast(column.type)
