"""Group rows: one result row for each combination of the plain columns, with its aggregates.

Rows are grouped by integer codes of their values. The positions of a variable are such codes already; a property is
encoded once for each distinct entity, not for each row. Counts and sums use the weights of rows; distinct counts,
minima and maxima do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.query import Aggregate, AggregateFunction, Expression, Identity, PropertyValue, ResultColumn
from omnigraph.language.query.plan import variables_of
from omnigraph.language.values import LARGEST_EXACT_FLOAT
from omnigraph.read.frames import (
    EvaluationContext,
    Frame,
    Mask,
    OptionalEntities,
    Positions,
    arrow_type_of,
    evaluate,
    number_tuples,
)
from omnigraph.read.match import count_by_position
from omnigraph.storage.columns import Values, column_of, compute, encode_values, find_true

"""Integers up to this are floats without loss."""
_BEYOND_I64: Final = 2**63


def group_rows(frame: Frame, columns: Sequence[ResultColumn], evaluation: EvaluationContext) -> pa.Table:
    """Return one row per group, in any order. Without plain columns there is exactly one, even for no rows."""
    keys = [column.expression for column in columns if not isinstance(column.expression, Aggregate)]
    groups = _find_groups(keys, frame, evaluation)
    representatives = frame.take(groups.first)
    arrays = [
        _aggregate(column.expression, frame, groups, evaluation)
        if isinstance(column.expression, Aggregate)
        else evaluate(column.expression, representatives, evaluation)
        for column in columns
    ]
    schema = pa.schema([pa.field(column.name, arrow_type_of(column.expression)) for column in columns])
    return pa.Table.from_arrays(arrays, schema=schema)


# --------------------------------------------------------------------------------------------- groups


@dataclass(frozen=True, slots=True)
class _RowGroups:
    """Rows in groups: the group of each row, the number of groups, and, if there are keys, a row of each group."""

    numbers: Positions
    count: int
    first: Positions


def _find_groups(keys: Sequence[Expression], frame: Frame, evaluation: EvaluationContext) -> _RowGroups:
    if not keys:
        return _RowGroups(np.zeros(frame.num_rows, np.int64), 1, np.zeros(0, np.int64))
    entities = [key for key in keys if _is_entity(key, frame)]
    shown = frozenset[str]().union(*map(variables_of, entities))
    # If a variable is a key itself, its properties do not split its groups further.
    others = [key for key in keys if key not in entities and not (variables_of(key) and variables_of(key) <= shown)]
    first, numbers = number_tuples([_encode_expression(key, frame, evaluation) for key in (*entities, *others)])
    return _RowGroups(numbers, len(first), first)


def _is_entity(expression: Expression, frame: Frame) -> bool:
    """Whether an expression has a different value for each entity of its variable."""
    match expression:
        case Identity():
            return True
        case PropertyValue(variable, name):
            return frame.bindings[variable].entities.is_key(name)
        case _:
            return False


def _encode_expression(expression: Expression, frame: Frame, evaluation: EvaluationContext) -> Positions:
    """Return a code for each row: equal for equal values, 0 for null."""
    variables = variables_of(expression)
    if _is_entity(expression, frame):
        (variable,) = variables
        binding = frame.bindings[variable]
        # An absent entity is at position 0, and null has the code 0.
        return binding.positions + (0 if isinstance(binding.entities, OptionalEntities) else 1)
    if not variables:
        return _encode_values(evaluate(expression, frame, evaluation))
    first, numbers = number_tuples([frame.bindings[name].positions for name in variables])
    return _encode_values(evaluate(expression, frame.select(variables).take(first), evaluation))[numbers]


def _encode_values(values: Values) -> Positions:
    is_list = pa.types.is_list(values.type) or pa.types.is_fixed_size_list(values.type)
    return encode_values(_serialize_lists(values) if is_list else values) + 1


def _serialize_lists(lists: Values) -> Values:
    """Encode lists as bytes that are equal for equal elements."""
    elements = _encode_values(compute("list_flatten", lists))
    lengths = compute("coalesce", compute("list_value_length", lists), pa.scalar(0, pa.int32()))
    ends = np.cumsum(lengths.to_numpy(zero_copy_only=False), dtype=np.int64) * elements.itemsize
    buffers = [None, pa.py_buffer(np.append(0, ends).tobytes()), pa.py_buffer(elements.tobytes())]
    spelled = cast("Values", pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(lists), buffers))
    return compute("if_else", compute("is_valid", lists), spelled, pa.scalar(None, pa.large_binary()))


# --------------------------------------------------------------------------------------------- aggregates


@dataclass(frozen=True, slots=True)
class _PresentValues:
    """The values of an argument that are not null, with their groups and weights."""

    values: Values
    numbers: Positions
    weights: Positions | None
    groups: int

    def counts(self) -> Positions:
        """Return the number of values in each group."""
        return count_by_position(self.numbers, self.weights, self.groups)


def _aggregate(aggregate: Aggregate, frame: Frame, groups: _RowGroups, evaluation: EvaluationContext) -> Values:
    function, argument = aggregate.function, aggregate.argument
    if function is AggregateFunction.COUNT and aggregate.distinct:
        return _to_column(_count_distinct(argument, frame, groups, evaluation))
    if function is AggregateFunction.COUNT and isinstance(argument, Identity) and not argument.type.nullable:
        return _to_column(count_by_position(groups.numbers, frame.weights, groups.count))
    present = _drop_nulls(evaluate(argument, frame, evaluation), frame, groups)
    match function:
        case AggregateFunction.COUNT:
            return _to_column(present.counts())
        case AggregateFunction.SUM:
            return _to_column(_sum_values(present), missing=present.counts() == 0)
        case AggregateFunction.AVG:
            return _to_column(_average_values(present), missing=present.counts() == 0)
        case AggregateFunction.MIN | AggregateFunction.MAX:
            return _find_text_extremes(function, present) if _is_text(present) else _find_extremes(function, present)
        case AggregateFunction.COLLECT:
            return _collect(present, arrow_type_of(aggregate), distinct=aggregate.distinct)


def _drop_nulls(values: Values, frame: Frame, groups: _RowGroups) -> _PresentValues:
    if not values.null_count:
        return _PresentValues(values, groups.numbers, frame.weights, groups.count)
    rows = find_true(compute("is_valid", values))
    weights = None if frame.weights is None else frame.weights[rows]
    return _PresentValues(values.take(rows), groups.numbers[rows], weights, groups.count)


def _to_column(results: npt.NDArray[np.generic], missing: Mask | None = None) -> Values:
    return cast("Values", pa.array(results, mask=missing))


def _count_distinct(argument: Expression, frame: Frame, groups: _RowGroups, evaluation: EvaluationContext) -> Positions:
    """Count the distinct values of each group, by their codes."""
    codes = _encode_expression(argument, frame, evaluation)
    first, _ = number_tuples([groups.numbers, codes])
    return np.bincount(groups.numbers[first[codes[first] > 0]], minlength=groups.count)


# --------------------------------------------------------------------------------------------- sums


def _sum_values(present: _PresentValues) -> npt.NDArray[np.float64]:
    if _are_floats(present):
        return _sum_floats(present)
    return _sum_integers(present).astype(np.float64)


def _average_values(present: _PresentValues) -> npt.NDArray[np.float64]:
    counts = np.maximum(present.counts(), 1)
    if _are_floats(present):
        return _sum_floats(present) / counts
    sums = _sum_integers(present)
    if max(np.abs(sums).max(initial=0), counts.max(initial=0)) <= LARGEST_EXACT_FLOAT:
        return sums / counts
    # Python divides integers of any size, and rounds once.
    return (sums.astype(np.object_) / counts.astype(np.object_)).astype(np.float64)


def _are_floats(present: _PresentValues) -> bool:
    return pa.types.is_floating(present.values.type)


def _sum_floats(present: _PresentValues) -> npt.NDArray[np.float64]:
    numbers = present.values.to_numpy(zero_copy_only=False).astype(np.float64)
    with np.errstate(over="ignore"):
        weighed = numbers if present.weights is None else numbers * present.weights
    return cast("npt.NDArray[np.float64]", np.bincount(present.numbers, weighed, present.groups))


def _sum_integers(present: _PresentValues) -> npt.NDArray[np.int64]:
    """Sum exactly: in Python's integers, which are slow, if the sums could exceed 64 bits."""
    numbers = present.values.to_numpy(zero_copy_only=False)
    largest = max(-int(numbers.min(initial=0)), int(numbers.max(initial=0)))
    total = len(numbers) if present.weights is None else int(present.weights.sum())
    width = np.int64 if largest * total < _BEYOND_I64 else np.object_
    weighed = cast("npt.NDArray[np.int64]", numbers.astype(width))
    if present.weights is not None:
        weighed = weighed * cast("npt.NDArray[np.int64]", present.weights.astype(width))
    sums = cast("npt.NDArray[np.int64]", np.zeros(present.groups, width))
    np.add.at(sums, present.numbers, weighed)
    return sums


