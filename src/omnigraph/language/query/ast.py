"""The syntax tree of ``.gq``: what was written, with no name resolved. Spans are ignored when trees are compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from enum import StrEnum
from typing import TypeAlias, cast

from omnigraph.language.operators import ComparisonOperator as ComparisonOperator
from omnigraph.language.operators import LogicalOperator as LogicalOperator
from omnigraph.language.source import Span, span_field
from omnigraph.language.types import ValueType
from omnigraph.lazy_dataclass import dataclass

ANONYMOUS = "_"
ALL_PROPERTIES = "*"
"""The name in ``$x.*``, which only a projection has."""


# ------------------------------------------------------------------------------------------------ expressions


class ArithmeticOperator(StrEnum):
    """The operators between numbers."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"


class AggregateFunction(StrEnum):
    """The aggregate functions."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    COLLECT = "collect"


class TextFunction(StrEnum):
    """The functions that search texts and give a boolean."""

    SEARCH = "search"
    MATCH_TEXT = "match_text"
    FUZZY = "fuzzy"


@dataclass(frozen=True, slots=True)
class ScalarLiteral:
    """``"text"``, ``12``, ``1.5``, ``true``, ``null``."""

    value: str | int | float | bool | None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class DateLiteral:
    """``date("2024-05-01")``; the type checker checks the text."""

    text: str
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class DateTimeLiteral:
    """``datetime("2024-05-01T10:00Z")``."""

    text: str
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class ListLiteral:
    """``["a", "b"]``."""

    items: tuple[AnyLiteral, ...]
    span: Span = span_field()


AnyLiteral: TypeAlias = ScalarLiteral | DateLiteral | DateTimeLiteral | ListLiteral


@dataclass(frozen=True, slots=True)
class NowCall:
    """``now()``: the time of the request, one value per query."""

    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Variable:
    """``$name``: a parameter or a bound entity."""

    name: str
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class PropertyAccess:
    """``$variable.property``; ``span`` is the whole, ``name_span`` the property."""

    variable: str
    name: str
    span: Span = span_field()
    name_span: Span = span_field()


@dataclass(frozen=True, slots=True)
class AliasReference:
    """A bare word: the alias of a projection."""

    name: str
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """``count(distinct $x)``, ``sum($x.p)``."""

    function: AggregateFunction
    argument: ExpressionSyntax
    distinct: bool = False
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class NearestCall:
    """``nearest($v.vector, query)``."""

    target: PropertyAccess
    query: ExpressionSyntax
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class TextMatchCall:
    """``search(field, query)``, ``match_text(field, query)``, ``fuzzy(field, query, max_edits)``."""

    function: TextFunction
    target: ExpressionSyntax
    query: ExpressionSyntax
    max_edits: ExpressionSyntax | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Bm25Call:
    """``bm25(field, query)``."""

    target: ExpressionSyntax
    query: ExpressionSyntax
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class RrfCall:
    """``rrf(rank, rank, ..., k)``: two or more rankings fused by reciprocal rank."""

    arms: tuple[NearestCall | Bm25Call, ...]
    k: ValueSyntax | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class ArithmeticOperation:
    """``a + b - c`` or ``a * b / c``, from left to right: one operator between each two operands.

    A long sum is one operation and not a deep tree.
    """

    operands: tuple[ExpressionSyntax, ...]
    operators: tuple[ArithmeticOperator, ...]
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """``name(argument, ...)``; the checker knows the functions."""

    name: str
    arguments: tuple[ExpressionSyntax, ...]
    span: Span = span_field()
    name_span: Span = span_field()


@dataclass(frozen=True, slots=True)
class CaseExpression:
    """``case { condition: value, ..., else: value }``: one value for each condition."""

    conditions: tuple[ExpressionSyntax, ...]
    values: tuple[ExpressionSyntax, ...]
    otherwise: ExpressionSyntax | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left operator right``."""

    left: ExpressionSyntax
    operator: ComparisonOperator
    right: ExpressionSyntax
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class NullTest:
    """``$x.p is null``, ``$x.p is not null``."""

    operand: ExpressionSyntax
    negated: bool = False
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class LogicalOperation:
    """``a and b and c``, ``a or b or c``: two or more operands."""

    operator: LogicalOperator
    operands: tuple[ExpressionSyntax, ...]
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Inversion:
    """``not ( ... )``: true where the condition is false."""

    operand: ExpressionSyntax
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Negation:
    """``not { ... }``: the clauses have no match."""

    clauses: tuple[ClauseSyntax, ...]
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Existence:
    """``exists { ... }``: the clauses have a match."""

    clauses: tuple[ClauseSyntax, ...]
    span: Span = span_field()


ConditionSyntax: TypeAlias = Comparison | NullTest | LogicalOperation | Inversion | Negation | Existence
ExpressionSyntax: TypeAlias = (
    AnyLiteral
    | NowCall
    | Variable
    | PropertyAccess
    | AliasReference
    | AggregateCall
    | NearestCall
    | TextMatchCall
    | Bm25Call
    | RrfCall
    | ArithmeticOperation
    | FunctionCall
    | CaseExpression
    | ConditionSyntax
)
ValueSyntax: TypeAlias = AnyLiteral | Variable | NowCall


