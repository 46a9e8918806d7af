"""Making a graph quick again: small files become large ones, indexes cover all rows, the manifest is compacted.

What the graph shows stays the same. Everything slow is staged before the branch's lock is taken, and a table that
somebody wrote to meanwhile is tried again, a few times, and else left for the next time: writers never wait for it.
All compactions are one commit, and all indexes a second one, since Lance puts an index on rows that lie still.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

from omnigraph.errors import HistoryGone, PublishContention
from omnigraph.maintain.compacting import plan_worthwhile_tasks, stage_compaction
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, commit_of
from omnigraph.manifest.opening import current_schema
from omnigraph.manifest.references import take_snapshot
from omnigraph.manifest.rows import MAIN, CommitRecord
from omnigraph.manifest.snapshot import Pin, Snapshot, open_pin, pins_of
from omnigraph.storage.locks import branch_lock
from omnigraph.write.commit import (
    CommitOptions,
    PreparedWrite,
    TableChange,
    WriteOperation,
    WriterKind,
    commit,
    heal,
    heal_all,
    is_foreign_commit,
)
from omnigraph.write.executor import LOCAL, Executor
from omnigraph.write.indexes import DeferredIndex, EnsureIndexesOperation, IndexReport, IndexSpec, list_required_indexes

_ATTEMPTS: Final = 5
"""How often a table that others write to is tried again."""
_BUSY: Final = f"others wrote to it {_ATTEMPTS} times meanwhile; run it again"
_MAINTENANCE: Final = frozenset({"Rewrite", "CreateIndex"})


@dataclass(frozen=True, slots=True)
class OptimizedTable:
    """What became of one table: how many pieces its rows lie in, and the columns that got an index over all rows."""

    table_key: str
    fragments_before: int
    fragments: int
    indexed: tuple[str, ...] = ()
    deferred: tuple[DeferredIndex, ...] = ()
    skipped: str | None = None
    """Why something that is due was not done."""


@dataclass(frozen=True, slots=True)
class Optimized:
    """What an optimize did. No commits: there was nothing to do."""

    branch: str
    tables: tuple[OptimizedTable, ...]
    commits: tuple[Commit, ...]
    manifest_compacted: bool


def optimize(
    manifest: Manifest,
    branch: str = MAIN,
    types: Iterable[str] | None = None,
    actor: str | None = None,
    runner: Executor = LOCAL,
) -> Optimized:
    """Compact the tables that a branch owns, build what the schema means of indexes, compact the manifest."""
    wanted = list_required_indexes(current_schema(manifest).catalog, types)
    heal_all(manifest)
    before = take_snapshot(manifest, branch)
    keys = tuple(key for key in dict.fromkeys(index.table_key for index in wanted) if key in before.pins)
    terms = CommitOptions(branch, manifest.schema_hash(), actor)
    compaction = _repeated(manifest, CompactionOperation(keys, runner), replace(terms, message="compact tables"))
    indexing = _repeated(manifest, IndexingOperation(wanted, runner), replace(terms, message="ensure indexes"))
    after = take_snapshot(manifest, branch)
    found = EnsureIndexesOperation(wanted).prepare(after).outcome
    shown = [_shown(key, before, after, found, compaction, indexing) for key in keys if key in after.pins]
    commits = tuple(commit_of(made) for made in (*compaction.commits, *indexing.commits))
    return Optimized(branch, tuple(shown), commits, _compact_manifest(manifest, branch))


def _shown(
    key: str, before: Snapshot, after: Snapshot, found: IndexReport, compaction: _UpkeepResult, indexing: _UpkeepResult
) -> OptimizedTable:
    present = {index.column for index in found.present if index.table_key == key}
    return OptimizedTable(
        key,
        len(before.table(key).fragment_rows()),
        len(after.table(key).fragment_rows()),
        tuple(column for column in indexing.columns.get(key, ()) if column in present),
        tuple(each for each in found.deferred if each.index.table_key == key and compaction.skipped.get(key) is None),
        compaction.skipped.get(key) or (_BUSY if key in (*compaction.left, *indexing.left) else None),
    )


# --------------------------------------------------------------------------------------------- the work


@dataclass(frozen=True, slots=True)
class UpkeepPlan:
    """What was found to do on a snapshot: the tables, where they stood, and those that cannot be done."""

    pins: Mapping[str, Pin]
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


UpkeepOperation = TypeVar("UpkeepOperation", "CompactionOperation", "IndexingOperation")


@dataclass(frozen=True, slots=True)
class CompactionOperation:
    """Larger fragments in place of small ones, where that pays."""

    table_keys: tuple[str, ...]
    runner: Executor = LOCAL
    kind: WriterKind = WriterKind.OPTIMIZE
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[UpkeepPlan]:
        """Look at the fragments of each table."""
        skipped, due = dict[str, str](), list[str]()
        for key in self.table_keys:
            reason = _obstacle(snapshot, key)
            if reason is not None:
                skipped[key] = reason
            elif key in snapshot.pins and plan_worthwhile_tasks(snapshot.table(key)):
                due.append(key)
        changes = tuple(TableChange(key, partial(stage_compaction, runner=self.runner), is_upkeep=True) for key in due)
        return PreparedWrite(changes, frozenset(), UpkeepPlan({key: snapshot.pins[key] for key in due}, skipped))

    def restrict_to(self, table_keys: Iterable[str]) -> CompactionOperation:
        """The same work on some tables."""
        return replace(self, table_keys=tuple(table_keys))


@dataclass(frozen=True, slots=True)
class IndexingOperation:
    """The indexes that are missing or do not cover all rows."""

    wanted: tuple[IndexSpec, ...]
    runner: Executor = LOCAL
    kind: WriterKind = WriterKind.ENSURE_INDICES
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[UpkeepPlan]:
        """Look what is there."""
        drifted = {key for key in dict.fromkeys(each.table_key for each in self.wanted) if _drift(snapshot, key)}
        there = tuple(index for index in self.wanted if index.table_key not in drifted)
        prepared = EnsureIndexesOperation(there, executor=self.runner).prepare(snapshot)
        changes = tuple(replace(change, is_upkeep=True) for change in prepared.changes)
        columns: dict[str, tuple[str, ...]] = {}
        for index in prepared.outcome.built:
            columns[index.table_key] = (*columns.get(index.table_key, ()), index.column)
        pins = {change.table_key: snapshot.pins[change.table_key] for change in changes}
        return PreparedWrite(changes, frozenset(), UpkeepPlan(pins, columns=columns))

    def restrict_to(self, table_keys: Iterable[str]) -> IndexingOperation:
        """The same work on some tables."""
        chosen = frozenset(table_keys)
        return replace(self, wanted=tuple(index for index in self.wanted if index.table_key in chosen))


def _obstacle(snapshot: Snapshot, table_key: str) -> str | None:
    """Why a table cannot be compacted here; None for one that can, or that the branch does not have."""
    pin = snapshot.pins.get(table_key)
    if pin is None:
        return None
    owner = pin.branch or MAIN
    if owner != snapshot.branch:
        return f"the table is that of branch '{owner}' until something is written to it here"
    if not snapshot.table(table_key).stable_row_ids:
        return "an older release made it without stable row ids"
    return _drift(snapshot, table_key)


def _drift(snapshot: Snapshot, table_key: str) -> str | None:
    """What stands in the way of every writer of a table: a commit that is not ours. What is ours is finished."""
    pin = snapshot.pins.get(table_key)
    if pin is None or (pin.branch or MAIN) != snapshot.branch:
        return None
    head = snapshot.table(table_key).newest()
    try:
        foreign = any(is_foreign_commit(each) for each in head.transactions(pin.version, head.version))
    except HistoryGone:
        foreign = True
    return "it was changed by another program; run `omnigraph repair`" if foreign else None


# --------------------------------------------------------------------------------------------- attempts


@dataclass(frozen=True, slots=True)
class _UpkeepResult:
    """What attempts came to: the commits, the tables that were left, and those that cannot be done."""

    commits: tuple[CommitRecord, ...]
    left: frozenset[str]
    skipped: Mapping[str, str]
    columns: Mapping[str, tuple[str, ...]]


def _repeated(manifest: Manifest, work: UpkeepOperation, terms: CommitOptions) -> _UpkeepResult:
    """Do the work; what others wrote to meanwhile is tried again on what they wrote."""
    commits: list[CommitRecord] = []
    skipped, columns = dict[str, str](), dict[str, tuple[str, ...]]()
    left: frozenset[str] = frozenset()
    for _ in range(_ATTEMPTS):
        made, due = _attempted(manifest, work, terms)
        commits += [] if made is None else [made]
        skipped |= due.skipped
        columns = {**due.columns, **columns}
        left = frozenset(_left_out(manifest, terms.branch, made, due.pins))
        if not left:
            break
        work = work.restrict_to(left)
    return _UpkeepResult(tuple(commits), left, skipped, columns)


def _attempted(
    manifest: Manifest, work: WriteOperation[UpkeepPlan], terms: CommitOptions
) -> tuple[CommitRecord | None, UpkeepPlan]:
    result = commit(manifest, work, terms)
    return result.commit, result.outcome


def _left_out(manifest: Manifest, branch: str, made: CommitRecord | None, due: Mapping[str, Pin]) -> Iterable[str]:
    """The tables that the commit does not have in their new form, because they moved since it was staged."""
    if made is None:
        return due
    pins = pins_of(manifest.view_at(branch, made.manifest_version))
    return [key for key, before in due.items() if key in pins and not _was_done(manifest, before, pins[key])]


def _was_done(manifest: Manifest, before: Pin, after: Pin) -> bool:
    if after.version != before.version + 1 or after.branch != before.branch:
        return False
    (made,) = open_pin(manifest, after).transactions(before.version, after.version)
    return made.operation in _MAINTENANCE


def _compact_manifest(manifest: Manifest, branch: str) -> bool:
    """Compact the manifest of a branch, under its lock, where that pays; whether it was."""
    with branch_lock(manifest.location, branch, manifest.locks) as held:
        heal(manifest, held, branch)
        for _ in range(_ATTEMPTS):
            view = manifest.writable_view(branch)
            held.check()
            try:
                return manifest.compacted(view).version != view.version
            except PublishContention:
                # A holder of the lease that woke up late: it publishes no more than once.
                continue
    return False
