"""A query works within its memory: it takes fewer rows at a time, spills them, or is refused by name."""

from __future__ import annotations

import tempfile
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Final

import numpy as np
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.deadlines import Deadline
from omnigraph.errors import Cancelled, LimitError, MemoryExceeded, ParameterError
from omnigraph.graph import Graph
from omnigraph.language.query.plan import Expand, NodeScan, walk_plan
from omnigraph.read.memory import SMALL_QUERY, MemoryPool, QueryMemory, parse_bytes
from omnigraph.read.query import PlannedQuery, QueryOptions, QueryRequest, execute_query, plan_query
from omnigraph.read.result import row_sorter
from omnigraph.read.result.spilled_rows import SpilledRows
from tests.selection import daily

SCHEMA: Final = "node Person { name: String @key  age: I32  seen: I64?  city: String }\nedge Knows: Person -> Person"
PEOPLE: Final = 300
KNOWN: Final = 20
MEGABYTE: Final = 2**20


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """People who know twenty others each: nearly everybody is three hops away."""
    made = omnigraph.init(tmp_path_factory.mktemp("people") / "people.og", SCHEMA)
    chance = np.random.default_rng(7)
    names = [f"p{number:04}" for number in range(PEOPLE)]
    people = {
        "name": names,
        "age": pa.array(chance.integers(0, 80, PEOPLE), pa.int32()),
        "seen": pa.array(chance.integers(0, 80, PEOPLE), pa.int64(), mask=np.arange(PEOPLE) % 50 == 0),
        "city": [f"c{number % 20}" for number in range(PEOPLE)],
    }
    ends = np.repeat(np.arange(PEOPLE), KNOWN), chance.integers(0, PEOPLE, PEOPLE * KNOWN)
    links = {name: [names[at] for at in places] for name, places in zip(("from", "to"), ends, strict=True)}
    made.load(nodes={"Person": pa.table(people)}, edges={"Knows": pa.table(links)})
    return made


def plan(graph: Graph, text: str, memory: int | None = None) -> PlannedQuery:
    return plan_query(graph._manifest, graph.snapshot(), QueryRequest(text), QueryOptions(memory=memory))


def rows_of(query: PlannedQuery, *, ordered: bool = False) -> list[str]:
    found = [str(row) for row in execute_query(query)]
    return found if ordered else sorted(found)


# --------------------------------------------------------------------------------------------- shapes

TWO_HOPS: Final = "$a: Person  $a knows $b  $b knows $c"
MANY_GROUPS: Final = """match { $a: Person  $a knows $b  $b knows $c  $c.age < 8 }
  return { $a.name as x, $b.name as y, $c.seen as z, count($c) as n, sum($c.age) as s, avg($b.seen) as m,
    min($c.name) as l, max($b.age) as h, count(distinct $c.city) as d, collect($c.city) as o }"""
SHAPES: Final = {
    "more groups than memory": MANY_GROUPS,
    "more groups in order": f"{MANY_GROUPS} having {{ n > 0 and h > 5 }} order {{ m desc, d }}",
    "the first of more groups": f"{MANY_GROUPS} order {{ s desc }} limit 50 offset 9",
    "counts over several hops": "match { $a: Person  $a knows{1,3} $b } return { count($b) as n }",
    "counts by source": "match { $a: Person  $a knows{1,3} $b } return { $a.name, count($b) as n }",
    "groups of pairs": f"match {{ {TWO_HOPS} }} return {{ $a.city as x, $c.city as y, count($b) as n, "
    "sum($c.age) as s, avg($b.seen) as m, min($a.name) as l, max($c.age) as h, count(distinct $c.age) as d }",
    "groups of walks": "match { $a: Person  $a knows{1,3} $b } return { $a.city as x, $b.city as y, count($a) as n }",
    "a join under an aggregate": "match { $a: Person  $b: Person  $a.age = $b.seen } "
    "return { $a.city as x, $b.city as y, count($a) as n, sum($b.age) as s }",
    "a join by order": "match { $a: Person  $b: Person  $a.age < $b.age } return { $a.city as x, count($b) as n }",
    "a product under an aggregate": "match { $a: Person  $b: Person } "
    "return { $a.city as x, $b.city as y, count($a) as n }",
    "the first in order": f"match {{ {TWO_HOPS} }} return {{ $a.name as a, $b.name as b, $c.name as c }} "
    "order { $c.seen, $a.name desc } limit 7 offset 2",
    "rows in order": "match { $a: Person  $a knows $b } return { $a.name as a, $b.name as b } order { $b.seen desc }",
    "what is not there": f"match {{ $a: Person  not {{ {TWO_HOPS.removeprefix('$a: Person')}  $c.age > 78  "
    "$c.age > $b.age } } return { count($a) as n }",
    "walks that close": "match { $a: Person  $a knows $b  $b knows{2,3} $a } return { count($a) as n }",
    "optional walks": "match { $a: Person  optional { $a knows $b  $b.age > 70 } } return { $a.city, count($b) as n }",
    "paths": "match { $a: Person  $a $w:knows{1,2} $b } return { hops($w) as h, count($a) as n }",
}


