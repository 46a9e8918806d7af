"""Values of records as columns of a type's table.

A whole column is converted at once where all its values are of the kind that the property wants. Where one is not,
that column of the batch is read value by value, and what does not fit becomes a :class:`Mismatch` and a null.
Rules of the schema are not looked at here: an enum is a text, a vector a list of any length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain
from typing import Final, TypeVar, cast

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
)
from omnigraph.read.rows import BlobValue, to_blob_array
from omnigraph.storage.arrow_schema import arrow_field, arrow_type, arrow_values
from omnigraph.storage.columns import Values, absent, compute, places, to_list
from omnigraph.write.blobs import NotBase64, parse_blob

Item = TypeVar("Item")

_TEMPORAL: Final = {
    Scalar.DATE: (FIRST_DAY, LAST_DAY),
    Scalar.DATETIME: (FIRST_MILLISECOND, LAST_MILLISECOND),
}
_TEMPORAL_FORMS: Final = {
    Scalar.DATE: f"a text {DATE_FORM} or days",
    Scalar.DATETIME: f"a text {DATETIME_FORM} or milliseconds",
}
_PLAIN_DATE: Final = r"^\d{4}-\d{2}-\d{2}$"
# What Arrow reads exactly as we do; any other form is read value by value.
_PLAIN_DATETIME: Final = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,3})?"
_WITH_ZONE: Final = _PLAIN_DATETIME + r"(Z|[+-]\d{2}:\d{2})$"
_WITHOUT_ZONE: Final = _PLAIN_DATETIME + "$"

# The stubs of from_arrays know no mask.
_LISTS: Final = cast("Callable[..., Values]", pa.ListArray.from_arrays)

_PYTHON_KINDS: Final[Mapping[Scalar, frozenset[type]]] = {
    Scalar.STRING: frozenset({str}),
    Scalar.BOOL: frozenset({bool}),
    **dict.fromkeys(INTEGERS, frozenset({int})),
    **dict.fromkeys(FLOATS, frozenset({int, float})),
}


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A value that is not of the type that was asked for; rows count from 0."""

    row: int
    value: object
    message: str


@dataclass(frozen=True, slots=True)
class Converted:
    """A column, with null in place of what did not fit."""

    values: Values
    mismatches: tuple[Mismatch, ...] = ()


# --------------------------------------------------------------------------------------------- from Python values


def from_values(values: Sequence[object], type_: ValueType) -> Converted:
    """A column from JSON values, or from the Python objects that stand for them."""
    if type_.is_list or type_.scalar is Scalar.VECTOR:
        return _from_lists(values, type_)
    if type_.scalar is Scalar.BLOB:
        return _blobs(values)
    kinds = set(map(type, values)) - {type(None)}
    if type_.scalar in _TEMPORAL:
        known = _temporal(values, kinds, type_.scalar)
    else:
        known = _plain(values, type_.scalar) if kinds <= _PYTHON_KINDS[type_.scalar] else None
    return _one_by_one(values, type_) if known is None else Converted(known)


def _plain(values: Sequence[object], scalar: Scalar) -> Values | None:
    """The column, if all values fit."""
    try:
        column: Values = pa.array(values, arrow_type(ValueType(scalar)))
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return None
    # JSON has no infinity: one is the overflow of a number that F32 cannot hold.
    return None if scalar in FLOATS and not _all(compute("is_finite", column)) else column


def _temporal(values: Sequence[object], kinds: set[type], scalar: Scalar) -> Values | None:
    if not kinds:
        return absent(len(values), arrow_type(ValueType(scalar)))
    try:
        if kinds == {int}:
            return _from_numbers(cast("Values", pa.array(values, pa.int64())), scalar)
        return _from_texts(cast("Values", pa.array(values, pa.string())), scalar) if kinds == {str} else None
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return None


