"""From the syntax tree of a schema to its IR. A graph that is opened has the IR already, and needs no syntax."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from omnigraph.language.schema import ast
from omnigraph.language.schema.catalog import Annotation, Cardinality, PatternRule, RangeRule
from omnigraph.language.schema.ir import (
    ColumnRule,
    ColumnRuleKind,
    Constraint,
    EdgeIR,
    InterfaceIR,
    NodeIR,
    PropertyIR,
    SchemaIR,
    constraint_key,
)
from omnigraph.language.schema.resolve import (
    constraints_of,
    interfaces_by_name,
    resolve_properties,
    resolve_type,
)

Declared = TypeVar("Declared", InterfaceIR, NodeIR, EdgeIR, PropertyIR)


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


def _sort_by_name(declared: Iterable[Declared]) -> tuple[Declared, ...]:
    return tuple(sorted(declared, key=lambda each: each.name))
