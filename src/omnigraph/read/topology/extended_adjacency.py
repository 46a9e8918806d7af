"""An adjacency as a base and the lists of those nodes that have other neighbours now.

A node that edges were added to or removed from gets a new list beside the base. All other lists are those of the base,
so a commit costs the degrees of the nodes that it touches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import Positions, find_sorted
from omnigraph.read.topology.adjacency import Adjacency, Hops, Neighbourhood, expand_ranges, find_neighbours


@dataclass(frozen=True, slots=True, eq=False)
class ExtendedAdjacency:
    """The neighbours of each node, in ascending order; see :class:`Adjacency`.

    The places of neighbours are those of the base, and after them those of the new lists.
    """

    base: Adjacency
    touched: Positions
    """The nodes that have a new list, sorted."""
    lists: Adjacency
    """The new list of each."""
    num_nodes: int
    num_neighbours: int

    @property
    def nbytes(self) -> int:
        """The bytes of what is not in the base."""
        return self.touched.nbytes + self.lists.nbytes

    @property
    def num_hops(self) -> int:
        """The number of neighbours of all nodes."""
        begins, ends = self.base.find_ranges(self._touched_in_base())
        return self.base.num_hops - int((ends - begins).sum()) + self.lists.num_hops

    def _touched_in_base(self) -> Positions:
        return self.touched[self.touched < self.base.num_nodes]

    def find_ranges(self, positions: Positions) -> tuple[Positions, Positions]:
        """Return where the neighbours of some nodes begin and end."""
        is_inside = positions < self.base.num_nodes
        if is_inside.all():
            begins, ends = self.base.find_ranges(positions)
        else:
            begins, ends = np.zeros(len(positions), np.int64), np.zeros(len(positions), np.int64)
            begins[is_inside], ends[is_inside] = self.base.find_ranges(positions[is_inside])
        if len(self.touched):
            at = np.minimum(np.searchsorted(self.touched, positions), len(self.touched) - 1)
            is_touched = np.flatnonzero(self.touched[at] == positions)
            if len(is_touched):
                first, last = self.lists.find_ranges(at[is_touched])
                begins[is_touched], ends[is_touched] = first + self.base.num_hops, last + self.base.num_hops
        return begins, ends

    def take_neighbours(self, places: Positions) -> Positions:
        """Return the neighbours at some places."""
        is_new = places >= self.base.num_hops
        if not is_new.any():
            return self.base.take_neighbours(places)
        found = np.empty(len(places), np.int64)
        found[~is_new] = self.base.take_neighbours(places[~is_new])
        found[is_new] = self.lists.take_neighbours(places[is_new] - self.base.num_hops)
        return found

    def take_edges(self, places: Positions) -> Positions:
        """Return the edges to the neighbours at some places."""
        is_new = places >= self.base.num_hops
        if not is_new.any():
            return self.base.take_edges(places)
        found = np.empty(len(places), np.int64)
        found[~is_new] = self.base.take_edges(places[~is_new])
        found[is_new] = self.lists.take_edges(places[is_new] - self.base.num_hops)
        return found

    def degrees(self) -> Positions:
        """Return the number of neighbours of each node; parallel edges count if the adjacency has edges."""
        degrees = np.zeros(self.num_nodes, np.int64)
        degrees[: self.base.num_nodes] = self.base.degrees()
        degrees[self.touched] = self.lists.degrees()
        return degrees

    def propagate(self, weights: Positions) -> Positions:
        """Pass the weight of each node on to all of its neighbours, and return the sums that these receive."""
        of_base = weights[: self.base.num_nodes].copy()
        of_base[self._touched_in_base()] = 0
        received = np.zeros(self.num_neighbours, np.int64)
        received[: self.base.num_neighbours] = self.base.propagate(of_base)
        passed = np.repeat(weights[self.touched], self.lists.degrees())
        np.add.at(received, self.lists.neighbours, passed)
        return received


def extend_adjacency(base: Adjacency, removed: Hops, added: Hops, sizes: tuple[int, int]) -> ExtendedAdjacency:
    """Return an adjacency without some hops of the base, and with others."""
    touched = np.union1d(removed[0], added[0]).astype(np.int64)
    rows, places = expand_ranges(*base.find_ranges(touched[touched < base.num_nodes]))
    # Nodes beyond the base come last, so the rows are those of all touched nodes.
    neighbours = base.take_neighbours(places)
    added_rows = np.searchsorted(touched, added[0])
    added_ends, added_edges = added[1].astype(np.int64), added[2].astype(np.int64)
    if base.edges is not None:
        edges = base.take_edges(places)
        is_kept = ~find_sorted(edges, np.sort(removed[2]).astype(np.int64))
        lists = _arrange_lists(
            np.concatenate([rows[is_kept], added_rows]),
            np.concatenate([neighbours[is_kept], added_ends]),
            (len(touched), sizes[1]),
            edges=np.concatenate([edges[is_kept], added_edges]),
        )
    else:
        counts = np.ones(len(places), np.int64) if base.counts is None else base.counts[places].astype(np.int64)
        signs = np.repeat(np.array([1, -1], np.int64), [len(added[0]), len(removed[0])])
        lists = _sum_lists(
            np.concatenate([rows, added_rows, np.searchsorted(touched, removed[0])]),
            np.concatenate([neighbours, added_ends, removed[1].astype(np.int64)]),
            np.concatenate([counts, signs]),
            (len(touched), sizes[1]),
        )
    return ExtendedAdjacency(base, touched, lists, *sizes)


def unite_extended(
    base: Adjacency, parts: Sequence[Neighbourhood], touched: Positions, sizes: tuple[int, int]
) -> ExtendedAdjacency:
    """Return the union of adjacencies of the same nodes, of which some nodes have other neighbours than in the base."""
    found = [find_neighbours(part, touched) for part in parts]
    rows, neighbours = (np.concatenate(each) for each in zip(*found, strict=True))
    lists = _sum_lists(rows, neighbours, np.ones(len(rows), np.int64), (len(touched), sizes[1]))
    return ExtendedAdjacency(base, touched, lists, *sizes)


def _arrange_lists(
    rows: Positions, neighbours: Positions, sizes: tuple[int, int], *, edges: Positions | None = None
) -> Adjacency:
    """Return the neighbours of rows, in any order, as an adjacency."""
    order = np.lexsort((neighbours, rows))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=sizes[0]))]).astype(np.int32)
    sorted_edges = None if edges is None else edges[order].astype(np.int32)
    return Adjacency(indptr, neighbours[order].astype(np.int32), sorted_edges, sizes[1])


def _sum_lists(rows: Positions, neighbours: Positions, counts: Positions, sizes: tuple[int, int]) -> Adjacency:
    """Return the neighbours whose counts sum up to more than 0, each once."""
    codes, numbers = np.unique(rows * np.int64(sizes[1]) + neighbours, return_inverse=True)
    totals = np.zeros(len(codes), np.int64)
    np.add.at(totals, numbers, counts)
    kept = codes[totals > 0]
    return _arrange_lists(kept // max(1, sizes[1]), kept % max(1, sizes[1]), sizes)
