"""Compare Spark columns. Numbers of any types are compared exactly, texts by their bytes.

A null on either side gives null, which filters drop. Spark treats NaN as equal to itself and greater than any number;
in the query language every comparison with NaN but ``!=`` is false, so all float comparisons check for it.
"""

from __future__ import annotations

import operator as operators
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final, TypeAlias, cast

from pyspark.sql import Column
from pyspark.sql import functions as fn

from omnigraph.language.query import ComparisonOperator
from omnigraph.language.types import FLOATS, Scalar, ValueType

_Comparator: TypeAlias = Callable[[Column, Column], Column]

_OPERATORS: Final[Mapping[ComparisonOperator, _Comparator]] = {
    ComparisonOperator.EQUAL: cast("_Comparator", operators.eq),
    ComparisonOperator.NOT_EQUAL: cast("_Comparator", operators.ne),
    ComparisonOperator.LESS: operators.lt,
    ComparisonOperator.LESS_OR_EQUAL: operators.le,
    ComparisonOperator.GREATER: operators.gt,
    ComparisonOperator.GREATER_OR_EQUAL: operators.ge,
    ComparisonOperator.CONTAINS: fn.contains,
    ComparisonOperator.STARTS_WITH: fn.startswith,
    ComparisonOperator.ENDS_WITH: fn.endswith,
}
_MIRRORED: Final = {
    ComparisonOperator.EQUAL: ComparisonOperator.EQUAL,
    ComparisonOperator.NOT_EQUAL: ComparisonOperator.NOT_EQUAL,
    ComparisonOperator.LESS: ComparisonOperator.GREATER,
    ComparisonOperator.LESS_OR_EQUAL: ComparisonOperator.GREATER_OR_EQUAL,
    ComparisonOperator.GREATER: ComparisonOperator.LESS,
    ComparisonOperator.GREATER_OR_EQUAL: ComparisonOperator.LESS_OR_EQUAL,
}
_WIDE: Final = frozenset({Scalar.I64, Scalar.U64})
"""Integer types with values that a 64-bit float cannot represent."""


def compare(
    left: Column, left_type: ValueType, operator: ComparisonOperator, right: Column, right_type: ValueType
) -> Column:
    """Return whether a comparison is true for each row; false or null where it is not."""
    if not left_type.is_number:
        return _OPERATORS[operator](left, right)
    scalars = {left_type.scalar, right_type.scalar}
    if not scalars & FLOATS:
        common = "decimal(20,0)" if Scalar.U64 in scalars else "bigint"
        return _OPERATORS[operator](left.cast(common), right.cast(common))
    if not scalars & _WIDE:
        return _compare_floats(left.cast("double"), operator, right.cast("double"))
    if left_type.scalar in FLOATS:
        left, operator, right = right, _MIRRORED[operator], left
    return _compare_with_float(left.cast("decimal(20,0)"), operator, right.cast("double"))


def _compare_floats(left: Column, operator: ComparisonOperator, right: Column) -> Column:
    found = _OPERATORS[operator](left, right)
    if operator is ComparisonOperator.NOT_EQUAL:
        return found | (fn.isnan(left) & fn.isnan(right))
    return found & ~fn.isnan(left) & ~fn.isnan(right)


# --------------------------------------------------------------------------------------------- integer and float


def _compare_with_float(integer: Column, operator: ComparisonOperator, float_: Column) -> Column:
    """Compare a 64-bit integer with a float exactly: split the float into its floor and whether it has a fraction."""
    whole_float = _floor(_clamp(float_))
    whole, has_fraction = _to_decimal(whole_float), _clamp(float_) > whole_float
    is_number = ~fn.isnan(float_)
    match operator:
        case ComparisonOperator.EQUAL:
            return (integer == whole) & ~has_fraction & is_number
        case ComparisonOperator.NOT_EQUAL:
            return integer.isNotNull() & float_.isNotNull() & ((integer != whole) | has_fraction | ~is_number)
        case ComparisonOperator.LESS:
            return ((integer < whole) | ((integer == whole) & has_fraction)) & is_number
        case ComparisonOperator.GREATER_OR_EQUAL:
            return ((integer > whole) | ((integer == whole) & ~has_fraction)) & is_number
        case _:
            return _OPERATORS[operator](integer, whole) & is_number


def _clamp(float_: Column) -> Column:
    """Clamp a float to a range slightly wider than that of 64-bit integers."""
    # Not with least and greatest, which ignore nulls.
    lowest, highest = fn.lit(-(2.0**64)), fn.lit(2.0**64)
    return fn.when(float_ < lowest, lowest).when(float_ > highest, highest).otherwise(float_)


def _floor(float_: Column) -> Column:
    # Spark's floor returns a 64-bit integer. Floats from 2^53 on have no fraction.
    return fn.when(fn.abs(float_) < fn.lit(2.0**53), fn.floor(float_).cast("double")).otherwise(float_)


def _to_decimal(whole: Column) -> Column:
    """Convert a float without a fraction to a decimal. Spark's own cast keeps only the digits that it would print."""
    high = fn.floor(whole * fn.lit(2.0**-32))
    low = whole - high.cast("double") * fn.lit(2.0**32)
    return high.cast("decimal(20,0)") * fn.lit(Decimal(2**32)) + low.cast("bigint").cast("decimal(20,0)")
