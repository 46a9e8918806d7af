"""The ends of the edges of a type as positions in its node tables.

They are derived from three table versions, the edges and the nodes at both ends, and are kept in the cache. For a
version that only added edges to a cached one, just the added edges are read. Fragments with a file of their ends need
no texts: see ``stored_ends``.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import StorageError
from omnigraph.language.schema import TableKey
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import (
    Cache,
    ChunkedValues,
    CompactPositions,
    FragmentContents,
    FullTable,
    Positions,
    SkiRental,
    TableContents,
    WholeTable,
    lineage_of,
    note_base,
)
from omnigraph.read.topology.stored_ends import NONE_OUTSIDE, StoredEndsReader
from omnigraph.storage.columns import Values, column_of
from omnigraph.storage.tables import Table
from omnigraph.worker_threads import WorkerThreads

_EDGES_PER_BLOCK: Final = 8_000_000
"""How many edges are read at a time; their ends are texts until they are located."""
_FEW_ENDS: Final = 256
"""So many are read by their rows, if the ends of all are not in memory."""


@dataclass(frozen=True, slots=True)
class EdgeEndsKey:
    """The cache key of the ends of all edges of a version."""

    edges: TableContents
    sources: TableContents
    destinations: TableContents


@dataclass(frozen=True, slots=True)
class TopologyTables:
    """The table versions that an adjacency is derived from."""

    edges: FullTable
    sources: FullTable
    destinations: FullTable
    are_of_one_snapshot: bool
    """Whether each edge must end at a node; nodes may also be older than the edges."""

    @property
    def key(self) -> EdgeEndsKey:
        """The cache key of the ends of the edges."""
        return EdgeEndsKey(self.edges.contents, self.sources.contents, self.destinations.contents)


@dataclass(frozen=True, slots=True)
class EdgeEnds:
    """The position of the source and the destination of each edge, in table order."""

    sources: CompactPositions
    destinations: CompactPositions
    outside: pa.Table
    """The number, ``src`` and ``dst`` of edges with an end that the node tables do not have; its position is -1.

    Edges may be newer than the nodes that they are located in; within one snapshot there is no such edge.
    """

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays."""
        return self.sources.nbytes + self.destinations.nbytes + self.outside.nbytes

    def refuse_missing(self, tables: TopologyTables) -> None:
        """Raise an error if an edge ends outside of the node tables."""
        if not self.outside.num_rows:
            return
        for column, positions, nodes in (
            ("src", self.sources, tables.sources),
            ("dst", self.destinations, tables.destinations),
        ):
            missing = np.flatnonzero(positions[column_of(self.outside, "edge").to_numpy()] < 0)
            refuse_missing_ends(column_of(self.outside, column).take(missing), column, nodes, tables.edges)


_NO_ENDS: Final = EdgeEnds(np.zeros(0, np.int32), np.zeros(0, np.int32), NONE_OUTSIDE)


def refuse_missing_ends(texts: Values, column: str, nodes: WholeTable, edges: WholeTable) -> None:
    """Raise an error if there are ends of edges that no node has."""
    if len(texts):
        raise StorageError(
            f"{len(texts)} edges of '{TableKey(edges.table_key).type_name}' have a {column} that is not in "
            f"{nodes.table_key}, for example '{texts[0].as_py()}'",
            hint="the table was changed from outside",
            details={"table_key": edges.table_key, "column": column, "count": len(texts)},
        )


@dataclass(frozen=True, slots=True)
class UnreadEnds:
    """In the place of the ends of edges all of which end at nodes, while only their hops were read."""


def load_ends(tables: TopologyTables, cache: Cache) -> EdgeEnds:
    """Return the ends of all edges, from the cache if possible."""

    def make() -> EdgeEnds | UnreadEnds:
        older, since = _find_older_ends(tables, cache)
        newest = -1 if since is None else since.newest_fragment
        added = [part for part in tables.edges.contents.fragments if part.fragment > newest]
        ends = _join_ends([older, *_read_ends(tables, added)])
        _note_edges(tables.edges, cache)
        return ends

    found = cache.get_or_make(tables.key, make, _count_bytes)
    if isinstance(found, EdgeEnds):
        return found
    ends = cast("EdgeEnds", make())
    cache.replace(tables.key, ends, ends.nbytes)
    return ends


def load_outside(tables: TopologyTables, cache: Cache) -> pa.Table:
    """Return the edges with an end that the node tables do not have. The ends of all others may remain unread."""
    found = cast("EdgeEnds | UnreadEnds | None", cache.peek(tables.key))
    return NONE_OUTSIDE if isinstance(found, UnreadEnds) else load_ends(tables, cache).outside


def find_ends(tables: TopologyTables, rows: Positions, cache: Cache) -> tuple[CompactPositions, CompactPositions]:
    """Return the ends of some edges; of a few, without reading those of all."""
    if isinstance(cache.peek(tables.key), UnreadEnds) and len(rows) <= _FEW_ENDS:
        # The next version lacks the same edges, and perhaps a few more.
        key = tables.key, "ends of some edges"
        known = cast("Mapping[int, tuple[int, int]] | None", cache.peek(key)) or {}
        missing = np.array([row for row in rows.tolist() if row not in known], np.int64)
        if len(missing):
            sources = tables.sources.locate(tables.edges.take_values("src", missing))
            destinations = tables.destinations.locate(tables.edges.take_values("dst", missing))
            pairs = zip(sources.tolist(), destinations.tolist(), strict=True)
            known = {**known, **dict(zip(missing.tolist(), pairs, strict=True))}
            cache.replace(key, known, 200 * len(known))
        found = np.array([known[row] for row in rows.tolist()], np.int32)
        return found[:, 0], found[:, 1]
    ends = load_ends(tables, cache)
    return ends.sources[rows], ends.destinations[rows]


