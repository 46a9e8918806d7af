"""Check the values that inserts and updates assign: literals, parameters, and what is computed from them or a match."""

from __future__ import annotations

from typing import TypeAlias

from omnigraph.language.query import ast
from omnigraph.language.query.check.expressions import check_expression
from omnigraph.language.query.check.literals import can_assign, fit_literal
from omnigraph.language.query.check.names import DATETIME, STRING, check_variable, refuse_blob, reject_property
from omnigraph.language.query.check.scope import Place, QueryScope
from omnigraph.language.query.typed_statements import AssignedValue
from omnigraph.language.query.typed_tree import Expression, Identity, Now, ParameterValue
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.language.source import Span, suggest_similar
from omnigraph.language.types import FLOATS, INTEGERS, Scalar, ValueType

ENDS = {"from": "src", "to": "dst"}
"""The names of the ends of an edge in the language, and its columns."""
AssigningStatement: TypeAlias = ast.Insert | ast.Update | ast.VariableUpdate


def check_assignments(
    statement: AssigningStatement, target: NodeType | EdgeType, scope: QueryScope
) -> dict[str, AssignedValue]:
    """Return the value of each assigned property, by name."""
    if not statement.assignments:
        hint = "write property: value between the braces"
        scope.reject("T10", "nothing is assigned", statement.span, hint)
    seen: set[str] = set()
    values: dict[str, AssignedValue] = {}
    for assignment in statement.assignments:
        declared = find_assigned_type(assignment.name, assignment.name_span, target, scope)
        if assignment.name in seen:
            message = f"'{assignment.name}' is assigned twice"
            scope.reject("T13", message, assignment.name_span, "leave one of the two out")
            continue
        seen.add(assignment.name)
        value = None if declared is None else _check_assigned(assignment, declared, target, scope)
        if value is not None:
            values[assignment.name] = AssignedValue(assignment.name, value)
    return values


def find_assigned_type(name: str, span: Span, target: NodeType | EdgeType, scope: QueryScope) -> ValueType | None:
    """Return the type of a property or of an end of an edge."""
    if isinstance(target, EdgeType) and name in ENDS:
        return STRING
    declared = target.properties.get(name)
    if declared is None:
        return reject_property("T11", target, name, span, scope.report)
    return declared.type


def check_now(value: ast.NowCall, name: str, declared: ValueType, scope: QueryScope) -> Now | None:
    """Check ``now()`` for a property."""
    if declared.scalar is Scalar.DATETIME and not declared.is_list:
        return Now(DATETIME)
    hint = "write a literal or a parameter"
    return scope.reject("T7", f"now() is a DateTime; '{name}' is {declared}", value.span, hint)


def check_parameter(variable: ast.Variable, scope: QueryScope) -> ParameterValue | None:
    """Check a variable of a mutation without a match: it is a parameter."""
    declared = scope.parameters.get(variable.name)
    if declared is None:
        hint = suggest_similar(variable.name, scope.parameters) or f"declare it: (${variable.name}: Type)"
        return scope.reject("T14", f"'${variable.name}' is not a parameter", variable.span, hint)
    return ParameterValue(variable.name, declared)


# ------------------------------------------------------------------------------------------------ one value


def _check_assigned(
    assignment: ast.Assignment, declared: ValueType, target: NodeType | EdgeType, scope: QueryScope
) -> Expression | None:
    value, name = assignment.value, assignment.name
    match value:
        case ast.NowCall():
            return check_now(value, name, declared, scope)
        case ast.Variable() if value.name in scope.parameters or not scope.variables:
            return _check_given(value, name, declared, scope)
        case ast.Variable() if isinstance(target, EdgeType) and name in ENDS:
            return _check_end(value, name, target, scope)
        case ast.ScalarLiteral() | ast.DateLiteral() | ast.DateTimeLiteral() | ast.ListLiteral():
            return fit_literal(value, declared, scope.report)
        case _:
            return _check_computed(value, name, declared, scope)


def _check_given(variable: ast.Variable, name: str, declared: ValueType, scope: QueryScope) -> ParameterValue | None:
    given = check_parameter(variable, scope)
    if given is None:
        return None
    hint = f"declare ${variable.name}: {_print_parameter_type(declared)}"
    if not can_assign(given.type, declared):
        message = f"'{name}' is {declared}; '${variable.name}' is {given.type}"
        return scope.reject("T7", message, variable.span, hint)
    if given.type.nullable and not declared.nullable:
        return scope.reject("T7", f"'{name}' cannot be null, '${variable.name}' can", variable.span, hint)
    return given


def _print_parameter_type(declared: ValueType) -> str:
    """Print the type of a property as a parameter declares it: an enum is a String."""
    return str(ValueType(declared.scalar, declared.nullable, declared.is_list, dimension=declared.dimension))


def _check_end(variable: ast.Variable, end: str, edge: EdgeType, scope: QueryScope) -> Expression | None:
    """Check a bound variable as an end of a new edge: a node of the type that the edge has there."""
    node_type = edge.from_type if end == "from" else edge.to_type
    entity = scope.look_up(variable.name)
    if isinstance(entity, NodeType) and entity.name != node_type:
        is_one_of = "can be" if variable.name in scope.chosen else "is"
        message = f"'{end}' of {edge.name} is a {node_type}; '${variable.name}' {is_one_of} a {entity.name}"
        return scope.reject("T5", message, variable.span, f"name a variable that is a {node_type}")
    return check_variable(variable, scope)


def _check_computed(
    value: ast.ExpressionSyntax, name: str, declared: ValueType, scope: QueryScope
) -> Expression | None:
    """Check a value that is computed. It may be null: a required property is checked when the rows are known."""
    if not scope.variables and _reject_variables(value, scope):
        return None
    inside = scope.at(Place.ASSIGNMENT)
    found = refuse_blob(check_expression(value, inside), value.span, inside)
    if found is None:
        return None
    if isinstance(value, ast.Variable) and isinstance(found, Identity):
        message = f"'${value.name}' is a node, not a value"
        return scope.reject("T7", message, value.span, f"write a property or the id: ${value.name}.id")
    if declared.scalar is Scalar.BLOB:
        message = f"'{name}' is a Blob, which is not computed"
        return scope.reject("T7", message, value.span, "pass a blob as a parameter of type Blob or String")
    if not can_assign(found.type, declared):
        message = f"'{name}' is {declared}; this is {found.type}"
        return scope.reject("T7", message, value.span, _suggest_type(found.type, declared))
    return found


def _reject_variables(value: ast.ExpressionSyntax, scope: QueryScope) -> bool:
    """Report the variables of a value without a match that are no parameters."""
    found = [part for part in ast.walk_syntax(value) if isinstance(part, ast.Variable | ast.PropertyAccess)]
    unknown = [part for part in found if isinstance(part, ast.PropertyAccess) or part.name not in scope.parameters]
    for part in unknown:
        if isinstance(part, ast.Variable):
            check_parameter(part, scope)
        else:
            hint = f"put a match before the statements: match {{ ${part.variable}: Type ... }}"
            scope.reject("T14", f"'${part.variable}' is not bound here", part.span, hint)
    return bool(unknown)


def _suggest_type(found: ValueType, declared: ValueType) -> str:
    if declared.scalar in INTEGERS and found.scalar in FLOATS:
        return "+ - * of integers are integers, / is an F64"
    return f"give a value of type {declared}"
