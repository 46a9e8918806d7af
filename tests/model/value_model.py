"""What expressions give, one value at a time, by Python's own numbers, texts and dates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any, TypeAlias

from omnigraph.language.query.ast import ArithmeticOperator
from omnigraph.language.query.typed_tree import (
    Arithmetic,
    Call,
    EndIdentity,
    Function,
    Identity,
    PathValue,
    PropertyValue,
    TypeName,
)
from omnigraph.language.types import FLOATS, Scalar, ValueType

Value: TypeAlias = Any  # None, or a value of its type: dates are days, date-times milliseconds

_I64 = range(-(2**63), 2**63)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)


def calculated(operation: Arithmetic, values: Sequence[Value]) -> Value:
    """The result of an operation, from left to right."""
    is_float = [operand.type.scalar in FLOATS for operand in operation.operands]
    found, floating = _fitting(values[0]), is_float[0]
    for operator, value, float_ in zip(operation.operators, values[1:], is_float[1:], strict=True):
        other = _fitting(value)
        floating = floating or float_ or operator is ArithmeticOperator.DIVIDE
        if found is None or other is None:
            found = None
        elif floating:
            found = _float_step(operator, float(found), float(other))
        else:
            found = _fitting(_STEPS[operator](found, other))
    return found


def _fitting(value: Value) -> Value:
    return None if isinstance(value, int) and value not in _I64 else value


def _float_step(operator: ArithmeticOperator, left: float, right: float) -> float | None:
    if operator is ArithmeticOperator.DIVIDE:
        if right == 0:
            return None
        found = left / right
    else:
        found = _STEPS[operator](left, right)
    return found if isfinite(found) else None


_STEPS: Mapping[ArithmeticOperator, Callable[[Value, Value], Value]] = {
    ArithmeticOperator.ADD: lambda left, right: left + right,
    ArithmeticOperator.SUBTRACT: lambda left, right: left - right,
    ArithmeticOperator.MULTIPLY: lambda left, right: left * right,
}


def met(value: Value, given: ValueType, target: ValueType) -> Value:
    """A value in the type in which it meets others."""
    if value is None or given.scalar is target.scalar or not target.is_number:
        return value
    return float(value) if target.scalar in FLOATS else _fitting(value)


def called(call: Call, values: Sequence[Value]) -> Value:
    """The result of a function."""
    types = [argument.type for argument in call.arguments]
    if call.function is Function.COALESCE:
        found = [(value, type_) for value, type_ in zip(values, types, strict=True) if value is not None]
        return met(*found[0], call.type) if found else None
    if None in values:
        return None
    moments = {Scalar.DATE, Scalar.DATETIME}
    return _of_moments(call.function, types[0], values) if types[0].scalar in moments else _of_texts(call, values)


def _of_texts(call: Call, values: Sequence[Value]) -> Value:
    match call.function:
        case Function.LOWER:
            return _mapped(values[0], str.lower)
        case Function.UPPER:
            return _mapped(values[0], str.upper)
        case Function.TRIM:
            return values[0].strip(" \t\r\n")
        case Function.LENGTH | Function.SIZE:
            return len(values[0])
        case Function.SUBSTRING:
            text, begin, count = values
            return None if begin < 0 or count < 0 else text[begin : begin + count]
        case Function.CONCAT:
            return "".join(values)
        case _:
            raise NotImplementedError(call.function)


def _of_moments(function: Function, type_: ValueType, values: Sequence[Value]) -> Value:
    moment = _moment(type_, values[0])
    match function:
        case Function.YEAR:
            return moment.year
        case Function.MONTH:
            return moment.month
        case Function.DAY:
            return moment.day
        case Function.TRUNCATE:
            return _number(type_, _truncated(moment, values[1]))
        case Function.DAYS_BETWEEN:
            passed = values[1] - values[0]
            return passed if type_.scalar is Scalar.DATE else int(passed / 86_400_000)
        case _:
            raise NotImplementedError(function)


def _mapped(text: str, change: Callable[[str], str]) -> str:
    return "".join(change(char) if len(change(char)) == 1 else char for char in text)


def _moment(type_: ValueType, value: int) -> datetime:
    return _EPOCH + (_DAY * value if type_.scalar is Scalar.DATE else timedelta(milliseconds=value))


def _number(type_: ValueType, moment: datetime) -> int:
    return (moment - _EPOCH) // (_DAY if type_.scalar is Scalar.DATE else timedelta(milliseconds=1))


def _truncated(moment: datetime, unit: str) -> datetime:
    if unit == "hour":
        return moment.replace(minute=0, second=0, microsecond=0)
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    begins = {
        "year": day.replace(month=1, day=1),
        "month": day.replace(day=1),
        "week": day - _DAY * day.weekday(),
        "day": day,
    }
    return begins[unit]


def of_bound(expression: PropertyValue | Identity | EndIdentity | TypeName | PathValue, found: Value) -> Value:
    """What an expression gives of what its variable is bound to; null of what is absent."""
    match expression:
        case _ if found is None:
            return None
        case PropertyValue():
            return found.properties.get(expression.name)
        case Identity():
            return found.id
        case EndIdentity():
            return found.source if expression.end == "from" else found.destination
        case PathValue():
            return {"hops": len(found.edges), "nodes": found.nodes, "edges": found.edges}[expression.function]
        case TypeName():
            return expression.type_name
