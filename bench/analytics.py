"""Algorithms over a power-law graph: ours, from stored tables to a result, beside other libraries and Spark.

``python bench/analytics.py [SCALE] [EDGES] [--spark|--sizes|--ids|--write]``: 2**SCALE nodes. Figures are CPU seconds
of one run, so that other work on the machine does not matter much; ``cold`` reads the tables, ``warm`` finds the arrays
in the cache. Libraries that are installed (``analytics_peers.py``) begin with the ends of edges as numbers, ours with
the tables. So there are two ratios of ``cold`` to the best of them: with the time to get these numbers from the tables,
for which the ceilings are, and as if they were there already. Answers are compared. With ``--spark`` the supersteps
of executors are compared with one process that reads the tables too: the CPU time of Java and of its workers counts,
and the seconds of the clock are shown beside it; medians of three runs. ``first`` builds the blocks, ``again`` finds
them; Java and its workers run already, and have run jobs. The last line is PageRank by joins of DataFrames in as many
rounds, with the same ranks; both begin with the stored tables. With ``--sizes`` engines are compared from a twentieth
of the edges up to all of them, with nodes in proportion: from which size on Spark is ahead. With ``--ids`` a new
process ranks the nodes, reads the result and writes it, alone and as the driver of Spark, and tells its memory. With
``--write`` a value for each node is written, into a new property and again. Ceilings are for 10 million edges or a
million values, and more; of Spark beside one process for 20 million edges, from which on it uses executors unasked;
beside libraries for a million edges.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Lock, Thread
from time import perf_counter, process_time, sleep
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa

import omnigraph as og
from analytics_peers import PEERS, SAMPLES, EdgeArrays, compare_answers, read_edges
from omnigraph.analytics import run_algorithm
from omnigraph.read.frames import shared_cache

SCHEMA = "node N { key: String @key }\nedge E: N -> N { w: F64 }\n"
RUNS: dict[str, dict[str, object]] = {
    "degree": {},
    "pagerank": {"iterations": 20},
    "wcc": {},
    "scc": {},
    "label_propagation": {"iterations": 10},
    "triangles": {},
    "clustering": {},
    "kcore": {},
    "bfs": {"source": "n000000000"},
    "shortest_paths": {"source": "n000000000"},
    "louvain": {},
    "leiden": {},
    "betweenness": {"samples": SAMPLES},
    "similarity": {"top_k": 5},
    "random_walks": {"length": 10},
    "embed_node2vec": {"dimension": 32, "walks": 2, "length": 10},
    "embed_fastrp": {"dimension": 32},
}
ON_EXECUTORS: dict[str, dict[str, object]] = {
    "degree": {},
    "pagerank": {"iterations": 10},
    "wcc": {},
    "label_propagation": {"iterations": 3},
}
COMPARED = (
    "degree", "pagerank", "wcc", "scc", "label_propagation", "triangles", "clustering", "kcore", "bfs",
    "shortest_paths", "louvain", "leiden", "betweenness",
)  # fmt: skip
MOST_EDGES = {"similarity": 500_000, "embed_node2vec": 2_000_000}
"""Beyond, they take long, and no library does the same: similarity compares all pairs that have a hub in common."""
AGAINST_LIBRARIES = {"triangles": 2.0, "label_propagation": None}
"""How many times as long as the best library an algorithm may take; others may not take longer. None of them propagates
labels in rounds, as LDBC defines it."""
DIRECTIONS: dict[str, Literal["both"]] = {"clustering": "both"}
"""Libraries have no coefficients with directions."""
COLD_SECONDS, WARM_SECONDS, WRITE_SECONDS = 12.0, 1.5, 1.0
AGAINST_ONE_PROCESS, AGAINST_FRAMES = 3.0, 0.1
ON_EXECUTORS_FROM = 20_000_000
"""So many edges are not handled by the driver's process alone, unless the benchmark asks for it."""
LOOK_SECONDS = 5.0
WARM_RUNS = 4
TURNS = 3
TICKS = os.sysconf("SC_CLK_TCK")


