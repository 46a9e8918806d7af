"""What a query answers: the rows of its match, ranked, grouped, ordered and cut.

A ranking looks at its variable before the rest of the match where that variable is the first binding of its part.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import TypeAlias, TypeVar, cast

from omnigraph.errors import Json
from omnigraph.language.query.ast import AggregateFunction
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
    Distance,
    Expression,
    Not,
    Or,
    Truth,
    TypedBinding,
    TypedExistence,
    TypedInterfaceRead,
    TypedNegation,
    TypedOrderKey,
    TypedRead,
    TypedTraversal,
    TypedUnion,
    columns_of,
    single_reads_of,
)
from omnigraph.language.types import Scalar, ValueType
from tests.model.match_model import (
    RESULT,
    Asked,
    Entity,
    Path,
    Row,
    Value,
    names_in,
    parts_of,
    solutions,
    truth_of,
    value_of,
)
from tests.model.value_model import met

Line: TypeAlias = tuple[tuple[str, object], ...]
"""A row of a result as JSON shows it, in a form that can be counted."""
Sorted = TypeVar("Sorted")
_Key: TypeAlias = tuple[Callable[[Sorted], Value], bool]
"""What is sorted by, and whether the greatest come first."""


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
    limit = None if first.limit is None else cast(int, value_of(first.limit, {}, asked))
    offset = 0 if first.offset is None else cast(int, value_of(first.offset, {}, asked))
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
    limit = None if query.limit is None else cast(int, value_of(query.limit, {}, asked))
    offset = 0 if query.offset is None else cast(int, value_of(query.offset, {}, asked))
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
    return {each.name: value_of(each.expression, row, asked) for each in query.columns}


def _kept(columns: Mapping[str, Value], query: TypedRead, asked: Asked) -> bool:
    """Whether a row of the result passes ``having``, which speaks of its columns."""
    named = {RESULT: Entity("", columns)} if query.having else {}
    return all(truth_of(condition, named, asked) is True for condition in query.having)


def _row_key(place: int, order: TypedOrderKey, ranks: Mapping[str, int], asked: Asked) -> _Key[_Solution]:
    expression = order.expression
    if isinstance(expression, Distance):
        return lambda found: ranks[found[1][expression.target.variable].id], False

    def key(found: _Solution) -> Value:
        read, row = found
        return value_of(_unaliased(read.order[place].expression, read), row, asked)

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
        groups[tuple(value_of(key, row, asked) for key in plain)].append((read, row))
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
        return value_of(*shown[0], asked)
    found = (value_of(each.argument, row, asked) for each, row in shown if isinstance(each, Aggregate))
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
        own = [clause for clause in query.clauses if names_in(clause) == {variable} and not _has_block(clause)]
        alone = [clause for clause in own if not isinstance(clause, TypedTraversal)]
        candidates = solutions([TypedBinding(variable, node_type, ()), *alone], asked, {})
    else:
        candidates = solutions(query.clauses, asked, {})
    distances = {row[variable].id: value_of(ranking, row, asked) for row in candidates}
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
            return any(map(_has_block, parts_of(clause)))
        case _:
            return False


def _starts(clauses: Sequence[Clause]) -> set[str]:
    """The first binding of each part of a pattern; the left end of the first traversal where a part has none."""
    parts: list[set[str]] = []
    mentioned = [(clause, names_in(clause)) for clause in clauses if isinstance(clause, TypedBinding | TypedTraversal)]
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
