"""Staging rows on Spark: the fragments are there already; what they replace is found and removed by executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.spark.executor import ROWS_PER_TASK, map_fragments
from omnigraph.spark.load.changed_table import FragmentRows
from omnigraph.spark.load.incoming import DistributedRows
from omnigraph.storage import table_writes as tables
from omnigraph.storage.columns import Values, column_of, is_not_among
from omnigraph.storage.staging import FragmentText, Staged
from omnigraph.storage.table import ROW_ADDRESS, Table
from omnigraph.write import load as loads
from omnigraph.write.executor import group_evenly
from omnigraph.write.load import IncomingTable
from omnigraph.write.rules import IncomingMode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REMAINING: Final = pa.schema([pa.field("fragment", pa.int64()), pa.field("left", pa.string())])


def stage_rows(
    session: SparkSession, table: Table, coming: IncomingTable, removed: FragmentRows | None = None
) -> Staged | None:
    """Stage incoming rows on a pinned table. On another pin the fragments stay, and the removals are made anew.

    ``removed`` are the ids of rows that only go.
    """
    upserts = coming.mode is IncomingMode.UPSERT and table.count_rows() > 0
    if not upserts or not (coming.rows.count or removed):
        return loads.stage_rows(table, coming)
    fragments = coming.rows.write_fragments(table, "append", coming.excluded_ids) if coming.rows.count else ()
    left = _remove_replaced(session, table, coming, removed)
    if not left:
        return tables.append_fragments(table, fragments)
    gone = [fragment for fragment, text in left.items() if text is None]
    shrunk = [text for text in left.values() if text is not None]
    return tables.update_fragments(table, gone, shrunk, fragments)


def _remove_replaced(
    session: SparkSession, table: Table, coming: IncomingTable, removed: FragmentRows | None
) -> dict[int, FragmentText | None]:
    """The fragments that lose the rows whose ids come in, or only go; None for those that have no other."""
    from pyspark.sql import functions

    work = partial(_scan_ids, without=coming.excluded_ids)
    parts = [(each.table, each.fragments) for each in (removed,) if each is not None]
    if coming.rows.count:
        incoming = cast("DistributedRows", coming.rows.storage)
        parts.append((incoming.detached, incoming.own_fragments))
    ids = reduce(
        lambda some, others: some.unionByName(others),
        (map_fragments(session, each, group_evenly(own, ROWS_PER_TASK), work, "id string") for each, own in parts),
    )
    there = map_fragments(
        session,
        table,
        group_evenly(table.fragment_rows(), ROWS_PER_TASK),
        _scan_addresses,
        "id string, fragment long, offset long",
    )
    met = there.join(ids, "id", "left_semi").groupBy("fragment").agg(functions.collect_list("offset").alias("offsets"))
    # Evaluated once: each time it writes files.
    told = met.mapInArrow(partial(_remove_rows, table), "fragment long, left string").collect()
    return dict(cast("list[tuple[int, FragmentText | None]]", told))


def _scan_ids(table: Table, fragments: Sequence[int], *, without: Values) -> Iterator[pa.RecordBatch]:
    for batch in table.scan(["id"], in_fragments=fragments):
        yield batch.filter(is_not_among(column_of(batch, "id"), without)) if len(without) else batch


def _scan_addresses(table: Table, fragments: Sequence[int]) -> Iterator[pa.RecordBatch]:
    for batch in table.scan(["id"], with_row_address=True, in_fragments=fragments):
        addresses = column_of(batch, ROW_ADDRESS).to_numpy(zero_copy_only=False)
        yield pa.record_batch(
            {
                "id": column_of(batch, "id"),
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
