"""From a typed read to its logical plan. ``lower_match.py`` plans the match; here are ranking and result.

Ranking. The first order key may be ``nearest``, ``bm25`` or ``rrf``, written there or behind an alias; its
direction is always best first. When the ranked variable is scanned, the best are taken right above its scan: its
own conditions apply before, traversals, comparisons with other variables and negations after, so they may leave
fewer than ``limit`` rows. When it is reached by a traversal, the best are taken of the entities that the whole match,
negations included, has found. Either way the result is sorted by rank, later order keys and ids order the rows of
one entity, and the limit cuts the rows once more. ``rrf`` plans the match twice, once per arm; an arm of ``nearest``
takes the best ``limit``, one of ``bm25`` all.

Where a match begins changes nothing in its rows, ranking and walks of two hops or more apart. Who knows how many nodes
a scan finds may therefore ``weigh`` the bindings; the lightest is scanned first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from omnigraph.language.query.plan.match_planner import EstimateScan, PendingRanking, plan_match
from omnigraph.language.query.plan.operators import (
    ByRank,
    Count,
    Fuse,
    Group,
    Limit,
    MatchPlan,
    Project,
    ReadPlan,
    Sort,
)
from omnigraph.language.query.typed import (
    Aggregate,
    ColumnValue,
    Distance,
    Expression,
    FusedScore,
    RankingExpression,
    ResultColumn,
    TextScore,
    TypedRead,
)


def plan_read(query: TypedRead, weigh: EstimateScan | None = None) -> ReadPlan:
    """The plan of a read; the same query and weights always give the same plan."""
    if any(isinstance(column.expression, Aggregate) for column in query.columns):
        return _grouped(query, weigh)
    return _projected(query, weigh)


# ------------------------------------------------------------------------------------------------ result


def _grouped(query: TypedRead, weigh: EstimateScan | None) -> ReadPlan:
    plan: Group | Sort = Group(plan_match(query.clauses, weigh=weigh), query.columns)
    if query.order:
        plan = Sort(plan, query.order, tie_break=())
    return plan if query.limit is None else Limit(plan, query.limit)


def _projected(query: TypedRead, weigh: EstimateScan | None) -> Project:
    keys = tuple(replace(key, expression=_without_aliases(key.expression, query.columns)) for key in query.order)
    ranking = keys[0].expression if keys and isinstance(keys[0].expression, RankingExpression) else None
    matched = plan_match(query.clauses, weigh=weigh) if ranking is None else _ranked(query, ranking)
    plan: MatchPlan | Sort | Limit = matched
    if ranking is not None:
        plan = Sort(matched, (ByRank(), *keys[1:]), _tie_break(query))
    elif keys:
        plan = Sort(matched, keys, _tie_break(query))
    if query.limit is not None:
        plan = Limit(plan, query.limit)
    return Project(plan, query.columns)


def _without_aliases(expression: Expression, columns: Iterable[ResultColumn]) -> Expression:
    if isinstance(expression, ColumnValue):
        return next(column.expression for column in columns if column.name == expression.name)
    return expression


def _tie_break(query: TypedRead) -> tuple[str, ...]:
    """Every named variable of the match, by name."""
    return tuple(sorted(query.variables))


# ------------------------------------------------------------------------------------------------ ranking


def _ranked(query: TypedRead, ranking: RankingExpression) -> MatchPlan:
    if not isinstance(ranking, FusedScore):
        return plan_match(query.clauses, PendingRanking(ranking, query.limit))
    return Fuse(
        first=plan_match(query.clauses, _arm(ranking.first, query.limit)),
        second=plan_match(query.clauses, _arm(ranking.second, query.limit)),
        variable=_ranked_variable(ranking),
        k=ranking.k,
        limit=query.limit,
    )


def _arm(ranking: Distance | TextScore, limit: Count | None) -> PendingRanking:
    return PendingRanking(ranking, limit if isinstance(ranking, Distance) else None)


def _ranked_variable(ranking: RankingExpression) -> str:
    return _ranked_variable(ranking.first) if isinstance(ranking, FusedScore) else ranking.target.variable
