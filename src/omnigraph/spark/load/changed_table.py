"""One table before and after a change on Spark, in the parts that set rules speak of, as executors read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa

from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.spark.executor import ROWS_PER_TASK, FragmentTask, map_fragments
from omnigraph.spark.load.incoming import DistributedRows
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, is_not_among
from omnigraph.storage.lagging_columns import read_declared_column
from omnigraph.storage.table import Table
from omnigraph.write.executor import group_evenly
from omnigraph.write.load import IncomingTable
from omnigraph.write.rules import IncomingMode, Relation, TablePart, type_of_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_IDS: Final = Relation("incoming", "", TablePart.INCOMING, {"id": ("id",)})
_NONE: Final[Values] = cast("Values", pa.array([], pa.string()))


@dataclass(frozen=True, slots=True)
class RowReader:
    """How a task reads rows: columns in the types of the schema, without the rows of some ids.

    ``type`` is None where only ids are read.
    """

    schema: pa.Schema
    without: Values
    type: NodeType | EdgeType | None = None

    def read(self, table: Table, fragments: Sequence[int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of some fragments. A table of a branch may lag behind the schema."""
        there = set(table.schema.names)
        # The id stands for the rows where the table has none of the columns.
        names = dict.fromkeys(name for name in (*columns, "id") if name in there)
        for batch in table.scan(list(names), in_fragments=fragments):
            kept = batch.filter(is_not_among(column_of(batch, "id"), self.without)) if len(self.without) else batch
            yield self._to_schema(kept, columns)

    def _to_schema(self, rows: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        shaped: dict[str, Values] = {}
        for name in names:
            type_ = cast("pa.DataType", self.schema.field(name).type)
            if self.type is None:
                shaped[name] = column_of(rows, name).cast(type_)
            else:
                shaped[name] = read_declared_column(self.type, rows, name, type_)
        return pa.record_batch(shaped)


@dataclass(frozen=True, slots=True)
class FragmentRows:
    """Rows of one table that are looked at: those of some fragments, given with the rows of each."""

    table: Table
    fragments: Mapping[int, int]
    reader: RowReader

    @property
    def count(self) -> int:
        """How many there are, about: some may be deleted, or left out."""
        return sum(self.fragments.values())

    def map(self, session: SparkSession, work: FragmentTask, columns: str) -> DataFrame:
        """What executors make of them, in tasks of even size."""
        return map_fragments(session, self.table, group_evenly(self.fragments, ROWS_PER_TASK), work, columns)


@dataclass(frozen=True, slots=True)
class ChangedSparkTable:
    """One table before and after a change: the rows that come, and the ids of rows that only go, if there are any."""

    session: SparkSession
    catalog: Catalog
    snapshot: Snapshot
    table_key: str
    coming: IncomingTable | None
    removed: FragmentRows | None = None

    @property
    def arrival(self) -> IncomingMode | None:
        """How rows come to it, if any do."""
        return self.coming and self.coming.mode

    def read_relation(self, relation: Relation) -> DataFrame:
        """One part of the table, in the columns of a rule; one that is not known to be empty."""
        if relation.part is TablePart.INCOMING:
            return self._read_texts(self.incoming(), relation)
        pinned = self._read_texts(self.pinned(), relation)
        match relation.part, self.arrival:
            case TablePart.DELETED, IncomingMode.UPSERT:
                assert self.removed is not None
                return pinned.join(self._read_texts(self.removed, _IDS), "id", "left_semi")
            case (TablePart.KEPT, IncomingMode.UPSERT) | (TablePart.DELETED, _) if not self._replaces_nothing:
                return pinned.join(self._replaced_ids(), "id", "left_anti")
            case TablePart.SUPERSEDED, IncomingMode.UPSERT:
                return pinned.join(self._replaced_ids(), "id", "left_semi")
            case _:
                return pinned

    def is_empty(self, part: TablePart) -> bool:
        """Whether it is known without a look that a part has no rows."""
        if part is TablePart.INCOMING:
            return self.coming is None or not self.coming.rows.count
        if part is TablePart.SUPERSEDED and self.arrival is IncomingMode.UPSERT and self._replaces_nothing:
            return True
        return not self.depends_on_pin(part) or not self.snapshot.pins[self.table_key].row_count

    def depends_on_pin(self, part: TablePart) -> bool:
        """Whether a part is made of rows of the pinned version."""
        if self.table_key not in self.snapshot.pins:
            return False
        match part:
            case TablePart.INCOMING:
                return False
            case TablePart.KEPT:
                return self.arrival is not IncomingMode.OVERWRITE
            case TablePart.SUPERSEDED:
                return self.arrival in (IncomingMode.UPSERT, IncomingMode.OVERWRITE)
            case TablePart.DELETED:
                return self.arrival is IncomingMode.OVERWRITE or self.removed is not None

    def incoming(self) -> FragmentRows:
        """The rows that come in."""
        assert self.coming is not None
        rows = cast("DistributedRows", self.coming.rows.storage)
        return FragmentRows(
            rows.detached, rows.own_fragments, RowReader(self._schema, self.coming.excluded_ids, self._type)
        )

    def pinned(self) -> FragmentRows:
        """The rows that were there before, all of them."""
        table = self.snapshot.table(self.table_key)
        return FragmentRows(table, table.fragment_rows(), RowReader(self._schema, _NONE, self._type))

    @property
    def _replaces_nothing(self) -> bool:
        return self.is_empty(TablePart.INCOMING) and self.removed is None

    def _replaced_ids(self) -> DataFrame:
        """The ids of the rows that are replaced or removed."""
        found = [] if self.is_empty(TablePart.INCOMING) else [self.incoming()]
        if self.removed is not None:
            found.append(self.removed)
        return reduce(lambda some, others: some.unionByName(others), (self._read_texts(each, _IDS) for each in found))

    @property
    def _schema(self) -> pa.Schema:
        return arrow_schema(self._type)

    @property
    def _type(self) -> NodeType | EdgeType:
        return type_of_table(self.catalog, self.table_key)

    def _read_texts(self, rows: FragmentRows, relation: Relation) -> DataFrame:
        columns = ", ".join(f"{name} string" for name in relation.columns)
        return rows.map(self.session, partial(_map_relation, reading=rows.reader, relation=relation), columns)


def _map_relation(
    table: Table, fragments: Sequence[int], *, reading: RowReader, relation: Relation
) -> Iterator[pa.RecordBatch]:
    """The task of some fragments: a relation of a rule, made of their rows."""
    for rows in reading.read(table, fragments, relation.physical_columns):
        yield relation.encode(rows)
