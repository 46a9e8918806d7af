"""Estimate the size of rows, to divide work by bytes: a row with a vector or a document is not a row with an id.

Types with a fixed width are known exactly. For texts and lists the size of the data files tells the average.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast

import pyarrow as pa

from omnigraph.storage.lance_internals import is_blob
from omnigraph.storage.tables.table import Table

_GUESSED_BYTES: Final = 32
"""The size of a value whose type has no fixed width, if nothing else is known."""
_SHORT: Final = frozenset({"id", "src", "dst"})
"""Ids are texts, but short ones."""


def estimate_row_bytes(schema: pa.Schema, columns: Iterable[str] | None = None) -> int:
    """Estimate the size of a row, or of some columns of it, from the types alone."""
    names = schema.names if columns is None else columns
    return max(1, sum(_estimate_value_bytes(cast("pa.DataType", schema.field(name).type)) for name in names))


def estimate_stored_row_bytes(table: Table, columns: Sequence[str] | None = None) -> int:
    """Estimate the size of a row of a table, or of some columns of it. Only metadata is read."""
    schema = table.schema
    names = schema.names if columns is None else [name for name in columns if name in schema.names]
    return estimate_row_bytes(schema, names) + _count_long(schema, names) * _estimate_long_value(table)


def _estimate_long_value(table: Table) -> int:
    """Estimate how much longer than guessed the values of variable width are, on average."""
    schema = table.schema
    fields = cast("list[pa.Field[pa.DataType]]", list(schema))
    count = _count_long(schema, schema.names)
    if not count or any(is_blob(field) for field in fields):
        # The bytes of blobs may be in the same files, and scans do not read them.
        return 0
    fragments = [fragment.metadata for fragment in table.dataset.get_fragments()]
    rows = sum(each.physical_rows for each in fragments)
    size = sum(file.file_size_bytes or 0 for each in fragments for file in each.files)
    return max(0, size // max(1, rows) - estimate_row_bytes(schema)) // count


def _count_long(schema: pa.Schema, names: Iterable[str]) -> int:
    return sum(name not in _SHORT and not _is_fixed(cast("pa.DataType", schema.field(name).type)) for name in names)


def _is_fixed(type_: pa.DataType) -> bool:
    return pa.types.is_fixed_size_list(type_) or pa.types.is_primitive(type_)


def _estimate_value_bytes(type_: pa.DataType) -> int:
    if pa.types.is_fixed_size_list(type_):
        vector = cast("pa.FixedSizeListType[pa.DataType, int]", type_)
        return vector.list_size * _estimate_value_bytes(vector.value_type)
    return max(1, type_.bit_width // 8) if pa.types.is_primitive(type_) else _GUESSED_BYTES
