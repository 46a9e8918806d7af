"""The text of ``@default``, read as a value of the property's type."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import TypeAlias

from omnigraph.language.types import FLOATS, INTEGER_RANGES, Scalar, ValueType

DefaultValue: TypeAlias = "str | bool | int | float | date | datetime"

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,19})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATETIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.]+(Z|[+-][0-9]{2}:?[0-9]{2})?)?")
_LARGEST_F32 = 3.4028234663852886e38


def default_value(text: str, type_: ValueType) -> DefaultValue:
    """The value that a default stands for; ``ValueError`` says why the text is none."""
    if type_.is_list or type_.scalar in (Scalar.VECTOR, Scalar.BLOB):
        raise ValueError(f"a property of type {type_} cannot have a default")
    if type_.enum_values is not None:
        return _enum_value(text, type_.enum_values)
    if type_.scalar in INTEGER_RANGES:
        return _integer(text, type_.scalar)
    if type_.scalar in FLOATS:
        return _float(text, type_.scalar)
    return _READERS[type_.scalar](text)


def _enum_value(text: str, values: tuple[str, ...]) -> str:
    if text not in values:
        raise ValueError(f"'{text}' is not one of {', '.join(values)}")
    return text


def _integer(text: str, scalar: Scalar) -> int:
    if _INTEGER.fullmatch(text) is None or int(text) not in INTEGER_RANGES[scalar]:
        raise ValueError(f"'{text}' is no {scalar}")
    return int(text)


def _float(text: str, scalar: Scalar) -> float:
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    limit = _LARGEST_F32 if scalar is Scalar.F32 else math.inf
    if not math.isfinite(value) or abs(value) > limit:
        raise ValueError(f"'{text}' is no {scalar}")
    return value


def _bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"'{text}' is no Bool, write true or false")
    return text == "true"


def _date(text: str) -> date:
    if _DATE.fullmatch(text):
        return date.fromisoformat(text)
    raise ValueError(f"'{text}' is no Date, write it like 2024-01-31")


def _datetime(text: str) -> datetime:
    if _DATETIME.fullmatch(text):
        instant = datetime.fromisoformat(text)
        return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
    raise ValueError(f"'{text}' is no DateTime, write it like 2024-01-31T08:00:00Z")


_READERS: dict[Scalar, Callable[[str], DefaultValue]] = {
    Scalar.STRING: str,
    Scalar.BOOL: _bool,
    Scalar.DATE: _date,
    Scalar.DATETIME: _datetime,
}
