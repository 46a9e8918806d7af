"""Merging: what another branch or commit changed since the two met, brought together with what this one changed.

Three-way by entity id, over the rows that changed and no others; checked by all rules; one commit with two parents, or
none at all. A revert is the same with other sides: the base is the commit that is taken back, theirs is what it
followed. What is at odds is never guessed: all conflicts are reported together, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias, cast, get_args

from omnigraph.errors import Conflict, ConflictError, MergeConflicts, NotFound, ParameterError, Unsupported
from omnigraph.language.schema import Schema, split_by_kind
from omnigraph.manifest.branches import branch_names, delete_branch
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, commit_of
from omnigraph.manifest.references import Reference, find_commit, in_current_schema, resolve, take_snapshot
from omnigraph.manifest.rows import MAIN, TABLE_VERSION, CommitRecord
from omnigraph.manifest.snapshot import Pin, Snapshot
from omnigraph.read.changes import find_changed_tables
from omnigraph.storage.locks import Held, refs_lock
from omnigraph.write.commit import CommitOptions, PreparedWrite, TableChange, WriterKind, commit, heal, heal_branch
from omnigraph.write.merge.alignment import MergeBase
from omnigraph.write.merge.common_ancestors import build_merge_base, find_common_ancestors, take_snapshot_at
from omnigraph.write.merge.deltas import Counts
from omnigraph.write.merge.engine import LOCAL_MERGE_ENGINE, MergeEngine, MergePlan
from omnigraph.write.merge.resolution_file import Resolution, ResolutionInput, read_resolution
from omnigraph.write.merge.resolver import ConflictResolver, PreferredSide
from omnigraph.write.merge.rules import MergeSnapshots
from omnigraph.write.merge.three_way import MergeBy

MergeKind: TypeAlias = Literal["already-up-to-date", "fast-forward", "merged"]
UP_TO_DATE: Final = "already-up-to-date"


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What a merge or a revert did, or would do. ``commit`` is None when nothing was written.

    ``base``, ``source`` and ``target`` are commits: where the two met, what was merged, and what it was merged into.
    """

    outcome: MergeKind
    commit: Commit | None
    base: str
    source: str
    target: str
    conflicts: tuple[Conflict, ...]
    """What has to be decided, of a dry run."""
    nodes: Mapping[str, Counts]
    edges: Mapping[str, Counts]


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """How it is merged: what counts as the same thing changed, and who decides where both sides did."""

    by: MergeBy = "row"
    prefer: PreferredSide | None = None
    resolve: ResolutionInput | None = None
    dry_run: bool = False
    delete_branch: bool = False


def merge(
    manifest: Manifest,
    schema: Schema,
    source: Reference,
    manner: MergeOptions,
    terms: CommitOptions,
    means: MergeEngine = LOCAL_MERGE_ENGINE,
) -> MergeResult:
    """Merge a branch, a commit or a tag into a branch."""
    resolution = _check_options(manner)
    captured = _capture(manifest, source, terms.branch, dry_run=manner.dry_run)
    branch = captured.branch
    if manner.delete_branch and branch is None:
        raise ParameterError(f"'{source}' is no branch that could be deleted")
    shown = str(source) if branch is None else f"branch '{branch}'"
    terms = replace(
        terms,
        schema_ir_hash=schema.hash,
        message=terms.message or f"merge {shown} into '{terms.branch}'",
        merged_parent=captured.commit.id,
    )
    work = MergeOperation(
        manifest, schema, captured.snapshot, captured.commit, _MergeBaseFinder(captured), manner, resolution, means
    )
    result = _run(manifest, work, manner, terms)
    if branch is not None and manner.delete_branch and not manner.dry_run:
        _delete_merged(manifest, branch, captured.commit.id)
    return result


