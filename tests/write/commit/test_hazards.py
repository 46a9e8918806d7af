"""The hazards that the rules of the commit section are there for, each provoked with real tables.

The other writer runs in a chosen place: right after a writer's ``prepare``, which is before its lock, or right after
one of its durable writes, which is inside its section.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.errors import (
    ConflictError,
    DriftDetected,
    ExpectedVersionMismatch,
    InputError,
    PreconditionFailed,
    StorageError,
)
from omnigraph.manifest.branches import delete_branch
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.references import create_branch, take_snapshot
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot, open_pin
from omnigraph.storage import tables
from omnigraph.write.commit.audit import RecoveryKind, list_recoveries
from omnigraph.write.commit.recovery import finish_removals, heal
from omnigraph.write.commit.section import CommitOptions, PreparedWrite, TableChange, commit_operation
from omnigraph.write.commit.sidecars import WriterKind, list_sidecars
from omnigraph.write.indexes import ensure_indexes
from tests.write.writers import (
    CITY,
    PERSON,
    DeletePerson,
    InsertEdge,
    InsertPeople,
    LoadAll,
    OvertakenOperation,
    OverwriteCities,
    append_nodes,
    assert_settled,
    copy_template,
    fail_first_write,
    head_id,
    make_template,
    open_manifest,
    read_state,
    read_versions,
    run_right_after,
    write_commit,
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("hazards"))


@pytest.fixture
def root(template: Path) -> Path:
    return copy_template(template)


# --------------------------------------------------------------------------------------------- rules over two tables


def test_an_edge_is_not_inserted_to_a_node_that_is_deleted_meanwhile(root: Path) -> None:
    # Nobody knows cid yet: the delete does not touch the table that the insert writes.
    write_commit(open_manifest(root), InsertPeople(("cid",)))
    edge = OvertakenOperation(
        InsertEdge("ann", "cid"), [lambda: write_commit(open_manifest(root), DeletePerson("cid"))]
    )
    with pytest.raises(InputError, match="missing"):
        write_commit(open_manifest(root), edge)
    assert read_state(open_manifest(root)).knows == ("bob-ann",)
    assert_settled(open_manifest(root))


def test_a_node_is_not_deleted_while_an_edge_to_it_is_inserted(root: Path) -> None:
    write_commit(open_manifest(root), InsertPeople(("cid",)))
    delete = OvertakenOperation(
        DeletePerson("cid"), [lambda: write_commit(open_manifest(root), InsertEdge("ann", "cid"))]
    )
    with pytest.raises(ExpectedVersionMismatch):
        write_commit(open_manifest(root), delete)
    assert read_state(open_manifest(root)).people == ("ann", "bob", "cid")
    assert read_state(open_manifest(root)).knows == ("ann-cid", "bob-ann")


@dataclass(frozen=True, slots=True)
class InsertNamed:
    """A person whose name must be free, under an id that has nothing to do with it."""

    id: str
    name: str
    kind: WriterKind = WriterKind.MUTATION
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[None]:
        """Read the names."""
        if self.name in snapshot.table(PERSON).scan(["name"]).read_all()["name"].to_pylist():
            raise InputError(f"taken: {self.name}")
        row = [{"id": self.id, "name": self.name}]
        change = TableChange(PERSON, lambda table: tables.append(table, pa.Table.from_pylist(row, schema=table.schema)))
        return PreparedWrite((change,), frozenset({PERSON}), None)


def test_one_unique_value_is_not_inserted_twice_under_different_ids(root: Path) -> None:
    first = OvertakenOperation(
        InsertNamed("1", "eve"), [lambda: write_commit(open_manifest(root), InsertNamed("2", "eve"))]
    )
    with pytest.raises(InputError, match="taken"):
        write_commit(open_manifest(root), first)
    assert read_state(open_manifest(root)).people == ("2", "ann", "bob")


def test_insert_only_work_is_validated_again_until_the_lock_decides(root: Path) -> None:
    others = [partial(write_commit, open_manifest(root), InsertPeople((name,))) for name in ("p1", "p2", "p3")]
    assert write_commit(open_manifest(root), OvertakenOperation(InsertPeople(("cid",)), [*others])) is not None
    assert read_state(open_manifest(root)).people == ("ann", "bob", "cid", "p1", "p2", "p3")


# --------------------------------------------------------------------------------------------- moved, and not moved


@dataclass(frozen=True, slots=True)
class Compact:
    """The fragments of a table made one."""

    table_key: str
    kind: WriterKind = WriterKind.OPTIMIZE
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[None]:
        """Nothing is read."""
        del snapshot
        return PreparedWrite((TableChange(self.table_key, tables.compact),), frozenset(), None)


def compact_people(manifest: Manifest) -> None:
    write_commit(manifest, Compact(PERSON))


def index_people(manifest: Manifest) -> None:
    ensure_indexes(manifest, MAIN, [PERSON])


@pytest.mark.parametrize("maintenance", [compact_people, index_people])
def test_maintenance_does_not_disturb_strict_work(root: Path, maintenance: Callable[[Manifest], object]) -> None:
    write_commit(open_manifest(root), InsertPeople(("cid",)))
    pinned = read_versions(open_manifest(root))[PERSON]
    assert (
        write_commit(
            open_manifest(root), OvertakenOperation(DeletePerson("bob"), [lambda: maintenance(open_manifest(root))])
        )
        is not None
    )
    assert read_versions(open_manifest(root))[PERSON][0] > pinned[0] + 1
    assert read_state(open_manifest(root)).people == ("ann", "cid")
    assert read_state(open_manifest(root)).knows == ()


def test_a_restore_by_recovery_does_not_disturb_strict_work(root: Path) -> None:
    def drift_and_discard() -> None:
        commit_unpublished(open_manifest(root), "ghost", "a dead operation")
        write_commit(open_manifest(root), Compact(CITY))

    assert (
        write_commit(open_manifest(root), OvertakenOperation(OverwriteCities(("kiel",)), [drift_and_discard]))
        is not None
    )
    assert [found.kind for found in list_recoveries(open_manifest(root))] == [RecoveryKind.DRIFT_DISCARDED]
    assert read_state(open_manifest(root)).cities == ("kiel",)


# --------------------------------------------------------------------------------------------- late, foreign, drifted


def commit_unpublished(manifest: Manifest, name: str, operation_id: str) -> None:
    """One of us who died, or woke up, without a sidecar: a table commit that no publish follows."""
    table = open_pin(manifest, take_snapshot(manifest, MAIN).pins[CITY])
    staged = append_nodes(CITY, [name]).stage(table)
    assert staged is not None
    tables.commit(table, staged, operation_id)


def append_foreign(manifest: Manifest, name: str) -> None:
    """Somebody who knows nothing of graphs."""
    uri = manifest.location.join(take_snapshot(manifest, MAIN).pins[CITY].location)
    lance.write_dataset(pa.table({"id": [name], "name": [name]}, schema=lance.dataset(uri).schema), uri, mode="append")


@pytest.mark.parametrize("late", [partial(commit_unpublished, operation_id="late"), append_foreign])
def test_a_commit_between_sidecar_and_table_rolls_the_write_back(
    root: Path, late: Callable[[Manifest, str], None]
) -> None:
    manifest = open_manifest(root)
    before = read_state(manifest)
    with (
        run_right_after("objects.put", "__recovery", lambda: late(open_manifest(root), "ghost")),
        pytest.raises(ConflictError),
    ):
        write_commit(manifest, LoadAll(("cid",), ("oslo",), ()))
    assert read_state(open_manifest(root)) == before
    assert_settled(manifest)
    write_commit(manifest, LoadAll(("cid",), ("oslo",), ()))
    assert read_state(manifest).cities == ("oslo", "rome")


def test_our_drift_is_discarded_and_audited(root: Path) -> None:
    manifest = open_manifest(root)
    commit_unpublished(manifest, "ghost", "a dead operation")
    pin, head = read_versions(manifest)[CITY]
    write_commit(manifest, LoadAll(("cid",), ("oslo",), ()))
    assert read_state(manifest).cities == ("oslo", "rome")
    assert_settled(manifest)
    (discarded,) = list_recoveries(manifest)
    assert discarded.kind is RecoveryKind.DRIFT_DISCARDED
    assert [(each.table_key, each.from_version, each.to_version) for each in discarded.outcomes] == [(CITY, head, pin)]


def test_foreign_drift_is_refused_and_kept(root: Path) -> None:
    manifest = open_manifest(root)
    append_foreign(manifest, "ghost")
    before = read_versions(manifest)
    with pytest.raises(DriftDetected, match="repair"):
        write_commit(manifest, OverwriteCities(("kiel",)))
    assert read_versions(manifest) == before
    assert list_recoveries(manifest) == []
    assert write_commit(manifest, InsertPeople(("cid",))) is not None


# --------------------------------------------------------------------------------------------- answers that are lost


def test_a_publish_whose_answer_was_lost_is_found(root: Path) -> None:
    manifest = open_manifest(root)
    with fail_first_write("table.merge", "after"):
        made = write_commit(manifest, InsertPeople(("cid",)))
    assert made is not None
    assert head_id(open_manifest(root)) == made.id
    assert made.actor == "tests"
    write_commit(manifest, InsertPeople(("dan",)))
    assert_settled(manifest)
    assert list_recoveries(manifest) == []


def test_a_sidecar_that_cannot_be_deleted_is_a_warning(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    manifest = open_manifest(root)
    with caplog.at_level(logging.WARNING, "omnigraph"), fail_first_write("objects.delete", "before", "__recovery"):
        made = write_commit(manifest, InsertPeople(("cid",)))
    assert made is not None
    assert made.id in caplog.text
    assert [left.commit_id for left in list_sidecars(manifest.objects)] == [made.id]
    write_commit(manifest, InsertPeople(("dan",)))
    assert_settled(manifest)
    assert list_recoveries(manifest) == []


def test_a_failed_sidecar_moves_nothing(root: Path) -> None:
    manifest = open_manifest(root)
    before = read_versions(manifest)
    with fail_first_write("objects.put", "before", "__recovery"), pytest.raises(StorageError):
        write_commit(manifest, InsertPeople(("cid",)))
    assert read_versions(manifest) == before
    assert_settled(manifest)


# --------------------------------------------------------------------------------------------- conditions


def test_if_commit_is_compared_under_the_lock(root: Path) -> None:
    seen = head_id(open_manifest(root))
    work = OvertakenOperation(
        InsertPeople(("cid",)), [lambda: write_commit(open_manifest(root), OverwriteCities(("kiel",)))]
    )
    with pytest.raises(PreconditionFailed):
        write_commit(open_manifest(root), work, if_commit=seen)
    assert read_state(open_manifest(root)).people == ("ann", "bob")


def test_of_two_retries_of_a_txn_one_is_applied(root: Path) -> None:
    retry = partial(write_commit, open_manifest(root), LoadAll((), ("oslo",), ()), txn=("app", 1))
    again = write_commit(open_manifest(root), OvertakenOperation(OverwriteCities(("kiel",)), [retry]), txn=("app", 1))
    assert again is not None
    assert again.id == head_id(open_manifest(root))
    assert read_state(open_manifest(root)).cities == ("oslo", "rome")


def test_two_first_writes_to_one_table_of_a_branch(template: Path) -> None:
    root = copy_template(template, "dev")
    first = OvertakenOperation(
        InsertPeople(("cid",)), [lambda: write_commit(open_manifest(root), InsertPeople(("dan",)), "dev")]
    )
    assert write_commit(open_manifest(root), first, "dev") is not None
    assert read_state(open_manifest(root), "dev").people == ("ann", "bob", "cid", "dan")
    assert read_state(open_manifest(root)).people == ("ann", "bob")
    assert_settled(open_manifest(root), "dev")


def recreate_branch(root: Path, branch: str) -> None:
    manifest = open_manifest(root)
    delete_branch(manifest, branch, heal)
    create_branch(manifest, branch, MAIN, finish_removals)


def test_a_branch_that_is_recreated_under_a_writer_is_a_conflict(template: Path) -> None:
    root = copy_template(template, "dev")
    with pytest.raises(ConflictError, match="re-created"):
        write_commit(
            open_manifest(root),
            OvertakenOperation(InsertPeople(("cid",)), [lambda: recreate_branch(root, "dev")]),
            "dev",
        )
    assert read_state(open_manifest(root), "dev").people == ("ann", "bob")


def test_work_that_began_before_its_branch_was_recreated_is_a_conflict(template: Path) -> None:
    root = copy_template(template, "dev")
    manifest = open_manifest(root)
    write_commit(manifest, OverwriteCities(("kiel",)), "dev")
    begun = take_snapshot(manifest, "dev")
    recreate_branch(root, "dev")
    write_commit(open_manifest(root), OverwriteCities(("oslo",)), "dev")
    # The new branch shows the very version that the work was begun on, with other rows.
    assert take_snapshot(open_manifest(root), "dev").pins[CITY] == begun.pins[CITY]
    with pytest.raises(ConflictError, match="re-created"):
        commit_operation(open_manifest(root), OverwriteCities(("late",)), CommitOptions("dev"), begun)
    assert read_state(open_manifest(root), "dev").cities == ("oslo",)
