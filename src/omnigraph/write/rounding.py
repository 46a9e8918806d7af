"""Values that a write rounds: integers that a float cannot hold, numbers that become 0, times below a millisecond.

A write reports each column with rounded values. A rounded value that identifies a row is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import Json
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.language.types import FLOATS
from omnigraph.language.values import LARGEST_EXACT_FLOAT
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.columns import Values, compute, find_true, to_bool_array

NO_ROWS: Final[npt.NDArray[np.int64]] = np.zeros(0, np.int64)
_LARGEST_EXACT_F32: Final = 2**24
EXACT: Final = "exact values"
"""The rule that a rounded value breaks if it identifies a row, or if the load is strict."""


@dataclass(frozen=True, slots=True)
class RoundedColumn:
    """How many values of a property were rounded, and the file and line or record number of the first."""

    type: str
    property: str
    count: int
    file: str | None = None
    line: int | None = None
    table_key: str | None = None
    """The table of the type, such as ``node:Person``: an edge type may have the same name."""

    def to_json(self) -> dict[str, Json]:
        """Return one entry of ``rounded``."""
        return cast("dict[str, Json]", asdict(self))


def is_identifying(type_: NodeType | EdgeType, name: str) -> bool:
    """Whether a property is part of the key of a type, or of a unique group."""
    key = (type_.key or ()) if isinstance(type_, NodeType) else ()
    return any(name in names for names in (key, *type_.unique))


def join_rounded(columns: Iterable[RoundedColumn]) -> tuple[RoundedColumn, ...]:
    """Add the counts of columns that are the same; the first row is that of the first."""
    joined: dict[tuple[str | None, str], RoundedColumn] = {}
    for column in columns:
        known = joined.get((column.table_key, column.property))
        joined[column.table_key, column.property] = (
            column if known is None else replace(known, count=known.count + column.count)
        )
    return tuple(joined.values())


def describe_rounding(type_: NodeType | EdgeType, name: str, shown: str) -> str:
    """Describe a rounded value that is refused."""
    scalar = type_.properties[name].type.scalar
    what = f"no {scalar} is {shown}" if scalar in FLOATS else f"{shown} has digits below a millisecond"
    return f"{EXACT}: '{name}': {what}; round it first, or keep it in a property of another type"


def largest_exact_integer(type_: pa.DataType) -> int:
    """Return the integer up to which a float type holds all of them."""
    return _LARGEST_EXACT_F32 if pa.types.is_float32(type_) else LARGEST_EXACT_FLOAT


def find_rounded_numbers(given: Values, floats: Values) -> npt.NDArray[np.int64]:
    """Return the rows in which a float is not the integer that was given, or is 0 for another number."""
    if pa.types.is_integer(given.type):
        return _find_rounded_integers(given, floats)
    if not pa.types.is_floating(given.type) or given.type.bit_width <= floats.type.bit_width:
        return NO_ROWS
    zeros = find_true(compute("equal", floats, pa.scalar(0, floats.type)))
    if not len(zeros):
        return zeros
    return zeros[to_bool_array(compute("not_equal", given.take(zeros), pa.scalar(0, given.type)))]


def _find_rounded_integers(integers: Values, floats: Values) -> npt.NDArray[np.int64]:
    limit = largest_exact_integer(floats.type)
    bounds = cast("dict[str, int | None]", pc.min_max(cast("pa.Int64Array", integers)).as_py())
    if -limit <= (bounds["min"] or 0) and (bounds["max"] or 0) <= limit:
        return NO_ROWS
    numbers = compute("coalesce", integers, pa.scalar(0, integers.type)).to_numpy(zero_copy_only=False)
    nearest = numbers.astype(np.float32 if pa.types.is_float32(floats.type) else np.float64).astype(np.float64)
    # The largest integers round to a float that is no integer of this type.
    fits = nearest < (2.0**64 if numbers.dtype.kind == "u" else 2.0**63)
    return np.flatnonzero(~fits | (np.where(fits, nearest, 0).astype(numbers.dtype) != numbers))
