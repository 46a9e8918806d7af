"""Verify a graph: everything that it refers to exists, can be read, and satisfies every rule.

It only reads, takes no lock, and continues after an error: all findings are listed, each with the place and the remedy.
A commit that cleanup removed is not a finding; anything missing from another commit is.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, TypeVar

from omnigraph.errors import HistoryGone, NotFound, OmniGraphError, StorageError, Violation
from omnigraph.lazy_dataclass import dataclass
from omnigraph.maintain.orphans import (
    STALE_AFTER,
    OrphanFile,
    ReclaimKind,
    find_dead_loads,
    find_orphans,
    list_dataset_files,
    sum_file_sizes,
)
from omnigraph.maintain.relocation import find_relocated_files
from omnigraph.maintain.repair import Drift, find_drift
from omnigraph.maintain.verify_snapshot import MAX_VIOLATIONS, verify_blobs, verify_rows
from omnigraph.manifest import contract
from omnigraph.manifest.contract import load_current_schema, load_schema_of
from omnigraph.manifest.handle import DIRECTORY, Manifest, branch_names
from omnigraph.manifest.references import take_snapshot
from omnigraph.manifest.rows import MAIN, CommitRecord
from omnigraph.manifest.snapshot import Pin, Snapshot, list_pins, open_pin
from omnigraph.manifest.tags import find_tag, list_tag_names
from omnigraph.progress import follow_steps
from omnigraph.write.commit import list_recoveries, list_sidecars

_LOOKS: Final = 4
_PAUSE: Final = 0.25
Item = TypeVar("Item")


class FindingKind(StrEnum):
    """The kinds of findings."""

    SCHEMA = "schema"
    MOVED = "moved"
    UNREADABLE = "unreadable"
    ROW_COUNT = "row count"
    RULE = "rule"
    BLOB = "blob"
    HISTORY = "history"
    TAG = "tag"
    AUDIT = "audit"
    MISSING_FILE = "missing file"
    DRIFT = "drift"
    UNFINISHED = "unfinished write"
    ORPHAN = "orphan"


@dataclass(frozen=True, slots=True)
class Finding:
    """One error: where it is, what is wrong, and what to do about it."""

    kind: FindingKind
    where: str
    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a verification: what was read, and all findings."""

    findings: tuple[Finding, ...]
    branches: int
    rows: int
    commits: int
    commits_gone: int
    """The number of commits that cleanup removed: their times and messages are known, their rows are gone."""
    tags: int
    files: int
    bytes: int
    seconds: float
    blobs: int = 0
    blob_bytes: int = 0
    recoveries: int = 0
    """The rows of the audit: writes that were finished or rolled back by recovery."""

    @property
    def is_sound(self) -> bool:
        """Whether there are no findings."""
        return not self.findings


@dataclass(slots=True)
class _VerifyState:
    """What a verification has found so far."""

    manifest: Manifest
    stale_after: timedelta
    findings: list[Finding] = field(default_factory=list[Finding])
    branches: list[str] = field(default_factory=list[str])
    opened: dict[Pin, OmniGraphError | None] = field(default_factory=dict[Pin, OmniGraphError | None])
    rows: int = 0
    readable: set[str] = field(default_factory=set[str])
    gone: set[str] = field(default_factory=set[str])
    tags: int = 0
    files: int = 0
    bytes: int = 0
    blobs: int = 0
    blob_bytes: int = 0
    recoveries: int = 0

    def add_finding(self, kind: FindingKind, where: str, what: object, remedy: str) -> None:
        self.findings.append(Finding(kind, where, str(what), remedy))


_FROM_A_COPY: Final = "restore the file from a copy"


def verify(manifest: Manifest, *, stale_after: timedelta = STALE_AFTER) -> Verified:
    """Read the whole graph and list everything that is wrong."""
    started = time.perf_counter()
    found = _VerifyState(manifest, stale_after)
    found.branches = _list_branches(found)
    is_relocated = _check_location(found)
    _check_schema(found)
    _check_heads(found)
    _check_history(found)
    if not is_relocated:
        _check_tags(found)
        _check_files(found)
    _check_audit(found)
    _check_unfinished(found)
    return Verified(
        tuple(found.findings),
        len(found.branches),
        found.rows,
        len(found.readable),
        len(found.gone),
        found.tags,
        found.files,
        found.bytes,
        time.perf_counter() - started,
        found.blobs,
        found.blob_bytes,
        found.recoveries,
    )


