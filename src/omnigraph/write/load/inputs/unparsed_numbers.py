"""Numbers of JSON that the parser rounds by itself: integers of more than 64 bits, and numbers that become 0.

Only lines whose value may be such a number are looked at, and only those are parsed again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.language.schema import Property
from omnigraph.language.types import FLOATS
from omnigraph.storage.columns import Values, compute, find_true
from omnigraph.write.load.inputs.sources import Block, LineBlock
from omnigraph.write.load.rows import ConvertedColumn

_LEAST_ROUNDED: Final = 2.0**63
_SUSPICIOUS: Final = re.compile(rb"\d{19}|[eE]-\d{3}")
"""An integer beyond 64 bits has at least 19 digits; so has a number without exponent that becomes 0."""


def find_lost_digits(
    block: Block, numbers: Sequence[int], each: Property, converted: ConvertedColumn
) -> ConvertedColumn:
    """Add the rows whose number the parser of JSON rounded. ``numbers`` are the lines of the rows."""
    if each.type.scalar not in FLOATS or each.type.is_list or not isinstance(block, LineBlock):
        return converted
    rows = [row for row in _find_suspicious(converted.values) if _SUSPICIOUS.search(block.lines[numbers[row]])]
    lost = [row for row in rows if _is_lost(block.lines[numbers[row]], each.name, converted.values, row)]
    if not lost:
        return converted
    return replace(converted, rounded=np.union1d(converted.rounded, lost).astype(np.int64))


def _find_suspicious(floats: Values) -> list[int]:
    zero, large = (pa.scalar(number, floats.type) for number in (0.0, _LEAST_ROUNDED))
    suspicious = compute("or", compute("equal", floats, zero), compute("greater_equal", compute("abs", floats), large))
    return find_true(suspicious).tolist()


def _is_lost(line: bytes, name: str, floats: Values, row: int) -> bool:
    value = _read_number(line, name)
    converted = cast("float", floats[row].as_py())
    if isinstance(value, Decimal):
        return not converted and bool(value)
    return isinstance(value, int) and converted != value


def _read_number(line: bytes, name: str) -> object:
    """Return a value of a line with all its digits."""
    record = cast("Mapping[str, object]", json.loads(line, parse_float=Decimal))
    return cast("Mapping[str, object]", record.get("data", record)).get(name)


def show_value(block: Block, numbers: Sequence[int], each: Property, values: Sequence[object], row: int) -> str:
    """Return the text of a value as its line has it."""
    if each.type.scalar not in FLOATS or each.type.is_list or not isinstance(block, LineBlock):
        return str(values[row])
    number = _read_number(block.lines[numbers[row]], each.name)
    return str(values[row] if number is None else number)
