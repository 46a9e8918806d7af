"""What recovery decides about a dead writer, and what it keeps when it cannot decide.

The writers died for real, by SIGKILL; where recovery itself has to fail, the fault is injected.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import TypeVarTuple

import pytest

import omnigraph
from omnigraph.errors import OmniGraphError, RecoveryError, StorageError
from omnigraph.manifest.branches import delete_branch
from omnigraph.manifest.contract import load_current_schema
from omnigraph.manifest.references import create_branch
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import list_pins
from omnigraph.storage.failpoints import When, WriteStep, _arm, fail_at, record_writes
from omnigraph.storage.locks import LockSettings, branch_lock
from omnigraph.write.commit.audit import RecoveryKind, list_recoveries
from omnigraph.write.commit.operation import AlreadyCommitted
from omnigraph.write.commit.recovery import finish_removals, heal
from omnigraph.write.commit.section import CommitOptions, WriteOperation, commit_operation
from omnigraph.write.commit.sidecars import list_sidecars
from omnigraph.write.evolve.apply import SchemaChangeOptions, apply_schema
from tests import crash
from tests.manifest.publishing import commit_rows
from tests.selection import daily
from tests.write.writers import (
    BY_LAST,
    BY_NEXT,
    FLOCK,
    LAST,
    LEASE,
    NEXT,
    PERSON,
    DeletePerson,
    InsertPeople,
    LoadAll,
    OverwriteCities,
    assert_settled,
    copy_template,
    fail_first_write,
    head_id,
    make_template,
    open_manifest,
    read_state,
    read_states_around,
    read_versions,
    write_commit,
    write_in_process,
)

Args = TypeVarTuple("Args")
TWO_TABLES = DeletePerson("bob")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("recovery"))


def make_dead_write(template: Path, work: WriteOperation[None], commits: int, branch: str = MAIN) -> Path:
    """A graph whose writer was killed when its sidecar and so many table commits were there."""
    root = copy_template(template, branch)
    kill(commits, write_in_process, str(root), work, branch)
    return root


def kill(commits: int, function: Callable[[*Args], object], *args: *Args) -> None:
    """Run a writer in a child process that must die by SIGKILL when so many table commits were there."""
    child = crash.start(_die_after, commits, function, args)
    child.join()
    assert child.exitcode == -signal.SIGKILL


def _die_after(commits: int, function: Callable[[*Args], object], args: tuple[*Args]) -> None:
    done: list[WriteStep] = []

    def act(when: When, step: WriteStep) -> None:
        if when == "after" and step.name in ("objects.put", "table.commit"):
            done.append(step)
            if len(done) == commits + 1:
                os.kill(os.getpid(), signal.SIGKILL)

    with _arm(act):
        function(*args)


# --------------------------------------------------------------------------------------------- forward or back


def test_a_complete_write_is_published_as_its_writer_meant_it(template: Path) -> None:
    root = make_dead_write(template, TWO_TABLES, 2)
    manifest = open_manifest(root)
    (sidecar,) = list_sidecars(manifest.objects)
    with branch_lock(manifest.location, MAIN) as held:
        heal(manifest, held, MAIN)
    head = manifest.view(MAIN, with_lineage=True).history.head()
    assert head is not None
    assert (head.id, head.actor, head.parent) == (sidecar.commit_id, "omnigraph:recovery", sidecar.parent_commit_id)
    assert read_state(manifest).people == ("ann",)
    assert_settled(manifest)


def test_a_dead_writer_that_was_overtaken_is_rolled_back(template: Path) -> None:
    root = make_dead_write(template, TWO_TABLES, 2)
    # A publish that does not heal, as that of a writer whose lease was stolen.
    commit_rows(omnigraph.open(root, "ro"), {"Firm": ["acme"]})
    manifest = open_manifest(root)
    write_commit(manifest, NEXT)
    assert "bob" in read_state(manifest).people
    assert [found.kind for found in list_recoveries(manifest)] == [RecoveryKind.ROLLED_BACK]


def write_if_commit(root: str, seen: str) -> None:
    write_commit(open_manifest(root), OverwriteCities(("kiel",)), if_commit=seen)


def test_if_commit_holds_for_a_dead_writer_too(template: Path) -> None:
    root = copy_template(template)
    seen = head_id(open_manifest(root))
    kill(1, write_if_commit, str(root), seen)
    commit_rows(omnigraph.open(root, "ro"), {"Firm": ["acme"]})
    manifest = open_manifest(root)
    write_commit(manifest, NEXT)
    assert read_state(manifest).cities == ("next", "rome")


def load_txn(root: str) -> tuple[str | None, bool]:
    manifest = open_manifest(root)
    terms = CommitOptions(MAIN, manifest.schema_hash(), "tests", txn=("app", 7))
    try:
        result = commit_operation(manifest, OverwriteCities(("kiel",)), terms)
    except AlreadyCommitted as earlier:
        return earlier.commit.id, True
    return result.commit and result.commit.id, False


def test_a_txn_is_applied_once_across_a_crash(template: Path) -> None:
    root = copy_template(template)
    kill(1, load_txn, str(root))
    (sidecar,) = list_sidecars(open_manifest(root).objects)
    assert load_txn(str(root)) == (sidecar.commit_id, True)
    assert load_txn(str(root)) == (sidecar.commit_id, True)
    assert head_id(open_manifest(root)) == sidecar.commit_id


def test_a_roll_forward_under_a_newer_schema_is_a_roll_back(template: Path) -> None:
    root = make_dead_write(template, InsertPeople(("cid",)), 1, "dev")
    manifest = open_manifest(root)
    apply_schema(
        manifest,
        f"{load_current_schema(manifest).text}\nnode Boat {{ name: String @key }}",
        SchemaChangeOptions(),
        CommitOptions(MAIN),
    )
    write_commit(manifest, NEXT, "dev")
    assert read_state(manifest, "dev").people == ("ann", "bob", "next")
    assert [found.kind for found in list_recoveries(manifest)] == [RecoveryKind.ROLLED_BACK]


def test_opening_finishes_every_branch(template: Path) -> None:
    root = make_dead_write(template, InsertPeople(("cid",)), 1, "dev")
    kill(0, write_in_process, str(root), InsertPeople(("dan",)))
    assert len(list_sidecars(open_manifest(root).objects)) == 2
    omnigraph.open(root)
    manifest = open_manifest(root)
    assert (read_state(manifest).people, read_state(manifest, "dev").people) == (("ann", "bob"), ("ann", "bob", "cid"))
    assert {found.kind for found in list_recoveries(manifest)} == {
        RecoveryKind.ROLLED_BACK,
        RecoveryKind.ROLLED_FORWARD,
    }
    assert_settled(manifest)
    assert_settled(manifest, "dev")


def test_what_was_left_on_a_deleted_branch_is_discarded(template: Path) -> None:
    root = make_dead_write(template, InsertPeople(("cid",)), 1, "dev")
    manifest = open_manifest(root)
    delete_branch(manifest, "dev", lambda _manifest, _held, _branch: None)
    create_branch(manifest, "dev", MAIN, finish_removals)
    write_commit(manifest, NEXT, "dev")
    assert read_state(manifest, "dev").people == ("ann", "bob", "next")
    assert [found.kind for found in list_recoveries(manifest)] == [RecoveryKind.ORPHANED_BRANCH_DISCARDED]
    assert_settled(manifest, "dev")


# --------------------------------------------------------------------------------------------- recovery that fails


@pytest.mark.parametrize("locks", [FLOCK, pytest.param(LEASE, marks=pytest.mark.slow)], ids=["flock", "lease"])
@pytest.mark.parametrize("commits", daily([0, 1, 2], [1, 2]))
def test_a_fault_anywhere_in_a_recovery_does_not_turn_it_round(
    template: Path, commits: int, locks: LockSettings
) -> None:
    grave = make_dead_write(template, TWO_TABLES, commits)
    outcome = read_states_around(template, TWO_TABLES, MAIN)[commits == 2]
    kind = RecoveryKind.ROLLED_FORWARD if commits == 2 else RecoveryKind.ROLLED_BACK
    with record_writes() as steps:
        write_commit(open_manifest(crash.fresh_copy(grave), locks), NEXT)
    for number, when in crash.every_crash(step for step in steps if not step.detail.startswith("__locks/")):
        manifest = open_manifest(crash.fresh_copy(grave), locks)
        with fail_at(number, when, OSError("injected")), suppress(OmniGraphError):
            write_commit(manifest, NEXT)
        write_commit(manifest, LAST)
        assert read_state(manifest) in (outcome + BY_LAST, outcome + BY_NEXT + BY_LAST), (when, steps[number - 1])
        assert_settled(manifest)
        (sidecar,) = list_sidecars(open_manifest(grave).objects)
        told = {found.operation_id: found.kind for found in list_recoveries(manifest)}
        assert told[sidecar.operation_id] is kind


def test_under_a_lease_every_table_is_restored(template: Path) -> None:
    root = make_dead_write(template, TWO_TABLES, 0)
    manifest = open_manifest(root, LEASE)
    pins = {key: pin.version for key, pin in list_pins(manifest.view(MAIN)).items()}
    with branch_lock(manifest.location, MAIN, LEASE) as held:
        heal(manifest, held, MAIN)
    moved = {key for key, (pin, _) in read_versions(manifest).items() if pin == pins[key] + 1}
    assert moved == {PERSON, "edge:Knows"}


@pytest.mark.parametrize("commits", [1, 2])
def test_an_audit_that_fails_is_written_once_later(template: Path, commits: int) -> None:
    root = make_dead_write(template, TWO_TABLES, commits)
    manifest = open_manifest(root)
    failures: list[tuple[str, When]] = [("table.create", "before"), ("table.merge", "before"), ("table.merge", "after")]
    for step, when in failures:
        with fail_first_write(step, when, "_recoveries"), pytest.raises(StorageError):
            write_commit(manifest, NEXT)
        assert len(list_sidecars(manifest.objects)) == 1
    write_commit(manifest, NEXT)
    kind = RecoveryKind.ROLLED_FORWARD if commits == 2 else RecoveryKind.ROLLED_BACK
    assert [found.kind for found in list_recoveries(manifest)] == [kind]
    assert_settled(manifest)


def test_a_table_below_its_pin_is_kept_and_told(template: Path) -> None:
    root = make_dead_write(template, LoadAll(("cid",), ("oslo",), ()), 0)
    manifest = open_manifest(root)
    pin = list_pins(manifest.view(MAIN))["node:City"]
    versions = sorted((root / pin.location / "_versions").glob("*.manifest"))
    versions[0].unlink()  # they are named so that the newest comes first
    kept = list_sidecars(manifest.objects)
    for _ in range(2):
        with pytest.raises(RecoveryError, match="below its pin"):
            write_commit(open_manifest(root), InsertPeople(("dan",)))
    assert list_sidecars(manifest.objects) == kept
    assert list_recoveries(manifest) == []


# --------------------------------------------------------------------------------------------- the folder of sidecars


def test_an_unreadable_sidecar_is_refused_and_kept(template: Path) -> None:
    root = copy_template(template)
    file = root / "__recovery" / "01BAD.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text("[")
    with pytest.raises(RecoveryError, match=r"01BAD\.json"):
        write_commit(open_manifest(root), NEXT)
    with pytest.raises(RecoveryError, match=r"01BAD\.json"):
        omnigraph.open(root)
    assert file.read_text() == "["
    reader = omnigraph.open(root, "ro")
    assert reader.snapshot().pin("Person").row_count == 2


def test_a_file_that_is_no_sidecar_is_ignored(template: Path) -> None:
    root = copy_template(template)
    (root / "__recovery").mkdir(exist_ok=True)
    (root / "__recovery" / "note.txt").write_text("do not touch")
    assert omnigraph.open(root).snapshot().pin("Person").row_count == 2
    assert write_commit(open_manifest(root), NEXT) is not None


def test_sidecars_that_cannot_be_listed_raise(template: Path) -> None:
    root = copy_template(template)
    folder = root / "__recovery"
    if folder.exists():
        folder.rmdir()
    folder.symlink_to(folder)
    with pytest.raises(StorageError, match="cannot list '__recovery'"):
        write_commit(open_manifest(root), NEXT)


def test_an_open_does_not_wait_for_a_writer_that_stands_still_on_another_branch(template: Path) -> None:
    root = make_dead_write(template, NEXT, 1, "dev")
    opened: list[float] = []

    def open_it() -> None:
        began = monotonic()
        assert omnigraph.open(root).snapshot().pin("Person").row_count == 2
        opened.append(monotonic() - began)

    with branch_lock(open_manifest(root).location, "dev"):
        waiting = Thread(target=open_it)
        waiting.start()
        waiting.join(FLOCK.timeout)
        assert opened
        assert len(list_sidecars(open_manifest(root).objects)) == 1
    assert opened[0] < FLOCK.timeout / 2
    write_commit(open_manifest(root), LAST, "dev")
    assert_settled(open_manifest(root), "dev")
