"""The query language `.gq`: grammar, parser, type checker, parameters, lint, logical plan.

A query goes from text to a syntax tree (``ast``), is checked against a catalog (``typed_tree``) and becomes a logical
plan (``plan``). :func:`compile_query` runs these steps; each has a module of its own. Nothing here reads data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from omnigraph.errors import NotFound, Problem, QueryError
from omnigraph.language.query.ast import (
    AggregateFunction,
    ArithmeticOperator,
    ComparisonOperator,
    LogicalOperator,
    MutationBody,
    Query,
    QueryDocument,
    TextFunction,
)
from omnigraph.language.query.check import check_query
from omnigraph.language.query.failures import find_failure
from omnigraph.language.query.parameters import (
    ValueChecks,
    bind_parameters,
    check_values,
    find_rounded_parameters,
    find_value_checks,
    parse_parameter_text,
)
from omnigraph.language.query.parser import SYNTAX_CODE, parse_query_text
from omnigraph.language.query.plan import (
    MutationPlan,
    ReadPlan,
    expressions_of,
    plan_mutation,
    plan_read,
    print_expression,
    print_plan,
    tables_of,
    walk_expression,
    walk_plan,
)
from omnigraph.language.query.typed_statements import (
    AssignedValue,
    DeleteBound,
    DeleteEdges,
    DeleteNodes,
    InsertEdge,
    InsertNode,
    Statement,
    TypedMutation,
    TypedQuery,
    UpdateBound,
    UpdateNodes,
)
from omnigraph.language.query.typed_tree import (
    Aggregate,
    And,
    AnyTypedRead,
    Arithmetic,
    Block,
    Call,
    Choose,
    ColumnValue,
    Compare,
    ComputedExpression,
    Constant,
    Distance,
    EdgeStep,
    EndIdentity,
    Expression,
    Function,
    FusedScore,
    Identity,
    IsNull,
    Marked,
    Not,
    Now,
    Or,
    ParameterValue,
    PathFunction,
    PathValue,
    Predicate,
    PropertyValue,
    ResultColumn,
    TextMatch,
    TextScore,
    TraversalDirection,
    Truth,
    TypedOrderKey,
    TypedRead,
    TypeName,
)
from omnigraph.language.schema import Catalog, TableKey
from omnigraph.language.source import Source, read_source, suggest_similar
from omnigraph.language.values import ConstantValue
from omnigraph.late_imports import import_late
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.language.query.broken_queries import BrokenQuery, find_broken_queries
    from omnigraph.language.query.descriptor import describe_operation
    from omnigraph.language.query.lint import lint_queries
    from omnigraph.language.query.lint_report import LintFinding, LintReport, QueryLint, SchemaSource, Severity
    from omnigraph.language.query.query_layout import format_queries
    from omnigraph.language.query.vocabulary import Vocabulary, list_vocabulary
else:
    # A query that is run needs no reports, layout or descriptions.
    __getattr__ = import_late(
        __name__,
        {
            "broken_queries": (
                "BrokenQuery",
                "find_broken_queries",
            ),
            "descriptor": ("describe_operation",),
            "lint": ("lint_queries",),
            "lint_report": (
                "LintFinding",
                "LintReport",
                "QueryLint",
                "SchemaSource",
                "Severity",
            ),
            "query_layout": ("format_queries",),
            "vocabulary": (
                "Vocabulary",
                "list_vocabulary",
            ),
        },
    )

__all__ = [
    "SYNTAX_CODE",
    "Aggregate",
    "AggregateFunction",
    "And",
    "AnyTypedRead",
    "Arithmetic",
    "ArithmeticOperator",
    "AssignedValue",
    "Block",
    "BrokenQuery",
    "Call",
    "Choose",
    "ColumnValue",
    "Compare",
    "ComparisonOperator",
    "CompiledQuery",
    "ComputedExpression",
    "Constant",
    "DeleteBound",
    "DeleteEdges",
    "DeleteNodes",
    "Distance",
    "EdgeStep",
    "EndIdentity",
    "Expression",
    "Function",
    "FusedScore",
    "Identity",
    "InsertEdge",
    "InsertNode",
    "IsNull",
    "LintFinding",
    "LintReport",
    "LogicalOperator",
    "Marked",
    "MutationBody",
    "Not",
    "Now",
    "Or",
    "ParameterValue",
    "PathFunction",
    "PathValue",
    "Predicate",
    "PropertyValue",
    "Query",
    "QueryLint",
    "ResultColumn",
    "SchemaSource",
    "Severity",
    "SizeClass",
    "Statement",
    "TextFunction",
    "TextMatch",
    "TextScore",
    "TraversalDirection",
    "Truth",
    "TypeName",
    "TypedMutation",
    "TypedOrderKey",
    "TypedRead",
    "UpdateBound",
    "UpdateNodes",
    "Vocabulary",
    "compile_query",
    "describe_operation",
    "explain",
    "find_broken_queries",
    "find_failure",
    "find_query",
    "format_queries",
    "lint_queries",
    "list_vocabulary",
    "parse_parameter_text",
    "parse_queries",
    "parse_query_text",
    "print_expression",
]

SizeClass: TypeAlias = tuple[tuple[str, int], ...]
"""By table key, sorted: the number of bits of its row count."""

_MAX_CACHED_QUERIES: Final = 256
_MAX_CACHED_LENGTH: Final = 64 * 1024
"""In characters. Longer texts are compiled every time, which bounds the memory of the cache."""


@dataclass(frozen=True)
class CompiledQuery:
    """A query that is ready to run: its syntax tree, its typed form and its plan."""

    query: Query
    typed: TypedQuery
    plan: ReadPlan | MutationPlan
    sized_plans: dict[SizeClass, ReadPlan] = field(
        default_factory=dict["SizeClass", "ReadPlan"], repr=False, compare=False
    )
    """Plans of the same read for sizes of its tables. They live as long as this object, which the cache bounds."""

    @property
    def name(self) -> str:
        """The name of the query."""
        return self.query.name

    @property
    def read(self) -> AnyTypedRead | None:
        """The query itself, if it is a read; the match of a mutation, if it has one."""
        return self.typed.match if isinstance(self.typed, TypedMutation) else self.typed

    @property
    def read_plan(self) -> ReadPlan | None:
        """The plan of :attr:`read`, for tables of unknown sizes."""
        return self.plan.match if isinstance(self.plan, MutationPlan) else self.plan

    def bind_parameters(self, values: Mapping[str, object] | None) -> Mapping[str, ConstantValue]:
        """Return the value of every parameter, or raise :class:`ParameterError` before anything runs."""
        bound = bind_parameters(self.typed.parameters, values)
        if self.read_plan is not None and bound:
            check_values(self._value_checks, bound)
        return bound

    def find_rounded_parameters(
        self, values: Mapping[str, object] | None, bound: Mapping[str, ConstantValue]
    ) -> frozenset[str]:
        """Return the parameters whose type rounds their value, in what :meth:`bind_parameters` returned for them."""
        return find_rounded_parameters(self.typed.parameters, values, bound) if bound else frozenset()

    @cached_property
    def _value_checks(self) -> ValueChecks:
        assert self.read_plan is not None
        return find_value_checks(self.read_plan)

    @cached_property
    def read_tables(self) -> tuple[TableKey, ...]:
        """The tables whose rows :attr:`read` needs, sorted."""
        return () if self.read_plan is None else tuple(sorted(tables_of(self.read_plan)))

    @cached_property
    def read_properties(self) -> frozenset[str]:
        """The names of all properties that :attr:`read` needs. A text that is only searched in is not read."""
        if self.read_plan is None:
            return frozenset()
        expressions = (each for operator in walk_plan(self.read_plan) for each in expressions_of(operator))
        parts = [part for each in expressions for part in walk_expression(each)]
        searched = {id(part.target) for part in parts if isinstance(part, TextMatch | TextScore)}
        return frozenset(part.name for part in parts if isinstance(part, PropertyValue) and id(part) not in searched)


def parse_queries(source: str | Path | Source) -> QueryDocument:
    """Parse every query of a text; :class:`QueryError` lists every syntax problem."""
    return _parse(_read(source))


def find_query(source: str | Path | Source, name: str | None = None) -> Query:
    """Parse a text and return one of its queries. ``name`` is optional when the text has one query."""
    return _select_query(parse_queries(source), name)


def compile_query(source: str | Path | Source, catalog: Catalog, name: str | None = None) -> CompiledQuery:
    """Parse, check and plan one query of a text. ``name`` is optional when the text has one query.

    Other queries of the text are not checked: a mistake in one does not keep another from running. Results are cached
    (LRU): the same text and catalog give the same object.
    """
    text = _read(source)
    compile_ = _compile if len(text.text) <= _MAX_CACHED_LENGTH else _compile.__wrapped__
    return compile_(text, _CatalogIdentity(catalog), name)


def explain(compiled: CompiledQuery) -> str:
    """Return the plan of a query as an indented tree."""
    return print_plan(compiled.plan)


@dataclass(frozen=True, slots=True, eq=False)
class _CatalogIdentity:
    """A catalog as part of a cache key. It compares by identity, because comparing contents is slow."""

    catalog: Catalog

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _CatalogIdentity) and self.catalog is other.catalog

    def __hash__(self) -> int:
        return id(self.catalog)


@lru_cache(maxsize=_MAX_CACHED_QUERIES)
def _compile(text: Source, schema: _CatalogIdentity, name: str | None) -> CompiledQuery:
    query = _select_query(_parse(text), name)
    typed = check_query(query, schema.catalog, text)
    if isinstance(typed, list):
        raise QueryError(typed)
    return CompiledQuery(query, typed, plan_mutation(typed) if isinstance(typed, TypedMutation) else plan_read(typed))


def _read(source: str | Path | Source) -> Source:
    if isinstance(source, str) and "{" in source and len(source) <= _MAX_CACHED_LENGTH:
        return _read_text(source)
    return _check_source(source if isinstance(source, Source) else read_source(source, ".gq"))


@lru_cache(maxsize=_MAX_CACHED_QUERIES)
def _read_text(text: str) -> Source:
    """Read a text that is not the name of a file, which may change."""
    return _check_source(read_source(text, ".gq"))


def _check_source(text: Source | Problem) -> Source:
    if isinstance(text, Problem):
        # Raises it as a syntax problem.
        _parse(text)
    assert isinstance(text, Source)
    return text


def _parse(text: Source | Problem) -> QueryDocument:
    file = parse_query_text(text)
    if isinstance(file, list):
        raise QueryError(file)
    return file


def _select_query(file: QueryDocument, name: str | None) -> Query:
    names = tuple(dict.fromkeys(query.name for query in file.queries))
    if not names:
        raise NotFound("the text has no query", hint="write one: query name() { ... }")
    if name is None and len(file.queries) == 1:
        return file.queries[0]
    for query in file.queries:
        if query.name == name:
            return query
    known = ", ".join(names)
    problem = f"the text has several queries: {known}" if name is None else f"the text has no '{name}', but {known}"
    hint = "name one of them" if name is None else suggest_similar(name, names) or "name one of them"
    raise NotFound(problem, hint=hint, details={"queries": list(names)})