def revert(
    manifest: Manifest,
    schema: Schema,
    ref: Reference,
    side: int | None,
    manner: MergeOptions,
    terms: CommitOptions,
    means: MergeEngine = LOCAL_MERGE_ENGINE,
) -> MergeResult:
    """Take back what a commit did, as a new commit on a branch."""
    resolution = _check_options(manner)
    place = resolve(manifest, terms.branch, ref)
    if place.commit is None:
        raise NotFound(f"no commit at {ref}")
    undone = place.commit
    back_to = find_commit(manifest, undone.branch or MAIN, _choose_parent(undone, side))
    terms = replace(terms, schema_ir_hash=schema.hash, message=terms.message or f"revert {_describe_commit(undone)}")
    work = MergeOperation(
        manifest,
        schema,
        take_snapshot_at(manifest, back_to),
        back_to,
        _RevertBaseFinder(undone),
        manner,
        resolution,
        means,
        WriterKind.MUTATION,
    )
    return _run(manifest, work, manner, terms)


def _describe_commit(undone: CommitRecord) -> str:
    return undone.id if undone.message is None else f"{undone.id}: {undone.message}"


def _choose_parent(undone: CommitRecord, side: int | None) -> str:
    parents = [parent for parent in (undone.parent, undone.merged_parent) if parent is not None]
    if not parents:
        raise ParameterError(f"{undone.id} is the first commit: there is nothing to go back to")
    if side is None and len(parents) > 1:
        raise ParameterError(
            f"{undone.id} is a merge, and has two parents",
            hint=f"say which one to go back to: side 1 is {parents[0]}, side 2 is {parents[1]}",
            details={"commit": undone.id, "parents": parents},
        )
    if side is not None and not 1 <= side <= len(parents):
        raise ParameterError(f"{undone.id} has no side {side}", hint=f"it has {len(parents)}")
    return parents[(side or 1) - 1]


def _check_options(manner: MergeOptions) -> Resolution | None:
    for name, value, allowed in (("by", manner.by, MergeBy), ("prefer", manner.prefer, PreferredSide)):
        words = cast("tuple[str, ...]", get_args(allowed))
        if value is not None and value not in words:
            raise ParameterError(f"{name} is {value!r}", hint=f"use {' or '.join(words)}")
    return None if manner.resolve is None else read_resolution(manner.resolve)


def _run(manifest: Manifest, work: MergeOperation, manner: MergeOptions, terms: CommitOptions) -> MergeResult:
    if manner.dry_run:
        return work.compute(take_snapshot(manifest, terms.branch), keep_open=True).to_result(None)
    result = commit(manifest, work, terms)
    return result.outcome.to_result(None if result.commit is None else commit_of(result.commit))


# --------------------------------------------------------------------------------------------- what is merged


@dataclass(frozen=True, slots=True)
class _MergeSource:
    """What is merged, as it stood when the merge began."""

    commit: CommitRecord
    snapshot: Snapshot
    branch: str | None
    """The branch that it is the head of, if it was named as such."""


def _capture(manifest: Manifest, source: Reference, into: str, *, dry_run: bool) -> _MergeSource:
    """Read what is merged, under the lock that guards branches: nobody deletes it or makes it anew meanwhile.

    A dry run takes no lock and finishes nothing that a dead writer left: it writes not a byte.
    """
    if source == into:
        raise ParameterError(f"'{into}' cannot be merged into itself")
    branch = source if isinstance(source, str) and source in branch_names(manifest) else None
    if branch is not None and not dry_run:
        heal_branch(manifest, branch)
    with nullcontext() if dry_run else refs_lock(manifest.location, manifest.locks):
        place = resolve(manifest, branch or MAIN, source if branch is None else None)
        if place.commit is None:
            raise NotFound(f"there is no commit at '{source}' to merge")
        snapshot = take_snapshot(manifest, place.branch, None if branch else place.commit.id)
        if branch is None or snapshot.commit is None:
            return _MergeSource(place.commit, snapshot, branch)
        return _MergeSource(find_commit(manifest, branch, snapshot.commit.id), snapshot, branch)


