"""Algorithms over a power-law graph: ours, from stored tables to a result, beside networkx and plain SciPy.

``python bench/analytics.py [SCALE] [EDGES]``: 2**SCALE nodes. All times are of one run, in seconds of the wall clock;
``cold`` reads the tables, ``warm`` finds the arrays in the cache. networkx gets its graph built for nothing.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
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
}


def rmat(scale: int, edges: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Draw edges, each into a quarter of the matrix with unequal chances, again and again."""
    chance = np.random.default_rng(1)
    begins, ends = np.zeros(edges, np.int64), np.zeros(edges, np.int64)
    for _ in range(scale):
        quarter = chance.choice(4, edges, p=[0.57, 0.19, 0.19, 0.05])
        begins, ends = 2 * begins + quarter // 2, 2 * ends + quarter % 2
    return begins, ends


def measure(work: Callable[[], object]) -> float:
    """Return the seconds that it takes."""
    begin = perf_counter()
    work()
    return perf_counter() - begin


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
    scale, edges = (int(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) > 2 else (14, 200_000)
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
        peers, routines = time_networkx(begins, ends, count), time_scipy(begins, ends, count)
        print(f"{count:,} nodes, {edges:,} edges (RMAT)")
        print(f"{'':18} {'cold':>8} {'warm':>8} {'scipy':>8} {'networkx':>9}")
        for name, parameters in RUNS.items():
            weight = "w" if name == "shortest_paths" else None
            projection = graph.analytics.project(["N"], ["E"], weight=weight)
            shared_cache().clear()
            cold = measure(lambda: run_algorithm(projection, name, parameters))  # noqa: B023  called at once
            warm = measure(lambda: run_algorithm(projection, name, parameters))  # noqa: B023  called at once
            others = [f"{found[name]:.3f}" if name in found else "-" for found in (routines, peers)]
            print(f"{name:18} {cold:8.3f} {warm:8.3f} {others[0]:>8} {others[1]:>9}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
