"""The driver of a query of several hops on a cluster, as a program: ``python cluster_query.py MASTER FOLDER``.

It says when it has walked, waits for a line, and then prints the rows. What is killed in between is killed while the
rows of the walk are needed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final, cast

from pyspark.sql import SparkSession

import omnigraph
from omnigraph.spark import sized_frames, spool

SHIPS: Final = 40
HOPS: Final = 3
EXPECTED: Final = sum(min(HOPS, SHIPS - 1 - at) for at in range(SHIPS))
"""The ships of a chain, and how many each of them reaches."""
SCHEMA: Final = "node Ship { code: String @key }  edge Tows: Ship -> Ship"
WALK: Final = f"query q() {{ match {{ $a: Ship  $a tows{{1,{HOPS}}} $b }} return {{ count($b) as n }} }}"


def main(master: str, folder: str) -> None:
    """Run the query."""
    graph = omnigraph.init(Path(folder, "ships.og"), SCHEMA)
    graph.load([{"type": "Ship", "data": {"code": f"s{at}"}} for at in range(SHIPS)])
    graph.load([{"edge": "Tows", "from": f"s{at}", "to": f"s{at + 1}"} for at in range(SHIPS - 1)])
    for module in (sized_frames, spool):
        # Any number of rows is too many for the driver.
        cast("Any", module).MAX_BROADCAST_BYTES = 0
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.executor.memory": "512m"}
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    frame = graph.spark(builder.getOrCreate()).query(WALK, engine="spark")
    sys.stdout.write("walked\n")
    sys.stdout.flush()
    sys.stdin.readline()
    ((count,),) = cast("list[tuple[int]]", frame.collect())
    sys.stdout.write(json.dumps(count) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
