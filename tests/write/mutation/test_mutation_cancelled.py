"""Ctrl-C in the middle of a mutation: a real signal at every durable write, to a process that continues."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

import lance
import pytest

from omnigraph.manifest.rows import MAIN
from omnigraph.storage.failpoints import When, WriteStep, _arm
from omnigraph.storage.locks import LockSettings
from tests import crash
from tests.write.fleet import (
    DROP,
    MOVE,
    NEXT,
    Fleet,
    add_next,
    copy_fleet,
    open_unhealed,
    read_fleet,
    read_fleets_around,
)
from tests.write.writers import assert_settled

# A lock that was not released would make the next writer wait, and then fail.
IMPATIENT = LockSettings(timeout=5.0)
_EIGHT_DAYS = 8 * 24 * 3600
_FOR_EVER = timedelta(days=3650)

Point: TypeAlias = tuple[str, int, When]
"""A graph, and the durable write at which the signal comes."""


def cancel_at(point: Point, text: str, branch: str) -> tuple[Fleet, bool]:
    """Return what the graph shows right after a mutation was cancelled, and whether it was. Then write again."""
    uri, number, when = point

    def act(now: When, step: WriteStep) -> None:
        if (step.number, now) == (number, when):
            os.kill(os.getpid(), signal.SIGINT)

    graph, cancelled = open_unhealed(uri, IMPATIENT), False
    with _arm(act):
        try:
            graph.mutate(text, branch=branch)
        except KeyboardInterrupt:
            cancelled = True
    found = read_fleet(graph, branch)
    graph.mutate(NEXT, branch=branch)
    assert read_fleet(graph, branch) == add_next(found), point
    assert_settled(graph._manifest, branch)
    return found, cancelled


def cancel_at_each(points: Sequence[Point], text: str, branch: str) -> list[tuple[Fleet, bool]]:
    """Interrupt one process again and again."""
    return [cancel_at(point, text, branch) for point in points]


def mutate(uri: str, text: str, branch: str) -> None:
    """Run the same mutation undisturbed."""
    open_unhealed(uri).mutate(text, branch=branch)


@pytest.mark.parametrize(
    ("text", "branch"),
    [
        pytest.param(MOVE, MAIN, id="insert"),
        pytest.param(DROP, MAIN, id="delete", marks=pytest.mark.slow),
        pytest.param(MOVE, "review", id="insert on a branch", marks=pytest.mark.slow),
        pytest.param(DROP, "review", id="delete on a branch", marks=pytest.mark.slow),
    ],
)
def test_a_cancelled_mutation_is_all_there_or_not_at_all(
    fleet_template: Path, text: str, branch: str, capsys: pytest.CaptureFixture[str]
) -> None:
    states = read_fleets_around(fleet_template, text, branch)
    steps = crash.record(mutate, copy_fleet(fleet_template, branch), text, branch)
    publish = next(step.number for step in steps if step.name == "table.merge")
    points: list[Point] = [(copy_fleet(fleet_template, branch), *each) for each in crash.every_fault(steps)]
    outcomes = crash.run(cancel_at_each, points, text, branch)
    for (_, number, when), (found, cancelled) in zip(points, outcomes, strict=True):
        committed = number > publish or (number, when) == (publish, "after")
        assert (found, cancelled) == (states[committed], True), (when, steps[number - 1])
    with capsys.disabled():
        sys.stdout.write(f"\n{branch}: cancelled at {len(points)} points\n")


# --------------------------------------------------------------------------------------------- what it staged


def tables_of(uri: str) -> list[Path]:
    return [path.parent for kind in ("nodes", "edges") for path in Path(uri, kind).glob("*/_versions")]


def data_files(uri: str) -> set[Path]:
    return {file for table in tables_of(uri) for file in table.glob("data/*")}


def test_what_a_cancelled_mutation_staged_is_reclaimed_by_its_age(fleet_template: Path) -> None:
    steps = crash.record(mutate, copy_fleet(fleet_template), MOVE, MAIN)
    sidecar = next(step.number for step in steps if step.name == "objects.put")
    uri = copy_fleet(fleet_template)
    needed = data_files(uri)
    crash.run(cancel_at, (uri, sidecar, "before"), MOVE, MAIN)
    now = read_fleet(open_unhealed(uri))
    # A row in each of two tables, once cancelled and once by the mutation after it.
    assert len(data_files(uri) - needed) == 4
    for file in data_files(uri):
        long_ago = file.stat().st_mtime - _EIGHT_DAYS
        os.utime(file, (long_ago, long_ago))
    for table in tables_of(uri):
        # Deletes no version, only files that no version has shown for a week.
        lance.dataset(str(table)).cleanup_old_versions(older_than=_FOR_EVER)
    assert needed < data_files(uri)
    assert len(data_files(uri) - needed) == 2
    assert read_fleet(open_unhealed(uri)) == now
