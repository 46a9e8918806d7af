"""Compare columns with values and with each other. Numbers are compared exactly, a null matches nothing.

No 64-bit integer is ever converted to a float for a comparison. ``storage.filters`` converts a number to the type of
the column it is compared with. Two number columns are compared in a type that holds both, or by their signs.
"""

from __future__ import annotations

import operator as operators
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.query import ComparisonOperator
from omnigraph.language.types import ValueType
from omnigraph.language.values import ConstantValue
from omnigraph.read.frames.parts import Mask, Positions, split_parts
from omnigraph.storage.arrow_schema import arrow_values
from omnigraph.storage.columns import Values, column_of, compute, is_among, normalize_zero, to_bool_array, to_list
from omnigraph.storage.filters import ValueCondition, compare_column

_Numbers: TypeAlias = npt.NDArray[np.int64 | np.uint64 | np.float64]
_Signs: TypeAlias = npt.NDArray[np.int8]

_COLUMN: Final = "compared"


# --------------------------------------------------------------------------------------------- one side fixed

MIRRORED: Final[Mapping[ComparisonOperator, ComparisonOperator]] = {
    ComparisonOperator.EQUAL: ComparisonOperator.EQUAL,
    ComparisonOperator.NOT_EQUAL: ComparisonOperator.NOT_EQUAL,
    ComparisonOperator.LESS: ComparisonOperator.GREATER,
    ComparisonOperator.LESS_OR_EQUAL: ComparisonOperator.GREATER_OR_EQUAL,
    ComparisonOperator.GREATER: ComparisonOperator.LESS,
    ComparisonOperator.GREATER_OR_EQUAL: ComparisonOperator.LESS_OR_EQUAL,
}
"""``a < b`` is ``b > a``. The keys are the operators between two single values."""


def _matches_pattern(text: str, pattern: str) -> bool:
    # Arrow has RE2; Python's own expressions differ from it.
    return bool(match_pattern(cast("Values", pa.array([text], pa.string())), pattern)[0])


def match_pattern(texts: Values, pattern: str) -> Mask:
    """Return for each text whether a regular expression matches a part of it."""
    return to_bool_array(compute("match_substring_regex", texts, options=pc.MatchSubstringOptions(pattern)))


_PYTHON_OPERATORS: Final[Mapping[ComparisonOperator, Callable[[object, object], bool]]] = {
    ComparisonOperator.EQUAL: operators.eq,
    ComparisonOperator.NOT_EQUAL: operators.ne,
    ComparisonOperator.LESS: cast("Callable[[object, object], bool]", operators.lt),
    ComparisonOperator.LESS_OR_EQUAL: cast("Callable[[object, object], bool]", operators.le),
    ComparisonOperator.GREATER: cast("Callable[[object, object], bool]", operators.gt),
    ComparisonOperator.GREATER_OR_EQUAL: cast("Callable[[object, object], bool]", operators.ge),
    ComparisonOperator.CONTAINS: cast("Callable[[object, object], bool]", operators.contains),
    ComparisonOperator.STARTS_WITH: cast("Callable[[object, object], bool]", str.startswith),
    ComparisonOperator.ENDS_WITH: cast("Callable[[object, object], bool]", str.endswith),
    ComparisonOperator.MATCHES: cast("Callable[[object, object], bool]", _matches_pattern),
}


def compare_constants(left: ConstantValue, operator: ComparisonOperator, right: ConstantValue) -> bool:
    """``value operator value``."""
    # Python compares integers with floats exactly, and texts in the order of their UTF-8 bytes.
    return left is not None and right is not None and _PYTHON_OPERATORS[operator](left, right)


def compare_column_with_value(
    values: Values, type_: ValueType, operator: ComparisonOperator, value: ConstantValue
) -> Mask:
    """``column operator value``."""
    if value is None:
        return np.zeros(len(values), np.bool_)
    if type_.is_list:
        items, rows = _flatten(values)
        return _mark_rows(
            rows[compare_column_with_value(items, type_.item, ComparisonOperator.EQUAL, value)], len(values)
        )
    if operator in _TEXT_KERNELS:
        return to_bool_array(
            compute(_TEXT_KERNELS[operator], values, options=pc.MatchSubstringOptions(cast(str, value)))
        )
    condition = compare_column(_COLUMN, type_, operator, value)
    if condition is None:
        return np.zeros(len(values), np.bool_)
    mask = condition.evaluate(pa.table({_COLUMN: values}))
    return to_bool_array(column_of(pa.table({_COLUMN: mask}), _COLUMN))


