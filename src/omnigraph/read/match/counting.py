"""Reduce frames: drop the variables that nothing needs, and keep equal rows once, with a weight."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final

import numpy as np

from omnigraph.errors import Unsupported
from omnigraph.read.frames import (
    EntityColumn,
    Frame,
    Positions,
    count_by_position,
    number_tuples,
    sort_distinct,
    take_rows,
)
from omnigraph.read.match.liveness import Variables

_WORTH_COLLAPSING: Final = 1_000
"""With fewer rows, keeping them all is faster."""
_ROWS_PER_TUPLE: Final = 2
"""Rows of several variables are collapsed if there are at least so many per possible tuple."""
_LARGEST_COUNT: Final = 2.0**63


def reduce_frame(frame: Frame, needed: Variables) -> Frame:
    """Drop the variables that are not needed, and collapse equal rows where that is sure to pay."""
    if frame.weights is not None:
        check_countable(float(frame.weights.sum(dtype=np.float64)))
    if frame.bindings and needed.issuperset(frame.bindings):
        return frame
    return collapse_frame(frame.select(needed))


def collapse_frame(frame: Frame) -> Frame:
    """Keep equal rows once, where that is sure to pay."""
    if frame.ranks is not None:
        return frame
    if frame.tags is not None:
        return frame if frame.bindings else _deduplicate_tags(frame, frame.tags)
    if not frame.bindings:
        return make_counted_frame(frame.total_rows)
    if frame.num_rows < _WORTH_COLLAPSING:
        return frame
    if len(frame.bindings) > 1:
        return _collapse_tuples(frame) if _is_repetitive(frame) else frame
    (variable, binding), *_ = frame.bindings.items()
    return _collapse_column(frame, variable, binding)


def make_counted_frame(total: int) -> Frame:
    """Make a frame without variables, of which only the number of rows is known."""
    return Frame(1, weights=np.array([total], np.int64)) if total else Frame(0)


def _deduplicate_tags(frame: Frame, tags: Positions) -> Frame:
    # A block needs to know whether there is a row for a tag, not how many.
    distinct = sort_distinct(tags)
    return Frame(len(distinct), tags=distinct) if len(distinct) < frame.num_rows else Frame(len(tags), tags=tags)


def _is_repetitive(frame: Frame) -> bool:
    """Whether many rows must be equal, because there are fewer possible tuples of entities."""
    return _ROWS_PER_TUPLE * prod(len(binding.entities) for binding in frame.bindings.values()) <= frame.num_rows


def _collapse_tuples(frame: Frame) -> Frame:
    first, numbers = number_tuples([binding.positions for binding in frame.bindings.values()])
    return replace(frame.take(first), weights=count_by_position(numbers, frame.weights, len(first)))


def _collapse_column(frame: Frame, variable: str, binding: EntityColumn) -> Frame:
    if len(binding.entities) <= 4 * frame.num_rows:
        numbers = count_by_position(binding.positions, frame.weights, len(binding.entities))
        positions = np.flatnonzero(numbers)
        return Frame(
            len(positions), {variable: EntityColumn(binding.entities, positions)}, take_rows(numbers, positions)
        )
    positions, inverse = np.unique(binding.positions, return_inverse=True)
    numbers = count_by_position(inverse, frame.weights, len(positions))
    return Frame(len(positions), {variable: EntityColumn(binding.entities, positions)}, numbers)


def weights_of(frame: Frame) -> Positions:
    """The weight of each row."""
    return np.ones(frame.num_rows, np.int64) if frame.weights is None else frame.weights


def multiply_rows(frame: Frame, numbers: Positions) -> Frame:
    """Multiply the weight of each row by a number, and drop the rows whose number is 0."""
    weights = weights_of(frame)
    check_countable(float((weights.astype(np.float64) * numbers).sum()))
    weighed = Frame(frame.num_rows, frame.bindings, weights * numbers, frame.ranks, frame.tags)
    return weighed.filter(numbers > 0)


def check_countable(total: float) -> None:
    """Refuse a number of rows that no I64 can hold, before it wraps around."""
    if total >= _LARGEST_COUNT:
        raise Unsupported(
            f"about {total:.1e} rows match, more than can be counted",
            hint="bind fewer traversals in one query, or filter more",
        )
