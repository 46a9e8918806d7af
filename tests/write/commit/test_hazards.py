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
from omnigraph.manifest.branches import create_branch, delete_branch
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.references import take_snapshot
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot, open_pin
from omnigraph.storage import table_upkeep
from omnigraph.storage import table_writes as tables
from omnigraph.write.commit.audit import RecoveryKind, list_recoveries
from omnigraph.write.commit.recovery import heal
from omnigraph.write.commit.section import CommitOptions, PreparedWrite, TableChange, commit
from omnigraph.write.commit.sidecars import WriterKind, list_sidecars
from omnigraph.write.indexes import ensure_indexes
from tests.write.writers import (
    CITY,
    PERSON,
    DeletePerson,
    InsertEdge,
    InsertPeople,
    LoadAll,
    Overtaken,
    OverwriteCities,
    append_nodes,
    assert_settled,
    copy_of,
    failing_at,
    head_id,
    heads,
    make_template,
    manifest_at,
    right_after,
    shown,
    write,
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("hazards"))


@pytest.fixture
def root(template: Path) -> Path:
    return copy_of(template)


# --------------------------------------------------------------------------------------------- rules over two tables


def test_an_edge_is_not_inserted_to_a_node_that_is_deleted_meanwhile(root: Path) -> None:
    # Nobody knows cid yet: the delete does not touch the table that the insert writes.
    write(manifest_at(root), InsertPeople(("cid",)))
    edge = Overtaken(InsertEdge("ann", "cid"), [lambda: write(manifest_at(root), DeletePerson("cid"))])
    with pytest.raises(InputError, match="missing"):
        write(manifest_at(root), edge)
    assert shown(manifest_at(root)).knows == ("bob-ann",)
    assert_settled(manifest_at(root))


def test_a_node_is_not_deleted_while_an_edge_to_it_is_inserted(root: Path) -> None:
    write(manifest_at(root), InsertPeople(("cid",)))
    delete = Overtaken(DeletePerson("cid"), [lambda: write(manifest_at(root), InsertEdge("ann", "cid"))])
    with pytest.raises(ExpectedVersionMismatch):
        write(manifest_at(root), delete)
    assert shown(manifest_at(root)).people == ("ann", "bob", "cid")
    assert shown(manifest_at(root)).knows == ("ann-cid", "bob-ann")


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
    first = Overtaken(InsertNamed("1", "eve"), [lambda: write(manifest_at(root), InsertNamed("2", "eve"))])
    with pytest.raises(InputError, match="taken"):
        write(manifest_at(root), first)
    assert shown(manifest_at(root)).people == ("2", "ann", "bob")


def test_insert_only_work_is_validated_again_until_the_lock_decides(root: Path) -> None:
    others = [partial(write, manifest_at(root), InsertPeople((name,))) for name in ("p1", "p2", "p3")]
    assert write(manifest_at(root), Overtaken(InsertPeople(("cid",)), [*others])) is not None
    assert shown(manifest_at(root)).people == ("ann", "bob", "cid", "p1", "p2", "p3")


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
        return PreparedWrite((TableChange(self.table_key, table_upkeep.compact),), frozenset(), None)


def compact_people(manifest: Manifest) -> None:
    write(manifest, Compact(PERSON))


def index_people(manifest: Manifest) -> None:
    ensure_indexes(manifest, MAIN, [PERSON])


@pytest.mark.parametrize("maintenance", [compact_people, index_people])
def test_maintenance_does_not_disturb_strict_work(root: Path, maintenance: Callable[[Manifest], object]) -> None:
    write(manifest_at(root), InsertPeople(("cid",)))
    pinned = heads(manifest_at(root))[PERSON]
    assert (
        write(manifest_at(root), Overtaken(DeletePerson("bob"), [lambda: maintenance(manifest_at(root))])) is not None
    )
    assert heads(manifest_at(root))[PERSON][0] > pinned[0] + 1
    assert shown(manifest_at(root)).people == ("ann", "cid")
    assert shown(manifest_at(root)).knows == ()


def test_a_restore_by_recovery_does_not_disturb_strict_work(root: Path) -> None:
    def drift_and_discard() -> None:
        commit_unpublished(manifest_at(root), "ghost", "a dead operation")
        write(manifest_at(root), Compact(CITY))

    assert write(manifest_at(root), Overtaken(OverwriteCities(("kiel",)), [drift_and_discard])) is not None
    assert [found.kind for found in list_recoveries(manifest_at(root))] == [RecoveryKind.DRIFT_DISCARDED]
    assert shown(manifest_at(root)).cities == ("kiel",)


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
def test_a_commit_between_sidecar_and_table_takes_the_write_back(
    root: Path, late: Callable[[Manifest, str], None]
) -> None:
    manifest = manifest_at(root)
    before = shown(manifest)
    with (
        right_after("objects.put", "__recovery", lambda: late(manifest_at(root), "ghost")),
        pytest.raises(ConflictError),
    ):
        write(manifest, LoadAll(("cid",), ("oslo",), ()))
    assert shown(manifest_at(root)) == before
    assert_settled(manifest)
    write(manifest, LoadAll(("cid",), ("oslo",), ()))
    assert shown(manifest).cities == ("oslo", "rome")


