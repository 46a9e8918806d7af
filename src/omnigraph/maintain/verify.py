"""Proving a graph: everything that it says it has is there, can be read, and keeps every rule.

It only reads, takes no lock, and goes on where something is wrong: all that is wrong is listed, each with the place and
what to do about it. A commit that cleanup took is no finding; what is missing of any other is.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, TypeVar

from omnigraph.errors import HistoryGone, NotFound, OmniGraphError, Violation
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
from omnigraph.maintain.verify_blobs import check_blobs
from omnigraph.maintain.verify_rules import MOST_VIOLATIONS, check_rules
from omnigraph.manifest import contract
from omnigraph.manifest.contract import current_schema, schema_of
from omnigraph.manifest.handle import DIRECTORY, Manifest, branch_names
from omnigraph.manifest.references import take_snapshot
from omnigraph.manifest.rows import MAIN, CommitRecord
from omnigraph.manifest.snapshot import Pin, Snapshot, open_pin, pins_of
from omnigraph.manifest.tags import find_tag, tag_names
from omnigraph.write.commit import list_recoveries, list_sidecars

_LOOKS: Final = 4
_PAUSE: Final = 0.25
Item = TypeVar("Seen")


class FindingKind(StrEnum):
    """What can be wrong."""

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
    """One thing that is wrong, where, and what to do about it."""

    kind: FindingKind
    where: str
    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Verified:
    """What was read, and everything that is wrong."""

    findings: tuple[Finding, ...]
    branches: int
    rows: int
    commits: int
    commits_gone: int
    """Commits that cleanup took: their times and messages are known, their rows are not."""
    tags: int
    files: int
    bytes: int
    seconds: float
    blobs: int = 0
    blob_bytes: int = 0
    recoveries: int = 0
    """Rows of the audit: writes that somebody else than their writer brought to an end."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


@dataclass(slots=True)
class _Verification:
    """What is known so far."""

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

    def add(self, kind: FindingKind, where: str, what: object, remedy: str) -> None:
        self.findings.append(Finding(kind, where, str(what), remedy))


_FROM_A_COPY: Final = "restore the file from a copy"


def verify(manifest: Manifest, *, stale_after: timedelta = STALE_AFTER) -> Verified:
    """Read the whole graph and list what is wrong with it."""
    started = time.perf_counter()
    found = _Verification(manifest, stale_after)
    found.branches = branch_names(manifest)
    moved = _moved(found)
    _schema(found)
    _heads(found)
    _history(found)
    if not moved:
        _tags(found)
        _files(found)
    _audit(found)
    _unfinished(found)
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


# --------------------------------------------------------------------------------------------- the place


def _moved(found: _Verification) -> bool:
    """Branches of a graph that was moved show the files of another place, which prove nothing: only main is read."""
    files = list(find_relocated_files(found.manifest))
    if files:
        what = f"{len(files)} files of branches name another folder: it was moved or copied from there"
        found.add(FindingKind.MOVED, str(found.manifest.location), what, "run `omnigraph repair --confirm`")
        found.branches = [MAIN]
    return bool(files)


# --------------------------------------------------------------------------------------------- the schema


def _schema(found: _Verification) -> None:
    manifest = found.manifest
    current = manifest.schema_hash()
    try:
        current_schema(manifest)
    except OmniGraphError as error:
        found.add(FindingKind.SCHEMA, "the current schema", error.message, "restore __schemas from a copy")
        return
    if current is not None and not contract.root_files_say(manifest.objects, current):
        files = ", ".join((contract.SOURCE_FILE, contract.IR_FILE, contract.STATE_FILE))
        found.add(
            FindingKind.SCHEMA,
            files,
            "the files at the root do not name the current schema",
            "open the graph for writing, which puts them right",
        )


# --------------------------------------------------------------------------------------------- what is shown now


def _heads(found: _Verification) -> None:
    """Read the head of every branch; one that shows what another one did is not read twice."""
    seen: set[frozenset[Pin]] = set()
    for branch in found.branches:
        try:
            snapshot = take_snapshot(found.manifest, branch)
        except NotFound:
            # Deleted since the branches were listed.
            continue
        except OmniGraphError as error:
            found.add(FindingKind.UNREADABLE, f"branch {branch}", error.message, "restore __manifest from a copy")
            continue
        pins = frozenset(snapshot.pins.values())
        if pins not in seen:
            seen.add(pins)
            _head(found, snapshot)


