"""What expressions are for the rows of a frame: columns of Arrow, one value for each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa

from omnigraph.language.query import (
    Aggregate,
    ColumnValue,
    Constant,
    Distance,
    Expression,
    FusedScore,
    Identity,
    Now,
    ParameterValue,
    PropertyValue,
    TextMatch,
    TextScore,
)
from omnigraph.language.types import ValueType
from omnigraph.language.values import ConstantValue
from omnigraph.read.frames.frame import Frame
from omnigraph.storage.arrow_schema import arrow_type, arrow_values
from omnigraph.storage.columns import Values

QueryConstant: TypeAlias = Constant | ParameterValue | Now
"""Expressions that are the same in every row."""
SearchExpression: TypeAlias = Distance | TextMatch | TextScore | FusedScore
"""Expressions that only a search can answer."""


class SearchScorer(Protocol):
    """The search behind a query."""

    def score(self, expression: SearchExpression, frame: Frame) -> Values:
        """One value for each row of the frame: a distance or a score, or whether a text matches."""
        ...


@dataclass(frozen=True, slots=True)
class EvaluationContext:
    """What is the same for all rows of one query: its parameters, its time in milliseconds since 1970, its search."""

    parameters: Mapping[str, ConstantValue]
    now_ms: int
    scorer: SearchScorer


def evaluate_constant(expression: QueryConstant, request: EvaluationContext) -> ConstantValue:
    """The value of an expression that is the same in every row."""
    match expression:
        case Constant(value):
            return value
        case ParameterValue(name):
            return request.parameters[name]
        case Now():
            return request.now_ms


def evaluate(expression: Expression, frame: Frame, request: EvaluationContext) -> Values:
    """One value for each row, in the Arrow type of the expression."""
    match expression:
        case Constant() | ParameterValue() | Now():
            return _repeat(evaluate_constant(expression, request), expression.type, frame.num_rows)
        case PropertyValue(variable, name):
            binding = frame.bindings[variable]
            return _cast_to_declared(binding.entities.take_values(name, binding.positions), expression)
        case Identity(variable):
            binding = frame.bindings[variable]
            return cast("Values", binding.entities.take_ids(binding.positions))
        case Distance() | TextMatch() | TextScore() | FusedScore():
            return _cast_to_declared(request.scorer.score(expression, frame), expression)
        case ColumnValue() | Aggregate():
            raise AssertionError(f"a {type(expression).__name__} has no value before rows are grouped")


def arrow_type_of(expression: Expression) -> pa.DataType:
    """The Arrow type of the column that an expression makes."""
    return arrow_type(expression.type)


def _repeat(value: ConstantValue, type_: ValueType, count: int) -> Values:
    return arrow_values(type_, [value]).take(np.zeros(count, np.int64))


def _cast_to_declared(values: Values, expression: Expression) -> Values:
    # A table that lags behind the schema may hold narrower numbers.
    wanted = arrow_type_of(expression)
    return values if values.type.equals(wanted) else values.cast(wanted)
