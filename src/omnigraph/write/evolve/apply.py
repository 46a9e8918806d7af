"""Changing the schema of a graph: one commit on main that brings the tables along, or nothing.

Under the refs lock, so that no branch or tag comes meanwhile and no two schemas race. The new schema is kept in the
history first; the row that names it rides in the commit's publish, so it holds exactly when the tables fit it. Branches
keep their tables as they are: these lag, are read as if they had caught up, and catch up with their next write. The
files at the root, for readers of release 0.8, follow the commit and are repaired by whoever opens the graph to write.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from omnigraph.language.schema import MigrationPlan, Schema, Step, parse_schema, plan_migration
from omnigraph.language.source import Source
from omnigraph.manifest import contract, opening
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, commit_of
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.schema_lock import lock_for_0_8
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.locks import Held, refs_lock
from omnigraph.write.commit import CommitOptions, PreparedWrite, SchemaChange, WriterKind, commit, heal_branch
from omnigraph.write.evolve.refusals import (
    refuse_hard_drops,
    refuse_renames,
    refuse_unrelated_schema,
    refuse_unsupported,
)
from omnigraph.write.evolve.rules import check_new_rules
from omnigraph.write.evolve.schema_migration import SchemaMigration, drop_history
from omnigraph.write.executor import LOCAL, Executor

_MESSAGE: Final = "schema changed"


@dataclass(frozen=True, slots=True)
class SchemaApplied:
    """What came of it. Without a commit the graph had this schema already."""

    applied: bool
    commit: Commit | None
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class SchemaChangeOptions:
    """What may be done for a schema: lose what is dropped in every version, and write ids in their new form.

    ``runner`` runs the pieces of rows that are written anew.
    """

    allow_data_loss: bool = False
    rewrite_ids: bool = False
    executor: Executor = LOCAL


def plan_schema(manifest: Manifest, source: str | Path | Source, *, allow_data_loss: bool = False) -> MigrationPlan:
    """The steps from the schema that the graph has to another one. Nothing is changed."""
    current = opening.current_schema(manifest)
    return plan_migration(current.ir, parse_schema(source).ir, allow_data_loss=allow_data_loss)


def apply_schema(
    manifest: Manifest, source: str | Path | Source, manner: SchemaChangeOptions, terms: CommitOptions
) -> SchemaApplied:
    """Give the graph another schema, or say everything that stands in the way."""
    new = parse_schema(source)
    heal_branch(manifest, MAIN)
    with refs_lock(manifest.location, manifest.locks) as refs:
        old = opening.current_schema(manifest)
        plan = plan_migration(old.ir, new.ir, allow_data_loss=manner.allow_data_loss)
        refuse_unsupported(plan, new, source)
        if new.hash == old.hash and not manner.rewrite_ids:
            return SchemaApplied(applied=False, commit=None, steps=())
        refuse_unrelated_schema(plan, old)
        refuse_renames(manifest, plan)
        refuse_hard_drops(manifest, plan)
        with lock_for_0_8(manifest, refs):
            return _commit_schema(manifest, refs, old, new, manner, terms)


def _commit_schema(
    manifest: Manifest, refs: Held, old: Schema, new: Schema, manner: SchemaChangeOptions, terms: CommitOptions
) -> SchemaApplied:
    for schema in (old, new):
        # A graph of release 0.8 may never have kept the one that it has.
        refs.check()
        contract.keep_schema(manifest.objects, schema)
    work = SchemaChangeOperation(manifest, new, manner)
    made = commit(manifest, work, replace(terms, schema_ir_hash=new.hash, message=terms.message or _MESSAGE))
    plan = made.outcome
    if made.commit is None:
        return SchemaApplied(applied=False, commit=None, steps=())
    contract.project_root_files(manifest.objects, new)
    drop_history(manifest, refs, plan)
    return SchemaApplied(applied=True, commit=commit_of(made.commit), steps=plan.steps)


@dataclass(frozen=True, slots=True)
class SchemaChangeOperation:
    """The step to a schema, as work. What is written meanwhile is looked at again: it must fit the new rules too."""

    manifest: Manifest
    new: Schema
    options: SchemaChangeOptions
    kind: WriterKind = WriterKind.SCHEMA_APPLY
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[MigrationPlan]:
        """Check the rows against rules that they were never held against, then say what becomes of each table."""
        old = opening.schema_of(self.manifest, snapshot.schema_ir_hash)
        plan = plan_migration(old.ir, self.new.ir, allow_data_loss=self.options.allow_data_loss)
        manner = self.options
        migration = SchemaMigration(self.manifest, snapshot, self.new.catalog, plan, manner.rewrite_ids, manner.executor)
        check_new_rules(migration)
        changes, created, dropped = migration.list_changes(), migration.list_created(), migration.list_dropped()
        schema = None if old.hash == self.new.hash else SchemaChange(self.new.hash, old.hash)
        every = frozenset(snapshot.pins)
        return PreparedWrite(changes, every, plan, created=created, dropped=dropped, schema=schema)
