"""Change the schema of a graph: migrate the tables in one commit on main, or change nothing.

Rows are checked and rewritten without a lock. The commit runs under the refs lock, so that no branch or tag is created
meanwhile and two schema changes cannot race: what appeared since the check is looked at there. The new schema is stored
in the history first. The row that names it is published with the commit, so it is current exactly when the tables have
its shape. Branches keep their tables: a lagging branch is read as if it had caught up, and catches up with its next
write. The files at the root, for readers of release 0.8, are written after the commit; opening the graph for writing
repairs them.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from omnigraph.errors import LockTimeout
from omnigraph.language.schema import MigrationPlan, MigrationStep, Schema, parse_schema, plan_migration
from omnigraph.language.source import Source
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest import contract
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.history import Commit, to_commit
from omnigraph.manifest.opening import lock_for_0_8
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.locks import HeldLock, refs_lock
from omnigraph.write.commit import (
    AlreadyCommitted,
    CommitOptions,
    PreparedWrite,
    SchemaChange,
    WriterKind,
    commit_operation,
    finish_removals,
    heal_branch,
)
from omnigraph.write.evolve.refusals import (
    list_heads,
    refuse_hard_drops,
    refuse_renames,
    refuse_unrelated_schema,
    refuse_unsupported,
)
from omnigraph.write.evolve.rules import SetRuleCheck, check_new_rules, check_set_rules
from omnigraph.write.evolve.schema_migration import SchemaMigration, find_hard_drops
from omnigraph.write.executor import LOCAL, Executor

_MESSAGE: Final = "schema changed"
LONG_CHANGE_ROWS: Final = 1_000_000
"""A change that checks or rewrites more rows than these never does so under a lock, however often it is overtaken."""


@dataclass(frozen=True, slots=True)
class SchemaApplied:
    """The result of a schema change. ``commit`` is None if the graph already had this schema.

    ``replayed``: an earlier change with this ``txn`` or key made the commit; nothing was changed now.
    """

    applied: bool
    commit: Commit | None
    steps: tuple[MigrationStep, ...]
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class SchemaChangeOptions:
    """The options of a schema change: allow hard drops, and rewrite ids of a legacy form.

    ``executor`` checks and rewrites rows in parallel; ``check_set_rules`` checks rules on many rows together.
    """

    allow_data_loss: bool = False
    rewrite_ids: bool = False
    executor: Executor = LOCAL
    check_set_rules: SetRuleCheck = check_set_rules


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
    try:
        result = commit_operation(
            manifest,
            SchemaChangeOperation(manifest, new, source, options),
            replace(commit_options, schema_ir_hash=new.hash, message=commit_options.message or _MESSAGE),
        )
    except AlreadyCommitted as earlier:
        return SchemaApplied(applied=True, commit=to_commit(earlier.commit), steps=(), replayed=True)
    if result.commit is None:
        return SchemaApplied(applied=False, commit=None, steps=())
    if find_hard_drops(result.outcome):
        # Whoever makes a branch or a tag meanwhile finishes the removal first.
        with suppress(LockTimeout), refs_lock(manifest.location, manifest.locks) as refs:
            finish_removals(manifest, refs, own_commit=result.commit.id)
    return SchemaApplied(applied=True, commit=to_commit(result.commit), steps=result.outcome.steps)


@dataclass(frozen=True, slots=True)
class SchemaChangeOperation:
    """A schema change as a write operation. A retry checks again: concurrent writes must obey the new rules too."""

    manifest: Manifest
    new: Schema
    source: str | Path | Source
    options: SchemaChangeOptions
    kind: WriterKind = WriterKind.SCHEMA_APPLY
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[MigrationPlan]:
        """Refuse what cannot be changed, check the rows against the new rules, and return the change of each table."""
        old = contract.load_schema_of(self.manifest, snapshot.schema_ir_hash)
        plan = plan_migration(old.ir, self.new.ir, allow_data_loss=self.options.allow_data_loss)
        refuse_unsupported(plan, self.new, self.source)
        if self.new.hash == old.hash and not self.options.rewrite_ids:
            return PreparedWrite((), frozenset(), plan)
        refuse_unrelated_schema(plan, old)
        shown = list_heads(self.manifest)
        self._refuse_held(plan)
        migration = SchemaMigration(
            self.manifest, snapshot, self.new.catalog, plan, self.options.rewrite_ids, self.options.executor
        )
        check_new_rules(migration, self.options.check_set_rules)
        return PreparedWrite(
            migration.list_changes(),
            frozenset(snapshot.pins),
            plan,
            created=migration.list_created(),
            dropped=migration.list_dropped(),
            schema=None if old.hash == self.new.hash else SchemaChange(self.new.hash, old.hash),
            removals=frozenset(find_hard_drops(plan)),
            guard=partial(self._guard_commit, old, plan, shown),
            is_long=migration.count_slow_rows() > LONG_CHANGE_ROWS,
        )

    def _refuse_held(self, plan: MigrationPlan) -> None:
        """Refuse renames and hard drops while a branch, a tag or a commit stands in the way."""
        refuse_renames(self.manifest, plan)
        refuse_hard_drops(self.manifest, plan)

    @contextmanager
    def _guard_commit(
        self, old: Schema, plan: MigrationPlan, shown: Mapping[str, object], held: HeldLock
    ) -> Generator[None]:
        """Refuse again if branches or tags are other ones now; store the schemas; write the root files in the end."""
        if list_heads(self.manifest) != shown:
            self._refuse_held(plan)
        for schema in (old, self.new):
            # A graph of release 0.8 may not have its current schema in the history.
            held.check()
            contract.keep_schema(self.manifest.objects, schema)
        with lock_for_0_8(self.manifest, held):
            yield
            contract.project_root_files(self.manifest.objects, self.new)
