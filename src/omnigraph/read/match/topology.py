"""Adjacency arrays of edge types: how they are built, and how neighbours and edges are found in them.

Arrays are derived from three table versions, the edges and the nodes at both ends, and are kept in the cache. For a
version that only added edges to a cached one, just the added edges are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import StorageError, Unsupported
from omnigraph.language.query import EdgeStep, TraversalDirection
from omnigraph.language.schema import Catalog, EdgeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames import (
    Cache,
    ChunkedValues,
    CompactPositions,
    FullTable,
    Mask,
    Positions,
    QueryTables,
    TableContents,
    open_full_table,
    read_contents,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_LARGEST_ADJACENCY: Final = 2**31 - 1
_EDGES_PER_BLOCK: Final = 8_000_000
"""How many edges are read at a time; their ends are texts until they are located."""
_FEW_KEYS: Final = 100_000
"""A general sort of so few keys takes less time than the import of SciPy."""


@dataclass(frozen=True)
class Adjacency:
    """The neighbours of each node in compressed sparse row form, in ascending order.

    The neighbours of node ``n`` are ``neighbours[indptr[n]:indptr[n + 1]]``, and ``edges`` has the edge to each of
    them, parallel edges in any order. Without ``edges``, a neighbour is listed once.
    """

    indptr: CompactPositions
    neighbours: CompactPositions
    edges: CompactPositions | None
    num_neighbours: int
    """The number of nodes of the type of the neighbours."""

    @property
    def num_nodes(self) -> int:
        """The number of nodes that have a list of neighbours."""
        return len(self.indptr) - 1

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays and of :attr:`matrix`."""
        own = self.indptr.nbytes + self.neighbours.nbytes + (0 if self.edges is None else self.edges.nbytes)
        return own + 8 * len(self.neighbours)

    def degrees(self) -> Positions:
        """Return the number of neighbours of each node; parallel edges count if the adjacency has edges."""
        return np.diff(self.indptr).astype(np.int64)

    @cached_property
    def matrix(self) -> csr_array:
        """The sparse matrix with a one for each neighbour."""
        from scipy.sparse import csr_array

        ones = np.ones(len(self.neighbours), np.int64)
        return csr_array((ones, self.neighbours, self.indptr), shape=(self.num_nodes, self.num_neighbours))


# --------------------------------------------------------------------------------------------- building


@dataclass(frozen=True, slots=True)
class EdgeEndsKey:
    """The cache key of the ends of all edges of a version."""

    edges: TableContents
    sources: TableContents
    destinations: TableContents


@dataclass(frozen=True, slots=True)
class AdjacencyKey:
    """The cache key of an adjacency."""

    ends: EdgeEndsKey
    direction: TraversalDirection
    distinct: bool


def load_adjacency(
    snapshot: Snapshot, edge: EdgeType, direction: TraversalDirection, *, distinct: bool, catalog: Catalog, cache: Cache
) -> Adjacency:
    """Return the adjacency of an edge type in a direction, from the cache if possible.

    With ``distinct``, parallel edges count once, and the adjacency has no edges.
    """
    tables = _open_tables(snapshot, edge, catalog, cache)

    def make() -> Adjacency:
        if 2 * tables.edges.num_rows > _LARGEST_ADJACENCY:
            raise Unsupported(f"'{edge.name}' has too many edges to be held in memory", hint="start from fewer nodes")
        ends = _load_ends(tables, snapshot, edge, cache)
        sizes = orient_sizes((len(tables.sources), len(tables.destinations)), direction)
        return build_adjacency(orient_edges(ends.sources, ends.destinations, direction), sizes, distinct=distinct)

    return cache.get_or_make(AdjacencyKey(tables.key, direction, distinct), make, lambda made: made.nbytes)


def load_edge_ends(snapshot: Snapshot, edge: EdgeType, catalog: Catalog, cache: Cache) -> tuple[EdgeEndsKey, EdgeEnds]:
    """Return the positions of both ends of each edge, and the key of the three tables that they are derived from."""
    tables = _open_tables(snapshot, edge, catalog, cache)
    return tables.key, _load_ends(tables, snapshot, edge, cache)


@dataclass(frozen=True, slots=True)
class UnionKey:
    """The cache key of the union of several adjacencies."""

    parts: tuple[AdjacencyKey, ...]


