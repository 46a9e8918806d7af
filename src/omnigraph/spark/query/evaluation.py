"""Evaluate expressions over the rows of a match as Spark columns."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import cast

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as fn

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
from omnigraph.language.types import Scalar, ValueType
from omnigraph.language.values import ConstantValue
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import QueryConstant, evaluate_constant
from omnigraph.read.search import Vector, compute_distances
from omnigraph.spark.query.fusion import fuse_ranks
from omnigraph.spark.query.match_rows import RESULT, Fusion, MatchRows, RankNumber
from omnigraph.spark.query.requirements import fusion_of
from omnigraph.spark.source import to_spark_type
from omnigraph.storage.columns import Values


def evaluate(expression: Expression, rows: MatchRows, context: QueryContext) -> Column:
    """Return the value of an expression for each row, in its Spark type."""
    match expression:
        case Constant() | ParameterValue() | Now():
            return to_literal(evaluate_constant(expression, context.evaluation), expression.type)
        case PropertyValue(variable, name):
            return fn.col(rows.slots[variable, name])
        case Identity(variable):
            return fn.col(rows.id_of(variable))
        case Distance(target, query) if query.type.scalar is not Scalar.STRING:
            assert isinstance(query, QueryConstant), "the query vector is the same for every row"
            numbers = evaluate_constant(query, context.evaluation)
            vector = None if numbers is None else np.array(numbers, np.float32)
            return compute_distance(evaluate(target, rows, context), vector)
        case Distance() | TextMatch() | TextScore():
            return fn.col(rows.slots[expression.target.variable, expression])
        case FusedScore():
            return _evaluate_fused_score(fusion_of(expression, context.search), rows)
        case ColumnValue() | Aggregate():
            raise AssertionError(f"a {type(expression).__name__} has no value before rows are grouped")


def _evaluate_fused_score(fusion: Fusion, rows: MatchRows) -> Column:
    """Return the score that the result is ordered by, if it is this fusion; else the score among all entities."""
    score = rows.slots.get((RESULT, fusion))
    if score is not None:
        return fn.col(score)
    arms = fusion.first, fusion.second
    first, second = (fn.col(rows.slots[arm.target.variable, RankNumber(arm)]) for arm in arms)
    return fuse_ranks(first, second, fusion.k)


def to_literal(constant: ConstantValue, type_: ValueType) -> Column:
    """Convert a constant to a Spark literal."""
    return _to_column(constant, type_).cast(to_spark_type(type_))


def _to_column(constant: ConstantValue, type_: ValueType) -> Column:
    if isinstance(constant, tuple):
        item = type_.item if type_.is_list else ValueType(Scalar.F32)
        return fn.array(*(to_literal(each, item) for each in constant))
    if constant is None:
        return fn.lit(None)
    # From numbers, not from Python's dates: those cover fewer years and depend on time zones.
    match type_.scalar:
        case Scalar.DATE:
            return fn.date_from_unix_date(fn.lit(constant))
        case Scalar.DATETIME:
            return fn.timestamp_millis(fn.lit(constant))
        case Scalar.U64:
            return fn.lit(Decimal(cast(int, constant)))
        case _:
            return fn.lit(constant)


def compute_distance(vectors: Column, query: Vector | None) -> Column:
    """Return the Euclidean distance to the query vector; null if either is missing.

    Tasks compute it with the function of the local engine.
    """
    if query is None:
        return fn.lit(None).cast("double")

    # Spark reads the type hints to learn what kind of function this is.
    def measure(found: pa.Array) -> pa.Array:  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType]  Spark does not accept type arguments here
        distances = compute_distances(cast("Values", found), query)
        return pa.array(distances, pa.float64(), mask=np.isnan(distances))

    # The stubs require a function type, and Spark warns if it is given.
    as_udf = cast("Callable[[object, str], Callable[[Column], Column]]", fn.arrow_udf)
    return as_udf(cast("object", measure), "double")(vectors)
