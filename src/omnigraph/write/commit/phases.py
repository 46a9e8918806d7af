"""The phases of a commit, under the branch's lock: sidecar (A), table commits (B), publish (C), sidecar away (D).

A writer that fails between A and C takes back what it did, or says that nobody knows how it ended. One that dies is
brought to an end by whoever takes the lock next.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic

from omnigraph.errors import ConflictError, ExpectedVersionMismatch, OmniGraphError, OutcomeUnknown, StorageError
from omnigraph.language.schema import TableKey
from omnigraph.manifest.branches import fork_table
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.publisher import CommitIntent, Published, PublishRequest, publish
from omnigraph.manifest.rows import MAIN, CommitRecord, Registration, TableVersion, Tombstone
from omnigraph.manifest.snapshot import Pin, Snapshot, entry_of, pins_of, standing_entry
from omnigraph.manifest.state import View
from omnigraph.storage import table as tables
from omnigraph.storage.lance_errors import CommitRefused, HeadMoved
from omnigraph.storage.locks import Held, LeaseLost
from omnigraph.storage.pinned import Table
from omnigraph.storage.staging import Staged
from omnigraph.write.commit.operation import CommitOptions, CommitResult, Outcome, PreparedWrite, WriteOperation
from omnigraph.write.commit.recovery import RECOVERY_ACTOR, roll_back
from omnigraph.write.commit.sidecars import (
    ROLLBACK,
    Adoption,
    Sidecar,
    SidecarPin,
    SidecarRegistration,
    SidecarTombstone,
    WriterKind,
    delete_sidecar,
    put_sidecar,
    read_sidecar,
)

_log = logging.getLogger("omnigraph")


@dataclass(frozen=True, slots=True)
class CommitAttempt(Generic[Outcome]):
    """One call of :func:`commit`: ids that are minted once, whatever has to be repeated."""

    manifest: Manifest
    operation: WriteOperation[Outcome]
    options: CommitOptions
    operation_id: str
    commit_id: str
    incarnation: str | None
    started_at: int = field(default_factory=lambda: time.time_ns() // 1000)


@dataclass(frozen=True, slots=True)
class CommitSection(Generic[Outcome]):
    """What is known under the lock."""

    attempt: CommitAttempt[Outcome]
    held: Held
    basis: Snapshot
    prepared: PreparedWrite[Outcome]
    staged: Mapping[str, Staged | None]

    @property
    def written_tables(self) -> list[str]:
        """The tables that are written."""
        return [change.table_key for change in self.prepared.changes]

    @property
    def read_set(self) -> list[str]:
        """The tables whose versions must be those of the basis: written, adopted and read."""
        return sorted({*self.written_tables, *self.prepared.reads, *(pin.table_key for pin in self.prepared.adopted)})

    def list_expected_versions(self, view: View) -> dict[str, int]:
        """The versions that a publish stands on, those of tables that are not shown yet or not any more too."""
        comes_or_goes = {*(each.table_key for each in self.prepared.created), *self.prepared.dropped}
        return {table_key: view.tables.version_of(table_key) for table_key in {*self.read_set, *comes_or_goes}}

    def list_tombstones(self, view: View) -> tuple[Tombstone, ...]:
        """What hides the tables that are dropped: the last version of each, and one that this commit may make."""
        return tuple(Tombstone(key, view.tables.version_of(key) + 1) for key in self.prepared.dropped)


@dataclass(frozen=True, slots=True)
class _StagedTable:
    """One table that is about to be committed: where it stands and what is staged on it."""

    pin: Pin
    table: Table
    staged: Staged
    is_new: bool = False


def run_phases(section: CommitSection[Outcome], view: View, owned: Mapping[str, Table]) -> CommitResult[Outcome]:
    """Commit and publish. ``owned`` are the tables that the branch has as its own, which stand at their pins."""
    ready = _ready(section, view, owned)
    if not ready:
        prepared = section.prepared
        return (
            _published_alone(section, view) if prepared.has_manifest_changes else CommitResult(None, prepared.outcome)
        )
    attempt = section.attempt
    sidecar = _sidecar(section, view, ready)
    section.held.check()
    put_sidecar(attempt.manifest.objects, sidecar)
    try:
        updates = [_committed(section, each) for each in ready]
        sidecar = _confirmed(section, sidecar, updates)
        published = _published(section, view, updates)
    except LeaseLost as lost:
        raise OutcomeUnknown(attempt.commit_id, f"the lock was lost in the middle of a commit: {lost}") from lost
    except (CommitRefused, HeadMoved) as moved:
        landed = _give_up(section, sidecar)
        if landed is None:
            raise _conflict(moved, ready) from moved
        return CommitResult(landed, section.prepared.outcome)
    except BaseException as error:
        landed = _give_up(section, sidecar)
        if landed is None or not isinstance(error, Exception):
            raise
        return CommitResult(landed, section.prepared.outcome)
    if published.status == "replayed":
        _give_up(section, sidecar)
        return CommitResult(published.commit, section.prepared.outcome, replayed=True)
    if published.commit.actor != RECOVERY_ACTOR or attempt.options.actor == RECOVERY_ACTOR:
        _clear(section, sidecar)
    return CommitResult(published.commit, section.prepared.outcome)


def _ready(section: CommitSection[Outcome], view: View, owned: Mapping[str, Table]) -> list[_StagedTable]:
    """Fork what has to be forked, stage what is not staged on the current pin, leave out what changes nothing."""
    manifest, pins = section.attempt.manifest, pins_of(view)
    ready: list[_StagedTable] = []
    for change in section.prepared.changes:
        pin = pins[change.table_key]
        table = owned.get(change.table_key) or fork_table(manifest, section.held, section.attempt.options.branch, pin)
        known = section.staged.get(change.table_key)
        fits = known is not None and (known.branch, known.version) == (table.branch, table.version)
        staged = known if fits else change.stage(table)
        if staged is not None:
            ready.append(_StagedTable(pin, table, staged))
    for each in section.prepared.created:
        table = each.open_home(section.held)
        known = section.staged.get(each.table_key)
        fits = known is not None and (known.branch, known.version) == (table.branch, table.version)
        pin = Pin(each.table_key, each.location, table.version, table.branch, 0)
        ready.append(_StagedTable(pin, table, known if known is not None and fits else each.stage(table), is_new=True))
    return ready


def _sidecar(section: CommitSection[Outcome], view: View, ready: list[_StagedTable]) -> Sidecar:
    attempt, terms = section.attempt, section.attempt.options
    head = view.history.head()
    return Sidecar(
        attempt.operation_id,
        attempt.started_at,
        None if terms.branch == MAIN else terms.branch,
        terms.actor,
        attempt.operation.kind,
        tuple(
            SidecarPin(
                each.pin.table_key,
                attempt.manifest.location.join(each.pin.location),
                each.pin.version,
                each.staged.committed_version,
                each.table.branch,
                transaction_uuid=each.staged.transaction_uuid,
            )
            for each in ready
            if not each.is_new
        ),
        merge_source_commit_id=terms.merged_parent,
        commit_id=attempt.commit_id,
        parent_commit_id=head.id if head else None,
        if_commit=terms.if_commit,
        txn=terms.txn,
        read_set=section.list_expected_versions(view),
        schema_ir_hash=terms.schema_ir_hash,
        branch_incarnation=attempt.incarnation,
        message=terms.message,
        adopted=tuple(Adoption(pin.table_key, pin.version, pin.row_count) for pin in section.prepared.adopted),
        additional_registrations=tuple(
            SidecarRegistration(each.pin.table_key, each.pin.location, each.table.branch, each.staged.committed_version)
            for each in ready
            if each.is_new
        ),
        tombstones=tuple(
            SidecarTombstone(TableKey(each.table_key), each.version) for each in section.list_tombstones(view)
        ),
        replaces_schema=section.prepared.schema and section.prepared.schema.replaces,
    )


def _committed(section: CommitSection[Outcome], ready: _StagedTable) -> TableVersion:
    section.held.check()
    table = tables.commit(ready.table, ready.staged, section.attempt.operation_id)
    return entry_of(section.attempt.manifest, ready.pin, table)


def _confirmed(section: CommitSection[Outcome], sidecar: Sidecar, updates: list[TableVersion]) -> Sidecar:
    """A merge says in its sidecar that every table was committed: without that, release 0.8 takes it back.

    That release does not know of adopted versions, so a merge that has some is never said to be complete.
    """
    if sidecar.writer_kind is not WriterKind.BRANCH_MERGE or sidecar.adopted:
        return sidecar
    made = {update.table_key: update.version for update in updates}
    confirmed = tuple(replace(pin, confirmed_version=made[pin.table_key]) for pin in sidecar.tables)
    section.held.check()
    put_sidecar(section.attempt.manifest.objects, replace(sidecar, tables=confirmed))
    return replace(sidecar, tables=confirmed)


def _published_alone(section: CommitSection[Outcome], view: View) -> CommitResult[Outcome]:
    """Publish where no table is committed: one write, all or nothing, so there is nothing to write down before."""
    attempt = section.attempt
    try:
        published = _published(section, view, [])
    except (LeaseLost, StorageError) as error:
        landed = _landed(attempt)
        if landed is None:
            raise OutcomeUnknown(
                attempt.commit_id, f"whether the commit was published is not known: {error}"
            ) from error
        return CommitResult(landed, section.prepared.outcome)
    return CommitResult(published.commit, section.prepared.outcome, replayed=published.status == "replayed")


def _published(section: CommitSection[Outcome], view: View, updates: list[TableVersion]) -> Published:
    attempt, terms, prepared = section.attempt, section.attempt.options, section.prepared
    schema = prepared.schema
    request = PublishRequest(
        CommitIntent(
            attempt.commit_id, terms.schema_ir_hash, terms.actor, terms.message, terms.merged_parent, terms.txn
        ),
        registrations=tuple(Registration(each.table_key, each.location) for each in prepared.created),
        updates=(*updates, *(standing_entry(attempt.manifest, pin) for pin in prepared.adopted)),
        tombstones=section.list_tombstones(view),
        new_schema=None if schema is None else schema.schema_ir_hash,
        replaces_schema=None if schema is None else schema.replaces,
        expected=section.list_expected_versions(view),
        if_commit=terms.if_commit,
        incarnation=attempt.incarnation,
    )
    published = publish(attempt.manifest, section.held, terms.branch, request)
    assert published is not None
    return published


def _clear(section: CommitSection[Outcome], sidecar: Sidecar) -> None:
    try:
        delete_sidecar(section.attempt.manifest.objects, sidecar)
    except OmniGraphError as error:
        # The commit is durable: reporting a failure would be wrong. The next writer clears it.
        _log.warning("the sidecar of commit %s could not be removed yet: %s", sidecar.commit_id, error)


def _give_up(section: CommitSection[Outcome], sidecar: Sidecar) -> CommitRecord | None:
    """The way out of a failed phase B or C: the commit, if it landed after all; None when all was taken back."""
    attempt = section.attempt
    try:
        mine = read_sidecar(attempt.manifest.objects, sidecar.operation_id)
        if mine is None:
            # Somebody finished it for us: touch nothing, and look which way it went.
            return _landed(attempt)
        section.held.check()
        put_sidecar(attempt.manifest.objects, replace(sidecar, decision=ROLLBACK))
        landed = _landed(attempt)
        if landed is not None:
            return landed
        rolled_back = roll_back(attempt.manifest, section.held, attempt.options.branch, sidecar)
        if rolled_back is not None and rolled_back.status == "superseded":
            return rolled_back.commit
        section.held.check()
        delete_sidecar(attempt.manifest.objects, sidecar)
    except (OmniGraphError, CommitRefused, HeadMoved, LeaseLost) as error:
        raise OutcomeUnknown(attempt.commit_id, f"the write failed and could not be taken back yet: {error}") from error
    return None


def _landed(attempt: CommitAttempt[Outcome]) -> CommitRecord | None:
    return attempt.manifest.view(attempt.options.branch, with_lineage=True).history.find(attempt.commit_id)


def _conflict(moved: CommitRefused | HeadMoved, ready: list[_StagedTable]) -> ConflictError:
    keys = {each.table.subject: each.pin for each in ready}
    pin = keys.get(moved.subject)
    if pin is None or isinstance(moved, CommitRefused):
        return ConflictError(f"another writer changed the table first: {moved}", hint="read again and retry")
    return ExpectedVersionMismatch(pin.table_key, moved.expected - 1, moved.actual - 1)
