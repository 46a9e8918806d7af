"""One long step of a query looks at its deadline while it runs, and not only before and after."""

from __future__ import annotations

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.deadlines import Deadline
from omnigraph.errors import Cancelled
from omnigraph.graph import Graph
from omnigraph.read.frames import frame
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


@pytest.mark.parametrize(("shape", "parts"), [("hops", 96), ("join", 120), ("sort", 24), ("group", 96)])
def test_many_rows_are_copied_in_parts(graph: Graph, monkeypatch: pytest.MonkeyPatch, shape: str, parts: int) -> None:
    whole = count_checks(graph, shape)
    monkeypatch.setattr(frame, "ROWS_BETWEEN_CHECKS", 10)
    assert count_checks(graph, shape) >= whole + parts


def test_a_sort_is_stopped_between_its_passes(graph: Graph) -> None:
    # At least one pass for each key, and one for each digit of its codes.
    assert count_checks(graph, "sort") >= count_checks(graph, "unsorted") + 12


@pytest.mark.parametrize("shape", daily(SHAPES, ["join", "sort"]))
def test_cancelled_at_any_time_it_stops_and_can_be_asked_again(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    monkeypatch.setattr(frame, "ROWS_BETWEEN_CHECKS", 50)
    expected, count = ask(graph, shape, Deadline()), count_checks(graph, shape)
    for last in range(1, count + 1, 1 + count // 12):
        deadline = CountedDeadline(last)
        with pytest.raises(Cancelled):
            ask(graph, shape, deadline)
        assert deadline.count == last
    assert ask(graph, shape, Deadline()) == expected


def test_parts_hold_the_same_rows(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {shape: ask(graph, shape, Deadline()) for shape in SHAPES}
    monkeypatch.setattr(frame, "ROWS_BETWEEN_CHECKS", 7)
    assert {shape: ask(graph, shape, Deadline()) for shape in SHAPES} == whole