def _head(found: _Verification, snapshot: Snapshot) -> None:
    read = check_rules(snapshot.catalog(), snapshot)
    found.rows += sum(read.rows.public_values())
    for key, error in read.unreadable.items():
        found.add(FindingKind.UNREADABLE, _place(snapshot.branch, snapshot.pins[key]), error.message, _FROM_A_COPY)
    for key, count in read.rows.items():
        pin = snapshot.pins[key]
        if key not in read.unreadable and count != pin.row_count:
            says = f"{count} rows were read; the manifest says {pin.row_count}"
            found.add(FindingKind.ROW_COUNT, _place(snapshot.branch, pin), says, _FROM_A_COPY)
    for violation in read.violations:
        found.add(FindingKind.RULE, _row(snapshot.branch, violation), violation.message, "correct or delete the row")
    if not read.unreadable:
        _blobs(found, snapshot)
    if len(read.violations) >= MOST_VIOLATIONS:
        where = f"branch {snapshot.branch}"
        found.add(FindingKind.RULE, where, f"more than {MOST_VIOLATIONS} rows break a rule", "load the data again")


def _blobs(found: _Verification, snapshot: Snapshot) -> None:
    read = check_blobs(snapshot.catalog(), snapshot)
    found.blobs += read.count
    found.blob_bytes += read.bytes
    for where, what in read.broken:
        found.add(FindingKind.BLOB, f"{snapshot.branch}: {where}", what, "restore the file from a copy, or set it anew")


def _place(branch: str, pin: Pin) -> str:
    return f"{branch}: {pin.table_key} version {pin.version}"


def _row(branch: str, violation: Violation) -> str:
    return f"{branch}: {violation.type} {violation.id or violation.value}"


# --------------------------------------------------------------------------------------------- history and tags


def _history(found: _Verification) -> None:
    """Every commit that was not cleaned up must open, with the schema that it had."""
    done: set[str] = set()
    heads = {view.id for name in found.branches if (view := _head_of(found.manifest, name)) is not None}
    for branch in found.branches:
        try:
            history = found.manifest.view(branch, with_lineage=True).history
        except OmniGraphError:
            # Reading its head has said so.
            continue
        child: CommitRecord | None = None
        for commit in history.newest_first():
            if child is not None and child.parent != commit.id:
                # Whoever follows the changes goes from parent to child.
                what = f"it follows {child.parent}, which is not the commit before it"
                found.add(FindingKind.HISTORY, f"commit {child.id}", what, "restore __manifest from a copy")
            child = commit
            if commit.id not in done:
                done.add(commit.id)
                _commit(found, commit, must_open=commit.id in heads)


def _head_of(manifest: Manifest, branch: str) -> CommitRecord | None:
    try:
        return manifest.view(branch).head
    except OmniGraphError:
        return None


def _commit(found: _Verification, commit: CommitRecord, *, must_open: bool) -> bool:
    """Open everything that a commit shows; whether all is there."""
    where = f"commit {commit.id}"
    try:
        pins = pins_of(found.manifest.view_at(commit.branch or MAIN, commit.manifest_version))
        schema_of(found.manifest, commit.schema_ir_hash or found.manifest.schema_hash())
    except HistoryGone as gone:
        return _went(found, commit, where, gone, must_open=must_open)
    except OmniGraphError as error:
        found.add(FindingKind.HISTORY, where, error.message, _FROM_A_COPY)
        return False
    for pin in pins.values():
        error = _opening(found, pin)
        if isinstance(error, HistoryGone):
            return _went(found, commit, where, error, must_open=must_open)
        if error is not None:
            found.add(FindingKind.HISTORY, where, error.message, _FROM_A_COPY)
            return False
    found.readable.add(commit.id)
    return True


def _went(found: _Verification, commit: CommitRecord, where: str, gone: HistoryGone, *, must_open: bool) -> bool:
    found.gone.add(commit.id)
    if must_open:
        found.add(FindingKind.HISTORY, where, f"it must be there and is not: {gone.message}", _FROM_A_COPY)
    return False


def _opening(found: _Verification, pin: Pin) -> OmniGraphError | None:
    """What opening a pin raises, looked up once: many commits show the same one."""
    if pin not in found.opened:
        try:
            table = open_pin(found.manifest, pin)
            count = table.count_rows()
        except OmniGraphError as error:
            found.opened[pin] = error
        else:
            found.opened[pin] = None
            if count != pin.row_count:
                says = f"it has {count} rows; the manifest says {pin.row_count}"
                found.add(FindingKind.ROW_COUNT, _place(pin.branch or MAIN, pin), says, _FROM_A_COPY)
    return found.opened[pin]


