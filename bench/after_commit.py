"""What the first question after a one-row commit costs, as a ratio to the same question asked again.

    .venv/bin/python bench/after_commit.py [--people 100000] [--follows 1000000] [--rounds 7] [--json]

One process writes and asks in turns: a commit, the question, the question again. Both times are medians over the rounds
of wall clock time; ``cpu`` is the ratio of the CPU time of the process, which a busy machine changes less. The ceiling
is 2. The question comes when the process has extended what it has in memory, which it begins after the commit, in a
thread of its own: ``behind`` is the CPU time of that. ``at once`` is the ratio of CPU time for a question that does not
wait for it, and so does a part of it itself: the time of both threads counts there.

``idle`` is the floor of that ratio: the same question of a second graph, which nobody has changed, after a commit
to the first. It is more than 1 because a commit leaves nothing of a question in the caches of the processor. Before the
first round every question was asked until it was answered from memory.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa

import omnigraph as og
from omnigraph.read.follow_commits import wait_for_followers

CEILING = 2.0
SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { since: I32? }"
QUESTIONS = {
    "aggregate": "match { $p: Person  $p knows $f } return { $f.age, count($p) as n }",
    "lookup": "match { $p: Person { name: $who } } return { $p.name, $p.age }",
    "one hop": "match { $p: Person { name: $who }  $p knows $f } return { $f.name, $f.age }",
    "two hops": "match { $p: Person { name: $who }  $p knows $f  $f knows $g } return { $g.name, $g.age }",
}
COMMITS = {
    "insert": "insert Person { name: $new, age: 3 }  insert Knows { from: $new, to: $who }",
    "update": "update Person set { age: 5 } where name = $who",
    "delete edges": "delete Knows where from = $who",
    "delete node": "delete Person where name = $who",
}
LEAST_ASKED = 200


@dataclass(frozen=True, slots=True)
class Spent:
    """Wall clock and CPU time, in milliseconds."""

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """One question after one kind of commit."""

    commit: str
    question: str
    first_ms: float
    again_ms: float
    wall: float
    cpu: float
    at_once: float
    idle: float
    behind_ms: float


class Asked:
    """A graph of people, with names that no commit has used yet."""

    def __init__(self, folder: Path, people: int, follows: int) -> None:
        chance = np.random.default_rng(1)
        self.names = np.array([f"person-{number:08d}" for number in range(people)])
        begins, ends = (pa.array(self.names).take(chance.integers(0, people, follows)) for _ in range(2))
        ages, years = chance.integers(0, 90, people), chance.integers(1990, 2020, follows)
        self.graph = og.init(folder / "people.og", SCHEMA)
        self.graph.load(
            nodes={"Person": pa.table({"name": pa.array(self.names), "age": pa.array(ages, pa.int32())})},
            edges={"Knows": pa.table({"from": begins, "to": ends, "since": pa.array(years, pa.int32())})},
            indexes="always",
        )
        self.used = people

    def next_name(self) -> str:
        """A person that no commit or question has named."""
        self.used -= 1
        return str(self.names[self.used])

    def ask(self, question: str, who: str) -> Spent:
        """Ask one question about a person."""
        text = QUESTIONS[question]
        declared, params = ("$who: String", {"who": who}) if "$who" in text else ("", None)
        return _time(lambda: self.graph.query(f"query q({declared}) {{ {text} }}", params=params).to_arrow())

    def commit(self, kind: str) -> None:
        """Make a commit of one row, or of a node and an edge."""
        who = self.next_name()
        given = {"who": who, "new": f"new {who}"}
        used = {name: value for name, value in given.items() if f"${name}" in COMMITS[kind]}
        declared = ", ".join(f"${name}: String" for name in used)
        self.graph.mutate(f"query m({declared}) {{ {COMMITS[kind]} }}", params=used)


def _time(work: Callable[[], object]) -> Spent:
    wall, cpu = perf_counter(), process_time()
    work()
    return Spent((perf_counter() - wall) * 1000, (process_time() - cpu) * 1000)


def measure(asked: Asked, idle: Asked, rounds: int) -> list[Ratio]:
    """Ask every question after every kind of commit, of the graph that changes and of the one that does not."""
    for graph in (asked, idle):
        for question in QUESTIONS:
            for number in range(3 if question == "aggregate" else LEAST_ASKED):
                graph.ask(question, str(graph.names[number]))
    found: list[Ratio] = []
    for kind in COMMITS:
        for question in QUESTIONS:
            spent: dict[str, list[Spent]] = {name: [] for name in ("behind", "first", "again", "at once", "idle")}
            for number in range(rounds):
                who = str(asked.names[number])
                asked.commit(kind)
                spent["behind"].append(_time(wait_for_followers))
                spent["first"].append(asked.ask(question, who))
                spent["again"].append(asked.ask(question, who))
                asked.commit(kind)
                spent["at once"].append(asked.ask(question, who))
                idle.ask(question, who)
                asked.commit(kind)
                wait_for_followers()
                spent["idle"].append(idle.ask(question, who))
            walls, cpus = (
                {name: median(getattr(each, clock) for each in times) for name, times in spent.items()}
                for clock in ("wall", "cpu")
            )
            ratios = {name: cpus[name] / cpus["again"] for name in ("first", "at once", "idle")}
            found.append(
                Ratio(
                    commit=kind,
                    question=question,
                    first_ms=walls["first"],
                    again_ms=walls["again"],
                    wall=walls["first"] / walls["again"],
                    cpu=ratios["first"],
                    at_once=ratios["at once"],
                    idle=ratios["idle"],
                    behind_ms=cpus["behind"],
                )
            )
    return found


def main() -> None:
    """Build the graph, measure, and print a table or an object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--follows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        asked, idle = (Asked(Path(folder) / name, given.people, given.follows) for name in ("asked", "idle"))
        found = measure(asked, idle, given.rounds)
    if given.json:
        print(json.dumps([asdict(each) for each in found], indent=2))
        return
    columns = "".join(f"{name:>10}" for name in ("first ms", "again ms", "ratio", "cpu", "at once", "idle", "behind"))
    print(f"{'commit':14}{'question':12}{columns}   ceiling {CEILING}")
    for each in found:
        print(
            f"{each.commit:14}{each.question:12}{each.first_ms:10.2f}{each.again_ms:10.2f}{each.wall:10.1f}{each.cpu:10.1f}"
            f"{each.at_once:10.1f}{each.idle:10.1f}{each.behind_ms:10.2f}   {'ok' if each.cpu <= CEILING else 'MISSED'}"
        )


if __name__ == "__main__":
    main()
