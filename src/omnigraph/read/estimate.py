"""Estimate the output rows of each operator of a plan, and what the plan reads, from the sizes of tables.

The estimates choose where a match begins, and whether a query in a Spark session runs on executors; ``explain`` shows
them. A wrong one costs time, never correctness. Only metadata is read.
"""

from __future__ import annotations

from dataclasses import field
from math import log, prod
from typing import Final

from omnigraph.language.query import (
    And,
    Compare,
    ComparisonOperator,
    Constant,
    Identity,
    IsNull,
    Marked,
    Not,
    Or,
    Predicate,
    PropertyValue,
)
from omnigraph.language.query.plan import (
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
    NodeScan,
    Optional,
    Outer,
    PlanOperator,
    Project,
    ReadPlan,
    Select,
    Sort,
    TopRanked,
    TopRows,
    Union,
    With,
    Without,
    walk_plan,
)
from omnigraph.language.schema import Catalog, EdgeType, NodeType, TableKey
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read import match
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import FEW_ROWS, Strategy
from omnigraph.read.match import find_join_comparison, find_ranked_scans, finds_by_id
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.tables import estimate_row_bytes

_EQUALITY: Final = 0.05
_RANGE: Final = 0.3
_IS_NULL: Final = 0.1
_TEXT_MATCH: Final = 0.05
_BLOCK: Final = 0.5
"""Selectivities: the fraction of rows that a condition keeps, if nothing else is known."""
_GROUPS_PER_ROW: Final = 0.1
_END_COLUMNS: Final = ("id", "src", "dst")
_MANY_HOPS: Final = 1_000
"""A walk without an upper bound is estimated as one of so many hops."""


@dataclass(frozen=True, slots=True)
class TableSizes:
    """The numbers of rows of the tables of a snapshot."""

    catalog: Catalog
    rows: dict[str, int]

    def node_count(self, node_type: str) -> int:
        """The number of nodes of a type."""
        return self.rows.get(TableKey.of_node(node_type), 0)

    def average_degree(self, edge: EdgeType, node_type: str) -> float:
        """The average number of edges of a type at a node."""
        return self.rows.get(edge.table_key, 0) / max(1, self.node_count(node_type))

    def estimate_scan(self, scan: NodeScan) -> float:
        """Estimate the number of nodes that a scan finds."""
        type_ = self.catalog.nodes[scan.node_type]
        return self.node_count(scan.node_type) * self.selectivity_of(scan.predicates, type_)

    def selectivity_of(self, predicates: tuple[Predicate, ...], type_: NodeType | EdgeType) -> float:
        """The estimated fraction of a type's rows that satisfy all predicates."""
        return prod(self._selectivity_of_one(predicate, type_) for predicate in predicates)

    def _selectivity_of_one(self, predicate: Predicate, type_: NodeType | EdgeType) -> float:
        match predicate:
            case IsNull():
                return 1 - _IS_NULL if predicate.negated else _IS_NULL
            case Compare(PropertyValue() as value, operator, _) | Compare(_, operator, PropertyValue() as value):
                return self._selectivity_of_comparison(value, operator, type_)
            case Compare(Identity(), ComparisonOperator.EQUAL, _) | Compare(_, ComparisonOperator.EQUAL, Identity()):
                return 1 / max(1, self.rows.get(type_.table_key, 0))
            case Compare():
                return _RANGE
            case And():
                return self.selectivity_of(predicate.parts, type_)
            case Or():
                return 1 - prod(1 - self._selectivity_of_one(part, type_) for part in predicate.parts)
            case Not():
                return 1 - self._selectivity_of_one(predicate.part, type_)
            case Marked():
                return _BLOCK
            case _:
                return _TEXT_MATCH

    def _selectivity_of_comparison(
        self, value: PropertyValue, operator: ComparisonOperator, type_: NodeType | EdgeType
    ) -> float:
        if operator is ComparisonOperator.NOT_EQUAL:
            return 1 - _EQUALITY
        if operator is not ComparisonOperator.EQUAL:
            return _RANGE
        if getattr(type_, "key", None) == (value.name,) or (value.name,) in type_.unique:
            return 1 / max(1, self.rows.get(type_.table_key, 0))
        return 1 / len(value.type.enum_values) if value.type.enum_values else _EQUALITY


def table_sizes_of(snapshot: Snapshot, catalog: Catalog) -> TableSizes:
    """The sizes of all tables, as the manifest records them."""
    return TableSizes(catalog, {pin.table_key: pin.row_count for pin in snapshot.pins.values()})


