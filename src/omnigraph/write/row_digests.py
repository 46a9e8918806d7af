"""Digests of rows: equal for rows whose values are equal as ``distinct`` compares them, and for no others.

Null equals null, NaN equals NaN, and -0.0 equals 0.0. Of a blob the digest has what a scan tells: its size, or the URI
of an external object. Its bytes are compared apart, because reading them costs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.read.rows import EXTERNAL_BLOB
from omnigraph.storage.columns import Rows, Values, column_of, compute, join_texts, quote_json, to_list
from omnigraph.storage.keys import to_key_text

_DIGEST_BYTES: Final = 16
_NULL: Final = "null"


def digest_rows(rows: Rows, columns: Sequence[str]) -> pa.StringArray:
    """Return the digest of some columns of each row. Blobs may be values or descriptors."""
    if not columns:
        return pa.array([""] * rows.num_rows, pa.string())
    first, *others = (encode_column(column_of(rows, name)) for name in columns)
    texts = join_texts(first, *(part for text in others for part in (",", text)))
    encoded = cast("list[bytes]", texts.cast(pa.binary()).to_pylist())
    # Spelled out: a call for each row takes longer than its digest.
    return pa.array([blake2b(each, digest_size=_DIGEST_BYTES).hexdigest() for each in encoded], pa.string())


def digest_bytes(data: bytes) -> str:
    """Return the digest of some bytes."""
    return blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def encode_column(values: Values) -> pa.StringArray:
    """Return one text for each value, without nulls. Texts of different values differ."""
    type_ = values.type
    if pa.types.is_string(type_):
        texts = quote_json(values)
    elif pa.types.is_struct(type_):
        texts = pa.array(map(_describe_blob, cast("list[dict[str, object] | None]", to_list(values))), pa.string())
    elif pa.types.is_fixed_size_list(type_):
        texts = _encode_vectors(values)
    elif pa.types.is_list(type_):
        texts = _encode_lists(values)
    else:
        texts = to_key_text(values)
    return cast("pa.StringArray", compute("coalesce", cast("Values", texts), pa.scalar(_NULL)))


def _encode_vectors(vectors: Values) -> pa.StringArray:
    whole = vectors.drop_null()
    items = compute("list_flatten", whole).to_numpy(zero_copy_only=False).astype(np.float32)
    # One bit pattern for every zero and every NaN.
    items = np.where(np.isnan(items), np.float32("nan"), items + np.float32(0))
    digests = map(digest_bytes, map(bytes, items.reshape(len(whole), -1))) if len(whole) else ()
    return _scatter(vectors, digests)


def _encode_lists(lists: Values) -> pa.StringArray:
    whole = lists.drop_null()
    items = encode_column(compute("list_flatten", whole))
    lengths = compute("list_value_length", whole).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    joined = compute("binary_join", cast("Values", pa.ListArray.from_arrays(offsets, items)), ",")
    return _scatter(lists, (f"[{text}]" for text in cast("list[str]", to_list(joined))))


def _scatter(values: Values, texts: Iterable[str]) -> pa.StringArray:
    """Return the texts at the places of the values that are not null."""
    remaining = iter(texts)
    valid = cast("list[bool]", to_list(compute("is_valid", values)))
    return pa.array([next(remaining) if each else None for each in valid], pa.string())


def _describe_blob(blob: dict[str, object] | None) -> str | None:
    """Describe a blob without its bytes. A value has ``data`` or ``uri``, a descriptor has a ``kind``."""
    if blob is None:
        return None
    if "kind" in blob:
        is_external, uri, size = blob["kind"] == EXTERNAL_BLOB, blob["blob_uri"], blob["size"]
    else:
        data = cast("bytes | None", blob["data"])
        is_external, uri, size = data is None, blob["uri"], blob["size"] if data is None else len(data)
    return f"<{json.dumps(uri)}>{blob['position'] or 0}+{size or 0}" if is_external else f"{size} bytes"
