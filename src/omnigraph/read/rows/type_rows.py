"""Rows of one type as a snapshot has them: the columns that its schema declares, whatever those of the table are.

A table that lags behind the schema has nulls or defaults where it lacks a column, and its values are cast. Outside, the
ends of an edge are called ``from`` and ``to``, as in records, and a DateTime is a timestamp in UTC rather than Arrow's
date64, which loses the time of day in many hands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

import pyarrow as pa

from omnigraph.errors import NotFound
from omnigraph.language.schema import Catalog, EdgeType, NodeType, TableKey
from omnigraph.language.source import suggest_similar
from omnigraph.language.types import Scalar
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.rows.public_values import to_public_schema
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import column_of
from omnigraph.storage.filters import Condition
from omnigraph.storage.lagging_columns import read_declared_column
from omnigraph.storage.pinned import ROW_ADDRESS, Table

PUBLIC_NAMES: Final = {"src": "from", "dst": "to"}
"""The columns of a table that have another name outside."""


@dataclass(frozen=True, slots=True)
class TypeRows:
    """The rows of one type; ``table`` is None while a branch has no table of it yet."""

    type: NodeType | EdgeType
    table: Table | None

    def read(
        self,
        columns: Sequence[str],
        conditions: Sequence[Condition] = (),
        *,
        with_address: bool = False,
        in_fragments: Collection[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Columns of the table, in the types of the schema, of the rows that fulfil all conditions.

        With their addresses, blobs among the columns stay as the table shows them: where their bytes lie.
        """
        if self.table is None:
            return
        declared = dict(zip(*_names_and_types(arrow_schema(self.type)), strict=True))
        there = dict(zip(*_names_and_types(self.table.schema), strict=True))
        pushed = [sql for each in conditions if (sql := _pushed(each, declared, there)) is not None]
        rest = [each for each in conditions if _pushed(each, declared, there) is None]
        wanted = list(dict.fromkeys([*columns, *(column for each in rest for column in each.columns)]))
        # The id stands for the rows where the table has none of the columns.
        scanned = [name for name in wanted if name in there] or ["id"]
        filter_ = " AND ".join(f"({sql})" for sql in pushed) or None
        batches = self.table.scan(scanned, filter=filter_, with_row_address=with_address, in_fragments=in_fragments)
        if not rest and all(there.get(name) == declared[name] for name in columns):
            yield from batches
            return
        shown_last = [ROW_ADDRESS] if with_address else []
        for batch in batches:
            found = {name: read_declared_column(self.type, batch, name, declared[name]) for name in wanted}
            found |= {name: column_of(batch, name) for name in shown_last}
            yield _fulfilling(pa.RecordBatch.from_pydict(found), rest).select([*columns, *shown_last])


def open_type_rows(snapshot: Snapshot, type_: NodeType | EdgeType) -> TypeRows:
    """The rows of a type."""
    there = type_.table_key in snapshot.pins
    return TypeRows(type_, snapshot.table(type_.table_key) if there else None)


def require_node_type(catalog: Catalog, name: str) -> NodeType:
    """The node type of a name."""
    found = catalog.nodes.get(name)
    if found is None:
        raise _no_such("node type", name, catalog.nodes)
    return found


def require_edge_type(catalog: Catalog, name: str) -> EdgeType:
    """The edge type of a name, in any case."""
    found = catalog.edge(name)
    if found is None:
        raise _no_such("edge type", name, catalog.edges)
    return found


def require_type(catalog: Catalog, name: str) -> NodeType | EdgeType:
    """The type of a name, or of a table key; where a node and an edge type share the name, the node type."""
    if TableKey.is_key(name):
        key = TableKey(name)
        return (
            require_node_type(catalog, key.type_name)
            if key.kind == "node"
            else require_edge_type(catalog, key.type_name)
        )
    found = catalog.nodes.get(name) or catalog.edge(name)
    if found is None:
        raise _no_such("type", name, [*catalog.nodes, *catalog.edges])
    return found


def _no_such(kind: str, name: str, known: Iterable[str]) -> NotFound:
    return NotFound(f"no {kind} '{name}' in this snapshot", hint=suggest_similar(name, known), details={"type": name})


# --------------------------------------------------------------------------------------------- as the schema says


def _names_and_types(schema: pa.Schema) -> tuple[list[str], list[pa.DataType]]:
    return schema.names, schema.types


def _pushed(condition: Condition, declared: Mapping[str, pa.DataType], there: Mapping[str, pa.DataType]) -> str | None:
    """The filter of a condition, if the table has its columns as the schema declares them."""
    same = all(there.get(column) == declared[column] for column in condition.columns)
    return condition.sql() if same else None


def _fulfilling(rows: pa.RecordBatch, conditions: Iterable[Condition]) -> pa.RecordBatch:
    for condition in conditions:
        rows = rows.filter(_in_one_piece(condition.mask(pa.Table.from_batches([rows]))))
    return rows


def _in_one_piece(mask: pa.BooleanArray) -> pa.BooleanArray:
    found = cast("pa.BooleanArray | pa.ChunkedArray[pa.BooleanScalar]", mask)
    return cast("pa.BooleanArray", found.combine_chunks()) if isinstance(found, pa.ChunkedArray) else found


# --------------------------------------------------------------------------------------------- as it is shown


def value_columns_of(type_: NodeType | EdgeType) -> list[str]:
    """The columns of a type's table that hold values: all but blobs."""
    blobs = blob_properties_of(type_)
    return [name for name in arrow_schema(type_).names if name not in blobs]


def blob_properties_of(type_: NodeType | EdgeType) -> list[str]:
    """The properties that are blobs."""
    return [each.name for each in type_.properties.values() if each.type.scalar is Scalar.BLOB]


def public_schema_of(type_: NodeType | EdgeType, columns: Iterable[str]) -> pa.Schema:
    """Columns of a type's table as they are seen outside: by other names, and as other types."""
    declared = arrow_schema(type_)
    fields = [cast("pa.Field[pa.DataType]", declared.field(name)) for name in columns]
    types = to_public_schema(pa.schema(fields)).types
    return pa.schema(
        [
            pa.field(PUBLIC_NAMES.get(field.name, field.name), type_seen, field.nullable)
            for field, type_seen in zip(fields, types, strict=True)
        ]
    )
