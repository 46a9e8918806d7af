"""Group rows: one result row for each combination of the plain columns, with its aggregates.

Rows are grouped by integer codes of their values. The positions of a variable are such codes already; a property is
encoded once for each distinct entity, not for each row. Counts and sums use the weights of rows; distinct counts,
minima and maxima do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.query import Aggregate, AggregateFunction, Expression, Identity, PropertyValue, ResultColumn
from omnigraph.language.query.plan import variables_of
from omnigraph.language.values import LARGEST_EXACT_FLOAT
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import (
    EvaluationContext,
    Frame,
    Mask,
    OptionalEntities,
    Positions,
    arrow_type_of,
    concat_numbers,
    count_by_position,
    evaluate,
    find_rows,
    map_values,
    number_tuples,
    order_codes,
    repeat_numbers,
    split_groups,
    split_parts,
    take_rows,
)
from omnigraph.read.result.order import sort_columns
from omnigraph.storage.columns import Values, column_of, compute, encode_values, find_true

_BEYOND_I64: Final = 2**63


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of some rows: their keys, as columns, and what each aggregate knows of them."""

    count: int
    keys: pa.Table
    states: tuple[AggregateState, ...]

    @property
    def nbytes(self) -> int:
        """The bytes of the keys and of the aggregates."""
        return self.keys.nbytes + sum(state.nbytes for state in self.states)


def group_rows(frame: Frame, columns: Sequence[ResultColumn], evaluation: EvaluationContext) -> pa.Table:
    """Return one row per group, in any order. Without plain columns there is exactly one, even for no rows."""
    return finish_groups(find_groups(frame, columns, evaluation), columns)


def find_groups(
    frame: Frame, columns: Sequence[ResultColumn], evaluation: EvaluationContext, *, is_part: bool = False
) -> Groups:
    """Group rows. If these are a part of all rows, keep what it takes to merge the groups with those of other parts."""
    keys = [column for column in columns if not isinstance(column.expression, Aggregate)]
    groups = _number_rows([key.expression for key in keys], frame, evaluation)
    representatives = frame.take(groups.first)
    shown = pa.concat_tables(
        [
            _show_keys(keys, representatives.slice(part.start, part.stop), evaluation)
            for part in split_parts(max(1, groups.count))
        ]
    )
    states = (_summarize(each, frame, groups, evaluation, is_part=is_part) for each in _aggregates_of(columns))
    return Groups(groups.count, shown, tuple(states))


def _show_keys(keys: Sequence[ResultColumn], frame: Frame, evaluation: EvaluationContext) -> pa.Table:
    """Return the keys of some groups. They stay in chunks: to put millions of texts together takes long."""
    fields = [pa.field(key.name, arrow_type_of(key.expression)) for key in keys]
    arrays = [evaluate(key.expression, frame, evaluation) for key in keys]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def merge_groups(parts: Sequence[Groups], columns: Sequence[ResultColumn]) -> Groups:
    """Return the groups of all rows from the groups of parts of them."""
    return parts[0] if len(parts) == 1 else merge_equal_groups(parts, columns)


def merge_equal_groups(parts: Sequence[Groups], columns: Sequence[ResultColumn]) -> Groups:
    """Merge the groups of parts of the rows that have the same keys, those of one part too."""
    keys = pa.concat_tables([part.keys for part in parts])
    if keys.num_columns:
        first, numbers = number_tuples([number_values(column_of(keys, name)) for name in keys.column_names])
        count, keys = len(first), keys.take(first)
    else:
        count, numbers = 1, np.zeros(len(parts), np.int64)
    ends = np.cumsum([part.count for part in parts])
    at = np.split(numbers, ends[:-1])
    states = [
        _merge_states(aggregate, [part.states[place] for part in parts], at, count)
        for place, aggregate in enumerate(_aggregates_of(columns))
    ]
    return Groups(count, keys.combine_chunks(), tuple(states))


def finish_groups(groups: Groups, columns: Sequence[ResultColumn]) -> pa.Table:
    """Return one row per group."""
    states = iter(zip(_aggregates_of(columns), groups.states, strict=True))
    arrays = [
        _finish(*next(states), groups.count)
        if isinstance(column.expression, Aggregate)
        else groups.keys.column(column.name)
        for column in columns
    ]
    schema = pa.schema([pa.field(column.name, arrow_type_of(column.expression)) for column in columns])
    return pa.Table.from_arrays(arrays, schema=schema)


def _aggregates_of(columns: Sequence[ResultColumn]) -> list[Aggregate]:
    return [column.expression for column in columns if isinstance(column.expression, Aggregate)]


