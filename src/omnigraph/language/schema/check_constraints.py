"""Checks of constraints: their arguments, and whether they fit the properties that they name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from omnigraph.language.schema import ast, codes
from omnigraph.language.schema.ast import ConstraintKind
from omnigraph.language.schema.check_annotations import find_misplacement
from omnigraph.language.schema.codes import SchemaFinding
from omnigraph.language.schema.resolve import constraints_of, resolve_type
from omnigraph.language.source import Span
from omnigraph.language.types import INTEGER_RANGES, Scalar, ValueType
from omnigraph.language.values import find_pattern_error

_NODES_ONLY = frozenset({ConstraintKind.KEY, ConstraintKind.RANGE, ConstraintKind.CHECK})
_MAX_DIGITS = 20
_FORMS = {
    ConstraintKind.KEY: "@key(property, ...)",
    ConstraintKind.UNIQUE: "@unique(property, ...)",
    ConstraintKind.INDEX: "@index(property, ...)",
    ConstraintKind.RANGE: "@range(property, 0..10)",
    ConstraintKind.CHECK: '@check(property, "pattern")',
}

Types = Mapping[str, ValueType]


def check_constraints(
    declaration: ast.NodeSyntax | ast.EdgeSyntax, properties: Sequence[ast.PropertySyntax]
) -> Iterator[SchemaFinding]:
    """Check all constraints of a declaration, including those written as annotations of a property."""
    on_edge = isinstance(declaration, ast.EdgeSyntax)
    types = {each.name.text: resolve_type(each.type) for each in properties}
    if on_edge:
        types.update({"src": ValueType(Scalar.STRING), "dst": ValueType(Scalar.STRING)})
    carried = [
        constraint
        for each in properties
        for constraint in constraints_of(each)
        if find_misplacement(constraint.kind, each.type, on_edge=on_edge) is None
    ]
    constraints = [*declaration.constraints, *carried]
    yield from _check_single_key(constraints)
    for constraint in constraints:
        if on_edge and constraint.kind in _NODES_ONLY:
            message = f"an edge cannot have @{constraint.kind}"
            yield SchemaFinding(codes.CONSTRAINT_MISPLACED, message, constraint.span, "edges have @unique and @index")
        else:
            yield from _CHECKS[constraint.kind](constraint, types)


def _check_single_key(constraints: Sequence[ast.ConstraintSyntax]) -> Iterator[SchemaFinding]:
    keys = sorted((each for each in constraints if each.kind is ConstraintKind.KEY), key=lambda each: each.span.start)
    for key in keys[1:]:
        hint = "for a key of several properties write one @key(a, b) in the body"
        yield SchemaFinding(codes.SECOND_KEY, "a node has one key", key.span, hint)


# ---------------------------------------------------------------------------------------------- key, unique, index


def _check_columns(constraint: ast.ConstraintSyntax, types: Types) -> Iterator[SchemaFinding]:
    for argument in constraint.arguments:
        if not isinstance(argument, ast.NameSyntax):
            yield _report_wrong_form(constraint, argument)
            continue
        type_ = types.get(argument.text)
        if type_ is None:
            yield _report_unknown_property(argument, types)
            continue
        reason = _find_type_obstacle(constraint.kind, type_)
        if reason is not None:
            code = codes.UNIQUE_BLOB if constraint.kind is ConstraintKind.UNIQUE else codes.CONSTRAINT_TYPE
            message = f"'{argument.text}' is {type_}; {reason}"
            yield SchemaFinding(
                code, message, _span_of_argument(constraint, argument), f"remove it from @{constraint.kind}"
            )


def _find_type_obstacle(kind: ConstraintKind, type_: ValueType) -> str | None:
    if type_.scalar is Scalar.BLOB:
        return f"a blob cannot stand in @{kind}"
    if kind is not ConstraintKind.KEY:
        return None
    if type_.is_list or type_.scalar is Scalar.VECTOR:
        return "a key is made of single values"
    return "a key cannot be null" if type_.nullable else None


# ---------------------------------------------------------------------------------------------- range, check


def _check_range(constraint: ast.ConstraintSyntax, types: Types) -> Iterator[SchemaFinding]:
    name, bounds = _split_arguments(constraint)
    if name is None or not isinstance(bounds, ast.BoundsSyntax):
        yield _report_wrong_form(constraint, constraint)
        return
    yield from _check_surplus(constraint)
    type_ = types.get(name.text)
    if type_ is None:
        yield _report_unknown_property(name, types)
    elif not type_.is_number:
        message = f"'{name.text}' is {type_}; @range needs a number"
        yield SchemaFinding(codes.CONSTRAINT_TYPE, message, name.span, "name a property with a number type")
    limits = [_parse_limit(bound) for bound in (bounds.minimum, bounds.maximum) if bound is not None]
    if None in limits:
        message = "a bound is an integer of 64 bits or a finite float"
        yield SchemaFinding(codes.CONSTRAINT_ARGUMENTS, message, bounds.span, "choose a smaller bound, or leave it out")
    elif len(limits) == 2 and limits != sorted(limits, key=lambda limit: limit or 0):
        yield SchemaFinding(
            codes.RANGE_REVERSED,
            "the minimum of the range exceeds its maximum",
            bounds.span,
            "write the smaller bound first",
        )


def _parse_limit(bound: ast.LiteralSyntax) -> int | float | None:
    if bound.kind is ast.LiteralKind.FLOAT:
        return float(bound.text) if math.isfinite(float(bound.text)) else None
    fits = len(bound.text) <= _MAX_DIGITS and int(bound.text) in INTEGER_RANGES[Scalar.I64]
    return int(bound.text) if fits else None


def _check_pattern(constraint: ast.ConstraintSyntax, types: Types) -> Iterator[SchemaFinding]:
    name, pattern = _split_arguments(constraint)
    if name is None or not isinstance(pattern, ast.LiteralSyntax) or pattern.kind is not ast.LiteralKind.STRING:
        yield _report_wrong_form(constraint, constraint)
        return
    yield from _check_surplus(constraint)
    type_ = types.get(name.text)
    if type_ is None:
        yield _report_unknown_property(name, types)
    elif type_.scalar is not Scalar.STRING or type_.is_list:
        message = f"'{name.text}' is {type_}; @check needs a String"
        yield SchemaFinding(codes.CONSTRAINT_TYPE, message, name.span, "name a String property")
    reason = find_pattern_error(pattern.text)
    if reason is not None:
        hint = "patterns are RE2 expressions: no look-around, no back references"
        yield SchemaFinding(codes.BAD_PATTERN, f"the pattern cannot be read: {reason}", pattern.span, hint)


def _split_arguments(constraint: ast.ConstraintSyntax) -> tuple[ast.NameSyntax | None, ast.ArgumentSyntax | None]:
    first, *rest = constraint.arguments
    return (first if isinstance(first, ast.NameSyntax) else None), (rest[0] if rest else None)


# ---------------------------------------------------------------------------------------------- what is wrong


def _span_of_argument(constraint: ast.ConstraintSyntax, argument: ast.NameSyntax) -> Span:
    """Return the span of the argument, or of the annotation if the argument is the annotated property."""
    return argument.span if argument.span.start > constraint.span.start else constraint.span


def _report_wrong_form(
    constraint: ast.ConstraintSyntax, place: ast.ConstraintSyntax | ast.ArgumentSyntax
) -> SchemaFinding:
    message = f"the arguments of @{constraint.kind} are wrong"
    return SchemaFinding(codes.CONSTRAINT_ARGUMENTS, message, place.span, f"write {_FORMS[constraint.kind]}")


def _report_unknown_property(name: ast.NameSyntax, types: Types) -> SchemaFinding:
    message = f"there is no property '{name.text}'"
    return SchemaFinding(codes.UNKNOWN_PROPERTY, message, name.span, f"declare '{name.text}'", name.text, types.keys())


def _check_surplus(constraint: ast.ConstraintSyntax) -> Iterator[SchemaFinding]:
    for argument in constraint.arguments[2:]:
        message = f"@{constraint.kind} has two arguments"
        yield SchemaFinding(codes.SURPLUS_ARGUMENTS, message, argument.span, f"write {_FORMS[constraint.kind]}")


_CHECKS: Mapping[ConstraintKind, Callable[[ast.ConstraintSyntax, Types], Iterator[SchemaFinding]]] = {
    ConstraintKind.KEY: _check_columns,
    ConstraintKind.UNIQUE: _check_columns,
    ConstraintKind.INDEX: _check_columns,
    ConstraintKind.RANGE: _check_range,
    ConstraintKind.CHECK: _check_pattern,
}
