"""Frozen results as JSON: a server writes their fields, and this rebuilds them, by the types of the fields."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from omnigraph.errors import Json

_Kind = TypeVar("_Kind")

_UNIONS = (Union, types.UnionType)


def to_record(kind: type[_Kind], found: Json) -> _Kind:
    """Return the result of a class whose fields a server wrote. Fields that this release does not know are left out."""
    return cast("_Kind", _convert(kind, found))


@cache
def _list_hints(kind: type) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _convert(hint: Any, value: Json) -> object:
    if isinstance(hint, type) and is_dataclass(hint):
        given = cast("Mapping[str, Json]", value)
        return hint(**{name: _convert(each, given[name]) for name, each in _list_hints(hint).items() if name in given})
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in _UNIONS:
        return _convert_union(arguments, value)
    if origin is tuple and isinstance(value, list):
        parts = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        return tuple(_convert(each, part) for each, part in zip(parts, value, strict=True))
    if origin is Mapping and isinstance(value, Mapping):
        return {name: _convert(arguments[1], each) for name, each in value.items()}
    if origin is None and isinstance(hint, type):
        if issubclass(hint, Enum):
            return hint(value)
        if hint is datetime:
            return datetime.fromisoformat(str(value))
        if issubclass(hint, str):
            # A text with a class of its own, such as the key of a table.
            return hint(str(value))
    return value


def _convert_union(members: tuple[Any, ...], value: Json) -> object:
    if value is None:
        return None
    for member in members:
        if get_origin(member) is Literal or (member is str and isinstance(value, str)):
            return value
        if member is not type(None):
            try:
                return _convert(member, value)
            except ValueError:
                # Such as a word that a later release added to an enum.
                continue
    return value
