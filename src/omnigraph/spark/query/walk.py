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
from omnigraph.spark.query.match_rows import Asked, Rows, Slot


@dataclass(frozen=True, slots=True)
class Steps:
    """From node to node: the columns of their ids, and those of the edges between them where edges are bound."""

    frame: DataFrame
    begin: str
    end: str
    slots: Mapping[Slot, str] = field(default_factory=dict[Slot, str])

    def loops(self) -> Steps:
        """Those that lead from a node to itself."""
        return replace(self, frame=self.frame.where(fn.col(self.begin) == fn.col(self.end)))

    def none(self) -> Steps:
        """The same columns without a row."""
        return replace(self, frame=self.frame.limit(0))


def reached(plan: Expand | Connect, rows: Rows, asked: Asked) -> Steps:
    """From where a step begins to its destinations, each once."""
    hop = _neighbours(plan.edge_type, plan.direction, asked)
    if plan.minimum > plan.maximum:
        return hop.none()
    if plan.maximum == 1:
        return hop
    return _walked(_begun(plan.source, rows, asked), hop, plan.minimum, plan.maximum)


def turned(ends: DataFrame, direction: TraversalDirection) -> DataFrame:
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


def _neighbours(edge_type: str, direction: TraversalDirection, asked: Asked) -> Steps:
    begin, end = asked.name(), asked.name()
    ends = asked.tables.edges(edge_type, ["from", "to"]).toDF(begin, end)
    return Steps(turned(ends, direction).toDF(begin, end).distinct(), begin, end)


# --------------------------------------------------------------------------------------------- several hops


def _begun(variable: str, rows: Rows, asked: Asked) -> Steps:
    """The nodes that walks begin at, each at itself."""
    begin, end = asked.name(), asked.name()
    id_ = fn.col(rows.id_of(variable))
    return Steps(rows.frame.select(id_.alias(begin), id_.alias(end)).distinct(), begin, end)


def _walked(begun: Steps, hop: Steps, minimum: int, maximum: int) -> Steps:
    """The nodes at ``minimum`` to ``maximum`` hops, and those one hop nearer that have an edge to themselves."""
    hop = replace(hop, frame=hop.frame.localCheckpoint(eager=False))
    frontiers = [begun.frame.localCheckpoint()]
    while len(frontiers) <= maximum:
        visited = reduce(DataFrame.union, frontiers)
        found = _onwards(frontiers[-1], begun, hop).distinct()
        frontier = found.join(visited, [begun.begin, begun.end], "left_anti").localCheckpoint()
        if frontier.isEmpty():
            break
        frontiers.append(frontier)
    destinations = frontiers[minimum:]
    if minimum <= len(frontiers):
        # By a loop a node is found at one hop more than it is away; from the minimum on it is there already.
        destinations.append(_onwards(frontiers[minimum - 1], begun, hop.loops()))
    return replace(begun, frame=reduce(DataFrame.union, destinations)) if destinations else begun.none()


def _onwards(frontier: DataFrame, begun: Steps, hop: Steps) -> DataFrame:
    found = frontier.join(hop.frame, fn.col(begun.end) == fn.col(hop.begin))
    return found.select(fn.col(begun.begin), fn.col(hop.end).alias(begun.end))
