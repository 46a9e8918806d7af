"""Writers under a lease: a live one is never recovered from under its feet, one that overslept changes nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph.errors import ConflictError, LockTimeout, OutcomeUnknown
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import list_pins
from omnigraph.storage.failpoints import When, WriteStep, _arm
from omnigraph.storage.locks import LockSettings
from omnigraph.write.commit.audit import RecoveryKind, list_recoveries
from omnigraph.write.commit.sidecars import list_sidecars
from tests.crash import Pipe, pipe, start
from tests.write.writers import (
    BY_NEXT,
    CITY,
    KNOWS,
    NEXT,
    PERSON,
    InsertPeople,
    LoadAll,
    assert_settled,
    copy_template,
    make_template,
    open_manifest,
    read_state,
    read_versions,
    write_commit,
)

SHORT = LockSettings("lease", ttl=2.0)
IMPATIENT = LockSettings("lease", timeout=4.0, ttl=2.0)
LOAD = LoadAll(("cid", "dan"), ("oslo",), (("cid", "dan"),))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return copy_template(make_template(tmp_path))


def write_until(end: Pipe, root: str, name: str, detail: str, *, asleep: bool) -> None:
    """Write, and stand still right after the first durable write of a kind: as a whole, or just not go on."""
    manifest, waiting = open_manifest(root, SHORT), [True]

    def act(when: When, step: WriteStep) -> None:
        if when == "after" and step.name == name and detail in step.detail and waiting:
            waiting.pop()
            end.send("there")
            if asleep:
                os.kill(os.getpid(), signal.SIGSTOP)
            else:
                assert end.recv() == "go on"

    with _arm(act):
        try:
            made = write_commit(manifest, LOAD)
        except (OutcomeUnknown, ConflictError) as error:
            end.send(type(error).__name__)
        else:
            end.send("committed" if made else "nothing")


def test_a_live_writer_is_not_recovered(root: Path) -> None:
    ours, theirs = pipe()
    writer = start(_write_awake, theirs, str(root))
    assert ours.recv() == "there"
    manifest = open_manifest(root, IMPATIENT)
    (sidecar,) = list_sidecars(manifest.objects)
    # It stands still for twice its time to live, and is renewed.
    with pytest.raises(LockTimeout):
        write_commit(manifest, InsertPeople(("eve",)))
    assert list_sidecars(manifest.objects) == [sidecar]
    ours.send("go on")
    assert ours.recv() == "committed"
    writer.join()
    assert read_state(manifest).people == ("ann", "bob", "cid", "dan")
    assert list_recoveries(manifest) == []


def _write_awake(end: Pipe, root: str) -> None:
    write_until(end, root, "table.commit", "", asleep=False)


def _sleep_after_sidecar(end: Pipe, root: str) -> None:
    write_until(end, root, "objects.put", "__recovery", asleep=True)


def _sleep_after_commit(end: Pipe, root: str) -> None:
    write_until(end, root, "table.commit", "", asleep=True)


@pytest.mark.parametrize("sleeper", [_sleep_after_sidecar, _sleep_after_commit])
def test_a_writer_that_overslept_changes_nothing(root: Path, sleeper: Callable[[Pipe, str], None]) -> None:
    manifest = open_manifest(root, SHORT)
    before, pins = read_state(manifest), list_pins(manifest.view(MAIN))
    ours, theirs = pipe()
    writer = start(sleeper, theirs, str(root))
    assert ours.recv() == "there"
    assert writer.pid is not None
    try:
        write_commit(manifest, InsertPeople(("eve",)))
        # Moved or not, every table of what it was about to do was restored.
        now = read_versions(manifest)
        assert all(now[table_key][0] > pins[table_key].version for table_key in (PERSON, CITY, KNOWS))
    finally:
        os.kill(writer.pid, signal.SIGCONT)
    assert ours.recv() in ("OutcomeUnknown", "ConflictError", "ExpectedVersionMismatch")
    writer.join()
    write_commit(manifest, NEXT)
    eve = type(before)(("eve",), (), ())
    assert read_state(manifest) == before + eve + BY_NEXT
    assert [found.kind for found in list_recoveries(manifest)] == [RecoveryKind.ROLLED_BACK]
    assert_settled(manifest)
