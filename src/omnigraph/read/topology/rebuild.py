"""Build the arrays of a newer version in the background, once doing without them has cost as much.

After a commit, arrays in memory are corrected, which costs more the more has changed since they were built; after one
that changed too much, edges are looked up. Queries go on like that meanwhile. The new arrays become visible together,
so that none of them is missed and built by a query.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import Final, cast

from omnigraph.errors import OmniGraphError
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.read.frames import (
    Cache,
    ColumnCacheKey,
    FullTable,
    QueryTables,
    SkiRental,
    StagedCache,
    TableContents,
    TableLineage,
    base_of,
    lineage_of,
    list_bases,
    note_base,
    open_full_table,
)
from omnigraph.read.topology.adjacency import Adjacency, unite
from omnigraph.read.topology.current_topology import CurrentTopology, open_topology
from omnigraph.read.topology.derived_adjacency import AdjacencyKey, UnionKey, derive_adjacency
from omnigraph.read.topology.edge_ends import EdgeEndsKey, TopologyTables, load_ends

_SECONDS_PER_CHANGE: Final = 5e-6
_SECONDS_PER_EDGE: Final = 0.4e-6
_SECONDS_PER_NODE: Final = 0.5e-6
_LEAST_SECONDS: Final = 10e-3
"""To correct arrays for a changed edge; to build them, for each edge and node, and in any case. Timed with 200,000
edges of 30,000 nodes."""

_log = logging.getLogger("omnigraph")


def pay_correction(edge: EdgeType, topology: CurrentTopology, changes: int, tables: QueryTables) -> None:
    """Note a correction of the arrays of an edge type, and start a rebuild if they have cost as much as one."""
    if not topology.bases.edges.contents.fragments:
        return
    key = lineage_of(topology.bases.edges.contents), "corrections"
    rental = tables.cache.get_or_make(key, SkiRental, lambda _: 100)
    rental.pay(changes * _SECONDS_PER_CHANGE)
    nodes = len(topology.sources) + len(topology.destinations)
    price = _LEAST_SECONDS + len(topology.edges) * _SECONDS_PER_EDGE + nodes * _SECONDS_PER_NODE
    if rental.covers(price) and start_rebuild(edge, tables):
        tables.cache.replace(key, SkiRental(), 100)


def start_rebuild(edge: EdgeType, tables: QueryTables) -> bool:
    """Start to build the arrays of an edge type in the background, if none are being built; return whether it did."""
    return _rebuilds.start(edge, QueryTables(tables.snapshot, tables.catalog, tables.cache))


def had_arrays(edges: TableContents, cache: Cache) -> bool:
    """Whether the ends of all edges of some version of a table are in memory."""
    return any(isinstance(key, EdgeEndsKey) and _are_related(key.edges, edges) for key in cache.all_keys())


def wait_for_rebuild() -> None:
    """Wait until no arrays are being built in the background."""
    _rebuilds.join()


class _Rebuilds:
    """At most one rebuild at a time in this process, in a thread of its own."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self, edge: EdgeType, now: QueryTables) -> bool:
        """Start a rebuild; return whether none was running."""
        with self._guard:
            if self._thread is not None and self._thread.is_alive():
                return False
            self._thread = threading.Thread(target=_try_to_rebuild, args=(edge, now), name="omnigraph-rebuild")
            self._thread.start()
            return True

    def join(self) -> None:
        """Wait until no rebuild is running."""
        with self._guard:
            thread = self._thread
        if thread is not None:
            thread.join()


_rebuilds: Final = _Rebuilds()


def _try_to_rebuild(edge: EdgeType, now: QueryTables) -> None:
    try:
        _rebuild(edge, now)
    except OmniGraphError as error:
        # Nobody waits for it: cleanup may have removed the version, for one. Queries go on without it.
        _log.info("the arrays of '%s' are not built: %s", edge.name, error)


