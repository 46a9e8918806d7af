"""Parse the text of ``@default`` as a value of the property's type."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime
from typing import TypeAlias

from omnigraph.language.types import FLOATS, INTEGER_RANGES, Scalar, ValueType
from omnigraph.language.values import ValueMismatch, from_days, from_milliseconds, parse_date, parse_datetime

DefaultValue: TypeAlias = "str | bool | int | float | date | datetime"

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,19})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_LARGEST_F32 = 3.4028234663852886e38


def parse_default(text: str, type_: ValueType) -> DefaultValue:
    """Return the value of a default; ``ValueError`` says why the text is not one."""
    if type_.is_list or type_.scalar in (Scalar.VECTOR, Scalar.BLOB):
        raise ValueError(f"a property of type {type_} cannot have a default")
    if type_.enum_values is not None:
        return _parse_enum_value(text, type_.enum_values)
    if type_.scalar in INTEGER_RANGES:
        return _parse_integer(text, type_.scalar)
    if type_.scalar in FLOATS:
        return _parse_float(text, type_.scalar)
    return _PARSERS[type_.scalar](text)


def _parse_enum_value(text: str, values: tuple[str, ...]) -> str:
    if text not in values:
        raise ValueError(f"'{text}' is not one of {', '.join(values)}")
    return text


def _parse_integer(text: str, scalar: Scalar) -> int:
    if _INTEGER.fullmatch(text) is None or int(text) not in INTEGER_RANGES[scalar]:
        raise ValueError(f"'{text}' is not a value of type {scalar}")
    return int(text)


def _parse_float(text: str, scalar: Scalar) -> float:
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    limit = _LARGEST_F32 if scalar is Scalar.F32 else math.inf
    if not math.isfinite(value) or abs(value) > limit:
        raise ValueError(f"'{text}' is not a value of type {scalar}")
    return value


def _parse_bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"'{text}' is not a Bool; write true or false")
    return text == "true"


def _parse_date(text: str) -> date:
    try:
        return from_days(parse_date(text))
    except ValueMismatch:
        raise ValueError(f"'{text}' is not a Date; write it like 2024-01-31") from None


def _parse_datetime(text: str) -> datetime:
    try:
        return from_milliseconds(parse_datetime(text))
    except ValueMismatch:
        raise ValueError(f"'{text}' is not a DateTime; write it like 2024-01-31T08:00:00Z") from None


_PARSERS: dict[Scalar, Callable[[str], DefaultValue]] = {
    Scalar.STRING: str,
    Scalar.BOOL: _parse_bool,
    Scalar.DATE: _parse_date,
    Scalar.DATETIME: _parse_datetime,
}