# Others of the daily shapes have as many groups, as many aggregates, or a limit.
LONG_SHAPES: Final = ("groups of pairs", "more groups than memory", "the first of more groups")


@pytest.mark.parametrize("shape", daily(SHAPES, SHAPES.keys() - LONG_SHAPES))
def test_with_little_memory_the_rows_are_the_same_and_less_is_held(graph: Graph, shape: str) -> None:
    text, ordered = f"query q() {{ {SHAPES[shape]} }}", "order" in SHAPES[shape]
    ample = plan(graph, text)
    expected = rows_of(ample, ordered=ordered)
    budget = 2_000_000 if MANY_GROUPS in text else 500_000
    little = plan(graph, text, budget)
    assert rows_of(little, ordered=ordered) == expected
    assert little.context.memory.peak <= budget
    assert little.context.memory.held == ample.context.memory.held == 0
    if shape not in ("rows in order", "a join under an aggregate", "optional walks"):
        assert ample.context.memory.peak > 2 * budget, "else the shape shows nothing"


@pytest.mark.parametrize(
    "shape", daily(["counts over several hops", "groups of walks", "the first in order"], ["counts over several hops"])
)
def test_what_is_tracked_is_what_is_allocated(graph: Graph, shape: str) -> None:
    """NumPy reports its arrays to tracemalloc: without a budget these shapes hold many times as much."""
    budget = MEGABYTE // 2
    text = f"query q() {{ {SHAPES[shape]} }}"
    rows_of(plan(graph, text, budget))
    little = plan(graph, text, budget)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in little.context.memory.iterate(lambda: iter(execute_query(little).batches())):
            pass
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * budget


def test_what_no_memory_suffices_for_is_refused_with_the_step_and_the_bytes(graph: Graph) -> None:
    text = "query q() { match { $a: Person  $a knows{1,3} $b } return { count($b) as n } }"
    with pytest.raises(MemoryExceeded, match=r"Expand .*Knows.* needs .*; of .* for queries .* are left") as caught:
        graph.query(text, memory=5_000).to_arrow()
    error = caught.value
    assert isinstance(error, LimitError)
    assert (error.budget, error.details["step"], error.code) == (5_000, error.step, "memory_exceeded")
    assert error.asked + error.held > 5_000 // 64


def test_the_memory_of_a_graph_holds_for_its_queries_and_one_of_a_query_comes_first(graph: Graph) -> None:
    text = "query q() { match { $a: Person  $a knows{1,3} $b } return { count($b) as n } }"
    small = omnigraph.open(graph.uri, "ro", memory="4KB")
    assert small.memory == 4096
    with pytest.raises(MemoryExceeded):
        small.query(text).to_arrow()
    assert small.query(text, memory="64 MiB").rows == graph.query(text).rows


# --------------------------------------------------------------------------------------------- what is computed

EVERYBODY: Final = "query q() { match { $a: Person } return { $a.age as age, $a.seen as seen } }"


def frame_rows_of(query: PlannedQuery, kind: type[Expand] | type[NodeScan], place: int) -> int:
    """How many rows an operator made, as they are kept."""
    operators = [each for each in walk_plan(query.plan) if isinstance(each, kind)]
    return query.context.recorder.stats[id(operators[place])].frame_rows


def test_an_outer_row_is_left_alone_once_something_is_found_for_it(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "query q() { match { $a: Person  exists { $a knows $b  $b knows $c  $c.age >= 0 } } return { count($a) as n } }"
    )
    monkeypatch.setattr("omnigraph.read.match.pieces.PIECE_ROWS", 100)
    query = plan(graph, text)
    assert rows_of(query) == [str({"n": PEOPLE})]
    made = frame_rows_of(query, Expand, 0)
    assert made < PEOPLE * KNOWN, f"of {PEOPLE * KNOWN * KNOWN} pairs {made} were made"


