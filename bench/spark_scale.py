"""What grows when a graph grows: a day of work on Spark, at several sizes in one run.

    .venv/bin/python bench/spark_scale.py [--edges 1000000 10000000] [--small] [--json]

At each size: load all nodes and edges as one commit, merge one edge in a hundred with another value, once edges from
anywhere and once those whose ids are neighbours, create a branch, merge one edge in a thousand there, compare the
branch with main, count the edges of each year by a query, and find the neighbours of one person. Beside the seconds:
the peaks of this process, of Java and of the largest Python process of an executor, the bytes that went through
shuffles, those that executors read from files, and the files of the graph. Each size has a process of its own, whose
first load also starts the workers.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import functions as fn

import omnigraph
from omnigraph.graph import Graph
from peaks import peak_mb, peak_mb_of_children, read_mb_of_children
from publish import milliseconds
from spark_load import frames_of, load
from spark_rows import SCHEMA, Size, write_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZES = (1_000_000, 10_000_000)
SMALL = (50_000, 200_000)
EDGES_PER_NODE = 5
BRANCH = "review"

BY_YEAR = """
query by_year() { match { $p: Person  $p $k:knows $q } return { $k.since as year, count($q) as many } order { year } }
"""
FRIENDS = """
query friends($name: String) { match { $p: Person { name: $name }  $p knows $q } return { $q.name } }
"""


@dataclass(frozen=True, slots=True)
class Step:
    """What one step took, the bytes that its shuffles wrote, and what the Python processes of executors read."""

    what: str
    rows: int
    seconds: float
    shuffled_bytes: int
    read_mb: int


@dataclass(frozen=True, slots=True)
class Day:
    """All steps at one size, and what was largest in the end, in MB."""

    edges: int
    steps: tuple[Step, ...]
    driver_mb: int
    java_mb: int
    worker_mb: int
    graph_mb: int
    files: int


def live_one_day(folder: Path, edges: int) -> Day:
    """Do all steps in this process."""
    size = Size(max(1, edges // EDGES_PER_NODE), edges)
    write_files(folder, size, csv=False)
    graph = omnigraph.init(folder / "graph.og", SCHEMA)
    spark = graph.spark().session
    spark.sparkContext.setLogLevel("ERROR")
    steps: list[Step] = []

    def measure(what: str, work: Callable[[], int]) -> None:
        rows: list[int] = []
        before, read = read_shuffled_bytes(spark), read_mb_of_children()
        seconds = milliseconds(lambda: rows.append(work())) / 1000
        shuffled, read = read_shuffled_bytes(spark) - before, read_mb_of_children() - read
        steps.append(Step(what, rows[0], seconds, shuffled, read))

    measure("load, one commit", lambda: load_all(graph, spark, folder, size))
    write_share(graph, folder / "scattered", 100, "xxhash64(id)")
    measure("merge of 1 %, scattered", lambda: merge_files(graph, folder / "scattered", "main"))
    graph.spark().ensure_indexes()
    write_share(graph, folder / "neighbours", 100, "id")
    measure("merge of 1 %, neighbours", lambda: merge_files(graph, folder / "neighbours", "main"))
    measure("branch", lambda: create_branch(graph))
    write_share(graph, folder / "few", 1000, "xxhash64(id)")
    measure("merge of 0.1 % on the branch", lambda: merge_files(graph, folder / "few", BRANCH))
    measure("diff with main", lambda: graph.spark().diff("main", BRANCH).count())
    measure("edges by year", lambda: len(graph.spark().query(BY_YEAR).collect()))
    measure("neighbours of one", lambda: len(graph.spark().query(FRIENDS, params={"name": "person-7"}).collect()))
    children = peak_mb_of_children()
    megabytes, files = measure_files(folder / "graph.og")
    spark.stop()
    return Day(edges, tuple(steps), peak_mb(), children.java, children.python, megabytes, files)


def load_all(graph: Graph, spark: SparkSession, folder: Path, size: Size) -> int:
    """Load all rows as one commit."""
    load(graph, frames_of(spark, folder, "parquet"))
    return size.rows


def write_share(graph: Graph, folder: Path, share: int, order: str) -> None:
    """Write one edge in so many as Parquet, with another value: the first ones in an order."""
    edges = graph.spark().edges("Knows").selectExpr("id", "`from`", "`to`", "since + 1 as since")
    first = edges.orderBy(fn.expr(order)).limit(graph.snapshot().pins["edge:Knows"].row_count // share)
    first.repartition(2).write.parquet(str(folder))


def merge_files(graph: Graph, folder: Path, branch: str) -> int:
    """Merge the edges of some files; how many those are."""
    knows = graph.spark().session.read.parquet(str(folder))
    done = graph.spark().load(edges={"Knows": knows}, mode="merge", branch=branch, indexes="never")
    return done.edges["Knows"]


def create_branch(graph: Graph) -> int:
    """Create a branch of main; no row is touched."""
    graph.create_branch(BRANCH)
    return 0


def read_shuffled_bytes(spark: SparkSession) -> int:
    """The bytes that shuffles have written so far, as Spark counts them."""
    # Spark has no Python API for it.
    store = cast("Any", spark.sparkContext)._jsc.sc().statusStore()  # noqa: SLF001
    executors = store.executorList(True)  # noqa: FBT003  an argument of Java
    return sum(executors.apply(each).totalShuffleWrite() for each in range(executors.size()))


def measure_files(root: Path) -> tuple[int, int]:
    """The size of a graph on disk in MB, and the number of its data files."""
    sizes = [file.stat().st_size for file in root.rglob("*") if file.is_file()]
    return sum(sizes) // 2**20, sum(1 for file in root.rglob("*.lance") if file.parent.name == "data")


# ------------------------------------------------------------------------------------------------ printing


def table(days: list[Day]) -> str:
    """Each step with its seconds, rows a second and shuffled bytes, a column for each size."""
    width = 44
    head = "".join(f"{f'{day.edges:,} edges':>{width}}" for day in days)
    lines = [f"{'':<32}{head}"]
    for row in zip(*(day.steps for day in days), strict=True):
        cells = (
            f"{step.seconds:,.1f} s  {step.shuffled_bytes / 2**20:,.0f} MB shuffled  {step.read_mb:,} MB read"
            for step in row
        )
        lines.append(f"{row[0].what:<32}" + "".join(f"{cell:>{width}}" for cell in cells))
    for what, cells in (
        ("peak of this process", [f"{day.driver_mb:,} MB" for day in days]),
        ("peak of Java", [f"{day.java_mb:,} MB" for day in days]),
        ("largest Python process", [f"{day.worker_mb:,} MB" for day in days]),
        ("graph on disk", [f"{day.graph_mb:,} MB in {day.files:,} files" for day in days]),
    ):
        lines.append(f"{what:<32}" + "".join(f"{cell:>{width}}" for cell in cells))
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="what grows when a graph grows, on Spark")
    parser.add_argument("--edges", type=int, nargs="+", default=list(SIZES), help="the sizes")
    parser.add_argument("--small", action="store_true", help="two small sizes, for a look")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    days: list[Day] = []
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        for edges in SMALL if options.small else options.edges:
            with TemporaryDirectory(prefix="omnigraph-bench-") as folder:
                days.append(pool.submit(live_one_day, Path(folder), edges).result())
    print(json.dumps([asdict(day) for day in days], indent=2) if options.json else table(days))


if __name__ == "__main__":
    main()
