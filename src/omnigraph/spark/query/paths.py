"""Walks that bind a path: the smallest one to each destination, as arrays of ids that grow with every hop.

Of all ways to a node that one hop finds, the smallest is kept: a smallest path has a smallest path before its last hop,
or, walked backwards, after its first one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from omnigraph.language.query import PathFunction
from omnigraph.language.query.plan import Connect, Expand, WalkEnd
from omnigraph.lazy_dataclass import dataclass
from omnigraph.spark.query.match_rows import ID, PAIR_BYTES, MatchRows, Slot, SparkQueryContext
from omnigraph.spark.query.walk import NodePairs, find_frontiers, orient_edges, start_at
from omnigraph.spark.sized_frames import SizedFrame, hint_join, join_by_condition, union_sized

_PATH: Final = "path"
_PATH_BYTES: Final = 4 * PAIR_BYTES
"""The size of a path, about."""


@dataclass(frozen=True, slots=True)
class _PathColumns:
    """The columns of a walk with paths: its ends, the nodes and edges of each path, and an edge of a hop."""

    source: str
    destination: str
    nodes: str
    edges: str
    leftwards: bool
    """Whether the walk begins at its right end, so that paths grow at their left end."""

    @property
    def keys(self) -> list[str]:
        """The columns that tell pairs apart."""
        return [self.source, self.destination]

    @property
    def all(self) -> list[str]:
        """All columns of a pair and its path."""
        return [*self.keys, self.nodes, self.edges]

    def take_smallest(self, found: DataFrame) -> DataFrame:
        """Keep of all paths between two nodes the smallest: by its nodes, then by its edges."""
        smallest = fn.min(fn.struct(self.nodes, self.edges)).alias(_PATH)
        best = found.groupBy(*self.keys).agg(smallest)
        return best.select(*self.keys, f"{_PATH}.{self.nodes}", f"{_PATH}.{self.edges}")

    def grow(self, column: str, added: Column) -> Column:
        """Put an id at the end of a path that a walk has reached."""
        old, new = fn.col(column), fn.array(added)
        return (fn.concat(new, old) if self.leftwards else fn.concat(old, new)).alias(column)


def find_paths(plan: Expand | Connect, path: str, rows: MatchRows, context: SparkQueryContext) -> NodePairs:
    """Return the distinct pairs of source nodes and destinations, with the path of each in its slots."""
    hop, edge = _scan_hops(plan, context)
    start = start_at(plan.source, rows, context)
    leftwards = plan.written_left is WalkEnd.DESTINATION
    columns = _PathColumns(start.source, start.destination, context.new_column(), context.new_column(), leftwards)
    slots: dict[Slot, str] = {(path, ID): columns.nodes, (path, PathFunction.EDGES): columns.edges}
    if plan.maximum is not None and plan.minimum > plan.maximum:
        found = [_find_starts(start, columns).limit(0)]
        return _make_pairs(found[0], start, slots, hop.max_rows)
    if plan.minimum == plan.maximum == 1:
        smallest = context.gather(columns.take_smallest(_start_paths(hop, edge, columns)))
        return _make_pairs(smallest, start, slots, hop.max_rows)
    reached = _walk_paths(plan, start, (hop, edge), columns, context)
    return _make_pairs(reached.frame, start, slots, reached.max_rows)


def _make_pairs(frame: DataFrame, start: NodePairs, slots: dict[Slot, str], most: int) -> NodePairs:
    return NodePairs(frame, start.source, start.destination, most, slots, _PATH_BYTES)


def _scan_hops(plan: Expand | Connect, context: SparkQueryContext) -> tuple[NodePairs, str]:
    """Return the pairs of nodes that one hop connects, with the column of the edge."""
    source, destination, edge = (context.new_column() for _ in range(3))
    walked = (
        orient_edges(context.tables.edges(step.edge_type, ["from", "to", ID]), step.direction).toDF(
            source, destination, edge
        )
        for step in plan.steps
    )
    most = sum(context.count_walked(step.edge_type, step.direction) for step in plan.steps)
    return NodePairs(reduce(DataFrame.union, walked), source, destination, most), edge


def _find_starts(start: NodePairs, columns: _PathColumns) -> DataFrame:
    """Return each start with itself and the path of no hops."""
    nodes = fn.array(fn.col(start.source)).alias(columns.nodes)
    return start.frame.select(*columns.keys, nodes, fn.array().cast("array<string>").alias(columns.edges))


def _start_paths(hop: NodePairs, edge: str, columns: _PathColumns) -> DataFrame:
    """Return the paths of one hop."""
    ends = [fn.col(hop.source), fn.col(hop.destination)]
    nodes = fn.array(*(reversed(ends) if columns.leftwards else ends)).alias(columns.nodes)
    named = (each.alias(name) for each, name in zip(ends, columns.keys, strict=True))
    return hop.frame.select(*named, nodes, fn.array(fn.col(edge)).alias(columns.edges))


def _walk_paths(
    plan: Expand | Connect,
    start: NodePairs,
    hop: tuple[NodePairs, str],
    columns: _PathColumns,
    context: SparkQueryContext,
) -> SizedFrame:
    pairs, edge = hop

    def advance(frontier: SizedFrame, visited: SizedFrame) -> DataFrame:
        ahead = join_by_condition(frontier, pairs.sized, fn.col(columns.destination) == fn.col(pairs.source)).select(
            fn.col(columns.source),
            fn.col(pairs.destination).alias(columns.destination),
            columns.grow(columns.nodes, fn.col(pairs.destination)),
            columns.grow(columns.edges, fn.col(edge)),
        )
        return context.gather(columns.take_smallest(hint_join(ahead, visited, columns.keys, "left_anti")))

    begin = replace(start, frame=_find_starts(start, columns))
    frontiers = find_frontiers(begin, advance, plan.maximum, context)
    found = frontiers[plan.minimum :]
    if 1 <= plan.minimum <= len(frontiers):
        looped = _follow_loops(frontiers[plan.minimum - 1], pairs.self_loops(), edge, columns)
        found.append(context.spool.keep(context.gather(looped)))
    context.spool.release(frontiers[: plan.minimum])
    present = [each for each in found if each.max_rows]
    return union_sized(present) if present else SizedFrame(begin.frame.limit(0), 0, _PATH_BYTES)


def _follow_loops(nearer: SizedFrame, loops: NodePairs, edge: str, columns: _PathColumns) -> DataFrame:
    """Return the paths that go on along the edge of their right end to itself."""
    right = columns.source if columns.leftwards else columns.destination
    found = join_by_condition(nearer, loops.sized, fn.col(right) == fn.col(loops.source))
    added = {columns.nodes: fn.col(right), columns.edges: fn.col(edge)}
    grown = [fn.concat(fn.col(name), fn.array(each)).alias(name) for name, each in added.items()]
    return columns.take_smallest(found.select(*columns.keys, *grown))
