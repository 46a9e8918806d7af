"""What a power cut left half made: whoever writes next discards it, with a row in the audit.

With durability "power" everything that was acknowledged is on the disk, so what is torn was never acknowledged: a
version of the manifest whose writer got no answer, a version of a table that was not published, the ref of a branch
that was being created, a sidecar that nothing followed. With durability "process" acknowledged work may be torn as
well; it is lost in the same way.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from omnigraph.errors import GraphMoved, NotFound
from omnigraph.manifest.branches import find_torn_branches, remove_leftover_branch
from omnigraph.manifest.handle import DIRECTORY, Manifest
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Pin
from omnigraph.storage.locks import HeldLock, LockSettings, refs_lock
from omnigraph.storage.tables import (
    Table,
    discard_version,
    identify_version,
    is_torn,
    list_torn_and_rest,
    open_newest_whole,
)
from omnigraph.write.commit import audit
from omnigraph.write.commit.audit import Recovery, RecoveryKind, TableOutcome
from omnigraph.write.commit.sidecars import find_torn_sidecars

_WRITER: Final = "PowerCut"


def discard_torn_work(manifest: Manifest, held: HeldLock, branch: str) -> None:
    """Discard torn sidecars, and torn versions of the manifest of a branch. The caller holds the branch's lock.

    A running system tears nothing, so one look at each branch is enough.
    """
    if manifest.location.is_local and branch not in manifest.examined:
        _discard_torn_sidecars(manifest, held)
        # The branch may be deleted, or moved with its graph and not repaired yet.
        with suppress(NotFound, GraphMoved):
            _discard_torn_publishes(manifest, held, branch)
            manifest.examined.add(branch)


def _discard_torn_publishes(manifest: Manifest, held: HeldLock, branch: str) -> None:
    """Discard the manifest versions of a branch that follow the newest whole one: their numbers are needed again.

    Versions that follow a missing one are discarded too: they build on it.
    """
    if not manifest.list_versions_after(manifest.view(branch)):
        return
    manifest.start_over()
    table_branch = None if branch == MAIN else branch
    view = manifest.view(branch)
    beyond = manifest.list_versions_after(view)
    is_next_missing = view.version + 1 not in beyond
    if beyond and (is_next_missing or is_torn(manifest.uri, table_branch, view.version + 1, manifest.access)):
        identity = identify_version(manifest.uri, table_branch, beyond[-1])
        outcomes = tuple(TableOutcome(DIRECTORY, version, view.version) for version in reversed(beyond))
        head = view.head
        _record(manifest, held, f"{DIRECTORY}:{branch}:{identity}", "" if head is None else head.id, outcomes)
        for version in beyond:
            held.check()
            discard_version(manifest.uri, table_branch, version)
        manifest.forget(branch)


def open_whole_head(manifest: Manifest, held: HeldLock, pin: Pin, table_branch: str | None) -> Table:
    """Open the newest version of a table, after discarding torn ones beyond its pin. The caller holds the lock."""
    uri = manifest.location.join(pin.location)
    torn, _ = list_torn_and_rest(uri, table_branch, manifest.access, above=pin.version)
    if torn:
        identity = identify_version(uri, table_branch, torn[-1])
        outcomes = tuple(TableOutcome(pin.table_key, version, pin.version) for version in reversed(torn))
        _record(manifest, held, f"{pin.table_key}:{table_branch or MAIN}:{identity}", "", outcomes)
        for version in torn:
            held.check()
            discard_version(uri, table_branch, version)
    return open_newest_whole(uri, table_branch, manifest.access, above=pin.version)


def _discard_torn_sidecars(manifest: Manifest, held: HeldLock) -> None:
    """Discard sidecars that are incomplete. What their writers did to tables without them is drift, and goes too."""
    for path in find_torn_sidecars(manifest.objects):
        _record(manifest, held, path, "", ())
        held.check()
        manifest.objects.delete(path)


def discard_half_made_branches(manifest: Manifest, locks: LockSettings) -> None:
    """Discard branches whose creation was interrupted, under the refs lock. Those without a ref are not listed."""
    if not manifest.location.is_local or not find_torn_branches(manifest):
        return
    with refs_lock(manifest.location, locks) as refs:
        for branch in find_torn_branches(manifest):
            _record(manifest, refs, f"{DIRECTORY}:{branch}:{manifest.read_incarnation(branch)}", "", ())
            refs.check()
            remove_leftover_branch(manifest, DIRECTORY, branch)
            manifest.forget(branch)


def _record(
    manifest: Manifest, held: HeldLock, operation_id: str, commit_id: str, outcomes: tuple[TableOutcome, ...]
) -> None:
    held.check()
    recovery = Recovery(
        graph_commit_id=commit_id,
        kind=RecoveryKind.TORN_DISCARDED,
        for_actor=None,
        operation_id=operation_id,
        writer_kind=_WRITER,
        outcomes=outcomes,
        created_at=datetime.now(UTC),
    )
    audit.record_recovery(manifest, recovery)
