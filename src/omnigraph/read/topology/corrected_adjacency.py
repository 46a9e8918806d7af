"""The adjacency of the edges of a snapshot: arrays of the whole tables, or of bases, corrected for a few rows.

After a small commit, the arrays that are in memory are corrected for the edges that were removed and added. Nothing of
the size of the graph is read or copied. Once that has cost as much as new arrays, ``rebuild`` makes some.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from omnigraph.language.query import EdgeStep, TraversalDirection
from omnigraph.language.schema import EdgeType
from omnigraph.read.frames import (
    Cache,
    CompactPositions,
    ExtendedTable,
    Positions,
    QueryTables,
    WholeTable,
    base_of,
    find_sorted,
    sort_distinct,
)
from omnigraph.read.topology.adjacency import Adjacency, Hops, Neighbourhood, orient_edges, orient_sizes, unite
from omnigraph.read.topology.current_topology import CurrentTopology, open_topology
from omnigraph.read.topology.derived_adjacency import AdjacencyKey, UnionKey, derive_adjacency, is_derived, is_stored
from omnigraph.read.topology.edge_ends import TopologyTables, find_ends, load_outside, refuse_missing_ends
from omnigraph.read.topology.extended_adjacency import ExtendedAdjacency, extend_adjacency, unite_extended
from omnigraph.read.topology.rebuild import pay_correction
from omnigraph.storage.columns import Values, column_of


def is_step_loaded(step: EdgeStep, tables: QueryTables, *, distinct: bool) -> bool:
    """Whether the arrays of a step are in memory, or can be made without reading more than a few rows."""
    bases = open_topology(tables.catalog.edges[step.edge_type], tables).bases
    return is_derived(bases, step.direction, distinct=distinct, cache=tables.cache)


def is_step_stored(step: EdgeStep, tables: QueryTables, *, distinct: bool) -> bool:
    """Whether the arrays of a step can be read from a file, as it seems."""
    bases = open_topology(tables.catalog.edges[step.edge_type], tables).bases
    return is_stored(bases, step.direction, distinct=distinct, cache=tables.cache)


def load_steps(steps: Sequence[EdgeStep], tables: QueryTables, *, distinct: bool) -> Neighbourhood:
    """Return the adjacency of hops along any of some steps; of several steps, parallel edges count once."""
    edges = [tables.catalog.edges[step.edge_type] for step in steps]
    topologies = [open_topology(edge, tables) for edge in edges]
    parts = [
        _load_step(edge, topology, step.direction, tables, distinct=distinct)
        for edge, topology, step in zip(edges, topologies, steps, strict=True)
    ]
    if len(parts) == 1:
        return parts[0]
    keys = tuple(
        AdjacencyKey(topology.bases.key, step.direction, distinct)
        for topology, step in zip(topologies, steps, strict=True)
    )
    bases = [each.base if isinstance(each, ExtendedAdjacency) else each for each in parts]
    base = tables.cache.get_or_make(UnionKey(keys), lambda: unite(bases), lambda made: made.nbytes)
    extended = [each for each in parts if isinstance(each, ExtendedAdjacency)]
    if not extended:
        return base
    touched = sort_distinct(np.concatenate([each.touched for each in extended]))
    sizes = (extended[0].num_nodes, extended[0].num_neighbours)
    return tables.cache.get_or_make(
        (UnionKey(keys), tuple(each.contents for each in topologies)),
        lambda: unite_extended(base, parts, touched, sizes),
        lambda made: made.nbytes,
    )


def _load_step(
    edge: EdgeType, topology: CurrentTopology, direction: TraversalDirection, tables: QueryTables, *, distinct: bool
) -> Adjacency | ExtendedAdjacency:
    """Return the adjacency of an edge type in a direction, from the cache if possible."""
    bases, cache = topology.bases, tables.cache
    base = derive_adjacency(bases, direction, distinct=distinct, cache=cache)
    if not topology.is_extended:
        return base

    def make() -> ExtendedAdjacency:
        sizes = orient_sizes((len(topology.sources), len(topology.destinations)), direction)
        removed = _find_removed(topology.edges, bases, cache)
        added = _find_added(topology, load_outside(bases, cache))
        pay_correction(edge, topology, len(removed[0]) + len(added[0]), tables)
        return extend_adjacency(base, _orient(removed, direction), _orient(added, direction), sizes)

    key = (AdjacencyKey(bases.key, direction, distinct), topology.contents)
    return cache.get_or_make(key, make, lambda made: made.nbytes)


def _orient(edges: Hops, direction: TraversalDirection) -> Hops:
    """Turn edges into hops: sources, destinations and edges become begins, ends and edges."""
    begins, ends, order = orient_edges(edges[0], edges[1], direction)
    return begins, ends, edges[2][order]


def _find_removed(edges: WholeTable, bases: TopologyTables, cache: Cache) -> Hops:
    """Return the ends of the edges of the base that the version does not have."""
    removed = edges.delta.removed if isinstance(edges, ExtendedTable) else np.zeros(0, np.int64)
    if not len(removed):
        none = np.zeros(0, np.int32)
        return none, none, none
    sources, destinations = find_ends(bases, removed, cache)
    inside = np.flatnonzero((sources >= 0) & (destinations >= 0))
    return sources[inside], destinations[inside], removed[inside].astype(np.int32)


def _find_added(topology: CurrentTopology, outside: pa.Table) -> Hops:
    """Return the ends of the edges that the base does not have, and of those of the base that end at newer nodes."""
    edges = topology.edges
    numbers = column_of(outside, "edge").to_numpy().astype(np.int64)
    is_kept = np.arange(len(numbers))
    if isinstance(edges, ExtendedTable):
        is_kept = np.flatnonzero(~find_sorted(numbers, edges.delta.removed))
        numbers = np.concatenate([numbers[is_kept], edges.added_positions])
    sources, destinations = (
        np.concatenate([_locate_outside(column, nodes, outside, is_kept, edges), _locate_added(column, nodes, edges)])
        for column, nodes in (("src", topology.sources), ("dst", topology.destinations))
    )
    return sources, destinations, numbers.astype(np.int32)


def _locate_outside(
    column: str, nodes: WholeTable, outside: pa.Table, is_kept: Positions, edges: WholeTable
) -> CompactPositions:
    if not len(is_kept):
        return np.zeros(0, np.int32)
    texts = column_of(outside, column).take(is_kept)
    return _check_located(nodes.locate(texts), texts, column, nodes, edges)


def _locate_added(column: str, nodes: WholeTable, edges: WholeTable) -> CompactPositions:
    if not isinstance(edges, ExtendedTable) or not edges.delta.added:
        return np.zeros(0, np.int32)
    texts, at = edges.load_added(column), edges.locate_added(column, base_of(nodes))
    at = nodes.correct_positions(at, texts) if isinstance(nodes, ExtendedTable) else at
    return _check_located(at, texts, column, nodes, edges)


def _check_located(at: Positions, texts: Values, column: str, nodes: WholeTable, edges: WholeTable) -> CompactPositions:
    missing = np.flatnonzero(at < 0)
    if len(missing):
        refuse_missing_ends(texts.take(missing), column, nodes, edges)
    return at.astype(np.int32)
