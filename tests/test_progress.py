"""Progress: which steps long calls tell, to whom, and that telling changes nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from threading import Event, Lock
from typing import cast

import pytest
from rich.console import Console

import omnigraph as og
from omnigraph.cli.render import progress
from omnigraph.errors import ParameterError
from omnigraph.graph import Graph
from omnigraph.progress import ProgressStep, Steps, Watcher, follow_steps

SCHEMA = "node A { x: String @key n: I64? @index } node B { x: String @key } edge Ab: A -> B"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = og.init(tmp_path / "g.og", SCHEMA)
    for number in range(3):
        graph.load([{"type": kind, "data": {"x": f"{number}"}} for kind in "AB"])
    return graph


def watch(graph: Graph, call: str, *args: object, **options: object) -> list[ProgressStep]:
    told: list[ProgressStep] = []
    with og.watch_progress(told.append):
        getattr(graph, call)(*args, **options)
    return told


def parts(told: list[ProgressStep]) -> dict[str, list[tuple[str | None, int, int]]]:
    found: dict[str, list[tuple[str | None, int, int]]] = {}
    for step in told:
        found.setdefault(step.doing, []).append((step.name, step.done, step.total))
    return found


def test_an_export_tells_its_types(graph: Graph, tmp_path: Path) -> None:
    assert parts(watch(graph, "export", tmp_path / "out.jsonl")) == {
        "exporting": [(None, 0, 3), ("node:A", 1, 3), ("node:B", 2, 3), ("edge:Ab", 3, 3)]
    }


def test_a_load_and_a_merge_tell_the_tables_they_write(graph: Graph) -> None:
    records = [{"type": "A", "data": {"x": "new"}}, {"type": "B", "data": {"x": "new"}}]
    written = parts(watch(graph, "load", records))["writing"]
    assert written[0] == (None, 0, 2)
    assert {name for name, _, _ in written[1:]} == {"node:A", "node:B"}
    assert [done for _, done, _ in written] == [0, 1, 2]
    graph.create_branch("side")
    graph.mutate('query q() { insert A { x: "side" } }', branch="side")
    graph.mutate('query q() { insert A { x: "main" } }')
    told = parts(watch(graph, "merge", "side"))
    assert told["merging"] == [(None, 0, 1), ("node:A", 1, 1)]
    assert told["writing"] == [(None, 0, 1), ("node:A", 1, 1)]


def test_upkeep_and_checks_tell_tables_and_branches(graph: Graph) -> None:
    assert parts(watch(graph, "optimize"))["writing"][-1][1:] == (2, 2)
    told = parts(watch(graph, "verify"))
    assert [done for _, done, _ in told["checking rows"]] == [0, 1, 2, 3]
    assert told["checking history"] == [(None, 0, 1), ("main", 1, 1)]
    assert [done for _, done, _ in parts(watch(graph, "cleanup", confirm=True))["cleaning up"]] == [0, 1, 2, 3]


def test_a_watcher_that_raises_ends_the_call_and_nothing_is_written(graph: Graph) -> None:
    def refuse(step: ProgressStep) -> None:
        raise LookupError(step.doing)

    before = graph.commits()
    with pytest.raises(LookupError, match="writing"), og.watch_progress(refuse):
        graph.load([{"type": "A", "data": {"x": "new"}}])
    assert graph.commits() == before
    graph.load([{"type": "A", "data": {"x": "new"}}])
    assert len(graph.commits()) == len(before) + 1


def test_a_watcher_is_a_function() -> None:
    with pytest.raises(ParameterError, match="watcher is 'loud'"), og.watch_progress(cast("Watcher", "loud")):
        pytest.fail("it is refused before the block")


def test_only_what_is_in_the_block_is_watched_and_the_inner_watcher_is_told() -> None:
    outer: list[ProgressStep] = []
    inner: list[ProgressStep] = []
    with og.watch_progress(outer.append):
        with og.watch_progress(inner.append):
            list(follow_steps("inside", "a"))
        list(follow_steps("outside", ""))
        Steps("alone", 1).finish("x")
    Steps("after", 1).finish("x")
    assert [step.doing for step in inner] == ["inside", "inside"]
    assert [step.doing for step in outer] == ["alone", "alone"]


def test_threads_that_finish_steps_are_told_of_one_after_the_other() -> None:
    busy = Lock()
    done: list[int] = []

    def note(step: ProgressStep) -> None:
        assert busy.acquire(blocking=False)
        done.append(step.done)
        busy.release()

    with og.watch_progress(note):
        steps = Steps("writing", 500)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(steps.finish, map(str, range(500))))
    assert done == list(range(501))


class Screen(StringIO):
    """A terminal that knows when a text was shown on it."""

    def __init__(self, awaited: str) -> None:
        super().__init__()
        self.awaited = awaited
        self.is_shown = Event()

    def write(self, text: str, /) -> int:
        if self.awaited in text:
            self.is_shown.set()
        return super().write(text)


def test_a_bar_shows_the_newest_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0)
    screen = Screen("2/3")
    console = Console(file=screen, force_terminal=True, width=80, color_system=None)
    with progress.step_bar(console) as show, og.watch_progress(show):
        steps = Steps("exporting", 3)
        steps.finish("node:A")
        steps.finish("node:B")
        assert screen.is_shown.wait(30)
    assert "exporting" in screen.getvalue()
