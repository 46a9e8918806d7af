"""The choice between adjacency arrays and index lookups when an operator follows edges.

Arrays of a whole edge type are fast to walk and expensive to build; a lookup reads only the edges of a few nodes. The
choice is by estimated cost and never changes the result. Nothing here reads a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from omnigraph.language.query import EdgeStep, TraversalDirection
from omnigraph.language.query.plan import Connect, ConnectEdges, Expand, ExpandEdges
from omnigraph.language.schema import Catalog, NodeType, TableKey
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import QueryTables, SkiRental, Strategy, read_contents
from omnigraph.read.topology import find_lookup_rental, had_arrays, is_step_loaded, is_step_stored, start_rebuild
from omnigraph.storage.filters import MAX_LISTED_VALUES

_LOOKUP_SECONDS: Final = 1.2e-3
"""For each list of ids that is looked up."""
_SECONDS_PER_FOUND_EDGE: Final = 20e-6
_SECONDS_PER_SCANNED_EDGE: Final = 50e-9
"""Without an index, a lookup scans all edges."""
_SECONDS_PER_BUILT_EDGE: Final = 250e-9
_SECONDS_PER_BUILT_NODE: Final = 300e-9
"""To build arrays; the sum of the timings of the parts. Lookups were timed on 10 million edges, scans
on 2.4 million, on two shared cores and a local disk."""
_SECONDS_PER_STORED_EDGE: Final = 4e-9
_SECONDS_PER_STORED_NODE: Final = 40e-9
"""To read arrays from a file, and the ids of nodes. Timed with 2.4 million edges of 100,000 nodes."""
_HOPS_AHEAD: Final = 8
"""So many hops of a walk are estimated before the first."""

_PATIENCE: Final = 4
"""While arrays are built in the background, lookups may cost so many times what arrays cost."""


@dataclass(frozen=True, slots=True)
class EdgeWalk:
    """How an operator follows edges: each hop is one of the steps, which lead from one type to one type."""

    steps: tuple[EdgeStep, ...]
    distinct: bool
    """Whether parallel edges count once; several steps need it."""
    hops: int | None
    """How many hops at most."""

    def end_types(self, catalog: Catalog) -> tuple[NodeType, NodeType]:
        """The node types where a hop begins and where it ends."""
        step = self.steps[0]
        edge = catalog.edges[step.edge_type]
        source, destination = catalog.nodes[edge.from_type], catalog.nodes[edge.to_type]
        return (destination, source) if step.direction is TraversalDirection.IN else (source, destination)


def lookup_columns(direction: TraversalDirection) -> tuple[str, ...]:
    """The columns of an edge table that hold the node where a hop begins."""
    match direction:
        case TraversalDirection.OUT:
            return ("src",)
        case TraversalDirection.IN:
            return ("dst",)
        case TraversalDirection.BOTH:
            return ("src", "dst")


def edge_walk_of(plan: Expand | ExpandEdges | Connect | ConnectEdges) -> EdgeWalk:
    """Return how an operator of a plan follows edges."""
    if isinstance(plan, Expand | Connect):
        return EdgeWalk(plan.steps, distinct=True, hops=plan.maximum)
    return EdgeWalk((EdgeStep(plan.edge_type, plan.direction),), distinct=False, hops=1)


@dataclass(frozen=True, slots=True)
class EdgeSizes:
    """Sizes of an edge type: its edges, the nodes at both ends, and the average degree where a hop begins."""

    edges: int
    nodes: int
    degree: float
    are_stored: bool = False
    """Whether the arrays can be read from a file."""


def choose_strategy(
    frontier_rows: float, sizes: EdgeSizes, *, indexed: bool, spent: float = 0.0, hops: int | None = 1
) -> Strategy:
    """Choose arrays that are not loaded if building them costs less than looking up the edges of the frontier.

    ``spent`` is the estimated time of all lookups so far. As in ski rental, at most the price of the arrays is spent
    on lookups before the arrays are built. Arrays in a file cost so little that they are also read for what the rest
    of a walk, of ``hops`` hops at most, would probably cost.
    """
    per_edge, per_node, ahead = _SECONDS_PER_BUILT_EDGE, _SECONDS_PER_BUILT_NODE, 1
    if sizes.are_stored:
        per_edge, per_node = _SECONDS_PER_STORED_EDGE, _SECONDS_PER_STORED_NODE
        ahead = _HOPS_AHEAD if hops is None else min(hops, _HOPS_AHEAD)
    build_seconds = sizes.edges * per_edge + sizes.nodes * per_node
    frontiers = (min(frontier_rows * sizes.degree**hop, sizes.nodes) for hop in range(ahead))
    lookup_seconds = sum(estimate_lookup(rows, sizes, indexed=indexed) for rows in frontiers)
    return Strategy.ARRAYS if spent + lookup_seconds >= build_seconds else Strategy.INDEX


def estimate_lookup(frontier_rows: float, sizes: EdgeSizes, *, indexed: bool) -> float:
    """Estimate the seconds that it takes to look up the edges of some nodes."""
    lists = -(-frontier_rows // MAX_LISTED_VALUES)
    seconds_per_list = _LOOKUP_SECONDS + (0 if indexed else sizes.edges * _SECONDS_PER_SCANNED_EDGE)
    return lists * seconds_per_list + frontier_rows * sizes.degree * _SECONDS_PER_FOUND_EDGE


def should_look_up(walk: EdgeWalk, frontier_rows: int, tables: QueryTables) -> bool:
    """Decide whether to look up the edges of a frontier, and charge the cost of the lookup."""
    choices = [_choose(step, walk, frontier_rows, tables) for step in walk.steps]
    if _combine(choices) is not Strategy.INDEX:
        return False
    for choice, step in zip(choices, walk.steps, strict=True):
        choice.rental.pay(choice.lookup_seconds)
        if choice.is_rebuild_due:
            start_rebuild(tables.catalog.edges[step.edge_type], tables)
    return True


def describe_edge_access(
    plan: Expand | ExpandEdges | Connect | ConnectEdges, frontier_rows: float, tables: QueryTables
) -> str:
    """Name the strategy that would be chosen now, for ``explain``."""
    walk = edge_walk_of(plan)
    return _combine([_choose(step, walk, frontier_rows, tables) for step in walk.steps])


def _combine(choices: Sequence[_Choice]) -> Strategy:
    """Choose arrays for all steps of a walk if one of them is better off with arrays: a walk is over one kind."""
    return next((each.strategy for each in choices if each.strategy is not Strategy.INDEX), Strategy.INDEX)


@dataclass(frozen=True, slots=True)
class _Choice:
    """A chosen strategy, what the lookup costs, and the account of earlier lookups in this edge table."""

    strategy: Strategy
    lookup_seconds: float
    rental: SkiRental
    is_rebuild_due: bool = False
    """Whether arrays of an older version are in memory, and those of this one should be built in the background."""


_LOADED: Final = _Choice(Strategy.ARRAYS, 0.0, SkiRental())
"""The choice while arrays are in memory: nobody pays for lookups then."""


def _choose(step: EdgeStep, walk: EdgeWalk, frontier_rows: float, tables: QueryTables) -> _Choice:
    if tables.strategy is Strategy.AUTO and is_step_loaded(step, tables, distinct=walk.distinct):
        return _LOADED
    edge = tables.catalog.edges[step.edge_type]
    contents = read_contents(tables.snapshot, edge.table_key, tables.cache)
    sources, destinations = (
        read_contents(tables.snapshot, TableKey.of_node(name), tables.cache).num_rows
        for name in (edge.from_type, edge.to_type)
    )
    sizes = replace(
        _measure_edges(contents.num_rows, sources, destinations, step.direction),
        are_stored=tables.strategy is Strategy.AUTO and is_step_stored(step, tables, distinct=walk.distinct),
    )
    rental = find_lookup_rental(contents, tables.cache)
    indexed = contents.indexed.issuperset(lookup_columns(step.direction))
    lookup_seconds = estimate_lookup(frontier_rows, sizes, indexed=indexed)
    if tables.strategy is not Strategy.AUTO:
        return _Choice(tables.strategy, lookup_seconds, rental)
    strategy = choose_strategy(frontier_rows, sizes, indexed=indexed, spent=rental.spent, hops=walk.hops)
    if strategy is Strategy.ARRAYS and had_arrays(contents, tables.cache):
        spent = rental.spent / _PATIENCE
        patient = choose_strategy(frontier_rows, sizes, indexed=indexed, spent=spent, hops=walk.hops)
        return _Choice(patient, lookup_seconds, rental, is_rebuild_due=True)
    return _Choice(strategy, lookup_seconds, rental)


def _measure_edges(edges: int, sources: int, destinations: int, direction: TraversalDirection) -> EdgeSizes:
    match direction:
        case TraversalDirection.OUT:
            degree = edges / max(1, sources)
        case TraversalDirection.IN:
            degree = edges / max(1, destinations)
        case TraversalDirection.BOTH:
            degree = 2 * edges / max(1, sources)
    return EdgeSizes(edges, sources + destinations, degree)
