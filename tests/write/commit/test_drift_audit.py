"""The audit row of discarded drift is written once, wherever the writer that discarded it was killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from ulid import ULID

from omnigraph.errors import StorageError
from omnigraph.language.schema import TableKey
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.references import take_snapshot
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import open_pin
from omnigraph.storage import tables
from omnigraph.storage.failpoints import WriteStep
from omnigraph.write.commit.audit import RecoveryKind, list_recoveries
from omnigraph.write.commit.recovery import RECOVERY_ACTOR
from omnigraph.write.commit.sidecars import Sidecar, SidecarPin, WriterKind, put_sidecar
from tests.crash import every_crash, kill_at, record, run
from tests.selection import daily
from tests.write.writers import (
    BY_LAST,
    CITY,
    LAST,
    NEXT,
    PERSON,
    GraphState,
    LoadAll,
    append_nodes,
    assert_settled,
    copy_template,
    fail_first_write,
    head_id,
    make_template,
    open_manifest,
    read_state,
    read_versions,
    write_commit,
    write_in_process,
)

BRANCHES = [MAIN, "dev"]
DRIFTED = (CITY, PERSON)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("drift"))


def make_drifted(template: Path, branch: str) -> str:
    """A graph in which two tables of a branch moved without a sidecar and without a publish."""
    root = str(copy_template(template, branch))
    # A branch has no tables of its own before it writes to them.
    run(write_in_process, root, LoadAll(("cid",), ("oslo",), ()), branch)
    run(_drift, root, branch)
    return root


def _drift(root: str, branch: str) -> None:
    manifest = open_manifest(root)
    for table_key in DRIFTED:
        table = open_pin(manifest, take_snapshot(manifest, branch).pins[table_key])
        staged = append_nodes(table_key, ["ghost"]).stage(table)
        assert staged is not None
        tables.commit(table, staged, "a dead operation")


def is_repair(step: WriteStep) -> bool:
    return step.name == "table.merge" and "__manifest" in step.detail


def list_audited(manifest: Manifest) -> list[tuple[RecoveryKind | str, set[str]]]:
    return [(found.kind, {each.table_key for each in found.outcomes}) for found in list_recoveries(manifest)]


@pytest.mark.parametrize("branch", daily(BRANCHES, ["dev"]))
def test_the_next_writer_audits_drift_if_the_first_was_killed(template: Path, branch: str) -> None:
    root = make_drifted(template, branch)
    before = read_state(open_manifest(root), branch)
    moved = read_versions(open_manifest(root), branch)
    number = next(
        step.number
        for step in record(write_in_process, make_drifted(template, branch), NEXT, branch)
        if is_repair(step)
    )
    kill_at(write_in_process, (root, NEXT, branch), number, "after")
    manifest = open_manifest(root)
    assert list_recoveries(manifest) == []
    repair = manifest.view(branch, with_lineage=True).history.head()
    assert repair is not None
    assert repair.actor == RECOVERY_ACTOR

    run(write_in_process, root, LAST, branch)
    (discarded,) = list_recoveries(manifest)
    assert (discarded.kind, discarded.graph_commit_id) == (RecoveryKind.DRIFT_DISCARDED, repair.id)
    assert {each.table_key: (each.to_version, each.from_version) for each in discarded.outcomes} == {
        table_key: moved[table_key] for table_key in DRIFTED
    }
    assert read_state(open_manifest(root), branch) == before + BY_LAST
    assert_settled(manifest, branch)
    # It is not audited again.
    run(write_in_process, root, NEXT, branch)
    assert list_recoveries(manifest) == [discarded]


@pytest.mark.parametrize("branch", daily(BRANCHES, ["dev"]))
def test_killed_anywhere_drift_is_discarded_and_audited_once(template: Path, branch: str) -> None:
    before = read_state(open_manifest(make_drifted(template, branch)), branch)
    steps = record(write_in_process, make_drifted(template, branch), NEXT, branch)
    repair = next(step.number for step in steps if is_repair(step))
    # Later writes are those of a commit like any other, whose deaths are tried elsewhere.
    for number, when in every_crash(step for step in steps if step.number <= repair + 2):
        root = make_drifted(template, branch)
        kill_at(write_in_process, (root, NEXT, branch), number, when)
        run(_go_on, root, branch, before, f"killed {when} {steps[number - 1]}")


def _go_on(root: str, branch: str, before: GraphState, place: str) -> None:
    manifest = open_manifest(root)
    write_commit(manifest, LAST, branch)
    assert read_state(manifest, branch) == before + BY_LAST, place
    assert list_audited(manifest) == [(RecoveryKind.DRIFT_DISCARDED, set(DRIFTED))], place
    assert_settled(manifest, branch)


def test_a_row_that_cannot_be_written_is_written_later(template: Path) -> None:
    root = make_drifted(template, MAIN)
    manifest = open_manifest(root)
    for when in ("before", "after"):
        with fail_first_write("table.merge", when, "_recoveries"), pytest.raises(StorageError):
            write_commit(manifest, NEXT)
    write_commit(manifest, NEXT)
    assert list_audited(manifest) == [(RecoveryKind.DRIFT_DISCARDED, set(DRIFTED))]
    assert_settled(manifest)


def test_a_roll_back_by_its_own_writer_is_no_drift(template: Path) -> None:
    root = copy_template(template)
    with fail_first_write("table.merge", "before", "__manifest"), pytest.raises(StorageError):
        write_commit(open_manifest(root), NEXT)
    head = open_manifest(root).view(MAIN, with_lineage=True).history.head()
    assert head is not None
    assert head.actor == RECOVERY_ACTOR
    write_commit(open_manifest(root), LAST)
    assert list_recoveries(open_manifest(root)) == []


def test_a_repair_under_a_later_recovery_is_audited_too(template: Path) -> None:
    root = make_drifted(template, MAIN)
    number = next(
        step.number for step in record(write_in_process, make_drifted(template, MAIN), NEXT) if is_repair(step)
    )
    kill_at(write_in_process, (root, NEXT), number, "after")
    manifest = open_manifest(root)
    put_sidecar(manifest.objects, dead_sidecar(manifest))
    write_commit(manifest, LAST)
    assert list_audited(manifest) == [
        (RecoveryKind.ROLLED_BACK, {CITY}),
        (RecoveryKind.DRIFT_DISCARDED, set(DRIFTED)),
    ]
    assert_settled(manifest)


def dead_sidecar(manifest: Manifest) -> Sidecar:
    """A late holder of a lease that got as far as one of its two tables."""
    pins, operation = take_snapshot(manifest, MAIN).pins, str(ULID())
    table = open_pin(manifest, pins[CITY])
    staged = append_nodes(CITY, ["late"]).stage(table)
    assert staged is not None
    tables.commit(table, staged, operation)
    wanted = tuple(
        SidecarPin(
            TableKey(key), manifest.location.join(pins[key].location), pins[key].version, pins[key].version + 1, None
        )
        for key in DRIFTED
    )
    kind, commit_id = WriterKind.LOAD, str(ULID())
    return Sidecar(operation, 0, None, None, kind, wanted, commit_id=commit_id, parent_commit_id=head_id(manifest))
