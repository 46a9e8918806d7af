"""What the tests of streams share: a folder of files that Spark streams, and the end of a query."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.graph import Graph
from omnigraph.manifest.rows import MAIN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SHIPS = "code string, name string"


def arrive(folder: Path, name: str, rows: Iterable[Mapping[str, object]]) -> None:
    """A new file in a folder that is streamed."""
    folder.mkdir(exist_ok=True)
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    # Spark skips what begins with a point, so it never sees half a file.
    (folder / f".{name}").write_text(text, "utf-8")
    # It takes them in the order of their times, which may be the same.
    at = 1_800_000_000 + len(list(folder.iterdir()))
    os.utime(folder / f".{name}", (at, at))
    (folder / f".{name}").rename(folder / name)


def streamed(spark: SparkSession, folder: Path, schema: str = SHIPS) -> DataFrame:
    """The files of a folder, each as a batch of its own."""
    folder.mkdir(exist_ok=True)
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").json(str(folder))


def ended(query: StreamingQuery) -> str | None:
    """Wait for a query that reads what is available; what it failed of, if it did."""
    from pyspark.errors import StreamingQueryException

    try:
        query.awaitTermination()
    except StreamingQueryException:
        return str(query.exception())
    return None


def batches(graph: Graph, branch: str = MAIN) -> list[int]:
    """The numbers of the batches that are commits, oldest first."""
    return [commit.txn[1] for commit in reversed(graph.commits(branch)) if commit.txn is not None]
