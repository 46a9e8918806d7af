"""Checks of names, types, interfaces and edges: everything that the grammar cannot express.

Annotations and constraints have modules of their own. Each check yields its findings and continues, so that one run
reports all problems of a file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from omnigraph.errors import Problem
from omnigraph.language.schema import ast, codes
from omnigraph.language.schema.check_annotations import check_annotations
from omnigraph.language.schema.check_constraints import check_constraints
from omnigraph.language.schema.codes import SchemaFinding, report_findings
from omnigraph.language.schema.resolve import interfaces_by_name, resolve_properties, resolve_type
from omnigraph.language.source import Source
from omnigraph.language.types import MAX_VECTOR_DIMENSION, Scalar

SYSTEM_COLUMNS = frozenset({"id", "src", "dst", "from", "to"})
LANCE_COLUMNS = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)
MAX_INJECTED_PROPERTIES = 200_000
_MAX_CARDINALITY = 2**32 - 1
_MAX_DIGITS = 20


def check_file(file: ast.SchemaFile, source: Source) -> list[Problem]:
    """Return all problems of a file without syntax errors, in order of position."""
    return report_findings(_find_all(file), source)


def _find_all(file: ast.SchemaFile) -> Iterator[SchemaFinding]:
    interfaces = interfaces_by_name(file)
    node_names = {node.name.text for node in file.nodes}
    yield from _find_duplicates("interface", file.interfaces)
    yield from _find_duplicates("node", file.nodes)
    yield from _check_case("node", [each.name for each in file.nodes])
    yield from _find_duplicate_edges(file.edges)
    for declaration in (*file.interfaces, *file.nodes, *file.edges):
        yield from _check_property_names(declaration.properties)
        for each in declaration.properties:
            yield from _check_type(each.type)
    for edge in file.edges:
        yield from _check_endpoints(edge, node_names)
        yield from _check_cardinality(edge)
    excess = _check_injected_count(file.nodes, interfaces)
    if excess is not None:
        yield excess
        return
    for node in file.nodes:
        yield from _check_interfaces(node, interfaces)
    for declaration in (*file.nodes, *file.edges):
        # Properties with a wrong type were reported above; no further check applies to them.
        properties = [each for each in resolve_properties(declaration, interfaces) if not any(_check_type(each.type))]
        yield from _check_case("property", [each.name for each in properties])
        yield from check_annotations(declaration, properties)
        yield from check_constraints(declaration, properties)


# ---------------------------------------------------------------------------------------------- names


def _find_duplicates(
    kind: str, declarations: Iterable[ast.InterfaceSyntax | ast.NodeSyntax]
) -> Iterator[SchemaFinding]:
    seen: set[str] = set()
    for declaration in declarations:
        name = declaration.name
        if name.text in seen:
            message = f"{kind} {name.text} is declared twice"
            yield SchemaFinding(codes.DUPLICATE_DECLARATION, message, name.span, "rename one of the two")
        seen.add(name.text)


def _find_duplicate_edges(edges: Iterable[ast.EdgeSyntax]) -> Iterator[SchemaFinding]:
    # Queries find edges by name in any case.
    seen: dict[str, str] = {}
    for edge in edges:
        name = edge.name
        earlier = seen.get(name.text.lower())
        if earlier is not None:
            same = earlier == name.text
            message = f"edge {name.text} " + ("is declared twice" if same else f"differs from {earlier} only in case")
            yield SchemaFinding(codes.DUPLICATE_DECLARATION, message, name.span, "rename one of the two")
        seen.setdefault(name.text.lower(), name.text)


def _check_property_names(properties: Iterable[ast.PropertySyntax]) -> Iterator[SchemaFinding]:
    seen: set[str] = set()
    for each in properties:
        name = each.name
        if name.text in seen:
            message = f"property '{name.text}' is declared twice"
            yield SchemaFinding(codes.DUPLICATE_PROPERTY, message, name.span, "remove one of the two")
        seen.add(name.text)
        if name.text.lower() in SYSTEM_COLUMNS or name.text in LANCE_COLUMNS:
            message = f"property '{name.text}' has the name of a system column"
            yield SchemaFinding(
                codes.RESERVED_NAME, message, name.span, f"choose another name, such as '{name.text}_value'"
            )
    yield from _check_case("property", [each.name for each in properties])


def _check_case(kind: str, names: Iterable[ast.NameSyntax]) -> Iterator[SchemaFinding]:
    # Spark cannot tell such columns and views apart.
    seen: dict[str, str] = {}
    for name in names:
        earlier = seen.setdefault(name.text.lower(), name.text)
        if earlier != name.text:
            message = f"{kind} '{name.text}' differs from '{earlier}' only in case"
            yield SchemaFinding(codes.NAMES_DIFFER_IN_CASE, message, name.span, "rename one of the two")


# ---------------------------------------------------------------------------------------------- types


def _check_type(written: ast.TypeSyntax) -> Iterator[SchemaFinding]:
    dimension = written.dimension
    if dimension is not None and not 1 <= _parse_bounded(dimension) <= MAX_VECTOR_DIMENSION:
        message = f"a vector cannot have {_shorten(dimension.text)} dimensions"
        yield SchemaFinding(codes.BAD_TYPE, message, dimension.span, f"write a number from 1 to {MAX_VECTOR_DIMENSION}")
    if written.scalar is Scalar.BLOB and written.is_list:
        yield SchemaFinding(codes.BAD_TYPE, "a list cannot hold blobs", written.span, "use a node for each blob")
    seen: set[str] = set()
    for value in written.enum_values or ():
        if value.text in seen:
            message = f"the enum has '{value.text}' twice"
            yield SchemaFinding(codes.DUPLICATE_ENUM_VALUE, message, value.span, "remove one of the two")
        seen.add(value.text)


def _parse_bounded(number: ast.LiteralSyntax) -> int:
    """Return the number, or one that exceeds every limit if it has too many digits."""
    return int(number.text) if len(number.text) <= _MAX_DIGITS else 10**_MAX_DIGITS


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_DIGITS else f"{text[:_MAX_DIGITS]}..."


# ---------------------------------------------------------------------------------------------- interfaces


def _check_interfaces(node: ast.NodeSyntax, interfaces: Mapping[str, ast.InterfaceSyntax]) -> Iterator[SchemaFinding]:
    declared = {each.name.text: each for each in node.properties}
    injected: dict[str, tuple[str, ast.PropertySyntax]] = {}
    for name in node.implements:
        interface = interfaces.get(name.text)
        if interface is None:
            yield _report_unknown_type(f"there is no interface {name.text}", name, interfaces)
            continue
        for each in interface.properties:
            if any(_check_type(each.type)):
                continue
            own = declared.get(each.name.text)
            if own is None:
                first, other = injected.setdefault(each.name.text, (name.text, each))
                if _meaning_of(other) != _meaning_of(each):
                    message = f"interfaces {first} and {name.text} declare '{each.name.text}' differently"
                    hint = f"declare '{each.name.text}' in the node, or make the two equal"
                    yield SchemaFinding(codes.INTERFACES_DISAGREE, message, name.span, hint)
            elif not any(_check_type(own.type)) and resolve_type(own.type) != resolve_type(each.type):
                message = (
                    f"'{own.name.text}' is {resolve_type(own.type)} here and {resolve_type(each.type)} in {name.text}"
                )
                yield SchemaFinding(
                    codes.INTERFACE_MISMATCH,
                    message,
                    own.type.span,
                    f"write {resolve_type(each.type)}, or leave it out",
                )


def _check_injected_count(
    nodes: Iterable[ast.NodeSyntax], interfaces: Mapping[str, ast.InterfaceSyntax]
) -> SchemaFinding | None:
    # Many nodes with a large interface each: a small text could declare billions of properties.
    injected = 0
    for node in nodes:
        for name in node.implements:
            injected += len(interfaces[name.text].properties) if name.text in interfaces else 0
            if injected > MAX_INJECTED_PROPERTIES:
                message = f"the interfaces give the nodes more than {MAX_INJECTED_PROPERTIES:,} properties"
                return SchemaFinding(codes.TOO_MANY_PROPERTIES, message, name.span, "use smaller interfaces")
    return None


def _meaning_of(each: ast.PropertySyntax) -> object:
    return resolve_type(each.type), frozenset(each.annotations)


# ---------------------------------------------------------------------------------------------- edges


def _check_endpoints(edge: ast.EdgeSyntax, node_names: Collection[str]) -> Iterator[SchemaFinding]:
    for name in (edge.from_type, edge.to_type):
        if name.text not in node_names:
            yield _report_unknown_type(f"there is no node type {name.text}", name, node_names)


def _report_unknown_type(message: str, name: ast.NameSyntax, known: Collection[str]) -> SchemaFinding:
    return SchemaFinding(codes.UNKNOWN_TYPE, message, name.span, f"declare {name.text}", name.text, known)


def _check_cardinality(edge: ast.EdgeSyntax) -> Iterator[SchemaFinding]:
    for annotation in edge.annotations:
        if annotation.name.text == "card":
            number = annotation.value.text if annotation.value else ""
            example = f"@card({number}..{number})" if number.isdigit() else "@card(0..1)"
            message = "@card needs a minimum and a maximum"
            yield SchemaFinding(codes.CARDINALITY_WITHOUT_RANGE, message, annotation.name.span, f"write {example}")
    if edge.cardinality is None:
        return
    minimum, maximum = edge.cardinality.minimum, edge.cardinality.maximum
    for bound in (minimum, maximum):
        if bound is not None and _parse_bounded(bound) > _MAX_CARDINALITY:
            message = f"{_shorten(bound.text)} is too large for a cardinality"
            yield SchemaFinding(codes.BAD_CARDINALITY, message, bound.span, f"the largest bound is {_MAX_CARDINALITY}")
    if maximum is not None and _parse_bounded(minimum) > _parse_bounded(maximum):
        message = f"the minimum {_shorten(minimum.text)} exceeds the maximum {_shorten(maximum.text)}"
        hint = f"write @card({_shorten(maximum.text)}..{_shorten(minimum.text)})"
        yield SchemaFinding(codes.BAD_CARDINALITY, message, minimum.span.to(maximum.span), hint)
