"""Writes the ends of the edges of large fragments, and the hops of a table, beside it, where a cold walk finds them.

The files are derived from committed rows and are part of no commit. They are written with the indexes: a fragment or a
table that has none, or one from which too much differs by now, gets a new one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import repeat
from math import inf
from typing import Final, cast

import numpy as np

from omnigraph.language.schema import Catalog, EdgeType, TableKey
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames import Cache, ChunkedValues, find_positions, open_full_table
from omnigraph.read.topology import STORED_DIRECTIONS, TopologyTables, make_stored_hops
from omnigraph.storage import tables
from omnigraph.storage.columns import Values, column_of
from omnigraph.storage.tables import ROW_ADDRESS, NodeRows, RowNumbers, StoredEnds, StoredHops, Table, TableFragment
from omnigraph.worker_threads import WorkerThreads

_MOST_NODES: Final = 4_000_000
"""The ids of all nodes are in memory while ends are numbered; a walk over more nodes reads ids."""

_MOST_EDGES: Final = 32_000_000
"""While hops are sorted, an edge takes 20 bytes; a walk over more edges sorts them itself."""

_CACHE_BYTES: Final = 2**30
"""For the ends of all edges, which both directions need."""

_MOST_REWRITTEN: Final = 16
"""A file is written again once more than one in so many of its nodes or edges is no longer where it was."""


def write_missing_ends(snapshot: Snapshot, catalog: Catalog, table_keys: Collection[str]) -> None:
    """Write the files that large fragments lack, of the edge tables among some tables and of those that end there."""
    for edge in catalog.edges.values():
        ends = [TableKey.of_node(name) for name in (edge.from_type, edge.to_type)]
        concerned = {edge.table_key, *ends}
        if concerned.isdisjoint(table_keys) or not concerned <= snapshot.pins.keys():
            continue
        if max(snapshot.pins[end].row_count for end in ends) <= _MOST_NODES:
            _write_missing(snapshot.table(edge.table_key), *map(snapshot.table, ends))
            if tables.LEAST_NUMBERED_ROWS <= snapshot.pins[edge.table_key].row_count <= _MOST_EDGES:
                _write_missing_hops(snapshot, edge, catalog)


def _write_missing(edges: Table, sources: Table, destinations: Table) -> None:
    large = [each for each in tables.list_fragments(edges) if each.physical_rows >= tables.LEAST_NUMBERED_ROWS]
    if not large:
        return
    remaining = {
        NodeRows.of(each): each.num_rows for nodes in (sources, destinations) for each in tables.list_fragments(nodes)
    }
    due = [each for each in large if _lacks_file(edges, each, remaining)]
    if not due:
        return
    begins = _NumberedNodes.read(sources)
    ends = begins if destinations.uri == sources.uri else _NumberedNodes.read(destinations)
    # Arrow releases the interpreter lock, so the two columns are numbered in parallel.
    with WorkerThreads(2) as threads:
        for fragment in due:
            rows = edges.scan(["src", "dst"], with_row_address=True, in_fragments=[fragment.id]).read_all()
            offsets = column_of(rows, ROW_ADDRESS).to_numpy().astype(np.uint64) & np.uint64(0xFFFFFFFF)
            columns = cast("list[ChunkedValues]", [rows["src"], rows["dst"]])
            found = threads.map(_NumberedNodes.number, (begins, ends), columns, repeat(offsets), repeat(fragment))
            numbers_of_sources, numbers_of_destinations = found
            stored = StoredEnds(numbers_of_sources, numbers_of_destinations, begins.listed, ends.listed)
            tables.write_end_file(edges, fragment, stored)


def _lacks_file(edges: Table, fragment: TableFragment, remaining: Mapping[NodeRows, int]) -> bool:
    """Whether a fragment has no file, or too many of the nodes that its file numbers were rewritten since."""
    stored = tables.read_end_file(edges, fragment)
    if stored is None:
        return True
    listed = (*stored.source_rows, *stored.destination_rows)
    there = sum(remaining.get(each, 0) for each in listed)
    return there * _MOST_REWRITTEN < sum(each.count for each in listed) * (_MOST_REWRITTEN - 1)


def _write_missing_hops(snapshot: Snapshot, edge: EdgeType, catalog: Catalog) -> None:
    """Write the files of the hops of a table that are missing, or from which too much differs."""
    types = (edge, catalog.nodes[edge.from_type], catalog.nodes[edge.to_type])
    cache = Cache(_CACHE_BYTES)
    versions = TopologyTables(
        *(open_full_table(snapshot, each.table_key, each, cache) for each in types), are_of_one_snapshot=True
    )
    table = versions.edges.open_table()
    for direction in STORED_DIRECTIONS:
        stored = tables.read_hop_file(table, versions.edges.contents.fragments[0].source, direction.value)
        if stored is not None and _count_changes(stored, versions) * _MOST_REWRITTEN <= len(versions.edges):
            continue
        hops = make_stored_hops(versions, direction, cache)
        if hops is not None:
            tables.write_hop_file(table, versions.edges.contents.fragments[0].source, direction.value, hops)


def _count_changes(stored: StoredHops, versions: TopologyTables) -> float:
    """Estimate how many edges a reader of a file of hops must remove and insert."""
    there = {part.source.identity_files: part for part in versions.edges.contents.fragments}
    covered = {each.files: each for each in stored.covered}
    if not covered.keys() <= there.keys():
        return inf
    removed = sum(each.num_rows - there[files].num_rows for files, each in covered.items())
    added = sum(part.num_rows for files, part in there.items() if files not in covered)
    nodes = (*versions.sources.contents.fragments, *versions.destinations.contents.fragments)
    remaining = {NodeRows.of(part.source): part.num_rows for part in nodes}
    listed = (*stored.begin_rows, *stored.end_rows)
    total = sum(each.count for each in listed)
    gone = total - sum(remaining.get(each, 0) for each in listed)
    return abs(removed) + added + len(versions.edges) * gone / max(1, total)


@dataclass(frozen=True, slots=True, eq=False)
class _NumberedNodes:
    """The ids of a node table, and the number of each: its place among all rows of the listed fragments."""

    listed: tuple[NodeRows, ...]
    ids: Values
    numbers: RowNumbers

    @classmethod
    def read(cls, nodes: Table) -> _NumberedNodes:
        fragments = tables.list_fragments(nodes)
        listed = tuple(map(NodeRows.of, fragments))
        rows = nodes.scan(["id"], with_row_address=True).read_all()
        addresses = column_of(rows, ROW_ADDRESS).to_numpy().astype(np.int64)
        starts = np.zeros(max((each.id for each in fragments), default=-1) + 1, np.int64)
        starts[[each.id for each in fragments]] = np.cumsum([0, *(each.count for each in listed)])[:-1]
        numbers = starts[addresses >> 32] + (addresses & 0xFFFFFFFF)
        return cls(listed, column_of(rows, "id"), numbers.astype(np.int32))

    def number(self, texts: ChunkedValues, offsets: tables.Numbers, fragment: TableFragment) -> RowNumbers:
        """Return the number of the node of each row of a fragment; -1 for deleted rows."""
        found = np.full(fragment.physical_rows, -1, np.int32)
        at = find_positions(texts, self.ids)
        found[offsets.astype(np.int64)] = np.where(at < 0, -1, self.numbers[np.maximum(at, 0)])
        return found
