"""Blobs, read: one cell whole or by range, and whole columns of them while rows stream by.

A scan shows only where the bytes of a blob lie. Bytes that were given as the URI of an object stay there, and are
fetched from there.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Final, TypeAlias, TypedDict, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import NotFound, ParameterError, StorageError
from omnigraph.language.schema import Catalog
from omnigraph.language.source import suggest_similar
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.rows.scan import Key, build_id_condition, resolve_id
from omnigraph.read.rows.type_rows import blob_properties_of, open_type_rows, require_type
from omnigraph.storage.arrow_schema import BLOB
from omnigraph.storage.columns import Rows, Values, column_of, compute, to_list
from omnigraph.storage.lance_errors import translated
from omnigraph.storage.pinned import ROW_ADDRESS, Table

INLINE_PREFIX: Final = "base64:"
EXTERNAL_BLOB: Final = 3
"""The kind of a blob whose bytes lie outside of the graph."""

_PIECE: Final = 8 * 1024 * 1024
_UNMEASURED: Final = 1024 * 1024

BlobDescriptor: TypeAlias = "dict[str, int | str] | None"


class BlobValue(TypedDict):
    """A blob as Lance takes it: its bytes, or the URI of an object or of a part of one."""

    data: bytes | None
    uri: str | None
    position: int | None
    size: int | None


def read_blob(
    snapshot: Snapshot, catalog: Catalog, name: str, key: Key, property_: str, offset: int, length: int | None
) -> bytes | None:
    """The bytes of one blob, or a part of them; None if there is no blob. Beyond its end there is nothing."""
    if offset < 0 or (length is not None and length < 0):
        raise ParameterError(f"offset is {offset} and length is {length}", hint="neither may be negative")
    type_ = require_type(catalog, name)
    blobs = blob_properties_of(type_)
    if property_ not in blobs:
        hint = suggest_similar(property_, blobs) or (
            f"its blobs are {', '.join(blobs)}" if blobs else "it has no blobs"
        )
        raise ParameterError(f"{type_.name} has no blob '{property_}'", hint=hint)
    rows = open_type_rows(snapshot, type_)
    addresses = [
        address
        for batch in rows.read(["id"], [build_id_condition(type_, key)], with_address=True)
        for address in cast("list[int]", to_list(column_of(batch, ROW_ADDRESS)))
    ]
    if rows.table is None or not addresses:
        raise NotFound(f"no {type_.name} '{resolve_id(type_, key)}' in this snapshot")
    if property_ not in rows.table.schema.names:
        return None
    return _part(rows.table, property_, addresses[0], offset, length)


def _part(table: Table, column: str, address: int, offset: int, length: int | None) -> bytes | None:
    with translated(f"{table.subject}, blob '{column}'"):
        (file,) = table.dataset.take_blobs(column, addresses=[address])
        if file is None:
            return None
        with file:
            size = file.size()
            start = min(offset, size)
            file.seek(start)
            wanted = size - start if length is None else min(length, size - start)
            found = file.read(wanted) if wanted else b""
    if len(found) != wanted:
        raise StorageError(f"{table.subject}: blob '{column}' ended after {start + len(found)} of {size} bytes")
    return found


def measure_blob(table: Table, column: str, address: int) -> int:
    """How many bytes of a blob there are, every one of them read; few are held at a time."""
    size = 0
    with translated(f"{table.subject}, blob '{column}'"):
        (file,) = table.dataset.take_blobs(column, addresses=[address])
        if file is not None:
            with file:
                while piece := file.read(_PIECE):
                    size += len(piece)
    return size


# --------------------------------------------------------------------------------------------- whole columns


def estimate_blob_sizes(rows: Rows, column: str) -> npt.NDArray[np.float64]:
    """About how many bytes each blob has; nobody has measured those that lie elsewhere."""
    blobs = column_of(rows, column)
    if blobs.null_count == len(blobs):
        return np.zeros(len(blobs))
    kinds, sizes = (_numbers(blobs, name) for name in ("kind", "size"))
    return np.where((kinds == EXTERNAL_BLOB) & (sizes == 0), _UNMEASURED, sizes)


def _numbers(blobs: Values, name: str) -> npt.NDArray[np.float64]:
    found = compute("struct_field", blobs, options=pc.StructFieldOptions([name]))
    return compute("coalesce", found.cast(pa.float64()), pa.scalar(0.0)).to_numpy(zero_copy_only=False)


def read_blob_bytes(table: Table, column: str, rows: pa.RecordBatch) -> Values:
    """The blobs of rows that came with their addresses, with what lies elsewhere fetched."""
    descriptors = descriptors_of(rows, column)
    there = [at for at, found in enumerate(descriptors) if found is not None]
    return pa.array(read_stored_bytes(table, column, rows, there), pa.large_binary())


def read_blob_texts(table: Table, column: str, rows: pa.RecordBatch) -> pa.LargeStringArray:
    """The blobs of rows that came with their addresses, as records give them: their bytes, or the URI of an object."""
    descriptors = descriptors_of(rows, column)
    stored = [at for at, found in enumerate(descriptors) if found is not None and not _is_whole_object(found)]
    contents = read_stored_bytes(table, column, rows, stored)
    texts = [
        None
        if found is None
        else cast(str, found["blob_uri"])
        if data is None
        else INLINE_PREFIX + base64.b64encode(data).decode()
        for found, data in zip(descriptors, contents, strict=True)
    ]
    return pa.array(texts, pa.large_string())


def descriptors_of(rows: Rows, column: str) -> list[BlobDescriptor]:
    """Where the blobs of a column lie, as a scan shows it."""
    return cast("list[BlobDescriptor]", to_list(column_of(rows, column)))


def _is_whole_object(found: dict[str, int | str]) -> bool:
    """A part of an object has no text form: its bytes have to be taken."""
    return found["kind"] == EXTERNAL_BLOB and not found["size"]


def read_stored_bytes(table: Table, column: str, rows: Rows, places: Sequence[int]) -> list[bytes | None]:
    """The bytes at some places, and None at the others."""
    found: list[bytes | None] = [None] * rows.num_rows
    if places:
        addresses = to_list(column_of(rows, ROW_ADDRESS).take(pa.array(places, pa.int64())))
        with translated(f"{table.subject}, blob '{column}'"):
            read = table.dataset.read_blobs(column, addresses=cast("list[int]", addresses), preserve_order=True)
        for at, (_, data) in zip(places, read, strict=True):
            found[at] = data
    return found


# --------------------------------------------------------------------------------------------- to be written again


def to_blob_array(values: Sequence[BlobValue | None]) -> Values:
    """Blobs as a column of what Lance takes."""
    return pa.array(values, BLOB)


def make_blob_value(data: bytes | None = None, uri: str | None = None) -> BlobValue:
    """A blob by its bytes, or by the URI of an object."""
    return BlobValue(data=data, uri=uri, position=None, size=None)


def read_writable_blobs(table: Table, column: str, rows: Rows) -> Values:
    """The blobs of rows that came with their addresses, as they can be written: bytes, or where these lie outside."""
    descriptors = descriptors_of(rows, column)
    stored = [at for at, found in enumerate(descriptors) if found is not None and found["kind"] != EXTERNAL_BLOB]
    contents = read_stored_bytes(table, column, rows, stored)
    return to_blob_array([_written_again(found, data) for found, data in zip(descriptors, contents, strict=True)])


def _written_again(found: BlobDescriptor, data: bytes | None) -> BlobValue | None:
    if found is None:
        return None
    if found["kind"] != EXTERNAL_BLOB:
        return make_blob_value(data=data)
    size = cast(int, found["size"])
    part = (cast(int, found["position"]), size) if size else (None, None)
    return BlobValue(data=None, uri=cast(str, found["blob_uri"]), position=part[0], size=part[1])


def blob_to_text(value: BlobValue) -> str:
    """A blob as records give it: its bytes, or the URI of an object; which part of an object stands after ``#``."""
    if value["data"] is not None:
        return INLINE_PREFIX + base64.b64encode(value["data"]).decode()
    part = "" if value["size"] is None else f"#{value['position']}+{value['size']}"
    return f"{value['uri']}{part}"
