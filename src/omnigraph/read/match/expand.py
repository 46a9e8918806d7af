"""The operators that follow edges: Expand, ExpandEdges, Connect and ConnectEdges, on frames.

Rows are only made as far as later operators need them. A destination that nothing needs is counted. Where only the
destination is needed, each node passes the number of its rows on to its neighbours instead of making them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias, cast

import numpy as np

from omnigraph.language.query import Predicate
from omnigraph.language.query.plan import Connect, ConnectEdges, Expand, ExpandEdges
from omnigraph.language.schema import TableKey
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import (
    CompactPositions,
    EntityColumn,
    EntitySet,
    FindEdges,
    Frame,
    Mask,
    PartialTable,
    Positions,
    QueryTables,
    Strategy,
    count_by_position,
    find_distinct,
    find_rows,
    make_chains,
    make_paths,
    mark_rows,
    take_rows,
)
from omnigraph.read.match.bound_pairs import BoundPairs, bounds_of, make_edge_finder
from omnigraph.read.match.breadth_first import code_pairs, count_reached, is_reached, total_hops, walk, walk_paths
from omnigraph.read.match.counting import check_countable, multiply_rows
from omnigraph.read.match.liveness import Variables
from omnigraph.read.match.scan_nodes import evaluate_entity_predicates
from omnigraph.read.match.strategy import edge_walk_of
from omnigraph.read.match.walk_context import WalkContext, load_walk_context, to_positions_in
from omnigraph.read.memory import QueryMemory
from omnigraph.read.topology import (
    Adjacency,
    Neighbourhood,
    are_neighbours,
    count_hops,
    expand_ranges,
    find_edges,
    find_edges_between,
    find_neighbours,
    propagate_weights,
)

_LARGEST_COMPACT: Final = 2**31 - 1
_PAIR_BYTES: Final = 48
"""What it takes to find a pair of a row and a neighbour, beside the row that is made of it."""
_TESTED_AT_ONCE: Final = 65_536
"""Of so many hops some are tested first: most rows need no more of them."""
_WORTH_PROPAGATING: Final = 1_000
_MANY_HOPS: Final = 8
"""With fewer rows, or fewer hops than one for so many edges, making each is faster than touching every edge of the
type. Timed with 100,000 to 10 million edges."""

_Conditions: TypeAlias = Mapping[str, tuple[str, tuple[Predicate, ...]]]
"""By table key: a variable of the operator, and the predicates on it."""

EntityFilter: TypeAlias = Callable[[EntitySet, Positions], Mask]
"""For distinct entities, nodes or edges, whether they satisfy the predicates of an operator."""


# --------------------------------------------------------------------------------------------- operators


def execute_expand(frame: Frame, plan: Expand, needed: Variables, context: QueryContext) -> Frame:
    """Return the rows of an :class:`Expand`, as far as the ``needed`` variables tell them apart."""
    frame, edges = _load_edges(frame, plan, context)
    nodes = TableKey.of_node(plan.destination_type)
    if plan.path is not None and plan.path in needed:
        entity_filter = _make_filter({nodes: (plan.destination, plan.predicates)}, context)
        find_edges_on = make_edge_finder(plan, context.tables)
        return expand_paths(frame, plan, edges, find_edges_on, context.memory, entity_filter)
    if plan.destination not in needed and not plan.predicates:
        return multiply_rows(frame, _count_destinations(plan, edges, context.memory))
    if _leaves_only_destinations(frame, plan, needed) and _walks_many_edges(edges):
        return _propagate_rows(frame, plan, edges, context)
    entity_filter = _make_filter({nodes: (plan.destination, plan.predicates)}, context)
    return expand(frame, plan, edges, context.memory, entity_filter)


def keep_rows_that_lead_on(frame: Frame, plan: Expand | ExpandEdges, context: QueryContext) -> Frame:
    """Keep the rows from which a traversal leads anywhere. It asks whether, not where, and how often."""
    if isinstance(plan, Expand) and not bounds_of(plan).is_single_hop:
        if plan.predicates or plan.minimum > 1:
            return execute_expand(frame, plan, frozenset(), context)
        if plan.minimum == 0:
            return frame
    # The nearest destination of any other walk is one hop away.
    frame, edges = _load_edges(frame, plan, context)
    entity_filter = _make_filter(_conditions_of(plan), context)
    if entity_filter is None:
        return frame.filter(count_hops(edges.adjacency, edges.sources) > 0)
    distinct, numbers = find_distinct(edges.sources)
    return frame.filter(_find_any(plan, edges, distinct, entity_filter, context.memory)[numbers])


def _conditions_of(plan: Expand | ExpandEdges) -> _Conditions:
    conditions: _Conditions = {TableKey.of_node(plan.destination_type): (plan.destination, plan.predicates)}
    if isinstance(plan, ExpandEdges):
        conditions[TableKey.of_edge(plan.edge_type)] = (plan.edge_variable, plan.edge_predicates)
    return conditions


def _find_any(
    plan: Expand | ExpandEdges,
    edges: WalkContext,
    sources: Positions,
    entity_filter: EntityFilter,
    memory: QueryMemory,
) -> Mask:
    """Return for each source whether a hop leads to something that passes: a few hops of each at first, then more."""
    begins, ends = edges.adjacency.find_ranges(sources)
    found = np.zeros(len(sources), np.bool_)
    left = np.flatnonzero(begins < ends)
    # What is looked up is read from the storage: once for all.
    most = _TESTED_AT_ONCE if edges.strategy is Strategy.ARRAYS else total_hops(edges.adjacency, sources)
    while len(left):
        allowed = max(1, min(most, memory.left // _PAIR_BYTES) // len(left))
        upto = np.minimum(begins[left] + allowed, ends[left])
        with memory.hold(int((upto - begins[left]).sum()) * _PAIR_BYTES):
            rows, places = expand_ranges(begins[left], upto)
            if isinstance(plan, ExpandEdges):
                mask = _apply_filter(entity_filter, edges.edges, edges.adjacency.take_edges(places))
                rows, places = (rows, places) if mask is None else (rows[mask], places[mask])
            mask = _apply_filter(entity_filter, edges.nodes, edges.adjacency.take_neighbours(places))
            found[left[rows if mask is None else rows[mask]]] = True
        begins[left] = upto
        left = left[~found[left] & (begins[left] < ends[left])]
        most *= 4
    return found


def execute_expand_edges(frame: Frame, plan: ExpandEdges, context: QueryContext) -> Frame:
    """Return the rows of an :class:`ExpandEdges`."""
    frame, edges = _load_edges(frame, plan, context)
    return expand_edges(frame, plan, edges, context.memory, _make_filter(_conditions_of(plan), context))


def execute_connect(frame: Frame, plan: Connect, needed: Variables, context: QueryContext) -> Frame:
    """Return the rows of a :class:`Connect`."""
    frame, edges = _load_edges(frame, plan, context)
    if plan.path is not None and plan.path in needed:
        return connect_paths(frame, plan, edges, context.tables, context.memory)
    return connect(frame, plan, edges, context.tables, context.memory)


def execute_connect_edges(frame: Frame, plan: ConnectEdges, context: QueryContext) -> Frame:
    """Return the rows of a :class:`ConnectEdges`."""
    conditions: _Conditions = {TableKey.of_edge(plan.edge_type): (plan.edge_variable, plan.edge_predicates)}
    frame, edges = _load_edges(frame, plan, context)
    return connect_edges(frame, plan, edges, context.memory, _make_filter(conditions, context))


def _load_edges(
    frame: Frame, plan: Expand | ExpandEdges | Connect | ConnectEdges, context: QueryContext
) -> tuple[Frame, WalkContext]:
    """Return the edges to follow, and the rows whose source exists."""
    column = frame.bindings[plan.source]
    edges = load_walk_context(column, edge_walk_of(plan), context.tables)
    context.recorder.record_access_path(edges.strategy)
    if edges.strategy is Strategy.ARRAYS and isinstance(column.entities, PartialTable) and column.entities.has_unread:
        is_there = edges.sources >= 0
        return frame.filter(is_there), replace(edges, sources=edges.sources[is_there])
    return frame, edges


def _leaves_only_destinations(frame: Frame, plan: Expand, needed: Variables) -> bool:
    is_alone = set(frame.bindings) == {plan.source} and plan.source not in needed
    is_plain = frame.tags is None and frame.ranks is None and plan.minimum == plan.maximum == 1
    return is_alone and is_plain and frame.num_rows >= _WORTH_PROPAGATING


def _walks_many_edges(edges: WalkContext) -> bool:
    hops = total_hops(edges.adjacency, edges.sources) if edges.strategy is Strategy.ARRAYS else 0
    return hops * _MANY_HOPS >= edges.adjacency.num_hops


def _propagate_rows(frame: Frame, plan: Expand, edges: WalkContext, context: QueryContext) -> Frame:
    """Return the destinations of all rows, each once, weighted by the number of rows that reach it."""
    with context.memory.hold(4 * 8 * (edges.adjacency.num_nodes + edges.adjacency.num_neighbours)):
        weights = count_by_position(edges.sources, frame.weights, edges.adjacency.num_nodes)
        check_countable(float((weights.astype(np.float64) * edges.adjacency.degrees()).sum()))
        numbers = propagate_weights(edges.adjacency, weights)
        reached = np.flatnonzero(numbers)
        if plan.predicates:
            mask = evaluate_entity_predicates(edges.nodes, reached, plan.destination, plan.predicates, context)
            reached = reached[mask]
        return Frame(len(reached), {plan.destination: EntityColumn(edges.nodes, reached)}, numbers[reached])


def _make_filter(conditions: _Conditions, context: QueryContext) -> EntityFilter | None:
    """Make a filter from conditions; None if there are no predicates."""
    if not any(predicates for _, predicates in conditions.values()):
        return None

    def satisfies(entities: EntitySet, positions: Positions) -> Mask:
        variable, predicates = conditions[entities.table_key]
        if not predicates:
            return np.ones(len(positions), np.bool_)
        return evaluate_entity_predicates(entities, positions, variable, predicates, context)

    return satisfies


# --------------------------------------------------------------------------------------------- steps on frames


def expand(
    frame: Frame, plan: Expand, edges: WalkContext, memory: QueryMemory, entity_filter: EntityFilter | None = None
) -> Frame:
    """Extend each row by the destinations around its source that pass the filter."""
    reachable, starts = _find_reachable(plan, edges, memory)
    with memory.hold(_estimate_pairs(reachable, starts, frame)):
        rows, destinations = find_neighbours(reachable, starts)
        mask = _apply_filter(entity_filter, edges.nodes, destinations)
        rows, destinations = _keep(mask, rows, destinations)
        return frame.take(rows).bind(plan.destination, edges.nodes, destinations)


def expand_edges(
    frame: Frame, plan: ExpandEdges, edges: WalkContext, memory: QueryMemory, entity_filter: EntityFilter | None = None
) -> Frame:
    """Extend each row by the edges at its source and their other ends, where both pass the filter."""
    with memory.hold(_estimate_pairs(edges.adjacency, edges.sources, frame)):
        rows, destinations, found = find_edges(edges.adjacency, edges.sources)
        mask = _apply_filter(entity_filter, edges.edges, found)
        rows, destinations, found = _keep(mask, rows, destinations, found)
        mask = _apply_filter(entity_filter, edges.nodes, destinations)
        rows, destinations, found = _keep(mask, rows, destinations, found)
        extended = frame.take(rows).bind(plan.edge_variable, edges.edges, found)
        return extended.bind(plan.destination, edges.nodes, destinations)


def _estimate_pairs(arrays: Neighbourhood, sources: Positions, frame: Frame) -> int:
    """Return the bytes that it takes to extend the rows of a frame by the neighbours of their sources."""
    return total_hops(arrays, sources) * (_PAIR_BYTES + frame.row_bytes)


def expand_paths(
    frame: Frame,
    plan: Expand,
    edges: WalkContext,
    find_edges_on: FindEdges,
    memory: QueryMemory,
    entity_filter: EntityFilter | None = None,
) -> Frame:
    """Extend each row by the destinations around its source that pass the filter, and the path to each."""
    assert plan.path is not None
    distinct, numbers = find_distinct(edges.sources)
    found = walk_paths(edges.adjacency, distinct, bounds_of(plan), edges.starts.rank_ids, memory)
    with memory.hold(found.forest.nbytes + 12 * len(found.rows)) as held:
        reachable = _arrange_pairs(found.rows, found.destinations, len(distinct), edges.adjacency.num_neighbours)
        reachable = replace(reachable, edges=_number_pairs(len(found.rows)))
        held.add(_estimate_pairs(reachable, numbers, frame))
        rows, destinations, pairs = find_edges(reachable, numbers)
        rows, destinations, pairs = _keep(
            _apply_filter(entity_filter, edges.nodes, destinations), rows, destinations, pairs
        )
        paths = make_paths(found.forest, edges.starts, edges.nodes, find_edges_on)
        return frame.take(rows).bind(plan.destination, edges.nodes, destinations).bind(plan.path, paths, pairs)


def connect(frame: Frame, plan: Connect, edges: WalkContext, tables: QueryTables, memory: QueryMemory) -> Frame:
    """Keep the rows whose destination is reachable from their source."""
    bounds = bounds_of(plan)
    destinations = to_positions_in(frame.bindings[plan.destination], edges.nodes)
    if bounds.is_single_hop:
        with memory.hold(frame.num_rows * (_PAIR_BYTES + frame.row_bytes)):
            return frame.filter(are_neighbours(edges.adjacency, edges.sources, destinations))
    pairs = BoundPairs.of(edges.sources, destinations)
    if pairs.should_meet(plan, edges):
        return frame.filter(pairs.is_met(plan, edges, tables)[pairs.numbers])
    distinct, starts = find_distinct(edges.sources)
    return frame.filter(is_reached(edges.adjacency, distinct, bounds, (starts, destinations), memory))


def connect_paths(frame: Frame, plan: Connect, edges: WalkContext, tables: QueryTables, memory: QueryMemory) -> Frame:
    """Keep the rows whose destination is reachable from their source, and bind the path between them."""
    assert plan.path is not None
    find_edges_on = make_edge_finder(plan, tables)
    destinations = to_positions_in(frame.bindings[plan.destination], edges.nodes)
    pairs = BoundPairs.of(edges.sources, destinations)
    if pairs.should_meet(plan, edges):
        chains = pairs.find_chains(plan, edges, tables)
        is_found = np.array([chain is not None for chain in chains], np.bool_)
        forest = make_chains([chain for chain in chains if chain is not None])
        at = (np.cumsum(is_found) - 1)[pairs.numbers]
        kept = np.flatnonzero(is_found[pairs.numbers])
    else:
        distinct, starts = find_distinct(edges.sources)
        wanted = code_pairs(edges.adjacency, starts, destinations) if edges.starts == edges.nodes else None
        found = walk_paths(edges.adjacency, distinct, bounds_of(plan), edges.starts.rank_ids, memory, wanted)
        reachable = _arrange_pairs(found.rows, found.destinations, len(distinct), edges.adjacency.num_neighbours)
        numbered = replace(reachable, edges=_number_pairs(len(found.rows)))
        kept, numbers = find_edges_between(numbered, starts, destinations)
        at, forest = np.zeros(frame.num_rows, np.int64), found.forest
        at[kept] = numbers
    paths = make_paths(forest, edges.starts, edges.nodes, find_edges_on)
    return frame.take(kept).bind(plan.path, paths, at[kept])


def connect_edges(
    frame: Frame,
    plan: ConnectEdges,
    edges: WalkContext,
    memory: QueryMemory,
    entity_filter: EntityFilter | None = None,
) -> Frame:
    """Extend each row by the edges between its source and its destination that pass the filter."""
    destinations = to_positions_in(frame.bindings[plan.destination], edges.nodes)
    with memory.hold(frame.num_rows * (_PAIR_BYTES + frame.row_bytes)):
        rows, found = find_edges_between(edges.adjacency, edges.sources, destinations)
        mask = _apply_filter(entity_filter, edges.edges, found)
        rows, found = _keep(mask, rows, found)
        return frame.take(rows).bind(plan.edge_variable, edges.edges, found)


def _count_destinations(plan: Expand, edges: WalkContext, memory: QueryMemory) -> Positions:
    bounds = bounds_of(plan)
    if bounds.is_single_hop:
        return count_hops(edges.adjacency, edges.sources)
    distinct, numbers = find_distinct(edges.sources)
    return take_rows(count_reached(edges.adjacency, distinct, bounds, memory), numbers)


def _find_reachable(plan: Expand, edges: WalkContext, memory: QueryMemory) -> tuple[Neighbourhood, Positions]:
    """Return an adjacency from each source to all nodes within the hops of the plan, and each row's place in it."""
    bounds = bounds_of(plan)
    if bounds.is_single_hop:
        return edges.adjacency, edges.sources
    distinct, numbers = find_distinct(edges.sources)
    at, found = walk(edges.adjacency, distinct, bounds, memory)
    return _arrange_pairs(at, found, len(distinct), edges.adjacency.num_neighbours), numbers


