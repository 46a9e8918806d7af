"""Repair drift: tables that have moved beyond the version that the graph shows, without a sidecar that explains it.

Drift is classified by the Lance transactions beyond the pin, and reported. If confirmed, commits that change no row are
published, and what a dead writer of ours left is rolled back. If forced, the rest is published too, as a commit that
can be inspected and reverted; only a table whose columns no longer fit is rolled back to what the graph shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from omnigraph.errors import HistoryGone, NotFound, RecoveryError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.maintain.relocation import relocate_branches
from omnigraph.manifest.handle import Manifest, branch_names
from omnigraph.manifest.history import Commit, to_commit
from omnigraph.manifest.publisher import CommitIntent, PublishRequest, publish
from omnigraph.manifest.rows import MAIN, CommitRecord, make_ulid
from omnigraph.manifest.snapshot import Pin, list_pins, make_entry, open_pin
from omnigraph.storage.locks import HeldLock, branch_lock
from omnigraph.storage.tables import Table, TableCommit, open_table
from omnigraph.write.commit import (
    TableHead,
    audit_discarded_drift,
    has_same_rows,
    heal_all,
    is_foreign_commit,
    list_sidecars,
    restore_to_pins,
)

if TYPE_CHECKING:
    import pyarrow as pa

REPAIR_ACTOR: Final = "omnigraph:repair"
FORCE_ACTOR: Final = "omnigraph:repair:force"


class DriftKind(StrEnum):
    """What is known about the commits beyond a pin."""

    MAINTENANCE = "maintenance"
    """Only compactions and index builds: no row differs."""
    OURS = "ours"
    """Left by a writer of ours that died: never published, so it is rolled back."""
    SUSPICIOUS = "suspicious"
    """Another program changed rows."""
    UNVERIFIABLE = "unverifiable"
    """The transactions can no longer be read."""
    LOST = "lost"
    """The table is below its pin: a file is missing, which no repair can restore."""


Remedy: TypeAlias = Literal["published", "taken back"]


@dataclass(frozen=True, slots=True)
class Drift:
    """One table that is not at its pinned version. ``remedy`` is what was done about it, or would be."""

    branch: str
    table_key: str
    kind: DriftKind
    pin: int
    head: int
    operations: tuple[str, ...]
    remedy: Remedy | None = None


@dataclass(frozen=True, slots=True)
class Repaired:
    """The result of a repair: the drift of the graph, and the commits that ended it; none unless confirmed."""

    confirmed: bool
    drifts: tuple[Drift, ...]
    commits: tuple[Commit, ...]
    moved: int = 0
    """The number of branch files that referred to the folder that the graph was moved or copied from."""


@dataclass(frozen=True, slots=True)
class _DriftedTable:
    """A drift with its pin, the newest version of the table, and the transactions beyond the pin."""

    drift: Drift
    pin: Pin
    head: Table
    beyond: tuple[TableCommit, ...]


def repair(manifest: Manifest, *, confirm: bool = False, force: bool = False) -> Repaired:
    """Classify the drift of every branch and, if confirmed, end it. Refused while a write is unfinished.

    The branches of a graph that was moved or copied are repaired first.
    """
    moved = relocate_branches(manifest, confirm=confirm)
    if moved and not confirm:
        # The drift of branches cannot be read before they are relocated.
        return Repaired(confirm, (), (), moved)
    if moved:
        heal_all(manifest)
    # Decide by what the storage has, not by the caches of this handle.
    manifest.start_over()
    drifts: list[Drift] = []
    commits: list[CommitRecord] = []
    for branch in branch_names(manifest):
        with branch_lock(manifest.location, branch, manifest.locks) as held:
            _refuse_unfinished(manifest, branch)
            found = [_choose_remedy(manifest, each, force=force) for each in _find_drifted_tables(manifest, branch)]
            drifts += [each.drift for each in found]
            if confirm:
                commits += _end_drift(manifest, held, branch, found, REPAIR_ACTOR if not force else FORCE_ACTOR)
    return Repaired(confirm, tuple(drifts), tuple(to_commit(commit) for commit in commits), moved)


def find_drift(manifest: Manifest, branch: str) -> list[Drift]:
    """Return the current drift of one branch; a running writer causes some for a moment."""
    return [each.drift for each in _find_drifted_tables(manifest, branch)]


def _refuse_unfinished(manifest: Manifest, branch: str) -> None:
    for sidecar in list_sidecars(manifest.objects):
        if (sidecar.branch or MAIN) == branch:
            raise RecoveryError(
                f"operation {sidecar.operation_id} on '{branch}' is unfinished: what it left is not drift",
                hint="open the graph for writing, which finishes it, then repair",
                details={"operation_id": sidecar.operation_id, "branch": branch},
            )


# --------------------------------------------------------------------------------------------- classification


def _find_drifted_tables(manifest: Manifest, branch: str) -> list[_DriftedTable]:
    """Return the tables that a branch owns and that are not at their pinned versions."""
    found: list[_DriftedTable] = []
    for pin in list_pins(manifest.view(branch)).values():
        if (pin.branch or MAIN) != branch:
            continue
        head = _open_head(manifest, pin)
        if head.version != pin.version:
            found.append(_classify(branch, pin, head))
    return found


def _open_head(manifest: Manifest, pin: Pin) -> Table:
    try:
        return open_pin(manifest, pin).refresh()
    except (NotFound, HistoryGone):
        return open_table(manifest.location.join(pin.location), pin.branch, None, manifest.access)


def _classify(branch: str, pin: Pin, head: Table) -> _DriftedTable:
    drift = Drift(branch, pin.table_key, DriftKind.LOST, pin.version, head.version, ())
    if head.version < pin.version:
        return _DriftedTable(drift, pin, head, ())
    try:
        beyond = tuple(head.read_commits(pin.version, head.version))
    except HistoryGone:
        return _DriftedTable(replace(drift, kind=DriftKind.UNVERIFIABLE), pin, head, ())
    kind = _kind_of(beyond, pin.version)
    return _DriftedTable(
        replace(drift, kind=kind, operations=tuple(one.operation for one in beyond)), pin, head, beyond
    )


def _kind_of(beyond: Sequence[TableCommit], pin_version: int) -> DriftKind:
    if any(is_foreign_commit(one) for one in beyond):
        return DriftKind.SUSPICIOUS
    return DriftKind.MAINTENANCE if has_same_rows(beyond, pin_version) else DriftKind.OURS


# --------------------------------------------------------------------------------------------- remedies


def _choose_remedy(manifest: Manifest, found: _DriftedTable, *, force: bool) -> _DriftedTable:
    remedy: Remedy | None = None
    match found.drift.kind:
        case DriftKind.MAINTENANCE:
            remedy = "published"
        case DriftKind.OURS:
            remedy = "taken back"
        case DriftKind.SUSPICIOUS | DriftKind.UNVERIFIABLE if force:
            remedy = "published" if _has_pinned_columns(manifest, found) else "taken back"
        case _:
            pass
    return replace(found, drift=replace(found.drift, remedy=remedy))


def _has_pinned_columns(manifest: Manifest, found: _DriftedTable) -> bool:
    """Whether the table still has every column that the graph shows, of the same type."""
    pinned, current = open_pin(manifest, found.pin).schema, found.head.schema
    types = {name: str(cast("pa.DataType", current.field(name).type)) for name in current.names}
    return all(types.get(name) == str(cast("pa.DataType", pinned.field(name).type)) for name in pinned.names)


def _end_drift(
    manifest: Manifest, held: HeldLock, branch: str, found: Iterable[_DriftedTable], actor: str
) -> Iterable[CommitRecord]:
    by_remedy: dict[Remedy | None, list[_DriftedTable]] = {}
    for each in found:
        by_remedy.setdefault(each.drift.remedy, []).append(each)
    if "published" in by_remedy:
        yield _publish_heads(manifest, held, branch, by_remedy["published"], actor)
    if "taken back" in by_remedy:
        drifted = [TableHead(each.pin, each.head, each.beyond) for each in by_remedy["taken back"]]
        yield restore_to_pins(manifest, held, branch, drifted)
        audit_discarded_drift(manifest, held, manifest.writable_view(branch))


def _publish_heads(
    manifest: Manifest, held: HeldLock, branch: str, drifted: Sequence[_DriftedTable], actor: str
) -> CommitRecord:
    """Publish the newest versions of the tables in one commit."""
    request = PublishRequest(
        CommitIntent(make_ulid(), manifest.schema_hash(), actor, "repair of drift"),
        updates=tuple(make_entry(manifest, each.pin, each.head) for each in drifted),
        expected={each.pin.table_key: each.pin.version for each in drifted},
        incarnation=manifest.read_incarnation(branch),
    )
    published = publish(manifest, held, branch, request)
    assert published is not None
    return published.commit
