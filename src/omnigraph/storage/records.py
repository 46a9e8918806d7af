"""Records as JSON objects: a codec lists the fields of a dataclass once, and encoding and decoding follow from it.

Sidecars, the JSON in rows of the manifest, tags and audit rows are described this way. A codec says for each field how
its value is spelled, under which name, and whether it may be absent. Unknown names are ignored on reading: they belong
to a newer release.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from enum import Enum, StrEnum, auto
from typing import Final, Generic, TypeVar, cast

import orjson

from omnigraph.language.schema import TableKey
from omnigraph.language.values import from_microseconds, to_microseconds
from omnigraph.lazy_dataclass import dataclass

Record = TypeVar("Record")


class MalformedRecord(ValueError):
    """A JSON value that a record cannot be read from. Callers add whose value it is."""


# --------------------------------------------------------------------------------------------- spellings of values


@dataclass(frozen=True, slots=True)
class Spelling:
    """How values of one type are written as JSON values, and read again."""

    encode: Callable[[object], object]
    decode: Callable[[object], object]
    """Raises ``ValueError``, with a text that follows "is ..., ", for a value of another form."""


def _keep(value: object) -> object:
    return value


def _decode_text(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("not a text")
    return value


def _decode_number(value: object) -> object:
    if not isinstance(value, int):
        raise ValueError("not a number")
    return value


def _decode_number_text(value: object) -> object:
    return int(cast(str, _decode_text(value)))


def _decode_table_key(value: object) -> object:
    if not isinstance(value, str) or not TableKey.is_key(value):
        raise ValueError("not a table key")
    return TableKey(value)


def _decode_instant(value: object) -> object:
    try:
        return from_microseconds(cast(int, _decode_number(value)))
    except OverflowError as error:
        raise ValueError("not a time") from error


def _decode_pair(value: object) -> object:
    match value:
        case [str(app), int(number)]:
            return app, number
        case _:
            raise ValueError("not an application and a number")


def _encode_versions(value: object) -> object:
    # orjson takes keys that are exactly of type str.
    return {str(key): version for key, version in cast("Mapping[str, int]", value).items()}


def _decode_versions(value: object) -> object:
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return {key: _decode_number(each) for key, each in cast("dict[str, object]", value).items()}


TEXT: Final = Spelling(_keep, _decode_text)
NUMBER: Final = Spelling(_keep, _decode_number)
NUMBER_AS_TEXT: Final = Spelling(str, _decode_number_text)
FLAG: Final = Spelling(_keep, lambda value: value is True)
TABLE_KEY: Final = Spelling(str, _decode_table_key)
INSTANT: Final = Spelling(lambda value: to_microseconds(cast(datetime, value)), _decode_instant)
"""Microseconds since 1970 UTC."""
TXN: Final = Spelling(lambda value: list(cast("tuple[str, int]", value)), _decode_pair)
VERSIONS: Final = Spelling(_encode_versions, _decode_versions)
"""Versions by table key."""


def word_of(enum: type[StrEnum]) -> Spelling:
    """The value of an enumeration as its word."""
    return Spelling(str, lambda value: enum(cast(str, _decode_text(value))))


def known_word_of(enum: type[StrEnum]) -> Spelling:
    """The value of an enumeration as its word; a word that a later release added stays a text."""

    def decode(value: object) -> object:
        text = cast(str, _decode_text(value))
        return enum(text) if text in {*enum} else text

    return Spelling(str, decode)


def choice_of(words: Collection[str]) -> Spelling:
    """One of a few words."""

    def decode(value: object) -> object:
        if value not in words:
            raise ValueError(f"not one of {', '.join(words)}")
        return value

    return Spelling(_keep, decode)


def list_of(item: Spelling) -> Spelling:
    """Several values in a JSON array; a tuple in Python."""

    def decode(value: object) -> object:
        if not isinstance(value, list):
            raise ValueError("not a list")
        return tuple(item.decode(each) for each in cast("list[object]", value))

    return Spelling(lambda value: [item.encode(each) for each in cast("tuple[object, ...]", value)], decode)


def json_text_of(spelling: Spelling) -> Spelling:
    """A value as JSON inside of a text."""
    return Spelling(
        lambda value: orjson.dumps(spelling.encode(value)).decode(),
        lambda value: spelling.decode(orjson.loads(cast(str, _decode_text(value)))),
    )


# --------------------------------------------------------------------------------------------- fields of a record


class _Presence(Enum):
    REQUIRED = auto()
    """Always written; absent or null is an error."""
    NULLABLE = auto()
    """Always written; absent or null means the default."""
    OPTIONAL = auto()
    """Written unless it is the default; absent or null means the default."""


@dataclass(frozen=True, slots=True)
class RecordField:
    """One field of a record: its attribute, its name in JSON, how its value is spelled, whether it may be absent."""

    attribute: str
    name: str
    spelling: Spelling
    presence: _Presence
    default: object = None


def required(attribute: str, spelling: Spelling = TEXT, name: str | None = None) -> RecordField:
    """A field that must be there."""
    return RecordField(attribute, name or attribute, spelling, _Presence.REQUIRED)


def nullable(
    attribute: str, spelling: Spelling = TEXT, name: str | None = None, *, default: object = None
) -> RecordField:
    """A field that is always written, as null if need be, and may be missing on reading."""
    return RecordField(attribute, name or attribute, spelling, _Presence.NULLABLE, default)


def optional(
    attribute: str, spelling: Spelling = TEXT, name: str | None = None, *, default: object = None
) -> RecordField:
    """A field that is left out while it has its default."""
    return RecordField(attribute, name or attribute, spelling, _Presence.OPTIONAL, default)


# --------------------------------------------------------------------------------------------- codecs


@dataclass(frozen=True, slots=True)
class RecordCodec(Generic[Record]):
    """A dataclass as a JSON object, with its fields in the order in which they are written."""

    make: Callable[..., Record]
    fields: tuple[RecordField, ...]

    def encode(self, record: Record) -> dict[str, object]:
        """Return the JSON object of a record."""
        found: dict[str, object] = {}
        for field in self.fields:
            value = cast(object, getattr(record, field.attribute))
            if field.presence is _Presence.OPTIONAL and value == field.default:
                continue
            found[field.name] = None if value is None else field.spelling.encode(value)
        return found

    def decode(self, found: Mapping[str, object], **known: object) -> Record:
        """Return the record of a JSON object; ``known`` are attributes that come from elsewhere."""
        values = dict(known)
        for field in self.fields:
            value = found.get(field.name)
            if value is None and field.presence is not _Presence.REQUIRED:
                values[field.attribute] = field.default
                continue
            try:
                values[field.attribute] = field.spelling.decode(value)
            except MalformedRecord:
                raise
            except ValueError as error:
                raise MalformedRecord(f"{field.name} is {value!r}, {error}") from error
        return self.make(**values)

    @property
    def spelling(self) -> Spelling:
        """A record as a value inside of another one."""

        def decode(value: object) -> object:
            if not isinstance(value, dict):
                raise ValueError("not an object")
            return self.decode(cast("dict[str, object]", value))

        return Spelling(lambda value: self.encode(cast(Record, value)), decode)

    def dumps(self, record: Record, *, indent: bool = False) -> bytes:
        """Return a record as JSON text."""
        return orjson.dumps(self.encode(record), option=orjson.OPT_INDENT_2 if indent else None)

    def loads(self, data: bytes | str, **known: object) -> Record:
        """Return the record in a JSON text."""
        return self.decode(parse_object(data), **known)


def parse_object(data: bytes | str) -> Mapping[str, object]:
    """Return the JSON object in a text."""
    try:
        found: object = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise MalformedRecord(f"no JSON: {error}") from error
    if not isinstance(found, dict):
        raise MalformedRecord("no JSON object")
    return cast("Mapping[str, object]", found)
