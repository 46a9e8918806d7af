"""Merge another branch or commit into a branch: combine what each side changed since their common ancestor.

The merge is three-way, by entity id, and reads only changed rows. All rules are checked. The result is one commit with
two parents, or nothing. A revert is a merge with other sides: the base is the reverted commit, theirs is its parent.
Conflicts are never resolved by guessing: all are reported together, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import field, replace
from functools import partial
from typing import Final, Literal, TypeAlias, cast, get_args

from omnigraph.errors import (
    Conflict,
    ConflictError,
    HistoryGone,
    MergeConflicts,
    NotFound,
    OmniGraphError,
    ParameterError,
    Unsupported,
)
from omnigraph.language.schema import Schema, split_by_kind
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.analysis_trailers import AnalysisTrailers, append_merged, list_trailers
from omnigraph.manifest.branches import refuse_dependents
from omnigraph.manifest.common_ancestors import find_common_ancestors, take_snapshot_at
from omnigraph.manifest.handle import Manifest, branch_names
from omnigraph.manifest.history import Commit, to_commit
from omnigraph.manifest.lineage import CommitLookup, Lineage
from omnigraph.manifest.references import (
    Reference,
    find_commit,
    mean_branches_too,
    resolve_reference,
    take_snapshot,
)
from omnigraph.manifest.rows import MAIN, TABLE_VERSION, CommitRecord
from omnigraph.manifest.snapshot import Pin, Snapshot
from omnigraph.read.changes import find_changed_tables
from omnigraph.storage.locks import refs_lock
from omnigraph.write.commit import (
    AlreadyCommitted,
    CommitOptions,
    PreparedWrite,
    TableChange,
    WriterKind,
    begin_write,
    check_basis_schema,
    commit_operation,
    delete_branch_at,
    heal_branch,
    refuse_repeated,
)
from omnigraph.write.merge.alignment import MergeBase
from omnigraph.write.merge.deltas import Counts, PreferredSide
from omnigraph.write.merge.doubled_rows import count_doubled_rows
from omnigraph.write.merge.engine import LOCAL_MERGE_ENGINE, MergeEngine, MergePlan
from omnigraph.write.merge.left_out import LeftOut, list_dropped, list_resolved, list_undone
from omnigraph.write.merge.merge_base import build_merge_base, refuse_renamed
from omnigraph.write.merge.resolution_file import Resolution, ResolutionInput, read_resolution
from omnigraph.write.merge.resolver import ConflictResolver
from omnigraph.write.merge.rules import MergeSnapshots
from omnigraph.write.merge.three_way import MergeBy
from omnigraph.write.rules import PreparedRows, is_independent

MergeKind: TypeAlias = Literal["already-up-to-date", "fast-forward", "merged", "conflicts"]
UP_TO_DATE: Final = "already-up-to-date"


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The result of a merge or a revert, or of its dry run. ``commit`` is None if nothing was written.

    ``outcome`` is ``conflicts`` for a dry run with unresolved conflicts: the merge itself would raise an error.
    ``base``, ``source`` and ``target`` are commits: the common ancestor, what was merged, and what it was merged into.
    """

    outcome: MergeKind
    commit: Commit | None
    base: str
    source: str
    target: str
    conflicts: tuple[Conflict, ...]
    """The unresolved conflicts of a dry run."""
    nodes: Mapping[str, Counts]
    edges: Mapping[str, Counts]
    branch_kept: str | None = None
    """Why the source branch was not deleted after the merge, if that was asked for."""
    replayed: bool = False
    """Whether an earlier call with this ``txn`` or key made the commit. Nothing was changed, and nothing is counted."""
    left_out: tuple[LeftOut, ...] = ()
    """The changes of the source that are not in the result, by type and reason. All others are."""


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """The options of a merge. ``by``: whether two changes of one row conflict, or only of one property."""

    by: MergeBy = "row"
    prefer: PreferredSide | None = None
    resolve: ResolutionInput | None = None
    dry_run: bool = False
    delete_branch: bool = False


