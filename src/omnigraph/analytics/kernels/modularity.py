"""Communities by modularity: Louvain, and Leiden, whose communities are connected.

Directions do not count: an edge is in the matrix at both ends. Nodes are moved in groups drawn by chance rather than
one by one, so that a round is a few sparse products; the best partition of all rounds is kept, because two neighbours
of one group may move past each other.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from omnigraph.analytics.kernels.blocks import NumberedGraph
from omnigraph.analytics.kernels.components import find_components, name_after_smallest
from omnigraph.analytics.kernels.sparse import (
    Numbers,
    SparseMatrix,
    find_runs,
    group_pairs,
    keep_entries,
    make_sparse,
)
from omnigraph.deadlines import check_deadline
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import CompactPositions, Positions

_LOUVAIN_GROUPS: Final = 32
"""In how many groups the nodes are moved. With more, fewer neighbours move at the same time."""
_LEIDEN_GROUPS: Final = 16
"""Leiden needs fewer: a later pass repairs what neighbours did at the same time."""
_MAX_ROUNDS: Final = 50
_MAX_LEVELS: Final = 50
_MAX_PASSES: Final = 10
"""How often Leiden begins again with what it found."""
_LEAST_PASS_GAIN: Final = 1e-3
"""A pass that gains less modularity is the last one."""
_LEAST_MOVE_GAIN: Final = 3e-4
"""So is one whose moves of single nodes gain less: the levels above are left out."""
_LEAST_ROUND_GAIN: Final = 1e-3
"""A round that gains less is the last one of its level: a part of what the level gained."""
_LEAST_GAIN: Final = 1e-9
"""A gain of modularity that may be an error of rounding."""


@dataclass(frozen=True, slots=True)
class _Network:
    """The symmetric weights between the nodes of one level, and how modularity counts them."""

    links: SparseMatrix
    """The weights between different nodes: all above 0, each pair once at each end."""
    loops: float
    """The sum of the weights within nodes; each is counted twice."""
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
    members = _number_nodes(network)
    for _ in range(_MAX_LEVELS):
        found, count = _renumber(_move_nodes(network, _number_nodes(network), chance, _LOUVAIN_GROUPS))
        members = found[members]
        if count == network.num_nodes:
            break
        network = _merge_nodes(network, found, count)
    return name_after_smallest(members.astype(np.int64))


def find_communities_leiden(graph: NumberedGraph, resolution: float, seed: int) -> Positions:
    """Return for each node the smallest node of its community, found by the Leiden method; each is connected."""
    network = _make_network(graph, resolution)
    if network is None:
        return np.arange(graph.num_nodes)
    chance = np.random.default_rng(seed)
    best = _number_nodes(network)
    most = _measure(network, best)
    for number in range(_MAX_PASSES):
        moved = _move_nodes(network, best, chance, _LEIDEN_GROUPS)
        # Where single nodes gain little, the levels above would gain even less, at several times the cost.
        is_last = number > 0 and _measure(network, moved) - most < _LEAST_MOVE_GAIN
        found = moved if is_last else _climb_levels(network, moved, chance)
        reached = _measure(network, found)
        gained = reached - most
        if gained > 0:
            best, most = found, reached
        if is_last or gained < _LEAST_PASS_GAIN:
            break
    return split_into_connected(graph, best)


def split_into_connected(graph: NumberedGraph, communities: npt.NDArray[np.integer]) -> Positions:
    """Return the connected parts of communities, named after their smallest node.

    A part without a link to the others only costs modularity.
    """
    inside = np.flatnonzero(communities[graph.begins] == communities[graph.ends])
    return find_components(NumberedGraph(graph.num_nodes, graph.begins[inside], graph.ends[inside]), "weak")


def compute_modularity(graph: NumberedGraph, communities: Positions, resolution: float = 1.0) -> float:
    """Return the modularity of a partition: from -0.5 to 1, 0 for a graph without edges."""
    network = _make_network(graph, resolution)
    labels = np.unique(communities, return_inverse=True)[1].astype(np.int32)
    return 0.0 if network is None else _measure(network, labels)


# --------------------------------------------------------------------------------------------- levels


def _climb_levels(network: _Network, communities: CompactPositions, chance: np.random.Generator) -> CompactPositions:
    """Improve a partition level by level, each level made of parts of communities."""
    members = _number_nodes(network)
    for _ in range(_MAX_LEVELS):
        communities, count = _renumber(communities)
        if count == network.num_nodes:
            break
        refined, parts = _renumber(_refine(network, communities, chance))
        if parts == network.num_nodes:
            break
        members = refined[members]
        # The next level begins with the communities, whose nodes are now their parts.
        above = np.empty(parts, np.int32)
        above[refined] = communities
        network = _merge_nodes(network, refined, parts)
        communities = _move_nodes(network, above, chance, _LEIDEN_GROUPS)
    return communities[members]


def _make_network(graph: NumberedGraph, resolution: float) -> _Network | None:
    """Return the first level; None if nothing weighs anything, so that each node stays alone."""
    check_deadline()
    weights = graph.both.matrix
    degrees = weights @ np.ones(graph.num_nodes)
    total = float(degrees.sum())
    if not total > 0:
        return None
    links = keep_entries(weights, np.flatnonzero((_repeat_rows(weights) != weights.indices) & (weights.data > 0)))
    links.sum_duplicates()
    return _Network(links, total - float(links.data.sum()), degrees, total, resolution)


def _merge_nodes(network: _Network, found: CompactPositions, count: int) -> _Network:
    """Return the next level: a node for each community, with the sums of the weights."""
    check_deadline()
    grouped = group_pairs(found, _number_nodes(network), np.ones(len(found), np.int8), (count, len(found)))
    rows = network.links[grouped.indices]
    # The rows of a community, one after the other, are its row: the product sums what is at one place.
    joined = make_sparse(rows.data, rows.indices, rows.indptr[grouped.indptr], (count, len(found)))
    merged = joined @ _make_membership(found, count)
    links = keep_entries(merged, np.flatnonzero(_repeat_rows(merged) != merged.indices))
    loops = network.loops + float(merged.data.sum()) - float(links.data.sum())
    degrees = _sum_degrees(network, found, count)
    return _Network(links, loops, degrees, network.total, network.resolution)


def _make_membership(labels: CompactPositions, num_labels: int) -> SparseMatrix:
    """Return the matrix with a one for each node, in the column of its label. It shares the labels."""
    indptr = np.arange(len(labels) + 1, dtype=np.int32)
    return make_sparse(np.ones(len(labels)), labels, indptr, (len(labels), num_labels))


def _number_nodes(network: _Network) -> CompactPositions:
    return np.arange(network.num_nodes, dtype=np.int32)


def _repeat_rows(matrix: SparseMatrix) -> CompactPositions:
    return np.repeat(np.arange(matrix.shape[0], dtype=np.int32), np.diff(matrix.indptr))


def _renumber(labels: npt.NDArray[np.integer]) -> tuple[CompactPositions, int]:
    """Number labels, which are numbers of nodes, without gaps."""
    is_used = np.zeros(len(labels), np.bool_)
    is_used[labels] = True
    numbers = np.cumsum(is_used, dtype=np.int32) - np.int32(1)
    return numbers[labels], int(numbers[-1]) + 1


def _measure(network: _Network, communities: CompactPositions) -> float:
    inside = network.loops + float(_keep_inside(network.links, communities).data.sum())
    return _combine(network, inside, _sum_degrees(network, communities, network.num_nodes))


def _sum_degrees(network: _Network, labels: CompactPositions, num_labels: int) -> Numbers:
    return np.bincount(labels, network.degrees, num_labels).astype(np.float64, copy=False)


def _keep_inside(links: SparseMatrix, communities: CompactPositions) -> SparseMatrix:
    """Return the links within communities."""
    rows = np.repeat(communities, np.diff(links.indptr))
    return keep_entries(links, np.flatnonzero(rows == communities[links.indices]))


def _combine(network: _Network, inside: float, sums: Numbers) -> float:
    shares = sums / network.total
    # A product of vectors would go to threads of BLAS, which cost more than they do, and sum in an order of their own.
    return inside / network.total - network.resolution * float((shares * shares).sum())


# --------------------------------------------------------------------------------------------- moves


@dataclass(frozen=True, slots=True)
class _BestMoves:
    """What some nodes gain by moving to another community."""

    movers: Positions
    """Those that gain anything, by their places among the nodes."""
    targets: CompactPositions
    """Where they gain most; of equal communities the smallest."""
    margins: Numbers
    """How much better it is for each of the nodes to stay; below 0 for those that gain."""


def _choose_moves(
    network: _Network, nodes: npt.NDArray[np.integer], own: CompactPositions, sums: Numbers, towards: SparseMatrix
) -> _BestMoves:
    """Choose for each node the best community among those of its neighbours.

    ``towards`` has the weights between these nodes and communities. No row is empty.
    """
    counts, found = np.diff(towards.indptr), towards.indices
    degrees = network.degrees[nodes]
    scaled = degrees * (network.resolution / network.total)
    gains = towards.data - np.repeat(scaled, counts) * sums[found]
    # Without the node itself.
    stay = scaled * (degrees - sums[own])
    is_own = np.flatnonzero(found == np.repeat(own, counts))
    stay[np.searchsorted(towards.indptr, is_own, "right") - 1] += towards.data[is_own]
    gains[is_own] = -np.inf
    best = np.maximum.reduceat(gains, towards.indptr[:-1])
    is_better = best > stay + _LEAST_GAIN * network.total / network.num_nodes
    # Nothing is equal to NaN.
    places = np.flatnonzero(gains == np.repeat(np.where(is_better, best, np.nan), counts))
    rows = np.searchsorted(towards.indptr, places, "right") - 1
    begins = find_runs(rows)
    targets = np.minimum.reduceat(found[places], begins) if len(begins) else found[:0]
    return _BestMoves(rows[begins], targets, stay - best)


class _Partition:
    """Communities that nodes are moved between, with what modularity is made of."""

    def __init__(self, network: _Network, communities: CompactPositions) -> None:
        self.network = network
        self.membership = _make_membership(communities.copy(), network.num_nodes)
        # The matrix sees each move.
        self.labels = self.membership.indices
        self.sums = _sum_degrees(network, communities, network.num_nodes)
        self.sizes = np.bincount(communities, minlength=network.num_nodes)
        self.inside = network.loops + float(_keep_inside(network.links, communities).data.sum())

    @property
    def modularity(self) -> float:
        return _combine(self.network, self.inside, self.sums)

    def improve(self, nodes: Positions) -> Numbers:
        """Move those of some nodes that gain by it, all at once; return how much better it is for each to stay."""
        towards = self.network.links[nodes] @ self.membership
        own = self.labels[nodes]
        choice = _choose_moves(self.network, nodes, own, self.sums, towards)
        old, targets = own[choice.movers], choice.targets
        # Two nodes that are alone would change places for ever: only the larger one moves.
        may_move = (self.sizes[old] > 1) | (self.sizes[targets] > 1) | (targets < old)
        moved, old, targets = nodes[choice.movers[may_move]], old[may_move], targets[may_move]
        self.labels[moved] = targets
        degrees = self.network.degrees[moved]
        for side, sign in ((old, -1), (targets, 1)):
            np.add.at(self.sums, side, sign * degrees)
            np.add.at(self.sizes, side, sign)
        return choice.margins

    def settle(self, before: CompactPositions) -> Numbers:
        """Count the links of nodes that moved in a round; return for each node how much its margin shrank at most."""
        labels = self.labels
        is_moved = labels != before
        moved = np.flatnonzero(is_moved)
        links = self.network.links[moved]
        counts, columns, weights = np.diff(links.indptr), links.indices, links.data
        beside = labels[columns]
        is_inside = beside == np.repeat(labels[moved], counts)
        was_inside = before[columns] == np.repeat(before[moved], counts)
        # A link to a node that stayed is seen at one of its two ends.
        seen = 2 - is_moved[columns].astype(np.int8)
        self.inside += float((weights * (seen * (is_inside.astype(np.int8) - was_inside))).sum())
        has_left = beside == np.repeat(before[moved], counts)
        return np.bincount(columns, weights * (has_left.astype(np.int8) + ~is_inside), len(labels)).astype(
            np.float64, copy=False
        )


def _move_nodes(
    network: _Network, communities: CompactPositions, chance: np.random.Generator, groups: int
) -> CompactPositions:
    """Move nodes to the communities of their neighbours, until a round gains little; return the best partition.

    After the first round, only those are looked at again whose neighbours moved by more than it was better to stay.
    """
    partition = _Partition(network, communities)
    best, most = communities, partition.modularity
    start = most
    margins = np.zeros(network.num_nodes)
    waiting = np.flatnonzero(np.diff(network.links.indptr))
    for _ in range(_MAX_ROUNDS):
        if not len(waiting):
            break
        before = partition.labels.copy()
        for nodes in np.array_split(chance.permutation(waiting), min(groups, len(waiting))):
            check_deadline()
            margins[nodes] = partition.improve(nodes)
        shrunk = partition.settle(before)
        now = partition.modularity
        gained = now - most
        if gained > 0:
            best, most = partition.labels.copy(), now
        if gained < max(_LEAST_GAIN, _LEAST_ROUND_GAIN * (most - start)):
            break
        # What moved may move again as soon as anything changes.
        margins[before != partition.labels] = 0
        waiting = np.flatnonzero(shrunk > np.maximum(margins, 0))
    return best


def _refine(network: _Network, communities: CompactPositions, chance: np.random.Generator) -> CompactPositions:
    """Divide each community into connected parts: nodes that are alone join parts of their community."""
    links = _keep_inside(network.links, communities)
    parts = _number_nodes(network)
    sums = network.degrees
    nodes = np.flatnonzero(np.diff(links.indptr))
    for number in range(_MAX_ROUNDS):
        check_deadline()
        if not len(nodes):
            break
        towards = links[nodes]
        if number:
            towards = towards @ _make_membership(parts, network.num_nodes)
        choice = _choose_moves(network, nodes, parts[nodes], sums, towards)
        movers, targets = nodes[choice.movers], choice.targets
        if not len(movers):
            break
        # A part that is joined stays where it is: of two nodes that would join each other, chance chooses one.
        order = np.full(network.num_nodes, -1, np.int64)
        order[movers] = chance.permutation(len(movers))
        may_move = (order[targets] < 0) | (order[movers] < order[targets])
        movers, targets = movers[may_move], targets[may_move]
        is_joined = np.zeros(network.num_nodes, np.bool_)
        is_joined[targets] = True
        free = ~is_joined[movers]
        parts[movers[free]] = targets[free]
        sums = _sum_degrees(network, parts, network.num_nodes)
        nodes = nodes[np.bincount(parts, minlength=network.num_nodes)[parts[nodes]] == 1]
    return parts
