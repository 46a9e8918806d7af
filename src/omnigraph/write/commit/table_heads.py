"""Table heads: reads the commits between the pin of a table and its HEAD, and restores tables to their pins.

Identity decides whose a commit is, not version numbers: each of our table commits carries its operation's id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from omnigraph.errors import NotFound, RecoveryError, StorageError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.publisher import CommitIntent, PublishRequest, PublishResult, publish
from omnigraph.manifest.rows import TableVersion
from omnigraph.manifest.snapshot import Pin, list_pins, make_entry
from omnigraph.manifest.state import ManifestView
from omnigraph.storage import tables
from omnigraph.storage.locks import HeldLock
from omnigraph.storage.tables import Table, TableCommit, is_torn
from omnigraph.write.commit.power_cuts import open_whole_head
from omnigraph.write.commit.sidecars import SidecarPin

RECOVERY_ACTOR: Final = "omnigraph:recovery"
MAINTENANCE: Final = frozenset({"Rewrite", "ReserveFragments", "CreateIndex"})
"""The Lance operations that change no row."""


@dataclass(frozen=True, slots=True)
class TableHead:
    """One table: its pin, its HEAD, and every commit after the pin."""

    pin: Pin
    head: Table
    unpublished: tuple[TableCommit, ...]


def read_table_heads(
    manifest: Manifest, held: HeldLock, view: ManifestView, sidecar_pins: Iterable[SidecarPin]
) -> list[TableHead]:
    """Read HEAD of each table of an operation. A fork that was never made has not moved and is left out."""
    pins = list_pins(view)
    heads: list[TableHead] = []
    for each in sidecar_pins:
        pin = pins.get(each.table_key)
        if pin is None:
            continue
        uri = manifest.location.join(pin.location)
        try:
            head = open_whole_head(manifest, held, pin, each.table_branch)
        except NotFound:
            continue
        except StorageError:
            if each.table_branch == pin.branch or not is_torn(uri, each.table_branch, pin.version, manifest.access):
                raise
            continue
        heads.append(TableHead(pin, head, read_unpublished_commits(head, pin)))
    return heads


def read_unpublished_commits(head: Table, pin: Pin) -> tuple[TableCommit, ...]:
    """Read the commits after the pin. HEAD below the pin means that files were lost: raise, and keep everything."""
    if head.version < pin.version:
        raise RecoveryError(
            f"'{pin.table_key}' is at version {head.version}, below its pin {pin.version}",
            hint="a file was lost or the folder was replaced; restore it from a copy",
            details={"table_key": pin.table_key, "head": head.version, "pin": pin.version},
        )
    return tuple(head.read_commits(pin.version, head.version))


def has_same_rows(commits: Sequence[TableCommit], pin_version: int) -> bool:
    """Whether a table shows the rows of the pin after these commits: maintenance only, or restored to the pin."""
    for position in range(len(commits) - 1, -1, -1):
        restored = commits[position].restored
        if restored is not None:
            before = [one for one in commits[:position] if one.version <= restored]
            after = commits[position + 1 :]
            is_pin_restored = restored == pin_version or (restored > pin_version and has_same_rows(before, pin_version))
            return is_pin_restored and is_maintenance(after)
    return is_maintenance(commits)


def is_maintenance(commits: Iterable[TableCommit]) -> bool:
    """Whether none of the commits changes a row."""
    return all(one.operation in MAINTENANCE for one in commits)


def restore_table(manifest: Manifest, held: HeldLock, table: TableHead, operation_id: str) -> TableVersion:
    """Restore a table to its pin; return its new version, not published yet."""
    held.check()
    staged = tables.restore(table.head, table.pin.version)
    return make_entry(manifest, table.pin, tables.commit(table.head, staged, operation_id))


def publish_restored(
    manifest: Manifest,
    held: HeldLock,
    branch: str,
    heads: Sequence[TableHead],
    restored: Sequence[TableVersion],
    intent: CommitIntent,
    instead_of: str | None = None,
) -> PublishResult:
    """Publish restored tables, if all tables are still at their pins and commit ``instead_of`` was not published."""
    request = PublishRequest(
        intent,
        updates=tuple(restored),
        expected={each.pin.table_key: each.pin.version for each in heads},
        instead_of=instead_of,
    )
    published = publish(manifest, held, branch, request)
    assert published is not None
    return published