def rmat(scale: int, edges: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Draw edges, each into a quarter of the matrix with unequal chances, again and again."""
    chance = np.random.default_rng(1)
    begins, ends = np.zeros(edges, np.int64), np.zeros(edges, np.int64)
    for _ in range(scale):
        quarter = chance.choice(4, edges, p=[0.57, 0.19, 0.19, 0.05])
        begins, ends = 2 * begins + quarter // 2, 2 * ends + quarter % 2
    return begins, ends


def measure(work: Callable[[], object]) -> float:
    """Return the CPU seconds that it takes in all threads of this process."""
    begin = process_time()
    work()
    return process_time() - begin


def list_tree() -> dict[int, float]:
    """Return the CPU seconds of this process and of all that it started, Java and its workers among them."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text("utf-8").rpartition(")")[2].split()
            number = int(path.parent.name)
            parents[number], spent[number] = int(fields[1]), sum(map(int, fields[11:13])) / TICKS
    found: dict[int, float] = {}
    ours = {os.getpid()}
    while ours:
        found |= {each: spent.get(each, 0.0) for each in ours}
        ours = {child for child, parent in parents.items() if parent in ours}
    return found


class TreeClock:
    """The CPU seconds of this process and of all that it started.

    Spark ends workers that had nothing to do for a minute, and nobody waits for them, so that their seconds would be
    lost: they are looked at every few seconds.
    """

    def __init__(self) -> None:
        self._spent: dict[int, float] = {}
        self._guard = Lock()
        Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.read()
            sleep(LOOK_SECONDS)

    def read(self) -> float:
        """Return the seconds until now."""
        with self._guard:
            self._spent |= list_tree()
            return sum(self._spent.values())


@cache
def tree_clock() -> TreeClock:
    """Return the clock of this process, which runs from the first call on."""
    return TreeClock()


def judge(figure: float, ceiling: float, unit: str) -> str:
    """Return the ceiling of a figure, and whether it holds."""
    return f"ceiling {ceiling:g}{unit} {'ok' if figure <= ceiling else 'MISSED'}"


def measure_tree(work: Callable[[], object]) -> tuple[float, float]:
    """Return the CPU seconds of this process and of all that it started, and those of the clock."""
    cpu, clock = tree_clock().read(), perf_counter()
    work()
    return tree_clock().read() - cpu, perf_counter() - clock


def open_session(graph: og.Graph) -> Any:
    """Return a session whose Java and workers run already: they start with the first job, whatever it is.

    Java compiles what it runs often, for as long as ten rounds take here, so it is given some of them first.
    """
    from omnigraph.spark.analytics import projections

    projections.SPARK_MIN_EDGES = 0  # pyright: ignore[reportConstantRedefinition, reportAttributeAccessIssue]  few are handled like many
    # What is imported late is there for all that is measured.
    graph.analytics.project(["N"], ["E"]).wcc()
    with graph.spark() as opened:
        opened.analytics.project(["N"], ["E"]).pagerank(iterations=1)
        session = opened.session
    with make_graph(10, 10_000) as (small, _, _), small.spark(session) as opened:
        for _ in range(WARM_RUNS):
            opened.analytics.project(["N"], ["E"]).pagerank(iterations=10)
    return session


def compare_engines(graph: og.Graph, session: Any, edges: int) -> None:
    """Print what supersteps cost on executors of this machine, beside one process: medians of a few runs in turns."""
    for name, parameters in ON_EXECUTORS.items():
        figures = np.median([run_engines(graph, session, name, parameters) for _ in range(TURNS)], axis=0)
        (here, _), (first, _), (again, _) = figures.tolist()
        ratios = [spent / max(here, 0.01) for spent in (first, again)]
        clocks = "/".join(f"{clock:.1f}" for _, clock in figures)
        has_ceiling = name == "pagerank" and edges >= ON_EXECUTORS_FROM
        verdict = judge(ratios[0], AGAINST_ONE_PROCESS, "x") if has_ceiling else ""
        spent = " ".join(f"{each:8.2f}" for each in (here, first, again))
        print(f"{edges:11,} {name:18} {spent} {ratios[0]:12.1f}x {ratios[1]:12.1f}x {clocks:>20}   {verdict}")


