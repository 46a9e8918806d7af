"""Check the search functions: text predicates and rankings. What they search for is the same for every row."""

from __future__ import annotations

from typing import TypeAlias

from omnigraph.language.query import ast
from omnigraph.language.query.check.literals import fit_literal, type_literal
from omnigraph.language.query.check.names import (
    BOOL,
    INTEGER,
    check_property,
    check_variable,
    is_null,
    is_text,
)
from omnigraph.language.query.check.report import ProblemReport
from omnigraph.language.query.check.scope import QueryScope
from omnigraph.language.query.typed_tree import (
    Constant,
    Distance,
    Expression,
    FusedScore,
    Identity,
    ParameterValue,
    PropertyValue,
    TextMatch,
    TextScore,
)
from omnigraph.language.schema import EdgeType
from omnigraph.language.types import INTEGERS, Scalar, ValueType

_SCORE = ValueType(Scalar.F64, nullable=True)
_DEFAULT_RRF_K = Constant(60, INTEGER)
_TEXT_CODES = {
    ast.TextFunction.SEARCH: "T19",
    ast.TextFunction.FUZZY: "T19",
    ast.TextFunction.MATCH_TEXT: "T20",
}

_PER_ROW = "a value that is computed per row"

RankingCall: TypeAlias = ast.NearestCall | ast.Bm25Call | ast.RrfCall


def check_text_match(call: ast.TextMatchCall, scope: QueryScope) -> TextMatch | None:
    """Check ``search``, ``match_text`` or ``fuzzy``."""
    code = _TEXT_CODES[call.function]
    target = _check_text_target(call.target, code, scope)
    query = _check_text_query(call.query, code, scope)
    edits = None if call.max_edits is None else _check_count(call.max_edits, code, "max_edits", 0, scope)
    if target is None or query is None or (call.max_edits is not None and edits is None):
        return None
    return TextMatch(call.function, target, query, edits, BOOL)


def check_ranking(call: RankingCall, scope: QueryScope) -> Distance | TextScore | FusedScore | None:
    """Check ``nearest``, ``bm25`` or ``rrf``."""
    match call:
        case ast.NearestCall():
            return _check_nearest(call, scope)
        case ast.Bm25Call():
            return _check_bm25(call, scope)
        case ast.RrfCall():
            return _check_rrf(call, scope)


def _check_rrf(call: ast.RrfCall, scope: QueryScope) -> FusedScore | None:
    checked = [_check_rrf_arm(arm, scope) for arm in call.arms]
    arms = tuple(arm for arm in checked if arm is not None)
    k = _DEFAULT_RRF_K if call.k is None else _check_count(call.k, "T21", "k", 1, scope)
    return None if len(arms) < len(checked) or k is None else FusedScore(arms, k, _SCORE)


def _check_rrf_arm(call: ast.NearestCall | ast.Bm25Call, scope: QueryScope) -> Distance | TextScore | None:
    return _check_nearest(call, scope) if isinstance(call, ast.NearestCall) else _check_bm25(call, scope)


def _check_bm25(call: ast.Bm25Call, scope: QueryScope) -> TextScore | None:
    target, query = _check_text_target(call.target, "T20", scope), _check_text_query(call.query, "T20", scope)
    return None if target is None or query is None else TextScore(target, query, _SCORE)


def _check_nearest(call: ast.NearestCall, scope: QueryScope) -> Distance | None:
    target = _check_searched_property(call.target, scope, unbound="T15", code="T15")
    if target is None:
        return None
    if target.type.scalar is not Scalar.VECTOR:
        message = f"nearest needs a Vector property; {call.target.name} is {target.type}"
        return scope.reject("T15", message, call.target.name_span, "use bm25 to rank by text")
    query = _check_vector_query(call.query, target.type, scope)
    return None if query is None else Distance(target, query, _SCORE)