# --------------------------------------------------------------------------------------------- location and schema


def _list_branches(found: _VerifyState) -> list[str]:
    """List the branches; only main if they cannot be listed."""
    try:
        return branch_names(found.manifest)
    except StorageError as error:
        found.add_finding(FindingKind.UNREADABLE, "the branches", error.message, error.hint or _FROM_A_COPY)
        return [MAIN]


def _check_location(found: _VerifyState) -> bool:
    """Return whether the graph was moved. Its branches then refer to files of another folder, so only main is read."""
    files = list(find_relocated_files(found.manifest))
    if files:
        what = f"{len(files)} files of branches refer to another folder: the graph was moved or copied from there"
        found.add_finding(FindingKind.MOVED, str(found.manifest.location), what, "run `omnigraph repair --yes`")
        found.branches = [MAIN]
    return bool(files)


def _check_schema(found: _VerifyState) -> None:
    manifest = found.manifest
    current = manifest.schema_hash()
    try:
        load_current_schema(manifest)
    except OmniGraphError as error:
        found.add_finding(FindingKind.SCHEMA, "the current schema", error.message, "restore __schemas from a copy")
        return
    if current is not None and not contract.root_files_match(manifest.objects, current):
        files = ", ".join((contract.SOURCE_FILE, contract.IR_FILE, contract.STATE_FILE))
        found.add_finding(
            FindingKind.SCHEMA,
            files,
            "the schema files at the root do not match the current schema",
            "open the graph for writing, which rewrites them",
        )


# --------------------------------------------------------------------------------------------- heads


def _check_heads(found: _VerifyState) -> None:
    """Read the head of every branch; branches with the same pins are read once."""
    seen: set[frozenset[Pin]] = set()
    for branch in found.branches:
        try:
            snapshot = take_snapshot(found.manifest, branch)
        except NotFound:
            # The branch was deleted after the branches were listed.
            continue
        except OmniGraphError as error:
            found.add_finding(
                FindingKind.UNREADABLE, f"branch {branch}", error.message, "restore __manifest from a copy"
            )
            continue
        pins = frozenset(snapshot.pins.values())
        if pins not in seen:
            seen.add(pins)
            _check_head(found, snapshot)


def _check_head(found: _VerifyState, snapshot: Snapshot) -> None:
    read = verify_rows(snapshot.catalog(), snapshot)
    found.rows += sum(read.rows.values())
    for key, error in read.unreadable.items():
        found.add_finding(
            FindingKind.UNREADABLE, _describe_pin(snapshot.branch, snapshot.pins[key]), error.message, _FROM_A_COPY
        )
    for key, count in read.rows.items():
        pin = snapshot.pins[key]
        if key not in read.unreadable and count != pin.row_count:
            what = f"{count} rows were read; the manifest says {pin.row_count}"
            found.add_finding(FindingKind.ROW_COUNT, _describe_pin(snapshot.branch, pin), what, _FROM_A_COPY)
    for violation in read.violations:
        where = _describe_row(snapshot.branch, violation)
        found.add_finding(FindingKind.RULE, where, violation.message, "correct or delete the row")
    if not read.unreadable:
        _check_blobs(found, snapshot)
    if len(read.violations) >= MAX_VIOLATIONS:
        where = f"branch {snapshot.branch}"
        found.add_finding(
            FindingKind.RULE, where, f"more than {MAX_VIOLATIONS} rows break a rule", "load the data again"
        )


def _check_blobs(found: _VerifyState, snapshot: Snapshot) -> None:
    read = verify_blobs(snapshot.catalog(), snapshot)
    found.blobs += read.count
    found.blob_bytes += read.bytes
    for where, what in read.broken:
        found.add_finding(
            FindingKind.BLOB, f"{snapshot.branch}: {where}", what, "restore the file from a copy, or set the blob again"
        )


def _describe_pin(branch: str, pin: Pin) -> str:
    return f"{branch}: {pin.table_key} version {pin.version}"


