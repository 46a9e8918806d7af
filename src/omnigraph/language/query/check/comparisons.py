"""Check comparisons in a match: their operands, and whether the types can be compared."""

from __future__ import annotations

from omnigraph.language.query import ast
from omnigraph.language.query.check.expressions import check_expression
from omnigraph.language.query.check.literals import align_literal, are_comparable
from omnigraph.language.query.check.scope import QueryScope
from omnigraph.language.query.typed_tree import Compare, Constant, Expression, IsNull
from omnigraph.language.schema import NodeType
from omnigraph.language.types import Scalar, ValueType

WORD_OPERATORS = frozenset({ast.ComparisonOperator.CONTAINS, ast.ComparisonOperator.STARTS_WITH})


def check_filter(clause: ast.FilterClause, scope: QueryScope) -> Compare | None:
    """``left operator right``."""
    left, right = _check_operand(clause.left, scope), _check_operand(clause.right, scope)
    if left is None or right is None:
        return None
    problem = _explain_mismatch(left.type, clause.operator, right.type)
    if problem is not None:
        message, hint = problem
        return scope.reject("T7", message, clause.span, hint)
    return Compare(_align(left, right), clause.operator, _align(right, left))


def check_null_test(test: ast.NullTestClause, scope: QueryScope) -> IsNull | None:
    """``operand is null``, ``operand is not null``."""
    if not isinstance(test.operand, ast.PropertyAccess | ast.Variable) or (
        isinstance(test.operand, ast.Variable) and _is_node(test.operand, scope)
    ):
        return scope.reject("T7", "only a property or a parameter can be null", test.operand.span, "write $x.p is null")
    operand = check_expression(test.operand, scope)
    if operand is None:
        return None
    if operand.type.scalar is Scalar.BLOB:
        return scope.reject("T7", "a Blob cannot be compared", test.operand.span, "test another property")
    return IsNull(operand, test.negated)


def _check_operand(operand: ast.ExpressionSyntax, scope: QueryScope) -> Expression | None:
    """Check one side of a comparison: a property, a parameter, a literal, now() or a text search."""
    match operand:
        case ast.AggregateCall():
            hint = "use aggregates in return"
            return scope.reject("T7", f"{operand.function} cannot be compared in a match", operand.span, hint)
        case ast.NearestCall() | ast.Bm25Call() | ast.RrfCall():
            return scope.reject(
                "T7", "a score cannot be compared in a match", operand.span, "order by it, with a limit"
            )
        case ast.AliasReference():
            hint = f'write "{operand.name}" for a text, ${operand.name} for a variable'
            return scope.reject("T7", f"'{operand.name}' is not a value here", operand.span, hint)
        case ast.Variable() if _is_node(operand, scope):
            hint = f"compare a property: ${operand.name}.property"
            return scope.reject("T7", f"'${operand.name}' is a node, not a value", operand.span, hint)
        case ast.ScalarLiteral(None):
            return scope.reject("T7", "nothing equals null", operand.span, "write is null or is not null")
        case _:
            return _refuse_blob_or_vector(check_expression(operand, scope), operand, scope)


def _is_node(variable: ast.Variable, scope: QueryScope) -> bool:
    return variable.name not in scope.parameters and isinstance(scope.look_up(variable.name), NodeType)


def _refuse_blob_or_vector(
    found: Expression | None, operand: ast.ExpressionSyntax, scope: QueryScope
) -> Expression | None:
    if found is not None and found.type.scalar in {Scalar.BLOB, Scalar.VECTOR}:
        return scope.reject("T7", f"a {found.type.scalar} cannot be compared", operand.span, "compare another property")
    return found


def _explain_mismatch(left: ValueType, operator: ast.ComparisonOperator, right: ValueType) -> tuple[str, str] | None:
    """Return a message and a hint if two types cannot be compared."""
    if operator is ast.ComparisonOperator.CONTAINS and left.is_list:
        if right.is_list:
            return f"a list holds single values, not {right}", "compare with one element"
        if are_comparable(left, right):
            return None
        return f"{left} cannot contain {right}", _suggest_conversion(left, right)
    if operator in WORD_OPERATORS:
        if _is_string(left) and _is_string(right):
            return None
        operands = (
            "a list and a value, or two Strings" if operator is ast.ComparisonOperator.CONTAINS else "two Strings"
        )
        return f"{operator} cannot take {left} and {right}", f"it takes {operands}"
    if left.is_list or right.is_list:
        return f"{left} {operator} {right}: lists cannot be compared as a whole", "write list contains value"
    if are_comparable(left, right):
        return None
    return f"{left} {operator} {right}: these types cannot be compared", _suggest_conversion(left, right)


def _is_string(value_type: ValueType) -> bool:
    return value_type.scalar is Scalar.STRING and not value_type.is_list


def _suggest_conversion(left: ValueType, right: ValueType) -> str:
    for side in (left, right):
        if side.scalar in _FORMS:
            return f"write {_FORMS[side.scalar]} or a {side.scalar} parameter"
    return f"compare with a value of type {left.scalar}"


_FORMS = {Scalar.DATE: 'date("...")', Scalar.DATETIME: 'datetime("...")'}


def _align(side: Expression, other: Expression) -> Expression:
    return align_literal(side, other.type) if isinstance(side, Constant) else side
