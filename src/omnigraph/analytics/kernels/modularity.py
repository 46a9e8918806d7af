"""Communities by modularity: Louvain, and Leiden, whose communities are connected.

Directions do not count: an edge is in the matrix at both ends, a loop twice. Nodes are moved in groups drawn by chance
rather than one by one, so that a round is a few sparse products; the best partition of all rounds is kept, because two
neighbours of one group may move past each other.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from omnigraph.analytics.kernels.blocks import NumberedGraph, find_runs
from omnigraph.analytics.kernels.components import name_after_smallest
from omnigraph.analytics.kernels.sparse import (
    Numbers,
    SparseMatrix,
    label_components,
    make_sparse,
    make_sparse_from_pairs,
    rows_of,
    sum_entries,
)
from omnigraph.deadlines import check_deadline
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import Positions

_GROUPS: Final = 32
"""In how many groups the nodes are moved. With more, fewer neighbours move at the same time."""
_MAX_ROUNDS: Final = 50
_MAX_LEVELS: Final = 50
_MAX_PASSES: Final = 10
"""How often Leiden begins again with what it found, while that gains anything."""
_LEAST_GAIN: Final = 1e-9
"""A round that gains less modularity is the last one of its level."""


@dataclass(frozen=True, slots=True)
class _Network:
    """The symmetric weights between the nodes of one level, and how modularity counts them."""

    weights: SparseMatrix
    degrees: Numbers
    total: float
    """The sum of all degrees. It is the same at each level."""
    resolution: float

    @property
    def num_nodes(self) -> int:
        return len(self.degrees)


def find_communities_louvain(graph: NumberedGraph, resolution: float, seed: int) -> Positions:
    """Return for each node the smallest node of its community, found by the Louvain method."""
    network = _make_network(graph, resolution)
    if network is None:
        return np.arange(graph.num_nodes)
    chance = np.random.default_rng(seed)
    members = np.arange(graph.num_nodes)
    for _ in range(_MAX_LEVELS):
        found, count = _renumber(_move_nodes(network, np.arange(network.num_nodes), chance))
        members = found[members]
        if count == network.num_nodes:
            break
        network = _merge_nodes(network, found, count)
    return name_after_smallest(members)


def find_communities_leiden(graph: NumberedGraph, resolution: float, seed: int) -> Positions:
    """Return for each node the smallest node of its community, found by the Leiden method; each is connected."""
    network = _make_network(graph, resolution)
    if network is None:
        return np.arange(graph.num_nodes)
    chance = np.random.default_rng(seed)
    best, most = np.arange(graph.num_nodes), -np.inf
    for _ in range(_MAX_PASSES):
        found = _split_into_connected(network.weights, _climb_levels(network, best, chance))
        reached = _measure(network, found)
        if reached <= most + _LEAST_GAIN:
            break
        best, most = found, reached
    return name_after_smallest(best)


def _climb_levels(network: _Network, communities: Positions, chance: np.random.Generator) -> Positions:
    """One pass of the Leiden method: improve a partition level by level, each level made of parts of communities."""
    members = np.arange(network.num_nodes)
    for _ in range(_MAX_LEVELS):
        communities, count = _renumber(_move_nodes(network, communities, chance))
        if count == network.num_nodes:
            break
        refined, parts = _renumber(_refine(network, communities, chance))
        if parts == network.num_nodes:
            break
        members = refined[members]
        # The next level begins with the communities, whose nodes are now their parts.
        above = np.empty(parts, np.int64)
        above[refined] = communities
        network, communities = _merge_nodes(network, refined, parts), above
    return communities[members]


def compute_modularity(graph: NumberedGraph, communities: Positions, resolution: float = 1.0) -> float:
    """Return the modularity of a partition: from -0.5 to 1, 0 for a graph without edges."""
    network = _make_network(graph, resolution)
    return 0.0 if network is None else _measure(network, _renumber(communities)[0])


# --------------------------------------------------------------------------------------------- levels


def _make_network(graph: NumberedGraph, resolution: float) -> _Network | None:
    """Return the first level; None if nothing weighs anything, so that each node stays alone."""
    check_deadline()
    both = graph.both
    rows = both.row_numbers
    values = np.ones(len(rows)) if both.weights is None else both.weights
    weights = make_sparse_from_pairs(values, rows, both.neighbours, graph.num_nodes)
    degrees = weights @ np.ones(graph.num_nodes)
    total = float(degrees.sum())
    return _Network(weights, degrees, total, resolution) if total > 0 else None


def _merge_nodes(network: _Network, found: Positions, count: int) -> _Network:
    """Return the next level: a node for each community, with the sums of the weights."""
    check_deadline()
    weights = network.weights
    merged = make_sparse_from_pairs(weights.data, found[rows_of(weights)], found[weights.indices], count)
    return _Network(merged, merged @ np.ones(count), network.total, network.resolution)


def _renumber(labels: Positions) -> tuple[Positions, int]:
    names, numbers = np.unique(labels, return_inverse=True)
    return numbers.astype(np.int64), len(names)


def _measure(network: _Network, communities: Positions) -> float:
    weights = network.weights
    inside = weights.data[communities[rows_of(weights)] == communities[weights.indices]].sum()
    sums = _sum_degrees(network, communities) / network.total
    return float(inside / network.total - network.resolution * (sums * sums).sum())


def _sum_degrees(network: _Network, communities: Positions) -> Numbers:
    """Return the sum of the degrees of each community."""
    return np.bincount(communities, network.degrees, network.num_nodes).astype(np.float64)


# --------------------------------------------------------------------------------------------- moves


@dataclass(frozen=True, slots=True)
class _BestMoves:
    """For some nodes the neighbouring community that gains most, and whether it gains anything."""

    targets: Positions
    is_better: npt.NDArray[np.bool_]


def _choose(
    network: _Network, nodes: Positions, communities: Positions, sums: Numbers, within: Positions | None = None
) -> _BestMoves:
    """Choose for each node the best community among those of its neighbours; of equal ones the smallest.

    With ``within``, only neighbours of the same group there count.
    """
    links = _take_entries(network.weights, nodes)
    rows, columns, values = rows_of(links), links.indices, links.data
    kept = columns != nodes[rows]
    if within is not None:
        kept &= within[columns] == within[nodes[rows]]
    rows, columns, values = rows[kept], columns[kept], values[kept]
    rows, found, values = sum_entries(rows, communities[columns], values, (len(nodes), network.num_nodes))
    own, degrees = communities[nodes], network.degrees[nodes]
    is_own = found == own[rows]
    # Without the node itself.
    rest = sums[found] - np.where(is_own, degrees[rows], 0.0)
    gains = values - network.resolution * degrees[rows] * rest / network.total
    stay = -network.resolution * degrees * (sums[own] - degrees) / network.total
    stay[rows[is_own]] = gains[is_own]
    targets, best = own.copy(), np.full(len(nodes), -np.inf)
    if len(rows):
        begins = find_runs(rows)
        most = np.maximum.reduceat(gains, begins)
        is_most = gains == np.repeat(most, np.diff(np.append(begins, len(rows))))
        targets[rows[begins]] = np.minimum.reduceat(np.where(is_most, found, network.num_nodes), begins)
        best[rows[begins]] = most
    return _BestMoves(targets, (best > stay + _LEAST_GAIN * network.total / network.num_nodes) & (targets != own))


def _take_entries(matrix: SparseMatrix, rows: Positions) -> SparseMatrix:
    counts = np.diff(matrix.indptr)[rows]
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    places = np.arange(int(indptr[-1])) + np.repeat(matrix.indptr[rows] - indptr[:-1], counts)
    return make_sparse(matrix.data[places], matrix.indices[places], indptr, (len(rows), matrix.shape[1]))


def _move_nodes(network: _Network, communities: Positions, chance: np.random.Generator) -> Positions:
    """Move nodes to the communities of their neighbours, until no round gains anything; return the best partition."""
    communities = communities.copy()
    best, most = communities.copy(), _measure(network, communities)
    sums = _sum_degrees(network, communities)
    sizes = np.bincount(communities, minlength=network.num_nodes)
    for _ in range(_MAX_ROUNDS):
        has_moved = False
        for nodes in np.array_split(chance.permutation(network.num_nodes), min(_GROUPS, network.num_nodes)):
            check_deadline()
            choice = _choose(network, nodes, communities, sums)
            own = communities[nodes]
            # Two nodes that are alone would change places for ever: only the larger one moves.
            are_alone = (sizes[own] == 1) & (sizes[choice.targets] == 1)
            moved = np.flatnonzero(choice.is_better & ~(are_alone & (choice.targets > own)))
            if not len(moved):
                continue
            has_moved = True
            communities[nodes[moved]] = choice.targets[moved]
            sums = _sum_degrees(network, communities)
            sizes = np.bincount(communities, minlength=network.num_nodes)
        now = _measure(network, communities)
        gained = now - most
        if gained > 0:
            best, most = communities.copy(), now
        if not has_moved or gained < _LEAST_GAIN:
            break
    return best


def _refine(network: _Network, communities: Positions, chance: np.random.Generator) -> Positions:
    """Divide each community into connected parts: nodes that are alone join parts of their community."""
    parts = np.arange(network.num_nodes)
    sums = network.degrees.copy()
    sizes = np.ones(network.num_nodes, np.int64)
    for _ in range(_MAX_ROUNDS):
        check_deadline()
        nodes = np.flatnonzero(sizes[parts] == 1)
        choice = _choose(network, nodes, parts, sums, within=communities)
        nodes, targets = nodes[choice.is_better], choice.targets[choice.is_better]
        if not len(nodes):
            break
        # A part that is joined stays where it is: of two nodes that would join each other, chance chooses one.
        order = np.full(network.num_nodes, -1, np.int64)
        order[nodes] = chance.permutation(len(nodes))
        may_move = (order[targets] < 0) | (order[nodes] < order[targets])
        nodes, targets = nodes[may_move], targets[may_move]
        is_joined = np.zeros(network.num_nodes, np.bool_)
        is_joined[targets] = True
        free = ~is_joined[nodes]
        parts[nodes[free]] = targets[free]
        sums = _sum_degrees(network, parts)
        sizes = np.bincount(parts, minlength=network.num_nodes)
    return parts


def _split_into_connected(weights: SparseMatrix, communities: Positions) -> Positions:
    """Return the connected parts of communities: a part without a link to the others only costs modularity."""
    rows = rows_of(weights)
    inside = np.flatnonzero(communities[rows] == communities[weights.indices])
    links = make_sparse_from_pairs(weights.data[inside], rows[inside], weights.indices[inside], weights.shape[0])
    return label_components(links, "weak")[1].astype(np.int64)
