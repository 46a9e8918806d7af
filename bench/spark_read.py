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
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

import omnigraph
from omnigraph.graph import Graph
from publish import milliseconds
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
    """Medians in seconds, and how many rows the answer has."""

    what: str
    rows: int
    graph: float
    parquet: float


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
        (milliseconds(lambda: _drained(question.graph())), milliseconds(lambda: _drained(question.parquet())))
        for _ in range(rounds)
    ]
    graph, parquet = (median(each) / 1000 for each in zip(*taken, strict=True))
    return Cost(question.what, counts[0], graph, parquet)


def _drained(frame: DataFrame) -> None:
    """Make Spark compute every row and column, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def table(size: Size, costs: list[Cost]) -> str:
    """Everything as one text table."""
    lines = [f"{f'{size.edges:,} edges':<32}{'rows':>12}{'graph, s':>12}{'Parquet, s':>12}{'ratio':>10}"]
    lines += [
        f"  {cost.what:<30}{cost.rows:>12,}{cost.graph:>12.2f}{cost.parquet:>12.2f}"
        f"{f'{cost.graph / cost.parquet:.2f} x':>10}{_judge(cost)}"
        for cost in costs
    ]
    return "\n".join(lines)


def _judge(cost: Cost) -> str:
    if cost.what == ONE_COLUMN:
        return f"   ceiling {AGAINST_PARQUET:g} x {'ok' if cost.graph <= AGAINST_PARQUET * cost.parquet else 'MISSED'}"
    if cost.what == ONE_ROW:
        return f"   ceiling {LOOKUP_SECONDS:g} s {'ok' if cost.graph <= LOOKUP_SECONDS else 'MISSED'}"
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
    size = SMALL if options.small else Size(options.nodes, options.edges)
    with TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        costs = measure(Path(folder), size, options.rounds)
    print(json.dumps([asdict(cost) for cost in costs], indent=2) if options.json else table(size, costs))


if __name__ == "__main__":
    main()