# --------------------------------------------------------------------------------------------- groups


@dataclass(frozen=True, slots=True)
class _RowGroups:
    """Rows in groups: the group of each row, the number of groups, and, if there are keys, a row of each group."""

    numbers: Positions
    count: int
    first: Positions


def _number_rows(keys: Sequence[Expression], frame: Frame, evaluation: EvaluationContext) -> _RowGroups:
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
        return number_values(evaluate(expression, frame, evaluation))
    first, numbers = number_tuples([frame.bindings[name].positions for name in variables])
    codes = number_values(evaluate(expression, frame.select(variables).take(first), evaluation))
    return take_rows(codes, numbers)


def number_values(values: Values) -> Positions:
    """Return a code for each value: equal for equal values, 0 for null."""
    is_list = pa.types.is_list(values.type) or pa.types.is_fixed_size_list(values.type)
    return encode_values(_serialize_lists(values) if is_list else values) + 1


def _serialize_lists(lists: Values) -> Values:
    """Encode lists as bytes that are equal for equal elements."""
    elements = number_values(compute("list_flatten", lists))
    lengths = compute("coalesce", compute("list_value_length", lists), pa.scalar(0, pa.int32()))
    ends = np.cumsum(lengths.to_numpy(zero_copy_only=False), dtype=np.int64) * elements.itemsize
    buffers = [None, pa.py_buffer(np.append(0, ends).tobytes()), pa.py_buffer(elements.tobytes())]
    spelled = cast("Values", pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(lists), buffers))
    return compute("if_else", compute("is_valid", lists), spelled, pa.scalar(None, pa.large_binary()))


# --------------------------------------------------------------------------------------------- aggregates


@dataclass(frozen=True, slots=True)
class PresentValues:
    """The values of an argument that are not null, with their groups and weights."""

    values: Values
    numbers: Positions
    weights: Positions | None
    groups: int

    def counts(self) -> Positions:
        """Return the number of values in each group."""
        return count_by_position(self.numbers, self.weights, self.groups)

    @property
    def nbytes(self) -> int:
        """The bytes of the values and of their groups."""
        return self.values.nbytes + self.numbers.nbytes + (0 if self.weights is None else self.weights.nbytes)