def note_unread_ends(tables: TopologyTables, cache: Cache) -> None:
    """Note that the hops of edges are in memory, that all of them end at nodes, and their ends can be read."""

    def make() -> EdgeEnds | UnreadEnds:
        _note_edges(tables.edges, cache)
        return UnreadEnds()

    cache.get_or_make(tables.key, make, _count_bytes)


def _count_bytes(ends: EdgeEnds | UnreadEnds) -> int:
    return ends.nbytes if isinstance(ends, EdgeEnds) else 100


def _note_edges(edges: FullTable, cache: Cache) -> None:
    """Make a version of an edge table a base, and forget what lookups in it have cost."""
    if edges.contents.fragments:
        opened = edges.open_table()
        note_base(FullTable(edges.contents, edges.type, cache, lambda: opened), cache)
        cache.replace(_lookups_key(edges.contents), SkiRental(), 100)


def read_ends_of(tables: TopologyTables, fragments: Collection[int]) -> EdgeEnds:
    """Read the ends of the edges of some fragments, in table order, past the cache."""
    parts = [part for part in tables.edges.contents.fragments if part.fragment in fragments]
    return _join_ends([_NO_ENDS, *_read_ends(tables, parts)])


def find_lookup_rental(edges: TableContents, cache: Cache) -> SkiRental:
    """Return what lookups of edges have cost since the ends of all were last loaded, in any version of the table."""
    return cache.get_or_make(_lookups_key(edges), SkiRental, lambda _: 100)


def _lookups_key(edges: TableContents) -> Hashable:
    return (lineage_of(edges) if edges.fragments else edges), "edge lookups"


def _join_ends(blocks: Sequence[EdgeEnds]) -> EdgeEnds:
    if len(blocks) == 1:
        return blocks[0]
    starts = np.cumsum([0, *(len(block.sources) for block in blocks)]).tolist()
    outside = [_shift_edges(block.outside, start) for block, start in zip(blocks, starts, strict=False)]
    return EdgeEnds(
        np.concatenate([block.sources for block in blocks]),
        np.concatenate([block.destinations for block in blocks]),
        pa.concat_tables(outside).combine_chunks(),
    )


def _shift_edges(outside: pa.Table, start: int) -> pa.Table:
    numbers = column_of(outside, "edge").to_numpy().astype(np.int64) + start
    return outside.set_column(0, "edge", pa.array(numbers, pa.int64()))


def _find_older_ends(tables: TopologyTables, cache: Cache) -> tuple[EdgeEnds, TableContents | None]:
    """Find the ends of the largest cached version that this one extends, and the contents of that version."""
    edges = tables.edges.contents
    keys = [key for key in cache.all_keys() if isinstance(key, EdgeEndsKey) and edges.extends(key.edges)]
    for key in sorted(keys, key=lambda key: key.edges.num_rows, reverse=True):
        ends = cache.peek(key)
        if isinstance(ends, EdgeEnds) and not ends.outside.num_rows:
            sources = _translate_positions(ends.sources, key.sources, tables.sources)
            destinations = _translate_positions(ends.destinations, key.destinations, tables.destinations)
            if sources is not None and destinations is not None:
                return EdgeEnds(sources, destinations, NONE_OUTSIDE), key.edges
    return _NO_ENDS, None


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


def _read_ends(tables: TopologyTables, parts: Sequence[FragmentContents]) -> Iterator[EdgeEnds]:
    """Yield the ends of the edges of some fragments, in table order."""
    if not any(part.num_rows for part in parts):
        return
    table = tables.edges.open_table()
    stored = StoredEndsReader(table, tables.sources, tables.destinations)
    unnumbered: list[int] = []
    for part in parts:
        found = stored.locate_ends(part)
        if found is None:
            unnumbered.append(part.fragment)
            continue
        yield from _scan_ends(tables, table, unnumbered)
        unnumbered = []
        yield EdgeEnds(found.sources, found.destinations, found.outside)
    yield from _scan_ends(tables, table, unnumbered)


def _scan_ends(tables: TopologyTables, table: Table, fragments: Collection[int]) -> Iterator[EdgeEnds]:
    if not fragments:
        return
    every = len(fragments) == len(tables.edges.contents.fragments)
    for rows in _combine_batches(table.scan(["src", "dst"], in_fragments=None if every else frozenset(fragments))):
        # Arrow releases the interpreter lock, so the two columns are located in parallel.
        with WorkerThreads(2) as threads:
            found = threads.map(_locate_nodes, (tables.sources, tables.destinations), (rows["src"], rows["dst"]))
            sources, destinations = found
        missing = np.flatnonzero((sources < 0) | (destinations < 0))
        outside = rows.select(["src", "dst"]).take(missing).add_column(0, "edge", pa.array(missing, pa.int64()))
        yield EdgeEnds(sources, destinations, outside.cast(NONE_OUTSIDE.schema))


def _locate_nodes(nodes: FullTable, texts: ChunkedValues) -> CompactPositions:
    return nodes.locate(texts).astype(np.int32, copy=False)


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
