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
class ProtobufField:
    """One field: its tag, its value if it is a number or has a length, and the bytes of all of it."""

    tag: int
    number: int | None
    value: bytes
    raw: bytes


def parse_fields(message: bytes) -> Iterator[ProtobufField]:
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
        yield ProtobufField(key >> 3, number, value, message[begin:at])


def encode_number(tag: int, number: int) -> bytes:
    """A number as a field."""
    return _encode_varint(tag << 3 | _NUMBER) + _encode_varint(number)


def encode_bytes(tag: int, value: bytes) -> bytes:
    """A text or a message as a field."""
    return _encode_varint(tag << 3 | _WITH_LENGTH) + _encode_varint(len(value)) + value


def _encode_varint(number: int) -> bytes:
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
