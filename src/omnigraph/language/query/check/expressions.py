"""Check expressions of a read: resolve their names and find their types.

Each function returns the typed form, or None after it has reported a problem. The caller decides which expressions are
allowed where.
"""

from __future__ import annotations

from typing import TypeAlias

from omnigraph.language.query import ast
from omnigraph.language.query.check.literals import fit_literal, type_literal
from omnigraph.language.query.check.report import ProblemReport, suggest_name
from omnigraph.language.query.check.scope import UNKNOWN, QueryScope
from omnigraph.language.query.typed_tree import (
    Aggregate,
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
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.language.source import Span, suggest_similar
from omnigraph.language.types import INTEGERS, NUMBERS, Scalar, ValueType

LITERALS = (ast.ScalarLiteral, ast.DateLiteral, ast.DateTimeLiteral, ast.ListLiteral)
BOOL = ValueType(Scalar.BOOL)
DATETIME = ValueType(Scalar.DATETIME)
INTEGER = ValueType(Scalar.I64)
STRING = ValueType(Scalar.STRING)
_SCORE = ValueType(Scalar.F64, nullable=True)
_DEFAULT_RRF_K = Constant(60, INTEGER)
_TEXT_CODES = {
    ast.TextFunction.SEARCH: "T19",
    ast.TextFunction.FUZZY: "T19",
    ast.TextFunction.MATCH_TEXT: "T20",
}

RankingCall: TypeAlias = ast.NearestCall | ast.Bm25Call | ast.RrfCall


def check_expression(expression: ast.ExpressionSyntax, scope: QueryScope) -> Expression | None:
    """Check any expression; a literal gets its own type."""
    match expression:
        case ast.ScalarLiteral() | ast.DateLiteral() | ast.DateTimeLiteral() | ast.ListLiteral():
            return type_literal(expression, scope.report)
        case ast.NowCall():
            return Now(DATETIME)
        case ast.Variable():
            return check_variable(expression, scope)
        case ast.PropertyAccess():
            return check_property(expression, scope)
        case ast.AliasReference():
            return scope.reject(
                "Q010", f"'{expression.name}' is not a value", expression.span, "write the expression that it names"
            )
        case ast.AggregateCall():
            return check_aggregate(expression, scope)
        case ast.TextMatchCall():
            return check_text_match(expression, scope)
        case ast.NearestCall() | ast.Bm25Call() | ast.RrfCall():
            return check_ranking(expression, scope)


# ------------------------------------------------------------------------------------------------ names


def check_variable(variable: ast.Variable, scope: QueryScope) -> ParameterValue | Identity | None:
    """Check a bare ``$x``: a parameter, else the id of a bound node."""
    declared = scope.parameters.get(variable.name)
    if declared is not None:
        return ParameterValue(variable.name, declared)
    match scope.look_up(variable.name):
        case NodeType():
            return Identity(variable.name, STRING)
        case EdgeType():
            return scope.reject(
                "T23",
                f"'${variable.name}' is an edge, not a value",
                variable.span,
                f"name one of its properties: ${variable.name}.property",
            )
        case None:
            return reject_unbound("Q002", variable.name, variable.span, scope)
        case _:
            return None


def check_property(access: ast.PropertyAccess, scope: QueryScope, unbound: str = "T6") -> PropertyValue | None:
    """Check ``$x.p``. ``unbound`` is the code for an unknown variable or property."""
    entity = scope.look_up(access.variable)
    if entity is None:
        return reject_unbound(unbound, access.variable, access.span, scope)
    if entity is UNKNOWN:
        return None
    found = entity.properties.get(access.name)
    if found is None:
        return reject_property(unbound, entity, access.name, access.name_span, scope.report)
    return PropertyValue(access.variable, access.name, found.type)


def reject_unbound(code: str, variable: str, span: Span, scope: QueryScope) -> None:
    """Report that a variable is not bound."""
    if variable == ast.ANONYMOUS:
        return scope.reject(code, "'$_' stands for any node and cannot be read", span, "give the node a name")
    if variable in scope.parameters:
        message, hint = f"'${variable}' is a parameter and has no properties", f"write ${variable}"
        return scope.reject(code, message, span, hint)
    known = suggest_similar(f"${variable}", (f"${name}" for name in (*scope.variables, *scope.parameters)))
    hint = known or f"bind it before: ${variable}: Type"
    return scope.reject(code, f"'${variable}' is not bound here", span, hint)


def reject_property(code: str, entity: NodeType | EdgeType, name: str, span: Span, report: ProblemReport) -> None:
    """Report that a type has no such property."""
    hint = suggest_name(name, entity.properties, f"properties of {entity.name}")
    report.add(code, f"{entity.name} has no property '{name}'", span, hint)


# ------------------------------------------------------------------------------------------------ search


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
    first, second = _check_rrf_arm(call.first, scope), _check_rrf_arm(call.second, scope)
    k = _DEFAULT_RRF_K if call.k is None else _check_count(call.k, "T21", "k", 1, scope)
    if first is None or second is None or k is None:
        return None
    return FusedScore(first, second, k, _SCORE)


def _check_rrf_arm(call: ast.NearestCall | ast.Bm25Call, scope: QueryScope) -> Distance | TextScore | None:
    return _check_nearest(call, scope) if isinstance(call, ast.NearestCall) else _check_bm25(call, scope)


def _check_bm25(call: ast.Bm25Call, scope: QueryScope) -> TextScore | None:
    target, query = _check_text_target(call.target, "T20", scope), _check_text_query(call.query, "T20", scope)
    return None if target is None or query is None else TextScore(target, query, _SCORE)


def _check_nearest(call: ast.NearestCall, scope: QueryScope) -> Distance | None:
    target = _check_searched_property(call.target, scope, unbound="T15")
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
    found = check_expression(query, scope)
    if found is None:
        return None
    is_constant = isinstance(found, Constant | ParameterValue) and not found.type.is_list
    is_vector = found.type.scalar is Scalar.VECTOR and found.type.dimension == target.dimension
    if is_constant and (is_vector or found.type.scalar is Scalar.STRING) and not _is_null(found):
        return found
    return scope.reject("T15", f"cannot find what is nearest to {_describe(found)}", query.span, hint)


def _check_text_target(target: ast.ExpressionSyntax, code: str, scope: QueryScope) -> PropertyValue | None:
    if not isinstance(target, ast.PropertyAccess):
        return scope.reject(code, "only a property can be searched", target.span, "write $variable.property")
    found = _check_searched_property(target, scope, unbound="T6")
    if found is None or _is_text(found.type):
        return found
    message = f"only a String property can be searched; {target.name} is {found.type}"
    return scope.reject(code, message, target.name_span, "name another property")


def _check_searched_property(target: ast.PropertyAccess, scope: QueryScope, unbound: str) -> PropertyValue | None:
    if isinstance(scope.look_up(target.variable), EdgeType):
        hint = "search the nodes at its ends"
        return scope.reject("T23", f"'${target.variable}' is an edge; only nodes are searched", target.span, hint)
    return check_property(target, scope, unbound)


def _check_text_query(query: ast.ExpressionSyntax, code: str, scope: QueryScope) -> Expression | None:
    found = check_expression(query, scope)
    if found is None:
        return None
    if isinstance(found, Constant | ParameterValue) and _is_text(found.type) and not _is_null(found):
        return found
    return scope.reject(
        code,
        f"the words to search for must be a text, not {_describe(found)}",
        query.span,
        "give a text or a String parameter",
    )


def _check_count(
    given: ast.ExpressionSyntax, code: str, name: str, minimum: int, scope: QueryScope
) -> Expression | None:
    """Check an integer argument of a search function: a literal or a parameter."""
    found = check_expression(given, scope)
    if found is None:
        return None
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


def _is_text(value_type: ValueType) -> bool:
    return value_type.scalar is Scalar.STRING and not value_type.is_list


def _is_null(expression: Expression) -> bool:
    return isinstance(expression, Constant) and expression.value is None


def _describe(expression: Expression) -> str:
    if _is_null(expression):
        return "null"
    if isinstance(expression, Identity):
        return f"the node '${expression.variable}'"
    where = "" if isinstance(expression, Constant | ParameterValue) else "a value computed per row, of type "
    return f"{where}{expression.type}"


# ------------------------------------------------------------------------------------------------ aggregates


def check_aggregate(call: ast.AggregateCall, scope: QueryScope) -> Aggregate | None:
    """Check an aggregate: its argument, and the type of its result."""
    name = call.function
    if not isinstance(call.argument, (ast.Variable, ast.PropertyAccess, *LITERALS)):
        hint = f"write {name}($variable.property)"
        return scope.reject("T8", f"{name} works on a variable or a property", call.argument.span, hint)
    argument = refuse_blob(check_expression(call.argument, scope), call.argument.span, scope)
    if argument is None:
        return None
    if not _can_aggregate(name, argument):
        allowed = "numbers and texts" if Scalar.STRING in _scalars_for(name) else "numbers"
        found = "a node" if isinstance(argument, Identity) else str(argument.type)
        return scope.reject(
            "T8", f"{name} works on {allowed}, not on {found}", call.argument.span, "count works on anything"
        )
    return Aggregate(name, argument, call.distinct, _type_of_aggregate(name, argument.type))


def _can_aggregate(function: ast.AggregateFunction, argument: Expression) -> bool:
    if function is ast.AggregateFunction.COUNT:
        return True
    if argument.type.is_list or isinstance(argument, Identity) or _is_null(argument):
        return False
    return argument.type.scalar in _scalars_for(function)


def _scalars_for(function: ast.AggregateFunction) -> frozenset[Scalar]:
    match function:
        case ast.AggregateFunction.COUNT:
            return frozenset(Scalar)
        case ast.AggregateFunction.SUM | ast.AggregateFunction.AVG:
            return NUMBERS
        case ast.AggregateFunction.MIN | ast.AggregateFunction.MAX:
            return NUMBERS | {Scalar.STRING}


def _type_of_aggregate(function: ast.AggregateFunction, argument: ValueType) -> ValueType:
    match function:
        case ast.AggregateFunction.COUNT:
            return INTEGER.as_nullable()
        case ast.AggregateFunction.SUM | ast.AggregateFunction.AVG:
            return ValueType(Scalar.F64, nullable=True)
        case ast.AggregateFunction.MIN | ast.AggregateFunction.MAX:
            return argument.as_nullable()


def refuse_blob(expression: Expression | None, span: Span, scope: QueryScope) -> Expression | None:
    """Return the expression, or report a problem if it is a blob: blobs cannot be returned, sorted or counted."""
    if expression is None or expression.type.scalar is not Scalar.BLOB:
        return expression
    hint = "return another property; blobs are read one at a time, by id"
    return scope.reject("T24", "a query cannot return a blob", span, hint)
