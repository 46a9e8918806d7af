"""Partial rows: what the records of an update give of rows that are stored already.

A record names its row and the properties that change. The columns that it does not mention are null in its partial row,
and a bitmap says which columns it mentions, so that a null that is given differs from one that is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Rows, Values, column_of
from omnigraph.storage.internal_columns import InternalColumn
from omnigraph.write.rules import AbsentValues

Mask: TypeAlias = npt.NDArray[np.bool_]


class RowForm(StrEnum):
    """What a record has of its row."""

    WHOLE = "whole"
    """All of it: a property that is not mentioned is null, or has its default."""
    PARTIAL = "partial"
    """Only what changes, and what names the row."""


def list_value_columns(type_: NodeType | EdgeType) -> tuple[str, ...]:
    """Return all columns of a type except ``id``."""
    return tuple(arrow_schema(type_).names[1:])


def partial_schema(type_: NodeType | EdgeType) -> pa.Schema:
    """Return the columns of partial rows: any of them may be null but the id."""
    first, *others = _fields_of(arrow_schema(type_))
    return pa.schema([first, *(each.with_nullable(nullable=True) for each in others), _given_field(type_)])


def schema_of(form: RowForm, type_: NodeType | EdgeType) -> pa.Schema:
    """Return the columns of incoming rows."""
    return partial_schema(type_) if form is RowForm.PARTIAL else arrow_schema(type_)


def completed_schema(type_: NodeType | EdgeType) -> pa.Schema:
    """Return the columns of partial rows that were completed: those of the type, and the bitmap."""
    return arrow_schema(type_).append(_given_field(type_))


def pack_given(type_: NodeType | EdgeType, absent: AbsentValues, count: int) -> Values:
    """Return the bitmaps of some rows."""
    names = list_value_columns(type_)
    given = np.ones((count, len(names)), np.bool_)
    for at, name in enumerate(names):
        if name in absent:
            given[:, at] = ~absent[name]
    width = pa.binary(_bitmap_bytes(type_))
    packed = np.packbits(given, axis=1)
    return cast("Values", pa.FixedSizeBinaryArray.from_buffers(width, count, [None, pa.py_buffer(packed.tobytes())]))


def unpack_given(type_: NodeType | EdgeType, rows: Rows) -> dict[str, Mask]:
    """Return for each column but ``id`` which rows mention it."""
    names = list_value_columns(type_)
    bitmaps = column_of(rows, InternalColumn.GIVEN)
    width = _bitmap_bytes(type_)
    if not len(bitmaps):
        return {name: np.zeros(0, np.bool_) for name in names}
    data = cast("pa.Buffer", bitmaps.buffers()[1])
    content = np.frombuffer(memoryview(data), np.uint8)
    start = bitmaps.offset * width
    packed = content[start : start + len(bitmaps) * width].reshape(len(bitmaps), width)
    given = np.unpackbits(packed, axis=1, count=len(names)).astype(np.bool_)
    return {name: given[:, at] for at, name in enumerate(names)}


def mark_without(type_: NodeType | EdgeType, columns: Sequence[str], rows: pa.Table) -> Mask:
    """Return which rows do not mention some columns; whole rows mention all of them."""
    if InternalColumn.GIVEN not in rows.column_names:
        return np.zeros(rows.num_rows, np.bool_)
    given = unpack_given(type_, rows)
    return ~np.logical_and.reduce([given[name] for name in columns])


def _given_field(type_: NodeType | EdgeType) -> pa.Field[pa.DataType]:
    return cast(
        "pa.Field[pa.DataType]", pa.field(InternalColumn.GIVEN, pa.binary(_bitmap_bytes(type_)), nullable=False)
    )


def _bitmap_bytes(type_: NodeType | EdgeType) -> int:
    return max(1, (len(list_value_columns(type_)) + 7) // 8)


def _fields_of(schema: pa.Schema) -> list[pa.Field[pa.DataType]]:
    return list(cast("Iterable[pa.Field[pa.DataType]]", schema))
