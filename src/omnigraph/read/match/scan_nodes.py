"""Where a match begins: the nodes of a type that fulfil its own conditions.

A table that is in memory is filtered there. Of one that is not, the storage is asked for what the conditions leave,
so that a few rows of a large table cost a few rows; an index answers where one fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final, TypeGuard, cast

import numpy as np
import pyarrow as pa

from omnigraph.language.query import ComparisonOperator, Predicate, TextMatch
from omnigraph.language.query.plan import NodeScan
from omnigraph.language.schema import NodeType
from omnigraph.language.types import INTEGERS, Scalar
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import (
    EntityColumn,
    EntitySet,
    Frame,
    FullTable,
    Mask,
    PartialTable,
    Positions,
    Strategy,
    evaluate_predicate,
    is_loaded,
    open_full_table,
    to_condition,
)
from omnigraph.storage.arrow_schema import arrow_type
from omnigraph.storage.columns import column_of, truths
from omnigraph.storage.filters import AnyOf, Compared, Condition

_ID_IS_KEY: Final = frozenset({Scalar.STRING, Scalar.BOOL}) | INTEGERS
"""Keys of these types have always been spelled as they are in the id, whichever release wrote the row."""
_SMALL: Final = 20_000
"""A table of so few rows is read whole, whatever is asked of it: the next query finds it in memory."""


def execute_scan(plan: NodeScan, context: QueryContext) -> Frame:
    """The nodes that fulfil the predicates of a scan."""
    type_ = context.catalog.nodes[plan.node_type]
    pushed, rest = _split_predicates(plan, context, type_)
    texts = [predicate for predicate in rest if isinstance(predicate, TextMatch)]
    pushed += [AnyOf(("id",), context.search.find_matching_ids(text, type_.table_key)) for text in texts]
    rest = [predicate for predicate in rest if not isinstance(predicate, TextMatch)]
    is_pushed = _should_push_down(pushed, type_, context)
    context.recorder.record_access_path(_name_access(pushed, type_, context, is_pushed=is_pushed))
    if is_pushed:
        population, positions = _filter_in_storage(pushed, type_, context)
    else:
        whole = open_full_table(context.snapshot, type_.table_key, type_, context.tables.cache)
        population, positions = whole, _filter_in_memory(pushed, whole)
    frame = Frame(len(positions), {plan.variable: EntityColumn(population, positions)})
    return filter_by_predicates(frame, plan.variable, rest, context)


def filter_by_predicates(frame: Frame, variable: str, predicates: Sequence[Predicate], context: QueryContext) -> Frame:
    """The rows whose entity fulfils conditions that speak of one variable."""
    if not predicates or not frame.num_rows:
        return frame
    binding = frame.bindings[variable]
    return frame.filter(evaluate_entity_predicates(binding.entities, binding.positions, variable, predicates, context))


def evaluate_entity_predicates(
    population: EntitySet, positions: Positions, variable: str, predicates: Sequence[Predicate], context: QueryContext
) -> Mask:
    """For each position whether its entity fulfils the predicates; each entity is looked at once."""
    if len(positions) > len(population):
        every = np.arange(len(population))
        return evaluate_entity_predicates(population, every, variable, predicates, context)[positions]
    frame = Frame(len(positions), {variable: EntityColumn(population, positions)})
    masks = [evaluate_predicate(predicate, frame, context.evaluation) for predicate in predicates]
    return reduce(np.logical_and, masks)


def _split_predicates(
    plan: NodeScan, context: QueryContext, type_: NodeType
) -> tuple[list[Condition], list[Predicate]]:
    """The predicates that the storage can decide, and the others."""
    pushed: list[Condition] = []
    rest: list[Predicate] = []
    for predicate in plan.predicates:
        condition = to_condition(predicate, plan.variable, context.evaluation)
        if condition is None:
            rest.append(predicate)
        else:
            pushed += [*_to_id_condition(condition, type_), condition]
    return pushed, rest


def _to_id_condition(condition: Condition, type_: NodeType) -> list[Condition]:
    """An equation with the key says what the id is, and ids have an index."""
    if not isinstance(condition, Compared) or condition.operator is not ComparisonOperator.EQUAL:
        return []
    if type_.key != (condition.column,) or condition.type.scalar not in _ID_IS_KEY:
        return []
    value = condition.value
    text = value if isinstance(value, str) else str(value).lower()
    return [AnyOf(("id",), pa.array([text], pa.string()))]


def _should_push_down(conditions: Sequence[Condition], type_: NodeType, context: QueryContext) -> bool:
    """Whether the storage is asked for the rows that fulfil the conditions."""
    return bool(conditions) and not _should_load_table(type_, context) and _can_push_down(conditions, type_, context)


def _should_load_table(type_: NodeType, context: QueryContext) -> bool:
    pin = context.snapshot.pins.get(type_.table_key)
    if pin is None or context.tables.strategy is Strategy.ARRAYS:
        return True
    if context.tables.strategy is Strategy.INDEX:
        return False
    return pin.row_count <= _SMALL or is_loaded(context.snapshot, type_.table_key, context.tables.cache)


def _can_push_down(conditions: Sequence[Condition], type_: NodeType, context: QueryContext) -> bool:
    """Whether the storage can decide them all. It refuses values that a column which lags behind cannot hold."""
    if any(condition.sql() is None for condition in conditions):
        return False
    asked = {column for condition in conditions for column in condition.columns}
    schema = context.snapshot.table(type_.table_key).schema
    there = dict(zip(schema.names, schema.types, strict=True))
    known = asked & there.keys() & type_.properties.keys()
    return all(there[name].equals(arrow_type(type_.properties[name].type)) for name in known)


def _filter_in_storage(
    conditions: Sequence[Condition], type_: NodeType, context: QueryContext
) -> tuple[PartialTable, Positions]:
    table = context.snapshot.table(type_.table_key)
    there = set(table.schema.names)
    seen = context.tables.partial_table_of(type_)
    if any(column not in there for condition in conditions for column in condition.columns):
        # A table that lags behind the schema has nulls in that column, and they match nothing.
        return seen, np.zeros(0, np.int64)
    texts = [cast(str, condition.sql()) for condition in conditions]
    rows = table.scan(["id"], filter=" AND ".join(f"({text})" for text in texts)).read_all()
    return seen, seen.intern(rows)


def _filter_in_memory(conditions: Sequence[Condition], whole: FullTable) -> Positions:
    """The rows of a table in memory that fulfil conditions. Ids say where a row is; the others are asked about it."""
    ids = [condition.values for condition in conditions if _is_id_condition(condition)]
    positions = _intersect_ids(ids, whole) if ids else np.arange(len(whole))
    for condition in conditions:
        if not _is_id_condition(condition):
            rows = pa.table({column: whole.take_values(column, positions) for column in condition.columns})
            mask = pa.table({"holds": condition.mask(rows)})
            positions = positions[truths(column_of(mask, "holds"))]
    return positions


def _is_id_condition(condition: Condition) -> TypeGuard[AnyOf]:
    return isinstance(condition, AnyOf) and condition.columns == ("id",)


def _intersect_ids(ids: Sequence[pa.StringArray], whole: FullTable) -> Positions:
    found = [np.unique(located[located >= 0]) for located in (whole.locate(each) for each in ids)]
    return reduce(lambda one, other: one[np.isin(one, other)], found)


def describe_scan_access(plan: NodeScan, context: QueryContext) -> str:
    """Name how a scan would find its nodes now, for ``explain``."""
    type_ = context.catalog.nodes[plan.node_type]
    pushed, _ = _split_predicates(plan, context, type_)
    return _name_access(pushed, type_, context, is_pushed=_should_push_down(pushed, type_, context))


def _name_access(pushed: Sequence[Condition], type_: NodeType, context: QueryContext, *, is_pushed: bool) -> str:
    if not is_pushed:
        return "in memory" if is_loaded(context.snapshot, type_.table_key, context.tables.cache) else "read whole"
    return "by id" if any(map(_is_id_condition, pushed)) else "filtered by the storage"
