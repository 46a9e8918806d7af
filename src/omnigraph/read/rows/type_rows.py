"""Read the rows of one type with the columns that the schema of the snapshot declares, even from a lagging table.

A column that the table lacks reads as null or as its default, and values are cast to the declared types. In public,
the ends of an edge are called ``from`` and ``to``, as in records, and a DateTime is a timestamp in UTC.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, cast

import pyarrow as pa

from omnigraph.errors import NotFound
from omnigraph.language.schema import Catalog, EdgeType, NodeType, TableKey
from omnigraph.language.source import suggest_name
from omnigraph.language.types import Scalar
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.rows.public_values import to_public_schema
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import column_of
from omnigraph.storage.filters import Condition
from omnigraph.storage.lagging_columns import has_declared_column, read_declared_column
from omnigraph.storage.tables import ROW_ADDRESS, Table

PUBLIC_NAMES: Final = {"src": "from", "dst": "to"}
"""The public names of the table columns that have another one."""


@dataclass(frozen=True, slots=True)
class TypeRows:
    """The rows of one type. ``table`` is None while the branch has no table of the type."""

    type: NodeType | EdgeType
    table: Table | None

    def read(
        self,
        columns: Sequence[str],
        conditions: Sequence[Condition] = (),
        *,
        with_address: bool = False,
        in_fragments: Collection[int] | None = None,
        one_by_one: bool = False,
        batch_rows: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read columns, in their declared types, of the rows that satisfy all conditions.

        ``with_address`` adds the row addresses; a blob column then holds descriptors of where the bytes are stored.
        ``one_by_one`` bounds the memory of whoever reads slowly; ``batch_rows`` are the rows of a batch, at most.
        """
        if self.table is None:
            return
        schema = arrow_schema(self.type)
        declared = dict(zip(schema.names, schema.types, strict=True))
        stored = self.table.column_types
        pushed = [sql for each in conditions if (sql := self._push_down(each, stored)) is not None]
        rest = [each for each in conditions if self._push_down(each, stored) is None]
        required = list(dict.fromkeys([*columns, *(column for each in rest for column in each.columns)]))
        # Where the table has none of the columns, the ids give the number of rows.
        scanned = [name for name in required if name in stored] or ["id"]
        filter_ = " AND ".join(f"({sql})" for sql in pushed) or None
        batches = self.table.scan(
            scanned,
            filter=filter_,
            with_row_address=with_address,
            in_fragments=in_fragments,
            one_by_one=one_by_one,
            batch_rows=batch_rows,
        )
        if not rest and all(has_declared_column(self.type, stored, name) for name in columns):
            yield from batches
            return
        addresses = [ROW_ADDRESS] if with_address else []
        for batch in batches:
            found = {
                name: read_declared_column(self.type, self.table.lag, batch, name, declared[name]) for name in required
            }
            found |= {name: column_of(batch, name) for name in addresses}
            yield _filter_rows(pa.RecordBatch.from_pydict(found), rest).select([*columns, *addresses])

    def _push_down(self, condition: Condition, stored: Mapping[str, pa.DataType]) -> str | None:
        """Return the SQL of a condition if the table has its columns as declared."""
        same = all(has_declared_column(self.type, stored, column) for column in condition.columns)
        return condition.to_sql() if same else None


def open_type_rows(snapshot: Snapshot, type_: NodeType | EdgeType) -> TypeRows:
    """Open the rows of a type in a snapshot."""
    exists = type_.table_key in snapshot.pins
    return TypeRows(type_, snapshot.table(type_.table_key) if exists else None)


def require_node_type(catalog: Catalog, name: str) -> NodeType:
    """Return the node type of a name, or raise ``NotFound``."""
    found = catalog.nodes.get(name)
    if found is None:
        raise _type_not_found("node type", name, catalog.nodes)
    return found


def require_edge_type(catalog: Catalog, name: str) -> EdgeType:
    """Return the edge type of a name, in upper or lower case, or raise ``NotFound``."""
    found = catalog.find_edge(name)
    if found is None:
        raise _type_not_found("edge type", name, catalog.edges)
    return found


def require_type(catalog: Catalog, name: str) -> NodeType | EdgeType:
    """Return the type of a name or of a table key, or raise ``NotFound``. A node type wins over an edge type."""
    if TableKey.is_key(name):
        key = TableKey(name)
        return (
            require_node_type(catalog, key.type_name)
            if key.kind == "node"
            else require_edge_type(catalog, key.type_name)
        )
    found = catalog.nodes.get(name) or catalog.find_edge(name)
    if found is None:
        raise _type_not_found("type", name, [*catalog.nodes, *catalog.edges])
    return found


def _type_not_found(kind: str, name: str, known: Collection[str]) -> NotFound:
    hint = suggest_name(name, known, f"{kind}s")
    return NotFound(f"no {kind} '{name}' in this snapshot", hint=hint, details={"type": name})


# --------------------------------------------------------------------------------------------- filters


def _filter_rows(rows: pa.RecordBatch, conditions: Iterable[Condition]) -> pa.RecordBatch:
    for condition in conditions:
        rows = rows.filter(_combine_chunks(condition.evaluate(pa.Table.from_batches([rows]))))
    return rows


def _combine_chunks(mask: pa.BooleanArray) -> pa.BooleanArray:
    found = cast("pa.BooleanArray | pa.ChunkedArray[pa.BooleanScalar]", mask)
    return cast("pa.BooleanArray", found.combine_chunks()) if isinstance(found, pa.ChunkedArray) else found


# --------------------------------------------------------------------------------------------- columns


def value_columns_of(type_: NodeType | EdgeType) -> list[str]:
    """The columns of a type's table that are not blobs."""
    blobs = blob_properties_of(type_)
    return [name for name in arrow_schema(type_).names if name not in blobs]


def blob_properties_of(type_: NodeType | EdgeType) -> list[str]:
    """The properties that are blobs."""
    return [each.name for each in type_.properties.values() if each.type.scalar is Scalar.BLOB]


def public_schema_of(type_: NodeType | EdgeType, columns: Iterable[str]) -> pa.Schema:
    """The public schema of some columns of a type's table: public names and types."""
    declared = arrow_schema(type_)
    fields = [cast("pa.Field[pa.DataType]", declared.field(name)) for name in columns]
    types = to_public_schema(pa.schema(fields)).types
    return pa.schema(
        [
            pa.field(PUBLIC_NAMES.get(field.name, field.name), public_type, field.nullable)
            for field, public_type in zip(fields, types, strict=True)
        ]
    )