def test_the_right_side_of_a_product_is_computed_once(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.read.match.pieces.PIECE_ROWS", 64)
    monkeypatch.setattr("omnigraph.read.match.execute._FIRST_PIECE", 16)
    for condition in ("", "$a.age = $b.age"):
        query = plan(
            graph, f"query q() {{ match {{ $a: Person  $b: Person  {condition} }} return {{ $a.name, $b.name }} }}"
        )
        assert sum(batch.num_rows for batch in execute_query(query).batches()) > PEOPLE
        assert [frame_rows_of(query, NodeScan, place) for place in (0, 1)] == [PEOPLE, PEOPLE]


def test_numbers_of_two_types_are_joined_without_a_loop_over_all_pairs(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("omnigraph.read.match.join._join_in_loops")
    text = "query q() { match { $a: Person  $b: Person  $a.age = $b.seen } return { count($a) as n } }"
    people = [(row["age"], row["seen"]) for row in graph.query(EVERYBODY).rows]
    expected = sum(age == seen for age, _ in people for _, seen in people)
    assert graph.query(text).rows == [{"n": expected}]


# --------------------------------------------------------------------------------------------- files


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


SORTED: Final = f"query q() {{ {SHAPES['rows in order']} }}"
GROUPED: Final = f"query q() {{ {SHAPES['more groups in order']} }}"


@pytest.mark.parametrize(("text", "memory"), [(SORTED, 100_000), (GROUPED, 700_000)], ids=["rows", "groups"])
def test_what_is_sorted_or_grouped_is_spilled_to_files_without_names(
    graph: Graph, temporary: Path, monkeypatch: pytest.MonkeyPatch, text: str, memory: int
) -> None:
    runs: list[int] = []

    def count(self: SpilledRows, rows: pa.Table) -> None:
        runs.append(rows.num_rows)
        write(self, rows)

    write = SpilledRows.write
    monkeypatch.setattr(SpilledRows, "write", count)
    monkeypatch.setattr(row_sorter, "_MOST_RUNS", 4)
    whole = graph.query(text).to_arrow()
    batches = graph.query(text, memory=memory).batches(100)
    first = next(batches)
    assert len(runs) > 8, "so that some runs are merged before others"
    # A process that is killed now leaves nothing behind.
    assert list(temporary.iterdir()) == []
    assert pa.Table.from_batches([first, *batches]).equals(whole)


# --------------------------------------------------------------------------------------------- the pool


def test_a_query_waits_for_what_another_one_gives_back() -> None:
    pool = MemoryPool(100 * MEGABYTE)
    first, second = QueryMemory(pool), QueryMemory(pool)
    first.reserve(90 * MEGABYTE)
    begun = Event()

    def reserve() -> int:
        begun.set()
        second.reserve(80 * MEGABYTE)
        return second.held

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(reserve)
        begun.wait()
        assert not waiting.done()
        first.release(90 * MEGABYTE)
        assert waiting.result() == 80 * MEGABYTE
    second.release(80 * MEGABYTE)
    assert pool.free == pool.budget


def test_two_queries_never_wait_for_each_other() -> None:
    pool = MemoryPool(100 * MEGABYTE)
    first, second = QueryMemory(pool), QueryMemory(pool)
    first.reserve(60 * MEGABYTE)
    second.reserve(60 * MEGABYTE)
    deadline = Deadline()

    def grow() -> None:
        with deadline:
            first.reserve(39 * MEGABYTE)

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(grow)
        while first in pool._running:
            pass
        with pytest.raises(MemoryExceeded):
            second.reserve(39 * MEGABYTE)
        deadline.cancel()
        with pytest.raises(Cancelled):
            waiting.result()


def test_nobody_waits_for_a_result_that_nobody_reads() -> None:
    pool = MemoryPool(100 * MEGABYTE)
    first, second = QueryMemory(pool), QueryMemory(pool)

    def make() -> Iterator[int]:
        with first.hold(100 * MEGABYTE):
            yield 1
            yield 2

    rows = first.iterate(make)
    assert next(rows) == 1
    with pytest.raises(MemoryExceeded):
        second.reserve(50 * MEGABYTE)
    # Small queries go on in any case.
    second.reserve(SMALL_QUERY)
    assert list(rows) == [2]
    assert pool.free == pool.budget


@pytest.mark.parametrize(
    ("size", "nbytes"), [(1, 1), ("17", 17), ("2kb", 2048), ("512MB", 512 * 2**20), ("1.5 GiB", 3 * 2**29)]
)
def test_sizes(size: int | str, nbytes: int) -> None:
    assert parse_bytes(size) == nbytes


@pytest.mark.parametrize("size", [0, -5, "", "much", "5 apples", "-1MB", "1e3"])
def test_what_is_no_size_is_refused(graph: Graph, size: int | str) -> None:
    with pytest.raises(ParameterError, match="memory is"):
        graph.query("query q() { match { $a: Person } return { $a.name } }", memory=size)
