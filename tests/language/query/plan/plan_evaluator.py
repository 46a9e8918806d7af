"""Run a logical plan over a few nodes in the plainest way: the docstrings of ``plan/operators.py`` as code.

It is here to show that plans mean what the language says; no executor shares a line with it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import dist
from typing import Any, TypeAlias, cast

from omnigraph.language.query.ast import AggregateFunction, ComparisonOperator
from omnigraph.language.query.plan.operators import (
    BranchPlan,
    ByRank,
    Connect,
    ConnectEdges,
    Cross,
    Expand,
    ExpandEdges,
    Fuse,
    Group,
    Keep,
    Limit,
    Mark,
    MatchPlan,
    NodeScan,
    Optional,
    Outer,
    Project,
    ReadPlan,
    Select,
    Sort,
    TopRanked,
    TopRows,
    Union,
    WalkEnd,
    With,
    Without,
)
from omnigraph.language.query.typed_tree import (
    Aggregate,
    And,
    Arithmetic,
    Call,
    Choose,
    ColumnValue,
    Compare,
    Constant,
    Distance,
    EdgeStep,
    EndIdentity,
    Expression,
    Identity,
    IsNull,
    Marked,
    Not,
    Now,
    Or,
    ParameterValue,
    PathValue,
    Predicate,
    PropertyValue,
    TextMatch,
    TextScore,
    TraversalDirection,
    Truth,
    TypedOrderKey,
    TypeName,
)
from omnigraph.read.result import result_columns_of
from tests.model.value_model import calculated, called, met, of_bound

Value: TypeAlias = Any  # values of a test graph: whatever the property holds
RANK = "rank"


@dataclass(frozen=True, slots=True)
class Entity:
    """A node, or an edge with its ends."""

    id: str
    properties: Mapping[str, Value]
    source: str = ""
    destination: str = ""

    def __hash__(self) -> int:
        return hash(self.id)


@dataclass(frozen=True, slots=True, order=True)
class Path:
    """The ids on a path, from left to right."""

    nodes: tuple[str, ...]
    edges: tuple[str, ...]

    @property
    def id(self) -> tuple[str, ...]:
        return self.nodes


Row: TypeAlias = Mapping[str, Any]  # entities and paths by variable, and the rank where there is one
Nodes: TypeAlias = Mapping[str, Mapping[str, Entity]]
Edges: TypeAlias = Mapping[str, tuple[Entity, ...]]


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes by type and id, edges by type, and the values of parameters."""

    nodes: Nodes
    edges: Edges
    parameters: Mapping[str, Value]


# ------------------------------------------------------------------------------------------------ result


def run(plan: ReadPlan, graph: Graph) -> list[dict[str, Value]]:
    """The result rows of a plan."""
    match plan:
        case Project():
            rows = _column_rows(plan, graph) if _reads_columns(plan) else _rows(plan.input, graph)
            return [{column.name: value(column.expression, row, graph) for column in plan.columns} for row in rows]
        case Group():
            return _groups(plan, graph)
        case Keep():
            return [row for row in run(plan.input, graph) if holds(plan.predicate, row, graph)]
        case Sort():
            assert isinstance(plan.input, Group | Keep | Union)
            made = run(plan.input, graph)
            made.sort(key=lambda row: [_nulls_first(each) for each in row.values()])
            return cast("list[dict[str, Value]]", _sorted(plan, made, graph))
        case Limit():
            assert isinstance(plan.input, Group | Keep | Sort | Union)
            return run(plan.input, graph)[_shown(plan, graph)]
        case TopRows():
            return run(plan.input, graph)[: _total(plan, graph)]
        case Union():
            return [row for branch in plan.branches for row in _converted(branch, plan, graph)]


def _converted(branch: BranchPlan, plan: Union, graph: Graph) -> Iterator[dict[str, Value]]:
    given = [column.expression.type for column in result_columns_of(branch)]
    for row in run(branch, graph):
        assert [*row] == [column.name for column in plan.columns]
        yield {each.name: met(row[each.name], of, each.type) for each, of in zip(plan.columns, given, strict=True)}


