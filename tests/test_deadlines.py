"""Deadlines: calls that take too long, or are cancelled, stop between two pieces of work and change nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

import omnigraph as og
from omnigraph import deadlines
from omnigraph.deadlines import Deadline
from omnigraph.errors import Cancelled, DeadlineExceeded, LimitError, ParameterError
from omnigraph.graph import Graph
from omnigraph.storage.locks import branch_lock, refs_lock
from omnigraph.write.commit import list_sidecars
from tests.graphs import rows_of

SCHEMA: Final = """
node Port { code: String @key  name: String? @index  depth: F64? }
edge Near: Port -> Port { @unique(src) }
"""
WALK: Final = """
query q() {
  match { $a: Port  $a near $b  not { $b near $a } }
  return { $a.code, $b.code } order { $a.code }
}
"""
GROUPS: Final = "query q() { match { $a: Port  $a near{1,3} $b } return { $a.code, count($b) as n } }"
INSERT: Final = 'query q() { insert Port { code: "new" }  insert Near { from: "new", to: "p0" } }'
LATER: Final = SCHEMA.replace("depth: F64?", 'depth: F64?  flag: String @default("PA")')
PORTS: Final = 30


class StopsAfter(Deadline):
    """A deadline that is cancelled when it was asked so many times, and that no commit asks once it has begun."""

    def __init__(self, asked: int, graph: Graph) -> None:
        super().__init__()
        self.left = asked
        self.graph = graph

    def check(self) -> None:
        assert list_sidecars(self.graph._manifest.objects) == []
        self.left -= 1
        if self.left < 0:
            self.cancel()
        super().check()


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = og.init(tmp_path / "ports.og", SCHEMA)
    graph.load(
        [{"type": "Port", "data": {"code": f"p{n}", "name": f"n{n}", "depth": n / 2}} for n in range(PORTS)]
        + [{"edge": "Near", "from": f"p{n}", "to": f"p{n // 2}"} for n in range(PORTS)]
    )
    return graph


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A clock that stands still; the function lets seconds pass."""
    now = [100.0]
    monkeypatch.setattr(deadlines, "read_clock", lambda: now[0])

    def let_pass(seconds: float) -> None:
        now[0] += seconds

    return let_pass


def walk(graph: Graph, deadline: Deadline | None) -> object:
    return graph.query(WALK, timeout=deadline).rows


def group(graph: Graph, deadline: Deadline | None) -> object:
    return sorted(map(str, graph.query(GROUPS, timeout=deadline).rows))


def scan(graph: Graph, deadline: Deadline | None) -> object:
    return sorted(map(str, graph.nodes("Port", timeout=deadline).to_arrow()["code"].to_pylist()))


def diff(graph: Graph, deadline: Deadline | None) -> object:
    first = graph.commits()[-1].id
    return [each.id for each in graph.diff(first, timeout=deadline).entities()]


def follow(graph: Graph, deadline: Deadline | None) -> object:
    return [each.id for block in graph.changes("beginning", timeout=deadline) for each in block.entities()]


def export(graph: Graph, deadline: Deadline | None) -> object:
    return sorted(graph.export(timeout=deadline))


@pytest.mark.parametrize("read", [walk, group, scan, diff, follow, export])
def test_a_read_that_is_cancelled_anywhere_leaves_nothing_and_is_repeated(
    graph: Graph, read: Callable[[Graph, Deadline | None], object]
) -> None:
    expected = read(og.open(graph.uri, "ro"), None)
    asked = 0
    while True:
        cold = og.open(graph.uri, "ro")
        try:
            assert read(cold, StopsAfter(asked, cold)) == expected
            break
        except Cancelled:
            assert read(cold, None) == expected, f"after {asked} checks"
            asked += 1
    assert asked >= 2


def insert(graph: Graph, deadline: Deadline | None) -> None:
    graph.mutate(INSERT, timeout=deadline)


