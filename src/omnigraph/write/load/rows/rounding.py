"""Find the values of a column that a conversion rounded, with kernels over whole columns.

Rounded are times below a millisecond, integers that a float cannot hold, and numbers that became 0. The nearest float
of a decimal is not rounded: that is what a float means.
"""

from __future__ import annotations

from typing import Final, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.values import FIRST_MILLISECOND, LAST_MILLISECOND
from omnigraph.storage.columns import Values, compute, find_true
from omnigraph.write.load.rows.positions import RowNumbers
from omnigraph.write.rounding import NO_ROWS, largest_exact_integer

_TICKS_PER_MILLISECOND: Final = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_PLAIN_INTEGER: Final = r"^[+-]?\d+$"
_NOT_ZERO: Final = r"^[+-]?[0.]*[1-9]"


def find_rounded_texts(texts: Values, floats: Values) -> RowNumbers:
    """Return the rows whose float differs from the integer in the string, or is 0 for a string that is not 0."""
    limit = largest_exact_integer(floats.type)
    large = find_true(compute("greater_equal", compute("abs", floats), pa.scalar(limit, floats.type)))
    large = large[_match(texts.take(large), _PLAIN_INTEGER)]
    zeros = find_true(compute("equal", floats, pa.scalar(0, floats.type)))
    lost = zeros[_match(texts.take(zeros), _NOT_ZERO)]
    return np.union1d(large[_differ(texts.take(large), floats.take(large))], lost).astype(np.int64)


def _differ(texts: Values, floats: Values) -> RowNumbers:
    exact = pa.decimal256(76, 0)
    try:
        return find_true(compute("not_equal", texts.cast(exact), floats.cast(pa.float64()).cast(exact)))
    except pa.ArrowInvalid:
        pairs = zip(cast("pa.StringArray", texts).to_pylist(), cast("pa.DoubleArray", floats).to_pylist(), strict=True)
        return np.flatnonzero([int(cast(str, text)) != int(cast(float, number)) for text, number in pairs])


def _match(texts: Values, pattern: str) -> RowNumbers:
    return find_true(compute("match_substring_regex", texts, options=pc.MatchSubstringOptions(pattern)))


class TimestampUnit(Protocol):
    """What a timestamp type of Arrow says of its values."""

    unit: str
    tz: str | None


def floor_to_milliseconds(times: Values) -> tuple[Values, RowNumbers]:
    """Return timestamps as milliseconds since 1970, and the rows in which digits below a millisecond are lost."""
    unit = cast("TimestampUnit", times.type).unit
    # The zone plays no role: an instant is counted in UTC. Without a zone it is in UTC.
    column = times.cast(pa.int64())
    ticks = _TICKS_PER_MILLISECOND.get(unit)
    if ticks == 1:
        return column, NO_ROWS
    known = compute("coalesce", column, pa.scalar(0, pa.int64())) if column.null_count else column
    numbers = known.to_numpy(zero_copy_only=False)
    if ticks is None:
        # Years that no date-time has are refused later, so they only have to stay outside.
        milliseconds = np.clip(numbers, FIRST_MILLISECOND // 1000 - 1, LAST_MILLISECOND // 1000 + 1) * 1000
        lost = NO_ROWS
    else:
        milliseconds = numbers // ticks
        lost = np.flatnonzero(milliseconds * ticks != numbers)
    mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return cast("Values", pa.array(milliseconds, pa.int64(), mask=mask)), lost


def convert_decimals(decimals: Values, target: pa.DataType) -> tuple[Values, RowNumbers] | None:
    """Return decimals as floats, and the rows whose float prints other digits; None if that cannot be told at once."""
    try:
        floats = decimals.cast(pa.string()).cast(target)
        printed = floats.cast(pa.string()).cast(decimals.type)
    except pa.ArrowInvalid:
        return None
    return floats, find_true(compute("not_equal", printed, decimals))
