"""Compute columns from columns: arithmetic and the functions of the language.

A null in gives a null out, and nothing fails on a value: what does not fit, is divided by zero or is no finite number
is null. Tasks of Spark run these kernels too, so that both engines map cases and cut texts alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.query import ArithmeticOperator, Function
from omnigraph.language.values import MILLISECONDS_PER_DAY
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames.frame import Mask
from omnigraph.storage.columns import Values, compute, join_texts, to_bool_array, to_list

_Integers: TypeAlias = npt.NDArray[np.int64]
_Floats: TypeAlias = npt.NDArray[np.float64]

_BLANKS: Final = " \t\r\n"
_LARGEST: Final = 2**63 - 1
_MILLISECONDS_PER_HOUR: Final = 3_600_000
_DAYS_PER_WEEK: Final = 7
_DAYS_AFTER_MONDAY: Final = 3
"""1970-01-01 was a Thursday."""
_MONTHS_PER_YEAR: Final = 12
_EPOCH_YEAR: Final = 1970


# --------------------------------------------------------------------------------------------- numbers


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Numbers of 64 bits, integers or floats, and where they are known. An unknown number is 0."""

    values: _Integers | _Floats
    is_known: Mask

    @property
    def is_float(self) -> bool:
        """Whether these are floats."""
        return self.values.dtype.kind == "f"

    def to_column(self) -> Values:
        """Return the numbers as a column."""
        return cast("Values", pa.array(self.values, mask=~self.is_known))


def calculate(operators: Sequence[ArithmeticOperator], operands: Iterable[Values]) -> Values:
    """Apply operators to columns of numbers, from left to right. One operand is taken at a time."""
    numbers = map(_read_numbers, operands)
    found = next(numbers)
    for operator, other in zip(operators, numbers, strict=True):
        found = _apply(operator, found, other)
    return found.to_column()


def convert_number(values: Values, target: pa.DataType) -> Values:
    """Convert numbers to the type in which they meet: I64, which a U64 may not fit, or F64."""
    if values.type.equals(target):
        return values
    if pa.types.is_integer(target):
        return _read_numbers(values).to_column()
    return _to_floats(_read(values)).to_column() if pa.types.is_floating(target) else values.cast(target)


def _read_numbers(column: Values) -> _Numbers:
    """Read a column of numbers as I64 or F64; a U64 beyond I64 is unknown."""
    found = _read(column)
    if found.values.dtype.kind == "u":
        fits = found.values <= np.uint64(_LARGEST)
        found = _Numbers(np.where(fits, found.values, 0), found.is_known & fits)
    if found.is_float:
        return _to_floats(found)
    return _Numbers(found.values.astype(np.int64, copy=False), found.is_known)


def _read(column: Values) -> _Numbers:
    is_known = to_bool_array(compute("is_valid", column))
    filled = compute("coalesce", column, pa.scalar(0, column.type)) if column.null_count else column
    return _Numbers(cast("_Integers", filled.to_numpy(zero_copy_only=False)), is_known)


def _to_floats(numbers: _Numbers) -> _Numbers:
    return _Numbers(numbers.values.astype(np.float64, copy=False), numbers.is_known)


def _apply(operator: ArithmeticOperator, left: _Numbers, right: _Numbers) -> _Numbers:
    is_known = left.is_known & right.is_known
    if operator is ArithmeticOperator.DIVIDE or left.is_float or right.is_float:
        floats = [cast("_Floats", _to_floats(each).values) for each in (left, right)]
        with np.errstate(all="ignore"):
            values = _FLOAT_STEPS[operator](*floats)
        return _keep_known(values, is_known & np.isfinite(values))
    integers = cast("_Integers", left.values), cast("_Integers", right.values)
    # NumPy wraps around without a word.
    values, fits = _INTEGER_STEPS[operator](*integers)
    return _keep_known(values, is_known & fits)


def _keep_known(values: _Integers | _Floats, is_known: Mask) -> _Numbers:
    return _Numbers(np.where(is_known, values, values.dtype.type(0)), is_known)


def _divide(left: _Floats, right: _Floats) -> _Floats:
    return left / right


