"""Row ids: the canonical text of a key, and fresh ids for rows without one.

The id of a keyed node is its key as text, so a key has one spelling wherever a row comes from. Values that
``@unique`` compares are spelled the same way.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.schema.catalog import NodeType
from omnigraph.storage.columns import Rows, Values, as_text, column_of, compute, joined, places

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS: Final = np.frombuffer("".join(a + b for a in _CROCKFORD for b in _CROCKFORD).encode(), np.uint16)
_ULID_LENGTH: Final = 26
_HALF_BITS: Final = 40
_COUNTED_PAIRS: Final = _HALF_BITS // 10
_FIXED_PAIRS: Final = _ULID_LENGTH // 2 - _COUNTED_PAIRS
_NEEDS_ESCAPE: Final = r'["\\\x00-\x1f]'


def ids_of(node_type: NodeType, rows: Rows) -> pa.StringArray:
    """The id of each row of a keyed type, from its key columns; null where a part of the key is null or not finite.

    One column: the canonical text of its value. Several, by name: the compact JSON array of their texts.
    """
    if node_type.key is None:
        raise ValueError(f"{node_type.name} has no key")
    return canonical_text(rows, sorted(node_type.key))


def canonical_text(rows: Rows, columns: Sequence[str]) -> pa.StringArray:
    """The text that stands for the values of these columns together; null where one of them is null or not finite."""
    texts = [value_text(_finite(column_of(rows, name))) for name in columns]
    return texts[0] if len(texts) == 1 else _json_array(texts)


def value_text(values: Values) -> pa.StringArray:
    """Each value as a key spells it: numbers in full without exponent, dates in days, times in milliseconds."""
    if pa.types.is_string(values.type):
        return cast("pa.StringArray", values)
    if pa.types.is_date32(values.type):
        return as_text(values.cast(pa.int32()))
    if pa.types.is_date64(values.type):
        return as_text(values.cast(pa.int64()))
    if pa.types.is_floating(values.type):
        return _float_text(values)
    return as_text(values)


def new_ids(count: int) -> pa.StringArray:
    """Fresh ULIDs, each greater than the one before."""
    moment = time.time_ns() // 1_000_000
    # Of the 80 random bits the lower half is counted up; its top bit starts clear, so that it never overflows.
    fixed = (moment << _HALF_BITS) | secrets.randbits(_HALF_BITS)
    counted = np.uint64(secrets.randbits(_HALF_BITS - 1)) + np.arange(count, dtype=np.uint64)
    pairs = np.empty((count, _ULID_LENGTH // 2), np.uint16)
    for place in range(_FIXED_PAIRS):
        pairs[:, place] = _PAIRS[fixed >> 10 * (_FIXED_PAIRS - 1 - place) & 1023]
    for place in range(_COUNTED_PAIRS):
        shift = np.uint64(10 * (_COUNTED_PAIRS - 1 - place))
        pairs[:, _FIXED_PAIRS + place] = _PAIRS[counted >> shift & np.uint64(1023)]
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(_ULID_LENGTH)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets.tobytes()), pa.py_buffer(pairs.tobytes()))


def _finite(values: Values) -> Values:
    if not pa.types.is_floating(values.type):
        return values
    return compute("if_else", compute("is_finite", values), values, pa.scalar(None, values.type))


def _float_text(values: Values) -> pa.StringArray:
    # Adding zero turns -0.0 into 0.0. Arrow gives the shortest text that reads back, but with exponents.
    texts = as_text(compute("add", values, pa.scalar(0, values.type)))
    with_exponent = compute("match_substring", texts, options=pc.MatchSubstringOptions("e"))
    return _rewritten(texts, with_exponent, lambda text: format(Decimal(text), "f"))


def _json_array(texts: Sequence[pa.StringArray]) -> pa.StringArray:
    first, *rest = (_json_string(text) for text in texts)
    return joined("[", first, *(part for text in rest for part in (",", text)), "]")


def _json_string(texts: pa.StringArray) -> pa.StringArray:
    special = compute("match_substring_regex", texts, options=pc.MatchSubstringOptions(_NEEDS_ESCAPE))
    return _rewritten(joined('"', texts, '"'), special, lambda text: json.dumps(text[1:-1], ensure_ascii=False))


def _rewritten(texts: pa.StringArray, chosen: Values, rewrite: Callable[[str], str]) -> pa.StringArray:
    """The chosen texts, which are few, written anew."""
    at = places(chosen)
    if not len(at):
        return texts
    found = texts.to_numpy(zero_copy_only=False).copy()
    found[at] = [rewrite(text) for text in found[at]]
    return pa.array(found, pa.string())
