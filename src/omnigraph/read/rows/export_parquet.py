"""Rows as Parquet: a folder for each type, with as many files as its rows need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.read.rows.export_rows import read_export_rows
from omnigraph.read.rows.public_values import to_public_batch
from omnigraph.read.rows.stored_blobs import read_blob_bytes
from omnigraph.read.rows.type_rows import TypeRows, blob_properties_of, public_schema_of
from omnigraph.storage.arrow_schema import arrow_schema

FILE_BYTES: Final = 512 * 1024 * 1024
"""A file is followed by another one when it holds so much, before compression."""
_GROUP_BYTES: Final = 32 * 1024 * 1024


def write_parquet(rows: TypeRows, folder: Path) -> int:
    """Write all rows of a type into a folder of its own, and count them. There is one file at least."""
    place = folder / rows.type.table_key.kind / rows.type.table_key.type_name
    place.mkdir(parents=True)
    schema = _schema(rows)
    groups = _groups(rows, schema)
    count, number, waiting = 0, 0, next(groups, schema.empty_table())
    while waiting is not None:
        with pq.ParquetWriter(place / f"{number:05}.parquet", schema, compression="zstd") as writer:
            size = 0
            while waiting is not None and size < FILE_BYTES:
                writer.write_table(waiting)
                count, size = count + waiting.num_rows, size + waiting.nbytes
                waiting = next(groups, None)
        number += 1
    return count


def _schema(rows: TypeRows) -> pa.Schema:
    """The columns as they are shown, blobs as their bytes."""
    schema, blobs = public_schema_of(rows.type, arrow_schema(rows.type).names), blob_properties_of(rows.type)
    for name in blobs:
        nullable = rows.type.properties[name].type.nullable
        schema = schema.set(schema.get_field_index(name), pa.field(name, pa.large_binary(), nullable))
    return schema


def _groups(rows: TypeRows, schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows, as many together as make a good row group."""
    collected: list[pa.RecordBatch] = []
    for piece in read_export_rows(rows, read_blob_bytes):
        collected.append(to_public_batch(piece, schema))
        if sum(each.nbytes for each in collected) >= _GROUP_BYTES:
            yield pa.Table.from_batches(collected, schema)
            collected = []
    if collected:
        yield pa.Table.from_batches(collected, schema)
