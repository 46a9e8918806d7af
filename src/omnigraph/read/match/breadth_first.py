"""Breadth-first walks over adjacency arrays, from many nodes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from omnigraph.deadlines import check_deadline
from omnigraph.language.query.plan import WalkEnd
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import Mask, PathForest, Positions, concat_numbers, empty_positions, sort_numbers
from omnigraph.read.memory import Holding, QueryMemory
from omnigraph.read.topology import Neighbourhood, count_hops, find_neighbours

_HOPS_AT_ONCE: Final = 1_000_000
"""How many edges a walk follows at a time."""
_MARKS: Final = 2**24
"""How many pairs of a source and a node a walk can mark as visited. More would not fit into the processor's cache."""
_HOP_BYTES: Final = 64
"""What it takes to follow an edge: its row, the numbers before and after it, and their order."""
_PAIR_BYTES: Final = 32
"""What it takes to keep and to sort a pair that was found."""
_VISIT_BYTES: Final = 120
"""What it takes to keep and to order a visit of a path."""


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
    arrays: Neighbourhood, sources: Positions, bounds: WalkBounds, memory: QueryMemory
) -> tuple[Positions, Positions]:
    """Walk breadth first from each source, as :class:`Expand` defines it.

    Return the row among ``sources`` and the destination of each pair, in ascending order. The adjacency has no parallel
    edges; beyond one hop it is within one type.
    """
    if bounds.is_single_hop:
        return find_neighbours(arrays, sources)
    found = [empty_positions()]
    with memory.hold() as held:
        for block, parts in _walk_blocks(arrays, sources, bounds, memory):
            held.add(3 * sum(part.nbytes for part in parts))
            codes = sort_numbers(concat_numbers(parts).view(np.uint64)).view(np.int64)
            found.append(codes + block.begin * arrays.num_nodes)
        codes = np.concatenate(found)
        return np.divmod(codes, max(1, arrays.num_nodes))