def load_steps(steps: Sequence[EdgeStep], tables: QueryTables, *, distinct: bool) -> Adjacency:
    """Return the adjacency of hops along any of some steps; of several steps, parallel edges count once."""
    snapshot, catalog, cache = tables.snapshot, tables.catalog, tables.cache
    edges = [catalog.edges[step.edge_type] for step in steps]
    parts = [
        load_adjacency(snapshot, edge, step.direction, distinct=distinct, catalog=catalog, cache=cache)
        for edge, step in zip(edges, steps, strict=True)
    ]
    if len(parts) == 1:
        return parts[0]
    keys = (
        AdjacencyKey(_open_tables(snapshot, edge, catalog, cache).key, step.direction, distinct=True)
        for edge, step in zip(edges, steps, strict=True)
    )
    return cache.get_or_make(UnionKey(tuple(keys)), lambda: unite(parts), lambda made: made.nbytes)


def unite(parts: Sequence[Adjacency]) -> Adjacency:
    """Return the union of adjacencies of the same nodes; a neighbour is listed once."""
    if sum(len(part.neighbours) for part in parts) > _LARGEST_ADJACENCY:
        raise Unsupported("these edge types have too many edges to be walked together", hint="name fewer of them")
    begins = [np.repeat(np.arange(part.num_nodes, dtype=np.int32), np.diff(part.indptr)) for part in parts]
    hops = np.concatenate(begins), np.concatenate([part.neighbours for part in parts])
    sizes = (parts[0].num_nodes, parts[0].num_neighbours)
    return build_adjacency((*hops, np.zeros(0, np.int32)), sizes, distinct=True)


def is_adjacency_loaded(
    snapshot: Snapshot, edge: EdgeType, direction: TraversalDirection, *, distinct: bool, catalog: Catalog, cache: Cache
) -> bool:
    """Whether the adjacency is in the cache, or can be built from the cache without reading."""
    key = _open_tables(snapshot, edge, catalog, cache).key
    return any(cache.peek(each) is not None for each in (AdjacencyKey(key, direction, distinct), key))


@dataclass(frozen=True, slots=True)
class _TopologyTables:
    """The table versions that an adjacency is derived from."""

    edges: TableContents
    sources: FullTable
    destinations: FullTable

    @property
    def key(self) -> EdgeEndsKey:
        return EdgeEndsKey(self.edges, self.sources.contents, self.destinations.contents)


def _open_tables(snapshot: Snapshot, edge: EdgeType, catalog: Catalog, cache: Cache) -> _TopologyTables:
    nodes = [catalog.nodes[name] for name in (edge.from_type, edge.to_type)]
    sources, destinations = (open_full_table(snapshot, node.table_key, node, cache) for node in nodes)
    return _TopologyTables(read_contents(snapshot, edge.table_key, cache), sources, destinations)


Hops: TypeAlias = tuple[CompactPositions, CompactPositions, CompactPositions]
"""The begins, the ends and the edges of hops."""


def orient_edges(sources: CompactPositions, destinations: CompactPositions, direction: TraversalDirection) -> Hops:
    """Turn edges into hops in a direction: the begin, the end and the edge of each. With BOTH, a loop is one hop."""
    every = np.arange(len(sources), dtype=np.int32)
    match direction:
        case TraversalDirection.OUT:
            return sources, destinations, every
        case TraversalDirection.IN:
            return destinations, sources, every
        case TraversalDirection.BOTH:
            back = np.flatnonzero(sources != destinations).astype(np.int32)
            begins = np.concatenate([sources, destinations[back]])
            return begins, np.concatenate([destinations, sources[back]]), np.concatenate([every, back])


def orient_sizes(sizes: tuple[int, int], direction: TraversalDirection) -> tuple[int, int]:
    """Turn the numbers of source and destination nodes into those of nodes where hops begin and end."""
    return (sizes[1], sizes[0]) if direction is TraversalDirection.IN else sizes


def build_adjacency(hops: Hops, sizes: tuple[int, int], *, distinct: bool) -> Adjacency:
    """Build an adjacency from hops in any order: their begins, ends and edges."""
    begins, ends, edges = hops
    num_nodes, num_neighbours = sizes
    # Sort by the end, then, by a stable sort, by the begin.
    to, order, by_end = _counting_sort(ends, begins, num_neighbours)
    indptr, places, neighbours = _counting_sort(
        by_end, np.repeat(np.arange(num_neighbours, dtype=np.int32), np.diff(to)), num_nodes
    )
    if distinct:
        return _remove_parallel_edges(indptr, neighbours, num_neighbours)
    return Adjacency(indptr, neighbours, edges[order[places]], num_neighbours)


