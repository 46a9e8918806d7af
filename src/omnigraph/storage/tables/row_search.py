"""Finding rows of a table at one version: by the texts in a column, by words in a text, by nearness to a vector.

A page of an index holds thousands of neighbouring texts, so scattered texts make Lance read almost one page each.
Filters therefore list texts in sorted order, and above a share of the rows the whole column is read instead.

Lance searches indexed rows through the index and the rest row by row. Stemming needs an index that defines it; a fuzzy
search covers indexed rows only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, cast

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.acero as acero
import pyarrow.compute as pc
import pyarrow.dataset as datasets
from lance.query import MatchQuery

from omnigraph.deadlines import wait_for
from omnigraph.language.operators import ComparisonOperator
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.language.values import ConstantValue
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.columns import Values, column_of, compute, find_true, to_list
from omnigraph.storage.filters import MAX_LISTED_VALUES, ValueCondition, list_filter
from omnigraph.storage.internal_columns import InternalColumn
from omnigraph.storage.lagging_columns import has_declared_column
from omnigraph.storage.lance_internals import build_scan
from omnigraph.storage.tables.staging import Addresses, IndexKind
from omnigraph.storage.tables.table import ROW_ADDRESS, Table

_MAX_COMPARED_VALUES: Final = 100
"""Values other than strings are compared one by one, which pays only for a few of them."""
_ROWS_PER_LOOKUP: Final = 256
"""One index lookup costs about as much as reading this many rows of the column."""

_LANCE_SCORE: Final = "_score"
_LANCE_DISTANCE: Final = "_distance"
_MAX_EXPANSIONS: Final = 2**31
"""Lance stops at 50 similar words by default."""

_IDS_AT_ONCE: Final = 1_000_000
_ROWS_AT_ONCE: Final = 1_000_000
_BYTES_AT_ONCE: Final = 64 * 1024 * 1024


def can_list_values(table: Table, column: str, count: int, rows_per_lookup: int | None = None) -> bool:
    """Return whether filters that list this many texts are cheaper than a scan of the column.

    ``rows_per_lookup`` says how many rows of the column can be read at the cost of one lookup.
    """
    if count <= MAX_LISTED_VALUES:
        return True
    found = [
        index for index in table.list_indexes().values() if (index.kind, index.columns) == (IndexKind.BTREE, (column,))
    ]
    rows = table.count_rows()
    if not found or count * (rows_per_lookup or _ROWS_PER_LOOKUP) > rows:
        return False
    # Every filter scans the rows that the index does not cover.
    rounds = -(-count // MAX_LISTED_VALUES)
    return (rows - found[0].rows) * rounds <= rows


def split_for_filters(texts: Values) -> Iterator[Values]:
    """Yield sorted texts in groups of the size that one filter may list."""
    if len(texts) > MAX_LISTED_VALUES:
        texts = texts.take(compute("array_sort_indices", texts).to_numpy())
    for begin in range(0, len(texts), MAX_LISTED_VALUES):
        yield texts.slice(begin, MAX_LISTED_VALUES)


def can_look_up(table: Table, type_: NodeType | EdgeType, column: str, values: Values) -> bool:
    """Return whether rows are found by the values of a column with filters, more cheaply than by a scan of it."""
    if not has_declared_column(type_, table.column_types, column):
        return False
    if not pa.types.is_string(values.type):
        return len(values) <= _MAX_COMPARED_VALUES
    return can_list_values(table, column, len(values))


def build_value_filters(type_: NodeType | EdgeType, column: str, values: Values) -> list[str]:
    """Return filters that together find the rows with one of the values in a column, for :func:`can_look_up`."""
    if pa.types.is_string(values.type):
        listed = (list_filter(column, cast("pa.StringArray", each)) for each in split_for_filters(values))
    else:
        compared = (
            ValueCondition(column, type_.properties[column].type, ComparisonOperator.EQUAL, value).to_sql()
            for value in _to_constants(values)
        )
        listed = [" OR ".join(compared) or "false"]
    return list(listed) or ["false"]


def _to_constants(values: Values) -> list[ConstantValue]:
    """Convert values to constants of a filter: dates to days, times to milliseconds; drop what is not finite."""
    if pa.types.is_floating(values.type):
        values = values.take(find_true(compute("is_finite", values)))
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_date64(values.type):
        values = values.cast(pa.int64())
    return cast("list[ConstantValue]", to_list(values))


def find_addresses(table: Table, ids: pa.Table) -> Addresses:
    """Return the addresses of the rows with these ids. Missing ids are ignored. Many ids are processed in parts."""
    if can_list_values(table, "id", ids.num_rows):
        listed = (
            list_filter("id", cast("pa.StringArray", each)) for each in split_for_filters(column_of(ids, "id").unique())
        )
        scans = [table.scan([], filter=filter_, with_row_address=True).read_all() for filter_ in listed]
        return np.concatenate([np.zeros(0, np.uint64), *(found[ROW_ADDRESS].to_numpy() for found in scans)])
    parts = (ids.slice(start, _IDS_AT_ONCE) for start in range(0, ids.num_rows, _IDS_AT_ONCE))
    found = [_semi_join(table.scan(["id"], with_row_address=True, one_by_one=True), part) for part in parts]
    return np.concatenate([np.zeros(0, np.uint64), *found])


def _semi_join(stream: pa.RecordBatchReader, ids: pa.Table) -> Addresses:
    """Return the addresses of the rows of a stream whose id is among these."""
    scan = acero.Declaration(
        "scan",
        acero.ScanNodeOptions(datasets.InMemoryDataset(stream, schema=stream.schema)),  # pyright: ignore  the stubs lack both
    )
    other = acero.Declaration("table_source", acero.TableSourceNodeOptions(ids))
    join = acero.HashJoinNodeOptions("left semi", ["id"], ["id"])
    joined = acero.Declaration("hashjoin", join, inputs=[scan, other])
    addresses = acero.ProjectNodeOptions([pc.field(ROW_ADDRESS)])
    return acero.Declaration("project", addresses, inputs=[joined]).to_table()[0].to_numpy()


def combine_batches(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the same rows in larger batches: a lookup of many values hashes all of them once per batch."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield pa.Table.from_batches(held, schema)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held, schema)


# --------------------------------------------------------------------------------------------- words and vectors


def can_search(table: Table, kind: IndexKind) -> bool:
    """Return whether Lance can search by an index. It fails on a table with a column named as the one that it adds."""
    return (_LANCE_DISTANCE if kind is IndexKind.IVF_FLAT else _LANCE_SCORE) not in table.schema.names


@dataclass(frozen=True, slots=True)
class WordSearch:
    """The rows of a table whose text in a column has any of some words, or one within ``max_edits`` edits.

    With a filter only rows that match it. Their scores are those among all rows if the index covers all; else they
    depend on the filter.
    """

    table: Table
    column: str
    words: str
    max_edits: int = 0
    where: str | None = None

    def read(self, columns: Sequence[str] = (), limit: int | None = None) -> pa.Table:
        """Return the ids, scores and some columns of the rows, or of those with the highest scores."""
        return self._read(dict.fromkeys(("id", *columns, _LANCE_SCORE)), limit)

    def count_entries(self) -> int:
        """Return the number of matches in the index and beyond it. No row is read.

        An index that is older than the last compaction still has entries of rows that were deleted before it.
        """
        return self._read((_LANCE_SCORE,), None).num_rows

    def _read(self, columns: Iterable[str], limit: int | None) -> pa.Table:
        # A fuzzy query is not stemmed, whereas the index holds stems.
        words = " ".join(token.text for token in lance.tokenize(self.words)) if self.max_edits else self.words
        query = MatchQuery(words, self.column, fuzziness=self.max_edits, max_expansions=_MAX_EXPANSIONS)
        with self.table.reading():
            scan = build_scan(self.table.dataset).columns(list(columns)).full_text_search(query).limit(limit)
            if self.where is not None:
                scan.filter(self.where).prefilter(prefilter=True)
            rows = wait_for(scan.to_scanner().to_table)
        return _rename_column(rows, _LANCE_SCORE, InternalColumn.SCORE)


def search_vectors(
    table: Table,
    column: str,
    vector: npt.NDArray[np.float32],
    count: int,
    *,
    where: str | None = None,
    columns: Sequence[str] = (),
) -> pa.Table:
    """Return ids, vectors, squared distances and some columns of the matching rows that are nearest to a vector."""
    read = list(dict.fromkeys(("id", column, *columns, _LANCE_DISTANCE)))
    with table.reading():
        scan = build_scan(table.dataset).columns(read).nearest(column, vector, k=count, metric="l2")
        scan.prefilter(prefilter=True)
        if where is not None:
            scan.filter(where)
        rows = wait_for(scan.to_scanner().to_table)
    return _rename_column(rows, _LANCE_DISTANCE, InternalColumn.SQUARED_DISTANCE)


def _rename_column(rows: pa.Table, name: str, internal: InternalColumn) -> pa.Table:
    return rows.rename_columns([internal if each == name else each for each in rows.column_names])
