"""Reject rows on Spark: what breaks a set rule, and what an update does not find, goes to the quarantine.

Violations stay on executors, in files beside the graph. Executors also format the rejected rows as records and write
them to the scratch table. This process keeps the ids of rejected rows as one Arrow array, and nothing else of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import Violation
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.spark.executor import SparkExecutor, union_all
from omnigraph.spark.load.incoming_rows import DistributedRows, RowsOfFragments
from omnigraph.spark.load.load_task import REJECTED
from omnigraph.spark.load.staging import map_ids, scan_ids
from omnigraph.spark.rules import FOUND, ViolationFrame, describe_found
from omnigraph.spark.sized_frames import SizedFrame, count_partitions, divide_fragments, join_by_size
from omnigraph.spark.task_errors import map_batches
from omnigraph.storage import tables
from omnigraph.storage.columns import Values, column_of, is_among, make_nulls, to_bool_array, to_list
from omnigraph.storage.tables import FragmentText, Table, combine_batches, estimate_row_bytes
from omnigraph.write.load import (
    MAX_VIOLATIONS,
    NO_IDS,
    IncomingRows,
    IncomingTable,
    RejectedRecord,
    RejectedRows,
    RowAdmission,
    find_records,
    to_rejects_line,
)
from omnigraph.write.rules import SetRule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AllViolations = Callable[[Sequence[IncomingTable]], ViolationFrame]
"""Finds all violations of set rules among incoming rows."""

_RECORDS_AT_ONCE: Final = 10_000
_ID_BYTES: Final = 48
_REASON_BYTES: Final = 256
"""About the size of an id, and of a message with its id."""
_REASONS: Final = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("place", pa.int32()),
        pa.field("value", pa.string()),
        pa.field("rule", pa.string()),
        pa.field("message", pa.string()),
    ]
)
_REASON_COLUMNS: Final = "id string, place int, value string, rule string, message string"
_RECORDS: Final = pa.schema(
    [
        pa.field("record", pa.string()),
        pa.field("id", pa.string()),
        pa.field("file", pa.string()),
        pa.field("line", pa.int64()),
    ]
)
"""A :class:`FoundRecord`."""
_RECORD_COLUMNS: Final = "record string, id string, file string, line long"
_WRITTEN: Final = pa.schema([pa.field("fragments", pa.string())])

ToRejected = Callable[[pa.Table], pa.Table]
"""Converts rows of a frame to rejected records, as :data:`REJECTED`."""


def reject_rows(
    executor: SparkExecutor, scratch: Table, admission: RowAdmission, find: AllViolations
) -> tuple[Mapping[str, RejectedRows], frozenset[str]]:
    """Return the rows that break set rules, and the tables that were read to know.

    Rejecting one row may make others invalid, so the rules run until nothing more is rejected.
    """
    rejected = {key: DistributedRejects(executor, scratch, each.rows) for key, each in admission.tables.items()}
    reads: frozenset[str] = frozenset()
    while True:
        found = find(admission.list_accepted(rejected))
        reads |= found.reads
        if not found.count:
            return rejected, reads
        grown = {key: each.add(found) for key, each in rejected.items()}
        unhandled = _find_unhandled(executor, found, grown.values())
        if unhandled or all(len(grown[key].ids) == len(rejected[key].ids) for key in grown):
            raise admission.build_error(unhandled or _describe_some(executor, found))
        rejected = grown


@dataclass(frozen=True, slots=True)
class DistributedRejects:
    """The rejected rows of one table. ``violations`` are those of all rounds, and stay on executors."""

    executor: SparkExecutor
    scratch: Table
    rows: IncomingRows
    ids: Values = field(default_factory=lambda: NO_IDS)
    count: int = 0
    violations: tuple[ViolationFrame, ...] = field(default=(), repr=False)

    def add(self, found: ViolationFrame) -> DistributedRejects:
        """Reject the rows that violations involve as well."""
        numbers = _rules_of(found.rules, self.rows)
        if not numbers or not isinstance(self.rows.storage, DistributedRows):
            return self
        assert found.frame is not None
        from pyspark.sql import functions

        own = found.frame.where(functions.col("rule").isin(numbers))
        named = own.select(functions.explode("ids").alias("id")).where("id is not null")
        involved = SizedFrame(named, found.id_count, _ID_BYTES)
        task = partial(scan_ids, excluded_ids=self.ids)
        staged = self.rows.storage
        incoming = map_ids(self.executor, staged.detached, staged.own_fragments, task, "id string")
        joined = join_by_size(incoming, involved, ["id"], "left_semi", self.executor.parallelism)
        rows = column_of(self.executor.to_arrow(joined), "id")
        if not len(rows):
            return self
        ids = pa.concat_arrays([self.ids, rows.unique()])
        return replace(self, ids=ids, count=self.count + len(rows), violations=(*self.violations, found))

    def write_records(self) -> tuple[FragmentText, ...]:
        """Write the rejected rows as records to fragments of the scratch table."""
        if not self.count:
            return ()
        staged = cast("DistributedRows", self.rows.storage)
        task = partial(_format_rejected, to_task_rows(self.rows), self.ids)
        row_bytes = estimate_row_bytes(staged.schema, staged.schema.names)
        groups = divide_fragments(staged.own_fragments, row_bytes, self.executor.parallelism)
        records = SizedFrame(
            self.executor.map_items(task, groups, _RECORD_COLUMNS), self.count, row_bytes + _REASON_BYTES
        )
        joined = join_by_size(records, self._read_reasons(), ["id"], "inner", self.executor.parallelism)
        return write_rejected(self.executor, joined, partial(_to_rejected, self.rows.type), self.scratch)

    def _read_reasons(self) -> SizedFrame:
        """Return the reasons of each rejected id, in order."""
        from pyspark.sql import functions

        parts = [
            map_batches(
                each.frame, partial(_describe_reasons, round_, each.rules, self.rows.type.table_key), _REASON_COLUMNS
            )
            for round_, each in enumerate(self.violations)
            if each.frame is not None
        ]
        rows = sum(each.id_count for each in self.violations)
        count = count_partitions(rows * _REASON_BYTES, self.executor.parallelism)
        reasons = functions.sort_array(functions.collect_list(functions.struct("place", "value", "rule", "message")))
        # The shuffle is sized here; the group needs no other.
        grouped = union_all(parts).repartition(count, "id").groupBy("id").agg(reasons.alias("reasons"))
        return SizedFrame(grouped, rows, _REASON_BYTES)


def _rules_of(rules: Sequence[SetRule], rows: IncomingRows) -> list[int]:
    return [number for number, rule in enumerate(rules) if rule.table_key == rows.type.table_key]


def _find_unhandled(
    executor: SparkExecutor, found: ViolationFrame, rejected: Iterable[DistributedRejects]
) -> list[Violation]:
    """Return some of the violations that no incoming row takes part in, so that rejecting rows cannot mend them."""
    assert found.frame is not None
    ids: dict[str, Values] = {each.rows.type.table_key: each.ids for each in rejected}
    by_rule = [ids.get(rule.table_key, NO_IDS) for rule in found.rules]
    left = map_batches(found.frame, partial(_filter_unhandled, by_rule), found.frame.schema)
    return _describe_some(executor, replace(found, frame=left))


def _describe_some(executor: SparkExecutor, found: ViolationFrame) -> list[Violation]:
    assert found.frame is not None
    return list(describe_found(found.rules, executor.to_arrow(found.frame.limit(MAX_VIOLATIONS)).cast(FOUND)))


def write_rejected(
    executor: SparkExecutor, frame: DataFrame, convert: ToRejected, scratch: Table
) -> tuple[FragmentText, ...]:
    """Write rows of a frame as rejected records to fragments of the scratch table."""
    written = executor.collect(map_batches(frame, partial(_write_rejected, scratch, convert), "fragments string"))
    return tuple(
        text
        for (texts,) in cast("list[tuple[str]]", written)
        for text in cast("list[FragmentText]", orjson.loads(texts))
    )


def to_task_rows(rows: IncomingRows) -> IncomingRows:
    """Return incoming rows in a form that can be sent to a task."""
    staged = cast("DistributedRows", rows.storage)
    return IncomingRows(rows.type, rows.generated, rows.positions, staged.select_fragments(()), rows.unchanged)


def to_rejected_reader(records: Iterator[RejectedRecord]) -> pa.RecordBatchReader:
    """Return rejected records as :data:`REJECTED`, a few at a time."""
    return pa.RecordBatchReader.from_batches(REJECTED, _to_batches(records))


def _to_batches(records: Iterator[RejectedRecord]) -> Iterator[pa.RecordBatch]:
    while some := list(islice(records, _RECORDS_AT_ONCE)):
        yield pa.RecordBatch.from_pylist([dict(to_rejects_line(each)) for each in some], REJECTED)


# --------------------------------------------------------------------------------------------- on executors


def _filter_unhandled(ids: Sequence[Values], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Task over violations: keep those of which no id is among the rejected ones of its type."""
    for rows in combine_batches(FOUND, batches):
        listed = cast("pa.ListArray[pa.StringScalar]", column_of(rows, "ids"))
        owners = cast("Values", pc.list_parent_indices(listed)).to_numpy(zero_copy_only=False)
        named = cast("Values", listed.flatten())
        rules = column_of(rows, "rule").to_numpy(zero_copy_only=False)
        is_handled = np.zeros(rows.num_rows, np.bool_)
        for rule in cast("list[int]", np.unique(rules).tolist()):
            own = np.flatnonzero(rules[owners] == rule)
            is_rejected = to_bool_array(cast("Values", is_among(named.take(own), ids[rule])))
            is_handled[owners[own[is_rejected]]] = True
        yield from rows.take(np.flatnonzero(~is_handled)).to_batches()