def _arrange_pairs(rows: Positions, destinations: Positions, count: int, num_neighbours: int) -> Adjacency:
    """Return pairs of a row and a destination, in ascending order, as an adjacency."""
    counts = count_by_position(rows, None, count)
    # There may be far more pairs than edges.
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    return Adjacency(_compact(indptr), destinations.astype(np.int32), None, num_neighbours)


def _number_pairs(count: int) -> CompactPositions:
    return _compact(np.arange(count))


def _compact(numbers: Positions) -> CompactPositions:
    """Return ascending numbers with 32 bits, or with 64 where they need them."""
    return (
        numbers.astype(np.int32)
        if numbers[-1:].max(initial=0) <= _LARGEST_COMPACT
        else cast("CompactPositions", numbers)
    )


def _apply_filter(entity_filter: EntityFilter | None, entities: EntitySet, positions: Positions) -> Mask | None:
    """Return for each position whether its entity passes; each entity is evaluated once. None: all pass."""
    if entity_filter is None:
        return None
    if len(entities) <= 4 * len(positions):
        passes = mark_rows(positions, len(entities))
        distinct = np.flatnonzero(passes)
        passes[distinct] = entity_filter(entities, distinct)
        return take_rows(passes, positions)
    distinct, numbers = find_distinct(positions)
    return take_rows(entity_filter(entities, distinct), numbers)


def _keep(mask: Mask | None, *columns: Positions) -> tuple[Positions, ...]:
    """Return the rows of some columns where a mask is true; None: all."""
    if mask is None:
        return columns
    rows = find_rows(mask)
    return tuple(take_rows(column, rows) for column in columns)
