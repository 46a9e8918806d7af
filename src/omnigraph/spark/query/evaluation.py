"""Evaluate expressions and predicates over the rows of a match as Spark columns.

Predicates have three outcomes. A column says where one of them is true, or where it is false; where it is unknown, it
is neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import reduce
from typing import cast

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as fn

from omnigraph.language.query import (
    Aggregate,
    And,
    Arithmetic,
    Call,
    Choose,
    ColumnValue,
    Compare,
    ComparisonOperator,
    Constant,
    Distance,
    EndIdentity,
    Expression,
    FusedScore,
    Identity,
    IsNull,
    Marked,
    Not,
    Now,
    Or,
    ParameterValue,
    PathFunction,
    PathValue,
    Predicate,
    PropertyValue,
    TextMatch,
    TextScore,
    Truth,
    TypeName,
)
from omnigraph.language.types import FLOATS, INTEGER_RANGES, Scalar, ValueType
from omnigraph.language.values import ConstantValue, convert_value
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import QueryConstant, evaluate_constant, fold_constants, match_pattern
from omnigraph.read.search import Vector, compute_distances
from omnigraph.spark.query.comparisons import compare
from omnigraph.spark.query.computed import calculate, call_natively, choose, convert_number
from omnigraph.spark.query.fusion import fuse_ranks
from omnigraph.spark.query.kernel_tasks import InputPart, compute_in_tasks, needs_kernels
from omnigraph.spark.query.match_rows import MARK, RESULT, Fusion, MatchRows, RankNumber
from omnigraph.spark.query.requirements import fusion_of
from omnigraph.spark.source import to_spark_type
from omnigraph.storage.columns import Values


def evaluate(expression: Expression, rows: MatchRows, context: QueryContext) -> Column:
    """Return the value of an expression for each row, in its Spark type."""
    match expression:
        case Constant() | ParameterValue() | Now():
            return to_literal(evaluate_constant(expression, context.evaluation), expression.type)
        case PropertyValue() | Identity() | EndIdentity() | PathValue():
            return _read_bound(expression, rows)
        case Distance(target, query) if query.type.scalar is not Scalar.STRING:
            assert isinstance(query, QueryConstant), "the query vector is the same for every row"
            numbers = evaluate_constant(query, context.evaluation)
            vector = None if numbers is None else np.array(numbers, np.float32)
            return compute_distance(evaluate(target, rows, context), vector)
        case Distance() | TextMatch() | TextScore():
            return fn.col(rows.slots[expression.target.variable, expression])
        case FusedScore():
            return _evaluate_fused_score(fusion_of(expression, context.search), rows)
        case Arithmetic() | Call() | Choose() | TypeName():
            return _compute(expression, rows, context)
        case Truth(predicate):
            is_true, is_false = (_decide(predicate, rows, context, outcome=outcome) for outcome in (True, False))
            return fn.when(is_true, fn.lit(True)).when(is_false, fn.lit(False))  # noqa: FBT003  a value, not a switch
        case ColumnValue(name):
            return fn.col(rows.slots[RESULT, name])
        case Aggregate():
            raise AssertionError("an aggregate has no value before rows are grouped")


def _compute(expression: Arithmetic | Call | Choose | TypeName, rows: MatchRows, context: QueryContext) -> Column:
    folded = fold_constants(expression, context.evaluation)
    if isinstance(folded, Constant):
        return to_literal(folded.value, folded.type)
    if needs_kernels(expression):
        return _compute_in_tasks(expression, rows, context)
    match expression:
        case Arithmetic(operands):
            return calculate(expression, [evaluate(operand, rows, context) for operand in operands])
        case Call(_, arguments):
            return call_natively(expression, [evaluate(argument, rows, context) for argument in arguments])
        case Choose():
            return _choose(expression, rows, context)
        case TypeName(variable, type_name):
            name = fn.lit(type_name)
            return fn.when(fn.col(rows.id_of(variable)).isNotNull(), name) if expression.type.nullable else name


def _compute_in_tasks(expression: Expression, rows: MatchRows, context: QueryContext) -> Column:
    def evaluate_input(part: InputPart) -> Column:
        return fn.col(rows.slots[part.name, MARK]) if isinstance(part, Marked) else evaluate(part, rows, context)

    return compute_in_tasks(expression, evaluate_input, context.evaluation)


def _choose(expression: Choose, rows: MatchRows, context: QueryContext) -> Column:
    def evaluate_arm(value: Expression) -> Column:
        return convert_number(evaluate(value, rows, context), value.type, expression.type)

    arms = zip(expression.conditions, expression.values, strict=True)
    decided = [(evaluate_predicate(condition, rows, context), evaluate_arm(value)) for condition, value in arms]
    return choose(decided, None if expression.otherwise is None else evaluate_arm(expression.otherwise))


def _evaluate_fused_score(fusion: Fusion, rows: MatchRows) -> Column:
    """Return the score that the result is ordered by, if it is this fusion; else the score among all entities."""
    score = rows.slots.get((RESULT, fusion))
    if score is not None:
        return fn.col(score)
    numbers = [fn.col(rows.slots[arm.target.variable, RankNumber(arm)]) for arm in fusion.arms]
    return fuse_ranks(numbers, fusion.k)


def to_literal(constant: ConstantValue, type_: ValueType) -> Column:
    """Convert a constant to a Spark literal."""
    if type_.scalar in FLOATS:
        constant = convert_value(constant, type_.as_nullable())
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


def _read_bound(expression: PropertyValue | Identity | EndIdentity | PathValue, rows: MatchRows) -> Column:
    """Return a column of what a variable is bound to."""
    match expression:
        case PropertyValue(variable, name):
            return fn.col(rows.slots[variable, name])
        case Identity(variable) | PathValue(PathFunction.NODES, variable):
            return fn.col(rows.id_of(variable))
        case EndIdentity(variable, end):
            return fn.col(rows.slots[variable, end])
        case PathValue(PathFunction.EDGES, variable):
            return fn.col(rows.slots[variable, PathFunction.EDGES])
        case PathValue(_, variable):
            nodes = fn.col(rows.id_of(variable))
            # The size of an absent path would be -1.
            return fn.when(nodes.isNotNull(), (fn.size(nodes) - 1).cast("long"))


# --------------------------------------------------------------------------------------------- predicates


def evaluate_predicate(predicate: Predicate, rows: MatchRows, context: QueryContext) -> Column:
    """Return whether a predicate is true for each row; false or null where it is not."""
    return _decide(predicate, rows, context, outcome=True)


def _decide(predicate: Predicate, rows: MatchRows, context: QueryContext, *, outcome: bool) -> Column:
    """Return for each row whether the predicate has an outcome: true or false."""
    if isinstance(predicate, Compare | IsNull) and needs_kernels(predicate):
        truth = Truth(predicate, ValueType(Scalar.BOOL, nullable=True))
        return _invert_unless(_compute_in_tasks(truth, rows, context), outcome=outcome)
    match predicate:
        case Compare():
            found = _compare(predicate, rows, context)
            return found if outcome else _is_comparable(predicate, rows, context) & ~found
        case IsNull():
            operand = evaluate(predicate.operand, rows, context)
            return operand.isNull() if predicate.negated != outcome else operand.isNotNull()
        case TextMatch():
            return _invert_unless(evaluate(predicate, rows, context), outcome=outcome)
        case Marked(name):
            return _invert_unless(fn.col(rows.slots[name, MARK]), outcome=outcome)
        case And() | Or():
            decided = [_decide(part, rows, context, outcome=outcome) for part in predicate.parts]
            # Something is false where all of it is false, or where a part is: the two kinds change places.
            return _join_balanced(decided, Column.__and__ if isinstance(predicate, And) == outcome else Column.__or__)
        case Not(part):
            return _decide(part, rows, context, outcome=not outcome)
        case _:
            raise AssertionError("a plan has marks in place of blocks")


def _invert_unless(found: Column, *, outcome: bool) -> Column:
    return found if outcome else ~found


def _join_balanced(columns: list[Column], join: Callable[[Column, Column], Column]) -> Column:
    """Join many columns as a balanced tree: Spark's planner recurses into expressions."""
    while len(columns) > 1:
        pairs = [columns[begin : begin + 2] for begin in range(0, len(columns), 2)]
        columns = [reduce(join, pair) for pair in pairs]
    return columns[0]


