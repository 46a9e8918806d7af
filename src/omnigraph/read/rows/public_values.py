"""Columns of a result as Python has their values, and as JSON spells them; whole columns at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final, TypeAlias, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import Json
from omnigraph.storage.columns import Values, as_text, compute, joined, places

INSTANT: Final = pa.timestamp("ms", "UTC")
"""A DateTime as it is seen outside. It is stored as Arrow's date64, which loses its time of day in many hands."""

Cell = TypeVar("Cell")
_Scalars: TypeAlias = Callable[[Values], list[object]]


def to_public_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of an answer as they are seen outside."""
    names_and_types = zip(schema.names, schema.types, strict=True)
    return pa.schema([pa.field(name, _shown_type(type_)) for name, type_ in names_and_types])


def _shown_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_date64(type_):
        return INSTANT
    if pa.types.is_list(type_) and pa.types.is_date64(cast("pa.ListType[pa.DataType]", type_).value_type):
        return pa.list_(pa.field("item", INSTANT))
    return type_


def to_public_batch(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows in the columns of :func:`to_public_schema`. The same milliseconds are looked at in another way."""
    columns = zip(cast("list[Values]", rows.columns), schema.types, strict=True)
    return pa.RecordBatch.from_arrays([column.view(type_) for column, type_ in columns], schema=schema)


def to_python_rows(rows: pa.RecordBatch) -> list[dict[str, object]]:
    """Every row as a dict of Python values."""
    return _dicts(rows.schema.names, [to_python_values(column) for column in cast("list[Values]", rows.columns)])


def to_json_rows(rows: pa.RecordBatch) -> list[dict[str, Json]]:
    """Every row as the object that JSON shows."""
    return _dicts(rows.schema.names, [to_json_values(column) for column in cast("list[Values]", rows.columns)])


def _dicts(names: list[str], columns: list[list[Cell]]) -> list[dict[str, Cell]]:
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def to_python_values(values: Values) -> list[object]:
    """Python's own values: dates, aware datetimes in UTC, lists; vectors are lists of floats."""
    return _nested(values, _python_scalars, _python_scalars)


def to_json_values(values: Values) -> list[Json]:
    """What JSON shows: dates and times as texts, a float that is no number by its name; in a vector it is null."""
    return cast("list[Json]", _nested(values, _json_scalars, _finite_or_null))


def _nested(values: Values, scalars: _Scalars, components: _Scalars) -> list[object]:
    """Lists of what the elements are; all elements are converted together and then divided."""
    if pa.types.is_list(values.type):
        items = scalars(compute("list_flatten", values))
    elif pa.types.is_fixed_size_list(values.type):
        items = components(compute("list_flatten", values))
    else:
        return scalars(values)
    lengths = compute("coalesce", compute("list_value_length", values), pa.scalar(0, pa.int32()))
    ends = np.cumsum(lengths.to_numpy(zero_copy_only=False), dtype=np.int64).tolist()
    lists: list[object] = [items[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    return _with_nulls(lists, values)


def _with_nulls(found: list[object], values: Values) -> list[object]:
    for place in places(compute("is_null", values)) if values.null_count else ():
        found[place] = None
    return found


# --------------------------------------------------------------------------------------------- Python


def _python_scalars(values: Values) -> list[object]:
    type_ = values.type
    if pa.types.is_timestamp(type_):
        naive = cast("Sequence[datetime | None]", values.to_numpy(zero_copy_only=False).tolist())
        return [None if each is None else each.replace(tzinfo=UTC) for each in naive]
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        filled = compute("coalesce", values, pa.scalar(0, type_)) if values.null_count else values
        return _with_nulls(filled.to_numpy(zero_copy_only=False).tolist(), values)
    return values.to_numpy(zero_copy_only=False).tolist()


# --------------------------------------------------------------------------------------------- JSON


def _json_scalars(values: Values) -> list[object]:
    type_ = values.type
    if pa.types.is_date(type_):
        return _python_scalars(cast("Values", as_text(values)))
    if pa.types.is_timestamp(type_):
        text = as_text(values.cast(pa.timestamp("ms")))
        with_t = compute("utf8_replace_slice", cast("Values", text), options=pc.ReplaceSliceOptions(10, 11, "T"))
        return _python_scalars(cast("Values", joined(cast("pa.StringArray", with_t), "Z")))
    found = _python_scalars(values)
    if pa.types.is_floating(type_):
        for name, text in (("is_nan", "NaN"), ("is_inf", "Infinity")):
            for place in places(compute(name, values)):
                found[place] = f"-{text}" if cast(float, found[place]) < 0 else text
    return found


def _finite_or_null(values: Values) -> list[object]:
    found = _python_scalars(values)
    for place in places(compute("invert", compute("is_finite", values))):
        found[place] = None
    return found
