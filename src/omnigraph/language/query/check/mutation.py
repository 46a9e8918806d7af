"""Check the statements of a mutation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from omnigraph.language.query import ast
from omnigraph.language.query.check.literals import align_literal, are_comparable, can_assign, fit_literal, type_literal
from omnigraph.language.query.check.names import DATETIME, ID, STRING, reject_property
from omnigraph.language.query.check.report import ProblemReport, suggest_name
from omnigraph.language.query.typed_tree import (
    AssignedValue,
    Compare,
    Constant,
    DeleteEdges,
    DeleteNodes,
    Expression,
    InsertEdge,
    InsertNode,
    Now,
    ParameterValue,
    PropertyValue,
    Statement,
    UpdateNodes,
)
from omnigraph.language.schema import Catalog, EdgeType, NodeType, parse_default
from omnigraph.language.source import Span, suggest_similar
from omnigraph.language.types import Scalar, ValueType
from omnigraph.language.values import convert_value

_ENDS = {"from": "src", "to": "dst"}
_EQUALITIES = frozenset({ast.ComparisonOperator.EQUAL, ast.ComparisonOperator.NOT_EQUAL})


@dataclass(frozen=True, slots=True)
class MutationScope:
    """What the statements of a mutation are checked against."""

    catalog: Catalog
    parameters: Mapping[str, ValueType]
    report: ProblemReport


def check_statements(
    statements: Sequence[ast.StatementSyntax],
    catalog: Catalog,
    parameters: Mapping[str, ValueType],
    report: ProblemReport,
) -> tuple[Statement, ...]:
    """Return every statement that can be resolved. A mutation must not mix deletes with inserts or updates."""
    _reject_mixture(statements, report)
    scope = MutationScope(catalog, parameters, report)
    checked = [_check_statement(statement, scope) for statement in statements]
    return tuple(statement for statement in checked if statement is not None)


def _reject_mixture(statements: Sequence[ast.StatementSyntax], report: ProblemReport) -> None:
    deletes = [statement for statement in statements if isinstance(statement, ast.Delete)]
    writes = [statement for statement in statements if not isinstance(statement, ast.Delete)]
    if deletes and writes:
        later = max(deletes[0], writes[0], key=lambda statement: statement.span.start)
        hint = f"split it into two queries: one with {_quote_statements(writes)}, one with {_quote_statements(deletes)}"
        report.add("Q005", "a mutation either inserts and updates, or deletes", later.span, hint)


def _quote_statements(statements: Iterable[ast.StatementSyntax]) -> str:
    return " and ".join(f"'{type(statement).__name__.lower()} {statement.type_name}'" for statement in statements)


def _check_statement(statement: ast.StatementSyntax, scope: MutationScope) -> Statement | None:
    target = _resolve_target(statement, scope)
    match statement, target:
        case ast.Insert(), NodeType():
            return _check_insert_node(statement, target, scope)
        case ast.Insert(), EdgeType():
            return _check_insert_edge(statement, target, scope)
        case ast.Update(), NodeType():
            return _check_update(statement, target, scope)
        case ast.Update(), EdgeType():
            hint = "delete the edge and insert it again"
            return scope.report.add(
                "T16", f"{target.name} is an edge; edges cannot be updated", statement.type_span, hint
            )
        case ast.Delete(), NodeType():
            predicate = _check_where(statement.predicate, target, scope)
            cascades = tuple(edge.name for edge in scope.catalog.edges_of(target.name))
            return None if predicate is None else DeleteNodes(target.name, predicate, cascades)
        case ast.Delete(), EdgeType():
            predicate = _check_where(statement.predicate, target, scope)
            return None if predicate is None else DeleteEdges(target.name, predicate)
        case _:
            return None


def _resolve_target(statement: ast.StatementSyntax, scope: MutationScope) -> NodeType | EdgeType | None:
    """Find the type that a statement writes. If a node and an edge share it, ``from`` or ``to`` selects the edge."""
    node, edge = scope.catalog.nodes.get(statement.type_name), scope.catalog.edges.get(statement.type_name)
    if node is not None and edge is not None:
        return edge if _ENDS.keys() & set(_written_names(statement)) else node
    if node is None and edge is None:
        hint = suggest_name(statement.type_name, [declared.name for declared in scope.catalog.types()], "types")
        scope.report.add("T10", f"no type is called '{statement.type_name}'", statement.type_span, hint)
    return node or edge


def _written_names(statement: ast.StatementSyntax) -> Iterable[str]:
    if not isinstance(statement, ast.Delete):
        yield from (assignment.name for assignment in statement.assignments)
    if not isinstance(statement, ast.Insert):
        yield statement.predicate.name


# ------------------------------------------------------------------------------------------------ statements


def _check_insert_node(statement: ast.Insert, target: NodeType, scope: MutationScope) -> InsertNode:
    values = _check_assignments(statement, target, scope)
    _reject_missing(statement, target, (), scope)
    return InsertNode(target.name, (*values.values(), *_fill_defaults(statement, target)))


def _check_insert_edge(statement: ast.Insert, target: EdgeType, scope: MutationScope) -> InsertEdge | None:
    values = _check_assignments(statement, target, scope)
    _reject_missing(statement, target, tuple(_ENDS), scope)
    ends = [values.pop(end, None) for end in _ENDS]
    if ends[0] is None or ends[1] is None:
        return None
    assigned = (*values.values(), *_fill_defaults(statement, target))
    return InsertEdge(target.name, ends[0].value, ends[1].value, assigned)


def _check_update(statement: ast.Update, target: NodeType, scope: MutationScope) -> UpdateNodes | None:
    values = _check_assignments(statement, target, scope)
    for assignment in statement.assignments:
        if assignment.name in (target.key or ()):
            hint = "insert a node with the new key and delete the old one"
            message = f"'{assignment.name}' is part of the key of {target.name} and never changes"
            scope.report.add("Q013", message, assignment.name_span, hint)
    predicate = _check_where(statement.predicate, target, scope)
    return None if predicate is None else UpdateNodes(target.name, tuple(values.values()), predicate)


def _reject_missing(
    statement: ast.Insert, target: NodeType | EdgeType, ends: tuple[str, ...], scope: MutationScope
) -> None:
    """Report required properties without a value or default, ``@embed`` vectors included: an insert computes none."""
    required = [
        name for name, declared in target.properties.items() if not declared.type.nullable and declared.default is None
    ]
    given = set(_written_names(statement))
    missing = [name for name in (*ends, *required) if name not in given]
    if not missing:
        return
    required_values = ", ".join(
        f"{name}: {'a node id' if name in ends else target.properties[name].type}" for name in missing
    )
    hint = f"add {required_values}"
    if any(name in target.properties and target.properties[name].embedding is not None for name in missing):
        hint += "; an insert does not compute vectors, so make the vector optional or give one"
    names = ", ".join(f"'{name}'" for name in missing)
    scope.report.add("T12", f"{target.name} needs {names}", statement.type_span, hint)


def _fill_defaults(statement: ast.Insert, target: NodeType | EdgeType) -> Iterable[AssignedValue]:
    given = set(_written_names(statement))
    for name, declared in target.properties.items():
        if name not in given and declared.default is not None:
            value = convert_value(parse_default(declared.default, declared.type), declared.type)
            yield AssignedValue(name, Constant(value, declared.type))


# ------------------------------------------------------------------------------------------------ assignments


def _check_assignments(
    statement: ast.Insert | ast.Update, target: NodeType | EdgeType, scope: MutationScope
) -> dict[str, AssignedValue]:
    """Return the value of each assigned property, by name."""
    if not statement.assignments:
        hint = "write property: value between the braces"
        scope.report.add("T10", "nothing is assigned", statement.span, hint)
    seen: set[str] = set()
    values: dict[str, AssignedValue] = {}
    for assignment in statement.assignments:
        declared = _resolve_type(assignment.name, assignment.name_span, target, scope)
        if assignment.name in seen:
            message = f"'{assignment.name}' is assigned twice"
            scope.report.add("T13", message, assignment.name_span, "leave one of the two out")
            continue
        seen.add(assignment.name)
        value = None if declared is None else _check_assigned_value(assignment, declared, scope)
        if value is not None:
            values[assignment.name] = AssignedValue(assignment.name, value)
    return values


def _resolve_type(name: str, span: Span, target: NodeType | EdgeType, scope: MutationScope) -> ValueType | None:
    """Return the type of a property or of an end of an edge."""
    if isinstance(target, EdgeType) and name in _ENDS:
        return STRING
    declared = target.properties.get(name)
    if declared is None:
        return reject_property("T11", target, name, span, scope.report)
    return declared.type


def _check_assigned_value(assignment: ast.Assignment, declared: ValueType, scope: MutationScope) -> Expression | None:
    value, name = assignment.value, assignment.name
    match value:
        case ast.NowCall():
            return _check_now(value, name, declared, scope)
        case ast.Variable():
            given = _check_parameter(value, scope)
            if given is None:
                return None
            if not can_assign(given.type, declared):
                hint = f"declare ${value.name}: {_print_parameter_type(declared)}"
                return scope.report.add(
                    "T7", f"'{name}' is {declared}; '${value.name}' is {given.type}", value.span, hint
                )
            if given.type.nullable and not declared.nullable:
                hint = f"declare ${value.name}: {_print_parameter_type(declared)}"
                return scope.report.add("T7", f"'{name}' cannot be null, '${value.name}' can", value.span, hint)
            return given
        case _:
            return fit_literal(value, declared, scope.report)


def _check_now(value: ast.NowCall, name: str, declared: ValueType, scope: MutationScope) -> Now | None:
    if declared.scalar is Scalar.DATETIME and not declared.is_list:
        return Now(DATETIME)
    return scope.report.add(
        "T7", f"now() is a DateTime; '{name}' is {declared}", value.span, "write a literal or a parameter"
    )


def _check_parameter(variable: ast.Variable, scope: MutationScope) -> ParameterValue | None:
    declared = scope.parameters.get(variable.name)
    if declared is None:
        hint = suggest_similar(variable.name, scope.parameters) or f"declare it: (${variable.name}: Type)"
        return scope.report.add("T14", f"'${variable.name}' is not a parameter", variable.span, hint)
    return ParameterValue(variable.name, declared)


def _print_parameter_type(declared: ValueType) -> str:
    """Print the type of a property as a parameter declares it: an enum is a String."""
    return str(ValueType(declared.scalar, declared.nullable, declared.is_list, dimension=declared.dimension))


# ------------------------------------------------------------------------------------------------ where


def _check_where(predicate: ast.WhereCondition, target: NodeType | EdgeType, scope: MutationScope) -> Compare | None:
    is_id = predicate.name == ID and ID not in target.properties
    declared = STRING if is_id else _resolve_type(predicate.name, predicate.name_span, target, scope)
    if declared is None:
        return None
    if declared.scalar is Scalar.BLOB:
        message = f"'{predicate.name}' is a Blob and cannot be compared"
        return scope.report.add("T11", message, predicate.name_span, "compare another property")
    if declared.is_list or declared.scalar is Scalar.VECTOR:
        message = f"'{predicate.name}' is {declared} and cannot be compared as a whole"
        return scope.report.add("T7", message, predicate.name_span, "compare another property")
    value = _check_where_value(predicate, declared, scope)
    if value is None:
        return None
    name = _ENDS.get(predicate.name, predicate.name) if isinstance(target, EdgeType) else predicate.name
    return Compare(PropertyValue(ast.ANONYMOUS, name, declared), predicate.operator, value)


def _check_where_value(predicate: ast.WhereCondition, declared: ValueType, scope: MutationScope) -> Expression | None:
    value = predicate.value
    match value:
        case ast.NowCall():
            return _check_now(value, predicate.name, declared, scope)
        case ast.Variable():
            given = _check_parameter(value, scope)
            if given is None or (are_comparable(given.type, declared) and not given.type.is_list):
                return given
            message = f"'{predicate.name}' is {declared}; '${value.name}' is {given.type}"
            hint = f"declare ${value.name}: {declared.scalar}"
            return scope.report.add("T7", message, value.span, hint)
        case ast.ScalarLiteral(None):
            return scope.report.add("T3", "nothing equals null", value.span, "compare with a value")
        case _:
            return _check_where_literal(value, predicate.operator, declared, scope)


def _check_where_literal(
    literal: ast.AnyLiteral, operator: ast.ComparisonOperator, declared: ValueType, scope: MutationScope
) -> Constant | None:
    """Check a literal after ``where``: any two numbers compare, but an enum equals only its own values."""
    if isinstance(literal, ast.ScalarLiteral):
        constant = type_literal(literal, scope.report)
        outside_enum = declared.enum_values is not None and operator in _EQUALITIES
        if constant is not None and are_comparable(constant.type, declared) and not outside_enum:
            return align_literal(constant, declared)
    return fit_literal(literal, declared, scope.report)
