"""The catalog: what a schema declares, resolved, immutable and ready to be asked.

Types and properties are sorted by name, interface properties are already injected into the nodes that
implement them, and property-level ``@key``, ``@unique`` and ``@index`` stand among the constraints. A catalog
is only ever built from a schema IR (see ``ir.py``), so what is persisted and what is used cannot differ.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from omnigraph.language.schema.identity import TableKey
from omnigraph.language.types import ValueType

Entry = TypeVar("Entry")


def freeze(entries: Mapping[str, Entry]) -> MappingProxyType[str, Entry]:
    """A mapping that nobody can change."""
    return MappingProxyType(dict(entries))


def _reduce_mapping(
    entries: MappingProxyType[str, object],
) -> tuple[Callable[[dict[str, object]], MappingProxyType[str, object]], tuple[dict[str, object]]]:
    return freeze, (dict(entries),)


# Catalogs travel to worker processes, and read-only mappings do not pickle by themselves.
copyreg.pickle(MappingProxyType, _reduce_mapping)


@dataclass(frozen=True, slots=True)
class Annotation:
    """``@name(value, keyword=value)``; the value is kept as text."""

    name: str
    value: str | None = None
    keywords: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Embedding:
    """``@embed("source", model="...")``: the vector is computed from a text property."""

    source: str
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Property:
    """One declared (or injected) property. ``default`` is the text of ``@default``, checked against the type."""

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
    """``@check(property, "pattern")``: an RE2 pattern, found anywhere in the text."""

    property: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Cardinality:
    """How many edges of a type may leave one source node; no maximum means any number."""

    minimum: int = 0
    maximum: int | None = None


@dataclass(frozen=True, slots=True)
class InterfaceType:
    """A named set of properties that nodes take over."""

    name: str
    properties: tuple[Property, ...]


@dataclass(frozen=True, slots=True)
class NodeType:
    """A node type and its rules. Without a ``key`` the ids of its rows are made up."""

    name: str
    implements: tuple[str, ...]
    properties: Mapping[str, Property]
    key: tuple[str, ...] | None = None
    unique: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    ranges: tuple[RangeRule, ...] = ()
    patterns: tuple[PatternRule, ...] = ()
    annotations: tuple[Annotation, ...] = ()

    @property
    def table_key(self) -> TableKey:
        """The name of its table in the manifest."""
        return TableKey.of_node(self.name)


@dataclass(frozen=True, slots=True)
class EdgeType:
    """An edge type, from one node type to another. ``src`` and ``dst`` may stand in its constraints."""

    name: str
    from_type: str
    to_type: str
    properties: Mapping[str, Property]
    cardinality: Cardinality = Cardinality()
    unique: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    annotations: tuple[Annotation, ...] = ()

    @property
    def table_key(self) -> TableKey:
        """The name of its table in the manifest."""
        return TableKey.of_edge(self.name)


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
        """The edge type that a word in a query means: its exact name, else its name in any case."""
        return self.edges.get(word) or self._edges_by_lowercase.get(word.lower())

    def edges_of(self, node_type: str) -> Iterator[EdgeType]:
        """The edge types that begin or end at a node type."""
        return (edge for edge in self.edges.values() if node_type in (edge.from_type, edge.to_type))

    def find_type(self, table_key: str) -> NodeType | EdgeType | None:
        """The type whose rows a table holds; None if the schema does not have it."""
        key = TableKey(table_key)
        return self.nodes.get(key.type_name) if key.kind == "node" else self.edges.get(key.type_name)

    def types(self) -> Iterator[NodeType | EdgeType]:
        """Every type that has a table: nodes, then edges, by name."""
        yield from self.nodes.values()
        yield from self.edges.values()
