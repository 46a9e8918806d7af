"""Search a text property: which rows contain any of the words, and how well they match.

The tokenizer of the text index lowercases text and query, stems them as English and drops stop words. Results are the
same with and without an index: a column without one is indexed in memory for the query, and the index is cached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa

from omnigraph.language.schema import NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames import Cache, read_contents
from omnigraph.read.rows import TypeRows, open_type_rows
from omnigraph.storage import table_upkeep
from omnigraph.storage import table_writes as tables
from omnigraph.storage.filters import ValueCondition
from omnigraph.storage.lagging_columns import has_declared_column
from omnigraph.storage.row_search import SCORE, search_words
from omnigraph.storage.staging import IndexKind
from omnigraph.storage.table import Access, Table

_TEXT: Final = "text"
_INDEX_FACTOR: Final = 3
"""Estimated bytes of memory for each byte of rows; measured: 1.7 for 115 MB of rows, 5 for 7 MB."""

_NO_MATCHES: Final = pa.schema([pa.field("id", pa.string()), pa.field(SCORE, pa.float32())]).empty_table()


@dataclass(frozen=True, slots=True)
class TextQuery:
    """Matches rows with any of the words of a text, each within an edit distance."""

    text: str
    max_edits: int = 0


def search_text(snapshot: Snapshot, type_: NodeType, column: str, query: TextQuery, cache: Cache) -> pa.Table:
    """Return the ids and scores of the rows whose text matches."""
    rows = open_type_rows(snapshot, type_)
    if rows.table is None:
        return _NO_MATCHES
    if has_declared_column(type_, rows.table.schema, column) and _has_usable_index(rows.table, column, query):
        return search_words(rows.table, column, query.text, max_edits=query.max_edits)
    key = (read_contents(snapshot, type_.table_key, cache), "texts", column)
    private = cache.get_or_make(key, lambda: _build_private_index(rows, column), _estimate_bytes).table
    return _NO_MATCHES if private is None else search_words(private, _TEXT, query.text, max_edits=query.max_edits)


def _has_usable_index(table: Table, column: str, query: TextQuery) -> bool:
    """Whether the table's own index can be used. Lance reads rows beyond it, but not for a fuzzy search."""
    covered = sum(
        index.rows
        for index in table.list_indexes().values()
        if index.kind == IndexKind.INVERTED and index.columns == (column,)
    )
    return covered >= table.count_rows() if query.max_edits else covered > 0


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
    # A separate session: what Lance caches of this table is freed together with it.
    table_in_memory = tables.create_table(f"memory://{uuid4().hex}", texts, "private index", Access())
    staged = table_upkeep.build_index(table_in_memory, _TEXT, IndexKind.INVERTED)
    assert staged is not None
    return _PrivateIndex(tables.commit(table_in_memory, staged, "private index"), texts.nbytes)
