"""The operators of the logical plan: a small algebra over rows of variables, the same for every executor.

A plan is a tree of frozen operators. The match part yields a bag of rows whose columns are bound variables (each is
one node or edge: its id and its properties); the result part turns them into named columns. The plan says what to
compute, in a correct order. It knows nothing of tables, files, indexes or engines.

Rows have no order before a :class:`Sort`, so an operator must not rely on the order of its input. A predicate holds
only if it is true: a null on either side of a comparison does not match.

A read has one of two shapes. Without aggregates: ``Project <- Limit? <- Sort? <- match``; the sort comes first because
its keys and ties are variables, and only the rows that remain are projected. With aggregates:
``Limit? <- Sort? <- Keep? <- Group <- match``; the keys are columns of the group.

Where several matches are united, a :class:`Union` stands in place of the match, and everything above it reads columns.
Each of its branches is a read of one of the two shapes; columns that the result does not show carry order keys, ids and
the arguments of aggregates, and a projection above drops them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

from omnigraph.language.query.typed_statements import TypedMutation
from omnigraph.language.query.typed_tree import (
    Aggregate,
    ColumnValue,
    Constant,
    Distance,
    EdgeStep,
    Expression,
    ParameterValue,
    Predicate,
    ResultColumn,
    TextScore,
    TraversalDirection,
    TypedOrderKey,
    UsedVariable,
)
from omnigraph.lazy_dataclass import dataclass

BoundVariable: TypeAlias = Annotated[str, "bound"]
"""A variable that an operator adds to its rows."""
NodeTypeName: TypeAlias = Annotated[str, "node type"]
"""A node type whose rows an operator reads."""
EdgeTypeName: TypeAlias = Annotated[str, "edge type"]
"""An edge type whose rows an operator reads."""
Count: TypeAlias = Constant | ParameterValue
"""A number of rows or entities: an integer literal, or a parameter."""


class WalkEnd(StrEnum):
    """An end of a walk in a plan: where it begins, or what it finds."""

    SOURCE = "source"
    DESTINATION = "destination"


# ------------------------------------------------------------------------------------------------ match


@dataclass(frozen=True, slots=True)
class NodeScan:
    """The nodes of a type that satisfy every predicate, bound to a variable."""

    variable: BoundVariable
    node_type: NodeTypeName
    predicates: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Outer:
    """The leaf of the inner plan of a block: the outer row, reduced to these variables.

    Without variables it is one empty row: the leaf of a match that binds nothing.
    """

    variables: tuple[BoundVariable, ...]


@dataclass(frozen=True, slots=True)
class Expand:
    """Expand each row to the nodes around ``source``: one row per distinct destination that satisfies the predicates.

    Each hop is one of the ``steps``. A walk is a relation between its left end and its right end, as they were written:
    the shortest distance from left to right is at least ``minimum`` and at most ``maximum``, if there is one. A right
    end with an edge to itself may be one hop nearer, because it is found again one hop later. So a node is at the end
    of a walk from itself only by an edge to itself, or with a ``minimum`` of 0. Parallel edges count once.

    ``written_left`` says which end is the left one. From its right end a walk goes backwards, and finds the same pairs.

    ``path`` is bound to one path from left to right: of the fewest hops, at least ``minimum``; among those the one with
    the smallest sequence of node ids, then of edge ids. A right end that is one hop nearer than the minimum is reached
    by its shortest path and then by its edge to itself.

    Between two different types the ``maximum`` is 1 here, whatever was written, so a larger ``minimum`` finds nothing.
    """

    input: MatchPlan
    source: UsedVariable
    steps: tuple[EdgeStep, ...]
    destination: BoundVariable
    destination_type: NodeTypeName
    minimum: int
    maximum: int | None
    predicates: tuple[Predicate, ...]
    written_left: WalkEnd = WalkEnd.SOURCE
    path: BoundVariable | None = None


@dataclass(frozen=True, slots=True)
class ExpandEdges:
    """Expand each row to one row per edge at ``source``, and bind the edge and its other end.

    With direction ``both`` an edge counts in either orientation, an edge from a node to itself once.
    """

    input: MatchPlan
    source: UsedVariable
    edge_type: EdgeTypeName
    direction: TraversalDirection
    edge_variable: BoundVariable
    edge_predicates: tuple[Predicate, ...]
    destination: BoundVariable
    destination_type: NodeTypeName
    predicates: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Connect:
    """Keep the rows whose ``destination`` :class:`Expand` would find: the walk leads between two bound ends."""

    input: MatchPlan
    source: UsedVariable
    steps: tuple[EdgeStep, ...]
    destination: UsedVariable
    minimum: int
    maximum: int | None
    written_left: WalkEnd = WalkEnd.SOURCE
    path: BoundVariable | None = None


@dataclass(frozen=True, slots=True)
class ConnectEdges:
    """Expand each row to one row per edge between two bound ends, as :class:`ExpandEdges` finds them."""

    input: MatchPlan
    source: UsedVariable
    edge_type: EdgeTypeName
    direction: TraversalDirection
    edge_variable: BoundVariable
    edge_predicates: tuple[Predicate, ...]
    destination: UsedVariable


@dataclass(frozen=True, slots=True)
class Cross:
    """Combine every row of the left with every row of the right: parts of a pattern that no edge connects.

    A :class:`Select` right above that compares both sides makes it a join.
    """

    left: MatchPlan
    right: MatchPlan


@dataclass(frozen=True, slots=True)
class Select:
    """Keep the rows that satisfy a predicate: over several variables, over ``Outer`` ones, or over none."""

    input: MatchPlan
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class With:
    """Keep the rows for which the inner plan, run with their ``outer`` variables fixed, has a row.

    The inner plan has one :class:`Outer` leaf, of the same variables. Its other variables are its own, even where
    a variable of the input has the same name.
    """

    input: MatchPlan
    inner: MatchPlan
    outer: tuple[UsedVariable, ...]


@dataclass(frozen=True, slots=True)
class Without:
    """Keep the rows for which the inner plan, run as that of :class:`With`, has no row."""

    input: MatchPlan
    inner: MatchPlan
    outer: tuple[UsedVariable, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """Add to each row whether the inner plan, run as that of :class:`With`, has a row. :class:`Marked` reads it."""

    input: MatchPlan
    inner: MatchPlan
    outer: tuple[UsedVariable, ...]
    name: BoundVariable


@dataclass(frozen=True, slots=True)
class Optional:
    """Give one row per row of the inner plan, run as that of :class:`With`; without any, the row itself.

    In that row the ``variables`` of the block are absent: their ids and properties are null, and no pattern finds
    anything at them.
    """

    input: MatchPlan
    inner: MatchPlan
    outer: tuple[UsedVariable, ...]
    variables: tuple[BoundVariable, ...]


@dataclass(frozen=True, slots=True)
class TopRanked:
    """Keep the rows of the best ``limit`` entities of the ranked variable (of all that rank, without a limit).

    Each kept entity gets a rank, 0 for the best: the smallest distance or the highest score, then the smallest
    id. Null vectors and texts that do not match have no rank. All rows of an entity share its rank.
    """

    input: MatchPlan
    ranking: Distance | TextScore
    limit: Count | None
    skip: Count | None = None
    """Rows that the result skips: as many more entities are kept."""


@dataclass(frozen=True, slots=True)
class Fuse:
    """Fuse rankings of the same pattern: keep the rows of the best ``limit`` entities of ``variable``.

    In each arm the distinct entities of ``variable`` are numbered from 0 by the best rank among their rows, then
    by id. An entity scores ``1 / (k + number + 1)`` in each arm that has it. The fused rank, 0 for the best, goes
    by the sum of the scores, then by the number in the first arm (entities without one last), then in the second,
    and so on. The rows of an entity are those of the first arm that has it.
    """

    arms: tuple[MatchPlan, ...]
    variable: UsedVariable
    k: Expression
    limit: Count | None
    skip: Count | None = None


MatchPlan: TypeAlias = (
    NodeScan
    | Outer
    | Expand
    | ExpandEdges
    | Connect
    | ConnectEdges
    | Cross
    | Select
    | With
    | Without
    | Mark
    | Optional
    | TopRanked
    | Fuse
)


# ------------------------------------------------------------------------------------------------ result


@dataclass(frozen=True, slots=True)
class Group:
    """Give one result row per distinct combination of the plain columns, in which null is a value like any other.

    Without plain columns there is exactly one row, also when nothing matched. ``count`` counts what is not null,
    ``collect`` lists that in ascending order; the other aggregates skip nulls and are null when nothing is left.
    Without aggregates the groups are the distinct rows.
    """

    input: MatchPlan | Union
    columns: tuple[ResultColumn, ...]

    @property
    def keys(self) -> tuple[ResultColumn, ...]:
        """The columns that rows are grouped by."""
        return tuple(column for column in self.columns if not isinstance(column.expression, Aggregate))


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep the result rows that satisfy a predicate over their columns."""

    input: Group
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class ByRank:
    """A sort key: the rank from the next :class:`TopRanked` or :class:`Fuse` below, best first."""


