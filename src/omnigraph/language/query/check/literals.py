"""Literals: the type that each has by itself, and its conversion to the type that it meets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from omnigraph.language.query import ast
from omnigraph.language.query.check.scope import Report
from omnigraph.language.query.typed import Constant, ConstantValue
from omnigraph.language.query.values import ValueMismatch, convert, days_of, milliseconds_of
from omnigraph.language.source import Span
from omnigraph.language.syntax import quoted
from omnigraph.language.types import FLOATS, INTEGER_RANGES, INTEGERS, NUMBERS, Scalar, ValueType

_STRING = ValueType(Scalar.STRING)


def compatible(one: ValueType, other: ValueType) -> bool:
    """Whether values of two types can be compared: numbers with numbers, else the same scalar type."""
    if one.scalar in NUMBERS and other.scalar in NUMBERS:
        return True
    return one.scalar is other.scalar


def assignable(given: ValueType, target: ValueType) -> bool:
    """Whether a property can take values of a type, null and ranges apart. A float never becomes an integer."""
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


def literal_constant(literal: ast.Literal, report: Report) -> Constant | None:
    """A literal with the type that it has by itself."""
    match literal:
        case ast.ListConstant():
            return _list_constant(literal, report)
        case ast.DateConstant():
            try:
                return Constant(days_of(literal.text), ValueType(Scalar.DATE))
            except ValueMismatch as mismatch:
                return report.add("Q009", mismatch.message, literal.span, mismatch.hint)
        case ast.DateTimeConstant():
            try:
                return Constant(milliseconds_of(literal.text), ValueType(Scalar.DATETIME))
            except ValueMismatch as mismatch:
                return report.add("Q009", mismatch.message, literal.span, mismatch.hint)
        case ast.Constant(value):
            return Constant(value, _type_of(value))


def _type_of(value: ConstantValue) -> ValueType:
    match value:
        case None:
            return _STRING.as_nullable()
        case bool():
            return ValueType(Scalar.BOOL)
        case int() | float():
            return _number_type([value])
        case _:
            return _STRING


def _number_type(values: Sequence[ConstantValue]) -> ValueType:
    for scalar in (Scalar.I64, Scalar.U64):
        if all(isinstance(value, int) and value in INTEGER_RANGES[scalar] for value in values):
            return ValueType(scalar)
    return ValueType(Scalar.F64)


def _list_constant(literal: ast.ListConstant, report: Report) -> Constant | None:
    items: list[Constant] = []
    for item in literal.items:
        constant = _item_constant(item, report)
        if constant is None:
            return None
        if items and not compatible(items[0].type, constant.type):
            message = f"a list holds values of one kind; this is {constant.type} among {items[0].type}"
            return report.add("Q004", message, item.span, f"write only {items[0].type} values")
        items.append(constant)
    values = tuple(item.value for item in items)
    element = items[0].type if items else _STRING
    if element.scalar in NUMBERS:
        element = _number_type(values)
    return Constant(values, replace(element, is_list=True))


def _item_constant(item: ast.Literal, report: Report) -> Constant | None:
    if isinstance(item, ast.ListConstant):
        return report.add("Q004", "a list cannot hold lists", item.span, "write one flat list")
    if item == ast.Constant(None):
        return report.add("Q004", "a list cannot hold null", item.span, "leave it out")
    return literal_constant(item, report)


# ------------------------------------------------------------------------------------------------ as a value of a type


def fitted(literal: ast.Literal, target: ValueType, report: Report) -> Constant | None:
    """A literal as a value of a property's type: what a binding asks for or a mutation stores. Problems are T3."""
    constant = literal_constant(literal, report)
    if constant is None:
        return None
    if constant.value is None:
        if target.nullable:
            return Constant(None, target)
        return report.add("T3", f"{target} cannot be null", literal.span, "give a value")
    if isinstance(literal, ast.ListConstant) and _takes_items(constant.type, target):
        return _fitted_items(literal, target, report)
    if not assignable(constant.type, target) or target.scalar is Scalar.BLOB:
        return report.add(
            "T3", f"expected {target}, found {_described(literal)}", literal.span, _advice(literal, target)
        )
    return _converted(constant, target, literal.span, report)


def _takes_items(given: ValueType, target: ValueType) -> bool:
    return target.is_list or (target.scalar is Scalar.VECTOR and given.scalar in NUMBERS)


def _fitted_items(literal: ast.ListConstant, target: ValueType, report: Report) -> Constant | None:
    if target.scalar is Scalar.VECTOR and len(literal.items) != target.dimension:
        message = f"expected {target}, found {len(literal.items)} numbers"
        return report.add("T3", message, literal.span, f"write exactly {target.dimension} numbers")
    element = ValueType(Scalar.F32) if target.scalar is Scalar.VECTOR else target.item
    items = [fitted(item, element, report) for item in literal.items]
    values = tuple(item.value for item in items if item is not None)
    return Constant(values, target) if len(values) == len(items) else None


def _converted(constant: Constant, target: ValueType, span: Span, report: Report) -> Constant | None:
    if target.scalar in {Scalar.DATE, Scalar.DATETIME}:
        return replace(constant, type=target)
    try:
        return Constant(convert(constant.value, target), target)
    except ValueMismatch as mismatch:
        return report.add("T3", mismatch.message, span, mismatch.hint)


def _described(literal: ast.Literal) -> str:
    match literal:
        case ast.DateConstant():
            return "a Date"
        case ast.DateTimeConstant():
            return "a DateTime"
        case ast.ListConstant():
            return "a list"
        case ast.Constant(str() as text):
            return f"the text {quoted(text)}"
        case ast.Constant(bool()):
            return "a Bool"
        case ast.Constant(value):
            return f"the number {value}"


def _advice(literal: ast.Literal, target: ValueType) -> str | None:
    """What to write instead of a literal of another kind."""
    if target.is_list:
        return "write a list: [...]"
    if isinstance(literal, ast.Constant) and isinstance(literal.value, str):
        match target.scalar:
            case Scalar.DATE:
                return f"write date({quoted(literal.value)})"
            case Scalar.DATETIME:
                return f"write datetime({quoted(literal.value)})"
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


def met(constant: Constant, other: ValueType) -> Constant:
    """A literal compared with a value: it takes the type of the same kind where it fits.

    An integer beside floats stays an integer and a float beside integers stays a float, so that a comparison
    can be exact.
    """
    same_kind = any({constant.type.scalar, other.scalar} <= kind for kind in (INTEGERS, FLOATS))
    if not same_kind:
        return constant
    meeting = replace(constant.type, scalar=other.scalar)
    try:
        return Constant(convert(constant.value, meeting), meeting)
    except ValueMismatch:
        return constant