def _compare(predicate: Compare, rows: MatchRows, context: QueryContext) -> Column:
    left, operator, right = predicate.left, predicate.operator, predicate.right
    if left.type.is_list:
        return _list_contains(left, right, rows, context)
    if operator is ComparisonOperator.MATCHES:
        assert isinstance(right, QueryConstant), "the pattern is the same for every row"
        return _match_pattern(evaluate(left, rows, context), evaluate_constant(right, context.evaluation))
    left, right = (_keep_integer(side, context) for side in (left, right))
    columns = evaluate(left, rows, context), evaluate(right, rows, context)
    return compare(columns[0], left.type, operator, columns[1], right.type)


def _keep_integer(side: Expression, context: QueryContext) -> Expression:
    """Return a parameter of a float type as an integer if its value is one that the type would round."""
    value = evaluate_constant(side, context.evaluation) if isinstance(side, ParameterValue) else None
    if side.type.scalar not in FLOATS or not isinstance(value, int):
        return side
    fitting = (scalar for scalar in (Scalar.I64, Scalar.U64) if value in INTEGER_RANGES[scalar])
    scalar = next(fitting, None)
    return side if scalar is None else Constant(value, ValueType(scalar))


def _is_comparable(predicate: Compare, rows: MatchRows, context: QueryContext) -> Column:
    """Return for each row whether neither side of a comparison is null."""
    sides = (evaluate(side, rows, context) for side in (predicate.left, predicate.right))
    return reduce(Column.__and__, (side.isNotNull() for side in sides))


