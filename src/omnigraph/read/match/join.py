"""Combine the parts of a match that no edge connects: by a product, or by a join if a comparison relates them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import Unsupported
from omnigraph.language.query import Compare, ComparisonOperator, Identity, PropertyValue
from omnigraph.language.query.plan import Cross, NodeScan, Select, TopRanked, variables_of
from omnigraph.language.types import INTEGERS, Scalar
from omnigraph.language.values import ConstantValue
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import (
    ID,
    EntityColumn,
    EntitySet,
    Frame,
    OptionalEntities,
    Positions,
    concat_frames,
    empty_positions,
    evaluate,
    evaluate_predicate,
    to_membership,
)
from omnigraph.read.match.counting import check_countable, multiply_rows, weights_of
from omnigraph.read.match.liveness import StepPlan, all_bound_variables, build_spine
from omnigraph.storage.columns import Values, encode_values, to_list
from omnigraph.storage.filters import MAX_LISTED_VALUES, Condition

_LARGEST_PRODUCT: Final = 2**31
_LISTED: Final = frozenset({Scalar.STRING, Scalar.BOOL}) | INTEGERS
"""The types of values that a condition lists."""
_PAIRS_AT_ONCE: Final = 1_000_000
"""A nested loop join makes and compares so many pairs at a time."""


def cross_frames(left: Frame, right: Frame) -> Frame:
    """Combine every row of the left with every row of the right."""
    check_countable(float(left.total_rows) * right.total_rows)
    if left.num_rows * right.num_rows > _LARGEST_PRODUCT:
        raise Unsupported(
            f"a product of {left.num_rows:,} and {right.num_rows:,} rows does not fit into memory",
            hint="connect the two parts by an edge or a comparison, or read the rows in batches, without order",
        )
    return _pair_rows(
        left,
        right,
        np.repeat(np.arange(left.num_rows), right.num_rows),
        np.tile(np.arange(right.num_rows), left.num_rows),
    )


def find_join_comparison(product: Cross, above: StepPlan) -> Compare | None:
    """Return the comparison of the two sides of a product, if the operator right above it is one."""
    if not isinstance(above, Select) or not isinstance(above.predicate, Compare):
        return None
    compare, left, right = above.predicate, all_bound_variables(product.left), all_bound_variables(product.right)
    one, other = variables_of(compare.left), variables_of(compare.right)
    if one and other and ((one <= left and other <= right) or (one <= right and other <= left)):
        return compare
    return None


def restrict_join(left: Frame, product: Cross, compare: Compare, context: QueryContext) -> list[Condition]:
    """Return conditions for the scan of the right side: that its value is among those of the left, if these are few.

    A ranking above the scan has to see all of its nodes.
    """
    ours, theirs = compare.left, compare.right
    if not variables_of(ours) <= left.bindings.keys():
        ours, theirs = theirs, ours
    spine = build_spine(product.right, frozenset())
    if (
        not _is_equality(compare)
        or ours.type.scalar not in _LISTED
        or not isinstance(spine.leaf, NodeScan)
        or not isinstance(theirs, PropertyValue | Identity)
        or theirs.variable != spine.leaf.variable
        or any(isinstance(step.plan, TopRanked) for step in spine.steps)
    ):
        return []
    column = theirs.name if isinstance(theirs, PropertyValue) else ID
    values = evaluate(ours, left, context.evaluation).unique().drop_null()
    if len(values) > MAX_LISTED_VALUES:
        return []
    condition = to_membership(column, theirs.type, tuple(cast("list[ConstantValue]", to_list(values))))
    return [] if condition.to_sql() is None else [condition]


def _is_equality(compare: Compare) -> bool:
    """Whether equal values of one type are compared, so that codes can be matched."""
    ours, theirs = compare.left.type, compare.right.type
    return compare.operator is ComparisonOperator.EQUAL and ours.scalar is theirs.scalar and not ours.is_list


def join_frames(left: Frame, right: Frame, compare: Compare, context: QueryContext) -> Frame:
    """Join two frames by a comparison. Equality of one type matches codes; anything else is a nested loop."""
    ours, theirs = compare.left, compare.right
    if not variables_of(ours) <= left.bindings.keys():
        ours, theirs = theirs, ours
    if _is_equality(compare):
        values = (evaluate(ours, left, context.evaluation), evaluate(theirs, right, context.evaluation))
        return _pair_rows(left, right, *_find_equal_pairs(*values))
    left_rows = max(1, _PAIRS_AT_ONCE // max(1, right.num_rows))
    products = (
        cross_frames(_slice_frame(left, begin, left_rows), right)
        for begin in range(0, max(1, left.num_rows), left_rows)
    )
    return concat_frames([each.filter(evaluate_predicate(compare, each, context.evaluation)) for each in products])


def outer_join_frames(frame: Frame, numbers: Positions, found: Frame, variables: Sequence[str]) -> Frame:
    """Join each row with the found rows that have its number as their tag; a row without any is kept once.

    The variables are those of the found rows; where there is none, they are absent.
    """
    tags = empty_positions() if found.tags is None else found.tags
    order = np.argsort(tags, kind="stable")
    arranged = tags[order]
    begins = np.searchsorted(arranged, numbers, "left")
    counts = np.searchsorted(arranged, numbers, "right") - begins
    shown = np.maximum(counts, 1)
    left_rows = np.repeat(np.arange(frame.num_rows), shown)
    within = np.arange(len(left_rows)) - np.repeat(np.cumsum(shown) - shown, shown)
    is_present = np.repeat(counts > 0, shown)
    # Row 0 of the found rows stands for none; the others are shifted by one.
    places = np.zeros(len(left_rows), np.int64)
    places[is_present] = 1 + order[(np.repeat(begins, shown) + within)[is_present]]
    joined = frame.take(left_rows)
    for name in variables:
        binding = found.bindings.get(name)
        base, positions = (None, empty_positions()) if binding is None else _to_optional(binding)
        joined = joined.bind(name, OptionalEntities(base), np.append(0, positions)[places])
    if found.weights is None:
        return joined
    return multiply_rows(joined, np.append(1, found.weights)[places])


def _to_optional(binding: EntityColumn) -> tuple[EntitySet | None, Positions]:
    """Return a set of entities, and positions among those and none."""
    if isinstance(binding.entities, OptionalEntities):
        return binding.entities.base, binding.positions
    return binding.entities, binding.positions + 1


def _slice_frame(frame: Frame, begin: int, count: int) -> Frame:
    return frame.take(np.arange(begin, min(begin + count, frame.num_rows)))


def _pair_rows(left: Frame, right: Frame, left_rows: Positions, right_rows: Positions) -> Frame:
    one, other = left.take(left_rows), right.take(right_rows)
    return Frame(
        len(left_rows),
        {**one.bindings, **other.bindings},
        _multiply_weights(one, other),
        one.ranks if one.ranks is not None else other.ranks,
        one.tags,
    )


def _multiply_weights(one: Frame, other: Frame) -> Positions | None:
    if one.weights is None and other.weights is None:
        return None
    return multiply_rows(one, weights_of(other)).weights


def _find_equal_pairs(left: Values, right: Values) -> tuple[Positions, Positions]:
    """Return all pairs of rows of two columns that hold the same value. Null equals nothing."""
    codes = encode_values(pa.concat_arrays([left, right]))
    ours, theirs = codes[: len(left)], codes[len(left) :]
    order = np.argsort(theirs, kind="stable")
    arranged = theirs[order]
    begins = np.searchsorted(arranged, ours, "left")
    counts = np.where(ours < 0, 0, np.searchsorted(arranged, ours, "right") - begins)
    left_rows = np.repeat(np.arange(len(ours)), counts)
    within = np.arange(len(left_rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return left_rows, order[np.repeat(begins, counts) + within]
