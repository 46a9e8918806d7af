"""The statements of a mutation, each run over a staging area that holds what those before it did.

What they mean is in the language reference. The checker has resolved every name and filled in defaults; what is left
to be found here are values of parameters that a property cannot hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

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
from omnigraph.storage.filters import AnyOf, Compared, comparison
from omnigraph.storage.keys import ids_of
from omnigraph.write.blobs import NotBase64, parse_blob
from omnigraph.write.ids import generate_ids
from omnigraph.write.mutation.staging import StagingArea

Column: TypeAlias = "pa.Array[pa.Scalar[pa.DataType]]"
_STRING = ValueType(Scalar.STRING)


@dataclass(frozen=True, slots=True)
class AffectedCounts:
    """How many nodes and edges were written or removed."""

    nodes: int = 0
    edges: int = 0

    def __add__(self, other: AffectedCounts) -> AffectedCounts:
        return AffectedCounts(self.nodes + other.nodes, self.edges + other.edges)

    def __sub__(self, other: AffectedCounts) -> AffectedCounts:
        return AffectedCounts(self.nodes - other.nodes, self.edges - other.edges)


@dataclass(frozen=True, slots=True)
class ExpressionContext:
    """What expressions stand for in one call: its parameters, and its time in milliseconds since 1970."""

    parameters: Mapping[str, ConstantValue]
    now: int

    def evaluate(self, expression: Expression) -> ConstantValue:
        """The value of an expression of a mutation."""
        match expression:
            case Constant(value):
                return value
            case ParameterValue(name):
                return self.parameters[name]
            case Now():
                return self.now
            case _:
                raise AssertionError(f"the checker lets no {type(expression).__name__} into a mutation")


def run_statement(
    catalog: Catalog, staging: StagingArea, statement: Statement, values: ExpressionContext
) -> AffectedCounts:
    """Run one statement; what it does is pending afterwards."""
    match statement:
        case InsertNode():
            return _insert_node(catalog.nodes[statement.node_type], staging, statement, values)
        case InsertEdge():
            return _insert_edge(catalog.edges[statement.edge_type], staging, statement, values)
        case UpdateNodes():
            return _update(catalog.nodes[statement.node_type], staging, statement, values)
        case DeleteNodes():
            return _delete_nodes(catalog, staging, statement, values)
        case DeleteEdges():
            return _delete_edges(catalog.edges[statement.edge_type], staging, statement, values)


# --------------------------------------------------------------------------------------------- insert, update


def _insert_node(
    node_type: NodeType, staging: StagingArea, statement: InsertNode, values: ExpressionContext
) -> AffectedCounts:
    row = _build_row(node_type, statement.values, values)
    if node_type.key:
        staging.table(node_type).upsert(_replace_columns(row, {"id": ids_of(node_type, row)}))
    else:
        staging.table(node_type).insert(_replace_columns(row, {"id": generate_ids(1)}))
    return AffectedCounts(nodes=1)


def _insert_edge(
    edge_type: EdgeType, staging: StagingArea, statement: InsertEdge, values: ExpressionContext
) -> AffectedCounts:
    ends = {"src": statement.source, "dst": statement.destination}
    named = {end: arrow_values(_STRING, [values.evaluate(given)]) for end, given in ends.items()}
    row = _build_row(edge_type, statement.values, values)
    staging.table(edge_type).insert(_replace_columns(row, {"id": generate_ids(1), **named}))
    return AffectedCounts(edges=1)


def _update(
    node_type: NodeType, staging: StagingArea, statement: UpdateNodes, values: ExpressionContext
) -> AffectedCounts:
    condition = _to_condition(node_type, statement.predicate, values)
    rows = None if condition is None else staging.read_matching(node_type, condition)
    if rows is None or not rows.num_rows:
        return AffectedCounts()
    staging.table(node_type).upsert(
        _replace_columns(rows, _build_columns(node_type, statement.values, values, rows.num_rows))
    )
    return AffectedCounts(nodes=rows.num_rows)


# --------------------------------------------------------------------------------------------- delete


def _delete_nodes(
    catalog: Catalog, staging: StagingArea, statement: DeleteNodes, values: ExpressionContext
) -> AffectedCounts:
    node_type = catalog.nodes[statement.node_type]
    condition = _to_condition(node_type, statement.predicate, values)
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
        edges += _remove_edges(staging, edge_type, AnyOf(ends, nodes))
    return AffectedCounts(len(nodes), edges)


def _delete_edges(
    edge_type: EdgeType, staging: StagingArea, statement: DeleteEdges, values: ExpressionContext
) -> AffectedCounts:
    condition = _to_condition(edge_type, statement.predicate, values)
    return AffectedCounts() if condition is None else AffectedCounts(edges=_remove_edges(staging, edge_type, condition))


def _remove_edges(staging: StagingArea, edge_type: EdgeType, condition: Compared | AnyOf) -> int:
    edges = staging.find_ids(edge_type, condition)
    if len(edges):
        staging.table(edge_type).delete(edges)
    return len(edges)


# --------------------------------------------------------------------------------------------- conditions


def _to_condition(type_: NodeType | EdgeType, predicate: Predicate, values: ExpressionContext) -> Compared | None:
    """What the rows of a ``where`` must fulfil. None: there can be no such row."""
    assert isinstance(predicate, Compare)
    assert isinstance(predicate.left, PropertyValue)
    column, declared = predicate.left.name, predicate.left.type
    if predicate.operator is ComparisonOperator.EQUAL and isinstance(type_, NodeType) and _is_id(type_, column):
        column = "id"
    return comparison(column, declared, predicate.operator, values.evaluate(predicate.right))


def _is_id(node_type: NodeType, column: str) -> bool:
    """Whether a property is the id under another name: a single text key is, and the id may have an index."""
    return node_type.key == (column,) and node_type.properties[column].type.scalar is Scalar.STRING


# --------------------------------------------------------------------------------------------- rows


def _build_row(type_: NodeType | EdgeType, assigned: tuple[AssignedValue, ...], values: ExpressionContext) -> pa.Table:
    """A row in the columns of its table; what is not assigned is null, the id included."""
    empty = pa.Table.from_pylist([{}], schema=arrow_schema(type_))
    return _replace_columns(empty, _build_columns(type_, assigned, values, count=1))


def _replace_columns(rows: pa.Table, columns: Mapping[str, Column]) -> pa.Table:
    """The rows with some columns replaced."""
    return pa.Table.from_arrays([columns.get(name, rows[name]) for name in rows.column_names], schema=rows.schema)


def _build_columns(
    type_: NodeType | EdgeType, assigned: tuple[AssignedValue, ...], values: ExpressionContext, count: int
) -> dict[str, Column]:
    return {
        assign.name: _build_column(type_.properties[assign.name].type, assign, values, count) for assign in assigned
    }


def _build_column(declared: ValueType, assign: AssignedValue, values: ExpressionContext, count: int) -> Column:
    """A value, repeated, as a column of a property's type."""
    value = values.evaluate(assign.value)
    try:
        if declared.scalar is Scalar.BLOB:
            once = to_blob_array([None if value is None else parse_blob(cast(str, value))])
        else:
            once = arrow_values(declared, [_convert_number(value, declared)])
        return once.take(np.zeros(count, np.int64))
    except (ValueMismatch, NotBase64) as mismatch:
        hint = mismatch.hint if isinstance(mismatch, ValueMismatch) else "give base64:... or a URI"
        raise ParameterError(f"{_describe_value(assign)}: {mismatch}", hint=hint) from mismatch


def _convert_number(value: ConstantValue, declared: ValueType) -> ConstantValue:
    """A number of another width may not fit; an enum is looked at by the rules, with all other rows."""
    return convert_value(value, declared.as_nullable()) if declared.scalar in NUMBERS else value


def _describe_value(assign: AssignedValue) -> str:
    given = assign.value
    return f"param '{given.name}' for '{assign.name}'" if isinstance(given, ParameterValue) else f"'{assign.name}'"
