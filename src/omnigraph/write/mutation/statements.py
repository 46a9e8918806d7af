"""The statements of a mutation. Each one runs on a staging area that holds the changes of earlier statements.

The language reference defines their meaning. The checker has resolved all names and filled in defaults; only parameter
values that a property cannot hold are found here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import ParameterError
from omnigraph.language.query import (
    AssignedValue,
    Compare,
    ComparisonOperator,
    Constant,
    DeleteEdges,
    DeleteNodes,
    Expression,
    InsertEdge,
    InsertNode,
    Now,
    ParameterValue,
    Predicate,
    PropertyValue,
    Statement,
    UpdateNodes,
)
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.language.types import NUMBERS, Scalar, ValueType
from omnigraph.language.values import ConstantValue, ValueMismatch, convert_value
from omnigraph.read.rows import to_blob_array
from omnigraph.storage.arrow_schema import arrow_schema, arrow_values
from omnigraph.storage.columns import Values
from omnigraph.storage.filters import ValueCondition, ValueIn, compare_column
from omnigraph.storage.keys import make_ids
from omnigraph.write.mutation.staging import StagingArea
from omnigraph.write.row_values import NotBase64, generate_ids, parse_blob

_STRING = ValueType(Scalar.STRING)


@dataclass(frozen=True, slots=True)
class AffectedCounts:
    """The number of nodes and edges that were written or deleted."""

    nodes: int = 0
    edges: int = 0

    def __add__(self, other: AffectedCounts) -> AffectedCounts:
        return AffectedCounts(self.nodes + other.nodes, self.edges + other.edges)

    def __sub__(self, other: AffectedCounts) -> AffectedCounts:
        return AffectedCounts(self.nodes - other.nodes, self.edges - other.edges)


@dataclass(frozen=True, slots=True)
class ExpressionContext:
    """The values that expressions use in one call: its parameters, and its time in milliseconds since 1970."""

    parameters: Mapping[str, ConstantValue]
    now: int

    def evaluate(self, expression: Expression) -> ConstantValue:
        """Return the value of an expression."""
        match expression:
            case Constant(value):
                return value
            case ParameterValue(name):
                return self.parameters[name]
            case Now():
                return self.now
            case _:
                raise AssertionError(f"the checker allows no {type(expression).__name__} in a mutation")


def run_statement(
    catalog: Catalog, staging: StagingArea, statement: Statement, context: ExpressionContext
) -> AffectedCounts:
    """Run one statement. Its changes go to the staging area."""
    match statement:
        case InsertNode():
            return _insert_node(catalog.nodes[statement.node_type], staging, statement, context)
        case InsertEdge():
            return _insert_edge(catalog.edges[statement.edge_type], staging, statement, context)
        case UpdateNodes():
            return _update_nodes(catalog.nodes[statement.node_type], staging, statement, context)
        case DeleteNodes():
            return _delete_nodes(catalog, staging, statement, context)
        case DeleteEdges():
            return _delete_edges(catalog.edges[statement.edge_type], staging, statement, context)


# --------------------------------------------------------------------------------------------- insert, update


def _insert_node(
    node_type: NodeType, staging: StagingArea, statement: InsertNode, context: ExpressionContext
) -> AffectedCounts:
    row = _build_row(node_type, statement.values, context)
    if node_type.key:
        staging.table(node_type).upsert(replace_columns(row, {"id": make_ids(node_type, row)}))
    else:
        staging.table(node_type).insert(replace_columns(row, {"id": generate_ids(1)}))
    return AffectedCounts(nodes=1)


def _insert_edge(
    edge_type: EdgeType, staging: StagingArea, statement: InsertEdge, context: ExpressionContext
) -> AffectedCounts:
    ends = {"src": statement.source, "dst": statement.destination}
    endpoints = {end: arrow_values(_STRING, [context.evaluate(given)]) for end, given in ends.items()}
    row = _build_row(edge_type, statement.values, context)
    staging.table(edge_type).insert(replace_columns(row, {"id": generate_ids(1), **endpoints}))
    return AffectedCounts(edges=1)


def _update_nodes(
    node_type: NodeType, staging: StagingArea, statement: UpdateNodes, context: ExpressionContext
) -> AffectedCounts:
    condition = _to_condition(node_type, statement.predicate, context)
    rows = None if condition is None else staging.read_matching(node_type, condition)
    if rows is None or not rows.num_rows:
        return AffectedCounts()
    staging.table(node_type).upsert(
        replace_columns(rows, _build_columns(node_type, statement.values, context, rows.num_rows))
    )
    return AffectedCounts(nodes=rows.num_rows)


# --------------------------------------------------------------------------------------------- delete


def _delete_nodes(
    catalog: Catalog, staging: StagingArea, statement: DeleteNodes, context: ExpressionContext
) -> AffectedCounts:
    node_type = catalog.nodes[statement.node_type]
    condition = _to_condition(node_type, statement.predicate, context)
    if condition is None:
        return AffectedCounts()
    nodes = staging.find_ids(node_type, condition)
    if not len(nodes):
        return AffectedCounts()
    staging.table(node_type).delete(nodes)
    edges = 0
    for edge_type in (catalog.edges[name] for name in statement.cascades):
        types = {"src": edge_type.from_type, "dst": edge_type.to_type}
        ends = tuple(end for end, type_ in types.items() if type_ == node_type.name)
        edges += _remove_edges(staging, edge_type, ValueIn(ends, nodes))
    return AffectedCounts(len(nodes), edges)


def _delete_edges(
    edge_type: EdgeType, staging: StagingArea, statement: DeleteEdges, context: ExpressionContext
) -> AffectedCounts:
    condition = _to_condition(edge_type, statement.predicate, context)
    return AffectedCounts() if condition is None else AffectedCounts(edges=_remove_edges(staging, edge_type, condition))


def _remove_edges(staging: StagingArea, edge_type: EdgeType, condition: ValueCondition | ValueIn) -> int:
    edges = staging.find_ids(edge_type, condition)
    if len(edges):
        staging.table(edge_type).delete(edges)
    return len(edges)


# --------------------------------------------------------------------------------------------- conditions


def _to_condition(
    type_: NodeType | EdgeType, predicate: Predicate, context: ExpressionContext
) -> ValueCondition | None:
    """Return the condition of a ``where``; None if no row can match."""
    assert isinstance(predicate, Compare)
    assert isinstance(predicate.left, PropertyValue)
    column, type_of_property = predicate.left.name, predicate.left.type
    if predicate.operator is ComparisonOperator.EQUAL and isinstance(type_, NodeType) and _equals_id(type_, column):
        column = "id"
    return compare_column(column, type_of_property, predicate.operator, context.evaluate(predicate.right))


def _equals_id(node_type: NodeType, column: str) -> bool:
    """Whether a property equals the id: a key of one string does. A search by id may use an index."""
    return node_type.key == (column,) and node_type.properties[column].type.scalar is Scalar.STRING


# --------------------------------------------------------------------------------------------- rows


def _build_row(
    type_: NodeType | EdgeType, assignments: tuple[AssignedValue, ...], context: ExpressionContext
) -> pa.Table:
    """Build a row in the columns of its table. Unassigned columns are null, the id included."""
    empty = pa.Table.from_pylist([{}], schema=arrow_schema(type_))
    return replace_columns(empty, _build_columns(type_, assignments, context, count=1))


def replace_columns(rows: pa.Table, columns: Mapping[str, Values]) -> pa.Table:
    """Replace some columns of rows."""
    return pa.Table.from_arrays([columns.get(name, rows[name]) for name in rows.column_names], schema=rows.schema)


def _build_columns(
    type_: NodeType | EdgeType, assignments: tuple[AssignedValue, ...], context: ExpressionContext, count: int
) -> dict[str, Values]:
    return {
        assignment.name: _build_column(type_.properties[assignment.name].type, assignment, context, count)
        for assignment in assignments
    }


def _build_column(target: ValueType, assignment: AssignedValue, context: ExpressionContext, count: int) -> Values:
    """Build a column of a property's type that repeats one value."""
    value = context.evaluate(assignment.value)
    try:
        if target.scalar is Scalar.BLOB:
            column = to_blob_array([None if value is None else parse_blob(cast(str, value))])
        else:
            column = arrow_values(target, [_convert_number(value, target)])
        return column.take(np.zeros(count, np.int64))
    except (ValueMismatch, NotBase64) as mismatch:
        hint = mismatch.hint if isinstance(mismatch, ValueMismatch) else "give base64:... or a URI"
        raise ParameterError(f"{_describe_value(assignment)}: {mismatch}", hint=hint) from mismatch


def _convert_number(value: ConstantValue, target: ValueType) -> ConstantValue:
    """Convert a number to the width of the property. Rules check enums later, with all other rows."""
    return convert_value(value, target.as_nullable()) if target.scalar in NUMBERS else value


def _describe_value(assignment: AssignedValue) -> str:
    given = assignment.value
    return (
        f"param '{given.name}' for '{assignment.name}'" if isinstance(given, ParameterValue) else f"'{assignment.name}'"
    )
