"""Read one table before and after a change on executors, in the parts that set rules refer to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, cast

import pyarrow as pa

from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.spark.executor import FragmentTask, SparkExecutor
from omnigraph.spark.key_filter import KeyFilter, KeySource
from omnigraph.spark.shuffle import PACK_COLUMNS, Packer
from omnigraph.spark.sized_frames import JoinKind, SizedFrame, divide_fragments, join_by_size, union_sized
from omnigraph.spark.task_errors import map_batches
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, is_not_among
from omnigraph.storage.lagging_columns import ColumnLag, read_declared_column
from omnigraph.storage.tables import Table, estimate_row_bytes, estimate_stored_row_bytes
from omnigraph.write.evolve import ReshapedRows
from omnigraph.write.load import IncomingTable, StagedRows
from omnigraph.write.rules import IncomingMode, Relation, TablePart, type_of_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_IDS: Final = Relation("incoming", "", TablePart.INCOMING, {"id": ("id",)})
_NONE: Final[Values] = cast("Values", pa.array([], pa.string()))


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads columns in the types of the schema, without the rows of some ids.

    ``type`` is None if only ids are read.
    """

    schema: pa.Schema
    excluded_ids: Values
    type: NodeType | EdgeType | None = None

    def read(self, table: Table, fragments: Sequence[int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows of some fragments. The table of a lagging branch may lack columns."""
        return self._convert(table, table.scan(self._list_stored(table, columns), in_fragments=fragments), columns)

    def find(self, table: Table, filter_: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows that match a filter."""
        return self._convert(table, table.scan(self._list_stored(table, columns), filter=filter_), columns)

    def _list_stored(self, table: Table, columns: Sequence[str]) -> list[str]:
        """List those of some columns that a table has, and the id if rows are excluded or counted by it."""
        stored = set(table.schema.names)
        found = [name for name in dict.fromkeys(columns) if name in stored]
        return found if found and not len(self.excluded_ids) else list(dict.fromkeys([*found, "id"]))

    def _convert(
        self, table: Table, batches: Iterable[pa.RecordBatch], columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            kept = (
                batch.filter(is_not_among(column_of(batch, "id"), self.excluded_ids))
                if len(self.excluded_ids)
                else batch
            )
            yield self._to_schema(kept, columns, table.lag)

    def _to_schema(self, rows: pa.RecordBatch, names: Sequence[str], lag: ColumnLag) -> pa.RecordBatch:
        converted: dict[str, Values] = {}
        for name in names:
            type_ = cast("pa.DataType", self.schema.field(name).type)
            if self.type is None:
                converted[name] = column_of(rows, name).cast(type_)
            else:
                converted[name] = read_declared_column(self.type, lag, rows, name, type_)
        return pa.record_batch(converted)


@dataclass(frozen=True, slots=True)
class FragmentRows:
    """The rows of some fragments of a table, with the row count of each fragment."""

    table: Table
    fragments: Mapping[int, int]
    reader: RowReader

    @property
    def count(self) -> int:
        """The number of rows, at most: some may be deleted or excluded."""
        return sum(self.fragments.values())

    def map(self, executor: SparkExecutor, task: FragmentTask, columns: Sequence[str], schema: str) -> DataFrame:
        """Run a task that reads some columns over the fragments, in groups of about equal size."""
        row_bytes = estimate_stored_row_bytes(self.table, columns)
        groups = divide_fragments(self.fragments, row_bytes, executor.parallelism)
        return executor.map_fragments(self.table, groups, task, schema)


class RuleTable(Protocol):
    """A table in the parts that set rules refer to."""

    def pack_relation(self, relation: Relation, packer: Packer) -> DataFrame:
        """Read and pack the relation of a rule."""
        ...

    def size_relation(self, relation: Relation) -> int:
        """Return the size of a relation in bytes, at most."""
        ...

    def is_empty(self, part: TablePart) -> bool:
        """Return whether a part is known to be empty without reading it."""
        ...


@dataclass(frozen=True, slots=True)
class StoredSparkTable:
    """A table whose rows stay and meet new rules, as if all of them were incoming; None if it has none."""

    executor: SparkExecutor
    rows: ReshapedRows | None

    def pack_relation(self, relation: Relation, packer: Packer) -> DataFrame:
        """Read and pack the relation of a rule."""
        assert self.rows is not None
        row_bytes = estimate_stored_row_bytes(self.rows.table, relation.physical_columns)
        groups = divide_fragments(self.rows.table.fragment_rows(), row_bytes, self.executor.parallelism)
        return self.executor.map_items(partial(_pack_stored, self.rows, relation, packer), groups, PACK_COLUMNS)

    def size_relation(self, relation: Relation) -> int:
        """Return the size of a relation in bytes, at most."""
        if self.rows is None:
            return 0
        schema = self.rows.schema
        row_bytes = sum(estimate_row_bytes(schema, columns) for columns in relation.columns.values())
        return row_bytes * sum(self.rows.table.fragment_rows().values())

    def is_empty(self, part: TablePart) -> bool:
        """Return whether a part is empty: all but the incoming rows are."""
        return self.rows is None or part is not TablePart.INCOMING


def _pack_stored(
    rows: ReshapedRows, relation: Relation, packer: Packer, fragments: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Task over fragments: convert stored rows to the relation of a rule, and pack them."""
    return packer.pack_batches(map(relation.encode, rows.read(relation.physical_columns, fragments)))


@dataclass(frozen=True, slots=True)
class ChangedSparkTable:
    """One table before and after a change: the incoming rows, and the ids of rows that are only deleted, if any."""

    executor: SparkExecutor
    catalog: Catalog
    snapshot: Snapshot
    table_key: str
    changes: IncomingTable | None
    removed: FragmentRows | None = None

    @property
    def mode(self) -> IncomingMode | None:
        """How the incoming rows are written, if there are any."""
        return self.changes and self.changes.mode

    def pack_relation(self, relation: Relation, packer: Packer) -> DataFrame:
        """Read and pack the relation of a rule: one part of the table, which is not known to be empty."""
        match relation.part, self.mode:
            case TablePart.INCOMING, _:
                return self._pack_rows(self.incoming(), relation, packer)
            case TablePart.DELETED, IncomingMode.UPSERT:
                assert self.removed is not None
                joined = self._join_ids(relation, self._read_texts(self.removed, _IDS), "left_semi")
            case (TablePart.KEPT, IncomingMode.UPSERT) | (TablePart.DELETED, _) if not self._replaces_nothing:
                joined = self._join_ids(relation, self._replaced_ids(), "left_anti")
            case TablePart.SUPERSEDED, IncomingMode.UPSERT:
                joined = self._join_ids(relation, self._replaced_ids(), "left_semi")
            case _:
                return self._pack_rows(self.pinned(), relation, packer)
        return map_batches(joined, packer.pack_batches, PACK_COLUMNS)

    def pack_pinned(self, relation: Relation, packer: Packer, keys: KeyFilter | None) -> DataFrame:
        """Read and pack the rows of the pinned version as a relation, also those that are replaced.

        ``keys`` leaves out rows whose packing key it does not contain.
        """
        return self._pack_rows(self.pinned(), relation, packer, keys)

    def list_incoming_keys(self, relation: Relation) -> KeySource:
        """Return where the values are read that incoming rows are joined by."""
        rows = self.incoming()
        task = partial(_map_relation, reader=rows.reader, relation=relation)
        return KeySource(rows.table, rows.fragments, task, relation.join_column)

    def size_relation(self, relation: Relation) -> int:
        """Return the size of a relation in bytes, at most."""
        rows = self.incoming() if relation.part is TablePart.INCOMING else self.pinned()
        return rows.count * self._row_bytes(relation)

    def _pack_rows(
        self, rows: FragmentRows, relation: Relation, packer: Packer, keys: KeyFilter | None = None
    ) -> DataFrame:
        task = partial(_pack_relation, reader=rows.reader, relation=relation, packer=packer, keys=keys)
        return rows.map(self.executor, task, relation.physical_columns, PACK_COLUMNS)

    def _join_ids(self, relation: Relation, ids: SizedFrame, how: JoinKind) -> DataFrame:
        pinned = self._read_texts(self.pinned(), relation)
        return join_by_size(pinned, ids, ["id"], how, self.executor.parallelism)

    def is_empty(self, part: TablePart) -> bool:
        """Return whether a part is known to be empty without reading it."""
        if part is TablePart.INCOMING:
            return self.changes is None or not self.changes.rows.count
        if part is TablePart.SUPERSEDED and self.mode is IncomingMode.UPSERT and self._replaces_nothing:
            return True
        return not self.depends_on_pin(part) or not self.snapshot.pins[self.table_key].row_count

    def depends_on_pin(self, part: TablePart) -> bool:
        """Return whether a part consists of rows of the pinned version."""
        if self.table_key not in self.snapshot.pins:
            return False
        match part:
            case TablePart.INCOMING:
                return False
            case TablePart.KEPT:
                return self.mode is not IncomingMode.OVERWRITE
            case TablePart.SUPERSEDED:
                return self.mode in (IncomingMode.UPSERT, IncomingMode.OVERWRITE)
            case TablePart.DELETED:
                return self.mode is IncomingMode.OVERWRITE or self.removed is not None

    def incoming(self) -> FragmentRows:
        """The incoming rows."""
        assert self.changes is not None
        rows = cast("StagedRows", self.changes.rows.storage)
        return FragmentRows(
            rows.detached, rows.own_fragments, RowReader(self._schema, self.changes.excluded_ids, self._type)
        )

    def pinned(self) -> FragmentRows:
        """All rows of the pinned version."""
        table = self.snapshot.table(self.table_key)
        return FragmentRows(table, table.fragment_rows(), RowReader(self._schema, _NONE, self._type))

    @property
    def _replaces_nothing(self) -> bool:
        return self.is_empty(TablePart.INCOMING) and self.removed is None

    def _replaced_ids(self) -> SizedFrame:
        """Read the ids of the rows that are replaced or deleted."""
        found = [] if self.is_empty(TablePart.INCOMING) else [self.incoming()]
        if self.removed is not None:
            found.append(self.removed)
        return union_sized(self._read_texts(each, _IDS) for each in found)

    @property
    def _schema(self) -> pa.Schema:
        return arrow_schema(self._type)

    @property
    def _type(self) -> NodeType | EdgeType:
        return type_of_table(self.catalog, self.table_key)

    def _read_texts(self, rows: FragmentRows, relation: Relation) -> SizedFrame:
        schema = ", ".join(f"{name} string" for name in relation.columns)
        task = partial(_map_relation, reader=rows.reader, relation=relation)
        frame = rows.map(self.executor, task, relation.physical_columns, schema)
        return SizedFrame(frame, rows.count, self._row_bytes(relation))

    def _row_bytes(self, relation: Relation) -> int:
        return sum(estimate_row_bytes(self._schema, columns) for columns in relation.columns.values())


def _map_relation(
    table: Table, fragments: Sequence[int], *, reader: RowReader, relation: Relation
) -> Iterator[pa.RecordBatch]:
    """Task over fragments: convert their rows to the relation of a rule."""
    for rows in reader.read(table, fragments, relation.physical_columns):
        yield relation.encode(rows)


def _pack_relation(
    table: Table,
    fragments: Sequence[int],
    *,
    reader: RowReader,
    relation: Relation,
    packer: Packer,
    keys: KeyFilter | None,
) -> Iterator[pa.RecordBatch]:
    """Task over fragments: convert their rows to the relation of a rule, and pack them, or those with some keys."""
    rows = _map_relation(table, fragments, reader=reader, relation=relation)
    if keys is not None:
        rows = (batch.take(keys.find(cast("pa.StringArray", column_of(batch, packer.key)))) for batch in rows)
    return packer.pack_batches(rows)