def _reads_columns(plan: Project) -> bool:
    below = plan.input
    while isinstance(below, Limit | Sort | TopRows):
        below = below.input
    return isinstance(below, Union)


def _column_rows(plan: Project, graph: Graph) -> list[Row]:
    assert isinstance(plan.input, Sort | Limit | TopRows | Union)
    return [*run(plan.input, graph)]


def _shown(plan: Limit, graph: Graph) -> slice:
    skip = 0 if plan.skip is None else value(plan.skip, {}, graph)
    return slice(skip, None if plan.count is None else skip + value(plan.count, {}, graph))


def _rows(plan: MatchPlan | Sort | Limit | TopRows | Union, graph: Graph) -> list[Row]:
    match plan:
        case Limit():
            assert not isinstance(plan.input, Group | Keep)
            return _rows(plan.input, graph)[_shown(plan, graph)]
        case TopRows():
            return _rows(plan.input, graph)[: _total(plan, graph)]
        case Union():
            raise AssertionError("a projection over a union reads columns")
        case Sort():
            assert not isinstance(plan.input, Group | Keep)
            return _sorted(plan, _rows(plan.input, graph), graph)
        case _:
            return list(match_rows(plan, graph))


def _sorted(plan: Sort, rows: Iterable[Row], graph: Graph) -> list[Row]:
    ordered = sorted(rows, key=lambda row: [row[variable].id for variable in plan.tie_break])
    for key in reversed(plan.keys):
        ordered.sort(key=_sort_key(key, graph), reverse=isinstance(key, TypedOrderKey) and key.descending)
    return ordered


def _sort_key(key: TypedOrderKey | ByRank, graph: Graph) -> Callable[[Row], Value]:
    if isinstance(key, ByRank):
        return lambda row: row[RANK]
    return lambda row: _nulls_first(value(key.expression, row, graph))


def _nulls_first(found: Value) -> tuple[bool, Value]:
    return (found is not None, found if found is not None else 0)


def _groups(plan: Group, graph: Graph) -> list[dict[str, Value]]:
    groups: dict[tuple[Value, ...], list[Row]] = defaultdict(list)
    for row in run(plan.input, graph) if isinstance(plan.input, Union) else match_rows(plan.input, graph):
        groups[tuple(value(key.expression, row, graph) for key in plan.keys)].append(row)
    if not plan.keys and not groups:
        groups[()] = []
    return [
        {
            column.name: _aggregate(column.expression, rows, graph)
            if isinstance(column.expression, Aggregate)
            else value(column.expression, rows[0], graph)
            for column in plan.columns
        }
        for rows in groups.values()
    ]


def _aggregate(aggregate: Aggregate, rows: list[Row], graph: Graph) -> Value:
    found = [value(aggregate.argument, row, graph) for row in rows]
    values = [one for one in found if one is not None]
    if aggregate.distinct:
        values = list(dict.fromkeys(values))
    if aggregate.function is AggregateFunction.COUNT:
        return len(values)
    if aggregate.function is AggregateFunction.COLLECT:
        return tuple(sorted(values))
    if not values:
        return None
    match aggregate.function:
        case AggregateFunction.SUM:
            return float(sum(values))
        case AggregateFunction.AVG:
            return sum(values) / len(values)
        case AggregateFunction.MIN:
            return min(values)
        case AggregateFunction.MAX:
            return max(values)


# ------------------------------------------------------------------------------------------------ match


def match_rows(plan: MatchPlan, graph: Graph, outer: Row | None = None) -> Iterator[Row]:
    """The rows of a match; ``outer`` is the row that a block is asked about."""
    match plan:
        case NodeScan():
            rows = ({plan.variable: node} for node in graph.nodes[plan.node_type].values())
            yield from (row for row in rows if _all_hold(plan.predicates, row, graph))
        case Outer():
            yield {variable: (outer or {})[variable] for variable in plan.variables}
        case Cross():
            right = list(match_rows(plan.right, graph, outer))
            yield from ({**one, **other} for one in match_rows(plan.left, graph, outer) for other in right)
        case Select():
            yield from (row for row in match_rows(plan.input, graph, outer) if holds(plan.predicate, row, graph))
        case With() | Without() | Mark():
            yield from _tested_rows(plan, graph, outer)
        case Optional():
            yield from _optional_rows(plan, graph, outer)
        case TopRanked():
            yield from _top_ranked(plan, list(match_rows(plan.input, graph, outer)), graph)
        case Fuse():
            yield from _fused(plan, graph)
        case _:
            for row in match_rows(plan.input, graph, outer):
                if row[plan.source] is not None:
                    yield from _steps(plan, row, graph)


