"""Whether a stored table has the columns of its type in the schema, and how to give them to it.

Adding a nullable column, dropping and renaming change no data file. A wider number type, or a column that needs a
default, rewrites the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import field
from typing import TypeAlias, cast

import pyarrow as pa

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.rows import read_writable_blobs
from omnigraph.storage import tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values
from omnigraph.storage.lagging_columns import NO_LAG, ColumnLag, read_renamed_column
from omnigraph.storage.lance_internals import can_reshape, is_blob
from omnigraph.storage.tables import FragmentText, StagedChange, Table
from omnigraph.write.executor import LOCAL, Executor, divide_evenly

_Field: TypeAlias = "pa.Field[pa.DataType]"


@dataclass(frozen=True, slots=True)
class TableShape:
    """The columns of a type, and the old names of those that are called otherwise in the table.

    The old name of a new column is None, even if the table has a column of its name.
    """

    type: NodeType | EdgeType
    old_names: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    lag: ColumnLag = NO_LAG
    """What new columns hold in the rows of a table that is several schemas older."""

    def is_shape_of(self, table: Table) -> bool:
        """Whether the table has exactly these columns."""
        stored = {column.name: column for column in _fields_of(table.schema)}
        declared = _fields_of(arrow_schema(self.type))
        if self.old_names or len(stored) != len(declared):
            return False
        return all(_is_same_column(stored.get(column.name), column) for column in declared)

    def stage(self, table: Table, executor: Executor = LOCAL) -> StagedChange:
        """Give the table these columns."""
        return self._stage_columns(table, arrow_schema(self.type), executor)

    def rewrites_rows(self, table: Table) -> bool:
        """Whether the rows have to be written again to get these columns."""
        return not self.is_shape_of(table) and not self._can_reshape(table, arrow_schema(self.type))

    def stage_nullable(self, table: Table, executor: Executor = LOCAL) -> StagedChange:
        """Give the table these columns, but keep nullable columns nullable: nobody has checked them for nulls.

        A property that was added as a nullable one, and is required now, is null in the rows of this table.
        """
        nullable = {column.name for column in _fields_of(table.schema) if column.nullable}
        nullable |= {name for name in self.lag.added if self.lag.reads_null(self.type, name)}
        declared = _fields_of(arrow_schema(self.type))
        columns = (column.with_nullable(column.nullable or column.name in nullable) for column in declared)
        return self._stage_columns(table, pa.schema(list(columns)), executor)

    def _stage_columns(self, table: Table, columns: pa.Schema, executor: Executor) -> StagedChange:
        if self._can_reshape(table, columns):
            return tables.reshape(table, columns, self.old_names)
        return TableRewrite(self, table, table, columns).stage(executor)

    def _can_reshape(self, table: Table, columns: pa.Schema) -> bool:
        # A column that is added without a rewrite is null, and a property that is nullable now may have had a default.
        all_null = all(self.lag.reads_null(self.type, name) for name in self.lag.added)
        return all_null and can_reshape(table.schema, columns, self.old_names)

    def read(
        self, table: Table, columns: pa.Schema, in_fragments: Collection[int] | None = None
    ) -> pa.RecordBatchReader:
        """Read the rows of a table, or of some of its fragments, in the given columns and with the bytes of blobs."""
        return pa.RecordBatchReader.from_batches(columns, self._read_batches(table, columns, in_fragments))

    def _read_batches(
        self, table: Table, columns: pa.Schema, in_fragments: Collection[int] | None
    ) -> Iterator[pa.RecordBatch]:
        stored = set(table.schema.names)
        sources = [self.old_names.get(name, name) for name in columns.names]
        scanned = [name for name in sources if name is not None and name in stored]
        for batch in table.scan(scanned, with_row_address=True, one_by_one=True, in_fragments=in_fragments):
            arrays = [
                self._read_column(table, batch, column, source)
                for column, source in zip(_fields_of(columns), sources, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=columns)

    def _read_column(self, table: Table, batch: pa.RecordBatch, column: _Field, source: str | None) -> Values:
        if is_blob(column) and source is not None and source in batch.schema.names:
            return read_writable_blobs(table, source, batch)
        return read_renamed_column(self.type, self.lag, batch, source, column)


@dataclass(frozen=True, slots=True)
class TableRewrite:
    """Rewrites all rows of ``source`` as the content of ``home``, in pieces that an executor may run anywhere.

    ``transform`` changes the rows on the way. It must pickle.
    """

    shape: TableShape
    source: Table
    home: Table
    columns: pa.Schema
    transform: Callable[[pa.RecordBatchReader], pa.RecordBatchReader] | None = None

    def stage(self, executor: Executor) -> StagedChange:
        """Write the rows and stage them as an overwrite."""
        written = executor.run(self.write_piece, divide_evenly(self.source.fragment_rows(), executor.parallelism))
        return tables.overwrite_fragments(self.home, self.columns, [each for part in written for each in part])

    def write_piece(self, fragments: Collection[int]) -> tuple[FragmentText, ...]:
        """Write the rows of some fragments."""
        rows = self.shape.read(self.source, self.columns, fragments)
        return tables.write_rows(self.home, rows if self.transform is None else self.transform(rows), "overwrite")


def is_lagging(table: Table, type_: NodeType | EdgeType) -> bool:
    """Whether rows of the type cannot be added to the table as it is. A column that is too nullable does not count."""
    stored = {column.name: column for column in _fields_of(table.schema)}
    declared = _fields_of(arrow_schema(type_))
    return len(stored) != len(declared) or not all(_can_hold(stored.get(column.name), column) for column in declared)


def _is_same_column(stored: _Field | None, declared: _Field) -> bool:
    return stored is not None and _can_hold(stored, declared) and stored.nullable == declared.nullable


def _can_hold(stored: _Field | None, declared: _Field) -> bool:
    if stored is None or (declared.nullable and not stored.nullable):
        return False
    return is_blob(stored) if is_blob(declared) else stored.type == declared.type


def _fields_of(schema: pa.Schema) -> list[_Field]:
    return cast("list[_Field]", list(schema))
