"""Checks of annotations: where they may stand, and their values. Unknown annotations are kept and never a problem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from omnigraph.language.schema import ast, codes
from omnigraph.language.schema.codes import SchemaFinding
from omnigraph.language.schema.defaults import parse_default
from omnigraph.language.schema.resolve import CONSTRAINT_ANNOTATIONS, resolve_type
from omnigraph.language.types import Scalar

_TEXTS = frozenset({"description", "instruction"})
_ONLY_ON_PROPERTIES = CONSTRAINT_ANNOTATIONS | {"embed"}
KNOWN_ANNOTATIONS = CONSTRAINT_ANNOTATIONS | _TEXTS | {"embed", "rename_from", "default"}
"""The annotations that mean something; each may stand once at its place."""

_NOT_ON_LISTS = CONSTRAINT_ANNOTATIONS | {"embed"}
_NOT_ON_VECTORS = frozenset({"key", "unique"})
_NOT_ON_EDGES = frozenset({"key", "embed"})


def check_annotations(
    declaration: ast.NodeSyntax | ast.EdgeSyntax, properties: Sequence[ast.PropertySyntax]
) -> Iterator[SchemaFinding]:
    """Check the annotations of a declaration and of its properties, including those of interfaces."""
    yield from _check_type_annotations(declaration)
    by_name = {each.name.text: each for each in properties}
    for each in properties:
        yield from _check_values(each.annotations)
        for annotation in each.annotations:
            name = annotation.name
            place = find_misplacement(name.text, each.type, on_edge=isinstance(declaration, ast.EdgeSyntax))
            if place is not None:
                message = f"@{name.text} does not belong on {place}"
                yield SchemaFinding(codes.ANNOTATION_MISPLACED, message, name.span, f"remove @{name.text}")
            elif name.text == "embed":
                yield from _check_embed(annotation, each, by_name)
            elif name.text == "default":
                yield from _check_default(annotation, each)


def _check_type_annotations(declaration: ast.NodeSyntax | ast.EdgeSyntax) -> Iterator[SchemaFinding]:
    for annotation in declaration.annotations:
        name = annotation.name
        if name.text in _ONLY_ON_PROPERTIES:
            hint = f"write @{name.text} after a property"
            yield SchemaFinding(codes.ANNOTATION_MISPLACED, f"@{name.text} does not belong on a type", name.span, hint)
    yield from _check_values(declaration.annotations)


def find_misplacement(name: str, type_: ast.TypeSyntax, *, on_edge: bool) -> str | None:
    """Return the kind of property that the annotation does not belong on, or None if it fits."""
    if name == "instruction":
        return "a property"
    if on_edge and name in _NOT_ON_EDGES:
        return "a property of an edge"
    if type_.is_list and name in _NOT_ON_LISTS:
        return "a list"
    if type_.scalar is Scalar.BLOB and name in _NOT_ON_LISTS:
        return "a blob"
    if type_.scalar is Scalar.VECTOR and name in _NOT_ON_VECTORS:
        return "a vector"
    return None


def _check_values(annotations: Sequence[ast.AnnotationSyntax]) -> Iterator[SchemaFinding]:
    seen: set[str] = set()
    for annotation in annotations:
        name = annotation.name
        if name.text in seen and name.text in KNOWN_ANNOTATIONS:
            message = f"@{name.text} is given twice"
            yield SchemaFinding(codes.ANNOTATION_REPEATED, message, name.span, "remove one of the two")
        seen.add(name.text)
        blank = annotation.value is None or not annotation.value.text.strip()
        if name.text in CONSTRAINT_ANNOTATIONS and annotation.value is not None:
            message = f"@{name.text} on a property takes no value"
            yield SchemaFinding(codes.ANNOTATION_VALUE, message, name.span, f"write @{name.text}")
        elif name.text in _TEXTS and blank:
            message = f"@{name.text} needs a text"
            yield SchemaFinding(codes.ANNOTATION_VALUE, message, name.span, f'write @{name.text}("...")')
        elif name.text == "rename_from" and (blank or annotation.keywords):
            message = "@rename_from takes exactly one name"
            yield SchemaFinding(codes.BAD_RENAME_HINT, message, name.span, 'write @rename_from("old name")')


def _check_embed(
    annotation: ast.AnnotationSyntax, target: ast.PropertySyntax, properties: Mapping[str, ast.PropertySyntax]
) -> Iterator[SchemaFinding]:
    name = annotation.name
    if target.type.scalar is not Scalar.VECTOR:
        message = f"@embed needs a vector, and '{target.name.text}' is {resolve_type(target.type)}"
        yield SchemaFinding(codes.BAD_EMBED, message, name.span, "put it on a property of type Vector(n)")
    for keyword, _ in annotation.keywords:
        if keyword.text != "model":
            message = f"@embed does not know '{keyword.text}'"
            yield SchemaFinding(codes.BAD_EMBED, message, keyword.span, 'the only keyword is model="..."')
    if annotation.value is None or not annotation.value.text.strip():
        yield SchemaFinding(codes.BAD_EMBED, "@embed needs a source property", name.span, 'write @embed("property")')
        return
    source = properties.get(annotation.value.text)
    if source is None:
        message = f"there is no property '{annotation.value.text}' to embed"
        texts = [each.name.text for each in properties.values() if _is_text(each.type)]
        yield SchemaFinding(
            codes.BAD_EMBED, message, annotation.value.span, "name a String property", annotation.value.text, texts
        )
    elif not _is_text(source.type):
        message = f"'{source.name.text}' is {resolve_type(source.type)}; only a String can be embedded"
        yield SchemaFinding(codes.BAD_EMBED, message, annotation.value.span, "name a String property")


def _is_text(type_: ast.TypeSyntax) -> bool:
    return type_.scalar is Scalar.STRING and not type_.is_list


def _check_default(annotation: ast.AnnotationSyntax, each: ast.PropertySyntax) -> Iterator[SchemaFinding]:
    if annotation.value is None or annotation.keywords:
        message = "@default takes exactly one value"
        yield SchemaFinding(codes.BAD_DEFAULT, message, annotation.name.span, 'write @default("value")')
        return
    try:
        parse_default(annotation.value.text, resolve_type(each.type))
    except ValueError as error:
        hint = f"write a value of type {resolve_type(each.type)}, or remove @default"
        yield SchemaFinding(codes.BAD_DEFAULT, str(error), annotation.value.span, hint)