def merge(
    manifest: Manifest,
    schema: Schema,
    source: Reference,
    options: MergeOptions,
    commit_options: CommitOptions,
    engine: MergeEngine = LOCAL_MERGE_ENGINE,
) -> MergeResult:
    """Merge a branch, a commit or a tag into a branch."""
    commit_options = begin_write(manifest, commit_options)
    resolution = _check_options(options)
    if not options.dry_run:
        # The branch may be gone: it was merged and deleted.
        try:
            refuse_repeated(manifest, commit_options)
        except AlreadyCommitted as earlier:
            return _to_replayed_merge(earlier.commit)
    merged = _capture_source(manifest, source, commit_options.branch, dry_run=options.dry_run)
    branch = merged.branch
    if options.delete_branch:
        if branch is None:
            hint = "leave delete_branch out"
            raise ParameterError(f"'{source}' is not a branch, so it cannot be deleted", hint=hint)
        # Before anything is changed: who wants both should not get half of it.
        refuse_dependents(manifest, branch)
    description = str(source) if branch is None else f"branch '{branch}'"
    message = commit_options.message or f"merge {description} into '{commit_options.branch}'"
    commit_options = replace(
        commit_options,
        schema_ir_hash=schema.hash,
        message=append_merged(message, _list_brought(manifest, merged, commit_options.branch)),
        merged_parent=merged.commit.id,
    )
    operation = MergeOperation(
        manifest, schema, merged.snapshot, merged.commit, _MergeBaseFinder(merged), options, resolution, engine
    )
    try:
        result = _run(manifest, operation, options, commit_options)
    except HistoryGone as gone:
        raise _explain_gone(manifest, merged, gone) from gone
    if branch is None or options.dry_run or not options.delete_branch:
        return result
    return replace(result, branch_kept=_delete_merged_branch(manifest, branch, merged.commit.id))


def revert(
    manifest: Manifest,
    schema: Schema,
    ref: Reference,
    side: int | None,
    options: MergeOptions,
    commit_options: CommitOptions,
    engine: MergeEngine = LOCAL_MERGE_ENGINE,
) -> MergeResult:
    """Undo the changes of a commit with a new commit on a branch."""
    commit_options = begin_write(manifest, commit_options)
    resolution = _check_options(options)
    resolved = resolve_reference(manifest, commit_options.branch, ref)
    if resolved.commit is None:
        raise NotFound(f"no commit at {ref}")
    reverted = resolved.commit
    _refuse_schema_change(manifest, reverted)
    parent = find_commit(manifest, reverted.branch or MAIN, _choose_parent(reverted, side))
    commit_options = replace(
        commit_options,
        schema_ir_hash=schema.hash,
        message=commit_options.message or f"revert {_describe_commit(reverted)}",
    )
    operation = MergeOperation(
        manifest,
        schema,
        take_snapshot_at(manifest, parent),
        parent,
        _RevertBaseFinder(reverted),
        options,
        resolution,
        engine,
        WriterKind.MUTATION,
    )
    return _run(manifest, operation, options, commit_options)


def _refuse_schema_change(manifest: Manifest, reverted: CommitRecord) -> None:
    """Refuse to revert a commit that changed the schema: a revert compares rows, all read in the current schema."""
    if reverted.parent is None:
        return
    parent = find_commit(manifest, reverted.branch or MAIN, reverted.parent)
    before, after = (take_snapshot_at(manifest, each).written_under for each in (parent, reverted))
    if before is not None and before != after:
        raise Unsupported(
            f"{reverted.id} changed the schema, and a revert changes rows only",
            hint=f"apply the earlier schema with `omnigraph schema apply`; the rows as they were are at {parent.id}",
            details={"commit": reverted.id, "parent": parent.id},
        )


def _describe_commit(reverted: CommitRecord) -> str:
    """Return the id and the title: what follows may say where a result comes from, which is gone now."""
    title = (reverted.message or "").partition("\n")[0]
    return f"{reverted.id}: {title}" if title else reverted.id


def _choose_parent(reverted: CommitRecord, side: int | None) -> str:
    parents = [parent for parent in (reverted.parent, reverted.merged_parent) if parent is not None]
    if not parents:
        raise ParameterError(f"{reverted.id} is the first commit, so it cannot be reverted", hint="choose a later one")
    if side is None and len(parents) > 1:
        raise ParameterError(
            f"{reverted.id} is a merge, and has two parents",
            hint=f"choose the parent to return to: side 1 is {parents[0]}, side 2 is {parents[1]}",
            details={"commit": reverted.id, "parents": parents},
        )
    if side is not None and not 1 <= side <= len(parents):
        raise ParameterError(f"{reverted.id} has no side {side}", hint=f"it has {len(parents)}")
    return parents[(side or 1) - 1]


def _check_options(options: MergeOptions) -> Resolution | None:
    for name, value, allowed in (("by", options.by, MergeBy), ("prefer", options.prefer, PreferredSide)):
        words = cast("tuple[str, ...]", get_args(allowed))
        if value is not None and value not in words:
            raise ParameterError(f"{name} is {value!r}", hint=f"use {' or '.join(words)}")
    return None if options.resolve is None else read_resolution(options.resolve)


