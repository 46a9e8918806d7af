"""Protocol-buffer messages of Lance, as far as they are read and changed here: field by field, without their schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from omnigraph.errors import StorageError

_NUMBER: Final = 0
_WITH_LENGTH: Final = 2
_FIXED: Final = {1: 8, 5: 4}
"""How many bytes the kinds of a fixed size take."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its tag, its value if it is a number or has a length, and the bytes of all of it."""

    tag: int
    number: int | None
    value: bytes
    raw: bytes


def fields(message: bytes) -> Iterator[Field]:
    """The fields of a message in their order."""
    at = 0
    while at < len(message):
        begin, number, value = at, None, b""
        key, at = _read_varint(message, at)
        match key & 7:
            case 0:
                number, at = _read_varint(message, at)
            case 2:
                length, at = _read_varint(message, at)
                value = message[at : at + length]
                at += length
            case kind if kind in _FIXED:
                at += _FIXED[kind]
            case kind:
                raise StorageError(f"a message of Lance has a field of the unknown kind {kind}")
        yield Field(key >> 3, number, value, message[begin:at])


def number_field(tag: int, number: int) -> bytes:
    """A number as a field."""
    return _varint(tag << 3 | _NUMBER) + _varint(number)


def bytes_field(tag: int, value: bytes) -> bytes:
    """A text or a message as a field."""
    return _varint(tag << 3 | _WITH_LENGTH) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(message):
            raise StorageError("a message of Lance is cut short")
        byte = message[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
