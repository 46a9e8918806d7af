"""The one fence: publish new table versions so that all become visible together.

A publish is a single merge-insert into ``__manifest`` that always rewrites the branch's head row, so two publishers
can never both win. It runs under the branch's lock and still checks everything on every attempt, because a lease can
be lost unnoticed. Nothing else makes data visible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Literal, TypeAlias

from omnigraph.errors import (
    ConflictError,
    ExpectedVersionMismatch,
    KeyReused,
    NotFound,
    PreconditionFailed,
    PublishContention,
    StorageError,
)
from omnigraph.language.values import now_microseconds
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.contract import make_schema_conflict
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.lineage import KEY_MICROSECONDS
from omnigraph.manifest.rows import (
    MAIN,
    CommitRecord,
    HeadPointer,
    Registration,
    Row,
    SchemaHead,
    TableVersion,
    Tombstone,
    Txn,
    WriteKey,
)
from omnigraph.manifest.state import ManifestView, TableState
from omnigraph.storage.locks import HeldLock

RETRY_BUDGET = 5


@dataclass(frozen=True, slots=True)
class CommitIntent:
    """The commit that a publish makes. Its id is created once, before the first attempt."""

    commit_id: str
    schema_ir_hash: str | None
    actor: str | None = None
    message: str | None = None
    merged_parent: str | None = None
    txn: tuple[str, int] | None = None
    upkeep: bool = False
    """Whether it changes no row."""
    key: WriteKey | None = None


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """The changes of a publish and its conditions.

    ``expected`` has the version of every table that is written or that a rule read. ``if_commit`` is the commit since
    which no row may have changed. ``instead_of`` is a commit id whose presence forbids this publish. ``incarnation`` is
    that of the branch when the work was staged. ``schema_basis`` is the schema of the graph that the write was
    validated with; without it, only the hash is compared. ``new_schema`` is the schema of the tables after the publish
    and ``replaces_schema`` the one before. On main it becomes the schema of the graph; on a branch it is already.
    """

    intent: CommitIntent | None = None
    registrations: tuple[Registration, ...] = ()
    updates: tuple[TableVersion, ...] = ()
    tombstones: tuple[Tombstone, ...] = ()
    schema_basis: SchemaHead | None = None
    new_schema: str | None = None
    replaces_schema: str | None = None
    expected: Mapping[str, int] = field(default_factory=dict[str, int])
    if_commit: str | None = None
    instead_of: str | None = None
    incarnation: str | None = None

    @property
    def has_changes(self) -> bool:
        """Whether it writes more than a commit row."""
        return bool(self.registrations or self.updates or self.tombstones or self.new_schema)


@dataclass(frozen=True, slots=True)
class BranchState:
    """What a publish is compared with: a view of the branch, and the current schema of the graph."""

    view: ManifestView
    schema: SchemaHead | None


def read_branch_state(manifest: Manifest, branch: str) -> BranchState:
    """Read the state of a branch that is about to be written. Main is read after the branch, once."""
    view = manifest.writable_view(branch)
    return BranchState(view, view.tables.schema_head if branch == MAIN else manifest.current_schema())


Status: TypeAlias = Literal["published", "found", "replayed", "superseded"]


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The outcome of a publish.

    ``found``: an earlier attempt, or recovery, had published it. ``replayed``: its ``txn`` or key was committed before.
    ``superseded``: the commit that forbids it exists. In these three cases nothing was written.
    """

    status: Status
    commit: CommitRecord
    view: ManifestView


def publish(
    manifest: Manifest, held: HeldLock, branch: str, request: PublishRequest, state: BranchState | None = None
) -> PublishResult | None:
    """Publish a request under the branch's lock. An empty request writes nothing and returns None.

    The first attempt goes by ``state``, if it was read under this lock already: should it be outdated all the same, the
    attempt loses, and the next one reads anew.
    """
    if request.intent is None:
        if request.has_changes:
            raise ValueError("every change belongs to a commit: the request has none")
        return None
    manifest.check_can_write()
    for _ in range(RETRY_BUDGET + 1):
        try:
            return _attempt(manifest, held, state or read_branch_state(manifest, branch), request, request.intent)
        except PublishContention:
            # Another publish was faster: read the new rows and decide again.
            state = None
    raise PublishContention(
        f"the publish on '{branch}' lost {RETRY_BUDGET + 1} attempts to other writers", hint="retry"
    )


def _attempt(
    manifest: Manifest, held: HeldLock, state: BranchState, request: PublishRequest, intent: CommitIntent
) -> PublishResult:
    view, current = state.view, state.schema
    manifest.sync_basis(view)
    earlier = _find_earlier_outcome(view, request, intent)
    if earlier is not None:
        return earlier
    _check_conditions(view, current, request, intent)
    if manifest.should_compact(view):
        held.check()
        view = manifest.compact(view)
    # What the publish shows must be on the disk before it, and the publish itself before anybody hears of it.
    manifest.sync()
    commit = _make_commit(view, intent)
    held.check()
    view = manifest.merge_rows(view, _list_rows(view, current, request, commit))
    return PublishResult("published", replace(commit, manifest_version=view.version), view)


def _find_earlier_outcome(view: ManifestView, request: PublishRequest, intent: CommitIntent) -> PublishResult | None:
    own = view.history.find(intent.commit_id)
    if own is not None:
        return PublishResult("found", own, view)
    if request.instead_of is not None:
        other = view.history.find(request.instead_of)
        if other is not None:
            return PublishResult("superseded", other, view)
    repeated = find_repeated(view, intent.txn, intent.key)
    return None if repeated is None else PublishResult("replayed", repeated, view)


