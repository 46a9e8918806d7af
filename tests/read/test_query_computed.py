"""Computed values at their limits: sums of thousands of terms, the deepest nesting, constants that go into the scan."""

from __future__ import annotations

import pytest

import omnigraph
from omnigraph.errors import QueryError
from omnigraph.graph import Graph
from omnigraph.language.query.ast import ArithmeticOperator, ComparisonOperator
from omnigraph.language.query.typed_tree import (
    Arithmetic,
    Call,
    Compare,
    Constant,
    Function,
    ParameterValue,
    PropertyValue,
)
from omnigraph.language.types import Scalar, ValueType
from omnigraph.read.frames import EvaluationContext, to_condition
from tests.read.random_entities import NoSearch

TERMS = 10_000
DEEPEST = 96
"""The braces of the query and of its return, and the last case, are three more levels."""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Two numbers. No test changes it."""
    made = omnigraph.init(tmp_path_factory.mktemp("numbers") / "numbers.og", "node N { code: String @key  a: I64? }")
    made.load([{"type": "N", "data": {"code": code, "a": a}} for code, a in (("n1", 3), ("n2", None))])
    return made


def computed(graph: Graph, expression: str) -> list[object]:
    query = f"query q() {{ match {{ $n: N }} return {{ {expression} as x }} order {{ $n.code }} }}"
    return [row["x"] for row in graph.query(query).rows]


@pytest.mark.costly
def test_a_sum_of_thousands_of_terms(graph: Graph) -> None:
    assert computed(graph, " + ".join(["$n.a"] * TERMS)) == [3 * TERMS, None]
    assert computed(graph, " * ".join(["$n.a"] * 41)) == [None, None], "three to the power of 40 does not fit"
    assert computed(graph, "1" + " * $n.a / $n.a" * 500) == [1.0, None]


def test_a_case_of_a_thousand_arms(graph: Graph) -> None:
    arms = ", ".join(f"$n.a = {number}: {number}" for number in range(1_000, 0, -1))
    assert computed(graph, f"case {{ {arms}, else: 0 }}") == [3, 0]
    assert computed(graph, f"coalesce({', '.join(['$n.a'] * 1_000)}, 7)") == [3, 7]


@pytest.mark.parametrize(
    ("opening", "inner", "close", "found"),
    [
        ("(1 + ", "$n.a", ")", [3 + DEEPEST, None]),
        ("case { $n.a is null: 5, else: ", "1 + $n.a", " }", [4, 5]),
        ("coalesce(null, ", "$n.a", ", 5)", [3, 5]),
    ],
    ids=["parentheses", "case", "calls"],
)
def test_the_deepest_nesting(graph: Graph, opening: str, inner: str, close: str, found: list[object]) -> None:
    assert computed(graph, opening * DEEPEST + inner + close * DEEPEST) == found
    with pytest.raises(QueryError, match="nested more than"):
        computed(graph, opening * 200 + inner + close * 200)


def test_constants_are_computed_before_the_scan() -> None:
    code, integer = ValueType(Scalar.STRING), ValueType(Scalar.I64)
    evaluation = EvaluationContext({"p": 2}, 0, NoSearch())
    joined = Call(Function.CONCAT, (Constant("n", code), Call(Function.LOWER, (Constant("A", code),), code)), code)
    parameter = ParameterValue("p", integer)
    tripled = Arithmetic((parameter, Constant(3, integer)), (ArithmeticOperator.MULTIPLY,), integer)
    for computed_, constant in ((joined, Constant("na", code)), (tripled, Constant(6, integer))):
        of_row = PropertyValue("n", "p", constant.type)
        found, stated = (
            to_condition(Compare(of_row, ComparisonOperator.EQUAL, side), "n", evaluation)
            for side in (computed_, constant)
        )
        assert found is not None
        assert found == stated
