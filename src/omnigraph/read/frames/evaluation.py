"""Evaluate expressions for the rows of a frame, as Arrow columns."""

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
"""Expressions with the same value in every row of a query."""
SearchExpression: TypeAlias = Distance | TextMatch | TextScore | FusedScore
"""Expressions that a search evaluates."""


class SearchScorer(Protocol):
    """Evaluates the search expressions of a query."""

    def score(self, expression: SearchExpression, frame: Frame) -> Values:
        """Return for each row a distance, a score, or whether a text matches."""
        ...


@dataclass(frozen=True, slots=True)
class EvaluationContext:
    """What expressions of one query depend on besides rows: parameters, the time of ``now()``, and the search."""

    parameters: Mapping[str, ConstantValue]
    now_ms: int
    scorer: SearchScorer


def evaluate_constant(expression: QueryConstant, evaluation: EvaluationContext) -> ConstantValue:
    """Return the value of an expression that is the same in every row."""
    match expression:
        case Constant(value):
            return value
        case ParameterValue(name):
            return evaluation.parameters[name]
        case Now():
            return evaluation.now_ms


def evaluate(expression: Expression, frame: Frame, evaluation: EvaluationContext) -> Values:
    """Return one value for each row, in the Arrow type of the expression."""
    match expression:
        case Constant() | ParameterValue() | Now():
            return _repeat(evaluate_constant(expression, evaluation), expression.type, frame.num_rows)
        case PropertyValue(variable, name):
            binding = frame.bindings[variable]
            return _cast_to_declared(binding.entities.take_values(name, binding.positions), expression)
        case Identity(variable):
            binding = frame.bindings[variable]
            return cast("Values", binding.entities.take_ids(binding.positions))
        case Distance() | TextMatch() | TextScore() | FusedScore():
            return _cast_to_declared(evaluation.scorer.score(expression, frame), expression)
        case ColumnValue() | Aggregate():
            raise AssertionError(f"a {type(expression).__name__} has no value before rows are grouped")


def arrow_type_of(expression: Expression) -> pa.DataType:
    """The Arrow type of the values of an expression."""
    return arrow_type(expression.type)


def _repeat(value: ConstantValue, type_: ValueType, count: int) -> Values:
    return arrow_values(type_, [value]).take(np.zeros(count, np.int64))


def _cast_to_declared(values: Values, expression: Expression) -> Values:
    # A table that lags behind the schema may hold narrower numbers.
    declared = arrow_type_of(expression)
    return values if values.type.equals(declared) else values.cast(declared)
