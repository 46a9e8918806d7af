"""Lint: every problem of a ``.gq`` text, and warnings for what runs but is probably a mistake."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import cast

from omnigraph.errors import Problem
from omnigraph.language.query.ast import (
    BindingClause,
    Comparison,
    ComparisonOperator,
    ExpressionSyntax,
    MutationBody,
    Query,
    ReadBody,
    ScalarLiteral,
    TraversalClause,
    UnionBody,
    Update,
)
from omnigraph.language.query.check import check_query, find_duplicate_names
from omnigraph.language.query.descriptor import describe_operation
from omnigraph.language.query.lint_report import LintFinding, LintReport, QueryLint, SchemaSource, Severity
from omnigraph.language.query.parser import parse_query_text
from omnigraph.language.query.plan import variables_of
from omnigraph.language.query.separators import find_signed_numbers
from omnigraph.language.query.typed_statements import TypedMutation, TypedQuery, UpdateBound, UpdateNodes
from omnigraph.language.query.typed_tree import (
    Clause,
    TypedBinding,
    TypedOptional,
    TypedRead,
    TypedTraversal,
    TypedUnion,
    single_reads_of,
)
from omnigraph.language.schema import Catalog, NodeType
from omnigraph.language.source import Source, Span, read_source
from omnigraph.lazy_dataclass import dataclass

UNPARAMETERISED = "L101"
NEVER_UPDATED = "L201"
CARTESIAN = "L301"
SIGNED_NUMBER = "L302"
IN_A_TEXT = "L303"
LINT_CODES = {
    UNPARAMETERISED: "a mutation without parameters",
    NEVER_UPDATED: "an optional property that no update of its type sets",
    CARTESIAN: "parts of a match that nothing connects",
    SIGNED_NUMBER: "a signed number after a value, without a comma: it is a value of its own",
    IN_A_TEXT: "in before a text: it asks whether the value is a part of the text",
}


def lint_queries(source: str | Path | Source, catalog: Catalog, schema_source: SchemaSource | str) -> LintReport:
    """Check every query of a text, then the text as a whole.

    A ``schema_source`` given as text is the path of the schema's file.
    """
    if isinstance(schema_source, str):
        schema_source = SchemaSource("file", schema_source)
    text = source if isinstance(source, Source) else read_source(source, ".gq")
    file = parse_query_text(text)
    if isinstance(file, list):
        return _report_unreadable(file, schema_source)
    assert isinstance(text, Source)
    checked = [_CheckedQuery(query, check_query(query, catalog, text)) for query in file.queries]
    findings = [
        *(LintFinding(Severity.ERROR, problem) for problem in find_duplicate_names(file, text)),
        *_find_never_updated(checked, catalog, text),
        *_find_cartesian_products(checked, text),
    ]
    results = tuple(_lint_query(one, catalog, text) for one in checked)
    return LintReport(schema_source, _path(text.name), results, tuple(sorted(findings, key=_finding_order)))


@dataclass(frozen=True, slots=True)
class _CheckedQuery:
    """A query, with its typed form or its problems."""

    query: Query
    outcome: TypedQuery | list[Problem]


def _report_unreadable(problems: Iterable[Problem], schema_source: SchemaSource) -> LintReport:
    findings = tuple(LintFinding(Severity.ERROR, problem) for problem in problems)
    return LintReport(schema_source, _path(findings[0].problem.position.file), (), findings)


def _path(name: str | None) -> str:
    return name or "<text>"


def _finding_order(finding: LintFinding) -> tuple[int, str, str, str]:
    severity = list(Severity).index(finding.severity)
    return severity, finding.type_name or "", finding.property or "", finding.problem.message


# ------------------------------------------------------------------------------------------------ one query


def _lint_query(checked: _CheckedQuery, catalog: Catalog, source: Source) -> QueryLint:
    query, outcome = checked.query, checked.outcome
    return QueryLint(
        name=query.name,
        kind="mutation" if isinstance(query.body, MutationBody) else "read",
        problems=tuple(outcome) if isinstance(outcome, list) else (),
        warnings=tuple(_find_warnings(query, source)),
        operation=None if isinstance(outcome, list) else describe_operation(outcome, catalog),
    )


def _find_warnings(query: Query, source: Source) -> Iterator[Problem]:
    is_fixed = isinstance(query.body, MutationBody) and not query.body.clauses and not query.parameters
    if is_fixed:
        yield source.problem(
            UNPARAMETERISED,
            f"mutation '{query.name}' has no parameters: it writes the same values every time",
            query.name_span,
            f"declare what varies, as in {query.name}($name: String)",
        )
    for span in find_signed_numbers(query, source):
        yield source.problem(
            SIGNED_NUMBER,
            "this is a value of its own, and is not subtracted from the one before it",
            span,
            "put a blank after the sign to subtract, or a comma before it",
        )

    for comparison in sorted(_find_comparisons(query.body), key=lambda each: each.span.start):
        if comparison.operator is ComparisonOperator.IN and _is_text(comparison.right):
            yield source.problem(
                IN_A_TEXT,
                "this asks whether the value is a part of the text",
                comparison.right.span,
                "write = and the text, or in and a list: in [...]",
            )


def _find_comparisons(part: object) -> Iterator[Comparison]:
    """Yield the comparisons in a syntax tree, those in blocks too."""
    waiting = [part]
    while waiting:
        each = waiting.pop()
        if isinstance(each, tuple):
            waiting += cast("tuple[object, ...]", each)
        elif is_dataclass(each):
            waiting += [cast("object", getattr(each, field.name)) for field in fields(each)]
        if isinstance(each, Comparison):
            yield each


def _is_text(expression: ExpressionSyntax) -> bool:
    return isinstance(expression, ScalarLiteral) and isinstance(expression.value, str)


def _matches_of(query: Query) -> tuple[ReadBody | MutationBody, ...]:
    """The parts of a query with a match of their own: the branches of a union, else the query."""
    return query.body.branches if isinstance(query.body, UnionBody) else (query.body,)


# ------------------------------------------------------------------------------------------------ the whole text


@dataclass(frozen=True, slots=True)
class _UpdateOfNodes:
    """An update of a node type in a query: the properties that it sets, and where it names the type.

    One after a match has no such place: it changes what it finds, and need not offer every property.
    """

    query_name: str
    node_type: str
    assigned: frozenset[str]
    type_span: Span | None


def _find_never_updated(checked: Iterable[_CheckedQuery], catalog: Catalog, source: Source) -> Iterator[LintFinding]:
    updates = [update for one in checked for update in _updates_of(one)]
    for type_name in sorted({update.node_type for update in updates}):
        of_type = [update for update in updates if update.node_type == type_name]
        assigned = frozenset[str]().union(*(update.assigned for update in of_type))
        offering = [(update.query_name, update.type_span) for update in of_type if update.type_span is not None]
        if not offering:
            continue
        names = tuple(dict.fromkeys(name for name, _ in offering))
        for missing in sorted(_updatable_properties(catalog.nodes[type_name]) - assigned):
            problem = source.problem(
                NEVER_UPDATED,
                f"no update of {type_name} sets the optional property '{missing}'",
                offering[0][1],
                f"set {missing} in an update, if it can change",
            )
            yield LintFinding(Severity.WARNING, problem, type_name, missing, names)


def _updates_of(one: _CheckedQuery) -> Iterator[_UpdateOfNodes]:
    if not isinstance(one.outcome, TypedMutation) or not isinstance(one.query.body, MutationBody):
        return
    for written, typed in zip(one.query.body.statements, one.outcome.statements, strict=True):
        if isinstance(typed, UpdateNodes) and isinstance(written, Update):
            assigned = frozenset(value.name for value in typed.values)
            yield _UpdateOfNodes(one.query.name, typed.node_type, assigned, written.type_span)
        elif isinstance(typed, UpdateBound) and typed.table_key.kind == "node":
            assigned = frozenset(value.name for value in typed.values)
            yield _UpdateOfNodes(one.query.name, typed.table_key.type_name, assigned, None)


def _updatable_properties(node_type: NodeType) -> set[str]:
    """The properties that an update may set: optional, not in the key, and not an embedding of another property."""
    return {
        declared.name
        for declared in node_type.properties.values()
        if declared.type.nullable and declared.name not in (node_type.key or ()) and declared.embedding is None
    }


def _find_cartesian_products(checked: Iterable[_CheckedQuery], source: Source) -> Iterator[LintFinding]:
    for one in checked:
        if isinstance(one.outcome, list):
            continue
        for body, read in zip(_matches_of(one.query), _typed_matches_of(one.outcome), strict=True):
            heads = [] if read is None else _first_variables(body, read)
            for name, span in heads[1:]:
                problem = source.problem(
                    CARTESIAN,
                    f"nothing connects ${name} with ${heads[0][0]}: the result is their product",
                    span,
                    "connect them with an edge or a comparison, or make two queries",
                )
                yield LintFinding(Severity.WARNING, problem, query_names=(one.query.name,))


def _typed_matches_of(query: TypedQuery) -> tuple[TypedRead | None, ...]:
    """The matches of a query in the same order; what is connected does not depend on the types of interfaces."""
    match query:
        case TypedMutation():
            return (None if query.match is None else single_reads_of(query.match)[0],)
        case TypedUnion():
            return tuple(single_reads_of(branch)[0] for branch in query.branches)
        case _:
            return (single_reads_of(query)[0],)


def _first_variables(body: ReadBody | MutationBody, typed: TypedRead) -> list[tuple[str, Span]]:
    """The first named variable of each connected part of a match, with its span."""
    places = _spans_of_variables(body)
    named = [part & places.keys() for part in _find_connected_parts(typed.clauses)]
    return [min(((name, places[name]) for name in part), key=lambda head: head[1].start) for part in named if part]


def _spans_of_variables(body: ReadBody | MutationBody) -> dict[str, Span]:
    """The span of the first mention of each named variable of a match."""
    places = dict[str, Span]()
    for clause in body.clauses:
        if isinstance(clause, BindingClause):
            places.setdefault(clause.variable, clause.variable_span)
        elif isinstance(clause, TraversalClause):
            places.setdefault(clause.source.name, clause.source.span)
            places.setdefault(clause.destination.name, clause.destination.span)
    return places


def _find_connected_parts(clauses: Iterable[Clause]) -> list[set[str]]:
    """Return the sets of variables that traversals, comparisons and negations connect, in order of appearance."""
    part_of: dict[str, set[str]] = {}
    for clause in clauses:
        joined = _variables_in(clause)
        touched = {id(part_of[name]): part_of[name] for name in joined if name in part_of}.values()
        # Merge the smaller parts into the largest: a long match stays cheap.
        largest = max(touched, key=len, default=set[str]())
        moved = joined.union(*(part for part in touched if part is not largest))
        largest |= moved
        part_of |= dict.fromkeys(moved, largest)
    return list({id(part): part for part in part_of.values()}.values())


def _variables_in(clause: Clause) -> frozenset[str]:
    match clause:
        case TypedBinding():
            return frozenset({clause.variable}).union(*map(variables_of, clause.predicates))
        case TypedTraversal():
            bound = (clause.source, clause.destination, clause.edge_variable, clause.path)
            return frozenset(name for name in bound if name is not None)
        case TypedOptional():
            return frozenset((*clause.outer, *clause.variables))
        case _:
            return variables_of(clause)
