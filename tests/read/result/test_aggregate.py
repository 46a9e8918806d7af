"""Groups and their aggregates are those of the plain evaluator, whatever the rows weigh."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.language.query.ast import AggregateFunction
from omnigraph.language.query.typed_tree import (
    Aggregate,
    Constant,
    Expression,
    Identity,
    ParameterValue,
    PropertyValue,
    ResultColumn,
)
from omnigraph.language.types import FLOATS, Scalar, ValueType
from omnigraph.language.values import ConstantValue
from omnigraph.read.frames.evaluation import EvaluationContext
from omnigraph.read.frames.frame import EntityColumn, Frame
from omnigraph.read.memory import MemoryPool, QueryMemory
from omnigraph.read.result import row_sorter
from omnigraph.read.result.aggregate import Groups, find_groups, finish_groups, group_rows, merge_groups
from omnigraph.read.result.spilled_groups import SpilledGroups
from omnigraph.storage.columns import column_of
from tests.language.query.plan.plan_evaluator import Row, _aggregate, value
from tests.language.query.query_strategies import fuzzing
from tests.read.random_entities import PROPERTIES, SINGLE, Loaded, NoSearch, Things, constants, properties_of, things

STRING, INTEGER, FLOAT = ValueType(Scalar.STRING), ValueType(Scalar.I64), ValueType(Scalar.F64, nullable=True)
NUMBERS = {name: type_ for name, type_ in SINGLE.items() if type_.is_number}
NODES: list[Expression] = [Identity("a", STRING), Identity("b", STRING)]
FIXED: list[Expression] = [ParameterValue("i64", SINGLE["i64"]), Constant(2, INTEGER)]

COUNT, SUM, AVG = AggregateFunction.COUNT, AggregateFunction.SUM, AggregateFunction.AVG
MIN, MAX = AggregateFunction.MIN, AggregateFunction.MAX


def result_type(function: AggregateFunction, argument: Expression) -> ValueType:
    if function is COUNT:
        return INTEGER
    return FLOAT if function in (SUM, AVG) else argument.type


def aggregate_of(function: AggregateFunction, argument: Expression, *, distinct: bool = False) -> Aggregate:
    return Aggregate(function, argument, distinct, result_type(function, argument))


KEYS = properties_of(PROPERTIES) | st.sampled_from([*NODES, *FIXED])
COUNTS = st.builds(aggregate_of, st.just(COUNT), KEYS, distinct=st.booleans())
SUMS = st.builds(aggregate_of, st.sampled_from([SUM, AVG]), properties_of(NUMBERS) | st.sampled_from(FIXED))
ENDS = st.builds(aggregate_of, st.sampled_from([MIN, MAX]), properties_of({**NUMBERS, "string": SINGLE["string"]}))
AGGREGATES = COUNTS | SUMS | ENDS


def columns_of(expressions: Sequence[Expression]) -> tuple[ResultColumn, ...]:
    return tuple(ResultColumn(str(number), expression) for number, expression in enumerate(expressions))


def expected_groups(
    expressions: Sequence[Expression], given_things: Things
) -> dict[tuple[ConstantValue, ...], list[Row]]:
    """The rows of each group."""
    keys = [each for each in expressions if not isinstance(each, Aggregate)]
    groups: dict[tuple[ConstantValue, ...], list[Row]] = defaultdict(list)
    for row in given_things.rows:
        groups[tuple(value(key, row, given_things.graph) for key in keys)].append(row)
    if not keys and not groups:
        groups[()] = []
    return groups


def same(found: ConstantValue, expected: ConstantValue, of: Aggregate, members: list[Row], things_: Things) -> bool:
    """Equal; sums of floats may be rounded in another order."""
    if of.function not in (SUM, AVG) or of.argument.type.scalar not in FLOATS or found is None or expected is None:
        return found == expected
    values = [value(of.argument, row, things_.graph) for row in members]
    slack = 1e-12 * sum(abs(each) for each in values if each is not None)
    return math.isclose(cast(float, found), cast(float, expected), abs_tol=slack)


@fuzzing(300)
@given(things(weighted=True) | things(), st.lists(KEYS, max_size=3), st.lists(AGGREGATES, min_size=1, max_size=3))
def test_groups_are_those_of_the_plain_evaluator(
    given_things: Things, keys: list[Expression], aggregated: list[Aggregate]
) -> None:
    expressions = [*keys, *aggregated]
    table = group_rows(given_things.frame, columns_of(expressions), given_things.request)
    rows = list(zip(*(constants(column_of(table, name)) for name in table.column_names), strict=True))
    groups = expected_groups(expressions, given_things)
    found = {row[: len(keys)]: row[len(keys) :] for row in rows}
    assert len(found) == len(rows)
    assert found.keys() == groups.keys()
    for key, members in groups.items():
        for result, aggregate in zip(found[key], aggregated, strict=True):
            expected = _aggregate(aggregate, members, given_things.graph)
            assert same(result, expected, aggregate, members, given_things), (key, aggregate)


def spill_and_merge(parts: Sequence[Groups], columns: Sequence[ResultColumn], key_count: int) -> pa.Table:
    """Write the groups of each part to a file, and merge the files, a few rows at a time."""
    spilled = SpilledGroups(columns, key_count, QueryMemory(MemoryPool(2**30)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_sorter, "_BATCH_ROWS", 2)
        patch.setattr(row_sorter, "_MOST_RUNS", 2)
        for part in parts:
            spilled.write([part])
        tables = [finish_groups(groups, columns) for groups in spilled.read()]
    spilled.close()
    return pa.concat_tables(tables) if tables else finish_groups(parts[0], columns)


@pytest.mark.parametrize("way", ["in memory", "in files"])
@fuzzing(150)
@given(
    things(weighted=True) | things(),
    st.lists(KEYS, max_size=3),
    st.lists(AGGREGATES, min_size=1, max_size=3),
    st.lists(st.integers(0, 30), max_size=4),
)
def test_groups_of_parts_are_merged_to_the_groups_of_all_rows(
    way: str, given_things: Things, keys: list[Expression], aggregated: list[Aggregate], cuts: list[int]
) -> None:
    columns, frame = columns_of([*keys, *aggregated]), given_things.frame
    bounds = sorted({0, frame.num_rows, *(min(cut, frame.num_rows) for cut in cuts)})
    ranges = list(pairwise(bounds)) or [(0, 0)]
    parts = [find_groups(frame.slice(*each), columns, given_things.request, is_part=True) for each in ranges]
    if keys and way == "in files":
        found = spill_and_merge(parts, columns, len(keys))
    else:
        # Merged parts are merged again.
        found = finish_groups(merge_groups([merge_groups(parts[:2], columns), *parts[2:]], columns), columns)
    whole = group_rows(frame, columns, given_things.request)
    assert len(found) == len(whole)

    def by_key(table: pa.Table) -> dict[tuple[ConstantValue, ...], tuple[ConstantValue, ...]]:
        rows = zip(*(constants(column_of(table, name)) for name in table.column_names), strict=True)
        return {row[: len(keys)]: row[len(keys) :] for row in rows}

    groups = expected_groups([*keys, *aggregated], given_things)
    for key, results in by_key(whole).items():
        for result, expected, aggregate in zip(by_key(found)[key], results, aggregated, strict=True):
            assert same(result, expected, aggregate, groups[key], given_things), (key, aggregate)


# --------------------------------------------------------------------------------------------- large numbers


def sums(
    values: list[int], type_: pa.DataType, scalar: Scalar, weights: list[int] | None = None
) -> tuple[float, float]:
    """The sum and the average of some values."""
    rows = pa.table({"id": [str(number) for number in range(len(values))], "n": pa.array(values, type_)})
    bindings = {"v": EntityColumn(Loaded(rows), np.arange(len(values)))}
    frame = Frame(len(values), bindings, None if weights is None else np.array(weights, np.int64))
    number = PropertyValue("v", "n", ValueType(scalar))
    columns = columns_of([aggregate_of(function, number) for function in (SUM, AVG)])
    table = group_rows(frame, columns, EvaluationContext({}, 0, NoSearch()))
    found = cast("dict[str, float]", table.to_pylist()[0])
    return found["0"], found["1"]


def test_a_sum_of_integers_is_rounded_once() -> None:
    odd = 2**53 + 1
    assert sums([odd, -1, -odd, odd, 1], pa.int64(), Scalar.I64)[0] == float(odd)


def test_a_sum_beyond_64_bits_is_exact_before_it_is_rounded() -> None:
    most = 2**64 - 1
    assert sums([most] * 5, pa.uint64(), Scalar.U64) == (float(5 * most), float(most))
    weights = [2**40, 3]
    exact = (2**63 - 1) * 2**40 + 3 * 5
    assert sums([2**63 - 1, 5], pa.int64(), Scalar.I64, weights) == (float(exact), exact / (2**40 + 3))


def test_an_average_of_large_integers_is_rounded_once() -> None:
    values = [2**53 + 1, 2**53 + 1, 2**53 + 3]
    assert sums(values, pa.int64(), Scalar.I64)[1] == sum(values) / 3


def test_counts_beyond_what_floats_hold_are_exact() -> None:
    rows = Loaded(pa.table({"id": ["x", "y"]}))
    frame = Frame(2, {"v": EntityColumn(rows, np.arange(2))}, np.array([2**53 + 1, 2], np.int64))
    counted = columns_of([aggregate_of(COUNT, Identity("v", STRING))])
    assert group_rows(frame, counted, EvaluationContext({}, 0, NoSearch())).to_pylist() == [{"0": 2**53 + 3}]


# --------------------------------------------------------------------------------------------- what is read


class Watched(Loaded):
    """A set of entities that remembers how many values it was asked for."""

    asked: list[tuple[str, int]] = []  # noqa: RUF012  one for all, emptied by the test

    def take_values(
        self, column: str, positions: np.ndarray[tuple[int], np.dtype[np.int64]]
    ) -> pa.Array[pa.Scalar[pa.DataType]]:
        self.asked.append((column, len(positions)))
        return super().take_values(column, positions)


@pytest.mark.parametrize("distinct", [False, True])
def test_a_key_is_read_once_for_each_entity_and_each_group(distinct: bool) -> None:
    Watched.asked.clear()
    entities = Watched(pa.table({"id": list("abcdef"), "name": ["x", "y", "x", "y", "x", "y"]}))
    frame = Frame(6_000, {"v": EntityColumn(entities, np.arange(6_000) % 4)})
    name = PropertyValue("v", "name", STRING)
    counted = aggregate_of(COUNT, Identity("v", STRING), distinct=distinct)
    table = group_rows(frame, columns_of([name, counted]), EvaluationContext({}, 0, NoSearch()))
    count = 2 if distinct else 3_000
    assert sorted(map(tuple, (row.values() for row in table.to_pylist()))) == [("x", count), ("y", count)]
    assert Watched.asked == [("name", 4), ("name", 2)]


def test_properties_of_a_node_that_is_a_key_itself_are_read_for_the_groups_only() -> None:
    Watched.asked.clear()
    entities = Watched(pa.table({"id": ["a", "b"], "name": ["x", "x"]}))
    frame = Frame(10, {"v": EntityColumn(entities, np.arange(10) % 2)})
    columns = columns_of(
        [
            Identity("v", STRING),
            PropertyValue("v", "name", STRING),
            aggregate_of(COUNT, Identity("v", STRING)),
        ]
    )
    table = group_rows(frame, columns, EvaluationContext({}, 0, NoSearch()))
    assert table.to_pylist() == [{"0": "a", "1": "x", "2": 5}, {"0": "b", "1": "x", "2": 5}]
    assert Watched.asked == [("name", 2)]


def test_the_columns_have_the_types_of_the_language_also_without_rows() -> None:
    texts, integers = ValueType(Scalar.STRING, nullable=True), ValueType(Scalar.U32, nullable=True)
    entities = Loaded(
        pa.table({"id": pa.array([], pa.string()), "s": pa.array([], pa.string()), "n": pa.array([], pa.uint32())})
    )
    frame = Frame(0, {"v": EntityColumn(entities, np.zeros(0, np.int64))})
    text, number = PropertyValue("v", "s", texts), PropertyValue("v", "n", integers)
    arguments = [(COUNT, text), (SUM, number), (AVG, number), (MIN, number), (MAX, text)]
    aggregated = [aggregate_of(function, argument) for function, argument in arguments]
    alone = group_rows(frame, columns_of(aggregated), EvaluationContext({}, 0, NoSearch()))
    assert alone.schema.types == [pa.int64(), pa.float64(), pa.float64(), pa.uint32(), pa.string()]
    assert [list(row.values()) for row in alone.to_pylist()] == [[0, None, None, None, None]]
    by_text = group_rows(frame, columns_of([text, *aggregated]), EvaluationContext({}, 0, NoSearch()))
    assert by_text.num_rows == 0
    assert by_text.schema.types == [pa.string(), *alone.schema.types]


def test_sums_beyond_64_bits_and_lists_with_weights_are_kept_in_files() -> None:
    values = [2**63 - 1, 2**63 - 1, -(2**63), -(2**63), 5, 2**62]
    rows = pa.table({"id": [str(n) for n in range(6)], "k": [0, 0, 1, 1, 2, 2], "n": pa.array(values, pa.int64())})
    frame = Frame(6, {"v": EntityColumn(Loaded(rows), np.arange(6))}, np.array([1, 3, 1, 1, 2, 4], np.int64))
    key, number = PropertyValue("v", "k", INTEGER), PropertyValue("v", "n", INTEGER)
    collected = Aggregate(AggregateFunction.COLLECT, number, False, ValueType(Scalar.I64, is_list=True))
    columns = columns_of([key, aggregate_of(SUM, number), aggregate_of(AVG, number), collected])
    evaluation = EvaluationContext({}, 0, NoSearch())
    parts = [find_groups(frame.slice(n, n + 1), columns, evaluation, is_part=True) for n in range(6)]
    found, whole = spill_and_merge(parts, columns, 1), group_rows(frame, columns, evaluation)
    assert found.sort_by("0").to_pylist() == whole.sort_by("0").to_pylist()
    assert found.sort_by("0")["3"].to_pylist()[2] == [5, 5, *[2**62] * 4]
