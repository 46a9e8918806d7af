"""Evaluate expressions for the rows of a frame as Arrow columns, and predicates as masks.

Predicates have three outcomes. A mask says where one of them is true, or where it is false; where it is unknown, it is
neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Final, Protocol, TypeAlias, TypeVar, cast

import numpy as np
import pyarrow as pa

from omnigraph.deadlines import check_deadline
from omnigraph.derived_values import keep_derived
from omnigraph.language.query import (
    Aggregate,
    And,
    Arithmetic,
    Call,
    Choose,
    ColumnValue,
    Compare,
    ComparisonOperator,
    ComputedExpression,
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
    PathValue,
    Predicate,
    PropertyValue,
    TextMatch,
    TextScore,
    Truth,
    TypeName,
)
from omnigraph.language.query.plan import rebuild, variables_of, walk_expression
from omnigraph.language.types import FLOATS, Scalar, ValueType
from omnigraph.language.values import ConstantValue, convert_value
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import parts
from omnigraph.read.frames.comparisons import (
    compare_column_with_value,
    compare_columns,
    compare_constants,
    compare_value_with_column,
)
from omnigraph.read.frames.frame import RESULT, TRUE_MARK, EntityColumn, Frame, Mask, OptionalEntities, Positions
from omnigraph.read.frames.kernels import calculate, call_function, convert_number
from omnigraph.read.frames.parts import map_parts, mark_rows, take_rows
from omnigraph.storage.arrow_schema import arrow_constants, arrow_type, arrow_values
from omnigraph.storage.columns import Values, compute, make_nulls, to_bool_array

QueryConstant: TypeAlias = Constant | ParameterValue | Now
"""Expressions with the same value in every row of a query."""
Part = TypeVar("Part", bound=Expression | Predicate)
SearchExpression: TypeAlias = Distance | TextMatch | TextScore | FusedScore
"""Expressions that a search evaluates."""


_STORED_ENDS: Final = {"from": "src", "to": "dst"}
"""The columns of an edge table that hold the ends."""


_EQUALITIES: Final = frozenset({ComparisonOperator.EQUAL, ComparisonOperator.NOT_EQUAL})


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
    """Return one value for each row, in the Arrow type of the expression. Many rows are evaluated in parts."""
    check_deadline()
    if frame.num_rows <= parts.ROWS_AT_ONCE:
        return _evaluate_rows(expression, frame, evaluation)
    return parts.map_values(
        frame.num_rows, lambda part: _evaluate_rows(expression, frame.slice(part.start, part.stop), evaluation)
    )


def _evaluate_rows(expression: Expression, frame: Frame, evaluation: EvaluationContext) -> Values:
    match expression:
        case Constant() | ParameterValue() | Now():
            return _repeat(evaluate_constant(expression, evaluation), expression.type, frame.num_rows)
        case PropertyValue(variable, name):
            binding = frame.bindings[variable]
            return _cast_to_declared(binding.entities.take_values(name, binding.positions), expression)
        case Identity(variable):
            binding = frame.bindings[variable]
            return cast("Values", binding.entities.take_ids(binding.positions))
        case EndIdentity(variable, end):
            binding = frame.bindings[variable]
            return _cast_to_declared(binding.entities.take_values(_STORED_ENDS[end], binding.positions), expression)
        case PathValue(function, variable):
            binding = frame.bindings[variable]
            return _cast_to_declared(binding.entities.take_values(function, binding.positions), expression)
        case Distance() | TextMatch() | TextScore() | FusedScore():
            return _cast_to_declared(evaluation.scorer.score(expression, frame), expression)
        case Truth(predicate):
            return _evaluate_truth(predicate, frame, evaluation)
        case Arithmetic() | Call() | Choose() | TypeName():
            return _compute(expression, frame, evaluation)
        case ColumnValue(name):
            binding = frame.bindings[RESULT]
            return binding.entities.take_values(name, binding.positions)
        case Aggregate():
            raise AssertionError("an aggregate has no value before rows are grouped")


def arrow_type_of(expression: Expression) -> pa.DataType:
    """The Arrow type of the values of an expression."""
    return arrow_type(expression.type)


def _repeat(value: ConstantValue, type_: ValueType, count: int) -> Values:
    if type_.scalar in FLOATS:
        # A parameter keeps an integer that its type would round, so that comparisons stay exact.
        value = convert_value(value, type_.as_nullable())
    return arrow_values(type_, [value]).take(np.zeros(count, np.int64))


def _cast_to_declared(values: Values, expression: Expression) -> Values:
    # A table that lags behind the schema may hold narrower numbers.
    declared = arrow_type_of(expression)
    return values if values.type.equals(declared) else values.cast(declared)


# --------------------------------------------------------------------------------------------- computed values


def _compute(expression: Arithmetic | Call | Choose | TypeName, frame: Frame, evaluation: EvaluationContext) -> Values:
    match expression:
        case Arithmetic(operands, operators):
            # One column at a time: a sum may have thousands of terms.
            return calculate(operators, (evaluate(operand, frame, evaluation) for operand in operands))
        case Call(function, arguments):
            columns = [evaluate(argument, frame, evaluation) for argument in arguments]
            return call_function(function, columns, arrow_type_of(expression))
        case Choose():
            return _choose(expression, frame, evaluation)
        case TypeName(variable, type_name):
            names = _repeat(type_name, expression.type, frame.num_rows)
            binding = frame.bindings[variable]
            if not isinstance(binding.entities, OptionalEntities):
                return names
            is_present = cast("Values", pa.array(binding.positions > 0))
            return compute("if_else", is_present, names, pa.scalar(None, pa.string()))


def _choose(choice: Choose, frame: Frame, evaluation: EvaluationContext) -> Values:
    """Evaluate each arm for the rows that reach it, and its value for the rows that choose it."""
    left = np.arange(frame.num_rows)
    chosen: list[Positions] = []
    values: list[Values] = []
    for condition, value in zip(choice.conditions, choice.values, strict=True):
        rows = frame if len(left) == frame.num_rows else frame.take(left)
        is_true = evaluate_predicate(condition, rows, evaluation)
        chosen.append(left[is_true])
        values.append(_evaluate_arm(value, choice, frame.take(chosen[-1]), evaluation))
        left = left[~is_true]
    chosen.append(left)
    values.append(_evaluate_arm(choice.otherwise, choice, frame.take(left), evaluation))
    places = np.empty(frame.num_rows, np.int64)
    places[np.concatenate(chosen)] = np.arange(frame.num_rows)
    return pa.concat_arrays(values).take(places)


def _evaluate_arm(value: Expression | None, choice: Choose, frame: Frame, evaluation: EvaluationContext) -> Values:
    if value is None or not frame.num_rows:
        return make_nulls(frame.num_rows, arrow_type_of(choice))
    return convert_number(evaluate(value, frame, evaluation), arrow_type_of(choice))


def fold_constants(part: Part, evaluation: EvaluationContext) -> Part:
    """Return an expression or predicate with constants in place of computed parts that are the same in every row."""
    return cast(Part, _fold(part, evaluation)) if _is_computed(part) else part


@keep_derived(1024)
def _is_computed(part: Expression | Predicate) -> bool:
    return any(isinstance(each, ComputedExpression) for each in walk_expression(part))


def _fold(part: Expression | Predicate, evaluation: EvaluationContext) -> Expression | Predicate:
    if not isinstance(part, ComputedExpression):
        return rebuild(part, lambda inner: _fold(inner, evaluation))
    if not all(isinstance(inner, _SAME_IN_EVERY_ROW) for inner in walk_expression(part)):
        return part
    values = evaluate(part, Frame(1), evaluation)
    return Constant(arrow_constants(part.type, values)[0], part.type)


_SAME_IN_EVERY_ROW: Final = (
    *(Constant, ParameterValue, Now, Arithmetic, Call, Choose, Truth),
    *(Compare, IsNull, And, Or, Not),
)
"""What an expression is made of that has the same value in every row."""


# --------------------------------------------------------------------------------------------- predicates


def evaluate_predicate(predicate: Predicate, frame: Frame, evaluation: EvaluationContext) -> Mask:
    """Return for each row whether the predicate is true."""
    return _decide(predicate, frame, evaluation, outcome=True)


def _evaluate_truth(predicate: Predicate, frame: Frame, evaluation: EvaluationContext) -> Values:
    is_true = _decide(predicate, frame, evaluation, outcome=True)
    is_false = _decide(predicate, frame, evaluation, outcome=False)
    return cast("Values", pa.array(is_true, pa.bool_(), mask=~(is_true | is_false)))


def _decide(predicate: Predicate, frame: Frame, evaluation: EvaluationContext, *, outcome: bool) -> Mask:
    """Return for each row whether the predicate has an outcome: true or false."""
    variables = variables_of(predicate)
    if len(variables) == 1:
        (variable,) = variables
        binding = frame.bindings[variable]
        if frame.num_rows > len(binding.entities):
            return _decide_by_entity(predicate, variable, binding, evaluation, outcome=outcome)
    if isinstance(predicate, And | Or):
        return _decide_by_row(predicate, frame, evaluation, outcome=outcome)
    return map_parts(
        frame.num_rows,
        lambda part: _decide_by_row(predicate, frame.slice(part.start, part.stop), evaluation, outcome=outcome),
    )


def _decide_by_entity(
    predicate: Predicate, variable: str, binding: EntityColumn, evaluation: EvaluationContext, *, outcome: bool
) -> Mask:
    """Decide the predicate once for each entity; there are fewer entities than rows."""
    decided = mark_rows(binding.positions, len(binding.entities))
    positions = np.flatnonzero(decided)
    entities = Frame(len(positions), {variable: EntityColumn(binding.entities, positions)})
    decided[positions] = _decide(predicate, entities, evaluation, outcome=outcome)
    return take_rows(decided, binding.positions)


def _decide_by_row(predicate: Predicate, frame: Frame, evaluation: EvaluationContext, *, outcome: bool) -> Mask:
    match predicate:
        case Compare():
            found = _compare(predicate, frame, evaluation)
            return found if outcome else _is_comparable(predicate, frame, evaluation) & ~found
        case IsNull():
            return _is_null(predicate.operand, frame, evaluation) == (predicate.negated != outcome)
        case TextMatch():
            return to_bool_array(evaluate(predicate, frame, evaluation)) == outcome
        case Marked(name):
            return (frame.bindings[name].positions == TRUE_MARK) == outcome
        case And() | Or():
            decided = (_decide(part, frame, evaluation, outcome=outcome) for part in predicate.parts)
            # Something is false where all of it is false, or where a part is: the two kinds change places.
            return reduce(np.logical_and if isinstance(predicate, And) == outcome else np.logical_or, decided)
        case Not(part):
            return _decide_by_row(part, frame, evaluation, outcome=not outcome)
        case _:
            raise AssertionError("a plan has marks in place of blocks")


def _compare(compare: Compare, frame: Frame, evaluation: EvaluationContext) -> Mask:
    left, operator, right = (
        fold_constants(compare.left, evaluation),
        compare.operator,
        fold_constants(compare.right, evaluation),
    )
    if isinstance(left, Identity) and isinstance(right, Identity) and operator in _EQUALITIES:
        same = _find_same_entities(frame.bindings[left.variable], frame.bindings[right.variable])
        if same is not None:
            return same == (operator is ComparisonOperator.EQUAL)
    if isinstance(left, QueryConstant) and isinstance(right, QueryConstant):
        found = compare_constants(evaluate_constant(left, evaluation), operator, evaluate_constant(right, evaluation))
        return np.full(frame.num_rows, found)
    if isinstance(right, QueryConstant):
        values = evaluate(left, frame, evaluation)
        return compare_column_with_value(values, left.type, operator, evaluate_constant(right, evaluation))
    if isinstance(left, QueryConstant):
        values = evaluate(right, frame, evaluation)
        return compare_value_with_column(evaluate_constant(left, evaluation), operator, values, right.type)
    columns = (evaluate(left, frame, evaluation), evaluate(right, frame, evaluation))
    return compare_columns(columns[0], left.type, operator, columns[1])


def _find_same_entities(one: EntityColumn, other: EntityColumn) -> Mask | None:
    """Return for each row whether two variables are the same entity; None if only their ids can tell."""
    if one.entities != other.entities or isinstance(one.entities, OptionalEntities):
        return None
    return one.positions == other.positions


def _is_comparable(compare: Compare, frame: Frame, evaluation: EvaluationContext) -> Mask:
    """Return for each row whether neither side of a comparison is null."""
    return ~(_is_null(compare.left, frame, evaluation) | _is_null(compare.right, frame, evaluation))


def _is_null(operand: Expression, frame: Frame, evaluation: EvaluationContext) -> Mask:
    if isinstance(operand, QueryConstant):
        return np.full(frame.num_rows, evaluate_constant(operand, evaluation) is None)
    if isinstance(operand, PropertyValue) and operand.type.scalar is Scalar.BLOB:
        # The rows have descriptors of blobs instead of their values.
        binding = frame.bindings[operand.variable]
        return to_bool_array(compute("is_null", binding.entities.take_values(operand.name, binding.positions)))
    return to_bool_array(compute("is_null", evaluate(operand, frame, evaluation)))