def _list_contains(list_: Expression, item: Expression, rows: MatchRows, context: QueryContext) -> Column:
    item = _keep_integer(item, context)
    value, type_ = evaluate(item, rows, context), list_.type.item
    fixed = evaluate_constant(list_, context.evaluation) if isinstance(list_, QueryConstant) else None
    if isinstance(fixed, tuple) and type_.scalar is item.type.scalar and type_.scalar not in FLOATS:
        # Of all equivalent expressions, this is the one that Spark pushes down to storage.
        return value.isin(*(to_literal(each, type_) for each in fixed))
    if isinstance(fixed, tuple) and any(isinstance(each, int) for each in fixed) and type_.scalar in FLOATS:
        # A parameter keeps the integers that its type would round. As an F64 each equals the same floats.
        fixed = tuple(each for each in fixed if each is not None and each == float(cast(float, each)))
        type_ = ValueType(Scalar.F64)
        list_ = Constant(fixed, replace(type_, is_list=True))
    return fn.exists(
        evaluate(list_, rows, context), lambda each: compare(each, type_, ComparisonOperator.EQUAL, value, item.type)
    )


def _match_pattern(texts: Column, pattern: ConstantValue) -> Column:
    """Return whether a pattern matches each text. Tasks use the RE2 of the local engine: Java's patterns differ."""
    if pattern is None:
        return fn.lit(None).cast("boolean")

    # Spark reads the type hints to learn what kind of function this is.
    def search(found: pa.Array) -> pa.Array:  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType]  Spark does not accept type arguments here
        values = cast("Values", found)
        is_null = values.is_null().to_numpy(zero_copy_only=False)
        return pa.array(match_pattern(values, cast(str, pattern)), pa.bool_(), mask=is_null)

    as_udf = cast("Callable[[object, str], Callable[[Column], Column]]", fn.arrow_udf)
    return as_udf(cast("object", search), "boolean")(texts)
