"""One long step of a query looks at its deadline while it runs, and not only before and after."""

from __future__ import annotations

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.deadlines import Deadline
from omnigraph.errors import Cancelled
from omnigraph.graph import Graph
from omnigraph.read.frames import parts
from tests.selection import daily

PEOPLE = 60
SCHEMA = "node Person { name: String @key  age: I32? } edge Knows: Person -> Person"
SHAPES = {
    "hops": "match { $a: Person  $a knows $b  $b knows $c } return { $a.name as x, $c.name as y }",
    "join": "match { $a: Person  $b: Person  $a.age = $b.age } return { $a.name as x, $b.name as y }",
    "sort": "match { $a: Person  $a knows $b } return { $a.name as x, $b.name as y } order { $b.age, $b.name }",
    "unsorted": "match { $a: Person  $a knows $b } return { $a.name as x, $b.name as y }",
    "group": "match { $a: Person  $a knows $b  $b knows $c } return { $a.name as x, $c.age as y, count($b) as n }",
    "far": "match { $a: Person  $a knows{1,3} $b } return { $a.name as x, $b.name as y }",
    "product": "match { $a: Person  $b: Person } return { $a.age as x, $b.name as y, count($a) as n }",
    "first": "match { $a: Person  $a knows $b } return { $a.name as x, $b.name as y } order { $b.age desc } limit 70",
    "optional": "match { $a: Person  optional { $a knows $b  $b.age > 0 } } return { $a.name as x, $b.name as y }",
    "edges": "match { $a: Person  $a $e:knows $b  $b.age < $a.age } return { $a.name as x, $b.age + 1 as y }",
    "exists": "match { $a: Person  $a knows $b  not { $b knows $c  $c.age > 1 } } return { $a.name as x, $b.age as y }",
    "collected": "match { $a: Person  $a knows $b } return { $a.age as x, collect($b.name) as y, max($b.name) as z }",
    "distinct": "match { $a: Person  $a knows $b  $b knows $c } return distinct { $a.age as x, $c.name as y }",
    "triangle": "match { $a: Person  $a knows $b  $b knows $c  $c knows $a } return { $a.name as x, $c.name as y }",
}


class CountedDeadline(Deadline):
    """A deadline that counts how often it is looked at, and is cancelled at one of these times."""

    def __init__(self, last: int | None = None) -> None:
        super().__init__()
        self.count = 0
        self._last = last

    def check(self) -> None:
        self.count += 1
        if self.count == self._last:
            self.cancel()
        super().check()


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    names = [f"p{number:02}" for number in range(PEOPLE)]
    ends = [names[(at * step + step) % PEOPLE] for step in (1, 7, 11, 13) for at in range(PEOPLE)]
    made = omnigraph.init(tmp_path_factory.mktemp("long") / "g.og", SCHEMA)
    made.load(
        nodes={"Person": pa.table({"name": names, "age": pa.array([at % 3 for at in range(PEOPLE)], pa.int32())})},
        edges={"Knows": pa.table({"from": names * 4, "to": ends})},
    )
    return made


def ask(graph: Graph, shape: str, deadline: Deadline) -> list[str]:
    with deadline:
        return sorted(map(str, graph.query(f"query q() {{ {SHAPES[shape]} }}").rows))


def count_checks(graph: Graph, shape: str) -> int:
    deadline = CountedDeadline()
    ask(graph, shape, deadline)
    return deadline.count


@pytest.mark.parametrize(
    ("shape", "rows"),
    [
        *(("hops", 960), ("join", 1200), ("sort", 240), ("group", 960), ("far", 2100), ("product", 3600)),
        *(("first", 240), ("optional", 180), ("edges", 240), ("exists", 240), ("collected", 240), ("distinct", 960)),
        ("triangle", 960),
    ],
)
def test_no_step_takes_more_rows_at_a_time_than_allowed(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, shape: str, rows: int
) -> None:
    """There is a look for each part of the largest step, and more for the others."""
    whole = count_checks(graph, shape)
    monkeypatch.setattr(parts, "ROWS_AT_ONCE", 10)
    assert count_checks(graph, shape) >= whole + 2 * rows // 10


def test_a_sort_is_stopped_between_its_passes(graph: Graph) -> None:
    # At least one pass for each key, and one for each digit of its codes.
    assert count_checks(graph, "sort") >= count_checks(graph, "unsorted") + 12


@pytest.mark.parametrize("shape", daily(SHAPES, ["join", "sort"]))
def test_cancelled_at_any_time_it_stops_and_can_be_asked_again(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    monkeypatch.setattr(parts, "ROWS_AT_ONCE", 50)
    expected, count = ask(graph, shape, Deadline()), count_checks(graph, shape)
    for last in range(1, count + 1, 1 + count // 12):
        deadline = CountedDeadline(last)
        with pytest.raises(Cancelled):
            ask(graph, shape, deadline)
        assert deadline.count == last
    assert ask(graph, shape, Deadline()) == expected


def test_parts_hold_the_same_rows(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {shape: ask(graph, shape, Deadline()) for shape in SHAPES}
    monkeypatch.setattr(parts, "ROWS_AT_ONCE", 7)
    assert {shape: ask(graph, shape, Deadline()) for shape in SHAPES} == whole