def _describe_reasons(
    round_: int, rules: Sequence[SetRule], table_key: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Task over violations: yield the reason of each id that they name, for the rows of one type."""
    for batch in batches:
        found = pa.Table.from_batches([batch])
        numbers = cast("list[int]", to_list(column_of(found, "rule")))
        reasons = [
            {
                "id": id_,
                "place": round_ * len(rules) + number,
                "value": value,
                "rule": each.rule,
                "message": each.message,
            }
            for number, value, each in zip(
                numbers, to_list(column_of(found, "value")), describe_found(rules, found), strict=True
            )
            if each.table_key == table_key
            for id_ in dict.fromkeys(each.ids)
        ]
        yield from pa.Table.from_pylist(reasons, _REASONS).to_batches()


def _format_rejected(rows: IncomingRows, ids: Values, fragments: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Task over fragments: format the rows of some ids as records."""
    cast("RowsOfFragments", rows.storage).selected = tuple(fragments)
    records = find_records(rows, ids)
    while some := list(islice(records, _RECORDS_AT_ONCE)):
        columns = [
            pa.array(values, type_) for values, type_ in zip(zip(*some, strict=True), _RECORDS.types, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_RECORDS)


def _to_rejected(type_: NodeType | EdgeType, rows: pa.Table) -> pa.Table:
    """Convert records with their reasons to rejected records. The first reason gives the rule."""
    reasons = cast("list[list[dict[str, str]]]", to_list(column_of(rows, "reasons")))
    count = rows.num_rows
    return pa.table(
        [
            column_of(rows, "record"),
            column_of(rows, "file"),
            make_nulls(count, pa.int64()),
            column_of(rows, "line"),
            pa.array([type_.name] * count, pa.string()),
            column_of(rows, "id"),
            pa.array([each[0]["rule"] for each in reasons], pa.string()),
            pa.array(["; ".join(reason["message"] for reason in each) for each in reasons], pa.string()),
            pa.array([type_.table_key] * count, pa.string()),
        ],
        schema=REJECTED,
    )


def _write_rejected(scratch: Table, convert: ToRejected, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Task over a partition: write its rows to fragments, and report those."""
    reader = iter(batches)
    first = next(reader, None)
    for found in () if first is None else combine_batches(first.schema, chain([first], reader)):
        if found.num_rows:
            rows = convert(found)
            texts = orjson.dumps(tables.write_rows(scratch, rows, "overwrite")).decode()
            yield pa.RecordBatch.from_arrays([pa.array([texts])], schema=_WRITTEN)
