"""The syntax tree of ``.gq``: what was written, nothing resolved. Spans do not take part in comparison."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from omnigraph.language.source import Span, unplaced
from omnigraph.language.types import ValueType

ANONYMOUS = "_"


# ------------------------------------------------------------------------------------------------ expressions


class Comparison(StrEnum):
    """The operators of a filter."""

    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    CONTAINS = "contains"
    STARTS_WITH = "starts_with"


class AggregateFunction(StrEnum):
    """The aggregates."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


class TextFunction(StrEnum):
    """The text predicates."""

    SEARCH = "search"
    MATCH_TEXT = "match_text"
    FUZZY = "fuzzy"


@dataclass(frozen=True, slots=True)
class Constant:
    """``"text"``, ``12``, ``1.5``, ``true``, ``null``."""

    value: str | int | float | bool | None
    span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class DateConstant:
    """``date("2024-05-01")``; the text is checked by the type checker."""

    text: str
    span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class DateTimeConstant:
    """``datetime("2024-05-01T10:00Z")``."""

    text: str
    span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class ListConstant:
    """``["a", "b"]``."""

    items: tuple[Literal, ...]
    span: Span = unplaced()


Literal: TypeAlias = Constant | DateConstant | DateTimeConstant | ListConstant


@dataclass(frozen=True, slots=True)
class Now:
    """``now()``: the time of the request, one value per query."""

    span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class Variable:
    """``$name``: a parameter or a bound entity."""

    name: str
    span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class PropertyAccess:
    """``$variable.property``; ``span`` is the whole, ``name_span`` the property."""

    variable: str
    name: str
    span: Span = unplaced()
    name_span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class AliasReference:
    """A bare word: the alias of a projection."""

    name: str
    span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``count(distinct $x)``, ``sum($x.p)``."""

    function: AggregateFunction
    argument: Expression
    distinct: bool = False
    span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class Nearest:
    """``nearest($v.vector, query)``."""

    target: PropertyAccess
    query: Expression
    span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class TextMatch:
    """``search(field, query)``, ``match_text(field, query)``, ``fuzzy(field, query, max_edits)``."""

    function: TextFunction
    target: Expression
    query: Expression
    max_edits: Expression | None = None
    span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class Bm25:
    """``bm25(field, query)``."""

    target: Expression
    query: Expression
    span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class Rrf:
    """``rrf(rank, rank, k)``: two rankings fused by reciprocal rank."""

    first: Nearest | Bm25
    second: Nearest | Bm25
    k: Expression | None = None
    span: Span = unplaced()


Expression: TypeAlias = (
    Literal | Now | Variable | PropertyAccess | AliasReference | Aggregate | Nearest | TextMatch | Bm25 | Rrf
)
Value: TypeAlias = Literal | Variable | Now


# ------------------------------------------------------------------------------------------------ match clauses


@dataclass(frozen=True, slots=True)
class PropertyMatch:
    """``property: value`` in the braces of a binding."""

    name: str
    value: Value
    span: Span = unplaced()
    name_span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class Binding:
    """``$v: Type { property: value, ... }``."""

    variable: str
    type_name: str
    matches: tuple[PropertyMatch, ...] = ()
    span: Span = unplaced()
    variable_span: Span = unplaced()
    type_span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class Hops:
    """``{minimum,maximum}``; ``{n}`` is both; no maximum was written as ``{n,}``."""

    minimum: int
    maximum: int | None
    span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class Traversal:
    """``$a edge $b``, ``$a <edge> $b``, ``$a edge{1,3} $b``, ``$a $e:edge $b``."""

    source: Variable
    edge: str
    destination: Variable
    undirected: bool = False
    hops: Hops | None = None
    edge_variable: Variable | None = None
    span: Span = unplaced()
    edge_span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class Filter:
    """``left operator right``."""

    left: Expression
    operator: Comparison
    right: Expression
    span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class NullTest:
    """``$x.p is null``, ``$x.p is not null``."""

    operand: Expression
    negated: bool = False
    span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class TextClause:
    """A text predicate standing alone."""

    predicate: TextMatch
    span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class Negation:
    """``not { ... }``."""

    clauses: tuple[Clause, ...]
    span: Span = unplaced()


Clause: TypeAlias = Binding | Traversal | Filter | NullTest | TextClause | Negation


# ------------------------------------------------------------------------------------------------ queries


@dataclass(frozen=True, slots=True)
class Parameter:
    """``$name: Type``."""

    name: str
    type: ValueType
    span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class Projection:
    """``expression as alias``."""

    expression: Expression
    alias: str | None = None
    span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class OrderKey:
    """``expression asc|desc``."""

    expression: Expression
    descending: bool = False
    span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class Read:
    """``match { } return { } order { } limit n``."""

    clauses: tuple[Clause, ...]
    projections: tuple[Projection, ...]
    order: tuple[OrderKey, ...] = ()
    limit: Constant | Variable | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """``property: value`` in an insert or update."""

    name: str
    value: Value
    span: Span = unplaced()
    name_span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class Predicate:
    """``property operator value`` after ``where``."""

    name: str
    operator: Comparison
    value: Value
    span: Span = unplaced()
    name_span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class Insert:
    """``insert Type { ... }``."""

    type_name: str
    assignments: tuple[Assignment, ...]
    span: Span = unplaced()
    type_span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class Update:
    """``update Type set { ... } where ...``."""

    type_name: str
    assignments: tuple[Assignment, ...]
    predicate: Predicate
    span: Span = unplaced()
    type_span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class Delete:
    """``delete Type where ...``."""

    type_name: str
    predicate: Predicate
    span: Span = unplaced()
    type_span: Span = unplaced()


Statement: TypeAlias = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class Mutation:
    """One or more statements."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """``query name(parameters) { ... }``."""

    name: str
    parameters: tuple[Parameter, ...]
    body: Read | Mutation
    description: str | None = None
    instruction: str | None = None
    span: Span = unplaced()
    name_span: Span = unplaced()


@dataclass(frozen=True, slots=True)
class QueryFile:
    """All queries of a text, in order."""

    queries: tuple[Query, ...]
