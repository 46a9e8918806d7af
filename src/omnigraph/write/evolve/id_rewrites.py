"""Rewrite ids of a legacy form to the current form of keys, in the nodes and in the edges that refer to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ValidationError, Violation
from omnigraph.language.schema import NodeType, TableKey
from omnigraph.storage.columns import Values, column_of
from omnigraph.storage.keys import make_ids
from omnigraph.storage.table import Table
from omnigraph.write.row_values import SAMPLE_ROWS, can_have_legacy_ids, find_legacy_id
from omnigraph.write.rules import format_key

if TYPE_CHECKING:
    from omnigraph.write.evolve.schema_migration import SchemaMigration


@dataclass(frozen=True, slots=True)
class IdRewrites:
    """The id columns of one table to rewrite, each with a table of ``old`` and ``new`` ids."""

    columns: Mapping[str, pa.Table] = field(default_factory=dict[str, pa.Table])

    def apply(self, rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """Return the rows with rewritten ids."""
        return pa.RecordBatchReader.from_batches(rows.schema, self._rewrite_batches(rows))

    def _rewrite_batches(self, rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            columns = [
                _replace_ids(column_of(batch, name), self.columns[name])
                if name in self.columns
                else column_of(batch, name)
                for name in batch.schema.names
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def find_id_rewrites(migration: SchemaMigration) -> dict[str, IdRewrites]:
    """Find the tables with ids to rewrite, by table key."""
    rewritten: dict[str, pa.Table] = {}
    for type_ in migration.catalog.nodes.values():
        table = migration.source_of(type_)
        if table is None or not can_have_legacy_ids(type_):
            continue
        if find_legacy_id(type_, _read_keys(migration, type_, table, SAMPLE_ROWS)) is not None:
            rewritten[type_.name] = _map_ids(migration, type_, table)
    found: dict[str, IdRewrites] = {TableKey.of_node(name): IdRewrites({"id": ids}) for name, ids in rewritten.items()}
    for edge in migration.catalog.edges.values():
        ends = {
            column: rewritten[name]
            for column, name in (("src", edge.from_type), ("dst", edge.to_type))
            if name in rewritten
        }
        if ends:
            found[edge.table_key] = IdRewrites(ends)
    return found


def _read_keys(migration: SchemaMigration, type_: NodeType, table: Table, limit: int | None = None) -> pa.Table:
    """Read ids and key values. A key property may have another name in the table."""
    key = type_.key or ()
    old_names = migration.shape_of(type_).old_names
    stored = [old_names.get(name) or name for name in key]
    return table.scan(["id", *stored], limit=limit).read_all().rename_columns(["id", *key])


def _map_ids(migration: SchemaMigration, type_: NodeType, table: Table) -> pa.Table:
    rows = _read_keys(migration, type_, table)
    new = cast("Values", make_ids(type_, rows))
    ids = pa.table({"old": column_of(rows, "id"), "new": new})
    _refuse_ambiguous(type_, ids)
    return ids


def _refuse_ambiguous(type_: NodeType, ids: pa.Table) -> None:
    """Refuse ids shared by several rows: edges that refer to such an id would be ambiguous."""
    for column in ("old", "new"):
        counts = ids.group_by(column).aggregate([([], "count_all")])
        repeated = counts.filter(pc.field("count_all") > 1)[column].to_pylist()
        if repeated:
            shared = f"{len(repeated)} ids belong to several rows, such as '{repeated[0]}'"
            message = f"{format_key(type_)} on {type_.name}: {shared}"
            violations = [Violation(type_.name, format_key(type_), message, id=str(each)) for each in repeated]
            raise ValidationError(message, violations, hint="delete or correct the rows that share an id first")


def _replace_ids(values: Values, ids: pa.Table) -> Values:
    at = pc.index_in(values, value_set=column_of(ids, "old"))
    return pc.coalesce(column_of(ids, "new").take(at), values)
