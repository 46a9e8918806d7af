"""The schema IR: the canonical form of a schema, which is stored, hashed and compared.

Types, properties, columns and enum values are sorted. Nodes contain the properties of their interfaces. Rules of one
property are repeated among the constraints. Only :func:`build_catalog` makes catalogs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import TypeAlias, TypeVar

from omnigraph.language.schema.catalog import (
    Annotation,
    Cardinality,
    Catalog,
    EdgeType,
    Embedding,
    InterfaceType,
    NodeType,
    PatternRule,
    Property,
    RangeRule,
    freeze,
)
from omnigraph.language.schema.defaults import parse_default
from omnigraph.language.types import ValueType
from omnigraph.lazy_dataclass import dataclass

IR_VERSION = 1


class TypeKind(StrEnum):
    """The kinds of declarations."""

    INTERFACE = "interface"
    NODE = "node"
    EDGE = "edge"


class ColumnRuleKind(StrEnum):
    """The kinds of rules over columns, spelled as in the stored IR."""

    KEY = "Key"
    UNIQUE = "Unique"
    INDEX = "Index"


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """A key, a unique rule or an index over sorted columns."""

    kind: ColumnRuleKind
    columns: tuple[str, ...]


Constraint: TypeAlias = "ColumnRule | RangeRule | PatternRule"


@dataclass(frozen=True, slots=True)
class PropertyIR:
    """A property and its sorted annotations."""

    name: str
    type: ValueType
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True)
class InterfaceIR:
    """An interface."""

    name: str
    properties: tuple[PropertyIR, ...]


@dataclass(frozen=True, slots=True)
class NodeIR:
    """A node type, with the properties of its interfaces."""

    name: str
    annotations: tuple[Annotation, ...]
    implements: tuple[str, ...]
    properties: tuple[PropertyIR, ...]
    constraints: tuple[Constraint, ...]


@dataclass(frozen=True, slots=True)
class EdgeIR:
    """An edge type."""

    name: str
    from_type: str
    to_type: str
    cardinality: Cardinality
    annotations: tuple[Annotation, ...]
    properties: tuple[PropertyIR, ...]
    constraints: tuple[Constraint, ...]


@dataclass(frozen=True, slots=True)
class SchemaIR:
    """All types of a schema, each kind sorted by name."""

    interfaces: tuple[InterfaceIR, ...]
    nodes: tuple[NodeIR, ...]
    edges: tuple[EdgeIR, ...]


def constraint_key(constraint: Constraint) -> str:
    """Return the text that identifies a constraint, and by which constraints are sorted."""
    match constraint:
        case ColumnRule(kind, columns):
            return f"{kind.lower()}:{','.join(columns)}"
        case RangeRule(name, minimum, maximum):
            return f"range:{name}:{_format_debug(minimum)}:{_format_debug(maximum)}"
        case PatternRule(name, pattern):
            return f"check:{name}:{pattern}"


def _format_debug(bound: int | float | None) -> str:
    """Return a bound as Rust's debug format prints it: readers in Rust expect constraints in that order."""
    if bound is None:
        return "None"
    return f"Some({'Float' if isinstance(bound, float) else 'Integer'}({format_shortest(bound)}))"


def format_shortest(number: int | float) -> str:
    """Return the shortest text of a number; exponents have no plus sign and no leading zeros."""
    mantissa, e, exponent = repr(number).partition("e")
    return f"{mantissa}e{int(exponent)}" if e else mantissa


Declared = TypeVar("Declared", InterfaceType, NodeType, EdgeType, Property)


def build_catalog(ir: SchemaIR) -> Catalog:
    """Return the catalog of a schema."""
    return Catalog(
        _index_by_name(
            InterfaceType(each.name, tuple(map(_build_property, each.properties))) for each in ir.interfaces
        ),
        _index_by_name(_build_node_type(node) for node in ir.nodes),
        _index_by_name(_build_edge_type(edge) for edge in ir.edges),
    )


def _build_node_type(node: NodeIR) -> NodeType:
    key = next(_columns_of(node.constraints, ColumnRuleKind.KEY), None)
    return NodeType(
        node.name,
        node.implements,
        _index_by_name(_build_property(each) for each in node.properties),
        key,
        tuple(_columns_of(node.constraints, ColumnRuleKind.UNIQUE)),
        tuple(_columns_of(node.constraints, ColumnRuleKind.INDEX, ColumnRuleKind.KEY)),
        tuple(dict.fromkeys(each for each in node.constraints if isinstance(each, RangeRule))),
        tuple(dict.fromkeys(each for each in node.constraints if isinstance(each, PatternRule))),
        node.annotations,
    )


def _build_edge_type(edge: EdgeIR) -> EdgeType:
    return EdgeType(
        edge.name,
        edge.from_type,
        edge.to_type,
        _index_by_name(_build_property(each) for each in edge.properties),
        edge.cardinality,
        tuple(_columns_of(edge.constraints, ColumnRuleKind.UNIQUE)),
        tuple(_columns_of(edge.constraints, ColumnRuleKind.INDEX)),
        edge.annotations,
    )


def _columns_of(constraints: Iterable[Constraint], *kinds: ColumnRuleKind) -> Iterator[tuple[str, ...]]:
    """Yield the columns of each rule of the given kinds, without duplicates."""
    rules = (each.columns for each in constraints if isinstance(each, ColumnRule) and each.kind in kinds)
    return iter(dict.fromkeys(tuple(dict.fromkeys(columns)) for columns in rules))


def _build_property(each: PropertyIR) -> Property:
    by_name = {annotation.name: annotation for annotation in reversed(each.annotations)}
    embed = by_name.get("embed")
    embedding = None
    if embed is not None and embed.value is not None:
        embedding = Embedding(embed.value, dict(embed.keywords).get("model"))
    default = by_name.get("default")
    return Property(each.name, each.type, each.annotations, _accept_default(default, each.type), embedding)


def _accept_default(default: Annotation | None, type_: ValueType) -> str | None:
    if default is None or default.value is None:
        return None
    try:
        parse_default(default.value, type_)
    except ValueError:
        # Release 0.8 had no defaults and stored any text. Opening such a graph warns, and ignores the text.
        return None
    return default.value


def _index_by_name(declared: Iterable[Declared]) -> Mapping[str, Declared]:
    return freeze({each.name: each for each in declared})