def find_repeated(view: ManifestView, txn: tuple[str, int] | None, key: WriteKey | None) -> CommitRecord | None:
    """Return the commit that made this ``txn``, or a later one of its application, or that has this key.

    A key is known for a day. Raise ``KeyReused`` if it belongs to a write that asked for something else.
    """
    if txn is not None:
        app, number = txn
        last = view.tables.txns.get(app)
        if last is not None and number <= last.number:
            commit = view.history.find(last.commit_id)
            if commit is None:
                raise StorageError(f"txn '{app}' names commit {last.commit_id}, which is not in the history")
            return commit
    found = None if key is None else find_by_key(view, key.digest)
    if found is not None and found.key is not None and key is not None and found.key.fingerprint != key.fingerprint:
        raise KeyReused(found.id)
    return found


def find_by_key(view: ManifestView, digest: str) -> CommitRecord | None:
    """Return the commit of the last day that has a key."""
    return view.history.find_key(digest, now_microseconds() - KEY_MICROSECONDS)


def _check_conditions(
    view: ManifestView, current: SchemaHead | None, request: PublishRequest, intent: CommitIntent
) -> None:
    if request.incarnation is not None and request.incarnation != view.incarnation:
        raise ConflictError(
            f"branch '{view.branch}' was deleted and re-created while this write was staged",
            hint="read again and retry",
        )
    for table_key, expected in sorted(request.expected.items()):
        actual = view.tables.version_of(table_key)
        if actual != expected:
            raise ExpectedVersionMismatch(table_key, expected, actual)
    check_if_commit(view, request.if_commit)
    if current is not None:
        changes_schema = request.new_schema is not None and view.branch == MAIN
        validated_under = request.replaces_schema if changes_schema else intent.schema_ir_hash
        is_same = request.schema_basis in (None, current) and validated_under in (None, current.schema_ir_hash)
        if not is_same:
            raise make_schema_conflict(validated_under, current.schema_ir_hash)
    _check_changes(view.tables, request)


def check_if_commit(view: ManifestView, if_commit: str | None) -> None:
    """Raise ``PreconditionFailed`` if rows have changed since a commit; None asks for nothing."""
    if if_commit is not None and not view.history.is_data_head(if_commit):
        head = view.history.data_head()
        raise PreconditionFailed(view.branch, if_commit, head.id if head else None)


def _check_changes(tables: TableState, request: PublishRequest) -> None:
    locations = dict(tables.locations)
    for registration in request.registrations:
        known = locations.setdefault(registration.table_key, registration.location)
        if known != registration.location:
            raise StorageError(f"'{registration.table_key}' lies at {known}, not at {registration.location}")
    for change in (*request.updates, *request.tombstones):
        if change.table_key not in locations:
            raise NotFound(f"no table '{change.table_key}' in this graph")
    twice = [key for key, count in Counter(update.table_key for update in request.updates).items() if count > 1]
    if twice:
        raise StorageError(f"one publish names '{twice[0]}' twice")
    for update in request.updates:
        _check_update(tables, update)
    for tombstone in request.tombstones:
        if tables.tombstones.get(tombstone.table_key, -1) >= tombstone.version:
            raise ConflictError(f"'{tombstone.table_key}' is dropped already")


def _check_update(tables: TableState, update: TableVersion) -> None:
    known = tables.latest.get(update.table_key)
    if known is None or update.version > known.version:
        return
    handoff = update.version == known.version and update.row_count == known.row_count and update.branch != known.branch
    if not handoff:
        raise ConflictError(
            f"version {update.version} of '{update.table_key}' is published already (the latest is {known.version})"
        )


def _list_rows(
    view: ManifestView, current: SchemaHead | None, request: PublishRequest, commit: CommitRecord
) -> list[Row]:
    rows: list[Row] = [*request.registrations, *request.updates, *request.tombstones]
    schema = _make_schema_head(view, current, request, commit)
    if schema is not None:
        rows.append(schema)
    if commit.txn is not None:
        rows.append(Txn(*commit.txn, commit.id))
    return [*rows, commit, HeadPointer(view.branch, commit.id, commit.parent)]


def _make_schema_head(
    view: ManifestView, current: SchemaHead | None, request: PublishRequest, commit: CommitRecord
) -> SchemaHead | None:
    """Return the ``schema_head`` row of the branch, if it changes."""
    if request.new_schema is None:
        # A graph of 0.8 has no such row: its first publish here adopts the schema that the write was validated with.
        adopted = commit.schema_ir_hash if view.branch == MAIN and current is None else None
        return None if adopted is None else SchemaHead(adopted)
    if view.branch != MAIN:
        return current
    before = current.all if current is not None else (request.replaces_schema,) if request.replaces_schema else ()
    return SchemaHead(request.new_schema, before)


def _make_commit(view: ManifestView, intent: CommitIntent) -> CommitRecord:
    head, parent = view.history.head(), view.history.data_head()
    now = now_microseconds()
    return CommitRecord(
        intent.commit_id,
        None if view.branch == MAIN else view.branch,
        view.version + 1,
        # Clocks can step back; the history of a branch must not.
        now if head is None else max(now, head.created_at + 1),
        # Upkeep has no children, so that no history of rows, such as a search for a merge base, meets it.
        None if parent is None else parent.id,
        intent.merged_parent,
        intent.actor,
        intent.message,
        intent.txn,
        intent.schema_ir_hash,
        upkeep=intent.upkeep,
        key=intent.key,
    )