def compare_value_with_column(
    value: ConstantValue, operator: ComparisonOperator, values: Values, type_: ValueType
) -> Mask:
    """``value operator column``."""
    if value is None:
        return np.zeros(len(values), np.bool_)
    if isinstance(value, tuple):
        return _is_member(values, type_, value)
    if operator in _TEXT_KERNELS:
        return _match_texts(cast("Values", pa.repeat(pa.scalar(value, pa.string()), len(values))), operator, values)
    return compare_column_with_value(values, type_, MIRRORED[operator], value)


def _is_member(values: Values, type_: ValueType, items: tuple[ConstantValue, ...]) -> Mask:
    """Return for each value whether it is an item of a list. A long list is hashed in parts."""
    found, plain = np.zeros(len(values), np.bool_), normalize_zero(values)
    for part in split_parts(len(items)):
        some = items[part]
        if type_.is_number:
            some = [equation.value for equation in list_equalities(_COLUMN, type_, some)]
        else:
            some = [item for item in some if item is not None]
        found |= to_bool_array(cast("Values", is_among(plain, normalize_zero(arrow_values(type_, some)))))
    return found


def list_equalities(column: str, type_: ValueType, items: ConstantValue) -> Iterator[ValueCondition]:
    """Yield an equality for each item of a list, except for items that the column can never hold."""
    for item in cast("tuple[ConstantValue, ...]", items):
        equation = compare_column(column, type_, ComparisonOperator.EQUAL, item)
        if equation is not None:
            yield equation


_TEXT_KERNELS: Final = {
    ComparisonOperator.CONTAINS: "match_substring",
    ComparisonOperator.STARTS_WITH: "starts_with",
    ComparisonOperator.ENDS_WITH: "ends_with",
    ComparisonOperator.MATCHES: "match_substring_regex",
}


# --------------------------------------------------------------------------------------------- two columns


def compare_columns(left: Values, type_: ValueType, operator: ComparisonOperator, right: Values) -> Mask:
    """``column operator column``."""
    if type_.is_list:
        items, rows = _flatten(left)
        return _mark_rows(rows[_compare_values(items, ComparisonOperator.EQUAL, right.take(rows))], len(left))
    if operator in _TEXT_KERNELS:
        return _match_texts(left, operator, right)
    return _compare_values(left, operator, right)


def _flatten(lists: Values) -> tuple[Values, Positions]:
    """Return all elements of lists, and the row of each."""
    parents = compute("list_parent_indices", lists)
    return compute("list_flatten", lists), parents.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)


def _mark_rows(rows: Positions, count: int) -> Mask:
    found = np.zeros(count, np.bool_)
    found[rows] = True
    return found


def _match_texts(left: Values, operator: ComparisonOperator, right: Values) -> Mask:
    known = to_bool_array(compute("and", compute("is_valid", left), compute("is_valid", right)))
    rows = np.flatnonzero(known)
    # Arrow matches a column with one text only, and NumPy cuts texts at the character 0.
    found = map(_PYTHON_OPERATORS[operator], to_list(left.take(rows)), to_list(right.take(rows)))
    known[known] = np.fromiter(found, np.bool_, len(rows))
    return known


def _compare_values(left: Values, operator: ComparisonOperator, right: Values) -> Mask:
    if left.type.equals(right.type):
        return to_bool_array(compute(_KERNELS[operator], left, right))
    common = _common_type(left.type, right.type)
    if common is not None:
        return to_bool_array(compute(_KERNELS[operator], left.cast(common), right.cast(common)))
    if not _is_order_of_signs(left.type, right.type):
        return _compare_values(right, MIRRORED[operator], left)
    known = to_bool_array(compute("and", compute("is_valid", left), compute("is_valid", right)))
    return known & _SIGN_TESTS[operator](_signs(_numbers(left), _numbers(right)))


