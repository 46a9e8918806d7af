"""Optimize a branch: merge small fragments into large ones, complete the indexes, compact the manifest.

The rows stay the same. All slow work is done before the branch's lock is taken, so that writers never wait for it. Of a
compaction the fragments are published that nobody touched meanwhile; a table of which nothing is left is tried again a
few times, then left for the next run. All compactions are one commit and all indexes a second one: a compaction moves
rows, which an index built before it would not cover.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from lance.optimize import CompactionTask

from omnigraph.errors import HistoryGone, PublishContention
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.contract import load_current_schema
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, to_commit
from omnigraph.manifest.references import take_snapshot
from omnigraph.manifest.rows import MAIN, CommitRecord
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage import tables
from omnigraph.storage.locks import branch_lock
from omnigraph.storage.tables import StagedChange, Table
from omnigraph.write.commit import (
    CommitOptions,
    PreparedWrite,
    TableChange,
    WriterKind,
    commit_operation,
    heal,
    heal_all,
    is_foreign_commit,
)
from omnigraph.write.executor import LOCAL, Executor
from omnigraph.write.indexes import (
    DeferredIndex,
    EnsureIndexesOperation,
    IndexReport,
    IndexSpec,
    commit_indexes,
    list_required_indexes,
)

_ATTEMPTS: Final = 5
"""How often a table that others write to is tried."""
_BUSY: Final = f"others changed its rows during all {_ATTEMPTS} attempts; run it again"
_MANY_FRAGMENTS: Final = 8
_MAX_REWRITE_RATIO: Final = 10
"""A large fragment is rewritten if it has at most this many times the rows that are merged into it."""


@dataclass(frozen=True, slots=True)
class OptimizedTable:
    """The result for one table: its number of fragments, and the columns whose index was built or completed."""

    table_key: str
    fragments_before: int
    fragments: int
    indexed: tuple[str, ...] = ()
    deferred: tuple[DeferredIndex, ...] = ()
    skipped: str | None = None
    """Why something that is due was not done; None if everything was."""


@dataclass(frozen=True, slots=True)
class Optimized:
    """The result of an optimize. Without commits, there was nothing to do."""

    branch: str
    tables: tuple[OptimizedTable, ...]
    commits: tuple[Commit, ...]
    manifest_compacted: bool


def optimize(
    manifest: Manifest,
    branch: str = MAIN,
    types: Iterable[str] | None = None,
    actor: str | None = None,
    executor: Executor = LOCAL,
) -> Optimized:
    """Compact the tables that a branch owns, build the indexes that the schema requires, compact the manifest."""
    heal_all(manifest)
    schema = load_current_schema(manifest)
    required = list_required_indexes(schema.catalog, types)
    before = take_snapshot(manifest, branch)
    keys = tuple(key for key in dict.fromkeys(index.table_key for index in required) if key in before.pins)
    options = CommitOptions(branch, schema.hash, actor)
    compaction = _compact(manifest, CompactionOperation(keys, executor), replace(options, message="compact tables"))
    indexable = _drop_drifted(take_snapshot(manifest, branch), required)
    indexing = commit_indexes(manifest, EnsureIndexesOperation(indexable, executor=executor), options)
    after = take_snapshot(manifest, branch)
    tables = [_report_table(key, before, after, compaction, indexing) for key in keys if key in after.pins]
    made = [to_commit(commit) for commit in compaction.commits] + ([indexing.commit] if indexing.commit else [])
    return Optimized(branch, tuple(tables), tuple(made), _compact_manifest(manifest, branch))


def _report_table(
    key: str, before: Snapshot, after: Snapshot, compaction: _CompactionResult, indexing: IndexReport
) -> OptimizedTable:
    return OptimizedTable(
        key,
        len(before.table(key).fragment_rows()),
        len(after.table(key).fragment_rows()),
        tuple(index.column for index in indexing.built if index.table_key == key),
        tuple(
            each for each in indexing.deferred if each.index.table_key == key and compaction.skipped.get(key) is None
        ),
        compaction.skipped.get(key) or (_BUSY if key in compaction.unfinished else None),
    )


# --------------------------------------------------------------------------------------------- compaction


def plan_worthwhile_tasks(table: Table, target_rows: int | None = None) -> tuple[CompactionTask, ...]:
    """Return the tasks of a compaction that are worth the rows that they rewrite."""
    return tuple(task for task in tables.plan_compaction(table, target_rows) if _is_worthwhile(task))


def _is_worthwhile(task: CompactionTask) -> bool:
    """Whether a task merges enough rows: a large fragment is not rewritten for the sake of a few."""
    fragments = sorted(task.fragments, key=lambda fragment: fragment.physical_rows)
    if len(fragments) == 1 or len(fragments) >= _MANY_FRAGMENTS:
        return True
    *small, largest = fragments
    gained = sum(fragment.num_rows for fragment in small) + largest.num_deletions
    return gained * _MAX_REWRITE_RATIO >= largest.num_rows


def stage_compaction(
    table: Table, executor: Executor, plan: Callable[[Table], tuple[CompactionTask, ...]] = plan_worthwhile_tasks
) -> StagedChange | None:
    """Stage the compaction of a table; None if there is nothing to gain."""
    return tables.stage_rewrites(table, executor.run(partial(tables.run_compaction, table), plan(table)))


# --------------------------------------------------------------------------------------------- the operation


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The tables to compact on a snapshot, and those that cannot be compacted, with the reason by table key."""

    table_keys: frozenset[str]
    skipped: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CompactionOperation:
    """Merges small fragments of some tables into larger ones, where that is worthwhile."""

    table_keys: tuple[str, ...]
    executor: Executor = LOCAL
    plan: Callable[[Table], tuple[CompactionTask, ...]] = plan_worthwhile_tasks
    kind: WriterKind = WriterKind.OPTIMIZE
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[CompactionPlan]:
        """Find the tables whose fragments are worth compacting."""
        skipped, due = dict[str, str](), list[str]()
        for key in self.table_keys:
            reason = _find_compaction_obstacle(snapshot, key)
            if reason is not None:
                skipped[key] = reason
            elif key in snapshot.pins and self.plan(snapshot.table(key)):
                due.append(key)
        stage = partial(stage_compaction, executor=self.executor, plan=self.plan)
        changes = tuple(TableChange(key, stage, carry_over=tables.carry_over_rewrites) for key in due)
        return PreparedWrite(changes, frozenset(), CompactionPlan(frozenset(due), skipped))


