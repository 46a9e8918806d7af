"""A stored table and the columns that the schema wants of it: whether they fit, and how they are made to.

Columns that come as null, go, or get another name cost nothing: the files stay. Where values change, a number that gets
wider or a column that must be filled, the rows are written anew, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast

import pyarrow as pa

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.read.rows import read_writable_blobs
from omnigraph.storage import table as tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of
from omnigraph.storage.lance_internals import can_reshape, is_blob
from omnigraph.storage.missing import missing_column
from omnigraph.storage.pinned import Table
from omnigraph.storage.staging import FragmentText, Staged
from omnigraph.write.executor import LOCAL, Executor, group_evenly

_Field: TypeAlias = "pa.Field[pa.DataType]"
_ROWS_IN_A_PIECE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class TableShape:
    """The columns of a type, and what those were called that have another name in the table.

    None stands for a column that is new, whatever the table has under its name.
    """

    type: NodeType | EdgeType
    old_names: Mapping[str, str | None] = field(default_factory=dict[str, str | None])

    def is_shape_of(self, table: Table) -> bool:
        """Whether the table has exactly these columns."""
        there = {column.name: column for column in _fields(table.schema)}
        wanted = _fields(arrow_schema(self.type))
        if self.old_names or len(there) != len(wanted):
            return False
        return all(_same(there.get(column.name), column) for column in wanted)

    def stage(self, table: Table, runner: Executor = LOCAL) -> Staged:
        """Give the table these columns."""
        return self._staged(table, arrow_schema(self.type), runner)

    def stage_nullable(self, table: Table) -> Staged:
        """The same, where a column that could be null still can: nobody looked whether it is."""
        could_be = {column.name for column in _fields(table.schema) if column.nullable}
        wanted = _fields(arrow_schema(self.type))
        loose = (column.with_nullable(column.nullable or column.name in could_be) for column in wanted)
        return self._staged(table, pa.schema(list(loose)), LOCAL)

    def _staged(self, table: Table, wanted: pa.Schema, runner: Executor) -> Staged:
        if can_reshape(table.schema, wanted, self.old_names):
            return tables.reshape(table, wanted, self.old_names)
        return TableRewrite(self, table, table, wanted).stage(runner)

    def read_nullable(self, table: Table, without: Collection[str]) -> pa.RecordBatchReader:
        """The same without some columns, and with null where it must not be."""
        wanted = (column for column in _fields(arrow_schema(self.type)) if column.name not in without)
        return self.read(table, pa.schema([column.with_nullable(nullable=True) for column in wanted]))

    def read(
        self, table: Table, wanted: pa.Schema, in_fragments: Collection[int] | None = None
    ) -> pa.RecordBatchReader:
        """The rows of a table, or of some fragments of it, in columns that are wanted, with the blobs themselves."""
        return pa.RecordBatchReader.from_batches(wanted, self._batches(table, wanted, in_fragments))

    def _batches(
        self, table: Table, wanted: pa.Schema, in_fragments: Collection[int] | None
    ) -> Iterator[pa.RecordBatch]:
        there = set(table.schema.names)
        sources = [self.old_names.get(name, name) for name in wanted.names]
        scanned = [name for name in sources if name is not None and name in there]
        for batch in table.scan(scanned, with_row_address=True, one_by_one=True, in_fragments=in_fragments):
            columns = [
                self._column(table, batch, column, source)
                for column, source in zip(_fields(wanted), sources, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=wanted)

    def _column(self, table: Table, batch: pa.RecordBatch, column: _Field, source: str | None) -> Values:
        if source is None or source not in batch.schema.names:
            return missing_column(self.type, column.name, batch.num_rows)
        if is_blob(column):
            return read_writable_blobs(table, source, batch)
        return column_of(batch, source).cast(column.type)


@dataclass(frozen=True, slots=True)
class TableRewrite:
    """All rows of a table written anew, as the content of the same one or of another, in pieces that may go anywhere.

    ``changed`` is what becomes of the rows on their way, if anything does.
    """

    shape: TableShape
    source: Table
    home: Table
    columns: pa.Schema
    transform: Callable[[pa.RecordBatchReader], pa.RecordBatchReader] | None = None

    def stage(self, runner: Executor) -> Staged:
        """Write them."""
        rows = self.source.fragment_rows()
        even = -(-sum(rows.values()) // runner.parallelism)
        pieces = group_evenly(rows, max(1, even if runner.parallelism == 1 else min(even, _ROWS_IN_A_PIECE)))
        written = runner.run(self.write_piece, pieces)
        return tables.overwrite_fragments(self.home, self.columns, [each for part in written for each in part])

    def write_piece(self, fragments: Collection[int]) -> tuple[FragmentText, ...]:
        """Write the rows of some fragments."""
        rows = self.shape.read(self.source, self.columns, fragments)
        return tables.write_rows(self.home, rows if self.transform is None else self.transform(rows), "overwrite")


def is_lagging(table: Table, type_: NodeType | EdgeType) -> bool:
    """Whether rows of the type cannot be added to a table as it is; that a column could be null as well is no harm."""
    there = {column.name: column for column in _fields(table.schema)}
    wanted = _fields(arrow_schema(type_))
    return len(there) != len(wanted) or not all(_holds(there.get(column.name), column) for column in wanted)


def _same(there: _Field | None, wanted: _Field) -> bool:
    return there is not None and _holds(there, wanted) and there.nullable == wanted.nullable


def _holds(there: _Field | None, wanted: _Field) -> bool:
    if there is None or (wanted.nullable and not there.nullable):
        return False
    return is_blob(there) if is_blob(wanted) else there.type == wanted.type


def _fields(schema: pa.Schema) -> list[_Field]:
    return cast("list[_Field]", list(schema))
