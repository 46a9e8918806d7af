"""Combine the parts of a match that no edge connects: by a product, or by a join if a comparison relates them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.deadlines import check_deadline
from omnigraph.language.query import Compare, ComparisonOperator, Expression, Identity, PropertyValue
from omnigraph.language.query.plan import Cross, NodeScan, Select, TopRanked, variables_of
from omnigraph.language.types import INTEGERS, NUMBERS, Scalar
from omnigraph.language.values import ConstantValue
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import (
    ID,
    EntityColumn,
    EntitySet,
    Frame,
    OptionalEntities,
    Positions,
    RowRange,
    concat_frames,
    empty_positions,
    evaluate,
    evaluate_predicate,
    map_parts,
    repeat_numbers,
    take_rows,
    to_comparable,
    to_membership,
)
from omnigraph.read.match.counting import check_countable, multiply_rows, weights_of
from omnigraph.read.match.liveness import StepPlan, all_bound_variables, build_spine
from omnigraph.read.memory import QueryMemory
from omnigraph.storage.columns import Values, compute, encode_values, to_list
from omnigraph.storage.filters import MAX_LISTED_VALUES, Condition

_LISTED: Final = frozenset({Scalar.STRING, Scalar.BOOL}) | INTEGERS
"""The types of values that a condition lists."""
_PAIRS_AT_ONCE: Final = 1_000_000
"""A nested loop join makes and compares so many pairs at a time."""
_PAIR_BYTES: Final = 48
"""What it takes to find a pair of rows, beside the row that is made of it."""
_VALUE_BYTES: Final = 80
"""What it takes to find the equal values of one value: a text, its code and its place among the others."""


def cross_frames(left: Frame, right: Frame, memory: QueryMemory) -> Frame:
    """Combine every row of the left with every row of the right."""
    check_countable(float(left.total_rows) * right.total_rows)
    with memory.hold(left.num_rows * right.num_rows * _pair_bytes(left, right)):
        return _pair_rows(
            left,
            right,
            *_list_all_pairs(left.num_rows, right.num_rows),
        )


def _list_all_pairs(left: int, right: int) -> tuple[Positions, Positions]:
    rows = repeat_numbers(np.full(left, right, np.int64))
    return rows, map_parts(len(rows), lambda part: np.arange(part.start, part.stop) - rows[part] * right)


def _pair_bytes(left: Frame, right: Frame) -> int:
    return _PAIR_BYTES + left.row_bytes + right.row_bytes


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
    """Whether equal values of one type are compared, so that they can be listed for a scan."""
    ours, theirs = compare.left.type, compare.right.type
    return compare.operator is ComparisonOperator.EQUAL and ours.scalar is theirs.scalar and not ours.is_list


def join_frames(left: Frame, right: Frame, compare: Compare, context: QueryContext) -> Frame:
    """Join two frames by a comparison. Equality of values or of numbers matches codes; else it is a nested loop."""
    ours, theirs = compare.left, compare.right
    if not variables_of(ours) <= left.bindings.keys():
        ours, theirs = theirs, ours
    if compare.operator is not ComparisonOperator.EQUAL or not _have_equal_codes(ours, theirs):
        return _join_in_loops(left, right, compare, context)
    with context.memory.hold((left.num_rows + right.num_rows) * _VALUE_BYTES) as held:
        values = (evaluate(ours, left, context.evaluation), evaluate(theirs, right, context.evaluation))
        equal = _find_equal_rows(*(to_comparable(*values) or values))
        held.add(equal.count_pairs() * _pair_bytes(left, right))
        check_deadline()
        return _pair_rows(left, right, *equal.list_pairs())


def _join_in_loops(left: Frame, right: Frame, compare: Compare, context: QueryContext) -> Frame:
    memory = context.memory
    most = min(_PAIRS_AT_ONCE, memory.left // (4 * _pair_bytes(left, right)))
    left_rows = max(1, most // max(1, right.num_rows))
    found: list[Frame] = []
    with memory.hold() as held:
        for begin in range(0, max(1, left.num_rows), left_rows):
            check_deadline()
            product = cross_frames(left.slice(begin, begin + left_rows), right, memory)
            found.append(product.filter(evaluate_predicate(compare, product, context.evaluation)))
            held.add(2 * found[-1].nbytes)
        return concat_frames(found)


def _have_equal_codes(one: Expression, other: Expression) -> bool:
    """Whether equal values of two expressions are equal once both have one type."""
    scalars = {one.type.scalar, other.type.scalar}
    return (len(scalars) == 1 or scalars <= NUMBERS) and not (one.type.is_list or other.type.is_list)


def outer_join_frames(
    frame: Frame, numbers: Positions, found: Frame, variables: Sequence[str], memory: QueryMemory
) -> Frame:
    """Join each row with the found rows that have its number as their tag; a row without any is kept once.

    The variables are those of the found rows; where there is none, they are absent.
    """
    tags = empty_positions() if found.tags is None else found.tags
    order = np.argsort(tags, kind="stable")
    arranged = tags[order]
    begins = np.searchsorted(arranged, numbers, "left")
    counts = np.searchsorted(arranged, numbers, "right") - begins
    shown = np.maximum(counts, 1)
    with memory.hold(int(shown.sum()) * (_pair_bytes(frame, found))):
        return _join_shown(frame, found, variables, _EqualRows(begins, counts, order))


def _join_shown(frame: Frame, found: Frame, variables: Sequence[str], equal: _EqualRows) -> Frame:
    begins, counts, order = equal.begins, equal.counts, equal.order
    shown = np.maximum(counts, 1)
    left_rows = repeat_numbers(shown)
    shifts = begins - (np.cumsum(shown) - shown)

    def find_places(part: RowRange) -> Positions:
        # Row 0 of the found rows stands for none; the others are shifted by one.
        rows = left_rows[part]
        places = np.zeros(len(rows), np.int64)
        is_present = counts[rows] > 0
        places[is_present] = 1 + order[(shifts[rows] + np.arange(part.start, part.stop))[is_present]]
        return places

    places = map_parts(len(left_rows), find_places)
    joined = frame.take(left_rows)
    for name in variables:
        binding = found.bindings.get(name)
        base, positions = (None, empty_positions()) if binding is None else _to_optional(binding)
        joined = joined.bind(name, OptionalEntities(base), take_rows(np.append(0, positions), places))
    if found.weights is None:
        return joined
    return multiply_rows(joined, take_rows(np.append(1, found.weights), places))


def _to_optional(binding: EntityColumn) -> tuple[EntitySet | None, Positions]:
    """Return a set of entities, and positions among those and none."""
    if isinstance(binding.entities, OptionalEntities):
        return binding.entities.base, binding.positions
    return binding.entities, binding.positions + 1


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


@dataclass(frozen=True, slots=True)
class _EqualRows:
    """For each row of the left, where the rows of the right with the same value are among all of them, in order."""

    begins: Positions
    counts: Positions
    order: Positions

    def count_pairs(self) -> int:
        return int(self.counts.sum())

    def list_pairs(self) -> tuple[Positions, Positions]:
        left_rows = repeat_numbers(self.counts)
        # The place of a pair among those of its left row, moved to where the rows of the right begin.
        shifts = self.begins - (np.cumsum(self.counts) - self.counts)
        right_rows = map_parts(
            len(left_rows), lambda part: self.order[shifts[left_rows[part]] + np.arange(part.start, part.stop)]
        )
        return left_rows, right_rows


def _find_equal_rows(left: Values, right: Values) -> _EqualRows:
    """Find the rows of two columns that hold the same value. Null equals nothing."""
    values = pa.concat_arrays([left, right])
    if pa.types.is_floating(values.type):
        # As null, what is no number equals nothing, not even itself.
        values = compute("if_else", compute("is_nan", values), pa.scalar(None, values.type), values)
    codes = encode_values(values)
    ours, theirs = codes[: len(left)], codes[len(left) :]
    order = np.argsort(theirs, kind="stable")
    arranged = theirs[order]
    begins = np.searchsorted(arranged, ours, "left")
    counts = np.where(ours < 0, 0, np.searchsorted(arranged, ours, "right") - begins)
    return _EqualRows(begins, counts, order)
