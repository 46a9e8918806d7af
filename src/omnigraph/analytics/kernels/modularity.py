"""Communities by modularity: Louvain, and Leiden, whose communities are connected.

Directions do not count: an edge is in the matrix at both ends, a loop twice. Nodes are moved in groups drawn by chance
rather than one by one, so that a round is a few sparse products; the best partition of all rounds is kept, because two
neighbours of one group may move past each other.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from omnigraph.analytics.kernels.blocks import NumberedGraph
from omnigraph.analytics.kernels.components import name_after_smallest
from omnigraph.analytics.kernels.sparse import (
    Numbers,
    SparseMatrix,
    count_entries,
    find_runs,
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
"""How often Leiden begins again with what it found."""
_LEAST_PASS_GAIN: Final = 1e-3
"""A pass that gains less modularity is the last one."""
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
    are_ones: bool = False
    """Whether each entry weighs 1: links of a node to a community are then counted."""

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
        gained = reached - most
        if gained > 0:
            best, most = found, reached
        if gained < _LEAST_PASS_GAIN:
            break
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
    # Parallel edges are kept apart: all of them weigh 1 if there are no weights.
    weights = graph.both.matrix
    degrees = weights @ np.ones(graph.num_nodes)
    total = float(degrees.sum())
    return _Network(weights, degrees, total, resolution, graph.weights is None) if total > 0 else None


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
    return _combine(network, _sum_inside(network, communities), _sum_degrees(network, communities))


def _combine(network: _Network, inside: float, sums: Numbers) -> float:
    shares = sums / network.total
    return float(inside / network.total - network.resolution * (shares * shares).sum())


def _sum_inside(network: _Network, communities: Positions) -> float:
    """Return the sum of the weights within communities; each is there twice."""
    weights = network.weights
    return float(weights.data[communities[rows_of(weights)] == communities[weights.indices]].sum())


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
    labels = communities[columns]
    if network.are_ones:
        rows, found, values = count_entries(rows, labels, network.num_nodes)
    else:
        rows, found, values = sum_entries(rows, labels, values, (len(nodes), network.num_nodes))
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
    begins = matrix.indptr[rows]
    counts = matrix.indptr[rows + 1] - begins
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    places = np.repeat(begins - indptr[:-1], counts)
    places += np.arange(len(places), dtype=places.dtype)
    return make_sparse(matrix.data[places], matrix.indices[places], indptr, (len(rows), matrix.shape[1]))


@dataclass(slots=True)
class _Partition:
    """Communities that nodes are moved between, with what modularity is made of."""

    network: _Network
    communities: Positions
    sums: Numbers
    """The sum of the degrees of each community."""
    sizes: Positions
    inside: float
    """The sum of the weights within communities."""

    @classmethod
    def of(cls, network: _Network, communities: Positions) -> _Partition:
        sizes = np.bincount(communities, minlength=network.num_nodes)
        inside = _sum_inside(network, communities)
        return cls(network, communities.copy(), _sum_degrees(network, communities), sizes, inside)

    @property
    def modularity(self) -> float:
        return _combine(self.network, self.inside, self.sums)

    def move(self, nodes: Positions, targets: Positions) -> Positions:
        """Move nodes, all at once; return their neighbours in other communities, some of them several times."""
        network, communities = self.network, self.communities
        links = _take_entries(network.weights, nodes)
        rows = rows_of(links)
        is_moved = np.zeros(network.num_nodes, np.bool_)
        is_moved[nodes] = True
        # A link to a node that stays is in the matrix twice, once at each end.
        weights = np.where(is_moved[links.indices], links.data, 2 * links.data)
        own = communities[nodes]
        self.inside -= float(weights[communities[links.indices] == own[rows]].sum())
        communities[nodes] = targets
        is_same = communities[links.indices] == targets[rows]
        self.inside += float(weights[is_same].sum())
        degrees = network.degrees[nodes]
        for side, sign in ((own, -1), (targets, 1)):
            np.add.at(self.sums, side, sign * degrees)
            np.add.at(self.sizes, side, sign)
        return links.indices[~is_same].astype(np.int64)


def _move_nodes(network: _Network, communities: Positions, chance: np.random.Generator) -> Positions:
    """Move nodes to the communities of their neighbours, until no round gains anything; return the best partition.

    After the first round, only those are looked at again that have a neighbour that moved to another community.
    """
    partition = _Partition.of(network, communities)
    best, most = communities, partition.modularity
    waiting = np.arange(network.num_nodes)
    for _ in range(_MAX_ROUNDS):
        is_waiting = np.zeros(network.num_nodes, np.bool_)
        for nodes in np.array_split(chance.permutation(waiting), min(_GROUPS, len(waiting))):
            check_deadline()
            choice = _choose(network, nodes, partition.communities, partition.sums)
            own = partition.communities[nodes]
            # Two nodes that are alone would change places for ever: only the larger one moves.
            are_alone = (partition.sizes[own] == 1) & (partition.sizes[choice.targets] == 1)
            moved = np.flatnonzero(choice.is_better & ~(are_alone & (choice.targets > own)))
            if len(moved):
                is_waiting[partition.move(nodes[moved], choice.targets[moved])] = True
        now = partition.modularity
        gained = now - most
        if gained > 0:
            best, most = partition.communities.copy(), now
        waiting = np.flatnonzero(is_waiting)
        if not len(waiting) or gained < _LEAST_GAIN:
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
