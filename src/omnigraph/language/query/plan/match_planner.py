"""Plan the clauses of a match.

The order is: bindings, traversals, conditions, blocks, whatever the text order. Each connected part of the pattern
starts with a scan of its first binding, or of the left end of its first traversal if it has no binding. Traversals
follow as soon as one end is bound, in text order; one with both ends bound goes first, because it only removes rows.
Parts that no traversal connects are crossed: those with bindings in order of declaration, then the others. A condition
is applied where the last of its variables gets bound: inside the scan or expansion if it has only that variable, else
as a selection. A condition with a block inside it comes last, as a selection over the marks of its blocks. Optional
blocks follow, and then the conditions and blocks that speak of their variables.

With an estimate of scans, a part starts at the variable with the fewest nodes among those with a binding or a
condition. A walk of several hops to an end that is about one node is planned between two bound ends: that end is
scanned as well, and the walk begins there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import replace
from heapq import heappop, heappush
from typing import TypeAlias

from omnigraph.language.query.plan.marks import MarkNames, blocks_of, name_marks, replace_blocks
from omnigraph.language.query.plan.operators import (
    Connect,
    ConnectEdges,
    Count,
    Cross,
    Expand,
    ExpandEdges,
    Mark,
    MatchPlan,
    NodeScan,
    Optional,
    Outer,
    Select,
    TopRanked,
    WalkEnd,
    With,
    Without,
)
from omnigraph.language.query.plan.visitor import has_block, variables_of
from omnigraph.language.query.typed_tree import (
    Block,
    Clause,
    Distance,
    EdgeStep,
    Predicate,
    TextScore,
    TraversalDirection,
    TypedBinding,
    TypedExistence,
    TypedOptional,
    TypedTraversal,
)
from omnigraph.lazy_dataclass import dataclass

EstimateScan: TypeAlias = Callable[[NodeScan], float]
"""Estimates how many nodes a scan finds."""

_REVERSED = {
    TraversalDirection.OUT: TraversalDirection.IN,
    TraversalDirection.IN: TraversalDirection.OUT,
    TraversalDirection.BOTH: TraversalDirection.BOTH,
}
_OTHER_END = {WalkEnd.SOURCE: WalkEnd.DESTINATION, WalkEnd.DESTINATION: WalkEnd.SOURCE}
_ABOUT_ONE = 1.5
"""A scan that is estimated to find no more nodes than this looks one up."""


@dataclass(frozen=True, slots=True)
class PendingRanking:
    """A ranking of one variable that is not in the plan yet."""

    ranking: Distance | TextScore
    limit: Count | None
    skip: Count | None = None

    def place_above(self, plan: MatchPlan) -> TopRanked:
        """Return the plan with the ranking on top."""
        return TopRanked(plan, self.ranking, self.limit, self.skip)


def plan_match(
    clauses: tuple[Clause, ...],
    ranking: PendingRanking | None = None,
    outer: tuple[str, ...] = (),
    estimate: EstimateScan | None = None,
) -> MatchPlan:
    """Plan a list of clauses. With ``outer`` variables they are the inside of a block."""
    pattern = _MatchPattern(clauses, ranking, estimate)
    plan = pattern.follow_traversals(Outer(outer), set(outer)) if outer else None
    for variable, node_type in pattern.find_starts():
        bound = {variable}
        part = pattern.follow_traversals(pattern.plan_scan(variable, node_type), bound)
        plan = part if plan is None else pattern.apply_conditions(Cross(plan, part), pattern.bound, bound)
    if plan is None:
        plan = pattern.follow_traversals(Outer(()), set())
    names = name_marks([*pattern.early.marked, *pattern.late.marked], variables_in(clauses) | set(outer))
    plan = _apply_tests(plan, pattern.early, names, estimate)
    for optional in pattern.optionals:
        inner = plan_match(optional.clauses, outer=optional.outer, estimate=estimate)
        # Anonymous variables among them: each match is a row, whether something reads it or not.
        bound = variables_in(optional.clauses) - set(optional.outer)
        plan = Optional(plan, inner, optional.outer, tuple(sorted(bound)))
    plan = _apply_tests(plan, pattern.late, names, estimate)
    return plan if pattern.pending is None else pattern.pending.place_above(plan)


def _apply_tests(plan: MatchPlan, tests: _Tests, names: MarkNames, estimate: EstimateScan | None) -> MatchPlan:
    for condition in tests.plain:
        plan = Select(plan, condition)
    for block in tests.blocks:
        kind = With if isinstance(block, TypedExistence) else Without
        plan = kind(plan, plan_block(block, estimate), block.outer)
    used = frozenset(blocks_of(tests.marked))
    plan = place_marks(plan, {block: name for block, name in names.items() if block in used}, estimate)
    for condition in tests.marked:
        plan = Select(plan, replace_blocks(condition, names))
    return plan


@dataclass(frozen=True, slots=True)
class _Tests:
    """Conditions that are applied to whole rows of a match: plain ones, blocks, and conditions with blocks inside."""

    plain: list[Predicate]
    blocks: list[Block]
    marked: list[Predicate]


def plan_block(block: Block, estimate: EstimateScan | None) -> MatchPlan:
    """Plan the inside of a block."""
    return plan_match(block.clauses, outer=block.outer, estimate=estimate)


def place_marks(plan: MatchPlan, names: MarkNames, estimate: EstimateScan | None) -> MatchPlan:
    """Add an operator for each mark."""
    for block, name in names.items():
        plan = Mark(plan, plan_block(block, estimate), block.outer, name)
    return plan


def variables_in(clauses: Iterable[Clause]) -> set[str]:
    """The variables that some clauses bind, those inside blocks left out."""
    bound: set[str] = set()
    for clause in clauses:
        if isinstance(clause, TypedBinding):
            bound.add(clause.variable)
        elif isinstance(clause, TypedTraversal):
            bound |= _variables_bound_after(clause)
        elif isinstance(clause, TypedOptional):
            bound.update(clause.variables)
    return bound


class _MatchPattern:
    """The clauses that are not in the plan yet; placing one removes it.

    Traversals and predicates are numbered in text order and indexed by variable, so planning time grows linearly with
    the length of the match.
    """

    def __init__(
        self, clauses: tuple[Clause, ...], pending: PendingRanking | None, estimate: EstimateScan | None
    ) -> None:
        self.pending = pending
        self.bound: set[str] = set()
        self.optionals = [clause for clause in clauses if isinstance(clause, TypedOptional)]
        absent = frozenset(name for optional in self.optionals for name in optional.variables)
        tests = [clause for clause in clauses if isinstance(clause, Predicate)]
        late = [test for test in tests if not absent.isdisjoint(variables_of(test))]
        early = [test for test in tests if absent.isdisjoint(variables_of(test))]
        self.late = _sort_tests(late)
        # Plain conditions are applied as soon as their variables are bound, the others at the end.
        standing_alone = _sort_tests(early).plain
        self.early = replace(_sort_tests(early), plain=[])
        self._bindings = [clause for clause in clauses if isinstance(clause, TypedBinding)]
        self._traversals = dict(enumerate(clause for clause in clauses if isinstance(clause, TypedTraversal)))
        in_braces = [predicate for binding in self._bindings for predicate in binding.predicates]
        self._predicates: dict[int, Predicate] = dict(enumerate([*in_braces, *standing_alone]))
        self._variables = {number: variables_of(predicate) for number, predicate in self._predicates.items()}
        self._traversals_at = _index_by_name(
            (n, _variables_bound_after(traversal)) for n, traversal in self._traversals.items()
        )
        self._predicates_on = _index_by_name(self._variables.items())
        self._constant_predicates = [number for number, names in self._variables.items() if not names]
        self._estimate = estimate
        if estimate is not None:
            self._bindings += self._find_other_starts()
            self._bindings.sort(key=lambda binding: estimate(self._build_scan(binding)))

    def find_starts(self) -> Iterator[tuple[str, str]]:
        """Yield the variables to scan, with their types: each time the first that the plan has not bound."""
        for binding in self._bindings:
            if binding.variable not in self.bound:
                yield binding.variable, binding.node_type
        for traversal in tuple(self._traversals.values()):
            if traversal.source not in self.bound:
                yield traversal.source, traversal.source_type

    def plan_scan(self, variable: str, node_type: str) -> MatchPlan:
        """Plan the scan that starts a part, with the ranking on top if it ranks this variable."""
        plan = NodeScan(variable, node_type, self._take_own_conditions(variable))
        if self.pending is None or self.pending.ranking.target.variable != variable:
            return plan
        ranked, self.pending = self.pending.place_above(plan), None
        return ranked

    def _find_other_starts(self) -> list[TypedBinding]:
        """Return the ends of traversals that have conditions: a match can start there as well as at a binding."""
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
            if name not in declared and self._own_conditions(name)
        ]

    def _build_scan(self, binding: TypedBinding) -> NodeScan:
        return NodeScan(
            binding.variable,
            binding.node_type,
            tuple(self._predicates[n] for n in self._own_conditions(binding.variable)),
        )

    def follow_traversals(self, plan: MatchPlan, bound: set[str]) -> MatchPlan:
        """Add every traversal that the ``bound`` variables of a plan lead to; new variables are added to the set."""
        queue: list[tuple[bool, int]] = []
        fresh: Set[str] = frozenset(bound)
        while True:
            plan = self.apply_conditions(plan, bound, fresh)
            for number in (number for name in fresh for number in self._traversals_at[name]):
                if number in self._traversals:
                    closes = _is_closing(self._traversals[number], bound)
                    heappush(queue, (not closes, number))
            traversal = self._take_next(queue)
            if traversal is None:
                break
            plan = self._plan_step(plan, traversal, bound)
            fresh = _variables_bound_after(traversal) - bound
            bound |= fresh
        self.bound |= bound
        return plan

    def apply_conditions(self, plan: MatchPlan, bound: Set[str], fresh: Iterable[str]) -> MatchPlan:
        """Add every condition on ``fresh`` variables whose variables are all bound now."""
        candidates = {number for name in fresh for number in self._predicates_on[name]}.union(self._constant_predicates)
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

    def _take_own_conditions(self, variable: str) -> tuple[Predicate, ...]:
        return tuple(self._predicates.pop(number) for number in self._own_conditions(variable))

    def _own_conditions(self, variable: str) -> list[int]:
        """The numbers of the unplaced conditions on this variable alone."""
        numbers = self._predicates_on[variable]
        return [number for number in numbers if len(self._variables[number]) == 1 and number in self._predicates]

    def _plan_step(self, plan: MatchPlan, traversal: TypedTraversal, bound: set[str]) -> MatchPlan:
        written_left = WalkEnd.SOURCE
        if traversal.source not in bound:
            traversal, written_left = _reverse(traversal), WalkEnd.DESTINATION
        if traversal.destination in bound:
            return self._plan_connect(plan, traversal, written_left)
        if self._leads_to_one_node(traversal):
            scan = self.plan_scan(traversal.destination, traversal.destination_type)
            return self._plan_connect(Cross(plan, scan), _reverse(traversal), _OTHER_END[written_left])
        return self._plan_expand(plan, traversal, written_left)

    def _leads_to_one_node(self, traversal: TypedTraversal) -> bool:
        """Whether a walk of several hops has an end, not bound yet, that a scan finds at once."""
        if self._estimate is None or _hop_range(traversal)[1] == 1:
            return False
        scan = self._build_scan(TypedBinding(traversal.destination, traversal.destination_type, ()))
        return bool(scan.predicates) and self._estimate(scan) <= _ABOUT_ONE

    def _plan_connect(self, plan: MatchPlan, traversal: TypedTraversal, written_left: WalkEnd) -> MatchPlan:
        source, destination = traversal.source, traversal.destination
        if traversal.edge_variable is None:
            bounds = _hop_range(traversal)
            return Connect(plan, source, traversal.steps, destination, *bounds, written_left, traversal.path)
        (step,) = traversal.steps
        edge_predicates = self._take_own_conditions(traversal.edge_variable)
        return ConnectEdges(
            plan, source, step.edge_type, step.direction, traversal.edge_variable, edge_predicates, destination
        )

    def _plan_expand(self, plan: MatchPlan, traversal: TypedTraversal, written_left: WalkEnd) -> MatchPlan:
        minimum, maximum = _hop_range(traversal)
        predicates = self._take_own_conditions(traversal.destination)
        if traversal.edge_variable is None:
            return Expand(
                plan,
                traversal.source,
                traversal.steps,
                traversal.destination,
                traversal.destination_type,
                minimum,
                maximum,
                predicates,
                written_left,
                traversal.path,
            )
        (step,) = traversal.steps
        return ExpandEdges(
            plan,
            traversal.source,
            step.edge_type,
            step.direction,
            traversal.edge_variable,
            self._take_own_conditions(traversal.edge_variable),
            traversal.destination,
            traversal.destination_type,
            predicates,
        )


def _sort_tests(tests: Iterable[Predicate]) -> _Tests:
    blocks = [test for test in tests if isinstance(test, Block)]
    conditions: list[Predicate] = [test for test in tests if not isinstance(test, Block)]
    plain = [condition for condition in conditions if not has_block(condition)]
    return _Tests(plain, blocks, [condition for condition in conditions if has_block(condition)])


def _index_by_name(named: Iterable[tuple[int, Iterable[str]]]) -> defaultdict[str, list[int]]:
    numbers = defaultdict[str, list[int]](list)
    for number, names in named:
        for name in names:
            numbers[name].append(number)
    return numbers


def _variables_bound_after(traversal: TypedTraversal) -> set[str]:
    """The variables that are bound after a traversal."""
    bound = (traversal.source, traversal.destination, traversal.edge_variable, traversal.path)
    return {name for name in bound if name is not None}


def _is_closing(traversal: TypedTraversal, bound: Set[str]) -> bool:
    return traversal.source in bound and traversal.destination in bound


def _reverse(traversal: TypedTraversal) -> TypedTraversal:
    return replace(
        traversal,
        source=traversal.destination,
        source_type=traversal.destination_type,
        steps=tuple(EdgeStep(step.edge_type, _REVERSED[step.direction]) for step in traversal.steps),
        destination=traversal.source,
        destination_type=traversal.source_type,
    )


def _hop_range(traversal: TypedTraversal) -> tuple[int, int | None]:
    same_type = traversal.source_type == traversal.destination_type
    return traversal.minimum, traversal.maximum if same_type else 1