@dataclass(frozen=True, slots=True)
class AggregateState:
    """What an aggregate knows of each group: the number of values, and what else its function needs."""

    counts: Positions
    totals: npt.NDArray[np.int64] | npt.NDArray[np.float64] | None = None
    extremes: Values | None = None
    listed: PresentValues | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of all of it."""
        parts = (self.counts, self.totals, self.extremes, self.listed)
        return sum(part.nbytes for part in parts if part is not None)


def _summarize(
    aggregate: Aggregate, frame: Frame, groups: _RowGroups, evaluation: EvaluationContext, *, is_part: bool
) -> AggregateState:
    function, argument = aggregate.function, aggregate.argument
    if function is AggregateFunction.COUNT and aggregate.distinct:
        return _count_distinct(argument, frame, groups, evaluation, is_part=is_part)
    if function is AggregateFunction.COUNT and isinstance(argument, Identity) and not argument.type.nullable:
        return AggregateState(count_by_position(groups.numbers, frame.weights, groups.count))
    present = _drop_nulls(evaluate(argument, frame, evaluation), frame, groups)
    match function:
        case AggregateFunction.COUNT:
            return AggregateState(present.counts())
        case AggregateFunction.SUM | AggregateFunction.AVG:
            totals = _sum_floats(present) if _are_floats(present) else _sum_integers(present)
            return AggregateState(present.counts(), totals)
        case AggregateFunction.MIN | AggregateFunction.MAX:
            return AggregateState(present.counts(), extremes=_find_extremes(function, present))
        case AggregateFunction.COLLECT:
            listed = _drop_duplicates(present) if aggregate.distinct else present
            return AggregateState(present.counts(), listed=listed)


def _count_distinct(
    argument: Expression, frame: Frame, groups: _RowGroups, evaluation: EvaluationContext, *, is_part: bool
) -> AggregateState:
    """Count the distinct values of each group, by their codes."""
    codes = _encode_expression(argument, frame, evaluation)
    first, _ = number_tuples([groups.numbers, codes])
    first = take_rows(first, find_rows(take_rows(codes, first) > 0))
    numbers = take_rows(groups.numbers, first)
    counts = count_by_position(numbers, None, groups.count)
    if not is_part:
        return AggregateState(counts)
    values = evaluate(argument, frame.take(first), evaluation)
    return AggregateState(counts, listed=PresentValues(values, numbers, None, groups.count))


def _merge_states(
    aggregate: Aggregate, states: Sequence[AggregateState], at: Sequence[Positions], count: int
) -> AggregateState:
    """Merge what an aggregate knows of the groups of parts; ``at`` has the number of each of these groups."""
    counts = np.zeros(count, np.int64)
    for state, numbers in zip(states, at, strict=True):
        # Several groups of one part may be the same one.
        np.add.at(counts, numbers, state.counts)
    function = aggregate.function
    match function:
        case AggregateFunction.SUM | AggregateFunction.AVG:
            return AggregateState(counts, _merge_totals(states, at, count))
        case AggregateFunction.MIN | AggregateFunction.MAX:
            found = [state.extremes for state in states if state.extremes is not None]
            everything = _concat_values([PresentValues(v, n, None, count) for v, n in zip(found, at, strict=True)])
            return AggregateState(counts, extremes=_find_extremes(function, _drop_missing(everything)))
        case AggregateFunction.COUNT | AggregateFunction.COLLECT:
            if states[0].listed is None:
                return AggregateState(counts)
            moved = [
                replace(state.listed, numbers=numbers[state.listed.numbers], groups=count)
                for state, numbers in zip(states, at, strict=True)
                if state.listed is not None
            ]
            listed = _concat_values(moved)
            if not aggregate.distinct:
                return AggregateState(counts, listed=listed)
            listed = _drop_duplicates(listed)
            return AggregateState(np.bincount(listed.numbers, minlength=count), listed=listed)


def _merge_totals(
    states: Sequence[AggregateState], at: Sequence[Positions], count: int
) -> npt.NDArray[np.int64] | npt.NDArray[np.float64]:
    totals = [state.totals for state in states if state.totals is not None]
    if all(part.dtype.kind == "f" for part in totals):
        width: type[np.generic] = np.float64
    else:
        # The smallest integer has no absolute value in 64 bits.
        most = (max(int(part.max(initial=0)), -int(part.min(initial=0))) for part in totals)
        largest = sum(each * int(np.bincount(numbers).max(initial=0)) for each, numbers in zip(most, at, strict=True))
        width = np.int64 if largest < _BEYOND_I64 else np.object_
    merged = cast("npt.NDArray[np.int64]", np.zeros(count, width))
    for part, numbers in zip(totals, at, strict=True):
        np.add.at(merged, numbers, cast("npt.NDArray[np.int64]", part.astype(width)))
    return merged


def _concat_values(parts: Sequence[PresentValues]) -> PresentValues:
    values = pa.concat_arrays([part.values for part in parts])
    weights = None
    if any(part.weights is not None for part in parts):
        ones = (np.ones(len(part.numbers), np.int64) if part.weights is None else part.weights for part in parts)
        weights = np.concatenate(list(ones))
    return PresentValues(values, np.concatenate([part.numbers for part in parts]), weights, parts[0].groups)


def _drop_duplicates(present: PresentValues) -> PresentValues:
    first, _ = number_tuples([present.numbers, number_values(present.values)])
    return _take_present(replace(present, weights=None), first)


def _drop_missing(present: PresentValues) -> PresentValues:
    rows = find_true(compute("is_valid", present.values))
    return _take_present(replace(present, weights=None), rows)


def _take_present(present: PresentValues, rows: Positions) -> PresentValues:
    values = map_values(len(rows), lambda part: present.values.take(rows[part]))
    weights = None if present.weights is None else take_rows(present.weights, rows)
    return PresentValues(values, take_rows(present.numbers, rows), weights, present.groups)


def _finish(aggregate: Aggregate, state: AggregateState, count: int) -> Values:
    """Return the values of an aggregate, one for each group."""
    match aggregate.function:
        case AggregateFunction.COUNT:
            return _to_column(state.counts)
        case AggregateFunction.SUM:
            assert state.totals is not None
            return _to_column(state.totals.astype(np.float64), missing=state.counts == 0)
        case AggregateFunction.AVG:
            return _to_column(_divide_totals(state), missing=state.counts == 0)
        case AggregateFunction.MIN | AggregateFunction.MAX:
            assert state.extremes is not None
            return state.extremes
        case AggregateFunction.COLLECT:
            assert state.listed is not None
            assert len(state.counts) == count
            return _collect(state.listed, arrow_type_of(aggregate))


def _drop_nulls(values: Values, frame: Frame, groups: _RowGroups) -> PresentValues:
    present = PresentValues(values, groups.numbers, frame.weights, groups.count)
    return _take_present(present, find_true(compute("is_valid", values))) if values.null_count else present


def _to_column(results: npt.NDArray[np.generic], missing: Mask | None = None) -> Values:
    return cast("Values", pa.array(results, mask=missing))


# --------------------------------------------------------------------------------------------- sums


def _divide_totals(state: AggregateState) -> npt.NDArray[np.float64]:
    assert state.totals is not None
    totals, counts = state.totals, np.maximum(state.counts, 1)
    if totals.dtype.kind == "f":
        return totals / counts
    if max(np.abs(totals).max(initial=0), counts.max(initial=0)) <= LARGEST_EXACT_FLOAT:
        return totals / counts
    # Python divides integers of any size, and rounds once.
    return (totals.astype(np.object_) / counts.astype(np.object_)).astype(np.float64)


def _are_floats(present: PresentValues) -> bool:
    return pa.types.is_floating(present.values.type)


def _sum_floats(present: PresentValues) -> npt.NDArray[np.float64]:
    numbers = present.values.to_numpy(zero_copy_only=False).astype(np.float64)
    with np.errstate(over="ignore"):
        weighed = numbers if present.weights is None else numbers * present.weights
    # One after the other, so that parts give the same sums as the whole.
    sums = np.zeros(present.groups, np.float64)
    for part in split_parts(len(weighed)):
        np.add.at(sums, present.numbers[part], weighed[part])
    return sums


def _sum_integers(present: PresentValues) -> npt.NDArray[np.int64]:
    """Sum exactly: in Python's integers, which are slow, if the sums could exceed 64 bits."""
    numbers = present.values.to_numpy(zero_copy_only=False)
    largest = max(-int(numbers.min(initial=0)), int(numbers.max(initial=0)))
    total = len(numbers) if present.weights is None else int(present.weights.sum())
    width = np.int64 if largest * total < _BEYOND_I64 else np.object_
    weighed = cast("npt.NDArray[np.int64]", numbers.astype(width))
    if present.weights is not None:
        weighed = weighed * cast("npt.NDArray[np.int64]", present.weights.astype(width))
    sums = cast("npt.NDArray[np.int64]", np.zeros(present.groups, width))
    for part in split_parts(len(weighed)):
        np.add.at(sums, present.numbers[part], weighed[part])
    return sums


