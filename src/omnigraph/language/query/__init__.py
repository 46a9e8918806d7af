"""`.gq`: grammar, parser, type checker, parameters, lint, logical plan.

The way of a query: text -> syntax tree (``ast``) -> checked against a catalog (``typed``) -> logical plan
(``plan``). The functions here walk it; each step has a module of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from omnigraph.errors import NotFound, Problem, QueryError
from omnigraph.language.query.ast import AggregateFunction, ComparisonOperator, Query, QueryFile, TextFunction
from omnigraph.language.query.check import check_query
from omnigraph.language.query.descriptor import OperationDescriptor, describe_operation
from omnigraph.language.query.lint import lint_queries
from omnigraph.language.query.lint_report import LintFinding, LintReport, SchemaSource, Severity
from omnigraph.language.query.parameters import bind_parameters, check_counts, parse_parameter_text
from omnigraph.language.query.parser import SYNTAX_CODE, parse_query_text
from omnigraph.language.query.plan import ReadPlan, plan_read
from omnigraph.language.query.typed import (
    Aggregate,
    AssignedValue,
    ColumnValue,
    Compare,
    Constant,
    DeleteEdges,
    DeleteNodes,
    Distance,
    Expression,
    FusedScore,
    Identity,
    InsertEdge,
    InsertNode,
    IsNull,
    Now,
    ParameterValue,
    Predicate,
    PropertyValue,
    ResultColumn,
    SortKey,
    Statement,
    TextMatch,
    TextScore,
    TraversalDirection,
    TypedMutation,
    TypedQuery,
    TypedRead,
    UpdateNodes,
)
from omnigraph.language.schema import Catalog
from omnigraph.language.source import Source, read_source, suggest_similar
from omnigraph.language.values import ConstantValue

__all__ = [
    "SYNTAX_CODE",
    "Aggregate",
    "AggregateFunction",
    "AssignedValue",
    "ColumnValue",
    "Compare",
    "ComparisonOperator",
    "CompiledQuery",
    "Constant",
    "DeleteEdges",
    "DeleteNodes",
    "Distance",
    "Expression",
    "FusedScore",
    "Identity",
    "InsertEdge",
    "InsertNode",
    "IsNull",
    "LintFinding",
    "LintReport",
    "Now",
    "OperationDescriptor",
    "ParameterValue",
    "Predicate",
    "PropertyValue",
    "ResultColumn",
    "SchemaSource",
    "Severity",
    "SortKey",
    "Statement",
    "TextFunction",
    "TextMatch",
    "TextScore",
    "TraversalDirection",
    "TypedMutation",
    "UpdateNodes",
    "compile_query",
    "describe_operation",
    "find_query",
    "lint_queries",
    "parse_parameter_text",
    "parse_queries",
    "parse_query_text",
]

_MOST_KEPT: Final = 256
_LONGEST_KEPT: Final = 64 * 1024
"""In characters. Longer texts are compiled every time, so that what is kept stays small."""


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """A query that is ready to run: as written, as understood, and as planned. A mutation is its own plan."""

    query: Query
    typed: TypedQuery
    plan: ReadPlan | TypedMutation

    @property
    def name(self) -> str:
        """The name of the query."""
        return self.query.name

    def bind_parameters(self, values: Mapping[str, object] | None) -> Mapping[str, ConstantValue]:
        """Return the value of every parameter; raise :class:`ParameterError` for all that the query cannot take."""
        bound = bind_parameters(self.typed.parameters, values)
        if not isinstance(self.plan, TypedMutation):
            check_counts(self.plan, bound)
        return bound


def parse_queries(source: str | Path | Source) -> QueryFile:
    """The queries of a text, as written; :class:`QueryError` lists every syntax problem."""
    return _parsed(_text(source))


def find_query(source: str | Path | Source, name: str | None = None) -> Query:
    """One query of a text, as written. ``name`` may be left out when the text has one query."""
    return _chosen(parse_queries(source), name)


def compile_query(source: str | Path | Source, catalog: Catalog, name: str | None = None) -> CompiledQuery:
    """One query of a text, checked and planned. ``name`` may be left out when the text has one query.

    Other queries of the text are not checked: a mistake in one does not keep another from running. What was compiled
    is kept, for as long as it is among the last ones used: who asks again with the same catalog gets the same object.
    """
    text = _text(source)
    compile_ = _compiled if len(text.text) <= _LONGEST_KEPT else _compiled.__wrapped__
    return compile_(text, _Same(catalog), name)


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """A catalog as part of a key: itself, and not what it says, which would take long to compare."""

    catalog: Catalog

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.catalog is other.catalog

    def __hash__(self) -> int:
        return id(self.catalog)


@lru_cache(maxsize=_MOST_KEPT)
def _compiled(text: Source, schema: _Same, name: str | None) -> CompiledQuery:
    query = _chosen(_parsed(text), name)
    typed = check_query(query, schema.catalog, text)
    if isinstance(typed, list):
        raise QueryError(typed)
    return CompiledQuery(query, typed, plan_read(typed) if isinstance(typed, TypedRead) else typed)


def _text(source: str | Path | Source) -> Source:
    text = source if isinstance(source, Source) else read_source(source, ".gq")
    if isinstance(text, Problem):
        # As a syntax problem, like any other of the text.
        _parsed(text)
    assert isinstance(text, Source)
    return text


def _parsed(text: Source | Problem) -> QueryFile:
    file = parse_query_text(text)
    if isinstance(file, list):
        raise QueryError(file)
    return file


def _chosen(file: QueryFile, name: str | None) -> Query:
    names = tuple(dict.fromkeys(query.name for query in file.queries))
    if not names:
        raise NotFound("there is no query in this text")
    if name is None and len(file.queries) == 1:
        return file.queries[0]
    for query in file.queries:
        if query.name == name:
            return query
    problem = "several queries are in this text" if name is None else f"no query '{name}' is in this text"
    hint = "name one of them" if name is None else suggest_similar(name, names)
    raise NotFound(f"{problem}: {', '.join(names)}", hint=hint, details={"queries": list(names)})
