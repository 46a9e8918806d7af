"""Values: conversion from text, JSON and Python objects, dates and instants. The only home of these for all floors.

A converted value is a :data:`ConstantValue`: a date is days, a date-time is milliseconds since 1970, and an ``F32`` is
rounded to its width. A value that does not fit raises :class:`ValueMismatch`, which says what was expected and found.
"""

from __future__ import annotations

import math
import re
import struct
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Final, Protocol, Self, TypeAlias, cast, runtime_checkable

from omnigraph.errors import ParameterError
from omnigraph.language.source import suggest_similar
from omnigraph.language.types import INTEGER_RANGES, Scalar, ValueType

ConstantValue: TypeAlias = "str | int | float | bool | tuple[ConstantValue, ...] | None"
"""Dates are days since 1970, date-times are milliseconds since 1970 UTC; the type says which."""

LARGEST_EXACT_FLOAT: Final = 2**53
"""Every integer up to this size is an F64 without rounding."""

DATE_FORM = "YYYY-MM-DD"
DATETIME_FORM = "YYYY-MM-DDTHH:MM:SSZ"

_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
_DATETIME = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})"
    r"(?:[Tt ](?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)(?:\.(?P<fraction>\d{1,9}))?)?"
    r" ?(?P<zone>[Zz]|[+-](?:[01]\d|2[0-3]):?[0-5]\d)?)?",
    re.ASCII,
)
_INTEGER = re.compile(r"-?\d{1,20}", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = _EPOCH.toordinal()
_MILLISECOND: Final = timedelta(milliseconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)
_MAX_PRINTED_BITS = 128

MILLISECONDS_PER_DAY: Final = 86_400_000
FIRST_DAY: Final = date.min.toordinal() - _EPOCH_DAY
LAST_DAY: Final = date.max.toordinal() - _EPOCH_DAY
FIRST_MILLISECOND: Final = FIRST_DAY * MILLISECONDS_PER_DAY
LAST_MILLISECOND: Final = (LAST_DAY + 1) * MILLISECONDS_PER_DAY - 1


class ValueMismatch(Exception):
    """A value does not have the expected type."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


# ------------------------------------------------------------------------------------------------ instants


def to_days(day: date) -> int:
    """Return the days since 1970."""
    return day.toordinal() - _EPOCH_DAY


def from_days(days: int) -> date:
    """Return the date that many days after 1970-01-01."""
    return date.fromordinal(days + _EPOCH_DAY)


def to_milliseconds(instant: datetime) -> int:
    """Return the milliseconds since 1970 UTC, rounded down."""
    # The difference of a pandas timestamp divides to an integer of NumPy.
    return int((instant - _EPOCH) // _MILLISECOND)


def from_milliseconds(milliseconds: int) -> datetime:
    """Return the instant, in UTC, that many milliseconds after 1970."""
    return _EPOCH + milliseconds * _MILLISECOND


def to_microseconds(instant: datetime) -> int:
    """Return the microseconds since 1970 UTC."""
    return (instant - _EPOCH) // _MICROSECOND


def from_microseconds(microseconds: int) -> datetime:
    """Return the instant, in UTC, that many microseconds after 1970; ``OverflowError`` beyond the year 9999."""
    return _EPOCH + microseconds * _MICROSECOND


def now_milliseconds() -> int:
    """Return the current time in milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


def now_microseconds() -> int:
    """Return the current time in microseconds since 1970 UTC."""
    return time.time_ns() // 1000


# ------------------------------------------------------------------------------------------------ date texts


def parse_date(text: str) -> int:
    """Return the days since 1970 of ``YYYY-MM-DD``."""
    found = _DATE.fullmatch(text)
    if found is not None:
        with suppress(ValueError):  # such as the 30th of February
            return to_days(date(*map(int, found.groups())))
    raise ValueMismatch(f"'{text}' is not a date", f"write {DATE_FORM}")


def parse_datetime(text: str) -> int:
    """Return the milliseconds since 1970 UTC of a date-time. The default zone is UTC, the default time midnight.

    Digits after the millisecond are cut off.
    """
    found = _DATETIME.fullmatch(text)
    if found is None:
        raise ValueMismatch(f"'{text}' is not a date-time", f"write {DATETIME_FORM}")
    minutes = int(found["hour"] or 0) * 60 + int(found["minute"] or 0) - _zone_minutes(found["zone"])
    seconds = int(found["second"] or 0)
    fraction = int((found["fraction"] or "").ljust(3, "0")[:3])
    instant = parse_date(found["date"]) * MILLISECONDS_PER_DAY + minutes * 60_000 + seconds * 1000 + fraction
    if not FIRST_MILLISECOND <= instant <= LAST_MILLISECOND:
        raise ValueMismatch(f"'{text}' is outside the years 1 to 9999 in UTC", "write an earlier or later time")
    return instant


def parse_instant(text: str) -> datetime:
    """Read an ISO 8601 date or time that names a moment in history; without a zone it is UTC."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise ParameterError(f"'{text}' is no date or time", hint="write 2024-05-01 or 2024-05-01T10:00Z") from error
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def _zone_minutes(zone: str | None) -> int:
    if zone is None or zone in "Zz":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return -minutes if zone[0] == "-" else minutes


# ------------------------------------------------------------------------------------------------ patterns


def find_pattern_error(pattern: str) -> str | None:
    """Return what is wrong with a regular expression of RE2, or None."""
    # Arrow has the RE2 that will run the pattern; texts without patterns do not import it. An array made from a list
    # would import pandas too.
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.nulls(1, pa.string()), pattern)
    except pa.ArrowInvalid as error:
        return str(error).removeprefix("Invalid regular expression: ")
    return None


# ------------------------------------------------------------------------------------------------ conversion


def convert_value(value: object, to: ValueType) -> ConstantValue:
    """Convert a JSON value, or a Python, NumPy or Arrow object, to a value of a type."""
    plain = _unwrap(value)
    if plain is None:
        if to.nullable:
            return None
        raise ValueMismatch(f"expected {to}, found null", f"give a value, or declare the type as {to}?")
    if to.is_list:
        return _convert_items(_expect_items(plain, to), to.item)
    if to.scalar is Scalar.VECTOR:
        return _convert_vector(plain, to)
    if to.enum_values is not None:
        return _expect_member(_convert_string(plain, to), to.enum_values)
    return _CONVERTERS[to.scalar](plain, to)


def is_rounded(value: object, converted: ConstantValue) -> bool:
    """Whether a conversion to a float or a date-time rounded a value.

    Rounded are integers that the float cannot hold, numbers that became 0, and times below a millisecond. The nearest
    float of a decimal is not rounded: that is what a float means.
    """
    plain = _unwrap(value)
    if isinstance(plain, int):
        return converted != plain
    if isinstance(plain, float):
        return bool(plain) and not converted
    if isinstance(plain, str):
        found = _DATETIME.fullmatch(plain)
        return found is not None and bool((found["fraction"] or "")[3:].strip("0"))
    # The timestamps of pandas have nanoseconds too.
    return isinstance(plain, datetime) and bool(plain.microsecond % 1000 or getattr(plain, "nanosecond", 0))


def keep_integers(given: object, converted: ConstantValue) -> ConstantValue:
    """Return a converted value with the integers that the conversion rounded, so that comparisons stay exact."""
    plain = _unwrap(given)
    if isinstance(converted, tuple) and isinstance(plain, list | tuple):
        items = cast("list[object] | tuple[object, ...]", plain)
        return tuple(keep_integers(item, number) for item, number in zip(items, converted, strict=True))
    return plain if isinstance(plain, int) and is_rounded(plain, converted) else converted


def round_to_f32(value: float) -> float:
    """Return the ``F32`` nearest to a finite number; infinity if the number is too large."""
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def fit_to_f32(number: float) -> float:
    """Return the ``F32`` that a number stands for, or the number itself where no ``F32`` is as large."""
    nearest = round_to_f32(number)
    return nearest if math.isfinite(nearest) else number


@runtime_checkable
class _ArrowValue(Protocol):
    def as_py(self) -> object: ...


@runtime_checkable
class _NumpyValue(Protocol):
    def tolist(self) -> object: ...


@runtime_checkable
class _Decimal(Protocol):
    """A ``Decimal``, whose module need not be imported."""

    def __init__(self, value: str, /) -> None: ...

    def is_finite(self) -> bool: ...

    def to_integral_value(self) -> Self: ...

    def __int__(self) -> int: ...

    def __float__(self) -> float: ...


def _unwrap(value: object) -> object:
    """Return the Python object inside a NumPy or Arrow one. Protocols recognise them, so neither is imported."""
    if type(value) in _PLAIN:  # looking for a protocol takes ten times as long as the conversion of a number
        return value
    if isinstance(value, _ArrowValue):
        # as_py of a date64 loses the time of day.
        milliseconds = getattr(value, "value", None) if type(value).__name__ == "Date64Scalar" else None
        return value.as_py() if milliseconds is None else from_milliseconds(cast(int, milliseconds))
    return value.tolist() if isinstance(value, _NumpyValue) else value


def _expect_items(value: object, to: ValueType) -> list[object] | tuple[object, ...]:
    if not isinstance(value, list | tuple):
        raise _mismatch(value, to)
    return cast("list[object] | tuple[object, ...]", value)


def _convert_items(items: list[object] | tuple[object, ...], to: ValueType) -> tuple[ConstantValue, ...]:
    """Convert the elements of a list: all at once if they have the usual type, else one by one."""
    convert_all = None if to.enum_values is not None else _WHOLE_LISTS.get(to.scalar)
    whole = None if convert_all is None else convert_all(items, to)
    if whole is not None:
        return whole
    return tuple(_convert_item(item, to, place) for place, item in enumerate(items))


def _convert_item(item: object, to: ValueType, place: int) -> ConstantValue:
    try:
        return convert_value(item, to)
    except ValueMismatch as mismatch:
        raise ValueMismatch(f"element {place}: {mismatch.message}", mismatch.hint) from None


def _convert_vector(value: object, to: ValueType) -> ConstantValue:
    items = _expect_items(value, to)
    if len(items) != to.dimension:
        raise ValueMismatch(f"expected {to}, found {len(items)} numbers", f"give exactly {to.dimension} numbers")
    return _convert_items(items, ValueType(Scalar.F32))


def _expect_member(value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        one_of = f"write one of {', '.join(allowed)}"
        raise ValueMismatch(
            f"'{value}' is not in enum({', '.join(allowed)})", suggest_similar(value, allowed) or one_of
        )
    return value


def _convert_string(value: object, to: ValueType) -> str:
    if not isinstance(value, str):
        raise _mismatch(value, to)
    # A lone surrogate (an unpaired escape in JSON) has no UTF-8 form and could not be stored.
    if _SURROGATE.search(value):
        raise ValueMismatch("the text holds half of a surrogate pair", "send the whole character")
    return value


def _convert_bool(value: object, to: ValueType) -> bool:
    if not isinstance(value, bool):
        raise _mismatch(value, to)
    return value


def _convert_integer(value: object, to: ValueType) -> int:
    if type(value) not in _PLAIN and isinstance(value, _Decimal):
        value = _convert_whole_decimal(value, to)
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _mismatch(value, to)
    allowed = INTEGER_RANGES[to.scalar]
    if value not in allowed:
        raise ValueMismatch(
            f"{_describe_number(value)} does not fit {to.scalar}", f"it holds {allowed[0]} to {allowed[-1]}"
        )
    return value


def _convert_whole_decimal(value: _Decimal, to: ValueType) -> int:
    # Infinity and a signaling NaN cannot be rounded to an integer.
    if not value.is_finite() or value != value.to_integral_value():
        raise _mismatch(value, to)
    return int(value)


def _convert_float(value: object, to: ValueType, width: Callable[[float], float]) -> float:
    if type(value) not in _PLAIN and isinstance(value, _Decimal):
        return _convert_decimal(value, to, width)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _mismatch(value, to)
    try:
        number = width(float(value))
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        message = f"{_describe_number(value)} is not a finite number that {to.scalar} holds"
        raise ValueMismatch(message, "give a finite number")
    return number


def _convert_decimal(value: _Decimal, to: ValueType, width: Callable[[float], float]) -> float:
    """Return the float that prints the digits of a decimal."""
    if not value.is_finite():
        raise ValueMismatch(f"{value} is not a finite number that {to.scalar} holds", "give a finite number")
    number = _convert_float(float(value), to, width)
    printed = repr(number) if width is float else _print_f32(number)
    if type(value)(printed) != value:
        raise ValueMismatch(f"no {to.scalar} prints the digits {value}", "round it first, or keep it as a String")
    return number


def _print_f32(number: float) -> str:
    """Return the shortest digits that read back to an F32."""
    texts = (f"{number:.{digits}g}" for digits in range(1, 10))
    return next(text for text in texts if round_to_f32(float(text)) == number)


def _describe_number(number: float) -> str:
    # Python refuses to print integers of thousands of digits.
    return str(number) if isinstance(number, float) or number.bit_length() <= _MAX_PRINTED_BITS else "this integer"


def _convert_date(value: object, to: ValueType) -> int:
    if isinstance(value, str):
        return parse_date(value)
    if not isinstance(value, date) or isinstance(value, datetime):
        raise _mismatch(value, to)
    return to_days(value)


def _convert_datetime(value: object, to: ValueType) -> int:
    if isinstance(value, str):
        return parse_datetime(value)
    if isinstance(value, datetime):
        # tzinfo comes first: the NaT of pandas has none, and its utcoffset raises.
        if value.tzinfo is None or value.utcoffset() is None:
            raise ValueMismatch("this datetime has no time zone", "write value.replace(tzinfo=UTC)")
        return to_milliseconds(value)
    if isinstance(value, date):
        return to_days(value) * MILLISECONDS_PER_DAY
    raise _mismatch(value, to)


_CONVERTERS: Mapping[Scalar, Callable[[object, ValueType], ConstantValue]] = {
    Scalar.STRING: _convert_string,
    Scalar.BLOB: _convert_string,
    Scalar.BOOL: _convert_bool,
    **dict.fromkeys(INTEGER_RANGES, _convert_integer),
    Scalar.F32: partial(_convert_float, width=round_to_f32),
    Scalar.F64: partial(_convert_float, width=float),
    Scalar.DATE: _convert_date,
    Scalar.DATETIME: _convert_datetime,
}

_PLAIN: Final = frozenset({str, int, float, bool, type(None), list, tuple, date, datetime})


def _convert_strings(items: Sequence[object], _to: ValueType) -> tuple[str, ...] | None:
    if not _all_are(str, items):
        return None
    texts = cast("Sequence[str]", items)
    return None if _SURROGATE.search("".join(texts)) else tuple(texts)


def _convert_integers(items: Sequence[object], to: ValueType) -> tuple[int, ...] | None:
    if not items or not _all_are(int, items):
        return None
    numbers, allowed = cast("Sequence[int]", items), INTEGER_RANGES[to.scalar]
    return tuple(numbers) if min(numbers) in allowed and max(numbers) in allowed else None


def _convert_floats(items: Sequence[object], to: ValueType) -> tuple[float, ...] | None:
    if not _all_are(float, items):
        return None
    numbers = array("f" if to.scalar is Scalar.F32 else "d", cast("Sequence[float]", items))
    return tuple(numbers) if all(map(math.isfinite, numbers)) else None


def _all_are(kind: type, items: Sequence[object]) -> bool:
    """Whether all have exactly this type: a bool is no int here."""
    return set(map(type, items)) <= {kind}


# Each returns None for a list that has to be converted element by element: an element is unusual, or wrong.
_WHOLE_LISTS: Mapping[Scalar, Callable[[Sequence[object], ValueType], tuple[ConstantValue, ...] | None]] = {
    Scalar.STRING: _convert_strings,
    **dict.fromkeys(INTEGER_RANGES, _convert_integers),
    Scalar.F32: _convert_floats,
    Scalar.F64: _convert_floats,
}

_EXPECTED: Mapping[Scalar, str] = {
    Scalar.STRING: "a text",
    Scalar.BLOB: "a URI or 'base64:...' as a text",
    Scalar.BOOL: "true or false",
    **dict.fromkeys(INTEGER_RANGES, "an integer"),
    Scalar.F32: "a number",
    Scalar.F64: "a number",
    Scalar.DATE: f"a text {DATE_FORM}",
    Scalar.DATETIME: f"a text {DATETIME_FORM}",
    Scalar.VECTOR: "an array of numbers",
}


def _mismatch(value: object, to: ValueType) -> ValueMismatch:
    wanted = f"an array, each {_EXPECTED[to.scalar]}" if to.is_list else _EXPECTED[to.scalar]
    return ValueMismatch(f"expected {to}, found {_describe_kind(value)}", f"give {wanted}")


def _describe_kind(value: object) -> str:
    """Return the JSON name of a value's type, or its Python name if JSON has none."""
    return _JSON_KINDS.get(type(value), type(value).__name__)


_JSON_KINDS: Mapping[type, str] = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "an array",
    tuple: "an array",
    dict: "an object",
}
