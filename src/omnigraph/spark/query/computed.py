"""Computed values that Spark computes itself: arithmetic, ``case``, ``coalesce``, parts of dates, sizes of lists.

Where the local engine has a null because a value does not fit, Spark's functions named ``try`` have one too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

from omnigraph.language.query import Arithmetic, ArithmeticOperator, Call, Function
from omnigraph.language.types import FLOATS, Scalar, ValueType
from omnigraph.language.values import MILLISECONDS_PER_DAY

# --------------------------------------------------------------------------------------------- numbers


def calculate(operation: Arithmetic, operands: Iterable[Column]) -> Column:
    """Return the value of an operation on columns of numbers; null where the local engine has null."""
    pairs = zip(operands, (operand.type for operand in operation.operands), strict=True)
    numbers = [(_to_integer_or_float(column, type_), type_.scalar in FLOATS) for column, type_ in pairs]
    found, is_float = numbers[0]
    for operator, (other, other_is_float) in zip(operation.operators, numbers[1:], strict=True):
        is_float = is_float or other_is_float or operator is ArithmeticOperator.DIVIDE
        kind = "double" if is_float else "bigint"
        found = _STEPS[operator](found.cast(kind), other.cast(kind))
    # What is infinite or no number stays so in further steps, so one test at the end is enough.
    return _drop_infinite(found) if is_float else found


_STEPS: Final[Mapping[ArithmeticOperator, Callable[[Column, Column], Column]]] = {
    ArithmeticOperator.ADD: fn.try_add,
    ArithmeticOperator.SUBTRACT: fn.try_subtract,
    ArithmeticOperator.MULTIPLY: fn.try_multiply,
    ArithmeticOperator.DIVIDE: fn.try_divide,
}


def _to_integer_or_float(column: Column, type_: ValueType) -> Column:
    if type_.scalar in FLOATS:
        return column.cast("double")
    # A U64 is a decimal, and may be beyond I64.
    return column.try_cast("bigint") if type_.scalar is Scalar.U64 else column.cast("bigint")


def _drop_infinite(numbers: Column) -> Column:
    # As the variable of a function the number is computed once; written out in a condition it would be computed thrice.
    def keep_finite(number: Column) -> Column:
        is_finite = (fn.abs(number) < fn.lit(float("inf"))) & ~fn.isnan(number)
        return fn.when(is_finite, number)

    return fn.get(fn.transform(fn.array(numbers), keep_finite), 0)


def convert_number(column: Column, given: ValueType, target: ValueType) -> Column:
    """Convert numbers to the type in which they meet."""
    if not target.is_number or given.scalar is target.scalar:
        return column
    return column.cast("double") if target.scalar in FLOATS else _to_integer_or_float(column, given)


# --------------------------------------------------------------------------------------------- functions


def call_natively(call: Call, arguments: list[Column]) -> Column:
    """Return the value of a function that Spark computes itself."""
    match call.function:
        case Function.COALESCE:
            return _take_first(call, arguments)
        case Function.SIZE:
            return fn.array_size(arguments[0]).cast("bigint")
        case _:
            part = {Function.YEAR: fn.year, Function.MONTH: fn.month, Function.DAY: fn.day}[call.function]
            return part(_to_date(arguments[0], call.arguments[0].type)).cast("bigint")


def _take_first(call: Call, arguments: list[Column]) -> Column:
    types = [argument.type for argument in call.arguments]
    if all(type_.scalar is call.type.scalar for type_ in types):
        return fn.coalesce(*arguments)
    arms = [
        (column.isNotNull(), convert_number(column, type_, call.type))
        for column, type_ in zip(arguments, types, strict=True)
    ]
    return _choose_first(arms)


def _choose_first(arms: list[tuple[Column, Column]]) -> Column:
    first, *others = arms
    return reduce(lambda found, arm: found.when(*arm), others, fn.when(*first))


def choose(arms: list[tuple[Column, Column]], otherwise: Column | None) -> Column:
    """Return the value of the first arm whose condition is true."""
    found = _choose_first(arms)
    return found if otherwise is None else found.otherwise(otherwise)


def _to_date(moments: Column, type_: ValueType) -> Column:
    """Return the date in UTC, whatever the time zone of the session is."""
    if type_.scalar is Scalar.DATE:
        return moments
    days = fn.floor(fn.unix_millis(moments) / fn.lit(MILLISECONDS_PER_DAY))
    return fn.date_from_unix_date(days.cast("int"))
