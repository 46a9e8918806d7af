"""What a new process costs: until the first answer, of Python and of the command line, in CPU seconds.

    .venv/bin/python bench/first_second.py [--rounds 5] [--json]

Each round starts new processes and takes their user and system time. The least of the rounds is shown, because other
work on the machine only ever adds to it. Modules are compiled before. Arrow imports pandas with its first array where
pandas is installed. The base install has no pandas: its lines hide it. The libraries alone are what no change of ours
can save.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import omnigraph as og

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
ANSWER = """
import omnigraph as og
graph = og.open({location!r})
text = "query q($who: String) {{ match {{ $p: Person {{ name: $who }} }} return {{ $p.age }} }}"
assert graph.query(text, params={{"who": "p7"}}).rows == [{{"p.age": 7}}]
"""
# Stands in for an environment without pandas.
WITHOUT_PANDAS = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name == "pandas" else find(name, *more)
"""
LIBRARIES = "import lance, lark, obstore, orjson"
QUERY = 'query q() { match { $p: Person { name: "p7" } } return { $p.age } }'


@dataclass(frozen=True, slots=True)
class Line:
    """One kind of process, its CPU seconds, and its ceiling."""

    what: str
    cpu_s: float
    ceiling: float | None

    def __str__(self) -> str:
        if self.ceiling is None:
            return f"{self.what:44}{self.cpu_s:8.2f} s"
        verdict = "ok" if self.cpu_s <= self.ceiling else "MISSED"
        return f"{self.what:44}{self.cpu_s:8.2f} s   ceiling {self.ceiling} s {verdict}"


def spend(command: list[str]) -> float:
    """Run a process and return its CPU seconds."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(location: Path, rounds: int) -> list[Line]:
    """Start every kind of process as often as asked, after once to compile the modules."""
    python, program = sys.executable, [sys.executable, "-m", "omnigraph"]
    asked = [*program, "-g", str(location), "query", "-e", QUERY]
    answer = ANSWER.format(location=str(location))
    processes: list[tuple[str, list[str], float | None]] = [
        ("base install: import, open, first answer", [python, "-c", WITHOUT_PANDAS + answer], 0.4),
        ("of it: Lance, Arrow, NumPy, Lark, obstore", [python, "-c", WITHOUT_PANDAS + LIBRARIES], None),
        ("of it: Arrow with NumPy", [python, "-c", "import pyarrow"], None),
        ("with pandas installed", [python, "-c", answer], 0.4),
        ("of it: the same libraries", [python, "-c", LIBRARIES], None),
        ("omnigraph query, one answer", asked, 0.4),
        ("of it: typer with pydantic", [python, "-c", "import typer._adapters"], None),
        ("omnigraph --help", [*program, "--help"], 0.15),
    ]
    return [
        Line(what, min([spend(command) for _ in range(rounds + 1)][1:]), ceiling)
        for what, command, ceiling in processes
    ]


def main() -> None:
    """Make a small graph, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        location = Path(folder) / "people.og"
        people = [{"type": "Person", "data": {"name": f"p{number}", "age": number}} for number in range(100)]
        og.init(location, SCHEMA).load(people)
        lines = measure(location, given.rounds)
    if given.json:
        print(json.dumps([asdict(line) for line in lines], indent=2))
        return
    print(f"the first second: the least CPU time of {given.rounds} new processes")
    for line in lines:
        print(line)


if __name__ == "__main__":
    main()
