"""Algorithms over a power-law graph: ours, from stored tables to a result, beside networkx, plain SciPy and Spark.

``python bench/analytics.py [SCALE] [EDGES] [--spark|--write]``: 2**SCALE nodes. All figures are CPU seconds of one
run, so that other work on the machine does not matter much; ``cold`` reads the tables, ``warm`` finds the arrays in the
cache. networkx gets its graph built for nothing. With ``--spark`` the supersteps of executors are compared with one
process that reads the tables too: the CPU time of Java and of its workers counts, and the seconds of the clock are
shown beside it. ``first`` builds the blocks, ``again`` finds them; Java and its workers run already. The last line is
PageRank by joins of DataFrames, in fewer rounds. With ``--write`` only the last line is made: a value for each node is
written, into a new property and again. Ceilings of seconds are for 10 million edges or a million values, and more.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, cast

import numpy as np
import pyarrow as pa

import omnigraph as og
from omnigraph.analytics import run_algorithm
from omnigraph.read.frames import shared_cache

SCHEMA = "node N { key: String @key }\nedge E: N -> N { w: F64 }\n"
LARGEST_FOR_NETWORKX = 300_000
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
    "betweenness": {"samples": 16},
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
COLD_SECONDS, WARM_SECONDS, WRITE_SECONDS = 12.0, 1.5, 1.0
AGAINST_ONE_PROCESS, AGAINST_FRAMES = 3.0, 0.1
FRAME_ROUNDS = 3
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


def count_tree() -> float:
    """Return the CPU seconds of this process and of all that it started, Java and its workers among them."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text("utf-8").rpartition(")")[2].split()
            number = int(path.parent.name)
            parents[number], spent[number] = int(fields[1]), sum(map(int, fields[11:15])) / TICKS
    total, ours = 0.0, {os.getpid()}
    while ours:
        total += sum(spent.get(each, 0.0) for each in ours)
        ours = {child for child, parent in parents.items() if parent in ours}
    return total


def judge(figure: float, ceiling: float, unit: str) -> str:
    """Return the ceiling of a figure, and whether it holds."""
    return f"ceiling {ceiling:g}{unit} {'ok' if figure <= ceiling else 'MISSED'}"


def measure_tree(work: Callable[[], object]) -> tuple[float, float]:
    """Return the CPU seconds of this process and of all that it started, and those of the clock."""
    cpu, clock = count_tree(), perf_counter()
    work()
    return count_tree() - cpu, perf_counter() - clock


def compare_spark(graph: og.Graph) -> None:
    """Print what supersteps cost on executors of this machine, beside one process."""
    from omnigraph.spark.analytics import projections

    projections.SPARK_MIN_EDGES = 0  # pyright: ignore[reportConstantRedefinition, reportAttributeAccessIssue]  few are handled like many
    with graph.spark() as opened:
        # Java and its workers start with the first job, whatever it is.
        opened.analytics.project(["N"], ["E"]).degree()
        session = opened.session
    print(
        f"{'':18} {'here':>8} {'first':>8} {'again':>8} {'first / here':>13} {'again / here':>13} {'clock of each':>20}"
    )
    for name, parameters in ON_EXECUTORS.items():
        # Blocks go with the one who built them.
        with graph.spark(session) as opened:
            figures: list[tuple[float, float]] = []
            for analytics in (graph.analytics, opened.analytics, opened.analytics):
                if len(figures) < 2:
                    shared_cache().clear()
                projection = analytics.project(["N"], ["E"])
                figures.append(measure_tree(lambda: run_algorithm(projection, name, parameters)))  # noqa: B023  called at once
        (here, _), (first, _), (again, _) = figures
        ratios = [spent / max(here, 0.01) for spent in (first, again)]
        clocks = "/".join(f"{clock:.1f}" for _, clock in figures)
        verdict = judge(ratios[0], AGAINST_ONE_PROCESS, "x") if name == "pagerank" else ""
        spent = " ".join(f"{each:8.2f}" for each in (here, first, again))
        print(f"{name:18} {spent} {ratios[0]:12.1f}x {ratios[1]:12.1f}x {clocks:>20}   {verdict}")
    with graph.spark(session) as opened:
        rounds = {"iterations": FRAME_ROUNDS}
        projection = opened.analytics.project(["N"], ["E"])
        ours, _ = measure_tree(lambda: run_algorithm(projection, "pagerank", rounds))
        frames, clock = measure_tree(lambda: rank_frames(opened))
    ratio = ours / frames
    peer = f"by joins of DataFrames {frames:.2f}, clock {clock:.1f}: {ratio:.2f}x"
    print(f"{f'pagerank x{FRAME_ROUNDS}':18} {'':8} {ours:8.2f}   {peer}   {judge(ratio, AGAINST_FRAMES, 'x')}")


def rank_frames(opened: Any) -> None:
    """Compute PageRank by joins and sums of DataFrames, as one would write it."""
    from pyspark.sql import functions as fn

    edges = opened.edges("E").selectExpr("`from` as src", "`to` as dst").cache()
    nodes = opened.nodes("N").select(fn.col("id").alias("src")).cache()
    count = nodes.count()
    degrees = edges.groupBy("src").agg(fn.count("*").alias("degree")).cache()
    ranks = nodes.withColumn("rank", fn.lit(1 / count))
    for _ in range(FRAME_ROUNDS):
        shared = ranks.join(degrees, "src", "left").cache()
        lost = shared.where("degree is null").agg(fn.sum("rank")).first()[0] or 0.0
        sent = edges.join(shared, "src").select(
            fn.col("dst").alias("src"), (fn.col("rank") / fn.col("degree")).alias("part")
        )
        received = sent.groupBy("src").agg(fn.sum("part").alias("part"))
        rank = 0.15 / count + 0.85 * (fn.coalesce("part", fn.lit(0.0)) + lost / count)
        ranks = nodes.join(received, "src", "left").select("src", rank.alias("rank")).localCheckpoint()
    for frame in (edges, nodes, degrees):
        frame.unpersist()


