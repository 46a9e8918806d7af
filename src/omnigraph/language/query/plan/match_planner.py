"""From the clauses of a match to its plan.

Bindings come first, then traversals, then filters, then negations, whatever the text order. The first binding of
a part of the pattern is scanned, the rest of the part is reached from there by its traversals; a part without a
binding starts at the left end of its first traversal. A traversal is taken as soon as one of its ends is bound, in
text order, but one with both ends bound goes first, because it only makes rows fewer. Parts that no traversal
connects are crossed: those with bindings in order of declaration, then the others. A condition is applied where the
last of its variables gets bound: inside the scan or expansion when that variable is its only one, as a selection
otherwise.

With weights the lightest variable of a part that has a binding or a condition is scanned instead of the first, unless
the match has a walk of two hops or more at least: from its other end such a walk may find other loops.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import TypeAlias

from omnigraph.language.query.plan.operators import (
    Connect,
    ConnectEdges,
    Count,
    Cross,
    Expand,
    ExpandEdges,
    MatchPlan,
    NodeScan,
    Outer,
    Select,
    TopRanked,
    Without,
)
from omnigraph.language.query.plan.visitor import variables_of
from omnigraph.language.query.typed import (
    Clause,
    Distance,
    Predicate,
    TextScore,
    TraversalDirection,
    TypedBinding,
    TypedNegation,
    TypedTraversal,
)

EstimateScan: TypeAlias = Callable[[NodeScan], float]
"""How many nodes a scan is thought to find."""

_REVERSED = {
    TraversalDirection.OUT: TraversalDirection.IN,
    TraversalDirection.IN: TraversalDirection.OUT,
    TraversalDirection.BOTH: TraversalDirection.BOTH,
}


@dataclass(frozen=True, slots=True)
class PendingRanking:
    """A ranking of one variable that has no place in the plan yet."""

    ranking: Distance | TextScore
    limit: Count | None

    def of(self, plan: MatchPlan) -> TopRanked:
        """The ranking, right above a plan."""
        return TopRanked(plan, self.ranking, self.limit)


def plan_match(
    clauses: tuple[Clause, ...],
    top: PendingRanking | None = None,
    outer: tuple[str, ...] = (),
    weigh: EstimateScan | None = None,
) -> MatchPlan:
    """The plan of one clause list. With ``outer`` variables it is the inside of a negation."""
    pattern = _MatchPattern(clauses, top, weigh)
    plan = pattern.reach(Outer(outer), set(outer)) if outer else None
    for variable, node_type in pattern.starts():
        bound = {variable}
        part = pattern.reach(pattern.scan(variable, node_type), bound)
        plan = part if plan is None else pattern.select(Cross(plan, part), pattern.bound, bound)
    if plan is None:
        plan = pattern.reach(Outer(()), set())
    for negation in pattern.negations:
        inner = plan_match(negation.clauses, outer=negation.outer, weigh=weigh)
        plan = Without(plan, inner, negation.outer)
    return plan if pattern.top is None else pattern.top.of(plan)


class _MatchPattern:
    """A clause list on its way to a plan: what has found its place there leaves it.

    Traversals and predicates are numbered in text order and found by their variables, so that planning takes
    time in proportion to the length of the match.
    """

    def __init__(self, clauses: tuple[Clause, ...], top: PendingRanking | None, weigh: EstimateScan | None) -> None:
        self.top = top
        self.bound: set[str] = set()
        self.negations = [clause for clause in clauses if isinstance(clause, TypedNegation)]
        self._bindings = [clause for clause in clauses if isinstance(clause, TypedBinding)]
        self._traversals = dict(enumerate(clause for clause in clauses if isinstance(clause, TypedTraversal)))
        in_braces = [predicate for binding in self._bindings for predicate in binding.predicates]
        standing_alone = [clause for clause in clauses if isinstance(clause, Predicate)]
        self._predicates: dict[int, Predicate] = dict(enumerate([*in_braces, *standing_alone]))
        self._variables = {number: variables_of(predicate) for number, predicate in self._predicates.items()}
        self._traversals_at = _by_name((n, _ends(traversal)) for n, traversal in self._traversals.items())
        self._predicates_on = _by_name(self._variables.items())
        self._constant = [number for number, names in self._variables.items() if not names]
        if weigh is not None and not any(traversal.minimum > 1 for traversal in self._traversals.values()):
            self._bindings += self._reached_with_conditions()
            self._bindings.sort(key=lambda binding: weigh(self._scan_of(binding)))

    def starts(self) -> Iterator[tuple[str, str]]:
        """Variables to scan, with their types: each time the first that nothing in the plan has reached."""
        for binding in self._bindings:
            if binding.variable not in self.bound:
                yield binding.variable, binding.node_type
        for traversal in tuple(self._traversals.values()):
            if traversal.source not in self.bound:
                yield traversal.source, traversal.source_type

    def scan(self, variable: str, node_type: str) -> MatchPlan:
        """The start of a part, ranked if this is the ranked variable."""
        plan = NodeScan(variable, node_type, self._take_own(variable))
        if self.top is None or self.top.ranking.target.variable != variable:
            return plan
        ranked, self.top = self.top.of(plan), None
        return ranked

    def _reached_with_conditions(self) -> list[TypedBinding]:
        """Ends of traversals that a match could begin at as well as at a binding."""
        ends = [
            end
            for traversal in self._traversals.values()
            for end in (
                (traversal.source, traversal.source_type),
                (traversal.destination, traversal.destination_type),
            )
        ]
        declared = {binding.variable for binding in self._bindings}
        return [
            TypedBinding(name, type_, ())
            for name, type_ in dict(ends).items()
            if name not in declared and self._own(name)
        ]

    def _scan_of(self, binding: TypedBinding) -> NodeScan:
        return NodeScan(
            binding.variable, binding.node_type, tuple(self._predicates[n] for n in self._own(binding.variable))
        )

    def reach(self, plan: MatchPlan, bound: set[str]) -> MatchPlan:
        """Follow every traversal that leads on from the ``bound`` variables of a plan; the set grows with it."""
        queue: list[tuple[bool, int]] = []
        fresh: Set[str] = frozenset(bound)
        while True:
            plan = self.select(plan, bound, fresh)
            for number in (number for name in fresh for number in self._traversals_at[name]):
                if number in self._traversals:
                    closes = _closes(self._traversals[number], bound)
                    heappush(queue, (not closes, number))
            traversal = self._take_next(queue)
            if traversal is None:
                break
            plan = self._step(plan, traversal, bound)
            fresh = _ends(traversal) - bound
            bound |= fresh
        self.bound |= bound
        return plan

    def select(self, plan: MatchPlan, bound: Set[str], fresh: Iterable[str]) -> MatchPlan:
        """Apply every condition whose variables are all bound since the ``fresh`` ones are."""
        candidates = {number for name in fresh for number in self._predicates_on[name]}.union(self._constant)
        for number in sorted(candidates & self._predicates.keys()):
            if self._variables[number] <= bound:
                plan = Select(plan, self._predicates.pop(number))
        return plan

    def _take_next(self, queue: list[tuple[bool, int]]) -> TypedTraversal | None:
        while queue:
            _, number = heappop(queue)
            if number in self._traversals:
                return self._traversals.pop(number)
        return None

    def _take_own(self, variable: str) -> tuple[Predicate, ...]:
        return tuple(self._predicates.pop(number) for number in self._own(variable))

    def _own(self, variable: str) -> list[int]:
        """The conditions that speak of one variable alone and have no place yet."""
        numbers = self._predicates_on[variable]
        return [number for number in numbers if len(self._variables[number]) == 1 and number in self._predicates]

    def _step(self, plan: MatchPlan, traversal: TypedTraversal, bound: set[str]) -> MatchPlan:
        if traversal.source not in bound:
            traversal = _reversed(traversal)
        if traversal.destination in bound:
            return self._connect(plan, traversal)
        return self._expand(plan, traversal)

    def _connect(self, plan: MatchPlan, traversal: TypedTraversal) -> MatchPlan:
        source, edge_type, direction = traversal.source, traversal.edge_type, traversal.direction
        if traversal.edge_variable is None:
            minimum, maximum = _hops(traversal)
            return Connect(plan, source, edge_type, direction, traversal.destination, minimum, maximum)
        edge_predicates = self._take_own(traversal.edge_variable)
        return ConnectEdges(
            plan, source, edge_type, direction, traversal.edge_variable, edge_predicates, traversal.destination
        )

    def _expand(self, plan: MatchPlan, traversal: TypedTraversal) -> MatchPlan:
        minimum, maximum = _hops(traversal)
        predicates = self._take_own(traversal.destination)
        if traversal.edge_variable is None:
            return Expand(
                plan,
                traversal.source,
                traversal.edge_type,
                traversal.direction,
                traversal.destination,
                traversal.destination_type,
                minimum,
                maximum,
                predicates,
            )
        return ExpandEdges(
            plan,
            traversal.source,
            traversal.edge_type,
            traversal.direction,
            traversal.edge_variable,
            self._take_own(traversal.edge_variable),
            traversal.destination,
            traversal.destination_type,
            predicates,
        )


def _by_name(named: Iterable[tuple[int, Iterable[str]]]) -> defaultdict[str, list[int]]:
    numbers = defaultdict[str, list[int]](list)
    for number, names in named:
        for name in names:
            numbers[name].append(number)
    return numbers


def _ends(traversal: TypedTraversal) -> set[str]:
    """The variables that are bound after a traversal."""
    ends = {traversal.source, traversal.destination}
    return ends if traversal.edge_variable is None else ends | {traversal.edge_variable}


def _closes(traversal: TypedTraversal, bound: Set[str]) -> bool:
    return traversal.source in bound and traversal.destination in bound


def _reversed(traversal: TypedTraversal) -> TypedTraversal:
    return replace(
        traversal,
        source=traversal.destination,
        source_type=traversal.destination_type,
        direction=_REVERSED[traversal.direction],
        destination=traversal.source,
        destination_type=traversal.source_type,
    )


def _hops(traversal: TypedTraversal) -> tuple[int, int]:
    same_type = traversal.source_type == traversal.destination_type
    return traversal.minimum, traversal.maximum if same_type else 1