def _rebuild(edge: EdgeType, now: QueryTables) -> None:
    """Build all that is in memory of an edge type, and of those that share its nodes, for the snapshot."""
    staged = StagedCache(now.cache)
    moved = {name for name in (edge.from_type, edge.to_type) if not _open_newest_nodes(name, now, staged).is_loaded()}
    for name in moved:
        nodes = _open_newest_nodes(name, now, staged)
        for older in list_bases(nodes.contents, now.cache)[:1]:
            nodes.load_like(older)
    built = [_choose_tables(each, moved, now, staged) for each in _list_concerned(edge, moved, now)]
    keys = now.cache.all_keys()
    for tables in built:
        _build_arrays(tables, keys, staged)
    for key in keys:
        if isinstance(key, UnionKey):
            _build_union(key, built, staged)
    if all(staged.peek(each.key) is not None and each.sources.is_loaded() for each in built):
        _publish(staged, [now.catalog.nodes[name] for name in moved], built, now)


def _list_concerned(edge: EdgeType, moved: Collection[str], now: QueryTables) -> Iterator[EdgeType]:
    """Yield the edge type, and all others in memory that end at nodes which get other positions."""
    for each in now.catalog.edges.values():
        shares_nodes = bool({each.from_type, each.to_type} & set(moved))
        if each.name == edge.name or (
            shares_nodes and had_arrays(_open_newest(each, now, now.cache).contents, now.cache)
        ):
            yield each


def _choose_tables(edge: EdgeType, moved: Collection[str], now: QueryTables, staged: StagedCache) -> TopologyTables:
    """Return the newest edges, with the newest nodes of the moved types and the bases of others."""
    topology = open_topology(edge, now)
    sources, destinations = (
        _open_newest_nodes(name, now, staged) if name in moved else base_of(table)
        for name, table in ((edge.from_type, topology.sources), (edge.to_type, topology.destinations))
    )
    is_whole = sources.contents == topology.sources.contents and destinations.contents == topology.destinations.contents
    return TopologyTables(_open_newest(edge, now, staged), sources, destinations, are_of_one_snapshot=is_whole)


def _open_newest(type_: NodeType | EdgeType, now: QueryTables, cache: Cache) -> FullTable:
    return open_full_table(now.snapshot, type_.table_key, type_, cache)


def _open_newest_nodes(name: str, now: QueryTables, cache: Cache) -> FullTable:
    return _open_newest(now.catalog.nodes[name], now, cache)


def _are_related(one: TableContents, other: TableContents) -> bool:
    """Whether two versions are of one table; one without rows is related to none."""
    return bool(one.fragments and other.fragments) and lineage_of(one) == lineage_of(other)


def _build_arrays(tables: TopologyTables, keys: Sequence[Hashable], staged: StagedCache) -> None:
    """Build the arrays that other versions of an edge type have."""
    load_ends(tables, staged)
    for older in list_bases(tables.edges.contents, staged):
        for column in older.loaded_columns():
            tables.edges.load_column(column)
    for key in keys:
        if isinstance(key, AdjacencyKey) and _are_related(key.ends.edges, tables.edges.contents):
            derive_adjacency(tables, key.direction, distinct=key.distinct, cache=staged)


def _build_union(key: UnionKey, built: Sequence[TopologyTables], staged: StagedCache) -> None:
    """Build a union that other versions have, if all of its parts are in memory."""
    parts = tuple(AdjacencyKey(_find_newest_key(part, built), part.direction, part.distinct) for part in key.parts)
    arrays = [cast("Adjacency | None", staged.peek(part)) for part in parts]
    known = [each for each in arrays if each is not None]
    if len(known) == len(parts):
        staged.get_or_make(UnionKey(parts), lambda: unite(known), lambda made: made.nbytes)


def _find_newest_key(part: AdjacencyKey, built: Sequence[TopologyTables]) -> EdgeEndsKey:
    related = (each.key for each in built if _are_related(part.ends.edges, each.edges.contents))
    return next(related, part.ends)


def _publish(
    staged: StagedCache, nodes: Collection[NodeType], built: Collection[TopologyTables], now: QueryTables
) -> None:
    """Show what was built, with the ids of nodes last: whoever finds them looks for arrays with their positions."""
    staged.publish(_rank_key)
    for type_ in (*(each.edges.type for each in built), *nodes):
        newest, table = _open_newest(type_, now, now.cache), now.snapshot.table(type_.table_key)
        note_base(FullTable(newest.contents, type_, now.cache, lambda table=table: table), now.cache)


def _rank_key(key: Hashable) -> int:
    if isinstance(key, TableLineage):
        # A base that was noted on the way refers to the staged cache.
        return -1
    return int(isinstance(key, ColumnCacheKey))
