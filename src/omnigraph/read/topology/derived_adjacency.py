"""The adjacency of table versions: from the cache, from a file of hops, or from the ends of edges.

A version that differs in a few rows needs no arrays of its own: see ``current_topology``.
"""

from __future__ import annotations

from typing import Final

from omnigraph.errors import Unsupported
from omnigraph.language.query import TraversalDirection
from omnigraph.language.schema import Catalog, EdgeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames import Cache, open_full_table
from omnigraph.read.topology.adjacency import Adjacency, build_adjacency, orient_edges, orient_sizes
from omnigraph.read.topology.edge_ends import EdgeEnds, EdgeEndsKey, TopologyTables, load_ends, note_unread_ends
from omnigraph.read.topology.stored_hops import may_have_stored_hops, read_stored_hops

_LARGEST_ADJACENCY: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class AdjacencyKey:
    """The cache key of an adjacency."""

    ends: EdgeEndsKey
    direction: TraversalDirection
    distinct: bool


@dataclass(frozen=True, slots=True)
class UnionKey:
    """The cache key of the union of several adjacencies."""

    parts: tuple[AdjacencyKey, ...]


def derive_adjacency(
    tables: TopologyTables, direction: TraversalDirection, *, distinct: bool, cache: Cache
) -> Adjacency:
    """Return the adjacency of table versions, from the cache if possible, without edges that end outside of them.

    With ``distinct``, parallel edges count once, and the adjacency has no edges.
    """

    def make() -> Adjacency:
        if 2 * len(tables.edges) > _LARGEST_ADJACENCY:
            name = tables.edges.type.name
            raise Unsupported(f"'{name}' has too many edges to be held in memory", hint="start from fewer nodes")
        stored = read_stored_hops(tables, direction) if distinct else None
        if stored is not None:
            note_unread_ends(tables, cache)
            return stored
        ends = load_ends(tables, cache)
        if tables.are_of_one_snapshot:
            ends.refuse_missing(tables)
        sizes = orient_sizes((len(tables.sources), len(tables.destinations)), direction)
        begins, finishes, edges = orient_edges(ends.sources, ends.destinations, direction)
        if ends.outside.num_rows:
            inside = (begins >= 0) & (finishes >= 0)
            begins, finishes, edges = begins[inside], finishes[inside], edges[inside]
        return build_adjacency((begins, finishes, edges), sizes, distinct=distinct)

    return cache.get_or_make(AdjacencyKey(tables.key, direction, distinct), make, lambda made: made.nbytes)


def load_edge_ends(snapshot: Snapshot, edge: EdgeType, catalog: Catalog, cache: Cache) -> tuple[EdgeEndsKey, EdgeEnds]:
    """Return the positions of both ends of each edge, and the key of the three tables that they are derived from."""
    types = [edge, *(catalog.nodes[name] for name in (edge.from_type, edge.to_type))]
    opened = (open_full_table(snapshot, each.table_key, each, cache) for each in types)
    tables = TopologyTables(*opened, are_of_one_snapshot=True)
    ends = load_ends(tables, cache)
    ends.refuse_missing(tables)
    return tables.key, ends


def is_derived(tables: TopologyTables, direction: TraversalDirection, *, distinct: bool, cache: Cache) -> bool:
    """Whether the adjacency is in the cache, or can be built from the cache without reading."""
    is_there = cache.peek(AdjacencyKey(tables.key, direction, distinct)) is not None
    return is_there or isinstance(cache.peek(tables.key), EdgeEnds)


def is_stored(tables: TopologyTables, direction: TraversalDirection, *, distinct: bool, cache: Cache) -> bool:
    """Whether there is a file that the adjacency can be read from, as it seems."""
    key = AdjacencyKey(tables.key, direction, distinct), "is stored"
    return distinct and cache.get_or_make(key, lambda: may_have_stored_hops(tables, direction), lambda _: 100)
