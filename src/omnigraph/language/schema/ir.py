"""The schema IR: the canonical form of a schema, which is stored, hashed and compared.

Types, properties, columns and enum values are sorted. Nodes contain the properties of their interfaces. Rules of one
property are repeated among the constraints. Only :func:`build_catalog` makes catalogs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, TypeVar

from omnigraph.language.schema import ast
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
from omnigraph.language.schema.resolve import (
    constraints_of,
    interfaces_by_name,
    resolve_properties,
    resolve_type,
)
from omnigraph.language.types import ValueType

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


# ---------------------------------------------------------------------------------------------- from the syntax tree


def build_ir(file: ast.SchemaFile) -> SchemaIR:
    """Return the IR of a file that was checked."""
    interfaces = interfaces_by_name(file)
    return SchemaIR(
        _sort_by_name(InterfaceIR(each.name.text, _build_properties(each.properties)) for each in file.interfaces),
        _sort_by_name(_build_node(node, interfaces) for node in file.nodes),
        _sort_by_name(_build_edge(edge) for edge in file.edges),
    )


def _build_node(node: ast.NodeSyntax, interfaces: Mapping[str, ast.InterfaceSyntax]) -> NodeIR:
    properties = resolve_properties(node, interfaces)
    return NodeIR(
        node.name.text,
        _build_annotations(node.annotations),
        tuple(sorted({name.text for name in node.implements})),
        _build_properties(properties),
        _build_constraints(node.constraints, properties),
    )


def _build_edge(edge: ast.EdgeSyntax) -> EdgeIR:
    written = edge.cardinality
    cardinality = Cardinality()
    if written is not None:
        cardinality = Cardinality(int(written.minimum.text), int(written.maximum.text) if written.maximum else None)
    return EdgeIR(
        edge.name.text,
        edge.from_type.text,
        edge.to_type.text,
        cardinality,
        _build_annotations(edge.annotations),
        _build_properties(edge.properties),
        _build_constraints(edge.constraints, edge.properties),
    )


def _build_properties(properties: Iterable[ast.PropertySyntax]) -> tuple[PropertyIR, ...]:
    return _sort_by_name(
        PropertyIR(each.name.text, resolve_type(each.type), _build_annotations(each.annotations)) for each in properties
    )


def _build_annotations(annotations: Iterable[ast.AnnotationSyntax]) -> tuple[Annotation, ...]:
    made = (
        Annotation(
            each.name.text,
            None if each.value is None else each.value.text,
            # The last of several equal keywords counts.
            tuple(sorted({keyword.text: value.text for keyword, value in each.keywords}.items())),
        )
        for each in annotations
    )
    return tuple(sorted(made, key=lambda each: (each.name, each.value is not None, each.value or "")))


def _build_constraints(
    body: Iterable[ast.ConstraintSyntax], properties: Iterable[ast.PropertySyntax]
) -> tuple[Constraint, ...]:
    carried = (constraint for each in properties for constraint in constraints_of(each))
    return tuple(sorted((_build_constraint(each) for each in (*body, *carried)), key=constraint_key))


def _build_constraint(written: ast.ConstraintSyntax) -> Constraint:
    match written.kind, written.arguments:
        case ast.ConstraintKind.RANGE, (
            ast.NameSyntax(text=name),
            ast.BoundsSyntax(minimum=minimum, maximum=maximum),
            *_,
        ):
            return RangeRule(name, _parse_bound(minimum), _parse_bound(maximum))
        case ast.ConstraintKind.CHECK, (ast.NameSyntax(text=name), ast.LiteralSyntax(text=pattern), *_):
            return PatternRule(name, pattern)
        case kind, columns:
            names = sorted(each.text for each in columns if isinstance(each, ast.NameSyntax))
            return ColumnRule(ColumnRuleKind(kind.capitalize()), tuple(names))


def _parse_bound(written: ast.LiteralSyntax | None) -> int | float | None:
    if written is None:
        return None
    return float(written.text) if written.kind is ast.LiteralKind.FLOAT else int(written.text)


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


# ---------------------------------------------------------------------------------------------- to the catalog

Declared = TypeVar("Declared", InterfaceIR, NodeIR, EdgeIR, PropertyIR, InterfaceType, NodeType, EdgeType, Property)


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


def _sort_by_name(declared: Iterable[Declared]) -> tuple[Declared, ...]:
    return tuple(sorted(declared, key=lambda each: each.name))


def _index_by_name(declared: Iterable[Declared]) -> Mapping[str, Declared]:
    return freeze({each.name: each for each in declared})