def _drop_drifted(snapshot: Snapshot, required: Iterable[IndexSpec]) -> tuple[IndexSpec, ...]:
    """Return the indexes of tables that no other program has changed."""
    required = tuple(required)
    drifted = {key for key in {index.table_key for index in required} if _find_foreign_change(snapshot, key)}
    return tuple(index for index in required if index.table_key not in drifted)


def _find_compaction_obstacle(snapshot: Snapshot, table_key: str) -> str | None:
    """Return why a table cannot be compacted on this branch; None if it can, or if the branch does not have it."""
    pin = snapshot.pins.get(table_key)
    if pin is None:
        return None
    owner = pin.branch or MAIN
    if owner != snapshot.branch:
        return f"branch '{owner}' owns the table until this branch writes to it"
    if not snapshot.table(table_key).has_stable_row_ids:
        return "an older release created it without stable row ids"
    return _find_foreign_change(snapshot, table_key)


def _find_foreign_change(snapshot: Snapshot, table_key: str) -> str | None:
    """Return an obstacle for every writer: a commit of another program beyond the pin. Our own are finished."""
    pin = snapshot.pins.get(table_key)
    if pin is None or (pin.branch or MAIN) != snapshot.branch:
        return None
    head = snapshot.table(table_key).refresh()
    try:
        is_foreign = any(is_foreign_commit(each) for each in head.read_commits(pin.version, head.version))
    except HistoryGone:
        is_foreign = True
    return "it was changed by another program; run `omnigraph repair`" if is_foreign else None


# --------------------------------------------------------------------------------------------- attempts


@dataclass(frozen=True, slots=True)
class _CompactionResult:
    """The result of all attempts: the commits, the tables that stay to be done, and those that cannot be done."""

    commits: tuple[CommitRecord, ...]
    unfinished: frozenset[str]
    skipped: Mapping[str, str]


def _compact(manifest: Manifest, operation: CompactionOperation, options: CommitOptions) -> _CompactionResult:
    """Compact the tables; repeat it for those whose fragments were all touched meanwhile."""
    commits: list[CommitRecord] = []
    skipped: dict[str, str] = {}
    unfinished: frozenset[str] = frozenset()
    for _ in range(_ATTEMPTS):
        result = commit_operation(manifest, operation, options)
        commits += [] if result.commit is None else [result.commit]
        skipped |= result.outcome.skipped
        unfinished = result.outcome.table_keys - result.tables
        if not unfinished:
            break
        operation = replace(operation, table_keys=tuple(sorted(unfinished)))
    return _CompactionResult(tuple(commits), unfinished, skipped)


def _compact_manifest(manifest: Manifest, branch: str) -> bool:
    """Compact the manifest of a branch under its lock if that is worthwhile, and return whether it was."""
    with branch_lock(manifest.location, branch, manifest.locks) as held:
        heal(manifest, held, branch)
        for _ in range(_ATTEMPTS):
            view = manifest.writable_view(branch)
            held.check()
            try:
                return manifest.compact(view).version != view.version
            except PublishContention:
                # An earlier lease holder that woke up late; it publishes at most once.
                continue
    return False