def _counting_sort(
    keys: CompactPositions, values: CompactPositions, size: int
) -> tuple[CompactPositions, CompactPositions, CompactPositions]:
    """Sort values by keys below ``size``, stably. Return where each key begins, the order, and the sorted values."""
    if not len(keys):
        return np.zeros(size + 1, np.int32), keys, values
    if len(keys) <= _FEW_KEYS:
        order = np.argsort(keys, kind="stable").astype(np.int32)
        begins = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=size))]).astype(np.int32)
        return begins, order, values[order]
    from scipy.sparse import csr_array

    # Transposing a matrix with one entry in each row is a counting sort of its columns.
    rows = csr_array((values, keys, np.arange(len(keys) + 1, dtype=np.int32)), shape=(len(keys), size))
    columns = rows.tocsc()
    return (
        cast("CompactPositions", columns.indptr),
        cast("CompactPositions", columns.indices),
        cast("CompactPositions", columns.data),
    )


def _remove_parallel_edges(indptr: CompactPositions, neighbours: CompactPositions, num_neighbours: int) -> Adjacency:
    is_first = np.ones(len(neighbours), np.bool_)
    np.not_equal(neighbours[1:], neighbours[:-1], out=is_first[1:])
    begins = indptr[:-1]
    is_first[begins[begins < len(neighbours)]] = True
    if is_first.all():
        return Adjacency(indptr, neighbours, None, num_neighbours)
    before = np.concatenate([np.zeros(1, np.int32), np.cumsum(is_first, dtype=np.int32)])
    return Adjacency(before[indptr], neighbours[is_first], None, num_neighbours)


# --------------------------------------------------------------------------------------------- the ends of edges


@dataclass(frozen=True, slots=True)
class EdgeEnds:
    """The position of the source and the destination of each edge, in table order."""

    sources: CompactPositions
    destinations: CompactPositions

    @property
    def nbytes(self) -> int:
        """The bytes of both arrays."""
        return self.sources.nbytes + self.destinations.nbytes


def _load_ends(tables: _TopologyTables, snapshot: Snapshot, edge: EdgeType, cache: Cache) -> EdgeEnds:
    def make() -> EdgeEnds:
        older, since = _find_older_ends(tables, cache)
        blocks = [older, *_read_ends(tables, snapshot, edge, since)]
        if len(blocks) == 1:
            return older
        sources = np.concatenate([block.sources for block in blocks])
        return EdgeEnds(sources, np.concatenate([block.destinations for block in blocks]))

    return cache.get_or_make(tables.key, make, lambda made: made.nbytes)


def _find_older_ends(tables: _TopologyTables, cache: Cache) -> tuple[EdgeEnds, TableContents | None]:
    """Find the ends of the largest cached version that this one extends, and the contents of that version."""
    keys = [key for key in cache.all_keys() if isinstance(key, EdgeEndsKey) and tables.edges.extends(key.edges)]
    for key in sorted(keys, key=lambda key: key.edges.num_rows, reverse=True):
        ends = cast("EdgeEnds | None", cache.peek(key))
        if ends is not None:
            sources = _translate_positions(ends.sources, key.sources, tables.sources)
            destinations = _translate_positions(ends.destinations, key.destinations, tables.destinations)
            if sources is not None and destinations is not None:
                return EdgeEnds(sources, destinations), key.edges
    nothing = np.zeros(0, np.int32)
    return EdgeEnds(nothing, nothing), None


def _translate_positions(
    positions: CompactPositions, older: TableContents, nodes: FullTable
) -> CompactPositions | None:
    """Translate positions in an older version of a node table to this one; None if the cache cannot tell."""
    if nodes.contents.extends(older):
        return positions
    ids = nodes.cached_ids_of(older)
    if ids is None:
        return None
    translated = nodes.locate(ids).astype(np.int32)[positions]
    return translated if translated.min(initial=0) >= 0 else None