def _tested_rows(plan: With | Without | Mark, graph: Graph, outer: Row | None) -> Iterator[Row]:
    for row in match_rows(plan.input, graph, outer):
        fixed = {variable: row[variable] for variable in plan.outer}
        found = next(match_rows(plan.inner, graph, fixed), None) is not None
        if isinstance(plan, Mark):
            yield {**row, plan.name: found}
        elif found is isinstance(plan, With):
            yield row


def _optional_rows(plan: Optional, graph: Graph, outer: Row | None) -> Iterator[Row]:
    for row in match_rows(plan.input, graph, outer):
        found = match_rows(plan.inner, graph, {variable: row[variable] for variable in plan.outer})
        matches = [{name: each[name] for name in plan.variables} for each in found]
        yield from ({**row, **each} for each in matches or [dict.fromkeys(plan.variables)])


def _steps(plan: Expand | ExpandEdges | Connect | ConnectEdges, row: Row, graph: Graph) -> Iterator[Row]:
    source = row[plan.source].id
    match plan:
        case Expand():
            for found in sorted(walk(graph, plan.steps, source, _bounds(plan))):
                node = graph.nodes[plan.destination_type][found]
                extended = {**row, plan.destination: node, **_paths(graph, plan, source, found)}
                if _all_hold(plan.predicates, extended, graph):
                    yield extended
        case Connect():
            end = row[plan.destination].id
            if end in walk(graph, plan.steps, source, _bounds(plan)):
                yield {**row, **_paths(graph, plan, source, end)}
        case ExpandEdges():
            for edge, end in incident(graph, plan.edge_type, plan.direction, source):
                node = graph.nodes[plan.destination_type][end]
                extended = {**row, plan.edge_variable: edge, plan.destination: node}
                if _all_hold((*plan.edge_predicates, *plan.predicates), extended, graph):
                    yield extended
        case ConnectEdges():
            for edge, end in incident(graph, plan.edge_type, plan.direction, source):
                extended = {**row, plan.edge_variable: edge}
                if end == row[plan.destination].id and _all_hold(plan.edge_predicates, extended, graph):
                    yield extended


