"""Finding texts among others: by hashing all of them, or by an order of theirs that is made once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.read.frames.frame import Positions
from omnigraph.storage.columns import Values, compute

Places: TypeAlias = npt.NDArray[np.int32]
"""Positions in one table, as they are kept in bulk."""
Chunks: TypeAlias = "pa.ChunkedArray[pa.Scalar[pa.DataType]]"


def places_of(texts: Values | Chunks, among: Values) -> Places:
    """Where each text is in an array without repeats, -1 where it is not. All of ``among`` is hashed for it."""
    if pa.types.is_large_string(among.type) and not pa.types.is_large_string(texts.type):
        texts = texts.cast(pa.large_string())
    found = pc.call_function("index_in", [texts], pc.SetLookupOptions(among))
    filled = cast("Values | Chunks", pc.fill_null(found, -1))
    return cast("Places", filled.to_numpy())


@dataclass(frozen=True, slots=True)
class Sorted:
    """Texts without repeats, and the order that sorts them by their bytes."""

    texts: Values
    order: npt.NDArray[np.int64]

    @property
    def nbytes(self) -> int:
        """The bytes of the order; the texts are kept elsewhere."""
        return self.order.nbytes

    def locate(self, wanted: Values) -> Positions:
        """Where each wanted text is, -1 where it is not: one step of a binary search for all of them at a time."""
        wanted = wanted if wanted.type == self.texts.type else wanted.cast(self.texts.type)
        low = np.zeros(len(wanted), np.int64)
        high = np.full(len(wanted), len(self.order), np.int64)
        for _ in range(len(self.order).bit_length()):
            middle = np.minimum((low + high) >> 1, len(self.order) - 1)
            is_below = self._compared("less", middle, wanted)
            low, high = np.where(is_below, middle + 1, low), np.where(is_below, high, np.minimum(middle, high))
        at = np.minimum(low, len(self.order) - 1)
        return np.where(self._compared("equal", at, wanted), self.order[at], -1)

    def _compared(self, how: str, places: Positions, wanted: Values) -> npt.NDArray[np.bool_]:
        mask = compute(how, self.texts.take(self.order[places]), wanted)
        return mask.to_numpy(zero_copy_only=False)


def sorted_texts(texts: Values) -> Sorted:
    """Texts with the order that sorts them."""
    order = cast("pa.UInt64Array", compute("array_sort_indices", texts))
    return Sorted(texts, order.to_numpy().astype(np.int64))