def _run(
    manifest: Manifest, operation: MergeOperation, options: MergeOptions, commit_options: CommitOptions
) -> MergeResult:
    if options.dry_run:
        ours = take_snapshot(manifest, commit_options.branch)
        check_basis_schema(ours, commit_options)
        return operation.compute(ours, keep_open=True).to_result(None)
    try:
        result = commit_operation(manifest, operation, commit_options, executor=operation.engine.executor)
    except AlreadyCommitted as earlier:
        return _to_replayed_merge(earlier.commit)
    return result.outcome.to_result(None if result.commit is None else to_commit(result.commit))


def _to_replayed_merge(earlier: CommitRecord) -> MergeResult:
    target = earlier.parent or ""
    source = earlier.merged_parent or target
    return MergeResult("merged", to_commit(earlier), target, source, target, (), {}, {}, replayed=True)


# --------------------------------------------------------------------------------------------- the source


@dataclass(frozen=True, slots=True)
class _MergeSource:
    """The source of a merge, captured when the merge began."""

    commit: CommitRecord
    snapshot: Snapshot
    history: Lineage
    branch: str | None
    """The name of the branch if the source was given as a branch."""


def _capture_source(manifest: Manifest, source: Reference, into: str, *, dry_run: bool) -> _MergeSource:
    """Read the source under the lock that guards branches, so that nobody deletes or re-creates the branch meanwhile.

    A dry run takes no lock and heals nothing, since it must not write.
    """
    if source == into:
        raise ParameterError(f"'{into}' cannot be merged into itself", hint="name two branches")
    branch = source if isinstance(source, str) and source in branch_names(manifest) else None
    if branch is not None and not dry_run:
        heal_branch(manifest, branch)
    with nullcontext() if dry_run else refs_lock(manifest.location, manifest.locks):
        with mean_branches_too(manifest, source):
            resolved = resolve_reference(manifest, branch or MAIN, source if branch is None else None)
        if resolved.commit is None:
            raise NotFound(f"there is no commit at '{source}' to merge")
        snapshot = take_snapshot(manifest, resolved.branch, None if branch else resolved.commit.id)
        history = manifest.view(resolved.branch, with_lineage=True).history
        if branch is None or snapshot.commit is None:
            return _MergeSource(resolved.commit, snapshot, history, branch)
        return _MergeSource(find_commit(manifest, branch, snapshot.commit.id), snapshot, history, branch)


def _list_brought(manifest: Manifest, merged: _MergeSource, into: str) -> list[AnalysisTrailers]:
    """Return where the results of algorithms come from that the source has and the target does not know."""
    theirs = [each for _, each in list_trailers(merged.history, merged.commit)]
    if not theirs:
        return []
    known = {each.commit_id for _, each in list_trailers(manifest.view(into, with_lineage=True).history)}
    return [each for each in theirs if each.commit_id not in known]


def _explain_gone(manifest: Manifest, merged: _MergeSource, gone: HistoryGone) -> OmniGraphError:
    """Return a conflict if the source branch has moved since it was captured: then merging again helps."""
    branch = merged.branch
    head = manifest.view(branch).data_head if branch is not None and branch in branch_names(manifest) else None
    if branch is None or (head is not None and head.id == merged.commit.id):
        return gone
    return ConflictError(
        f"branch '{branch}' moved while it was merged, and cleanup removed what was to be merged: {gone.message}",
        hint="merge again",
        details={"branch": branch, "merged": merged.commit.id, **gone.details},
    )


def _delete_merged_branch(manifest: Manifest, branch: str, merged: str) -> str | None:
    """Delete a merged branch, unless it has new commits. Return why it was kept; the merge is committed either way."""
    try:
        delete_branch_at(manifest, branch, merged, hint="merge it again")
    except NotFound:
        # Somebody else deleted it first.
        return None
    except OmniGraphError as error:
        return str(error)
    return None


# --------------------------------------------------------------------------------------------- the operation


@dataclass(frozen=True, slots=True)
class _FoundBase:
    """The commit that is the merge base, the kind of merge that follows from it, and a function that reads it.

    ``commits`` looks up the commits of a merge; a revert needs none.
    """

    id: str
    outcome: MergeKind
    read: Callable[[], MergeBase]
    commits: CommitLookup | None = None


