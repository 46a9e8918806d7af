"""The migration of each table in a schema change: reshape, rewrite, create, rename or drop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from typing import Final

from omnigraph.errors import NotFound
from omnigraph.language.schema import (
    AddConstraint,
    Catalog,
    ChangeCardinality,
    DropMode,
    DropProperty,
    DropType,
    EdgeType,
    MigrationPlan,
    MigrationStep,
    NarrowEnum,
    NodeType,
    RenameProperty,
    RenameType,
    RequireProperty,
    Tier,
    TypeKind,
    table_directory,
)
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage import tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.locks import HeldLock, refs_lock
from omnigraph.storage.tables import StagedChange, Table, open_table
from omnigraph.write.commit import TableChange, TableCreation, TableRewrite, TableShape
from omnigraph.write.evolve.id_rewrites import IdRewrites, find_id_rewrites
from omnigraph.write.evolve.reshaped_rows import ReshapedRows
from omnigraph.write.executor import LOCAL, Executor

_OPERATION: Final = "schema"
"""The operation name for versions that no snapshot shows yet."""


@dataclass(frozen=True)
class SchemaMigration:
    """The migration of a snapshot of main to another schema."""

    manifest: Manifest
    snapshot: Snapshot
    catalog: Catalog
    plan: MigrationPlan
    rewrite_ids: bool = False
    executor: Executor = LOCAL

    @cached_property
    def old_keys(self) -> Mapping[str, str]:
        """The previous table keys of renamed types, by current key."""
        renames = [step for step in self.plan.steps if isinstance(step, RenameType)]
        return {step.new_key: step.old_key for step in renames}

    @cached_property
    def id_rewrites(self) -> Mapping[str, IdRewrites]:
        """The ids to rewrite, by the keys of the tables that contain them."""
        return find_id_rewrites(self) if self.rewrite_ids else {}

    def shape_of(self, type_: NodeType | EdgeType) -> TableShape:
        """Return the columns of a type with their previous names."""
        kind = TypeKind.NODE if isinstance(type_, NodeType) else TypeKind.EDGE
        renames = (step for step in self.plan.steps if isinstance(step, RenameProperty))
        return TableShape(
            type_, {step.to: step.from_ for step in renames if (step.type_kind, step.type_name) == (kind, type_.name)}
        )

    def source_of(self, type_: NodeType | EdgeType) -> Table | None:
        """Return the table that holds the rows of a type before the migration; None for a new type."""
        key = self.old_keys.get(type_.table_key, type_.table_key)
        return self.snapshot.table(key) if key in self.snapshot.pins else None

    def read_reshaped(self, type_: NodeType | EdgeType) -> ReshapedRows | None:
        """Return the rows of a type as the new schema reads them; None for a new type."""
        table = self.source_of(type_)
        ids = self.id_rewrites.get(type_.table_key)
        return None if table is None else ReshapedRows(self.shape_of(type_), table, ids)

    def list_changes(self) -> tuple[TableChange, ...]:
        """Return the changes of existing tables."""
        hard_drops = find_hard_drops(self.plan).intersection(self.list_dropped())
        return (*self._reshape_tables(), *(TableChange(key, _stage_empty) for key in sorted(hard_drops)))

    def _reshape_tables(self) -> Iterator[TableChange]:
        hard_drops = find_hard_drops(self.plan)
        for type_ in self.catalog.types():
            table = self.source_of(type_)
            if table is None or type_.table_key in self.old_keys:
                continue
            if type_.table_key in self.id_rewrites or type_.table_key in hard_drops:
                yield TableChange(type_.table_key, partial(self._rewrite_in_place, type_))
            elif not self.shape_of(type_).is_shape_of(table):
                yield TableChange(type_.table_key, partial(self.shape_of(type_).stage, executor=self.executor))

    def _rewrite_in_place(self, type_: NodeType | EdgeType, table: Table) -> StagedChange:
        return self._rewrite(type_, table, table)

    def _rewrite(self, type_: NodeType | EdgeType, source: Table, target: Table) -> StagedChange:
        """Stage the rows of a type in the new shape as the content of ``target``."""
        ids = self.id_rewrites.get(type_.table_key)
        changed = None if ids is None else ids.apply
        return TableRewrite(self.shape_of(type_), source, target, arrow_schema(type_), changed).stage(self.executor)

    def count_slow_rows(self) -> int:
        """Return how many rows are checked against new rules or written again."""
        checked, hard_drops = set(list_checked_tables(self.plan)), find_hard_drops(self.plan)
        found = 0
        for type_ in self.catalog.types():
            table = self.source_of(type_)
            if table is None:
                continue
            key = type_.table_key
            is_rewritten = key in self.old_keys or key in self.id_rewrites or key in hard_drops
            if is_rewritten or key in checked or self.shape_of(type_).rewrites_rows(table):
                found += self.snapshot.pins[self.old_keys.get(key, key)].row_count
        return found

    def list_created(self) -> tuple[TableCreation, ...]:
        """Return the tables to create: empty ones for new types, and those of renamed types with their rows."""
        return tuple(
            TableCreation(
                type_.table_key,
                self._location_of(type_),
                partial(self._open_or_create, type_),
                partial(self._stage_first_rows, type_),
                # A new folder is empty; only the rows of a renamed type take time to write.
                can_stage_early=type_.table_key in self.old_keys,
            )
            for type_ in self.catalog.types()
            if type_.table_key in self.old_keys or self.source_of(type_) is None
        )

    def list_dropped(self) -> tuple[str, ...]:
        """Return the keys of the tables to drop."""
        dropped = (step.table_key for step in self.plan.steps if isinstance(step, DropType))
        return tuple(key for key in (*dropped, *self.old_keys.values()) if key in self.snapshot.pins)

    # ----------------------------------------------------------------------------------------- new tables

    def _location_of(self, type_: NodeType | EdgeType) -> str:
        known = self.manifest.view(MAIN).tables.locations
        return known.get(type_.table_key) or table_directory(type_.table_key)

    def _open_or_create(self, type_: NodeType | EdgeType, held: HeldLock | None) -> Table:
        """Open the folder of a table that no snapshot shows. Create it, or advance it past the tombstoned versions."""
        if held is None:
            # Another schema change may be doing the same.
            with refs_lock(self.manifest.location, self.manifest.locks) as refs:
                return self._open_or_create(type_, refs)
        uri = self.manifest.location.join(self._location_of(type_))
        hidden_until = self.manifest.view(MAIN).tables.version_of(type_.table_key)
        try:
            table = open_table(uri, None, None, self.manifest.access)
        except NotFound:
            tables.create_empty_table(uri, arrow_schema(type_), _OPERATION, self.manifest.access)
            table = open_table(uri, None, None, self.manifest.access)
        while table.version < hidden_until:
            held.check()
            table = tables.commit(table, _stage_empty(table), _OPERATION)
        return table

    def _stage_first_rows(self, type_: NodeType | EdgeType, target: Table) -> StagedChange:
        source = self.source_of(type_)
        if source is None:
            return tables.overwrite(target, arrow_schema(type_).empty_table())
        return self._rewrite(type_, source, target)


def list_checked_tables(plan: MigrationPlan) -> dict[str, list[MigrationStep]]:
    """Return the steps that need a check of stored rows, by table key."""
    found: dict[str, list[MigrationStep]] = {}
    for step in plan.steps:
        if step.tier is Tier.VALIDATED and isinstance(
            step, AddConstraint | ChangeCardinality | NarrowEnum | RequireProperty
        ):
            found.setdefault(step.table_key, []).append(step)
    return found


def find_hard_drops(plan: MigrationPlan) -> set[str]:
    """Return the tables that a hard drop removes, or removes a property from, in every version."""
    hard_drops = [
        each for each in plan.steps if isinstance(each, DropType | DropProperty) and each.mode is DropMode.HARD
    ]
    return {each.table_key for each in hard_drops}


def _stage_empty(table: Table) -> StagedChange:
    return tables.overwrite(table, table.schema.empty_table())
