"""Breadth-first walks over adjacency arrays, from many nodes at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from omnigraph.language.query.plan import WalkEnd
from omnigraph.read.frames import Mask, Positions, empty_positions
from omnigraph.read.match.topology import Adjacency, find_neighbours

_HOPS_AT_ONCE: Final = 4_000_000
"""How many edges a walk follows at a time."""
_MARKS: Final = 2**26
"""How many pairs of a source and a node a walk can mark as visited."""


@dataclass(frozen=True, slots=True)
class WalkBounds:
    """How far a walk goes, and whether its source is its left end: see :class:`Expand`."""

    minimum: int
    maximum: int | None
    written_left: WalkEnd = WalkEnd.SOURCE

    @property
    def is_empty(self) -> bool:
        """Whether no number of hops is in the bounds."""
        return self.maximum is not None and self.minimum > self.maximum

    @property
    def is_single_hop(self) -> bool:
        """Whether a walk is one hop, no more and no less."""
        return self.minimum == self.maximum == 1

    def allows(self, hop: int) -> bool:
        """Whether a walk goes on to this hop."""
        return self.maximum is None or hop <= self.maximum


def walk(arrays: Adjacency, sources: Positions, bounds: WalkBounds) -> tuple[Positions, Positions]:
    """Walk breadth first from each source, as :class:`Expand` defines it.

    Return the row among ``sources`` and the destination of each pair, in ascending order. The adjacency has no
    parallel edges; beyond one hop it is within one type.
    """
    if bounds.is_empty or not len(sources) or not arrays.num_nodes:
        return empty_positions(), empty_positions()
    if bounds.is_single_hop:
        return find_neighbours(arrays, sources)
    at_once = min(len(sources), max(1, _MARKS // arrays.num_nodes))
    is_visited = np.zeros(at_once * arrays.num_nodes, np.bool_)
    begins = range(0, len(sources), at_once)
    parts = [_walk_block(arrays, sources[begin : begin + at_once], bounds, is_visited) for begin in begins]
    places = [codes // arrays.num_nodes + begin for begin, codes in zip(begins, parts, strict=True)]
    return np.concatenate(places), np.concatenate([codes % arrays.num_nodes for codes in parts])


def _walk_block(arrays: Adjacency, sources: Positions, bounds: WalkBounds, is_visited: Mask) -> Positions:
    """Walk from some sources at once. A pair of a source and a node is one number; no pair is marked yet."""
    frontiers = [np.arange(len(sources)) * arrays.num_nodes + sources]
    loops = empty_positions()
    # The edge of a right end to itself counts: that of a node at the hop before, or backwards that of the source.
    loops_at = bounds.minimum if bounds.written_left is WalkEnd.SOURCE else 1
    is_visited[frontiers[0]] = True
    while bounds.allows(len(frontiers)) and len(frontiers[-1]):
        hops = [_follow_edges(arrays, part, is_visited) for part in _split_frontier(arrays, frontiers[-1])]
        if len(frontiers) == loops_at:
            loops = np.concatenate([empty_positions(), *(each for _, each in hops)])
        frontiers.append(np.concatenate([empty_positions(), *(each for each, _ in hops)]))
    for frontier in frontiers:
        # Clearing the marks is far cheaper than allocating new ones.
        is_visited[frontier] = False
    if bounds.written_left is WalkEnd.DESTINATION:
        loops = _select_sources(frontiers, bounds.minimum, loops // arrays.num_nodes, arrays.num_nodes)
    codes = np.concatenate([empty_positions(), *frontiers[bounds.minimum :], loops])
    codes.sort()
    return codes


def _select_sources(frontiers: list[Positions], minimum: int, sources: Positions, size: int) -> Positions:
    """Return the pairs one hop nearer than the minimum that belong to some sources."""
    if not 1 <= minimum <= len(frontiers):
        return empty_positions()
    nearer = frontiers[minimum - 1]
    return nearer[np.isin(nearer // size, sources)]


def _follow_edges(arrays: Adjacency, frontier: Positions, is_visited: Mask) -> tuple[Positions, Positions]:
    """Return the unvisited pairs one hop ahead, and mark them; and the pairs with an edge to themselves."""
    size = arrays.num_nodes
    nodes = frontier % size
    rows, neighbours = find_neighbours(arrays, nodes)
    codes = (frontier - nodes)[rows] + neighbours
    loops = codes[neighbours == nodes[rows]]
    fresh = codes[~is_visited[codes]]
    fresh.sort()
    fresh = fresh[np.concatenate([np.ones(min(1, len(fresh)), np.bool_), fresh[1:] != fresh[:-1]])]
    is_visited[fresh] = True
    return fresh, loops


def _split_frontier(arrays: Adjacency, frontier: Positions) -> list[Positions]:
    """Split a frontier into parts that follow a bounded number of edges each."""
    nodes = frontier % arrays.num_nodes
    hops = np.cumsum(arrays.indptr[nodes + 1] - arrays.indptr[nodes], dtype=np.int64)
    if not len(hops) or hops[-1] <= _HOPS_AT_ONCE:
        return [frontier]
    cuts = np.searchsorted(hops, np.arange(_HOPS_AT_ONCE, int(hops[-1]), _HOPS_AT_ONCE))
    return np.split(frontier, np.unique(cuts[cuts > 0]))
