"""Recovery: whoever holds a branch's lock finishes what a dead writer left there.

An operation rolls forward if all its table commits were made and the head has not moved, else it rolls back; all its
tables go the same way. What was done is audited once, then the sidecar is deleted. Recovery needs no reopen, operator
or restart; what it cannot decide it keeps, and raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from omnigraph.errors import ConflictError, GraphMoved, HistoryGone, LockTimeout, NotFound, RecoveryError
from omnigraph.manifest import opening
from omnigraph.manifest.contract import load_schema_of, project_root_files
from omnigraph.manifest.handle import Manifest, branch_names
from omnigraph.manifest.publisher import CommitIntent, PublishRequest, PublishResult, publish
from omnigraph.manifest.rows import MAIN, Registration, SchemaHead, TableVersion, Tombstone, make_ulid
from omnigraph.manifest.snapshot import Pin, make_entry, make_pointer_entry, open_pin
from omnigraph.manifest.state import ManifestView
from omnigraph.storage import tables
from omnigraph.storage.durability import PublishedUnsynced, SyncFailed
from omnigraph.storage.lance_internals import CommitRefused, HeadMoved
from omnigraph.storage.locks import HeldLock, LockSettings, branch_lock, refs_lock
from omnigraph.storage.tables import Table, TableCommit, list_versions, open_table
from omnigraph.write.commit import audit
from omnigraph.write.commit.audit import Recovery, RecoveryKind, TableOutcome
from omnigraph.write.commit.power_cuts import discard_half_made_branches, discard_torn_work
from omnigraph.write.commit.sidecars import (
    ROLLBACK,
    Sidecar,
    SidecarPin,
    SidecarRegistration,
    SidecarRemoval,
    WriterKind,
    decide_rollback,
    delete_sidecar,
    list_sidecars,
)
from omnigraph.write.commit.table_heads import (
    RECOVERY_ACTOR,
    TableHead,
    is_maintenance,
    publish_restored,
    read_table_heads,
    restore_table,
)

ROUNDS: Final = 4
"""How often to decide anew after losing a race."""


def prepare_for_writing(manifest: Manifest) -> None:
    """Do what a read-write open does: migrate older formats, end interrupted writes, and repair files for 0.8."""
    opening.upgrade_graph(manifest)
    _heal_free_branches(manifest)
    opening.repair_for_0_8(manifest)


def heal_all(manifest: Manifest) -> None:
    """Finish what is left on every branch, one lock at a time."""
    discard_half_made_branches(manifest, manifest.locks)
    # One pass over the branches: sidecars that live writers put meanwhile are theirs to delete.
    found = list_sidecars(manifest.objects)
    for branch in _list_branches_of(found):
        _heal_listed(manifest, branch, manifest.locks)
    with suppress(GraphMoved):
        _finish_removals_of_the_dead(manifest, found)


def _heal_free_branches(manifest: Manifest) -> None:
    """Finish what is left on main, and on every other branch whose lock is free.

    A writer that hangs and holds the lock of another branch must not block this open. The next write to that branch
    finishes its operations.
    """
    hurried = replace(manifest.locks, timeout=0.0)
    with suppress(LockTimeout):
        discard_half_made_branches(manifest, hurried)
    found = list_sidecars(manifest.objects)
    for branch in _list_branches_of(found):
        if branch == MAIN:
            _heal_listed(manifest, branch, manifest.locks)
        else:
            with suppress(LockTimeout):
                _heal_listed(manifest, branch, hurried)
    with suppress(GraphMoved):
        _finish_removals_of_the_dead(manifest, found)


def _list_branches_of(found: Iterable[Sidecar]) -> list[str]:
    return sorted({sidecar.branch or MAIN for sidecar in found})


def _heal_listed(manifest: Manifest, branch: str, locks: LockSettings) -> None:
    # The branches of a moved graph cannot be read until `repair` has run, which heals them.
    with suppress(GraphMoved), branch_lock(manifest.location, branch, locks) as held:
        heal(manifest, held, branch)


def heal_branch(manifest: Manifest, branch: str) -> None:
    """Finish what is left on one branch, and removals. Costs one listing and no lock if there are no sidecars."""
    found = list_sidecars(manifest.objects)
    if found:
        with branch_lock(manifest.location, branch, manifest.locks) as held:
            heal(manifest, held, branch)
        _finish_removals_of_the_dead(manifest, found)


def heal(manifest: Manifest, held: HeldLock, branch: str) -> None:
    """Finish every operation that was left on a branch, oldest first. The caller holds the branch's lock."""
    discard_torn_work(manifest, held, branch)
    left = [sidecar for sidecar in list_sidecars(manifest.objects) if (sidecar.branch or MAIN) == branch]
    if left:
        # A rollback discards commits of tables, so decide on what the storage has, not on caches.
        manifest.start_over()
    for sidecar in left:
        _recover(manifest, held, branch, sidecar)


