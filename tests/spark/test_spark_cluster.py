"""Loads on a real cluster of two workers whose processes are killed: all of a commit is there, or nothing of it.

The tasks of the load tell how far they are, and one of them waits; so whatever is killed is killed in the middle.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path

import pytest

import omnigraph
from omnigraph.storage.failpoints import When
from tests.spark import cluster_load, cluster_query
from tests.spark.cluster import PATIENCE, Cluster, environment, executor_of, standalone, until
from tests.spark.cluster_load import GATE, NEWS, Moment, News, Orders, Phase
from tests.spark.fleet import (
    Shown,
    assert_merged_once,
    assert_nothing_happened,
    assert_whole,
    old_graph,
    old_graph_with_a_tow,
    shown,
    states_around,
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shown, Shown]:
    return states_around(tmp_path_factory.mktemp("local") / "ships.og")


# --------------------------------------------------------------------------------------------- drivers


@dataclass
class Driver:
    """A driver that runs, and the news of its tasks."""

    process: subprocess.Popen[bytes]
    log: Path
    pipe: FileIO
    gate: FileIO
    heard: list[News]
    _rest: bytes = b""

    def news(self, wanted: Callable[[News], bool]) -> News:
        """The first news of this kind, heard already or to come."""

        def found() -> News | None:
            assert self.process.poll() is None, self.log.read_text("utf-8", errors="replace")
            return next(filter(wanted, self._heard()), None)

        return until(found)

    def ended(self) -> int:
        """How the driver ended."""
        code = self.process.wait(PATIENCE)
        self._heard()
        return code

    def let_go(self) -> None:
        """What is held goes on."""
        fcntl.flock(self.gate, fcntl.LOCK_UN)

    def _heard(self) -> list[News]:
        while select.select([self.pipe], [], [], 0)[0]:
            *lines, self._rest = (self._rest + (self.pipe.read(4096) or b"")).split(b"\n")
            self.heard += [News(**json.loads(line)) for line in lines]
        return self.heard


@contextmanager
def driving(cluster: Cluster, orders: Orders) -> Generator[Driver]:
    """Start a driver, and end it."""
    folder = Path(orders.folder)
    os.mkfifo(folder / NEWS)
    log = folder / "driver.log"
    with (
        (folder / GATE).open("wb", buffering=0) as gate,
        # Open for both, so that it stays open when nobody writes.
        (folder / NEWS).open("r+b", buffering=0) as pipe,
        log.open("wb") as output,
    ):
        fcntl.flock(gate, fcntl.LOCK_EX)
        settings = {"spark.master": cluster.address, **orders.settings}
        process = subprocess.Popen(
            [sys.executable, cluster_load.__file__, replace(orders, settings=settings).text()],
            env=environment(),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            yield Driver(process, log, pipe, gate, [])
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE)


def assert_succeeded(driver: Driver) -> None:
    assert driver.ended() == 0, driver.log.read_text("utf-8", errors="replace")


# --------------------------------------------------------------------------------------------- tasks that are lost


def attempts_at(driver: Driver, part: int | None) -> set[int]:
    return {news.attempt for news in driver.heard if news.part == part}


def assert_loaded(folder: Path, after: Shown) -> None:
    graph = omnigraph.open(folder / "ships.og")
    assert shown(graph) == after
    assert len(graph.commits()) == 3
    assert_whole(graph)


def kill_in_the_middle(cluster: Cluster, orders: Orders, who: Callable[[int], int]) -> None:
    """Kill a process that has to do with the task that is held, then let the others go on."""
    with driving(cluster, orders) as driver:
        held = driver.news(lambda news: news.part == orders.part)
        assert executor_of(held.process) in cluster.executors()
        os.kill(who(held.process), signal.SIGKILL)
        driver.let_go()
        assert_succeeded(driver)
        # Another process did it again. Spark counts the attempts anew if it notices first that files are lost.
        assert len({news.process for news in driver.heard if news.part == orders.part}) > 1
        # Both workers had a part in it, and another executor came for the one that was killed.
        assert len({news.process for news in driver.heard}) >= len(cluster.workers)


@pytest.mark.slow
def test_an_executor_is_killed_in_the_middle_of_a_load(
    cluster: Cluster, states: tuple[Shown, Shown], tmp_path: Path
) -> None:
    old_graph(tmp_path / "ships.og")
    kill_in_the_middle(cluster, Orders(str(tmp_path), part=2, held=True), executor_of)
    assert_loaded(tmp_path, states[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phase", "moment", "part", "work", "who"),
    [
        ("reading", "begun", 2, None, executor_of),
        ("reading", "done", 3, None, int),
        ("checking", "done", 0, None, executor_of),
        ("staging", "done", 0, "remove_rows", executor_of),
    ],
    ids=["reading", "reading, only Python", "rules", "staging"],
)
def test_a_process_of_an_executor_is_killed(
    cluster: Cluster,
    states: tuple[Shown, Shown],
    tmp_path: Path,
    phase: Phase,
    moment: Moment,
    part: int,
    work: str | None,
    who: Callable[[int], int],
) -> None:
    old_graph(tmp_path / "ships.og")
    kill_in_the_middle(cluster, Orders(str(tmp_path), phase, moment, part, work, held=True), who)
    assert_loaded(tmp_path, states[1])


@pytest.mark.slow
@pytest.mark.parametrize("work", ["pair_partition", "rewrite_partition"])
def test_an_executor_is_killed_while_it_matches_rows(
    cluster: Cluster, states: tuple[Shown, Shown], tmp_path: Path, work: str
) -> None:
    graph = old_graph_with_a_tow(tmp_path / "ships.og")
    orders = Orders(str(tmp_path), "matching", "done", 0, work, held=True, by_identity=True)
    with driving(cluster, orders) as driver:
        held = driver.news(lambda news: news.part == 0)
        os.kill(executor_of(held.process), signal.SIGKILL)
        driver.let_go()
        assert_succeeded(driver)
        assert len({news.process for news in driver.heard}) > 1
    assert_merged_once(graph, states)


@pytest.mark.slow
def test_the_driver_is_killed_while_rows_are_matched(
    cluster: Cluster, states: tuple[Shown, Shown], tmp_path: Path
) -> None:
    graph = old_graph_with_a_tow(tmp_path / "ships.og")
    before = shown(graph)
    orders = Orders(str(tmp_path), "matching", "done", 0, "rewrite_partition", held=True, by_identity=True)
    with driving(cluster, orders) as driver:
        driver.news(lambda news: news.part == 0)
        driver.process.kill()
        assert driver.ended() == -signal.SIGKILL
        driver.let_go()
        until(lambda: not cluster.executors())
    assert shown(graph) == before
    (tmp_path / NEWS).unlink()
    with driving(cluster, Orders(str(tmp_path), by_identity=True)) as driver:
        assert_succeeded(driver)
    assert_merged_once(graph, states)


@pytest.mark.slow
def test_a_task_fails_twice_after_it_wrote(cluster: Cluster, states: tuple[Shown, Shown], tmp_path: Path) -> None:
    old_graph(tmp_path / "ships.og")
    with driving(cluster, Orders(str(tmp_path), part=1, failures=2)) as driver:
        assert_succeeded(driver)
        assert attempts_at(driver, 1) == {0, 1, 2}
    assert_loaded(tmp_path, states[1])


@pytest.mark.slow
def test_two_attempts_of_a_task_run_at_once(cluster: Cluster, states: tuple[Shown, Shown], tmp_path: Path) -> None:
    old_graph(tmp_path / "ships.og")
    eager = {"": "true", ".interval": "100ms", ".multiplier": "1.1", ".quantile": "0.5", ".minTaskRuntime": "1ms"}
    settings = {f"spark.speculation{name}": value for name, value in eager.items()}
    with driving(cluster, Orders(str(tmp_path), part=1, held=True, settings=settings)) as driver:
        # The first attempt is never let go, so it was another one that Spark took.
        assert_succeeded(driver)
        assert {0, 1} <= attempts_at(driver, 1)
        driver.let_go()
        until(lambda: not cluster.executors())
    assert_loaded(tmp_path, states[1])


# --------------------------------------------------------------------------------------------- drivers that are lost


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phase", "moment", "part", "work"),
    [
        ("reading", "done", 2, None),
        ("checking", "begun", 0, None),
        ("staging", "begun", 0, None),
        ("staging", "done", 0, "remove_rows"),
    ],
    ids=["reading", "after reading", "after the rules", "staging"],
)
def test_the_driver_is_killed_while_its_tasks_run(
    cluster: Cluster,
    states: tuple[Shown, Shown],
    tmp_path: Path,
    phase: Phase,
    moment: Moment,
    part: int,
    work: str | None,
) -> None:
    old_graph(tmp_path / "ships.og")
    with driving(cluster, Orders(str(tmp_path), phase, moment, part, work, held=True)) as driver:
        driver.news(lambda news: news.part == part)
        driver.process.kill()
        assert driver.ended() == -signal.SIGKILL
        # What its executors still do is done for nobody.
        driver.let_go()
        until(lambda: not cluster.executors())
    assert_nothing_happened(omnigraph.open(tmp_path / "ships.og"), states)


@pytest.mark.slow
@pytest.mark.parametrize("dies", ["before", "after"])
def test_the_driver_is_killed_where_it_commits(
    cluster: Cluster, states: tuple[Shown, Shown], tmp_path: Path, dies: When
) -> None:
    old_graph(tmp_path / "ships.og")
    with driving(cluster, Orders(str(tmp_path), dies=dies)) as driver:
        assert driver.ended() == -signal.SIGKILL, driver.log.read_text("utf-8", errors="replace")
    assert_nothing_happened(omnigraph.open(tmp_path / "ships.og"), states)


@pytest.mark.slow
def test_the_next_driver_loads_what_a_dead_one_did_not(
    cluster: Cluster, states: tuple[Shown, Shown], tmp_path: Path
) -> None:
    graph = old_graph(tmp_path / "ships.og")
    with driving(cluster, Orders(str(tmp_path), dies="after")) as driver:
        assert driver.ended() == -signal.SIGKILL, driver.log.read_text("utf-8", errors="replace")
    (tmp_path / NEWS).unlink()
    with driving(cluster, Orders(str(tmp_path))) as driver:
        assert_succeeded(driver)
    assert shown(graph) == states[1]
    assert_whole(graph)


# --------------------------------------------------------------------------------------------- queries


@pytest.mark.slow
def test_executors_are_killed_between_the_hops_of_a_query_and_its_rows(cluster: Cluster, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, cluster_query.__file__, cluster.address, str(tmp_path)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as driver:
        assert driver.stdin is not None
        assert driver.stdout is not None
        assert driver.stdout.readline() == "walked\n"
        assert list(tmp_path.glob("ships.og.loading/*/*.parquet"))
        for executor in cluster.executors():
            os.kill(executor, signal.SIGKILL)
        driver.stdin.write("go on\n")
        driver.stdin.flush()
        found = driver.stdout.readline()
        assert driver.wait(PATIENCE) == 0
    assert json.loads(found) == cluster_query.EXPECTED
    assert not (tmp_path / "ships.og.loading").exists(), "removed when the driver ends"
