"""The catalog: the types of a schema, resolved and immutable.

Types and properties are sorted by name. Nodes contain the properties of their interfaces. ``@key``, ``@unique`` and
``@index`` of a property are among the constraints of its type. A catalog is built only from a schema IR (``ir.py``),
so that the stored schema and the one in use cannot differ.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import TypeVar

from omnigraph.language.schema.identity import TableKey
from omnigraph.language.types import ValueType
from omnigraph.lazy_dataclass import dataclass

Entry = TypeVar("Entry")


def freeze(entries: Mapping[str, Entry]) -> MappingProxyType[str, Entry]:
    """Return an immutable copy of a mapping."""
    return MappingProxyType(dict(entries))


def _reduce_mapping(
    entries: MappingProxyType[str, object],
) -> tuple[Callable[[dict[str, object]], MappingProxyType[str, object]], tuple[dict[str, object]]]:
    return freeze, (dict(entries),)


# Catalogs are sent to worker processes, and mapping proxies cannot be pickled otherwise.
copyreg.pickle(MappingProxyType, _reduce_mapping)


@dataclass(frozen=True, slots=True)
class Annotation:
    """``@name(value, keyword=value)``; the value is a text."""

    name: str
    value: str | None = None
    keywords: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Embedding:
    """``@embed("source", model="...")``: computes the vector from a text property."""

    source: str
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Property:
    """A property, declared or from an interface. ``default`` is the text of ``@default``; it fits the type."""

    name: str
    type: ValueType
    annotations: tuple[Annotation, ...] = ()
    default: str | None = None
    embedding: Embedding | None = None


@dataclass(frozen=True, slots=True)
class RangeRule:
    """``@range(property, minimum..maximum)``, both ends inclusive."""

    property: str
    minimum: int | float | None
    maximum: int | float | None


@dataclass(frozen=True, slots=True)
class PatternRule:
    """``@check(property, "pattern")``: an RE2 pattern that matches anywhere in the text."""

    property: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Cardinality:
    """The number of edges of a type that a source node may have; None as the maximum means any number."""

    minimum: int = 0
    maximum: int | None = None


@dataclass(frozen=True, slots=True)
class InterfaceType:
    """A named set of properties that nodes can implement."""

    name: str
    properties: tuple[Property, ...]


@dataclass(frozen=True, slots=True)
class NodeType:
    """A node type and its rules. Without a ``key``, the ids of its rows are generated."""

    name: str
    implements: tuple[str, ...]
    properties: Mapping[str, Property]
    key: tuple[str, ...] | None = None
    unique: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    ranges: tuple[RangeRule, ...] = ()
    patterns: tuple[PatternRule, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    table_key: TableKey = field(init=False, repr=False, compare=False)
    """The key of its table in the manifest."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "table_key", TableKey.of_node(self.name))


@dataclass(frozen=True, slots=True)
class EdgeType:
    """An edge type, from one node type to another. Its constraints may name ``src`` and ``dst``."""

    name: str
    from_type: str
    to_type: str
    properties: Mapping[str, Property]
    cardinality: Cardinality = Cardinality()
    unique: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    annotations: tuple[Annotation, ...] = ()
    table_key: TableKey = field(init=False, repr=False, compare=False)
    """The key of its table in the manifest."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "table_key", TableKey.of_edge(self.name))


@dataclass(frozen=True)
class Catalog:
    """All types of one schema, by name."""

    interfaces: Mapping[str, InterfaceType]
    nodes: Mapping[str, NodeType]
    edges: Mapping[str, EdgeType]
    _edges_by_lowercase: Mapping[str, EdgeType] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_lowercase = {name.lower(): edge for name, edge in self.edges.items()}
        object.__setattr__(self, "_edges_by_lowercase", by_lowercase)

    def find_edge(self, word: str) -> EdgeType | None:
        """Return the edge type that a word of a query names, by its exact name or else ignoring case."""
        return self.edges.get(word) or self._edges_by_lowercase.get(word.lower())

    def edges_of(self, node_type: str) -> Iterator[EdgeType]:
        """Return the edge types that begin or end at a node type."""
        return (edge for edge in self.edges.values() if node_type in (edge.from_type, edge.to_type))

    def find_type(self, table_key: str) -> NodeType | EdgeType | None:
        """Return the type of a table; None if the schema does not declare it."""
        key = TableKey(table_key)
        return self.nodes.get(key.type_name) if key.kind == "node" else self.edges.get(key.type_name)

    def types(self) -> Iterator[NodeType | EdgeType]:
        """Yield all types that have a table: nodes, then edges, by name."""
        yield from self.nodes.values()
        yield from self.edges.values()