# --------------------------------------------------------------------------------------------- smallest, largest


def _find_extremes(function: AggregateFunction, present: _PresentValues) -> Values:
    type_ = present.values.type
    numbers = _to_numbers(present.values)
    smallest = function is AggregateFunction.MIN
    results = np.full(present.groups, _identity_of_extreme(numbers.dtype, highest=smallest), numbers.dtype)
    (np.minimum if smallest else np.maximum).at(results, present.numbers, numbers)
    found = _to_column(results, missing=np.bincount(present.numbers, minlength=present.groups) == 0)
    return found if found.type.equals(type_) else found.cast(type_)


def _to_numbers(values: Values) -> npt.NDArray[np.int64]:
    """Return values as numbers in the same order: days, milliseconds, or 0 and 1 for false and true."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    elif pa.types.is_temporal(values.type):
        values = values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    return cast("npt.NDArray[np.int64]", values.to_numpy(zero_copy_only=False))


def _identity_of_extreme(dtype: np.dtype[np.generic], *, highest: bool) -> float:
    if np.issubdtype(dtype, np.floating):
        return np.inf if highest else -np.inf
    limits = np.iinfo(cast("np.dtype[np.int64]", dtype))
    return limits.max if highest else limits.min


def _is_text(present: _PresentValues) -> bool:
    return pa.types.is_string(present.values.type)


def _find_text_extremes(function: AggregateFunction, present: _PresentValues) -> Values:
    """Find the first or last text of each group, in the order of bytes."""
    name = "min" if function is AggregateFunction.MIN else "max"
    columns = [_to_column(present.numbers), present.values]
    rows = pa.Table.from_arrays(columns, names=["group", "text"])
    found = rows.group_by("group", use_threads=False).aggregate([("text", name)])
    place = compute(
        "index_in", _to_column(np.arange(present.groups)), options=pc.SetLookupOptions(column_of(found, "group"))
    )
    return column_of(found, f"text_{name}").take(cast("pa.Int32Array", place))


# --------------------------------------------------------------------------------------------- lists


def _collect(present: _PresentValues, type_: pa.DataType, *, distinct: bool) -> Values:
    """List the values of each group in ascending order."""
    values, numbers, weights = present.values, present.numbers, present.weights
    if distinct:
        first, _ = number_tuples([numbers, encode_values(values)])
        values, numbers, weights = values.take(first), numbers[first], None
    if weights is not None:
        rows = np.repeat(np.arange(len(numbers)), weights)
        values, numbers = values.take(rows), numbers[rows]
    keys = values if pa.types.is_string(values.type) else cast("Values", pa.array(_to_numbers(values)))
    found = pa.Table.from_arrays([_to_column(numbers), keys], names=["group", "value"])
    order = pc.sort_indices(found, sort_keys=[("group", "ascending"), ("value", "ascending")])
    ends = np.cumsum(np.bincount(numbers, minlength=present.groups))
    offsets = pa.array(np.append(0, ends), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, values.take(order))
    return cast("Values", lists).cast(type_)
