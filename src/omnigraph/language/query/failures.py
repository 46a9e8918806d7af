"""Where the computation of a value fails: an integer overflows, a number is divided by zero or is not finite.

In a query such a value is null. A mutation must not write such a null, so it also reads for each row whether the value
is null because of a failure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from omnigraph.language.operators import ComparisonOperator
from omnigraph.language.query.plan import walk_expression
from omnigraph.language.query.typed_tree import (
    And,
    Arithmetic,
    Call,
    Choose,
    Compare,
    Constant,
    Expression,
    Function,
    IsNull,
    Or,
    Predicate,
    Truth,
)
from omnigraph.language.types import Scalar, ValueType

_BOOL: Final = ValueType(Scalar.BOOL)
_TRUE: Final = Constant(True, _BOOL)  # noqa: FBT003  a value, not a switch


def find_failure(value: Expression) -> Truth | None:
    """Return a condition that is true where a value is null because its computation failed; None if it cannot fail."""
    failure = _find_failure(value) if any(map(_can_fail, walk_expression(value))) else None
    return None if failure is None else Truth(failure, _BOOL.as_nullable())


def _can_fail(part: Expression | Predicate) -> bool:
    # Different integers meet in I64, and a U64 may be beyond it.
    match part:
        case Choose() | Call(Function.COALESCE):
            return part.type.is_number
        case _:
            return isinstance(part, Arithmetic)


def _find_failure(value: Expression) -> Predicate | None:
    match value:
        case Arithmetic(operands):
            known = And(tuple(IsNull(operand, negated=True) for operand in operands))
            return And((IsNull(value, negated=False), _join([known, *_find_failures(operands)])))
        case Call(Function.COALESCE, arguments):
            known = (IsNull(argument, negated=True) for argument in arguments)
            return And((IsNull(value, negated=False), _join([*known, *_find_failures(arguments)])))
        case Call(_, arguments):
            failures = _find_failures(arguments)
            return _join(failures) if failures else None
        case Choose(conditions, values, otherwise):
            arms = tuple(map(_is_arm_lost, values))
            rest = None if otherwise is None else _is_arm_lost(otherwise)
            failure = Choose(conditions, arms, rest, _BOOL.as_nullable())
            return And((IsNull(value, negated=False), Compare(failure, ComparisonOperator.EQUAL, _TRUE)))
        case _:
            return None


def _is_arm_lost(arm: Expression) -> Truth:
    """Whether the chosen value of a null ``case`` is known, or failed itself."""
    return Truth(_join([IsNull(arm, negated=True), *_find_failures([arm])]), _BOOL.as_nullable())


def _find_failures(values: Iterable[Expression]) -> list[Predicate]:
    failures = (_find_failure(value) for value in values)
    return [failure for failure in failures if failure is not None]


def _join(parts: list[Predicate]) -> Predicate:
    return parts[0] if len(parts) == 1 else Or(tuple(parts))
