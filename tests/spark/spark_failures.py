"""A driver whose Spark fails, as a program: ``python spark_failures.py KIND FOLDER``. It prints the error that it gets.

The tests start it with the Python of executors that they choose.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

import omnigraph
from omnigraph.errors import OmniGraphError
from omnigraph.spark.executor import SparkExecutor

SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.driver.memory": "600m",
    "spark.task.maxFailures": "1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
LIMIT: Final = 1024 * 1024
HEAP: Final = 400 * LIMIT


def die(_: int) -> None:
    """End this process as the system ends one that uses too much memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_executor(_: int) -> None:
    """End the Java process that this one belongs to: its parent is the daemon that starts Python."""
    daemon = os.getppid()
    executor = int(Path(f"/proc/{daemon}/stat").read_text("utf-8").rpartition(")")[2].split()[1])
    os.kill(executor, signal.SIGKILL)
    signal.pause()


def use_memory(_: int) -> None:
    """Say what Python says if there is no memory."""
    raise MemoryError


def return_much(_: int) -> bytes:
    """Return more than the driver may get."""
    return os.urandom(2 * LIMIT)


def fill_heap(_: int) -> bytes:
    """Return more than fits into the heap of an executor."""
    return os.urandom(HEAP)


TASKS: Final[dict[str, Callable[[int], object]]] = {
    "killed": die,
    "lost": kill_executor,
    "memory": use_memory,
    "results": return_much,
    "heap": fill_heap,
}
ON_A_CLUSTER: Final = ("lost", "heap")
"""Executors that are processes of their own."""


def main(kind: str, folder: str) -> None:
    builder = SparkSession.builder.master("local-cluster[1,1,512]" if kind in ON_A_CLUSTER else "local[1]")
    more = {"spark.driver.maxResultSize": str(LIMIT)} if kind == "results" else {"spark.executor.memory": "512m"}
    for name, value in {**SETTINGS, **more}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        if kind in TASKS:
            SparkExecutor(session, "working").run(TASKS[kind], [1])
        else:
            graph = omnigraph.init(Path(folder, "ships.og"), "node Ship { code: String @key }").spark(session)
            graph.load(nodes={"Ship": session.range(1_000).selectExpr("cast(id as string) as code")})
    except OmniGraphError as error:
        sys.stdout.write(json.dumps({"message": error.message, "hint": error.hint}) + "\n")
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
