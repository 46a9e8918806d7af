"""Helpers for Arrow columns. Arrow's type stubs are too narrow, so casts are kept in this module."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Rows: TypeAlias = pa.RecordBatch | pa.Table
"""Rows with all or some columns of a table."""

Values: TypeAlias = "pa.Array[pa.Scalar[pa.DataType]]"
_FEW_VALUES: Final = 16
"""Up to so many, copies of single values cost less than a call of Arrow's function, most of all the first one."""
Operand: TypeAlias = "Values | pa.Scalar[pa.DataType] | pa.StringArray | pa.BooleanArray | str | float"


def column_of(rows: Rows, name: str) -> Values:
    """Return one column as one array."""
    found = cast("Values | pa.ChunkedArray[pa.Scalar[pa.DataType]]", rows.column(name))
    if not isinstance(found, pa.ChunkedArray):
        return found
    # To combine one chunk copies it.
    return cast("Values", found.chunk(0) if found.num_chunks == 1 else found.combine_chunks())


def take_values(values: Values, places: npt.NDArray[np.int64]) -> Values:
    """Return the values at some places."""
    if not 0 < len(places) <= _FEW_VALUES:
        return values.take(places)
    return pa.concat_arrays([values.slice(place, 1) for place in places.tolist()])


def make_nulls(count: int, type_: pa.DataType) -> Values:
    """Return a column of nulls."""
    return cast("Values", pa.nulls(count, cast("pa.StructType", type_)))


def compute(function: str, *operands: Operand, options: pc.FunctionOptions | None = None) -> Values:
    """Call one of Arrow's compute functions that return an array."""
    return cast("Values", pc.call_function(function, list(operands), options))


def join_texts(*parts: str | pa.StringArray) -> pa.StringArray:
    """Concatenate texts element by element; null where a part is null."""
    return cast("pa.StringArray", compute("binary_join_element_wise", *parts, ""))


def as_text(values: Values) -> pa.StringArray:
    """Return Arrow's text of each value."""
    return cast("pa.StringArray", values.cast(pa.string()))


def to_bool_array(mask: Values) -> npt.NDArray[np.bool_]:
    """Return a mask as a NumPy array; null counts as false."""
    if mask.null_count:
        mask = compute("coalesce", mask, pa.scalar(value=False))
    return mask.to_numpy(zero_copy_only=False)


def find_true(mask: Values) -> npt.NDArray[np.int64]:
    """Return the positions where a mask is true; null counts as false."""
    return np.flatnonzero(to_bool_array(mask))


def is_among(values: Values, others: Values) -> pa.BooleanArray:
    """Return for each value whether it is one of the others."""
    return cast("pa.BooleanArray", compute("is_in", values, options=pc.SetLookupOptions(others)))


def is_not_among(values: Values, others: Values) -> pa.BooleanArray:
    """Return for each value whether it is none of the others."""
    return cast("pa.BooleanArray", compute("invert", cast("Values", is_among(values, others))))


def take_where(values: Values, places: npt.NDArray[np.int64]) -> Values:
    """Return the values at some places; null where a place is negative."""
    # The type stubs take an array with a mask for one of booleans.
    return values.take(cast("pa.Int64Array", pa.array(places, mask=places < 0)))


def rewrite_texts(texts: Values, chosen: Values, rewrite: Callable[[str], str]) -> Values:
    """Return the texts with the chosen ones, which are few, rewritten."""
    at = find_true(chosen)
    if not len(at):
        return texts
    found = texts.to_numpy(zero_copy_only=False).copy()
    found[at] = [rewrite(text) for text in found[at]]
    return pa.array(found, texts.type)


def normalize_zero(values: Values) -> Values:
    """Return the values with 0.0 for -0.0: Arrow tells the two apart in sets and dictionaries, comparisons do not."""
    return compute("add", values, pa.scalar(0, values.type)) if pa.types.is_floating(values.type) else values


class _DictionaryArray(Protocol):
    """The part of a dictionary array that is used here."""

    indices: Values


def encode_values(values: Values) -> npt.NDArray[np.int64]:
    """Return a number for each value, equal for equal values and at least 0; -1 for null."""
    encoded = cast("_DictionaryArray", compute("dictionary_encode", normalize_zero(values)))
    codes = compute("coalesce", encoded.indices, pa.scalar(-1, pa.int32()))
    return codes.to_numpy(zero_copy_only=False).astype(np.int64)


def to_list(values: Values) -> list[object]:
    """Return the values as Python objects."""
    return cast("list[object]", cast("pa.Int64Array", values).to_pylist())


# --------------------------------------------------------------------------------------------- texts as JSON

_NEEDS_ESCAPE: Final = r'["\\\x00-\x1f]'
_CONTROL: Final = r"[\x00-\x1f]"
# The backslash comes first: those that the others insert must not be escaped again.
_ESCAPES: Final = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_RARE: Final = {code: json.dumps(chr(code))[1:-1] for code in range(32)}


def quote_json(texts: Values) -> Values:
    """Return each text as a JSON string; null stays null."""
    values = texts
    if _any_matches(values, _NEEDS_ESCAPE):
        for plain, escaped in _ESCAPES:
            values = compute("replace_substring", values, options=pc.ReplaceSubstringOptions(plain, escaped))
        control = _match(values, _CONTROL)
        values = rewrite_texts(values, control, lambda text: text.translate(_RARE))
    return add_quotes(values)


def add_quotes(texts: Values) -> Values:
    """Return each text in quotes. The texts must not need escapes."""
    quote = pa.scalar('"', texts.type)
    return compute("binary_join_element_wise", quote, texts, quote, pa.scalar("", texts.type))


def _any_matches(texts: Values, pattern: str) -> bool:
    return cast("bool | None", pc.any(cast("pa.BooleanArray", _match(texts, pattern))).as_py()) or False


def _match(texts: Values, pattern: str) -> Values:
    return compute("match_substring_regex", texts, options=pc.MatchSubstringOptions(pattern))
