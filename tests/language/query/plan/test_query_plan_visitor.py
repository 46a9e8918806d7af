"""The visitor knows every operator and every expression, and finds each part that their fields can hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from inspect import getmembers, isclass
from types import ModuleType
from typing import cast

import pytest

from omnigraph.language.query import typed_tree
from omnigraph.language.query.ast import AggregateFunction, ArithmeticOperator, ComparisonOperator, TextFunction
from omnigraph.language.query.plan import operators
from omnigraph.language.query.plan.operators import (
    ByRank,
    Connect,
    ConnectEdges,
    Cross,
    Expand,
    ExpandEdges,
    Fuse,
    Group,
    Keep,
    Limit,
    Mark,
    NodeScan,
    Optional,
    Outer,
    PlanOperator,
    Project,
    Select,
    Sort,
    TopRanked,
    TopRows,
    Union,
    With,
    Without,
)
from omnigraph.language.query.plan.visitor import (
    EXPRESSIONS,
    OPERATORS,
    ExpressionPart,
    expressions_of,
    inputs_of,
    operands_of,
    rebuild,
    tables_of,
    tables_read_by,
    variables_bound_by,
    variables_of,
    variables_used_by,
    walk_expression,
    walk_plan,
)
from omnigraph.language.query.typed_tree import (
    Aggregate,
    And,
    Arithmetic,
    Call,
    Choose,
    ColumnValue,
    Compare,
    Constant,
    Distance,
    EdgeStep,
    EndIdentity,
    Function,
    FusedScore,
    Identity,
    IsNull,
    Marked,
    Not,
    Now,
    Or,
    ParameterValue,
    PathFunction,
    PathValue,
    PropertyValue,
    ResultColumn,
    TextMatch,
    TextScore,
    TraversalDirection,
    Truth,
    TypedBinding,
    TypedExistence,
    TypedNegation,
    TypedOrderKey,
    TypeName,
)
from omnigraph.language.types import Scalar, ValueType

NO_OPERATORS = {ByRank, operators.MutationPlan}
NO_EXPRESSIONS = {
    EdgeStep,
    typed_tree.TypedBinding,
    typed_tree.TypedTraversal,
    typed_tree.TypedOptional,
    typed_tree.ResultColumn,
    typed_tree.TypedOrderKey,
    typed_tree.TypedRead,
    typed_tree.TypedInterfaceRead,
    typed_tree.TypedUnion,
}
TEXT, NUMBER = ValueType(Scalar.STRING), ValueType(Scalar.I64)
OUT = TraversalDirection.OUT
ONE, WORD, NOW = Constant(1, NUMBER), ParameterValue("word", TEXT), Now(TEXT)
A, B, E = (PropertyValue(variable, "p", TEXT) for variable in ("a", "b", "e"))
IDENTITY, COLUMN = Identity("a", TEXT), ColumnValue("c", TEXT)
NEAR, SCORE = Distance(A, WORD, NUMBER), TextScore(A, WORD, NUMBER)
MATCH = TextMatch(TextFunction.FUZZY, A, WORD, ONE, TEXT)
FUSED = FusedScore((NEAR, SCORE, NEAR), ONE, NUMBER)
COUNTED = Aggregate(AggregateFunction.COUNT, A, distinct=False, type=NUMBER)
ON_A, ON_B, ON_E = (Compare(side, ComparisonOperator.EQUAL, WORD) for side in (A, B, E))
TESTED = IsNull(A, negated=False)
MARKED, BLOCK = Marked("m"), TypedExistence((TypedBinding("z", "T", (ON_B,)),), ("a",))
ALONG_X = (EdgeStep("X", TraversalDirection.OUT),)
SCAN, OUTER = NodeScan("a", "T", (ON_A, TESTED)), Outer(("a",))

GROUP = Group(SCAN, (ResultColumn("c", COUNTED),))

SORTED, SHOWN = Sort(SCAN, (TypedOrderKey(A, descending=True),), ()), Project(SCAN, (ResultColumn("c", A),))

# Each operator: its inputs, its expressions, what it binds and what it needs of its inputs.
PLANS: list[tuple[PlanOperator, list[PlanOperator], list[ExpressionPart], str, str]] = [
    (SCAN, [], [ON_A, TESTED], "a", ""),
    (OUTER, [], [], "a", ""),
    (Expand(SCAN, "a", ALONG_X, "b", "T", 1, 1, (ON_B,)), [SCAN], [ON_B], "b", "a"),
    (ExpandEdges(SCAN, "a", "X", OUT, "e", (ON_E,), "b", "T", (ON_B,)), [SCAN], [ON_E, ON_B], "be", "a"),
    (Connect(SCAN, "a", ALONG_X, "b", 1, 1), [SCAN], [], "", "ab"),
    (Connect(SCAN, "a", ALONG_X, "b", 1, None, path="w"), [SCAN], [], "w", "ab"),
    (ConnectEdges(SCAN, "a", "X", OUT, "e", (ON_E,), "b"), [SCAN], [ON_E], "e", "ab"),
    (Cross(SCAN, OUTER), [SCAN, OUTER], [], "", ""),
    (Select(SCAN, ON_B), [SCAN], [ON_B], "", "b"),
    (With(SCAN, OUTER, ("a",)), [SCAN, OUTER], [], "", "a"),
    (Without(SCAN, OUTER, ("a",)), [SCAN, OUTER], [], "", "a"),
    (Mark(SCAN, OUTER, ("a",), "m"), [SCAN, OUTER], [], "m", "a"),
    (Optional(SCAN, OUTER, ("a",), ("z",)), [SCAN, OUTER], [], "z", "a"),
    (TopRanked(SCAN, NEAR, ONE), [SCAN], [NEAR, ONE], "", "a"),
    (TopRanked(SCAN, SCORE, None), [SCAN], [SCORE], "", "a"),
    (Fuse((SCAN, OUTER, SCAN), "a", ONE, WORD), [SCAN, OUTER, SCAN], [ONE, WORD], "", "a"),
    (GROUP, [SCAN], [COUNTED], "", "a"),
    (Sort(SCAN, (ByRank(), TypedOrderKey(B, descending=True)), ("a",)), [SCAN], [B], "", "ab"),
    (
        Keep(Group(SCAN, (ResultColumn("c", COUNTED),)), TESTED),
        [Group(SCAN, (ResultColumn("c", COUNTED),))],
        [TESTED],
        "",
        "a",
    ),
    (Limit(SCAN, ONE), [SCAN], [ONE], "", ""),
    (Limit(SCAN, None, ONE), [SCAN], [ONE], "", ""),
    (TopRows(SORTED, ONE, WORD), [SORTED], [ONE, WORD], "", ""),
    (Union((SHOWN, GROUP), (COLUMN,)), [SHOWN, GROUP], [COLUMN], "", ""),
    (Project(SCAN, (ResultColumn("a", A), ResultColumn("b", B))), [SCAN], [A, B], "", "ab"),
]

# Each expression: what is right inside it, and the variables it speaks of.
PARTS: list[tuple[ExpressionPart, list[ExpressionPart], str]] = [
    (ONE, [], ""),
    (WORD, [], ""),
    (NOW, [], ""),
    (A, [], "a"),
    (IDENTITY, [], "a"),
    (EndIdentity("e", "from", TEXT), [], "e"),
    (PathValue(PathFunction.HOPS, "w", TEXT), [], "w"),
    (COLUMN, [], ""),
    (NEAR, [A, WORD], "a"),
    (MATCH, [A, WORD, ONE], "a"),
    (SCORE, [A, WORD], "a"),
    (FUSED, [NEAR, SCORE, NEAR, ONE], "a"),
    (COUNTED, [A], "a"),
    (Compare(A, ComparisonOperator.LESS, B), [A, B], "ab"),
    (TESTED, [A], "a"),
    (And((ON_A, ON_B)), [ON_A, ON_B], "ab"),
    (Or((ON_A, TESTED)), [ON_A, TESTED], "a"),
    (Not(ON_B), [ON_B], "b"),
    (MARKED, [], "m"),
    (BLOCK, [], "a"),
    (TypedNegation(BLOCK.clauses, BLOCK.outer), [], "a"),
    (Truth(ON_A, TEXT), [ON_A], "a"),
    (Arithmetic((A, ONE, B), (ArithmeticOperator.ADD,) * 2, NUMBER), [A, ONE, B], "ab"),
    (Call(Function.CONCAT, (A, WORD, E), TEXT), [A, WORD, E], "ae"),
    (Choose((ON_A, TESTED), (B, WORD), ONE, TEXT), [ON_A, TESTED, B, WORD, ONE], "ab"),
    (Choose((ON_A,), (B,), None, TEXT), [ON_A, B], "ab"),
    (TypeName("a", "T", TEXT), [], "a"),
]


def _declared(module: ModuleType) -> Iterator[type]:
    for _, found in getmembers(module, isclass):
        if is_dataclass(found) and found.__module__ == module.__name__:
            yield found


def test_every_operator_is_known() -> None:
    assert set(_declared(operators)) - NO_OPERATORS == OPERATORS
    assert {type(plan) for plan, *_ in PLANS} == OPERATORS, "add the new operator to PLANS"


def test_every_expression_is_known() -> None:
    assert set(_declared(typed_tree)) - NO_EXPRESSIONS == EXPRESSIONS
    assert {type(part) for part, *_ in PARTS} == EXPRESSIONS, "add the new expression to PARTS"


@pytest.mark.parametrize(
    ("plan", "inputs", "expressions", "bound", "used"), PLANS, ids=lambda each: type(each).__name__
)
def test_the_parts_of_an_operator(
    plan: PlanOperator, inputs: list[PlanOperator], expressions: list[ExpressionPart], bound: str, used: str
) -> None:
    assert inputs_of(plan) == tuple(inputs)
    assert expressions_of(plan) == tuple(expressions)
    assert variables_bound_by(plan) == set(bound)
    assert variables_used_by(plan) == set(used)
    held = [value for field in fields(plan) for value in _flat(getattr(plan, field.name))]
    assert [value for value in held if type(value) in OPERATORS] == inputs
    assert [value for value in held if type(value) in EXPRESSIONS] == expressions


# The operators that read rows: all others work on the rows of their inputs.
READERS: list[tuple[PlanOperator, set[str]]] = [
    (SCAN, {"node:T"}),
    (Expand(SCAN, "a", ALONG_X, "b", "U", 1, 1, ()), {"edge:X", "node:U"}),
    (ExpandEdges(SCAN, "a", "X", OUT, "e", (), "b", "U", ()), {"edge:X", "node:U"}),
    (Connect(SCAN, "a", ALONG_X, "b", 1, 1), {"edge:X"}),
    (ConnectEdges(SCAN, "a", "X", OUT, "e", (), "b"), {"edge:X"}),
]


@pytest.mark.parametrize(("plan", "tables"), READERS, ids=lambda each: type(each).__name__)
def test_the_tables_that_an_operator_reads(plan: PlanOperator, tables: set[str]) -> None:
    assert tables_read_by(plan) == tables


def test_every_other_operator_reads_none() -> None:
    others = [plan for plan, *_ in PLANS if type(plan) not in {type(reader) for reader, _ in READERS}]
    assert not any(tables_read_by(plan) for plan in others)
    assert not any(field.name.endswith("_type") for plan in others for field in fields(plan))


def test_a_plan_reads_the_tables_of_all_its_operators_and_negations() -> None:
    inner = Expand(OUTER, "a", ALONG_X, "b", "U", 1, 1, ())
    other = NodeScan("c", "V", ())
    plan = Project(Cross(Without(SCAN, inner, ("a",)), other), (ResultColumn("a", A),))
    assert tables_of(plan) == {"node:T", "edge:X", "node:U", "node:V"}


@pytest.mark.parametrize(("part", "operands", "variables"), PARTS, ids=lambda each: type(each).__name__)
def test_the_parts_of_an_expression(part: ExpressionPart, operands: list[ExpressionPart], variables: str) -> None:
    assert operands_of(part) == tuple(operands)
    assert variables_of(part) == set(variables)


@pytest.mark.parametrize(("part", "operands"), [each[:2] for each in PARTS], ids=lambda each: type(each).__name__)
def test_an_expression_is_rebuilt_from_changed_parts(part: ExpressionPart, operands: list[ExpressionPart]) -> None:
    seen: list[ExpressionPart] = []

    def look(operand: ExpressionPart) -> ExpressionPart:
        seen.append(operand)
        return operand

    assert rebuild(part, look) == part
    assert seen == operands
    if operands:
        assert operands_of(rebuild(part, lambda _: COLUMN)) == (COLUMN,) * len(operands)


def _flat(value: object) -> Iterator[object]:
    if isinstance(value, tuple):
        for item in cast("tuple[object, ...]", value):
            yield from _flat(item)
    else:
        yield value.expression if isinstance(value, ResultColumn | TypedOrderKey) else value


def test_a_walk_goes_from_the_top_to_the_leaves_and_around_negations() -> None:
    inner = Select(OUTER, ON_B)
    plan = Project(Cross(Without(SCAN, inner, ("a",)), OUTER), (ResultColumn("a", A),))
    assert [type(each) for each in walk_plan(plan)] == [Project, Cross, Without, NodeScan, Select, Outer, Outer]
    outside = walk_plan(plan, into_blocks=False)
    assert [type(each) for each in outside] == [Project, Cross, Without, NodeScan, Outer]


def test_a_walk_through_an_expression_gives_the_whole_before_its_parts() -> None:
    assert list(walk_expression(FUSED)) == [FUSED, NEAR, A, WORD, SCORE, A, WORD, NEAR, A, WORD, ONE]