def _from_numbers(numbers: Values, scalar: Scalar) -> Values | None:
    """Days or milliseconds since 1970, if all of them lie in the years 1 to 9999."""
    first, last = _TEMPORAL[scalar]
    inside = compute(
        "and", compute("greater_equal", numbers, pa.scalar(first)), compute("less_equal", numbers, pa.scalar(last))
    )
    if not _all(inside):
        return None
    return cast(
        "Values", numbers.cast(pa.int32()).cast(pa.date32()) if scalar is Scalar.DATE else numbers.cast(pa.date64())
    )


def _from_texts(texts: Values, scalar: Scalar) -> Values | None:
    """Dates, if all of them have the plain form."""
    if scalar is Scalar.DATE:
        days = texts.cast(pa.date32()).cast(pa.int32()) if _all_match(texts, _PLAIN_DATE) else None
        return None if days is None else _from_numbers(cast("Values", days.cast(pa.int64())), scalar)
    for form, type_ in ((_WITH_ZONE, pa.timestamp("ms", "UTC")), (_WITHOUT_ZONE, pa.timestamp("ms"))):
        if _all_match(texts, form):
            return _from_numbers(cast("Values", texts.cast(type_).cast(pa.int64())), scalar)
    return None


def _all_match(texts: Values, pattern: str) -> bool:
    return _all(compute("match_substring_regex", texts, options=pc.MatchSubstringOptions(pattern)))


def _all(mask: Values) -> bool:
    """Whether a mask is true wherever it is not null."""
    return cast("bool | None", pc.all(cast("pa.BooleanArray", mask)).as_py()) is not False


def _one_by_one(values: Iterable[object], type_: ValueType) -> Converted:
    wanted = replace(type_, nullable=True, enum_values=None)
    found: list[ConstantValue] = []
    mismatches: list[Mismatch] = []
    for row, value in enumerate(values):
        try:
            found.append(_one(value, wanted))
        except ValueMismatch as mismatch:
            found.append(None)
            mismatches.append(Mismatch(row, value, f"{mismatch.message}; {mismatch.hint}"))
    return Converted(arrow_values(wanted, found), tuple(mismatches))


def _one(value: object, wanted: ValueType) -> ConstantValue:
    if type(value) is int and wanted.scalar in _TEMPORAL:
        first, last = _TEMPORAL[wanted.scalar]
        if not first <= value <= last:
            raise ValueMismatch(f"{value} is outside the years 1 to 9999", f"give {_TEMPORAL_FORMS[wanted.scalar]}")
        return value
    if isinstance(value, str) and wanted.scalar in INTEGERS:
        # A parameter may spell an integer as a text; a record that does is wrong about its type.
        raise ValueMismatch(f"expected {wanted.scalar}, found a string", "give an integer")
    return convert_value(value, wanted)


def _blobs(values: Iterable[object]) -> Converted:
    found: list[BlobValue | None] = []
    mismatches: list[Mismatch] = []
    for row, value in enumerate(values):
        try:
            text = convert_value(value, ValueType(Scalar.BLOB, nullable=True))
            found.append(None if text is None else parse_blob(cast(str, text)))
        except (ValueMismatch, NotBase64) as mismatch:
            found.append(None)
            mismatches.append(Mismatch(row, value, f"{mismatch}; give a URI or 'base64:...'"))
    return Converted(to_blob_array(found), tuple(mismatches))


# --------------------------------------------------------------------------------------------- lists and vectors


def _from_lists(values: Sequence[object], type_: ValueType) -> Converted:
    wrong: list[Mismatch] = []
    if not set(map(type, values)) <= {list, type(None)}:
        values, wrong = _lists_alone(values, type_)
    lists = cast("Sequence[list[object] | None]", values)
    lengths = np.fromiter((0 if each is None else len(each) for each in lists), np.int64, len(lists))
    items = from_values(list(chain.from_iterable(each for each in lists if each is not None)), _item_of(type_))
    absent = pa.array([each is None for each in lists], pa.bool_())
    return _listed(items, lengths, absent, wrong)


