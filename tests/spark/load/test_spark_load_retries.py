"""A task that fails twice and then succeeds: Spark repeats it, and its rows are loaded once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph
from tests.graphs import rows_of

# A session whose tasks may fail is another one than that of all tests, and there is one in a process.
SCRIPT = """
import sys
from pathlib import Path
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
import omnigraph
from omnigraph.spark.load import incoming_rows as load_incoming

folder = Path(sys.argv[1])
settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.speculation": "true"}
builder = SparkSession.builder.master("local[2,3]")
for name, value in settings.items():
    builder = builder.config(name, value)
session = builder.getOrCreate()
load_incoming.LOCAL_LOAD_ROWS = 0

def unsteady(batches):
    context = TaskContext.get()
    for batch in batches:
        codes = [f"s{each}" for each in batch.column(0).to_pylist()]
        for code in codes:
            (folder / f"{code}.{context.attemptNumber()}").touch()
        yield pa.record_batch({"code": codes, "name": codes})
    if context.partitionId() == 1 and context.attemptNumber() < 2:
        raise ValueError("not yet")

graph = omnigraph.open(folder / "ships.og")
ships = session.range(0, 6, 1, 3).mapInArrow(unsteady, "code string, name string")
graph.spark(session).load(nodes={"Ship": ships}, mode="merge")
session.stop()
"""


@pytest.mark.slow
def test_a_task_that_fails_twice_is_loaded_once(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "ships.og", "node Ship { code: String @key  name: String }")
    graph.load([{"type": "Ship", "data": {"code": f"s{number}", "name": "old"}} for number in (0, 3, 9)])
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    attempts = sorted(path.name for path in tmp_path.glob("s2.*"))
    assert attempts == ["s2.0", "s2.1", "s2.2"]
    names = sorted((str(row["code"]), str(row["name"])) for row in rows_of(graph, "Ship"))
    assert names == [*((f"s{number}", f"s{number}") for number in range(6)), ("s9", "old")]
