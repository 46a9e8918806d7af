"""Predicates on one variable as conditions that a scan of its table can decide."""

from __future__ import annotations

from typing import Final, cast

import pyarrow as pa

from omnigraph.language.query import (
    And,
    Compare,
    ComparisonOperator,
    Identity,
    IsNull,
    LogicalOperator,
    Not,
    Or,
    Predicate,
    PropertyValue,
)
from omnigraph.language.types import FLOATS, Scalar, ValueType
from omnigraph.language.values import ConstantValue
from omnigraph.read.frames.comparisons import MIRRORED, list_equalities
from omnigraph.read.frames.evaluation import EvaluationContext, QueryConstant, evaluate_constant, fold_constants
from omnigraph.storage.filters import (
    PART_OPERATORS,
    AnyCondition,
    Condition,
    JoinedConditions,
    NullCondition,
    PartCondition,
    ValueCondition,
    ValueIn,
    compare_column,
)

ID: Final = "id"
"""The column of every table that holds the ids."""


def to_condition(predicate: Predicate, variable: str, evaluation: EvaluationContext) -> Condition | None:
    """Convert a predicate to a condition for a scan of the variable's table, or None if a scan cannot decide it."""
    condition = _convert(fold_constants(predicate, evaluation), variable, evaluation)
    return None if condition is None or condition.to_sql() is None else condition


def _convert(predicate: Predicate, variable: str, evaluation: EvaluationContext) -> Condition | None:
    match predicate:
        case IsNull(PropertyValue(of, name, type_), negated) if of == variable:
            return ValueCondition(name, type_, None) if negated else NullCondition(name)
        case Compare(Identity(of, type_), operator, right) if of == variable:
            return _convert(Compare(PropertyValue(of, ID, type_), operator, right), variable, evaluation)
        case Compare(left, operator, Identity(of, type_)) if of == variable:
            return _convert(Compare(left, operator, PropertyValue(of, ID, type_)), variable, evaluation)
        case And() | Or():
            return _convert_all(predicate, variable, evaluation)
        case Not(part):
            inverse = _invert(part)
            return None if inverse is None else _convert(inverse, variable, evaluation)
        case Compare(PropertyValue(of, name, type_), operator, right) if of == variable and isinstance(
            right, QueryConstant
        ):
            value = evaluate_constant(right, evaluation)
            if operator in PART_OPERATORS and not type_.is_list:
                return AnyCondition(name) if value is None else PartCondition(name, operator, cast(str, value))
            if operator not in MIRRORED:
                return None
            return compare_column(name, type_, operator, value) or AnyCondition(name)
        case Compare(left, operator, PropertyValue(of, name, type_)) if of == variable and isinstance(
            left, QueryConstant
        ):
            value = evaluate_constant(left, evaluation)
            if operator in MIRRORED:
                return compare_column(name, type_, MIRRORED[operator], value) or AnyCondition(name)
            return to_membership(name, type_, value) if left.type.is_list else None
        case _:
            return None


def _convert_all(predicate: And | Or, variable: str, evaluation: EvaluationContext) -> Condition | None:
    found = [_convert(part, variable, evaluation) for part in predicate.parts]
    known = tuple(condition for condition in found if condition is not None)
    if len(known) < len(found):
        return None
    if isinstance(predicate, And):
        return JoinedConditions(LogicalOperator.AND, known)
    return _unite_equalities(known) or JoinedConditions(LogicalOperator.OR, known)


def _unite_equalities(conditions: tuple[Condition, ...]) -> ValueIn | None:
    """Return one condition for equalities of one text column with several values, which an index can look up."""
    equalities = [
        each
        for each in conditions
        if isinstance(each, ValueCondition)
        and each.operator is ComparisonOperator.EQUAL
        and each.type.scalar is Scalar.STRING
    ]
    columns = {each.column for each in equalities}
    if len(equalities) < len(conditions) or len(columns) > 1:
        return None
    values = [cast(str, each.value) for each in equalities]
    return ValueIn(tuple(columns), pa.array(values, pa.string()))


def _invert(predicate: Predicate) -> Predicate | None:
    """Return a predicate that is true where another is false; None if there is none without ``not``."""
    match predicate:
        case Not(part):
            return part
        case IsNull():
            return IsNull(predicate.operand, not predicate.negated)
        # A float may be NaN, which is neither less than a number nor greater or equal.
        case Compare(left, operator, right) if operator in _INVERSE and FLOATS.isdisjoint(
            (left.type.scalar, right.type.scalar)
        ):
            return Compare(left, _INVERSE[operator], right)
        case And() | Or():
            parts = [_invert(part) for part in predicate.parts]
            known = tuple(part for part in parts if part is not None)
            return None if len(known) < len(parts) else (Or if isinstance(predicate, And) else And)(known)
        case _:
            return None


_INVERSE: Final = {
    ComparisonOperator.EQUAL: ComparisonOperator.NOT_EQUAL,
    ComparisonOperator.NOT_EQUAL: ComparisonOperator.EQUAL,
    ComparisonOperator.LESS: ComparisonOperator.GREATER_OR_EQUAL,
    ComparisonOperator.LESS_OR_EQUAL: ComparisonOperator.GREATER,
    ComparisonOperator.GREATER: ComparisonOperator.LESS_OR_EQUAL,
    ComparisonOperator.GREATER_OR_EQUAL: ComparisonOperator.LESS,
}


def to_membership(column: str, type_: ValueType, items: ConstantValue) -> Condition:
    """The condition that the column equals one of the items of a list."""
    if items is None:
        return AnyCondition(column)
    if type_.scalar is Scalar.STRING:
        return ValueIn((column,), pa.array(cast("tuple[str, ...]", items), pa.string()))
    return AnyCondition(column, tuple(list_equalities(column, type_, items)))