def _recover(manifest: Manifest, held: HeldLock, branch: str, sidecar: Sidecar) -> None:
    """Roll one operation forward or back, and decide anew if somebody else moves its tables meanwhile."""
    if _is_orphan(manifest, branch, sidecar):
        head_id = _head_id_of(manifest.view(MAIN, with_lineage=True))
        return _finish(manifest, held, sidecar, RecoveryKind.ORPHANED_BRANCH_DISCARDED, head_id, ())
    for _ in range(ROUNDS):
        try:
            return _recover_once(manifest, held, branch, sidecar)
        except (ConflictError, CommitRefused, HeadMoved):
            # Somebody published or committed in between, perhaps a late holder of the lease.
            continue
        except PublishedUnsynced:
            raise
        except SyncFailed:
            if sidecar.decision == ROLLBACK:
                raise
            # A second sync of the same file would succeed and prove nothing, so the file must not be published.
            sidecar = decide_rollback(manifest.objects, sidecar)
    raise RecoveryError(
        f"operation {sidecar.operation_id} could not be recovered: others kept moving its tables",
        hint="retry",
        details={"operation_id": sidecar.operation_id},
    )


def _recover_once(manifest: Manifest, held: HeldLock, branch: str, sidecar: Sidecar) -> None:
    view = manifest.writable_view(branch)
    is_audited = audit.is_audited(manifest, sidecar.operation_id)
    landed = view.history.find(sidecar.commit_id) if sidecar.commit_id else None
    if landed is not None or is_audited:
        # The operation is finished; only bookkeeping is left.
        is_rolled_forward = landed is not None and landed.actor == RECOVERY_ACTOR and not is_audited
        kind = RecoveryKind.ROLLED_FORWARD if is_rolled_forward else None
        outcomes = [TableOutcome(pin.table_key, pin.expected_version, pin.post_commit_pin) for pin in sidecar.tables]
        _note_finished(manifest, sidecar)
        manifest.sync_basis(view)
        _project_schema_files(manifest, held, sidecar)
        finish = _finish if landed is None else _finish_published
        return finish(manifest, held, sidecar, kind, landed.id if landed else "", outcomes)
    heads = read_table_heads(manifest, held, view, sidecar.tables)
    if sidecar.commit_id is None and _is_legacy_published(sidecar, heads):
        expected = {pin.table_key: pin.expected_version for pin in sidecar.tables}
        outcomes = [TableOutcome(each.pin.table_key, expected[each.pin.table_key], each.pin.version) for each in heads]
        return _finish(manifest, held, sidecar, RecoveryKind.ROLLED_FORWARD, _head_id_of(view), outcomes)
    if sidecar.decision != ROLLBACK and _can_roll_forward(manifest, view, sidecar, heads):
        published = _roll_forward(manifest, held, branch, sidecar, heads)
        outcomes = [
            TableOutcome(each.pin.table_key, each.pin.version, _choose_version(sidecar, each)) for each in heads
        ]
        _project_schema_files(manifest, held, sidecar)
        return _finish_published(manifest, held, sidecar, RecoveryKind.ROLLED_FORWARD, published.commit.id, outcomes)
    rolled_back = roll_back(manifest, held, branch, sidecar)
    if rolled_back is not None and rolled_back.status == "superseded":
        raise ConflictError(f"operation {sidecar.operation_id} was published meanwhile")
    outcomes = [
        TableOutcome(each.pin.table_key, each.head.version, each.pin.version) for each in heads if each.unpublished
    ]
    commit_id = rolled_back.commit.id if rolled_back else _head_id_of(view)
    return _finish(manifest, held, sidecar, RecoveryKind.ROLLED_BACK, commit_id, outcomes)


def _is_orphan(manifest: Manifest, branch: str, sidecar: Sidecar) -> bool:
    """Whether the branch of a sidecar was deleted, or deleted and re-created."""
    if branch == MAIN:
        return False
    if branch not in branch_names(manifest):
        return True
    made_on = sidecar.branch_incarnation
    return made_on is not None and made_on != manifest.read_incarnation(branch)


