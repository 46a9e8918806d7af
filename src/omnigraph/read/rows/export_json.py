"""Rows as lines of graph JSONL: what a load reads back to the same rows.

A whole batch is spelled at once, column by column, and the columns are put side by side; no row is looked at by itself.
Nulls are written: what is left out of a record would be given its default.
"""

from __future__ import annotations

from typing import Final, cast

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import Unsupported
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.language.types import Scalar, ValueType
from omnigraph.storage.columns import Values, column_of, compute, places
from omnigraph.storage.json_text import json_strings, quoted

_LARGE: Final = pa.large_string()
_TEXT: Final = ValueType(Scalar.STRING)
_WHOLE_NUMBER: Final = r"^-?\d+$"
_FINITE: Final = 'JSON has no such number; format="parquet" can hold it'


def to_json_lines(type_: NodeType | EdgeType, rows: pa.RecordBatch) -> Values:
    """One line for each row, with its end; blobs come as the texts that records give them in."""
    name = _json(type_.name)
    if isinstance(type_, EdgeType):
        opening = [f'{{"edge":{name},"from":', "src", ',"to":', "dst", ',"data":{"id":', "id"]
    else:
        opening = [f'{{"type":{name},"data":{{"id":', "id"]
    properties = [part for column in type_.properties for part in (f",{_json(column)}:", column)]
    parts = [*opening, *properties]
    texts = [_literal(text) for text in parts[::2]]
    values = [_spelled(type_, rows, column) for column in parts[1::2]]
    pairs = [part for pair in zip(texts, values, strict=True) for part in pair]
    return compute("binary_join_element_wise", *pairs, _literal("}}\n"), _literal(""))


def join_lines(lines: Values) -> memoryview:
    """Lines in one piece, as UTF-8: they lie behind one another already."""
    _, offsets, data = lines.buffers()
    if not len(lines) or offsets is None or data is None:
        return memoryview(b"")
    ends = memoryview(offsets).cast("q")
    return memoryview(data)[ends[lines.offset] : ends[lines.offset + len(lines)]]


def _json(text: str) -> str:
    return orjson.dumps(text).decode()


def _literal(text: str) -> pa.Scalar[pa.DataType]:
    return cast("pa.Scalar[pa.DataType]", pa.scalar(text, _LARGE))


# --------------------------------------------------------------------------------------------- values


def _spelled(type_: NodeType | EdgeType, rows: pa.RecordBatch, column: str) -> Values:
    """A column as JSON."""
    declared = type_.properties[column].type if column in type_.properties else _TEXT
    values = column_of(rows, column)
    try:
        texts = _list_texts(values, declared) if _has_items(declared) else _texts(values, declared.scalar)
    except _NotFinite:
        raise Unsupported(f"{type_.name} has a '{column}' that is not finite", hint=_FINITE) from None
    return compute("coalesce", texts.cast(_LARGE), _literal("null"))


class _NotFinite(Exception):
    """A column holds a number that JSON cannot write."""


def _has_items(type_: ValueType) -> bool:
    return type_.is_list or type_.scalar is Scalar.VECTOR


def _texts(values: Values, scalar: Scalar) -> Values:
    match scalar:
        case Scalar.STRING | Scalar.BLOB:
            return json_strings(values)
        case Scalar.F32 | Scalar.F64 | Scalar.VECTOR:
            return _float_texts(values)
        case Scalar.DATE:
            return quoted(values.cast(pa.string()))
        case Scalar.DATETIME:
            return _instant_texts(values)
        case _:
            return values.cast(pa.string())


def _float_texts(values: Values) -> Values:
    """The shortest text that reads back, of an F32 too: widened, since it is read as an F64 first."""
    if len(places(compute("invert", compute("is_finite", values)))):
        raise _NotFinite
    texts = values.cast(pa.float64()).cast(pa.string())
    # Without a point it would be read as an integer, and -0 would lose its sign.
    whole = compute("match_substring_regex", texts, options=pc.MatchSubstringOptions(_WHOLE_NUMBER))
    return compute("if_else", whole, compute("binary_join_element_wise", texts, ".0", ""), texts)


def _instant_texts(values: Values) -> Values:
    texts = values.cast(pa.timestamp("ms")).cast(pa.string())
    with_t = compute("binary_replace_slice", texts, options=pc.ReplaceSliceOptions(10, 11, "T"))
    return quoted(compute("binary_join_element_wise", with_t, "Z", ""))


def _list_texts(values: Values, type_: ValueType) -> Values:
    items = _texts(compute("list_flatten", values), type_.scalar)
    items = compute("coalesce", items, pa.scalar("null", items.type))
    lengths = compute("coalesce", compute("list_value_length", values), pa.scalar(0, pa.int32()))
    ends = np.cumsum(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    joined = compute("binary_join", cast("Values", pa.ListArray.from_arrays(offsets, items)), ",")
    listed = compute("binary_join_element_wise", "[", joined, "]", "")
    return compute("if_else", compute("is_valid", values), listed, pa.scalar(None, pa.string()))
