"""The commit section: the only way to a commit.

Before the lock: heal, take a snapshot, execute and validate on it, stage files on its pins. Under the branch's lock:
heal again, compare the read set with the manifest, restore drifted tables, then run the phases (:mod:`.phases`):
sidecar (A), commit tables (B), publish (C), delete the sidecar (D). The step numbers below are those of the write
protocol, which also exists as a model that is checked: change the model first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from omnigraph.errors import (
    ConflictError,
    ExpectedVersionMismatch,
    HistoryGone,
    LimitError,
    LockTimeout,
    NotFound,
    OmniGraphError,
    OutcomeUnknown,
    StorageError,
    ValidationError,
)
from omnigraph.late_imports import LateModule
from omnigraph.manifest.contract import make_schema_conflict
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.publisher import (
    BranchState,
    CommitIntent,
    check_if_commit,
    find_repeated,
    read_branch_state,
)
from omnigraph.manifest.references import assume_snapshot, take_snapshot
from omnigraph.manifest.rows import MAIN, SchemaHead, make_ulid
from omnigraph.manifest.settings import LOAD_CONCURRENCY, MAINTENANCE_CONCURRENCY, read_concurrency
from omnigraph.manifest.snapshot import Pin, Snapshot, list_pins, open_pin
from omnigraph.manifest.state import ManifestView
from omnigraph.progress import Steps
from omnigraph.storage.locks import HeldLock, branch_lock, refs_lock
from omnigraph.storage.tables import StagedChange
from omnigraph.write.commit.branch_setup import CatchUpOperation, find_newer_schema, publish_handoff
from omnigraph.write.commit.drift import audit_discarded_drift, discard_drift
from omnigraph.write.commit.operation import (
    AlreadyCommitted,
    CommitOptions,
    CommitResult,
    Outcome,
    PreparedWrite,
    TableChange,
    WriteOperation,
)
from omnigraph.write.commit.phases import CommitAttempt, CommitSection, choose_executor, run_phases
from omnigraph.write.commit.power_cuts import open_whole_head
from omnigraph.write.commit.recovery import ROUNDS, heal, heal_branch
from omnigraph.write.commit.sidecars import WriterKind
from omnigraph.write.commit.table_heads import TableHead, has_same_rows, read_unpublished_commits
from omnigraph.write.executor import LOCAL, Executor, ThreadExecutor

if TYPE_CHECKING:
    from omnigraph.write.commit import authorization
else:
    authorization = LateModule("omnigraph.write.commit.authorization")

__all__ = [
    "CATCH_UP_MESSAGE",
    "HANDOFF_MESSAGE",
    "VALIDATION_ROUNDS",
    "CommitOptions",
    "CommitResult",
    "PreparedWrite",
    "TableChange",
    "WriteOperation",
    "begin_write",
    "catch_up",
    "commit_operation",
    "run_on_newest",
]

VALIDATION_ROUNDS: Final = 4
HANDOFF_MESSAGE: Final = "tables forked before a large write"
"""The message of the commit that forks tables before a long staging."""
CATCH_UP_MESSAGE: Final = "tables brought to the current schema before a write"
"""The message of the commit before the first write to a branch after the schema changed."""


def commit_operation(
    manifest: Manifest,
    operation: WriteOperation[Outcome],
    options: CommitOptions,
    first_basis: Snapshot | None = None,
    executor: Executor = LOCAL,
) -> CommitResult[Outcome]:
    """Execute an operation and publish it as one commit, or change nothing.

    The operation starts on ``first_basis``, or else on the newest snapshot, after healing. ``executor`` brings the rows
    of a lagging branch to the current schema before. Raise ``AlreadyCommitted`` for a repetition.
    """
    manifest.check_can_write()
    refuse_repeated(manifest, options)
    try:
        if first_basis is None or first_basis.lag is not None:
            options, first_basis = catch_up(manifest, options, executor), None
        result = _commit_on_current_schema(manifest, operation, options, first_basis)
    except (ConflictError, ValidationError) as error:
        # What stands in the way may be our own: a repetition at the same time may have committed first.
        try:
            refuse_repeated(manifest, options)
        except AlreadyCommitted as earlier:
            raise earlier from error
        raise
    if result.commit is not None and manifest.on_commit is not None:
        manifest.on_commit(options.branch, result.tables)
    if result.crowded and manifest.on_crowded is not None and not operation.kind.is_upkeep:
        manifest.on_crowded(options.branch, result.crowded)
    return result


def begin_write(manifest: Manifest, options: CommitOptions) -> CommitOptions:
    """Remember the identity of the branch. The commit is refused if the branch is re-created in the meantime.

    Call it first, since reading the input may take long.
    """
    if options.branch == MAIN or options.incarnation is not None:
        return options
    with suppress(NotFound):
        # A load may create the branch. Any other write to a missing branch fails when it reads the branch.
        return replace(options, incarnation=manifest.read_incarnation(options.branch))
    return options


def refuse_repeated(manifest: Manifest, options: CommitOptions, *, can_heal: bool = True) -> None:
    """Raise ``AlreadyCommitted`` if the branch has a commit with this ``txn``, or a later one, or with this key."""
    if options.txn is None and options.key is None:
        return
    if can_heal:
        # Finish an earlier write that died after committing its rows, so that this repetition sees it.
        heal_branch(manifest, options.branch)
    earlier = find_repeated(manifest.view(options.branch, with_lineage=True), options.txn, options.key)
    if earlier is not None:
        raise AlreadyCommitted(earlier)


def run_on_newest(
    manifest: Manifest, branch: str, run: Callable[[Snapshot], CommitResult[Outcome]]
) -> CommitResult[Outcome]:
    """Run a write on the newest snapshot of a branch, without a look if this handle wrote last, as far as it knows.

    A commit proves that it was so, since the lock tells. Without one the snapshot is compared with the newest, and the
    write runs again if there is a newer one.
    """
    assumed = assume_snapshot(manifest, branch)
    if assumed is not None:
        try:
            result = run(assumed)
            if result.commit is not None or take_snapshot(manifest, branch) is assumed:
                return result
        except (OutcomeUnknown, LockTimeout, LimitError):
            raise
        except OmniGraphError:
            if take_snapshot(manifest, branch) is assumed:
                raise
    heal_branch(manifest, branch)
    return run(take_snapshot(manifest, branch))


def catch_up(manifest: Manifest, options: CommitOptions, executor: Executor = LOCAL) -> CommitOptions:
    """Bring the tables of a lagging branch to the current schema, in a commit of its own; an executor rewrites rows.

    Return the options for the next commit: ``if_commit``, if it was given, now names the commit made here.
    """
    schema = None if options.branch == MAIN else find_newer_schema(manifest, options.branch)
    if schema is None:
        return options
    own = CommitOptions(
        options.branch,
        schema.hash,
        options.actor,
        CATCH_UP_MESSAGE,
        options.if_commit,
        incarnation=options.incarnation,
    )
    operation = CatchUpOperation(manifest, schema, options.branch, executor)
    made = _commit_on_current_schema(manifest, operation, own, None).commit
    return options if made is None or options.if_commit is None else replace(options, if_commit=made.id)


def _commit_on_current_schema(
    manifest: Manifest, operation: WriteOperation[Outcome], options: CommitOptions, first_basis: Snapshot | None
) -> CommitResult[Outcome]:
    if first_basis is None:
        heal_branch(manifest, options.branch)
    attempt = _begin_attempt(manifest, operation, options, first_basis)
    chain = manifest.lease_chains[options.branch]
    for round_ in range(VALIDATION_ROUNDS):
        # Step 0: execute, validate and stage, without the lock.
        basis = first_basis if first_basis and round_ == 0 else _take_basis_for(attempt)
        prepared = operation.prepare(basis)
        if not prepared.has_changes:
            if options.if_commit is not None:
                check_if_commit(manifest.view(options.branch, with_lineage=True), options.if_commit)
            return CommitResult(None, prepared.outcome)
        basis = _hand_over_long_tables(attempt, basis, prepared)
        staged = _stage_owned_tables(attempt, basis, prepared)
        if prepared.is_upkeep:
            basis, staged = _carry_over_upkeep(attempt, basis, prepared, staged)
        _authorize(attempt, prepared)
        # Step 1: lock and heal.
        is_last_round = round_ == VALIDATION_ROUNDS - 1
        with (
            _lock_refs(attempt, prepared, is_last_round=is_last_round) as refs,
            branch_lock(manifest.location, options.branch, manifest.locks, chain) as own,
        ):
            held = own if refs is None else own.joined_with(refs)
            state = _read_state_under_lock(manifest, held, options.branch)
            section = CommitSection(attempt, held, basis, prepared, staged)
            result = _commit_under_lock(section, state, is_last_round=is_last_round)
        if result is not None:
            return result
    raise AssertionError("the last round decides under the lock")


def _begin_attempt(
    manifest: Manifest, operation: WriteOperation[Outcome], options: CommitOptions, first_basis: Snapshot | None
) -> CommitAttempt[Outcome]:
    """Mint the ids of the commit and remember which incarnation of the branch it is for."""
    assumed = None if first_basis is None else manifest.assume_view(options.branch)
    incarnation = manifest.read_incarnation(options.branch) if assumed is None else assumed.incarnation
    if options.incarnation not in (None, incarnation):
        raise make_recreated_error(options.branch)
    return CommitAttempt(manifest, operation, options, make_ulid(), make_ulid(), incarnation)


# --------------------------------------------------------------------------------------------- before the lock


def take_basis(manifest: Manifest, options: CommitOptions) -> Snapshot:
    """Take the snapshot that a write is executed on. If the schema changed since the write began, it is a conflict."""
    basis = take_snapshot(manifest, options.branch)
    check_basis_schema(basis, options)
    if basis.lag is not None:
        # The branch caught up before, so the schema changed since, and perhaps back again.
        raise make_schema_conflict(options.schema_ir_hash, basis.schema_ir_hash)
    return basis


def check_basis_schema(basis: Snapshot, options: CommitOptions) -> None:
    """Raise ``ConflictError`` if a snapshot is read with another schema than the write was checked against."""
    if basis.schema_ir_hash is not None and options.schema_ir_hash not in (None, basis.schema_ir_hash):
        raise make_schema_conflict(options.schema_ir_hash, basis.schema_ir_hash)


def _take_basis_for(attempt: CommitAttempt[Outcome]) -> Snapshot:
    manifest, options = attempt.manifest, attempt.options
    if attempt.operation.kind is WriterKind.SCHEMA_APPLY:
        # It names the new schema, and plans from that of the snapshot.
        return take_snapshot(manifest, options.branch)
    if isinstance(attempt.operation, CatchUpOperation):
        basis = take_snapshot(manifest, options.branch)
        check_basis_schema(basis, options)
        return basis
    return take_basis(manifest, options)


def _hand_over_long_tables(
    attempt: CommitAttempt[Outcome], basis: Snapshot, prepared: PreparedWrite[Outcome]
) -> Snapshot:
    """Publish forks of inherited tables that take long to stage; return the basis with the branch as their owner."""
    options = attempt.options
    long = [basis.pins[change.table_key] for change in prepared.changes if change.is_long]
    inherited = [pin for pin in long if (pin.branch or MAIN) != options.branch]
    # With if_commit there is no room for another commit: such tables are staged under the lock.
    if not inherited or options.if_commit is not None:
        return basis
    intent = CommitIntent(make_ulid(), options.schema_ir_hash, options.actor, HANDOFF_MESSAGE)
    return basis.with_owned_tables(
        publish_handoff(attempt.manifest, options.branch, inherited, intent, attempt.incarnation)
    )


def _stage_owned_tables(
    attempt: CommitAttempt[Outcome], basis: Snapshot, prepared: PreparedWrite[Outcome]
) -> dict[str, StagedChange | None]:
    """Stage the tables that the branch owns. The others are forked first, under the lock."""
    owned = [
        change for change in prepared.changes if (basis.pins[change.table_key].branch or MAIN) == attempt.options.branch
    ]

    created = {each.table_key: each.stage(each.open_home(None)) for each in prepared.created if each.can_stage_early}

    steps = Steps("writing", len(owned))

    def stage(change: TableChange) -> StagedChange | None:
        staged = change.stage(basis.table(change.table_key))
        steps.finish(change.table_key)
        return staged

    # On an object store even a small change waits for requests, so threads pay there.
    is_cheap = attempt.manifest.location.is_local and all(change.is_small for change in owned)
    variable = MAINTENANCE_CONCURRENCY if attempt.operation.kind.is_upkeep else LOAD_CONCURRENCY
    at_once = read_concurrency(variable)
    staged = ThreadExecutor(1 if is_cheap else at_once).run(stage, owned)
    return {**created, **dict(zip((change.table_key for change in owned), staged, strict=True))}


def _authorize(attempt: CommitAttempt[Outcome], prepared: PreparedWrite[Outcome]) -> None:
    """Ask the policy of the graph, if it has one: few do, and the others need not import it."""
    if attempt.manifest.policy is not None:
        authorization.authorize_commit(attempt, prepared)


def _carry_over_upkeep(
    attempt: CommitAttempt[Outcome],
    basis: Snapshot,
    prepared: PreparedWrite[Outcome],
    staged: Mapping[str, StagedChange | None],
) -> tuple[Snapshot, Mapping[str, StagedChange | None]]:
    """Carry upkeep over to the newest snapshot, so that only the newest commits are left to look at under the lock."""
    newest = take_basis(attempt.manifest, attempt.options)
    carried = {
        change.table_key: _carry_over(change, staged.get(change.table_key), basis, newest)
        for change in prepared.changes
    }
    return newest, carried


def _carry_over(
    change: TableChange, staged: StagedChange | None, before: Snapshot, now: Snapshot
) -> StagedChange | None:
    old, new = before.pins[change.table_key], now.pins.get(change.table_key)
    if staged is None or old == new:
        return staged
    if change.carry_over is None or new is None or new.branch != old.branch:
        return None
    return change.carry_over(staged, before.table(change.table_key), now.table(change.table_key))


# --------------------------------------------------------------------------------------------- under the lock


def _lock_refs(
    attempt: CommitAttempt[Outcome], prepared: PreparedWrite[Outcome], *, is_last_round: bool
) -> AbstractContextManager[HeldLock | None]:
    """Take the refs lock, under which branches and tags are made and cleanup works, if the commit depends on them."""
    # In the last round a merge may be prepared again under the lock, and adopt versions then.
    may_adopt = prepared.adopted or (is_last_round and attempt.operation.kind is WriterKind.BRANCH_MERGE)
    is_needed = may_adopt or prepared.guard is not None
    return refs_lock(attempt.manifest.location, attempt.manifest.locks) if is_needed else nullcontext()


def _read_state_under_lock(manifest: Manifest, held: HeldLock, branch: str) -> BranchState:
    """Finish what dead writers left, and read the manifest, unless the lock proves that this handle knows its state.

    A schema change can leave work for the next writer of any branch, so a branch looks at main in any case.
    """
    known, main = manifest.cached_view(branch), manifest.cached_view(MAIN)
    if held.continues and known is not None and known.lineage is not None:
        if branch == MAIN:
            return BranchState(known, known.tables.schema_head)
        if main is not None and manifest.view(MAIN) is main:
            return BranchState(known, main.tables.schema_head)
    heal(manifest, held, branch)
    return read_branch_state(manifest, branch)


def _commit_under_lock(
    section: CommitSection[Outcome], state: BranchState, *, is_last_round: bool
) -> CommitResult[Outcome] | None:
    """Run the commit section once. None: the read set moved, so the operation must run again on a new snapshot."""
    attempt, held = section.attempt, section.held
    for round_ in range(ROUNDS):
        view = state.view
        audit_discarded_drift(attempt.manifest, held, view)
        # Step 2: compare the branch, txn, key, if_commit and the read set with the manifest.
        _check_preconditions(section, state)
        section = _drop_stale_upkeep(section, view)
        if _has_read_set_moved(section, view):
            carried = _carry_over_write(section)
            if carried is None and not is_last_round:
                return None
            if carried is None:
                _refuse_long(section)
            section = carried or _prepare_again(section)
            if not section.prepared.has_changes:
                return CommitResult(None, section.prepared.outcome)
        # Step 3: HEAD of each written table must equal its pin. After restoring drift, start again at step 2.
        heads = _read_owned_heads(section, view)
        if round_ == 0 and any(each.unpublished for each in heads):
            # Either a writer without the lock (release 0.8, or one that woke up late), or the folder was replaced by a
            # copy. Heal the whole branch, and decide again without caches.
            attempt.manifest.start_over()
            heal(attempt.manifest, held, attempt.options.branch)
        elif not discard_drift(attempt.manifest, held, attempt.options.branch, heads):
            # Step 4: phases A to D. Adopted versions are there until the publish: cleanup waits for the refs lock.
            for pin in section.prepared.adopted:
                open_pin(attempt.manifest, pin)
            guard = section.prepared.guard
            with nullcontext() if guard is None else guard(held):
                return run_phases(section, state, {each.pin.table_key: each.head for each in heads})
        state = read_branch_state(attempt.manifest, attempt.options.branch)
    raise ConflictError("the tables of this write kept moving without being published", hint="retry")


def _check_preconditions(section: CommitSection[Outcome], state: BranchState) -> None:
    """Check the incarnation of the branch, ``txn`` and key, ``if_commit`` and the schema."""
    options, view = section.attempt.options, state.view
    if _is_branch_recreated(section, view):
        raise make_recreated_error(options.branch)
    earlier = find_repeated(view, options.txn, options.key)
    if earlier is not None:
        raise AlreadyCommitted(earlier)
    check_if_commit(view, options.if_commit)
    if section.attempt.operation.kind is not WriterKind.SCHEMA_APPLY:
        _refuse_overtaken(section.basis, state.schema)


def _refuse_overtaken(basis: Snapshot, current: SchemaHead | None) -> None:
    """Raise ``ConflictError`` if the graph has another schema than the one that a snapshot is read with."""
    if current is not None and _is_overtaken(basis, current):
        raise make_schema_conflict(basis.schema_ir_hash, current.schema_ir_hash)


def _is_overtaken(basis: Snapshot, current: SchemaHead | None) -> bool:
    return current is not None and basis.read_under not in (None, current)


def _is_branch_recreated(section: CommitSection[Outcome], view: ManifestView) -> bool:
    """Whether the branch was deleted and another one has its name now."""
    begun_on = section.basis.commit
    is_basis_unknown = begun_on is not None and view.history.find(begun_on.id) is None
    return is_basis_unknown or view.incarnation != section.attempt.incarnation


def make_recreated_error(branch: str) -> ConflictError:
    """Make the error of a write whose branch is another one now."""
    return ConflictError(
        f"branch '{branch}' was deleted and re-created while this write was prepared",
        hint="read again and retry",
    )


def _drop_stale_upkeep(section: CommitSection[Outcome], view: ManifestView) -> CommitSection[Outcome]:
    """Leave out upkeep that staged nothing, and upkeep of tables that are gone or belong to another branch now."""
    pins = list_pins(view)

    def is_stale(change: TableChange) -> bool:
        before, now = section.basis.pins.get(change.table_key), pins.get(change.table_key)
        is_there = before is not None and now is not None and before.branch == now.branch
        return change.is_upkeep and not (is_there and section.staged.get(change.table_key) is not None)

    changes = tuple(change for change in section.prepared.changes if not is_stale(change))
    return replace(section, prepared=replace(section.prepared, changes=changes))


def _has_read_set_moved(section: CommitSection[Outcome], view: ManifestView) -> bool:
    """Whether a table of the read set shows other rows now. For a strict operation that is a conflict.

    A schema change also depends on the schema that it replaces.
    """
    is_schema_change = section.attempt.operation.kind is WriterKind.SCHEMA_APPLY
    if is_schema_change and _is_overtaken(section.basis, view.tables.schema_head):
        return True
    for table_key in section.read_set:
        before = section.basis.pins[table_key].version
        now = view.tables.version_of(table_key)
        if before == now or _is_move_neutral(section, view, table_key):
            continue
        if section.attempt.operation.strict:
            raise ExpectedVersionMismatch(table_key, before, now)
        return True
    return False


def _is_move_neutral(section: CommitSection[Outcome], view: ManifestView, table_key: str) -> bool:
    """Whether a table moved by compaction, index builds or a Restore only, and shows the same rows."""
    before, now = section.basis.pins[table_key], list_pins(view).get(table_key)
    if now is None or now.branch != before.branch or now.version < before.version:
        return False
    try:
        commits = open_pin(section.attempt.manifest, now).read_commits(before.version, now.version)
    except HistoryGone:
        # Cleanup removed the versions in between.
        return False
    return has_same_rows(commits, before.version)


def _carry_over_write(section: CommitSection[Outcome]) -> CommitSection[Outcome] | None:
    """Check a prepared write against the rows that other writers changed since; None if it has to be prepared again.

    Only these rows are read while the lock is held.
    """
    if section.prepared.carry_over is None:
        return None
    basis = _take_basis_for(section.attempt)
    prepared = section.prepared.carry_over(section.basis, basis)
    if prepared is None:
        return None
    # Another writer may come first again if a table has to be healed.
    prepared = replace(prepared, carry_over=section.prepared.carry_over)
    return replace(section, basis=basis, prepared=prepared)


def _refuse_long(section: CommitSection[Outcome]) -> None:
    """Refuse a long write whose rows changed each time it was prepared: under the locks nobody else could write."""
    if section.prepared.is_long:
        raise ConflictError(
            f"other writers changed the graph {VALIDATION_ROUNDS} times while its rows were checked or rewritten",
            hint="retry while fewer writers are at work",
        )


def _prepare_again(section: CommitSection[Outcome]) -> CommitSection[Outcome]:
    """Execute and validate on the newest snapshot, while the lock keeps everybody else out."""
    attempt = section.attempt
    basis = _take_basis_for(attempt)
    prepared = attempt.operation.prepare(basis)
    _authorize(attempt, prepared)
    return replace(section, basis=basis, prepared=prepared, staged={})


def _read_owned_heads(section: CommitSection[Outcome], view: ManifestView) -> list[TableHead]:
    """Read HEAD of each written table that the branch owns."""
    manifest, pins = section.attempt.manifest, list_pins(view)
    written = [pins[table_key] for table_key in section.written_tables]
    owned = [pin for pin in written if (pin.branch or MAIN) == section.attempt.options.branch]

    def read_head(pin: Pin) -> TableHead:
        is_open = section.basis.pins.get(pin.table_key) == pin
        pinned = section.basis.table(pin.table_key) if is_open else open_pin(manifest, pin)
        if pinned.access is not manifest.access:
            # The pinned table still uses the caches from before `start_over`.
            pinned = open_pin(manifest, pin)
        try:
            head = pinned.refresh()
        except StorageError:
            head = open_whole_head(manifest, section.held, pin, pin.branch)
        return TableHead(pin, head, read_unpublished_commits(head, pin))

    return choose_executor(manifest.location).run(read_head, owned)
