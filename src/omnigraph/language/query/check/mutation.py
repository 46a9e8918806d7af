"""Check a mutation: its match, if it has one, its statements, and which values it needs for each row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from omnigraph.errors import Problem
from omnigraph.language.query import ast
from omnigraph.language.query.check.assignments import (
    ENDS,
    check_assignments,
    check_now,
    check_parameter,
    find_assigned_type,
)
from omnigraph.language.query.check.expressions import check_clauses
from omnigraph.language.query.check.interfaces import (
    TypeCombination,
    add_problems_once,
    check_variants,
    to_columns,
)
from omnigraph.language.query.check.literals import align_literal, are_comparable, fit_literal, type_literal
from omnigraph.language.query.check.names import BOOL, ID, STRING
from omnigraph.language.query.check.report import ProblemReport, suggest_name
from omnigraph.language.query.check.scope import PATH, UNKNOWN, QueryScope, open_scope
from omnigraph.language.query.check.traversal import to_edge_word
from omnigraph.language.query.failures import find_failure
from omnigraph.language.query.plan import print_expression
from omnigraph.language.query.typed_statements import (
    AssignedValue,
    DeleteBound,
    DeleteEdges,
    DeleteNodes,
    InsertEdge,
    InsertNode,
    Statement,
    TypedMutation,
    UpdateBound,
    UpdateNodes,
)
from omnigraph.language.query.typed_tree import (
    Clause,
    Compare,
    Constant,
    Expression,
    Identity,
    Now,
    ParameterValue,
    PropertyValue,
    ResultColumn,
    TypedInterfaceRead,
    TypedRead,
)
from omnigraph.language.schema import Catalog, EdgeType, NodeType, TableKey, parse_default
from omnigraph.language.source import suggest_similar
from omnigraph.language.types import Scalar, ValueType
from omnigraph.language.values import convert_value
from omnigraph.lazy_dataclass import dataclass

_EQUALITIES = frozenset({ast.ComparisonOperator.EQUAL, ast.ComparisonOperator.NOT_EQUAL})
_EVERY_ROW = ResultColumn("row", Constant(True, BOOL))  # noqa: FBT003  a value
_PlainStatement: TypeAlias = ast.Insert | ast.Update | ast.Delete
_BoundStatement: TypeAlias = ast.VariableUpdate | ast.VariableDelete


@dataclass(frozen=True, slots=True)
class _MutationVariant:
    """A mutation for one combination of the types of its interfaces, and the problems of its statements."""

    typed: TypedMutation
    match: TypedRead | None
    problems: Sequence[Problem]


def check_mutation(
    name: str, body: ast.MutationBody, catalog: Catalog, parameters: Mapping[str, ValueType], report: ProblemReport
) -> TypedMutation | None:
    """Check a mutation. Deletes do not mix with inserts or updates."""

    def check(combination: TypeCombination, found: ProblemReport) -> _MutationVariant:
        return _check_variant(name, body, open_scope(body.clauses, catalog, parameters, found, combination))

    _reject_mixture(body.statements, report)
    variables, variants = check_variants(body.clauses, catalog, report, check)
    if not variables:
        report.problems.extend(variants[0].problems)
        return variants[0].typed
    add_problems_once((variant.problems for variant in variants), report)
    return None if report.problems else _unite(variants, variables)


def _check_variant(name: str, body: ast.MutationBody, scope: QueryScope) -> _MutationVariant:
    """Check a mutation for one combination of types; it has every statement that can be resolved."""
    clauses = check_clauses(body.clauses, scope)
    # A statement that does not fit a type is a problem; a traversal that does not has no rows.
    after = replace(scope, report=ProblemReport(scope.report.source))
    checked = [_check_statement(statement, after) for statement in body.statements]
    statements = tuple(statement for statement in checked if statement is not None)
    match = _make_match(name, clauses, statements, scope)
    return _MutationVariant(TypedMutation(name, scope.parameters, statements, match), match, after.report.problems)


def _make_match(
    name: str, clauses: tuple[Clause, ...], statements: Sequence[Statement], scope: QueryScope
) -> TypedRead | None:
    """Return the read that gives the statements their values; None if all of them are given."""
    columns = _name_columns(value for statement in statements for value in _row_values(statement))
    if not clauses and not columns:
        return None
    # Rows without a column could not be counted.
    columns = columns or (_EVERY_ROW,)
    is_distinct = all(isinstance(statement, UpdateBound | DeleteBound) for statement in statements) and all(
        isinstance(column.expression, Identity) for column in columns
    )
    return TypedRead(
        name, scope.parameters, scope.list_tables(), clauses, columns, (), limit=None, distinct=is_distinct
    )


def _unite(variants: Sequence[_MutationVariant], variables: tuple[str, ...]) -> TypedMutation:
    """Return one mutation whose match has the rows of all variants: its statements are those of the first one."""
    reads = [variant.match for variant in variants if variant.match is not None]
    if len(reads) == 1:
        return variants[0].typed
    columns = reads[0].columns
    named = tuple(
        replace(read, columns=tuple(map(ResultColumn, (column.name for column in columns), _expressions_of(read))))
        for read in reads
    )
    return replace(variants[0].typed, match=TypedInterfaceRead(variables, to_columns(columns), named))


def _expressions_of(read: TypedRead) -> Iterator[Expression]:
    return (column.expression for column in read.columns)


def _row_values(statement: Statement) -> Iterator[Expression]:
    """Yield the values of a statement that are not the same for every row, or computed, and whether these failed."""
    for value in _values_of(statement):
        if not isinstance(value, Constant | ParameterValue | Now):
            yield value
            failure = find_failure(value)
            if failure is not None:
                yield failure


def _values_of(statement: Statement) -> Iterator[Expression]:
    match statement:
        case InsertEdge():
            yield from (statement.source, statement.destination)
        case UpdateBound() | DeleteBound():
            yield statement.entity
        case _:
            pass
    if not isinstance(statement, DeleteNodes | DeleteEdges | DeleteBound):
        yield from (assigned.value for assigned in statement.values)


def _name_columns(values: Iterable[Expression]) -> tuple[ResultColumn, ...]:
    """Return a column for each distinct value. Its name is the value as it is written, with a number if need be."""
    columns: dict[str, ResultColumn] = {}
    for value in dict.fromkeys(values):
        name = text = print_expression(value).replace("$", "")
        while name in columns:
            name = f"{text} {len(columns)}"
        columns[name] = ResultColumn(name, value)
    return tuple(columns.values())


def _reject_mixture(statements: Sequence[ast.StatementSyntax], report: ProblemReport) -> None:
    deletes = [statement for statement in statements if isinstance(statement, ast.Delete | ast.VariableDelete)]
    writes = [statement for statement in statements if not isinstance(statement, ast.Delete | ast.VariableDelete)]
    if deletes and writes:
        later = max(deletes[0], writes[0], key=lambda statement: statement.span.start)
        hint = f"split it into two queries: one with {_quote_statements(writes)}, one with {_quote_statements(deletes)}"
        report.add("Q005", "a mutation either inserts and updates, or deletes", later.span, hint)


def _quote_statements(statements: Iterable[ast.StatementSyntax]) -> str:
    return " and ".join(f"'{_verb_of(statement)} {_target_of(statement)}'" for statement in statements)


def _verb_of(statement: ast.StatementSyntax) -> str:
    match statement:
        case ast.Insert():
            return "insert"
        case ast.Update() | ast.VariableUpdate():
            return "update"
        case ast.Delete() | ast.VariableDelete():
            return "delete"


def _target_of(statement: ast.StatementSyntax) -> str:
    return f"${statement.variable.name}" if isinstance(statement, _BoundStatement) else statement.type_name


def _check_statement(statement: ast.StatementSyntax, scope: QueryScope) -> Statement | None:
    if isinstance(statement, _BoundStatement):
        return _check_bound(statement, scope)
    target = _resolve_target(statement, scope)
    match statement, target:
        case ast.Insert(), NodeType():
            return _check_insert_node(statement, target, scope)
        case ast.Insert(), EdgeType():
            return _check_insert_edge(statement, target, scope)
        case ast.Update(), NodeType():
            return _check_update(statement, target, scope)
        case ast.Update(), EdgeType():
            bound = f"match {{ $a $e:{to_edge_word(target.name)} $b ... }}"
            hint = f"bind the edge, as in {bound} update $e set {{ ... }}"  # noqa: S608  no SQL
            message = f"{target.name} is an edge; edges are not updated by where"
            return scope.reject("T16", message, statement.type_span, hint)
        case ast.Delete(), NodeType():
            predicate = _check_where(statement.predicate, target, scope)
            cascades = tuple(edge.name for edge in scope.catalog.edges_of(target.name))
            return None if predicate is None else DeleteNodes(target.name, predicate, cascades)
        case ast.Delete(), EdgeType():
            predicate = _check_where(statement.predicate, target, scope)
            return None if predicate is None else DeleteEdges(target.name, predicate)
        case _:
            return None


def _resolve_target(statement: _PlainStatement, scope: QueryScope) -> NodeType | EdgeType | None:
    """Find the type that a statement writes. If a node and an edge share it, ``from`` or ``to`` selects the edge."""
    node, edge = scope.catalog.nodes.get(statement.type_name), scope.catalog.edges.get(statement.type_name)
    if node is not None and edge is not None:
        return edge if ENDS.keys() & set(_written_names(statement)) else node
    if node is None and edge is None:
        hint = suggest_name(statement.type_name, [declared.name for declared in scope.catalog.types()], "types")
        scope.reject("T10", f"no type is called '{statement.type_name}'", statement.type_span, hint)
    return node or edge


def _written_names(statement: _PlainStatement) -> Iterable[str]:
    if not isinstance(statement, ast.Delete):
        yield from (assignment.name for assignment in statement.assignments)
    if not isinstance(statement, ast.Insert):
        yield statement.predicate.name


# ------------------------------------------------------------------------------------------------ statements


def _check_insert_node(statement: ast.Insert, target: NodeType, scope: QueryScope) -> InsertNode:
    values = check_assignments(statement, target, scope)
    _reject_missing(statement, target, (), scope)
    return InsertNode(target.name, (*values.values(), *_fill_defaults(statement, target)))


def _check_insert_edge(statement: ast.Insert, target: EdgeType, scope: QueryScope) -> InsertEdge | None:
    values = check_assignments(statement, target, scope)
    _reject_missing(statement, target, tuple(ENDS), scope)
    ends = [values.pop(end, None) for end in ENDS]
    if ends[0] is None or ends[1] is None:
        return None
    assigned = (*values.values(), *_fill_defaults(statement, target))
    return InsertEdge(target.name, ends[0].value, ends[1].value, assigned)


def _check_update(statement: ast.Update, target: NodeType, scope: QueryScope) -> UpdateNodes | None:
    values = check_assignments(statement, target, scope)
    _reject_keys(statement, target, scope)
    predicate = _check_where(statement.predicate, target, scope)
    return None if predicate is None else UpdateNodes(target.name, tuple(values.values()), predicate)


def _reject_keys(statement: ast.Update | ast.VariableUpdate, target: NodeType, scope: QueryScope) -> None:
    for assignment in statement.assignments:
        if assignment.name in (target.key or ()):
            hint = "insert a node with the new key and delete the old one"
            message = f"'{assignment.name}' is part of the key of {target.name} and never changes"
            scope.reject("Q013", message, assignment.name_span, hint)


def _reject_missing(
    statement: ast.Insert, target: NodeType | EdgeType, ends: tuple[str, ...], scope: QueryScope
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
    scope.reject("T12", f"{target.name} needs {names}", statement.type_span, hint)


def _fill_defaults(statement: ast.Insert, target: NodeType | EdgeType) -> Iterable[AssignedValue]:
    given = set(_written_names(statement))
    for name, declared in target.properties.items():
        if name not in given and declared.default is not None:
            value = convert_value(parse_default(declared.default, declared.type), declared.type)
            yield AssignedValue(name, Constant(value, declared.type))


# ------------------------------------------------------------------------------------------------ after a match


def _check_bound(statement: _BoundStatement, scope: QueryScope) -> UpdateBound | DeleteBound | None:
    variable = statement.variable
    target = scope.look_up(variable.name)
    if target is UNKNOWN:
        return None
    if target is None or target is PATH:
        return _reject_target(variable, scope)
    if variable.name in scope.chosen:
        return _reject_interface(variable, statement, scope)
    entity = Identity(variable.name, STRING.as_nullable() if variable.name in scope.optional else STRING)
    key = TableKey(target.table_key)
    if isinstance(statement, ast.VariableDelete):
        edges = scope.catalog.edges_of(target.name) if isinstance(target, NodeType) else ()
        return DeleteBound(entity, key, tuple(edge.name for edge in edges))
    kept = _reject_identity(statement, target, scope)
    values = check_assignments(kept, target, scope) if kept.assignments else {}
    if isinstance(target, NodeType):
        _reject_keys(statement, target, scope)
    return UpdateBound(entity, key, tuple(values.values()))


def _reject_interface(variable: ast.Variable, statement: _BoundStatement, scope: QueryScope) -> None:
    chosen = scope.chosen[variable.name]
    message = f"'${variable.name}' is of the interface {chosen.interface}, whose nodes are in several tables"
    types = ", ".join(sorted(chosen.possible))
    hint = f"{_verb_of(statement)} the nodes of one type in each query: {types}"
    return scope.reject("T35", message, variable.span, hint)


def _reject_target(variable: ast.Variable, scope: QueryScope) -> None:
    if scope.variables.get(variable.name) is PATH:
        message, hint = f"'${variable.name}' is a path", "name a node or an edge that the match binds"
    elif variable.name == ast.ANONYMOUS:
        message, hint = "'$_' stands for any node", "give the node a name in the match"
    elif variable.name in scope.parameters:
        message, hint = (
            f"'${variable.name}' is a parameter",
            f"bind the node in the match: $x: Type {{ id: ${variable.name} }}",
        )
    else:
        known = suggest_similar(f"${variable.name}", (f"${name}" for name in scope.variables))
        message, hint = (
            f"'${variable.name}' is not bound here",
            known or f"bind it in the match: ${variable.name}: Type",
        )
    return scope.reject("T29", message, variable.span, hint)


def _reject_identity(
    statement: ast.VariableUpdate, target: NodeType | EdgeType, scope: QueryScope
) -> ast.VariableUpdate:
    """Report assignments to the id or an end; return the statement without them."""
    fixed = (ID, *ENDS) if isinstance(target, EdgeType) else (ID,)
    kept: list[ast.Assignment] = []
    for assignment in statement.assignments:
        if assignment.name not in fixed or assignment.name in target.properties:
            kept.append(assignment)
            continue
        what = "the id" if assignment.name == ID else "an end of an edge"
        scope.reject("T29", f"{what} never changes", assignment.name_span, "delete the old one and insert a new one")
    return replace(statement, assignments=tuple(kept))


# ------------------------------------------------------------------------------------------------ where


def _check_where(predicate: ast.WhereCondition, target: NodeType | EdgeType, scope: QueryScope) -> Compare | None:
    is_id = predicate.name == ID and ID not in target.properties
    declared = STRING if is_id else find_assigned_type(predicate.name, predicate.name_span, target, scope)
    if declared is None:
        return None
    if declared.scalar is Scalar.BLOB:
        message = f"'{predicate.name}' is a Blob and cannot be compared"
        return scope.reject("T11", message, predicate.name_span, "compare another property")
    if declared.is_list or declared.scalar is Scalar.VECTOR:
        message = f"'{predicate.name}' is {declared} and cannot be compared as a whole"
        return scope.reject("T7", message, predicate.name_span, "compare another property")
    value = _check_where_value(predicate, declared, scope)
    if value is None:
        return None
    name = ENDS.get(predicate.name, predicate.name) if isinstance(target, EdgeType) else predicate.name
    return Compare(PropertyValue(ast.ANONYMOUS, name, declared), predicate.operator, value)


def _check_where_value(predicate: ast.WhereCondition, declared: ValueType, scope: QueryScope) -> Expression | None:
    value = predicate.value
    match value:
        case ast.NowCall():
            return check_now(value, predicate.name, declared, scope)
        case ast.Variable():
            given = check_parameter(value, scope)
            if given is None or (are_comparable(given.type, declared) and not given.type.is_list):
                return given
            message = f"'{predicate.name}' is {declared}; '${value.name}' is {given.type}"
            hint = f"declare ${value.name}: {declared.scalar}"
            return scope.reject("T7", message, value.span, hint)
        case ast.ScalarLiteral(None):
            return scope.reject("T3", "nothing equals null", value.span, "compare with a value")
        case _:
            return _check_where_literal(value, predicate.operator, declared, scope)


def _check_where_literal(
    literal: ast.AnyLiteral, operator: ast.ComparisonOperator, declared: ValueType, scope: QueryScope
) -> Constant | None:
    """Check a literal after ``where``: any two numbers compare, but an enum equals only its own values."""
    if isinstance(literal, ast.ScalarLiteral):
        constant = type_literal(literal, scope.report)
        outside_enum = declared.enum_values is not None and operator in _EQUALITIES
        if constant is not None and are_comparable(constant.type, declared) and not outside_enum:
            return align_literal(constant, declared)
    return fit_literal(literal, declared, scope.report)
