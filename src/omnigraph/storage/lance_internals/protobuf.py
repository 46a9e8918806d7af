"""Read and write protobuf messages of Lance field by field, without their schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from omnigraph.errors import StorageError
from omnigraph.lazy_dataclass import dataclass

_NUMBER: Final = 0
_WITH_LENGTH: Final = 2
_FIXED: Final = {1: 8, 5: 4}
"""The size of fixed-size wire types in bytes."""


@dataclass(frozen=True, slots=True)
class ProtobufField:
    """One field: its tag, its value as a number or as bytes, and the raw bytes of the field."""

    tag: int
    number: int | None
    value: bytes
    raw: bytes


def parse_fields(message: bytes) -> Iterator[ProtobufField]:
    """Yield the fields of a message in order."""
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
                raise StorageError(f"a Lance message has a field of unknown wire type {kind}")
        yield ProtobufField(key >> 3, number, value, message[begin:at])


def encode_number(tag: int, number: int) -> bytes:
    """Encode a number as a field."""
    return _encode_varint(tag << 3 | _NUMBER) + _encode_varint(number)


def encode_bytes(tag: int, value: bytes) -> bytes:
    """Encode a text or a message as a field."""
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
            raise StorageError("a Lance message is truncated")
        byte = message[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
