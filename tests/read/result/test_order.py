"""Rows are in the order of the plain evaluator; with a limit they are the first of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.language.query.plan.operators import ByRank, Outer, Sort
from omnigraph.language.query.typed_tree import ColumnValue, Expression, Identity, PropertyValue, TypedOrderKey
from omnigraph.language.types import Scalar, ValueType
from omnigraph.read.frames.evaluation import EvaluationContext
from omnigraph.read.frames.frame import EntityColumn, Frame, Positions
from omnigraph.read.result.order import _find_candidates, _make_passes, _sort_column, sort_groups, sort_rows
from omnigraph.storage.columns import Values
from tests.language.query.plan.plan_evaluator import RANK, Row, _nulls_first, _sorted
from tests.language.query.query_strategies import fuzzing
from tests.read.random_entities import SINGLE, TEXTS, Loaded, NoSearch, Things, loaded, properties_of, things

STRING = ValueType(Scalar.STRING)
REQUEST = EvaluationContext({}, 0, NoSearch())
EXPRESSIONS: st.SearchStrategy[Expression] = properties_of(SINGLE) | st.just(Identity("a", STRING))
KEYS = st.lists(st.builds(TypedOrderKey, EXPRESSIONS, st.booleans()), max_size=3)
LIMITS = st.none() | st.integers(0, 40)


@fuzzing(300)
@given(things(most_rows=30), KEYS, st.sampled_from([(), ("a",), ("a", "b")]), LIMITS)
def test_rows_are_in_the_order_of_the_plain_evaluator(
    given_things: Things, keys: list[TypedOrderKey], tie_break: tuple[str, ...], limit: int | None
) -> None:
    rows = [{**row, "row": number} for number, row in enumerate(given_things.rows)]
    expected = _sorted(Sort(Outer(()), tuple(keys), tie_break), rows, given_things.graph)
    found = sort_rows(given_things.frame, keys, tie_break, given_things.request, limit)
    assert found.tolist() == [row["row"] for row in expected][:limit]


@fuzzing(50)
@given(
    things(most_rows=30),
    st.lists(st.builds(TypedOrderKey, properties_of(SINGLE), st.booleans()), min_size=1, max_size=2),
    LIMITS,
)
def test_groups_are_sorted_by_their_columns(given_things: Things, keys: list[TypedOrderKey], limit: int | None) -> None:
    table = loaded(given_things.entities).rows
    by_column = [
        TypedOrderKey(ColumnValue(cast(PropertyValue, key.expression).name, key.expression.type), key.descending)
        for key in keys
    ]
    rows: list[Row] = [
        {**each.properties, "id": each.id, "row": number} for number, each in enumerate(given_things.entities)
    ]
    rows.sort(key=lambda row: [_nulls_first(row[name]) for name in table.column_names])
    expected = _sorted(Sort(Outer(()), tuple(by_column), ()), rows, given_things.graph)
    assert sort_groups(table, by_column, limit).tolist() == [row["row"] for row in expected][:limit]


def test_ranks_come_first_where_there_is_a_ranking() -> None:
    entities = Loaded(pa.table({"id": ["x", "y", "z"], "n": pa.array([3, 1, 2], pa.int64())}))
    number = TypedOrderKey(PropertyValue("v", "n", ValueType(Scalar.I64)), descending=False)
    ranks = np.array([1, 1, 0], np.int64)
    frame = Frame(3, {"v": EntityColumn(entities, np.arange(3))}, ranks=ranks)
    rows: list[Row] = [
        {RANK: int(rank), "n": n, "row": row} for row, (rank, n) in enumerate(zip(ranks, [3, 1, 2], strict=True))
    ]
    assert [row["row"] for row in sorted(rows, key=lambda row: (row[RANK], row["n"]))] == [2, 1, 0]
    assert sort_rows(frame, (ByRank(), number), ("v",), REQUEST).tolist() == [2, 1, 0]


def sorted_by(values: Values, type_: ValueType) -> list[int]:
    """The rows of a column in order; the ids run against the rows."""
    ids = [f"{number:05}" for number in reversed(range(len(values)))]
    entities = AsGiven(pa.table({"id": ids}), values)
    frame = Frame(len(values), {"v": EntityColumn(entities, np.arange(len(values)))})
    return sort_rows(frame, [TypedOrderKey(PropertyValue("v", "p", type_), descending=False)], ("v",), REQUEST).tolist()


@dataclass(frozen=True, slots=True)
class AsGiven(Loaded):
    """A set of entities whose one column comes as it is, all of it in order."""

    table_key: str = field(init=False, default="node:Thing")
    column: Values = field(default_factory=lambda: pa.array([], pa.string()))

    def take_values(self, column: str, positions: Positions) -> Values:
        assert (column, positions.tolist()) == ("p", list(range(len(self))))
        return self.column


def test_both_zeros_are_tied() -> None:
    assert sorted_by(pa.array([0.0, -0.0, 0.0, -1.0]), ValueType(Scalar.F64)) == [3, 2, 1, 0]


def test_nulls_are_tied_whatever_bytes_lie_below_them() -> None:
    offsets, valid = np.array([0, 1, 2, 3], np.int32).tobytes(), np.packbits([1, 0, 0], bitorder="little").tobytes()
    texts = pa.StringArray.from_buffers(3, pa.py_buffer(offsets), pa.py_buffer(b"xab"), pa.py_buffer(valid))
    assert texts.to_pylist() == ["x", None, None]
    assert sorted_by(cast("Values", texts), ValueType(Scalar.STRING, nullable=True)) == [2, 1, 0]


# --------------------------------------------------------------------------------------------- many rows


def entities_of(texts: Sequence[str | None]) -> Loaded:
    ids = [f"{number:05}" for number in range(len(texts))]
    return Loaded(pa.table({"id": ids, "t": pa.array(texts, pa.string())}))


TEXT = PropertyValue("v", "t", ValueType(Scalar.STRING, nullable=True))


def null_first(texts: Sequence[str | None], rows: Positions) -> list[tuple[bool, bytes, int]]:
    return [(texts[row] is not None, (texts[row] or "").encode(), row) for row in rows.tolist()]


@pytest.mark.parametrize("limit", [None, 1, 700, 5_000])
@pytest.mark.parametrize("length", [3, 8, 20, 60])
def test_many_texts_are_sorted_by_their_bytes(length: int, limit: int | None) -> None:
    chance = Random(length)  # noqa: S311  no secret
    parts = [*TEXTS, None]
    stems = ["".join(chance.choices("ab\0é", k=length)) for _ in range(300)]
    texts = [None if (end := chance.choice(parts)) is None else chance.choice(stems) + end for _ in range(3_000)]
    frame = Frame(len(texts), {"v": EntityColumn(entities_of(texts), np.arange(len(texts)))})
    found = sort_rows(frame, [TypedOrderKey(TEXT, descending=False)], ("v",), REQUEST, limit)
    expected = sorted(null_first(texts, np.arange(len(texts))))
    assert null_first(texts, found) == expected[:limit]


def test_texts_that_many_rows_share_are_compared_once_for_each_entity() -> None:
    texts = [*TEXTS, None]
    entities = entities_of(texts)
    frame = Frame(5_000, {"v": EntityColumn(entities, np.arange(5_000) * 7 % len(texts))})
    positions = frame.bindings["v"].positions
    found = sort_rows(frame, [TypedOrderKey(TEXT, descending=True)], ("v",), REQUEST)
    expected = sorted(range(5_000), key=lambda row: int(positions[row]))
    expected.sort(key=lambda row: null_first(texts, positions[row : row + 1])[0][:2], reverse=True)
    assert found.tolist() == expected


# --------------------------------------------------------------------------------------------- what is read


class Counting(Loaded):
    """A set of entities that remembers how many ids it was asked for."""

    asked: list[int] = []  # noqa: RUF012  one for all, emptied by the test

    def take_ids(self, positions: Positions) -> pa.StringArray:
        self.asked.append(len(positions))
        return super().take_ids(positions)


def sorted_numbers(numbers: Values, limit: int | None) -> list[int]:
    Counting.asked.clear()
    ids = [f"{number:05}" for number in reversed(range(len(numbers)))]
    entities = Counting(pa.Table.from_arrays([pa.array(ids), numbers], names=["id", "n"]))
    frame = Frame(len(numbers), {"v": EntityColumn(entities, np.arange(len(numbers)))})
    key = TypedOrderKey(PropertyValue("v", "n", ValueType(Scalar.I64, nullable=True)), descending=False)
    return sort_rows(frame, [key], ("v",), REQUEST, limit).tolist()


def test_ids_are_read_only_to_break_ties() -> None:
    assert sorted_numbers(pa.array(range(1_000), pa.int64()), None) == list(range(1_000))
    assert Counting.asked == []


def test_with_a_limit_ids_are_read_only_where_a_tie_could_be_among_the_first() -> None:
    numbers = [number // 10 for number in range(1_000)]
    found = sorted_numbers(pa.array(numbers, pa.int64()), 25)
    assert found == [*reversed(range(10)), *reversed(range(10, 20)), *reversed(range(25, 30))]
    assert Counting.asked == [30]


def test_nulls_that_fill_the_limit_leave_the_values_alone() -> None:
    numbers: Values = pa.array([*range(500), *[None] * 500], pa.int64())
    assert sorted_numbers(numbers, 3) == [999, 998, 997]
    assert Counting.asked == [500]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    "values",
    [
        pa.array([*range(900), None, *range(99)], pa.int64()),
        pa.array([*(number / 8 - 50 for number in range(999)), None]),
        pa.array([None, *(f"{number:04}" for number in range(999))]),
    ],
    ids=["numbers", "floats", "texts"],
)
def test_one_null_does_not_make_every_row_a_candidate(values: Values, descending: bool) -> None:
    assert len(_find_candidates(len(values), _sort_column(values, descending=descending), 5)) <= 6


def test_nulls_are_first_where_values_use_all_codes() -> None:
    numbers: Values = pa.array([2**63 - 1, None, -(2**63), 0, None], pa.int64())
    assert sorted_numbers(numbers, None) == [4, 1, 2, 3, 0]
    assert sorted_numbers(numbers, 3) == [4, 1, 2]


@pytest.mark.parametrize("values", [[3, 1, 2], [0.5, -0.5, 2.0], ["b", "a", "c"], [True, False, True]], ids=str)
def test_a_null_adds_no_pass(values: list[int]) -> None:
    plain, nullable = (cast("Values", pa.array(each)) for each in (values, [*values, None]))
    assert len(list(_make_passes(nullable))) == len(list(_make_passes(plain)))
