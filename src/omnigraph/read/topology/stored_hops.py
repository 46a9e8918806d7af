"""The adjacency of an edge type from its file of hops, corrected for what was committed since it was written.

The hops of a file count the rows of node fragments. While nodes are only added, these are positions. Otherwise they are
translated, hops of edges that are gone are removed, and edges of other fragments, and those at nodes that moved, are
inserted. Where that is not certain, or more than a part of all edges, the file counts as missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias, cast

import numpy as np

from omnigraph.deadlines import check_deadline, wait_for
from omnigraph.language.query import TraversalDirection
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import Cache, CompactPositions, FragmentContents, FullTable, Positions, find_rows, take_rows
from omnigraph.read.topology.adjacency import (
    Adjacency,
    expand_ranges,
    find_lower_bounds,
    orient_edges,
    remove_parallel_edges,
    sort_hops,
)
from omnigraph.read.topology.edge_ends import TopologyTables, load_ends, read_ends_of
from omnigraph.read.topology.stored_ends import MOST_MISSING, StoredEndsReader, map_rows
from omnigraph.storage import tables as storage
from omnigraph.storage.tables import CoveredEdges, NodeRows, StoredEnds, StoredHops, TableFragment

StoredDirection: TypeAlias = Literal[TraversalDirection.OUT, TraversalDirection.IN]
STORED_DIRECTIONS: Final[tuple[StoredDirection, ...]] = (TraversalDirection.OUT, TraversalDirection.IN)
_MOST_ADDED: Final = 4
"""If more than one edge in so many is in no file, all are sorted."""
_Pairs: TypeAlias = "tuple[CompactPositions, CompactPositions]"
"""The sources and destinations of some edges, as positions."""


def may_have_stored_hops(tables: TopologyTables, direction: TraversalDirection) -> bool:
    """Whether a table is large enough for a file, and there is one."""
    if direction is TraversalDirection.BOTH or len(tables.edges) < storage.LEAST_NUMBERED_ROWS:
        return False
    return storage.has_hop_file(tables.edges.open_table(), _first_fragment(tables), direction.value)


def read_stored_hops(tables: TopologyTables, direction: TraversalDirection) -> Adjacency | None:
    """Return the adjacency without edges, in which parallel edges count once; None without a file that is of use.

    Every edge ends at a node, if it returns one.
    """
    if direction is TraversalDirection.BOTH or len(tables.edges) < storage.LEAST_NUMBERED_ROWS:
        return None
    edges, name = tables.edges.open_table(), direction.value
    stored = wait_for(lambda: storage.read_hop_file(edges, _first_fragment(tables), name))
    if stored is None:
        return None
    reader = StoredEndsReader(edges, tables.sources, tables.destinations)
    return _HopsReader(tables, direction, stored, reader).read()


def _first_fragment(tables: TopologyTables) -> TableFragment:
    return tables.edges.contents.fragments[0].source


@dataclass(frozen=True, slots=True)
class _HopsReader:
    """Turns the content of one file into the adjacency of some table versions."""

    tables: TopologyTables
    direction: StoredDirection
    stored: StoredHops
    ends: StoredEndsReader

    def read(self) -> Adjacency | None:
        """Return the adjacency; None if the file is of little use by now."""
        covered = self._find_covered()
        if covered is None:
            return None
        placed = self._place_hops()
        removed = self._join(self._find_removed(*each) for each in covered)
        if placed is None or removed is None:
            return None
        are_all_placed = placed.num_hops == self.stored.indptr[-1]
        moved = _NONE if are_all_placed else self._join(self._find_moved(part) for part, _ in covered)
        if moved is None or placed.num_hops - len(removed[0]) + len(moved[0]) != sum(
            part.num_rows for part, _ in covered
        ):
            return None
        return self._correct(placed, removed, moved, {part.fragment for part, _ in covered})

    def _correct(self, placed: Adjacency, removed: _Pairs, moved: _Pairs, covered: set[int]) -> Adjacency | None:
        others = [each for each in self.tables.edges.contents.fragments if each.fragment not in covered]
        if sum(each.num_rows for each in others) * _MOST_ADDED > len(self.tables.edges):
            return None
        added = read_ends_of(self.tables, {each.fragment for each in others})
        if added.outside.num_rows:
            return None
        kept = _remove_hops(placed, self._orient(removed))
        if kept is None:
            return None
        new = self._join([moved, (added.sources, added.destinations)])
        assert new is not None
        found = _insert_hops(kept, self._orient(new))
        if len(new[0]) or self.stored.has_parallel_edges:
            return remove_parallel_edges(found.indptr, found.neighbours, found.num_neighbours)
        return found

    def _orient(self, pairs: _Pairs) -> _Pairs:
        return orient_edges(*pairs, self.direction)[:2]

    def _join(self, found: Iterable[_Pairs | None]) -> _Pairs | None:
        pairs = list(found)
        known = [each for each in pairs if each is not None]
        if len(known) < len(pairs):
            return None
        return np.concatenate([_NONE[0], *(each[0] for each in known)]), np.concatenate(
            [_NONE[1], *(each[1] for each in known)]
        )

    # ----------------------------------------------------------------------------------------- the hops of the file

    def _find_covered(self) -> list[tuple[FragmentContents, CoveredEdges]] | None:
        """Return the fragments that the file covers; None if one of them is gone."""
        known = {
            (part.source.identity_files, part.source.physical_rows): part
            for part in self.tables.edges.contents.fragments
        }
        found = [(known.get((each.files, each.count)), each) for each in self.stored.covered]
        there = [(part, each) for part, each in found if part is not None]
        return there if len(there) == len(found) else None

    def _place_hops(self) -> Adjacency | None:
        """Return the hops whose nodes are still where they were; None if these have another order by now."""
        nodes = self.tables.sources, self.tables.destinations
        begins, ends = nodes if self.direction is TraversalDirection.OUT else nodes[::-1]
        begin_map = self.ends.map_rows(self.stored.begin_rows, begins)[:-1]
        end_map = self.ends.map_rows(self.stored.end_rows, ends)[:-1]
        if not (_ascends(begin_map) and _ascends(end_map)):
            return None
        indptr, neighbours = self.stored.indptr, self.stored.neighbours
        gone = np.flatnonzero(begin_map < 0)
        is_identity = _is_identity(end_map)
        if not is_identity:
            neighbours = take_rows(end_map, cast("Positions", neighbours))
        if len(gone) or not is_identity:
            is_kept = neighbours >= 0
            is_kept[expand_ranges(indptr[gone].astype(np.int64), indptr[gone + 1].astype(np.int64))[1]] = False
            before = np.concatenate([np.zeros(1, np.int32), np.cumsum(is_kept, dtype=np.int32)])
            check_deadline()
            indptr, neighbours = before[indptr], take_rows(neighbours, find_rows(is_kept))
        counts = np.zeros(len(begins) + 1, np.int32)
        there = np.flatnonzero(begin_map >= 0)
        counts[begin_map[there] + 1] = np.diff(indptr)[there]
        return Adjacency(np.cumsum(counts, dtype=np.int32), neighbours, None, len(ends))

    # ----------------------------------------------------------------------------------------- what changed since

    def _find_removed(self, part: FragmentContents, covered: CoveredEdges) -> _Pairs | None:
        """Return the ends of edges that were deleted since, if both nodes are still there; None if that is unknown."""
        if part.deletions == covered.deletions:
            return _NONE
        deleted = self.ends.read_deleted(part)
        removed = np.setdiff1d(deleted, covered.deleted, assume_unique=True)
        if len(deleted) - len(removed) != len(covered.deleted):
            # An older version, in which some of them were not deleted yet.
            return None
        if not len(removed):
            return _NONE
        stored = self._read_ends(part)
        if stored is None or not _are_known(stored, removed):
            return None
        sources, destinations = self.ends.to_positions(stored, removed)
        there = np.flatnonzero((sources >= 0) & (destinations >= 0))
        return sources[there], destinations[there]

    def _find_moved(self, part: FragmentContents) -> _Pairs | None:
        """Return the ends of edges at a node that is no longer where it was, by its id; None if that is unknown."""
        stored = self._read_ends(part)
        if stored is None:
            return None
        sources, destinations = self.ends.to_positions(stored, None)
        missing = np.setdiff1d(find_rows((sources < 0) | (destinations < 0)), self.ends.read_deleted(part))
        if not len(missing):
            return _NONE
        if len(missing) * MOST_MISSING > part.num_rows or not _are_known(stored, missing):
            return None
        _, begins, ends = self.ends.locate_by_id(part, missing)
        if min(begins.min(), ends.min()) < 0:
            return None
        return begins.astype(np.int32), ends.astype(np.int32)

    def _read_ends(self, part: FragmentContents) -> StoredEnds | None:
        """Return the stored ends of a fragment, if they count the same rows: then both name a node by one number."""
        stored = self.ends.read(part)
        if stored is None:
            return None
        rows = (stored.source_rows, stored.destination_rows)
        counted = (self.stored.begin_rows, self.stored.end_rows)
        return stored if counted == (rows if self.direction is TraversalDirection.OUT else rows[::-1]) else None


_NONE: Final[_Pairs] = (np.zeros(0, np.int32), np.zeros(0, np.int32))


def _are_known(stored: StoredEnds, offsets: Positions) -> bool:
    """Whether the nodes of some rows were known when their ends were stored."""
    return min(stored.sources[offsets].min(), stored.destinations[offsets].min()) >= 0


def _is_identity(map_: CompactPositions) -> bool:
    return bool((map_ == np.arange(len(map_), dtype=np.int32)).all())


def _ascends(map_: CompactPositions) -> bool:
    """Whether rows that are still there have kept their order."""
    there = map_[map_ >= 0]
    return bool((there[1:] > there[:-1]).all())


# --------------------------------------------------------------------------------------------- removing and inserting


def _remove_hops(hops: Adjacency, removed: _Pairs) -> Adjacency | None:
    """Return an adjacency without some hops; None if it does not have one of them."""
    if not len(removed[0]):
        return hops
    begins, ends = _sort_pairs(removed)
    places = find_lower_bounds(hops, begins, ends) + _count_equal_before(begins, ends)
    are_inside = places < hops.find_ranges(begins)[1]
    if not are_inside.all() or (hops.take_neighbours(places) != ends).any():
        return None
    neighbours = wait_for(lambda: np.delete(hops.neighbours, places))
    return Adjacency(hops.indptr - _count_begins(begins, hops.num_nodes), neighbours, None, hops.num_neighbours)


def _insert_hops(hops: Adjacency, added: _Pairs) -> Adjacency:
    if not len(added[0]):
        return hops
    begins, ends = _sort_pairs(added)
    places = find_lower_bounds(hops, begins, ends)
    neighbours = wait_for(lambda: np.insert(hops.neighbours, places, ends.astype(np.int32)))
    return Adjacency(hops.indptr + _count_begins(begins, hops.num_nodes), neighbours, None, hops.num_neighbours)


def _sort_pairs(pairs: _Pairs) -> tuple[Positions, Positions]:
    order = np.lexsort(pairs[::-1])
    return pairs[0][order].astype(np.int64), pairs[1][order].astype(np.int64)


def _count_equal_before(begins: Positions, ends: Positions) -> Positions:
    """Return how many pairs before each are equal to it, if they are sorted."""
    every = np.arange(len(begins))
    is_first = np.ones(len(begins), np.bool_)
    is_first[1:] = (begins[1:] != begins[:-1]) | (ends[1:] != ends[:-1])
    return every - np.maximum.accumulate(np.where(is_first, every, 0))


def _count_begins(begins: Positions, num_nodes: int) -> CompactPositions:
    """Return how many hops begin before each node, and how many there are."""
    counts = np.bincount(begins, minlength=num_nodes)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


# --------------------------------------------------------------------------------------------- making files


def make_stored_hops(tables: TopologyTables, direction: StoredDirection, cache: Cache) -> StoredHops | None:
    """Return what a file of the hops of table versions holds; None if an edge does not end at a node."""
    ends = load_ends(tables, cache)
    if ends.outside.num_rows:
        return None
    sources, destinations = (
        _number_positions(ends.sources, tables.sources),
        _number_positions(ends.destinations, tables.destinations),
    )
    begins, finishes, _ = orient_edges(sources, destinations, direction)
    rows = _list_rows(tables.sources), _list_rows(tables.destinations)
    begin_rows, end_rows = rows if direction is TraversalDirection.OUT else rows[::-1]
    sizes = tuple(sum(each.count for each in listed) for listed in (begin_rows, end_rows))
    indptr, neighbours = sort_hops(begins, finishes, sizes[0])
    has_parallel_edges = remove_parallel_edges(indptr, neighbours, sizes[1]).counts is not None
    return StoredHops(indptr, neighbours, begin_rows, end_rows, _list_covered(tables.edges), has_parallel_edges)


def _number_positions(positions: CompactPositions, nodes: FullTable) -> CompactPositions:
    """Return the number of the row at each position, which counts deleted rows too."""
    listed = _list_rows(nodes)
    if sum(each.count for each in listed) == len(nodes):
        return positions
    numbers = np.flatnonzero(map_rows(listed, nodes)[:-1] >= 0).astype(np.int32)
    return take_rows(numbers, cast("Positions", positions))


def _list_rows(nodes: FullTable) -> tuple[NodeRows, ...]:
    return tuple(NodeRows.of(part.source) for part in nodes.contents.fragments)


def _list_covered(edges: FullTable) -> tuple[CoveredEdges, ...]:
    parts: Sequence[TableFragment] = [part.source for part in edges.contents.fragments]
    deleted = storage.read_deleted_offsets(edges.open_table(), parts)
    return tuple(
        CoveredEdges(part.identity_files, part.physical_rows, part.deletions, offsets.astype(np.int32))
        for part, offsets in zip(parts, deleted, strict=True)
    )