def _describe_row(branch: str, violation: Violation) -> str:
    return f"{branch}: {violation.type} {violation.id or violation.value}"


# --------------------------------------------------------------------------------------------- history and tags


def _check_history(found: _VerifyState) -> None:
    """Open every commit that was not cleaned up, with the schema that it had."""
    checked: set[str] = set()
    heads = {view.id for name in found.branches if (view := _head_of(found.manifest, name)) is not None}
    for branch in follow_steps("checking history", found.branches):
        try:
            history = found.manifest.view(branch, with_lineage=True).history
        except OmniGraphError:
            # Reported when its head was read.
            continue
        children: list[CommitRecord] = []
        for commit in history.list_newest_first():
            if not commit.upkeep:
                # The change feed goes from parent to child. Upkeep has no children.
                for child in children:
                    if child.parent != commit.id:
                        what = f"it follows {child.parent}, which is not the commit before it"
                        hint = "restore __manifest from a copy"
                        found.add_finding(FindingKind.HISTORY, f"commit {child.id}", what, hint)
                children.clear()
            children.append(commit)
            if commit.id not in checked:
                checked.add(commit.id)
                _check_commit(found, commit, must_open=commit.id in heads)


def _head_of(manifest: Manifest, branch: str) -> CommitRecord | None:
    try:
        return manifest.view(branch).head
    except OmniGraphError:
        return None


def _check_commit(found: _VerifyState, commit: CommitRecord, *, must_open: bool) -> None:
    """Open every table of a commit, and note whether the commit can be read."""
    try:
        pins = list_pins(found.manifest.view_at(commit.branch or MAIN, commit.manifest_version))
        load_schema_of(found.manifest, commit.schema_ir_hash or found.manifest.schema_hash())
    except OmniGraphError as error:
        _add_unreadable_commit(found, commit, error, must_open=must_open)
        return
    for pin in pins.values():
        error = _try_open(found, pin)
        if error is not None:
            _add_unreadable_commit(found, commit, error, must_open=must_open)
            return
    found.readable.add(commit.id)


def _add_unreadable_commit(
    found: _VerifyState, commit: CommitRecord, error: OmniGraphError, *, must_open: bool
) -> None:
    """Note a commit that cannot be read. A commit that cleanup removed is a finding only if it is a head."""
    where = f"commit {commit.id}"
    if not isinstance(error, HistoryGone):
        found.add_finding(FindingKind.HISTORY, where, error.message, _FROM_A_COPY)
        return
    found.gone.add(commit.id)
    if must_open:
        found.add_finding(FindingKind.HISTORY, where, f"it must exist and does not: {error.message}", _FROM_A_COPY)


def _try_open(found: _VerifyState, pin: Pin) -> OmniGraphError | None:
    """Open a pin once, since many commits show the same one, and return the error if it fails."""
    if pin not in found.opened:
        try:
            table = open_pin(found.manifest, pin)
            count = table.count_rows()
        except OmniGraphError as error:
            found.opened[pin] = error
        else:
            found.opened[pin] = None
            if count != pin.row_count:
                what = f"it has {count} rows; the manifest says {pin.row_count}"
                found.add_finding(FindingKind.ROW_COUNT, _describe_pin(pin.branch or MAIN, pin), what, _FROM_A_COPY)
    return found.opened[pin]


def _check_tags(found: _VerifyState) -> None:
    manifest, remedy = found.manifest, "delete the tag, or restore the graph from a copy"
    for name in list_tag_names(manifest):
        where = f"tag {name}"
        found.tags += 1
        try:
            tag = find_tag(manifest, name)
            commit = None if tag is None else manifest.view(tag.branch, with_lineage=True).history.find(tag.commit)
        except OmniGraphError as error:
            found.add_finding(FindingKind.TAG, where, error.message, remedy)
            continue
        if tag is not None and commit is None:
            found.add_finding(FindingKind.TAG, where, f"'{tag.branch}' has no commit {tag.commit}", remedy)
        elif commit is not None and commit.id not in found.readable:
            found.add_finding(FindingKind.TAG, where, f"commit {commit.id} cannot be read", remedy)


