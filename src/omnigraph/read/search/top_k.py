"""Find the best rows of a ranking with as few rows as possible: fetch some more than needed, and refill.

Rows that are equally good are ordered by id, which the storage does not do. So what it returns decides only if the last
row that is needed is better than all rows that it left out. Else it is asked for four times as many.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isinf
from typing import Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import Positions
from omnigraph.storage.columns import column_of

Keys: TypeAlias = npt.NDArray[np.float64]
"""The sort keys of a ranking, smallest first; NaN for an entity without a rank."""
RowMask: TypeAlias = npt.NDArray[np.bool_]

_SPARE: Final = 2
"""Most rankings have no more ties with the last row, and 8 more than 10 rows take Lance a quarter more time."""
_SPARE_CANDIDATES: Final = 8
"""What is left of the fetched rows is about the estimate, and often a little less."""
_WIDENING: Final = 4
_FEW_ENTITIES: Final = 64
"""Up to so many are sorted faster in Python. It compares texts by code point, which is the order of their bytes."""


@dataclass(frozen=True, slots=True)
class RankedRows:
    """The best rows of a ranking, in any order: their ids and other columns, and the sort key of each."""

    rows: pa.Table
    keys: Keys
    bound: float
    """No row that is missing has a smaller key; infinite if no row is missing."""

    def filter(self, mask: RowMask) -> RankedRows:
        """Keep some of the rows, as if the others did not match."""
        return RankedRows(self.rows.filter(pa.array(mask)), self.keys[mask], self.bound)

    def decides(self, limit: int) -> bool:
        """Whether the best ``limit`` rows are among these, with all rows that tie with the last of them."""
        if isinf(self.bound):
            return True
        return len(self.keys) >= limit and bool(np.partition(self.keys, limit - 1)[limit - 1] < self.bound)

    def order_best(self, limit: int) -> Positions:
        """Return the best ``limit`` rows, best first, then by id."""
        return sort_entities(self.keys, cast("pa.StringArray", column_of(self.rows, "id")))[:limit]


FetchRows: TypeAlias = Callable[[int], RankedRows | None]
"""Returns about so many of the best rows; None if the storage cannot rank them exactly."""


def find_best_rows(fetch: FetchRows, limit: int) -> RankedRows | None:
    """Return at least the best ``limit`` rows, one or more, with all that tie with the last of them."""
    count = limit + _SPARE
    while True:
        found = fetch(count)
        if found is None or found.decides(limit):
            return found
        count *= _WIDENING


def refill_best_rows(
    fetch: FetchRows, limit: int, keep: Callable[[pa.Table], RowMask], share: float, max_count: int
) -> RankedRows | None:
    """Return the best ``limit`` rows like :func:`find_best_rows` among those to keep, about a ``share`` of all.

    None if that takes more than ``max_count`` rows.
    """
    count = int((limit + _SPARE_CANDIDATES) / share)
    while count <= max_count:
        found = fetch(count)
        if found is None:
            return None
        kept = found.filter(keep(found.rows))
        if kept.decides(limit):
            return kept
        count *= _WIDENING
    return None


def sort_entities(keys: npt.NDArray[np.int64] | npt.NDArray[np.float64], ids: pa.StringArray) -> Positions:
    """Return the order of entities by key, smallest first, then by id."""
    if len(keys) <= _FEW_ENTITIES and not ids.null_count and not np.isnan(keys).any():
        pairs = list(zip(keys.tolist(), cast("list[str]", ids.to_pylist()), strict=True))
        return np.array(sorted(range(len(pairs)), key=pairs.__getitem__), np.int64)
    found = pa.Table.from_arrays([pa.array(keys), ids], names=["key", "id"])
    order = pc.sort_indices(found, sort_keys=[("key", "ascending"), ("id", "ascending")])
    return order.to_numpy().astype(np.int64)