def _finish(
    manifest: Manifest,
    held: HeldLock,
    sidecar: Sidecar,
    kind: RecoveryKind | None,
    commit_id: str,
    outcomes: Iterable[TableOutcome],
) -> None:
    """Audit the operation, unless ``kind`` is None, and delete its sidecar."""
    _audit(manifest, held, sidecar, kind, commit_id, outcomes)
    manifest.sync()
    held.check()
    delete_sidecar(manifest.objects, sidecar)


def _finish_published(
    manifest: Manifest,
    held: HeldLock,
    sidecar: Sidecar,
    kind: RecoveryKind | None,
    commit_id: str,
    outcomes: Iterable[TableOutcome],
) -> None:
    """Audit an operation that was published, and delete its sidecar unless removals are left, which need refs."""
    if sidecar.removals:
        _audit(manifest, held, sidecar, kind, commit_id, outcomes)
    else:
        _finish(manifest, held, sidecar, kind, commit_id, outcomes)


def _audit(
    manifest: Manifest,
    held: HeldLock,
    sidecar: Sidecar,
    kind: RecoveryKind | None,
    commit_id: str,
    outcomes: Iterable[TableOutcome],
) -> None:
    if kind is not None:
        held.check()
        recovery = Recovery(
            graph_commit_id=commit_id,
            kind=kind,
            for_actor=sidecar.actor_id,
            operation_id=sidecar.operation_id,
            writer_kind=str(sidecar.writer_kind),
            outcomes=tuple(outcomes),
            created_at=datetime.now(UTC),
        )
        audit.record_recovery(manifest, recovery)


def _note_finished(manifest: Manifest, sidecar: Sidecar) -> None:
    """Note the table versions of a finished operation: its writer may have died before it synced them."""
    if manifest.access.barrier is None:
        return
    for pin in sidecar.tables:
        # Nothing needs a version that is gone already.
        with suppress(NotFound, HistoryGone):
            tables.note_version(open_table(pin.table_path, pin.table_branch, pin.post_commit_pin, manifest.access))


def _head_id_of(view: ManifestView) -> str:
    head = view.history.head()
    return head.id if head else ""


# --------------------------------------------------------------------------------------------- roll forward


def _can_roll_forward(manifest: Manifest, view: ManifestView, sidecar: Sidecar, heads: Sequence[TableHead]) -> bool:
    """Whether every table commit of the operation was made, and head and schema are those that it was made on."""
    if sidecar.writer_kind.is_upkeep and any(not is_maintenance(each.unpublished) for each in heads):
        return False
    if sidecar.commit_id is None:
        return _is_legacy_complete(sidecar, heads)
    if len(heads) != len(sidecar.tables) or _head_id_of(view) != sidecar.parent_commit_id:
        return False
    if not _has_same_schema(manifest, view, sidecar):
        # Rows that were validated under an older schema must not be published.
        return False
    if any(_open_created_table(manifest, sidecar, each) is None for each in sidecar.additional_registrations):
        return False
    if not all(_can_open(manifest, pin) for pin in _list_adopted_pins(view, sidecar)):
        # An older release let cleanup remove what a merge was about to adopt.
        return False
    return all(each.unpublished and _is_own_commit(each.unpublished[0], sidecar) for each in heads)


def _has_same_schema(manifest: Manifest, view: ManifestView, sidecar: Sidecar) -> bool:
    current = manifest.current_schema()
    if current is None:
        return True
    changes_schema = view.branch == MAIN and sidecar.replaces_schema is not None
    validated_under = sidecar.replaces_schema if changes_schema else sidecar.schema_ir_hash
    return validated_under in (None, current.schema_ir_hash) and sidecar.schema_number in (None, current.number)


def _find_schema_basis(manifest: Manifest, sidecar: Sidecar) -> SchemaHead | None:
    """Return the schema that an operation was validated with; None if its sidecar does not tell."""
    current, number = manifest.current_schema(), sidecar.schema_number
    if current is None or number is None:
        return None
    return SchemaHead(current.all[number], current.all[:number])


def _is_own_commit(commit: TableCommit, sidecar: Sidecar) -> bool:
    # The Restores of a roll-back carry the operation's id too.
    return commit.operation_id == sidecar.operation_id and commit.restored is None


def _open_created_table(manifest: Manifest, sidecar: Sidecar, registered: SidecarRegistration) -> Table | None:
    """Open a table that the operation creates, at the version that it made; None if it did not get that far."""
    assert registered.version is not None
    uri = manifest.location.join(registered.table_path)
    try:
        table = open_table(uri, registered.table_branch, registered.version, manifest.access)
    except (NotFound, HistoryGone):
        return None
    (made,) = table.read_commits(table.version - 1, table.version)
    return table if _is_own_commit(made, sidecar) else None