@dataclass(frozen=True, slots=True)
class CardinalityEstimator:
    """Estimates the rows of the operators of one plan, by the identity of the operator."""

    sizes: TableSizes
    types: dict[str, str] = field(default_factory=dict[str, str])
    rows: dict[int, float] = field(default_factory=dict[int, float])

    def estimate(self, plan: PlanOperator) -> float:
        """Estimate the rows of an operator and of all operators below it."""
        for operator in reversed(list(walk_plan(plan))):
            self.rows[id(operator)] = self._estimate_operator(operator)
        return self.rows[id(plan)]

    def _rows_of(self, plan: PlanOperator) -> float:
        return self.rows[id(plan)]

    def _estimate_operator(self, plan: PlanOperator) -> float:
        match plan:
            case NodeScan():
                self.types[plan.variable] = plan.node_type
                return self.sizes.estimate_scan(plan)
            case Outer():
                return 1.0
            case Expand() | ExpandEdges():
                return self._estimate_expand(plan)
            case Connect() | ConnectEdges():
                return self._estimate_connect(plan)
            case Cross():
                return self._rows_of(plan.left) * self._rows_of(plan.right)
            case Select():
                if isinstance(plan.input, Cross) and find_join_comparison(plan.input, plan) is not None:
                    # On one side most values are found once.
                    most = max(self._rows_of(plan.input.left), self._rows_of(plan.input.right))
                    return min(self._rows_of(plan.input) * _EQUALITY * _EQUALITY, most)
                return self._rows_of(plan.input) * _RANGE
            case With() | Without():
                return self._rows_of(plan.input) * _BLOCK
            case TopRanked() | Fuse():
                return self._estimate_ranked(plan)
            case Union():
                return sum(map(self._rows_of, plan.branches))
            case _:
                return self._estimate_result(plan)

    def _estimate_result(self, plan: Mark | Optional | Group | Keep | Sort | Limit | TopRows | Project) -> float:
        rows = self._rows_of(plan.input)
        match plan:
            case Group():
                return max(1.0, rows * _GROUPS_PER_ROW) if plan.keys else 1.0
            case Keep():
                return rows * _RANGE
            case Limit() | TopRows():
                count = plan.count if isinstance(plan, Limit) else plan.limit
                limit = count.value if isinstance(count, Constant) else None
                return min(rows, limit) if isinstance(limit, int) else rows
            case Optional():
                return rows * max(1.0, self._rows_of(plan.inner))
            case Mark() | Sort() | Project():
                return rows

    def _estimate_expand(self, plan: Expand | ExpandEdges) -> float:
        self.types[plan.destination] = plan.destination_type
        reached = self._estimate_reached(plan, self.types.get(plan.source, plan.destination_type))
        if isinstance(plan, ExpandEdges):
            reached *= self.sizes.selectivity_of(plan.edge_predicates, self.sizes.catalog.edges[plan.edge_type])
        destination = self.sizes.catalog.nodes[plan.destination_type]
        return self._rows_of(plan.input) * reached * self.sizes.selectivity_of(plan.predicates, destination)

    def _estimate_connect(self, plan: Connect | ConnectEdges) -> float:
        walk = match.edge_walk_of(plan)
        source, destination = walk.end_types(self.sizes.catalog)
        fraction = self._estimate_reached(plan, source.name) / max(1, self.sizes.node_count(destination.name))
        return self._rows_of(plan.input) * min(1.0, fraction)

    def _estimate_reached(self, plan: Expand | ExpandEdges | Connect | ConnectEdges, source_type: str) -> float:
        """Estimate how many nodes or edges an operator finds from one node."""
        walk = match.edge_walk_of(plan)
        edges = [self.sizes.catalog.edges[step.edge_type] for step in walk.steps]
        degree = sum(self.sizes.average_degree(edge, source_type) for edge in edges)
        if isinstance(plan, ExpandEdges | ConnectEdges):
            return degree
        most = self.sizes.node_count(walk.end_types(self.sizes.catalog)[1].name)
        return sum_powers(degree, plan.minimum, _MANY_HOPS if plan.maximum is None else plan.maximum, most=most)

    def _estimate_ranked(self, plan: TopRanked | Fuse) -> float:
        rows = self._rows_of(plan.input if isinstance(plan, TopRanked) else plan.arms[0])
        limit = plan.limit.value if isinstance(plan.limit, Constant) else None
        return min(rows, limit) if isinstance(limit, int) else rows


def sum_powers(base: float, first: int, last: int, *, most: float) -> float:
    """Return ``base**first + ... + base**last``, or ``most`` if that is less."""
    if first > last or most <= 0:
        return 0.0
    if base > 1 and last * log(base) >= log(most):
        # The last power alone reaches the bound, and may be too large for a float.
        return most
    count = last - first + 1
    total = count if base == 1 else base**first * (1 - base**count) / (1 - base)
    return min(total, most)


# --------------------------------------------------------------------------------------------- what is read


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
    ranked = {key: scan for key, scan in find_ranked_scans(plan, context).items() if scan.uses_index(context)}
    read = [(scan.type, min(scan.limit, _count_rows(scan.type, context))) for scan in ranked.values()]
    for operator in walk_plan(plan):
        if id(operator) not in ranked:
            read += _list_reads(operator, estimator, context)
    size = sum(rows * _estimate_bytes(type_, context) for type_, rows in read)
    given = [rows for key, rows in estimator.rows.items() if key not in ranked]
    return ReadCost(sum(rows for _, rows in read), size, int(max(given, default=0)))


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
            return [*_estimate_edges(operator, estimator, context), (nodes, min(found, _count_rows(nodes, context)))]
        case Connect() | ConnectEdges():
            return _estimate_edges(operator, estimator, context)
        case _:
            return []


def _estimate_edges(
    operator: Expand | ExpandEdges | Connect | ConnectEdges, estimator: CardinalityEstimator, context: QueryContext
) -> list[tuple[NodeType | EdgeType, int]]:
    begins = estimator.rows[id(operator.input)]
    is_looked_up = match.describe_edge_access(operator, begins, context.tables) == Strategy.INDEX
    found: list[tuple[NodeType | EdgeType, int]] = []
    for step in match.edge_walk_of(operator).steps:
        edge = context.catalog.edges[step.edge_type]
        reached = int(begins * max(1.0, estimator.sizes.average_degree(edge, edge.from_type)))
        every = _count_rows(edge, context)
        found.append((edge, min(every, reached) if is_looked_up else every))
    return found


def _count_rows(type_: NodeType | EdgeType, context: QueryContext) -> int:
    pin = context.snapshot.pins.get(type_.table_key)
    return 0 if pin is None else pin.row_count


def _estimate_bytes(type_: NodeType | EdgeType, context: QueryContext) -> int:
    schema = arrow_schema(type_)
    read = context.tables.read_columns
    return estimate_row_bytes(schema, [name for name in schema.names if name in _END_COLUMNS or name in read])
