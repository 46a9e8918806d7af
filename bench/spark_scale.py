"""What grows when a graph grows: a day of work on Spark, at several sizes in one run.

    .venv/bin/python bench/spark_scale.py [--edges 1000000 10000000] [--ranks] [--small] [--folder /disk]

At each size: load all nodes and edges as one commit, build the indexes of ids and ends, merge one edge in a hundred
with another value, once edges from anywhere and once those whose ids are neighbours, create a branch, merge one edge in
a thousand there, compare the branch with main, count the edges of each year by a query, and find the neighbours of one
person. Beside the seconds: CPU seconds of all processes, the bytes that went through shuffles, those that executors
read from files, and after each step the peaks of this process, of Java and of the largest Python process of an
executor; at the end the files of the graph. Each size has a process of its own, whose first load also starts the
workers. With ``--ranks`` the day is another one: after the load and the indexes, PageRank in ten rounds, which first
cuts the edges into blocks, and then finds them. Every step is printed when it is done, for runs of which only a part is
seen.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import omnigraph
from omnigraph.graph import Graph
from peaks import clock, peak_mb, peak_mb_of_children, read_mb_of_children
from spark_load import frames_of, load
from spark_rows import SCHEMA, Size, write_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZES = (1_000_000, 10_000_000)
SMALL = (50_000, 200_000)
EDGES_PER_NODE = 5
BRANCH = "review"
SAMPLED = 20_000

BY_YEAR = """
query by_year() { match { $p: Person  $p $k:knows $q } return { $k.since as year, count($q) as many } order { year } }
"""
FRIENDS = """
query friends($name: String) { match { $p: Person { name: $name }  $p knows $q } return { $q.name } }
"""


@dataclass(frozen=True, slots=True)
class Step:
    """What one step took, the bytes that its shuffles wrote, and what the Python processes of executors read.

    The peaks, in MB, are those since the beginning, when the step is over.
    """

    what: str
    rows: int
    seconds: float
    cpu: float
    shuffled_bytes: int
    read_mb: int
    driver_mb: int
    java_mb: int
    worker_mb: int

    def __str__(self) -> str:
        moved = f"{self.shuffled_bytes / 2**20:,.0f} MB shuffled, {self.read_mb:,} MB read"
        peaks = f"peaks {self.driver_mb:,} {self.java_mb:,} {self.worker_mb:,} MB"
        return f"{self.what}: {self.rows:,} rows, {self.seconds:,.1f} s, {self.cpu:,.1f} s of CPU, {moved}, {peaks}"


@dataclass(frozen=True, slots=True)
class Day:
    """All steps at one size, the graph in the end, and the load of the machine before and after."""

    edges: int
    steps: tuple[Step, ...]
    graph_mb: int
    files: int
    machine: tuple[float, float]


Measure: TypeAlias = Callable[[str, Callable[[], int]], None]
"""Take what a step is called and the step, which returns how many rows it was about."""


def live_one_day(folder: Path, edges: int, work: Callable[[Graph, Path, Measure], None]) -> Day:
    """Load all rows in this process, then work with them."""
    size, load_before = Size(max(1, edges // EDGES_PER_NODE), edges), os.getloadavg()[0]
    write_files(folder, size, csv=False)
    graph = omnigraph.init(folder / "graph.og", SCHEMA)
    spark = graph.spark().session
    spark.sparkContext.setLogLevel("ERROR")
    steps: list[Step] = []

    def measure(what: str, step: Callable[[], int]) -> None:
        rows: list[int] = []
        before, read = read_shuffled_bytes(spark), read_mb_of_children()
        taken = clock(lambda: rows.append(step()))
        shuffled, read = read_shuffled_bytes(spark) - before, read_mb_of_children() - read
        peaks = peak_mb_of_children()
        steps.append(Step(what, rows[0], taken.seconds, taken.cpu, shuffled, read, peak_mb(), peaks.java, peaks.python))
        print(steps[-1], file=sys.stderr, flush=True)

    measure("load, one commit", lambda: load_all(graph, spark, folder, size))
    work(graph, folder, measure)
    megabytes, files = measure_files(folder / "graph.og")
    spark.stop()
    return Day(edges, tuple(steps), megabytes, files, (load_before, os.getloadavg()[0]))


def write_and_ask(graph: Graph, folder: Path, measure: Measure) -> None:
    """Do what follows each other in a day."""
    measure("indexes of ids and ends", lambda: build_indexes(graph))
    write_share(graph, folder / "scattered", "pmod(xxhash64(id), 100) = 7")
    measure("merge of 1 %, scattered", lambda: merge_files(graph, folder / "scattered", "main"))
    graph.spark().ensure_indexes()
    write_share(graph, folder / "neighbours", f"id < '{find_quantile(graph, 100)}'")
    measure("merge of 1 %, neighbours", lambda: merge_files(graph, folder / "neighbours", "main"))
    measure("branch", lambda: create_branch(graph))
    write_share(graph, folder / "few", "pmod(xxhash64(id), 1000) = 7")
    measure("merge of 0.1 % on the branch", lambda: merge_files(graph, folder / "few", BRANCH))
    measure("diff with main", lambda: graph.spark().diff("main", BRANCH).count())
    measure("edges by year", lambda: len(graph.spark().query(BY_YEAR).collect()))
    measure("neighbours of one", lambda: len(graph.spark().query(FRIENDS, params={"name": "person-7"}).collect()))


def rank_people(graph: Graph, folder: Path, measure: Measure) -> None:
    """Rank all people by whom they know, twice, in a graph with its indexes, as loads leave it."""
    del folder
    measure("indexes of ids and ends", lambda: build_indexes(graph))
    with graph.spark() as opened:
        people = opened.analytics.project(["Person"], ["Knows"])
        measure("PageRank, ten rounds", lambda: len(people.pagerank(iterations=10)))
        measure("PageRank again", lambda: len(people.pagerank(iterations=10)))


def load_all(graph: Graph, spark: SparkSession, folder: Path, size: Size) -> int:
    """Load all rows as one commit."""
    load(graph, frames_of(spark, folder, "parquet"))
    return size.rows


def build_indexes(graph: Graph) -> int:
    """Build the indexes that the load left out."""
    graph.spark().ensure_indexes()
    return sum(pin.row_count for pin in graph.snapshot().pins.values())


def write_share(graph: Graph, folder: Path, condition: str) -> None:
    """Write the edges that meet a condition as Parquet, with another value."""
    edges = graph.spark().edges("Knows").where(condition)
    edges.selectExpr("id", "`from`", "`to`", "since + 1 as since").write.parquet(str(folder))


def find_quantile(graph: Graph, share: int) -> str:
    """The id below which about one edge in so many lies, as a sample tells."""
    one_in = max(1, graph.snapshot().pins["edge:Knows"].row_count // SAMPLED)
    ids = graph.spark().edges("Knows", ["id"]).where(f"pmod(xxhash64(id), {one_in}) = 0").collect()
    return sorted(cast(str, row[0]) for row in ids)[len(ids) // share]


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
    """Each step with its seconds, of the clock and of CPU, and its bytes; then the peaks; a column for each size."""
    width = 52
    head = "".join(f"{f'{day.edges:,} edges':>{width}}" for day in days)
    lines = [f"{'':<32}{head}"]
    for row in zip(*(day.steps for day in days), strict=True):
        cells = (
            f"{step.seconds:,.1f} s, CPU {step.cpu:,.1f} s  {step.shuffled_bytes / 2**20:,.0f} MB shuffled"
            f"  {step.read_mb:,} MB read"
            for step in row
        )
        lines.append(f"{row[0].what:<32}" + "".join(f"{cell:>{width}}" for cell in cells))
    last = [day.steps[-1] for day in days]
    for what, cells in (
        ("peak of this process", [f"{step.driver_mb:,} MB" for step in last]),
        ("peak of Java", [f"{step.java_mb:,} MB" for step in last]),
        ("largest Python process", [f"{step.worker_mb:,} MB" for step in last]),
        ("graph on disk", [f"{day.graph_mb:,} MB in {day.files:,} files" for day in days]),
        ("load of the machine", ["{:.1f} before, {:.1f} after".format(*day.machine) for day in days]),
    ):
        lines.append(f"{what:<32}" + "".join(f"{cell:>{width}}" for cell in cells))
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="what grows when a graph grows, on Spark")
    parser.add_argument("--edges", type=int, nargs="+", default=list(SIZES), help="the sizes")
    parser.add_argument("--ranks", action="store_true", help="only load, and rank the nodes")
    parser.add_argument("--small", action="store_true", help="two small sizes, for a look")
    parser.add_argument("--folder", type=Path, help="where files are made; else where the system keeps temporary ones")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    days: list[Day] = []
    work = rank_people if options.ranks else write_and_ask
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        for edges in SMALL if options.small else options.edges:
            with TemporaryDirectory(prefix="omnigraph-bench-", dir=options.folder) as folder:
                days.append(pool.submit(live_one_day, Path(folder), edges, work).result())
    print(json.dumps([asdict(day) for day in days], indent=2) if options.json else table(days))


if __name__ == "__main__":
    main()