def _roll_forward(
    manifest: Manifest, held: HeldLock, branch: str, sidecar: Sidecar, heads: Sequence[TableHead]
) -> PublishResult:
    """Publish what the writer would have published, on the head that it saw."""
    made = [each.head.open_at(_choose_version(sidecar, each)) for each in heads]
    for table in made:
        tables.note_version(table)
    updates = [make_entry(manifest, each.pin, table) for each, table in zip(heads, made, strict=True)]
    updates += [make_pointer_entry(manifest, pin) for pin in _list_adopted_pins(manifest.view(branch), sidecar)]
    updates += _list_created_versions(manifest, sidecar)
    new_schema = sidecar.schema_ir_hash if sidecar.replaces_schema is not None else None
    request = PublishRequest(
        CommitIntent(
            sidecar.commit_id or make_ulid(),
            sidecar.schema_ir_hash,
            RECOVERY_ACTOR,
            sidecar.message,
            sidecar.merge_source_commit_id,
            sidecar.txn,
            upkeep=sidecar.writer_kind.is_upkeep,
            key=sidecar.key,
        ),
        registrations=tuple(Registration(each.table_key, each.table_path) for each in sidecar.additional_registrations),
        updates=tuple(updates),
        tombstones=tuple(Tombstone(each.table_key, each.tombstone_version) for each in sidecar.tombstones),
        schema_basis=_find_schema_basis(manifest, sidecar),
        new_schema=new_schema,
        replaces_schema=sidecar.replaces_schema,
        expected={**sidecar.read_set, **{pin.table_key: pin.expected_version for pin in sidecar.tables}},
        if_commit=sidecar.parent_commit_id,
    )
    published = publish(manifest, held, branch, request)
    assert published is not None
    if published.status == "replayed":
        raise ConflictError(f"the txn or key of operation {sidecar.operation_id} was committed by another operation")
    return published


def _choose_version(sidecar: Sidecar, table: TableHead) -> int:
    # Release 0.8 publishes HEAD. We publish the version after the pin, whatever came later.
    return table.head.version if sidecar.commit_id is None else table.pin.version + 1


def _list_adopted_pins(view: ManifestView, sidecar: Sidecar) -> list[Pin]:
    locations = view.tables.locations
    return [
        Pin(each.table_key, locations[each.table_key], each.version, None, each.row_count) for each in sidecar.adopted
    ]


def _can_open(manifest: Manifest, pin: Pin) -> bool:
    try:
        open_pin(manifest, pin)
    except (NotFound, HistoryGone):
        return False
    return True


def _list_created_versions(manifest: Manifest, sidecar: Sidecar) -> Iterator[TableVersion]:
    for each in sidecar.additional_registrations:
        table = _open_created_table(manifest, sidecar, each)
        if table is None:
            raise ConflictError(f"'{each.table_key}' is not where operation {sidecar.operation_id} made it")
        tables.note_version(table)
        yield make_entry(manifest, Pin(each.table_key, each.table_path, table.version - 1, table.branch, 0), table)


def _project_schema_files(manifest: Manifest, held: HeldLock, sidecar: Sidecar) -> None:
    """Write a new schema to the files at the root, where release 0.8 reads it."""
    on_main = sidecar.branch in (None, MAIN)
    if on_main and sidecar.replaces_schema is not None and sidecar.schema_ir_hash == manifest.schema_hash():
        held.check()
        project_root_files(manifest.objects, load_schema_of(manifest, sidecar.schema_ir_hash))


# --------------------------------------------------------------------------------------------- roll back


def roll_back(manifest: Manifest, held: HeldLock, branch: str, sidecar: Sidecar) -> PublishResult | None:
    """Restore the tables of an operation to their pins and publish that; None if no table had to be restored.

    Under a lease every table is restored, moved or not: a Restore refuses all work that was staged before it, so a
    writer that wakes up late cannot commit any more.
    """
    view = manifest.writable_view(branch)
    heads = read_table_heads(manifest, held, view, sidecar.tables)
    restored = [
        restore_table(manifest, held, each, sidecar.operation_id)
        for each in heads
        if each.unpublished or held.kind == "lease"
    ]
    if not restored:
        return None
    return publish_restored(
        manifest,
        held,
        branch,
        heads,
        restored,
        CommitIntent(make_ulid(), manifest.schema_hash(), RECOVERY_ACTOR, upkeep=sidecar.writer_kind.is_upkeep),
        instead_of=sidecar.commit_id,
    )