def _tags(found: _Verification) -> None:
    manifest, delete = found.manifest, "delete the tag, or restore the graph from a copy"
    for name in tag_names(manifest):
        where = f"tag {name}"
        found.tags += 1
        try:
            tag = find_tag(manifest, name)
            commit = None if tag is None else manifest.view(tag.branch, with_lineage=True).history.find(tag.commit)
        except OmniGraphError as error:
            found.add(FindingKind.TAG, where, error.message, delete)
            continue
        if tag is not None and commit is None:
            found.add(FindingKind.TAG, where, f"'{tag.branch}' has no commit {tag.commit}", delete)
        elif commit is not None and commit.id not in found.readable:
            found.add(FindingKind.TAG, where, f"what commit {commit.id} shows is not there", delete)


def _audit(found: _Verification) -> None:
    """Every row of the audit can be read, and no write was brought to an end twice."""
    try:
        rows = list_recoveries(found.manifest)
    except OmniGraphError as error:
        found.add(FindingKind.AUDIT, "the audit of recovery", error.message, _FROM_A_COPY)
        return
    found.recoveries = len(rows)
    for operation, count in Counter(row.operation_id for row in rows).items():
        if count > 1:
            found.add(FindingKind.AUDIT, f"operation {operation}", f"it has {count} rows in the audit", _FROM_A_COPY)


# --------------------------------------------------------------------------------------------- files


def _files(found: _Verification) -> None:
    """Every file that a version needs is there, and none is there that nobody needs."""
    now = datetime.now(UTC)
    for location in (*_locations(found), DIRECTORY):
        try:
            there = list_dataset_files(found.manifest, location)
        except OmniGraphError as error:
            found.add(FindingKind.UNREADABLE, location, error.message, _FROM_A_COPY)
            continue
        found.files += len(there.files)
        found.bytes += sum_file_sizes(there.files)
        for path, branch, version in there.find_missing():
            if not _is_there_now(found, location, path):
                what = f"version {version} on '{branch}' needs it"
                found.add(FindingKind.MISSING_FILE, f"{location}: {path}", what, _FROM_A_COPY)
        _orphans(found, location, find_orphans(there, now, found.stale_after))
    _, files = find_dead_loads(found.manifest, now, found.stale_after)
    _orphans(found, "the folder of loads beside the graph", files)


def _is_there_now(found: _Verification, location: str, path: str) -> bool:
    """Whether the file is there after all: it may have been written since the folder was listed."""
    branches = ("", *(f"tree/{name}/" for name in found.branches))
    return any(found.manifest.objects.head(f"{location}/{folder}{path}") is not None for folder in branches)


def _locations(found: _Verification) -> list[str]:
    known: set[str] = set()
    for branch in found.branches:
        try:
            known |= {pin.location for pin in pins_of(found.manifest.view(branch)).values()}
        except OmniGraphError:
            # Reading its head has said so.
            continue
    return sorted(known)


def _orphans(found: _Verification, where: str, leftovers: Iterable[OrphanFile]) -> None:
    by_kind: dict[ReclaimKind, list[OrphanFile]] = {}
    for each in leftovers:
        by_kind.setdefault(each.kind, []).append(each)
    for kind, files in by_kind.items():
        what = f"{kind}: {len(files)} files of {sum_file_sizes(each.info for each in files):,} bytes that nobody needs"
        found.add(FindingKind.ORPHAN, where, what, "run `omnigraph cleanup`")


# --------------------------------------------------------------------------------------------- what is under way


def _unfinished(found: _Verification) -> None:
    manifest = found.manifest
    for operation in _lasting(lambda: [sidecar.operation_id for sidecar in list_sidecars(manifest.objects)], found):
        what = "its writer died, or is still at work"
        where = f"operation {operation}"
        found.add(FindingKind.UNFINISHED, where, what, "open the graph for writing, which finishes it")
    for branch in found.branches:
        for drift in _lasting(lambda branch=branch: find_drift(manifest, branch), found):
            found.add(FindingKind.DRIFT, f"{branch}: {drift.table_key}", _said(drift), "run `omnigraph repair`")


def _said(drift: Drift) -> str:
    beyond = ", ".join(drift.operations) or "unknown"
    return f"{drift.kind}: it stands at version {drift.head}, the graph shows {drift.pin} ({beyond})"


def _lasting(look: Callable[[], Sequence[Item]], found: _Verification) -> Iterator[Item]:
    """What is still there after a moment: a writer that is at work leaves it for milliseconds."""
    try:
        seen = list(look())
        for _ in range(_LOOKS):
            if not seen:
                return
            time.sleep(_PAUSE)
            again = look()
            seen = [each for each in seen if each in again]
    except NotFound:
        # A branch that was deleted meanwhile has nothing that lasts.
        return
    except OmniGraphError as error:
        found.add(FindingKind.UNFINISHED, "recovery", error.message, error.hint or _FROM_A_COPY)
        return
    yield from seen
