"""The `.pg` text of a syntax tree, a declaration to a line: interfaces, nodes, edges.

Its layout is the work of ``format_schema``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from omnigraph.language.schema import ast
from omnigraph.language.syntax import quote_string
from omnigraph.language.types import Scalar


def print_schema(file: ast.SchemaFile) -> str:
    """The text of a tree; parsing it gives the same tree."""
    return "\n".join(
        (
            *(_declaration(f"interface {each.name.text}", each.properties, ()) for each in file.interfaces),
            *(_declaration(_node_head(node), node.properties, node.constraints) for node in file.nodes),
            *(_declaration(_edge_head(edge), edge.properties, edge.constraints) for edge in file.edges),
        )
    )


def _declaration(
    head: str, properties: Sequence[ast.PropertySyntax], constraints: Sequence[ast.ConstraintSyntax]
) -> str:
    members = [*map(_property, properties), *map(_constraint, constraints)]
    return f"{head} {{ {' '.join(members)} }}\n"


def _node_head(node: ast.NodeSyntax) -> str:
    implements = [f"implements {', '.join(name.text for name in node.implements)}"] if node.implements else []
    return " ".join(("node", node.name.text, *_annotations(node.annotations), *implements))


def _edge_head(edge: ast.EdgeSyntax) -> str:
    head = f"edge {edge.name.text}: {edge.from_type.text} -> {edge.to_type.text}"
    card = edge.cardinality
    cardinality = []
    if card is not None:
        cardinality = [f"@card({card.minimum.text}..{card.maximum.text if card.maximum else ''})"]
    return " ".join((head, *cardinality, *_annotations(edge.annotations)))


def _property(each: ast.PropertySyntax) -> str:
    return " ".join((f"{each.name.text}: {_type(each.type)}", *_annotations(each.annotations)))


def _type(written: ast.TypeSyntax) -> str:
    core = str(written.scalar)
    if written.enum_values is not None:
        core = f"enum({', '.join(value.text for value in written.enum_values)})"
    elif written.dimension is not None:
        core = f"{Scalar.VECTOR}({written.dimension.text})"
    elif written.is_list:
        core = f"[{core}]"
    return f"{core}?" if written.nullable else core


def _annotations(annotations: Iterable[ast.AnnotationSyntax]) -> Iterator[str]:
    for each in annotations:
        if each.value is None:
            yield f"@{each.name.text}"
        else:
            keywords = (f"{name.text}={_literal(value)}" for name, value in each.keywords)
            yield f"@{each.name.text}({', '.join((_literal(each.value), *keywords))})"


def _constraint(constraint: ast.ConstraintSyntax) -> str:
    return f"@{constraint.kind}({', '.join(map(_argument, constraint.arguments))})"


def _argument(argument: ast.ArgumentSyntax) -> str:
    match argument:
        case ast.NameSyntax(text):
            return text
        case ast.LiteralSyntax():
            return _literal(argument)
        case ast.BoundsSyntax(minimum, maximum):
            return f"{minimum.text if minimum else ''}..{maximum.text if maximum else ''}"


def _literal(literal: ast.LiteralSyntax) -> str:
    return quote_string(literal.text) if literal.kind is ast.LiteralKind.STRING else literal.text
