"""What reading a graph in Spark costs, beside Spark reading the same rows from its native Parquet.

    .venv/bin/python bench/spark_read.py [--nodes 2000000] [--edges 10000000] [--rounds 3] [--small] [--json]

The same edges lie in a graph and in plain Parquet that Spark wrote itself, ids and all. Each question is asked of both
in turns, after one round that warms them, and times are medians: all rows in all columns, an aggregate over one
column, and the few rows that a filter leaves. Lance applies the filter of the graph, which is asked for with
``filter=``, once by a column without an index and once by the id, which has one; of Parquet it is a ``where``.

Rows of a graph pass from Lance through a Python process to Spark, which Parquet does not have to. The design allows one
column twice the time of Parquet, and a lookup by id a second; it sets no ceiling for the others.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

import omnigraph
from omnigraph.graph import Graph
from peaks import Taken, clock
from spark_load import frames_of, load
from spark_rows import SCHEMA, Size, write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SMALL = Size(100_000, 500_000)
YEAR = 2001
ONE_COLUMN = "one column, summed"
ONE_ROW = "one row by its id"
AGAINST_PARQUET = 2.0
LOOKUP_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Question:
    """Something that is asked of the edges of a graph and of the same rows as Parquet."""

    what: str
    graph: Callable[[], DataFrame]
    parquet: Callable[[], DataFrame]


@dataclass(frozen=True, slots=True)
class Cost:
    """How many rows the answer has, and medians in seconds: of the clock, and of CPU in all processes."""

    what: str
    rows: int
    graph: Taken
    parquet: Taken


def questions(graph: Graph, parquet: DataFrame, some_id: str) -> list[Question]:
    """All questions."""
    spark = graph.spark()
    year = [("since", "=", YEAR)]
    return [
        Question("all rows, all columns", lambda: spark.edges("Knows"), lambda: parquet),
        Question(
            ONE_COLUMN,
            lambda: spark.edges("Knows", ["since"]).selectExpr("sum(since)"),
            lambda: parquet.selectExpr("sum(since)"),
        ),
        Question(
            "rows of one year",
            lambda: spark.edges("Knows", filter=year),
            lambda: parquet.where(f"since = {YEAR}"),
        ),
        Question(
            ONE_ROW,
            lambda: spark.edges("Knows", filter={"id": some_id}),
            lambda: parquet.where(f"id = '{some_id}'"),
        ),
    ]


def measure(folder: Path, size: Size, rounds: int) -> list[Cost]:
    """Ask each question of both sides in turns."""
    write_files(folder, size, csv=False)
    graph = omnigraph.init(folder / "graph.og", SCHEMA)
    spark = graph.spark()
    spark.session.sparkContext.setLogLevel("ERROR")
    load(graph, frames_of(spark.session, folder, "parquet"))
    graph.ensure_indexes(types=["Knows"])
    spark.edges("Knows").write.parquet(str(folder / "knows"))
    parquet = spark.session.read.parquet(str(folder / "knows"))
    some_id = cast(str, parquet.selectExpr("max(id)").collect()[0][0])
    return [_cost(question, rounds) for question in questions(graph, parquet, some_id)]


def _cost(question: Question, rounds: int) -> Cost:
    counts = question.graph().count(), question.parquet().count()
    assert counts[0] == counts[1], f"{question.what}: {counts}"
    taken = [
        (clock(lambda: _drained(question.graph())), clock(lambda: _drained(question.parquet()))) for _ in range(rounds)
    ]
    graph, parquet = (
        Taken(median(each.seconds for each in side), median(each.cpu for each in side))
        for side in zip(*taken, strict=True)
    )
    return Cost(question.what, counts[0], graph, parquet)


def _drained(frame: DataFrame) -> None:
    """Make Spark compute every row and column, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def table(size: Size, costs: list[Cost], load_before: float) -> str:
    """Everything as one text table."""
    heads = ("rows", "graph, s", "Parquet, s", "ratio", "graph, CPU", "Parquet, CPU", "ratio")
    lines = [f"{f'{size.edges:,} edges':<32}" + "".join(f"{head:>14}" for head in heads)]
    lines += [
        f"  {cost.what:<30}{cost.rows:>14,}"
        + "".join(
            f"{graph:>14.2f}{parquet:>14.2f}{f'{graph / parquet:.2f} x':>14}"
            for graph, parquet in ((cost.graph.seconds, cost.parquet.seconds), (cost.graph.cpu, cost.parquet.cpu))
        )
        + _judge(cost)
        for cost in costs
    ]
    return "\n".join([*lines, f"load of the machine: {load_before:.1f} before, {os.getloadavg()[0]:.1f} after"])


def _judge(cost: Cost) -> str:
    graph, parquet = cost.graph.seconds, cost.parquet.seconds
    if cost.what == ONE_COLUMN:
        return f"   ceiling {AGAINST_PARQUET:g} x {'ok' if graph <= AGAINST_PARQUET * parquet else 'MISSED'}"
    if cost.what == ONE_ROW:
        return f"   ceiling {LOOKUP_SECONDS:g} s {'ok' if graph <= LOOKUP_SECONDS else 'MISSED'}"
    return ""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="what reading a graph in Spark costs beside native Parquet")
    parser.add_argument("--nodes", type=int, default=2_000_000, help="how many nodes the graph has")
    parser.add_argument("--edges", type=int, default=10_000_000, help="how many edges are read")
    parser.add_argument("--rounds", type=int, default=3, help="how often each question is asked")
    parser.add_argument("--small", action="store_true", help=f"{SMALL.nodes:,} nodes and {SMALL.edges:,} edges instead")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if min(options.nodes, options.edges, options.rounds) < 1:
        parser.error("all numbers must be at least 1")
    size, load_before = SMALL if options.small else Size(options.nodes, options.edges), os.getloadavg()[0]
    with TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        costs = measure(Path(folder), size, options.rounds)
    print(json.dumps([asdict(cost) for cost in costs], indent=2) if options.json else table(size, costs, load_before))


if __name__ == "__main__":
    main()
