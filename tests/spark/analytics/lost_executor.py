"""An algorithm on a cluster that loses an executor in a superstep, as a program: ``python lost_executor.py FOLDER``."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
from pyspark.sql import SparkSession

import omnigraph as og
from omnigraph.spark.analytics import projections

SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.driver.memory": "600m",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def kill_executor() -> None:
    """End the Java process that this one belongs to: its parent is the daemon that starts Python."""
    daemon = os.getppid()
    executor = int(Path(f"/proc/{daemon}/stat").read_text("utf-8").rpartition(")")[2].split()[1])
    os.kill(executor, signal.SIGKILL)
    signal.pause()


def main(folder: str) -> None:
    """Print whether the result is that of one process."""
    graph = og.init(Path(folder, "ring.og"), "node N { key: String @key }\nedge E: N -> N")
    names = [f"n{number:02}" for number in range(10)]
    graph.load(
        [
            *({"type": "N", "data": {"key": name}} for name in names),
            *({"edge": "E", "from": a, "to": b} for a, b in zip(names, [*names[1:], names[0]], strict=True)),
        ]
    )
    killed = Path(folder, "killed")

    def find_smallest(step: int, state: Any, messages: Any) -> Any:
        if not step:
            return {"smallest": state["node"]}, state["node"]
        if step == 2 and len(state["smallest"]) and state["smallest"][0] == 0:
            try:
                killed.touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                kill_executor()
        smallest = np.minimum(state["smallest"], messages)
        return {"smallest": smallest}, np.ma.masked_array(smallest, smallest == state["smallest"])

    builder = SparkSession.builder.master("local-cluster[2,1,512]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    projections.SPARK_MIN_EDGES = 0  # pyright: ignore[reportConstantRedefinition, reportAttributeAccessIssue]  few are handled like many
    with graph.spark(session) as opened:
        found = opened.analytics.pregel(find_smallest, combine="min", iterations=99)
        assert found.provenance.engine == "spark"
    assert killed.exists()
    assert [row["smallest"] for row in found.rows] == [0] * len(names)
    session.stop()
    sys.stdout.write("the result is whole\n")


if __name__ == "__main__":
    main(sys.argv[1])
