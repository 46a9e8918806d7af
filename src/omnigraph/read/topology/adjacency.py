"""Adjacency arrays: how they are built from hops, and how neighbours and edges are found in them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

import numpy as np

from omnigraph.deadlines import check_deadline, wait_for
from omnigraph.errors import Unsupported
from omnigraph.language.query import TraversalDirection
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import (
    Codes,
    CompactPositions,
    Mask,
    Positions,
    SkiRental,
    count_by_position,
    find_rows,
    map_parts,
    order_codes,
    repeat_numbers,
    sort_numbers,
    split_groups,
    take_rows,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_LARGEST_ADJACENCY: Final = 2**31 - 1
_FEW_PAIRS: Final = 64
"""For so few pairs, binary searches take less time than making the matrix."""
_IMPORT_SECONDS: Final = 0.15
_SECONDS_PER_PASSED_HOP: Final = 2e-9
_SECONDS_PER_PAIR: Final = 0.2e-6
"""To import SciPy; what it takes longer to pass weights on, and to look for pairs, without it. Timed with 2.4 million
hops."""

_scipy_rental: Final = SkiRental()


def _should_use_scipy(seconds: float) -> bool:
    """Whether SciPy is imported, or doing without has cost as much as its import; pay so many seconds otherwise."""
    if "scipy.sparse" in sys.modules or _scipy_rental.covers(_IMPORT_SECONDS):
        return True
    _scipy_rental.pay(seconds)
    return False


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
    counts: CompactPositions | None = None
    """How many parallel edges lead to each neighbour, if neighbours are listed once; None if one leads to each."""

    @property
    def num_nodes(self) -> int:
        """The number of nodes that have a list of neighbours."""
        return len(self.indptr) - 1

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays and of :attr:`matrix`."""
        optional = sum(0 if each is None else each.nbytes for each in (self.edges, self.counts))
        return self.indptr.nbytes + self.neighbours.nbytes + optional + 8 * len(self.neighbours)

    @property
    def num_hops(self) -> int:
        """The number of neighbours of all nodes."""
        return len(self.neighbours)

    def find_ranges(self, positions: Positions) -> tuple[Positions, Positions]:
        """Return where the neighbours of some nodes begin and end."""
        begins, ends = take_rows(self.indptr, positions), take_rows(self.indptr[1:], positions)
        return begins.astype(np.int64), ends.astype(np.int64)

    def take_neighbours(self, places: Positions) -> Positions:
        """Return the neighbours at some places."""
        return map_parts(len(places), lambda part: self.neighbours[places[part]].astype(np.int64))

    def take_edges(self, places: Positions) -> Positions:
        """Return the edges to the neighbours at some places."""
        edges = self.edges
        assert edges is not None
        return map_parts(len(places), lambda part: edges[places[part]].astype(np.int64))

    def degrees(self) -> Positions:
        """Return the number of neighbours of each node; parallel edges count if the adjacency has edges."""
        return np.diff(self.indptr).astype(np.int64)

    def propagate(self, weights: Positions) -> Positions:
        """Pass the weight of each node on to all of its neighbours, and return the sums that these receive."""
        if _should_use_scipy(self.num_hops * _SECONDS_PER_PASSED_HOP):
            return cast("Positions", self.matrix.T @ weights)
        received, degrees = np.zeros(self.num_neighbours, np.int64), self.degrees()
        for part in split_groups(degrees):
            nodes = slice(*np.searchsorted(self.indptr, [part.start + 1, part.stop]) - [1, 0])
            np.add.at(received, self.neighbours[part], np.repeat(weights[nodes], degrees[nodes]))
        return received

    @cached_property
    def matrix(self) -> csr_array:
        """The sparse matrix with a one for each neighbour."""
        # A late import of a tenth of a second, which goes on by itself if nobody waits for it any longer.
        wait_for(lambda: import_module("scipy.sparse"))
        from scipy.sparse import csr_array

        ones = np.ones(len(self.neighbours), np.int64)
        return csr_array((ones, self.neighbours, self.indptr), shape=(self.num_nodes, self.num_neighbours))


# --------------------------------------------------------------------------------------------- building


def unite(parts: Sequence[Adjacency]) -> Adjacency:
    """Return the union of adjacencies of the same nodes; a neighbour is listed once."""
    if sum(len(part.neighbours) for part in parts) > _LARGEST_ADJACENCY:
        raise Unsupported("these edge types have too many edges to be walked together", hint="name fewer of them")
    begins = [np.repeat(np.arange(part.num_nodes, dtype=np.int32), np.diff(part.indptr)) for part in parts]
    hops = np.concatenate(begins), np.concatenate([part.neighbours for part in parts])
    sizes = (parts[0].num_nodes, parts[0].num_neighbours)
    return build_adjacency((*hops, np.zeros(0, np.int32)), sizes, distinct=True)


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
    if distinct:
        return remove_parallel_edges(*sort_hops(begins, ends, num_nodes), num_neighbours)
    order = order_codes(_encode_hops(begins, ends, num_neighbours))
    return Adjacency(_find_indptr(begins, num_nodes), take_rows(ends, order), take_rows(edges, order), num_neighbours)


def sort_hops(
    begins: CompactPositions, ends: CompactPositions, num_nodes: int
) -> tuple[CompactPositions, CompactPositions]:
    """Sort hops by their begins, then by their ends. Return where each node begins, and the ends."""
    hops = sort_numbers(_encode_hops(begins, ends, 2**32))
    check_deadline()
    return _find_indptr(begins, num_nodes), map_parts(len(hops), lambda part: hops[part].astype(np.int32))