@dataclass(frozen=True, slots=True)
class Sort:
    """Sort by the keys, nulls first ascending and last descending, then by the ids of ``tie_break``, ascending.

    Over a match the keys are expressions of its variables. Over groups and unions they are columns, and all columns
    break ties, from left to right, ascending, nulls first.
    """

    input: MatchPlan | Group | Keep | Union
    keys: tuple[TypedOrderKey | ByRank, ...]
    tie_break: tuple[UsedVariable, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """Skip some rows and keep the first of the others; any rows, if nothing sorts them."""

    input: MatchPlan | Group | Keep | Sort | Union
    count: Count | None
    skip: Count | None = None


@dataclass(frozen=True, slots=True)
class TopRows:
    """Keep the first rows of a branch: as many as the limit above the union shows and skips."""

    input: Sort
    limit: Count
    skip: Count | None = None


@dataclass(frozen=True, slots=True)
class Project:
    """Give one result row per row of the input. A search function here is the score of the row's entity.

    Over a union it selects some of its columns.
    """

    input: MatchPlan | Sort | Limit | TopRows | Union
    columns: tuple[ResultColumn, ...]


@dataclass(frozen=True, slots=True)
class Union:
    """Give the rows of all branches. Branches have these columns in this order; numbers get the type stated here."""

    branches: tuple[BranchPlan, ...]
    columns: tuple[ColumnValue, ...]


BranchPlan: TypeAlias = Project | Group | Keep | TopRows
ReadPlan: TypeAlias = BranchPlan | Sort | Limit | Union
PlanOperator: TypeAlias = MatchPlan | ReadPlan


@dataclass(frozen=True, slots=True)
class MutationPlan:
    """A mutation and the plan of its match, which gives the values of its statements row by row."""

    mutation: TypedMutation
    match: ReadPlan | None
