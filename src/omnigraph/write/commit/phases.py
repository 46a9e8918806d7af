"""The four durable phases of a commit, under the branch's lock.

A: put the sidecar. B: commit each table. C: publish. D: delete the sidecar. A writer that fails between A and C rolls
back, or raises ``OutcomeUnknown``. A writer that dies is finished by whoever takes the lock next (:mod:`.recovery`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final, Generic

from omnigraph.errors import ConflictError, ExpectedVersionMismatch, OmniGraphError, OutcomeUnknown, StorageError
from omnigraph.language.schema import TableKey
from omnigraph.language.values import now_microseconds
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.branches import fork_table
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.publisher import BranchState, CommitIntent, PublishRequest, PublishResult, publish
from omnigraph.manifest.rows import MAIN, CommitRecord, Registration, TableVersion, Tombstone, WriteKey
from omnigraph.manifest.snapshot import Pin, Snapshot, list_pins, make_entry, make_pointer_entry
from omnigraph.manifest.state import ManifestView
from omnigraph.storage import tables
from omnigraph.storage.durability import PublishedUnsynced, SyncFailed
from omnigraph.storage.lance_internals import CommitRefused, HeadMoved
from omnigraph.storage.location import Location
from omnigraph.storage.locks import HeldLock, LeaseLost
from omnigraph.storage.tables import StagedChange, Table
from omnigraph.write.commit.operation import (
    AlreadyCommitted,
    CommitOptions,
    CommitResult,
    Outcome,
    PreparedWrite,
    TableChange,
    WriteOperation,
)
from omnigraph.write.commit.recovery import roll_back
from omnigraph.write.commit.sidecars import (
    Adoption,
    Sidecar,
    SidecarPin,
    SidecarRegistration,
    SidecarRemoval,
    SidecarTombstone,
    WriterKind,
    decide_rollback,
    delete_sidecar,
    put_sidecar,
    read_sidecar,
)
from omnigraph.write.commit.table_heads import RECOVERY_ACTOR
from omnigraph.write.executor import ThreadExecutor

_log = logging.getLogger("omnigraph")

_SURELY_KEPT: Final = 30 * 60 * 1_000_000
"""Microseconds. On an object store cleanup keeps staged files for an hour at least."""
_MOST_NAMED: Final = 20

STORE_THREADS: Final = 16
LOCAL_THREADS: Final = 1
"""A commit on a local disk takes a millisecond or two, mostly of the processor: threads do not pay."""


@dataclass(frozen=True, slots=True)
class CommitAttempt(Generic[Outcome]):
    """One call of :func:`commit_operation`. Its ids are minted once, however often steps are repeated."""

    manifest: Manifest
    operation: WriteOperation[Outcome]
    options: CommitOptions
    operation_id: str
    commit_id: str
    incarnation: str | None
    started_at: int = field(default_factory=now_microseconds)


@dataclass(frozen=True, slots=True)
class CommitSection(Generic[Outcome]):
    """An attempt that holds the lock: the snapshot it was prepared on, and what is staged."""

    attempt: CommitAttempt[Outcome]
    held: HeldLock
    basis: Snapshot
    prepared: PreparedWrite[Outcome]
    staged: Mapping[str, StagedChange | None]

    @property
    def written_tables(self) -> list[str]:
        """The keys of the tables that are written."""
        return [change.table_key for change in self.prepared.changes]

    @property
    def read_set(self) -> list[str]:
        """The keys of the tables that must show the rows of the basis: written, read and adopted ones.

        Upkeep changes no row, so it does not depend on them.
        """
        written = (change.table_key for change in self.prepared.changes if not change.is_upkeep)
        return sorted({*written, *self.prepared.reads, *(pin.table_key for pin in self.prepared.adopted)})

    @property
    def key(self) -> WriteKey | None:
        """The key of the write, with what it affects."""
        key = self.attempt.options.key
        return None if key is None else replace(key, nodes=self.prepared.affected[0], edges=self.prepared.affected[1])

    def list_expected_versions(self, view: ManifestView) -> dict[str, int]:
        """Return the versions that the publish compares: of all tables that are read, written, created or dropped."""
        created = (each.table_key for each in self.prepared.created)
        compared = {*self.read_set, *self.written_tables, *created, *self.prepared.dropped}
        return {table_key: view.tables.version_of(table_key) for table_key in compared}

    def list_tombstones(self, view: ManifestView) -> tuple[Tombstone, ...]:
        """Return what hides each dropped table: its last version, and one more that this commit may make."""
        return tuple(Tombstone(TableKey(key), view.tables.version_of(key) + 1) for key in self.prepared.dropped)


@dataclass(frozen=True, slots=True)
class _StagedTable:
    """One table that is about to be committed: its pin, the table at the pin, and what is staged on it."""

    pin: Pin
    table: Table
    staged: StagedChange
    is_new: bool = False


def run_phases(
    section: CommitSection[Outcome], state: BranchState, owned: Mapping[str, Table]
) -> CommitResult[Outcome]:
    """Commit the tables and publish them. ``owned`` are the tables of the branch, which are at their pins."""
    attempt, outcome, view = section.attempt, section.prepared.outcome, state.view
    staged_tables = _stage_tables(section, view, owned)
    written = frozenset(each.pin.table_key for each in staged_tables)
    if not staged_tables:
        return _publish_alone(section, state) if section.prepared.has_manifest_changes else CommitResult(None, outcome)
    sidecar = _build_sidecar(section, view, staged_tables)
    section.held.check()
    put_sidecar(attempt.manifest.objects, sidecar)  # phase A
    try:
        _refuse_missing_files(section, staged_tables)
        committed = _commit_tables(section, staged_tables)  # phase B
        updates = [
            make_entry(attempt.manifest, each.pin, table) for each, table in zip(staged_tables, committed, strict=True)
        ]
        sidecar = _confirm_merge(section, sidecar, updates)
        published = _publish(section, state, updates)  # phase C
    except LeaseLost as lost:
        raise OutcomeUnknown(attempt.commit_id, f"the lock was lost in the middle of a commit: {lost}") from lost
    except PublishedUnsynced as failed:
        raise OutcomeUnknown(attempt.commit_id, f"the commit may not be on the disk: {failed}") from failed
    except (CommitRefused, HeadMoved) as moved:
        landed = _give_up(section, sidecar)
        if landed is None:
            raise _make_conflict_error(moved, staged_tables) from moved
        return CommitResult(landed, outcome, tables=written)
    except BaseException as error:
        landed = _give_up(section, sidecar)
        if landed is None or not isinstance(error, Exception):
            raise
        return CommitResult(landed, outcome, tables=written)
    if published.status == "replayed":
        _give_up(section, sidecar)
        raise AlreadyCommitted(published.commit)
    if published.commit.actor != RECOVERY_ACTOR or attempt.options.actor == RECOVERY_ACTOR:
        is_cleared = _clear_sidecar(section, sidecar)  # phase D
        if is_cleared and published.status == "published":
            attempt.manifest.keep_committed(published.view, committed)
            section.held.vouch()
    crowded = [
        each.pin.table_key
        for each, table in zip(staged_tables, committed, strict=True)
        if tables.list_crowded_sizes(table)
    ]
    return CommitResult(published.commit, outcome, tables=written, crowded=frozenset(crowded))


# --------------------------------------------------------------------------------------------- before phase A


def _stage_tables(
    section: CommitSection[Outcome], view: ManifestView, owned: Mapping[str, Table]
) -> list[_StagedTable]:
    """Fork inherited tables and stage what is not staged on the current pin. Leave out changes that change nothing."""
    manifest, pins = section.attempt.manifest, list_pins(view)
    staged_tables: list[_StagedTable] = []
    for change in section.prepared.changes:
        pin = pins[change.table_key]
        table = owned.get(change.table_key) or fork_table(manifest, section.held, section.attempt.options.branch, pin)
        staged = _find_staged(section, change.table_key, table) or _stage_again(section, change, table)
        if staged is not None:
            staged_tables.append(_StagedTable(pin, table, staged))
    for each in section.prepared.created:
        table = each.open_home(section.held)
        staged = _find_staged(section, each.table_key, table) or each.stage(table)
        pin = Pin(each.table_key, each.location, table.version, table.branch, 0)
        staged_tables.append(_StagedTable(pin, table, staged, is_new=True))
    return staged_tables


def _find_staged(section: CommitSection[Outcome], table_key: str, table: Table) -> StagedChange | None:
    """Return what was staged before the lock, if it was staged on this very version."""
    staged = section.staged.get(table_key)
    is_current = staged is not None and (staged.branch, staged.version) == (table.branch, table.version)
    return staged if is_current else None


def _stage_again(section: CommitSection[Outcome], change: TableChange, table: Table) -> StagedChange | None:
    """Stage a change on the current pin, under the lock. Upkeep is carried over, never computed here."""
    if change.carry_over is None:
        return change.stage(table)
    staged = section.staged.get(change.table_key)
    return None if staged is None else change.carry_over(staged, section.basis.table(change.table_key), table)


def _build_sidecar(section: CommitSection[Outcome], view: ManifestView, staged_tables: list[_StagedTable]) -> Sidecar:
    attempt, options = section.attempt, section.attempt.options
    head = view.history.head()
    return Sidecar(
        operation_id=attempt.operation_id,
        started_at=attempt.started_at,
        branch=None if options.branch == MAIN else options.branch,
        actor_id=options.actor,
        writer_kind=attempt.operation.kind,
        tables=tuple(
            SidecarPin(
                table_key=each.pin.table_key,
                table_path=attempt.manifest.location.join(each.pin.location),
                expected_version=each.pin.version,
                post_commit_pin=each.staged.committed_version,
                table_branch=each.table.branch,
                transaction_uuid=each.staged.transaction_uuid,
            )
            for each in staged_tables
            if not each.is_new
        ),
        merge_source_commit_id=options.merged_parent,
        commit_id=attempt.commit_id,
        parent_commit_id=head.id if head else None,
        if_commit=options.if_commit,
        txn=options.txn,
        key=section.key,
        read_set=section.list_expected_versions(view),
        schema_ir_hash=options.schema_ir_hash,
        schema_number=section.basis.read_under and section.basis.read_under.number,
        branch_incarnation=attempt.incarnation,
        message=options.message,
        adopted=tuple(Adoption(pin.table_key, pin.version, pin.row_count) for pin in section.prepared.adopted),
        additional_registrations=tuple(
            SidecarRegistration(each.pin.table_key, each.pin.location, each.table.branch, each.staged.committed_version)
            for each in staged_tables
            if each.is_new
        ),
        tombstones=tuple(SidecarTombstone(each.table_key, each.version) for each in section.list_tombstones(view)),
        replaces_schema=section.prepared.schema and section.prepared.schema.replaces,
        removals=tuple(
            SidecarRemoval(each.pin.table_key, each.pin.location, each.staged.committed_version)
            for each in staged_tables
            if each.pin.table_key in section.prepared.removals
        ),
    )


# --------------------------------------------------------------------------------------------- phase B


def _refuse_missing_files(section: CommitSection[Outcome], staged_tables: list[_StagedTable]) -> None:
    """Raise ``ConflictError`` if a cleanup deleted staged files. It can delete no more of them: it needs this lock."""
    manifest = section.attempt.manifest
    small = {change.table_key for change in section.prepared.changes if change.is_small}
    age = now_microseconds() - section.attempt.started_at
    if not manifest.location.is_local and age < _SURELY_KEPT:
        # Each check is a request. Cleanup keeps files that are this young, and a small change was staged just now.
        staged_tables = [each for each in staged_tables if each.pin.table_key not in small]

    def find_missing(each: _StagedTable) -> list[str]:
        return tables.find_missing_files(each.table, each.staged, manifest.objects, each.pin.location)

    missing = [path for paths in choose_executor(manifest.location).run(find_missing, staged_tables) for path in paths]
    if missing:
        raise ConflictError(
            f"staged files are gone, stage again: {missing[0]}",
            hint="a cleanup deleted them, since they were older than it keeps staged files",
            details={"files": missing[:_MOST_NAMED]},
        )


def choose_executor(location: Location) -> ThreadExecutor:
    """Return what looks at tables and commits them: on an object store side by side, since each waits for requests."""
    return ThreadExecutor(LOCAL_THREADS if location.is_local else STORE_THREADS)


def _commit_tables(section: CommitSection[Outcome], staged_tables: list[_StagedTable]) -> list[Table]:
    """Commit the tables in any order. Whatever subset of them a crash leaves, recovery knows by their transactions."""
    lost: list[LeaseLost] = []

    def commit(each: _StagedTable) -> Table:
        try:
            section.held.check()
        except LeaseLost as error:
            lost.append(error)
            raise
        return tables.commit(each.table, each.staged, section.attempt.operation_id)

    try:
        return choose_executor(section.attempt.manifest.location).run(commit, staged_tables)
    except Exception as error:
        if lost:
            # It outweighs other failures: without the lock nothing may be rolled back.
            raise lost[0] from error
        raise


def _confirm_merge(section: CommitSection[Outcome], sidecar: Sidecar, updates: list[TableVersion]) -> Sidecar:
    """Write into the sidecar of a merge that every table was committed, or else release 0.8 would roll it back.

    That release does not know adopted versions, so a merge that has some is never confirmed.
    """
    if sidecar.writer_kind is not WriterKind.BRANCH_MERGE or sidecar.adopted:
        return sidecar
    made = {update.table_key: update.version for update in updates}
    confirmed = tuple(replace(pin, confirmed_version=made[pin.table_key]) for pin in sidecar.tables)
    section.held.check()
    put_sidecar(section.attempt.manifest.objects, replace(sidecar, tables=confirmed))
    return replace(sidecar, tables=confirmed)


# --------------------------------------------------------------------------------------------- phase C


def _publish(section: CommitSection[Outcome], state: BranchState, updates: list[TableVersion]) -> PublishResult:
    attempt, options, prepared = section.attempt, section.attempt.options, section.prepared
    schema = prepared.schema
    request = PublishRequest(
        CommitIntent(
            attempt.commit_id,
            options.schema_ir_hash,
            options.actor,
            options.message,
            options.merged_parent,
            options.txn,
            upkeep=attempt.operation.kind.is_upkeep,
            key=section.key,
        ),
        registrations=tuple(Registration(each.table_key, each.location) for each in prepared.created),
        updates=(*updates, *(make_pointer_entry(attempt.manifest, pin) for pin in prepared.adopted)),
        tombstones=section.list_tombstones(state.view),
        schema_basis=section.basis.read_under,
        new_schema=None if schema is None else schema.schema_ir_hash,
        replaces_schema=None if schema is None else schema.replaces,
        expected=section.list_expected_versions(state.view),
        if_commit=options.if_commit,
        incarnation=attempt.incarnation,
    )
    published = publish(attempt.manifest, section.held, options.branch, request, state)
    assert published is not None
    return published


def _publish_alone(section: CommitSection[Outcome], state: BranchState) -> CommitResult[Outcome]:
    """Publish without table commits. That is one atomic write and needs no sidecar."""
    attempt = section.attempt
    try:
        published = _publish(section, state, [])
    except PublishedUnsynced as failed:
        raise OutcomeUnknown(attempt.commit_id, f"the commit may not be on the disk: {failed}") from failed
    except SyncFailed:
        # Before the publish.
        raise
    except (LeaseLost, StorageError) as error:
        landed = _find_own_commit(attempt)
        if landed is None:
            raise OutcomeUnknown(attempt.commit_id, f"the commit may or may not be published: {error}") from error
        return CommitResult(landed, section.prepared.outcome)
    if published.status == "replayed":
        raise AlreadyCommitted(published.commit)
    return CommitResult(published.commit, section.prepared.outcome)


# --------------------------------------------------------------------------------------------- phase D


def _clear_sidecar(section: CommitSection[Outcome], sidecar: Sidecar) -> bool:
    """Delete the sidecar, and return whether that was done."""
    if sidecar.removals:
        # What is left to do needs another lock.
        return False
    try:
        delete_sidecar(section.attempt.manifest.objects, sidecar)
    except OmniGraphError as error:
        # The commit is durable, so this is no failure. The next writer deletes the sidecar.
        _log.warning("the sidecar of commit %s could not be removed yet: %s", sidecar.commit_id, error)
        return False
    return True


# --------------------------------------------------------------------------------------------- failure in phase B or C


def _give_up(section: CommitSection[Outcome], sidecar: Sidecar) -> CommitRecord | None:
    """Roll back a failed phase B or C. Return the commit if it was published after all, else None."""
    attempt = section.attempt
    try:
        if read_sidecar(attempt.manifest.objects, sidecar.operation_id) is None:
            # Somebody finished the operation: touch nothing, and look which way it went.
            return _find_own_commit(attempt)
        section.held.check()
        decide_rollback(attempt.manifest.objects, sidecar)
        attempt.manifest.start_over()
        landed = _find_own_commit(attempt)
        if landed is not None:
            return landed
        rolled_back = roll_back(attempt.manifest, section.held, attempt.options.branch, sidecar)
        if rolled_back is not None and rolled_back.status == "superseded":
            return rolled_back.commit
        section.held.check()
        delete_sidecar(attempt.manifest.objects, sidecar)
    except (OmniGraphError, CommitRefused, HeadMoved, LeaseLost) as error:
        raise OutcomeUnknown(
            attempt.commit_id, f"the write failed and could not be rolled back yet: {error}"
        ) from error
    return None


def _find_own_commit(attempt: CommitAttempt[Outcome]) -> CommitRecord | None:
    return attempt.manifest.view(attempt.options.branch, with_lineage=True).history.find(attempt.commit_id)


def _make_conflict_error(moved: CommitRefused | HeadMoved, staged_tables: list[_StagedTable]) -> ConflictError:
    pins = {each.table.subject: each.pin for each in staged_tables}
    pin = pins.get(moved.subject)
    if pin is None or isinstance(moved, CommitRefused):
        return ConflictError(f"another writer changed the table first: {moved}", hint="read again and retry")
    return ExpectedVersionMismatch(pin.table_key, moved.expected - 1, moved.actual - 1)