@dataclass(frozen=True, slots=True)
class _MergeBaseFinder:
    """Finds the base of a merge: the common ancestor of both histories."""

    source: _MergeSource
    joins_histories: bool = True
    """Whether the commit joins two histories."""

    def find(self, manifest: Manifest, ours: Snapshot, target: str) -> _FoundBase:
        source = self.source.commit
        ancestors = find_common_ancestors(manifest, source.id, target, (ours.branch, self.source.snapshot.branch))
        outcome: MergeKind = "merged"
        if ancestors.id == source.id:
            outcome = "already-up-to-date"
        elif ancestors.id == target:
            outcome = "fast-forward"
        if outcome == UP_TO_DATE:
            return _FoundBase(ancestors.id, outcome, lambda: MergeBase(self.source.snapshot), ancestors.known)

        def read() -> MergeBase:
            return build_merge_base(manifest, ancestors, ours.read_under)

        return _FoundBase(ancestors.id, outcome, read, ancestors.known)


@dataclass(frozen=True, slots=True)
class _RevertBaseFinder:
    """Finds the base of a revert: the reverted commit."""

    reverted: CommitRecord
    joins_histories: bool = False

    def find(self, manifest: Manifest, ours: Snapshot, target: str) -> _FoundBase:
        del ours, target
        return _FoundBase(self.reverted.id, "merged", lambda: MergeBase(take_snapshot_at(manifest, self.reverted)))


@dataclass(frozen=True, slots=True)
class _MergeOutcome:
    """The outcome of a merge on a snapshot."""

    outcome: MergeKind
    base: str
    source: str
    target: str
    counts: Mapping[str, Counts] = field(default_factory=dict[str, Counts])
    conflicts: tuple[Conflict, ...] = ()
    changes: tuple[TableChange, ...] = ()
    adopted: tuple[Pin, ...] = ()
    reads: frozenset[str] = frozenset()
    left_out: tuple[LeftOut, ...] = ()
    prepared: PreparedRows | None = None
    """The rows that it depends on; None if they are on executors, or more than those that theirs changed."""

    def to_result(self, commit_made: Commit | None) -> MergeResult:
        """Convert to the public result."""
        nodes, edges = split_by_kind(self.counts)
        outcome = "conflicts" if self.conflicts else self.outcome
        return MergeResult(
            outcome,
            commit_made,
            self.base,
            self.source,
            self.target,
            self.conflicts,
            nodes,
            edges,
            left_out=self.left_out,
        )


