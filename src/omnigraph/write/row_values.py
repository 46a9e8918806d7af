"""Row ids and blobs, as every writer makes them.

Ids: fresh ones for rows without a key, and a check for the form of older releases, which made the id of a composite key
from its first column alone and spelled some other keys differently. A type with such ids can be read but not written
until they are rewritten. So all rows of a table have one form, and a sample of them tells which.

Blobs: from their text form (``base64:...``, or the URI of an object that stays where it is) and from stored rows.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.errors import LegacyRowIds, Violation
from omnigraph.language.schema import NodeType
from omnigraph.language.types import INTEGERS, Scalar
from omnigraph.language.values import now_milliseconds
from omnigraph.read.rows import INLINE_PREFIX, BlobValue, make_blob_value, read_writable_blobs
from omnigraph.storage.columns import column_of, to_list
from omnigraph.storage.keys import make_ids
from omnigraph.storage.location import has_scheme
from omnigraph.storage.tables import Table

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS: Final = np.frombuffer("".join(a + b for a in _CROCKFORD for b in _CROCKFORD).encode(), np.uint16)
_ULID_LENGTH: Final = 26
_HALF_BITS: Final = 40
_COUNTED_PAIRS: Final = _HALF_BITS // 10
_FIXED_PAIRS: Final = _ULID_LENGTH // 2 - _COUNTED_PAIRS


def generate_ids(count: int) -> pa.StringArray:
    """Generate ULIDs, each greater than the one before."""
    moment = now_milliseconds()
    # The lower half of the 80 random bits counts up. Its top bit starts clear, so that it never overflows.
    fixed = (moment << _HALF_BITS) | secrets.randbits(_HALF_BITS)
    counted = np.uint64(secrets.randbits(_HALF_BITS - 1)) + np.arange(count, dtype=np.uint64)
    pairs = np.empty((count, _ULID_LENGTH // 2), np.uint16)
    pairs[:, :_FIXED_PAIRS] = [_PAIRS[fixed >> 10 * (_FIXED_PAIRS - 1 - place) & 1023] for place in range(_FIXED_PAIRS)]
    for place in range(_COUNTED_PAIRS):
        shift = np.uint64(10 * (_COUNTED_PAIRS - 1 - place))
        pairs[:, _FIXED_PAIRS + place] = _PAIRS[counted >> shift & np.uint64(1023)]
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(_ULID_LENGTH)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets.data), pa.py_buffer(pairs.data))


# --------------------------------------------------------------------------------------------- ids of older releases

SAMPLE_ROWS: Final = 100
"""How many rows of a table are checked."""
# Older releases spelled single keys of these types as we do.
_UNCHANGED: Final = frozenset({Scalar.STRING, Scalar.BOOL}) | INTEGERS


def can_have_legacy_ids(node_type: NodeType) -> bool:
    """Whether older releases made other ids from the key of a type."""
    key = node_type.key or ()
    return len(key) > 1 or any(node_type.properties[name].type.scalar not in _UNCHANGED for name in key)


def refuse_legacy_ids(node_type: NodeType, table: Table) -> None:
    """Raise ``LegacyRowIds`` if the stored ids of a keyed type are not those of its keys."""
    found = find_legacy_id(node_type, table.scan(["id", *(node_type.key or ())], limit=SAMPLE_ROWS).read_all())
    if found is not None:
        stored, given = found
        raise LegacyRowIds(
            f"the ids of {node_type.name} have the form of an older release: '{stored}' would be '{given}' now",
            [
                Violation(
                    node_type.name,
                    "id",
                    "the stored id is not that of the key",
                    id=stored,
                    value=given,
                    table_key=node_type.table_key,
                )
            ],
            hint="run `omnigraph schema apply --rewrite-ids` first",
        )


def find_legacy_id(node_type: NodeType, rows: pa.Table) -> tuple[str, str] | None:
    """Return the first stored id that is not the id of its key, together with the latter."""
    ids = zip(to_list(column_of(rows, "id")), to_list(make_ids(node_type, rows)), strict=True)
    return next(((str(stored), str(given)) for stored, given in ids if stored != given), None)


# --------------------------------------------------------------------------------------------- blobs


_only_inline_blobs: ContextVar[bool] = ContextVar("only_inline_blobs", default=False)


class InvalidBlob(ValueError):
    """A string is not a blob: it is neither base64 nor a URI, or it is a URI where only bytes are accepted."""


@contextmanager
def only_inline_blobs() -> Generator[None]:
    """Refuse URIs of blobs in this block: who sends them from elsewhere must not choose what is read here."""
    before = _only_inline_blobs.set(True)
    try:
        yield
    finally:
        _only_inline_blobs.reset(before)


def parse_blob(text: str) -> BlobValue:
    """Parse the text form of a blob."""
    if not text.startswith(INLINE_PREFIX):
        if not has_scheme(text):
            raise InvalidBlob(f"'{text:.60}' is neither the bytes of a blob nor a URI")
        if _only_inline_blobs.get():
            raise InvalidBlob("a blob is given by a URI, and only bytes are taken here")
        return make_blob_value(uri=text)
    try:
        return make_blob_value(data=base64.b64decode(text.removeprefix(INLINE_PREFIX), validate=True))
    except binascii.Error as error:
        raise InvalidBlob(f"the text after base64: is not base64 ({error})") from error


def load_blobs(table: Table, rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Convert scanned rows to the columns of ``schema``, with the bytes of blobs. The rows need their addresses."""
    columns = [
        read_writable_blobs(table, name, rows) if pa.types.is_struct(type_) else rows[name]
        for name, type_ in zip(schema.names, schema.types, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)