def run_engines(graph: og.Graph, session: Any, name: str, parameters: dict[str, object]) -> list[tuple[float, float]]:
    """Return the CPU seconds and those of the clock of an algorithm here, on Spark, and on Spark again."""
    # Blocks go with the one who built them.
    with graph.spark(session) as opened:
        figures: list[tuple[float, float]] = []
        for analytics in (graph.analytics, opened.analytics, opened.analytics):
            if len(figures) < 2:
                shared_cache().clear()
            projection = analytics.project(["N"], ["E"])
            figures.append(measure_tree(lambda: run_algorithm(projection, name, parameters)))  # noqa: B023  called at once
        return figures


def print_heading() -> None:
    """Print what the columns of :func:`compare_engines` are."""
    columns = f"{'here':>8} {'first':>8} {'again':>8} {'first / here':>13} {'again / here':>13} {'clock of each':>20}"
    print(f"{'edges':>11} {'':18} {columns}")


def compare_spark(graph: og.Graph, edges: int) -> None:
    """Print what algorithms cost on Spark, beside one process and beside joins of DataFrames."""
    session = open_session(graph)
    print_heading()
    compare_engines(graph, session, edges)
    compare_frames(graph, session, edges)


def compare_frames(graph: og.Graph, session: Any, edges: int) -> None:
    """Print what PageRank costs on Spark, beside joins of DataFrames."""
    rounds = int(cast(int, ON_EXECUTORS["pagerank"]["iterations"]))
    with graph.spark(session) as opened:
        projection = opened.analytics.project(["N"], ["E"])
        results: list[Any] = []
        ours = measure_tree(lambda: results.append(projection.pagerank(iterations=rounds)))
        frames = measure_tree(lambda: results.append(rank_frames(opened, rounds)))
        found = np.array(results[1].orderBy("id").select("rank").toArrow()["rank"])
    if not np.allclose(results[0].to_arrow()["rank"].to_numpy(), found, rtol=1e-9, atol=0):
        sys.exit("the ranks of the DataFrames are others")
    ratio = ours[0] / frames[0]
    told = ", ".join(
        f"{who} {cpu:.2f}, clock {clock:.1f}"
        for who, (cpu, clock) in (("Spark", ours), ("joins of DataFrames", frames))
    )
    verdict = judge(ratio, AGAINST_FRAMES, "x") if edges >= 10_000_000 else ""
    print(f"pagerank x{rounds}: {told}: {ratio:.2f}x ({ours[1] / frames[1]:.2f}x by the clock)   {verdict}")


def rank_frames(opened: Any, rounds: int) -> Any:
    """Compute PageRank by joins and sums of DataFrames, as one would write it who knows Spark.

    Ids are whole numbers, edges are cached in partitions of their begin, nodes with their degrees, there are as many
    partitions as the cores and the edges ask for, and each round ends with a checkpoint, so that no plan grows.
    """
    from pyspark.sql import functions as fn

    from omnigraph.spark.sized_frames import count_partitions

    session = opened.session
    stored = opened.edges("E").selectExpr("cast(substr(`from`, 2) as long) src", "cast(substr(`to`, 2) as long) dst")
    setting = "spark.sql.shuffle.partitions"
    before = session.conf.get(setting)
    size = 16 * opened.edges("E").count()
    session.conf.set(setting, str(max(2, count_partitions(size, session.sparkContext.defaultParallelism))))
    try:
        edges = stored.repartition("src").cache()
        degrees = edges.groupBy("src").agg(fn.count("*").alias("degree")).withColumnRenamed("src", "id")
        nodes = opened.nodes("N").selectExpr("cast(substr(id, 2) as long) id").join(degrees, "id", "left").cache()
        count = nodes.count()
        ranks = nodes.withColumn("rank", fn.lit(1 / count))
        for _ in range(rounds):
            lost = ranks.where("degree is null").agg(fn.sum("rank")).first()[0] or 0.0
            parts = ranks.where("degree > 0").selectExpr("id src", "rank / degree part")
            received = edges.join(parts, "src").groupBy("dst").agg(fn.sum("part").alias("part"))
            rank = 0.15 / count + 0.85 * (fn.coalesce("part", fn.lit(0.0)) + lost / count)
            found = nodes.join(received.withColumnRenamed("dst", "id"), "id", "left")
            ranks = found.select("id", "degree", rank.alias("rank")).localCheckpoint()
        for frame in (edges, nodes):
            frame.unpersist()
        return ranks
    finally:
        session.conf.set(setting, before)


