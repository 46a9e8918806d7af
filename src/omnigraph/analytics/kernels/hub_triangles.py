"""Triangles whose middle and highest nodes are hubs, by a bit for each pair of hubs.

In a graph with hubs nearly all pairs of neighbours of a node are pairs of hubs. Whether two hubs are neighbours is one
bit of a table. Nodes with the same number of hubs are taken together, and each step compares the hubs that are so many
places apart in the lists of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph.analytics.kernels.blocks import map_in_threads
from omnigraph.analytics.kernels.sparse import Numbers, SparseMatrix, find_runs, rows_of
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import CompactPositions, Positions

_HUBS: Final = 2**15
"""So many nodes of the highest degrees are hubs: their table has 128 MB, and its places 30 bits."""
_LISTED_AT_ONCE: Final = 2**16
"""So many hubs of lists of one length are compared by one call."""
_PAIRS_PER_TASK: Final = 20_000_000
_WORD_BITS: Final = 16
Words: TypeAlias = npt.NDArray[np.uint16]
Compare: TypeAlias = Callable[[CompactPositions, Words], tuple[Words, Words]]
"""Compares lists of hubs, a column for each node: what is found at each hub for its node, and for the hub itself."""


def count_others(num_nodes: int) -> int:
    """Return how many nodes are no hubs; hubs are the last ones."""
    return max(0, num_nodes - _HUBS)


def count_hub_triangles(up: SparseMatrix) -> Numbers:
    """Return for each node the number of its triangles whose two higher nodes are hubs.

    Row ``r`` of the matrix has the neighbours of node ``r`` that are higher than it, in ascending order.
    """
    lists = _list_hubs(up)
    linked = _PairBits.of(lists, lists.are_between)

    def compare(hubs: CompactPositions, _: Words) -> tuple[Words, Words]:
        bases = hubs * np.int32(linked.width)
        found = np.zeros(hubs.shape, np.uint16)
        for step in range(1, len(hubs)):
            closed = linked.look_up(bases[:-step] + hubs[step:])
            found[:-step] += closed
            found[step:] += closed
        # A triangle is at two hubs of the list: half of it at each.
        return found, found

    lowest, others = _compare_lists(lists, compare)
    return lowest / 2 + others


def sum_opposite_edges(up: SparseMatrix) -> Numbers:
    """Return for each node the directed edges opposite to it in such triangles; values are numbers of directions."""
    lists = _list_hubs(up)
    linked = _PairBits.of(lists, lists.are_between)
    twice = _PairBits.of(lists, lists.are_between & (lists.directions > 1))

    def compare(hubs: CompactPositions, directions: Words) -> tuple[Words, Words]:
        bases = hubs * np.int32(linked.width)
        lowest, others = np.zeros(hubs.shape, np.uint16), np.zeros(hubs.shape, np.uint16)
        for step in range(1, len(hubs)):
            places = bases[:-step] + hubs[step:]
            closed = linked.look_up(places)
            others[:-step] += closed * directions[step:]
            others[step:] += closed * directions[:-step]
            lowest[step:] += closed
            lowest[step:] += twice.look_up(places)
        return lowest, others

    lowest, others = _compare_lists(lists, compare)
    return lowest + others


@dataclass(frozen=True, slots=True)
class _HubLists:
    """The hubs above each node in ascending order, one list after the other. Hubs are numbered from the lowest on."""

    num_others: int
    num_nodes: int
    counts: Positions
    nodes: Positions
    """The node of each entry."""
    hubs: CompactPositions
    directions: Words
    """How many directions the edge of each entry has."""

    @property
    def num_hubs(self) -> int:
        return self.num_nodes - self.num_others

    @property
    def are_between(self) -> npt.NDArray[np.bool_]:
        """Whether each entry is an edge between two hubs."""
        return self.nodes >= self.num_others


def _list_hubs(up: SparseMatrix) -> _HubLists:
    num_nodes = up.shape[0]
    num_others = count_others(num_nodes)
    entries = np.flatnonzero(up.indices >= num_others)
    nodes = rows_of(up)[entries]
    return _HubLists(
        num_others,
        num_nodes,
        np.bincount(nodes, minlength=num_nodes),
        nodes,
        (up.indices[entries] - num_others).astype(np.int32),
        up.data[entries].astype(np.uint16),
    )


@dataclass(frozen=True, slots=True)
class _PairBits:
    """A bit for each pair of hubs, the lower one first."""

    words: Words
    width: int

    @classmethod
    def of(cls, lists: _HubLists, chosen: npt.NDArray[np.bool_]) -> _PairBits:
        """Set the bits of the chosen entries."""
        width = -(-lists.num_hubs // _WORD_BITS) * _WORD_BITS
        words = np.zeros(width * width // _WORD_BITS, np.uint16)
        # Entries are sorted, so those of one word stand together.
        places = (lists.nodes[chosen] - lists.num_others) * width + lists.hubs[chosen]
        numbers = places // _WORD_BITS
        first = find_runs(numbers)
        bits = np.left_shift(np.uint16(1), (places % _WORD_BITS).astype(np.uint16))
        if len(first):
            words[numbers[first]] = np.bitwise_or.reduceat(bits, first)
        return cls(words, width)

    def look_up(self, places: CompactPositions) -> Words:
        """Return the bits at some places as zeros and ones."""
        found = self.words.take(places // _WORD_BITS)
        found >>= (places % _WORD_BITS).astype(np.uint16)
        found &= 1
        return found


def _compare_lists(lists: _HubLists, compare: Compare) -> tuple[Numbers, Numbers]:
    """Compare all lists; return what is found for the nodes that they belong to, and for the hubs in them."""
    begins = np.cumsum(lists.counts) - lists.counts

    def compare_some(batches: list[Positions]) -> tuple[list[Numbers], Numbers]:
        sums, total = list[Numbers](), np.zeros(lists.num_hubs)
        for nodes in batches:
            entries = begins[nodes] + np.arange(int(lists.counts[nodes[0]]))[:, np.newaxis]
            hubs = lists.hubs[entries]
            lowest, others = compare(hubs, lists.directions[entries])
            sums.append(lowest.sum(axis=0, dtype=np.float64))
            total += np.bincount(hubs.ravel(), others.ravel(), lists.num_hubs)
        return sums, total

    tasks = list(_split_into_tasks(lists.counts))
    lowest, others = np.zeros(lists.num_nodes), np.zeros(lists.num_nodes)
    for batches, (sums, total) in zip(tasks, map_in_threads(compare_some, tasks), strict=True):
        for nodes, found in zip(batches, sums, strict=True):
            lowest[nodes] = found
        others[lists.num_others :] += total
    return lowest, others


def _split_into_tasks(counts: Positions) -> Iterator[list[Positions]]:
    """Yield nodes whose lists are of one length in batches, several batches for each task."""
    order = np.argsort(counts, kind="stable")
    order = order[np.searchsorted(counts[order], 2) :]
    lengths = counts[order]
    bounds = [*find_runs(lengths).tolist(), len(lengths)]
    batches: list[Positions] = []
    pairs = 0
    for begin, end in pairwise(bounds):
        length = int(lengths[begin])
        at_once = max(1, _LISTED_AT_ONCE // length)
        for first in range(begin, end, at_once):
            batch = order[first : min(first + at_once, end)]
            batches.append(batch)
            pairs += len(batch) * length * (length - 1) // 2
            if pairs >= _PAIRS_PER_TASK:
                yield batches
                batches, pairs = [], 0
    if batches:
        yield batches