def _check_vector_query(query: ast.ExpressionSyntax, target: ValueType, scope: QueryScope) -> Expression | None:
    """Check the second argument of ``nearest``: a vector of the same dimension, or a text to embed."""
    hint = f"give a Vector({target.dimension}) parameter, {target.dimension} numbers, or a text to be embedded"
    if isinstance(query, ast.ListLiteral):
        attempt = ProblemReport(scope.report.source)
        vector = fit_literal(query, ValueType(Scalar.VECTOR, dimension=target.dimension), attempt)
        if attempt.problems:
            scope.reject("T15", attempt.problems[0].message, query.span, hint)
        return vector
    if not isinstance(query, ast.AnyLiteral | ast.Variable):
        return scope.reject("T15", f"cannot find what is nearest to {_PER_ROW}", query.span, hint)
    found = _check_constant(query, scope)
    if found is None:
        return None
    is_constant = isinstance(found, Constant | ParameterValue) and not found.type.is_list
    is_vector = found.type.scalar is Scalar.VECTOR and found.type.dimension == target.dimension
    if is_constant and (is_vector or found.type.scalar is Scalar.STRING) and not is_null(found):
        return found
    return scope.reject("T15", f"cannot find what is nearest to {_describe(found)}", query.span, hint)


def _check_text_target(target: ast.ExpressionSyntax, code: str, scope: QueryScope) -> PropertyValue | None:
    if not isinstance(target, ast.PropertyAccess):
        return scope.reject(code, "only a property can be searched", target.span, "write $variable.property")
    found = _check_searched_property(target, scope, unbound="T6", code=code)
    if found is None or is_text(found.type):
        return found
    message = f"only a String property can be searched; {target.name} is {found.type}"
    return scope.reject(code, message, target.name_span, "name another property")


def _check_searched_property(
    target: ast.PropertyAccess, scope: QueryScope, unbound: str, code: str
) -> PropertyValue | None:
    if isinstance(scope.look_up(target.variable), EdgeType):
        hint = "search the nodes at its ends"
        return scope.reject("T23", f"'${target.variable}' is an edge; only nodes are searched", target.span, hint)
    found = check_property(target, scope, unbound)
    if found is None or isinstance(found, PropertyValue):
        return found
    return scope.reject(code, "an id cannot be searched", target.name_span, "name a property")


def _check_text_query(query: ast.ExpressionSyntax, code: str, scope: QueryScope) -> Expression | None:
    if isinstance(query, ast.AnyLiteral | ast.Variable):
        found = _check_constant(query, scope)
        if found is None:
            return None
        if isinstance(found, Constant | ParameterValue) and is_text(found.type) and not is_null(found):
            return found
        given = _describe(found)
    else:
        given = _PER_ROW
    message = f"the words to search for must be a text, not {given}"
    return scope.reject(code, message, query.span, "give a text or a String parameter")


def _check_count(
    given: ast.ExpressionSyntax, code: str, name: str, minimum: int, scope: QueryScope
) -> Expression | None:
    """Check an integer argument of a search function: a literal or a parameter."""
    found = _check_constant(given, scope) if isinstance(given, ast.AnyLiteral | ast.Variable) else None
    match found:
        case ParameterValue() if is_count(found.type):
            return found
        case Constant(int() as number) if is_count(found.type) and number >= minimum:
            return found
        case _:
            pass
    return scope.reject(
        code, f"{name} must be an integer of at least {minimum}", given.span, f"write {minimum} or more"
    )


def is_count(value_type: ValueType) -> bool:
    """Whether a type is a single integer that is never null."""
    return value_type.scalar in INTEGERS and not value_type.is_list and not value_type.nullable


def _check_constant(given: ast.AnyLiteral | ast.Variable, scope: QueryScope) -> Expression | None:
    """Check a literal or a variable, which is a constant if it is a parameter."""
    return check_variable(given, scope) if isinstance(given, ast.Variable) else type_literal(given, scope.report)


def _describe(expression: Expression) -> str:
    if is_null(expression):
        return "null"
    return f"the node '${expression.variable}'" if isinstance(expression, Identity) else str(expression.type)
