"""Walks between two bound ends, and the edges on a path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.language.query import EdgeStep, TraversalDirection
from omnigraph.language.query.plan import Connect, Expand, WalkEnd
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import (
    EntityColumn,
    FindEdges,
    Mask,
    Positions,
    QueryTables,
    Strategy,
    empty_positions,
    number_tuples,
)
from omnigraph.read.match.breadth_first import WalkBounds
from omnigraph.read.match.meeting import Meeting, find_meeting
from omnigraph.read.match.strategy import EdgeWalk
from omnigraph.read.match.walk_context import WalkContext, load_walk_context, to_positions_in
from omnigraph.read.topology import are_neighbours, find_edges_between, load_steps
from omnigraph.storage.columns import Values, compute, make_nulls

_FEW_PAIRS: Final = 32
"""Up to so many pairs of ends, a walk from each end of each pair is cheaper than one from all left ends together."""
_MANY_EDGES: Final = 50_000
"""With fewer edges, one walk is quick, and needs no arrays in the other direction."""
_REVERSED: Final = {
    TraversalDirection.OUT: TraversalDirection.IN,
    TraversalDirection.IN: TraversalDirection.OUT,
    TraversalDirection.BOTH: TraversalDirection.BOTH,
}


def bounds_of(plan: Expand | Connect) -> WalkBounds:
    """Return how far the walk of an operator goes."""
    return WalkBounds(plan.minimum, plan.maximum, plan.written_left)


def _reverse(steps: tuple[EdgeStep, ...]) -> tuple[EdgeStep, ...]:
    return tuple(EdgeStep(step.edge_type, _REVERSED[step.direction]) for step in steps)


def _steps_to_the_right(plan: Expand | Connect) -> tuple[EdgeStep, ...]:
    return plan.steps if plan.written_left is WalkEnd.SOURCE else _reverse(plan.steps)


# --------------------------------------------------------------------------------------------- pairs


@dataclass(frozen=True, slots=True)
class BoundPairs:
    """The distinct pairs of ends in some rows, and the number of the pair of each row."""

    sources: Positions
    destinations: Positions
    numbers: Positions

    @classmethod
    def of(cls, sources: Positions, destinations: Positions) -> BoundPairs:
        """Number the pairs of some rows."""
        first, numbers = number_tuples([sources, destinations])
        first = first[: len(sources)]
        return cls(sources[first], destinations[first], numbers)

    def should_meet(self, plan: Connect, edges: WalkContext) -> bool:
        """Whether a walk from both ends of each pair pays."""
        if bounds_of(plan).is_empty or edges.strategy is not Strategy.ARRAYS or edges.starts != edges.nodes:
            return False
        return edges.adjacency.num_hops > _MANY_EDGES and 0 < len(self.sources) <= _FEW_PAIRS

    def is_met(self, plan: Connect, edges: WalkContext, tables: QueryTables) -> Mask:
        """Return for each pair whether the walk of a plan leads from one end to the other."""
        return np.array([found is not None for found, _ in self._find_meetings(plan, edges, tables)], np.bool_)

    def find_chains(self, plan: Connect, edges: WalkContext, tables: QueryTables) -> list[Positions | None]:
        """Return the nodes of the path of each pair, from left to right; None if there is none."""
        forward = load_steps(_steps_to_the_right(plan), tables, distinct=True)
        lefts, rights = self._orient(plan)

        def choose(nodes: Positions) -> int:
            return int(nodes[0]) if len(nodes) == 1 else _take_smallest(EntityColumn(edges.nodes, nodes))

        chains: list[Positions | None] = []
        for number, (found, is_looped) in enumerate(self._find_meetings(plan, edges, tables)):
            if found is None:
                chains.append(None)
                continue
            nodes = found.trace(int(lefts[number]), forward, choose)
            chains.append(np.append(nodes, rights[number]) if is_looped else nodes)
        return chains

    def _orient(self, plan: Connect) -> tuple[Positions, Positions]:
        if plan.written_left is WalkEnd.SOURCE:
            return self.sources, self.destinations
        return self.destinations, self.sources

    def _find_meetings(
        self, plan: Connect, edges: WalkContext, tables: QueryTables
    ) -> Iterator[tuple[Meeting | None, bool]]:
        """Yield for each pair how its walks meet, and whether the path goes on along the loop of its right end."""
        forward = load_steps(_steps_to_the_right(plan), tables, distinct=True)
        backward = load_steps(_reverse(_steps_to_the_right(plan)), tables, distinct=True)
        lefts, rights = self._orient(plan)
        has_loop = are_neighbours(edges.adjacency, rights, rights)
        for left, right, loop in zip(lefts.tolist(), rights.tolist(), has_loop.tolist(), strict=True):
            found = find_meeting(forward, backward, left, right, plan.maximum)
            nearest = plan.minimum - 1 if loop else plan.minimum
            is_near = found is not None and found.hops < nearest
            yield (None, False) if found is None or is_near else (found, found.hops < plan.minimum)


def _take_smallest(nodes: EntityColumn) -> int:
    order = compute("array_sort_indices", cast("Values", nodes.entities.take_ids(nodes.positions)))
    return int(nodes.positions[cast("pa.UInt64Array", order)[0].as_py()])


# --------------------------------------------------------------------------------------------- edges


def make_edge_finder(plan: Expand | Connect, tables: QueryTables) -> FindEdges:
    """Return what finds the edges on the paths of an operator: of each hop the one with the smallest id."""
    steps = _steps_to_the_right(plan)

    def find(lefts: EntityColumn, rights: EntityColumn) -> pa.StringArray:
        first, numbers = number_tuples([lefts.positions, rights.positions])
        first = first[: len(lefts.positions)]
        hops = [EntityColumn(each.entities, each.positions[first]) for each in (lefts, rights)]
        return _find_smallest_edges(hops[0], hops[1], steps, tables).take(numbers)

    return find


def _find_smallest_edges(
    lefts: EntityColumn, rights: EntityColumn, steps: tuple[EdgeStep, ...], tables: QueryTables
) -> pa.StringArray:
    """Return the smallest id of an edge along any of the steps from each left node to its right node."""
    numbers: list[Positions] = [empty_positions()]
    ids: list[Values] = [make_nulls(0, pa.string())]
    for step in steps if len(lefts.positions) else ():
        edges = load_walk_context(lefts, EdgeWalk((step,), distinct=False, hops=1), tables)
        rows, found = find_edges_between(edges.adjacency, edges.sources, to_positions_in(rights, edges.nodes))
        numbers.append(rows)
        ids.append(cast("Values", edges.edges.take_ids(found).cast(pa.string())))
    pairs, texts = np.concatenate(numbers), pa.concat_arrays(ids)
    order = cast("pa.UInt64Array", compute("array_sort_indices", texts)).to_numpy().astype(np.int64)
    _, first = np.unique(pairs[order], return_index=True)
    return cast("pa.StringArray", texts.take(order[first]))
