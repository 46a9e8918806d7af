"""Stage rows on Spark: their fragments are written already; executors find and delete the rows that they replace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.spark.executor import FragmentTask, SparkExecutor
from omnigraph.spark.id_lookup import can_look_up_ids, divide_by_ids, list_id_filters
from omnigraph.spark.key_filter import KeyFilter, KeySource, can_filter_keys, collect_key_filter
from omnigraph.spark.load.incoming_rows import DistributedRows
from omnigraph.spark.rules import FragmentRows
from omnigraph.spark.sized_frames import MAX_PARTITIONS, SizedFrame, divide_fragments, join_by_size, union_sized
from omnigraph.spark.task_errors import map_batches
from omnigraph.storage import tables
from omnigraph.storage.columns import Values, column_of, is_not_among
from omnigraph.storage.tables import ROW_ADDRESS, FragmentText, StagedChange, Table, estimate_row_bytes
from omnigraph.write import load as loads
from omnigraph.write.load import IncomingTable
from omnigraph.write.rules import IncomingMode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ADDRESS_COLUMNS: Final = "id string, fragment long, offset long"
_IDS: Final = pa.schema([pa.field("id", pa.string())])
_REMAINING: Final = pa.schema([pa.field("fragment", pa.int64()), pa.field("left", pa.string())])


def stage_rows(
    executor: SparkExecutor, table: Table, incoming: IncomingTable, removed: FragmentRows | None = None
) -> StagedChange | None:
    """Stage incoming rows on a pinned table. On a later pin only the deletions are repeated.

    ``removed`` are the ids of rows that are deleted without a replacement.
    """
    upserts = incoming.mode is IncomingMode.UPSERT and table.count_rows() > 0
    if not upserts or not (incoming.rows.count or removed):
        return loads.stage_rows(table, incoming)
    fragments = incoming.rows.write_new_rows(table, "append", incoming.excluded_ids) if incoming.rows.count else ()
    changed = _remove_replaced(executor, table, incoming, removed)
    if not changed:
        return tables.append_fragments(table, fragments)
    emptied = [fragment for fragment, text in changed.items() if text is None]
    shrunk = [text for text in changed.values() if text is not None]
    return tables.update_fragments(table, emptied, shrunk, fragments)


def _remove_replaced(
    executor: SparkExecutor, table: Table, incoming: IncomingTable, removed: FragmentRows | None
) -> dict[int, FragmentText | None]:
    """Delete the rows that are replaced or removed; return the fragments that lose rows, None if they lose all."""
    from pyspark.sql import functions

    replaced = find_replaced_rows(executor, table, incoming, removed)
    # All rows of a fragment come to one task.
    fragments = max(1, min(len(table.fragment_rows()), MAX_PARTITIONS))
    deleted = (
        replaced.repartition(fragments, "fragment")
        .groupBy("fragment")
        .agg(functions.collect_list("offset").alias("offsets"))
    )
    reports = executor.collect(map_batches(deleted, partial(_remove_rows, table), "fragment long, left string"))
    return dict(cast("list[tuple[int, FragmentText | None]]", reports))


def find_replaced_rows(
    executor: SparkExecutor, table: Table, incoming: IncomingTable, removed: FragmentRows | None
) -> DataFrame:
    """Return the fragment and the offset of each row of a table that is replaced or removed."""
    parts = [(each.table, each.fragments) for each in (removed,) if each is not None]
    if incoming.rows.count:
        rows = cast("DistributedRows", incoming.rows.storage)
        parts.append((rows.detached, rows.own_fragments))
    task = partial(scan_ids, excluded_ids=incoming.excluded_ids)
    ids = union_sized(map_ids(executor, each, own, task, "id string") for each, own in parts)
    if can_look_up_ids(table, ids.max_rows):
        divided = divide_by_ids(ids.frame, ids.max_rows, executor.parallelism)
        return map_batches(divided, partial(_look_up_addresses, table), _ADDRESS_COLUMNS)
    keys = None
    if can_filter_keys(ids.max_rows, table.count_rows()):
        sources = [KeySource(each, own, task, "id") for each, own in parts]
        keys = collect_key_filter(executor, sources, ids.max_rows)
    scan = partial(_scan_addresses, keys=keys)
    existing = map_ids(executor, table, table.fragment_rows(), scan, _ADDRESS_COLUMNS)
    return join_by_size(existing, ids, ["id"], "left_semi", executor.parallelism)


def map_ids(
    executor: SparkExecutor, table: Table, fragments: Mapping[int, int], task: FragmentTask, schema: str
) -> SizedFrame:
    """Run a task that reads the ids of some fragments."""
    row_bytes = estimate_row_bytes(table.schema, ["id"]) + 16
    groups = divide_fragments(fragments, row_bytes, executor.parallelism)
    frame = executor.map_fragments(table, groups, task, schema)
    return SizedFrame(frame, sum(fragments.values()), row_bytes)


def scan_ids(table: Table, fragments: Sequence[int], *, excluded_ids: Values) -> Iterator[pa.RecordBatch]:
    """Task over fragments: read the ids except some."""
    for batch in table.scan(["id"], in_fragments=fragments):
        yield batch.filter(is_not_among(column_of(batch, "id"), excluded_ids)) if len(excluded_ids) else batch


def _scan_addresses(table: Table, fragments: Sequence[int], *, keys: KeyFilter | None) -> Iterator[pa.RecordBatch]:
    """Task over fragments: read the ids and addresses of all rows, or of those whose ids a filter contains."""
    for batch in table.scan(["id"], with_row_address=True, in_fragments=fragments):
        ids = cast("pa.StringArray", column_of(batch, "id"))
        yield _split_addresses(batch if keys is None else batch.take(keys.find(ids)))


def _look_up_addresses(table: Table, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Task over a range of ids: find the addresses of the rows that have them."""
    for filter_ in list_id_filters(column_of(pa.Table.from_batches(batches, _IDS), "id")):
        yield from map(_split_addresses, table.scan(["id"], filter=filter_, with_row_address=True))


def _split_addresses(rows: pa.RecordBatch) -> pa.RecordBatch:
    addresses = column_of(rows, ROW_ADDRESS).to_numpy(zero_copy_only=False)
    return pa.record_batch(
        {
            "id": column_of(rows, "id"),
            "fragment": pa.array((addresses >> np.uint64(32)).astype(np.int64)),
            "offset": pa.array((addresses & np.uint64(0xFFFFFFFF)).astype(np.int64)),
        }
    )


def _remove_rows(table: Table, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        found = cast("list[dict[str, object]]", batch.to_pylist())
        fragments = [cast(int, each["fragment"]) for each in found]
        offsets = (sorted(cast("list[int]", each["offsets"])) for each in found)
        left = [tables.remove_rows(table, *each) for each in zip(fragments, offsets, strict=True)]
        columns = [pa.array(fragments, pa.int64()), pa.array(left, pa.string())]
        yield pa.RecordBatch.from_arrays(columns, schema=_REMAINING)
