"""The first rows of a frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

_MOST: Final = 2**31 - 1
"""The largest limit that Spark takes."""
_MOST_COUNTED: Final = 2**63 - 1
_NUMBER: Final = "number"


def in_order(frame: DataFrame, order: Sequence[Column]) -> DataFrame:
    """The rows in an order, or as they are if there is none."""
    return frame.orderBy(*order) if order else frame


def limited(frame: DataFrame, order: Sequence[Column], most: int) -> DataFrame:
    """The first rows in an order, or any rows if there is none."""
    if most <= _MOST:
        return in_order(frame, order).limit(most)
    # Spark has no other way to count that far, and one task sees all rows for it.
    so_far = Window.orderBy(*(order or [fn.lit(0)])).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    counted = frame.withColumn(_NUMBER, fn.count(fn.lit(1)).over(so_far))
    return in_order(counted.where(fn.col(_NUMBER) <= fn.lit(min(most, _MOST_COUNTED))).drop(_NUMBER), order)
