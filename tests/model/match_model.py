"""What a match finds, from the meaning of the language alone: loops over bindings, and no plan.

A match is every assignment of its variables that satisfies every clause. An anonymous end is a variable like any other,
an edge variable ranges over edges, and a traversal is a condition on its two ends: it is walked from the left one. So
nothing here depends on an order of clauses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import dist
from typing import Any, TypeAlias

from omnigraph.language.query.ast import ComparisonOperator
from omnigraph.language.query.typed_tree import (
    And,
    Arithmetic,
    Call,
    Choose,
    Clause,
    ColumnValue,
    Compare,
    Constant,
    Distance,
    EdgeStep,
    EndIdentity,
    Expression,
    Identity,
    IsNull,
    Not,
    Now,
    Or,
    ParameterValue,
    PathValue,
    Predicate,
    PropertyValue,
    TextMatch,
    TraversalDirection,
    Truth,
    TypedBinding,
    TypedExistence,
    TypedNegation,
    TypedOptional,
    TypedTraversal,
    TypeName,
)
from omnigraph.language.values import ConstantValue
from tests.model.value_model import calculated, called, met, of_bound

Value: TypeAlias = Any  # what a property holds: None, or a value of its type that compares with its like


@dataclass(frozen=True, slots=True)
class Entity:
    """A node, or an edge with its ends."""

    id: str
    properties: Mapping[str, ConstantValue]
    source: str = ""
    destination: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Path:
    """The ids on a path, from left to right."""

    nodes: tuple[str, ...]
    edges: tuple[str, ...]


Row: TypeAlias = Mapping[str, Any]  # entities and paths by variable, None for one that is absent
RESULT = ""
"""Stands for a row of the result, whose properties are its columns."""
_Walk: TypeAlias = tuple[tuple[EdgeStep, ...], str, int, int | None]


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes by type and id, and edges by type and id."""

    nodes: Mapping[str, Mapping[str, Entity]]
    edges: Mapping[str, Mapping[str, Entity]]
    walks: dict[_Walk, frozenset[str]] = field(default_factory=dict[_Walk, frozenset[str]], repr=False)


@dataclass(frozen=True, slots=True)
class Asked:
    """A graph, and what is the same for all rows: the parameters and the time."""

    graph: Graph
    parameters: Mapping[str, ConstantValue]
    now_ms: int


# ------------------------------------------------------------------------------------------------ match


def solutions(clauses: Sequence[Clause], asked: Asked, fixed: Row) -> Iterator[Row]:
    """Every assignment of the variables that satisfies every clause; ``fixed`` ones are given.

    An absent variable of an optional block has no entity. Optional blocks come after everything that needs none of
    their variables.
    """
    optionals = [clause for clause in clauses if isinstance(clause, TypedOptional)]
    if optionals:
        absent = {name for optional in optionals for name in optional.variables}
        others = [clause for clause in clauses if not isinstance(clause, TypedOptional)]
        rows: Iterable[Row] = solutions([each for each in others if not names_in(each) & absent], asked, fixed)
        for optional in optionals:
            rows = [extended for row in rows for extended in _extended(row, optional, asked)]
        late = [each for each in others if names_in(each) & absent]
        yield from (row for row in rows if all(_satisfied(clause, row, asked) for clause in late))
        return
    walks = [clause for clause in clauses if isinstance(clause, TypedTraversal) and clause.path is not None]
    if walks:
        named = {walk.path for walk in walks}
        plain = [replace(each, path=None) if isinstance(each, TypedTraversal) else each for each in clauses]
        late = [each for each in plain if names_in(each) & named]
        for row in solutions([each for each in plain if not names_in(each) & named], asked, fixed):
            extended = {**row, **{walk.path: _smallest_path(walk, row, asked.graph) for walk in walks if walk.path}}
            if all(_satisfied(clause, extended, asked) for clause in late):
                yield extended
        return
    choices: dict[str, Iterable[Entity]] = {}
    for clause in clauses:
        for name, found in _choices(clause, asked.graph).items():
            if name not in fixed:
                choices.setdefault(name, found)
    levels = [set(fixed)]
    for name in choices:
        levels.append({*levels[-1], name})
    # A clause is looked at as soon as all of its variables are chosen.
    at_level: list[list[Clause]] = [[] for _ in levels]
    for clause in clauses:
        at_level[next(n for n, known in enumerate(levels) if names_in(clause) <= known)].append(clause)
    yield from _chosen(fixed, list(choices.items()), at_level, asked)


def _extended(row: Row, optional: TypedOptional, asked: Asked) -> list[Row]:
    fixed = {name: row[name] for name in optional.outer}
    named = [{name: found[name] for name in optional.variables} for found in solutions(optional.clauses, asked, fixed)]
    return [{**row, **each} for each in named or [dict.fromkeys(optional.variables)]]


