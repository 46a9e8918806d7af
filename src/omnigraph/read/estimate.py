"""How many rows each operator of a plan will give, guessed from the sizes of tables before anything is read.

The guesses choose where a match begins and are shown by ``explain``. They are never right and need not be: a wrong one
costs time, not correctness.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from omnigraph.language.query import Compare, Comparison, Constant, IsNull, Predicate, PropertyValue
from omnigraph.language.query.plan import (
    Connect,
    ConnectEdges,
    Cross,
    Expand,
    ExpandEdges,
    Fuse,
    Group,
    Limit,
    Outer,
    Plan,
    Project,
    Scan,
    Select,
    Sort,
    TopRanked,
    Without,
    inputs_of,
)
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.match import comparison_of

_SAME: Final = 0.05
"""How many of the rows hold one value of a property, where nothing is known of it."""
_RANGE: Final = 0.3
_NULL: Final = 0.1
_TEXT: Final = 0.05
_LEFT_BY_NEGATION: Final = 0.5
_GROUPS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many rows the tables of a snapshot have."""

    catalog: Catalog
    rows: dict[str, int]

    def nodes(self, node_type: str) -> int:
        """The number of nodes of a type."""
        return self.rows.get(f"node:{node_type}", 0)

    def degree(self, edge: EdgeType, node_type: str) -> float:
        """How many edges of a type a node has."""
        return self.rows.get(edge.table_key, 0) / max(1, self.nodes(node_type))

    def weigh(self, scan: Scan) -> float:
        """How many nodes a scan finds."""
        type_ = self.catalog.nodes[scan.node_type]
        return self.nodes(scan.node_type) * self.left_by(scan.predicates, type_)

    def left_by(self, predicates: tuple[Predicate, ...], type_: NodeType | EdgeType) -> float:
        """The part of a type's rows that fulfil some predicates."""
        part = 1.0
        for predicate in predicates:
            part *= self._part(predicate, type_)
        return part

    def _part(self, predicate: Predicate, type_: NodeType | EdgeType) -> float:
        match predicate:
            case IsNull():
                return 1 - _NULL if predicate.negated else _NULL
            case Compare(PropertyValue() as value, operator, _) | Compare(_, operator, PropertyValue() as value):
                return self._compared(value, operator, type_)
            case Compare():
                return _RANGE
            case _:
                return _TEXT

    def _compared(self, value: PropertyValue, operator: Comparison, type_: NodeType | EdgeType) -> float:
        if operator is Comparison.NOT_EQUAL:
            return 1 - _SAME
        if operator is not Comparison.EQUAL:
            return _RANGE
        if getattr(type_, "key", None) == (value.name,) or (value.name,) in type_.unique:
            return 1 / max(1, self.rows.get(type_.table_key, 0))
        return 1 / len(value.type.enum_values) if value.type.enum_values else _SAME


def sizes_of(snapshot: Snapshot, catalog: Catalog) -> Sizes:
    """The sizes that a snapshot notes; nothing is read for them."""
    return Sizes(catalog, {pin.table_key: pin.row_count for pin in snapshot.pins.values()})


@dataclass(frozen=True, slots=True)
class Estimate:
    """The guesses for the operators of one plan, by identity."""

    sizes: Sizes
    types: dict[str, str] = field(default_factory=dict[str, str])
    rows: dict[int, float] = field(default_factory=dict[int, float])

    def of(self, plan: Plan) -> float:
        """The rows of an operator; those below it are guessed first, without recursion along the match."""
        waiting: list[Plan] = [plan]
        while waiting:
            now = waiting[-1]
            below = [each for each in inputs_of(now) if id(each) not in self.rows]
            if below:
                waiting += below
                continue
            waiting.pop()
            self.rows[id(now)] = self._guess(now)
        return self.rows[id(plan)]

    def _of_input(self, plan: Plan) -> float:
        return self.rows[id(plan)]

    def _guess(self, plan: Plan) -> float:
        match plan:
            case Scan():
                self.types[plan.variable] = plan.node_type
                return self.sizes.weigh(plan)
            case Outer():
                return 1.0
            case Expand() | ExpandEdges():
                return self._expanded(plan)
            case Connect() | ConnectEdges():
                return self._connected(plan)
            case Cross():
                return self._of_input(plan.left) * self._of_input(plan.right)
            case Select():
                is_join = isinstance(plan.input, Cross) and comparison_of(plan.input, plan) is not None
                return self._of_input(plan.input) * (_SAME * _SAME if is_join else _RANGE)
            case Without():
                return self._of_input(plan.input) * _LEFT_BY_NEGATION
            case TopRanked() | Fuse():
                return self._ranked(plan)
            case Group():
                return max(1.0, self._of_input(plan.input) * _GROUPS) if plan.keys else 1.0
            case Limit():
                limit = plan.count.value if isinstance(plan.count, Constant) else None
                rows = self._of_input(plan.input)
                return min(rows, limit) if isinstance(limit, int) else rows
            case Sort() | Project():
                return self._of_input(plan.input)

    def _expanded(self, plan: Expand | ExpandEdges) -> float:
        self.types[plan.destination] = plan.destination_type
        edge, destination = self.sizes.catalog.edges[plan.edge_type], self.sizes.catalog.nodes[plan.destination_type]
        degree = self.sizes.degree(edge, self.types.get(plan.source, plan.destination_type))
        reached = degree
        if isinstance(plan, Expand):
            hops = range(plan.minimum, plan.maximum + 1)
            reached = min(sum(degree**hop for hop in hops), self.sizes.nodes(plan.destination_type))
        else:
            reached *= self.sizes.left_by(plan.edge_predicates, edge)
        return self._of_input(plan.input) * reached * self.sizes.left_by(plan.predicates, destination)

    def _connected(self, plan: Connect | ConnectEdges) -> float:
        edge = self.sizes.catalog.edges[plan.edge_type]
        ends = max(1, self.sizes.nodes(edge.from_type)) * max(1, self.sizes.nodes(edge.to_type))
        return self._of_input(plan.input) * min(1.0, self.sizes.rows.get(edge.table_key, 0) / ends)

    def _ranked(self, plan: TopRanked | Fuse) -> float:
        rows = self._of_input(plan.input if isinstance(plan, TopRanked) else plan.first)
        limit = plan.limit.value if isinstance(plan.limit, Constant) else None
        return min(rows, limit) if isinstance(limit, int) else rows