def count_reached(arrays: Neighbourhood, sources: Positions, bounds: WalkBounds, memory: QueryMemory) -> Positions:
    """Return how many nodes a walk from each source finds. No pairs are kept."""
    counts = np.zeros(len(sources), np.int64)
    for block, parts in _walk_blocks(arrays, sources, bounds, memory):
        for part in parts:
            counts[block.begin : block.end] += np.bincount(part // arrays.num_nodes, minlength=block.end - block.begin)
    return counts


def is_reached(
    arrays: Neighbourhood,
    sources: Positions,
    bounds: WalkBounds,
    pairs: tuple[Positions, Positions],
    memory: QueryMemory,
) -> Mask:
    """Return for each pair of a row among the sources and a node whether the walk finds the node.

    A walk ends as soon as it has visited all nodes that are asked for.
    """
    rows, nodes = pairs
    wanted = code_pairs(arrays, rows, nodes)
    found = np.zeros(len(rows), np.bool_)
    # A node may be beyond the adjacency: it is never found, and its number would be that of another pair.
    inside = np.flatnonzero(nodes < arrays.num_nodes)
    inside = inside[np.argsort(wanted[inside], kind="stable")]
    for block, parts in _walk_blocks(arrays, sources, bounds, memory, wanted[inside]):
        begin, end = np.searchsorted(wanted[inside], [block.begin * arrays.num_nodes, block.end * arrays.num_nodes])
        asked = inside[begin:end]
        with memory.hold(sum(part.nbytes for part in parts)):
            found[asked] = np.isin(wanted[asked] - block.begin * arrays.num_nodes, np.concatenate(parts))
    return found


def _walk_blocks(
    arrays: Neighbourhood, sources: Positions, bounds: WalkBounds, memory: QueryMemory, wanted: Positions | None = None
) -> Iterator[tuple[_Block, list[Positions]]]:
    """Yield for some sources at a time the pairs that walks from them find, in any order."""
    if bounds.is_empty or not len(sources) or not arrays.num_nodes:
        return
    with memory.hold() as held:
        for block in _make_blocks(arrays, len(sources), wanted, memory):
            held.resize(len(block.is_visited))
            yield block, _walk_block(arrays, sources[block.begin : block.end], bounds, block, memory)


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


def _make_blocks(arrays: Neighbourhood, count: int, wanted: Positions | None, memory: QueryMemory) -> Iterator[_Block]:
    size = arrays.num_nodes
    # In the worst case every pair is found.
    marks = min(_MARKS, memory.left // (2 * _PAIR_BYTES))
    at_once = min(count, max(1, marks // size))
    is_visited = np.zeros(at_once * size, np.bool_)
    for begin in range(0, count, at_once):
        end = min(begin + at_once, count)
        own = None if wanted is None else wanted[(wanted >= begin * size) & (wanted < end * size)] - begin * size
        yield _Block(begin, end, is_visited, own)


def _walk_block(
    arrays: Neighbourhood, sources: Positions, bounds: WalkBounds, block: _Block, memory: QueryMemory
) -> list[Positions]:
    """Walk from some sources at once. A pair of a source and a node is one number; no pair is marked yet."""
    frontiers = [np.arange(len(sources)) * arrays.num_nodes + sources]
    loops = empty_positions()
    is_visited = block.is_visited
    is_visited[frontiers[0]] = True
    with memory.hold(2 * frontiers[0].nbytes) as held:
        while bounds.allows(len(frontiers)) and len(frontiers[-1]):
            if len(frontiers) > bounds.minimum and block.is_done():
                break
            ahead, looped = [empty_positions()], [empty_positions()]
            for part in _split_frontier(arrays, frontiers[-1], memory):
                with memory.hold(total_hops(arrays, part % arrays.num_nodes) * _HOP_BYTES):
                    fresh, at_loops = _follow_edges(arrays, part, is_visited)
                held.add(2 * fresh.nbytes)
                ahead.append(fresh)
                looped.append(at_loops)
            if len(frontiers) == bounds.loops_at:
                loops = np.concatenate(looped)
            frontiers.append(np.concatenate(ahead))
    for frontier in frontiers:
        # Clearing the marks is far cheaper than allocating new ones.
        is_visited[frontier] = False
    if bounds.written_left is WalkEnd.DESTINATION:
        loops = _select_sources(frontiers, bounds.minimum, loops // arrays.num_nodes, arrays.num_nodes)
    return [*frontiers[bounds.minimum :], loops]


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
    check_deadline()
    codes = (frontier - nodes)[rows] + neighbours
    loops = codes[neighbours == nodes[rows]]
    fresh = codes[~is_visited[codes]]
    check_deadline()
    fresh.sort()
    fresh = fresh[np.concatenate([np.ones(min(1, len(fresh)), np.bool_), fresh[1:] != fresh[:-1]])]
    is_visited[fresh] = True
    return fresh, loops


def _split_frontier(arrays: Neighbourhood, frontier: Positions, memory: QueryMemory) -> Iterator[Positions]:
    """Split a frontier into parts that follow a bounded number of edges each."""
    nodes = frontier % arrays.num_nodes
    hops = np.cumsum(count_hops(arrays, nodes))
    most = max(1, min(_HOPS_AT_ONCE, memory.left // (4 * _HOP_BYTES)))
    check_deadline()
    if not len(hops) or hops[-1] <= most:
        yield frontier
        return
    cuts = np.searchsorted(hops, np.arange(most, int(hops[-1]), most))
    for part in np.split(frontier, np.unique(cuts[cuts > 0])):
        check_deadline()
        yield part


def total_hops(arrays: Neighbourhood, nodes: Positions) -> int:
    """Return how many edges lead away from some nodes together; a node may be there several times."""
    return int(count_hops(arrays, nodes).sum())


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
    memory: QueryMemory,
    wanted: Positions | None = None,
) -> FoundPaths:
    """Walk as :func:`walk` does, and keep for each visit the one before it on the smallest path.

    ``rank_ids`` gives the ranks of the ids of nodes. A frontier is in the order of the paths to its nodes, so the first
    visit that leads to a node is the right one: the smallest path costs no more than the walk.
    """
    if bounds.is_single_hop:
        with memory.hold(total_hops(arrays, sources) * _VISIT_BYTES):
            return _find_single_hops(arrays, sources, bounds.written_left)
    if bounds.is_empty or not len(sources) or not arrays.num_nodes:
        return _join_blocks([], bounds.written_left)
    blocks, ranks, found = _make_blocks(arrays, len(sources), wanted, memory), rank_ids(), list[_Visits]()
    with memory.hold() as marked, memory.hold() as held:
        for block in blocks:
            marked.resize(len(block.is_visited))
            found.append(_walk_visits(arrays, sources[block.begin : block.end], bounds, ranks, block, held))
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
    arrays: Neighbourhood, sources: Positions, bounds: WalkBounds, ranks: Positions, block: _Block, held: Holding
) -> _Visits:
    size = arrays.num_nodes
    frontiers, parents = [np.arange(len(sources)) * size + sources], [np.zeros(len(sources), np.int64)]
    looped = np.zeros(0, np.int64)
    block.is_visited[frontiers[0]] = True
    while bounds.allows(len(frontiers)) and len(frontiers[-1]):
        if len(frontiers) > bounds.minimum and block.is_done():
            break
        ahead, before, loops = _follow_in_order(arrays, frontiers[-1], block.is_visited, held.memory)
        held.add(len(ahead) * _VISIT_BYTES)
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
    arrays: Neighbourhood, frontier: Positions, is_visited: Mask, memory: QueryMemory
) -> tuple[Positions, Positions, Positions]:
    """Return the unvisited pairs ahead, marked, and the first place in the frontier that leads to each.

    The third are the places of nodes with an edge to themselves.
    """
    size, begin = arrays.num_nodes, 0
    found: list[tuple[Positions, Positions, Positions]] = []
    for part in _split_frontier(arrays, frontier, memory):
        nodes = part % size
        with memory.hold(total_hops(arrays, nodes) * _HOP_BYTES):
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