def _chosen(
    row: Row, left: list[tuple[str, Iterable[Entity]]], at_level: list[list[Clause]], asked: Asked
) -> Iterator[Row]:
    if not all(_satisfied(clause, row, asked) for clause in at_level[0]):
        return
    if not left:
        yield row
        return
    (name, found), *rest = left
    for entity in found:
        yield from _chosen({**row, name: entity}, rest, at_level[1:], asked)


def _choices(clause: Clause, graph: Graph) -> Mapping[str, Iterable[Entity]]:
    match clause:
        case TypedBinding():
            return {clause.variable: graph.nodes[clause.node_type].values()}
        case TypedTraversal():
            ends = {
                clause.source: graph.nodes[clause.source_type].values(),
                clause.destination: graph.nodes[clause.destination_type].values(),
            }
            edge = clause.edge_variable
            return ends if edge is None else {**ends, edge: graph.edges[clause.steps[0].edge_type].values()}
        case _:
            return {}


def names_in(part: Clause | Expression) -> set[str]:
    """The variables that a clause or an expression speaks of."""
    match part:
        case TypedBinding():
            return {part.variable}
        case TypedTraversal():
            bound = (part.source, part.destination, part.edge_variable, part.path)
            return {name for name in bound if name is not None}
        case TypedNegation() | TypedExistence():
            return set(part.outer)
        case TypedOptional():
            return {*part.outer, *part.variables}
        case And() | Or():
            return set[str]().union(*map(names_in, part.parts))
        case Not():
            return names_in(part.part)
        case Truth():
            return names_in(part.predicate)
        case Compare():
            return names_in(part.left) | names_in(part.right)
        case IsNull():
            return names_in(part.operand)
        case TextMatch() | Distance():
            return names_in(part.target)
        case PropertyValue() | Identity() | EndIdentity() | TypeName() | PathValue():
            return {part.variable}
        case _:
            return (
                set[str]().union(*map(names_in, parts_of(part)))
                if isinstance(part, Arithmetic | Call | Choose)
                else set()
            )


def _satisfied(clause: Clause, row: Row, asked: Asked) -> bool:
    match clause:
        case TypedBinding():
            return all(_satisfied(predicate, row, asked) for predicate in clause.predicates)
        case TypedTraversal():
            return _leads(clause, row, asked.graph)
        case TypedOptional():
            return True
        case _:
            return truth_of(clause, row, asked) is True


def truth_of(predicate: Predicate, row: Row, asked: Asked) -> bool | None:
    """True, false or unknown, by the tables of Kleene."""
    match predicate:
        case TypedNegation() | TypedExistence():
            fixed = {name: row[name] for name in predicate.outer}
            found = next(solutions(predicate.clauses, asked, fixed), None) is not None
            return found is isinstance(predicate, TypedExistence)
        case IsNull():
            return (value_of(predicate.operand, row, asked) is None) is not predicate.negated
        case TextMatch():
            return bool(value_of(predicate, row, asked))
        case Compare():
            left, right = value_of(predicate.left, row, asked), value_of(predicate.right, row, asked)
            return None if left is None or right is None else _COMPARISONS[predicate.operator](left, right)
        case Not():
            inner = truth_of(predicate.part, row, asked)
            return None if inner is None else not inner
        case And() | Or():
            decisive = isinstance(predicate, Or)
            parts = [truth_of(part, row, asked) for part in predicate.parts]
            return decisive if decisive in parts else None if None in parts else not decisive
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


def value_of(expression: Expression, row: Row, asked: Asked) -> Value:
    match expression:
        case Constant():
            return expression.value
        case ParameterValue():
            return asked.parameters[expression.name]
        case Now():
            return asked.now_ms
        case PropertyValue() | Identity() | EndIdentity() | TypeName() | PathValue():
            return of_bound(expression, row[expression.variable])
        case ColumnValue():
            return row[RESULT].properties[expression.name]
        case Distance():
            vector, to = value_of(expression.target, row, asked), value_of(expression.query, row, asked)
            return None if vector is None or to is None else dist(vector, to)
        case TextMatch():
            text, words = value_of(expression.target, row, asked), value_of(expression.query, row, asked)
            # Words of one stem, or none at all, are for others to test.
            return (
                text is not None
                and words is not None
                and not set(text.lower().split()).isdisjoint(words.lower().split())
            )
        case Truth():
            return truth_of(expression.predicate, row, asked)
        case _:
            return _computed(expression, row, asked)


def evaluated(expression: Expression, row: Row, asked: Asked) -> Value:
    """The value of an expression in a row of a match."""
    return value_of(expression, row, asked)


def _computed(expression: Expression, row: Row, asked: Asked) -> Value:
    match expression:
        case Arithmetic():
            return calculated(expression, [value_of(operand, row, asked) for operand in expression.operands])
        case Call():
            return called(expression, [value_of(argument, row, asked) for argument in expression.arguments])
        case Choose():
            arms = zip(expression.conditions, expression.values, strict=True)
            true = (value for condition, value in arms if truth_of(condition, row, asked) is True)
            chosen = next(true, expression.otherwise)
            return None if chosen is None else met(value_of(chosen, row, asked), chosen.type, expression.type)
        case _:
            raise NotImplementedError(type(expression).__name__)


