"""What a load on Spark costs: fully checked and published, beside Spark writing the same rows as plain Parquet.

    .venv/bin/python bench/spark_load.py [--nodes 2000000] [--edges 10000000] [--rounds 1] [--small] [--json]

The rows lie in files of Parquet and of CSV, made before anything is measured. One Spark, the local one that
``graph.spark()`` starts, reads them and writes them as plain Parquet without any check, and loads them into a graph: in
turns, so that a busy machine slows both alike, after a small one of each that starts the workers. A load takes frames
that Spark reads, or the names of Parquet files, which its tasks read themselves. The graph holds one column more than
the files, the ids. Then one row in a hundred is loaded once more with another value, in mode "merge",
and the indexes on ids and ends are built. The same rows are also written with ``pylance`` alone, without any check, in
a process of its own.

The driver is this process without Java, which in a local Spark also is the executor. Its peak is compared with
that of a load of a quarter of the rows, each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

import lance
import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph
from omnigraph.graph import Graph
from omnigraph.storage.columns import column_of
from omnigraph.write.row_values import generate_ids
from peaks import Taken, clock, peak_mb, peak_mb_of_children
from publish import Promise
from spark_rows import COLUMNS, SCHEMA, Size, write_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Format = Literal["parquet", "csv"]
AGAINST_PARQUET = 2.0
"""What the design allows, for a load from either format against Spark writing the same rows as Parquet from it."""
WITH_INDEXES = 4.0
"""The same, with the indexes on ids and ends built after the load."""
INDEXES = "indexes of ids and ends"
FLAT = 1.25
"""A driver whose memory does not grow with the rows may still keep what their files and fragments are called."""
SMALL = Size(100_000, 500_000)
WARM = Size(1_000, 5_000)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one way to write the rows took."""

    way: str
    rows: int
    seconds: float
    cpu: float = 0.0
    """In seconds, of this process, Java and the Python processes of executors: other work does not slow it."""

    @property
    def rows_per_second(self) -> float:
        """Nodes and edges alike."""
        return self.rows / self.seconds


@dataclass(frozen=True, slots=True)
class OnSpark:
    """What was measured in one process with one Spark, and the largest resident sizes of that process in MB.

    ``worker_mb`` is that of the largest Python process of an executor, ``graph_mb`` what a loaded graph has on disk.
    """

    costs: tuple[Cost, ...]
    before_mb: int
    peak_mb: int
    worker_mb: int
    graph_mb: int


# ------------------------------------------------------------------------------------------------ the ways to write


def frames_of(spark: SparkSession, folder: Path, format_: Format) -> dict[str, DataFrame]:
    """The files of a folder as frames, by type."""
    if format_ == "parquet":
        return {name: spark.read.parquet(str(folder / f"{name}.parquet")) for name in COLUMNS}
    return {
        name: spark.read.csv(str(folder / f"{name}.csv"), schema=columns, header=True)
        for name, columns in COLUMNS.items()
    }


def write_parquet(frames: dict[str, DataFrame], target: Path) -> None:
    """What Spark does by itself."""
    for name, frame in frames.items():
        frame.write.parquet(str(target / name))


def load(graph: Graph, frames: dict[str, DataFrame]) -> None:
    """All of it as one commit."""
    graph.spark().load(nodes={"Person": frames["Person"]}, edges={"Knows": frames["Knows"]}, indexes="never")


def load_files(graph: Graph, folder: Path) -> None:
    """The same from Parquet files by their names: tasks read them, and no row travels from Java to Python."""
    person, knows = (str(folder / f"{name}.parquet") for name in ("Person", "Knows"))
    graph.load(nodes={"Person": person}, edges={"Knows": knows}, engine="spark", indexes="never")


def upsert(graph: Graph) -> int:
    """Load one row in a hundred once more with another value; how many those are."""
    spark = graph.spark()
    people = (
        spark.nodes("Person", ["name", "age"])
        .where("pmod(xxhash64(name), 100) = 7")
        .selectExpr("name", "age + 1 as age")
    )
    knows = (
        spark.edges("Knows")
        .where("pmod(xxhash64(id), 100) = 7")
        .selectExpr("id", "`from`", "`to`", "since + 1 as since")
    )
    loaded = spark.load(nodes={"Person": people}, edges={"Knows": knows}, mode="merge", indexes="never")
    return loaded.nodes["Person"] + loaded.edges["Knows"]


