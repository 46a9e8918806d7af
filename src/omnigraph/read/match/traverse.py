"""Steps along edges, on frames: over the arrays of a whole edge type, or over the few edges that an index finds.

Both ways end in arrays, of all edges or of those around the rows of the frame, and every operator is written once over
arrays. The choice is by cost, and never changes a row of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import StorageError
from omnigraph.language.query import Direction
from omnigraph.language.query.plan import Connect, ConnectEdges, Expand, ExpandEdges
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.read.frames import (
    Binding,
    EntityTables,
    Frame,
    Mask,
    Places,
    Population,
    Positions,
    SeenRows,
    Strategy,
    WholeTable,
    contents_of,
    no_rows,
    rows_with,
)
from omnigraph.read.match.counting import by_position, check_countable
from omnigraph.read.match.topology import (
    Adjacency,
    adjacency,
    edges_between,
    edges_of,
    has_adjacency,
    has_pairs,
    joined_pairs,
    neighbours_of,
    oriented,
    spread,
    walk,
)
from omnigraph.storage.columns import Values, column_of
from omnigraph.storage.filters import MOST_LISTED

Keep: TypeAlias = Callable[[Population, Positions], Mask]
"""For distinct entities whether a row may go to them. The population's table says what is asked about, node or edge."""

_LOOKUP: Final = 1.2e-3
_FOUND: Final = 20e-6
"""Seconds for each list of ids that an index is asked for, and for each edge that it finds."""
_SCANNED: Final = 50e-9
"""Seconds for each edge that is looked at where there is no index."""
_BUILT: Final = 250e-9
_NUMBERED: Final = 300e-9
"""Seconds for each edge and for each node that arrays are built from: an estimate, added up from timings of the parts.
The lookups were timed on 10 million edges and the scan on 2.4 million, on two shared cores and a local disk."""


# --------------------------------------------------------------------------------------------- the choice


@dataclass(frozen=True, slots=True)
class EdgeSizes:
    """How large an edge type is: its edges, the nodes at both ends, and the edges at a node where a step begins."""

    edges: int
    nodes: int
    degree: float


def choose(frontier_rows: float, sizes: EdgeSizes, *, loaded: bool, indexed: bool, spent: float = 0.0) -> Strategy:
    """Arrays, if they are there or if building them costs less than looking up the edges of so many nodes.

    ``spent``: the seconds that lookups have taken so far, which a second query over the same edges would take again;
    as much as the arrays cost may be lost on them, and no more.
    """
    if loaded:
        return Strategy.ARRAYS
    building = sizes.edges * _BUILT + sizes.nodes * _NUMBERED
    lookup = lookup_cost(frontier_rows, sizes, indexed=indexed)
    return Strategy.ARRAYS if spent + lookup >= building else Strategy.INDEX