def load(graph: Graph, deadline: Deadline | None) -> None:
    records = [{"type": "Port", "data": {"code": f"p{n}", "name": "x"}} for n in range(PORTS, PORTS + 5)]
    graph.load([*records, {"edge": "Near", "from": "p30", "to": "p1"}], mode="merge", timeout=deadline)


def merge(graph: Graph, deadline: Deadline | None) -> None:
    if "june" not in {branch.name for branch in graph.branches()}:
        graph.create_branch("june")
        graph.mutate(INSERT, branch="june")
        graph.mutate('query q() { update Port set { name: "z" } where code = "p1" }')
    graph.merge("june", timeout=deadline)


def evolve(graph: Graph, deadline: Deadline | None) -> None:
    graph.apply_schema(LATER, timeout=deadline)


def transact(graph: Graph, deadline: Deadline | None) -> None:
    with graph.transaction(timeout=deadline) as tx:
        tx.mutate(INSERT)
        assert len(tx.query(WALK)) > 0


def state_of(graph: Graph) -> tuple[object, ...]:
    return graph.snapshot().commit, graph.schema.hash, str(rows_of(graph, "Port")), str(rows_of(graph, "Near"))


@pytest.mark.parametrize("write", [insert, load, merge, evolve, transact])
def test_a_write_that_is_cancelled_anywhere_changes_nothing(
    graph: Graph, write: Callable[[Graph, Deadline | None], None]
) -> None:
    if write is merge:
        with pytest.raises(Cancelled):
            merge(graph, StopsAfter(0, graph))
    before = state_of(graph)
    asked = 0
    while True:
        try:
            write(graph, StopsAfter(asked, graph))
            break
        except Cancelled:
            assert state_of(graph) == before, f"after {asked} checks"
            asked += 1
    assert asked >= 2
    assert state_of(graph) != before
    assert graph.verify().findings == ()


def test_a_wait_for_a_lock_is_cancelled(graph: Graph) -> None:
    deadline, waiting = Deadline(), threading.Event()
    raised: list[type[BaseException]] = []

    class Tells(Deadline):
        def check(self) -> None:
            waiting.set()
            deadline.check()

    def write() -> None:
        try:
            insert(graph, Tells())
        except LimitError as error:
            raised.append(type(error))

    with branch_lock(graph._manifest.location, "main", graph._manifest.locks):
        writer = threading.Thread(target=write)
        writer.start()
        assert waiting.wait(60)
        deadline.cancel()
        writer.join(60)
    assert raised == [Cancelled]


def test_seconds_begin_with_the_call_and_again_with_the_first_row(graph: Graph, clock: Callable[[float], None]) -> None:
    result = graph.query(WALK, timeout=5)
    clock(100)
    rows = iter(result)
    assert next(rows)
    clock(6)
    # One piece was computed in time, and all its rows are there.
    assert len(list(rows)) == len(graph.query(WALK)) - 1
    late = graph.nodes("Port", timeout=5)
    clock(6)
    assert len(late.to_arrow()) == PORTS


def test_a_deadline_is_for_all_calls_together(graph: Graph, clock: Callable[[float], None]) -> None:
    deadline = og.Deadline(5)
    clock(50)
    graph.get("Port", "p1", timeout=deadline)
    lazy = (
        graph.query(WALK, timeout=deadline),
        graph.changes("beginning", timeout=deadline),
        graph.export(timeout=deadline),
    )
    clock(5)
    for rows in lazy:
        with pytest.raises(DeadlineExceeded, match="not done in 5 s"):
            list(rows)
    with pytest.raises(DeadlineExceeded):
        graph.get("Port", "p1", timeout=deadline)
    assert graph.get("Port", "p1") is not None


