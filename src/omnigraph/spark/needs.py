"""Which properties a plan looks at, so that no other column is read; and what of it Spark does not answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from omnigraph.errors import Unsupported
from omnigraph.language.query.columns import column_name
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
from omnigraph.language.query.typed import (
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
from omnigraph.language.types import Scalar
from omnigraph.read.expressions import Searched
from omnigraph.spark.bindings import Slot

Needs: TypeAlias = Mapping[str, Iterable[str]]
"""The properties that are looked at, by variable."""

_ELSEWHERE: Final = "ask it without Spark, with graph.query"


def needs_of(plan: MatchPlan | ReadPlan) -> Needs:
    """What a plan needs of each variable that it binds, or that its leaf brings; refuses what Spark cannot answer."""
    # In the order in which they are found, so that the same query always makes the same frames.
    needs = defaultdict[str, dict[str, None]](dict)
    for variable, name in _slots(plan):
        needs[variable][name] = None
    return needs


def _slots(plan: Plan) -> Iterator[Slot]:
    waiting = [plan]
    while waiting:
        plan = waiting.pop()
        if isinstance(plan, Fuse):
            raise Unsupported("rrf is not answered on Spark: it numbers all that two rankings find", hint=_ELSEWHERE)
        for part in _parts(plan):
            yield from _properties(part)
        if isinstance(plan, Without):
            waiting.append(plan.input)
            # Other variables of the inner plan are its own, whatever their names.
            yield from (slot for slot in _slots(plan.inner) if slot[0] in plan.outer)
        else:
            waiting += inputs_of(plan)


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


def _properties(part: Expression | Predicate) -> Iterator[Slot]:
    match part:
        case PropertyValue():
            yield part.variable, part.name
        case Compare():
            yield from _properties(part.left)
            yield from _properties(part.right)
        case IsNull():
            yield from _properties(part.operand)
        case Aggregate():
            yield from _properties(part.argument)
        case Distance() if part.query.type.scalar is not Scalar.STRING:
            yield from _properties(part.target)
        case Distance():
            raise _refused(part, "the text would have to be embedded first", "give the vector instead of the text")
        case TextMatch():
            raise _refused(part, "words are looked up in a text index, which the tasks of Spark do not share")
        case TextScore() | FusedScore():
            raise _refused(part, "a score compares one text with all others, by a text index of all of them")
        case _:
            pass


def _refused(part: Searched, why: str, hint: str = _ELSEWHERE) -> Unsupported:
    return Unsupported(f"{column_name(part)} is not answered on Spark: {why}", hint=hint)
