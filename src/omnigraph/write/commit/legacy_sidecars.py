"""Sidecars that release 0.8 left behind: no operation ids, so version numbers have to say whose a change is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from omnigraph.write.commit.sidecars import Sidecar, SidecarPin, WriterKind

if TYPE_CHECKING:
    from omnigraph.write.commit.recovery import TableHead

_ONE_COMMIT_EACH: Final = frozenset({WriterKind.MUTATION, WriterKind.LOAD})
_CONFIRMS_FROM: Final = 2


def is_complete(sidecar: Sidecar, found: Sequence[TableHead]) -> bool:
    """Whether every table moved exactly as the operation meant to."""
    by_key = {each.pin.table_key: each for each in found}
    return all(pin.table_key in by_key and _moved(sidecar, pin, by_key[pin.table_key]) for pin in sidecar.tables)


def is_stale(sidecar: Sidecar, found: Sequence[TableHead]) -> bool:
    """Whether the operation was published and only the removal of its sidecar is missing."""
    expected = {pin.table_key: pin.expected_version for pin in sidecar.tables}
    passed = [each for each in found if each.pin.version > expected[each.pin.table_key]]
    if not passed or any(each.unpublished for each in found):
        return False
    return not any(_was_taken_back(sidecar, each) for each in passed)


def _was_taken_back(sidecar: Sidecar, found: TableHead) -> bool:
    """Whether the pin is our own Restore for this operation: then only the audit of its roll-back is missing."""
    pinned = found.head.transactions(found.pin.version - 1, found.pin.version)
    return any(each.restored is not None and each.operation_id == sidecar.operation_id for each in pinned)


def _moved(sidecar: Sidecar, pin: SidecarPin, found: TableHead) -> bool:
    if not found.unpublished or pin.expected_version != found.pin.version:
        return False
    head = found.head.version
    if sidecar.writer_kind in _ONE_COMMIT_EACH:
        return head == found.pin.version + 1 and head == pin.post_commit_pin
    if sidecar.writer_kind is WriterKind.SCHEMA_APPLY:
        # Its schema files are not promoted here, and its tables without them would show another schema's columns.
        return False
    if sidecar.writer_kind is WriterKind.BRANCH_MERGE and sidecar.schema_version >= _CONFIRMS_FROM:
        return head == pin.confirmed_version
    return True
