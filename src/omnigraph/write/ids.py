"""Fresh ids for rows without a key."""

from __future__ import annotations

import secrets
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.language.values import now_milliseconds

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS: Final = np.frombuffer("".join(a + b for a in _CROCKFORD for b in _CROCKFORD).encode(), np.uint16)
_ULID_LENGTH: Final = 26
_HALF_BITS: Final = 40
_COUNTED_PAIRS: Final = _HALF_BITS // 10
_FIXED_PAIRS: Final = _ULID_LENGTH // 2 - _COUNTED_PAIRS


def generate_ids(count: int) -> pa.StringArray:
    """Fresh ULIDs, each greater than the one before."""
    moment = now_milliseconds()
    # Of the 80 random bits the lower half is counted up; its top bit starts clear, so that it never overflows.
    fixed = (moment << _HALF_BITS) | secrets.randbits(_HALF_BITS)
    counted = np.uint64(secrets.randbits(_HALF_BITS - 1)) + np.arange(count, dtype=np.uint64)
    pairs = np.empty((count, _ULID_LENGTH // 2), np.uint16)
    pairs[:, :_FIXED_PAIRS] = [_PAIRS[fixed >> 10 * (_FIXED_PAIRS - 1 - place) & 1023] for place in range(_FIXED_PAIRS)]
    for place in range(_COUNTED_PAIRS):
        shift = np.uint64(10 * (_COUNTED_PAIRS - 1 - place))
        pairs[:, _FIXED_PAIRS + place] = _PAIRS[counted >> shift & np.uint64(1023)]
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(_ULID_LENGTH)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets.data), pa.py_buffer(pairs.data))
