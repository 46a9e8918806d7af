"""Blobs: from what a mutation gives, and from what a scan gives, to what can be written.

A blob is given as ``base64:...``, or as the URI of an object that stays where it is. A scan shows only where the bytes
lie; a row that is written again brings them along.
"""

from __future__ import annotations

import base64
import binascii

import pyarrow as pa

from omnigraph.read.rows import INLINE_PREFIX, BlobValue, make_blob_value, read_writable_blobs
from omnigraph.storage.pinned import Table


class NotBase64(ValueError):
    """What follows ``base64:`` is not that."""


def parse_blob(text: str) -> BlobValue:
    """A blob from its text form."""
    if not text.startswith(INLINE_PREFIX):
        return make_blob_value(uri=text)
    try:
        return make_blob_value(data=base64.b64decode(text.removeprefix(INLINE_PREFIX), validate=True))
    except binascii.Error as error:
        raise NotBase64(str(error)) from error


def load_blobs(table: Table, rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows of a table, scanned with their addresses, in the columns of ``schema`` and with the blobs themselves."""
    columns = [
        read_writable_blobs(table, name, rows) if pa.types.is_struct(type_) else rows[name]
        for name, type_ in zip(schema.names, schema.types, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)
