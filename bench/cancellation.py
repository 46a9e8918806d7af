"""How long a query that is cancelled goes on: the longest time in which it does not look at its deadline.

    .venv/bin/python bench/cancellation.py [--people 100000] [--follows 2000000] [--shape NAME ...] [--small]

For each shape of a query: the CPU time of the whole, how often it looked, and the longest time between two looks, with
the functions that looked before and after it. That time is the most that the query can go on for after its end: it is
CPU time of the whole process, so that other work on the machine does not count. ``cancelled`` is the longest that it
really went on for, in CPU time, when it was cancelled at random moments. The ceiling is 0.1 s. Shapes are asked three
times: the first time nothing is in memory.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Timer
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa

import omnigraph as og
from omnigraph.deadlines import Deadline
from omnigraph.errors import Cancelled

CEILING = 0.1
SCHEMA = """
node Person { name: String @key  age: I32?  score: F64?  number: I64  about: String? @index }
edge Knows: Person -> Person { since: I32? }
"""
HOPS = "match { $a: Person  $a knows $b }"
NAMES = "return { $a.name as x, $b.name as y }"
TWO = "match { $a: Person  $a knows $b  $b knows $c"
PAIRS = "match { $a: Person  $b: Person"
SHAPES = {
    "scan": "match { $a: Person } return { $a.name, $a.age, $a.about }",
    "condition": 'match { $a: Person  $a.about contains "x7" } return { count($a) as n }',
    "edges": f"{HOPS} {NAMES}",
    "edges counted by age": f"{HOPS} return {{ $b.age, count($a) as n }}",
    "edges counted by pair": f"{HOPS} return {{ $a.name as x, $b.age as y, count($b) as n, sum($b.score) as s }}",
    "properties of edges": "match { $a: Person  $a $e:knows $b  $e.since > 2000 } return { $e.since, count($a) as n }",
    "edges in order": f"{HOPS} {NAMES} order {{ $b.age, $b.name }}",
    "first edges in order": f"{HOPS} {NAMES} order {{ $b.score desc }} limit 10",
    "two hops": f"{TWO}  $a.age < 15 }} return {{ $a.name as x, $c.name as y }}",
    "two hops counted": f"{TWO} }} return {{ count($c) as n }}",
    "two hops grouped": f"{TWO}  $a.age < 15 }} return {{ $a.name as x, $c.age as y, count($b) as n }}",
    "up to three hops": f"match {{ $a: Person  $a knows{{1,3}} $b  $a.number < 300 }} {NAMES}",
    "paths of three hops": "match { $a: Person  $a $w:knows{1,3} $b  $a.number < 20 } return { nodes($w) as p }",
    "three hops counted": "match { $a: Person  $a knows{1,3} $b  $a.number < 2000 } return { $a.age, count($b) as n }",
    "shortest": f"match {{ $a: Person {{ number: 3 }}  $b: Person {{ number: 9 }}  $a knows{{1,6}} $b }} {NAMES}",
    "join": f"{PAIRS}  $a.score = $b.score }} {NAMES}",
    "join counted": f"{PAIRS}  $a.age = $b.age  $a.number < 20000 }} return {{ $a.age, count($b) as n }}",
    "join of widths": f"{PAIRS}  $a.age = $b.number }} {NAMES}",
    "join by order": f"{PAIRS}  $a.score < $b.score  $a.number < 100 }} return {{ count($b) as n }}",
    "product": f"{PAIRS}  $a.number < 50 }} {NAMES}",
    "product counted": f"{PAIRS}  $a.number < 50 }} return {{ $b.age, $a.age as c, count($a) as n }}",
    "distinct": f"{HOPS} return distinct {{ $a.age as x, $b.age as y }}",
    "distinct names": f"{HOPS} return distinct {{ $a.name as x, $b.age as y }}",
    "collected": f"{HOPS} return {{ $a.name as x, collect($b.name) as names }}",
    "counted distinct": f"{HOPS} return {{ $a.age as x, count(distinct $b.about) as n }}",
    "exists": "match { $a: Person  exists { $a knows $b  $b.age > 95 } } return { count($a) as n }",
    "not exists": "match { $a: Person  not { $a knows $b  $b knows $c  $c.age > 95 } } return { count($a) as n }",
    "optional": f"match {{ $a: Person  optional {{ $a knows $b  $b.age > 50 }} }} {NAMES}",
    "triangles": f"{TWO}  $c knows $a  $a.age < 5 }} return {{ count($a) as n }}",
    "search": 'match { $a: Person } return { $a.name } order { bm25($a.about, "x7") } limit 10',
}
BIG = {
    "large list": ("$names: [String]", "match { $a: Person  $a.name in $names } return { count($a) as n }"),
}


@dataclass(frozen=True, slots=True)
class Gap:
    """A time between two looks: CPU seconds, and the functions that looked."""

    seconds: float
    before: str
    after: str


class WatchedDeadline(Deadline):
    """A deadline that notes the longest time between two looks at it."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.longest = Gap(0, "", "")
        self.cancelled_at = 0.0
        self._before = ("", process_time())

    def check(self) -> None:
        """Note the time since the last look."""
        self.note()
        super().check()

    def note(self) -> None:
        """Note the time since the last look, or since it began."""
        now = process_time()
        place, then = self._before
        self.count += 1
        if now - then > self.longest.seconds:
            self.longest = Gap(now - then, place, _name_caller())
        self._before = (_name_caller() if now - then > CEILING / 20 else f"look {self.count}", process_time())

    def begin(self) -> None:
        """Begin to measure: what came before is not the query's."""
        self._before = ("begin", process_time())

    def cancel(self) -> None:
        """Note when it was cancelled."""
        super().cancel()
        self.cancelled_at = process_time()


