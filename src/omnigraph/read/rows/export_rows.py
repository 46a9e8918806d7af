"""Rows on their way out, with their blobs, in pieces small enough to be spelled one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.read.rows.stored_blobs import estimate_blob_sizes
from omnigraph.read.rows.type_rows import TypeRows, blob_properties_of
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of
from omnigraph.storage.pinned import Table

PIECE_BYTES: Final = 16 * 1024 * 1024
"""About how much a piece holds; a row is never divided."""


def read_export_rows(rows: TypeRows, fetch: Callable[[Table, str, pa.RecordBatch], Values]) -> Iterator[pa.RecordBatch]:
    """All rows in all columns of their type's table; ``fetch`` gives the blobs of a column."""
    columns, blobs = arrow_schema(rows.type).names, set(blob_properties_of(rows.type))
    for batch in rows.read(columns, with_address=bool(blobs)):
        for piece in _pieces(batch, blobs):
            if rows.table is None or not blobs:
                yield piece
                continue
            found = [fetch(rows.table, name, piece) if name in blobs else column_of(piece, name) for name in columns]
            yield pa.RecordBatch.from_arrays(found, names=columns)


def _pieces(batch: pa.RecordBatch, blobs: set[str]) -> Iterator[pa.RecordBatch]:
    if not batch.num_rows:
        return
    weights = np.full(batch.num_rows, batch.nbytes / batch.num_rows)
    for name in blobs:
        weights += estimate_blob_sizes(batch, name)
    numbers = np.cumsum(weights) // PIECE_BYTES
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    for start, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
        yield batch.slice(int(start), int(end - start))
