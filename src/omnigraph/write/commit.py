"""The commit section: the only way to a commit.

Everything slow happens before the lock: a writer executes and validates on a snapshot and stages rows on its pins.
Under the lock: finish what a dead writer left, compare what was read with what is there now, then write the sidecar
(A), commit each table (B), publish (C), delete the sidecar (D). ``docs/concepts/guarantees.md`` says what this gives;
the protocol is also a model that is checked, and a change here begins there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final, Generic, Protocol, TypeVar

from ulid import ULID

from omnigraph.errors import (
    ConflictError,
    ExpectedVersionMismatch,
    OmniGraphError,
    OutcomeUnknown,
    PreconditionFailed,
)
from omnigraph.manifest.branches import fork_table
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.publisher import CommitIntent, Published, PublishRequest, publish
from omnigraph.manifest.references import take_snapshot
from omnigraph.manifest.rows import MAIN, CommitRecord, TableVersion
from omnigraph.manifest.snapshot import Pin, Snapshot, entry_of, open_pin, pins_of
from omnigraph.manifest.state import View
from omnigraph.storage import table as tables
from omnigraph.storage.lance_errors import CommitRefused, HeadMoved
from omnigraph.storage.locks import Held, LeaseLost, branch_lock
from omnigraph.storage.pinned import Table
from omnigraph.storage.staging import Staged
from omnigraph.write.handoff import hand_over
from omnigraph.write.recovery import (
    RECOVERY_ACTOR,
    ROUNDS,
    Found,
    audit_discarded_drift,
    commits_beyond,
    discard_drift,
    heal,
    is_neutral,
    roll_back,
)
from omnigraph.write.sidecars import (
    ROLLBACK,
    Sidecar,
    SidecarPin,
    WriterKind,
    any_sidecar,
    delete_sidecar,
    put_sidecar,
    read_sidecar,
)

VALIDATION_ROUNDS: Final = 4
HANDED_OVER: Final = "tables forked for a load"
"""The message of the commit that comes before one that stages for long on tables its branch did not own."""
_STAGING_THREADS: Final = 8
_log = logging.getLogger("omnigraph")

Outcome = TypeVar("Outcome")
OutcomeOf = TypeVar("OutcomeOf", covariant=True)


@dataclass(frozen=True, slots=True)
class Change:
    """What one table gets. ``stage`` writes it on a pinned table, invisibly, and may be called again on a newer pin.

    ``is_long``: staging takes so long that a fork of the table, if it needs one, is published before. ``is_small``: it
    writes so little that a thread for it costs more than it saves.
    """

    table_key: str
    stage: Callable[[Table], Staged | None]
    is_long: bool = False
    is_small: bool = False


@dataclass(frozen=True, slots=True)
class Prepared(Generic[OutcomeOf]):
    """Work that was executed and validated on a snapshot: its changes, and every table that it read to get there."""

    changes: tuple[Change, ...]
    reads: frozenset[str]
    outcome: OutcomeOf


class Work(Protocol[OutcomeOf]):
    """What a writer does. ``strict`` work cannot be repeated on newer data without being asked again."""

    @property
    def kind(self) -> WriterKind:
        """Who writes."""
        ...

    @property
    def strict(self) -> bool:
        """Whether data that moved is a conflict: update, delete and overwrite."""
        ...

    def prepare(self, snapshot: Snapshot) -> Prepared[OutcomeOf]:
        """Execute and validate on a snapshot; raises what is wrong with the input."""
        ...


@dataclass(frozen=True, slots=True)
class Terms:
    """On which branch, by whom, why, and on what conditions.

    ``incarnation`` is that of the branch when something was first written to it; None, when nothing was.
    """

    branch: str = MAIN
    schema_ir_hash: str | None = None
    actor: str | None = None
    message: str | None = None
    if_commit: str | None = None
    txn: tuple[str, int] | None = None
    incarnation: str | None = None


@dataclass(frozen=True, slots=True)
class Result(Generic[Outcome]):
    """What came of it. ``commit`` is None when there was nothing to change."""

    commit: CommitRecord | None
    outcome: Outcome
    replayed: bool = False


def commit(
    manifest: Manifest, work: Work[Outcome], terms: Terms, first_basis: Snapshot | None = None
) -> Result[Outcome]:
    """Do the work and publish it as one commit, or change nothing.

    Work that was begun earlier brings the snapshot it was begun on; else it begins on the newest one.
    """
    if any_sidecar(manifest.objects):
        with branch_lock(manifest.location, terms.branch, manifest.locks) as held:
            heal(manifest, held, terms.branch)
    incarnation = manifest.incarnation(terms.branch)
    if terms.incarnation not in (None, incarnation):
        raise _made_anew(terms)
    attempt = _Attempt(manifest, work, terms, str(ULID()), str(ULID()), incarnation)
    for round_ in range(VALIDATION_ROUNDS):
        basis = first_basis if first_basis and round_ == 0 else take_snapshot(manifest, terms.branch)
        prepared = work.prepare(basis)
        if not prepared.changes:
            _check_head(terms, basis.commit.id if basis.commit else None)
            return Result(None, prepared.outcome)
        basis = _handed_over(attempt, basis, prepared)
        staged = _stage_owned(attempt, basis, prepared)
        with branch_lock(manifest.location, terms.branch, manifest.locks) as held:
            heal(manifest, held, terms.branch)
            section = _Section(attempt, held, basis, prepared, staged)
            ended = _commit_section(section, last=round_ == VALIDATION_ROUNDS - 1)
        if ended is not None:
            return ended
    raise AssertionError("the last round decides under the lock")


# --------------------------------------------------------------------------------------------- before the lock


@dataclass(frozen=True, slots=True)
class _Attempt(Generic[Outcome]):
    """One call of :func:`commit`: ids that are minted once, whatever has to be repeated."""

    manifest: Manifest
    work: Work[Outcome]
    terms: Terms
    operation_id: str
    commit_id: str
    incarnation: str | None
    started_at: int = field(default_factory=lambda: time.time_ns() // 1000)


def _handed_over(attempt: _Attempt[Outcome], basis: Snapshot, prepared: Prepared[Outcome]) -> Snapshot:
    """The basis, with the branch as the owner of each table that takes long to stage."""
    terms = attempt.terms
    long = [basis.pins[change.table_key] for change in prepared.changes if change.is_long]
    inherited = [pin for pin in long if (pin.branch or MAIN) != terms.branch]
    # With a condition on the head there is no room for another commit: the lock is held while rows are staged.
    if not inherited or terms.if_commit is not None:
        return basis
    intent = CommitIntent(str(ULID()), terms.schema_ir_hash, terms.actor, HANDED_OVER)
    return basis.owning(hand_over(attempt.manifest, terms.branch, inherited, intent, attempt.incarnation))


def _stage_owned(attempt: _Attempt[Outcome], basis: Snapshot, prepared: Prepared[Outcome]) -> dict[str, Staged | None]:
    """Stage the tables that the branch owns already; the others wait for their fork, which the lock guards."""
    owned = [
        change for change in prepared.changes if (basis.pins[change.table_key].branch or MAIN) == attempt.terms.branch
    ]

    def stage(change: Change) -> Staged | None:
        return change.stage(basis.table(change.table_key))

    # On an object store every change waits for its answers, a small one too.
    at_once = attempt.manifest.location.is_local and all(change.is_small for change in owned)
    if len(owned) < 2 or at_once:
        return {change.table_key: stage(change) for change in owned}
    with ThreadPoolExecutor(min(len(owned), _STAGING_THREADS)) as pool:
        return dict(zip((change.table_key for change in owned), pool.map(stage, owned), strict=True))


# --------------------------------------------------------------------------------------------- under the lock


@dataclass(frozen=True, slots=True)
class _Section(Generic[Outcome]):
    """What is known under the lock."""

    attempt: _Attempt[Outcome]
    held: Held
    basis: Snapshot
    prepared: Prepared[Outcome]
    staged: Mapping[str, Staged | None]

    @property
    def touched(self) -> list[str]:
        """The tables that are written."""
        return [change.table_key for change in self.prepared.changes]

    @property
    def compared(self) -> list[str]:
        """The tables whose versions must be those of the basis: written and read."""
        return sorted({*self.touched, *self.prepared.reads})


def _commit_section(section: _Section[Outcome], *, last: bool) -> Result[Outcome] | None:
    """One pass under the lock. None: what was read has moved, prepare again on what is there now."""
    attempt, held = section.attempt, section.held
    for _ in range(ROUNDS):
        view = attempt.manifest.writable_view(attempt.terms.branch)
        audit_discarded_drift(attempt.manifest, held, view)
        replayed = _check_terms(section, view)
        if replayed is not None:
            return replayed
        if _has_moved(section, view):
            if not last:
                return None
            section = _prepared_again(section)
            if not section.prepared.changes:
                return Result(None, section.prepared.outcome)
        heads = _heads(section, view)
        if not discard_drift(attempt.manifest, held, attempt.terms.branch, heads):
            return _write(section, view, {each.pin.table_key: each.head for each in heads})
    raise ConflictError("the tables of this write kept moving without being published", hint="retry")


def _check_terms(section: _Section[Outcome], view: View) -> Result[Outcome] | None:
    terms = section.attempt.terms
    if _was_made_anew(section, view):
        raise _made_anew(terms)
    if terms.txn is not None:
        last = view.tables.txns.get(terms.txn[0])
        if last is not None and terms.txn[1] <= last.number:
            return Result(view.history.find(last.commit_id), section.prepared.outcome, replayed=True)
    head = view.history.head()
    _check_head(terms, head.id if head else None)
    return None


def _made_anew(terms: Terms) -> ConflictError:
    return ConflictError(
        f"branch '{terms.branch}' was deleted and made anew while this write was prepared", hint="read again and retry"
    )


def _check_head(terms: Terms, head: str | None) -> None:
    if terms.if_commit is not None and terms.if_commit != head:
        raise PreconditionFailed(terms.branch, terms.if_commit, head)


def _was_made_anew(section: _Section[Outcome], view: View) -> bool:
    """Whether the branch is another one than the work was begun on, under the same name."""
    begun_on = section.basis.commit
    is_foreign = begun_on is not None and view.history.find(begun_on.id) is None
    return is_foreign or view.incarnation != section.attempt.incarnation


def _has_moved(section: _Section[Outcome], view: View) -> bool:
    """Whether a table that was written or read shows other rows now. For strict work that is a conflict."""
    for table_key in section.compared:
        before = section.basis.pins[table_key].version
        now = view.tables.version_of(table_key)
        if before == now or _moved_neutrally(section, view, table_key):
            continue
        if section.attempt.work.strict:
            raise ExpectedVersionMismatch(table_key, before, now)
        return True
    return False


def _moved_neutrally(section: _Section[Outcome], view: View, table_key: str) -> bool:
    before, now = section.basis.pins[table_key], pins_of(view).get(table_key)
    if now is None or now.branch != before.branch or now.version < before.version:
        return False
    table = open_pin(section.attempt.manifest, now)
    return is_neutral(table.transactions(before.version, now.version), before.version)


def _prepared_again(section: _Section[Outcome]) -> _Section[Outcome]:
    attempt = section.attempt
    basis = take_snapshot(attempt.manifest, attempt.terms.branch)
    return replace(section, basis=basis, prepared=attempt.work.prepare(basis), staged={})


def _heads(section: _Section[Outcome], view: View) -> list[Found]:
    """The newest version of each table that the branch owns and the work writes."""
    manifest, pins = section.attempt.manifest, pins_of(view)
    found: list[Found] = []
    for table_key in section.touched:
        pin = pins[table_key]
        if (pin.branch or MAIN) == section.attempt.terms.branch:
            known = section.basis.pins.get(table_key) == pin
            head = (section.basis.table(table_key) if known else open_pin(manifest, pin)).newest()
            found.append(Found(pin, head, commits_beyond(head, pin)))
    return found


# --------------------------------------------------------------------------------------------- phases A to D


@dataclass(frozen=True, slots=True)
class _Ready:
    """One table that is about to be committed: where it stands and what is staged on it."""

    pin: Pin
    table: Table
    staged: Staged


def _write(section: _Section[Outcome], view: View, owned: Mapping[str, Table]) -> Result[Outcome]:
    """Commit and publish. ``owned`` are the tables that the branch has as its own, which stand at their pins."""
    ready = _ready(section, view, owned)
    if not ready:
        return Result(None, section.prepared.outcome)
    attempt = section.attempt
    sidecar = _sidecar(section, view, ready)
    section.held.check()
    put_sidecar(attempt.manifest.objects, sidecar)
    try:
        updates = [_committed(section, each) for each in ready]
        published = _published(section, view, updates)
    except LeaseLost as lost:
        raise OutcomeUnknown(attempt.commit_id, f"the lock was lost in the middle of a commit: {lost}") from lost
    except (CommitRefused, HeadMoved) as moved:
        landed = _give_up(section, sidecar)
        if landed is None:
            raise _conflict(moved, ready) from moved
        return Result(landed, section.prepared.outcome)
    except BaseException as error:
        landed = _give_up(section, sidecar)
        if landed is None or not isinstance(error, Exception):
            raise
        return Result(landed, section.prepared.outcome)
    if published.status == "replayed":
        _give_up(section, sidecar)
        return Result(published.commit, section.prepared.outcome, replayed=True)
    if published.commit.actor != RECOVERY_ACTOR or attempt.terms.actor == RECOVERY_ACTOR:
        _clear(section, sidecar)
    return Result(published.commit, section.prepared.outcome)


def _ready(section: _Section[Outcome], view: View, owned: Mapping[str, Table]) -> list[_Ready]:
    """Fork what has to be forked, stage what is not staged on the current pin, leave out what changes nothing."""
    manifest, pins = section.attempt.manifest, pins_of(view)
    ready: list[_Ready] = []
    for change in section.prepared.changes:
        pin = pins[change.table_key]
        table = owned.get(change.table_key) or fork_table(manifest, section.held, section.attempt.terms.branch, pin)
        known = section.staged.get(change.table_key)
        fits = known is not None and (known.branch, known.version) == (table.branch, table.version)
        staged = known if fits else change.stage(table)
        if staged is not None:
            ready.append(_Ready(pin, table, staged))
    return ready


def _sidecar(section: _Section[Outcome], view: View, ready: list[_Ready]) -> Sidecar:
    attempt, terms = section.attempt, section.attempt.terms
    head = view.history.head()
    return Sidecar(
        attempt.operation_id,
        attempt.started_at,
        None if terms.branch == MAIN else terms.branch,
        terms.actor,
        attempt.work.kind,
        tuple(
            SidecarPin(
                each.pin.table_key,
                attempt.manifest.location.join(each.pin.location),
                each.pin.version,
                each.staged.committed_version,
                each.table.branch,
                transaction_uuid=each.staged.transaction_uuid,
            )
            for each in ready
        ),
        commit_id=attempt.commit_id,
        parent_commit_id=head.id if head else None,
        if_commit=terms.if_commit,
        txn=terms.txn,
        read_set={table_key: view.tables.version_of(table_key) for table_key in section.compared},
        schema_ir_hash=terms.schema_ir_hash,
        branch_incarnation=attempt.incarnation,
        message=terms.message,
    )


def _committed(section: _Section[Outcome], ready: _Ready) -> TableVersion:
    section.held.check()
    table = tables.commit(ready.table, ready.staged, section.attempt.operation_id)
    return entry_of(section.attempt.manifest, ready.pin, table)


def _published(section: _Section[Outcome], view: View, updates: list[TableVersion]) -> Published:
    attempt, terms = section.attempt, section.attempt.terms
    request = PublishRequest(
        CommitIntent(attempt.commit_id, terms.schema_ir_hash, terms.actor, terms.message, txn=terms.txn),
        updates=tuple(updates),
        expected={table_key: view.tables.version_of(table_key) for table_key in section.compared},
        if_commit=terms.if_commit,
        incarnation=attempt.incarnation,
    )
    published = publish(attempt.manifest, section.held, terms.branch, request)
    assert published is not None
    return published


def _clear(section: _Section[Outcome], sidecar: Sidecar) -> None:
    try:
        delete_sidecar(section.attempt.manifest.objects, sidecar)
    except OmniGraphError as error:
        # The commit is durable: reporting a failure would be wrong. The next writer clears it.
        _log.warning("the sidecar of commit %s could not be removed yet: %s", sidecar.commit_id, error)


def _give_up(section: _Section[Outcome], sidecar: Sidecar) -> CommitRecord | None:
    """The way out of a failed phase B or C: the commit, if it landed after all; None when all was taken back."""
    attempt = section.attempt
    try:
        mine = read_sidecar(attempt.manifest.objects, sidecar.operation_id)
        if mine is None:
            # Somebody finished it for us: touch nothing, and look which way it went.
            return _landed(attempt)
        section.held.check()
        put_sidecar(attempt.manifest.objects, replace(sidecar, decision=ROLLBACK))
        landed = _landed(attempt)
        if landed is not None:
            return landed
        rolled_back = roll_back(attempt.manifest, section.held, attempt.terms.branch, sidecar)
        if rolled_back is not None and rolled_back.status == "superseded":
            return rolled_back.commit
        section.held.check()
        delete_sidecar(attempt.manifest.objects, sidecar)
    except (OmniGraphError, CommitRefused, HeadMoved, LeaseLost) as error:
        raise OutcomeUnknown(attempt.commit_id, f"the write failed and could not be taken back yet: {error}") from error
    return None


def _landed(attempt: _Attempt[Outcome]) -> CommitRecord | None:
    return attempt.manifest.view(attempt.terms.branch, with_lineage=True).history.find(attempt.commit_id)


def _conflict(moved: CommitRefused | HeadMoved, ready: list[_Ready]) -> ConflictError:
    keys = {each.table.subject: each.pin for each in ready}
    pin = keys.get(moved.subject)
    if pin is None or isinstance(moved, CommitRefused):
        return ConflictError(f"another writer changed the table first: {moved}", hint="read again and retry")
    return ExpectedVersionMismatch(pin.table_key, moved.expected - 1, moved.actual - 1)
