"""Find stored rows by their ids through the index of the ids, so that a load of a few rows does not read many.

Incoming rows are shuffled by ranges of their ids: each task looks up ids that lie close together in the index, and no
page of it is read by two tasks. Ids beyond all that are stored, such as those of new rows, cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa

from omnigraph.storage.columns import Values, column_of
from omnigraph.storage.filters import list_filter
from omnigraph.storage.tables import Table, can_list_values, split_for_filters

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_PER_LOOKUP: Final = 32
"""To look up one id costs about as much as to read and shuffle this many."""
_IDS_PER_TASK: Final = 100_000
_MIN_IDS_PER_TASK: Final = 5_000
"""Smaller tasks would take longer to start than to run."""


def can_look_up_ids(table: Table, count: int) -> bool:
    """Return whether looking up this many ids costs less than reading and shuffling all of them."""
    return can_look_up_texts(table, "id", count)


def can_look_up_texts(table: Table, column: str, count: int) -> bool:
    """Return whether looking up this many texts of a column costs less than reading and shuffling all of them."""
    is_small = count * ROWS_PER_LOOKUP <= table.count_rows()
    return is_small and can_list_values(table, column, count, ROWS_PER_LOOKUP)


def divide_by_ids(rows: DataFrame, count: int, parallelism: int) -> DataFrame:
    """Shuffle ``count`` rows by ranges of their ids. Rows with the same id come to one task."""
    busy = min(parallelism, count // _MIN_IDS_PER_TASK)
    return rows.repartitionByRange(max(1, busy, -(-count // _IDS_PER_TASK)), "id")


def list_id_filters(ids: Values) -> Iterator[str]:
    """Return filters that together find the rows with these ids. Ids that are neighbours are in one filter."""
    return (list_filter("id", cast("pa.StringArray", each)) for each in split_for_filters(ids.unique()))


def find_present_ids(table: Table, ids: Values) -> Values:
    """Return those of some ids that a table has."""
    found: Sequence[Values] = [
        column_of(batch, "id") for filter_ in list_id_filters(ids) for batch in table.scan(["id"], filter=filter_)
    ]
    return cast("Values", pa.concat_arrays([pa.array([], pa.string()), *cast("Sequence[pa.StringArray]", found)]))
