"""The rules that stand in a body, and whether they fit the properties that they name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from omnigraph.language.schema import ast, codes
from omnigraph.language.schema.ast import ConstraintKind
from omnigraph.language.schema.check_annotations import misplaced
from omnigraph.language.schema.findings import Finding
from omnigraph.language.schema.resolve import property_constraints, value_type
from omnigraph.language.source import Span
from omnigraph.language.types import INTEGER_RANGES, Scalar, ValueType

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


def check_constraints(declaration: ast.Node | ast.Edge, properties: Sequence[ast.Property]) -> Iterator[Finding]:
    """Every constraint of a declaration, those written as annotations included."""
    on_edge = isinstance(declaration, ast.Edge)
    types = {each.name.text: value_type(each.type) for each in properties}
    if on_edge:
        types.update({"src": ValueType(Scalar.STRING), "dst": ValueType(Scalar.STRING)})
    carried = [
        constraint
        for each in properties
        for constraint in property_constraints(each)
        if misplaced(constraint.kind, each.type, on_edge=on_edge) is None
    ]
    constraints = [*declaration.constraints, *carried]
    yield from _second_keys(constraints)
    for constraint in constraints:
        if on_edge and constraint.kind in _NODES_ONLY:
            message = f"an edge cannot have @{constraint.kind}"
            yield Finding(codes.CONSTRAINT_MISPLACED, message, constraint.span, "edges have @unique and @index")
        else:
            yield from _CHECKS[constraint.kind](constraint, types)


def _second_keys(constraints: Sequence[ast.Constraint]) -> Iterator[Finding]:
    keys = sorted((each for each in constraints if each.kind is ConstraintKind.KEY), key=lambda each: each.span.start)
    for key in keys[1:]:
        hint = "for a key of several properties write one @key(a, b) in the body"
        yield Finding(codes.SECOND_KEY, "a node has one key", key.span, hint)


# ---------------------------------------------------------------------------------------------- key, unique, index


def _columns(constraint: ast.Constraint, types: Types) -> Iterator[Finding]:
    for argument in constraint.arguments:
        if not isinstance(argument, ast.Name):
            yield _wrong_form(constraint, argument)
            continue
        type_ = types.get(argument.text)
        if type_ is None:
            yield _unknown_property(argument, types)
            continue
        reason = _unfit(constraint.kind, type_)
        if reason is not None:
            code = codes.UNIQUE_BLOB if constraint.kind is ConstraintKind.UNIQUE else codes.CONSTRAINT_TYPE
            message = f"'{argument.text}' is {type_}; {reason}"
            yield Finding(code, message, _place(constraint, argument), f"remove it from @{constraint.kind}")


def _unfit(kind: ConstraintKind, type_: ValueType) -> str | None:
    if type_.scalar is Scalar.BLOB:
        return f"a blob cannot stand in @{kind}"
    if kind is not ConstraintKind.KEY:
        return None
    if type_.is_list or type_.scalar is Scalar.VECTOR:
        return "a key is made of single values"
    return "a key cannot be null" if type_.nullable else None


# ---------------------------------------------------------------------------------------------- range, check


def _range(constraint: ast.Constraint, types: Types) -> Iterator[Finding]:
    name, bounds = _pair(constraint)
    if name is None or not isinstance(bounds, ast.Bounds):
        yield _wrong_form(constraint, constraint)
        return
    yield from _surplus(constraint)
    type_ = types.get(name.text)
    if type_ is None:
        yield _unknown_property(name, types)
    elif not type_.is_number:
        message = f"'{name.text}' is {type_}; @range needs a number"
        yield Finding(codes.CONSTRAINT_TYPE, message, name.span, "name a property with a number type")
    limits = [_limit(bound) for bound in (bounds.minimum, bounds.maximum) if bound is not None]
    if None in limits:
        message = "a bound is an integer of 64 bits or a finite float"
        yield Finding(codes.CONSTRAINT_ARGUMENTS, message, bounds.span, "choose a smaller bound, or leave it out")
    elif len(limits) == 2 and limits != sorted(limits, key=lambda limit: limit or 0):
        yield Finding(
            codes.RANGE_REVERSED, "no number lies in this range", bounds.span, "write the smaller bound first"
        )


def _limit(bound: ast.Literal) -> int | float | None:
    if bound.kind is ast.LiteralKind.FLOAT:
        return float(bound.text) if math.isfinite(float(bound.text)) else None
    fits = len(bound.text) <= _MAX_DIGITS and int(bound.text) in INTEGER_RANGES[Scalar.I64]
    return int(bound.text) if fits else None


def _check(constraint: ast.Constraint, types: Types) -> Iterator[Finding]:
    name, pattern = _pair(constraint)
    if name is None or not isinstance(pattern, ast.Literal) or pattern.kind is not ast.LiteralKind.STRING:
        yield _wrong_form(constraint, constraint)
        return
    yield from _surplus(constraint)
    type_ = types.get(name.text)
    if type_ is None:
        yield _unknown_property(name, types)
    elif type_.scalar is not Scalar.STRING or type_.is_list:
        message = f"'{name.text}' is {type_}; @check needs a String"
        yield Finding(codes.CONSTRAINT_TYPE, message, name.span, "name a String property")
    reason = _pattern_problem(pattern.text)
    if reason is not None:
        hint = "patterns are RE2 expressions: no look-around, no back references"
        yield Finding(codes.BAD_PATTERN, f"the pattern cannot be read: {reason}", pattern.span, hint)


def _pattern_problem(pattern: str) -> str | None:
    # Arrow brings the RE2 that will run the pattern; schemas without one do not pay for its import. A value made
    # from a list would make Arrow import pandas too.
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.nulls(1, pa.string()), pattern)
    except pa.ArrowInvalid as error:
        return str(error).removeprefix("Invalid regular expression: ")
    return None


def _pair(constraint: ast.Constraint) -> tuple[ast.Name | None, ast.Argument | None]:
    first, *rest = constraint.arguments
    return (first if isinstance(first, ast.Name) else None), (rest[0] if rest else None)


# ---------------------------------------------------------------------------------------------- what is wrong


def _place(constraint: ast.Constraint, argument: ast.Name) -> Span:
    """The argument, or the annotation where the argument is the property that carries it."""
    return argument.span if argument.span.start > constraint.span.start else constraint.span


def _wrong_form(constraint: ast.Constraint, place: ast.Constraint | ast.Argument) -> Finding:
    message = f"@{constraint.kind} cannot be made of this"
    return Finding(codes.CONSTRAINT_ARGUMENTS, message, place.span, f"write {_FORMS[constraint.kind]}")


def _unknown_property(name: ast.Name, types: Types) -> Finding:
    message = f"there is no property '{name.text}'"
    return Finding(codes.UNKNOWN_PROPERTY, message, name.span, f"declare '{name.text}'", name.text, types.keys())


def _surplus(constraint: ast.Constraint) -> Iterator[Finding]:
    for argument in constraint.arguments[2:]:
        message = f"@{constraint.kind} has two arguments"
        yield Finding(codes.SURPLUS_ARGUMENTS, message, argument.span, f"write {_FORMS[constraint.kind]}")


_CHECKS: Mapping[ConstraintKind, Callable[[ast.Constraint, Types], Iterator[Finding]]] = {
    ConstraintKind.KEY: _columns,
    ConstraintKind.UNIQUE: _columns,
    ConstraintKind.INDEX: _columns,
    ConstraintKind.RANGE: _range,
    ConstraintKind.CHECK: _check,
}