def _check_audit(found: _VerifyState) -> None:
    """Check that every row of the audit can be read, and that no write was recovered twice."""
    try:
        rows = list_recoveries(found.manifest)
    except OmniGraphError as error:
        found.add_finding(FindingKind.AUDIT, "the audit of recovery", error.message, _FROM_A_COPY)
        return
    found.recoveries = len(rows)
    for operation, count in Counter(row.operation_id for row in rows).items():
        if count > 1:
            found.add_finding(
                FindingKind.AUDIT, f"operation {operation}", f"it has {count} rows in the audit", _FROM_A_COPY
            )


# --------------------------------------------------------------------------------------------- files


def _check_files(found: _VerifyState) -> None:
    """Check that every needed file exists, and that there are no orphans."""
    now = datetime.now(UTC)
    for location in (*_list_locations(found), DIRECTORY):
        try:
            dataset = list_dataset_files(found.manifest, location)
        except OmniGraphError as error:
            found.add_finding(FindingKind.UNREADABLE, location, error.message, _FROM_A_COPY)
            continue
        found.files += len(dataset.files)
        found.bytes += sum_file_sizes(dataset.files)
        for path, branch, version in dataset.find_missing():
            if not _exists_now(found, location, path):
                what = f"version {version} on '{branch}' needs it"
                found.add_finding(FindingKind.MISSING_FILE, f"{location}: {path}", what, _FROM_A_COPY)
        _add_orphans(found, location, find_orphans(dataset, now, found.stale_after))
    _, files = find_dead_loads(found.manifest, now, found.stale_after)
    _add_orphans(found, "the folder of loads beside the graph", files)


def _exists_now(found: _VerifyState, location: str, path: str) -> bool:
    """Whether a file exists after all: it may have been written after the folder was listed."""
    branches = ("", *(f"tree/{name}/" for name in found.branches))
    return any(found.manifest.objects.head(f"{location}/{folder}{path}") is not None for folder in branches)


def _list_locations(found: _VerifyState) -> list[str]:
    known: set[str] = set()
    for branch in found.branches:
        try:
            known |= {pin.location for pin in list_pins(found.manifest.view(branch)).values()}
        except OmniGraphError:
            # Reported when its head was read.
            continue
    return sorted(known)


def _add_orphans(found: _VerifyState, where: str, orphans: Iterable[OrphanFile]) -> None:
    by_kind: dict[ReclaimKind, list[OrphanFile]] = {}
    for each in orphans:
        by_kind.setdefault(each.kind, []).append(each)
    for kind, files in by_kind.items():
        what = f"{kind}: {len(files)} files of {sum_file_sizes(each.info for each in files):,} bytes that nobody needs"
        found.add_finding(FindingKind.ORPHAN, where, what, "run `omnigraph cleanup`")


# --------------------------------------------------------------------------------------------- unfinished writes


def _check_unfinished(found: _VerifyState) -> None:
    manifest = found.manifest
    for operation in _find_lasting(
        lambda: [sidecar.operation_id for sidecar in list_sidecars(manifest.objects)], found
    ):
        what = "its writer died, or is still running"
        where = f"operation {operation}"
        found.add_finding(FindingKind.UNFINISHED, where, what, "open the graph for writing, which finishes it")
    for branch in found.branches:
        for drift in _find_lasting(lambda branch=branch: find_drift(manifest, branch), found):
            found.add_finding(
                FindingKind.DRIFT, f"{branch}: {drift.table_key}", _describe_drift(drift), "run `omnigraph repair`"
            )


def _describe_drift(drift: Drift) -> str:
    operations = ", ".join(drift.operations) or "unknown"
    return f"{drift.kind}: the table is at version {drift.head}, the graph shows {drift.pin} ({operations})"


def _find_lasting(look: Callable[[], Sequence[Item]], found: _VerifyState) -> Iterator[Item]:
    """Yield what is still there after a while: a running writer leaves sidecars and drift for milliseconds."""
    try:
        seen = list(look())
        for _ in range(_LOOKS):
            if not seen:
                return
            time.sleep(_PAUSE)
            again = look()
            seen = [each for each in seen if each in again]
    except NotFound:
        # The branch was deleted meanwhile.
        return
    except OmniGraphError as error:
        found.add_finding(FindingKind.UNFINISHED, "recovery", error.message, error.hint or _FROM_A_COPY)
        return
    yield from seen