def _encode_hops(begins: CompactPositions, ends: CompactPositions, num_neighbours: int) -> Codes:
    """Return the begin and the end of each hop as one number, in their order."""
    shift = np.int64(max(1, num_neighbours - 1).bit_length())
    return map_parts(len(begins), lambda part: (begins[part].astype(np.int64) << shift | ends[part]).view(np.uint64))


def _find_indptr(begins: CompactPositions, num_nodes: int) -> CompactPositions:
    """Return where the hops of each node begin once they are sorted."""
    counts = count_by_position(cast("Positions", begins), None, num_nodes)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def remove_parallel_edges(indptr: CompactPositions, neighbours: CompactPositions, num_neighbours: int) -> Adjacency:
    """Build an adjacency that lists each neighbour once from sorted hops: where each node begins, and the ends."""
    is_first = np.ones(len(neighbours), np.bool_)
    np.not_equal(neighbours[1:], neighbours[:-1], out=is_first[1:])
    check_deadline()
    begins = indptr[:-1]
    is_first[begins[begins < len(neighbours)]] = True
    if is_first.all():
        return Adjacency(indptr, neighbours, None, num_neighbours)
    before = np.concatenate([np.zeros(1, np.int32), np.cumsum(is_first, dtype=np.int32)])
    check_deadline()
    first = find_rows(is_first)
    bounds = np.append(first, len(neighbours))
    counts = map_parts(len(first), lambda part: np.diff(bounds[part.start : part.stop + 1]).astype(np.int32))
    return Adjacency(before[indptr], take_rows(neighbours, first), None, num_neighbours, counts)


# --------------------------------------------------------------------------------------------- neighbours and edges


class Neighbourhood(Protocol):
    """What walks need of an adjacency: the neighbours of a node are at the places of one range."""

    @property
    def num_nodes(self) -> int: ...  # noqa: D102  as in Adjacency
    @property
    def num_neighbours(self) -> int: ...  # noqa: D102
    @property
    def num_hops(self) -> int: ...  # noqa: D102
    def find_ranges(self, positions: Positions) -> tuple[Positions, Positions]: ...  # noqa: D102
    def take_neighbours(self, places: Positions) -> Positions: ...  # noqa: D102
    def take_edges(self, places: Positions) -> Positions: ...  # noqa: D102
    def degrees(self) -> Positions: ...  # noqa: D102
    def propagate(self, weights: Positions) -> Positions: ...  # noqa: D102


def find_neighbours(arrays: Neighbourhood, positions: Positions) -> tuple[Positions, Positions]:
    """Find all neighbours of some nodes. Return for each its row among ``positions``, and the neighbour."""
    rows, places = expand_ranges(*arrays.find_ranges(positions))
    return rows, arrays.take_neighbours(places)


def find_edges(arrays: Neighbourhood, positions: Positions) -> tuple[Positions, Positions, Positions]:
    """As :func:`find_neighbours`, with the edge to each neighbour."""
    rows, places = expand_ranges(*arrays.find_ranges(positions))
    return rows, arrays.take_neighbours(places), arrays.take_edges(places)


def count_hops(arrays: Neighbourhood, positions: Positions) -> Positions:
    """Return the number of neighbours of some nodes."""
    begins, ends = arrays.find_ranges(positions)
    return ends - begins


def find_edges_between(
    arrays: Neighbourhood, sources: Positions, destinations: Positions
) -> tuple[Positions, Positions]:
    """Find all edges from each source to its destination. Return for each the row of the pair, and the edge."""
    begins, ends = (
        map_parts(len(sources), lambda part: find_lower_bounds(arrays, sources[part], bounds[part]))  # noqa: B023  called at once
        for bounds in (destinations, destinations + 1)
    )
    rows, places = expand_ranges(begins, ends)
    return rows, arrays.take_edges(places)


def are_neighbours(arrays: Neighbourhood, sources: Positions, destinations: Positions) -> Mask:
    """Return for each source whether its destination is a neighbour. A destination may be beyond the adjacency."""
    are_many = len(sources) > _FEW_PAIRS
    if isinstance(arrays, Adjacency) and are_many and _should_use_scipy(len(sources) * _SECONDS_PER_PAIR):
        inside = np.flatnonzero(destinations < arrays.num_neighbours)
        found = np.zeros(len(sources), np.bool_)
        if len(inside) and len(arrays.neighbours):
            found[inside] = map_parts(
                len(inside),
                lambda part: cast("Mask", arrays.matrix[sources[inside[part]], destinations[inside[part]]] > 0),
            )
        return found
    return map_parts(
        len(sources),
        lambda part: (
            find_lower_bounds(arrays, sources[part], destinations[part])
            < find_lower_bounds(arrays, sources[part], destinations[part] + 1)
        ),
    )


def propagate_weights(arrays: Neighbourhood, weights: Positions) -> Positions:
    """Pass the weight of each node on to all of its neighbours, and return the sums that these receive."""
    return arrays.propagate(weights)


def expand_ranges(begins: Positions, ends: Positions) -> tuple[Positions, Positions]:
    """Expand ranges to all numbers inside them. Return the range of each number, and the number."""
    counts = ends - begins
    rows = repeat_numbers(counts)
    shifts = begins - (np.cumsum(counts) - counts)
    places = map_parts(len(rows), lambda part: shifts[rows[part]] + np.arange(part.start, part.stop))
    return rows, places


def find_lower_bounds(arrays: Neighbourhood, sources: Positions, bounds: Positions) -> Positions:
    """Find the first neighbour of each source that is not below its bound, by binary searches."""
    low, high = arrays.find_ranges(sources)
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        is_open = low < high
        middle = np.where(is_open, (low + high) >> 1, 0)
        is_below = is_open & (arrays.take_neighbours(middle) < bounds)
        low, high = np.where(is_below, middle + 1, low), np.where(is_open & ~is_below, middle, high)
    return low
