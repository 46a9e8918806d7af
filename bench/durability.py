"""What it costs to survive a power cut: one-row commits and a load with durability "process" and with "power".

    .venv/bin/python bench/durability.py [--rounds 100] [--rows 1000000] [--folder DIR] [--json]

Every round commits one row with each engine, in turns, so that a busy machine or disk slows all of them alike. Beside
OmniGraph: SQLite with ``synchronous=FULL`` in either journal mode, DuckDB and Ladybug, which sync each commit. Times
are medians; the ratio of the two durabilities is the median of the rounds' ratios. The last line times a bare fsync of
a small new file in the same folder. Choose ``--folder`` on the disk that you ask about: a memory disk syncs for free.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Protocol, cast

import pyarrow as pa

import omnigraph
from omnigraph.storage.durability import Durability

SCHEMA = "node Person { name: String @key  age: I64? }"
ADD = "query add($name: String, $age: I64) { insert Person { name: $name, age: $age } }"
CEILING = 1.5
"""With more than this, "process" is the default for new graphs."""

Commit = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Report:
    """Milliseconds of a one-row commit by engine, seconds of a load by durability, and the ratios power / process."""

    commits: dict[str, float]
    commit_ratio: float
    loads: dict[str, float]
    load_ratio: float
    sync: float


class _Connection(Protocol):
    def execute(self, text: str, parameters: object = ...) -> object: ...


class _DuckDB(Protocol):
    def connect(self, path: str) -> _Connection: ...


class _Ladybug(Protocol):
    def Database(self, path: str) -> object: ...  # noqa: N802  its name
    def Connection(self, database: object) -> _Connection: ...  # noqa: N802  its name


def begin_omnigraph(folder: Path, durability: Durability) -> Commit:
    """Commit rows by mutations."""
    graph = omnigraph.init(folder / f"{durability}.og", SCHEMA, durability=durability)
    return lambda number: graph.mutate(ADD, params={"name": f"p{number}", "age": number})


def begin_sqlite(folder: Path, journal: str) -> Commit:
    """Commit rows one by one: without an explicit transaction each statement is one."""
    connection = sqlite3.connect(folder / f"{journal}.sqlite", isolation_level=None)
    connection.execute(f"PRAGMA journal_mode={journal}")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE person (name TEXT PRIMARY KEY, age INTEGER)")
    return lambda number: connection.execute("INSERT INTO person VALUES (?, ?)", (f"p{number}", number))


def begin_duckdb(folder: Path) -> Commit:
    """Commit rows one by one."""
    connection = cast("_DuckDB", import_module("duckdb")).connect(str(folder / "duck.db"))
    connection.execute("CREATE TABLE person (name TEXT PRIMARY KEY, age BIGINT)")
    return lambda number: connection.execute("INSERT INTO person VALUES (?, ?)", [f"p{number}", number])


def begin_ladybug(folder: Path) -> Commit:
    """Commit nodes one by one."""
    engine = cast("_Ladybug", import_module("ladybug"))
    connection = engine.Connection(engine.Database(str(folder / "lady.lbug")))
    connection.execute("CREATE NODE TABLE Person (name STRING, age INT64, PRIMARY KEY (name))")
    return lambda number: connection.execute(
        "CREATE (:Person {name: $name, age: $age})", {"name": f"p{number}", "age": number}
    )


ENGINES: dict[str, Callable[[Path], Commit]] = {
    "process": lambda folder: begin_omnigraph(folder, "process"),
    "power": lambda folder: begin_omnigraph(folder, "power"),
    "SQLite, delete": lambda folder: begin_sqlite(folder, "DELETE"),
    "SQLite, WAL": lambda folder: begin_sqlite(folder, "WAL"),
    "DuckDB": begin_duckdb,
    "Ladybug": begin_ladybug,
}


def begin_all(folder: Path) -> dict[str, Commit]:
    """Open every engine that is installed."""
    opened: dict[str, Commit] = {}
    for name, begin in ENGINES.items():
        try:
            opened[name] = begin(folder)
        except ImportError as missing:
            print(f"{name} is left out: {missing}")
    return opened


def measure(work: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    started = perf_counter()
    work()
    return perf_counter() - started


def measure_commits(folder: Path, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each one-row commit, by engine, after a few that warm up."""
    engines = begin_all(folder)
    times: dict[str, list[float]] = {name: [] for name in engines}
    for number in range(rounds + 5):
        # Every other round backwards: a commit may pay for what the one before it left to be written.
        for name in sorted(engines, reverse=number % 2 == 1):
            taken = measure(lambda name=name, number=number: engines[name](number))
            if number >= 5:
                times[name].append(taken)
    return times


def measure_loads(folder: Path, rows: int, rounds: int = 3) -> dict[str, float]:
    """Return the seconds of the quickest load of that many rows, by durability."""
    table = pa.table({"name": [f"p{number}" for number in range(rows)], "age": list(range(rows))})
    times: dict[str, list[float]] = {"process": [], "power": []}
    for number in range(rounds):
        for durability in cast("tuple[Durability, Durability]", ("process", "power")):
            graph = omnigraph.init(folder / f"load-{durability}-{number}.og", SCHEMA, durability=durability)
            times[durability].append(measure(lambda graph=graph: graph.load(nodes={"Person": table})))
    return {name: min(taken) for name, taken in times.items()}


def measure_sync(folder: Path, rounds: int) -> float:
    """Return the milliseconds of writing and syncing a small new file."""

    def write_and_sync(number: int) -> None:
        with (folder / f"sync{number}").open("wb") as file:
            file.write(b"x" * 1000)
            file.flush()
            os.fsync(file.fileno())

    return milliseconds(measure(lambda number=number: write_and_sync(number)) for number in range(rounds))


def milliseconds(seconds: Iterable[float]) -> float:
    """Return the median in milliseconds."""
    return median(seconds) * 1000


def run(folder: Path, rounds: int, rows: int) -> Report:
    """Measure everything."""
    times = measure_commits(folder, rounds)
    ratio = median(power / process for power, process in zip(times["power"], times["process"], strict=True))
    loads = measure_loads(folder, rows)
    commits = {name: milliseconds(taken) for name, taken in times.items()}
    return Report(commits, ratio, loads, loads["power"] / loads["process"], measure_sync(folder, rounds))


def show(report: Report) -> None:
    """Print the report as text."""
    print("one-row commit, median")
    for name, taken in report.commits.items():
        beside = taken / report.commits["process"]
        print(f"  {name:16} {taken:8.1f} ms  {beside:5.2f} of process")
    verdict = "power" if report.commit_ratio <= CEILING else "process"
    print(f"  power / process  {report.commit_ratio:.2f} (ceiling {CEILING}): the default is {verdict}")
    for name, taken in report.loads.items():
        print(f"load, {name:10} {taken:8.2f} s")
    print(f"load, power / process {report.load_ratio:.2f}")
    print(f"fsync of a new file {report.sync:.2f} ms")


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description="One-row commits and loads with either durability")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with TemporaryDirectory(dir=cast("Path | None", arguments.folder)) as folder:
        report = run(Path(folder), cast(int, arguments.rounds), cast(int, arguments.rows))
    if arguments.json:
        print(json.dumps(asdict(report)))
    else:
        show(report)


if __name__ == "__main__":
    main()