def compare_sizes(scale: int, edges: int) -> None:
    """Print what algorithms cost on Spark and in one process, from a twentieth of the edges on: who is ahead where."""
    session: Any = None
    for share in (20, 10, 5, 2, 1):
        with make_graph(scale - round(math.log2(share)), edges // share) as (graph, _, _):
            if session is None:
                session = open_session(graph)
                print_heading()
            compare_engines(graph, session, edges // share)


def time_write(graph: og.Graph, count: int) -> None:
    """Print what it costs to write a value for each node, in a new property and again."""
    ranks = graph.analytics.project(["N"], ["E"]).pagerank(iterations=2)
    first = measure(lambda: ranks.write("rank", create=True))
    other = graph.analytics.project(["N"], ["E"]).pagerank(iterations=3)
    verdict = judge(first, WRITE_SECONDS, " s") if count >= 1_000_000 else ""
    print(f"{'write back':18} {first:8.2f} {measure(lambda: other.write('rank')):8.2f}   {verdict}")


def read_memory() -> int:
    """Return how many bytes of memory this process has now that no file stands for."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def measure_peak(work: Callable[[], object], before: int) -> int:
    """Return how many bytes more than before this process has at most while it works."""
    peak = read_memory()
    done = Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.01):
            peak = max(peak, read_memory())

    watcher = Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    return peak - before


def measure_ids(uri: str, where: str) -> None:
    """Print how many bytes for each node a process takes to rank nodes, to read the result, and to write it."""
    with og.open(uri) as graph, ExitStack() as stack:
        analytics = graph.analytics
        if where == "Spark":
            with make_graph(6, 100) as (few, _, _):
                session = open_session(few)
            analytics = stack.enter_context(graph.spark(session)).analytics
        projection = analytics.project(["N"], ["E"])
        count = graph.snapshot().pins["node:N"].row_count
        before = read_memory()
        results: list[og.AnalyticsResult] = []
        steps: dict[str, Callable[[], object]] = {
            "to rank": lambda: results.append(projection.pagerank(iterations=2)),
            "to read": lambda: sum(batch.num_rows for batch in results[0].batches()),
            "to write": lambda: results[0].write("rank", create=True),
        }
        told = ", ".join(f"{name} {measure_peak(work, before) / count:.0f}" for name, work in steps.items())
    print(f"bytes for each node in {'the driver of Spark' if where == 'Spark' else 'one process'}: {told}")


@contextmanager
def make_graph(
    scale: int, edges: int
) -> Generator[tuple[og.Graph, np.ndarray[Any, Any], np.ndarray[Any, Any]], None, None]:
    """Make a graph of 2**scale nodes in a temporary folder; also give the ends of its edges as numbers."""
    begins, ends = rmat(scale, edges)
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    try:
        graph = og.init(folder / "graph.og", SCHEMA)
        names: np.ndarray[Any, Any] = np.array([f"n{number:09}" for number in range(2**scale)])
        weights = np.random.default_rng(2).random(edges)
        graph.load(
            nodes={"N": pa.table({"key": pa.array(names)})},
            edges={
                "E": pa.table({"from": pa.array(names[begins]), "to": pa.array(names[ends]), "w": pa.array(weights)})
            },
        )
        yield graph, begins, ends
    finally:
        shutil.rmtree(folder)


def read_answer(name: str, table: pa.Table) -> np.ndarray[Any, Any]:
    """Return the values of a result as libraries give theirs."""
    if name == "degree":
        return np.stack([table["in_degree"].to_numpy(), table["out_degree"].to_numpy()])
    values = table.column(2).to_numpy()
    # Null is no number, in a column of whole ones too.
    return np.where(np.isnan(values), np.inf, values) if values.dtype.kind == "f" else values


def compare_libraries(graph: og.Graph, begins: np.ndarray[Any, Any], ends: np.ndarray[Any, Any], count: int) -> None:
    """Print what all algorithms cost in one process, beside the libraries that are installed."""
    figures: dict[str, tuple[float, float]] = {}
    answers: dict[str, np.ndarray[Any, Any]] = {}
    for name, parameters in RUNS.items():
        if len(begins) > MOST_EDGES.get(name, len(begins)):
            continue
        weight = "w" if name == "shortest_paths" else None
        projection = graph.analytics.project(["N"], ["E"], weight=weight, direction=DIRECTIONS.get(name, "out"))
        shared_cache().clear()
        results: list[og.AnalyticsResult] = []
        figures[name] = (
            measure(lambda: results.append(run_algorithm(projection, name, parameters))),  # noqa: B023  called at once
            measure(lambda: run_algorithm(projection, name, parameters)),  # noqa: B023
        )
        if name in COMPARED:
            answers[name] = read_answer(name, results[0].to_arrow())
    shared_cache().clear()
    samples = np.sort(np.random.default_rng(0).choice(count, min(SAMPLES, count), replace=False))
    weights = np.random.default_rng(2).random(len(begins))
    edges = EdgeArrays(count, begins, ends, weights, samples)
    pins = {name: graph.snapshot().pins[key] for name, key in (("nodes", "node:N"), ("edges", "edge:E"))}
    tables = {name: (f"{graph.uri}/{pin.location}", pin.version) for name, pin in pins.items()}
    stored: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
    reading = measure(lambda: stored.append(read_edges(tables)))
    if not np.array_equal(stored[0], (begins, ends)):
        sys.exit("the stored edges are others")
    peers: dict[str, dict[str, tuple[float, str]]] = {}
    for peer in PEERS:
        for name, found in peer.run(edges):
            same = compare_answers(name, edges, answers[name], found.values) if name in answers else ""
            peers.setdefault(name, {})[peer.package] = found.seconds, same
    print(f"to read the tables and number their ids with Lance and Arrow: {reading:.2f}")
    heading = f"{'cold':>8} {'warm':>8} {'/ tables':>9} {'/ arrays':>9}"
    print(f"{'':18} {heading}   libraries, with the conversion of arrays, but without the tables")
    for name, (cold, warm) in figures.items():
        print_line(name, cold, warm, reading, peers.get(name, {}), len(begins))


def print_line(
    name: str, cold: float, warm: float, reading: float, peers: Mapping[str, tuple[float, str]], edges: int
) -> None:
    """Print what one algorithm costs, its ratios to the best library, and how the answers compare."""
    best = min((seconds for seconds, _ in peers.values()), default=None)
    ratios = [] if best is None else [cold / (best + reading), cold / max(best, 0.001)]
    ceiling = AGAINST_LIBRARIES.get(name, 1.0)
    verdicts = [judge(ratios[0], ceiling, "x")] if ratios and ceiling is not None and edges >= 1_000_000 else []
    if name == "pagerank" and edges >= 10_000_000:
        verdicts += [judge(cold, COLD_SECONDS, " s"), judge(warm, WARM_SECONDS, " s")]
    told = ", ".join(f"{peer} {seconds:.2f}{f' ({same})' if same else ''}" for peer, (seconds, same) in peers.items())
    shown = " ".join(f"{each:>9}" for each in ([f"{ratio:.2f}x" for ratio in ratios] or ["-", "-"]))
    print(f"{name:18} {cold:8.2f} {warm:8.2f} {shown}   {'; '.join([told, *verdicts])}")


def main() -> None:
    """Print a table."""
    numbers = [int(each) for each in sys.argv[1:] if each.isdecimal()]
    scale, edges = numbers if len(numbers) == 2 else (14, 200_000)
    count = 2**scale
    print(f"{count:,} nodes, {edges:,} edges (RMAT), CPU seconds")
    if "--sizes" in sys.argv:
        compare_sizes(scale, edges)
        return
    with make_graph(scale, edges) as (graph, begins, ends):
        if "--spark" in sys.argv:
            compare_spark(graph, edges)
            return
        if "--ids" in sys.argv:
            for where in ("here", "Spark"):
                # A new process: this one has memory from the load.
                child = get_context("spawn").Process(target=measure_ids, args=(graph.uri, where))
                child.start()
                child.join()
            return
        if "--write" not in sys.argv:
            compare_libraries(graph, begins, ends, count)
        time_write(graph, count)


if __name__ == "__main__":
    main()