_FLOAT_STEPS: Final[Mapping[ArithmeticOperator, Callable[[_Floats, _Floats], _Floats]]] = {
    ArithmeticOperator.ADD: lambda left, right: left + right,
    ArithmeticOperator.SUBTRACT: lambda left, right: left - right,
    ArithmeticOperator.MULTIPLY: lambda left, right: left * right,
    ArithmeticOperator.DIVIDE: _divide,
}


def _add(left: _Integers, right: _Integers) -> tuple[_Integers, Mask]:
    total = left + right
    # The sum has wrapped around if its sign differs from that of both operands.
    return total, ((left ^ total) & (right ^ total)) >= 0


def _subtract(left: _Integers, right: _Integers) -> tuple[_Integers, Mask]:
    difference = left - right
    return difference, ((left ^ right) & (left ^ difference)) >= 0


def _multiply(left: _Integers, right: _Integers) -> tuple[_Integers, Mask]:
    product = left * right
    if _magnitude(left) * _magnitude(right) <= _LARGEST:
        return product, np.ones(len(product), np.bool_)
    # Only -1 times the smallest integer is its own quotient although it does not fit.
    divisor = np.where(right == 0, 1, right)
    wraps = (right == -1) & (left == np.iinfo(np.int64).min)
    safe = np.where(wraps, 0, product)
    return product, ((safe // divisor == left) & (safe % divisor == 0) & ~wraps) | (right == 0)


def _magnitude(numbers: _Integers) -> int:
    return max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))


_INTEGER_STEPS: Final[Mapping[ArithmeticOperator, Callable[[_Integers, _Integers], tuple[_Integers, Mask]]]] = {
    ArithmeticOperator.ADD: _add,
    ArithmeticOperator.SUBTRACT: _subtract,
    ArithmeticOperator.MULTIPLY: _multiply,
}


# --------------------------------------------------------------------------------------------- functions


def call_function(function: Function, arguments: Sequence[Values], result: pa.DataType) -> Values:
    """Call a function of the language. The last argument of ``truncate`` is the same text in every row."""
    if function is Function.COALESCE:
        return _take_first(arguments, result)
    return _FUNCTIONS[function](*arguments)


def _lower(texts: Values) -> Values:
    return compute("utf8_lower", texts)


def _upper(texts: Values) -> Values:
    return compute("utf8_upper", texts)


def _trim(texts: Values) -> Values:
    return compute("utf8_trim", texts, options=pc.TrimOptions(_BLANKS))


def _measure_texts(texts: Values) -> Values:
    return compute("utf8_length", texts).cast(pa.int64())


