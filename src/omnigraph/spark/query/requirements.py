"""What a plan looks at, so that no other column is read and no other word searched."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from omnigraph.language.query import (
    Distance,
    Expression,
    FusedScore,
    Predicate,
    PropertyValue,
    TextMatch,
    TextScore,
)
from omnigraph.language.query.plan import (
    Fuse,
    MatchPlan,
    PlanOperator,
    ReadPlan,
    Without,
    expressions_of,
    operands_of,
    walk_plan,
)
from omnigraph.language.types import Scalar
from omnigraph.read.search import Search, rankings_of
from omnigraph.spark.query.match_rows import Attribute, Fusion, RankNumber, Slot

RequiredAttributes: TypeAlias = Mapping[str, Iterable[Attribute]]
"""The traits that are looked at, by variable."""


def find_required_attributes(plan: MatchPlan | ReadPlan, search: Search) -> RequiredAttributes:
    """What a plan needs of each variable that it binds, or that its leaf brings."""
    # In the order in which they are found, so that the same query always makes the same frames.
    needs = defaultdict[str, dict[Attribute, None]](dict)
    for variable, trait in _required_slots(plan, search):
        needs[variable][trait] = None
    return needs


def fusion_of(score: FusedScore, search: Search) -> Fusion:
    """What ``rrf`` means."""
    return Fusion(score.first, score.second, search.resolve_rank_constant(score.k))


def _required_slots(plan: PlanOperator, search: Search) -> Iterator[Slot]:
    operators = list(walk_plan(plan, into_negations=False))
    made = {fusion_of_plan(each, search) for each in operators if isinstance(each, Fuse)}
    for each in operators:
        for part in expressions_of(each):
            # What the result is ordered by comes with its rows.
            if not (isinstance(part, FusedScore) and fusion_of(part, search) in made):
                yield from traits_of(part)
        if isinstance(each, Without):
            # Other variables of the inner plan are its own, whatever their names.
            yield from (slot for slot in _required_slots(each.inner, search) if slot[0] in each.outer)


def fusion_of_plan(plan: Fuse, search: Search) -> Fusion:
    """What a fusion orders by."""
    return Fusion(*rankings_of(plan), search.resolve_rank_constant(plan.k))


def traits_of(part: Expression | Predicate) -> Iterator[Slot]:
    """What an expression or a predicate looks at."""
    match part:
        case PropertyValue():
            yield part.variable, part.name
        case TextMatch() | TextScore():
            yield part.target.variable, part
        case FusedScore():
            yield from ((each.target.variable, RankNumber(each)) for each in (part.first, part.second))
        case _:
            for operand in operands_of(part):
                yield from traits_of(operand)
    if isinstance(part, Distance) and part.query.type.scalar is Scalar.STRING:
        yield part.target.variable, part
