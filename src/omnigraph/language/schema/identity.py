"""The keys and directories of tables, and the ids of types and properties in the IR. All follow from names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal, TypeVar, cast

Value = TypeVar("Value")


def _fnv1a(text: str, bits: int, offset: int, prime: int) -> int:
    mask = (1 << bits) - 1
    value = offset
    for byte in text.encode():
        value = ((value ^ byte) * prime) & mask
    return value


_FNV32: Final = (32, 2166136261, 16777619)
_FNV64: Final = (64, 0xCBF29CE484222325, 0x100000001B3)


def type_id(kind: str, name: str) -> int:
    """Return the id of an interface, node or edge type. Zero means "none" and is never used."""
    return _fnv1a(f"{kind}:{name}", *_FNV32) or 1


def property_id(kind: str, owner: str, name: str) -> int:
    """Return the id of a property."""
    return _fnv1a(f"{kind}:{owner}:{name}", *_FNV32) or 1


class TableKey(str):
    """The name of a table in the manifest: ``node:Person`` or ``edge:Knows``.

    It is a string on disk, in JSON and as a key of a mapping: a plain string finds the same entry.
    """

    __slots__ = ()

    @classmethod
    def of(cls, kind: str, type_name: str) -> TableKey:
        """The key of the table of a type."""
        return _make_key(kind, type_name)

    @classmethod
    def of_node(cls, type_name: str) -> TableKey:
        """The key of the table of a node type."""
        return _make_key("node", type_name)

    @classmethod
    def of_edge(cls, type_name: str) -> TableKey:
        """The key of the table of an edge type."""
        return _make_key("edge", type_name)

    @classmethod
    def parse(cls, text: str) -> TableKey:
        """Read a key that comes from outside; a text that is none is a ``ValueError``."""
        if not cls.is_key(text):
            raise ValueError(f"'{text}' is not a table key: node:<Type> or edge:<Type>")
        return cls(text)

    @staticmethod
    def is_key(text: str) -> bool:
        """Whether a text has the form of a table key."""
        kind, _, type_name = text.partition(":")
        return kind in ("node", "edge") and bool(type_name)

    @classmethod
    def candidates(cls, name: str) -> tuple[TableKey, TableKey, TableKey]:
        """The keys that a name given by a user may mean: the name itself, a node type, an edge type."""
        return cls(name), cls.of_node(name), cls.of_edge(name)

    @property
    def kind(self) -> Literal["node", "edge"]:
        """Whether it is the table of a node type or of an edge type."""
        return cast('Literal["node", "edge"]', self.partition(":")[0])

    @property
    def type_name(self) -> str:
        """The type whose rows the table holds."""
        return self.partition(":")[2]

    @property
    def nodes_first(self) -> tuple[bool, str]:
        """The sort key for listings: node types before edge types, each by name."""
        return self.kind != "node", self


@lru_cache(4096)
def _make_key(kind: str, type_name: str) -> TableKey:
    return TableKey(f"{kind}:{type_name}")


def split_by_kind(values: Mapping[str, Value]) -> tuple[dict[str, Value], dict[str, Value]]:
    """Values by table key, as values of node types and of edge types, by type name."""
    nodes: dict[str, Value] = {}
    edges: dict[str, Value] = {}
    for key, value in values.items():
        table_key = TableKey(key)
        (nodes if table_key.kind == "node" else edges)[table_key.type_name] = value
    return nodes, edges


def table_directory(table_key: str) -> str:
    """The folder of a table, relative to the root of the graph."""
    key = TableKey(table_key)
    return f"{key.kind}s/{_fnv1a(key.type_name, *_FNV64):016x}"