def write_raw(folder: Path, size: Size) -> Cost:
    """The rows as they lie in a graph, read from Parquet and written as two datasets that nothing checks."""

    def rows(name: str) -> pa.RecordBatchReader:
        file = pq.ParquetFile(str(folder / f"{name}.parquet"))
        schema = file.schema_arrow.insert(0, pa.field("id", pa.string()))

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in file.iter_batches(65_536):
                ids = column_of(batch, "name") if name == "Person" else generate_ids(batch.num_rows)
                yield pa.RecordBatch.from_arrays([ids, *batch.columns], schema=schema)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def write() -> None:
        for name in COLUMNS:
            lance.write_dataset(
                rows(name), folder / "raw" / name, data_storage_version="2.2", enable_stable_row_ids=True
            )

    taken = clock(write)
    return Cost("raw pylance", size.rows, taken.seconds, taken.cpu)


# ------------------------------------------------------------------------------------------------ measuring


def measure_on_spark(folder: Path, size: Size, formats: tuple[Format, ...], rounds: int, *, peers: bool) -> OnSpark:
    """Load from each format, and with peers write plain Parquet from it in turns, and load one in a hundred anew."""
    spark = _started(folder)
    before, worker_mb, graph_mb = peak_mb(), 0, 0
    costs: list[Cost] = []
    for format_ in formats:
        frames = frames_of(spark, folder, format_)
        ways: dict[str, Callable[[Path], object]] = {
            f"load, {format_}": lambda target, frames=frames: load(omnigraph.open(target), frames)
        }
        if peers and format_ == "parquet":
            ways[f"load by name, {format_}"] = lambda target: load_files(omnigraph.open(target), folder)
        if peers:
            ways[f"plain Parquet, {format_}"] = lambda target, frames=frames: write_parquet(frames, target)
        taken: dict[str, list[Taken]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, work in ways.items():
                taken[way].append(_taken(folder, work, graph=way.startswith("load")))
                worker_mb = max(worker_mb, peak_mb_of_children().python)
        costs += [
            Cost(way, size.rows, median(each.seconds for each in all_), median(each.cpu for each in all_))
            for way, all_ in taken.items()
        ]
    if peers:
        changed, graph_mb = _of_changes(folder, spark, size)
        costs += changed
    spark.stop()
    return OnSpark(tuple(costs), before, peak_mb(), worker_mb, graph_mb)


def _started(folder: Path) -> SparkSession:
    """A Spark whose workers run, once a few rows went every way."""
    with TemporaryDirectory(dir=folder) as name:
        few = Path(name)
        write_files(few, WARM, csv=True)
        graph = omnigraph.init(few / "graph.og", SCHEMA)
        spark = graph.spark().session
        spark.sparkContext.setLogLevel("ERROR")
        load(graph, frames_of(spark, few, "csv"))
        upsert(graph)
        load_files(omnigraph.init(few / "files.og", SCHEMA), few)
        write_parquet(frames_of(spark, few, "csv"), few / "plain")
    return spark


def _taken(folder: Path, work: Callable[[Path], object], *, graph: bool) -> Taken:
    """What a way took, to a place of its own."""
    target = folder / "written"
    if graph:
        omnigraph.init(target, SCHEMA)
    taken = clock(lambda: work(target))
    shutil.rmtree(target)
    return taken


def _of_changes(folder: Path, spark: SparkSession, size: Size) -> tuple[list[Cost], int]:
    """What is done to a graph that is there: one row in a hundred anew, and its indexes; and its size in MB before."""
    target = folder / "changed"
    graph = omnigraph.init(target, SCHEMA)
    load(graph, frames_of(spark, folder, "parquet"))
    graph_mb = sum(file.stat().st_size for file in target.rglob("*") if file.is_file()) // 2**20
    rows: list[int] = []
    upserted = clock(lambda: rows.append(upsert(graph)))
    indexed = clock(lambda: graph.spark().ensure_indexes())
    shutil.rmtree(target)
    costs = [
        Cost("upsert of 1 %", rows[0], upserted.seconds, upserted.cpu),
        Cost(INDEXES, size.rows, indexed.seconds, indexed.cpu),
    ]
    return costs, graph_mb


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that was measured."""

    size: Size
    raw: Cost
    quarter: OnSpark
    whole: OnSpark

    def cost(self, way: str) -> Cost:
        """What one way took."""
        return next(cost for cost in self.whole.costs if cost.way == way)

    def promises(self) -> list[Promise]:
        """The ceilings of the design, beside what was measured."""
        loads = [cost for cost in self.whole.costs if cost.way.startswith("load")]
        kept: list[Promise] = []
        indexes = self.cost(INDEXES)
        for cost in loads:
            plain, name = self.cost(_plain(cost)), f"{cost.way} / plain Parquet"
            both = cost.seconds + indexes.seconds, cost.cpu + indexes.cpu
            kept += [
                Promise(name, cost.seconds / plain.seconds, AGAINST_PARQUET, "x"),
                Promise(f"{name}, CPU", cost.cpu / plain.cpu, AGAINST_PARQUET, "x"),
                Promise(f"{name}, with indexes", both[0] / plain.seconds, WITH_INDEXES, "x"),
                Promise(f"{name}, with indexes, CPU", both[1] / plain.cpu, WITH_INDEXES, "x"),
            ]
        grown = self.whole.peak_mb / self.quarter.peak_mb
        return [*kept, Promise("driver's peak, all / a quarter of the rows", grown, FLAT, "x")]


def _plain(cost: Cost) -> str:
    return f"plain Parquet, {cost.way.rpartition(', ')[2]}"


def measure(folder: Path, size: Size, formats: tuple[Format, ...], rounds: int) -> Found:
    """Everything, each part in a process of its own."""
    whole, quarter = folder / "whole", folder / "quarter"
    for part, rows in ((whole, size), (quarter, size.part(4))):
        part.mkdir()
        write_files(part, rows, csv="csv" in formats and rows == size)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        raw = pool.submit(write_raw, whole, size).result()
        less = pool.submit(measure_on_spark, quarter, size.part(4), ("parquet",), 1, peers=False).result()
        all_ = pool.submit(measure_on_spark, whole, size, formats, rounds, peers=True).result()
    return Found(size, raw, less, all_)


# ------------------------------------------------------------------------------------------------ printing


def table(found: Found) -> str:
    """Everything as one text table."""
    title = f"{found.size.nodes:,} nodes, {found.size.edges:,} edges"
    lines = [f"{title:<52}{'seconds':>12}{'CPU, s':>12}{'rows/s':>12}"]
    lines += [
        f"  {cost.way:<50}{cost.seconds:>12.1f}{cost.cpu:>12.1f}{cost.rows_per_second:>12,.0f}"
        for cost in (found.raw, *found.whole.costs)
    ]
    lines += ["", f"{'driver':<44}{'RSS before':>12}{'peak RSS':>12}"]
    lines += [
        f"  {what:<42}{f'{each.before_mb:,} MB':>12}{f'{each.peak_mb:,} MB':>12}"
        for what, each in (("a quarter of the rows", found.quarter), ("all rows", found.whole))
    ]
    sizes = f"largest Python worker {found.whole.worker_mb:,} MB, graph on disk {found.whole.graph_mb:,} MB"
    lines += ["", sizes, "", f"{'promise':<52}{'measured':>12}{'ceiling':>12}"]
    lines += [
        f"{promise.what:<52}{f'{promise.measured:.2f} {promise.unit}':>12}{f'{promise.ceiling:g} {promise.unit}':>12}"
        f"   {'holds' if promise.holds else 'DOES NOT HOLD'}"
        for promise in found.promises()
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="what loads on Spark cost beside Spark writing plain Parquet")
    parser.add_argument("--nodes", type=int, default=2_000_000, help="how many nodes are loaded")
    parser.add_argument("--edges", type=int, default=10_000_000, help="how many edges are loaded")
    parser.add_argument("--rounds", type=int, default=1, help="how often each way is measured; the median counts")
    parser.add_argument("--small", action="store_true", help=f"{SMALL.nodes:,} nodes and {SMALL.edges:,} edges instead")
    parser.add_argument("--no-csv", action="store_true", help="from Parquet only")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if min(options.nodes, options.edges, options.rounds) < 1:
        parser.error("all numbers must be at least 1")
    size = SMALL if options.small else Size(options.nodes, options.edges)
    with TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        found = measure(Path(folder), size, ("parquet",) if options.no_csv else ("parquet", "csv"), options.rounds)
    if options.json:
        promises = [{**asdict(promise), "holds": promise.holds} for promise in found.promises()]
        print(json.dumps({**asdict(found), "promises": promises}, indent=2))
    else:
        print(table(found))


if __name__ == "__main__":
    main()
