"""Names as numbers: the ids of types and properties in the IR, and the directories of their tables."""

from __future__ import annotations

from typing import Final


def _fnv1a(text: str, bits: int, offset: int, prime: int) -> int:
    mask = (1 << bits) - 1
    value = offset
    for byte in text.encode():
        value = ((value ^ byte) * prime) & mask
    return value


_FNV32: Final = (32, 2166136261, 16777619)
_FNV64: Final = (64, 0xCBF29CE484222325, 0x100000001B3)


def type_id(kind: str, name: str) -> int:
    """The id of an interface, node or edge type; zero means none and is never given."""
    return _fnv1a(f"{kind}:{name}", *_FNV32) or 1


def property_id(kind: str, owner: str, name: str) -> int:
    """The id of a property."""
    return _fnv1a(f"{kind}:{owner}:{name}", *_FNV32) or 1


def table_directory(table_key: str) -> str:
    """Where the table of ``node:Name`` or ``edge:Name`` lies below the graph's root."""
    kind, _, name = table_key.partition(":")
    return f"{kind}s/{_fnv1a(name, *_FNV64):016x}"
