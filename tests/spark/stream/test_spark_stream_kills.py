"""Streams whose driver dies by SIGKILL around a commit: another one goes on, and every row is there once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.spark.stream.sink import AVAILABLE_NOW
from omnigraph.storage.failpoints import When
from tests.graphs import rows_of
from tests.spark.stream.spark_streams import arrive, batches, ended, streamed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
# A driver that is killed takes its Spark with it, so it is another one than that of all tests.
SCRIPT = """
import os, signal, sys
from pathlib import Path
from pyspark.sql import SparkSession
import omnigraph
from omnigraph.storage.failpoints import _arm
from tests.spark.stream.spark_streams import streamed

folder, name, when, times = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
session = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
seen = []

def die(now, step):
    if (now, step.name) == (when, name):
        seen.append(step)
        if len(seen) == times:
            os.kill(os.getpid(), signal.SIGKILL)

sg = omnigraph.open(folder / "notes.og").spark(session)
frame = streamed(session, folder / "in", "text string")
with _arm(die):
    query = sg.stream(
        frame,
        node="Note",
        mode="append",
        checkpoint=folder / "check",
        trigger="availableNow",
        on_error="quarantine",
        rejects=folder / "rejects",
    )
    query.awaitTermination()
"""


def killed(folder: Path, name: str, when: When, times: int) -> Graph:
    """A graph that three files were streamed to, by a driver that died before or after a write of its own."""
    graph = omnigraph.init(folder / "notes.og", "node Note { text: String @key }")
    for number in range(3):
        arrive(folder / "in", f"{number}.json", [{"text": f"{number} {each}"} for each in "ab"])
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    # Its Java holds the same pipes, so this ends when Java has ended too.
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), name, when, str(times)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return graph


def assert_goes_on(spark: SparkSession, graph: Graph, folder: Path) -> None:
    """Another driver brings the stream to its end, and then every row is there once."""
    query = graph.spark(spark).stream(
        streamed(spark, folder / "in", "text string"),
        node="Note",
        mode="append",
        checkpoint=folder / "check",
        trigger=AVAILABLE_NOW,
        on_error="quarantine",
        rejects=folder / "rejects",
    )
    assert ended(query) is None
    # Rows that came twice would have been turned away.
    assert not (folder / "rejects").exists()
    texts = sorted(str(row["text"]) for row in rows_of(graph, "Note"))
    assert texts == [f"{number} {each}" for number in range(3) for each in "ab"]
    assert batches(graph) == [0, 1, 2]
    assert len({commit.txn[0] for commit in graph.commits() if commit.txn}) == 1


def known_to_spark(folder: Path) -> list[str]:
    """The batches that Spark knows to be done."""
    return sorted(path.name for path in (folder / "check" / "commits").glob("[0-9]*"))


@pytest.mark.slow
def test_killed_between_the_commit_and_what_spark_knows_of_it(spark: SparkSession, tmp_path: Path) -> None:
    graph = killed(tmp_path, "table.merge", "after", 2)
    assert (batches(graph), known_to_spark(tmp_path)) == ([0, 1], ["0"])
    assert_goes_on(spark, graph, tmp_path)


# Each batch makes one of these writes. What is tried out before the first makes and removes a table too.
POINTS: dict[str, tuple[str, When, int, list[str]]] = {
    "before the tables are committed": ("table.commit", "before", 2, ["0"]),
    "before it is published": ("table.merge", "before", 2, ["0"]),
    "when all is done but what Spark writes": ("objects.delete_prefix", "after", 3, ["0"]),
    "when the next batch begins": ("table.create", "before", 4, ["0", "1"]),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "when", "times", "known"), POINTS.values(), ids=POINTS)
def test_killed_around_a_commit(
    spark: SparkSession, tmp_path: Path, name: str, when: When, times: int, known: list[str]
) -> None:
    graph = killed(tmp_path, name, when, times)
    assert known_to_spark(tmp_path) == known
    assert_goes_on(spark, graph, tmp_path)
