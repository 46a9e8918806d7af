"""What a small question costs on Spark: answered in the driver's process, and computed by the executors.

    .venv/bin/python bench/spark_small.py [--nodes 200000] [--edges 1000000] [--rounds 3] [--json]

Each question is asked in both ways in turns, after one round that warms them; times are medians, and ratios are those
of one run. The questions are a lookup by key, a lookup of two hops, and those of the demo's harbour. The count of rows
is asked of a view, which reads all columns, and of ``sg.sql``, which reads none. The load of the machine is printed
beside the numbers: the executors and the driver share its cores. A lookup by key may take a second, a question of the
demo two.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

import omnigraph
from omnigraph.graph import Graph
from peaks import clock
from spark_load import frames_of, load
from spark_rows import SCHEMA, SEED, Size, write_files

DEMO = Path(__file__).parents[1] / "examples" / "pipeline"
QUESTIONS: dict[str, dict[str, object]] = {
    "busiest_ports": {},
    "sister_ports": {"port": "p00003", "least": 9.0},
    "strangers": {"port": "p00000"},
}
CEILINGS = {"by key": 1.0, **dict.fromkeys(QUESTIONS, 2.0)}
"""In seconds, after the first time."""
VESSELS, PORTS, CALLS = 4_000, 50, 30_000
BY_KEY = 'query q() { match { $p: Person { name: "person-7" } } return { $p.name, $p.age } }'
TWO_HOPS = 'query q() { match { $p: Person { name: "person-7" }  $p knows $q  $q knows $r } return { $r.name } }'


@dataclass(frozen=True, slots=True)
class Cost:
    """Medians in seconds: here is the driver's process, there are the executors."""

    what: str
    rows: int
    here: float
    there: float


def measure(folder: Path, size: Size, rounds: int) -> list[Cost]:
    """Ask each question in both ways."""
    people = _load_people(folder, size)
    harbour = _load_harbour(folder)
    costs = [_ask(people, what, text, None, {}, rounds) for what, text in (("by key", BY_KEY), ("two hops", TWO_HOPS))]
    costs += [_ask(harbour, name, DEMO / "questions.gq", name, given, rounds) for name, given in QUESTIONS.items()]
    return [*costs, _count(people, rounds)]


def _load_people(folder: Path, size: Size) -> Graph:
    write_files(folder, size, csv=False)
    graph = omnigraph.init(folder / "people.og", SCHEMA)
    session = graph.spark().session
    session.sparkContext.setLogLevel("ERROR")
    load(graph, frames_of(session, folder, "parquet"))
    graph.ensure_indexes()
    return graph


def _load_harbour(folder: Path) -> Graph:
    """A graph of the demo's schema, a tenth of the size of the demo."""
    random = np.random.default_rng(SEED)
    vessels, ports = (
        pa.array([f"{kind}{at:05}" for at in range(count)]) for kind, count in (("v", VESSELS), ("p", PORTS))
    )
    flags = pa.array([("NO", "DK", "PA", "LR")[at % 4] for at in range(VESSELS)])
    draughts, depths = (pa.array(random.uniform(2, 14, count)) for count in (VESSELS, PORTS))
    ends = [nodes.take(pa.array(random.integers(0, len(nodes), CALLS), pa.int64())) for nodes in (vessels, ports)]
    days = pa.array(random.integers(19_000, 19_700, CALLS).astype(np.int32)).cast(pa.date32())
    graph = omnigraph.init(folder / "harbour.og", DEMO / "harbour.pg")
    graph.load(
        nodes={
            "Vessel": pa.table([vessels, vessels, flags, draughts], names=["code", "name", "flag", "draught"]),
            "Port": pa.table([ports, ports, depths], names=["code", "name", "depth"]),
        },
        edges={"CallsAt": pa.table([*ends, days], names=["from", "to", "day"])},
    )
    return graph


def _ask(graph: Graph, what: str, text: str | Path, name: str | None, given: dict[str, object], rounds: int) -> Cost:
    sg = graph.spark()
    found = [sg.query(text, name, given, engine=engine).collect() for engine in ("auto", "spark")]
    # Executors give rows in no order unless the question has one.
    assert sorted(map(str, found[0])) == sorted(map(str, found[1])), what
    here, there = _compare(
        lambda: sg.query(text, name, given).collect(),
        lambda: sg.query(text, name, given, engine="spark").collect(),
        rounds,
    )
    print(f"{what}: {here:.2f} s, {there:.2f} s", file=sys.stderr)
    return Cost(what, len(found[0]), here, there)


def _count(graph: Graph, rounds: int) -> Cost:
    sg = graph.spark()
    sg.create_views()
    text = "SELECT count(*) FROM Knows"
    rows = sg.sql(text).collect()[0][0]
    assert rows == sg.session.sql(text).collect()[0][0]
    here, there = _compare(lambda: sg.sql(text).collect(), lambda: sg.session.sql(text).collect(), rounds)
    return Cost("count of a view", rows, here, there)


def _compare(here: Callable[[], object], there: Callable[[], object], rounds: int) -> tuple[float, float]:
    taken = [(clock(here).seconds, clock(there).seconds) for _ in range(rounds)]
    first, second = (median(each) for each in zip(*taken, strict=True))
    return first, second


def table(size: Size, costs: list[Cost], load_before: float) -> str:
    """Everything as one text table."""
    head = f"{size.nodes:,} people, {size.edges:,} edges"
    lines = [f"{head:<32}{'rows':>10}{'driver, s':>12}{'executors, s':>14}{'ratio':>10}"]
    lines += [
        f"  {cost.what:<30}{cost.rows:>10,}{cost.here:>12.2f}{cost.there:>14.2f}{f'{cost.there / cost.here:.1f} x':>10}"
        f"{_judge(cost)}"
        for cost in costs
    ]
    return "\n".join([*lines, f"load of the machine: {load_before:.1f} before, {os.getloadavg()[0]:.1f} after"])


def _judge(cost: Cost) -> str:
    """The ceiling of a question as a user asks it, and whether it holds."""
    ceiling = CEILINGS.get(cost.what)
    return "" if ceiling is None else f"   ceiling {ceiling:g} s {'ok' if cost.here <= ceiling else 'MISSED'}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="what a small question costs on Spark, in the driver and on executors")
    parser.add_argument("--nodes", type=int, default=200_000, help="how many people the graph has")
    parser.add_argument("--edges", type=int, default=1_000_000, help="how many edges there are between them")
    parser.add_argument("--rounds", type=int, default=3, help="how often each question is asked")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if min(options.nodes, options.edges, options.rounds) < 1:
        parser.error("all numbers must be at least 1")
    size, load_before = Size(options.nodes, options.edges), os.getloadavg()[0]
    with TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        costs = measure(Path(folder), size, options.rounds)
    print(json.dumps([asdict(cost) for cost in costs], indent=2) if options.json else table(size, costs, load_before))


if __name__ == "__main__":
    main()
