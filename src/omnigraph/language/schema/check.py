"""Every rule that the grammar cannot say, checked for all declarations of a file at once.

Rules about annotations and constraints have rooms of their own; this one holds names, types, interfaces and
edges. Each check yields what it finds and goes on, so that one run reports everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from omnigraph.errors import Problem
from omnigraph.language.schema import ast, codes
from omnigraph.language.schema.check_annotations import check_annotations
from omnigraph.language.schema.check_constraints import check_constraints
from omnigraph.language.schema.findings import Finding, problems_of
from omnigraph.language.schema.resolve import interfaces_by_name, resolved_properties, value_type
from omnigraph.language.source import Source
from omnigraph.language.types import MAX_VECTOR_DIMENSION, Scalar

SYSTEM_COLUMNS = frozenset({"id", "src", "dst", "from", "to"})
LANCE_COLUMNS = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)
MAX_INJECTED_PROPERTIES = 200_000
_MAX_CARDINALITY = 2**32 - 1
_MAX_DIGITS = 20


def check(file: ast.SchemaFile, source: Source) -> list[Problem]:
    """Every problem of a file that parses, in order of place."""
    return problems_of(_findings(file), source)


def _findings(file: ast.SchemaFile) -> Iterator[Finding]:
    interfaces = interfaces_by_name(file)
    node_names = {node.name.text for node in file.nodes}
    yield from _declared_twice("interface", file.interfaces)
    yield from _declared_twice("node", file.nodes)
    yield from _edges_declared_twice(file.edges)
    for declaration in (*file.interfaces, *file.nodes, *file.edges):
        yield from _property_names(declaration.properties)
        for each in declaration.properties:
            yield from _type_problems(each.type)
    for edge in file.edges:
        yield from _endpoints(edge, node_names)
        yield from _cardinality(edge)
    excess = _excess(file.nodes, interfaces)
    if excess is not None:
        yield excess
        return
    for node in file.nodes:
        yield from _implements(node, interfaces)
    for declaration in (*file.nodes, *file.edges):
        # A property whose type is no type was reported above, and nothing more can be said about it.
        properties = [
            each for each in resolved_properties(declaration, interfaces) if not any(_type_problems(each.type))
        ]
        yield from _differ_in_case(properties)
        yield from check_annotations(declaration, properties)
        yield from check_constraints(declaration, properties)


# ---------------------------------------------------------------------------------------------- names


def _declared_twice(kind: str, declarations: Iterable[ast.Interface | ast.Node]) -> Iterator[Finding]:
    seen: set[str] = set()
    for declaration in declarations:
        name = declaration.name
        if name.text in seen:
            message = f"{kind} {name.text} is declared twice"
            yield Finding(codes.DUPLICATE_DECLARATION, message, name.span, "rename one of the two")
        seen.add(name.text)


def _edges_declared_twice(edges: Iterable[ast.Edge]) -> Iterator[Finding]:
    # Queries find edges in any case, so two that differ only in case cannot be told apart.
    seen: dict[str, str] = {}
    for edge in edges:
        name = edge.name
        earlier = seen.get(name.text.lower())
        if earlier is not None:
            same = earlier == name.text
            message = f"edge {name.text} " + ("is declared twice" if same else f"differs from {earlier} only in case")
            yield Finding(codes.DUPLICATE_DECLARATION, message, name.span, "rename one of the two")
        seen.setdefault(name.text.lower(), name.text)


def _property_names(properties: Iterable[ast.Property]) -> Iterator[Finding]:
    seen: set[str] = set()
    for each in properties:
        name = each.name
        if name.text in seen:
            message = f"property '{name.text}' is declared twice"
            yield Finding(codes.DUPLICATE_PROPERTY, message, name.span, "remove one of the two")
        seen.add(name.text)
        if name.text.lower() in SYSTEM_COLUMNS or name.text in LANCE_COLUMNS:
            message = f"property '{name.text}' has the name of a column that the system keeps itself"
            yield Finding(codes.RESERVED_NAME, message, name.span, f"choose another name, such as '{name.text}_value'")
    yield from _differ_in_case(properties)


def _differ_in_case(properties: Iterable[ast.Property]) -> Iterator[Finding]:
    # Spark cannot tell such columns apart.
    seen: dict[str, str] = {}
    for each in properties:
        name = each.name
        earlier = seen.setdefault(name.text.lower(), name.text)
        if earlier != name.text:
            message = f"property '{name.text}' differs from '{earlier}' only in case"
            yield Finding(codes.NAMES_DIFFER_IN_CASE, message, name.span, "rename one of the two")


# ---------------------------------------------------------------------------------------------- types


def _type_problems(written: ast.TypeExpression) -> Iterator[Finding]:
    dimension = written.dimension
    if dimension is not None and not 1 <= _bounded(dimension) <= MAX_VECTOR_DIMENSION:
        message = f"a vector cannot have {_shortened(dimension.text)} dimensions"
        yield Finding(codes.BAD_TYPE, message, dimension.span, f"write a number from 1 to {MAX_VECTOR_DIMENSION}")
    if written.scalar is Scalar.BLOB and written.is_list:
        yield Finding(codes.BAD_TYPE, "a list cannot hold blobs", written.span, "use a node for each blob")
    seen: set[str] = set()
    for value in written.enum_values or ():
        if value.text in seen:
            message = f"the enum has '{value.text}' twice"
            yield Finding(codes.DUPLICATE_ENUM_VALUE, message, value.span, "remove one of the two")
        seen.add(value.text)


def _bounded(number: ast.Literal) -> int:
    """The number, or one that is too large for any use."""
    return int(number.text) if len(number.text) <= _MAX_DIGITS else 10**_MAX_DIGITS


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_DIGITS else f"{text[:_MAX_DIGITS]}..."


# ---------------------------------------------------------------------------------------------- interfaces


def _implements(node: ast.Node, interfaces: Mapping[str, ast.Interface]) -> Iterator[Finding]:
    declared = {each.name.text: each for each in node.properties}
    injected: dict[str, tuple[str, ast.Property]] = {}
    for name in node.implements:
        interface = interfaces.get(name.text)
        if interface is None:
            yield _unknown_type(f"there is no interface {name.text}", name, interfaces)
            continue
        for each in interface.properties:
            if any(_type_problems(each.type)):
                continue
            own = declared.get(each.name.text)
            if own is None:
                first, other = injected.setdefault(each.name.text, (name.text, each))
                if _meaning(other) != _meaning(each):
                    message = f"interfaces {first} and {name.text} declare '{each.name.text}' differently"
                    hint = f"declare '{each.name.text}' in the node, or make the two equal"
                    yield Finding(codes.INTERFACES_DISAGREE, message, name.span, hint)
            elif not any(_type_problems(own.type)) and value_type(own.type) != value_type(each.type):
                message = f"'{own.name.text}' is {value_type(own.type)} here and {value_type(each.type)} in {name.text}"
                yield Finding(
                    codes.INTERFACE_MISMATCH, message, own.type.span, f"write {value_type(each.type)}, or leave it out"
                )


def _excess(nodes: Iterable[ast.Node], interfaces: Mapping[str, ast.Interface]) -> Finding | None:
    # A small text can ask for billions of properties: so many nodes, each with so large an interface.
    injected = 0
    for node in nodes:
        for name in node.implements:
            injected += len(interfaces[name.text].properties) if name.text in interfaces else 0
            if injected > MAX_INJECTED_PROPERTIES:
                message = f"the interfaces give the nodes more than {MAX_INJECTED_PROPERTIES:,} properties"
                return Finding(codes.TOO_MANY_PROPERTIES, message, name.span, "use smaller interfaces")
    return None


def _meaning(each: ast.Property) -> object:
    return value_type(each.type), frozenset(each.annotations)


# ---------------------------------------------------------------------------------------------- edges


def _endpoints(edge: ast.Edge, node_names: Collection[str]) -> Iterator[Finding]:
    for name in (edge.from_type, edge.to_type):
        if name.text not in node_names:
            yield _unknown_type(f"there is no node type {name.text}", name, node_names)


def _unknown_type(message: str, name: ast.Name, known: Collection[str]) -> Finding:
    return Finding(codes.UNKNOWN_TYPE, message, name.span, f"declare {name.text}", name.text, known)


def _cardinality(edge: ast.Edge) -> Iterator[Finding]:
    for annotation in edge.annotations:
        if annotation.name.text == "card":
            number = annotation.value.text if annotation.value else ""
            example = f"@card({number}..{number})" if number.isdigit() else "@card(0..1)"
            message = "@card needs a minimum and a maximum"
            yield Finding(codes.CARDINALITY_WITHOUT_RANGE, message, annotation.name.span, f"write {example}")
    if edge.cardinality is None:
        return
    minimum, maximum = edge.cardinality.minimum, edge.cardinality.maximum
    for bound in (minimum, maximum):
        if bound is not None and _bounded(bound) > _MAX_CARDINALITY:
            message = f"{_shortened(bound.text)} is too large for a cardinality"
            yield Finding(codes.BAD_CARDINALITY, message, bound.span, f"the largest bound is {_MAX_CARDINALITY}")
    if maximum is not None and _bounded(minimum) > _bounded(maximum):
        message = f"no number lies from {_shortened(minimum.text)} to {_shortened(maximum.text)}"
        hint = f"write @card({_shortened(maximum.text)}..{_shortened(minimum.text)})"
        yield Finding(codes.BAD_CARDINALITY, message, minimum.span.to(maximum.span), hint)
