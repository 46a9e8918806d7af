"""Compare two columns value by value, whole columns at a time.

Null equals null, NaN equals NaN, and -0.0 equals 0.0, as in a query or a key. Lists and vectors are equal if all their
elements are. Blobs are equal if their bytes are, wherever they are stored. An external blob is compared by its URI; its
bytes are not read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.read.frames import Mask
from omnigraph.read.rows import EXTERNAL_BLOB, BlobDescriptor, descriptors_of, read_stored_bytes, split_by_bytes
from omnigraph.storage.columns import Values, compute, to_bool_array
from omnigraph.storage.tables import Table

_BYTES_AT_ONCE: Final = 16 * 1024 * 1024
"""The bytes of blobs of each side that are compared at a time; a blob is never divided."""


def compare_values(one: Values, other: Values) -> Mask:
    """Return where two columns of one type are equal. A blob must be given as a value, not as a descriptor."""
    missing, other_missing = to_bool_array(compute("is_null", one)), to_bool_array(compute("is_null", other))
    if pa.types.is_struct(one.type):
        fields = [field.name for field in cast("Iterable[pa.Field[pa.DataType]]", one.type)]
        same = np.logical_and.reduce([compare_values(_field(one, name), _field(other, name)) for name in fields])
        return (missing & other_missing) | (same & ~missing & ~other_missing)
    if pa.types.is_list(one.type) or pa.types.is_fixed_size_list(one.type):
        return (missing & other_missing) | _compare_lists(one, other, ~(missing | other_missing))
    same = to_bool_array(compute("equal", one, other))
    if pa.types.is_floating(one.type):
        same |= to_bool_array(compute("is_nan", one)) & to_bool_array(compute("is_nan", other))
    return same | (missing & other_missing)


def _field(values: Values, name: str) -> Values:
    return compute("struct_field", values, options=pc.StructFieldOptions([name]))


def _compare_lists(one: Values, other: Values, valid: Mask) -> Mask:
    lengths, other_lengths = (_lengths_of(each) for each in (one, other))
    same = valid & (lengths == other_lengths)
    at = np.flatnonzero(same)
    ends = np.cumsum(lengths[at])
    elements = [compute("list_flatten", each.take(at)) for each in (one, other)]
    differing = np.concatenate([[0], np.cumsum(~compare_values(*elements))])
    same[at] = differing[ends] == differing[ends - lengths[at]]
    return same


def _lengths_of(lists: Values) -> npt.NDArray[np.int64]:
    lengths = compute("coalesce", compute("list_value_length", lists), pa.scalar(0, pa.int32()))
    return lengths.to_numpy(zero_copy_only=False).astype(np.int64)


# --------------------------------------------------------------------------------------------- blobs


def compare_blobs(one: tuple[Table, pa.Table, str], other: tuple[Table, pa.Table, str]) -> Mask:
    """Return where two blob columns are equal, given by table, rows and name; the rows come with their addresses.

    Bytes are read only where the sizes are equal.
    """
    pairs = list(zip(descriptors_of(*one[1:]), descriptors_of(*other[1:]), strict=True))
    same = np.array([_may_be_equal(*pair) for pair in pairs], np.bool_)
    stored = [at for at in np.flatnonzero(same).tolist() if (found := pairs[at][0]) and found["kind"] != EXTERNAL_BLOB]
    for part in split_by_bytes([_size_of(pairs[at][0]) for at in stored], _BYTES_AT_ONCE):
        places = stored[part]
        contents = (
            read_stored_bytes(table, column, rows.take(places), range(len(places)))
            for table, rows, column in (one, other)
        )
        same[places] = [mine == theirs for mine, theirs in zip(*contents, strict=True)]
    return same


def _may_be_equal(one: BlobDescriptor, other: BlobDescriptor) -> bool:
    if one is None or other is None:
        return one is other
    if EXTERNAL_BLOB in (one["kind"], other["kind"]):
        return all(one[name] == other[name] for name in ("kind", "blob_uri", "position", "size"))
    return one["size"] == other["size"]


def _size_of(found: BlobDescriptor) -> int:
    return 0 if found is None else int(found["size"])
