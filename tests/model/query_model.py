"""What a query answers, from the meaning of the language alone: loops over bindings, and no plan.

A match is every assignment of its variables that satisfies every clause. An anonymous end is a variable like any other,
an edge variable ranges over edges, and a traversal is a condition on its two ends: it is walked from the left one. So
nothing here depends on an order of clauses, except that a ranking looks at its variable before the rest of the match
where that variable is the first binding of its part.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from math import dist
from typing import Any, TypeAlias, TypeVar, cast

from omnigraph.errors import Json
from omnigraph.language.query.ast import AggregateFunction, ComparisonOperator
from omnigraph.language.query.typed_tree import (
    Aggregate,
    And,
    AnyTypedRead,
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
    TypedInterfaceRead,
    TypedNegation,
    TypedOptional,
    TypedOrderKey,
    TypedRead,
    TypedTraversal,
    TypedUnion,
    TypeName,
    columns_of,
    single_reads_of,
)
from omnigraph.language.types import Scalar, ValueType
from omnigraph.language.values import ConstantValue
from tests.model.value_model import calculated, called, met, of_bound

Value: TypeAlias = Any  # what a property holds: None, or a value of its type that compares with its like
Line: TypeAlias = tuple[tuple[str, object], ...]
"""A row of a result as JSON shows it, in a form that can be counted."""


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
Sorted = TypeVar("Sorted")
_Key: TypeAlias = tuple[Callable[[Sorted], Value], bool]
"""What is sorted by, and whether the greatest come first."""
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


@dataclass(frozen=True, slots=True)
class Expected:
    """What a result may be: all rows in runs, first things first; within a run nothing says which row comes first."""

    runs: tuple[tuple[Line, ...], ...]
    limit: int | None
    offset: int = 0

    def allows(self, rows: Iterable[Mapping[str, Json]]) -> bool:
        """Whether the rows are the first ones after the offset, as many as there should be."""
        found = [line(row) for row in rows]
        left = len(found) if self.limit is None else self.limit
        skipped = self.offset
        for run in self.runs:
            shown = max(0, len(run) - skipped)
            skipped = max(0, skipped - len(run))
            wanted = shown if self.limit is None else min(left, shown)
            part, found = found[:wanted], found[wanted:]
            if len(part) < wanted or Counter(part) - Counter(run):
                return False
            left -= wanted
        return not found


def line(row: Mapping[str, Json]) -> Line:
    """A row that equals another if JSON shows the same columns and values; both zeros are one."""
    return tuple((name, _frozen(value)) for name, value in row.items())


def _frozen(value: Json) -> object:
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    # What is true is no number here, though Python holds it for one; nor is an integer a float.
    return (type(value).__name__, value + 0.0 if isinstance(value, float) else value)


# ------------------------------------------------------------------------------------------------ result


def expected(query: AnyTypedRead, asked: Asked) -> Expected:
    """What a query may answer."""
    if isinstance(query, TypedUnion):
        return _united(query, asked)
    first = single_reads_of(query)[0]
    limit = None if first.limit is None else cast(int, _value(first.limit, {}, asked))
    offset = 0 if first.offset is None else cast(int, _value(first.offset, {}, asked))
    types = columns_of(query)
    if _is_grouped(first):
        return Expected(
            _in_lines(_in_runs(_result_rows(query, asked), _column_keys(first.order, types)), types), limit, offset
        )
    ranks: Mapping[str, int] = {}
    if isinstance(query, TypedRead):
        rows, ranks = _matched(query, asked, None if limit is None else limit + offset)
        found = [(query, row) for row in rows]
    else:
        found = _solved(query, asked)
    found = [(read, row) for read, row in found if _kept(_columns(read, row, asked), read, asked)]
    keys: list[_Key[_Solution]] = [_row_key(place, order, ranks, asked) for place, order in enumerate(first.order)]
    if keys:
        faces = query.interface_variables if isinstance(query, TypedInterfaceRead) else ()
        keys += [key for name in sorted(first.variables) for key in _id_keys(name, with_type=name in faces)]
    runs = _in_runs(found, keys)
    return Expected(_in_lines([[_columns(*each, asked) for each in run] for run in runs], types), limit, offset)


def _united(query: TypedUnion, asked: Asked) -> Expected:
    rows: list[Mapping[str, Value]] = []
    for branch in query.branches:
        pairs = list(zip(columns_of(branch), query.columns, strict=True))
        rows += [
            {own.name: met(row[own.name], own.type, united.type) for own, united in pairs}
            for row in _result_rows(branch, asked)
        ]
    if query.distinct:
        rows = list({tuple(row.values()): row for row in rows}.values())
    limit = None if query.limit is None else cast(int, _value(query.limit, {}, asked))
    offset = 0 if query.offset is None else cast(int, _value(query.offset, {}, asked))
    runs = _in_runs(rows, _column_keys(query.order, query.columns))
    return Expected(_in_lines(runs, query.columns), limit, offset)


_Solution: TypeAlias = tuple[TypedRead, Row]
"""A row of a match, and the read that it belongs to: the one of its types, where there are interface variables."""


def _solved(query: TypedRead | TypedInterfaceRead, asked: Asked) -> list[_Solution]:
    return [(read, row) for read in single_reads_of(query) for row in solutions(read.clauses, asked, {})]


def _is_grouped(query: TypedRead) -> bool:
    return query.distinct or any(isinstance(column.expression, Aggregate) for column in query.columns)


def _in_lines(
    runs: Iterable[Iterable[Mapping[str, Value]]], columns: Sequence[ColumnValue]
) -> tuple[tuple[Line, ...], ...]:
    return tuple(
        tuple(line({each.name: _shown(row[each.name], each) for each in columns}) for row in run) for run in runs
    )


def _result_rows(query: TypedRead | TypedInterfaceRead, asked: Asked) -> list[Mapping[str, Value]]:
    """The rows of a result without order: groups, or a row for each match."""
    found = _solved(query, asked)
    first = single_reads_of(query)[0]
    if _is_grouped(first):
        return _grouped(found, first, asked)
    shown = [(read, _columns(read, row, asked)) for read, row in found]
    return [columns for read, columns in shown if _kept(columns, read, asked)]


def _columns(query: TypedRead, row: Row, asked: Asked) -> Mapping[str, Value]:
    return {each.name: _value(each.expression, row, asked) for each in query.columns}


def _kept(columns: Mapping[str, Value], query: TypedRead, asked: Asked) -> bool:
    """Whether a row of the result passes ``having``, which speaks of its columns."""
    named = {RESULT: Entity("", columns)} if query.having else {}
    return all(_truth(condition, named, asked) is True for condition in query.having)


def _row_key(place: int, order: TypedOrderKey, ranks: Mapping[str, int], asked: Asked) -> _Key[_Solution]:
    expression = order.expression
    if isinstance(expression, Distance):
        return lambda found: ranks[found[1][expression.target.variable].id], False

    def key(found: _Solution) -> Value:
        read, row = found
        return _value(_unaliased(read.order[place].expression, read), row, asked)

    return key, order.descending


def _id_keys(variable: str, *, with_type: bool) -> list[_Key[_Solution]]:
    """The id; of an interface variable the type before it."""

    def identity(found: _Solution) -> Value:
        bound = found[1][variable]
        return None if bound is None else bound.nodes if isinstance(bound, Path) else bound.id

    types: list[_Key[_Solution]] = [(lambda found: found[0].variables[variable], False)] if with_type else []
    return [*types, (identity, False)]


def _column_keys(order: Sequence[TypedOrderKey], columns: Sequence[ColumnValue]) -> list[_Key[Mapping[str, Value]]]:
    """Where there is an order it is total: columns break ties."""
    stated = [(key.expression, key.descending) for key in order]
    keys: list[_Key[Mapping[str, Value]]] = []
    for column, descending in (*stated, *((each, False) for each in columns)) if order else ():
        assert isinstance(column, ColumnValue)
        keys.append((lambda row, name=column.name: row[name], descending))
    return keys


def _unaliased(expression: Expression, query: TypedRead) -> Expression:
    if isinstance(expression, ColumnValue):
        return next(column.expression for column in query.columns if column.name == expression.name)
    return expression


def _in_runs(rows: Iterable[Sorted], keys: Sequence[_Key[Sorted]]) -> list[list[Sorted]]:
    """Rows in order, those that no key tells apart together. Null is below everything."""
    ordered = list(rows)
    for key, descending in reversed(keys):
        # Sorting in reverse keeps the order of what is equal.
        ordered.sort(key=lambda row: _nulls_first(key(row)), reverse=descending)
    return [list(run) for _, run in groupby(ordered, lambda row: [key(row) for key, _ in keys])]


def _nulls_first(value: Value) -> tuple[Value, ...]:
    return () if value is None else (value,)


def _grouped(found: Iterable[_Solution], first: TypedRead, asked: Asked) -> list[Mapping[str, Value]]:
    groups: dict[tuple[Value, ...], list[_Solution]] = defaultdict(list)
    for read, row in found:
        plain = [column.expression for column in read.columns if not isinstance(column.expression, Aggregate)]
        groups[tuple(_value(key, row, asked) for key in plain)].append((read, row))
    if all(isinstance(column.expression, Aggregate) for column in first.columns) and not groups:
        groups[()] = []
    made: list[Mapping[str, Value]] = [
        {each.name: _of_group(place, each.expression, rows, asked) for place, each in enumerate(first.columns)}
        for rows in groups.values()
    ]
    return [row for row in made if _kept(row, first, asked)]


def _of_group(place: int, expression: Expression, rows: list[_Solution], asked: Asked) -> Value:
    """The value of a column, whose expression is another one where types differ."""
    shown = [(read.columns[place].expression, row) for read, row in rows]
    if not isinstance(expression, Aggregate):
        return _value(*shown[0], asked)
    found = (_value(each.argument, row, asked) for each, row in shown if isinstance(each, Aggregate))
    values = [value for value in found if value is not None]
    if expression.distinct:
        values = list(dict.fromkeys(values))
    if expression.function is AggregateFunction.COUNT:
        return len(values)
    if expression.function is AggregateFunction.COLLECT:
        return tuple(sorted(values))
    if not values:
        return None
    match expression.function:
        case AggregateFunction.SUM:
            return float(sum(values))
        case AggregateFunction.AVG:
            return sum(values) / len(values)
        case AggregateFunction.MIN:
            return min(values)
        case AggregateFunction.MAX:
            return max(values)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _shown(value: Value, expression: Expression) -> Json:
    """A value as JSON has it."""
    return as_json(value, expression.type)


def as_json(value: Value, type_: ValueType) -> Json:
    """A value as a result shows it."""
    if value is None:
        return None
    if type_.is_list:
        return [as_json(item, type_.item) for item in value]
    match type_.scalar:
        case Scalar.DATE:
            return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
        case Scalar.DATETIME:
            moment = _EPOCH + timedelta(milliseconds=value)
            return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
        case Scalar.VECTOR:
            return [float(number) for number in value]
        case Scalar.F32 | Scalar.F64:
            return float(value)
        case _:
            return value


# ------------------------------------------------------------------------------------------------ ranking


def _matched(query: TypedRead, asked: Asked, limit: int | None) -> tuple[list[Row], Mapping[str, int]]:
    """The rows of a match, and the rank of each entity of the ranked variable, if there is one."""
    ranking = query.order[0].expression if query.order else None
    if not isinstance(ranking, Distance):
        return list(solutions(query.clauses, asked, {})), {}
    variable = ranking.target.variable
    if variable in _starts(query.clauses):
        node_type = query.variables[variable].removeprefix("node:")
        own = [clause for clause in query.clauses if _names(clause) == {variable} and not _has_block(clause)]
        alone = [clause for clause in own if not isinstance(clause, TypedTraversal)]
        candidates = solutions([TypedBinding(variable, node_type, ()), *alone], asked, {})
    else:
        candidates = solutions(query.clauses, asked, {})
    distances = {row[variable].id: _value(ranking, row, asked) for row in candidates}
    best = sorted((far, id_) for id_, far in distances.items() if far is not None)[:limit]
    ranks = {id_: rank for rank, (_, id_) in enumerate(best)}
    return [row for row in solutions(query.clauses, asked, {}) if row[variable].id in ranks], ranks


def _has_block(clause: Clause | Expression) -> bool:
    match clause:
        case TypedNegation() | TypedExistence():
            return True
        case And() | Or():
            return any(map(_has_block, clause.parts))
        case Not():
            return _has_block(clause.part)
        case Compare():
            return _has_block(clause.left) or _has_block(clause.right)
        case Truth():
            return _has_block(clause.predicate)
        case Arithmetic() | Call() | Choose():
            return any(map(_has_block, _parts(clause)))
        case _:
            return False


def _parts(computed: Arithmetic | Call | Choose) -> list[Clause | Expression]:
    """What a computed value is made of."""
    match computed:
        case Arithmetic():
            return [*computed.operands]
        case Call():
            return [*computed.arguments]
        case Choose():
            otherwise = [] if computed.otherwise is None else [computed.otherwise]
            return [*computed.conditions, *computed.values, *otherwise]


def _starts(clauses: Sequence[Clause]) -> set[str]:
    """The first binding of each part of a pattern; the left end of the first traversal where a part has none."""
    parts: list[set[str]] = []
    mentioned = [(clause, _names(clause)) for clause in clauses if isinstance(clause, TypedBinding | TypedTraversal)]
    for _, names in mentioned:
        joined = [part for part in parts if part & names]
        parts = [part for part in parts if not part & names] + [names.union(*joined)]
    starts: set[str] = set()
    for part in parts:
        bindings = [
            clause.variable for clause, _ in mentioned if isinstance(clause, TypedBinding) and clause.variable in part
        ]
        ends = [
            clause.source for clause, _ in mentioned if isinstance(clause, TypedTraversal) and clause.source in part
        ]
        starts.add((bindings + ends)[0])
    return starts


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
        rows: Iterable[Row] = solutions([each for each in others if not _names(each) & absent], asked, fixed)
        for optional in optionals:
            rows = [extended for row in rows for extended in _extended(row, optional, asked)]
        late = [each for each in others if _names(each) & absent]
        yield from (row for row in rows if all(_satisfied(clause, row, asked) for clause in late))
        return
    walks = [clause for clause in clauses if isinstance(clause, TypedTraversal) and clause.path is not None]
    if walks:
        named = {walk.path for walk in walks}
        plain = [replace(each, path=None) if isinstance(each, TypedTraversal) else each for each in clauses]
        late = [each for each in plain if _names(each) & named]
        for row in solutions([each for each in plain if not _names(each) & named], asked, fixed):
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
        at_level[next(n for n, known in enumerate(levels) if _names(clause) <= known)].append(clause)
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


def _names(part: Clause | Expression) -> set[str]:
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
            return set[str]().union(*map(_names, part.parts))
        case Not():
            return _names(part.part)
        case Truth():
            return _names(part.predicate)
        case Compare():
            return _names(part.left) | _names(part.right)
        case IsNull():
            return _names(part.operand)
        case TextMatch() | Distance():
            return _names(part.target)
        case PropertyValue() | Identity() | EndIdentity() | TypeName() | PathValue():
            return {part.variable}
        case _:
            return (
                set[str]().union(*map(_names, _parts(part))) if isinstance(part, Arithmetic | Call | Choose) else set()
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
            return _truth(clause, row, asked) is True


def _truth(predicate: Predicate, row: Row, asked: Asked) -> bool | None:
    """True, false or unknown, by the tables of Kleene."""
    match predicate:
        case TypedNegation() | TypedExistence():
            fixed = {name: row[name] for name in predicate.outer}
            found = next(solutions(predicate.clauses, asked, fixed), None) is not None
            return found is isinstance(predicate, TypedExistence)
        case IsNull():
            return (_value(predicate.operand, row, asked) is None) is not predicate.negated
        case TextMatch():
            return bool(_value(predicate, row, asked))
        case Compare():
            left, right = _value(predicate.left, row, asked), _value(predicate.right, row, asked)
            return None if left is None or right is None else _COMPARISONS[predicate.operator](left, right)
        case Not():
            inner = _truth(predicate.part, row, asked)
            return None if inner is None else not inner
        case And() | Or():
            decisive = isinstance(predicate, Or)
            parts = [_truth(part, row, asked) for part in predicate.parts]
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


def _value(expression: Expression, row: Row, asked: Asked) -> Value:
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
            vector, to = _value(expression.target, row, asked), _value(expression.query, row, asked)
            return None if vector is None or to is None else dist(vector, to)
        case TextMatch():
            text, words = _value(expression.target, row, asked), _value(expression.query, row, asked)
            # Words of one stem, or none at all, are for others to test.
            return (
                text is not None
                and words is not None
                and not set(text.lower().split()).isdisjoint(words.lower().split())
            )
        case Truth():
            return _truth(expression.predicate, row, asked)
        case _:
            return _computed(expression, row, asked)


def evaluated(expression: Expression, row: Row, asked: Asked) -> Value:
    """The value of an expression in a row of a match."""
    return _value(expression, row, asked)


def _computed(expression: Expression, row: Row, asked: Asked) -> Value:
    match expression:
        case Arithmetic():
            return calculated(expression, [_value(operand, row, asked) for operand in expression.operands])
        case Call():
            return called(expression, [_value(argument, row, asked) for argument in expression.arguments])
        case Choose():
            arms = zip(expression.conditions, expression.values, strict=True)
            true = (value for condition, value in arms if _truth(condition, row, asked) is True)
            chosen = next(true, expression.otherwise)
            return None if chosen is None else met(_value(chosen, row, asked), chosen.type, expression.type)
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