def time_write(graph: og.Graph, count: int) -> None:
    """Print what it costs to write a value for each node, in a new property and again."""
    ranks = graph.analytics.project(["N"], ["E"]).pagerank(iterations=2)
    first = measure(lambda: ranks.write("rank", create=True))
    other = graph.analytics.project(["N"], ["E"]).pagerank(iterations=3)
    verdict = judge(first, WRITE_SECONDS, " s") if count >= 1_000_000 else ""
    print(f"{'write back':18} {first:8.2f} {measure(lambda: other.write('rank')):8.2f}   {verdict}")


def time_networkx(begins: np.ndarray[Any, Any], ends: np.ndarray[Any, Any], count: int) -> Mapping[str, float]:
    """Time the peers in networkx, where it is installed and the graph is small enough to wait for."""
    if len(begins) > LARGEST_FOR_NETWORKX:
        return {}
    try:
        import networkx as nx
    except ImportError:
        return {}
    library = cast(Any, nx)
    graph = library.DiGraph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from(zip(begins.tolist(), ends.tolist(), strict=True))
    simple = library.Graph(graph)
    simple.remove_edges_from(list(library.selfloop_edges(simple)))
    return {
        "degree": measure(lambda: (dict(graph.in_degree()), dict(graph.out_degree()))),
        "pagerank": measure(lambda: library.pagerank(graph)),
        "wcc": measure(lambda: list(library.weakly_connected_components(graph))),
        "scc": measure(lambda: list(library.strongly_connected_components(graph))),
        "triangles": measure(lambda: library.triangles(simple)),
        "clustering": measure(lambda: library.clustering(simple)),
        "kcore": measure(lambda: library.core_number(simple)),
        "bfs": measure(lambda: library.single_source_shortest_path_length(graph, 0)),
        "shortest_paths": measure(lambda: library.single_source_dijkstra_path_length(graph, 0)),
        "louvain": measure(lambda: library.community.louvain_communities(simple, seed=1)),
        "betweenness": measure(lambda: library.betweenness_centrality(graph, k=16, seed=1)),
    }


def time_scipy(begins: np.ndarray[Any, Any], ends: np.ndarray[Any, Any], count: int) -> Mapping[str, float]:
    """Time the routines of SciPy on a matrix that is there already, where it has them."""
    from scipy.sparse import coo_array, csgraph

    matrix = coo_array((np.ones(len(begins)), (begins, ends)), shape=(count, count)).tocsr()
    library = cast(Any, csgraph)
    return {
        "wcc": measure(lambda: library.connected_components(matrix, connection="weak")),
        "scc": measure(lambda: library.connected_components(matrix, connection="strong")),
        "bfs": measure(lambda: library.breadth_first_order(matrix, 0)),
        "shortest_paths": measure(lambda: library.dijkstra(matrix, indices=0)),
    }


def main() -> None:
    """Print a table."""
    numbers = [int(each) for each in sys.argv[1:] if each.isdecimal()]
    scale, edges = numbers if len(numbers) == 2 else (14, 200_000)
    count = 2**scale
    begins, ends = rmat(scale, edges)
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    try:
        graph = og.init(folder / "graph.og", SCHEMA)
        names: np.ndarray[Any, Any] = np.array([f"n{number:09}" for number in range(count)])
        weights = np.random.default_rng(2).random(edges)
        graph.load(
            nodes={"N": pa.table({"key": pa.array(names)})},
            edges={
                "E": pa.table({"from": pa.array(names[begins]), "to": pa.array(names[ends]), "w": pa.array(weights)})
            },
        )
        print(f"{count:,} nodes, {edges:,} edges (RMAT), CPU seconds")
        if "--spark" in sys.argv:
            compare_spark(graph)
            return
        if "--write" in sys.argv:
            time_write(graph, count)
            return
        peers, routines = time_networkx(begins, ends, count), time_scipy(begins, ends, count)
        print(f"{'':18} {'cold':>8} {'warm':>8} {'scipy':>8} {'networkx':>9}")
        for name, parameters in RUNS.items():
            weight = "w" if name == "shortest_paths" else None
            projection = graph.analytics.project(["N"], ["E"], weight=weight)
            shared_cache().clear()
            cold = measure(lambda: run_algorithm(projection, name, parameters))  # noqa: B023  called at once
            warm = measure(lambda: run_algorithm(projection, name, parameters))  # noqa: B023  called at once
            others = [f"{found[name]:.3f}" if name in found else "-" for found in (routines, peers)]
            verdicts = [judge(cold, COLD_SECONDS, " s"), judge(warm, WARM_SECONDS, " s")]
            shown = ", ".join(verdicts) if name == "pagerank" and edges >= 10_000_000 else ""
            print(f"{name:18} {cold:8.3f} {warm:8.3f} {others[0]:>8} {others[1]:>9}   {shown}")
        time_write(graph, count)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