def test_in_a_block_it_holds_for_everything(graph: Graph, clock: Callable[[float], None]) -> None:
    with og.Deadline(5) as deadline, deadline:
        assert graph.commits()
        result = graph.query(WALK)
        clock(6)
        with pytest.raises(DeadlineExceeded, match="in 5 s"):
            result.to_arrow()
        with pytest.raises(DeadlineExceeded, match="in 5 s"):
            graph.query(WALK, timeout=60).to_arrow()
    with pytest.raises(DeadlineExceeded, match="in 5 s"):
        result.to_arrow()
    assert graph.query(WALK).row_count


def test_blocks_of_several_threads_are_their_own(graph: Graph) -> None:
    deadline, inside, outside = Deadline(), threading.Event(), threading.Event()

    def enter_and_leave() -> None:
        with deadline:
            inside.set()
            assert outside.wait(60)
            with pytest.raises(Cancelled):
                graph.query(WALK).to_arrow()

    with ThreadPoolExecutor(1) as threads:
        with deadline:
            other = threads.submit(enter_and_leave)
            assert inside.wait(60)
        deadline.cancel()
        outside.set()
        other.result()
    assert graph.query(WALK).row_count


def test_the_timeout_of_a_graph_is_that_of_its_calls(graph: Graph, clock: Callable[[float], None]) -> None:
    opened = og.open(graph.uri, timeout=5)
    clock(100)
    assert opened.query(WALK).row_count
    gone = og.Deadline(5)
    other = og.open(graph.uri, timeout=gone)
    clock(6)
    with pytest.raises(DeadlineExceeded):
        other.query(WALK)
    assert other.query(WALK, timeout=5).row_count


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "5", True])
def test_what_is_no_time(graph: Graph, timeout: float) -> None:
    with pytest.raises(ParameterError, match="timeout"):
        graph.query(WALK, timeout=timeout)
    with pytest.raises(ParameterError, match="timeout"):
        og.open(graph.uri, timeout=timeout)


def test_under_a_lock_no_deadline_is_observed(graph: Graph) -> None:
    location, locks = graph._manifest.location, graph._manifest.locks
    with og.Deadline() as deadline:
        with refs_lock(location, locks):
            with branch_lock(location, "main", locks):
                deadline.cancel()
                deadlines.check_deadline()
            deadlines.check_deadline()
        with pytest.raises(Cancelled):
            deadlines.check_deadline()
        with pytest.raises(Cancelled), branch_lock(location, "main", locks):
            pytest.fail("a lock that is taken too late is given back")
    with branch_lock(location, "main", locks):
        pass


class TestCallsThatNothingInterrupts:
    """A call into native code is waited for only while deadlines allow it."""

    def test_it_is_left_alone_when_it_is_cancelled(self) -> None:
        begun, may_end = threading.Event(), threading.Event()
        ended: list[bool] = []

        def work() -> None:
            begun.set()
            ended.append(may_end.wait(60))

        deadline = Deadline()
        cancel = threading.Thread(target=lambda: (begun.wait(60), deadline.cancel()))
        cancel.start()
        with deadline, pytest.raises(Cancelled):
            deadlines.wait_for(work)
        # It still runs, and nobody waits for it.
        assert not ended
        may_end.set()
        cancel.join()

    def test_it_is_left_alone_when_time_is_over(self) -> None:
        may_end = threading.Event()
        with Deadline(0.05), pytest.raises(DeadlineExceeded):
            deadlines.wait_for(lambda: may_end.wait(60))
        may_end.set()

    def test_what_it_returns_and_raises(self) -> None:
        with Deadline(60):
            assert deadlines.wait_for(lambda: 7) == 7
            with pytest.raises(KeyError, match="here"):
                deadlines.wait_for(lambda: dict[str, int]()["here"])

    def test_a_thread_is_used_again(self) -> None:
        with Deadline(60):
            found = {deadlines.wait_for(threading.get_ident) for _ in range(20)}
        assert threading.get_ident() not in found
        assert len(found) == 1

    def test_without_a_deadline_there_is_no_thread(self) -> None:
        assert deadlines.wait_for(threading.get_ident) == threading.get_ident()
