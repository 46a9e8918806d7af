"""What a plan looks at, so that no other column is read and no other word searched."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from omnigraph.language.query import (
    Aggregate,
    Compare,
    Distance,
    Expression,
    FusedScore,
    IsNull,
    Predicate,
    PropertyValue,
    TextMatch,
    TextScore,
)
from omnigraph.language.query.plan import (
    ByRank,
    ConnectEdges,
    Expand,
    ExpandEdges,
    Fuse,
    Group,
    MatchPlan,
    Plan,
    Project,
    ReadPlan,
    Scan,
    Select,
    Sort,
    TopRanked,
    Without,
    inputs_of,
)
from omnigraph.language.types import Scalar
from omnigraph.read.search import Search, fused_rankings
from omnigraph.spark.query.bindings import Fusion, Numbered, Slot, Trait

Needs: TypeAlias = Mapping[str, Iterable[Trait]]
"""The traits that are looked at, by variable."""


def needs_of(plan: MatchPlan | ReadPlan, search: Search) -> Needs:
    """What a plan needs of each variable that it binds, or that its leaf brings."""
    # In the order in which they are found, so that the same query always makes the same frames.
    needs = defaultdict[str, dict[Trait, None]](dict)
    for variable, trait in _slots(plan, search):
        needs[variable][trait] = None
    return needs


def fusion_of(score: FusedScore, search: Search) -> Fusion:
    """What ``rrf`` means."""
    return Fusion(score.first, score.second, search.rank_constant(score.k))


def _slots(plan: Plan, search: Search) -> Iterator[Slot]:
    operators = list(_operators(plan))
    made = {fusion_made(each, search) for each in operators if isinstance(each, Fuse)}
    for each in operators:
        for part in _parts(each):
            # What the result is ordered by comes with its rows.
            if not (isinstance(part, FusedScore) and fusion_of(part, search) in made):
                yield from traits_of(part)
        if isinstance(each, Without):
            # Other variables of the inner plan are its own, whatever their names.
            yield from (slot for slot in _slots(each.inner, search) if slot[0] in each.outer)


def fusion_made(plan: Fuse, search: Search) -> Fusion:
    """What a fusion orders by."""
    return Fusion(*fused_rankings(plan), search.rank_constant(plan.k))


def _operators(plan: Plan) -> Iterator[Plan]:
    """The operators of a plan, without those inside of its negations."""
    waiting = [plan]
    while waiting:
        plan = waiting.pop()
        yield plan
        waiting += [plan.input] if isinstance(plan, Without) else inputs_of(plan)


def _parts(plan: Plan) -> Iterable[Expression | Predicate]:
    match plan:
        case Scan() | Expand():
            return plan.predicates
        case ExpandEdges():
            return (*plan.edge_predicates, *plan.predicates)
        case ConnectEdges():
            return plan.edge_predicates
        case Select():
            return (plan.predicate,)
        case TopRanked():
            return (plan.ranking,)
        case Group() | Project():
            return [column.expression for column in plan.columns]
        case Sort():
            return [key.expression for key in plan.keys if not isinstance(key, ByRank)]
        case _:
            return ()


def traits_of(part: Expression | Predicate) -> Iterator[Slot]:
    """What an expression or a predicate looks at."""
    match part:
        case PropertyValue():
            yield part.variable, part.name
        case Compare():
            yield from traits_of(part.left)
            yield from traits_of(part.right)
        case IsNull():
            yield from traits_of(part.operand)
        case Aggregate():
            yield from traits_of(part.argument)
        case Distance():
            yield from traits_of(part.target)
            if part.query.type.scalar is Scalar.STRING:
                yield part.target.variable, part
        case TextMatch() | TextScore():
            yield part.target.variable, part
        case FusedScore():
            yield from ((each.target.variable, Numbered(each)) for each in (part.first, part.second))
        case _:
            pass
