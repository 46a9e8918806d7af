"""Types of literals, and their conversion to the type of a property or of the other side of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from omnigraph.language.query import ast
from omnigraph.language.query.check.report import ProblemReport
from omnigraph.language.query.typed_tree import Constant
from omnigraph.language.source import Span
from omnigraph.language.syntax import quote_string
from omnigraph.language.types import FLOATS, INTEGER_RANGES, INTEGERS, NUMBERS, Scalar, ValueType
from omnigraph.language.values import (
    ConstantValue,
    ValueMismatch,
    convert_value,
    fit_to_f32,
    is_rounded,
    parse_date,
    parse_datetime,
)

_STRING = ValueType(Scalar.STRING)


def are_comparable(one: ValueType, other: ValueType) -> bool:
    """Whether two types can be compared: any two numbers, else the same scalar type."""
    if one.scalar in NUMBERS and other.scalar in NUMBERS:
        return True
    return one.scalar is other.scalar


def can_assign(given: ValueType, target: ValueType) -> bool:
    """Whether a property takes values of a type, apart from nulls and ranges. A float never becomes an integer."""
    if given.is_list is not target.is_list:
        return False
    if target.scalar is Scalar.VECTOR:
        return given.scalar is Scalar.VECTOR and given.dimension == target.dimension
    if target.scalar is Scalar.BLOB:
        return given.scalar in {Scalar.BLOB, Scalar.STRING}
    if target.scalar in FLOATS:
        return given.scalar in NUMBERS
    if target.scalar in INTEGERS:
        return given.scalar in INTEGERS
    return given.scalar is target.scalar


# ------------------------------------------------------------------------------------------------ by itself


def type_literal(literal: ast.AnyLiteral, report: ProblemReport) -> Constant | None:
    """Return a literal with its own type."""
    match literal:
        case ast.ListLiteral():
            return _type_list(literal, report)
        case ast.DateLiteral():
            try:
                return Constant(parse_date(literal.text), ValueType(Scalar.DATE))
            except ValueMismatch as mismatch:
                return report.add("Q009", mismatch.message, literal.span, mismatch.hint)
        case ast.DateTimeLiteral():
            try:
                instant = parse_datetime(literal.text)
                return Constant(instant, ValueType(Scalar.DATETIME), is_rounded(literal.text, instant))
            except ValueMismatch as mismatch:
                return report.add("Q009", mismatch.message, literal.span, mismatch.hint)
        case ast.ScalarLiteral(value):
            return Constant(value, _type_of(value))


def _type_of(value: ConstantValue) -> ValueType:
    match value:
        case None:
            return _STRING.as_nullable()
        case bool():
            return ValueType(Scalar.BOOL)
        case int() | float():
            return _type_of_numbers([value])
        case _:
            return _STRING


def _type_of_numbers(values: Sequence[ConstantValue]) -> ValueType:
    for scalar in (Scalar.I64, Scalar.U64):
        if all(isinstance(value, int) and value in INTEGER_RANGES[scalar] for value in values):
            return ValueType(scalar)
    return ValueType(Scalar.F64)


def _type_list(literal: ast.ListLiteral, report: ProblemReport) -> Constant | None:
    items: list[Constant] = []
    for item in literal.items:
        constant = _type_item(item, report)
        if constant is None:
            return None
        if items and not are_comparable(items[0].type, constant.type):
            message = f"a list holds values of one type; this is {constant.type} among {items[0].type}"
            return report.add("Q004", message, item.span, f"write only {items[0].type} values")
        items.append(constant)
    values = tuple(item.value for item in items)
    element = items[0].type if items else _STRING
    if element.scalar in NUMBERS:
        element = _type_of_numbers(values)
    return Constant(values, replace(element, is_list=True))


def _type_item(item: ast.AnyLiteral, report: ProblemReport) -> Constant | None:
    if isinstance(item, ast.ListLiteral):
        return report.add("Q004", "a list cannot hold lists", item.span, "write one flat list")
    if item == ast.ScalarLiteral(None):
        return report.add("Q004", "a list cannot hold null", item.span, "leave it out")
    return type_literal(item, report)


# ------------------------------------------------------------------------------------------------ as a value of a type


def fit_literal(literal: ast.AnyLiteral, target: ValueType, report: ProblemReport) -> Constant | None:
    """Convert a literal to the type of a property that it is stored in or matched with. Problems have the code T3."""
    constant = type_literal(literal, report)
    if constant is None:
        return None
    if constant.value is None:
        if target.nullable:
            return Constant(None, target)
        return report.add("T3", f"{target} cannot be null", literal.span, "give a value")
    if isinstance(literal, ast.ListLiteral) and _takes_items(constant.type, target):
        return _fit_items(literal, target, report)
    if not can_assign(constant.type, target) or target.scalar is Scalar.BLOB:
        return report.add(
            "T3", f"expected {target}, found {_describe_literal(literal)}", literal.span, _suggest_form(literal, target)
        )
    return _convert(constant, target, literal.span, report)


def _takes_items(given: ValueType, target: ValueType) -> bool:
    return target.is_list or (target.scalar is Scalar.VECTOR and given.scalar in NUMBERS)


def _fit_items(literal: ast.ListLiteral, target: ValueType, report: ProblemReport) -> Constant | None:
    if target.scalar is Scalar.VECTOR and len(literal.items) != target.dimension:
        message = f"expected {target}, found {len(literal.items)} numbers"
        return report.add("T3", message, literal.span, f"write exactly {target.dimension} numbers")
    element = ValueType(Scalar.F32) if target.scalar is Scalar.VECTOR else target.item
    items = [fit_literal(item, element, report) for item in literal.items]
    values = tuple(item.value for item in items if item is not None)
    any_rounded = any(item.is_rounded for item in items if item is not None)
    return Constant(values, target, any_rounded) if len(values) == len(items) else None


def _convert(constant: Constant, target: ValueType, span: Span, report: ProblemReport) -> Constant | None:
    if target.scalar in {Scalar.DATE, Scalar.DATETIME}:
        return replace(constant, type=target)
    try:
        value = convert_value(constant.value, target)
        return Constant(value, target, target.scalar in FLOATS and is_rounded(constant.value, value))
    except ValueMismatch as mismatch:
        return report.add("T3", mismatch.message, span, mismatch.hint)


def _describe_literal(literal: ast.AnyLiteral) -> str:
    match literal:
        case ast.DateLiteral():
            return "a Date"
        case ast.DateTimeLiteral():
            return "a DateTime"
        case ast.ListLiteral():
            return "a list"
        case ast.ScalarLiteral(str() as text):
            return f"the text {quote_string(text)}"
        case ast.ScalarLiteral(bool()):
            return "a Bool"
        case ast.ScalarLiteral(value):
            return f"the number {value}"


def _suggest_form(literal: ast.AnyLiteral, target: ValueType) -> str | None:
    """Return a hint: how to write a literal of the target type."""
    if target.is_list:
        return "write a list: [...]"
    if isinstance(literal, ast.ScalarLiteral) and isinstance(literal.value, str):
        match target.scalar:
            case Scalar.DATE:
                return f"write date({quote_string(literal.value)})"
            case Scalar.DATETIME:
                return f"write datetime({quote_string(literal.value)})"
            case _:
                pass
    return _FORMS.get(target.scalar)


_FORMS = {
    Scalar.STRING: 'write a text: "..."',
    Scalar.BOOL: "write true or false",
    Scalar.DATE: 'write date("YYYY-MM-DD")',
    Scalar.DATETIME: 'write datetime("YYYY-MM-DDTHH:MM:SSZ")',
    Scalar.BLOB: "pass a blob as a parameter of type Blob or String",
    Scalar.VECTOR: "write a list of numbers",
    **dict.fromkeys(INTEGERS, "write an integer"),
    **dict.fromkeys(FLOATS, "write a number"),
}


# ------------------------------------------------------------------------------------------------ in a comparison


def align_literal(constant: Constant, other: ValueType) -> Constant:
    """Return a literal with the type that it is compared as: that of the other side where the comparison stays exact.

    A decimal next to an F32 means the nearest F32, unless it is too large for one. An integer next to a float stays an
    integer, so that it is never rounded, and a float next to an integer stays a float.
    """
    if constant.type.scalar in FLOATS and other.scalar in FLOATS:
        constant = _align_decimals(constant, other)
    same_kind = any({constant.type.scalar, other.scalar} <= kind for kind in (INTEGERS, FLOATS))
    if not same_kind:
        return constant
    aligned = replace(constant.type, scalar=other.scalar)
    try:
        value = convert_value(constant.value, aligned)
    except ValueMismatch:
        return constant
    return Constant(value, aligned) if value == constant.value else constant


def _align_decimals(constant: Constant, other: ValueType) -> Constant:
    """Return decimals as they are compared with a float. A list loses the integers that no float equals."""
    narrow = fit_to_f32 if other.scalar is Scalar.F32 else float
    if not isinstance(constant.value, tuple):
        return replace(constant, value=narrow(cast(float, constant.value)))
    # Each item by itself: an item that is too large for F32 does not change the others.
    numbers = cast("tuple[int | float, ...]", constant.value)
    floats = [narrow(each) if isinstance(each, float) else float(each) for each in numbers]
    kept = (new for new, old in zip(floats, numbers, strict=True) if isinstance(old, float) or new == old)
    return replace(constant, value=tuple(kept))


def fit_compared_literal(literal: ast.AnyLiteral, target: ValueType, report: ProblemReport) -> Constant | None:
    """Convert a literal to the type of a property that it is compared with; an integer that would be rounded stays."""
    fitted = fit_literal(literal, target, report)
    given = literal.value if isinstance(literal, ast.ScalarLiteral) else None
    if fitted is None or not isinstance(given, int) or not is_rounded(given, fitted.value):
        return fitted
    return type_literal(literal, report)
