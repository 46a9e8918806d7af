"""Follow edges from nodes: one hop, or a breadth-first walk of several hops from many nodes at once.

A walk runs while the DataFrame is built, one job per hop, because only then is it known how many hops it takes. Every
frontier is spooled, so that no hop is computed twice, and none is lost with an executor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from omnigraph.errors import WalkTooLong
from omnigraph.language.query import EdgeStep, TraversalDirection
from omnigraph.language.query.plan import Connect, Expand, WalkEnd
from omnigraph.lazy_dataclass import dataclass
from omnigraph.spark.query.match_rows import PAIR_BYTES, UNKNOWN_ROWS, MatchRows, Slot, SparkQueryContext
from omnigraph.spark.sized_frames import SizedFrame, hint_join, join_by_condition, union_sized


@dataclass(frozen=True, slots=True)
class NodePairs:
    """Pairs of nodes: the columns of the source and destination ids, and the slots of bound edges."""

    frame: DataFrame
    source: str
    destination: str
    max_rows: int
    slots: Mapping[Slot, str] = field(default_factory=dict[Slot, str])
    row_bytes: int = PAIR_BYTES

    @property
    def sized(self) -> SizedFrame:
        """The pairs as a frame of known size."""
        return SizedFrame(self.frame, self.max_rows, self.row_bytes)

    def self_loops(self) -> NodePairs:
        """The pairs of a node with itself."""
        return replace(self, frame=self.frame.where(fn.col(self.source) == fn.col(self.destination)))

    def without_rows(self) -> NodePairs:
        """The same columns, without rows."""
        return replace(self, frame=self.frame.limit(0))


def find_destinations(plan: Expand | Connect, rows: MatchRows, context: SparkQueryContext) -> NodePairs:
    """Return the distinct pairs of source nodes and the destinations that the step finds for them."""
    if plan.minimum == plan.maximum == 1:
        return find_hops(plan, context)
    hop = _scan_hops(plan.steps, context)
    if plan.maximum is not None and plan.minimum > plan.maximum:
        return hop.without_rows()
    return _walk(start_at(plan.source, rows, context), hop, plan, context)


def find_hops(plan: Expand | Connect, context: SparkQueryContext) -> NodePairs:
    """Return the distinct pairs of nodes that one hop connects, from all nodes."""
    hop = _scan_hops(plan.steps, context)
    return replace(hop, frame=_remove_duplicates(hop, context))


def _remove_duplicates(pairs: NodePairs, context: SparkQueryContext) -> DataFrame:
    """Return each pair once. Many of them are shuffled to as many partitions as follow from their size."""
    if pairs.sized.can_broadcast:
        return context.gather(pairs.frame.distinct())
    return pairs.frame.repartition(context.count_partitions(), pairs.source, pairs.destination).distinct()


def orient_edges(ends: DataFrame, direction: TraversalDirection) -> DataFrame:
    """Turn edges in the direction of the walk: the first two columns become source and destination.

    Walked in both directions, a self-loop still appears once.
    """
    first, second, *others = ends.columns
    reversed_ = ends.select(second, first, *others)
    match direction:
        case TraversalDirection.OUT:
            return ends
        case TraversalDirection.IN:
            return reversed_
        case TraversalDirection.BOTH:
            return ends.union(reversed_.where(fn.col(first) != fn.col(second)))


def _scan_hops(steps: Sequence[EdgeStep], context: SparkQueryContext) -> NodePairs:
    """Return the pairs of nodes that one hop connects, along any of the steps."""
    source, destination = context.new_column(), context.new_column()
    walked = (
        orient_edges(context.tables.edges(step.edge_type, ["from", "to"]), step.direction).toDF(source, destination)
        for step in steps
    )
    most = sum(context.count_walked(step.edge_type, step.direction) for step in steps)
    return NodePairs(reduce(DataFrame.union, walked), source, destination, most)


# --------------------------------------------------------------------------------------------- several hops


def start_at(variable: str, rows: MatchRows, context: SparkQueryContext) -> NodePairs:
    """Return the pairs of each start node with itself."""
    source, destination = context.new_column(), context.new_column()
    id_ = fn.col(rows.id_of(variable))
    starts = rows.frame.select(id_.alias(source), id_.alias(destination)).distinct()
    return NodePairs(context.gather(starts), source, destination, UNKNOWN_ROWS)


def _walk(start: NodePairs, hop: NodePairs, plan: Expand | Connect, context: SparkQueryContext) -> NodePairs:
    """Return the pairs that a walk from each start finds, as :class:`Expand` defines it."""
    keys = [start.source, start.destination]

    def advance(frontier: SizedFrame, visited: SizedFrame) -> DataFrame:
        ahead = _advance(frontier, start, hop).distinct()
        return context.gather(hint_join(ahead, visited, keys, "left_anti"))

    frontiers = find_frontiers(start, advance, plan.maximum, context)
    destinations = frontiers[plan.minimum :]
    if 1 <= plan.minimum <= len(frontiers):
        # An edge to itself reaches a right end with one hop more than its distance. Beyond the minimum it is included
        # anyway.
        nearer = frontiers[plan.minimum - 1]
        loops = _select_looped(nearer, start, hop, plan.written_left).distinct()
        destinations.append(context.spool.keep(context.gather(loops)))
    context.spool.release(frontiers[: plan.minimum])
    found = [each for each in destinations if each.max_rows]
    if not found:
        return start.without_rows()
    reached = union_sized(found)
    return replace(start, frame=reached.frame, max_rows=reached.max_rows)


def find_frontiers(
    start: NodePairs,
    advance: Callable[[SizedFrame, SizedFrame], DataFrame],
    maximum: int | None,
    context: SparkQueryContext,
) -> list[SizedFrame]:
    """Return the pairs of each start with the nodes at 0, 1, 2, ... hops from it, until there are no more.

    ``advance`` gives the next frontier after one, without the pairs that were visited.
    """
    keys = [start.source, start.destination]
    frontiers = [context.spool.keep(start.frame)]
    rounds = context.max_walk_rounds if maximum is None else maximum
    while maximum is None or len(frontiers) <= maximum:
        visited = union_sized([replace(each, frame=each.frame.select(*keys)) for each in frontiers])
        frontier = context.spool.keep(advance(frontiers[-1], visited))
        if not frontier.max_rows:
            break
        frontiers.append(frontier)
        if maximum is None and len(frontiers) > rounds:
            raise WalkTooLong(rounds)
    return frontiers


def _select_looped(nearer: SizedFrame, start: NodePairs, hop: NodePairs, written_left: WalkEnd) -> DataFrame:
    """Return the pairs whose right end has an edge to itself; a walk backwards starts there."""
    right = start.destination if written_left is WalkEnd.SOURCE else start.source
    found = join_by_condition(nearer, hop.self_loops().sized, fn.col(right) == fn.col(hop.source))
    return found.select(start.source, start.destination)


def _advance(frontier: SizedFrame, start: NodePairs, hop: NodePairs) -> DataFrame:
    found = join_by_condition(frontier, hop.sized, fn.col(start.destination) == fn.col(hop.source))
    return found.select(fn.col(start.source), fn.col(hop.destination).alias(start.destination))
