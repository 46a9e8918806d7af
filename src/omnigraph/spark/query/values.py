"""What expressions are for the rows of a match: columns of Spark."""

from __future__ import annotations

from decimal import Decimal
from typing import cast

import numpy as np
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
from omnigraph.read.frames import Fixed, fixed_value
from omnigraph.spark.query.bindings import RESULT, Fusion, Numbered, Rows
from omnigraph.spark.query.distances import distance
from omnigraph.spark.query.fusion import fused_score
from omnigraph.spark.query.needs import fusion_of
from omnigraph.spark.source import spark_type


def value(expression: Expression, rows: Rows, reading: QueryContext) -> Column:
    """One value for each row, in the Spark type of the expression."""
    match expression:
        case Constant() | ParameterValue() | Now():
            return literal(fixed_value(expression, reading.request), expression.type)
        case PropertyValue(variable, name):
            return fn.col(rows.slots[variable, name])
        case Identity(variable):
            return fn.col(rows.id_of(variable))
        case Distance(target, query) if query.type.scalar is not Scalar.STRING:
            assert isinstance(query, Fixed), "what is looked for is the same for every row"
            looked_for = fixed_value(query, reading.request)
            vector = None if looked_for is None else np.array(looked_for, np.float32)
            return distance(value(target, rows, reading), vector)
        case Distance() | TextMatch() | TextScore():
            return fn.col(rows.slots[expression.target.variable, expression])
        case FusedScore():
            return _fused_score(fusion_of(expression, reading.search), rows)
        case ColumnValue() | Aggregate():
            raise AssertionError(f"a {type(expression).__name__} has no value before rows are grouped")


def _fused_score(fusion: Fusion, rows: Rows) -> Column:
    """The score that the result is ordered by, if it is; else that among all entities of the type."""
    made = rows.slots.get((RESULT, fusion))
    if made is not None:
        return fn.col(made)
    arms = fusion.first, fusion.second
    first, second = (fn.col(rows.slots[arm.target.variable, Numbered(arm)]) for arm in arms)
    return fused_score(first, second, fusion.k)


def literal(constant: ConstantValue, type_: ValueType) -> Column:
    """A value that is the same in every row."""
    return _plain(constant, type_).cast(spark_type(type_))


def _plain(constant: ConstantValue, type_: ValueType) -> Column:
    if isinstance(constant, tuple):
        item = type_.item if type_.is_list else ValueType(Scalar.F32)
        return fn.array(*(literal(each, item) for each in constant))
    if constant is None:
        return fn.lit(None)
    # From numbers and not from Python's dates, which know fewer years and have zones.
    match type_.scalar:
        case Scalar.DATE:
            return fn.date_from_unix_date(fn.lit(constant))
        case Scalar.DATETIME:
            return fn.timestamp_millis(fn.lit(constant))
        case Scalar.U64:
            return fn.lit(Decimal(cast(int, constant)))
        case _:
            return fn.lit(constant)
