"""Convert texts, as CSV files hold them, to columns of a type's table.

The rules are those of records, in the forms that a text can have: a list is a JSON array, ``true`` and ``1`` are true,
and an empty text is null unless the property is a String. A date is always a text, never a number of days.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, cast

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.types import FLOATS, INTEGERS, Scalar, ValueType
from omnigraph.language.values import ValueMismatch, convert_value
from omnigraph.storage.arrow_schema import arrow_values
from omnigraph.storage.columns import Values, compute, find_true, to_list
from omnigraph.write.load.rows.conversion import ConvertedColumn, RowMismatch, convert_arrow, convert_values
from omnigraph.write.load.rows.rounding import find_rounded_texts
from omnigraph.write.rounding import NO_ROWS

_INTEGER: Final = r"^[+-]?\d{1,20}$"
_NUMBER: Final = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_PLAIN_INTEGER: Final = r"^-?\d{1,18}$"
_TRUE: Final = ("true", "t", "1")
_FALSE: Final = ("false", "f", "0")
_NOT_UTF_8: Final = "the text is not UTF-8; save the file as UTF-8, or name its encoding"


def convert_texts(column: Values, type_: ValueType) -> ConvertedColumn:
    """Convert a column of texts. Their bytes may be invalid UTF-8, which is a mismatch."""
    texts, invalid = _drop_invalid(column)
    converted = _convert_valid(texts, type_)
    if not invalid:
        return converted
    return replace(converted, mismatches=tuple(sorted([*invalid, *converted.mismatches], key=lambda each: each.row)))


def _convert_valid(texts: Values, type_: ValueType) -> ConvertedColumn:
    if type_.is_list or type_.scalar is Scalar.VECTOR:
        return _convert_lists(texts, type_)
    if type_.scalar is Scalar.STRING:
        return convert_arrow(texts, type_)
    trimmed = _drop_empty(compute("utf8_trim_whitespace", texts))
    if type_.scalar is Scalar.BOOL:
        return _convert_bools(trimmed, type_)
    if type_.scalar in INTEGERS:
        return _convert_integers(trimmed, type_)
    if type_.scalar in FLOATS:
        return _convert_floats(trimmed, type_)
    return convert_arrow(trimmed, type_)


def _drop_empty(texts: Values) -> Values:
    return compute("if_else", compute("equal", texts, pa.scalar("")), pa.scalar(None, pa.string()), texts)


# --------------------------------------------------------------------------------------------- encoding


def _drop_invalid(column: Values) -> tuple[Values, list[RowMismatch]]:
    """Return the texts without those that are not UTF-8, and a mismatch for each of these."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        pass
    else:
        return column, []
    found: list[str | None] = []
    mismatches: list[RowMismatch] = []
    for row, data in enumerate(cast("list[bytes | None]", to_list(column.view(pa.binary())))):
        try:
            found.append(None if data is None else data.decode())
        except UnicodeDecodeError:
            found.append(None)
            mismatches.append(RowMismatch(row, cast(bytes, data).decode("utf-8", "replace"), _NOT_UTF_8))
    return cast("Values", pa.array(found, pa.string())), mismatches


# --------------------------------------------------------------------------------------------- numbers and words


def _convert_integers(texts: Values, type_: ValueType) -> ConvertedColumn:
    # Arrow would also read hexadecimal numbers.
    if _do_all_match(texts, _PLAIN_INTEGER):
        return convert_arrow(texts.cast(pa.int64()), type_)
    return _convert_each(texts, type_, re.compile(_INTEGER, re.ASCII), int)


def _convert_floats(texts: Values, type_: ValueType) -> ConvertedColumn:
    if _do_all_match(texts, _NUMBER):
        numbers = texts.cast(pa.float64())
        if _is_all_true(compute("is_finite", numbers)):
            converted = convert_arrow(numbers, type_)
            return replace(converted, rounded=find_rounded_texts(texts, converted.values))
    return _convert_each(texts, type_, re.compile(_NUMBER, re.ASCII), float)


def _convert_bools(texts: Values, type_: ValueType) -> ConvertedColumn:
    words = compute("utf8_lower", texts)
    is_true, is_false = (_is_one_of(words, each) for each in (_TRUE, _FALSE))
    known = compute("or", is_true, is_false)
    values = compute("if_else", known, is_true, pa.scalar(None, pa.bool_()))
    unknown = find_true(compute("and", compute("invert", known), compute("is_valid", texts)))
    return ConvertedColumn(values, tuple(_mismatch(texts, row, type_, "true or false") for row in unknown.tolist()))


def _is_one_of(words: Values, allowed: tuple[str, ...]) -> Values:
    return compute("is_in", words, options=pc.SetLookupOptions(pa.array(allowed)))


def _convert_each(
    texts: Values, type_: ValueType, form: re.Pattern[str], parse: Callable[[str], float]
) -> ConvertedColumn:
    target = replace(type_, nullable=True, enum_values=None)
    found: list[float | None] = []
    mismatches: list[RowMismatch] = []
    for row, text in enumerate(cast("list[str | None]", to_list(texts))):
        try:
            number = None if text is None else _parse_number(text, form, parse, target)
            found.append(cast("float | None", convert_value(number, target)))
        except ValueMismatch as mismatch:
            found.append(None)
            mismatches.append(RowMismatch(row, text, f"{mismatch.message}; {mismatch.hint}"))
    values = arrow_values(target, found)
    rounded = find_rounded_texts(texts, values) if type_.scalar in FLOATS else NO_ROWS
    return ConvertedColumn(values, tuple(mismatches), rounded)


def _parse_number(text: str, form: re.Pattern[str], parse: Callable[[str], float], type_: ValueType) -> float:
    if form.fullmatch(text) is None:
        raise ValueMismatch(f"expected {type_.scalar}, found '{text}'", _FORMS[type_.scalar])
    return parse(text)


_FORMS: Final[Mapping[Scalar, str]] = {
    **dict.fromkeys(INTEGERS, "write an integer such as 42"),
    **dict.fromkeys(FLOATS, "write a number such as 1.5"),
}


def _mismatch(texts: Values, row: int, type_: ValueType, form: str) -> RowMismatch:
    text = to_list(texts.slice(row, 1))[0]
    return RowMismatch(row, text, f"expected {type_.scalar}, found '{text}'; write {form}")


def _do_all_match(texts: Values, pattern: str) -> bool:
    return _is_all_true(compute("match_substring_regex", texts, options=pc.MatchSubstringOptions(pattern)))


def _is_all_true(mask: Values) -> bool:
    return cast("bool | None", pc.all(cast("pa.BooleanArray", mask)).as_py()) is not False


# --------------------------------------------------------------------------------------------- lists


def _convert_lists(texts: Values, type_: ValueType) -> ConvertedColumn:
    found: list[object] = []
    mismatches: list[RowMismatch] = []
    for row, text in enumerate(cast("list[str | None]", to_list(texts))):
        value = None
        try:
            value = None if text is None or not text.strip() else orjson.loads(text)
        except orjson.JSONDecodeError:
            expected = replace(type_, nullable=False)
            mismatches.append(RowMismatch(row, text, f"expected {expected}, found '{text}'; write a JSON array"))
        found.append(value)
    converted = convert_values(found, type_)
    if not mismatches:
        return converted
    return replace(converted, mismatches=tuple(sorted([*mismatches, *converted.mismatches], key=lambda each: each.row)))
