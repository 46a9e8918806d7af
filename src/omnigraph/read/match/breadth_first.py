"""Breadth-first walks over adjacency arrays, from many nodes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from omnigraph.language.query.plan import WalkEnd
from omnigraph.read.frames import Mask, PathForest, Positions, empty_positions
from omnigraph.read.match.topology import Neighbourhood, count_hops, find_neighbours

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

    @property
    def loops_at(self) -> int:
        """The hop that tells which right ends have an edge to themselves: what is found, or backwards the source."""
        return self.minimum if self.written_left is WalkEnd.SOURCE else 1

    def allows(self, hop: int) -> bool:
        """Whether a walk goes on to this hop."""
        return self.maximum is None or hop <= self.maximum


def walk(
    arrays: Neighbourhood, sources: Positions, bounds: WalkBounds, wanted: Positions | None = None
) -> tuple[Positions, Positions]:
    """Walk breadth first from each source, as :class:`Expand` defines it.

    Return the row among ``sources`` and the destination of each pair, in ascending order. With ``wanted`` pairs, as
    :func:`code_pairs` numbers them, the walk ends as soon as it has visited these. The adjacency has no parallel edges;
    beyond one hop it is within one type.
    """
    if bounds.is_empty or not len(sources) or not arrays.num_nodes:
        return empty_positions(), empty_positions()
    if bounds.is_single_hop:
        return find_neighbours(arrays, sources)
    parts = [
        (block.begin, _walk_block(arrays, sources[block.begin : block.end], bounds, block))
        for block in _make_blocks(arrays, len(sources), wanted)
    ]
    places = [codes // arrays.num_nodes + begin for begin, codes in parts]
    return np.concatenate(places), np.concatenate([codes % arrays.num_nodes for _, codes in parts])


def code_pairs(arrays: Neighbourhood, rows: Positions, nodes: Positions) -> Positions:
    """Return one number for each pair of a row among the sources of a walk and a node."""
    return rows * arrays.num_nodes + nodes


@dataclass(frozen=True, slots=True)
class _Block:
    """Sources that are walked from together: marks for the pairs that they visit, and the pairs to stop at."""

    begin: int
    end: int
    is_visited: Mask
    wanted: Positions | None

    def is_done(self) -> bool:
        """Whether all wanted pairs have been visited."""
        return self.wanted is not None and bool(self.is_visited[self.wanted].all())


def _make_blocks(arrays: Neighbourhood, count: int, wanted: Positions | None) -> Iterator[_Block]:
    size = arrays.num_nodes
    at_once = min(count, max(1, _MARKS // size))
    is_visited = np.zeros(at_once * size, np.bool_)
    for begin in range(0, count, at_once):
        end = min(begin + at_once, count)
        own = None if wanted is None else wanted[(wanted >= begin * size) & (wanted < end * size)] - begin * size
        yield _Block(begin, end, is_visited, own)


def _walk_block(arrays: Neighbourhood, sources: Positions, bounds: WalkBounds, block: _Block) -> Positions:
    """Walk from some sources at once. A pair of a source and a node is one number; no pair is marked yet."""
    frontiers = [np.arange(len(sources)) * arrays.num_nodes + sources]
    loops = empty_positions()
    is_visited = block.is_visited
    is_visited[frontiers[0]] = True
    while bounds.allows(len(frontiers)) and len(frontiers[-1]):
        if len(frontiers) > bounds.minimum and block.is_done():
            break
        hops = [_follow_edges(arrays, part, is_visited) for part in _split_frontier(arrays, frontiers[-1])]
        if len(frontiers) == bounds.loops_at:
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


def _follow_edges(arrays: Neighbourhood, frontier: Positions, is_visited: Mask) -> tuple[Positions, Positions]:
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


def _split_frontier(arrays: Neighbourhood, frontier: Positions) -> list[Positions]:
    """Split a frontier into parts that follow a bounded number of edges each."""
    nodes = frontier % arrays.num_nodes
    hops = np.cumsum(count_hops(arrays, nodes))
    if not len(hops) or hops[-1] <= _HOPS_AT_ONCE:
        return [frontier]
    cuts = np.searchsorted(hops, np.arange(_HOPS_AT_ONCE, int(hops[-1]), _HOPS_AT_ONCE))
    return np.split(frontier, np.unique(cuts[cuts > 0]))


# --------------------------------------------------------------------------------------------- with paths


@dataclass(frozen=True, slots=True)
class FoundPaths:
    """The pairs that a walk finds, as :func:`walk` gives them, and the path of each."""

    rows: Positions
    destinations: Positions
    forest: PathForest


def walk_paths(
    arrays: Neighbourhood,
    sources: Positions,
    bounds: WalkBounds,
    rank_ids: Callable[[], Positions],
    wanted: Positions | None = None,
) -> FoundPaths:
    """Walk as :func:`walk` does, and keep for each visit the one before it on the smallest path.

    ``rank_ids`` gives the ranks of the ids of nodes. A frontier is in the order of the paths to its nodes, so the first
    visit that leads to a node is the right one: the smallest path costs no more than the walk.
    """
    if bounds.is_single_hop:
        return _find_single_hops(arrays, sources, bounds.written_left)
    if bounds.is_empty or not len(sources) or not arrays.num_nodes:
        return _join_blocks([], bounds.written_left)
    blocks, ranks = _make_blocks(arrays, len(sources), wanted), rank_ids()
    found = [_walk_visits(arrays, sources[each.begin : each.end], bounds, ranks, each) for each in blocks]
    return _join_blocks(found, bounds.written_left)


def _find_single_hops(arrays: Neighbourhood, sources: Positions, written_left: WalkEnd) -> FoundPaths:
    rows, found = find_neighbours(arrays, sources)
    hops = np.repeat(np.array([0, 1], np.int64), [len(sources), len(found)])
    before, ends = np.concatenate([np.zeros(len(sources), np.int64), rows]), len(sources) + np.arange(len(found))
    nodes = np.concatenate([sources, found])
    forest = PathForest(nodes, hops, before, ends, np.zeros(len(found), np.bool_), written_left)
    return FoundPaths(rows, found, forest)


@dataclass(frozen=True, slots=True)
class _Visits:
    """The visits of a block: pairs of a source and a node by hop, and the place of the visit before each."""

    rows: Positions
    nodes: Positions
    hops: Positions
    before: Positions
    ends: Positions
    loops: Mask


def _walk_visits(
    arrays: Neighbourhood, sources: Positions, bounds: WalkBounds, ranks: Positions, block: _Block
) -> _Visits:
    size = arrays.num_nodes
    frontiers, parents = [np.arange(len(sources)) * size + sources], [np.zeros(len(sources), np.int64)]
    looped = np.zeros(0, np.int64)
    block.is_visited[frontiers[0]] = True
    while bounds.allows(len(frontiers)) and len(frontiers[-1]):
        if len(frontiers) > bounds.minimum and block.is_done():
            break
        ahead, before, loops = _follow_in_order(arrays, frontiers[-1], block.is_visited)
        if len(frontiers) == bounds.loops_at:
            looped = loops
        # Paths are compared from left to right: by what comes before, or backwards by the next node.
        first = before if bounds.written_left is WalkEnd.SOURCE else ahead // size
        order = np.lexsort((ranks[ahead % size], first))
        frontiers.append(ahead[order])
        parents.append(before[order])
    for frontier in frontiers:
        block.is_visited[frontier] = False
    offsets = np.cumsum([0, *map(len, frontiers)])
    codes, hops = np.concatenate(frontiers), np.repeat(np.arange(len(frontiers)), list(map(len, frontiers)))
    before = np.concatenate(parents) + offsets[np.maximum(hops - 1, 0)]
    nearer = _find_looped(frontiers, bounds, looped, size)
    ends = np.concatenate([np.flatnonzero(hops >= bounds.minimum), nearer + offsets[max(bounds.minimum - 1, 0)]])
    loops = np.arange(len(ends)) >= len(ends) - len(nearer)
    order = np.argsort(codes[ends], kind="stable")
    return _Visits(codes // size + block.begin, codes % size, hops, before, ends[order], loops[order])


def _find_looped(frontiers: list[Positions], bounds: WalkBounds, looped: Positions, size: int) -> Positions:
    """Return the places in the frontier before the minimum whose right ends have an edge to themselves."""
    if not 1 <= bounds.minimum <= len(frontiers):
        return empty_positions()
    if bounds.written_left is WalkEnd.SOURCE:
        return looped
    # At hop 1 the frontier was one pair for each source, in the order of the sources.
    return np.flatnonzero(np.isin(frontiers[bounds.minimum - 1] // size, looped))


def _follow_in_order(
    arrays: Neighbourhood, frontier: Positions, is_visited: Mask
) -> tuple[Positions, Positions, Positions]:
    """Return the unvisited pairs ahead, marked, and the first place in the frontier that leads to each.

    The third are the places of nodes with an edge to themselves.
    """
    size, begin = arrays.num_nodes, 0
    found: list[tuple[Positions, Positions, Positions]] = []
    for part in _split_frontier(arrays, frontier):
        nodes = part % size
        rows, neighbours = find_neighbours(arrays, nodes)
        loops = rows[neighbours == nodes[rows]]
        codes = (part - nodes)[rows] + neighbours
        is_fresh = ~is_visited[codes]
        ahead, first = np.unique(codes[is_fresh], return_index=True)
        is_visited[ahead] = True
        found.append((ahead, rows[is_fresh][first] + begin, loops + begin))
        begin += len(part)
    ahead, before, loops = (np.concatenate(column) for column in zip(*found, strict=True))
    return ahead, before, loops


def _join_blocks(blocks: list[_Visits], written_left: WalkEnd) -> FoundPaths:
    sizes = [len(each.nodes) for each in blocks]
    starts = [sum(sizes[:number]) for number in range(len(blocks))]
    none = empty_positions()
    nodes = np.concatenate([none, *(each.nodes for each in blocks)])
    before = np.concatenate([none, *(each.before + start for each, start in zip(blocks, starts, strict=True))])
    ends = np.concatenate([none, *(each.ends + start for each, start in zip(blocks, starts, strict=True))])
    loops = np.concatenate([np.zeros(0, np.bool_), *(each.loops for each in blocks)])
    forest = PathForest(
        nodes, np.concatenate([none, *(each.hops for each in blocks)]), before, ends, loops, written_left
    )
    rows = np.concatenate([none, *(each.rows for each in blocks)])
    return FoundPaths(rows[ends], nodes[ends], forest)
