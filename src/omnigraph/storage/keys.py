"""The canonical text of key values. It is the id of a keyed node, and what ``@unique`` compares."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.schema import NodeType
from omnigraph.storage.columns import (
    Rows,
    Values,
    as_text,
    column_of,
    compute,
    join_texts,
    normalize_zero,
    quote_json,
    rewrite_texts,
)


def make_ids(node_type: NodeType, rows: Rows) -> pa.StringArray:
    """Return the id of each row of a keyed type; null where a part of the key is null or not finite.

    One key column gives the canonical text of its value, several the compact JSON array of their texts, by name.
    """
    if node_type.key is None:
        raise ValueError(f"{node_type.name} has no key")
    return to_canonical_text(rows, sorted(node_type.key))


def to_canonical_text(rows: Rows, columns: Sequence[str]) -> pa.StringArray:
    """Return one text for the values of these columns together; null where one of them is null or not finite."""
    texts = [to_key_text(_drop_non_finite(column_of(rows, name))) for name in columns]
    return texts[0] if len(texts) == 1 else _json_array(texts)


def to_key_text(values: Values) -> pa.StringArray:
    """Return the canonical text of each value: numbers without exponent, dates as days, times as milliseconds."""
    if pa.types.is_string(values.type):
        return cast("pa.StringArray", values)
    if pa.types.is_date32(values.type):
        return as_text(values.cast(pa.int32()))
    if pa.types.is_date64(values.type):
        return as_text(values.cast(pa.int64()))
    if pa.types.is_floating(values.type):
        return _float_text(values)
    return as_text(values)


def _drop_non_finite(values: Values) -> Values:
    if not pa.types.is_floating(values.type):
        return values
    return compute("if_else", compute("is_finite", values), values, pa.scalar(None, values.type))


def _float_text(values: Values) -> pa.StringArray:
    # Arrow gives the shortest text that parses to the same number, but with exponents.
    texts = cast("Values", as_text(normalize_zero(values)))
    with_exponent = compute("match_substring", texts, options=pc.MatchSubstringOptions("e"))
    written = rewrite_texts(texts, with_exponent, lambda text: format(Decimal(text), "f"))
    return cast("pa.StringArray", written)


def _json_array(texts: Sequence[pa.StringArray]) -> pa.StringArray:
    first, *rest = (cast("pa.StringArray", quote_json(cast("Values", text))) for text in texts)
    return join_texts("[", first, *(part for text in rest for part in (",", text)), "]")