def _read_ends(
    tables: _TopologyTables, snapshot: Snapshot, edge: EdgeType, since: TableContents | None
) -> Iterator[EdgeEnds]:
    if tables.edges.num_rows == (0 if since is None else since.num_rows):
        return
    after = None if since is None else since.newest_fragment
    reader = snapshot.table(edge.table_key).scan(["src", "dst"], after_fragment=after)
    for rows in _combine_batches(reader):
        # Arrow releases the interpreter lock, so the two columns are located in parallel.
        with ThreadPoolExecutor(2) as threads:
            sources = threads.submit(_locate_nodes, tables.sources, rows, "src", edge)
            destinations = threads.submit(_locate_nodes, tables.destinations, rows, "dst", edge)
            yield EdgeEnds(sources.result(), destinations.result())


def _combine_batches(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    batches: list[pa.RecordBatch] = []
    count = 0
    for batch in reader:
        batches.append(batch)
        count += batch.num_rows
        if count >= _EDGES_PER_BLOCK:
            yield pa.Table.from_batches(batches)
            batches, count = [], 0
    if batches:
        yield pa.Table.from_batches(batches)


def _locate_nodes(nodes: FullTable, rows: pa.Table, column: str, edge: EdgeType) -> CompactPositions:
    texts = cast("ChunkedValues", rows[column])
    at = nodes.locate(texts).astype(np.int32, copy=False)
    missing = np.flatnonzero(at < 0)
    if len(missing):
        raise StorageError(
            f"{len(missing)} edges of '{edge.name}' have a {column} that is not in {nodes.table_key}, "
            f"for example '{texts[int(missing[0])].as_py()}'",
            hint="the table was changed from outside",
            details={"table_key": edge.table_key, "column": column, "count": len(missing)},
        )
    return at


# --------------------------------------------------------------------------------------------- neighbours and edges


def find_neighbours(arrays: Adjacency, positions: Positions) -> tuple[Positions, Positions]:
    """Find all neighbours of some nodes. Return for each its row among ``positions``, and the neighbour."""
    rows, flat = _expand_ranges(arrays.indptr[positions], arrays.indptr[positions + 1])
    return rows, arrays.neighbours[flat].astype(np.int64)


def find_edges(arrays: Adjacency, positions: Positions) -> tuple[Positions, Positions, Positions]:
    """As :func:`find_neighbours`, with the edge to each neighbour."""
    assert arrays.edges is not None
    rows, flat = _expand_ranges(arrays.indptr[positions], arrays.indptr[positions + 1])
    return rows, arrays.neighbours[flat].astype(np.int64), arrays.edges[flat].astype(np.int64)


def find_edges_between(arrays: Adjacency, sources: Positions, destinations: Positions) -> tuple[Positions, Positions]:
    """Find all edges from each source to its destination. Return for each the row of the pair, and the edge."""
    assert arrays.edges is not None
    rows, flat = _expand_ranges(
        _lower_bounds(arrays, sources, destinations), _lower_bounds(arrays, sources, destinations + 1)
    )
    return rows, arrays.edges[flat].astype(np.int64)


def are_neighbours(arrays: Adjacency, sources: Positions, destinations: Positions) -> Mask:
    """Return for each source whether its destination is a neighbour. A destination may be beyond the adjacency."""
    inside = np.flatnonzero(destinations < arrays.num_neighbours)
    found = np.zeros(len(sources), np.bool_)
    if len(inside) and len(arrays.neighbours):
        found[inside] = arrays.matrix[sources[inside], destinations[inside]] > 0
    return found


def propagate_weights(arrays: Adjacency, weights: Positions) -> Positions:
    """Pass the weight of each node on to all of its neighbours, and return the sums that these receive."""
    return cast("Positions", arrays.matrix.T @ weights)


def _expand_ranges(
    begins: CompactPositions | Positions, ends: CompactPositions | Positions
) -> tuple[Positions, Positions]:
    """Expand ranges to all numbers inside them. Return the range of each number, and the number."""
    counts = (ends - begins).astype(np.int64)
    rows = np.repeat(np.arange(len(counts)), counts)
    shifts = begins - (np.cumsum(counts) - counts)
    return rows, np.arange(len(rows)) + shifts[rows]


def _lower_bounds(arrays: Adjacency, sources: Positions, bounds: Positions) -> Positions:
    """Find the first neighbour of each source that is not below its bound, by binary searches."""
    low, high = arrays.indptr[sources].astype(np.int64), arrays.indptr[sources + 1].astype(np.int64)
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        is_open = low < high
        middle = np.where(is_open, (low + high) >> 1, 0)
        is_below = is_open & (arrays.neighbours[middle] < bounds)
        low, high = np.where(is_below, middle + 1, low), np.where(is_open & ~is_below, middle, high)
    return low
