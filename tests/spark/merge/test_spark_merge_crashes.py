"""Drivers of merges on Spark die by SIGKILL before and after each of their durable writes: all is there, or nothing.

What dies and what comes after is as in ``tests/write/merge/test_merge_crashes.py``: whoever comes next has no Spark.
"""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from omnigraph.spark.load import incoming_rows as load_incoming
from omnigraph.spark.merge import run as merge
from omnigraph.storage.failpoints import _arm
from omnigraph.storage.locks import LockSettings
from tests.crash import run, start
from tests.spark.cluster_load import die_at
from tests.spark.drivers import Java
from tests.spark.merge.test_spark_merge import NOBODY
from tests.write.merge.social_graph import knows, make, person, state
from tests.write.merge.test_merge_crashes import (
    SCENARIOS,
    Death,
    Scenario,
    act,
    deaths,
    do,
    fresh,
    go_on_after_each,
    graph_at,
)

if TYPE_CHECKING:
    from omnigraph.graph import Graph


@pytest.fixture
def template(tmp_path: Path) -> Path:
    people = {"ann": person(30), "bob": person(30), "cid": person(30)}
    return Path(make(tmp_path, people, {"a-b": knows("ann", "bob")}).uri)


def drive(java: Java, root: str, scenario: Scenario, locks: LockSettings | None = None) -> None:
    """A driver that has executors do the work, however little it is."""
    load_incoming.LOCAL_LOAD_ROWS = merge.LOCAL_MERGE_ROWS = 0
    merge.LOCAL_MERGE_ENGINE = NOBODY
    graph: Graph = graph_at(root, locks)
    do(graph, graph.spark(java.session()), scenario)


def drive_between_two_tables(java: Java, root: str, scenario: Scenario) -> None:
    """One that dies when its first table is committed."""
    with _arm(partial(die_at, "after")):
        drive(java, root, scenario)


def test_killed_between_two_tables_the_next_one_merges_all(java: Java, template: Path) -> None:
    scenario = SCENARIOS["two tables into main"]
    clean, root = (fresh(template, scenario) for _ in range(2))
    before = state(graph_at(clean))
    act(clean, scenario)
    child = start(drive_between_two_tables, java, root, scenario)
    child.join()
    assert child.exitcode == -signal.SIGKILL
    states = before, state(graph_at(clean))
    go_on_after_each([Death(root, scenario, states, complete=False, place="killed between two tables")])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two tables into main", "one table into a fork, one adopted", "revert"])
def test_killed_anywhere_the_next_writer_goes_on(java: Java, template: Path, name: str) -> None:
    found = list(deaths(template, SCENARIOS[name], acting=partial(drive, java)))
    assert {death.complete for death in found} == {True, False}
    run(go_on_after_each, found)
