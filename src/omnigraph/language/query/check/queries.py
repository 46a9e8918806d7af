"""Check one query: from its syntax tree to its typed form, or to all its problems in order of position.

The checker never stops at the first problem. ``codes.py`` lists the codes.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.errors import Problem
from omnigraph.language.query import ast
from omnigraph.language.query.check.expressions import check_clauses
from omnigraph.language.query.check.interfaces import TypeCombination, check_read_variants
from omnigraph.language.query.check.mutation import check_mutation
from omnigraph.language.query.check.report import ProblemReport
from omnigraph.language.query.check.result import (
    OrderScope,
    check_columns,
    check_count,
    check_having,
    check_order,
    has_aggregate,
)
from omnigraph.language.query.check.scope import QueryScope, open_scope
from omnigraph.language.query.check.unions import check_union
from omnigraph.language.query.typed_statements import TypedQuery
from omnigraph.language.query.typed_tree import TypedInterfaceRead, TypedRead
from omnigraph.language.schema import Catalog
from omnigraph.language.source import Source
from omnigraph.language.types import ValueType

RESERVED_PARAMETERS = frozenset({"__nanograph_now"})


def find_duplicate_names(file: ast.QueryDocument, source: Source) -> list[Problem]:
    """Return a problem for each query whose name an earlier query has."""
    report = ProblemReport(source)
    seen: set[str] = set()
    for query in file.queries:
        if query.name in seen:
            report.add("Q006", f"two queries are called '{query.name}'", query.name_span, "rename one of them")
        seen.add(query.name)
    return report.problems


def check_query(query: ast.Query, catalog: Catalog, source: Source) -> TypedQuery | list[Problem]:
    """Check one query; other queries of its file do not matter."""
    report = ProblemReport(source)
    parameters = _check_parameters(query, report)
    typed: TypedQuery | None
    if isinstance(query.body, ast.ReadBody):
        typed = _check_read(query.name, query.body, catalog, parameters, report)
    elif isinstance(query.body, ast.UnionBody):
        scope = QueryScope(catalog, parameters, report, iter(()))
        typed = check_union(
            query.name,
            query.body,
            scope,
            lambda branch: _check_read(query.name, branch, catalog, parameters, report),
        )
    else:
        typed = check_mutation(query.name, query.body, catalog, parameters, report)
    if report.problems:
        return report.sort_problems()
    assert typed is not None, "a query without a typed form has a problem"
    return typed


def _check_parameters(query: ast.Query, report: ProblemReport) -> Mapping[str, ValueType]:
    declared: dict[str, ValueType] = {}
    for parameter in query.parameters:
        if parameter.name in RESERVED_PARAMETERS:
            report.add("Q001", f"the name '${parameter.name}' is reserved", parameter.span, "choose another name")
        if parameter.name in declared:
            report.add("Q008", f"two parameters are called '${parameter.name}'", parameter.span, "rename one of them")
        declared.setdefault(parameter.name, parameter.type)
    return declared


def _check_read(
    name: str, read: ast.ReadBody, catalog: Catalog, parameters: Mapping[str, ValueType], report: ProblemReport
) -> TypedRead | TypedInterfaceRead | None:
    parts = [*read.clauses, *(projection.expression for projection in read.projections)]

    def check(combination: TypeCombination, found: ProblemReport) -> TypedRead:
        return _check_variant(name, read, parameters, open_scope(parts, catalog, parameters, found, combination))

    return check_read_variants(read, catalog, report, check)


def _check_variant(name: str, read: ast.ReadBody, parameters: Mapping[str, ValueType], scope: QueryScope) -> TypedRead:
    clauses = check_clauses(read.clauses, scope)
    variables = scope.list_tables()
    columns = check_columns(read.projections, scope)
    grouped = has_aggregate(read.projections)
    if read.distinct and grouped:
        span = next(each.span for each in read.projections if isinstance(each.expression, ast.AggregateCall))
        hint = "leave out distinct: beside an aggregate rows are grouped, each group is one row"
        scope.reject("T27", "distinct does not stand beside an aggregate", span, hint)
    if read.offset is not None and not read.order:
        hint = "add order { ... } before it: without an order any rows could be skipped"
        scope.reject("T26", "an offset needs an order", read.offset.span, hint)
    result = OrderScope(read.projections, columns, grouped or read.distinct, read.limit is not None)
    return TypedRead(
        name,
        parameters,
        variables,
        clauses,
        columns,
        check_order(read.order, result, scope),
        check_count(read.limit, "limit", scope),
        check_count(read.offset, "offset", scope),
        read.distinct,
        check_having(read.having, columns, scope),
    )