def walk_syntax(expression: ExpressionSyntax) -> Iterator[ExpressionSyntax]:
    """Yield an expression and everything inside it, each before its parts, but not the clauses of blocks."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        yield part
        if not isinstance(part, Negation | Existence):
            values = [item for field in fields(part) for item in _items(cast("object", getattr(part, field.name)))]
            waiting += reversed([value for value in values if isinstance(value, ExpressionSyntax)])


def _items(value: object) -> tuple[object, ...]:
    return cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)


# ------------------------------------------------------------------------------------------------ match clauses


@dataclass(frozen=True, slots=True)
class PropertyMatch:
    """``property: value`` in the braces of a binding."""

    name: str
    value: ValueSyntax
    span: Span = span_field()
    name_span: Span = span_field()


@dataclass(frozen=True, slots=True)
class BindingClause:
    """``$v: Type { property: value, ... }``."""

    variable: str
    type_name: str
    matches: tuple[PropertyMatch, ...] = ()
    span: Span = span_field()
    variable_span: Span = span_field()
    type_span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Hops:
    """``{minimum,maximum}``; ``{n}`` is both; ``{n,}`` has no maximum."""

    minimum: int
    maximum: int | None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class EdgeWord:
    """The name of an edge type as a traversal spells it."""

    name: str
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class TraversalClause:
    """``$a edge $b``, ``$a <edge> $b``, ``$a edge|other{1,3} $b``, ``$a $e:edge $b``."""

    source: Variable
    edges: tuple[EdgeWord, ...]
    destination: Variable
    undirected: bool = False
    hops: Hops | None = None
    edge_variable: Variable | None = None
    span: Span = span_field()

    @property
    def edges_span(self) -> Span:
        """The span of all edge names."""
        return self.edges[0].span.to(self.edges[-1].span)


@dataclass(frozen=True, slots=True)
class OptionalClause:
    """``optional { ... }``: the matches of the clauses, or one row without them."""

    clauses: tuple[ClauseSyntax, ...]
    span: Span = span_field()


ClauseSyntax: TypeAlias = BindingClause | TraversalClause | OptionalClause | ExpressionSyntax
"""An expression that is a clause is a condition; the checker sees to it."""


# ------------------------------------------------------------------------------------------------ queries


@dataclass(frozen=True, slots=True)
class Parameter:
    """``$name: Type``."""

    name: str
    type: ValueType
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Projection:
    """``expression as alias``."""

    expression: ExpressionSyntax
    alias: str | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class OrderKey:
    """``expression asc|desc``."""

    expression: ExpressionSyntax
    descending: bool = False
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class ReadBody:
    """``match { } return distinct { } having { } order { } limit n offset m``."""

    clauses: tuple[ClauseSyntax, ...]
    projections: tuple[Projection, ...]
    order: tuple[OrderKey, ...] = ()
    limit: ScalarLiteral | Variable | None = None
    offset: ScalarLiteral | Variable | None = None
    distinct: bool = False
    having: tuple[ExpressionSyntax, ...] = ()


@dataclass(frozen=True, slots=True)
class UnionBody:
    """``match { } return { } union distinct match { } return { } order { } limit n offset m``."""

    branches: tuple[ReadBody, ...]
    distinct: bool = False
    order: tuple[OrderKey, ...] = ()
    limit: ScalarLiteral | Variable | None = None
    offset: ScalarLiteral | Variable | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """``property: value`` in an insert or update."""

    name: str
    value: ExpressionSyntax
    span: Span = span_field()
    name_span: Span = span_field()


@dataclass(frozen=True, slots=True)
class WhereCondition:
    """``property operator value`` after ``where``."""

    name: str
    operator: ComparisonOperator
    value: ValueSyntax
    span: Span = span_field()
    name_span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Insert:
    """``insert Type { ... }``."""

    type_name: str
    assignments: tuple[Assignment, ...]
    span: Span = span_field()
    type_span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Update:
    """``update Type set { ... } where ...``."""

    type_name: str
    assignments: tuple[Assignment, ...]
    predicate: WhereCondition
    span: Span = span_field()
    type_span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Delete:
    """``delete Type where ...``."""

    type_name: str
    predicate: WhereCondition
    span: Span = span_field()
    type_span: Span = span_field()


@dataclass(frozen=True, slots=True)
class VariableUpdate:
    """``update $v set { ... }`` after a match."""

    variable: Variable
    assignments: tuple[Assignment, ...]
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class VariableDelete:
    """``delete $v`` after a match."""

    variable: Variable
    span: Span = span_field()


StatementSyntax: TypeAlias = Insert | Update | Delete | VariableUpdate | VariableDelete


@dataclass(frozen=True, slots=True)
class MutationBody:
    """One or more statements. With ``clauses`` they run for each row of that match."""

    statements: tuple[StatementSyntax, ...]
    clauses: tuple[ClauseSyntax, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """``query name(parameters) { ... }``."""

    name: str
    parameters: tuple[Parameter, ...]
    body: ReadBody | UnionBody | MutationBody
    description: str | None = None
    instruction: str | None = None
    span: Span = span_field()
    name_span: Span = span_field()


@dataclass(frozen=True, slots=True)
class QueryDocument:
    """All queries of a text, in order."""

    queries: tuple[Query, ...]
