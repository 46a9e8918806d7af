"""Drift: tables whose HEAD is beyond the pin although no sidecar explains it.

Our own unpublished commits are discarded: the table is restored to its pin, the restored version is published, and the
audit gets a row. Foreign commits raise ``DriftDetected`` and are left to ``repair``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from typing import Final

from omnigraph.errors import DriftDetected, HistoryGone, NotFound
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import to_commit
from omnigraph.manifest.publisher import CommitIntent
from omnigraph.manifest.rows import MAIN, CommitRecord, make_ulid
from omnigraph.manifest.snapshot import Pin, list_pins, open_pin
from omnigraph.manifest.state import ManifestView
from omnigraph.storage.locks import HeldLock
from omnigraph.storage.tables import Table, TableCommit
from omnigraph.write.commit import audit
from omnigraph.write.commit.audit import Recovery, RecoveryKind, TableOutcome
from omnigraph.write.commit.table_heads import (
    MAINTENANCE,
    RECOVERY_ACTOR,
    TableHead,
    publish_restored,
    restore_table,
)

_OWN_WITHOUT_ID: Final = MAINTENANCE | {"Restore"}


def discard_drift(manifest: Manifest, held: HeldLock, branch: str, heads: Sequence[TableHead]) -> bool:
    """Restore the tables that drifted; return whether any did. Raise ``DriftDetected`` if a commit is foreign."""
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


def is_foreign_commit(commit: TableCommit) -> bool:
    """Whether a table commit was not made by OmniGraph: it carries no operation id."""
    return commit.operation_id is None and commit.operation not in _OWN_WITHOUT_ID


def restore_to_pins(manifest: Manifest, held: HeldLock, branch: str, drifted: Sequence[TableHead]) -> CommitRecord:
    """Restore tables to their pins, whatever was committed after them, and publish that."""
    # The commit and its Restores share one id: by that the audit recognises a repair of drift.
    commit_id = make_ulid()
    restored = [restore_table(manifest, held, each, commit_id) for each in drifted]
    intent = CommitIntent(commit_id, manifest.schema_hash(), RECOVERY_ACTOR)
    return publish_restored(manifest, held, branch, drifted, restored, intent).commit


# --------------------------------------------------------------------------------------------- the audit of it


def audit_discarded_drift(manifest: Manifest, held: HeldLock, view: ManifestView) -> None:
    """Record the newest repair of drift in the audit, if it is not there yet.

    Every writer calls this, so a repair is recorded even if its maker died, and only commits of recovery can lie on top
    of one that is not recorded.
    """
    head = view.history.head()
    if head is None or not _is_recovery_commit(head, view.branch):
        return
    audited = audit.list_audited_commits(manifest)
    recovered = takewhile(partial(_is_recovery_commit, branch=view.branch), view.history.list_newest_first())
    unaudited = next((commit for commit in recovered if commit.id not in audited), None)
    outcomes = () if unaudited is None else _find_discarded_drift(manifest, view.branch, unaudited)
    if unaudited is None or not outcomes:
        # A writer that rolled back its own failure is not a recovery.
        return
    held.check()
    recovery = Recovery(
        graph_commit_id=unaudited.id,
        kind=RecoveryKind.DRIFT_DISCARDED,
        for_actor=None,
        operation_id=unaudited.id,
        writer_kind="Drift",
        outcomes=outcomes,
        created_at=to_commit(unaudited).created_at,
    )
    audit.record_recovery(manifest, recovery)


def _is_recovery_commit(commit: CommitRecord, branch: str) -> bool:
    return commit.actor == RECOVERY_ACTOR and (commit.branch or MAIN) == branch


def _find_discarded_drift(manifest: Manifest, branch: str, commit: CommitRecord) -> tuple[TableOutcome, ...]:
    """Find the tables that a commit restored because of drift: their Restore carries the id of the commit."""
    outcomes: list[TableOutcome] = []
    # Versions that cleanup removed, or that do not say what made them, must not block every writer.
    with suppress(NotFound, HistoryGone):
        for pin in list_pins(manifest.view_at(branch, commit.manifest_version)).values():
            if (pin.branch or MAIN) == branch:
                with suppress(HistoryGone):
                    outcomes += _find_restore(open_pin(manifest, pin), pin, commit)
    return tuple(outcomes)


def _find_restore(table: Table, pin: Pin, commit: CommitRecord) -> Iterator[TableOutcome]:
    for last in table.read_commits(pin.version - 1, pin.version):
        if last.restored is not None and last.operation_id == commit.id:
            yield TableOutcome(pin.table_key, pin.version - 1, last.restored)
