"""The adjacency that one operator walks: arrays of the whole edge type, or arrays of the edges that lookups found.

Both strategies end in arrays, so each operator is written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from omnigraph.errors import StorageError
from omnigraph.language.query import EdgeStep
from omnigraph.language.schema import EdgeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import (
    CompactPositions,
    EntityColumn,
    PartialTable,
    Positions,
    QueryTables,
    Strategy,
    WholeTable,
    empty_positions,
    lookup_rows,
    sort_distinct,
)
from omnigraph.read.match.strategy import EdgeWalk, lookup_columns, should_look_up
from omnigraph.read.topology import Hops, Neighbourhood, build_adjacency, load_steps, open_topology, orient_edges
from omnigraph.storage.columns import Values, column_of


@dataclass(frozen=True, slots=True)
class WalkContext:
    """The adjacency of one operator, the position of each row's source in it, and the entities at its positions."""

    adjacency: Neighbourhood
    sources: Positions
    """A source that nobody has read yet may be absent from a whole table: -1."""
    starts: WholeTable | PartialTable
    """The nodes that sources are positions in."""
    nodes: WholeTable | PartialTable
    """The nodes that neighbours are positions in."""
    edges: WholeTable | PartialTable
    """The edges of the adjacency; it has them only if there is one step."""

    @property
    def strategy(self) -> Strategy:
        """How the edges were found."""
        return Strategy.INDEX if isinstance(self.nodes, PartialTable) else Strategy.ARRAYS


def load_walk_context(sources: EntityColumn, walk: EdgeWalk, tables: QueryTables) -> WalkContext:
    """Load the edges that a walk from some sources follows, by the cheaper strategy."""
    if should_look_up(walk, min(len(sources.positions), len(sources.entities)), tables):
        found = _look_up_edges(sources, walk, tables)
        if found is not None:
            return found
    begin, end = walk.end_types(tables.catalog)
    may_be_absent = isinstance(sources.entities, PartialTable) and sources.entities.has_unread
    return WalkContext(
        load_steps(walk.steps, tables, distinct=walk.distinct),
        to_positions_in(sources, tables.full_table_of(begin), may_be_absent=may_be_absent),
        tables.full_table_of(begin),
        tables.full_table_of(end),
        open_topology(_first_edge_type(walk, tables), tables).edges,
    )


def _first_edge_type(walk: EdgeWalk, tables: QueryTables) -> EdgeType:
    return tables.catalog.edges[walk.steps[0].edge_type]


def to_positions_in(
    column: EntityColumn, entities: WholeTable | PartialTable, *, may_be_absent: bool = False
) -> Positions:
    """Translate the positions of a column to positions in another set of entities of the same table."""
    if column.entities == entities:
        return column.positions
    distinct, numbers = np.unique(column.positions, return_inverse=True)
    ids = column.entities.take_ids(distinct)
    if isinstance(entities, PartialTable):
        return entities.intern_ids(cast("Values", ids))[numbers]
    at = entities.locate(ids)
    missing = np.flatnonzero(at < 0)
    if len(missing) and not may_be_absent:
        example = ids[int(missing[0])].as_py()
        raise StorageError(f"{entities.table_key} has no row '{example}', which was found before")
    return at[numbers]


# --------------------------------------------------------------------------------------------- lookups


@dataclass(frozen=True, slots=True)
class _FoundEdges:
    """Edges that a lookup found, as positions in the partial tables of the query."""

    sources: Positions
    destinations: Positions
    edges: Positions


def _look_up_edges(column: EntityColumn, walk: EdgeWalk, tables: QueryTables) -> WalkContext | None:
    """Look up the edges within reach of the sources, hop by hop. Return None once arrays would cost less."""
    begin, end = (tables.partial_table_of(type_) for type_ in walk.end_types(tables.catalog))
    sources = to_positions_in(column, begin)
    frontier, visited = sort_distinct(sources), empty_positions()
    found: dict[EdgeStep, list[_FoundEdges]] = {step: [] for step in walk.steps}
    hop = 0
    while len(frontier) and (walk.hops is None or hop < walk.hops):
        rest = replace(walk, hops=None if walk.hops is None else walk.hops - hop)
        if hop and not should_look_up(rest, len(frontier), tables):
            return None
        hop += 1
        for step, edges in found.items():
            edges.append(_find_edges_at(EntityColumn(begin, frontier), step, walk, tables))
        if hop == walk.hops:
            # Nobody goes on from here.
            break
        visited = np.union1d(visited, frontier)
        # Beyond one hop both ends are of one type, so the next frontier may be at either end.
        ahead = [ends for edges in found.values() for ends in (edges[-1].sources, edges[-1].destinations)]
        frontier = np.setdiff1d(np.concatenate(ahead), visited)
    oriented = [_orient_found(edges, step) for step, edges in found.items()]
    hops = tuple(map(_concat_positions, zip(*oriented, strict=True)))
    adjacency = build_adjacency(cast("Hops", hops), (len(begin), len(end)), distinct=walk.distinct)
    return WalkContext(adjacency, sources, begin, end, tables.partial_table_of(_first_edge_type(walk, tables)))


def _orient_found(found: Sequence[_FoundEdges], step: EdgeStep) -> Hops:
    """Turn edges that were found into hops: their begins, ends and edges."""
    begins, ends, order = orient_edges(
        _concat_positions([each.sources for each in found]),
        _concat_positions([each.destinations for each in found]),
        step.direction,
    )
    return begins, ends, _concat_positions([each.edges for each in found])[order]


def _concat_positions(parts: Sequence[Positions | CompactPositions]) -> CompactPositions:
    joined = parts[0] if len(parts) == 1 else np.concatenate([empty_positions(), *parts])
    return joined.astype(np.int32, copy=False)


def _find_edges_at(frontier: EntityColumn, step: EdgeStep, walk: EdgeWalk, tables: QueryTables) -> _FoundEdges:
    """Look up the edges that begin a hop at some nodes."""
    edge = tables.catalog.edges[step.edge_type]
    if edge.table_key not in tables.snapshot.pins:
        return _FoundEdges(empty_positions(), empty_positions(), empty_positions())
    nodes = frontier.entities.take_ids(frontier.positions)
    table, among = tables.snapshot.table(edge.table_key), lookup_columns(step.direction)
    # The end that is looked up is known, if it is one.
    known = among if len(among) == len(nodes) == 1 else ()
    columns = [
        column for column in ("id", "src", "dst") if column not in known and not (walk.distinct and column == "id")
    ]
    rows = lookup_rows(table, among, cast("Values", nodes), columns)
    if walk.distinct:
        edges = np.arange(rows.num_rows)
    else:
        # An edge is found twice if both of its ends are in the frontier.
        edges, first = np.unique(tables.partial_table_of(edge).intern(rows.select(["id"])), return_index=True)
        rows = rows.take(first)
    sources, destinations = (
        np.repeat(frontier.positions, rows.num_rows) if column in known else end.intern_ids(column_of(rows, column))
        for column, end in (
            ("src", tables.partial_table_of(tables.catalog.nodes[edge.from_type])),
            ("dst", tables.partial_table_of(tables.catalog.nodes[edge.to_type])),
        )
    )
    return _FoundEdges(sources, destinations, edges)