# --------------------------------------------------------------------------------------------- removals


def finish_removals(manifest: Manifest, refs: HeldLock, own_commit: str | None = None) -> None:
    """Remove what published hard drops took away. The caller holds the refs lock, so nobody refers to it anew.

    ``own_commit`` is the caller's own hard drop. Those of other processes, which died, are audited.
    """
    if not any(sidecar.removals for sidecar in list_sidecars(manifest.objects)):
        return
    with branch_lock(manifest.location, MAIN, manifest.locks) as held:
        heal(manifest, held, MAIN)
    history = manifest.view(MAIN, with_lineage=True).history
    for sidecar in list_sidecars(manifest.objects):
        commit = history.find(sidecar.commit_id) if sidecar.removals and sidecar.commit_id else None
        if commit is None:
            continue
        for removal in sidecar.removals:
            _remove_versions(manifest, refs, removal)
        kind = None if commit.id == own_commit else RecoveryKind.ROLLED_FORWARD
        outcomes = [TableOutcome(pin.table_key, pin.expected_version, pin.post_commit_pin) for pin in sidecar.tables]
        _finish(manifest, refs, sidecar, kind, commit.id, outcomes)


def _finish_removals_of_the_dead(manifest: Manifest, found: Iterable[Sidecar]) -> None:
    """Finish removals, unless somebody holds the refs lock: perhaps the owner, who is at work on them."""
    if any(sidecar.removals for sidecar in found):
        with suppress(LockTimeout), refs_lock(manifest.location, replace(manifest.locks, timeout=0.0)) as refs:
            finish_removals(manifest, refs)


def _remove_versions(manifest: Manifest, refs: HeldLock, removal: SidecarRemoval) -> None:
    """Drop the older versions that have rows. Empty ones have no values, and a branch, tag or commit may show them."""
    table = open_table(manifest.location.join(removal.table_path), None, None, manifest.access)
    older = [version for version in list_versions(table) if version < removal.version]
    with_rows = [version for version in older if table.open_at(version).fragment_rows()]
    refs.check()
    tables.drop_versions(table, with_rows)


# --------------------------------------------------------------------------------------------- sidecars of release 0.8

# They have no commit id, and their table commits no operation id: version numbers decide.

_ONE_COMMIT_EACH: Final = frozenset({WriterKind.MUTATION, WriterKind.LOAD})
_CONFIRMS_FROM: Final = 2


def _is_legacy_published(sidecar: Sidecar, heads: Sequence[TableHead]) -> bool:
    """Whether the operation was published and only its sidecar was not deleted."""
    expected = {pin.table_key: pin.expected_version for pin in sidecar.tables}
    passed = [each for each in heads if each.pin.version > expected[each.pin.table_key]]
    if not passed or any(each.unpublished for each in heads):
        return False
    return not any(_is_rolled_back(sidecar, each) for each in passed)


def _is_rolled_back(sidecar: Sidecar, table: TableHead) -> bool:
    """Whether the pin is our own Restore for this operation, so that only the audit row of its roll-back is missing."""
    pinned = table.head.read_commits(table.pin.version - 1, table.pin.version)
    return any(each.restored is not None and each.operation_id == sidecar.operation_id for each in pinned)


def _is_legacy_complete(sidecar: Sidecar, heads: Sequence[TableHead]) -> bool:
    """Whether every table moved exactly as the sidecar says."""
    by_key = {each.pin.table_key: each for each in heads}
    return all(
        pin.table_key in by_key and _is_legacy_committed(sidecar, pin, by_key[pin.table_key]) for pin in sidecar.tables
    )


def _is_legacy_committed(sidecar: Sidecar, pin: SidecarPin, table: TableHead) -> bool:
    if not table.unpublished or pin.expected_version != table.pin.version:
        return False
    head = table.head.version
    if sidecar.writer_kind in _ONE_COMMIT_EACH:
        return head == table.pin.version + 1 and head == pin.post_commit_pin
    if sidecar.writer_kind is WriterKind.SCHEMA_APPLY:
        # Its schema files are not promoted here, and without them its tables would show another schema's columns.
        return False
    if sidecar.writer_kind is WriterKind.BRANCH_MERGE and sidecar.schema_version >= _CONFIRMS_FROM:
        return head == pin.confirmed_version
    return True
