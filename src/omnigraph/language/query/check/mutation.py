"""Mutations: what each statement writes, and whether the type can take it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from omnigraph.language.query import ast
from omnigraph.language.query.check.expressions import DATETIME, STRING, reject_property
from omnigraph.language.query.check.literals import align_literal, are_comparable, can_assign, fit_literal, type_literal
from omnigraph.language.query.check.report import ProblemReport, suggest_name
from omnigraph.language.query.typed import (
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
    """What a statement can see."""

    catalog: Catalog
    parameters: Mapping[str, ValueType]
    report: ProblemReport


def check_statements(
    statements: Sequence[ast.StatementSyntax],
    catalog: Catalog,
    parameters: Mapping[str, ValueType],
    report: ProblemReport,
) -> tuple[Statement, ...]:
    """Every statement that can be resolved; a mutation only deletes, or does not delete at all."""
    _reject_mixture(statements, report)
    context = MutationScope(catalog, parameters, report)
    checked = [_check_statement(statement, context) for statement in statements]
    return tuple(statement for statement in checked if statement is not None)


def _reject_mixture(statements: Sequence[ast.StatementSyntax], report: ProblemReport) -> None:
    deletes = [statement for statement in statements if isinstance(statement, ast.Delete)]
    writes = [statement for statement in statements if not isinstance(statement, ast.Delete)]
    if deletes and writes:
        later = max(deletes[0], writes[0], key=lambda statement: statement.span.start)
        hint = f"split it into two queries: one with {_listed(writes)}, one with {_listed(deletes)}"
        report.add("Q005", "a mutation either inserts and updates, or deletes", later.span, hint)


def _listed(statements: Iterable[ast.StatementSyntax]) -> str:
    return " and ".join(f"'{type(statement).__name__.lower()} {statement.type_name}'" for statement in statements)


def _check_statement(statement: ast.StatementSyntax, context: MutationScope) -> Statement | None:
    target = _target(statement, context)
    match statement, target:
        case ast.Insert(), NodeType():
            return _insert_node(statement, target, context)
        case ast.Insert(), EdgeType():
            return _insert_edge(statement, target, context)
        case ast.Update(), NodeType():
            return _update(statement, target, context)
        case ast.Update(), EdgeType():
            hint = "delete the edge and insert it again"
            return context.report.add(
                "T16", f"{target.name} is an edge; edges cannot be updated", statement.type_span, hint
            )
        case ast.Delete(), NodeType():
            predicate = _where(statement.predicate, target, context)
            cascades = tuple(edge.name for edge in context.catalog.edges_of(target.name))
            return None if predicate is None else DeleteNodes(target.name, predicate, cascades)
        case ast.Delete(), EdgeType():
            predicate = _where(statement.predicate, target, context)
            return None if predicate is None else DeleteEdges(target.name, predicate)
        case _:
            return None


def _target(statement: ast.StatementSyntax, context: MutationScope) -> NodeType | EdgeType | None:
    """The type that a statement writes. A node and an edge may share a name; then ``from`` or ``to`` means the edge."""
    node, edge = context.catalog.nodes.get(statement.type_name), context.catalog.edges.get(statement.type_name)
    if node is not None and edge is not None:
        return edge if _ENDS.keys() & set(_written_names(statement)) else node
    if node is None and edge is None:
        hint = suggest_name(statement.type_name, [declared.name for declared in context.catalog.types()], "types")
        context.report.add("T10", f"no type is called '{statement.type_name}'", statement.type_span, hint)
    return node or edge


def _written_names(statement: ast.StatementSyntax) -> Iterable[str]:
    if not isinstance(statement, ast.Delete):
        yield from (assignment.name for assignment in statement.assignments)
    if not isinstance(statement, ast.Insert):
        yield statement.predicate.name


# ------------------------------------------------------------------------------------------------ statements


def _insert_node(statement: ast.Insert, target: NodeType, context: MutationScope) -> InsertNode:
    values = _assignments(statement, target, context)
    _reject_missing(statement, target, (), context)
    return InsertNode(target.name, (*values.values(), *_defaults(statement, target)))


def _insert_edge(statement: ast.Insert, target: EdgeType, context: MutationScope) -> InsertEdge | None:
    values = _assignments(statement, target, context)
    _reject_missing(statement, target, tuple(_ENDS), context)
    ends = [values.pop(end, None) for end in _ENDS]
    if ends[0] is None or ends[1] is None:
        return None
    assigned = (*values.values(), *_defaults(statement, target))
    return InsertEdge(target.name, ends[0].value, ends[1].value, assigned)


def _update(statement: ast.Update, target: NodeType, context: MutationScope) -> UpdateNodes | None:
    values = _assignments(statement, target, context)
    for assignment in statement.assignments:
        if assignment.name in (target.key or ()):
            hint = "insert a node with the new key and delete the old one"
            message = f"'{assignment.name}' is part of the key of {target.name} and never changes"
            context.report.add("Q013", message, assignment.name_span, hint)
    predicate = _where(statement.predicate, target, context)
    return None if predicate is None else UpdateNodes(target.name, tuple(values.values()), predicate)


def _reject_missing(
    statement: ast.Insert, target: NodeType | EdgeType, ends: tuple[str, ...], context: MutationScope
) -> None:
    """A required property without a default must be given, an ``@embed`` vector too: an insert computes none."""
    required = [
        name for name, declared in target.properties.items() if not declared.type.nullable and declared.default is None
    ]
    given = set(_written_names(statement))
    missing = [name for name in (*ends, *required) if name not in given]
    if not missing:
        return
    wanted = ", ".join(f"{name}: {'a node id' if name in ends else target.properties[name].type}" for name in missing)
    hint = f"add {wanted}"
    if any(name in target.properties and target.properties[name].embedding is not None for name in missing):
        hint += "; an insert does not compute vectors, so make the vector optional or give one"
    names = ", ".join(f"'{name}'" for name in missing)
    context.report.add("T12", f"{target.name} needs {names}", statement.type_span, hint)


def _defaults(statement: ast.Insert, target: NodeType | EdgeType) -> Iterable[AssignedValue]:
    given = set(_written_names(statement))
    for name, declared in target.properties.items():
        if name not in given and declared.default is not None:
            value = convert_value(parse_default(declared.default, declared.type), declared.type)
            yield AssignedValue(name, Constant(value, declared.type))


# ------------------------------------------------------------------------------------------------ assignments


def _assignments(
    statement: ast.Insert | ast.Update, target: NodeType | EdgeType, context: MutationScope
) -> dict[str, AssignedValue]:
    """The value of each property, by name; each is assigned once."""
    if not statement.assignments:
        hint = "write property: value between the braces"
        context.report.add("T10", "nothing is assigned", statement.span, hint)
    seen: set[str] = set()
    values: dict[str, AssignedValue] = {}
    for assignment in statement.assignments:
        declared = _declared(assignment.name, assignment.name_span, target, context)
        if assignment.name in seen:
            message = f"'{assignment.name}' is assigned twice"
            context.report.add("T13", message, assignment.name_span, "leave one of the two out")
            continue
        seen.add(assignment.name)
        value = None if declared is None else _assigned(assignment, declared, context)
        if value is not None:
            values[assignment.name] = AssignedValue(assignment.name, value)
    return values


def _declared(name: str, span: Span, target: NodeType | EdgeType, context: MutationScope) -> ValueType | None:
    """The type of what a mutation names: a property, or an end of an edge."""
    if isinstance(target, EdgeType) and name in _ENDS:
        return STRING
    declared = target.properties.get(name)
    if declared is None:
        return reject_property("T11", target, name, span, context.report)
    return declared.type


def _assigned(assignment: ast.Assignment, declared: ValueType, context: MutationScope) -> Expression | None:
    value, name = assignment.value, assignment.name
    match value:
        case ast.NowCall():
            return _now(value, name, declared, context)
        case ast.Variable():
            given = _parameter(value, context)
            if given is None:
                return None
            if not can_assign(given.type, declared):
                hint = f"declare ${value.name}: {_parameter_type(declared)}"
                return context.report.add(
                    "T7", f"'{name}' is {declared}; '${value.name}' is {given.type}", value.span, hint
                )
            if given.type.nullable and not declared.nullable:
                hint = f"declare ${value.name}: {_parameter_type(declared)}"
                return context.report.add("T7", f"'{name}' cannot be null, '${value.name}' can", value.span, hint)
            return given
        case _:
            return fit_literal(value, declared, context.report)


def _now(value: ast.NowCall, name: str, declared: ValueType, context: MutationScope) -> Now | None:
    if declared.scalar is Scalar.DATETIME and not declared.is_list:
        return Now(DATETIME)
    return context.report.add(
        "T7", f"now() is a DateTime; '{name}' is {declared}", value.span, "write a literal or a parameter"
    )


def _parameter(variable: ast.Variable, context: MutationScope) -> ParameterValue | None:
    declared = context.parameters.get(variable.name)
    if declared is None:
        hint = suggest_similar(variable.name, context.parameters) or f"declare it: (${variable.name}: Type)"
        return context.report.add("T14", f"'${variable.name}' is not a parameter", variable.span, hint)
    return ParameterValue(variable.name, declared)


def _parameter_type(declared: ValueType) -> str:
    """A property's type as a parameter list spells it: an enum is a String there."""
    return str(ValueType(declared.scalar, declared.nullable, declared.is_list, dimension=declared.dimension))


