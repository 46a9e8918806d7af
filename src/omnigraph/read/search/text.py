"""Search a text property: which rows contain any of the words, and how well they match.

The tokenizer of the text index lowercases text and query, stems them as English and drops stop words. Results are the
same with and without an index: a column without one is indexed in memory for the query, and the index is cached. Scores
are those among the rows of the snapshot, whatever rows there were before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from uuid import uuid4

import numpy as np
import pyarrow as pa

from omnigraph.deadlines import wait_for
from omnigraph.language.schema import NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames import FEW_ROWS, Cache, TableContents, read_contents
from omnigraph.read.rows import TypeRows, open_type_rows
from omnigraph.read.search.top_k import FetchRows, RankedRows
from omnigraph.storage import tables
from omnigraph.storage.columns import column_of
from omnigraph.storage.filters import ValueCondition
from omnigraph.storage.internal_columns import InternalColumn
from omnigraph.storage.lagging_columns import has_declared_column
from omnigraph.storage.tables import Access, IndexKind, Table, TextStatistics, WordSearch, can_search

_TEXT: Final = "text"
_STATISTICS_BYTES: Final = 200
_INDEX_FACTOR: Final = 3
"""Estimated bytes of memory for each byte of rows; measured: 1.7 for 115 MB of rows, 5 for 7 MB."""

NO_MATCHES: Final = pa.schema([pa.field("id", pa.string()), pa.field(InternalColumn.SCORE, pa.float32())]).empty_table()


@dataclass(frozen=True, slots=True)
class TextQuery:
    """Matches rows with any of the words of a text, each within an edit distance."""

    text: str
    max_edits: int = 0
    needs_scores: bool = False
    """Whether the query uses the scores of the rows."""


@dataclass(frozen=True, slots=True)
class TextIndex:
    """The index that finds the texts of a column: that of its table, or a private one that has only ids and texts."""

    table: Table
    column: str
    is_private: bool
    statistics: TextStatistics | None = None
    """The statistics for scores, if the query needs scores and those of the index are not exact."""

    @property
    def has_exact_scores(self) -> bool:
        """Whether the scores of Lance are exact for the rows of the snapshot, with and without a filter."""
        return self.statistics is None

    def search(self, query: TextQuery, where: str | None = None) -> pa.Table:
        """Return the ids and scores of all rows that match and satisfy a filter.

        A filter needs exact scores.
        """
        search = WordSearch(self.table, self.column, query.text, query.max_edits, where)
        return search.read() if self.statistics is None else tables.score_texts(search, self.statistics)

    def fetch_best(self, query: TextQuery, where: str | None = None, columns: Sequence[str] = ()) -> FetchRows:
        """Return how to fetch the rows with the highest scores. Columns are read if the rows are few."""
        search = WordSearch(self.table, self.column, query.text, query.max_edits, where)
        if not self.has_exact_scores:
            return lambda _: _rank(self.search(query, where), np.inf)

        def fetch(count: int) -> RankedRows:
            rows = search.read(columns if count <= FEW_ROWS else (), count)
            is_complete = rows.num_rows < count
            # Entries of deleted rows take the place of others, so less than was asked for need not be all.
            if is_complete and search.count_entries() != rows.num_rows:
                rows = search.read()
            ranked = _rank(rows, np.inf)
            return ranked if is_complete else replace(ranked, bound=float(ranked.keys.max()))

        return fetch


def _rank(rows: pa.Table, bound: float) -> RankedRows:
    keys = -column_of(rows, InternalColumn.SCORE).to_numpy(zero_copy_only=False).astype(np.float64)
    return RankedRows(rows, keys, bound)


def search_text(snapshot: Snapshot, type_: NodeType, column: str, query: TextQuery, cache: Cache) -> pa.Table:
    """Return the ids and scores of the rows whose text matches."""
    index = open_text_index(snapshot, type_, column, query, cache)
    return NO_MATCHES if index is None else index.search(query)


def open_text_index(
    snapshot: Snapshot, type_: NodeType, column: str, query: TextQuery, cache: Cache
) -> TextIndex | None:
    """Return the index of a column that can answer a query, and build one in memory if there is none.

    None if there are no texts.
    """
    found = find_text_index(snapshot, type_, column, query, cache)
    if found is not None or type_.table_key not in snapshot.pins:
        return found
    rows = open_type_rows(snapshot, type_)
    key = (read_contents(snapshot, type_.table_key, cache), "texts", column)
    private = cache.get_or_make(key, lambda: _build_private_index(rows, column), _estimate_bytes).table
    return None if private is None else TextIndex(private, _TEXT, is_private=True)


def find_text_index(
    snapshot: Snapshot, type_: NodeType, column: str, query: TextQuery, cache: Cache
) -> TextIndex | None:
    """Return the index of the table itself, if it can answer a query. Lance cannot search rows beyond it fuzzily."""
    if type_.table_key not in snapshot.pins:
        return None
    contents = read_contents(snapshot, type_.table_key, cache)
    covered = contents.count_indexed(IndexKind.INVERTED, column)
    if not covered or (query.max_edits and covered < contents.num_rows):
        return None
    table = snapshot.table(type_.table_key)
    if not (can_search(table, IndexKind.INVERTED) and has_declared_column(type_, table.column_types, column)):
        return None
    statistics = _read_inexact_statistics(table, column, contents, cache) if query.needs_scores else None
    return TextIndex(table, column, is_private=False, statistics=statistics)


def _read_inexact_statistics(table: Table, column: str, contents: TableContents, cache: Cache) -> TextStatistics | None:
    """Return the statistics for scores; None if those of the index are exact."""
    key = (contents, "text statistics", column)
    statistics = cache.get_or_make(key, lambda: tables.read_text_statistics(table, column), lambda _: _STATISTICS_BYTES)
    return None if statistics.is_exact else statistics


@dataclass(frozen=True, slots=True)
class _PrivateIndex:
    """The texts of one column in an indexed in-memory table; None if there are no texts."""

    table: Table | None
    text_bytes: int


def _estimate_bytes(index: _PrivateIndex) -> int:
    return index.text_bytes * _INDEX_FACTOR


def _build_private_index(rows: TypeRows, column: str) -> _PrivateIndex:
    is_text = ValueCondition(column, rows.type.properties[column].type, None)
    schema = pa.schema([("id", pa.string()), (_TEXT, pa.string())])
    found = (batch.rename_columns(schema.names).cast(schema) for batch in rows.read(["id", column], [is_text]))
    texts = pa.Table.from_batches(found, schema)
    if not texts.num_rows:
        return _PrivateIndex(None, 0)
    # Nobody else sees it, so that it can be left alone half-way.
    return _PrivateIndex(wait_for(lambda: _index_in_memory(texts)), texts.nbytes)


def _index_in_memory(texts: pa.Table) -> Table:
    # A separate session: what Lance caches of this table is freed together with it.
    table = tables.create_table(f"memory://{uuid4().hex}", texts, "private index", Access())
    staged = tables.build_index(table, _TEXT, IndexKind.INVERTED)
    assert staged is not None
    return tables.commit(table, staged, "private index")