def test_our_drift_is_discarded_and_written_down(root: Path) -> None:
    manifest = manifest_at(root)
    commit_unpublished(manifest, "ghost", "a dead operation")
    pin, head = heads(manifest)[CITY]
    write(manifest, LoadAll(("cid",), ("oslo",), ()))
    assert shown(manifest).cities == ("oslo", "rome")
    assert_settled(manifest)
    (discarded,) = list_recoveries(manifest)
    assert discarded.kind is RecoveryKind.DRIFT_DISCARDED
    assert [(each.table_key, each.from_version, each.to_version) for each in discarded.outcomes] == [(CITY, head, pin)]


def test_foreign_drift_is_refused_and_kept(root: Path) -> None:
    manifest = manifest_at(root)
    append_foreign(manifest, "ghost")
    before = heads(manifest)
    with pytest.raises(DriftDetected, match="repair"):
        write(manifest, OverwriteCities(("kiel",)))
    assert heads(manifest) == before
    assert list_recoveries(manifest) == []
    assert write(manifest, InsertPeople(("cid",))) is not None


# --------------------------------------------------------------------------------------------- answers that are lost


def test_a_publish_whose_answer_was_lost_is_found(root: Path) -> None:
    manifest = manifest_at(root)
    with failing_at("table.merge", "after"):
        made = write(manifest, InsertPeople(("cid",)))
    assert made is not None
    assert head_id(manifest_at(root)) == made.id
    assert made.actor == "tests"
    write(manifest, InsertPeople(("dan",)))
    assert_settled(manifest)
    assert list_recoveries(manifest) == []


def test_a_sidecar_that_cannot_be_deleted_is_a_warning(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    manifest = manifest_at(root)
    with caplog.at_level(logging.WARNING, "omnigraph"), failing_at("objects.delete", "before", "__recovery"):
        made = write(manifest, InsertPeople(("cid",)))
    assert made is not None
    assert made.id in caplog.text
    assert [left.commit_id for left in list_sidecars(manifest.objects)] == [made.id]
    write(manifest, InsertPeople(("dan",)))
    assert_settled(manifest)
    assert list_recoveries(manifest) == []


def test_a_failed_sidecar_moves_nothing(root: Path) -> None:
    manifest = manifest_at(root)
    before = heads(manifest)
    with failing_at("objects.put", "before", "__recovery"), pytest.raises(StorageError):
        write(manifest, InsertPeople(("cid",)))
    assert heads(manifest) == before
    assert_settled(manifest)


# --------------------------------------------------------------------------------------------- conditions


def test_if_commit_is_compared_under_the_lock(root: Path) -> None:
    seen = head_id(manifest_at(root))
    work = Overtaken(InsertPeople(("cid",)), [lambda: write(manifest_at(root), OverwriteCities(("kiel",)))])
    with pytest.raises(PreconditionFailed):
        write(manifest_at(root), work, if_commit=seen)
    assert shown(manifest_at(root)).people == ("ann", "bob")


def test_of_two_retries_of_a_txn_one_is_applied(root: Path) -> None:
    retry = partial(write, manifest_at(root), LoadAll((), ("oslo",), ()), txn=("app", 1))
    again = write(manifest_at(root), Overtaken(OverwriteCities(("kiel",)), [retry]), txn=("app", 1))
    assert again is not None
    assert again.id == head_id(manifest_at(root))
    assert shown(manifest_at(root)).cities == ("oslo", "rome")


def test_two_first_writes_to_one_table_of_a_branch(template: Path) -> None:
    root = copy_of(template, "dev")
    first = Overtaken(InsertPeople(("cid",)), [lambda: write(manifest_at(root), InsertPeople(("dan",)), "dev")])
    assert write(manifest_at(root), first, "dev") is not None
    assert shown(manifest_at(root), "dev").people == ("ann", "bob", "cid", "dan")
    assert shown(manifest_at(root)).people == ("ann", "bob")
    assert_settled(manifest_at(root), "dev")


def make_anew(root: Path, branch: str) -> None:
    manifest = manifest_at(root)
    delete_branch(manifest, branch, heal)
    create_branch(manifest, branch, MAIN, None)


def test_a_branch_that_is_made_anew_under_a_writer_is_a_conflict(template: Path) -> None:
    root = copy_of(template, "dev")
    with pytest.raises(ConflictError, match="re-created"):
        write(manifest_at(root), Overtaken(InsertPeople(("cid",)), [lambda: make_anew(root, "dev")]), "dev")
    assert shown(manifest_at(root), "dev").people == ("ann", "bob")


def test_work_that_was_begun_before_its_branch_was_made_anew_is_a_conflict(template: Path) -> None:
    root = copy_of(template, "dev")
    manifest = manifest_at(root)
    write(manifest, OverwriteCities(("kiel",)), "dev")
    begun = take_snapshot(manifest, "dev")
    make_anew(root, "dev")
    write(manifest_at(root), OverwriteCities(("oslo",)), "dev")
    # The new branch shows the very version that the work was begun on, with other rows.
    assert take_snapshot(manifest_at(root), "dev").pins[CITY] == begun.pins[CITY]
    with pytest.raises(ConflictError, match="re-created"):
        commit(manifest_at(root), OverwriteCities(("late",)), CommitOptions("dev"), begun)
    assert shown(manifest_at(root), "dev").cities == ("oslo",)