# ------------------------------------------------------------------------------------------------ traversal


def _leads(step: TypedTraversal, row: Row, graph: Graph) -> bool:
    if row[step.source] is None or row[step.destination] is None:
        return False
    source, destination = row[step.source].id, row[step.destination].id
    if step.edge_variable is not None:
        edge = row[step.edge_variable]
        along = (edge.source, edge.destination) == (source, destination)
        against = (edge.destination, edge.source) == (source, destination)
        return {
            TraversalDirection.OUT: along,
            TraversalDirection.IN: against,
            TraversalDirection.BOTH: along or against,
        }[step.steps[0].direction]
    if step.source_type != step.destination_type:
        # Between two types a walk ends after its first step.
        return step.minimum == 1 and destination in _neighbours(graph, step.steps, source)
    walk = (step.steps, source, step.minimum, step.maximum)
    if walk not in graph.walks:
        graph.walks[walk] = _reached(graph, *walk)
    return destination in graph.walks[walk]


def _neighbours(graph: Graph, steps: Iterable[EdgeStep], node: str) -> set[str]:
    found: set[str] = set()
    for step in steps:
        edges = graph.edges[step.edge_type].values()
        if step.direction is not TraversalDirection.IN:
            found |= {edge.destination for edge in edges if edge.source == node}
        if step.direction is not TraversalDirection.OUT:
            found |= {edge.source for edge in edges if edge.destination == node}
    return found


def _reached(
    graph: Graph, steps: tuple[EdgeStep, ...], source: str, minimum: int, maximum: int | None
) -> frozenset[str]:
    """The nodes whose shortest distance is in bounds, and those with an edge to themselves one hop later as well."""
    frontier, visited, found = {source}, {source}, {source} if minimum == 0 else set[str]()
    hop = 0
    while frontier and (maximum is None or hop < maximum):
        hop += 1
        around = {node: _neighbours(graph, steps, node) for node in frontier}
        loops = {node for node, others in around.items() if node in others}
        frontier = set[str]().union(*around.values()) - visited
        visited |= frontier
        if hop >= minimum:
            found |= frontier | loops
    return frozenset(found)


# ------------------------------------------------------------------------------------------------ paths


def _smallest_path(step: TypedTraversal, row: Row, graph: Graph) -> Path:
    """The smallest of all paths of the fewest hops; a right end that is too near takes its edge to itself as well."""
    left, right = row[step.source].id, row[step.destination].id
    if step.source_type != step.destination_type:
        return Path((left, right), (min(_edges_between(graph, step.steps, left, right)),))
    hops = _hops_to(graph, step.steps, left, right)
    path = min(_ways(graph, step.steps, left, right, hops))
    if hops >= step.minimum:
        return path
    return Path((*path.nodes, right), (*path.edges, min(_edges_between(graph, step.steps, right, right))))


def _hops_to(graph: Graph, steps: Iterable[EdgeStep], left: str, right: str) -> int:
    frontier, visited, hops = {left}, {left}, 0
    while right not in frontier:
        frontier = set[str]().union(*(_neighbours(graph, steps, node) for node in frontier)) - visited
        visited |= frontier
        hops += 1
        assert frontier, "there is a walk between these ends"
    return hops


def _ways(graph: Graph, steps: Iterable[EdgeStep], left: str, right: str, hops: int) -> Iterator[Path]:
    """Every walk of so many hops, which are the fewest."""
    if hops == 0:
        yield Path((left,), ())
        return
    for node in _neighbours(graph, steps, left):
        if _leads_in(graph, steps, node, right, hops - 1):
            for way in _ways(graph, steps, node, right, hops - 1):
                yield from (
                    Path((left, *way.nodes), (edge, *way.edges)) for edge in _edges_between(graph, steps, left, node)
                )


def _leads_in(graph: Graph, steps: Iterable[EdgeStep], left: str, right: str, hops: int) -> bool:
    """Whether a walk of exactly so many hops leads there."""
    reached = {left}
    for _ in range(hops):
        reached = set[str]().union(*(_neighbours(graph, steps, node) for node in reached))
    return right in reached


def _edges_between(graph: Graph, steps: Iterable[EdgeStep], left: str, right: str) -> set[str]:
    found: set[str] = set()
    for step in steps:
        for edge in graph.edges[step.edge_type].values():
            ends = (edge.source, edge.destination)
            along, against = ends == (left, right), ends == (right, left)
            if (along and step.direction is not TraversalDirection.IN) or (
                against and step.direction is not TraversalDirection.OUT
            ):
                found.add(edge.id)
    return found


def parts_of(computed: Arithmetic | Call | Choose) -> list[Clause | Expression]:
    """What a computed value is made of."""
    match computed:
        case Arithmetic():
            return [*computed.operands]
        case Call():
            return [*computed.arguments]
        case Choose():
            otherwise = [] if computed.otherwise is None else [computed.otherwise]
            return [*computed.conditions, *computed.values, *otherwise]
