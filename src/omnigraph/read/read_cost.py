"""How much the local engine would read for a query, and how many rows its match would have. Only metadata is read.

Spark asks this to decide where a query runs. A wrong estimate costs time, never correctness.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from omnigraph.language.query.plan import Connect, ConnectEdges, Expand, ExpandEdges, NodeScan, ReadPlan, walk_plan
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.read.context import QueryContext
from omnigraph.read.estimate import CardinalityEstimator, table_sizes_of
from omnigraph.read.frames import FEW_ROWS, Strategy
from omnigraph.read.match import describe_edge_access, finds_by_id
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.row_sizes import estimate_row_bytes

_END_COLUMNS: Final = ("id", "src", "dst")


@dataclass(frozen=True, slots=True)
class ReadCost:
    """What a query costs in one process: the rows and bytes that it reads, and the most rows that an operator gives."""

    read_rows: int
    read_bytes: int
    match_rows: int


def estimate_read_cost(plan: ReadPlan, context: QueryContext) -> ReadCost:
    """Estimate the cost of a plan; tables that the cache holds already count as if they were read."""
    estimator = CardinalityEstimator(table_sizes_of(context.snapshot, context.catalog))
    estimator.estimate(plan)
    read = [part for operator in walk_plan(plan) for part in _list_reads(operator, estimator, context)]
    size = sum(rows * _estimate_bytes(type_, context) for type_, rows in read)
    return ReadCost(sum(rows for _, rows in read), size, int(max(estimator.rows.values(), default=0)))


def _list_reads(
    operator: object, estimator: CardinalityEstimator, context: QueryContext
) -> list[tuple[NodeType | EdgeType, int]]:
    """Return how many rows of which types an operator reads."""
    match operator:
        case NodeScan():
            type_ = context.catalog.nodes[operator.node_type]
            is_found = finds_by_id(operator, context)
            return [(type_, int(estimator.rows[id(operator)]) if is_found else _count_rows(type_, context))]
        case Expand() | ExpandEdges():
            nodes = context.catalog.nodes[operator.destination_type]
            reached = int(estimator.rows[id(operator)])
            # Of few nodes the rows are looked up, of many the columns are read whole.
            found = reached if reached <= FEW_ROWS else _count_rows(nodes, context)
            return [_estimate_edges(operator, estimator, context), (nodes, min(found, _count_rows(nodes, context)))]
        case Connect() | ConnectEdges():
            return [_estimate_edges(operator, estimator, context)]
        case _:
            return []


def _estimate_edges(
    operator: Expand | ExpandEdges | Connect | ConnectEdges, estimator: CardinalityEstimator, context: QueryContext
) -> tuple[EdgeType, int]:
    edge = context.catalog.edges[operator.edge_type]
    begins, every = estimator.rows[id(operator.input)], _count_rows(edge, context)
    if describe_edge_access(operator, begins, context.tables) != Strategy.INDEX:
        return edge, every
    degree = estimator.sizes.average_degree(edge, edge.from_type)
    return edge, min(every, int(begins * max(1.0, degree)))


def _count_rows(type_: NodeType | EdgeType, context: QueryContext) -> int:
    pin = context.snapshot.pins.get(type_.table_key)
    return 0 if pin is None else pin.row_count


def _estimate_bytes(type_: NodeType | EdgeType, context: QueryContext) -> int:
    schema = arrow_schema(type_)
    read = context.tables.read_columns
    return estimate_row_bytes(schema, [name for name in schema.names if name in _END_COLUMNS or name in read])
