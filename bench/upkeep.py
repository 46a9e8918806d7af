"""What upkeep is worth: a store aged by small commits, before and after optimize and cleanup; what verify takes.

    .venv/bin/python bench/upkeep.py [--commits 5000] [--rounds 30] [--rows 1000000] [--small] [--json]

One graph gets that many commits of one node and one edge. On it, and on a copy that was optimized, the same work is
measured in turns, so that a busy machine slows both alike: a mutation, an open, a query by key and one that walks all
edges. Then the optimized one is cleaned up. Last, a graph of so many rows is verified. Times are medians.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import pyarrow as pa

import omnigraph
from omnigraph.graph import Graph
from omnigraph.maintain.cleanup import cleanup
from omnigraph.manifest.handle import Manifest
from omnigraph.storage.location import locate
from omnigraph.storage.locks import LockSettings
from omnigraph.storage.tables import Access

SCHEMA = "node Port { code: String @key  name: String? }\nedge Near: Port -> Port"
ADD = """
query add($code: String, $to: String) {
  insert Port { code: $code, name: $code }
  insert Near { from: $code, to: $to }
}
"""
BY_KEY = "query by_key($code: String) { match { $p: Port { code: $code } } return { $p.name } }"
WALK = "query walk() { match { $p: Port  $p near $q } return { count($q) as n } }"
LOADED_AT_ONCE = 500_000


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of one kind of work on the aged store, and on the optimized one."""

    work: str
    aged: float
    optimized: float


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What upkeep itself took and gave."""

    commits: int
    optimize_seconds: float
    cleanup_seconds: float
    bytes_before: int
    bytes_after: int
    verify_rows: int
    verify_seconds_per_million: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    commits, rounds, rows = (200, 5, 50_000) if given.small else (given.commits, given.rounds, given.rows)
    with TemporaryDirectory() as folder:
        measured, upkeep = measure(Path(folder), commits, rounds, rows)
    if given.json:
        print(json.dumps({"work": [asdict(each) for each in measured], "upkeep": asdict(upkeep)}, indent=2))
        return
    print(f"{commits} commits; medians of {rounds} rounds")
    for each in measured:
        ratio = each.aged / each.optimized
        print(f"{each.work:<12} {each.aged * 1e3:8.1f} ms aged {each.optimized * 1e3:8.1f} ms optimized {ratio:6.2f}x")
    print(f"optimize {upkeep.optimize_seconds:.2f} s, cleanup {upkeep.cleanup_seconds:.2f} s")
    print(f"{upkeep.bytes_before / 1e6:.1f} MB before, {upkeep.bytes_after / 1e6:.1f} MB after")
    print(f"verify: {upkeep.verify_seconds_per_million:.2f} s for a million rows ({upkeep.verify_rows:,} read)")


def measure(folder: Path, commits: int, rounds: int, rows: int) -> tuple[list[Measured], Upkeep]:
    """Age a store, copy it, and measure both."""
    # A store that nobody looks after: this is what optimize is compared with.
    os.environ["OMNIGRAPH_UPKEEP"] = "off"
    aged = omnigraph.init(folder / "aged.og", SCHEMA)
    for number in range(commits):
        aged.mutate(ADD, params={"code": f"p{number}", "to": f"p{number // 2}"})
    optimized = omnigraph.open(shutil.copytree(folder / "aged.og", folder / "optimized.og"))
    optimize_seconds = _seconds(optimized.optimize)
    measured = _in_turns({"aged": aged, "optimized": optimized}, commits, rounds)
    before = _size(folder / "optimized.og")
    location = locate(optimized.uri)
    manifest = Manifest(location, Access(location.options()), LockSettings())
    # Nobody reads, so that nobody needs an hour.
    cleanup_seconds = _seconds(lambda: cleanup(manifest, 10, confirm=True, grace=timedelta(0)))
    after = _size(folder / "optimized.og")
    verified, seconds = _verified(folder, rows)
    return measured, Upkeep(
        commits, optimize_seconds, cleanup_seconds, before, after, verified, seconds / verified * 1e6
    )


def _in_turns(graphs: dict[str, Graph], commits: int, rounds: int) -> list[Measured]:
    works: dict[str, Callable[[Graph, int], object]] = {
        "mutation": lambda graph, at: graph.mutate(ADD, params={"code": f"q{at}", "to": "p0"}),
        "open": lambda graph, _: omnigraph.open(graph.uri).info(),
        "by key": lambda graph, at: omnigraph.open(graph.uri).query(BY_KEY, params={"code": f"p{at % commits}"}),
        "walk": lambda graph, _: omnigraph.open(graph.uri).query(WALK),
    }
    found: list[Measured] = []
    for name, work in works.items():
        times: dict[str, list[float]] = {which: [] for which in graphs}
        for at in range(rounds):
            for which, graph in graphs.items():
                times[which].append(_seconds(lambda graph=graph, at=at, work=work: work(graph, at)))
        found.append(Measured(name, median(times["aged"]), median(times["optimized"])))
    return found


def _verified(folder: Path, rows: int) -> tuple[int, float]:
    graph = omnigraph.init(folder / "large.og", SCHEMA)
    nodes = rows // 5
    edges = rows - nodes
    codes = pa.array([f"p{number}" for number in range(nodes)])
    graph.load(nodes={"Port": pa.table([codes, codes], names=["code", "name"])}, indexes="never")
    ends = np.random.default_rng(7).integers(0, nodes, (2, edges), dtype=np.int64)
    for start in range(0, edges, LOADED_AT_ONCE):
        part = [codes.take(end[start : start + LOADED_AT_ONCE]) for end in ends]
        graph.load(edges={"Near": pa.table(part, names=["from", "to"])}, indexes="never")
    started = perf_counter()
    found = graph.verify()
    assert found.is_sound, found.findings
    return found.rows, perf_counter() - started


def _seconds(work: Callable[[], object]) -> float:
    started = perf_counter()
    work()
    return perf_counter() - started


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


if __name__ == "__main__":
    main()