def _lists_alone(values: Sequence[object], type_: ValueType) -> tuple[list[list[object] | None], list[Mismatch]]:
    found: list[list[object] | None] = []
    wrong: list[Mismatch] = []
    for row, value in enumerate(values):
        if isinstance(value, list | tuple | np.ndarray):
            found.append(list(cast("Iterable[object]", value)))
            continue
        found.append(None)
        if value is not None:
            wrong.append(Mismatch(row, value, f"expected {replace(type_, nullable=False)}; give an array"))
    return found, wrong


def _item_of(type_: ValueType) -> ValueType:
    return ValueType(Scalar.F32) if type_.scalar is Scalar.VECTOR else type_.item


def _listed(
    items: Converted, lengths: npt.NDArray[np.int64], absent: pa.BooleanArray, wrong: Iterable[Mismatch] = ()
) -> Converted:
    """Items as lists of these lengths; what is wrong with an item is wrong with its list."""
    ends = np.cumsum(lengths)
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    field = pa.field("item", items.values.type)
    lists = _LISTS(offsets, items.values, pa.list_(field), mask=absent)
    within = (replace(each, row=int(np.searchsorted(ends, each.row, side="right"))) for each in items.mismatches)
    return Converted(lists, tuple(sorted([*wrong, *within], key=lambda each: each.row)))


# --------------------------------------------------------------------------------------------- from Arrow columns


def can_convert(found: pa.DataType, type_: ValueType) -> bool:
    """Whether a column of an Arrow type may hold values of a type at all."""
    found = cast("pa.DataType", found.value_type) if isinstance(found, pa.DictionaryType) else found
    if pa.types.is_null(found):
        return True
    if type_.is_list or type_.scalar is Scalar.VECTOR:
        return _is_list(found) and can_convert(cast("pa.ListType[pa.DataType]", found).value_type, _item_of(type_))
    if type_.scalar in INTEGERS:
        # Spark has no unsigned integers, and gives the large ones as decimals.
        return pa.types.is_integer(found) or (pa.types.is_decimal128(found) and cast(int, found.scale) == 0)
    if type_.scalar in FLOATS:
        return pa.types.is_integer(found) or pa.types.is_floating(found)
    if type_.scalar is Scalar.BOOL:
        return pa.types.is_boolean(found)
    if type_.scalar in _TEMPORAL:
        return _is_text(found) or pa.types.is_integer(found) or pa.types.is_date(found) or pa.types.is_timestamp(found)
    return _is_text(found) or (type_.scalar is Scalar.BLOB and _is_binary(found))


def from_arrow(column: Values, type_: ValueType) -> Converted:
    """A column from an Arrow column that :func:`can_convert`."""
    if isinstance(column, pa.DictionaryArray):
        column = _owning(cast("Values", column.dictionary)).take(cast("pa.Int64Array", column.indices))
    if pa.types.is_null(column.type):
        return Converted(absent(len(column), _target(type_)))
    if type_.is_list or type_.scalar is Scalar.VECTOR:
        return _from_arrow_lists(column, type_)
    if type_.scalar is Scalar.BLOB:
        return _from_arrow_blobs(column)
    if type_.scalar in _TEMPORAL:
        return _from_arrow_times(column, type_)
    return _from_arrow_plain(column, type_)


def _target(type_: ValueType) -> pa.DataType:
    if type_.scalar is Scalar.VECTOR:
        return pa.list_(pa.field("item", pa.float32()))
    return arrow_field("", type_).type


def _from_arrow_plain(column: Values, type_: ValueType) -> Converted:
    try:
        # Only a float may be rounded: an integer that does not fit is refused.
        found = column.cast(arrow_type(replace(type_, enum_values=None)), safe=type_.scalar not in FLOATS)
    except pa.ArrowInvalid:
        given = to_list(column)
        return _one_by_one([int(each) if isinstance(each, Decimal) else each for each in given], type_)
    if type_.scalar is Scalar.F32 and not _all(compute("is_finite", found)):
        return _one_by_one(to_list(column), type_)
    return Converted(found)


