"""One table before and after a change on Spark, in the parts that set rules speak of, as executors read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa

from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.spark.executor import ROWS_IN_A_TASK, Work, on_fragments
from omnigraph.spark.load.incoming import DistributedRows
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, is_not_among
from omnigraph.storage.missing import missing_column
from omnigraph.storage.pinned import Table
from omnigraph.write.executor import even_groups
from omnigraph.write.load import IncomingTable
from omnigraph.write.rules import Arrival, Part, Relation, type_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_IDS: Final = Relation("incoming", "", Part.INCOMING, {"id": ("id",)})
_NONE: Final[Values] = cast("Values", pa.array([], pa.string()))


@dataclass(frozen=True, slots=True)
class Reading:
    """How a task reads rows: columns in the types of the schema, without the rows of some ids.

    ``type`` is None where only ids are read.
    """

    schema: pa.Schema
    without: Values
    type: NodeType | EdgeType | None = None

    def rows(self, table: Table, fragments: Sequence[int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of some fragments. A table of a branch may lag behind the schema."""
        there = set(table.schema.names)
        # The id stands for the rows where the table has none of the columns.
        names = dict.fromkeys(name for name in (*columns, "id") if name in there)
        for batch in table.scan(list(names), in_fragments=fragments):
            kept = batch.filter(is_not_among(column_of(batch, "id"), self.without)) if len(self.without) else batch
            yield self._shaped(kept, columns)

    def _shaped(self, rows: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        shaped: dict[str, Values] = {}
        for name in names:
            type_ = cast("pa.DataType", self.schema.field(name).type)
            if self.type is None or name in rows.schema.names:
                shaped[name] = column_of(rows, name).cast(type_)
            else:
                shaped[name] = missing_column(self.type, name, rows.num_rows)
        return pa.record_batch(shaped)


@dataclass(frozen=True, slots=True)
class PartRows:
    """Rows of one table that are looked at: those of some fragments, given with the rows of each."""

    table: Table
    fragments: Mapping[int, int]
    reading: Reading

    @property
    def count(self) -> int:
        """How many there are, about: some may be deleted, or left out."""
        return sum(self.fragments.values())

    def mapped(self, session: SparkSession, work: Work, columns: str) -> DataFrame:
        """What executors make of them, in tasks of even size."""
        return on_fragments(session, self.table, even_groups(self.fragments, ROWS_IN_A_TASK), work, columns)


@dataclass(frozen=True, slots=True)
class ChangedOnSpark:
    """One table before and after a change: the rows that come, and the ids of rows that only go, if there are any."""

    session: SparkSession
    catalog: Catalog
    snapshot: Snapshot
    table_key: str
    coming: IncomingTable | None
    removed: PartRows | None = None

    @property
    def arrival(self) -> Arrival | None:
        """How rows come to it, if any do."""
        return self.coming and self.coming.arrival

    def relation(self, relation: Relation) -> DataFrame:
        """One part of the table, in the columns of a rule; one that is not known to be empty."""
        if relation.part is Part.INCOMING:
            return self._texts(self.incoming(), relation)
        pinned = self._texts(self.pinned(), relation)
        match relation.part, self.arrival:
            case Part.LOST, Arrival.UPSERT:
                assert self.removed is not None
                return pinned.join(self._texts(self.removed, _IDS), "id", "left_semi")
            case (Part.KEPT, Arrival.UPSERT) | (Part.LOST, _) if not self._is_met_by_none:
                return pinned.join(self._meeting_ids(), "id", "left_anti")
            case Part.GONE, Arrival.UPSERT:
                return pinned.join(self._meeting_ids(), "id", "left_semi")
            case _:
                return pinned

    def is_empty(self, part: Part) -> bool:
        """Whether it is known without a look that a part has no rows."""
        if part is Part.INCOMING:
            return self.coming is None or not self.coming.rows.count
        if part is Part.GONE and self.arrival is Arrival.UPSERT and self._is_met_by_none:
            return True
        return not self.depends_on_pin(part) or not self.snapshot.pins[self.table_key].row_count

    def depends_on_pin(self, part: Part) -> bool:
        """Whether a part is made of rows of the pinned version."""
        if self.table_key not in self.snapshot.pins:
            return False
        match part:
            case Part.INCOMING:
                return False
            case Part.KEPT:
                return self.arrival is not Arrival.OVERWRITE
            case Part.GONE:
                return self.arrival in (Arrival.UPSERT, Arrival.OVERWRITE)
            case Part.LOST:
                return self.arrival is Arrival.OVERWRITE or self.removed is not None

    def incoming(self) -> PartRows:
        """The rows that come in."""
        assert self.coming is not None
        rows = cast("DistributedRows", self.coming.rows.storage)
        return PartRows(rows.detached, rows.own, Reading(self._schema, self.coming.without, self._type))

    def pinned(self) -> PartRows:
        """The rows that were there before, all of them."""
        table = self.snapshot.table(self.table_key)
        return PartRows(table, table.fragment_rows(), Reading(self._schema, _NONE, self._type))

    @property
    def _is_met_by_none(self) -> bool:
        return self.is_empty(Part.INCOMING) and self.removed is None

    def _meeting_ids(self) -> DataFrame:
        """The ids of the rows that are replaced or removed."""
        found = [] if self.is_empty(Part.INCOMING) else [self.incoming()]
        if self.removed is not None:
            found.append(self.removed)
        return reduce(lambda some, others: some.unionByName(others), (self._texts(each, _IDS) for each in found))

    @property
    def _schema(self) -> pa.Schema:
        return arrow_schema(self._type)

    @property
    def _type(self) -> NodeType | EdgeType:
        return type_of(self.catalog, self.table_key)

    def _texts(self, rows: PartRows, relation: Relation) -> DataFrame:
        columns = ", ".join(f"{name} string" for name in relation.columns)
        return rows.mapped(self.session, partial(_texts, reading=rows.reading, relation=relation), columns)


def _texts(table: Table, fragments: Sequence[int], *, reading: Reading, relation: Relation) -> Iterator[pa.RecordBatch]:
    """The task of some fragments: a relation of a rule, made of their rows."""
    for rows in reading.rows(table, fragments, relation.physical_columns):
        yield relation.texts(rows)
