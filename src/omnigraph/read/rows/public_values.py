"""Convert stored columns to what users see: Arrow, Python and JSON values, whole columns at a time."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from io import StringIO
from typing import Final, TypeAlias, TypeVar, cast

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.derived_values import keep_derived
from omnigraph.errors import Json
from omnigraph.storage.columns import Values, as_text, compute, find_true, join_texts, to_list

INSTANT: Final = pa.timestamp("ms", "UTC")
"""The public type of a DateTime. It is stored as Arrow's date64, whose time of day many programs drop."""

Cell = TypeVar("Cell")
_Scalars: TypeAlias = Callable[[Values], list[object]]


@keep_derived(256)
def to_public_schema(schema: pa.Schema) -> pa.Schema:
    """Return the public schema of stored columns."""
    names_and_types = zip(schema.names, schema.types, strict=True)
    return pa.schema([pa.field(name, _to_public_type(type_)) for name, type_ in names_and_types])


def _to_public_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_date64(type_):
        return INSTANT
    if pa.types.is_list(type_) and pa.types.is_date64(cast("pa.ListType[pa.DataType]", type_).value_type):
        return pa.list_(pa.field("item", INSTANT))
    return type_


def to_public_batch(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert rows to a schema of :func:`to_public_schema`. Copies no values."""
    if rows.schema.equals(schema, check_metadata=True):
        return rows
    columns = zip(cast("list[Values]", rows.columns), schema.types, strict=True)
    return pa.RecordBatch.from_arrays([column.view(type_) for column, type_ in columns], schema=schema)


def to_python_rows(rows: pa.RecordBatch) -> list[dict[str, object]]:
    """Convert every row to a dict of Python values."""
    return _to_dicts(rows.schema.names, [to_python_values(column) for column in cast("list[Values]", rows.columns)])


def to_json_rows(rows: pa.RecordBatch) -> list[dict[str, Json]]:
    """Convert every row to a JSON object."""
    return _to_dicts(rows.schema.names, [to_json_values(column) for column in cast("list[Values]", rows.columns)])


def format_csv_lines(rows: Iterable[Iterable[Json]]) -> str:
    """Format rows as lines of CSV: texts as they are, nothing for null, everything else as JSON."""
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(_to_csv_cell, row) for row in rows)
    return text.getvalue()


def _to_csv_cell(value: Json) -> str | None:
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()


def _to_dicts(names: list[str], columns: list[list[Cell]]) -> list[dict[str, Cell]]:
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def to_python_values(values: Values) -> list[object]:
    """Convert a column to Python values: dates, aware datetimes in UTC, lists; a vector is a list of floats."""
    return _convert_nested(values, _to_python_scalars, _to_python_scalars)


def to_json_values(values: Values) -> list[Json]:
    """Convert a column to JSON values: dates and times as texts, NaN and infinities by name; in a vector as null."""
    return cast("list[Json]", _convert_nested(values, _to_json_scalars, _to_finite_or_null))


def _convert_nested(values: Values, scalars: _Scalars, components: _Scalars) -> list[object]:
    """Convert scalars, lists or vectors; the elements of all lists are converted together and then divided."""
    if not values.type.num_fields:
        # Not one of lists: to ask for each kind costs more than the values of a few rows.
        return scalars(values)
    if pa.types.is_list(values.type):
        items = scalars(compute("list_flatten", values))
    elif pa.types.is_fixed_size_list(values.type):
        items = components(compute("list_flatten", values))
    else:
        return scalars(values)
    lengths = compute("coalesce", compute("list_value_length", values), pa.scalar(0, pa.int32()))
    ends = np.cumsum(lengths.to_numpy(zero_copy_only=False), dtype=np.int64).tolist()
    lists: list[object] = [items[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    return _put_nulls(lists, values)


def _put_nulls(found: list[object], values: Values) -> list[object]:
    for place in find_true(compute("is_null", values)) if values.null_count else ():
        found[place] = None
    return found


# --------------------------------------------------------------------------------------------- Python


def _to_python_scalars(values: Values) -> list[object]:
    if not pa.types.is_temporal(values.type):
        return to_list(values)
    # Arrow makes dates and times one by one.
    found = cast("Sequence[datetime | None]", values.to_numpy(zero_copy_only=False).tolist())
    if not pa.types.is_timestamp(values.type):
        return list(found)
    return [None if each is None else each.replace(tzinfo=UTC) for each in found]


# --------------------------------------------------------------------------------------------- JSON


def _to_json_scalars(values: Values) -> list[object]:
    type_ = values.type
    if pa.types.is_date(type_):
        return _to_python_scalars(cast("Values", as_text(values)))
    if pa.types.is_timestamp(type_):
        text = as_text(values.cast(pa.timestamp("ms")))
        with_t = compute("utf8_replace_slice", cast("Values", text), options=pc.ReplaceSliceOptions(10, 11, "T"))
        return _to_python_scalars(cast("Values", join_texts(cast("pa.StringArray", with_t), "Z")))
    found = _to_python_scalars(values)
    if pa.types.is_floating(type_):
        for name, text in (("is_nan", "NaN"), ("is_inf", "Infinity")):
            for place in find_true(compute(name, values)):
                found[place] = f"-{text}" if cast(float, found[place]) < 0 else text
    return found


def _to_finite_or_null(values: Values) -> list[object]:
    found = _to_python_scalars(values)
    for place in find_true(compute("invert", compute("is_finite", values))):
        found[place] = None
    return found