def _delete_merged(manifest: Manifest, branch: str, merged: str) -> None:
    """Delete a branch that was merged; one that has got further commits meanwhile is kept."""

    def heal_and_compare(manifest: Manifest, held: Held, name: str) -> None:
        heal(manifest, held, name)
        head = manifest.view(name).head
        if head is not None and head.id != merged:
            raise ConflictError(
                f"branch '{name}' was merged, but not deleted: it has got commits since",
                hint="merge it again",
                details={"branch": name, "merged": merged, "head": head.id},
            )

    delete_branch(manifest, branch, heal_and_compare)


# --------------------------------------------------------------------------------------------- the work


@dataclass(frozen=True, slots=True)
class _FoundBase:
    """What both sides have seen, under which id, and what a merge of theirs would be called."""

    id: str
    outcome: MergeKind
    read: Callable[[], MergeBase]


@dataclass(frozen=True, slots=True)
class _MergeBaseFinder:
    """A merge begins where the two histories met."""

    source: _MergeSource
    joins_histories: bool = True
    """Whether the commit joins two histories."""

    def find(self, manifest: Manifest, ours: Snapshot, target: str) -> _FoundBase:
        source = self.source.commit
        met = find_common_ancestors(manifest, source.id, target, (ours.branch, self.source.snapshot.branch))
        outcome: MergeKind = "merged"
        if met.id == source.id:
            outcome = "already-up-to-date"
        elif met.id == target:
            outcome = "fast-forward"
        return _FoundBase(met.id, outcome, lambda: build_merge_base(manifest, met))


@dataclass(frozen=True, slots=True)
class _RevertBaseFinder:
    """A revert begins at the commit that is taken back."""

    reverted: CommitRecord
    joins_histories: bool = False

    def find(self, manifest: Manifest, ours: Snapshot, target: str) -> _FoundBase:
        del ours, target
        return _FoundBase(self.reverted.id, "merged", lambda: MergeBase(take_snapshot_at(manifest, self.reverted)))


@dataclass(frozen=True, slots=True)
class _MergeOutcome:
    """What came of the three sides."""

    outcome: MergeKind
    base: str
    source: str
    target: str
    counts: Mapping[str, Counts] = field(default_factory=dict[str, Counts])
    conflicts: tuple[Conflict, ...] = ()
    changes: tuple[TableChange, ...] = ()
    adopted: tuple[Pin, ...] = ()
    reads: frozenset[str] = frozenset()

    def to_result(self, made: Commit | None) -> MergeResult:
        """The public form."""
        nodes, edges = split_by_kind(self.counts)
        return MergeResult(self.outcome, made, self.base, self.source, self.target, self.conflicts, nodes, edges)


