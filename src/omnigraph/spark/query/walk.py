"""Follow edges from nodes: one hop, or a breadth-first walk of several hops from many nodes at once.

A walk runs while the DataFrame is built, one job per hop, because only then is it known how many hops it takes. Every
frontier is spooled, so that no hop is computed twice, and none is lost with an executor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from omnigraph.language.query import TraversalDirection
from omnigraph.language.query.plan import Connect, Expand
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
    hop = _scan_neighbours(plan.edge_type, plan.direction, context)
    if plan.minimum > plan.maximum:
        return hop.without_rows()
    if plan.maximum == 1:
        return replace(hop, frame=_remove_duplicates(hop, context))
    return _walk(_start_at(plan.source, rows, context), hop, plan.minimum, plan.maximum, context)


def _remove_duplicates(pairs: NodePairs, context: SparkQueryContext) -> DataFrame:
    """Return each pair once. Many of them are shuffled to as many partitions as follow from their size."""
    if pairs.sized.can_broadcast:
        return pairs.frame.distinct()
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


def _scan_neighbours(edge_type: str, direction: TraversalDirection, context: SparkQueryContext) -> NodePairs:
    source, destination = context.new_column(), context.new_column()
    ends = context.tables.edges(edge_type, ["from", "to"]).toDF(source, destination)
    walked = orient_edges(ends, direction).toDF(source, destination)
    return NodePairs(walked, source, destination, context.count_walked(edge_type, direction))


# --------------------------------------------------------------------------------------------- several hops


def _start_at(variable: str, rows: MatchRows, context: SparkQueryContext) -> NodePairs:
    """Return the pairs of each start node with itself."""
    source, destination = context.new_column(), context.new_column()
    id_ = fn.col(rows.id_of(variable))
    starts = rows.frame.select(id_.alias(source), id_.alias(destination)).distinct()
    return NodePairs(starts, source, destination, UNKNOWN_ROWS)


def _walk(start: NodePairs, hop: NodePairs, minimum: int, maximum: int, context: SparkQueryContext) -> NodePairs:
    """Return the nodes at ``minimum`` to ``maximum`` hops, and those one hop nearer that have an edge to themselves."""
    frontiers = [context.spool.keep(start.frame)]
    while len(frontiers) <= maximum:
        neighbours = _advance(frontiers[-1], start, hop).distinct()
        visited = union_sized(frontiers)
        frontier = context.spool.keep(hint_join(neighbours, visited, [start.source, start.destination], "left_anti"))
        if not frontier.max_rows:
            break
        frontiers.append(frontier)
    destinations = frontiers[minimum:]
    if minimum <= len(frontiers):
        # A self-loop reaches a node with one hop more than its distance. Beyond the minimum it is included anyway.
        loops = _advance(frontiers[minimum - 1], start, hop.self_loops()).distinct()
        destinations.append(context.spool.keep(loops))
    context.spool.release(frontiers[:minimum])
    found = [each for each in destinations if each.max_rows]
    if not found:
        return start.without_rows()
    reached = union_sized(found)
    return replace(start, frame=reached.frame, max_rows=reached.max_rows)


def _advance(frontier: SizedFrame, start: NodePairs, hop: NodePairs) -> DataFrame:
    found = join_by_condition(frontier, hop.sized, fn.col(start.destination) == fn.col(hop.source))
    return found.select(fn.col(start.source), fn.col(hop.destination).alias(start.destination))
