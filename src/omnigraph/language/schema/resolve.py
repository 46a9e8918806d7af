"""Resolve declarations: add the properties of interfaces, and the constraints that annotations of properties mean.

The checks and the IR both use these functions, so that the checked schema is the stored one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from omnigraph.language.schema import ast
from omnigraph.language.types import ValueType

CONSTRAINT_ANNOTATIONS = frozenset({"key", "unique", "index"})
"""The annotations of a property that are stored as a constraint on it alone. Other annotations stay annotations."""


def interfaces_by_name(file: ast.SchemaFile) -> dict[str, ast.InterfaceSyntax]:
    """Return the interfaces of a file by name; the first one if two have the same name."""
    return {interface.name.text: interface for interface in reversed(file.interfaces)}


def resolve_properties(
    declaration: ast.NodeSyntax | ast.EdgeSyntax, interfaces: Mapping[str, ast.InterfaceSyntax]
) -> tuple[ast.PropertySyntax, ...]:
    """Return the declared properties, then those of its interfaces that the node does not declare itself."""
    properties: dict[str, ast.PropertySyntax] = {}
    for each in declaration.properties:
        properties.setdefault(each.name.text, each)
    if isinstance(declaration, ast.NodeSyntax):
        for name in declaration.implements:
            interface = interfaces.get(name.text)
            for each in interface.properties if interface else ():
                properties.setdefault(each.name.text, each)
    return tuple(properties.values())


def constraints_of(each: ast.PropertySyntax) -> Iterator[ast.ConstraintSyntax]:
    """Yield the constraints that a property has as annotations."""
    for annotation in each.annotations:
        if annotation.name.text in CONSTRAINT_ANNOTATIONS:
            yield ast.ConstraintSyntax(ast.ConstraintKind(annotation.name.text), (each.name,), annotation.name.span)


def resolve_type(written: ast.TypeSyntax) -> ValueType:
    """Return the type that was written; the order of enum values does not matter."""
    values = written.enum_values
    return ValueType(
        written.scalar,
        written.nullable,
        written.is_list,
        None if values is None else tuple(sorted({value.text for value in values})),
        None if written.dimension is None else int(written.dimension.text),
    )
