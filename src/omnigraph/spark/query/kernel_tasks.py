"""Computed values that tasks compute with the kernels of the local engine, in Arrow batches.

Spark maps cases, cuts texts and truncates dates in its own way, so both engines use the same code for them: one
function for the whole expression around such a call. Expressions that are too large for Spark, whose planner recurses
into them and repeats their parts, are computed here too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, cast

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as fn
from pyspark.sql.types import StructField, StructType

from omnigraph.language.query import (
    And,
    Arithmetic,
    Call,
    Choose,
    ColumnValue,
    Compare,
    ComparisonOperator,
    ComputedExpression,
    Constant,
    Expression,
    Function,
    IsNull,
    Marked,
    Not,
    Now,
    Or,
    ParameterValue,
    Predicate,
    TextMatch,
    Truth,
)
from omnigraph.language.query.plan import rebuild, walk_expression
from omnigraph.language.types import Scalar, ValueType
from omnigraph.read.frames import (
    EvaluationContext,
    Frame,
    arrow_type_of,
    evaluate,
    evaluate_constant,
    frame_of_columns,
)
from omnigraph.spark.source import arrow_schema_of, from_spark, to_spark, to_spark_type
from omnigraph.storage.columns import Values, column_of

InputPart: TypeAlias = Expression | Marked
"""What an expression reads of rows."""

_FUNCTIONS: Final = frozenset(
    {
        *(Function.LOWER, Function.UPPER, Function.TRIM, Function.LENGTH, Function.SUBSTRING, Function.CONCAT),
        *(Function.TRUNCATE, Function.DAYS_BETWEEN),
    }
)
"""The functions that Spark does not compute as the local engine does."""
_LARGEST_NATIVE: Final = 60
"""The most parts of an expression that Spark computes itself."""
_RESULT: Final = "result"
_TRUE: Final = Constant(True, ValueType(Scalar.BOOL))  # noqa: FBT003  a value, not a switch


def needs_kernels(part: Expression | Predicate) -> bool:
    """Whether tasks compute an expression or a comparison with the kernels of the local engine."""
    parts = list(walk_expression(part))
    if not any(isinstance(each, ComputedExpression) for each in parts):
        return False
    if isinstance(part, Call) and part.function in _FUNCTIONS:
        return True
    if isinstance(part, Compare) and part.left.type.is_list:
        # Spark takes no function of Python inside a function that it applies to each element.
        return any(isinstance(each, Call) and each.function in _FUNCTIONS for each in parts)
    return len(parts) > _LARGEST_NATIVE


def compute_in_tasks(
    expression: Expression, evaluate_input: Callable[[InputPart], Column], evaluation: EvaluationContext
) -> Column:
    """Return the value of an expression that tasks compute from the columns that it reads."""
    inputs: dict[InputPart, ColumnValue] = {}
    bound = _bind(expression, inputs, evaluation)
    types = {column.name: column.type for column in inputs.values()}
    shown = pa.schema([pa.field(_RESULT, arrow_type_of(expression))])
    target = arrow_schema_of(StructType([StructField(_RESULT, to_spark_type(expression.type))]))
    # Parameters and results of searches are constants and columns of the bound expression.
    context = EvaluationContext({}, evaluation.now_ms, _NoSearch())

    # Spark reads the type hints to learn what kind of function this is.
    def compute(rows: pa.Array) -> pa.Array:  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType]  Spark does not accept type arguments here
        fields = cast("list[Values]", cast("pa.StructArray", rows).flatten())
        columns = {name: from_spark(field, types[name]) for name, field in zip(types, fields, strict=True)}
        values = evaluate(bound, frame_of_columns(pa.table(columns)), context)
        return column_of(to_spark(pa.RecordBatch.from_arrays([values], schema=shown), target), _RESULT)

    columns = [evaluate_input(part).alias(column.name) for part, column in inputs.items()]
    as_udf = cast("Callable[[object, object], Callable[[Column], Column]]", fn.arrow_udf)
    return as_udf(cast("object", compute), to_spark_type(expression.type))(fn.struct(*columns))


class _NoSearch:
    """Stands for the search in tasks, where nothing searches."""

    def score(self, expression: Expression, frame: Frame) -> Values:
        raise AssertionError(f"{type(expression).__name__} of {frame.num_rows} rows is a column here")


# --------------------------------------------------------------------------------------------- inputs


def _bind(part: Expression, inputs: dict[InputPart, ColumnValue], evaluation: EvaluationContext) -> Expression:
    """Return an expression over columns: what it reads of rows and searches becomes an input."""
    match part:
        case Constant() | ParameterValue() | Now():
            return Constant(evaluate_constant(part, evaluation), part.type)
        case Arithmetic() | Call():
            return rebuild(part, lambda inner: _bind(cast(Expression, inner), inputs, evaluation))
        case Choose():
            return Choose(
                tuple(_bind_predicate(condition, inputs, evaluation) for condition in part.conditions),
                tuple(_bind(value, inputs, evaluation) for value in part.values),
                None if part.otherwise is None else _bind(part.otherwise, inputs, evaluation),
                part.type,
            )
        case Truth():
            return Truth(_bind_predicate(part.predicate, inputs, evaluation), part.type)
        case _:
            return _read_input(part, part.type, inputs)


def _bind_predicate(part: Predicate, inputs: dict[InputPart, ColumnValue], evaluation: EvaluationContext) -> Predicate:
    match part:
        case And() | Or() | Not():
            return rebuild(part, lambda inner: _bind_predicate(cast(Predicate, inner), inputs, evaluation))
        case Compare() | IsNull():
            return rebuild(part, lambda inner: _bind(cast(Expression, inner), inputs, evaluation))
        case Marked() | TextMatch():
            return Compare(_read_input(part, _TRUE.type, inputs), ComparisonOperator.EQUAL, _TRUE)
        case _:
            raise AssertionError("a plan has marks in place of blocks")


def _read_input(part: InputPart, type_: ValueType, inputs: dict[InputPart, ColumnValue]) -> ColumnValue:
    return inputs.setdefault(part, ColumnValue(f"c{len(inputs)}", type_))
