"""Read blobs: one value, whole or by range, and whole columns.

A scan of a blob column gives descriptors of where the bytes are stored. An external blob stays at its URI and is
fetched from there.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, TypeAlias, TypedDict, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import NotFound, ParameterError, StorageError
from omnigraph.language.schema import Catalog
from omnigraph.language.source import suggest_name
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.rows.scan import Key, build_id_condition, resolve_id
from omnigraph.read.rows.type_rows import blob_properties_of, open_type_rows, require_type
from omnigraph.storage.arrow_schema import BLOB
from omnigraph.storage.columns import Rows, Values, column_of, compute, to_list
from omnigraph.storage.lance_internals import translate_errors
from omnigraph.storage.tables import ROW_ADDRESS, Addresses, Table

INLINE_PREFIX: Final = "base64:"
EXTERNAL_BLOB: Final = 3
"""The descriptor kind of a blob that is stored outside of the graph."""

_READ_BYTES: Final = 8 * 1024 * 1024
_GUESSED_BYTES: Final = 1024 * 1024
"""The assumed size of an external blob, which is not known."""

BlobDescriptor: TypeAlias = "dict[str, int | str] | None"


class BlobValue(TypedDict):
    """A blob in the form that Lance writes: its bytes, or the URI of an object, or a range of one."""

    data: bytes | None
    uri: str | None
    position: int | None
    size: int | None


def read_blob(
    snapshot: Snapshot, catalog: Catalog, name: str, key: Key, property_: str, offset: int, length: int | None
) -> bytes | None:
    """Read a blob, or a range of it; None if the value is null. A range beyond the end is cut or empty."""
    if offset < 0 or (length is not None and length < 0):
        raise ParameterError(f"offset is {offset} and length is {length}", hint="neither may be negative")
    type_ = require_type(catalog, name)
    blobs = blob_properties_of(type_)
    if property_ not in blobs:
        hint = suggest_name(property_, blobs, f"blobs of {type_.name}")
        raise ParameterError(f"{type_.name} has no blob '{property_}'", hint=hint)
    rows = open_type_rows(snapshot, type_)
    addresses = [
        address
        for batch in rows.read(["id"], [build_id_condition(type_, key)], with_address=True)
        for address in cast("list[int]", to_list(column_of(batch, ROW_ADDRESS)))
    ]
    if rows.table is None or not addresses:
        hint = "look at another branch or commit, or check the id"
        raise NotFound(f"no {type_.name} '{resolve_id(type_, key)}' in this snapshot", hint=hint)
    if property_ not in rows.table.schema.names:
        return None
    return _read_range(rows.table, property_, addresses[0], offset, length)


def _read_range(table: Table, column: str, address: int, offset: int, length: int | None) -> bytes | None:
    with table.reading(), translate_errors(f"{table.subject}, blob '{column}'"):
        (file,) = table.dataset.take_blobs(column, addresses=[address])
        if file is None:
            return None
        with file:
            size = file.size()
            start = min(offset, size)
            file.seek(start)
            count = size - start if length is None else min(length, size - start)
            found = file.read(count) if count else b""
    if len(found) != count:
        raise StorageError(f"{table.subject}: blob '{column}' ended after {start + len(found)} of {size} bytes")
    return found


def measure_blob(table: Table, column: str, address: int) -> int:
    """Return the size of a blob by reading all of its bytes, in pieces."""
    size = 0
    with table.reading(), translate_errors(f"{table.subject}, blob '{column}'"):
        (file,) = table.dataset.take_blobs(column, addresses=[address])
        if file is not None:
            with file:
                while piece := file.read(_READ_BYTES):
                    size += len(piece)
    return size


# --------------------------------------------------------------------------------------------- whole columns


def estimate_blob_sizes(rows: Rows, column: str) -> npt.NDArray[np.float64]:
    """Estimate the size of each blob; the size of an external object is not known."""
    blobs = column_of(rows, column)
    if blobs.null_count == len(blobs):
        return np.zeros(len(blobs))
    kinds, sizes = (_numbers_of(blobs, name) for name in ("kind", "size"))
    return np.where((kinds == EXTERNAL_BLOB) & (sizes == 0), _GUESSED_BYTES, sizes)


def split_by_bytes(
    sizes: Sequence[float] | npt.NDArray[np.float64], max_bytes: int, max_rows: int | None = None
) -> list[slice]:
    """Split rows of the given sizes into slices of about ``max_bytes`` and at most ``max_rows``; no row is divided."""
    numbers = np.cumsum(sizes) // max_bytes
    if max_rows is not None:
        numbers += np.arange(len(sizes)) // max_rows
    starts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
    return [slice(start, end) for start, end in pairwise([*starts, len(sizes)])]


def _numbers_of(blobs: Values, name: str) -> npt.NDArray[np.float64]:
    found = compute("struct_field", blobs, options=pc.StructFieldOptions([name]))
    return compute("coalesce", found.cast(pa.float64()), pa.scalar(0.0)).to_numpy(zero_copy_only=False)


def read_blob_texts(table: Table, column: str, rows: pa.RecordBatch) -> pa.LargeStringArray:
    """Read blobs in the text form of records: bytes as base64, or the URI of an external object."""
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
    """The descriptors of a scanned blob column."""
    return cast("list[BlobDescriptor]", to_list(column_of(rows, column)))


def _is_whole_object(found: dict[str, int | str]) -> bool:
    """Whether a blob is a whole external object. A range of one has no text form, so its bytes are read."""
    return found["kind"] == EXTERNAL_BLOB and not found["size"]


def read_stored_bytes(table: Table, column: str, rows: Rows, places: Sequence[int]) -> list[bytes | None]:
    """Read the bytes at some positions; None at all others."""
    found: list[bytes | None] = [None] * rows.num_rows
    if places:
        addresses = to_list(column_of(rows, ROW_ADDRESS).take(pa.array(places, pa.int64())))
        with table.reading(), translate_errors(f"{table.subject}, blob '{column}'"):
            read = table.dataset.read_blobs(column, addresses=cast("list[int]", addresses), preserve_order=True)
        for at, (_, data) in zip(places, read, strict=True):
            found[at] = data
    return found


def read_blobs_at(table: Table, column: str, addresses: Addresses) -> list[bytes | None]:
    """Read the bytes of a blob column at some addresses; None for nulls and external objects."""
    listed = ", ".join(map(str, addresses.tolist()))
    rows = table.scan([column], filter=f"{ROW_ADDRESS} IN ({listed})", with_row_address=True).read_all()
    descriptors = descriptors_of(rows, column)
    stored = [at for at, each in enumerate(descriptors) if each is not None and each["kind"] != EXTERNAL_BLOB]
    contents = read_stored_bytes(table, column, rows, stored)
    found = dict(zip(cast("list[int]", to_list(column_of(rows, ROW_ADDRESS))), contents, strict=True))
    return [found[address] for address in addresses.tolist()]


# --------------------------------------------------------------------------------------------- as a write takes them


def to_blob_array(values: Sequence[BlobValue | None]) -> Values:
    """Build a blob column in the form that Lance writes."""
    return pa.array(values, BLOB)


def make_blob_value(data: bytes | None = None, uri: str | None = None) -> BlobValue:
    """Build a blob from its bytes or from the URI of an object."""
    return BlobValue(data=data, uri=uri, position=None, size=None)


def read_writable_blobs(table: Table, column: str, rows: Rows) -> Values:
    """Read blobs in the form that Lance writes; an external blob stays a URI. The rows come with their addresses."""
    descriptors = descriptors_of(rows, column)
    stored = [at for at, found in enumerate(descriptors) if found is not None and found["kind"] != EXTERNAL_BLOB]
    contents = read_stored_bytes(table, column, rows, stored)
    return to_blob_array([_to_blob_value(found, data) for found, data in zip(descriptors, contents, strict=True)])


def _to_blob_value(found: BlobDescriptor, data: bytes | None) -> BlobValue | None:
    if found is None:
        return None
    if found["kind"] != EXTERNAL_BLOB:
        return make_blob_value(data=data)
    size = cast(int, found["size"])
    part = (cast(int, found["position"]), size) if size else (None, None)
    return BlobValue(data=None, uri=cast(str, found["blob_uri"]), position=part[0], size=part[1])


def blob_to_text(value: BlobValue) -> str:
    """Return the text form of a blob: its bytes as base64, or its URI; a range of an object follows after ``#``."""
    if value["data"] is not None:
        return INLINE_PREFIX + base64.b64encode(value["data"]).decode()
    part = "" if value["size"] is None else f"#{value['position']}+{value['size']}"
    return f"{value['uri']}{part}"
