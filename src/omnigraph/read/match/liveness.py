"""What is still needed of the rows of a match at each step, so that everything else can be let go at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from omnigraph.language.query import Aggregate, AggregateFunction, Column, Expression, Identity
from omnigraph.language.query.plan import (
    ByRank,
    Connect,
    ConnectEdges,
    Cross,
    Expand,
    ExpandEdges,
    Fuse,
    Group,
    Limit,
    MatchPlan,
    Outer,
    Project,
    Scan,
    Select,
    Sort,
    TopRanked,
    Without,
    variables_of,
)

Variables: TypeAlias = frozenset[str]
Leaf: TypeAlias = Scan | Outer | Fuse
StepPlan: TypeAlias = Expand | ExpandEdges | Connect | ConnectEdges | Cross | Select | Without | TopRanked


@dataclass(frozen=True, slots=True)
class Step:
    """One operator above the leaf, and the variables that something above it asks for."""

    plan: StepPlan
    needed: Variables


@dataclass(frozen=True, slots=True)
class Spine:
    """A match as its leaf and the operators above it, lowest first. A long match is deep: nothing here recurses."""

    leaf: Leaf
    needed: Variables
    steps: tuple[Step, ...]


def spine_of(plan: MatchPlan, needed: Variables) -> Spine:
    """The steps of a match whose result is asked for some variables."""
    steps: list[Step] = []
    while not isinstance(plan, Leaf):
        steps.append(Step(plan, needed))
        needed |= _used(plan)
        plan = plan.left if isinstance(plan, Cross) else plan.input
    return Spine(plan, needed, tuple(reversed(steps)))


def _used(plan: StepPlan) -> Variables:
    match plan:
        case Expand() | ExpandEdges():
            return frozenset({plan.source})
        case Connect() | ConnectEdges():
            return frozenset({plan.source, plan.destination})
        case Select():
            return variables_of(plan.predicate)
        case Without():
            return frozenset(plan.outer)
        case TopRanked():
            return frozenset({plan.ranking.target.variable})
        case Cross():
            return frozenset()


def bound_by(plan: MatchPlan) -> Variables:
    """The variables that a match binds."""
    bound: set[str] = set()
    waiting = [plan]
    while waiting:
        plan = waiting.pop()
        bound |= _binds(plan)
        match plan:
            case Scan() | Outer():
                pass
            case Cross():
                waiting += [plan.left, plan.right]
            case Fuse():
                waiting.append(plan.first)
            case _:
                waiting.append(plan.input)
    return frozenset(bound)


def _binds(plan: MatchPlan) -> set[str]:
    match plan:
        case Scan():
            return {plan.variable}
        case Outer():
            return set(plan.variables)
        case Expand():
            return {plan.destination}
        case ExpandEdges():
            return {plan.edge_variable, plan.destination}
        case ConnectEdges():
            return {plan.edge_variable}
        case _:
            return set()


def needed_by(plan: Project | Group | Sort | Limit) -> Variables:
    """The variables that the result part of a plan asks of its match."""
    needed: Variables = frozenset()
    below: Project | Group | Sort | Limit | MatchPlan = plan
    while isinstance(below, Project | Group | Sort | Limit):
        needed |= _asked(below)
        below = below.input
    return needed


def _asked(plan: Project | Group | Sort | Limit) -> Variables:
    match plan:
        case Project() | Group():
            return _of_columns(plan.columns)
        case Sort():
            keys = (variables_of(key.expression) for key in plan.keys if not isinstance(key, ByRank))
            return frozenset(plan.tie_break).union(*keys)
        case Limit():
            return frozenset()


def _of_columns(columns: Iterable[Column]) -> Variables:
    return frozenset[str]().union(*(_of_value(column.expression) for column in columns))


def _of_value(expression: Expression) -> Variables:
    match expression:
        case Aggregate(AggregateFunction.COUNT, Identity(), distinct=False):
            # An entity that is bound is never null: counting it is counting rows.
            return frozenset()
        case _:
            return variables_of(expression)
