"""Where edges lead: from node to node by one hop, or by walks of several from many nodes at once.

A walk runs while the frame is put together, one hop after the other: how many it takes is known only then. Every
frontier stays with the executors, so that no hop begins again from the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from omnigraph.language.query import TraversalDirection
from omnigraph.language.query.plan import Connect, Expand
from omnigraph.spark.query.match_rows import MatchRows, Slot, SparkQueryContext


@dataclass(frozen=True, slots=True)
class NodePairs:
    """From node to node: the columns of their ids, and those of the edges between them where edges are bound."""

    frame: DataFrame
    source: str
    destination: str
    slots: Mapping[Slot, str] = field(default_factory=dict[Slot, str])

    def self_loops(self) -> NodePairs:
        """Those that lead from a node to itself."""
        return replace(self, frame=self.frame.where(fn.col(self.source) == fn.col(self.destination)))

    def without_rows(self) -> NodePairs:
        """The same columns without a row."""
        return replace(self, frame=self.frame.limit(0))


def find_destinations(plan: Expand | Connect, rows: MatchRows, asked: SparkQueryContext) -> NodePairs:
    """From where a step begins to its destinations, each once."""
    hop = _scan_neighbours(plan.edge_type, plan.direction, asked)
    if plan.minimum > plan.maximum:
        return hop.without_rows()
    if plan.maximum == 1:
        return hop
    return _walk(_start_at(plan.source, rows, asked), hop, plan.minimum, plan.maximum)


def orient_edges(ends: DataFrame, direction: TraversalDirection) -> DataFrame:
    """Edges as they are walked: their first two columns are where one begins and ends. A loop is walked once."""
    first, second, *others = ends.columns
    back = ends.select(second, first, *others)
    match direction:
        case TraversalDirection.OUT:
            return ends
        case TraversalDirection.IN:
            return back
        case TraversalDirection.BOTH:
            return ends.union(back.where(fn.col(first) != fn.col(second)))


def _scan_neighbours(edge_type: str, direction: TraversalDirection, asked: SparkQueryContext) -> NodePairs:
    begin, end = asked.new_column(), asked.new_column()
    ends = asked.tables.edges(edge_type, ["from", "to"]).toDF(begin, end)
    return NodePairs(orient_edges(ends, direction).toDF(begin, end).distinct(), begin, end)


# --------------------------------------------------------------------------------------------- several hops


def _start_at(variable: str, rows: MatchRows, asked: SparkQueryContext) -> NodePairs:
    """The nodes that walks begin at, each at itself."""
    begin, end = asked.new_column(), asked.new_column()
    id_ = fn.col(rows.id_of(variable))
    return NodePairs(rows.frame.select(id_.alias(begin), id_.alias(end)).distinct(), begin, end)


def _walk(begun: NodePairs, hop: NodePairs, minimum: int, maximum: int) -> NodePairs:
    """The nodes at ``minimum`` to ``maximum`` hops, and those one hop nearer that have an edge to themselves."""
    hop = replace(hop, frame=hop.frame.localCheckpoint(eager=False))
    frontiers = [begun.frame.localCheckpoint()]
    while len(frontiers) <= maximum:
        visited = reduce(DataFrame.union, frontiers)
        found = _advance(frontiers[-1], begun, hop).distinct()
        frontier = found.join(visited, [begun.source, begun.destination], "left_anti").localCheckpoint()
        if frontier.isEmpty():
            break
        frontiers.append(frontier)
    destinations = frontiers[minimum:]
    if minimum <= len(frontiers):
        # By a loop a node is found at one hop more than it is away; from the minimum on it is there already.
        destinations.append(_advance(frontiers[minimum - 1], begun, hop.self_loops()))
    return replace(begun, frame=reduce(DataFrame.union, destinations)) if destinations else begun.without_rows()


def _advance(frontier: DataFrame, begun: NodePairs, hop: NodePairs) -> DataFrame:
    found = frontier.join(hop.frame, fn.col(begun.destination) == fn.col(hop.source))
    return found.select(fn.col(begun.source), fn.col(hop.destination).alias(begun.destination))
