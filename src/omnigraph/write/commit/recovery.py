"""Whoever holds a branch's lock finishes what a dead writer left there: forward if it was complete, else back.

Identity decides, not numbers: a table moved for an operation only if the transaction right after its pin carries the
operation's id. All tables of an operation go one way. What was done is audited once, then the sidecar is removed.
Nothing here needs a reopen, an operator or a restart; what cannot be decided is kept and said loudly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from typing import Final

from ulid import ULID

from omnigraph.errors import ConflictError, DriftDetected, GraphMoved, HistoryGone, NotFound, RecoveryError
from omnigraph.manifest.branches import branch_names
from omnigraph.manifest.contract import project_root_files
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import commit_of
from omnigraph.manifest.opening import schema_of
from omnigraph.manifest.publisher import CommitIntent, Published, PublishRequest, publish
from omnigraph.manifest.rows import MAIN, CommitRecord, Registration, TableVersion, Tombstone
from omnigraph.manifest.snapshot import Pin, entry_of, open_pin, pins_of, standing_entry
from omnigraph.manifest.state import View
from omnigraph.storage import table as tables
from omnigraph.storage.lance_errors import CommitRefused, HeadMoved
from omnigraph.storage.locks import Held, branch_lock
from omnigraph.storage.pinned import Committed, Table, open_table
from omnigraph.write.commit import audit, legacy_sidecars
from omnigraph.write.commit.audit import Recovery, RecoveryKind, TableOutcome
from omnigraph.write.commit.sidecars import (
    ROLLBACK,
    Sidecar,
    SidecarPin,
    SidecarRegistration,
    WriterKind,
    delete_sidecar,
    has_sidecars,
    list_sidecars,
)

RECOVERY_ACTOR: Final = "omnigraph:recovery"
ROUNDS: Final = 4
_MAINTENANCE: Final = frozenset({"Rewrite", "ReserveFragments", "CreateIndex"})
_MAINTAINERS: Final = frozenset({WriterKind.OPTIMIZE, WriterKind.ENSURE_INDICES})


@dataclass(frozen=True, slots=True)
class TableHead:
    """One table of an operation as it is now: its pin, its HEAD, and every commit in between."""

    pin: Pin
    head: Table
    unpublished: tuple[Committed, ...]


def heal_all(manifest: Manifest) -> None:
    """Finish what is left on every branch, one lock at a time: what a read-write open does."""
    # Once for each branch: what live writers put there meanwhile is their own to remove.
    for branch in sorted({sidecar.branch or MAIN for sidecar in list_sidecars(manifest.objects)}):
        # The branches of a graph that was moved cannot be read before it is repaired, which heals them then.
        with suppress(GraphMoved), branch_lock(manifest.location, branch, manifest.locks) as held:
            heal(manifest, held, branch)


def heal_branch(manifest: Manifest, branch: str) -> None:
    """Finish what is left on one branch; where nothing is left that costs one listing and no lock."""
    if has_sidecars(manifest.objects):
        with branch_lock(manifest.location, branch, manifest.locks) as held:
            heal(manifest, held, branch)


def heal(manifest: Manifest, held: Held, branch: str) -> None:
    """Finish every operation that was left on a branch, oldest first, under its lock."""
    for sidecar in list_sidecars(manifest.objects):
        if (sidecar.branch or MAIN) == branch:
            _bring_to_an_end(manifest, held, branch, sidecar)


def _bring_to_an_end(manifest: Manifest, held: Held, branch: str, sidecar: Sidecar) -> None:
    if _is_orphan(manifest, branch, sidecar):
        return _finish(manifest, held, sidecar, RecoveryKind.ORPHANED_BRANCH_DISCARDED, _head_id(manifest), ())
    for _ in range(ROUNDS):
        try:
            return _recover(manifest, held, branch, sidecar)
        except (ConflictError, CommitRefused, HeadMoved):
            # Somebody published or committed in between, a late holder of the lease perhaps: decide anew.
            continue
    raise RecoveryError(
        f"operation {sidecar.operation_id} could not be brought to an end: others kept moving its tables",
        hint="retry",
        details={"operation_id": sidecar.operation_id},
    )


def _recover(manifest: Manifest, held: Held, branch: str, sidecar: Sidecar) -> None:
    view = manifest.writable_view(branch)
    audited = audit.is_audited(manifest, sidecar.operation_id)
    landed = view.history.find(sidecar.commit_id) if sidecar.commit_id else None
    if landed is not None or audited:
        # It is finished; only bookkeeping is left.
        forward = landed is not None and landed.actor == RECOVERY_ACTOR and not audited
        kind = RecoveryKind.ROLLED_FORWARD if forward else None
        outcomes = [TableOutcome(pin.table_key, pin.expected_version, pin.post_commit_pin) for pin in sidecar.tables]
        _project_schema(manifest, held, sidecar)
        return _finish(manifest, held, sidecar, kind, landed.id if landed else "", outcomes)
    found = read_table_heads(manifest, view, sidecar.tables)
    if sidecar.commit_id is None and legacy_sidecars.is_stale(sidecar, found):
        outcomes = [TableOutcome(each.pin.table_key, each.head.version, each.pin.version) for each in found]
        return _finish(manifest, held, sidecar, RecoveryKind.ROLLED_FORWARD, _head_of(view), outcomes)
    if sidecar.decision != ROLLBACK and _is_complete(manifest, view, sidecar, found):
        published = _roll_forward(manifest, held, branch, sidecar, found)
        outcomes = [TableOutcome(each.pin.table_key, each.pin.version, each.pin.version + 1) for each in found]
        _project_schema(manifest, held, sidecar)
        return _finish(manifest, held, sidecar, RecoveryKind.ROLLED_FORWARD, published.commit.id, outcomes)
    rolled_back = roll_back(manifest, held, branch, sidecar)
    if rolled_back is not None and rolled_back.status == "superseded":
        raise ConflictError(f"operation {sidecar.operation_id} was published meanwhile")
    outcomes = [
        TableOutcome(each.pin.table_key, each.head.version, each.pin.version) for each in found if each.unpublished
    ]
    commit_id = rolled_back.commit.id if rolled_back else _head_of(view)
    return _finish(manifest, held, sidecar, RecoveryKind.ROLLED_BACK, commit_id, outcomes)


def read_table_heads(manifest: Manifest, view: View, wanted: Iterable[SidecarPin]) -> list[TableHead]:
    """The tables of an operation as they are now. A fork that was never made has not moved."""
    pins = pins_of(view)
    found: list[TableHead] = []
    for each in wanted:
        pin = pins.get(each.table_key)
        if pin is None:
            continue
        try:
            head = open_table(manifest.location.join(pin.location), each.table_branch, None, manifest.access)
        except NotFound:
            continue
        found.append(TableHead(pin, head, read_unpublished_commits(head, pin)))
    return found


def read_unpublished_commits(head: Table, pin: Pin) -> tuple[Committed, ...]:
    """What was committed to a table after its pin. A HEAD below the pin cannot be: everything is kept as it is."""
    if head.version < pin.version:
        raise RecoveryError(
            f"'{pin.table_key}' stands at version {head.version}, below its pin {pin.version}",
            hint="a file was lost or the folder was replaced; restore it from a copy",
            details={"table_key": pin.table_key, "head": head.version, "pin": pin.version},
        )
    return tuple(head.transactions(pin.version, head.version))


def _is_complete(manifest: Manifest, view: View, sidecar: Sidecar, found: Sequence[TableHead]) -> bool:
    if sidecar.writer_kind in _MAINTAINERS and any(not _is_maintenance(each.unpublished) for each in found):
        return False
    if sidecar.commit_id is None:
        return legacy_sidecars.is_complete(sidecar, found)
    if len(found) != len(sidecar.tables) or _head_of(view) != sidecar.parent_commit_id:
        return False
    schema_hash = manifest.schema_hash()
    changes_schema = view.branch == MAIN and sidecar.replaces_schema is not None
    validated_under = sidecar.replaces_schema if changes_schema else sidecar.schema_ir_hash
    if schema_hash is not None and validated_under not in (None, schema_hash):
        # Main got another schema since: what was validated under the old one is not published any more.
        return False
    if any(_new_table(manifest, sidecar, each) is None for each in sidecar.additional_registrations):
        return False
    return all(each.unpublished and _is_own(each.unpublished[0], sidecar) for each in found)


def _new_table(manifest: Manifest, sidecar: Sidecar, registered: SidecarRegistration) -> Table | None:
    """A table that an operation adds, at the version that it made; None if it did not get that far."""
    assert registered.version is not None
    uri = manifest.location.join(registered.table_path)
    try:
        table = open_table(uri, registered.table_branch, registered.version, manifest.access)
    except (NotFound, HistoryGone):
        return None
    (made,) = table.transactions(table.version - 1, table.version)
    return table if _is_own(made, sidecar) else None


def _is_own(commit: Committed, sidecar: Sidecar) -> bool:
    # The Restores of a roll-back carry the operation's id too: they are its end, not its work.
    return commit.operation_id == sidecar.operation_id and commit.restored is None


def _roll_forward(
    manifest: Manifest, held: Held, branch: str, sidecar: Sidecar, found: Sequence[TableHead]
) -> Published:
    """Publish what the writer would have, on the head that it saw: the version after each pin, never HEAD."""
    updates = [entry_of(manifest, each.pin, each.head.at(_target(sidecar, each))) for each in found]
    updates += _adopted(manifest, branch, sidecar)
    updates += _new_tables(manifest, sidecar)
    new_schema = sidecar.schema_ir_hash if sidecar.replaces_schema is not None else None
    request = PublishRequest(
        CommitIntent(
            sidecar.commit_id or str(ULID()),
            sidecar.schema_ir_hash,
            RECOVERY_ACTOR,
            sidecar.message,
            sidecar.merge_source_commit_id,
            sidecar.txn,
        ),
        registrations=tuple(Registration(each.table_key, each.table_path) for each in sidecar.additional_registrations),
        updates=tuple(updates),
        tombstones=tuple(Tombstone(each.table_key, each.tombstone_version) for each in sidecar.tombstones),
        new_schema=new_schema,
        replaces_schema=sidecar.replaces_schema,
        expected={**sidecar.read_set, **{pin.table_key: pin.expected_version for pin in sidecar.tables}},
        if_commit=sidecar.parent_commit_id,
    )
    published = publish(manifest, held, branch, request)
    assert published is not None
    if published.status == "replayed":
        raise ConflictError(f"the txn of operation {sidecar.operation_id} was committed by another operation")
    return published


def _adopted(manifest: Manifest, branch: str, sidecar: Sidecar) -> list[TableVersion]:
    locations = manifest.view(branch).tables.locations
    return [
        standing_entry(manifest, Pin(each.table_key, locations[each.table_key], each.version, None, each.row_count))
        for each in sidecar.adopted
    ]


def _new_tables(manifest: Manifest, sidecar: Sidecar) -> Iterator[TableVersion]:
    for each in sidecar.additional_registrations:
        table = _new_table(manifest, sidecar, each)
        if table is None:
            raise ConflictError(f"'{each.table_key}' is not where operation {sidecar.operation_id} made it")
        yield entry_of(manifest, Pin(each.table_key, each.table_path, table.version - 1, table.branch, 0), table)


def _project_schema(manifest: Manifest, held: Held, sidecar: Sidecar) -> None:
    """Readers of release 0.8 look for a new schema in files at the root."""
    on_main = sidecar.branch in (None, MAIN)
    if on_main and sidecar.replaces_schema is not None and sidecar.schema_ir_hash == manifest.schema_hash():
        held.check()
        project_root_files(manifest.objects, schema_of(manifest, sidecar.schema_ir_hash))


def _target(sidecar: Sidecar, found: TableHead) -> int:
    # Release 0.8 publishes what it finds at HEAD; ours is always the one version after the pin.
    return found.head.version if sidecar.commit_id is None else found.pin.version + 1


def roll_back(manifest: Manifest, held: Held, branch: str, sidecar: Sidecar) -> Published | None:
    """Restore the tables of an operation to their pins and publish that; None when nothing had to be restored.

    Under a lease every table is restored, moved or not: a Restore refuses all work that was staged before it, so a
    writer that wakes up late cannot commit any more.
    """
    view = manifest.writable_view(branch)
    found = read_table_heads(manifest, view, sidecar.tables)
    restored = [
        _restored(manifest, held, each, sidecar.operation_id)
        for each in found
        if each.unpublished or held.kind == "lease"
    ]
    if not restored:
        return None
    return _publish_restored(manifest, held, branch, found, restored, str(ULID()), instead_of=sidecar.commit_id)


def discard_drift(manifest: Manifest, held: Held, branch: str, heads: Sequence[TableHead]) -> bool:
    """Take back unpublished commits that no sidecar explains; whether there were any.

    Only ours: a commit that does not carry an operation's id was made by somebody we do not know.
    """
    drifted = [each for each in heads if each.unpublished]
    for each in drifted:
        foreign = [one for one in each.unpublished if is_foreign_commit(one)]
        if foreign:
            raise DriftDetected(
                f"'{each.pin.table_key}' moved from version {each.pin.version} to {each.head.version} without us: "
                f"{', '.join(one.operation for one in foreign)}",
                hint="run `omnigraph repair`",
                details={"table_key": each.pin.table_key, "pin": each.pin.version, "head": each.head.version},
            )
    if not drifted:
        return False
    restore_to_pins(manifest, held, branch, drifted)
    return True


def restore_to_pins(manifest: Manifest, held: Held, branch: str, drifted: Sequence[TableHead]) -> CommitRecord:
    """Restore tables to their pins, whatever was committed after them, and publish that."""
    # One id for the commit and its Restores: by that it is known as a repair, and gets its row in the audit.
    commit_id = str(ULID())
    restored = [_restored(manifest, held, each, commit_id) for each in drifted]
    return _publish_restored(manifest, held, branch, drifted, restored, commit_id).commit


def audit_discarded_drift(manifest: Manifest, held: Held, view: View) -> None:
    """Tell of the newest repair of drift, if nobody has: who made it tells next, or whoever comes after it died.

    No commit but those of recovery can lie on top of a repair that was not told of, since every writer looks here.
    """
    head = view.history.head()
    if head is None or not _is_recovery(head, view.branch):
        return
    audited = {recovery.graph_commit_id for recovery in audit.list_recoveries(manifest)}
    recovered = takewhile(partial(_is_recovery, branch=view.branch), view.history.newest_first())
    untold = next((commit for commit in recovered if commit.id not in audited), None)
    outcomes = () if untold is None else _discarded_by(manifest, view.branch, untold)
    if untold is None or not outcomes:
        # The roll-back of a writer that gave up by itself is nobody's recovery.
        return
    held.check()
    made_at = commit_of(untold).created_at
    kind = RecoveryKind.DRIFT_DISCARDED
    audit.record_recovery(manifest, Recovery(untold.id, kind, None, untold.id, "Drift", outcomes, made_at))


def _is_recovery(commit: CommitRecord, branch: str) -> bool:
    return commit.actor == RECOVERY_ACTOR and (commit.branch or MAIN) == branch


def _discarded_by(manifest: Manifest, branch: str, commit: CommitRecord) -> tuple[TableOutcome, ...]:
    """The tables that a commit restored as a repair of drift: those whose Restore carries the id of the commit."""
    outcomes: list[TableOutcome] = []
    # What was cleaned up since, or does not say what made it, must not stand in the way of every writer.
    with suppress(NotFound, HistoryGone):
        for pin in pins_of(manifest.view_at(branch, commit.manifest_version)).values():
            if (pin.branch or MAIN) == branch:
                with suppress(HistoryGone):
                    outcomes += _discarded_from(open_pin(manifest, pin), pin, commit)
    return tuple(outcomes)


def _discarded_from(table: Table, pin: Pin, commit: CommitRecord) -> Iterator[TableOutcome]:
    for last in table.transactions(pin.version - 1, pin.version):
        if last.restored is not None and last.operation_id == commit.id:
            yield TableOutcome(pin.table_key, pin.version - 1, last.restored)


_OWN_WITHOUT_ID: Final = _MAINTENANCE | {"Restore"}


def is_foreign_commit(commit: Committed) -> bool:
    """Whether a commit of a table was made by somebody we do not know."""
    return commit.operation_id is None and commit.operation not in _OWN_WITHOUT_ID


def _restored(manifest: Manifest, held: Held, found: TableHead, operation_id: str) -> TableVersion:
    held.check()
    staged = tables.restore(found.head, found.pin.version)
    return entry_of(manifest, found.pin, tables.commit(found.head, staged, operation_id))


def _publish_restored(
    manifest: Manifest,
    held: Held,
    branch: str,
    found: Sequence[TableHead],
    restored: Sequence[TableVersion],
    commit_id: str,
    instead_of: str | None = None,
) -> Published:
    request = PublishRequest(
        CommitIntent(commit_id, manifest.schema_hash(), RECOVERY_ACTOR),
        updates=tuple(restored),
        expected={each.pin.table_key: each.pin.version for each in found},
        instead_of=instead_of,
    )
    published = publish(manifest, held, branch, request)
    assert published is not None
    return published


def has_same_rows(commits: Sequence[Committed], pin_version: int) -> bool:
    """Whether a table that moved shows the same rows as at the pin: maintenance only, or restored to the pin."""
    for position in range(len(commits) - 1, -1, -1):
        restored = commits[position].restored
        if restored is not None:
            before = [one for one in commits[:position] if one.version <= restored]
            after = commits[position + 1 :]
            went_back = restored == pin_version or (restored > pin_version and has_same_rows(before, pin_version))
            return went_back and _is_maintenance(after)
    return _is_maintenance(commits)


def _is_maintenance(commits: Iterable[Committed]) -> bool:
    return all(one.operation in _MAINTENANCE for one in commits)


def _is_orphan(manifest: Manifest, branch: str, sidecar: Sidecar) -> bool:
    if branch == MAIN:
        return False
    if branch not in branch_names(manifest):
        return True
    made_on = sidecar.branch_incarnation
    return made_on is not None and made_on != manifest.incarnation(branch)


def _finish(
    manifest: Manifest,
    held: Held,
    sidecar: Sidecar,
    kind: RecoveryKind | None,
    commit_id: str,
    outcomes: Iterable[TableOutcome],
) -> None:
    if kind is not None:
        held.check()
        recovery = Recovery(
            commit_id,
            kind,
            sidecar.actor_id,
            sidecar.operation_id,
            str(sidecar.writer_kind),
            tuple(outcomes),
            datetime.now(UTC),
        )
        audit.record_recovery(manifest, recovery)
    held.check()
    delete_sidecar(manifest.objects, sidecar)


def _head_of(view: View) -> str:
    head = view.history.head()
    return head.id if head else ""


def _head_id(manifest: Manifest) -> str:
    return _head_of(manifest.view(MAIN, with_lineage=True))