def _cut(texts: Values, begins: Values, counts: Values) -> Values:
    """Return a part of each text, by code points."""
    if not len(texts):
        return texts
    begin, count = _find_single(begins), _find_single(counts)
    if begin is not None and count is not None:
        if begin < 0 or count < 0:
            return cast("Values", pa.nulls(len(texts), pa.string()))
        # Beyond this no text has a character, and Arrow takes no larger number.
        begin, end = min(begin, _LARGEST // 2), min(begin + count, _LARGEST // 2)
        return compute("utf8_slice_codeunits", texts, options=pc.SliceOptions(begin, end))
    rows = zip(to_list(texts), to_list(begins), to_list(counts), strict=True)
    return cast("Values", pa.array([_cut_one(*row) for row in rows], pa.string()))


def _find_single(values: Values) -> int | None:
    """Return the number that a column has in every row, if there is one."""
    bounds = pc.min_max(cast("pa.Int64Array", values), options=pc.ScalarAggregateOptions(skip_nulls=False))
    low, high = cast("Mapping[str, int | None]", bounds.as_py()).values()
    return low if low == high else None


def _cut_one(text: object, begin: object, count: object) -> str | None:
    if not (isinstance(text, str) and isinstance(begin, int) and isinstance(count, int)) or begin < 0 or count < 0:
        return None
    return text[begin : begin + count]


def _join(*texts: Values) -> Values:
    return cast("Values", join_texts(*cast("Sequence[pa.StringArray]", texts)))


def _count_elements(lists: Values) -> Values:
    return compute("list_value_length", lists).cast(pa.int64())


def _take_first(columns: Sequence[Values], result: pa.DataType) -> Values:
    """Return the first value of each row that is not null, null where it does not fit the type of the result."""
    if all(column.type.equals(result) for column in columns):
        return compute("coalesce", *columns)
    *others, found = (convert_number(column, result) for column in columns)
    for column, converted in zip(reversed(columns[:-1]), reversed(others), strict=True):
        found = compute("if_else", compute("is_valid", column), converted, found)
    return found


# --------------------------------------------------------------------------------------------- dates


@dataclass(frozen=True, slots=True)
class _Moments:
    """Dates in days or date-times in milliseconds, and where they are known."""

    numbers: _Integers
    is_known: Mask
    type: pa.DataType

    @property
    def days(self) -> _Integers:
        """The days since 1970, in UTC."""
        return self.numbers if pa.types.is_date32(self.type) else self.numbers // MILLISECONDS_PER_DAY

    def at_days(self, days: _Integers) -> Values:
        """Return the beginnings of days, in the type of these moments."""
        return self.at(days if pa.types.is_date32(self.type) else days * MILLISECONDS_PER_DAY)

    def at(self, numbers: _Integers) -> Values:
        """Return a column of this type, null where these moments are unknown."""
        plain = pa.int32() if pa.types.is_date32(self.type) else pa.int64()
        return cast("Values", pa.array(numbers, pa.int64(), mask=~self.is_known)).cast(plain).cast(self.type)


def _read_moments(column: Values) -> _Moments:
    plain = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    found = _read_numbers(plain)
    return _Moments(cast("_Integers", found.values), found.is_known, column.type)


def _months_of(days: _Integers) -> _Integers:
    """Return the months since 1970."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def _first_days_of(months: _Integers) -> _Integers:
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _year(column: Values) -> Values:
    moments = _read_moments(column)
    return _Numbers(_months_of(moments.days) // _MONTHS_PER_YEAR + _EPOCH_YEAR, moments.is_known).to_column()


def _month(column: Values) -> Values:
    moments = _read_moments(column)
    return _Numbers(_months_of(moments.days) % _MONTHS_PER_YEAR + 1, moments.is_known).to_column()


def _day(column: Values) -> Values:
    moments = _read_moments(column)
    first = _first_days_of(_months_of(moments.days))
    return _Numbers(moments.days - first + 1, moments.is_known).to_column()


def _truncate(column: Values, units: Values) -> Values:
    moments = _read_moments(column)
    if not len(units):
        return column
    days = moments.days
    match to_list(units.slice(0, 1))[0]:
        case "year":
            months = _months_of(days)
            return moments.at_days(_first_days_of(months - months % _MONTHS_PER_YEAR))
        case "month":
            return moments.at_days(_first_days_of(_months_of(days)))
        case "week":
            return moments.at_days(days - (days + _DAYS_AFTER_MONDAY) % _DAYS_PER_WEEK)
        case "day":
            return moments.at_days(days)
        case _:
            return moments.at(moments.numbers - moments.numbers % _MILLISECONDS_PER_HOUR)


def _days_between(first: Values, last: Values) -> Values:
    begin, end = _read_moments(first), _read_moments(last)
    difference = end.numbers - begin.numbers
    if not pa.types.is_date32(begin.type):
        # Toward zero, where // rounds down.
        difference = np.sign(difference) * (np.abs(difference) // MILLISECONDS_PER_DAY)
    return _Numbers(difference, begin.is_known & end.is_known).to_column()


_FUNCTIONS: Final[Mapping[Function, Callable[..., Values]]] = {
    Function.LOWER: _lower,
    Function.UPPER: _upper,
    Function.TRIM: _trim,
    Function.LENGTH: _measure_texts,
    Function.SUBSTRING: _cut,
    Function.CONCAT: _join,
    Function.YEAR: _year,
    Function.MONTH: _month,
    Function.DAY: _day,
    Function.TRUNCATE: _truncate,
    Function.DAYS_BETWEEN: _days_between,
    Function.SIZE: _count_elements,
}
