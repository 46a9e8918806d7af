"""Prove on Spark that a merge breaks no rule on unique values or on the number of edges, so that it needs no SQL.

A row that is replaced does not count, and which rows are replaced only a join by ids tells. But both rules restrict how
many rows share a value, and a merge seldom changes the value of a row. So rows are compared by value: a stored row with
the value and the id of an incoming one is the row that it replaces. Each other stored row with an incoming value counts
as if it stayed. If even so no value has too many rows, the rule holds; else SQL decides.

Stored rows are looked up by the incoming values, if those are few and an index finds them. Else they are read, and a
filter of the incoming values leaves out most before they are sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lazy_dataclass import dataclass
from omnigraph.spark.executor import SparkExecutor, union_all
from omnigraph.spark.id_lookup import can_look_up_texts
from omnigraph.spark.key_filter import KeyFilter, can_filter_keys, collect_key_filter
from omnigraph.spark.rules.changed_table import ChangedSparkTable, FragmentRows
from omnigraph.spark.shuffle import Packer, ReceivedRows, gather_packs, receive_rows
from omnigraph.spark.sized_frames import count_partitions
from omnigraph.spark.task_errors import map_batches
from omnigraph.storage.columns import Values, column_of
from omnigraph.storage.filters import list_filter
from omnigraph.storage.lagging_columns import has_declared_column
from omnigraph.storage.tables import split_for_filters
from omnigraph.write.rules import IncomingMode, Relation, RuleKind, SetRule, TablePart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FAILED: Final = pa.schema([pa.field("check", pa.int32())])


class _MergeSide(IntEnum):
    """The streams of a check."""

    INCOMING = 0
    STORED = 1


@dataclass(frozen=True, slots=True)
class _MergeCheck:
    """Incoming and stored rows of one table as ids and values; no value may have more than ``max_count`` rows.

    ``lookup`` are the stored rows if they are looked up by the incoming values, and not read.
    """

    rule: SetRule
    table: ChangedSparkTable
    max_count: int
    lookup: FragmentRows | None

    @property
    def incoming(self) -> Relation:
        return next(each for each in self.rule.relations if each.part is TablePart.INCOMING)

    @property
    def stored(self) -> Relation:
        return next(each for each in self.rule.relations if each.part is TablePart.KEPT)

    @property
    def size(self) -> int:
        """The size of all rows that are sent, in bytes, at most."""
        size = self.table.size_relation(self.incoming)
        return size if self.lookup is not None else size + self.table.size_relation(self.stored)

    def filter_keys(self, executor: SparkExecutor) -> KeyFilter | None:
        """Return a filter of the incoming values, if it would leave out most of the stored rows."""
        count = self.table.incoming().count
        if self.lookup is not None or not can_filter_keys(count, self.table.pinned().count):
            return None
        return collect_key_filter(executor, [self.table.list_incoming_keys(self.incoming)], count)

    def pack(self, executor: SparkExecutor, number: int, partitions: int) -> Iterator[DataFrame]:
        """Yield the rows, packed by their values."""
        key = self.incoming.join_column
        yield self.table.pack_relation(self.incoming, Packer(number, _MergeSide.INCOMING, key, partitions))
        if self.lookup is None:
            packer = Packer(number, _MergeSide.STORED, key, partitions)
            yield self.table.pack_pinned(self.stored, packer, self.filter_keys(executor))


def find_unproven_merges(
    executor: SparkExecutor, rules: Sequence[SetRule], changed: Mapping[str, ChangedSparkTable]
) -> tuple[SetRule, ...]:
    """Return those of some rules that could not be proven to hold; one job runs all checks."""
    proven = {id(rule) for rule in rules if _only_loses_edges(rule, changed)}
    checks = [check for rule in rules if id(rule) not in proven for check in _plan_check(rule, changed)]
    if checks:
        failed = _find_failed_checks(executor, checks)
        proven |= {id(check.rule) for number, check in enumerate(checks) if number not in failed}
    return tuple(rule for rule in rules if id(rule) not in proven)


def _only_loses_edges(rule: SetRule, changed: Mapping[str, ChangedSparkTable]) -> bool:
    """Return whether a rule only says how many edges a node may have at most, and none comes in."""
    is_maximum = rule.kind is RuleKind.CARDINALITY and rule.limits.minimum == 0
    return is_maximum and changed[rule.relations[0].table_key].is_empty(TablePart.INCOMING)


def _plan_check(rule: SetRule, changed: Mapping[str, ChangedSparkTable]) -> Iterator[_MergeCheck]:
    """Yield the check of a rule, if there is one. A minimum needs to know which nodes lose edges."""
    table = changed[rule.relations[0].table_key]
    if table.mode is not IncomingMode.UPSERT or table.is_empty(TablePart.INCOMING) or table.is_empty(TablePart.KEPT):
        return
    match rule.kind:
        case RuleKind.UNIQUE if rule.relations[0].columns["value"] != ("id",):
            yield _MergeCheck(rule, table, 1, _plan_lookup(rule, table))
        case RuleKind.CARDINALITY if rule.limits.minimum == 0 and rule.limits.maximum is not None:
            yield _MergeCheck(rule, table, rule.limits.maximum, _plan_lookup(rule, table))
        case _:
            return


def _plan_lookup(rule: SetRule, table: ChangedSparkTable) -> FragmentRows | None:
    """Return the stored rows if it costs less to look up the incoming values than to read and shuffle all."""
    incoming = rule.relations[0]
    (column, *others), stored, count = incoming.columns[incoming.join_column], table.pinned(), table.incoming().count
    type_ = stored.reader.type
    if others or type_ is None or not has_declared_column(type_, stored.table.column_types, column):
        return None
    is_text = pa.types.is_string(cast("pa.DataType", stored.reader.schema.field(column).type))
    return stored if is_text and can_look_up_texts(stored.table, column, count) else None


def _find_failed_checks(executor: SparkExecutor, checks: Sequence[_MergeCheck]) -> frozenset[int]:
    partitions = count_partitions(sum(check.size for check in checks), executor.parallelism)
    packs = union_all(
        frame for number, check in enumerate(checks) for frame in check.pack(executor, number, partitions)
    )
    tasks = [_PartitionCheck(check.stored, check.max_count, check.lookup) for check in checks]
    found = map_batches(gather_packs(packs, partitions), partial(_run_checks, tasks), "check int")
    return frozenset(number for (number,) in cast("list[tuple[int]]", executor.collect(found)))


# --------------------------------------------------------------------------------------------- in a partition


@dataclass(frozen=True, slots=True)
class _PartitionCheck:
    """What a partition needs to run a check."""

    relation: Relation
    max_count: int
    lookup: FragmentRows | None

    def holds(self, incoming: pa.Table, received: pa.Table) -> bool:
        """Return whether no value has too many rows. Rows that an incoming one replaces do not count."""
        key = self.relation.join_column
        values = column_of(incoming, key)
        stored = received if self.lookup is None else self._look_up(self.lookup, values.unique())
        # Most stored rows have other values: the join needs to see few.
        touched = stored.filter(pc.is_in(stored[key], value_set=values))
        others = touched.join(incoming.select([key, "id"]), [key, "id"], join_type="left anti")
        counts = pa.chunked_array([*incoming[key].chunks, *others[key].chunks], pa.string()).value_counts()
        return not len(counts) or pc.max(cast("pa.Int64Array", counts.field("counts"))).as_py() <= self.max_count

    def _look_up(self, rows: FragmentRows, values: Values) -> pa.Table:
        (column,) = self.relation.columns[self.relation.join_column]
        found = [
            self.relation.encode(batch)
            for texts in split_for_filters(values)
            for batch in rows.reader.find(
                rows.table, list_filter(column, cast("pa.StringArray", texts)), self.relation.physical_columns
            )
        ]
        return pa.Table.from_batches(found, _schema_of(self.relation))


def _run_checks(checks: Sequence[_PartitionCheck], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Task over one partition: yield the numbers of the checks that its rows fail."""
    with TemporaryDirectory(prefix="omnigraph-merge-") as folder:
        received = receive_rows(Path(folder), batches)
        failed = [
            number
            for number, check in enumerate(checks)
            if (number, _MergeSide.INCOMING) in received
            and not check.holds(*(_to_table(check.relation, received.get((number, side))) for side in _MergeSide))
        ]
    yield pa.RecordBatch.from_arrays([pa.array(failed, pa.int32())], schema=_FAILED)


def _to_table(relation: Relation, received: ReceivedRows | None) -> pa.Table:
    schema = _schema_of(relation)
    return schema.empty_table() if received is None else pa.Table.from_batches(received.batches(), schema)


def _schema_of(relation: Relation) -> pa.Schema:
    return pa.schema([pa.field(name, pa.string()) for name in relation.columns])
