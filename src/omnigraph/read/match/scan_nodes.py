"""Scan the nodes of a type with predicates: the leaf of a match.

A loaded table is filtered in memory. For a large table that is not loaded, the predicates are pushed down to the
storage, so that finding a few rows costs a few rows, or an index lookup. Predicates without an index make the storage
read their columns each time: once that has cost as much as loading them, they are loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final, TypeGuard, cast

import numpy as np
import pyarrow as pa

from omnigraph.language.query import ComparisonOperator, Predicate, TextMatch
from omnigraph.language.query.plan import NodeScan
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.language.types import INTEGERS, Scalar
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import (
    FEW_ROWS,
    EntityColumn,
    EntitySet,
    EvaluationContext,
    Frame,
    FullTable,
    Mask,
    PartialTable,
    Positions,
    Strategy,
    WholeTable,
    base_of,
    evaluate_predicate,
    locate_addresses,
    mark_rows,
    sort_distinct,
    take_rows,
    to_condition,
)
from omnigraph.storage.columns import Values, column_of, to_bool_array
from omnigraph.storage.filters import Condition, ValueCondition, ValueIn
from omnigraph.storage.lagging_columns import has_declared_column
from omnigraph.storage.tables import ROW_ADDRESS

_KEY_IS_ID: Final = frozenset({Scalar.STRING, Scalar.BOOL}) | INTEGERS
"""Every release has written keys of these types into the id in the same way."""
_BY_ID: Final = "by id"
_WITHOUT_INDEX: Final = (None, ComparisonOperator.NOT_EQUAL)
"""What an index of a column does not help to find."""
_SMALL: Final = 20_000
"""A table of at most so many rows is always loaded: the next query finds it in memory."""
_MANY: Final = 16
_LEAST_LOCATED: Final = 1000
"""If the storage finds one row in so many or more, and not just a few, a walk from them is over arrays of the whole
table."""


def execute_scan(
    plan: NodeScan, context: QueryContext, restrictions: Sequence[Condition] = (), *, is_proven: bool = False
) -> Frame:
    """Return the nodes that satisfy the predicates of a scan, and conditions that came up while the query runs.

    With ``is_proven``, what follows finds out whether a node exists. One that is known by its id is not read then.
    """
    type_ = context.catalog.nodes[plan.node_type]
    pushed, rest = split_predicates(plan.predicates, plan.variable, type_, context.evaluation)
    pushed += [each for condition in restrictions for each in _to_id_condition(condition, type_) or [condition]]
    texts = [predicate for predicate in rest if isinstance(predicate, TextMatch)]
    pushed += [ValueIn(("id",), context.search.find_matching_ids(text, type_.table_key)) for text in texts]
    rest = [predicate for predicate in rest if not isinstance(predicate, TextMatch)]
    texts_of_pushed = _push_down(pushed, type_, context)
    context.recorder.record_access_path(_name_access(pushed, texts_of_pushed, type_, context))
    if texts_of_pushed is not None:
        one_id = pushed[0] if is_proven and len(pushed) == 1 and not rest else None
        if one_id is not None and is_id_condition(one_id) and one_id.count == 1:
            unread = context.tables.partial_table_of(type_)
            nodes, positions = unread, unread.intern_unread(cast("Values", one_id.values))
        else:
            nodes, positions = _find_in_storage(pushed, texts_of_pushed, type_, context)
    else:
        nodes = context.tables.full_table_of(type_)
        if isinstance(nodes, FullTable) and not nodes.is_loaded() and _is_scanned_often(pushed, nodes):
            # With its ids in memory, later versions of the table are derived from this one.
            nodes.load_column("id")
        positions = _filter_in_memory(pushed, nodes)
    if rest and len(positions):
        positions = positions[evaluate_entity_predicates(nodes, positions, plan.variable, rest, context)]
    return Frame(len(positions), {plan.variable: EntityColumn(nodes, positions)})


def evaluate_entity_predicates(
    entities: EntitySet, positions: Positions, variable: str, predicates: Sequence[Predicate], context: QueryContext
) -> Mask:
    """Return for each position whether its entity satisfies all predicates; each entity is evaluated once."""
    if len(positions) > len(entities):
        decided = mark_rows(positions, len(entities))
        distinct = np.flatnonzero(decided)
        decided[distinct] = evaluate_entity_predicates(entities, distinct, variable, predicates, context)
        return take_rows(decided, positions)
    frame = Frame(len(positions), {variable: EntityColumn(entities, positions)})
    masks = [evaluate_predicate(predicate, frame, context.evaluation) for predicate in predicates]
    return reduce(np.logical_and, masks)


def split_predicates(
    predicates: Sequence[Predicate], variable: str, type_: NodeType | EdgeType, evaluation: EvaluationContext
) -> tuple[list[Condition], list[Predicate]]:
    """Split the predicates of a scan into conditions for the storage and the rest."""
    pushed: list[Condition] = []
    rest: list[Predicate] = []
    for predicate in predicates:
        condition = to_condition(predicate, variable, evaluation)
        if condition is None:
            rest.append(predicate)
        else:
            pushed += _to_id_condition(condition, type_) or [condition]
    return pushed, rest


def _to_id_condition(condition: Condition, type_: NodeType | EdgeType) -> list[Condition]:
    """Return the condition on the id that an equality with the key means, because ids have an index."""
    key = type_.key if isinstance(type_, NodeType) else None
    if isinstance(condition, ValueIn) and condition.columns == key:
        return [ValueIn(("id",), condition.given)]
    if not isinstance(condition, ValueCondition) or condition.operator is not ComparisonOperator.EQUAL:
        return []
    is_key = key == (condition.column,) and condition.type.scalar in _KEY_IS_ID
    if condition.column != "id" and not is_key:
        return []
    value = condition.value
    text = value if isinstance(value, str) else str(value).lower()
    return [ValueIn(("id",), (text,))]


def _push_down(conditions: Sequence[Condition], type_: NodeType, context: QueryContext) -> list[str | None] | None:
    """Return the conditions as SQL, None for each that the storage does not decide; None if the table is loaded."""
    if not conditions or _should_load_table(conditions, type_, context):
        return None
    stored = context.snapshot.table(type_.table_key).column_types
    found = [_decide_by_storage(condition, type_, stored) for condition in conditions]
    return None if all(sql is None for sql in found) else found


def _should_load_table(conditions: Sequence[Condition], type_: NodeType, context: QueryContext) -> bool:
    pin = context.snapshot.pins.get(type_.table_key)
    if pin is None or context.tables.strategy is Strategy.ARRAYS:
        return True
    if context.tables.strategy is Strategy.INDEX:
        return False
    if pin.row_count <= _SMALL or context.tables.is_loaded(type_):
        return True
    return _is_scanned_often(conditions, base_of(context.tables.full_table_of(type_)))


def _is_scanned_often(conditions: Sequence[Condition], table: FullTable) -> bool:
    """Whether the storage has scanned for such conditions as often as pays for loading their columns."""
    scanned = _list_scanned_columns(conditions, table)
    return bool(scanned) and table.should_load(scanned)


def _pay_scan(conditions: Sequence[Condition], type_: NodeType, context: QueryContext) -> None:
    """Note what a scan costs that the next one would not, if the table were in memory."""
    table = base_of(context.tables.full_table_of(type_))
    scanned = _list_scanned_columns(conditions, table)
    if scanned and table.contents.fragments:
        table.pay_scan(scanned)


def _list_scanned_columns(conditions: Sequence[Condition], table: FullTable) -> frozenset[str]:
    """Return the columns that the storage reads as a whole to decide conditions; none if an index finds the rows."""
    if any(_has_index(condition, table) for condition in conditions):
        return frozenset()
    return frozenset(column for condition in conditions for column in condition.columns)


def _has_index(condition: Condition, table: FullTable) -> bool:
    is_comparison = isinstance(condition, ValueCondition) and condition.operator not in _WITHOUT_INDEX
    return (is_comparison or isinstance(condition, ValueIn)) and table.contents.indexed.issuperset(condition.columns)


def _decide_by_storage(condition: Condition, type_: NodeType, stored: Mapping[str, pa.DataType]) -> str | None:
    """Return a condition as SQL if it is short enough, and the table has its columns as declared."""
    are_declared = all(has_declared_column(type_, stored, column) for column in condition.columns)
    return condition.to_sql() if are_declared else None


def _find_in_storage(
    conditions: Sequence[Condition], texts: Sequence[str | None], type_: NodeType, context: QueryContext
) -> tuple[WholeTable | PartialTable, Positions]:
    """Return the rows that satisfy all conditions, also those that the storage does not decide."""
    _pay_scan(conditions, type_, context)
    nodes, positions = _filter_in_storage(conditions, texts, type_, context)
    left = [condition for condition, sql in zip(conditions, texts, strict=True) if sql is None]
    return nodes, _filter_positions(left, nodes, positions)


def _filter_in_storage(
    conditions: Sequence[Condition], texts: Sequence[str | None], type_: NodeType, context: QueryContext
) -> tuple[WholeTable | PartialTable, Positions]:
    """Return the rows that the storage finds; many of them as positions in the whole table, without looking at ids."""
    nodes, table = context.tables.partial_table_of(type_), context.snapshot.table(type_.table_key)
    decided = [(condition, sql) for condition, sql in zip(conditions, texts, strict=True) if sql is not None]
    sql = " AND ".join(f"({text})" for _, text in decided)
    listed = [condition.count for condition, _ in decided if is_id_condition(condition)]
    if listed and min(listed) <= FEW_ROWS:
        return nodes, nodes.intern(table.read(["id", *nodes.columns_to_read], sql))
    rows = table.scan(["id"], filter=sql, with_row_address=True).read_all()
    whole = context.tables.full_table_of(type_)
    are_many = rows.num_rows >= max(_LEAST_LOCATED, len(whole) / _MANY)
    if context.tables.strategy is Strategy.AUTO and are_many and isinstance(whole, FullTable):
        return whole, locate_addresses(column_of(rows, ROW_ADDRESS), whole.contents, table)
    return nodes, nodes.intern(rows.select(["id"]))


def _filter_in_memory(conditions: Sequence[Condition], nodes: WholeTable) -> Positions:
    """Locate the rows by conditions on the id first, and evaluate the other conditions on what is left."""
    ids = [_locate_ids(condition, nodes) for condition in conditions if is_id_condition(condition)]
    positions = reduce(_intersect_positions, ids) if ids else nodes.all_positions()
    return _filter_positions([each for each in conditions if not is_id_condition(each)], nodes, positions)


def _filter_positions(
    conditions: Sequence[Condition], nodes: WholeTable | PartialTable, positions: Positions
) -> Positions:
    """Keep the positions whose values satisfy all conditions; a table that lags gives the values of a newer column."""
    for condition in conditions:
        rows = pa.table({column: nodes.take_values(column, positions) for column in condition.columns})
        mask = pa.table({"mask": condition.evaluate(rows)})
        positions = positions[to_bool_array(column_of(mask, "mask"))]
    return positions


def is_id_condition(condition: Condition) -> TypeGuard[ValueIn]:
    """Whether a condition lists the ids that match."""
    return isinstance(condition, ValueIn) and condition.columns == ("id",)


def _locate_ids(condition: ValueIn, nodes: WholeTable) -> Positions:
    if isinstance(condition.given, tuple) and len(condition.given) == 1:
        position = nodes.locate_one(condition.given[0])
        return np.array([position] if position >= 0 else [], np.int64)
    located = nodes.locate(condition.values)
    return sort_distinct(located[located >= 0])


def _intersect_positions(one: Positions, other: Positions) -> Positions:
    return one[np.isin(one, other)]


def describe_scan_access(plan: NodeScan, context: QueryContext) -> str:
    """Name how a scan would find its nodes now, for ``explain``."""
    type_ = context.catalog.nodes[plan.node_type]
    pushed, _ = split_predicates(plan.predicates, plan.variable, type_, context.evaluation)
    return _name_access(pushed, _push_down(pushed, type_, context), type_, context)


def finds_by_id(plan: NodeScan, context: QueryContext) -> bool:
    """Whether a scan would look its nodes up by their ids now, instead of reading the table."""
    return describe_scan_access(plan, context) == _BY_ID


def _name_access(
    pushed: Sequence[Condition], texts: Sequence[str | None] | None, type_: NodeType, context: QueryContext
) -> str:
    if texts is None:
        return "in memory" if context.tables.is_loaded(type_) else "read whole"
    is_found = any(is_id_condition(each) and sql is not None for each, sql in zip(pushed, texts, strict=True))
    return _BY_ID if is_found else "filtered by the storage"
