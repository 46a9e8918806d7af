"""What history costs: diffs and merges of few and many changed rows, and a new branch, on a small and a large graph.

    .venv/bin/python bench/history.py [--small 1000000] [--large 10000000] [--changes 10 1000 100000] [--json]

A graph of one node type gets a branch on which that many rows are changed, spread over the table. Measured are the
diff of the branch, with all images, and its merge into main, each beside plain Lance: an append of the same rows to a
table of the same size, with its commit, and then the merge of a branch that conflicts with main in each of these rows,
which the branch wins. The same on both graphs, so that the last column tells whether a cost follows
the change or the graph. What is merged is counted and compared with what was changed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import lance
import numpy as np
import pyarrow as pa

import omnigraph
from omnigraph.graph import Graph

SCHEMA = """
node Person { name: String @key  age: I64?  city: String? }
"""
BATCH = 1_000_000
SEED = 11


def people(numbers: np.ndarray[tuple[int], np.dtype[np.int64]], *, older: int = 0) -> pa.Table:
    """Rows of the node type, by their numbers."""
    names = pa.array(np.char.mod("person-%09d", numbers))
    cities = pa.array(np.char.mod("city-%d", numbers % 997))
    return pa.table({"name": names, "age": pa.array(numbers % 90 + older), "city": cities})


def made(folder: Path, rows: int) -> Graph:
    """A graph of that many rows, loaded a million at a time, with an index on their ids."""
    graph = omnigraph.init(folder, SCHEMA)
    for first in range(0, rows, BATCH):
        numbers = np.arange(first, min(rows, first + BATCH))
        graph.load(nodes={"Person": people(numbers)}, indexes="never")
    graph.ensure_indexes()
    return graph


@dataclass(frozen=True, slots=True)
class Cost:
    """What one number of changed rows cost on one graph, in milliseconds."""

    rows: int
    changed: int
    append_ms: float
    diff_ms: float
    merge_ms: float
    branch_ms: float
    conflicts_ms: float


def measure(graph: Graph, plain: Path, rows: int, changed: int) -> Cost:
    """Change rows on a branch of their own, look at them, and merge them."""
    name = f"change-{changed}"
    branch_ms = timed(lambda: graph.create_branch(name))
    numbers = np.sort(np.random.default_rng(SEED).choice(rows, changed, replace=False))
    # Each number of changes gets values of its own, so that no merge finds its rows as they are already.
    update = people(numbers, older=changed)
    graph.load(nodes={"Person": update}, mode="merge", branch=name, indexes="never")
    append_ms = timed(lambda: lance.write_dataset(update, plain, mode="append"))
    seen = 0

    def look() -> None:
        nonlocal seen
        seen = sum(batch.num_rows for batch in graph.diff("main", name).reader("Person"))

    diff_ms = timed(look)
    counted = 0

    def merge() -> None:
        nonlocal counted
        counted = graph.merge(name).nodes["Person"].updated

    merge_ms = timed(merge)
    if (seen, counted) != (changed, changed):
        raise SystemExit(f"{changed} rows were changed, {seen} seen and {counted} merged")
    return Cost(rows, changed, append_ms, diff_ms, merge_ms, branch_ms, merge_conflicts(graph, numbers))


def merge_conflicts(graph: Graph, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
    """Change the same rows on a branch and on main, and merge: the milliseconds of the merge."""
    name = f"conflict-{len(numbers)}"
    graph.create_branch(name)
    for branch, older in ((name, -1), ("main", -2)):
        update = people(numbers, older=older * len(numbers))
        graph.load(nodes={"Person": update}, mode="merge", branch=branch, indexes="never")
    return timed(lambda: graph.merge(name, prefer="theirs"))


def timed(work: Callable[[], object]) -> float:
    """How many milliseconds something took."""
    begin = perf_counter()
    work()
    return (perf_counter() - begin) * 1000


def measured(folder: Path, rows: int, changes: list[int]) -> list[Cost]:
    """All numbers of changes on a graph of one size."""
    graph = made(folder / f"{rows}.og", rows)
    plain = folder / f"{rows}.lance"
    for first in range(0, rows, BATCH):
        lance.write_dataset(
            people(np.arange(first, min(rows, first + BATCH))), plain, mode="append" if first else "create"
        )
    # The first diff and merge of a process read code; that is not what is measured.
    measure(graph, plain, rows, 1)
    return [measure(graph, plain, rows, changed) for changed in changes]


def show(costs: list[Cost], small: int, large: int) -> None:
    """A table of the ratios; the last two columns compare the graphs."""
    print(
        f"{'rows':>10} {'changed':>8} {'append':>9} {'diff':>9} {'merge':>9} {'branch':>8} {'conflicts':>12}"
        "  diff/append  merge/append  conflicts/merge"
    )
    for cost in costs:
        shown = f"{cost.rows:>10,} {cost.changed:>8,} {cost.append_ms:>6.1f} ms {cost.diff_ms:>6.1f} ms "
        shown += f"{cost.merge_ms:>6.1f} ms {cost.branch_ms:>5.1f} ms {cost.conflicts_ms:>9.1f} ms"
        ratios = f"{cost.diff_ms / cost.append_ms:>11.2f}x {cost.merge_ms / cost.append_ms:>12.2f}x"
        print(f"{shown} {ratios} {cost.conflicts_ms / cost.merge_ms:>15.2f}x")
    of = {(cost.rows, cost.changed): cost for cost in costs}
    for changed in dict.fromkeys(cost.changed for cost in costs):
        one, other = of[small, changed], of[large, changed]
        ratios = f"diff {other.diff_ms / one.diff_ms:.2f}x, merge {other.merge_ms / one.merge_ms:.2f}x"
        ratios += f", new branch {other.branch_ms / one.branch_ms:.2f}x"
        print(f"{changed:,} changed rows on {large:,} rows against {small:,}: {ratios}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=int, default=1_000_000)
    parser.add_argument("--large", type=int, default=10_000_000)
    parser.add_argument("--changes", type=int, nargs="+", default=[10, 1_000, 100_000])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if max(given.changes) > min(given.small, given.large):
        parser.error("--changes cannot be more than the rows of --small and --large")
    with TemporaryDirectory() as folder:
        costs = [
            cost for rows in (given.small, given.large) for cost in measured(Path(folder), rows, list(given.changes))
        ]
    if given.json:
        print(json.dumps([asdict(cost) for cost in costs], indent=2))
    else:
        show(costs, given.small, given.large)


if __name__ == "__main__":
    main()
