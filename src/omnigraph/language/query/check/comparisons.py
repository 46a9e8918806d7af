"""Check comparisons: whether the types of their sides can be compared."""

from __future__ import annotations

from omnigraph.language.query import ast
from omnigraph.language.query.check.literals import align_literal, are_comparable
from omnigraph.language.query.check.names import is_text
from omnigraph.language.query.check.scope import QueryScope
from omnigraph.language.query.typed_tree import Compare, Constant, Expression, ParameterValue
from omnigraph.language.source import Span
from omnigraph.language.types import Scalar, ValueType
from omnigraph.language.values import find_pattern_error

WORD_OPERATORS = frozenset(
    {
        ast.ComparisonOperator.CONTAINS,
        ast.ComparisonOperator.STARTS_WITH,
        ast.ComparisonOperator.ENDS_WITH,
        ast.ComparisonOperator.MATCHES,
        ast.ComparisonOperator.IN,
    }
)
_MATCHES, _CONTAINS = ast.ComparisonOperator.MATCHES, ast.ComparisonOperator.CONTAINS


def compare(
    left: Expression, operator: ast.ComparisonOperator, right: Expression, span: Span, scope: QueryScope
) -> Compare | None:
    """Check ``left operator right`` of checked sides; ``a in b`` becomes ``b contains a``."""
    if operator is ast.ComparisonOperator.IN:
        left, operator, right = right, _CONTAINS, left
    problem = _explain_mismatch(left.type, operator, right.type) or (
        _explain_pattern(right) if operator is _MATCHES else None
    )
    if problem is not None:
        message, hint = problem
        return scope.reject("T7", message, span, hint)
    return Compare(_align(left, right), operator, _align(right, left))


def _explain_pattern(pattern: Expression) -> tuple[str, str] | None:
    """Return a message and a hint if the right side of ``matches`` is no pattern."""
    if not isinstance(pattern, Constant | ParameterValue):
        return "the pattern of matches must be the same for every row", "write a text or a String parameter"
    reason = (
        find_pattern_error(pattern.value) if isinstance(pattern, Constant) and isinstance(pattern.value, str) else None
    )
    hint = "patterns are RE2 expressions: no look-around, no back references"
    return None if reason is None else (f"the pattern cannot be read: {reason}", hint)


def _explain_mismatch(left: ValueType, operator: ast.ComparisonOperator, right: ValueType) -> tuple[str, str] | None:
    """Return a message and a hint if two types cannot be compared."""
    if operator is _CONTAINS and left.is_list:
        if right.is_list:
            return f"a list holds single values, not {right}", "compare with one element"
        if are_comparable(left, right):
            return None
        return f"{left} cannot contain {right}", _suggest_conversion(left, right)
    if operator in WORD_OPERATORS:
        if is_text(left) and is_text(right):
            return None
        operands = "a list and a value, or two Strings" if operator is _CONTAINS else "two Strings"
        return f"{operator} cannot take {left} and {right}", f"it takes {operands}"
    if left.is_list or right.is_list:
        return f"{left} {operator} {right}: lists cannot be compared as a whole", "write list contains value"
    if are_comparable(left, right):
        return None
    return f"{left} {operator} {right}: these types cannot be compared", _suggest_conversion(left, right)


def _suggest_conversion(left: ValueType, right: ValueType) -> str:
    for side in (left, right):
        if side.scalar in _FORMS:
            return f"write {_FORMS[side.scalar]} or a {side.scalar} parameter"
    return f"compare with a value of type {left.scalar}"


_FORMS = {Scalar.DATE: 'date("...")', Scalar.DATETIME: 'datetime("...")'}


def _align(side: Expression, other: Expression) -> Expression:
    return align_literal(side, other.type) if isinstance(side, Constant) else side
