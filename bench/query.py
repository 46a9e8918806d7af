"""How fast questions are answered: against DuckDB, Ladybug, SQLite, Polars, networkx and plain Lance scans, in one run.

    .venv/bin/python bench/query.py [--people 100000] [--follows 2400000] [--rounds 15] [--cold-rounds 3] [--json]
    .venv/bin/python bench/query.py --power-law [--nodes 1000000] [--edges 10000000] [...]

Every engine lives in a process of its own, and they are asked in turns, so that a busy machine slows all of them alike.
Cold is the first question to a new process: opening the files and answering, without the imports, which are shown
apart; the files may still be in the memory of the operating system. Warm is a process that was asked everything before.
Times are medians. Ratios are our time by theirs: below 1 we are ahead. A dash: the engine cannot be asked that. When
two engines answer differently the run fails and says where. An engine is not asked again once a question has taken a
minute of it. Polars and networkx have their graph in memory, as frames and as dicts; cold they read it from Parquet.

Seconds, on small data: ``--people 2000 --follows 20000 --rounds 3 --cold-rounds 1``.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import resource
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

import pyarrow.parquet as pq

from engines import BUILDERS, ENGINES, OMNIGRAPH, Engine, answers, import_engine, open_engine, parquet
from power_law import POWER_LAW
from scans import Row
from social import SOCIAL
from social_graph import LEAST_PEOPLE
from workload import Question, Workload, most_edges

if TYPE_CHECKING:
    # The children of this module must begin without the engines, and that one imports Lance.
    from publish import Promise

Result = TypeVar("Result")

PEERS = tuple(name for name in ENGINES if name != OMNIGRAPH)
# What the design allows a question that is asked again.
CEILINGS = {"DuckDB": 1.0, "Ladybug": 2.0}
LEAST_NODES = 100
# After so much time an engine is not asked the same question again.
PATIENCE_MS = 60_000


# ------------------------------------------------------------------------------------------------ in a process apart


@dataclass(frozen=True, slots=True)
class Answer:
    """What an engine said, how long it took, and the largest resident size of its process until then.

    ``import_ms`` is what came before, where the process had not imported the engine yet.
    """

    rows: list[Row]
    milliseconds: float
    import_ms: float | None
    peak_mb: int


class _Opened:
    """The engine of this process, once it is open."""

    engine: Engine | None = None


def write_parquet(folder: Path, workload: Workload, size: Size) -> dict[str, int]:
    """Make the graph, for every engine to build from; how many rows each type has."""
    made = workload.make(size.nodes, size.edges)
    for name, rows in made.items():
        pq.write_table(rows, parquet(folder, name))
    return {name: rows.num_rows for name, rows in made.items()}


def build(name: str, folder: Path, workload: Workload) -> Built:
    """Build the files of an engine."""
    import_engine(name)
    begin = perf_counter()
    BUILDERS[name].build(folder, workload)
    seconds, place = perf_counter() - begin, folder / BUILDERS[name].name
    files = [place] if place.is_file() else [each for each in place.rglob("*") if each.is_file()]
    return Built(seconds, _peak_mb(), sum(each.stat().st_size for each in files) // 2**20)


def answer(name: str, folder: Path, question: Question) -> Answer:
    """Ask the engine of this process; the first question imports and opens it."""
    import_ms = None if _Opened.engine else _milliseconds(partial(import_engine, name))
    begin = perf_counter()
    _Opened.engine = _Opened.engine or open_engine(name, folder)
    rows = _Opened.engine.ask(question)
    return Answer(rows, (perf_counter() - begin) * 1000, import_ms, _peak_mb())


def _milliseconds(work: Callable[[], object]) -> float:
    begin = perf_counter()
    work()
    return (perf_counter() - begin) * 1000


def _peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def new_process() -> ProcessPoolExecutor:
    """A process that shares nothing with this one."""
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))


# ------------------------------------------------------------------------------------------------ measuring


@dataclass(frozen=True, slots=True)
class Size:
    """How large a graph is."""

    nodes: int
    edges: int


@dataclass(frozen=True, slots=True)
class Rounds:
    """How often a question is asked, of new processes and of one that goes on."""

    cold: int
    warm: int


@dataclass(frozen=True, slots=True)
class Built:
    """What the files of an engine took, and their size."""

    seconds: float
    peak_mb: int
    files_mb: int


@dataclass(frozen=True, slots=True)
class Times:
    """What one question took of each engine that was asked: medians, in milliseconds."""

    question: str
    walks: bool
    cold_ms: Mapping[str, float]
    warm_ms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Found:
    """Everything about one graph, by engine. ``peak_mb`` is of a process that was asked everything."""

    workload: str
    rows: Mapping[str, int]
    built: Mapping[str, Built]
    import_ms: Mapping[str, float]
    peak_mb: Mapping[str, int]
    times: Sequence[Times]


class DifferentAnswers(Exception):
    """Two engines do not agree: one of them is wrong, or the question means different things to them."""


def measure(workload: Workload, size: Size, rounds: Rounds) -> Found:
    """Make a graph, build it in each engine, ask everything."""
    with TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        # Not in this process: its children would count what it holds as their own peak.
        rows = _once(write_parquet, folder, workload, size)
        built = {engine: _once(build, engine, folder, workload) for engine in BUILDERS}
        cold = [ask_cold(folder, question, rounds.cold) for question in workload.questions]
        processes = {engine: stack.enter_context(new_process()) for engine in ENGINES}
        first = [ask_in_turns(processes, folder, question, 1) for question in workload.questions]
        warm = [ask_in_turns(processes, folder, question, rounds.warm) for question in workload.questions]
    return Found(
        workload.name,
        rows,
        built,
        {engine: _import_ms(engine, [*cold, *first]) for engine in ENGINES},
        {engine: max(each.peak_mb for given in warm for each in given.get(engine, ())) for engine in ENGINES},
        [
            Times(question.name, question.walks, _medians(new), _medians(again))
            for question, new, again in zip(workload.questions, cold, warm, strict=True)
        ],
    )


def ask_cold(folder: Path, question: Question, rounds: int) -> dict[str, list[Answer]]:
    """Ask new processes, one after the other."""
    given: dict[str, list[Answer]] = defaultdict(list)
    for _ in range(rounds):
        for engine in ENGINES:
            if answers(engine, question):
                given[engine].append(_once(answer, engine, folder, question))
    return agreed(question, given)


def ask_in_turns(
    processes: Mapping[str, ProcessPoolExecutor], folder: Path, question: Question, rounds: int
) -> dict[str, list[Answer]]:
    """Ask processes that go on, one after the other."""
    given: dict[str, list[Answer]] = defaultdict(list)
    for _ in range(rounds):
        for engine, process in processes.items():
            if answers(engine, question) and sum(each.milliseconds for each in given[engine]) < PATIENCE_MS:
                given[engine].append(process.submit(answer, engine, folder, question).result())
    return agreed(question, given)


def agreed(question: Question, given: dict[str, list[Answer]]) -> dict[str, list[Answer]]:
    """The answers, if all are the same."""
    said = [(engine, each.rows) for engine, some in given.items() for each in some]
    for engine, rows in said[1:]:
        if not same_rows(rows, said[0][1]):
            raise DifferentAnswers(f"{question.name}: {engine} says {rows}, {said[0][0]} says {said[0][1]}")
    return given


def same_rows(some: Sequence[Row], others: Sequence[Row]) -> bool:
    """Equal, but for how floats were rounded."""
    return len(some) == len(others) and all(
        len(one) == len(other) and all(map(_same, one, other)) for one, other in zip(some, others, strict=True)
    )


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12)
    return one == other


def _once(work: Callable[..., Result], *arguments: object) -> Result:
    with new_process() as process:
        return process.submit(work, *arguments).result()


def _medians(given: Mapping[str, Iterable[Answer]]) -> dict[str, float]:
    return {engine: median(each.milliseconds for each in some) for engine, some in given.items()}


def _import_ms(engine: str, asked: Iterable[Mapping[str, Sequence[Answer]]]) -> float:
    taken = (each.import_ms for given in asked for each in given.get(engine, ()))
    return median(each for each in taken if each is not None)


# ------------------------------------------------------------------------------------------------ printing


def promises(found: Found) -> list[Promise]:
    """The ceilings of the design, beside the worst that was measured and the question that it was measured for."""
    from publish import Promise

    worst = {
        peer: max((ratios(each.warm_ms)[peer], each.question) for each in found.times if each.walks)
        for peer in CEILINGS
    }
    return [Promise(f"{peer}: {question}", ratio, CEILINGS[peer], "x") for peer, (ratio, question) in worst.items()]


def table(found: Found, kept: Sequence[Promise]) -> str:
    """Everything as one text table."""
    counts = ", ".join(f"{count:,} {name}" for name, count in found.rows.items())
    lines = [f"{found.workload}: {counts}"]
    lines += _times("cold, ms", {each.question: each.cold_ms for each in found.times if each.cold_ms})
    lines += _times("warm, ms", {each.question: each.warm_ms for each in found.times})
    lines += [
        "",
        _line("each engine", ENGINES),
        _line("  build from Parquet, s", [_shown(found.built, name, "seconds", ",.1f") for name in ENGINES]),
        _line("  peak of that, MB", [_shown(found.built, name, "peak_mb", ",") for name in ENGINES]),
        _line("  its files, MB", [_shown(found.built, name, "files_mb", ",") for name in ENGINES]),
        _line("  import, ms", [f"{found.import_ms[name]:,.0f}" for name in ENGINES]),
        _line("  peak of all questions, MB", [f"{found.peak_mb[name]:,}" for name in ENGINES]),
        "",
        _line("worst warm ratio", ["measured", "ceiling"]),
    ]
    lines += [
        _line(promise.what, [f"{promise.measured:.2f} x", f"{promise.ceiling:g} x"])
        + f"   {'holds' if promise.holds else 'DOES NOT HOLD'}"
        for promise in kept
    ]
    return "\n".join(lines)


def ratios(taken: Mapping[str, float]) -> dict[str, float]:
    """Our time by that of each peer that was asked."""
    return {peer: taken[OMNIGRAPH] / taken[peer] for peer in PEERS if peer in taken}


def _times(title: str, times: Mapping[str, Mapping[str, float]]) -> list[str]:
    lines = ["", _line(title, [*ENGINES, *(f"/ {peer}" for peer in PEERS)])] if times else []
    for question, taken in times.items():
        by = ratios(taken)
        cells = [f"{taken[name]:,.2f}" if name in taken else "-" for name in ENGINES]
        lines.append(_line(question, [*cells, *(f"{by[peer]:.2f} x" if peer in by else "-" for peer in PEERS)]))
    return lines


def _shown(built: Mapping[str, Built], name: str, fact: str, shape: str) -> str:
    return format(getattr(built[name], fact), shape) if name in built else "-"


def _line(name: str, cells: Iterable[str]) -> str:
    return f"{name:<50}" + "".join(f"{cell:>11}" for cell in cells)


def as_json(found: Found, kept: Sequence[Promise]) -> dict[str, object]:
    """Everything as one object."""
    times = [
        {**asdict(each), "cold_ratios": ratios(each.cold_ms), "warm_ratios": ratios(each.warm_ms)}
        for each in found.times
    ]
    return {**asdict(found), "times": times, "promises": [{**asdict(each), "holds": each.holds} for each in kept]}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="how fast questions are answered, against other engines")
    parser.add_argument("--people", type=int, default=100_000, help=f"of the social graph; at least {LEAST_PEOPLE:,}")
    parser.add_argument("--follows", type=int, default=2_400_000, help="edges between them")
    parser.add_argument("--power-law", action="store_true", help="ask the large graph instead")
    parser.add_argument("--nodes", type=int, default=1_000_000, help=f"of the large graph; at least {LEAST_NODES}")
    parser.add_argument("--edges", type=int, default=10_000_000, help="between them")
    parser.add_argument("--rounds", type=int, default=15, help="how often a process is asked each question")
    parser.add_argument("--cold-rounds", type=int, default=3, help="how many new processes are; 0 leaves that out")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.people < LEAST_PEOPLE or options.nodes < LEAST_NODES:
        parser.error(f"--people must be at least {LEAST_PEOPLE:,}, and --nodes at least {LEAST_NODES}")
    if options.rounds < 1 or options.cold_rounds < 0:
        parser.error("--rounds must be at least 1, and --cold-rounds not negative")
    workload = POWER_LAW if options.power_law else SOCIAL
    size = Size(options.nodes, options.edges) if options.power_law else Size(options.people, options.follows)
    if not 1 <= size.edges <= most_edges(size.nodes):
        parser.error(f"between {size.nodes:,} nodes there can be 1 to {most_edges(size.nodes):,} edges")
    found = measure(workload, size, Rounds(options.cold_rounds, options.rounds))
    kept = promises(found)
    print(json.dumps(as_json(found, kept), indent=2) if options.json else table(found, kept))


if __name__ == "__main__":
    main()
