"""Check names in a read: variables and properties; and what all checks of expressions share."""

from __future__ import annotations

from omnigraph.language.query import ast
from omnigraph.language.query.check.report import ProblemReport, suggest_name
from omnigraph.language.query.check.scope import PATH, UNKNOWN, QueryScope
from omnigraph.language.query.typed_tree import (
    Constant,
    EndIdentity,
    Expression,
    Identity,
    ParameterValue,
    PropertyValue,
)
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.language.source import Span, suggest_similar
from omnigraph.language.types import Scalar, ValueType

BOOL = ValueType(Scalar.BOOL)
DATETIME = ValueType(Scalar.DATETIME)
INTEGER = ValueType(Scalar.I64)
STRING = ValueType(Scalar.STRING)
ID = "id"
ENDS = ("from", "to")


def check_variable(variable: ast.Variable, scope: QueryScope) -> ParameterValue | Identity | None:
    """Check a bare ``$x``: a parameter, else the id of a bound node."""
    declared = scope.parameters.get(variable.name)
    if declared is not None:
        return ParameterValue(variable.name, declared)
    match scope.look_up(variable.name):
        case NodeType():
            return Identity(variable.name, _string_of(variable.name, scope))
        case EdgeType():
            return scope.reject(
                "T23",
                f"'${variable.name}' is an edge, not a value",
                variable.span,
                f"name one of its properties: ${variable.name}.property",
            )
        case entity if entity is PATH:
            return reject_path(variable.name, variable.span, scope)
        case None:
            return reject_unbound("Q002", variable.name, variable.span, scope)
        case _:
            return None


def check_property(
    access: ast.PropertyAccess, scope: QueryScope, unbound: str = "T6"
) -> PropertyValue | Identity | EndIdentity | None:
    """Check ``$x.p``; p may also be the id or an end. ``unbound`` is the code for an unknown variable or property."""
    entity = scope.look_up(access.variable)
    if entity is None:
        return reject_unbound(unbound, access.variable, access.span, scope)
    if entity is PATH:
        return reject_path(access.variable, access.span, scope)
    if entity is UNKNOWN:
        return None
    found = entity.properties.get(access.name)
    if found is None and access.name == ID:
        return Identity(access.variable, _string_of(access.variable, scope))
    if found is None and isinstance(entity, EdgeType) and access.name in ENDS:
        return EndIdentity(access.variable, access.name, _string_of(access.variable, scope))
    if found is None:
        owner = scope.name_of_type(access.variable, entity)
        return reject_property(unbound, entity, access.name, access.name_span, scope.report, owner)
    is_optional = access.variable in scope.optional
    return PropertyValue(access.variable, access.name, found.type.as_nullable() if is_optional else found.type)


def _string_of(variable: str, scope: QueryScope) -> ValueType:
    """The type of an id: null for a variable that is absent."""
    return STRING.as_nullable() if variable in scope.optional else STRING


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


def reject_path(variable: str, span: Span, scope: QueryScope) -> None:
    """Report that a path is used as if it were something else."""
    hint = f"write hops(${variable}), nodes(${variable}) or edges(${variable})"
    return scope.reject("T23", f"'${variable}' is a path: only functions of paths read it", span, hint)


def reject_property(
    code: str, entity: NodeType | EdgeType, name: str, span: Span, report: ProblemReport, declared: str | None = None
) -> None:
    """Report that a type has no such property. ``declared`` is the name of its interface, if the query names that."""
    owner = declared or entity.name
    hint = suggest_name(name, entity.properties, f"properties of {owner}")
    report.add(code, f"{owner} has no property '{name}'", span, hint)


def refuse_blob(expression: Expression | None, span: Span, scope: QueryScope) -> Expression | None:
    """Return the expression, or report a problem if it is a blob: blobs cannot be returned, sorted or counted."""
    if expression is None or expression.type.scalar is not Scalar.BLOB:
        return expression
    hint = "return another property; blobs are read one at a time, by id"
    return scope.reject("T24", "a query cannot return a blob", span, hint)


def is_text(value_type: ValueType) -> bool:
    """Whether a type is a single String."""
    return value_type.scalar is Scalar.STRING and not value_type.is_list


def is_node_variable(written: ast.ExpressionSyntax, checked: Expression) -> bool:
    """Whether an expression is a bare ``$x`` that stands for a node, whose id it would show as a column."""
    return isinstance(written, ast.Variable) and isinstance(checked, Identity)


def is_null(expression: Expression) -> bool:
    """Whether an expression is the literal null."""
    return isinstance(expression, Constant) and expression.value is None
