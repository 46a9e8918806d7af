"""The logical plan: a small algebra over rows of bindings, the same for every executor.

A plan is a tree of frozen operators. The match part yields rows whose columns are bound variables; the result
part turns them into named columns. The plan says what to compute, in an order that is correct; it knows
nothing of tables, files, indexes or engines. ``tree`` prints it.

Room is kept for ``optional``, ``or``, ``in``, ``collect``, ``shortest``, paths and ``union``: each is one more
operator or predicate here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from omnigraph.language.query.typed import (
    Aggregate,
    Column,
    Constant,
    Direction,
    Expression,
    Order,
    ParameterValue,
    Predicate,
    Ranking,
)


@dataclass(frozen=True, slots=True)
class Scan:
    """The nodes of a type that satisfy every predicate, bound to a variable."""

    variable: str
    node_type: str
    predicates: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Outer:
    """The row that a negation is asked about: the leaf of an inner plan."""

    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Expand:
    """From each row to the distinct destinations at distance ``minimum`` to ``maximum``, filtered there."""

    input: MatchPlan
    source: str
    edge_type: str
    direction: Direction
    destination: str
    destination_type: str
    minimum: int
    maximum: int
    predicates: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class ExpandEdges:
    """From each row to one row per edge, the edge and its other end both bound."""

    input: MatchPlan
    source: str
    edge_type: str
    direction: Direction
    edge_variable: str
    destination: str
    destination_type: str
    predicates: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Connect:
    """Keep the rows whose two bound ends are connected within the hops: a pattern that closes a cycle."""

    input: MatchPlan
    source: str
    edge_type: str
    direction: Direction
    destination: str
    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class ConnectEdges:
    """One row per edge between two bound ends, the edge bound."""

    input: MatchPlan
    source: str
    edge_type: str
    direction: Direction
    edge_variable: str
    destination: str


@dataclass(frozen=True, slots=True)
class Cross:
    """Every row of the left with every row of the right: parts of a pattern that nothing connects."""

    left: MatchPlan
    right: MatchPlan


@dataclass(frozen=True, slots=True)
class Select:
    """Keep the rows that satisfy a predicate over several variables."""

    input: MatchPlan
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class Without:
    """Keep the rows for which the inner plan, run with their variables fixed, has no row."""

    input: MatchPlan
    inner: MatchPlan
    outer: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopRanked:
    """Keep, of the ranked variable's entities, the best ``limit`` (all that rank, without one), best first."""

    input: MatchPlan
    ranking: Ranking
    limit: Constant | ParameterValue | None


MatchPlan: TypeAlias = (
    Scan | Outer | Expand | ExpandEdges | Connect | ConnectEdges | Cross | Select | Without | TopRanked
)


@dataclass(frozen=True, slots=True)
class Project:
    """One result row per match row."""

    input: MatchPlan
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """One result row per distinct combination of the plain columns, in order of first appearance."""

    input: MatchPlan
    columns: tuple[Column, ...]

    @property
    def keys(self) -> tuple[Column, ...]:
        """The columns that rows are grouped by."""
        return tuple(column for column in self.columns if not isinstance(column.expression, Aggregate))


@dataclass(frozen=True, slots=True)
class Sort:
    """Sort by the keys, nulls first ascending and last descending, then by the ids of ``tie_break``, ascending."""

    input: Project | Group
    keys: tuple[Order, ...]
    tie_break: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """The first rows."""

    input: Project | Group | Sort
    count: Constant | ParameterValue


ReadPlan: TypeAlias = Project | Group | Sort | Limit
Plan: TypeAlias = MatchPlan | ReadPlan
PlanExpression: TypeAlias = Expression
