"""Change the schema of a graph: migrate the tables in one commit on main, or change nothing.

It runs under the refs lock, so that no branch or tag is created meanwhile and two schema changes cannot race. The new
schema is stored in the history first. The row that names it is published with the commit, so it is current exactly when
the tables have its shape. Branches keep their tables: a lagging branch is read as if it had caught up, and catches up
with its next write. The files at the root, for readers of release 0.8, are written after the commit; opening the graph
for writing repairs them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from omnigraph.language.schema import MigrationPlan, MigrationStep, Schema, parse_schema, plan_migration
from omnigraph.language.source import Source
from omnigraph.manifest import contract
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, to_commit
from omnigraph.manifest.opening import lock_for_0_8
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.locks import HeldLock, refs_lock
from omnigraph.write.commit import (
    CommitOptions,
    PreparedWrite,
    SchemaChange,
    WriterKind,
    commit_operation,
    finish_removals,
    heal_branch,
)
from omnigraph.write.evolve.refusals import (
    refuse_hard_drops,
    refuse_renames,
    refuse_unrelated_schema,
    refuse_unsupported,
)
from omnigraph.write.evolve.rules import check_new_rules
from omnigraph.write.evolve.schema_migration import SchemaMigration, find_hard_drops
from omnigraph.write.executor import LOCAL, Executor

_MESSAGE: Final = "schema changed"


@dataclass(frozen=True, slots=True)
class SchemaApplied:
    """The result of a schema change. ``commit`` is None if the graph already had this schema."""

    applied: bool
    commit: Commit | None
    steps: tuple[MigrationStep, ...]


@dataclass(frozen=True, slots=True)
class SchemaChangeOptions:
    """The options of a schema change: allow hard drops, and rewrite ids of a legacy form.

    ``executor`` rewrites tables in parallel.
    """

    allow_data_loss: bool = False
    rewrite_ids: bool = False
    executor: Executor = LOCAL


def plan_schema(manifest: Manifest, source: str | Path | Source, *, allow_data_loss: bool = False) -> MigrationPlan:
    """Return the steps from the current schema to another one. Nothing is changed."""
    current = contract.load_current_schema(manifest)
    return plan_migration(current.ir, parse_schema(source).ir, allow_data_loss=allow_data_loss)


def apply_schema(
    manifest: Manifest, source: str | Path | Source, options: SchemaChangeOptions, commit_options: CommitOptions
) -> SchemaApplied:
    """Change the schema of the graph. Raise every obstacle before anything is written."""
    new = parse_schema(source)
    heal_branch(manifest, MAIN)
    with refs_lock(manifest.location, manifest.locks) as refs:
        finish_removals(manifest, refs)
        old = contract.load_current_schema(manifest)
        plan = plan_migration(old.ir, new.ir, allow_data_loss=options.allow_data_loss)
        refuse_unsupported(plan, new, source)
        if new.hash == old.hash and not options.rewrite_ids:
            return SchemaApplied(applied=False, commit=None, steps=())
        refuse_unrelated_schema(plan, old)
        refuse_renames(manifest, plan)
        checked_at = manifest.view(MAIN).version
        refuse_hard_drops(manifest, plan)
        operation = SchemaChangeOperation(manifest, new, options, checked_at)
        with lock_for_0_8(manifest, refs):
            return _commit_schema(refs, old, operation, commit_options)


def _commit_schema(
    refs: HeldLock, old: Schema, operation: SchemaChangeOperation, commit_options: CommitOptions
) -> SchemaApplied:
    manifest, new = operation.manifest, operation.new
    for schema in (old, new):
        # A graph of release 0.8 may not have its current schema in the history.
        refs.check()
        contract.keep_schema(manifest.objects, schema)
    result = commit_operation(
        manifest,
        operation,
        replace(commit_options, schema_ir_hash=new.hash, message=commit_options.message or _MESSAGE),
    )
    plan = result.outcome
    if result.commit is None:
        return SchemaApplied(applied=False, commit=None, steps=())
    contract.project_root_files(manifest.objects, new)
    finish_removals(manifest, refs, own_commit=result.commit.id)
    return SchemaApplied(applied=True, commit=to_commit(result.commit), steps=plan.steps)


@dataclass(frozen=True, slots=True)
class SchemaChangeOperation:
    """A schema change as a write operation. A retry checks again: concurrent writes must obey the new rules too.

    ``checked_at`` is the version of main at which nothing held its hard drops.
    """

    manifest: Manifest
    new: Schema
    options: SchemaChangeOptions
    checked_at: int
    kind: WriterKind = WriterKind.SCHEMA_APPLY
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[MigrationPlan]:
        """Check the rows against the new rules and return the change of each table."""
        old = contract.load_schema_of(self.manifest, snapshot.schema_ir_hash)
        plan = plan_migration(old.ir, self.new.ir, allow_data_loss=self.options.allow_data_loss)
        if snapshot.manifest_version != self.checked_at:
            # The commit that was the newest one is an older one now.
            refuse_hard_drops(self.manifest, plan)
        migration = SchemaMigration(
            self.manifest, snapshot, self.new.catalog, plan, self.options.rewrite_ids, self.options.executor
        )
        check_new_rules(migration)
        changes, created, dropped = migration.list_changes(), migration.list_created(), migration.list_dropped()
        schema = None if old.hash == self.new.hash else SchemaChange(self.new.hash, old.hash)
        all_tables = frozenset(snapshot.pins)
        removals = frozenset(find_hard_drops(plan))
        return PreparedWrite(
            changes, all_tables, plan, created=created, dropped=dropped, schema=schema, removals=removals
        )
