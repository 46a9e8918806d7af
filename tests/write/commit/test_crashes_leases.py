"""Writers under a lease die by SIGKILL at every durable write; the next one waits for the lease, and goes on.

A lease has no owner that the system could see die: it runs out. The next process waits in the lock itself, as it
would for a live writer, and finds all of the mutation or nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from omnigraph.manifest.rows import MAIN
from omnigraph.storage.failpoints import When, WriteStep, _arm
from omnigraph.storage.locks import LockSettings
from omnigraph.write.commit.audit import RecoveryKind
from omnigraph.write.commit.sidecars import list_sidecars
from tests import crash
from tests.write.fleet import MOVE, NEXT, Fleet, add_next, copy_fleet, open_unhealed, read_fleet, read_fleets_around
from tests.write.writers import LEASE, assert_settled, open_manifest

SHORT = LockSettings("lease", ttl=2.0)
_RENEWER = "omnigraph-lease"
_AT_ONCE = 4


def move(uri: str, branch: str) -> None:
    """The mutation whose writer dies."""
    open_unhealed(uri, SHORT).mutate(MOVE, branch=branch)


@contextmanager
def _watch_own_writes(act: Callable[[int, When, WriteStep], None]) -> Generator[None]:
    """Number the writes of a writer. The renewals of its lease come when they come, and have no number."""
    numbers: dict[int, int] = {}

    def only_own(when: When, step: WriteStep) -> None:
        if threading.current_thread().name != _RENEWER:
            act(numbers.setdefault(step.number, len(numbers) + 1), when, step)

    with _arm(only_own):
        yield


def record_move(uri: str, branch: str) -> list[WriteStep]:
    """The writes of one clean run."""
    steps: list[WriteStep] = []

    def act(_number: int, when: When, step: WriteStep) -> None:
        if when == "before":
            steps.append(step)

    with _watch_own_writes(act):
        move(uri, branch)
    return steps


def die_moving(uri: str, branch: str, number: int, when: When) -> None:
    """Die before or after one of them."""

    def act(own: int, now: When, _step: WriteStep) -> None:
        if (own, now) == (number, when):
            os.kill(os.getpid(), signal.SIGKILL)

    with _watch_own_writes(act):
        move(uri, branch)


@dataclass(frozen=True, slots=True)
class LeaseDeath:
    """A graph whose writer died, and what the next one must find there."""

    uri: str
    branch: str
    place: str
    states: tuple[Fleet, Fleet]
    complete: bool


def list_lease_deaths(
    template: Path, branch: str, steps: Sequence[WriteStep], points: Iterable[tuple[int, When]]
) -> list[LeaseDeath]:
    """Kill the writer at these points."""
    states = read_fleets_around(template, MOVE, branch)
    last = max(number for number, step in enumerate(steps, 1) if step.name == "table.commit")
    found: list[LeaseDeath] = []
    for number, when in points:
        uri = copy_fleet(template, branch)
        child = crash.start(die_moving, uri, branch, number, when)
        child.join()
        place = f"killed {when} write {number} of {len(steps)}: {steps[number - 1].name}"
        assert child.exitcode == -signal.SIGKILL, place
        complete = number > last or (number, when) == (last, "after")
        found.append(LeaseDeath(uri, branch, place, states, complete))
    return found


def is_held(uri: str) -> bool:
    """Whether a lease of the graph is still in somebody's name."""
    folders = (Path(uri) / "__locks").glob("*.lease")
    return any(b'"free": false' in max(folder.iterdir()).read_bytes() for folder in folders)


def go_on(death: LeaseDeath) -> None:
    """What the next process does: it writes to the same tables, without any special call."""
    manifest = open_manifest(death.uri)
    history = manifest.view(death.branch, with_lineage=True).history
    left = [each for each in list_sidecars(manifest.objects) if history.find(each.commit_id or "") is None]
    graph = open_unhealed(death.uri, LEASE)
    assert read_fleet(graph, death.branch) in death.states, death.place
    graph.mutate(NEXT, branch=death.branch)
    assert read_fleet(graph, death.branch) == add_next(death.states[death.complete]), death.place
    assert_settled(manifest, death.branch)
    kind = RecoveryKind.ROLLED_FORWARD if death.complete else RecoveryKind.ROLLED_BACK
    audited = [(found.operation_id, found.kind, found.for_actor) for found in graph.recoveries()]
    assert audited == [(each.operation_id, kind, "tests") for each in left], death.place


def go_on_after_each(found: Sequence[LeaseDeath]) -> None:
    """They wait for their leases side by side."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for done in [pool.submit(crash.run, go_on, death) for death in found]:
            done.result()
    assert not any(is_held(death.uri) for death in found)


def test_killed_under_a_lease_the_next_writer_waits_and_goes_on(fleet_template: Path) -> None:
    steps = crash.run(record_move, copy_fleet(fleet_template), MAIN)
    names = [step.name for step in steps]
    sidecar = next(number for number, step in enumerate(steps, 1) if step.detail.startswith("__recovery"))
    first_commit = names.index("table.commit") + 1
    publish = names.index("table.merge") + 1
    points: list[tuple[int, When]] = [(sidecar, "after"), (first_commit, "after"), (publish, "before")]
    found = list_lease_deaths(fleet_template, MAIN, steps, points)
    assert all(is_held(death.uri) for death in found)
    assert [death.complete for death in found] == [False, False, True]
    go_on_after_each(found)


@pytest.mark.slow
@pytest.mark.parametrize("branch", [MAIN, "review"])
def test_killed_anywhere_under_a_lease(fleet_template: Path, branch: str, capsys: pytest.CaptureFixture[str]) -> None:
    steps = crash.run(record_move, copy_fleet(fleet_template, branch), branch)
    points: list[tuple[int, When]] = [(n, when) for n in range(1, len(steps) + 1) for when in ("before", "after")]
    found = list_lease_deaths(fleet_template, branch, steps, points)
    held = sum(is_held(death.uri) for death in found)
    assert 0 < held < len(found)
    assert {death.complete for death in found} == {True, False}
    go_on_after_each(found)
    with capsys.disabled():
        sys.stdout.write(f"\n{branch}: {len(found)} deaths, {held} of them under a lease that had to run out\n")
