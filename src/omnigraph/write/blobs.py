"""Blobs: from what a mutation gives, and from what a scan gives, to what can be written.

A blob is given as ``base64:...``, or as the URI of an object that stays where it is. A scan shows only where the bytes
lie; a row that is written again brings them along.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import TypedDict, cast

import pyarrow as pa

from omnigraph.language.schema.arrow import BLOB
from omnigraph.read.blob import EXTERNAL, INLINE, Descriptor, stored_bytes
from omnigraph.storage.pinned import Table


class BlobValue(TypedDict):
    """A blob as Lance takes it: its bytes, or the URI of an object or of a part of one."""

    data: bytes | None
    uri: str | None
    position: int | None
    size: int | None


class NotBase64(ValueError):
    """What follows ``base64:`` is not that."""


def blob_of(text: str) -> BlobValue:
    """A blob from its text form."""
    if not text.startswith(INLINE):
        return _blob(uri=text)
    try:
        return _blob(data=base64.b64decode(text.removeprefix(INLINE), validate=True))
    except binascii.Error as error:
        raise NotBase64(str(error)) from error


def blob_array(values: Sequence[BlobValue | None]) -> pa.Array[pa.Scalar[pa.DataType]]:
    """Blobs as a column."""
    return pa.array(values, BLOB)


def with_blobs(table: Table, rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows of a table, scanned with their addresses, in the columns of ``schema`` and with the blobs themselves."""
    columns = [
        _whole(table, name, rows) if pa.types.is_struct(type_) else rows[name]
        for name, type_ in zip(schema.names, schema.types, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _whole(table: Table, column: str, rows: pa.Table) -> pa.Array[pa.Scalar[pa.DataType]]:
    descriptors = cast("list[Descriptor]", rows[column].to_pylist())
    stored = [at for at, found in enumerate(descriptors) if found is not None and found["kind"] != EXTERNAL]
    contents = stored_bytes(table, column, rows, stored)
    return blob_array([_written_again(found, data) for found, data in zip(descriptors, contents, strict=True)])


def _written_again(found: Descriptor, data: bytes | None) -> BlobValue | None:
    if found is None:
        return None
    if found["kind"] != EXTERNAL:
        return _blob(data=data)
    size = cast(int, found["size"])
    part = (cast(int, found["position"]), size) if size else (None, None)
    return BlobValue(data=None, uri=cast(str, found["blob_uri"]), position=part[0], size=part[1])


def _blob(data: bytes | None = None, uri: str | None = None) -> BlobValue:
    return BlobValue(data=data, uri=uri, position=None, size=None)