def lookup_cost(frontier_rows: float, sizes: EdgeSizes, *, indexed: bool) -> float:
    """About how many seconds it takes to find the edges of some nodes in the table."""
    lists = -(-frontier_rows // MOST_LISTED)
    looking = _LOOKUP + (0 if indexed else sizes.edges * _SCANNED)
    return lists * looking + frontier_rows * sizes.degree * _FOUND


@dataclass(slots=True)
class _Spent:
    """What lookups in one version of an edge table have taken so far, by estimate."""

    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Walked:
    """An edge type as an operator walks it."""

    edge: EdgeType
    direction: Direction
    distinct: bool
    hops: int


def _is_by_index(walked: _Walked, frontier: int, reach: EntityTables) -> bool:
    """Whether the edges of so many nodes are looked up; what that costs is remembered."""
    chosen, cost, spent = _chosen(walked, frontier, reach)
    if chosen is Strategy.INDEX:
        spent.seconds += cost
    return chosen is Strategy.INDEX


def _chosen(walked: _Walked, frontier: float, reach: EntityTables) -> tuple[Strategy, float, _Spent]:
    """What is chosen for so many nodes, what looking them up would cost, and what that has cost so far."""
    edge = walked.edge
    contents = contents_of(reach.snapshot, edge.table_key, reach.cache)
    nodes = [contents_of(reach.snapshot, f"node:{name}", reach.cache) for name in (edge.from_type, edge.to_type)]
    sizes = _sizes(contents.num_rows, nodes[0].num_rows, nodes[1].num_rows, walked.direction)
    spent = reach.cache.get((contents, "spent"), _Spent, lambda _: 100)
    indexed = contents.indexed.issuperset(_columns(walked.direction))
    cost = lookup_cost(frontier, sizes, indexed=indexed)
    if reach.strategy is not Strategy.AUTO:
        return reach.strategy, cost, spent
    loaded = has_adjacency(
        reach.snapshot, edge, walked.direction, distinct=walked.distinct, catalog=reach.catalog, cache=reach.cache
    )
    return choose(frontier, sizes, loaded=loaded, indexed=indexed, spent=spent.seconds), cost, spent


def _sizes(edges: int, sources: int, destinations: int, direction: Direction) -> EdgeSizes:
    match direction:
        case Direction.OUT:
            degree = edges / max(1, sources)
        case Direction.IN:
            degree = edges / max(1, destinations)
        case Direction.BOTH:
            degree = 2 * edges / max(1, sources)
    return EdgeSizes(edges, sources + destinations, degree)


def way(plan: Expand | ExpandEdges | Connect | ConnectEdges, rows: float, reach: EntityTables) -> Strategy:
    """How the edges at the sources of so many rows would be found now."""
    edge = reach.catalog.edges[plan.edge_type]
    distinct = isinstance(plan, Expand | Connect)
    walked = _Walked(edge, plan.direction, distinct, plan.maximum if isinstance(plan, Expand | Connect) else 1)
    return _chosen(walked, rows, reach)[0]


def _columns(direction: Direction) -> tuple[str, ...]:
    match direction:
        case Direction.OUT:
            return ("src",)
        case Direction.IN:
            return ("dst",)
        case Direction.BOTH:
            return ("src", "dst")


# --------------------------------------------------------------------------------------------- the operators


def expand(frame: Frame, plan: Expand, reach: EntityTables, keep: Keep | None = None) -> Frame:
    """Rows to the destinations around their source; see :class:`Expand`. Its predicates are what ``keep`` says."""
    ground = _ground(frame, plan.source, _walked(plan, reach, distinct=True, hops=plan.maximum), reach)
    reached, starts = _reached(ground, plan.minimum, plan.maximum)
    rows, destinations = neighbours_of(reached, starts)
    mask = _kept(keep, ground.nodes, destinations)
    rows, destinations = (rows, destinations) if mask is None else (rows[mask], destinations[mask])
    return frame.take(rows).bind(plan.destination, ground.nodes, destinations)


def expand_edges(frame: Frame, plan: ExpandEdges, reach: EntityTables, keep: Keep | None = None) -> Frame:
    """Rows to the edges at their source, with the other end; see :class:`ExpandEdges`."""
    ground = _ground(frame, plan.source, _walked(plan, reach, distinct=False), reach)
    rows, destinations, edges = edges_of(ground.arrays, ground.sources)
    mask = _kept(keep, ground.edges, edges)
    if mask is not None:
        rows, destinations, edges = rows[mask], destinations[mask], edges[mask]
    mask = _kept(keep, ground.nodes, destinations)
    if mask is not None:
        rows, destinations, edges = rows[mask], destinations[mask], edges[mask]
    extended = frame.take(rows).bind(plan.edge_variable, ground.edges, edges)
    return extended.bind(plan.destination, ground.nodes, destinations)


def connect(frame: Frame, plan: Connect, reach: EntityTables) -> Frame:
    """The rows whose destination lies around their source; see :class:`Connect`."""
    ground = _ground(frame, plan.source, _walked(plan, reach, distinct=True, hops=plan.maximum), reach)
    reached, starts = _reached(ground, plan.minimum, plan.maximum)
    return frame.filter(has_pairs(reached, starts, _placed(frame.bindings[plan.destination], ground.nodes)))


def connect_edges(frame: Frame, plan: ConnectEdges, reach: EntityTables, keep: Keep | None = None) -> Frame:
    """Rows to the edges between two bound ends; see :class:`ConnectEdges`."""
    ground = _ground(frame, plan.source, _walked(plan, reach, distinct=False), reach)
    destinations = _placed(frame.bindings[plan.destination], ground.nodes)
    rows, edges = edges_between(ground.arrays, ground.sources, destinations)
    mask = _kept(keep, ground.edges, edges)
    rows, edges = (rows, edges) if mask is None else (rows[mask], edges[mask])
    return frame.take(rows).bind(plan.edge_variable, ground.edges, edges)


def destination_counts(frame: Frame, plan: Expand, reach: EntityTables) -> Positions:
    """For each row how many rows :func:`expand` would make of it, where its predicates are none."""
    ground = _ground(frame, plan.source, _walked(plan, reach, distinct=True, hops=plan.maximum), reach)
    reached, starts = _reached(ground, plan.minimum, plan.maximum)
    return reached.degrees()[starts]


def passed_on(frame: Frame, plan: Expand, reach: EntityTables) -> Binding | None:
    """The destinations of all rows together, each with the number of rows that :func:`expand` would make for it.

    The numbers stand in the positions of the binding, one for each node. None: the edges are looked up one by one.
    """
    walked = _walked(plan, reach, distinct=True)
    if _chosen(walked, frame.num_rows, reach)[0] is Strategy.INDEX:
        return None
    ground = _ground(frame, plan.source, walked, reach)
    if isinstance(ground.nodes, SeenRows):
        return None
    weights = by_position(ground.sources, frame.weights, ground.arrays.num_nodes)
    check_countable(float((weights.astype(np.float64) * ground.arrays.degrees()).sum()))
    return Binding(ground.nodes, spread(ground.arrays, weights))


def _walked(
    plan: Expand | ExpandEdges | Connect | ConnectEdges, reach: EntityTables, *, distinct: bool, hops: int = 1
) -> _Walked:
    return _Walked(reach.catalog.edges[plan.edge_type], plan.direction, distinct, hops)


def _reached(ground: WalkContext, minimum: int, maximum: int) -> tuple[Adjacency, Positions]:
    """Destinations as neighbours at any distance: arrays of them, and where each row of the frame is in them."""
    if minimum == maximum == 1:
        return ground.arrays, ground.sources
    distinct, numbers = np.unique(ground.sources, return_inverse=True)
    at, found = walk(ground.arrays, distinct, minimum, maximum)
    counts = np.bincount(at, minlength=len(distinct))
    indptr = np.concatenate([np.zeros(1, np.int32), np.cumsum(counts, dtype=np.int32)])
    return Adjacency(indptr, found.astype(np.int32), None, ground.arrays.num_neighbours), numbers


def _kept(keep: Keep | None, population: Population, positions: Positions) -> Mask | None:
    """For each position whether its entity is kept; each entity is asked about once. None: all are."""
    if keep is None:
        return None
    if len(population) <= 4 * len(positions):
        is_kept = np.zeros(len(population), np.bool_)
        is_kept[positions] = True
        distinct = np.flatnonzero(is_kept)
        is_kept[distinct] = keep(population, distinct)
        return is_kept[positions]
    distinct, numbers = np.unique(positions, return_inverse=True)
    return keep(population, distinct)[numbers]


# --------------------------------------------------------------------------------------------- the ground


@dataclass(frozen=True, slots=True)
class WalkContext:
    """Arrays to step over, where in them the source of each row is, and what their positions stand for."""

    arrays: Adjacency
    sources: Positions
    nodes: WholeTable | SeenRows
    edges: WholeTable | SeenRows


def _ground(frame: Frame, source: str, walked: _Walked, reach: EntityTables) -> WalkContext:
    binding = frame.bindings[source]
    if _is_by_index(walked, min(len(binding.positions), len(binding.population)), reach):
        looked_up = _looked_up(binding, walked, reach)
        if looked_up is not None:
            return looked_up
    begin, end = _ends_of(walked, reach.catalog)
    arrays = adjacency(
        reach.snapshot,
        walked.edge,
        walked.direction,
        distinct=walked.distinct,
        catalog=reach.catalog,
        cache=reach.cache,
    )
    return WalkContext(arrays, _placed(binding, reach.whole(begin)), reach.whole(end), reach.whole(walked.edge))


def _ends_of(walked: _Walked, catalog: Catalog) -> tuple[NodeType, NodeType]:
    """The node types where a step begins and ends."""
    ends = catalog.nodes[walked.edge.from_type], catalog.nodes[walked.edge.to_type]
    return (ends[1], ends[0]) if walked.direction is Direction.IN else ends


def _placed(binding: Binding, population: WholeTable | SeenRows) -> Positions:
    """Where the entities of a variable are in a population of their table."""
    if binding.population == population:
        return binding.positions
    distinct, numbers = np.unique(binding.positions, return_inverse=True)
    ids = binding.population.ids(distinct)
    if isinstance(population, SeenRows):
        return population.intern(pa.table({"id": ids}))[numbers]
    at = population.locate(ids)
    missing = np.flatnonzero(at < 0)
    if len(missing):
        example = ids[int(missing[0])].as_py()
        raise StorageError(f"{population.table_key} has no row '{example}', which was found before")
    return at[numbers]


@dataclass(frozen=True, slots=True)
class _Edges:
    """Edges that an index found, by positions among the rows that the query came across."""

    sources: Positions
    destinations: Positions
    edges: Positions


def _looked_up(binding: Binding, walked: _Walked, reach: EntityTables) -> WalkContext | None:
    """Arrays of the edges that lie within some hops of the sources. None when arrays of all edges would cost less."""
    begin, end = (reach.seen_rows(type_) for type_ in _ends_of(walked, reach.catalog))
    sources = _placed(binding, begin)
    frontier, asked = np.unique(sources), no_rows()
    found: list[_Edges] = []
    for hop in range(walked.hops):
        if hop and not _is_by_index(walked, len(frontier), reach):
            return None
        found.append(_edges_at(begin.ids(frontier), walked, reach))
        asked = np.union1d(asked, frontier)
        # Beyond one hop both ends are of one type, so that either may be the next to be asked.
        frontier = np.setdiff1d(np.concatenate([found[-1].sources, found[-1].destinations]), asked)
        if not len(frontier):
            break
    begins, ends, every = oriented(
        _in_bulk([each.sources for each in found]),
        _in_bulk([each.destinations for each in found]),
        walked.direction,
    )
    edges = _in_bulk([each.edges for each in found])[every]
    arrays = joined_pairs((begins, ends, edges), (len(begin), len(end)), distinct=walked.distinct)
    return WalkContext(arrays, sources, end, reach.seen_rows(walked.edge))


def _in_bulk(parts: Sequence[Positions]) -> Places:
    return np.concatenate([no_rows(), *parts]).astype(np.int32)


def _edges_at(nodes: pa.StringArray, walked: _Walked, reach: EntityTables) -> _Edges:
    """The edges at some nodes, looked up by the ends that the direction speaks of."""
    edge, seen = walked.edge, reach.seen_rows(walked.edge)
    if edge.table_key not in reach.snapshot.pins:
        return _Edges(no_rows(), no_rows(), no_rows())
    table = reach.snapshot.table(edge.table_key)
    columns = ("src", "dst") if walked.distinct else ("id", "src", "dst")
    rows = rows_with(table, _columns(walked.direction), cast("Values", nodes), columns)
    numbers = np.arange(rows.num_rows) if walked.distinct else seen.intern(rows.select(["id"]))
    if not walked.distinct:
        # An edge both of whose ends were asked for may have been found by either.
        numbers, first = np.unique(numbers, return_index=True)
        rows = rows.take(first)
    return _Edges(
        _interned(rows, "src", reach.seen_rows(reach.catalog.nodes[edge.from_type])),
        _interned(rows, "dst", reach.seen_rows(reach.catalog.nodes[edge.to_type])),
        numbers,
    )


def _interned(rows: pa.Table, column: str, seen: SeenRows) -> Positions:
    return seen.intern(pa.table({"id": column_of(rows, column)}))
