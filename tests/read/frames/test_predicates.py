"""Predicates over frames hold where the plain evaluator says so; what a scan can decide, Lance decides alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.language.query.ast import ComparisonOperator, TextFunction
from omnigraph.language.query.typed_tree import (
    And,
    Compare,
    Constant,
    Expression,
    IsNull,
    Not,
    Now,
    Or,
    ParameterValue,
    Predicate,
    PropertyValue,
    TextMatch,
    Truth,
)
from omnigraph.language.types import NUMBERS, Scalar, ValueType
from omnigraph.language.values import ConstantValue
from omnigraph.read.frames.comparisons import to_comparable
from omnigraph.read.frames.evaluation import EvaluationContext, SearchExpression, evaluate, evaluate_predicate
from omnigraph.read.frames.frame import EntityColumn, Frame
from omnigraph.read.frames.pushdown import to_condition
from omnigraph.storage import tables
from omnigraph.storage.arrow_schema import arrow_values
from omnigraph.storage.columns import Values, to_list
from omnigraph.storage.filters import MAX_LISTED_VALUES, PART_OPERATORS, ValueIn
from tests.language.query.plan import plan_evaluator
from tests.language.query.plan.plan_evaluator import Entity
from tests.language.query.query_strategies import fuzzing
from tests.read.random_entities import (
    LISTS,
    POOLS,
    PROPERTIES,
    SINGLE,
    NoSearch,
    Things,
    loaded,
    properties_of,
    things,
    values_of,
)

WORDS = (ComparisonOperator.CONTAINS, ComparisonOperator.STARTS_WITH, ComparisonOperator.ENDS_WITH)
ORDERING = [each for each in ComparisonOperator if not each.isidentifier()]


def comparable(type_: ValueType) -> dict[str, ValueType]:
    """The properties that a single value of a type can be compared with."""
    numbers = type_.scalar in NUMBERS
    return {
        name: each
        for name, each in SINGLE.items()
        if (each.scalar in NUMBERS if numbers else each.scalar is type_.scalar)
    }


def operands(names: Mapping[str, ValueType]) -> st.SearchStrategy[Expression]:
    """Properties, parameters and constants of some types."""
    fixed = st.sampled_from(sorted(names.items())).flatmap(
        lambda named: (
            st.builds(Constant, values_of(named[1]), st.just(named[1])) | st.just(ParameterValue(named[0], named[1]))
        )
    )
    return properties_of(names) | fixed


def kinds(of: Mapping[str, ValueType]) -> st.SearchStrategy[ValueType]:
    return st.sampled_from(list(of.values()))


ORDERED = kinds(SINGLE).flatmap(
    lambda type_: st.builds(
        Compare, operands(comparable(type_)), st.sampled_from(ORDERING), operands(comparable(type_))
    )
)
MEMBERS = kinds(LISTS).flatmap(
    lambda type_: st.builds(
        Compare,
        operands({name: each for name, each in LISTS.items() if each.scalar is type_.scalar}),
        st.just(ComparisonOperator.CONTAINS),
        operands(comparable(type_)),
    )
)
TEXTS = {"string": SINGLE["string"]}
WITHIN = st.builds(Compare, operands(TEXTS), st.sampled_from(WORDS), operands(TEXTS))
NULLS = st.builds(IsNull, operands(PROPERTIES), st.booleans())
PREDICATES: st.SearchStrategy[Predicate] = ORDERED | MEMBERS | WITHIN | NULLS


def joined(parts: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    several = st.lists(parts, min_size=2, max_size=3).map(tuple)
    truths = st.builds(Truth, parts, st.just(ValueType(Scalar.BOOL, nullable=True)))
    return st.one_of(
        st.builds(And, several),
        st.builds(Or, several),
        st.builds(Not, parts),
        st.builds(Compare, truths, st.sampled_from(ORDERING), truths),
        st.builds(IsNull, truths, st.booleans()),
    )


@fuzzing(200)
@given(things(), st.recursive(PREDICATES, joined, max_leaves=6))
def test_joined_predicates_follow_the_tables_of_kleene(given_things: Things, predicate: Predicate) -> None:
    expected = [plan_evaluator.truth(predicate, row, given_things.graph) for row in given_things.rows]
    found = evaluate(Truth(predicate, ValueType(Scalar.BOOL, nullable=True)), given_things.frame, given_things.request)
    assert to_list(found) == expected
    held = evaluate_predicate(predicate, given_things.frame, given_things.request).tolist()
    assert held == [truth is True for truth in expected]


@fuzzing(400)
@given(things(), PREDICATES)
def test_a_predicate_holds_where_it_is_true(given_things: Things, predicate: Predicate) -> None:
    expected = [plan_evaluator.holds(predicate, row, given_things.graph) for row in given_things.rows]
    assert evaluate_predicate(predicate, given_things.frame, given_things.request).tolist() == expected


@pytest.mark.parametrize("left", [name for name, type_ in SINGLE.items() if type_.is_number])
@pytest.mark.parametrize("right", [name for name, type_ in SINGLE.items() if type_.is_number])
def test_numbers_of_two_columns_are_compared_exactly(left: str, right: str) -> None:
    pairs = [
        (one, other) for one in (*POOLS[SINGLE[left].scalar], None) for other in (*POOLS[SINGLE[right].scalar], None)
    ]
    empty: dict[str, ConstantValue] = dict.fromkeys(PROPERTIES)
    entities = [
        Entity(str(number), {**empty, left: pair[0]} if side == 0 else {**empty, right: pair[1]})
        for side in (0, 1)
        for number, pair in enumerate(pairs)
    ]
    given_things = Things(tuple(entities), tuple((n, n + len(pairs)) for n in range(len(pairs))), {})
    for operator in ORDERING:
        predicate = Compare(PropertyValue("a", left, SINGLE[left]), operator, PropertyValue("b", right, SINGLE[right]))
        expected = [plan_evaluator.holds(predicate, row, given_things.graph) for row in given_things.rows]
        assert evaluate_predicate(predicate, given_things.frame, given_things.request).tolist() == expected, operator


@pytest.mark.parametrize("left", [name for name, type_ in SINGLE.items() if type_.is_number])
@pytest.mark.parametrize("right", [name for name, type_ in SINGLE.items() if type_.is_number])
def test_numbers_of_two_types_are_equal_in_one_type_where_they_are_equal(left: str, right: str) -> None:
    """A join looks for equal codes, so it needs both columns in one type."""
    ours, theirs = ((*POOLS[SINGLE[name].scalar], None) for name in (left, right))
    columns = [arrow_values(SINGLE[name], list(pool)) for name, pool in ((left, ours), (right, theirs))]
    found = to_comparable(columns[0], columns[1])
    if SINGLE[left].scalar is SINGLE[right].scalar:
        assert found is None
        return
    assert found is not None
    assert found[0].type == found[1].type
    for given_number, one in zip(to_list(columns[0]), to_list(found[0]), strict=True):
        for other_number, other in zip(to_list(columns[1]), to_list(found[1]), strict=True):
            is_equal = given_number is not None and given_number == other_number
            assert (one is not None and one == other) == is_equal, (given_number, other_number)


def test_nothing_but_inequality_holds_beside_a_float_that_is_no_number() -> None:
    integers, floats = ValueType(Scalar.I64), ValueType(Scalar.F64)
    rows = pa.table({"id": ["x"], "i": pa.array([1], pa.int64()), "f": pa.array([float("nan")])})
    frame = Frame(1, {"v": EntityColumn(Rows(rows), np.zeros(1, np.int64))})
    found = {
        operator: bool(
            evaluate_predicate(
                Compare(PropertyValue("v", "i", integers), operator, PropertyValue("v", "f", floats)), frame, REQUEST
            )[0]
        )
        for operator in ORDERING
    }
    assert [operator for operator, held in found.items() if held] == [ComparisonOperator.NOT_EQUAL]


# --------------------------------------------------------------------------------------------- how often it is asked


class Rows:
    """A set of entities that remembers how many values it was asked for."""

    table_key = "node:Thing"

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self.asked = 0

    def __len__(self) -> int:
        return self.rows.num_rows

    def is_key(self, column: str) -> bool:
        return column == "id"

    def take_ids(self, positions: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.StringArray:
        return cast("pa.StringArray", self.rows["id"].combine_chunks().take(positions))

    def take_values(self, column: str, positions: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Values:
        self.asked += len(positions)
        return cast("Values", self.rows[column].combine_chunks().take(positions))


REQUEST = EvaluationContext({}, 0, NoSearch())


def test_an_entity_of_many_rows_is_asked_about_once() -> None:
    entities = Rows(pa.table({"id": ["x", "y", "z"], "n": pa.array([1, 2, 3], pa.int64())}))
    frame = Frame(1_000, {"v": EntityColumn(entities, np.arange(1_000) % 2)})
    integer = ValueType(Scalar.I64)
    mask = evaluate_predicate(
        Compare(PropertyValue("v", "n", integer), ComparisonOperator.GREATER, Constant(1, integer)), frame, REQUEST
    )
    assert mask.tolist() == [False, True] * 500
    assert entities.asked == 2


class Sometimes:
    """A search in which only the first row matches, and of the second nothing is known."""

    def score(self, expression: SearchExpression, frame: Frame) -> Values:
        assert isinstance(expression, TextMatch)
        return pa.array([True, None, *[False] * (frame.num_rows - 2)], pa.bool_())


def test_a_text_predicate_is_answered_by_the_search_also_inside_a_comparison() -> None:
    text, flag = ValueType(Scalar.STRING), ValueType(Scalar.BOOL)
    match = TextMatch(TextFunction.SEARCH, PropertyValue("v", "t", text), Constant("word", text), None, flag)
    entities = Rows(pa.table({"id": ["x", "y", "z"]}))
    frame = Frame(3, {"v": EntityColumn(entities, np.arange(3))})
    request = EvaluationContext({}, 0, Sometimes())
    assert evaluate_predicate(match, frame, request).tolist() == [True, False, False]
    assert evaluate_predicate(
        Compare(match, ComparisonOperator.EQUAL, Constant(False, flag)), frame, request
    ).tolist() == [
        False,
        False,
        True,
    ]


# --------------------------------------------------------------------------------------------- pushed into a scan


def everything() -> list[Entity]:
    """Entities that together hold every value of every pool, and null."""
    lengths = range(max(map(len, POOLS.values())) + 1)
    return [Entity(str(at), {name: _nth(type_, at) for name, type_ in PROPERTIES.items()}) for at in lengths]


def _nth(type_: ValueType, at: int) -> ConstantValue:
    pool = POOLS[type_.scalar]
    if at >= len(pool):
        return None
    return (pool[at], pool[0]) if type_.is_list else pool[at]


def fixed_comparisons() -> list[Predicate]:
    found: list[Predicate] = [
        IsNull(PropertyValue("a", name, type_), negated)
        for name, type_ in PROPERTIES.items()
        for negated in (True, False)
    ]
    for name, type_ in SINGLE.items():
        held = PropertyValue("a", name, type_)
        others = [each for each in comparable(type_).values() for _ in POOLS[each.scalar][::3]]
        values = [value for each in comparable(type_).values() for value in POOLS[each.scalar][::3]]
        for other, value in zip(others, values, strict=True):
            fixed = Constant(value, other)
            found += [Compare(held, each, fixed) for each in (ComparisonOperator.EQUAL, ComparisonOperator.LESS)]
            found += [
                Compare(fixed, each, held) for each in (ComparisonOperator.NOT_EQUAL, ComparisonOperator.LESS_OR_EQUAL)
            ]
        if type_.scalar is Scalar.STRING:
            parts = ["", *"%_'\\.a", *(str(text)[:2] for text in POOLS[Scalar.STRING]), *map(str, POOLS[Scalar.STRING])]
            found += [Compare(held, each, Constant(part, STRING)) for each in PART_OPERATORS for part in parts]
            found += [Compare(held, each, Constant(None, type_)) for each in PART_OPERATORS]
        for each in LISTS.values():
            if each.item.scalar in {other.scalar for other in comparable(type_).values()}:
                found.append(Compare(Constant(tuple(POOLS[each.scalar][:4]), each), ComparisonOperator.CONTAINS, held))
    return found


def joined_comparisons() -> list[Predicate]:
    """Some of them, joined by three in every way."""
    chance = Random(5)  # noqa: S311  no secret
    several = [tuple(chance.choices(fixed_comparisons(), k=3)) for _ in range(100)]
    inside = [(Not(parts[0]), Or(parts[1:])) for parts in several[:30]]
    plain = [kind(parts) for parts in (*several, *inside) for kind in (And, Or)]
    return [*plain, *map(Not, plain)]


@pytest.mark.costly
def test_lance_decides_what_is_pushed_as_a_mask_does(tmp_path: Path) -> None:
    entities = loaded(everything())
    table = tables.create_table(str(tmp_path / "table"), entities.rows, "test")
    ids = cast("list[str]", entities.rows["id"].to_pylist())
    frame = Frame(len(entities), {"a": EntityColumn(entities, np.arange(len(entities)))})
    pushed = 0
    for predicate in (*fixed_comparisons(), *joined_comparisons()):
        condition = to_condition(predicate, "a", REQUEST)
        if condition is None:
            # A comparison of floats, of a list, or with a part of a text, has no inverse.
            assert "Not(" in repr(predicate)
            continue
        expected = np.array(ids)[evaluate_predicate(predicate, frame, REQUEST)].tolist()
        assert table.scan(["id"], filter=condition.to_sql()).read_all()["id"].to_pylist() == expected, predicate
        pushed += 1
    assert pushed > 700


STRING, TIME = ValueType(Scalar.STRING), ValueType(Scalar.DATETIME)
NAME = PropertyValue("a", "name", STRING)


@pytest.mark.parametrize(
    "predicate",
    [
        Compare(NAME, ComparisonOperator.EQUAL, PropertyValue("b", "name", STRING)),
        Compare(PropertyValue("b", "name", STRING), ComparisonOperator.EQUAL, Constant("x", STRING)),
        Compare(Constant("x", STRING), ComparisonOperator.CONTAINS, NAME),
        Compare(NAME, ComparisonOperator.MATCHES, Constant("x", STRING)),
        Or((IsNull(NAME, negated=False), Compare(NAME, ComparisonOperator.MATCHES, Constant("x", STRING)))),
        Or((IsNull(NAME, negated=False),) * 100),
        TextMatch(TextFunction.SEARCH, NAME, Constant("x", STRING), None, ValueType(Scalar.BOOL)),
        Compare(ParameterValue("many", ValueType(Scalar.STRING, is_list=True)), ComparisonOperator.CONTAINS, NAME),
    ],
)
def test_what_a_scan_cannot_decide_is_not_pushed(predicate: Predicate) -> None:
    many = tuple(str(number) for number in range(MAX_LISTED_VALUES + 1))
    assert to_condition(predicate, "a", EvaluationContext({"many": many}, 0, NoSearch())) is None


@pytest.mark.parametrize("items", [None, ("x", "y")])
def test_a_list_of_texts_is_pushed_as_a_set(items: Sequence[str] | None) -> None:
    listed = ParameterValue("few", ValueType(Scalar.STRING, nullable=True, is_list=True))
    request = EvaluationContext({"few": None if items is None else tuple(items)}, 0, NoSearch())
    condition = to_condition(Compare(listed, ComparisonOperator.CONTAINS, NAME), "a", request)
    assert condition is not None
    assert condition.columns == ("name",)
    if items is None:
        assert condition.to_sql() == "false"
    else:
        assert isinstance(condition, ValueIn)


def test_texts_joined_by_or_are_pushed_as_a_set() -> None:
    either = Or(tuple(Compare(NAME, ComparisonOperator.EQUAL, Constant(text, STRING)) for text in ("x", "y")))
    condition = to_condition(either, "a", REQUEST)
    assert isinstance(condition, ValueIn)
    assert condition.values.to_pylist() == ["x", "y"]


def test_the_time_of_the_request_is_pushed() -> None:
    born = PropertyValue("a", "born", TIME)
    condition = to_condition(
        Compare(born, ComparisonOperator.LESS, Now(TIME)), "a", EvaluationContext({}, 12_345, NoSearch())
    )
    assert condition is not None
    assert "12345" in (condition.to_sql() or "")