@dataclass(frozen=True, slots=True)
class MergeOperation:
    """A merge as a write operation. It can be repeated on newer data; then the base is searched again too."""

    manifest: Manifest
    schema: Schema
    theirs: Snapshot
    source: CommitRecord
    base_finder: _MergeBaseFinder | _RevertBaseFinder
    options: MergeOptions
    resolution: Resolution | None
    engine: MergeEngine
    kind: WriterKind = WriterKind.BRANCH_MERGE
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[_MergeOutcome]:
        """Merge on a snapshot. Raise ``MergeConflicts`` with all conflicts if there are any."""
        outcome = self.compute(snapshot, keep_open=False)
        if outcome.conflicts:
            count = len(outcome.conflicts)
            raise MergeConflicts(f"{count} conflict{'' if count == 1 else 's'}", outcome.conflicts)
        # A merge commit joins the histories even if no row changed.
        always = outcome.outcome != UP_TO_DATE and self.base_finder.joins_histories
        prepared = PreparedWrite(outcome.changes, outcome.reads, outcome, outcome.adopted, always)
        if outcome.prepared is None or outcome.outcome == UP_TO_DATE:
            return prepared
        return replace(prepared, carry_over=partial(self._carry_over, prepared))

    def _carry_over(
        self, prepared: PreparedWrite[_MergeOutcome], before: Snapshot, after: Snapshot
    ) -> PreparedWrite[_MergeOutcome] | None:
        """Return the prepared merge if it is still valid on a newer snapshot, judged by the rows that changed."""
        outcome, rows = prepared.outcome, prepared.outcome.prepared
        if rows is None or after.commit is None or self.resolution is not None:
            return None
        adopted = {pin.table_key for pin in prepared.adopted}
        found_base = self.base_finder.find(self.manifest, after, after.commit.id)
        is_same_base = found_base.id == outcome.base and found_base.outcome != UP_TO_DATE
        if not is_same_base or not adopted.isdisjoint(find_changed_tables(before, after)):
            return None
        if not is_independent(self.schema.catalog, rows, before, after):
            return None
        return replace(prepared, outcome=replace(outcome, outcome=found_base.outcome, target=after.commit.id))

    def compute(self, ours: Snapshot, *, keep_open: bool) -> _MergeOutcome:
        """Merge the sides. ``keep_open``: undecided entries of a resolution are conflicts, not errors."""
        if ours.commit is None:
            raise NotFound(f"branch '{ours.branch}' has no commit to merge into")
        target = ours.commit.id
        found_base = self.base_finder.find(self.manifest, ours, target)
        outcome = _MergeOutcome(found_base.outcome, found_base.id, self.source.id, target)
        resolver = ConflictResolver(self.resolution, self.options.prefer)
        resolver.refuse_stale(self.source.id, target, self.options.by)
        if found_base.outcome == UP_TO_DATE:
            resolver.refuse_invalid((), ())
            return replace(outcome, left_out=tuple(self._list_undone(found_base, found_base.read(), ours)))
        written_base = found_base.read()
        base = self._in_current_schema(written_base, ours)
        sides = MergeSnapshots(self.schema.catalog, base.snapshot, ours, self._read_like(ours, self.theirs))
        plan = self.engine.merge_tables(sides, base, self.options.by, resolver)
        # Entries that matched no conflict are valid only if the conflict exists while nothing is decided.
        possible: tuple[Conflict, ...] = ()
        if resolver.has_unmatched_entries:
            possible = self.engine.merge_tables(sides, base, self.options.by, ConflictResolver(None, None)).open
        resolver.refuse_invalid(possible, None if keep_open else plan.open)
        if not self.base_finder.joins_histories and not plan.tables:
            outcome = replace(outcome, outcome=outcome.outcome if plan.open else UP_TO_DATE)
        left_out = (
            *list_dropped(self.manifest, written_base.snapshot, self.theirs, ours.read_under),
            *list_resolved(plan.resolved),
            *self._list_undone(found_base, base, ours),
        )
        return self._add_changes(replace(outcome, left_out=left_out), base, sides, plan)

    def _list_undone(self, found_base: _FoundBase, base: MergeBase, ours: Snapshot) -> Iterator[LeftOut]:
        if found_base.commits is None:
            return iter(())
        base = replace(base, snapshot=self._read_like(ours, base.snapshot))
        sides = (ours, self._read_like(ours, self.theirs))
        return list_undone(self.manifest, base, found_base.id, sides, found_base.commits)

    def _read_like(self, ours: Snapshot, other: Snapshot) -> Snapshot:
        """Return a side read in the schema of the target, since the result must obey its rules."""
        return other if ours.read_under is None else other.read_with(ours.read_under)

    def _in_current_schema(self, base: MergeBase, ours: Snapshot) -> MergeBase:
        """Read the base in the current schema, so that schema changes do not appear as changes of rows."""
        read = self._read_like(ours, base.snapshot)
        refuse_renamed(read, find_changed_tables(base.snapshot, self.theirs))
        return replace(base, snapshot=read)

    def _add_changes(
        self, outcome: _MergeOutcome, base: MergeBase, sides: MergeSnapshots, plan: MergePlan
    ) -> _MergeOutcome:
        """Add the table changes: rows to write, and table versions of main to adopt without writing rows."""
        tables, ours = plan.tables, sides.ours
        doubled = count_doubled_rows(sides, {key: table.counts.inserted for key, table in tables.items()})
        adopted = {key for key, table in tables.items() if not table.is_decided and self._can_adopt(base, ours, key)}
        return replace(
            outcome,
            counts={key: replace(table.counts, doubled=doubled.get(key, 0)) for key, table in tables.items()},
            conflicts=plan.open,
            changes=tuple(table.change for key, table in tables.items() if key not in adopted),
            adopted=tuple(self.theirs.pins[key] for key in sorted(adopted)),
            reads=plan.reads,
            prepared=None if base.overlays else plan.prepared,
        )

    def _can_adopt(self, base: MergeBase, ours: Snapshot, key: str) -> bool:
        """Whether ours only inherited the table and theirs is a newer version of it on main."""
        own, other = ours.pins.get(key), self.theirs.pins.get(key)
        if not self.base_finder.joins_histories or ours.branch == MAIN or key in base.overlays:
            return False
        if own is None or other is None:
            return False
        is_inherited = base.snapshot.pins.get(key) == own and own.branch != ours.branch
        is_newer = other.branch is None and other.version > own.version
        return is_inherited and is_newer and not self._was_owned(ours.branch, key)

    def _was_owned(self, branch: str, table_key: str) -> bool:
        """Whether a branch ever had a fork of a table: an older release may have dropped it again."""
        condition = f"object_type = '{TABLE_VERSION}' AND table_key = '{table_key}' AND table_branch = '{branch}'"
        return self.manifest.open(branch).count_rows(condition) > 0
