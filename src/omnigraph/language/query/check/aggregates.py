"""Check aggregates: what each works on, and the type of its result."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.language.query import ast
from omnigraph.language.query.check.names import INTEGER, is_null
from omnigraph.language.query.check.scope import QueryScope
from omnigraph.language.query.typed_tree import Aggregate, Expression, Identity
from omnigraph.language.types import NUMBERS, Scalar, ValueType

_ORDERED = NUMBERS | {Scalar.STRING, Scalar.DATE, Scalar.DATETIME, Scalar.BOOL}
_DESCRIPTIONS = {
    ast.AggregateFunction.SUM: "numbers",
    ast.AggregateFunction.AVG: "numbers",
    ast.AggregateFunction.MIN: "single values that have an order",
    ast.AggregateFunction.MAX: "single values that have an order",
    ast.AggregateFunction.COLLECT: "nodes and single values",
}


def apply_aggregate(call: ast.AggregateCall, argument: Expression, scope: QueryScope) -> Aggregate | None:
    """Check an aggregate of a checked argument."""
    name = call.function
    if name is ast.AggregateFunction.COUNT and isinstance(call.argument, ast.ConditionSyntax | ast.TextMatchCall):
        span = call.argument.span
        condition = " ".join(scope.report.source.text[span.start : span.end].split())
        hint = f"to count the rows where it is true, write count(case {{ {condition}: 1 }})"
        return scope.reject("T8", "a count of a condition also counts the rows where it is false", span, hint)
    # The id of a node is a text like others, but $v alone is the node.
    is_node = isinstance(argument, Identity) and isinstance(call.argument, ast.Variable)
    takes_nodes = name in {ast.AggregateFunction.COUNT, ast.AggregateFunction.COLLECT}
    if (is_node and not takes_nodes) or not _can_aggregate(name, argument):
        allowed = _DESCRIPTIONS[name]
        found = "a node" if is_node else str(argument.type)
        return scope.reject(
            "T8", f"{name} works on {allowed}, not on {found}", call.argument.span, "count works on anything"
        )
    return Aggregate(name, argument, call.distinct, _type_of_aggregate(name, argument.type))


def _can_aggregate(function: ast.AggregateFunction, argument: Expression) -> bool:
    if function is ast.AggregateFunction.COUNT:
        return True
    if argument.type.is_list or is_null(argument):
        return False
    return argument.type.scalar in _scalars_for(function)


def _scalars_for(function: ast.AggregateFunction) -> frozenset[Scalar]:
    match function:
        case ast.AggregateFunction.COUNT:
            return frozenset(Scalar)
        case ast.AggregateFunction.SUM | ast.AggregateFunction.AVG:
            return NUMBERS
        case ast.AggregateFunction.MIN | ast.AggregateFunction.MAX | ast.AggregateFunction.COLLECT:
            return _ORDERED


def _type_of_aggregate(function: ast.AggregateFunction, argument: ValueType) -> ValueType:
    match function:
        case ast.AggregateFunction.COUNT:
            return INTEGER.as_nullable()
        case ast.AggregateFunction.SUM | ast.AggregateFunction.AVG:
            return ValueType(Scalar.F64, nullable=True)
        case ast.AggregateFunction.MIN | ast.AggregateFunction.MAX:
            return argument.as_nullable()
        case ast.AggregateFunction.COLLECT:
            return replace(argument, is_list=True, nullable=False)
