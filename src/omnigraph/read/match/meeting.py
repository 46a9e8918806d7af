"""Shortest paths between two nodes: a walk from each end, until the two meet.

Both walks together follow far fewer edges than one walk from end to end, because frontiers grow with every hop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import Mask, Positions, sort_distinct
from omnigraph.read.topology import Neighbourhood, count_hops, find_neighbours

ChooseNode: TypeAlias = Callable[[Positions], int]
"""Chooses the node with the smallest id."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where the walks from two ends have met: the distance of the ends, and of visited nodes from the right end.

    ``on_path`` are the nodes on shortest paths, by their hops from the left end, until the walks meet.
    """

    hops: int
    on_path: list[Positions]
    from_right: npt.NDArray[np.int32]

    def trace(self, left: int, forward: Neighbourhood, choose: ChooseNode) -> Positions:
        """Return the nodes of the smallest shortest path: the next one is the smallest that is one hop closer."""
        nodes = [left]
        for hop in range(1, self.hops + 1):
            _, ahead = find_neighbours(forward, np.array([nodes[-1]]))
            is_closer = self._is_on_path(ahead, hop)
            nodes.append(choose(ahead[is_closer]))
        return np.array(nodes, np.int64)

    def _is_on_path(self, nodes: Positions, hop: int) -> Mask:
        if hop < len(self.on_path):
            return np.isin(nodes, self.on_path[hop])
        return self.from_right[nodes] == self.hops - hop


class _Side:
    """The walk from one end: its last frontier, and the hops to every node that it has visited, else -1."""

    def __init__(self, arrays: Neighbourhood, start: int) -> None:
        self.arrays = arrays
        self.frontiers = [np.array([start], np.int64)]
        self.hops = np.full(arrays.num_nodes, -1, np.int32)
        self.hops[start] = 0

    @property
    def depth(self) -> int:
        """How many hops the walk has made."""
        return len(self.frontiers) - 1

    def cost(self) -> int:
        """How many edges the next hop follows."""
        last = self.frontiers[-1]
        return int(count_hops(self.arrays, last).sum())

    def advance(self) -> Positions:
        """Make a hop, and return the nodes that are new."""
        _, ahead = find_neighbours(self.arrays, self.frontiers[-1])
        fresh = sort_distinct(ahead[self.hops[ahead] < 0])
        self.hops[fresh] = len(self.frontiers)
        self.frontiers.append(fresh)
        return fresh


def find_meeting(
    forward: Neighbourhood, backward: Neighbourhood, left: int, right: int, maximum: int | None
) -> Meeting | None:
    """Walk from both ends until the walks meet; None if they do not within ``maximum`` hops."""
    sides = _Side(forward, left), _Side(backward, right)
    if left == right:
        return Meeting(0, [sides[0].frontiers[0]], sides[1].hops)
    while maximum is None or sides[0].depth + sides[1].depth < maximum:
        side, other = sides if sides[0].cost() <= sides[1].cost() else sides[::-1]
        fresh = side.advance()
        if not len(fresh):
            return None
        common = fresh[other.hops[fresh] >= 0]
        if len(common):
            return Meeting(sides[0].depth + sides[1].depth, _find_on_path(sides[0], backward, common), sides[1].hops)
    return None


def _find_on_path(left: _Side, backward: Neighbourhood, common: Positions) -> list[Positions]:
    """Return the nodes that lead to the common ones, by their hops from the left end."""
    on_path = [common]
    for hop in range(left.depth - 1, -1, -1):
        _, behind = find_neighbours(backward, on_path[-1])
        on_path.append(sort_distinct(behind[left.hops[behind] == hop]))
    return on_path[::-1]
