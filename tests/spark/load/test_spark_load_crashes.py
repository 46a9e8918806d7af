"""Drivers of loads on Spark die by SIGKILL before and after each of their durable writes: all is there, or nothing.

A driver here is a process of its own in front of the Java of all tests: what it writes, it writes itself, and Java is
not started anew for each of its deaths. Where Java dies too, ``test_spark_cluster.py`` looks.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import Json
from omnigraph.storage.failpoints import When, WriteStep, _arm
from tests.crash import every_crash, every_fault, fresh_copy, kill_at, record, run, some_crashes, start
from tests.spark.cluster_load import SHIPS, die_at, load_fleet
from tests.spark.drivers import Java
from tests.spark.fleet import (
    Shown,
    assert_merged_once,
    assert_whole,
    load_here,
    old_graph,
    old_graph_with_a_tow,
    shown,
    states_around,
)

NEXT: Mapping[str, Json] = {"code": "next", "name": "next", "crew": 1}
"""A ship that another writer brings."""


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shown, Shown]:
    return states_around(tmp_path_factory.mktemp("local") / "ships.og")


@pytest.fixture
def template(tmp_path: Path) -> Path:
    old_graph(tmp_path / "ships.og")
    return tmp_path / "ships.og"


def drive(java: Java, root: Path) -> None:
    load_fleet(java.session(), root)


def drive_between_two_tables(java: Java, root: Path) -> None:
    with _arm(partial(die_at, "after")):
        drive(java, root)


def assert_goes_on(root: Path, outcome: Shown, states: tuple[Shown, Shown]) -> None:
    """All of the load is there or nothing, every commit is whole, and the next writers just write."""
    found = omnigraph.open(root, mode="ro")
    assert shown(found) in states
    assert_whole(found)
    graph = omnigraph.open(root)
    graph.load([{"type": "Ship", "data": NEXT}])
    assert shown(graph) == with_next(outcome)
    load_here(graph)
    assert shown(graph) == with_next(states[1])
    assert_whole(graph)


def with_next(shown: Shown) -> Shown:
    ships = [*shown["Ship"], {"id": "next", **NEXT}]
    return {**shown, "Ship": sorted(ships, key=lambda row: str(row["id"]))}


def is_complete(steps: list[WriteStep], number: int, when: When) -> bool:
    """Whether every table was committed."""
    last = max(step.number for step in steps if step.name == "table.commit")
    return number > last or (number, when) == (last, "after")


def test_killed_between_two_tables_the_next_driver_loads_all(
    java: Java, template: Path, states: tuple[Shown, Shown]
) -> None:
    child = start(drive_between_two_tables, java, template)
    child.join()
    assert child.exitcode == -signal.SIGKILL
    graph = omnigraph.open(template, mode="ro")
    assert shown(graph) == states[0]
    assert_whole(graph)
    run(drive, java, template)
    assert shown(graph) == states[1]
    assert_whole(graph)


@pytest.mark.slow
def test_killed_anywhere_the_next_writer_goes_on(java: Java, template: Path, states: tuple[Shown, Shown]) -> None:
    steps = record(drive, java, fresh_copy(template))
    killed: list[int] = []
    # Each write, before and after, however large the run is: only the long one comes here.
    for number, when in every_fault(steps):
        root = fresh_copy(template)
        kill_at(drive, (java, root), number, when)
        killed.append(number)
        try:
            assert_goes_on(root, states[is_complete(steps, number, when)], states)
        except BaseException as error:
            error.add_note(f"killed {when} {steps[number - 1]}")
            raise
    assert killed == [number for step in steps for number in (step.number, step.number)]
    assert {"table.commit", "table.merge", "objects.put"} < {step.name for step in steps}


# --------------------------------------------------------------------------------------------- updates


def drive_update(java: Java, root: Path) -> None:
    """Give every other ship of the fleet another crew, in rows of three tasks."""
    session = java.session()
    crews = session.range(0, SHIPS, 2, 3).selectExpr("concat('s', id) as code", "cast(100 + id as int) as crew")
    graph = omnigraph.open(root)
    graph.spark(session).load(nodes={"Ship": crews}, mode="update")


@pytest.mark.slow
def test_an_update_that_died_anywhere_is_made_once_by_the_next(java: Java, template: Path) -> None:
    fleet = omnigraph.open(template)
    load_here(fleet)
    before, updated = shown(fleet), fresh_copy(template)
    run(drive_update, java, updated)
    after = shown(omnigraph.open(updated, mode="ro"))
    assert after != before
    steps = record(drive_update, java, fresh_copy(template))
    for number, when in some_crashes(steps):
        root = fresh_copy(template)
        kill_at(drive_update, (java, root), number, when)
        try:
            assert shown(omnigraph.open(root, mode="ro")) in (before, after)
            run(drive_update, java, root)
            graph = omnigraph.open(root)
            assert shown(graph) == after
            assert_whole(graph)
        except BaseException as error:
            error.add_note(f"killed {when} {steps[number - 1]}")
            raise
    assert {"table.commit", "table.merge", "objects.put"} < {step.name for step in steps}


# --------------------------------------------------------------------------------------------- merges by identity


def drive_by_identity(java: Java, root: Path) -> None:
    load_fleet(java.session(), root, by_identity=True)


@pytest.mark.slow
def test_a_merge_by_identity_that_died_anywhere_is_made_once_by_the_next(
    java: Java, tmp_path: Path, states: tuple[Shown, Shown]
) -> None:
    template = tmp_path / "towed.og"
    before = shown(old_graph_with_a_tow(template))
    steps = record(drive_by_identity, java, fresh_copy(template))
    for number, when in every_crash(steps):
        root = fresh_copy(template)
        kill_at(drive_by_identity, (java, root), number, when)
        graph = omnigraph.open(root, mode="ro")
        try:
            if shown(graph) != before:
                assert_merged_once(graph, states)
            run(drive_by_identity, java, root)
            assert_merged_once(omnigraph.open(root), states)
        except BaseException as error:
            error.add_note(f"killed {when} {steps[number - 1]}")
            raise
    assert {"table.commit", "table.merge", "objects.put"} < {step.name for step in steps}