def _common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return a number type that holds all values of two others, if there is one."""
    types = (one, other)
    if all(pa.types.is_floating(each) or each.bit_width <= 32 for each in types):
        floats = any(pa.types.is_floating(each) for each in types)
        return pa.float64() if floats else pa.int64()
    if all(pa.types.is_unsigned_integer(each) for each in types):
        return pa.uint64()
    if all(pa.types.is_signed_integer(each) or pa.types.is_uint32(each) for each in types):
        return pa.int64()
    return None


def to_comparable(left: Values, right: Values) -> tuple[Values, Values] | None:
    """Return two columns as one type in which equal numbers are equal; None if these are not numbers of two types.

    What equals no number of the other column is null.
    """
    types = (left.type, right.type)
    if left.type.equals(right.type) or not all(
        pa.types.is_integer(each) or pa.types.is_floating(each) for each in types
    ):
        return None
    common = _common_type(*types)
    if common is not None:
        return left.cast(common), right.cast(common)
    target = pa.uint64() if any(map(pa.types.is_uint64, types)) else pa.int64()
    return _to_whole_numbers(left, target), _to_whole_numbers(right, target)


def _to_whole_numbers(values: Values, target: pa.DataType) -> Values:
    """Return numbers as integers of 64 bits; null where that would be another number."""
    numbers = _numbers(values)
    unsigned = pa.types.is_uint64(target)
    if numbers.dtype.kind == "f":
        lowest, beyond = (0.0, 2.0**64) if unsigned else (-(2.0**63), 2.0**63)
        fits = (numbers >= lowest) & (numbers < beyond) & (np.floor(numbers) == numbers)
    else:
        fits = (numbers >= 0) | (not unsigned)
    whole = np.where(fits, numbers, 0).astype(np.uint64 if unsigned else np.int64)
    return cast("Values", pa.array(whole, mask=~(fits & to_bool_array(compute("is_valid", values)))))


def _is_order_of_signs(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether two columns without a common type are in the order that :func:`_signs` expects."""
    return pa.types.is_integer(one) and (pa.types.is_floating(other) or pa.types.is_uint64(other))


def _numbers(values: Values) -> _Numbers:
    return compute("coalesce", values, pa.scalar(0, values.type)).to_numpy(zero_copy_only=False)


_UNORDERED: Final = 2


def _signs(left: _Numbers, right: _Numbers) -> _Signs:
    """Return -1, 0 or 1 where the left is less than, equal to or greater than the right; 2 where the right is NaN.

    The left are 64-bit integers if the right are floats, and signed if the right are unsigned.
    """
    if right.dtype == np.uint64:
        signed = left.astype(np.int64, copy=False)
        return np.where(signed < 0, np.int8(-1), _sign(signed.astype(np.uint64), right))
    floats = right.astype(np.float64, copy=False)
    unsigned = left.dtype == np.uint64
    lowest, beyond = (0.0, 2.0**64) if unsigned else (-(2.0**63), 2.0**63)
    whole = np.floor(floats)
    inside = (whole >= lowest) & (whole < beyond)
    signs = _sign(left, np.where(inside, whole, 0.0).astype(left.dtype))
    signs[(signs == 0) & (floats > whole)] = -1
    signs[floats >= beyond] = -1
    signs[whole < lowest] = 1
    signs[np.isnan(floats)] = _UNORDERED
    return signs


def _sign(left: _Numbers, right: _Numbers) -> _Signs:
    return (left > right).astype(np.int8) - (left < right).astype(np.int8)


_SIGN_TESTS: Final[Mapping[ComparisonOperator, Callable[[_Signs], Mask]]] = {
    ComparisonOperator.EQUAL: lambda signs: signs == 0,
    ComparisonOperator.NOT_EQUAL: lambda signs: signs != 0,
    ComparisonOperator.LESS: lambda signs: signs == -1,
    ComparisonOperator.LESS_OR_EQUAL: lambda signs: signs <= 0,
    ComparisonOperator.GREATER: lambda signs: signs == 1,
    ComparisonOperator.GREATER_OR_EQUAL: lambda signs: (signs == 0) | (signs == 1),
}

_KERNELS: Final = {
    ComparisonOperator.EQUAL: "equal",
    ComparisonOperator.NOT_EQUAL: "not_equal",
    ComparisonOperator.LESS: "less",
    ComparisonOperator.LESS_OR_EQUAL: "less_equal",
    ComparisonOperator.GREATER: "greater",
    ComparisonOperator.GREATER_OR_EQUAL: "greater_equal",
}