# --------------------------------------------------------------------------------------------- smallest, largest


def _find_extremes(function: AggregateFunction, present: PresentValues) -> Values:
    if _is_text(present):
        return _find_text_extremes(function, present)
    type_ = present.values.type
    numbers = _to_numbers(present.values)
    smallest = function is AggregateFunction.MIN
    results = np.full(present.groups, _identity_of_extreme(numbers.dtype, highest=smallest), numbers.dtype)
    for part in split_parts(len(numbers)):
        (np.minimum if smallest else np.maximum).at(results, present.numbers[part], numbers[part])
    found = _to_column(results, missing=count_by_position(present.numbers, None, present.groups) == 0)
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


def _is_text(present: PresentValues) -> bool:
    return pa.types.is_string(present.values.type)


def _find_text_extremes(function: AggregateFunction, present: PresentValues) -> Values:
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


def _sort_in_groups(numbers: Positions, keys: Values, counts: Positions) -> Positions:
    """Return the order of rows by their group, then by their key: some groups at a time."""
    by_group, found = order_codes(numbers.view(np.uint64)), list[Positions]()
    for part in split_groups(counts):
        rows = by_group[part]
        keys_of_rows = map_values(len(rows), lambda some: keys.take(rows[some]))  # noqa: B023  called at once
        table = pa.Table.from_arrays([_to_column(take_rows(numbers, rows)), keys_of_rows], names=["group", "value"])
        if numbers[rows[0]] == numbers[rows[-1]]:
            order = sort_columns(table, [("value", False)])
        else:
            found_order = pc.sort_indices(table, sort_keys=[("group", "ascending"), ("value", "ascending")])
            order = found_order.to_numpy().astype(np.int64)
        found.append(take_rows(rows, order))
    return concat_numbers(found) if found else by_group


def _collect(present: PresentValues, type_: pa.DataType) -> Values:
    """List the values of each group in ascending order."""
    values, numbers, weights = present.values, present.numbers, present.weights
    keys = values if pa.types.is_string(values.type) else cast("Values", pa.array(_to_numbers(values)))
    order = _sort_in_groups(numbers, keys, count_by_position(numbers, None, present.groups))
    if weights is not None:
        order = take_rows(order, repeat_numbers(take_rows(weights, order)))
    ends = np.cumsum(count_by_position(numbers, weights, present.groups))
    offsets = pa.array(np.append(0, ends), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, map_values(len(order), lambda part: values.take(order[part])))
    return cast("Values", lists).cast(type_)
