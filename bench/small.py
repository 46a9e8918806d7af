"""What small questions cost: a lookup by key and one hop, against the Lance calls that they cannot do without.

    .venv/bin/python bench/small.py [--people 100000] [--follows 300000] [--rounds 60] [--json]

Asked twice: of a graph whose tables are found by their indexes, and of one that has been asked so often that it answers
from memory. Every round asks about another person. Times are CPU time of the process in milliseconds, which a busy
machine changes less than the clock: medians, and the least.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import cast

from after_commit import Asked
from omnigraph.read.frames import shared_cache

CEILING = 1.5
"""What the design allows, in raw Lance calls."""


@dataclass(frozen=True, slots=True)
class Line:
    """One question: our milliseconds and those of the raw calls."""

    what: str
    ours_ms: float
    ours_least_ms: float
    raw_ms: float
    raw_least_ms: float

    @property
    def ratio(self) -> float:
        """Our median by that of Lance."""
        return self.ours_ms / self.raw_ms

    def __str__(self) -> str:
        times = f"{self.ours_ms:9.2f}{self.ours_least_ms:9.2f}{self.raw_ms:9.2f}{self.raw_least_ms:9.2f}"
        verdict = "ok" if self.ratio <= CEILING else "MISSED"
        return f"{self.what:28}{times}{self.ratio:9.2f}x   ceiling {CEILING}x {verdict}"


class RawCalls:
    """The same questions as calls of Lance."""

    def __init__(self, asked: Asked) -> None:
        snapshot = asked.graph.snapshot()
        self._people = snapshot.table("node:Person").dataset
        self._edges = snapshot.table("edge:Knows").dataset

    def look_up(self, who: str) -> object:
        """Find a person by key."""
        return self._people.to_table(columns=["id", "name", "age"], filter=f"id IN ('{who}')")

    def hop(self, who: str) -> object:
        """Find the people that a person knows: that person, the edges, the others."""
        self.look_up(who)
        found = cast("list[str]", self._edges.to_table(columns=["dst"], filter=f"src IN ('{who}')")["dst"].to_pylist())
        listed = ", ".join(f"'{each}'" for each in found)
        return self._people.to_table(columns=["id", "name", "age"], filter=f"id IN ({listed})") if found else None


def measure(what: str, asked: Asked, ours: Callable[[str], object], raw: Callable[[str], object], rounds: int) -> Line:
    """Ask in turns, each time about another person."""
    times: list[list[float]] = [[], []]
    for number in range(rounds):
        who = str(asked.names[number * 7919 % len(asked.names)])
        for ask, taken in zip((ours, raw), times, strict=True):
            started = process_time()
            ask(who)
            taken.append((process_time() - started) * 1000)
    return Line(what, median(times[0]), min(times[0]), median(times[1]), min(times[1]))


def measure_all(asked: Asked, rounds: int) -> list[Line]:
    """Measure by index, in a cache that forgets, and then from memory."""
    raw, cache = RawCalls(asked), shared_cache()

    def ask_anew(question: str) -> Callable[[str], object]:
        def ask(who: str) -> object:
            cache.clear()
            return asked.ask(question, who)

        return ask

    def ask(question: str) -> Callable[[str], object]:
        return lambda who: asked.ask(question, who)

    questions = {"lookup": raw.look_up, "one hop": raw.hop}
    found = [measure(f"{name}, by index", asked, ask_anew(name), call, rounds) for name, call in questions.items()]
    asked.ask("aggregate", "")
    for name in questions:
        for number in range(300):
            asked.ask(name, str(asked.names[number]))
    return found + [measure(f"{name}, in memory", asked, ask(name), call, rounds) for name, call in questions.items()]


def main() -> None:
    """Build the graph, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--follows", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        lines = measure_all(Asked(Path(folder), given.people, given.follows), given.rounds)
    if given.json:
        print(json.dumps([{**asdict(line), "ratio": line.ratio} for line in lines], indent=2))
        return
    print(f"small questions: {given.people:,} people, {given.follows:,} edges, CPU ms of {given.rounds} rounds")
    print(f"{'':28}{'ours':>9}{'least':>9}{'Lance':>9}{'least':>9}{'ratio':>10}")
    for line in lines:
        print(line)


if __name__ == "__main__":
    main()