def _from_arrow_times(column: Values, type_: ValueType) -> Converted:
    scalar = type_.scalar
    if pa.types.is_integer(column.type) or _is_text(column.type):
        known = _numbers_or_texts(column, scalar)
        return _one_by_one(to_list(column), type_) if known is None else Converted(known)
    if pa.types.is_date64(column.type):
        milliseconds = column.cast(pa.int64())
    elif pa.types.is_date32(column.type):
        milliseconds = pc.multiply(column.cast(pa.int32()).cast(pa.int64()), pa.scalar(MILLISECONDS_PER_DAY))
    else:
        floored = compute("floor_temporal", column, options=pc.RoundTemporalOptions(unit="millisecond"))
        milliseconds = floored.cast(pa.timestamp("ms")).cast(pa.int64())
    if scalar is Scalar.DATETIME:
        return _whole_instants(cast("Values", milliseconds), type_)
    days = pc.divide(milliseconds, pa.scalar(MILLISECONDS_PER_DAY))
    return _whole_days(cast("Values", milliseconds), cast("Values", days), type_)


def _numbers_or_texts(column: Values, scalar: Scalar) -> Values | None:
    try:
        if pa.types.is_integer(column.type):
            return _from_numbers(cast("Values", column.cast(pa.int64())), scalar)
        return _from_texts(cast("Values", column.cast(pa.string())), scalar)
    except pa.ArrowInvalid:
        return None


def _whole_instants(milliseconds: Values, type_: ValueType) -> Converted:
    known = _from_numbers(milliseconds, type_.scalar)
    return _one_by_one(to_list(milliseconds), type_) if known is None else Converted(known)


def _whole_days(milliseconds: Values, days: Values, type_: ValueType) -> Converted:
    """Days, where a time of day is a mismatch."""
    whole = compute("equal", compute("multiply", days, pa.scalar(MILLISECONDS_PER_DAY)), milliseconds)
    if _all(whole):
        return _whole_instants(days, type_)
    kept = _whole_instants(compute("if_else", whole, days, pa.scalar(None, pa.int64())), type_)
    timed = (
        Mismatch(
            row, to_list(milliseconds.slice(row, 1))[0], f"expected {type_.scalar}, found a time of day; cut it off"
        )
        for row in places(compute("invert", whole)).tolist()
    )
    return Converted(kept.values, tuple(sorted([*kept.mismatches, *timed], key=lambda each: each.row)))


def _from_arrow_lists(column: Values, type_: ValueType) -> Converted:
    item = cast("pa.ListType[pa.DataType]", column.type).value_type
    lists = column.cast(pa.large_list(pa.field("item", pa.string() if pa.types.is_string_view(item) else item)))
    absent = lists.is_null()
    there = cast("pa.LargeListArray[pa.DataType]", lists.drop_null())
    lengths = np.zeros(len(lists), np.int64)
    present = np.flatnonzero(~absent.to_numpy(zero_copy_only=False))
    lengths[present] = there.value_lengths().to_numpy(zero_copy_only=False)
    return _listed(from_arrow(cast("Values", there.flatten()), _item_of(type_)), lengths, absent)


def _from_arrow_blobs(column: Values) -> Converted:
    if _is_text(column.type):
        return _blobs(to_list(column))
    contents = cast("list[bytes | None]", to_list(column))
    return Converted(to_blob_array([None if data is None else _inline(data) for data in contents]))


def _inline(data: bytes) -> BlobValue:
    return BlobValue(data=data, uri=None, position=None, size=None)


def _owning(values: Values) -> Values:
    """Most of Arrow's functions do not know views, which polars gives."""
    return values.cast(pa.string()) if pa.types.is_string_view(values.type) else values


def _is_text(type_: pa.DataType) -> bool:
    return pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)


def _is_binary(type_: pa.DataType) -> bool:
    return pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_)


def _is_list(type_: pa.DataType) -> bool:
    return pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_)
