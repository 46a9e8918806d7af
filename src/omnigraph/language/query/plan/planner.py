"""Plan a typed read: its ranking and its result. ``match_planner.py`` plans the match.

The first order key may be a ranking: ``nearest``, ``bm25`` or ``rrf``, directly or through an alias, always best first.
If the ranked variable is scanned, the best are taken right above the scan: its own conditions apply before; traversals,
comparisons with other variables and blocks apply after and may leave fewer than ``limit`` rows. If a traversal
reaches it, the best are taken from what the whole match found, blocks included. In both cases the result is sorted
by rank, later keys and ids sort the rows of one entity, and the limit cuts the rows again. ``rrf`` plans the match
twice, once per arm; a ``nearest`` arm takes the best ``limit``, a ``bm25`` arm takes all. With an offset, as many more
are taken. Conditions of ``having`` apply after all this.

Except for rankings, the start of a match does not change its rows. So a caller that knows the sizes of tables can pass
an ``estimate`` of scans, and the smallest scan comes first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from omnigraph.language.query.plan.marks import name_marks, replace_blocks
from omnigraph.language.query.plan.match_planner import EstimateScan, PendingRanking, place_marks, plan_match
from omnigraph.language.query.plan.operators import (
    ByRank,
    Fuse,
    Group,
    Keep,
    Limit,
    MatchPlan,
    MutationPlan,
    Project,
    ReadPlan,
    Select,
    Sort,
)
from omnigraph.language.query.plan.visitor import ExpressionPart, Part, rebuild, variables_bound_by, walk_plan
from omnigraph.language.query.typed_tree import (
    Aggregate,
    And,
    ColumnValue,
    Distance,
    Expression,
    FusedScore,
    Predicate,
    RankingExpression,
    ResultColumn,
    TextScore,
    TypedMutation,
    TypedRead,
)


def plan_read(query: TypedRead, estimate: EstimateScan | None = None) -> ReadPlan:
    """Plan a read. The same query and estimates always give the same plan."""
    if query.distinct or any(isinstance(column.expression, Aggregate) for column in query.columns):
        return _plan_grouped(query, estimate)
    return _plan_projected(query, estimate)


def plan_mutation(mutation: TypedMutation) -> MutationPlan:
    """Plan the match of a mutation; its statements run as they are written."""
    return MutationPlan(mutation, None if mutation.match is None else plan_read(mutation.match))


# ------------------------------------------------------------------------------------------------ result


def _plan_grouped(query: TypedRead, estimate: EstimateScan | None) -> ReadPlan:
    matched, columns = _mark_columns(plan_match(query.clauses, estimate=estimate), query, estimate)
    plan: Group | Keep | Sort = Group(matched, columns)
    if query.having:
        plan = Keep(plan, _join_conditions(query.having))
    if query.order:
        plan = Sort(plan, query.order, tie_break=())
    return plan if query.limit is None and query.offset is None else Limit(plan, query.limit, query.offset)


def _join_conditions(conditions: tuple[Predicate, ...]) -> Predicate:
    return conditions[0] if len(conditions) == 1 else And(conditions)


def _plan_projected(query: TypedRead, estimate: EstimateScan | None) -> Project:
    first = _resolve_alias(query.order[0].expression, query.columns) if query.order else None
    ranking = first if isinstance(first, RankingExpression) else None
    matched = plan_match(query.clauses, estimate=estimate) if ranking is None else _plan_ranked(query, ranking)
    matched, columns = _mark_columns(matched, query, estimate)
    if query.having:
        matched = Select(matched, _resolve_aliases(_join_conditions(query.having), columns))
    keys = tuple(replace(key, expression=_resolve_alias(key.expression, columns)) for key in query.order)
    plan: MatchPlan | Sort | Limit = matched
    if ranking is not None:
        plan = Sort(matched, (ByRank(), *keys[1:]), _tie_breaking_variables(query))
    elif keys:
        plan = Sort(matched, keys, _tie_breaking_variables(query))
    if query.limit is not None or query.offset is not None:
        plan = Limit(plan, query.limit, query.offset)
    return Project(plan, columns)


def _mark_columns(
    matched: MatchPlan, query: TypedRead, estimate: EstimateScan | None
) -> tuple[MatchPlan, tuple[ResultColumn, ...]]:
    """Mark the rows of a match for the blocks in columns; return the columns with marks in place of the blocks."""
    taken = frozenset[str]().union(*map(variables_bound_by, walk_plan(matched, into_blocks=False)))
    names = name_marks([column.expression for column in query.columns], taken)
    columns = tuple(replace(each, expression=replace_blocks(each.expression, names)) for each in query.columns)
    return place_marks(matched, names, estimate), columns


def _resolve_alias(expression: Expression, columns: Iterable[ResultColumn]) -> Expression:
    if isinstance(expression, ColumnValue):
        return next(column.expression for column in columns if column.name == expression.name)
    return expression


def _resolve_aliases(part: Part, columns: tuple[ResultColumn, ...]) -> Part:
    """Return an expression with the columns that it names replaced by what they show."""

    def resolve(inner: ExpressionPart) -> ExpressionPart:
        return _resolve_alias(inner, columns) if isinstance(inner, ColumnValue) else rebuild(inner, resolve)

    return rebuild(part, resolve)


def _tie_breaking_variables(query: TypedRead) -> tuple[str, ...]:
    """Every named variable of the match, sorted."""
    return tuple(sorted(query.variables))


# ------------------------------------------------------------------------------------------------ ranking


def _plan_ranked(query: TypedRead, ranking: RankingExpression) -> MatchPlan:
    if not isinstance(ranking, FusedScore):
        return plan_match(query.clauses, PendingRanking(ranking, query.limit, query.offset))
    return Fuse(
        first=plan_match(query.clauses, _plan_arm(ranking.first, query)),
        second=plan_match(query.clauses, _plan_arm(ranking.second, query)),
        variable=_variable_of(ranking),
        k=ranking.k,
        limit=query.limit,
        skip=query.offset,
    )


def _plan_arm(ranking: Distance | TextScore, query: TypedRead) -> PendingRanking:
    return (
        PendingRanking(ranking, query.limit, query.offset)
        if isinstance(ranking, Distance)
        else PendingRanking(ranking, None)
    )


def _variable_of(ranking: RankingExpression) -> str:
    return _variable_of(ranking.first) if isinstance(ranking, FusedScore) else ranking.target.variable
