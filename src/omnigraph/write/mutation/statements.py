"""The statements of a mutation. Each one runs on a staging area that holds the changes of earlier statements.

The language reference defines their meaning. The checker has resolved all names and filled in defaults; only values
that a property cannot hold are found here. Every statement works on columns: on all rows of the match at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.query import (
    AssignedValue,
    Compare,
    ComparisonOperator,
    DeleteBound,
    DeleteEdges,
    DeleteNodes,
    InsertEdge,
    InsertNode,
    Predicate,
    PropertyValue,
    Statement,
    UpdateBound,
    UpdateNodes,
)
from omnigraph.language.schema import Catalog, EdgeType, NodeType, TableKey
from omnigraph.language.types import Scalar
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, compute, make_nulls
from omnigraph.storage.filters import ValueCondition, ValueIn, compare_column
from omnigraph.storage.keys import make_ids
from omnigraph.write.mutation.one_value import keep_one_row_per_id
from omnigraph.write.mutation.staging import StagingArea
from omnigraph.write.mutation.statement_rows import StatementRows
from omnigraph.write.rounding import RoundedColumn
from omnigraph.write.row_values import generate_ids


@dataclass(frozen=True, slots=True)
class AffectedCounts:
    """The number of nodes and edges that were written or deleted, and the rounded columns of each statement."""

    nodes: int = 0
    edges: int = 0
    rounded: tuple[RoundedColumn, ...] = ()

    def __add__(self, other: AffectedCounts) -> AffectedCounts:
        return AffectedCounts(self.nodes + other.nodes, self.edges + other.edges, self.rounded + other.rounded)

    def __sub__(self, other: AffectedCounts) -> AffectedCounts:
        """Return the later part of these counts, which begin with the others."""
        later = self.rounded[len(other.rounded) :]
        return AffectedCounts(self.nodes - other.nodes, self.edges - other.edges, later)


def run_statement(catalog: Catalog, staging: StagingArea, statement: Statement, given: StatementRows) -> AffectedCounts:
    """Run one statement. Its changes go to the staging area."""
    match statement:
        case InsertNode():
            return _insert_nodes(catalog.nodes[statement.node_type], staging, statement, given)
        case InsertEdge():
            return _insert_edges(catalog.edges[statement.edge_type], staging, statement, given)
        case UpdateNodes():
            return _update_nodes(catalog.nodes[statement.node_type], staging, statement, given)
        case DeleteNodes():
            return _delete_nodes(catalog, staging, statement, given)
        case DeleteEdges():
            return _delete_edges(catalog.edges[statement.edge_type], staging, statement, given)
        case UpdateBound():
            return _update_bound(_type_of(catalog, statement.table_key), staging, statement, given)
        case DeleteBound():
            return _delete_bound(catalog, staging, statement, given)


def _type_of(catalog: Catalog, key: TableKey) -> NodeType | EdgeType:
    return catalog.nodes[key.type_name] if key.kind == "node" else catalog.edges[key.type_name]


# --------------------------------------------------------------------------------------------- insert, update


def _insert_nodes(
    node_type: NodeType, staging: StagingArea, statement: InsertNode, given: StatementRows
) -> AffectedCounts:
    rows = _build_rows(node_type, statement.values, given)
    if not rows.num_rows:
        return AffectedCounts()
    rounded = given.find_rounded(node_type, statement.values)
    if not node_type.key:
        staging.table(node_type).insert(replace_columns(rows, {"id": generate_ids(rows.num_rows)}))
        return AffectedCounts(rows.num_rows, 0, rounded)
    ids = make_ids(node_type, rows)
    rows = replace_columns(rows, {"id": ids})
    if rows.num_rows > 1:
        varying = [value.name for value in statement.values if given.varies(value.value)]
        kept = keep_one_row_per_id(node_type, ids, {name: column_of(rows, name) for name in varying})
        rows = rows if kept is None else rows.take(kept)
    staging.table(node_type).upsert(rows)
    return AffectedCounts(rows.num_rows, 0, rounded)


def _insert_edges(
    edge_type: EdgeType, staging: StagingArea, statement: InsertEdge, given: StatementRows
) -> AffectedCounts:
    ends = {"src": given.build_texts(statement.source), "dst": given.build_texts(statement.destination)}
    rows = _build_rows(edge_type, statement.values, given)
    if not rows.num_rows:
        return AffectedCounts()
    staging.table(edge_type).insert(replace_columns(rows, {"id": generate_ids(rows.num_rows), **ends}))
    return AffectedCounts(0, rows.num_rows, given.find_rounded(edge_type, statement.values))


def _update_nodes(
    node_type: NodeType, staging: StagingArea, statement: UpdateNodes, given: StatementRows
) -> AffectedCounts:
    condition = _to_condition(node_type, statement.predicate, given)
    rows = None if condition is None else staging.read_matching(node_type, condition)
    if rows is None or not rows.num_rows:
        return AffectedCounts()
    values = given.build_columns(node_type, statement.values)
    every = np.zeros(rows.num_rows, np.int64)
    staging.table(node_type).upsert(replace_columns(rows, {name: one.take(every) for name, one in values.items()}))
    rounded = given.find_rounded(node_type, statement.values)
    return AffectedCounts(rows.num_rows, 0, tuple(replace(each, count=rows.num_rows) for each in rounded))


def _update_bound(
    type_: NodeType | EdgeType, staging: StagingArea, statement: UpdateBound, given: StatementRows
) -> AffectedCounts:
    # A row whose optional target is absent has no id.
    given = given.select(given.columns[statement.entity].is_valid())
    ids = given.columns[statement.entity]
    values = given.build_columns(type_, statement.values, ids)
    varying = [value.name for value in statement.values if given.varies(value.value)]
    kept = keep_one_row_per_id(type_, ids, {name: values[name] for name in varying})
    chosen = np.arange(given.count) if kept is None else kept
    if not len(chosen):
        return AffectedCounts()
    targets = ids.take(chosen)
    rows = staging.read_matching(type_, ValueIn(("id",), cast("pa.StringArray", targets)))
    places = chosen[_find_places(column_of(rows, "id"), targets)]
    staging.table(type_).upsert(replace_columns(rows, {name: column.take(places) for name, column in values.items()}))
    return replace(_count(type_, rows.num_rows), rounded=given.find_rounded(type_, statement.values))


def _find_places(ids: Values, among: Values) -> npt.NDArray[np.int64]:
    """Return where each id is among others, which have it once."""
    found = compute("index_in", ids, options=pc.SetLookupOptions(among))
    return found.to_numpy(zero_copy_only=False).astype(np.int64)


def _count(type_: NodeType | EdgeType, rows: int) -> AffectedCounts:
    return AffectedCounts(nodes=rows) if isinstance(type_, NodeType) else AffectedCounts(edges=rows)


# --------------------------------------------------------------------------------------------- delete


def _delete_nodes(
    catalog: Catalog, staging: StagingArea, statement: DeleteNodes, given: StatementRows
) -> AffectedCounts:
    node_type = catalog.nodes[statement.node_type]
    condition = _to_condition(node_type, statement.predicate, given)
    if condition is None:
        return AffectedCounts()
    return _remove_nodes(catalog, staging, node_type, condition, statement.cascades)


def _remove_nodes(
    catalog: Catalog,
    staging: StagingArea,
    node_type: NodeType,
    condition: ValueCondition | ValueIn,
    cascades: tuple[str, ...],
) -> AffectedCounts:
    nodes = staging.find_ids(node_type, condition)
    if not len(nodes):
        return AffectedCounts()
    staging.table(node_type).delete(nodes)
    edges = 0
    for edge_type in (catalog.edges[name] for name in cascades):
        types = {"src": edge_type.from_type, "dst": edge_type.to_type}
        ends = tuple(end for end, type_ in types.items() if type_ == node_type.name)
        edges += _remove_edges(staging, edge_type, ValueIn(ends, nodes))
    return AffectedCounts(len(nodes), edges)


def _delete_edges(
    edge_type: EdgeType, staging: StagingArea, statement: DeleteEdges, given: StatementRows
) -> AffectedCounts:
    condition = _to_condition(edge_type, statement.predicate, given)
    return AffectedCounts() if condition is None else AffectedCounts(edges=_remove_edges(staging, edge_type, condition))


def _delete_bound(
    catalog: Catalog, staging: StagingArea, statement: DeleteBound, given: StatementRows
) -> AffectedCounts:
    ids = cast("pa.StringArray", compute("drop_null", compute("unique", given.columns[statement.entity])))
    if not len(ids):
        return AffectedCounts()
    type_ = _type_of(catalog, statement.table_key)
    condition = ValueIn(("id",), ids)
    if isinstance(type_, NodeType):
        return _remove_nodes(catalog, staging, type_, condition, statement.cascades)
    return AffectedCounts(edges=_remove_edges(staging, type_, condition))


def _remove_edges(staging: StagingArea, edge_type: EdgeType, condition: ValueCondition | ValueIn) -> int:
    edges = staging.find_ids(edge_type, condition)
    if len(edges):
        staging.table(edge_type).delete(edges)
    return len(edges)


# --------------------------------------------------------------------------------------------- conditions


def _to_condition(type_: NodeType | EdgeType, predicate: Predicate, given: StatementRows) -> ValueCondition | None:
    """Return the condition of a ``where``; None if no row can match."""
    assert isinstance(predicate, Compare)
    assert isinstance(predicate.left, PropertyValue)
    column, type_of_property = predicate.left.name, predicate.left.type
    if predicate.operator is ComparisonOperator.EQUAL and isinstance(type_, NodeType) and _equals_id(type_, column):
        column = "id"
    return compare_column(column, type_of_property, predicate.operator, given.evaluate(predicate.right))


def _equals_id(node_type: NodeType, column: str) -> bool:
    """Whether a property equals the id: a key of one string does. A search by id may use an index."""
    return node_type.key == (column,) and node_type.properties[column].type.scalar is Scalar.STRING


# --------------------------------------------------------------------------------------------- rows


def _build_rows(type_: NodeType | EdgeType, assignments: tuple[AssignedValue, ...], given: StatementRows) -> pa.Table:
    """Build rows in the columns of their table. Unassigned columns are null, the id included."""
    schema, columns = arrow_schema(type_), given.build_columns(type_, assignments)
    named = zip(schema.names, schema.types, strict=True)
    arrays = [columns[name] if name in columns else make_nulls(given.count, kind) for name, kind in named]
    return pa.Table.from_arrays(arrays, schema=schema)


def replace_columns(rows: pa.Table, columns: Mapping[str, Values]) -> pa.Table:
    """Replace some columns of rows."""
    return pa.Table.from_arrays([columns.get(name, rows[name]) for name in rows.column_names], schema=rows.schema)
