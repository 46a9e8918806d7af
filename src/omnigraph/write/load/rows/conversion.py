"""Convert values of records and Arrow columns to columns of a type's table.

A column whose values all have the expected Python or Arrow type is converted at once. Otherwise the column is
converted value by value; a value that does not fit becomes a :class:`RowMismatch` and a null. The rules of the schema
are not checked here: an enum is a string, a vector a list of any length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain
from typing import Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.types import FLOATS, INTEGERS, Scalar, ValueType
from omnigraph.language.values import (
    DATE_FORM,
    DATETIME_FORM,
    FIRST_DAY,
    FIRST_MILLISECOND,
    LAST_DAY,
    LAST_MILLISECOND,
    MILLISECONDS_PER_DAY,
    ConstantValue,
    ValueMismatch,
    convert_value,
    is_rounded,
)
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.rows import BlobValue, to_blob_array
from omnigraph.storage.arrow_schema import arrow_field, arrow_type, arrow_values
from omnigraph.storage.columns import Values, compute, find_true, make_nulls, to_list
from omnigraph.write.load.rows.positions import RowNumbers
from omnigraph.write.load.rows.rounding import TimestampUnit, convert_decimals, floor_to_milliseconds
from omnigraph.write.load.rows.zones import UTC, assume_zone, assume_zone_of_texts, to_local
from omnigraph.write.rounding import NO_ROWS, find_rounded_numbers
from omnigraph.write.row_values import InvalidBlob, parse_blob

_TEMPORAL: Final = {
    Scalar.DATE: (FIRST_DAY, LAST_DAY),
    Scalar.DATETIME: (FIRST_MILLISECOND, LAST_MILLISECOND),
}
_TEMPORAL_FORMS: Final = {
    Scalar.DATE: f"a text {DATE_FORM} or days",
    Scalar.DATETIME: f"a text {DATETIME_FORM} or milliseconds",
}
# The forms that Arrow parses exactly as we do. Other forms are converted value by value.
_PLAIN_DATE: Final = r"^\d{4}-\d{2}-\d{2}$"
_PLAIN_DATETIME: Final = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,3})?"
_WITH_ZONE: Final = _PLAIN_DATETIME + r"(Z|[+-]\d{2}:\d{2})$"
_WITHOUT_ZONE: Final = _PLAIN_DATETIME + "$"

# The type stubs of from_arrays lack ``mask``.
_BUILD_LISTS: Final = cast("Callable[..., Values]", pa.ListArray.from_arrays)

_ROUNDING: Final = FLOATS | {Scalar.DATETIME}
"""The types whose values can be rounded."""
_PYTHON_KINDS: Final[Mapping[Scalar, frozenset[type]]] = {
    Scalar.STRING: frozenset({str}),
    Scalar.BOOL: frozenset({bool}),
    **dict.fromkeys(INTEGERS, frozenset({int})),
    **dict.fromkeys(FLOATS, frozenset({int, float})),
}


@dataclass(frozen=True, slots=True)
class RowMismatch:
    """A value that does not have the expected type. Rows count from 0."""

    row: int
    value: object
    message: str


@dataclass(frozen=True, slots=True)
class ConvertedColumn:
    """A converted column. A value that did not fit is null.

    ``rounded`` are the rows whose value was rounded. ``times`` counts integers that were taken as milliseconds.
    """

    values: Values
    mismatches: tuple[RowMismatch, ...] = ()
    rounded: RowNumbers = field(default_factory=lambda: NO_ROWS)
    times: IntegerTimes | None = None


@dataclass(frozen=True, slots=True)
class IntegerTimes:
    """How many integers were taken as milliseconds since 1970, and how many of them are in January 1970."""

    count: int
    january: int

    def __add__(self, other: IntegerTimes) -> IntegerTimes:
        return IntegerTimes(self.count + other.count, self.january + other.january)


_JANUARY: Final = 31 * MILLISECONDS_PER_DAY
"""Seconds since 1970 look like milliseconds in January 1970 until the year 2054."""


def _count_times(numbers: Values) -> IntegerTimes | None:
    present = len(numbers) - numbers.null_count
    if not present:
        return None
    inside = compute(
        "and", compute("greater_equal", numbers, pa.scalar(0)), compute("less", numbers, pa.scalar(_JANUARY))
    )
    return IntegerTimes(present, cast("pa.BooleanArray", inside).true_count)


# --------------------------------------------------------------------------------------------- from Python values


def convert_values(values: Sequence[object], type_: ValueType) -> ConvertedColumn:
    """Convert JSON values, or the Python objects that stand for them, to a column."""
    if type_.is_list or type_.scalar is Scalar.VECTOR:
        return _from_lists(values, type_)
    if type_.scalar is Scalar.BLOB:
        return _convert_blobs(values)
    kinds = set(map(type, values)) - {type(None)}
    if type_.scalar in _TEMPORAL:
        column = _convert_temporal(values, kinds, type_.scalar)
        if column is not None:
            is_number = type_.scalar is Scalar.DATETIME and kinds == {int}
            return ConvertedColumn(column, times=_count_times(column.cast(pa.int64())) if is_number else None)
    else:
        column = _convert_plain(values, type_.scalar) if kinds <= _PYTHON_KINDS[type_.scalar] else None
    return _convert_each(values, type_) if column is None else _check_floats(values, column, type_.scalar)


def _check_floats(values: Sequence[object], column: Values, scalar: Scalar) -> ConvertedColumn:
    """Find the numbers that became 0 in an F32. Arrow itself refuses integers that a float cannot hold."""
    if scalar is not Scalar.F32:
        return ConvertedColumn(column)
    if not len(find_true(compute("equal", column, pa.scalar(0, pa.float32())))):
        return ConvertedColumn(column)
    return ConvertedColumn(column, rounded=find_rounded_numbers(cast("Values", pa.array(values, pa.float64())), column))


def _convert_plain(values: Sequence[object], scalar: Scalar) -> Values | None:
    """Return the column if all values fit, else None."""
    try:
        column: Values = pa.array(values, arrow_type(ValueType(scalar)))
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return None
    # JSON has no infinity, so an infinite value means that a number overflowed F32.
    return None if scalar in FLOATS and not _is_all_true(compute("is_finite", column)) else column


def _convert_temporal(values: Sequence[object], kinds: set[type], scalar: Scalar) -> Values | None:
    if not kinds:
        return make_nulls(len(values), arrow_type(ValueType(scalar)))
    try:
        if kinds == {int}:
            return _from_numbers(cast("Values", pa.array(values, pa.int64())), scalar)
        return _from_texts(cast("Values", pa.array(values, pa.string())), scalar) if kinds == {str} else None
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return None


def _from_numbers(numbers: Values, scalar: Scalar) -> Values | None:
    """Convert days or milliseconds since 1970; None if one is outside the years 1 to 9999."""
    first, last = _TEMPORAL[scalar]
    in_range = compute(
        "and", compute("greater_equal", numbers, pa.scalar(first)), compute("less_equal", numbers, pa.scalar(last))
    )
    if not _is_all_true(in_range):
        return None
    return cast(
        "Values", numbers.cast(pa.int32()).cast(pa.date32()) if scalar is Scalar.DATE else numbers.cast(pa.date64())
    )


def _from_texts(texts: Values, scalar: Scalar) -> Values | None:
    """Convert dates; None if one does not have the plain form."""
    if scalar is Scalar.DATE:
        days = texts.cast(pa.date32()).cast(pa.int32()) if _do_all_match(texts, _PLAIN_DATE) else None
        return None if days is None else _from_numbers(cast("Values", days.cast(pa.int64())), scalar)
    for form, type_ in ((_WITH_ZONE, pa.timestamp("ms", "UTC")), (_WITHOUT_ZONE, pa.timestamp("ms"))):
        if _do_all_match(texts, form):
            return _from_numbers(cast("Values", texts.cast(type_).cast(pa.int64())), scalar)
    return None


def _do_all_match(texts: Values, pattern: str) -> bool:
    return _is_all_true(compute("match_substring_regex", texts, options=pc.MatchSubstringOptions(pattern)))


def _is_all_true(mask: Values) -> bool:
    """Whether a mask is true wherever it is not null."""
    return cast("bool | None", pc.all(cast("pa.BooleanArray", mask)).as_py()) is not False


def _convert_each(values: Iterable[object], type_: ValueType) -> ConvertedColumn:
    target = replace(type_, nullable=True, enum_values=None)
    found: list[ConstantValue] = []
    mismatches: list[RowMismatch] = []
    rounded: list[int] = []
    numbers: list[int] = []
    for row, value in enumerate(values):
        try:
            found.append(_convert_one(value, target))
            if target.scalar in _ROUNDING and is_rounded(value, found[-1]):
                rounded.append(row)
            if target.scalar is Scalar.DATETIME and type(value) is int:
                numbers.append(value)
        except ValueMismatch as mismatch:
            found.append(None)
            mismatches.append(RowMismatch(row, value, f"{mismatch.message}; {mismatch.hint}"))
    times = _count_times(cast("Values", pa.array(numbers, pa.int64()))) if numbers else None
    return ConvertedColumn(arrow_values(target, found), tuple(mismatches), np.array(rounded, np.int64), times)


def _convert_one(value: object, target: ValueType) -> ConstantValue:
    if type(value) is int and target.scalar in _TEMPORAL:
        first, last = _TEMPORAL[target.scalar]
        if not first <= value <= last:
            raise ValueMismatch(f"{value} is outside the years 1 to 9999", f"give {_TEMPORAL_FORMS[target.scalar]}")
        return value
    if isinstance(value, str) and target.scalar in INTEGERS:
        # A parameter may give an integer as a string; a record may not.
        raise ValueMismatch(f"expected {target.scalar}, found a string", "give an integer")
    return convert_value(value, target)


def _convert_blobs(values: Iterable[object]) -> ConvertedColumn:
    found: list[BlobValue | None] = []
    mismatches: list[RowMismatch] = []
    for row, value in enumerate(values):
        try:
            text = convert_value(value, ValueType(Scalar.BLOB, nullable=True))
            found.append(None if text is None else parse_blob(cast(str, text)))
        except (ValueMismatch, InvalidBlob) as mismatch:
            found.append(None)
            mismatches.append(RowMismatch(row, value, f"{mismatch}; give a URI or 'base64:...'"))
    return ConvertedColumn(to_blob_array(found), tuple(mismatches))


# --------------------------------------------------------------------------------------------- lists and vectors


def _from_lists(values: Sequence[object], type_: ValueType) -> ConvertedColumn:
    mismatches: list[RowMismatch] = []
    if not set(map(type, values)) <= {list, type(None)}:
        values, mismatches = _keep_lists(values, type_)
    lists = cast("Sequence[list[object] | None]", values)
    lengths = np.fromiter((0 if each is None else len(each) for each in lists), np.int64, len(lists))
    items = convert_values(list(chain.from_iterable(each for each in lists if each is not None)), _item_of(type_))
    missing = pa.array([each is None for each in lists], pa.bool_())
    return _build_lists(items, lengths, missing, mismatches)


def _keep_lists(values: Sequence[object], type_: ValueType) -> tuple[list[list[object] | None], list[RowMismatch]]:
    found: list[list[object] | None] = []
    mismatches: list[RowMismatch] = []
    for row, value in enumerate(values):
        if isinstance(value, list | tuple | np.ndarray):
            found.append(list(cast("Iterable[object]", value)))
            continue
        found.append(None)
        if value is not None:
            mismatches.append(RowMismatch(row, value, f"expected {replace(type_, nullable=False)}; give an array"))
    return found, mismatches


def _item_of(type_: ValueType) -> ValueType:
    return ValueType(Scalar.F32) if type_.scalar is Scalar.VECTOR else type_.item


def _build_lists(
    items: ConvertedColumn,
    lengths: npt.NDArray[np.int64],
    missing: pa.BooleanArray,
    mismatches: Iterable[RowMismatch] = (),
) -> ConvertedColumn:
    """Build lists of these lengths from items. A mismatch of an item becomes a mismatch of its list."""
    ends = np.cumsum(lengths)
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    field = pa.field("item", items.values.type)
    lists = _BUILD_LISTS(offsets, items.values, pa.list_(field), mask=missing)
    within = (replace(each, row=int(np.searchsorted(ends, each.row, side="right"))) for each in items.mismatches)
    ordered = tuple(sorted([*mismatches, *within], key=lambda each: each.row))
    rounded = np.unique(np.searchsorted(ends, items.rounded, side="right")).astype(np.int64)
    return ConvertedColumn(lists, ordered, rounded, items.times)


# --------------------------------------------------------------------------------------------- from Arrow columns


def can_convert(found: pa.DataType, type_: ValueType) -> bool:
    """Whether a column of an Arrow type can be converted to a type at all. Single values may still not fit."""
    found = cast("pa.DataType", found.value_type) if isinstance(found, pa.DictionaryType) else found
    if pa.types.is_null(found):
        return True
    if type_.is_list or type_.scalar is Scalar.VECTOR:
        return _is_list(found) and can_convert(cast("pa.ListType[pa.DataType]", found).value_type, _item_of(type_))
    if type_.scalar in INTEGERS:
        return pa.types.is_integer(found) or pa.types.is_decimal(found)
    if type_.scalar in FLOATS:
        return pa.types.is_integer(found) or pa.types.is_floating(found) or pa.types.is_decimal(found)
    if type_.scalar is Scalar.BOOL:
        return pa.types.is_boolean(found)
    if type_.scalar in _TEMPORAL:
        return _is_text(found) or pa.types.is_integer(found) or pa.types.is_date(found) or pa.types.is_timestamp(found)
    return _is_text(found) or (type_.scalar is Scalar.BLOB and _is_binary(found))


def convert_arrow(column: Values, type_: ValueType, zone: str = UTC) -> ConvertedColumn:
    """Convert an Arrow column for which :func:`can_convert` is true. ``zone`` is that of times without one."""
    if isinstance(column, pa.DictionaryArray):
        column = _copy_view(cast("Values", column.dictionary)).take(cast("pa.Int64Array", column.indices))
    if pa.types.is_null(column.type):
        return ConvertedColumn(make_nulls(len(column), _arrow_target(type_)))
    if type_.is_list or type_.scalar is Scalar.VECTOR:
        return _from_arrow_lists(column, type_, zone)
    if type_.scalar is Scalar.BLOB:
        return _from_arrow_blobs(column)
    if type_.scalar in _TEMPORAL:
        return _from_arrow_times(column, type_, zone)
    return _from_arrow_plain(column, type_)


def _arrow_target(type_: ValueType) -> pa.DataType:
    if type_.scalar is Scalar.VECTOR:
        return pa.list_(pa.field("item", pa.float32()))
    return arrow_field("", type_).type


def _from_arrow_plain(column: Values, type_: ValueType) -> ConvertedColumn:
    if type_.scalar in FLOATS and pa.types.is_decimal(column.type):
        return _from_decimals(column, type_)
    try:
        # Only floats may be rounded. An integer that does not fit is a mismatch.
        found = column.cast(arrow_type(replace(type_, enum_values=None)), safe=type_.scalar not in FLOATS)
    except pa.ArrowInvalid:
        return _convert_each(to_list(column), type_)
    if type_.scalar is Scalar.F32 and not _is_all_true(compute("is_finite", found)):
        return _convert_each(to_list(column), type_)
    return ConvertedColumn(found, rounded=find_rounded_numbers(column, found) if type_.scalar in FLOATS else NO_ROWS)


def _from_decimals(column: Values, type_: ValueType) -> ConvertedColumn:
    """Convert decimals to the floats that print the same digits. Another decimal is a mismatch."""
    converted = convert_decimals(column, arrow_type(type_))
    if converted is None or len(converted[1]) or not _is_all_true(compute("is_finite", converted[0])):
        return _convert_each(to_list(column), type_)
    return ConvertedColumn(converted[0])


def _from_arrow_times(column: Values, type_: ValueType, zone: str) -> ConvertedColumn:
    if pa.types.is_integer(column.type) or _is_text(column.type):
        return _from_numbers_or_texts(column, type_, zone)
    finite, infinite = _drop_infinite_times(column, type_)
    converted = _from_finite_times(finite, type_, zone)
    mismatches = sorted([*converted.mismatches, *infinite], key=lambda each: each.row)
    return replace(converted, mismatches=tuple(mismatches)) if infinite else converted


def _drop_infinite_times(column: Values, type_: ValueType) -> tuple[Values, list[RowMismatch]]:
    """Return dates and times without those that are infinite, and a mismatch for each of these."""
    found = [
        RowMismatch(row, word, f"expected {type_.scalar}, found {word}; give a time of the years 1 to 9999, or null")
        for row, word in name_infinite_times(column).items()
    ]
    if not found:
        return column, []
    is_infinite = np.zeros(len(column), np.bool_)
    is_infinite[[each.row for each in found]] = True
    return compute("if_else", pa.array(is_infinite), pa.scalar(None, column.type), column), found


def name_infinite_times(column: Values) -> dict[int, str]:
    """Return the infinite dates or times of a column as words, by row.

    Arrow has no infinite times: DuckDB writes the largest number of days or of units, and its negative.
    """
    integer = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
    numbers = column.view(integer)
    largest = 2 ** (integer.bit_width - 1) - 1
    # Arrow cannot convert more seconds than these to milliseconds.
    limit = largest // 1000 if _is_in_seconds(column.type) else largest
    above, below = (
        find_true(compute(comparison, numbers, pa.scalar(bound, integer)))
        for comparison, bound in (("greater_equal", limit), ("less_equal", -limit))
    )
    return dict.fromkeys(above.tolist(), "infinity") | dict.fromkeys(below.tolist(), "-infinity")


def _is_in_seconds(type_: pa.DataType) -> bool:
    return pa.types.is_timestamp(type_) and cast("TimestampUnit", type_).unit == "s"


def _from_finite_times(column: Values, type_: ValueType, zone: str) -> ConvertedColumn:
    scalar, rounded = type_.scalar, NO_ROWS
    if pa.types.is_date64(column.type):
        milliseconds = column.cast(pa.int64())
    elif pa.types.is_date32(column.type):
        milliseconds = pc.multiply(column.cast(pa.int32()).cast(pa.int64()), pa.scalar(MILLISECONDS_PER_DAY))
        if scalar is Scalar.DATETIME:
            milliseconds = assume_zone(cast("Values", milliseconds), zone)
    else:
        milliseconds, rounded = floor_to_milliseconds(column)
        has_zone = cast("TimestampUnit", column.type).tz is not None
        if scalar is Scalar.DATETIME and not has_zone:
            milliseconds = assume_zone(milliseconds, zone)
        elif scalar is Scalar.DATE:
            local = to_local(milliseconds, zone) if has_zone else milliseconds
            # Digits below a millisecond are a time of day too.
            milliseconds = compute("add", local, pa.array(np.bincount(rounded, minlength=len(column)), pa.int64()))
    if scalar is Scalar.DATETIME:
        return replace(_to_temporal(cast("Values", milliseconds), type_), rounded=rounded)
    days = pc.divide(milliseconds, pa.scalar(MILLISECONDS_PER_DAY))
    return _to_days(cast("Values", milliseconds), cast("Values", days), type_)


def _from_numbers_or_texts(column: Values, type_: ValueType, zone: str) -> ConvertedColumn:
    values = _convert_numbers_or_texts(column, type_.scalar)
    converted = _convert_each(to_list(column), type_) if values is None else ConvertedColumn(values)
    if type_.scalar is not Scalar.DATETIME:
        return converted
    if pa.types.is_integer(column.type):
        return replace(converted, times=_count_times(converted.values.cast(pa.int64())))
    if zone == UTC:
        return converted
    moved = assume_zone_of_texts(converted.values.cast(pa.int64()), column.cast(pa.string()), zone)
    return replace(converted, values=_to_temporal(moved, type_).values)


def _convert_numbers_or_texts(column: Values, scalar: Scalar) -> Values | None:
    try:
        if pa.types.is_integer(column.type):
            return _from_numbers(cast("Values", column.cast(pa.int64())), scalar)
        return _from_texts(cast("Values", column.cast(pa.string())), scalar)
    except pa.ArrowInvalid:
        return None


def _to_temporal(milliseconds: Values, type_: ValueType) -> ConvertedColumn:
    column = _from_numbers(milliseconds, type_.scalar)
    return _convert_each(to_list(milliseconds), type_) if column is None else ConvertedColumn(column)


def _to_days(milliseconds: Values, days: Values, type_: ValueType) -> ConvertedColumn:
    """Convert days. A value with a time of day is a mismatch."""
    whole = compute("equal", compute("multiply", days, pa.scalar(MILLISECONDS_PER_DAY)), milliseconds)
    if _is_all_true(whole):
        return _to_temporal(days, type_)
    kept = _to_temporal(compute("if_else", whole, days, pa.scalar(None, pa.int64())), type_)
    timed = (
        RowMismatch(
            row,
            to_list(milliseconds.slice(row, 1))[0],
            f"expected {type_.scalar}, found a time of day; remove it",
        )
        for row in find_true(compute("invert", whole)).tolist()
    )
    return ConvertedColumn(kept.values, tuple(sorted([*kept.mismatches, *timed], key=lambda each: each.row)))


def _from_arrow_lists(column: Values, type_: ValueType, zone: str) -> ConvertedColumn:
    item = cast("pa.ListType[pa.DataType]", column.type).value_type
    lists = column.cast(pa.large_list(pa.field("item", pa.string() if pa.types.is_string_view(item) else item)))
    missing = lists.is_null()
    present_lists = cast("pa.LargeListArray[pa.DataType]", lists.drop_null())
    lengths = np.zeros(len(lists), np.int64)
    present = np.flatnonzero(~missing.to_numpy(zero_copy_only=False))
    lengths[present] = present_lists.value_lengths().to_numpy(zero_copy_only=False)
    items = convert_arrow(cast("Values", present_lists.flatten()), _item_of(type_), zone)
    return _build_lists(items, lengths, missing)


def _from_arrow_blobs(column: Values) -> ConvertedColumn:
    if _is_text(column.type):
        return _convert_blobs(to_list(column))
    contents = cast("list[bytes | None]", to_list(column))
    return ConvertedColumn(to_blob_array([None if data is None else _to_inline_blob(data) for data in contents]))


def _to_inline_blob(data: bytes) -> BlobValue:
    return BlobValue(data=data, uri=None, position=None, size=None)


def _copy_view(values: Values) -> Values:
    """Copy a string view, which polars produces and most functions of Arrow do not support."""
    return values.cast(pa.string()) if pa.types.is_string_view(values.type) else values


def _is_text(type_: pa.DataType) -> bool:
    return pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)


def _is_binary(type_: pa.DataType) -> bool:
    return pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_)


def _is_list(type_: pa.DataType) -> bool:
    return pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_)