# ------------------------------------------------------------------------------------------------ where


def _where(predicate: ast.WhereCondition, target: NodeType | EdgeType, context: MutationScope) -> Compare | None:
    declared = _declared(predicate.name, predicate.name_span, target, context)
    if declared is None:
        return None
    if declared.scalar is Scalar.BLOB:
        message = f"'{predicate.name}' is a Blob and cannot be compared"
        return context.report.add("T11", message, predicate.name_span, "compare another property")
    if declared.is_list or declared.scalar is Scalar.VECTOR:
        message = f"'{predicate.name}' is {declared} and cannot be compared as a whole"
        return context.report.add("T7", message, predicate.name_span, "compare another property")
    value = _compared(predicate, declared, context)
    if value is None:
        return None
    name = _ENDS.get(predicate.name, predicate.name) if isinstance(target, EdgeType) else predicate.name
    return Compare(PropertyValue(ast.ANONYMOUS, name, declared), predicate.operator, value)


def _compared(predicate: ast.WhereCondition, declared: ValueType, context: MutationScope) -> Expression | None:
    value = predicate.value
    match value:
        case ast.NowCall():
            return _now(value, predicate.name, declared, context)
        case ast.Variable():
            given = _parameter(value, context)
            if given is None or (are_comparable(given.type, declared) and not given.type.is_list):
                return given
            message = f"'{predicate.name}' is {declared}; '${value.name}' is {given.type}"
            hint = f"declare ${value.name}: {declared.scalar}"
            return context.report.add("T7", message, value.span, hint)
        case ast.ScalarLiteral(None):
            return context.report.add("T3", "nothing equals null", value.span, "compare with a value")
        case _:
            return _compared_literal(value, predicate.operator, declared, context)


def _compared_literal(
    literal: ast.AnyLiteral, operator: ast.ComparisonOperator, declared: ValueType, context: MutationScope
) -> Constant | None:
    """A literal after ``where``: numbers compare by value, whatever their kind; an enum equals only its own values."""
    if isinstance(literal, ast.ScalarLiteral):
        constant = type_literal(literal, context.report)
        outside_enum = declared.enum_values is not None and operator in _EQUALITIES
        if constant is not None and are_comparable(constant.type, declared) and not outside_enum:
            return align_literal(constant, declared)
    return fit_literal(literal, declared, context.report)
