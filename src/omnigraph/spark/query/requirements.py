"""Find the attributes that a plan uses, so that no other columns are read and no other searches run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from omnigraph.language.query import (
    Distance,
    EndIdentity,
    Expression,
    FusedScore,
    PathFunction,
    PathValue,
    Predicate,
    PropertyValue,
    TextMatch,
    TextScore,
)
from omnigraph.language.query.plan import (
    Connect,
    ConnectEdges,
    Expand,
    ExpandEdges,
    Fuse,
    Mark,
    MatchPlan,
    NodeScan,
    Optional,
    PlanOperator,
    ReadPlan,
    Sort,
    With,
    Without,
    expressions_of,
    operands_of,
    walk_plan,
)
from omnigraph.language.types import Scalar
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import to_condition
from omnigraph.read.search import Search, rankings_of
from omnigraph.spark.query.match_rows import ID, Attribute, Fusion, RankNumber, Slot

RequiredAttributes: TypeAlias = Mapping[str, Iterable[Attribute]]
"""The attributes that are used, by variable."""


def find_required_attributes(plan: MatchPlan | ReadPlan, context: QueryContext) -> RequiredAttributes:
    """Return the attributes that a plan uses of each variable that it binds or gets from its leaf.

    What only a condition of a scan uses is left out: the storage decides it, and its columns are not read.
    """
    # In the order of discovery, so that the same query always builds the same DataFrames.
    required = defaultdict[str, dict[Attribute, None]](dict)
    for variable, attribute in _required_slots(plan, context):
        required[variable][attribute] = None
    return required


def fusion_of(score: FusedScore, search: Search) -> Fusion:
    """The fusion that an ``rrf`` expression stands for."""
    return Fusion(score.arms, search.resolve_rank_constant(score.k))


def _required_slots(plan: PlanOperator, context: QueryContext) -> Iterator[Slot]:
    search = context.search
    operators = list(walk_plan(plan, into_blocks=False))
    fused = {fusion_of_plan(each, search) for each in operators if isinstance(each, Fuse)}
    for each in operators:
        for part in _list_evaluated(each, context):
            # The score that the result is ordered by comes with its rows.
            if not (isinstance(part, FusedScore) and fusion_of(part, search) in fused):
                yield from slots_of(part)
        if isinstance(each, Sort):
            # Paths break ties by their nodes; the ids of entities are there anyway.
            yield from ((variable, ID) for variable in each.tie_break if variable in _paths_of(each))
        if isinstance(each, With | Without | Mark | Optional):
            # Other variables of the inner plan are local to it, even if they share a name with an outer one.
            yield from (slot for slot in _required_slots(each.inner, context) if slot[0] in each.outer)


def _paths_of(plan: PlanOperator) -> set[str]:
    return {each.path for each in walk_plan(plan) if isinstance(each, Expand | Connect) and each.path is not None}


def _list_evaluated(operator: PlanOperator, context: QueryContext) -> Iterator[Expression | Predicate]:
    """Yield the expressions and predicates of an operator that Spark evaluates, and not the storage."""
    match operator:
        case NodeScan():
            scanned = [(operator.variable, operator.predicates)]
        case Expand():
            scanned = [(operator.destination, operator.predicates)]
        case ExpandEdges():
            scanned = [
                (operator.destination, operator.predicates),
                (operator.edge_variable, operator.edge_predicates),
            ]
        case ConnectEdges():
            scanned = [(operator.edge_variable, operator.edge_predicates)]
        case _:
            scanned = []
    pushed = {
        id(predicate)
        for variable, predicates in scanned
        for predicate in predicates
        if to_condition(predicate, variable, context.evaluation) is not None
    }
    return (part for part in expressions_of(operator) if id(part) not in pushed)


def fusion_of_plan(plan: Fuse, search: Search) -> Fusion:
    """The fusion that a plan operator orders by."""
    return Fusion(rankings_of(plan), search.resolve_rank_constant(plan.k))


def slots_of(part: Expression | Predicate) -> Iterator[Slot]:
    """Yield the slots that an expression or a predicate reads."""
    match part:
        case PropertyValue():
            yield part.variable, part.name
        case EndIdentity():
            yield part.variable, part.end
        case PathValue():
            yield part.variable, PathFunction.EDGES if part.function is PathFunction.EDGES else ID
        case TextMatch() | TextScore():
            yield part.target.variable, part
        case FusedScore():
            yield from ((each.target.variable, RankNumber(each)) for each in part.arms)
        case _:
            for operand in operands_of(part):
                yield from slots_of(operand)
    if isinstance(part, Distance) and part.query.type.scalar is Scalar.STRING:
        yield part.target.variable, part
