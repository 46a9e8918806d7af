"""What becomes of each table when the schema changes: which stay, get other columns, come, move or go."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

import pyarrow as pa

from omnigraph.errors import NotFound
from omnigraph.language.schema import (
    Catalog,
    DropMode,
    DropProperty,
    DropType,
    EdgeType,
    MigrationPlan,
    NodeType,
    RenameProperty,
    RenameType,
    TypeKind,
    table_directory,
)
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage import table as tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.locks import Held
from omnigraph.storage.pinned import Table, open_table
from omnigraph.storage.staging import Staged
from omnigraph.storage.versions import version_numbers
from omnigraph.write.commit import TableChange, TableCreation, TableRewrite, TableShape
from omnigraph.write.evolve.id_rewrites import IdRewrites, find_id_rewrites
from omnigraph.write.executor import LOCAL, Executor

_OPERATION: Final = "schema"
"""The operation that makes the folder of a table which nobody shows yet."""


@dataclass(frozen=True)
class SchemaMigration:
    """The way of a snapshot of main to another schema."""

    manifest: Manifest
    snapshot: Snapshot
    catalog: Catalog
    plan: MigrationPlan
    rewrite_ids: bool = False
    executor: Executor = LOCAL

    @cached_property
    def old_keys(self) -> Mapping[str, str]:
        """The tables that types were in before they got other names, by the keys that they have now."""
        renames = [step for step in self.plan.steps if isinstance(step, RenameType)]
        return {step.new_key: step.old_key for step in renames}

    @cached_property
    def id_rewrites(self) -> Mapping[str, IdRewrites]:
        """Rows whose ids are written in another form, by the keys of the tables that hold or name them."""
        return find_id_rewrites(self) if self.rewrite_ids else {}

    def shape_of(self, type_: NodeType | EdgeType) -> TableShape:
        """The columns of a type, and what they were called."""
        kind = TypeKind.NODE if isinstance(type_, NodeType) else TypeKind.EDGE
        renames = (step for step in self.plan.steps if isinstance(step, RenameProperty))
        return TableShape(
            type_, {step.to: step.from_ for step in renames if (step.type_kind, step.type_name) == (kind, type_.name)}
        )

    def source_of(self, type_: NodeType | EdgeType) -> Table | None:
        """The table that has the rows of a type now; None for a type that is new."""
        key = self.old_keys.get(type_.table_key, type_.table_key)
        return self.snapshot.table(key) if key in self.snapshot.pins else None

    def read_nullable_rows(
        self, type_: NodeType | EdgeType, table: Table, without: Collection[str]
    ) -> Iterator[pa.RecordBatch]:
        """The rows as the new schema has them, where what must not be null may be all the same, and no blobs."""
        rows = self.shape_of(type_).read_nullable(table, without)
        ids = self.id_rewrites.get(type_.table_key)
        return iter(rows if ids is None else ids.apply(rows))

    def list_changes(self) -> tuple[TableChange, ...]:
        """The tables that stay and change."""
        hard = find_hard_drops(self.plan).intersection(self.list_dropped())
        return (*self._reshape_tables(), *(TableChange(key, _stage_empty) for key in sorted(hard)))

    def _reshape_tables(self) -> Iterator[TableChange]:
        hard = find_hard_drops(self.plan)
        for type_ in self.catalog.types():
            table = self.source_of(type_)
            if table is None or type_.table_key in self.old_keys:
                continue
            if type_.table_key in self.id_rewrites or type_.table_key in hard:
                yield TableChange(type_.table_key, partial(self._rewrite_in_place, type_))
            elif not self.shape_of(type_).is_shape_of(table):
                yield TableChange(type_.table_key, partial(self.shape_of(type_).stage, executor=self.executor))

    def _rewrite_in_place(self, type_: NodeType | EdgeType, table: Table) -> Staged:
        return self._rewrite(type_, table, table)

    def _rewrite(self, type_: NodeType | EdgeType, source: Table, home: Table) -> Staged:
        """The rows of a type as the new schema has them, as the content of a table."""
        ids = self.id_rewrites.get(type_.table_key)
        changed = None if ids is None else ids.apply
        return TableRewrite(self.shape_of(type_), source, home, arrow_schema(type_), changed).stage(self.executor)

    def list_created(self) -> tuple[TableCreation, ...]:
        """The tables that are new: of types that came, without rows, and of renamed ones, with theirs."""
        return tuple(
            TableCreation(
                type_.table_key,
                self._location_of(type_),
                partial(self._open_or_create, type_),
                partial(self._stage_first_rows, type_),
                can_stage_early=True,
            )
            for type_ in self.catalog.types()
            if type_.table_key in self.old_keys or self.source_of(type_) is None
        )

    def list_dropped(self) -> tuple[str, ...]:
        """The tables that are not shown any more."""
        gone = (step.table_key for step in self.plan.steps if isinstance(step, DropType))
        return tuple(key for key in (*gone, *self.old_keys.values()) if key in self.snapshot.pins)

    # ----------------------------------------------------------------------------------------- new tables

    def _location_of(self, type_: NodeType | EdgeType) -> str:
        known = self.manifest.view(MAIN).tables.locations
        return known.get(type_.table_key) or table_directory(type_.table_key)

    def _open_or_create(self, type_: NodeType | EdgeType, held: Held | None) -> Table:
        """The folder of a table that nobody shows, made if it is not there, with a version that no tombstone hides."""
        uri = self.manifest.location.join(self._location_of(type_))
        hidden_until = self.manifest.view(MAIN).tables.version_of(type_.table_key)
        try:
            table = open_table(uri, None, None, self.manifest.access)
        except NotFound:
            tables.create_empty(uri, arrow_schema(type_), _OPERATION, self.manifest.access)
            table = open_table(uri, None, None, self.manifest.access)
        while table.version < hidden_until:
            if held is not None:
                held.check()
            table = tables.commit(table, _stage_empty(table), _OPERATION)
        return table

    def _stage_first_rows(self, type_: NodeType | EdgeType, home: Table) -> Staged:
        source = self.source_of(type_)
        if source is None:
            return tables.overwrite(home, arrow_schema(type_).empty_table())
        return self._rewrite(type_, source, home)


def find_hard_drops(plan: MigrationPlan) -> set[str]:
    """The tables of types that are dropped in every version, or that lose a property so."""
    hard = [each for each in plan.steps if isinstance(each, DropType | DropProperty) and each.mode is DropMode.HARD]
    return {each.table_key for each in hard}


def _stage_empty(table: Table) -> Staged:
    return tables.overwrite(table, table.schema.empty_table())


def drop_history(manifest: Manifest, refs: Held, plan: MigrationPlan) -> None:
    """Remove every version but the newest of the tables that a hard drop is about."""
    locations = manifest.view(MAIN).tables.locations
    for key in sorted(find_hard_drops(plan) & locations.keys()):
        table = open_table(manifest.location.join(locations[key]), None, None, manifest.access)
        refs.check()
        tables.drop_versions(table, [version for version in version_numbers(table) if version < table.version])
