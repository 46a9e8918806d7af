"""The commit section: the only way to a commit.

Everything slow happens before the lock: a writer executes and validates on a snapshot and stages rows on its pins.
Under the lock: finish what a dead writer left, compare what was read with what is there now, then write the sidecar
(A), commit each table (B), publish (C), delete the sidecar (D). ``docs/concepts/guarantees.md`` says what this gives;
the protocol is also a model that is checked, and a change here begins there.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from ulid import ULID

from omnigraph.errors import ConflictError, ExpectedVersionMismatch, HistoryGone, PreconditionFailed
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.publisher import CommitIntent
from omnigraph.manifest.references import take_snapshot
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot, open_pin, pins_of
from omnigraph.manifest.state import View
from omnigraph.storage.locks import branch_lock
from omnigraph.storage.staging import Staged
from omnigraph.write.commit.handoff import publish_handoff
from omnigraph.write.commit.lagging_branch import CatchUpOperation, find_newer_schema
from omnigraph.write.commit.operation import (
    CommitOptions,
    CommitResult,
    Outcome,
    PreparedWrite,
    TableChange,
    WriteOperation,
)
from omnigraph.write.commit.phases import CommitAttempt, CommitSection, run_phases
from omnigraph.write.commit.recovery import (
    ROUNDS,
    TableHead,
    audit_discarded_drift,
    discard_drift,
    has_same_rows,
    heal,
    heal_branch,
    read_unpublished_commits,
)

__all__ = [
    "CATCH_UP_MESSAGE",
    "HANDOFF_MESSAGE",
    "VALIDATION_ROUNDS",
    "CommitOptions",
    "CommitResult",
    "PreparedWrite",
    "TableChange",
    "WriteOperation",
    "catch_up",
    "commit",
]

VALIDATION_ROUNDS: Final = 4
HANDOFF_MESSAGE: Final = "tables forked before a large write"
"""The message of the commit that comes before one that stages for long on tables its branch did not own."""
CATCH_UP_MESSAGE: Final = "tables brought to the current schema before a write"
"""The message of the commit that comes before the first write to a branch after the schema changed."""
_STAGING_THREADS: Final = 8


def commit(
    manifest: Manifest, operation: WriteOperation[Outcome], options: CommitOptions, first_basis: Snapshot | None = None
) -> CommitResult[Outcome]:
    """Do the work and publish it as one commit, or change nothing.

    Work that was begun earlier brings the snapshot it was begun on; else it begins on the newest one.
    """
    return _commit(manifest, operation, catch_up(manifest, options), first_basis)


def _commit(
    manifest: Manifest, work: WriteOperation[Outcome], terms: CommitOptions, first_basis: Snapshot | None
) -> CommitResult[Outcome]:
    heal_branch(manifest, terms.branch)
    incarnation = manifest.incarnation(terms.branch)
    if terms.incarnation not in (None, incarnation):
        raise _made_anew(terms)
    attempt = CommitAttempt(manifest, work, terms, str(ULID()), str(ULID()), incarnation)
    for round_ in range(VALIDATION_ROUNDS):
        basis = first_basis if first_basis and round_ == 0 else take_snapshot(manifest, terms.branch)
        prepared = work.prepare(basis)
        if not prepared.has_changes:
            _check_head(terms, basis.commit.id if basis.commit else None)
            return CommitResult(None, prepared.outcome)
        basis = _handed_over(attempt, basis, prepared)
        staged = _stage_owned(attempt, basis, prepared)
        with branch_lock(manifest.location, terms.branch, manifest.locks) as held:
            heal(manifest, held, terms.branch)
            section = CommitSection(attempt, held, basis, prepared, staged)
            ended = _commit_section(section, last=round_ == VALIDATION_ROUNDS - 1)
        if ended is not None:
            return ended
    raise AssertionError("the last round decides under the lock")


def catch_up(manifest: Manifest, options: CommitOptions) -> CommitOptions:
    """Bring the tables of a branch to the current schema, in a commit of its own, if they may lag behind it.

    Gives the terms of what is written next: a condition on the head is one on that commit now.
    """
    schema = None if options.branch == MAIN else find_newer_schema(manifest, options.branch)
    if schema is None:
        return options
    own = CommitOptions(
        options.branch, schema.hash, options.actor, CATCH_UP_MESSAGE, options.if_commit, incarnation=options.incarnation
    )
    made = _commit(manifest, CatchUpOperation(manifest, schema, options.branch), own, None).commit
    return options if made is None or options.if_commit is None else replace(options, if_commit=made.id)


# --------------------------------------------------------------------------------------------- before the lock


def _handed_over(attempt: CommitAttempt[Outcome], basis: Snapshot, prepared: PreparedWrite[Outcome]) -> Snapshot:
    """The basis, with the branch as the owner of each table that takes long to stage."""
    terms = attempt.options
    long = [basis.pins[change.table_key] for change in prepared.changes if change.is_long]
    inherited = [pin for pin in long if (pin.branch or MAIN) != terms.branch]
    # With a condition on the head there is no room for another commit: the lock is held while rows are staged.
    if not inherited or terms.if_commit is not None:
        return basis
    intent = CommitIntent(str(ULID()), terms.schema_ir_hash, terms.actor, HANDOFF_MESSAGE)
    return basis.owning(publish_handoff(attempt.manifest, terms.branch, inherited, intent, attempt.incarnation))


def _stage_owned(
    attempt: CommitAttempt[Outcome], basis: Snapshot, prepared: PreparedWrite[Outcome]
) -> dict[str, Staged | None]:
    """Stage the tables that the branch owns already; the others wait for their fork, which the lock guards."""
    owned = [
        change for change in prepared.changes if (basis.pins[change.table_key].branch or MAIN) == attempt.options.branch
    ]

    early = {each.table_key: each.stage(each.open_home(None)) for each in prepared.created if each.can_stage_early}

    def stage(change: TableChange) -> Staged | None:
        return change.stage(basis.table(change.table_key))

    # On an object store every change waits for its answers, a small one too.
    at_once = attempt.manifest.location.is_local and all(change.is_small for change in owned)
    if len(owned) < 2 or at_once:
        return {**early, **{change.table_key: stage(change) for change in owned}}
    with ThreadPoolExecutor(min(len(owned), _STAGING_THREADS)) as pool:
        return {**early, **dict(zip((change.table_key for change in owned), pool.map(stage, owned), strict=True))}


# --------------------------------------------------------------------------------------------- under the lock


def _commit_section(section: CommitSection[Outcome], *, last: bool) -> CommitResult[Outcome] | None:
    """One pass under the lock. None: what was read has moved, prepare again on what is there now."""
    attempt, held = section.attempt, section.held
    for _ in range(ROUNDS):
        view = attempt.manifest.writable_view(attempt.options.branch)
        audit_discarded_drift(attempt.manifest, held, view)
        replayed = _check_terms(section, view)
        if replayed is not None:
            return replayed
        section = _without_late_upkeep(section, view)
        if _has_moved(section, view):
            if not last:
                return None
            section = _prepared_again(section)
            if not section.prepared.has_changes:
                return CommitResult(None, section.prepared.outcome)
        heads = _heads(section, view)
        if not discard_drift(attempt.manifest, held, attempt.options.branch, heads):
            return run_phases(section, view, {each.pin.table_key: each.head for each in heads})
    raise ConflictError("the tables of this write kept moving without being published", hint="retry")


def _check_terms(section: CommitSection[Outcome], view: View) -> CommitResult[Outcome] | None:
    terms = section.attempt.options
    if _was_made_anew(section, view):
        raise _made_anew(terms)
    if terms.txn is not None:
        last = view.tables.txns.get(terms.txn[0])
        if last is not None and terms.txn[1] <= last.number:
            return CommitResult(view.history.find(last.commit_id), section.prepared.outcome, replayed=True)
    head = view.history.head()
    _check_head(terms, head.id if head else None)
    return None


def _made_anew(terms: CommitOptions) -> ConflictError:
    return ConflictError(
        f"branch '{terms.branch}' was deleted and made anew while this write was prepared", hint="read again and retry"
    )


def _check_head(terms: CommitOptions, head: str | None) -> None:
    if terms.if_commit is not None and terms.if_commit != head:
        raise PreconditionFailed(terms.branch, terms.if_commit, head)


def _was_made_anew(section: CommitSection[Outcome], view: View) -> bool:
    """Whether the branch is another one than the work was begun on, under the same name."""
    begun_on = section.basis.commit
    is_foreign = begun_on is not None and view.history.find(begun_on.id) is None
    return is_foreign or view.incarnation != section.attempt.incarnation


def _without_late_upkeep(section: CommitSection[Outcome], view: View) -> CommitSection[Outcome]:
    pins = pins_of(view)
    late = [
        change
        for change in section.prepared.changes
        if change.is_upkeep and pins.get(change.table_key) != section.basis.pins[change.table_key]
    ]
    if not late:
        return section
    changes = tuple(change for change in section.prepared.changes if change not in late)
    return replace(section, prepared=replace(section.prepared, changes=changes))


def _has_moved(section: CommitSection[Outcome], view: View) -> bool:
    """Whether a table that was written or read shows other rows now. For strict work that is a conflict."""
    for table_key in section.read_set:
        before = section.basis.pins[table_key].version
        now = view.tables.version_of(table_key)
        if before == now or _moved_neutrally(section, view, table_key):
            continue
        if section.attempt.operation.strict:
            raise ExpectedVersionMismatch(table_key, before, now)
        return True
    return False


def _moved_neutrally(section: CommitSection[Outcome], view: View, table_key: str) -> bool:
    before, now = section.basis.pins[table_key], pins_of(view).get(table_key)
    if now is None or now.branch != before.branch or now.version < before.version:
        return False
    try:
        made = open_pin(section.attempt.manifest, now).transactions(before.version, now.version)
    except HistoryGone:
        # It took so long that cleanup has been here.
        return False
    return has_same_rows(made, before.version)


def _prepared_again(section: CommitSection[Outcome]) -> CommitSection[Outcome]:
    attempt = section.attempt
    basis = take_snapshot(attempt.manifest, attempt.options.branch)
    return replace(section, basis=basis, prepared=attempt.operation.prepare(basis), staged={})


def _heads(section: CommitSection[Outcome], view: View) -> list[TableHead]:
    """The newest version of each table that the branch owns and the work writes."""
    manifest, pins = section.attempt.manifest, pins_of(view)
    found: list[TableHead] = []
    for table_key in section.written_tables:
        pin = pins[table_key]
        if (pin.branch or MAIN) == section.attempt.options.branch:
            known = section.basis.pins.get(table_key) == pin
            head = (section.basis.table(table_key) if known else open_pin(manifest, pin)).newest()
            found.append(TableHead(pin, head, read_unpublished_commits(head, pin)))
    return found