def _name_caller() -> str:
    frame, names = inspect.currentframe(), list[str]()
    while frame is not None and len(names) < 3:
        name = f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}"
        if "deadline" not in name and "/omnigraph/" in frame.f_code.co_filename:
            names.append(name)
        frame = frame.f_back
    return " < ".join(names)


def build(folder: Path, people: int, follows: int) -> og.Graph:
    """Build the graph of all shapes."""
    chance = np.random.default_rng(1)
    numbers = np.arange(people)
    names = pa.array([f"person-{number:08d}" for number in numbers])
    ages = pa.array(chance.integers(0, 100, people), pa.int32(), mask=chance.random(people) < 0.01)
    words = chance.integers(0, 50, (people, 6))
    about = pa.array([" ".join(f"x{word}" for word in row) for row in words])
    begins, ends = (names.take(chance.integers(0, people, follows)) for _ in range(2))
    graph = og.init(folder / "people.og", SCHEMA)
    graph.load(
        nodes={
            "Person": pa.table(
                {
                    "name": names,
                    "age": ages,
                    "score": pa.array(chance.integers(0, max(1, people // 20), people) / 7),
                    "number": pa.array(numbers),
                    "about": about,
                }
            )
        },
        edges={
            "Knows": pa.table(
                {"from": begins, "to": ends, "since": pa.array(chance.integers(1990, 2020, follows), pa.int32())}
            )
        },
        indexes="always",
    )
    return graph


def ask(graph: og.Graph, name: str, deadline: WatchedDeadline, names: list[str]) -> Iterator[int]:
    """Ask for the rows of a shape, batch by batch."""
    declared, text = BIG.get(name, ("", SHAPES.get(name, "")))
    params = {"names": names} if declared else None
    deadline.begin()
    result = graph.query(f"query q({declared}) {{ {text} }}", params=params, timeout=deadline)
    batches = result.batches()
    while True:
        deadline.begin()
        batch = next(batches, None)
        deadline.note()
        if batch is None:
            return
        yield batch.num_rows


def measure(graph: og.Graph, name: str, names: list[str], cancels: int) -> list[float]:
    """Print what one shape does; return the longest times."""
    worst, wall = list[float](), 0.0
    for number in range(3):
        deadline, cpu, wall = WatchedDeadline(), process_time(), perf_counter()
        rows = sum(ask(graph, name, deadline, names))
        cpu, wall = process_time() - cpu, perf_counter() - wall
        gap = deadline.longest
        if number in {0, 2}:
            label = "cold" if number == 0 else "warm"
            worst.append(gap.seconds)
            print(
                f"{name:26}{label:6}{rows:>10,} rows{cpu:8.2f} s{deadline.count:7} looks, longest"
                f" {gap.seconds * 1000:7.0f} ms  {gap.before} -> {gap.after}",
                flush=True,
            )
    chance, over = Random(1), 0.0  # noqa: S311  nothing is kept secret
    for _ in range(cancels):
        deadline = WatchedDeadline()
        timer = Timer(chance.random() * wall, deadline.cancel)
        timer.start()
        try:
            for _ in ask(graph, name, deadline, names):
                pass
        except Cancelled:
            over = max(over, process_time() - deadline.cancelled_at)
        timer.cancel()
        timer.join()
    if cancels:
        worst.append(over)
        print(f"{name:26}cancelled {cancels} times: went on for at most {over * 1000:.0f} ms", flush=True)
    return worst


def main() -> None:
    """Build the graph, measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--follows", type=int, default=2_000_000)
    parser.add_argument("--shape", nargs="*")
    parser.add_argument("--cancel", type=int, default=3)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--graph", type=Path, help="keep the graph here, for the next time")
    given = parser.parse_args()
    people, follows = (5_000, 50_000) if given.small else (given.people, given.follows)
    with TemporaryDirectory() as folder:
        kept = given.graph or Path(folder)
        graph = og.open(kept / "people.og") if (kept / "people.og").exists() else build(kept, people, follows)
        names = [f"person-{number:08d}" for number in range(people)] * 4
        worst = {name: max(measure(graph, name, names, given.cancel)) for name in given.shape or [*SHAPES, *BIG]}
    for name, seconds in sorted(worst.items(), key=lambda item: -item[1]):
        verdict = "ok" if seconds <= CEILING else "MISSED"
        print(f"{name:26}{seconds * 1000:7.0f} ms   ceiling {CEILING * 1000:.0f} ms {verdict}")


if __name__ == "__main__":
    main()