def incident(graph: Graph, edge_type: str, direction: TraversalDirection, node: str) -> Iterator[tuple[Entity, str]]:
    """The edges at a node, each with its other end; a loop once."""
    for edge in graph.edges[edge_type]:
        if edge.source == node and direction is not TraversalDirection.IN:
            yield edge, edge.destination
        elif edge.destination == node and direction is not TraversalDirection.OUT:
            yield edge, edge.source


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a walk goes, and whether it goes backwards, from its right end."""

    minimum: int
    maximum: int | None
    backwards: bool = False


def _bounds(plan: Expand | Connect) -> Bounds:
    return Bounds(plan.minimum, plan.maximum, backwards=plan.written_left is WalkEnd.DESTINATION)


def walk(graph: Graph, steps: Iterable[EdgeStep], source: str, bounds: Bounds) -> frozenset[str]:
    """The nodes at so many hops; one hop nearer is enough if the right end has an edge to itself."""
    least, most = bounds.minimum, bounds.maximum
    if least == most == 1:
        # Between two types the node at the other end may have the id of the source.
        return frozenset(_neighbours(graph, steps, source))
    if most is not None and least > most:
        return frozenset()
    found: set[str] = set()
    for node, hops in _distances(graph, steps, source).items():
        right = source if bounds.backwards else node
        nearest = least - 1 if right in _neighbours(graph, steps, right) else least
        if nearest <= hops and (most is None or hops <= most):
            found.add(node)
    return frozenset(found)


def _neighbours(graph: Graph, steps: Iterable[EdgeStep], node: str) -> set[str]:
    return {end for step in steps for _, end in incident(graph, step.edge_type, step.direction, node)}


def _distances(graph: Graph, steps: Iterable[EdgeStep], source: str) -> dict[str, int]:
    distances, frontier, hop = {source: 0}, {source}, 0
    while frontier:
        hop += 1
        frontier = set[str]().union(*(_neighbours(graph, steps, node) for node in frontier)) - distances.keys()
        distances |= dict.fromkeys(frontier, hop)
    return distances


def _paths(graph: Graph, plan: Expand | Connect, source: str, destination: str) -> dict[str, Path]:
    return {} if plan.path is None else {plan.path: smallest_path(graph, plan, source, destination)}


def smallest_path(graph: Graph, plan: Expand | Connect, source: str, destination: str) -> Path:
    """The smallest path from left to right, hop by hop: of all ways to a node the smallest is kept."""
    backwards = plan.written_left is WalkEnd.DESTINATION
    if plan.minimum == plan.maximum == 1:
        edge = min(edge for edge, end in _hops_from(graph, plan.steps, source) if end == destination)
        return Path((destination, source) if backwards else (source, destination), (edge,))
    best = {source: Path((source,), ())}
    found = dict(best)
    while destination not in found:
        ahead: dict[str, Path] = {}
        for node, way in best.items():
            for edge, end in _hops_from(graph, plan.steps, node):
                nodes = (end, *way.nodes) if backwards else (*way.nodes, end)
                longer = Path(nodes, (edge, *way.edges) if backwards else (*way.edges, edge))
                if end not in found:
                    ahead[end] = min(ahead.get(end, longer), longer)
        found |= ahead
        best = ahead
    path = found[destination]
    if len(path.edges) >= plan.minimum:
        return path
    right = path.nodes[-1]
    loop = min(edge for edge, end in _hops_from(graph, plan.steps, right) if end == right)
    return Path((*path.nodes, right), (*path.edges, loop))


def _hops_from(graph: Graph, steps: Iterable[EdgeStep], node: str) -> list[tuple[str, str]]:
    return [(edge.id, end) for step in steps for edge, end in incident(graph, step.edge_type, step.direction, node)]


def _top_ranked(plan: TopRanked, rows: list[Row], graph: Graph) -> Iterator[Row]:
    variable = plan.ranking.target.variable
    scores = {row[variable].id: value(plan.ranking, row, graph) for row in rows}
    sign = 1 if isinstance(plan.ranking, Distance) else -1
    best = sorted((sign * score, entity) for entity, score in scores.items() if score is not None)
    ranks = {entity: rank for rank, (_, entity) in enumerate(best[: _total(plan, graph)])}
    yield from ({**row, RANK: ranks[row[variable].id]} for row in rows if row[variable].id in ranks)


def _fused(plan: Fuse, graph: Graph) -> Iterator[Row]:
    arms = [list(match_rows(arm, graph)) for arm in plan.arms]
    numbers = [_numbered(arm, plan.variable) for arm in arms]
    k = value(plan.k, {}, graph)

    def order(entity: str) -> tuple[float, ...]:
        places = [arm.get(entity, float("inf")) for arm in numbers]
        return (-sum(1 / (k + place + 1) for place in places), *places)

    best = sorted(set[str]().union(*numbers), key=order)[: _total(plan, graph)]
    for rank, entity in enumerate(best):
        rows = next(arm for arm, known in zip(arms, numbers, strict=True) if entity in known)
        yield from ({**row, RANK: rank} for row in rows if row[plan.variable].id == entity)


def _numbered(rows: list[Row], variable: str) -> dict[str, int]:
    ordered = sorted((row[RANK], row[variable].id) for row in rows)
    return {entity: number for number, entity in enumerate(dict.fromkeys(entity for _, entity in ordered))}


def _total(plan: TopRanked | Fuse | TopRows, graph: Graph) -> int | None:
    counts = [value(count, {}, graph) for count in (plan.limit, plan.skip) if count is not None]
    return None if plan.limit is None else sum(counts)


# ------------------------------------------------------------------------------------------------ expressions


def value(expression: Expression, row: Row, graph: Graph) -> Value:
    """What an expression is in a row. A text score counts the words that occur."""
    match expression:
        case Constant():
            return expression.value
        case ParameterValue():
            return graph.parameters[expression.name]
        case PropertyValue() | Identity() | EndIdentity() | TypeName() | PathValue():
            return of_bound(expression, row[expression.variable])
        case ColumnValue():
            return row[expression.name]
        case Distance():
            vector = value(expression.target, row, graph)
            return None if vector is None else dist(vector, value(expression.query, row, graph))
        case TextScore() | TextMatch():
            words = value(expression.query, row, graph).lower().split()
            text = (value(expression.target, row, graph) or "").lower().split()
            score = sum(word in text for word in words) or None
            return score is not None if isinstance(expression, TextMatch) else score
        case Now():
            return 0
        case Truth():
            return truth(expression.predicate, row, graph)
        case _:
            return _computed(expression, row, graph)


def _computed(expression: Expression, row: Row, graph: Graph) -> Value:
    match expression:
        case Arithmetic():
            return calculated(expression, [value(operand, row, graph) for operand in expression.operands])
        case Call():
            return called(expression, [value(argument, row, graph) for argument in expression.arguments])
        case Choose():
            arms = zip(expression.conditions, expression.values, strict=True)
            chosen = next((found for condition, found in arms if holds(condition, row, graph)), expression.otherwise)
            return None if chosen is None else met(value(chosen, row, graph), chosen.type, expression.type)
        case _:
            raise NotImplementedError(type(expression).__name__)


def holds(predicate: Predicate, row: Row, graph: Graph) -> bool:
    """Whether a predicate is true; unknown is not."""
    return truth(predicate, row, graph) is True


def truth(predicate: Predicate, row: Row, graph: Graph) -> bool | None:
    """Whether a predicate is true, false or unknown."""
    match predicate:
        case IsNull():
            return (value(predicate.operand, row, graph) is None) is not predicate.negated
        case TextMatch():
            return bool(value(predicate, row, graph))
        case Compare():
            left, right = value(predicate.left, row, graph), value(predicate.right, row, graph)
            if left is None or right is None:
                return None
            return _COMPARISONS[predicate.operator](left, right)
        case Not():
            found = truth(predicate.part, row, graph)
            return None if found is None else not found
        case And():
            parts = [truth(part, row, graph) for part in predicate.parts]
            return False if False in parts else None if None in parts else True
        case Or():
            parts = [truth(part, row, graph) for part in predicate.parts]
            return True if True in parts else None if None in parts else False
        case Marked():
            return row[predicate.name]
        case _:
            raise NotImplementedError(type(predicate).__name__)


_COMPARISONS: Mapping[ComparisonOperator, Callable[[Value, Value], bool]] = {
    ComparisonOperator.EQUAL: lambda left, right: left == right,
    ComparisonOperator.NOT_EQUAL: lambda left, right: left != right,
    ComparisonOperator.LESS: lambda left, right: left < right,
    ComparisonOperator.LESS_OR_EQUAL: lambda left, right: left <= right,
    ComparisonOperator.GREATER: lambda left, right: left > right,
    ComparisonOperator.GREATER_OR_EQUAL: lambda left, right: left >= right,
    ComparisonOperator.CONTAINS: lambda left, right: right in left,
    ComparisonOperator.STARTS_WITH: lambda left, right: left.startswith(right),
    ComparisonOperator.ENDS_WITH: lambda left, right: left.endswith(right),
    # The patterns of tests mean the same to Python and to RE2.
    ComparisonOperator.MATCHES: lambda left, right: re.search(right, left) is not None,
}


def _all_hold(predicates: Iterable[Predicate], row: Row, graph: Graph) -> bool:
    return all(holds(predicate, row, graph) for predicate in predicates)
