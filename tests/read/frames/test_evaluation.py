"""Expressions over frames give what the plain evaluator gives row by row, in the Arrow type of the expression."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.language.query.ast import AggregateFunction, TextFunction
from omnigraph.language.query.typed_tree import (
    Aggregate,
    ColumnValue,
    Constant,
    Distance,
    Expression,
    Identity,
    Now,
    ParameterValue,
    PropertyValue,
    TextMatch,
)
from omnigraph.language.types import Scalar, ValueType
from omnigraph.read.frames.evaluation import (
    EvaluationContext,
    SearchExpression,
    arrow_type_of,
    evaluate,
    evaluate_constant,
)
from omnigraph.read.frames.frame import EntityColumn, Frame, frame_of_columns
from omnigraph.storage.columns import Values, to_list
from tests.language.query.plan.plan_evaluator import value
from tests.language.query.query_strategies import fuzzing
from tests.read.random_entities import PROPERTIES, Loaded, NoSearch, Things, constants, properties_of, things, values_of

STRING = ValueType(Scalar.STRING)
EXPRESSIONS: st.SearchStrategy[Expression] = (
    properties_of(PROPERTIES)
    | st.sampled_from([Identity("a", STRING), Identity("b", STRING), Now(ValueType(Scalar.DATETIME))])
    | st.sampled_from([ParameterValue(name, type_) for name, type_ in PROPERTIES.items()])
    | st.sampled_from(list(PROPERTIES.values())).flatmap(
        lambda type_: st.builds(Constant, values_of(type_), st.just(type_))
    )
)


@fuzzing(150)
@given(things(), EXPRESSIONS)
def test_an_expression_is_what_it_is_in_each_row(given_things: Things, expression: Expression) -> None:
    found = evaluate(expression, given_things.frame, given_things.request)
    assert found.type == arrow_type_of(expression)
    assert constants(found) == [value(expression, row, given_things.graph) for row in given_things.rows]


def one_row(column: Values) -> Frame:
    rows = pa.Table.from_arrays([pa.array(["x"]), column], names=["id", "p"])
    return Frame(1, {"v": EntityColumn(Loaded(rows), np.zeros(1, np.int64))})


def test_a_table_that_lags_behind_the_schema_is_read_in_the_types_of_the_schema() -> None:
    narrow: Values = pa.array([7], pa.int32())
    found = evaluate(
        PropertyValue("v", "p", ValueType(Scalar.I64)), one_row(narrow), EvaluationContext({}, 0, NoSearch())
    )
    assert found.type == pa.int64()
    assert to_list(found) == [7]


def test_now_is_the_time_of_the_request() -> None:
    now = Now(ValueType(Scalar.DATETIME))
    assert evaluate_constant(now, EvaluationContext({}, 1_700_000_000_123, NoSearch())) == 1_700_000_000_123


class Lengths:
    """A search that scores every row with the number of rows, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[SearchExpression] = []

    def score(self, expression: SearchExpression, frame: Frame) -> Values:
        self.asked.append(expression)
        return pa.array([frame.num_rows] * frame.num_rows, pa.float32())


def test_search_functions_are_answered_by_the_search_and_widened() -> None:
    target = PropertyValue("v", "p", ValueType(Scalar.VECTOR, dimension=2))
    distance = Distance(target, Constant((0.0, 1.0), target.type), ValueType(Scalar.F64, nullable=True))
    search = Lengths()
    found = evaluate(distance, one_row(pa.array(["text"])), EvaluationContext({}, 0, search))
    assert (found.type, to_list(found)) == (pa.float64(), [1.0])
    assert search.asked == [distance]
    match = TextMatch(
        TextFunction.SEARCH, replace(target, type=STRING), Constant("x", STRING), None, ValueType(Scalar.BOOL)
    )
    assert to_list(evaluate(match, one_row(pa.array(["text"])), EvaluationContext({}, 0, search))) == [True]


def test_a_column_of_the_result_has_a_value_in_its_rows_and_none_in_a_match() -> None:
    rows = frame_of_columns(pa.table({"n": ["x", None]}))
    request = EvaluationContext({}, 0, NoSearch())
    assert to_list(evaluate(ColumnValue("n", STRING), rows, request)) == ["x", None]
    with pytest.raises(AssertionError, match="aggregate"):
        evaluate(
            Aggregate(AggregateFunction.COUNT, ColumnValue("n", STRING), distinct=False, type=STRING), rows, request
        )
