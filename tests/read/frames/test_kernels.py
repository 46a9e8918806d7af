"""Arithmetic and functions over columns give what Python's own numbers, texts and dates say."""

from __future__ import annotations

import operator as operators
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.language.query.ast import ArithmeticOperator
from omnigraph.language.query.typed_tree import Arithmetic, Call, Constant, Function, ParameterValue
from omnigraph.language.types import INTEGER_RANGES, Scalar, ValueType
from omnigraph.language.values import ConstantValue
from omnigraph.read.frames.kernels import calculate, call_function
from omnigraph.storage.arrow_schema import arrow_constants, arrow_type, arrow_values
from tests.language.query.query_strategies import fuzzing
from tests.model.value_model import calculated, called

ADD, SUBTRACT, MULTIPLY, DIVIDE = ArithmeticOperator
EDGES = [0, 1, -1, 2, 3, 2**31 - 1, 2**32, 3_037_000_499, 3_037_000_500, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64 - 1]
FLOATS = [0.0, -0.0, 1.0, -2.5, 1e200, -1e308, 5e-324, 2.0**63]


def numbers(scalar: Scalar) -> st.SearchStrategy[ConstantValue]:
    if scalar in {Scalar.F32, Scalar.F64}:
        return (
            st.none() | st.sampled_from(FLOATS) | st.floats(allow_nan=False, width=64 if scalar is Scalar.F64 else 32)
        )
    able = INTEGER_RANGES[scalar]
    near = st.sampled_from([edge for edge in EDGES if edge in able])
    return st.none() | near | st.integers(able.start, able.stop - 1)


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[Scalar], list[list[ConstantValue]]]:
    scalars = draw(st.lists(st.sampled_from([*INTEGER_RANGES, Scalar.F64]), min_size=2, max_size=4))
    count = draw(st.integers(0, 4))
    return scalars, [draw(st.lists(numbers(scalar), min_size=count, max_size=count)) for scalar in scalars]


@fuzzing(300)
@given(columns(), st.data())
def test_arithmetic_is_that_of_python_where_it_fits(
    drawn: tuple[list[Scalar], list[list[ConstantValue]]], data: st.DataObject
) -> None:
    scalars, found = drawn
    kinds = data.draw(st.sampled_from([(ADD, SUBTRACT), (MULTIPLY, DIVIDE), (MULTIPLY,)]))
    drawn_operators = tuple(data.draw(st.sampled_from(kinds)) for _ in scalars[1:])
    types = [ValueType(scalar, nullable=True) for scalar in scalars]
    is_float = DIVIDE in drawn_operators or Scalar.F64 in scalars
    result = ValueType(Scalar.F64 if is_float else Scalar.I64, nullable=True)
    operation = Arithmetic(tuple(ParameterValue("p", type_) for type_ in types), drawn_operators, result)
    made = calculate(drawn_operators, [arrow_values(type_, values) for type_, values in zip(types, found, strict=True)])
    assert made.type == arrow_type(result)
    assert arrow_constants(result, made) == [calculated(operation, row) for row in zip(*found, strict=True)]


@pytest.mark.parametrize("operator", [ADD, SUBTRACT, MULTIPLY])
def test_integers_at_the_edges_of_i64_are_exact_or_null(operator: ArithmeticOperator) -> None:
    able = [edge for edge in (*EDGES, *(-edge for edge in EDGES)) if edge in INTEGER_RANGES[Scalar.I64]]
    left, right = zip(*product(able, able), strict=True)
    type_ = ValueType(Scalar.I64)
    found = arrow_constants(type_, calculate([operator], [arrow_values(type_, each) for each in (left, right)]))
    exact = [_EXACT[operator](*pair) for pair in zip(left, right, strict=True)]
    assert found == [each if each in INTEGER_RANGES[Scalar.I64] else None for each in exact]
    assert None in found


_EXACT: Mapping[ArithmeticOperator, Callable[[int, int], int]] = {
    ADD: operators.add,
    SUBTRACT: operators.sub,
    MULTIPLY: operators.mul,
}


TEXT, DATE, MOMENT = (ValueType(scalar) for scalar in (Scalar.STRING, Scalar.DATE, Scalar.DATETIME))
I64 = ValueType(Scalar.I64)
texts = st.none() | st.text("aAzZ \t\r\n\u00e9\u4e2d\U0001f6a2\u00a0", max_size=6)
days = st.none() | st.integers(-719_162, 2_932_896)
moments = st.none() | st.integers(-62_135_596_800_000, 253_402_300_799_999)
small = st.none() | st.integers(-2, 5) | st.sampled_from([2**63 - 1, -(2**63)])


@fuzzing(100)
@given(st.data(), st.sampled_from([Function.LOWER, Function.UPPER, Function.TRIM, Function.LENGTH, Function.CONCAT]))
def test_functions_of_texts(data: st.DataObject, function: Function) -> None:
    count = data.draw(st.integers(2, 3)) if function is Function.CONCAT else 1
    rows = data.draw(st.lists(st.tuples(*[texts] * count), max_size=4))
    assert_called(function, [TEXT] * count, rows, I64 if function is Function.LENGTH else TEXT)


@fuzzing(100)
@given(st.lists(st.tuples(texts, small, small), max_size=3))
def test_parts_of_texts(rows: list[tuple[ConstantValue, ...]]) -> None:
    assert_called(Function.SUBSTRING, [TEXT, I64, I64], rows, TEXT)


@fuzzing(200)
@given(st.data(), st.sampled_from([DATE, MOMENT]))
def test_functions_of_dates(data: st.DataObject, type_: ValueType) -> None:
    able = days if type_ is DATE else moments
    part = data.draw(st.sampled_from([Function.YEAR, Function.MONTH, Function.DAY]))
    assert_called(part, [type_], data.draw(st.lists(st.tuples(able), max_size=3)), I64)
    assert_called(Function.DAYS_BETWEEN, [type_] * 2, data.draw(st.lists(st.tuples(able, able), max_size=3)), I64)
    units = ["year", "month", "week", "day", *(["hour"] if type_ is MOMENT else [])]
    unit = data.draw(st.sampled_from(units))
    assert_called(
        Function.TRUNCATE, [type_, TEXT], data.draw(st.lists(st.tuples(able, st.just(unit)), max_size=3)), type_
    )


def assert_called(
    function: Function, types: Sequence[ValueType], rows: Sequence[tuple[ConstantValue, ...]], result: ValueType
) -> None:
    """The kernel gives for all rows what the model gives for each."""
    given = list(zip(*rows, strict=True)) if rows else [()] * len(types)
    made = call_function(
        function, [arrow_values(type_, values) for type_, values in zip(types, given, strict=True)], arrow_type(result)
    )
    assert made.type == arrow_type(result)
    call = Call(function, tuple(Constant(None, type_) for type_ in types), result)
    assert arrow_constants(result, made) == [called(call, row) for row in rows]


def test_the_first_that_is_not_null_is_taken_before_it_is_converted() -> None:
    unsigned, signed = pa.array([2**64 - 1, None, 7], pa.uint64()), pa.array([1, 2, 3], pa.int64())
    found = call_function(
        Function.COALESCE, cast("list[pa.Array[pa.Scalar[pa.DataType]]]", [unsigned, signed]), pa.int64()
    )
    assert arrow_constants(I64, found) == [None, 2, 7]
