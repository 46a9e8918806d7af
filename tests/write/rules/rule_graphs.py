"""A small graph for the tests of rules: ships that call at ports, written without checking any rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import pyarrow as pa

import omnigraph
from omnigraph.errors import Violation
from omnigraph.graph import Graph
from omnigraph.language.schema.catalog import Catalog
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage import tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.location import Location
from omnigraph.write.commit.section import CommitOptions, PreparedWrite, TableChange, commit_operation
from omnigraph.write.commit.sidecars import WriterKind
from omnigraph.write.rules.check import IncomingMode, RowChanges, RuleCheckResult, check_changes
from omnigraph.write.rules.set_rules import type_of_table

SCHEMA = """
node Ship { code: String @key  name: String?  flag: String?  hull: I64?  @unique(name)  @unique(flag, hull) }
node Port { code: String @key }
edge CallsAt: Ship -> Port @card(0..2) { note: String? @unique }
edge HomePort: Ship -> Port @card(1..1)
edge Tows: Ship -> Ship
"""

Row = Mapping[str, object]
Contents = Mapping[str, Sequence[Row]]
"""The rows of each table, by table key."""


def make_ship_graph(location: Location, contents: Contents | None = None) -> Graph:
    graph = omnigraph.init(location.uri, SCHEMA)
    if contents:
        put_rows(graph, contents)
    return graph


def table_of_rows(catalog: Catalog, table_key: str, rows: Sequence[Row]) -> pa.Table:
    """Rows in the columns of their table; what a row leaves out is null, an id that it leaves out is its key."""
    type_ = type_of_table(catalog, table_key)
    strict = arrow_schema(type_)
    schema = pa.schema([(name, cast("pa.DataType", strict.field(name).type)) for name in strict.names])
    full = [{"id": row.get("code"), **row} for row in rows]
    return pa.Table.from_pylist(cast("list[dict[str, object]]", full), schema=schema)


@dataclass(frozen=True, slots=True)
class _Append:
    """Appends rows as they are: what graphs of other releases may hold."""

    rows: Mapping[str, pa.Table]
    kind: WriterKind = WriterKind.LOAD
    strict: bool = False

    def prepare(self, snapshot: Snapshot) -> PreparedWrite[None]:  # noqa: ARG002  appending reads nothing
        changes = tuple(TableChange(key, partial(_append, rows=rows)) for key, rows in self.rows.items())
        return PreparedWrite(changes, frozenset(), None)


def _append(table: tables.Table, rows: pa.Table) -> tables.StagedChange | None:
    return tables.append(table, rows.select(table.schema.names).cast(table.schema))


def put_rows(graph: Graph, contents: Contents) -> None:
    catalog = graph.schema.catalog
    append_rows(graph, {key: table_of_rows(catalog, key, each) for key, each in contents.items()})


def append_rows(graph: Graph, rows: Mapping[str, pa.Table]) -> None:
    commit_operation(graph._manifest, _Append(rows), CommitOptions(schema_ir_hash=graph.schema.hash))


def make_changes(
    graph: Graph,
    table_key: str,
    incoming: Sequence[Row] = (),
    removed: Sequence[str] = (),
    mode: IncomingMode = IncomingMode.UPSERT,
) -> RowChanges:
    rows = table_of_rows(graph.schema.catalog, table_key, incoming)
    return RowChanges(table_key, rows, pa.array(removed, pa.string()), mode)


def check_graph(graph: Graph, *changes: RowChanges, limit: int | None = None) -> RuleCheckResult:
    return check_changes(graph.schema.catalog, graph.snapshot(), changes, limit)


def find_messages(graph: Graph, *changes: RowChanges) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """The violations, as much of them as says which they are."""
    return [summarize(violation) for violation in check_graph(graph, *changes).violations]


def summarize(violation: Violation) -> tuple[str, str, str, tuple[str, ...]]:
    return (violation.type, violation.rule, str(violation.value), violation.ids)
