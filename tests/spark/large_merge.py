"""A program that loads many nodes, and merges all of them with another value: ``large_merge.py GRAPH ROWS``."""

from __future__ import annotations

import sys

import omnigraph
from omnigraph.graph import Graph

SCHEMA = "node Ship { code: String @key  crew: I64 }"


def merge_ships(graph: Graph, rows: int) -> None:
    """Load ships, then load them once more with another crew; the graph has an index on their ids meanwhile."""
    session = graph.spark().session
    ships = session.range(0, rows, 1, 8).selectExpr("format_string('s%012d', id * 7919) as code", "id as crew")
    graph.spark().load(nodes={"Ship": ships})
    changed = ships.selectExpr("code", "crew + 1 as crew")
    merged = graph.spark().load(nodes={"Ship": changed}, mode="merge", indexes="never")
    assert merged.nodes == {"Ship": rows}
    assert graph.spark().nodes("Ship", ["crew"]).selectExpr("sum(crew)").collect()[0][0] == rows * (rows + 1) // 2
    sys.stdout.write(str(session.conf.get("spark.driver.memory")))


if __name__ == "__main__":
    merge_ships(omnigraph.init(sys.argv[1], SCHEMA), int(sys.argv[2]))
