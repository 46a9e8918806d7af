"""Which variables of a match each operator still needs, so that frames can drop the others as early as possible."""

from __future__ import annotations

from typing import TypeAlias

from omnigraph.derived_values import keep_derived
from omnigraph.language.query import Aggregate, AggregateFunction, Expression, Identity, Predicate
from omnigraph.language.query.plan import (
    Connect,
    ConnectEdges,
    Cross,
    Expand,
    ExpandEdges,
    Fuse,
    Mark,
    MatchPlan,
    NodeScan,
    Optional,
    Outer,
    ReadPlan,
    Select,
    Sort,
    TopRanked,
    Union,
    With,
    Without,
    expressions_of,
    variables_bound_by,
    variables_of,
    variables_used_by,
    walk_plan,
)
from omnigraph.lazy_dataclass import dataclass

Variables: TypeAlias = frozenset[str]
Leaf: TypeAlias = NodeScan | Outer | Fuse
StepPlan: TypeAlias = (
    Expand | ExpandEdges | Connect | ConnectEdges | Cross | Select | With | Without | Mark | Optional | TopRanked
)


@dataclass(frozen=True, slots=True)
class SpineStep:
    """One operator above the leaf, and the variables that operators above it need."""

    plan: StepPlan
    needed: Variables


@dataclass(frozen=True, slots=True)
class MatchSpine:
    """A match as its leaf and the operators above it, lowest first. A long match is a deep plan, but a flat spine."""

    leaf: Leaf
    needed: Variables
    steps: tuple[SpineStep, ...]
    is_leaf_proven: bool
    """Whether the first step follows an edge from each row of the leaf: an edge ends only at nodes that exist."""


def build_spine(plan: MatchPlan, needed: Variables) -> MatchSpine:
    """Return the spine of a match of whose result some variables are needed."""
    known = _find_spines(plan)
    if needed not in known:
        known[needed] = _build_spine(plan, needed)
    return known[needed]


@keep_derived(256)
def _find_spines(plan: MatchPlan) -> dict[Variables, MatchSpine]:
    """Return the spines of a match that were built so far, by the variables that are needed."""
    del plan
    return {}


def _build_spine(plan: MatchPlan, needed: Variables) -> MatchSpine:
    steps: list[SpineStep] = []
    while not isinstance(plan, Leaf):
        steps.append(SpineStep(plan, needed))
        needed |= variables_used_by(plan)
        plan = plan.left if isinstance(plan, Cross) else plan.input
    return MatchSpine(plan, needed, tuple(reversed(steps)), bool(steps) and _follows_edge(steps[-1].plan, plan))


def _follows_edge(step: StepPlan, leaf: Leaf) -> bool:
    if not isinstance(leaf, NodeScan) or not isinstance(step, Expand | ExpandEdges):
        return False
    return step.source == leaf.variable and (isinstance(step, ExpandEdges) or step.minimum > 0)


def all_bound_variables(plan: MatchPlan) -> Variables:
    """The variables that a match binds."""
    return frozenset[str]().union(*map(variables_bound_by, walk_plan(plan, into_blocks=False)))


@keep_derived(256)
def needed_variables(plan: ReadPlan) -> Variables:
    """The variables of its match that the result part of a plan needs."""
    needed: Variables = frozenset()
    below: ReadPlan | MatchPlan = plan
    while isinstance(below, ReadPlan):
        assert not isinstance(below, Union), "what stands above a union reads columns"
        needed |= _needed_by_operator(below)
        below = below.input
    return needed


def _needed_by_operator(plan: ReadPlan) -> Variables:
    # An entity that is always bound is never null: counting it is counting rows, so the entity itself is not needed.
    parts = (part for part in expressions_of(plan) if not _counts_rows(part))
    ties = plan.tie_break if isinstance(plan, Sort) else ()
    return frozenset(ties).union(*map(variables_of, parts))


def _counts_rows(part: Expression | Predicate) -> bool:
    match part:
        case Aggregate(AggregateFunction.COUNT, Identity(), distinct=False):
            return not part.argument.type.nullable
        case _:
            return False
