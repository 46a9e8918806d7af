"""Rewrite ids of a legacy form to the current form of keys, in the nodes and in the edges that refer to them.

The new id of a node follows from its key, which is in its row. For the ends of edges the nodes are read once for each
large batch of edges, and only those that the batch refers to are kept. So memory does not grow with the graph, and
executors can rewrite any part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.schema import NodeType, TableKey
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, compute, is_among
from omnigraph.storage.keys import make_ids
from omnigraph.storage.tables import Table, combine_batches
from omnigraph.write.commit import TableShape
from omnigraph.write.row_values import SAMPLE_ROWS, can_have_legacy_ids, find_legacy_id

if TYPE_CHECKING:
    from omnigraph.write.evolve.schema_migration import SchemaMigration


@dataclass(frozen=True, slots=True)
class RewrittenNodes:
    """The nodes of a type whose ids are rewritten."""

    shape: TableShape
    table: Table

    @property
    def type(self) -> NodeType:
        """The type in the new schema."""
        assert isinstance(self.shape.type, NodeType)
        return self.shape.type

    @property
    def key(self) -> tuple[str, ...]:
        """The properties that make an id."""
        return self.type.key or ()

    def make_ids(self, nodes: pa.Table) -> Values:
        """Return the new ids of nodes, given with their key."""
        return compute("coalesce", cast("Values", make_ids(self.type, nodes)), column_of(nodes, "id"))

    def replace_ids(self, ids: Values) -> Values:
        """Return the new ids of nodes, given by their old ids. Other texts stay as they are."""
        known = self._map_ids(ids.unique())
        at = pc.index_in(ids, value_set=column_of(known, "old"))
        return compute("coalesce", column_of(known, "new").take(at), ids)

    def _map_ids(self, ids: Values) -> pa.Table:
        columns = arrow_schema(self.type).empty_table().select(["id", *self.key]).schema
        pieces = [pa.table({"old": pa.array([], pa.string()), "new": pa.array([], pa.string())})]
        for rows in combine_batches(columns, self.shape.read(self.table, columns)):
            found = rows.filter(is_among(column_of(rows, "id"), ids))
            pieces.append(pa.table({"old": column_of(found, "id"), "new": self.make_ids(found)}))
        return pa.concat_tables(pieces)


@dataclass(frozen=True, slots=True)
class IdRewrites:
    """The id columns of one table to rewrite: the nodes that each names. ``id`` names the rows themselves."""

    columns: Mapping[str, RewrittenNodes] = field(default_factory=dict[str, RewrittenNodes])

    def list_needed(self, names: list[str]) -> list[str]:
        """Return the columns that must be read to rewrite some columns."""
        own = self.columns.get("id")
        return list(dict.fromkeys((*names, *(own.key if own is not None and "id" in names else ()))))

    def apply(self, rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """Return the rows with rewritten ids."""
        return pa.RecordBatchReader.from_batches(rows.schema, self._rewrite_batches(rows))

    def _rewrite_batches(self, rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        for piece in combine_batches(rows.schema, rows):
            columns = [self._rewrite_column(piece, name) for name in piece.column_names]
            yield from pa.Table.from_arrays(columns, schema=rows.schema).to_batches()

    def _rewrite_column(self, rows: pa.Table, name: str) -> Values:
        nodes = self.columns.get(name)
        if nodes is None:
            return column_of(rows, name)
        return nodes.make_ids(rows) if name == "id" else nodes.replace_ids(column_of(rows, name))


def find_id_rewrites(migration: SchemaMigration) -> dict[str, IdRewrites]:
    """Find the tables with ids to rewrite, by table key."""
    rewritten: dict[str, RewrittenNodes] = {}
    for type_ in migration.catalog.nodes.values():
        table = migration.source_of(type_)
        if table is None or not can_have_legacy_ids(type_):
            continue
        if find_legacy_id(type_, _read_sample(migration, type_, table)) is not None:
            rewritten[type_.name] = RewrittenNodes(migration.shape_of(type_), table)
    found: dict[str, IdRewrites] = {
        TableKey.of_node(name): IdRewrites({"id": nodes}) for name, nodes in rewritten.items()
    }
    for edge in migration.catalog.edges.values():
        ends = {
            column: rewritten[name]
            for column, name in (("src", edge.from_type), ("dst", edge.to_type))
            if name in rewritten
        }
        if ends:
            found[edge.table_key] = IdRewrites(ends)
    return found


def _read_sample(migration: SchemaMigration, type_: NodeType, table: Table) -> pa.Table:
    """Read some ids and key values. A key property may have another name in the table."""
    key = type_.key or ()
    old_names = migration.shape_of(type_).old_names
    stored = [old_names.get(name) or name for name in key]
    return table.scan(["id", *stored], limit=SAMPLE_ROWS).read_all().rename_columns(["id", *key])