@dataclass(frozen=True, slots=True)
class MergeOperation:
    """A merge as the commit path takes it. It can be repeated on newer data: then the base is found anew too."""

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
        """Bring the sides together on a snapshot; ``MergeConflicts`` with all conflicts if there are any."""
        merged = self.compute(snapshot, keep_open=False)
        if merged.conflicts:
            count = len(merged.conflicts)
            raise MergeConflicts(f"{count} conflict{'' if count == 1 else 's'}", merged.conflicts)
        # Where the histories were joined they have met, even if no row changed.
        always = merged.outcome != UP_TO_DATE and self.base_finder.joins_histories
        return PreparedWrite(merged.changes, merged.reads, merged, merged.adopted, always)

    def compute(self, ours: Snapshot, *, keep_open: bool) -> _MergeOutcome:
        """What comes of the three sides. ``keep_open``: what a file leaves open is reported as a conflict."""
        if ours.commit is None:
            raise NotFound(f"branch '{ours.branch}' has no commit to merge into")
        target = ours.commit.id
        common = self.base_finder.find(self.manifest, ours, target)
        found = _MergeOutcome(common.outcome, common.id, self.source.id, target)
        choices = ConflictResolver(self.resolution, self.options.prefer)
        choices.refuse_stale(self.source.id, target, self.options.by)
        if common.outcome == UP_TO_DATE:
            choices.refuse_invalid((), ())
            return found
        base = self._in_current_schema(common.read())
        sides = MergeSnapshots(self.schema.catalog, base.snapshot, ours, self._theirs)
        brought = self.engine.merge_tables(sides, base, self.options.by, choices)
        undecided = ConflictResolver(None, None)
        possible = (
            self.engine.merge_tables(sides, base, self.options.by, undecided).open
            if choices.has_unmatched_entries
            else ()
        )
        choices.refuse_invalid(possible, None if keep_open else brought.open)
        if not self.base_finder.joins_histories and not brought.tables:
            found = replace(found, outcome=found.outcome if brought.open else UP_TO_DATE)
        return self._add_changes(found, base, ours, brought)

    @property
    def _theirs(self) -> Snapshot:
        """What is merged, as the current schema reads it: the rules that hold now are those that it has to keep."""
        return in_current_schema(self.manifest, self.theirs)

    def _in_current_schema(self, base: MergeBase) -> MergeBase:
        """The base as the current schema reads it: what changed since is what the two sides did to rows."""
        if base.overlays and base.snapshot.schema_ir_hash not in (None, self.schema.hash):
            raise Unsupported(
                "the two sides of this merge met several times before the schema changed",
                hint="merge by rows of an export, or merge the parts that were merged before, one by one",
                details={"schema": base.snapshot.schema_ir_hash, "current": self.schema.hash},
            )
        read = in_current_schema(self.manifest, base.snapshot)
        self._refuse_renamed(read, find_changed_tables(base.snapshot, self.theirs))
        return replace(base, snapshot=read)

    def _refuse_renamed(self, base: Snapshot, changed: Collection[str]) -> None:
        """Rows that were changed under a name which is another now cannot be told by the new one."""
        for table_key, old, new in base.lag.renamed() if base.lag is not None else ():
            if table_key in changed:
                raise Unsupported(
                    f"'{old}' was renamed to '{new}' after these changes of {table_key} were made",
                    hint="read both sides with `omnigraph diff`, and write what you want of it with a mutation",
                    details={"table_key": table_key, "old_name": old, "new_name": new},
                )

    def _add_changes(self, found: _MergeOutcome, base: MergeBase, ours: Snapshot, brought: MergePlan) -> _MergeOutcome:
        """The changes of the commit: rows that are written, and versions of main that are adopted as they are."""
        tables = brought.tables
        adopted = {key for key, table in tables.items() if not table.is_decided and self._can_adopt(base, ours, key)}
        return replace(
            found,
            counts={key: table.counts for key, table in tables.items()},
            conflicts=brought.open,
            changes=tuple(table.change for key, table in tables.items() if key not in adopted),
            adopted=tuple(self.theirs.pins[key] for key in sorted(adopted)),
            reads=brought.reads,
        )

    def _can_adopt(self, base: MergeBase, ours: Snapshot, key: str) -> bool:
        """Whether theirs is a newer version on main of the very table that ours has only ever inherited."""
        mine, other = ours.pins.get(key), self.theirs.pins.get(key)
        if not self.base_finder.joins_histories or ours.branch == MAIN or other is None or key in base.overlays:
            return False
        if mine is None:
            return False
        inherited = base.snapshot.pins.get(key) == mine and mine.branch != ours.branch
        newer = other.branch is None and other.version > mine.version
        return inherited and newer and not self._was_owned(ours.branch, key)

    def _was_owned(self, branch: str, table_key: str) -> bool:
        """Whether a branch ever had a fork of a table: an older release may have left it again."""
        condition = f"object_type = '{TABLE_VERSION}' AND table_key = '{table_key}' AND table_branch = '{branch}'"
        return self.manifest.open(branch).count_rows(condition) > 0
