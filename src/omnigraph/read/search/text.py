"""Words in a text property: which rows have any of them, and how well they match.

Both sides are lowercased, stemmed as English and freed of stop words, by the tokenizer of the text index. Rows are the
same with and without an index: a column that has none is indexed in memory for the query, and kept in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa

from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames import Cache, read_contents
from omnigraph.storage import table as tables
from omnigraph.storage.filters import quoted_name
from omnigraph.storage.pinned import Access, Table
from omnigraph.storage.searching import SCORE, words_found
from omnigraph.storage.staging import IndexKind

_TEXT: Final = "text"
_INDEX_FACTOR: Final = 3
"""Memory for each byte of rows, to tell the cache: a process grew by 1.7 bytes for 115 MB of rows, by 5 for 7 MB."""

NOTHING_FOUND: Final = pa.schema([pa.field("id", pa.string()), pa.field(SCORE, pa.float32())]).empty_table()


@dataclass(frozen=True, slots=True)
class TextQuery:
    """What is looked for: any of these words, each with at most so many letters changed, missing or too many."""

    text: str
    max_edits: int = 0


def search_text(snapshot: Snapshot, table_key: str, column: str, words: TextQuery, cache: Cache) -> pa.Table:
    """The ids and scores of the rows whose text matches."""
    if table_key not in snapshot.pins:
        return NOTHING_FOUND
    table = snapshot.table(table_key)
    if column not in table.schema.names:
        # A table that lags behind the schema.
        return NOTHING_FOUND
    if _is_served(table, column, words):
        return words_found(table, column, words.text, max_edits=words.max_edits)
    key = (read_contents(snapshot, table_key, cache), "texts", column)
    private = cache.get_or_make(key, lambda: _indexed_in_memory(table, column), _size).table
    return NOTHING_FOUND if private is None else words_found(private, _TEXT, words.text, max_edits=words.max_edits)


def _is_served(table: Table, column: str, words: TextQuery) -> bool:
    """Whether the table's own index will do. It must be complete for typing errors; else Lance reads what is beyond."""
    covered = sum(
        index.rows
        for index in table.indexes().values()
        if index.kind == IndexKind.INVERTED and index.columns == (column,)
    )
    return covered >= table.count_rows() if words.max_edits else covered > 0


@dataclass(frozen=True, slots=True)
class _Indexed:
    """The texts of one column in a table of their own, in memory; no table, when there are none."""

    table: Table | None
    text_bytes: int


def _size(indexed: _Indexed) -> int:
    return indexed.text_bytes * _INDEX_FACTOR


def _indexed_in_memory(table: Table, column: str) -> _Indexed:
    texts = table.scan(["id", column], filter=f"{quoted_name(column)} IS NOT NULL").read_all()
    texts = texts.rename_columns(["id", _TEXT])
    if not texts.num_rows:
        return _Indexed(None, 0)
    # The access is its own: what Lance keeps of this table goes when the table goes.
    made = tables.create(f"memory://{uuid4().hex}", texts, "private index", Access())
    staged = tables.build_index(made, _TEXT, IndexKind.INVERTED)
    assert staged is not None
    return _Indexed(tables.commit(made, staged, "private index"), texts.nbytes)
