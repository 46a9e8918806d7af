"""What the type checker makes of a right query: names resolved, literals converted, defaults filled in."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.language.query import ast, lint_queries
from omnigraph.language.query.check.queries import check_query
from omnigraph.language.query.parser import parse_query_text
from omnigraph.language.query.typed_statements import (
    AssignedValue,
    DeleteEdges,
    DeleteNodes,
    InsertEdge,
    InsertNode,
    Statement,
    TypedMutation,
    TypedQuery,
    UpdateNodes,
)
from omnigraph.language.query.typed_tree import (
    Clause,
    ColumnValue,
    Compare,
    Constant,
    Distance,
    FusedScore,
    IsNull,
    Now,
    ParameterValue,
    PropertyValue,
    TextMatch,
    TextScore,
    TraversalDirection,
    TypedBinding,
    TypedNegation,
    TypedOrderKey,
    TypedRead,
    TypedTraversal,
)
from omnigraph.language.schema import parse_schema
from omnigraph.language.schema.catalog import Catalog
from omnigraph.language.source import Source, Span
from omnigraph.language.types import Scalar, ValueType

CASES = Path(__file__).parents[3] / "cases"
VESSELS = parse_schema(CASES / "vessels.pg").catalog
MEASURES = parse_schema("""
node Measure {
  name: String @key
  big: U64?
  ratio: F32?
  exact: F64?
  days: [Date]?
  rank: I32 @default("-1")
  since: Date @default("2024-01-01")
  at: DateTime? @default("2024-01-01T01:00:00+01:00")
  kind: enum(a, b) @default(b)
  note: String?
}
node Link { name: String }
edge Link: Measure -> Measure { weight: F64 @default("1") }
""").catalog
STRING, I64, U64 = ValueType(Scalar.STRING), ValueType(Scalar.I64), ValueType(Scalar.U64)


def checked(text: str, catalog: Catalog = VESSELS) -> TypedQuery:
    source = Source(text)
    file = parse_query_text(source)
    assert isinstance(file, ast.QueryDocument), file
    found = check_query(file.queries[0], catalog, source)
    assert not isinstance(found, list), "\n".join(problem.render() for problem in found)
    return found


def read(match: str, rest: str = "return { 1 }", parameters: str = "", catalog: Catalog = VESSELS) -> TypedRead:
    found = checked(f"query q({parameters}) {{ match {{ {match} }} {rest} }}", catalog)
    assert isinstance(found, TypedRead)
    return found


def clauses(match: str, parameters: str = "", catalog: Catalog = VESSELS) -> tuple[Clause, ...]:
    return read(match, parameters=parameters, catalog=catalog).clauses


def statement(text: str, parameters: str = "", catalog: Catalog = VESSELS) -> Statement:
    found = checked(f"query q({parameters}) {{ {text} }}", catalog)
    assert isinstance(found, TypedMutation)
    return found.statements[0]


def compared(filter_text: str, parameters: str = "", catalog: Catalog = VESSELS) -> Compare:
    node_type = "Vessel" if catalog is VESSELS else "Measure"
    found = clauses(f"$v: {node_type} {filter_text}", parameters, catalog)[-1]
    assert isinstance(found, Compare)
    return found


# ------------------------------------------------------------------------------------------------ match


@pytest.mark.parametrize(
    ("match", "source", "direction", "destination"),
    [
        ("$v: Vessel $v callsAt $p", "Vessel", TraversalDirection.OUT, "Port"),
        ("$p: Port $p callsAt $v", "Port", TraversalDirection.IN, "Vessel"),
        ("$p: Port $v callsAt $p", "Vessel", TraversalDirection.OUT, "Port"),
        ("$v: Vessel $p callsAt $v", "Port", TraversalDirection.IN, "Vessel"),
        ("$v callsAt $p", "Vessel", TraversalDirection.OUT, "Port"),
        ("$v: Vessel $w tows $v", "Vessel", TraversalDirection.OUT, "Vessel"),
        ("$v: Vessel $v <tows> $w", "Vessel", TraversalDirection.BOTH, "Vessel"),
        ("$v: Vessel $_ callsAt $v", "Port", TraversalDirection.IN, "Vessel"),
    ],
)
def test_direction_comes_from_the_bound_end(
    match: str, source: str, direction: TraversalDirection, destination: str
) -> None:
    step = clauses(match)[-1]
    assert isinstance(step, TypedTraversal)
    assert (step.source_type, step.steps[0].direction, step.destination_type) == (source, direction, destination)


def test_hops_and_edge_variable() -> None:
    exact, ranged, bound = clauses("$a tows{2} $b  $b tows{1,3} $c  $c $e:tows $d")
    assert isinstance(exact, TypedTraversal)
    assert isinstance(ranged, TypedTraversal)
    assert isinstance(bound, TypedTraversal)
    assert (exact.minimum, exact.maximum) == (2, 2)
    assert (ranged.minimum, ranged.maximum) == (1, 3)
    assert (bound.minimum, bound.maximum, bound.edge_variable) == (1, 1, "e")


def test_variables_are_those_that_the_result_can_speak_of() -> None:
    found = read("$v: Vessel  $v $c:callsAt $p  $v tows $_  not { $v tows $w }")
    assert found.variables == {"v": "node:Vessel", "c": "edge:CallsAt", "p": "node:Port"}


def test_anonymous_ends_have_names_that_the_query_does_not_use() -> None:
    steps = [
        step for step in clauses("$_ tows $_1  $_1 tows $_  not { $_1 tows $_3 }") if isinstance(step, TypedTraversal)
    ]
    assert [(step.source, step.destination) for step in steps] == [("_2", "_1"), ("_1", "_4")]


def test_a_negation_knows_its_outer_variables() -> None:
    outer = clauses("$v: Vessel  $p: Port  $x: Port  not { $w: Vessel  not { $v tows $w  $w callsAt $p } }")[-1]
    assert isinstance(outer, TypedNegation)
    assert outer.outer == ("v", "p")
    inner = outer.clauses[-1]
    assert isinstance(inner, TypedNegation)
    assert inner.outer == ("v", "p", "w")


def test_a_variable_bound_twice_keeps_both_conditions() -> None:
    first, second = clauses('$v: Vessel { kind: "tug" }  $v: Vessel { tonnage: 900 }')
    assert isinstance(first, TypedBinding)
    assert isinstance(second, TypedBinding)
    assert len(first.predicates) == len(second.predicates) == 1


def test_a_single_value_for_a_list_property_means_membership() -> None:
    (bind,) = clauses('$v: Vessel { tags: "ice" }')
    assert isinstance(bind, TypedBinding)
    tags = PropertyValue("v", "tags", ValueType(Scalar.STRING, nullable=True, is_list=True))
    assert bind.predicates == (Compare(tags, ast.ComparisonOperator.CONTAINS, Constant("ice", STRING)),)


def test_null_tests_and_text_clauses() -> None:
    _, absent, present, text = clauses('$v: Vessel  $v.tonnage is null  $v.score is not null  fuzzy($v.name, "x", 1)')
    assert isinstance(absent, IsNull)
    assert isinstance(present, IsNull)
    assert (absent.negated, present.negated) == (False, True)
    assert isinstance(text, TextMatch)
    assert text.max_edits == Constant(1, I64)


def test_now_is_a_value_of_reads() -> None:
    found = clauses("$v $c:callsAt $p  $c.at < now()")[-1]
    assert isinstance(found, Compare)
    assert found.right == Now(ValueType(Scalar.DATETIME))


def test_a_list_parameter_left_of_contains_is_a_comparison_even_before_a_bare_parameter() -> None:
    found = compared("$codes contains $one", "$codes: [String], $one: String")
    assert found.left == ParameterValue("codes", ValueType(Scalar.STRING, is_list=True))
    assert found.right == ParameterValue("one", STRING)


# ------------------------------------------------------------------------------------------------ literals


@pytest.mark.parametrize(
    ("text", "constant"),
    [
        ("$v.rank = 5", Constant(5, ValueType(Scalar.I32))),
        ("$v.rank = 5000000000", Constant(5_000_000_000, I64)),
        ("$v.rank > 2.7", Constant(2.7, ValueType(Scalar.F64))),
        ("$v.exact = 9007199254740993", Constant(9_007_199_254_740_993, I64)),
        ("$v.exact = 18446744073709551615", Constant(2**64 - 1, U64)),
        ("$v.big = 18446744073709551615", Constant(2**64 - 1, U64)),
        ("$v.big > -1", Constant(-1, I64)),
        ("$v.ratio = 0.1", Constant(0.10000000149011612, ValueType(Scalar.F32))),
        ("$v.ratio = 16777217", Constant(16777217, I64)),
        ("$v.ratio = 16777217.0", Constant(16777216.0, ValueType(Scalar.F32))),
        (f"$v.ratio < {10**39}.0", Constant(1e39, ValueType(Scalar.F64))),
        ('$v.since = date("1970-01-02")', Constant(1, ValueType(Scalar.DATE))),
        (
            '$v.at = datetime("1970-01-01T01:00:01.2509+01:00")',
            Constant(1250, ValueType(Scalar.DATETIME), is_rounded=True),
        ),
    ],
)
def test_a_literal_in_a_comparison_takes_the_type_it_meets(text: str, constant: Constant) -> None:
    found = compared(text, catalog=MEASURES).right
    assert found == constant
    assert isinstance(found, Constant)
    assert type(found.value) is type(constant.value)


@pytest.mark.parametrize(
    ("text", "value", "scalar"),
    [
        ("[1, 2] contains $v.rank", (1, 2), Scalar.I32),
        ("[1, 5000000000] contains $v.rank", (1, 5_000_000_000), Scalar.I64),
        ("[1, 2] contains $v.exact", (1, 2), Scalar.I64),
        ("[1, 2.5] contains $v.rank", (1, 2.5), Scalar.F64),
        ("[0.1, 1] contains $v.ratio", (0.10000000149011612, 1.0), Scalar.F32),
        (f"[0.1, {10**39}.0] contains $v.ratio", (0.10000000149011612, 1e39), Scalar.F64),
        ("[18446744073709551615, 1] contains $v.big", (2**64 - 1, 1), Scalar.U64),
        ('[date("1970-01-03")] contains $v.since', (2,), Scalar.DATE),
    ],
)
def test_list_literals(text: str, value: tuple[float, ...], scalar: Scalar) -> None:
    assert compared(text, catalog=MEASURES).left == Constant(value, ValueType(scalar, is_list=True))


def test_assigned_literals_are_values_of_the_property() -> None:
    insert = statement(
        'insert Measure { name: "a", exact: 5, ratio: 0.1, days: [date("1970-01-02")], big: 18446744073709551615 }',
        catalog=MEASURES,
    )
    assert isinstance(insert, InsertNode)
    values = {assign.name: assign.value for assign in insert.values}
    assert values["exact"] == Constant(5.0, ValueType(Scalar.F64, nullable=True))
    assert values["ratio"] == Constant(0.10000000149011612, ValueType(Scalar.F32, nullable=True))
    assert values["days"] == Constant((1,), ValueType(Scalar.DATE, nullable=True, is_list=True))
    assert values["big"] == Constant(2**64 - 1, ValueType(Scalar.U64, nullable=True))


# ------------------------------------------------------------------------------------------------ result


def test_order_by_alias_of_a_ranking_is_the_ranking_best_first() -> None:
    found = read("$v: Vessel", 'return { $v.name as n, bm25($v.name, "x") as s } order { s, n desc } limit 3')
    assert isinstance(found.order[0].expression, TextScore)
    assert found.order[0].descending
    assert found.order[1] == TypedOrderKey(ColumnValue("n", STRING), descending=True)
    assert found.limit == Constant(3, U64)


def test_nearest_and_rrf() -> None:
    near = read("$v: Vessel", "return { $v } order { nearest($v.prof, [1, 2]) } limit $n", "$n: I64")
    (key,) = near.order
    assert isinstance(key.expression, Distance)
    assert key.expression.query == Constant((1.0, 2.0), ValueType(Scalar.VECTOR, dimension=2))
    assert not key.descending
    assert near.limit == ParameterValue("n", I64)
    fused = read("$v: Vessel", 'return { $v } order { rrf(nearest($v.prof, "a"), bm25($v.name, "b")) } limit 1')
    ranking = fused.order[0].expression
    assert isinstance(ranking, FusedScore)
    assert ranking.k == Constant(60, I64)


def test_order_of_groups_speaks_of_columns() -> None:
    found = read("$v: Vessel", "return { $v.kind as k, count($v) } order { count($v) desc, $v.kind }")
    assert [key.expression for key in found.order] == [
        ColumnValue("count(v)", I64.as_nullable()),
        ColumnValue("k", found.columns[0].expression.type),
    ]


# ------------------------------------------------------------------------------------------------ mutations


def test_defaults_fill_what_an_insert_leaves_out() -> None:
    insert = statement('insert Measure { name: "a", rank: 7 }', catalog=MEASURES)
    assert isinstance(insert, InsertNode)
    properties = MEASURES.nodes["Measure"].properties
    assert insert.values == (
        AssignedValue("name", Constant("a", STRING)),
        AssignedValue("rank", Constant(7, ValueType(Scalar.I32))),
        AssignedValue("at", Constant(1_704_067_200_000, properties["at"].type)),
        AssignedValue("kind", Constant("b", properties["kind"].type)),
        AssignedValue("since", Constant(19_723, properties["since"].type)),
    )


def test_an_explicit_null_is_not_replaced_by_the_default() -> None:
    insert = statement('insert Measure { name: "a", at: null }', catalog=MEASURES)
    assert isinstance(insert, InsertNode)
    values = {assign.name: assign.value for assign in insert.values}
    assert values["at"] == Constant(None, MEASURES.nodes["Measure"].properties["at"].type)


def test_a_name_shared_by_node_and_edge_means_the_edge_where_an_end_is_named() -> None:
    edge = statement('insert Link { from: "a", to: $b }', "$b: String", MEASURES)
    weight = AssignedValue("weight", Constant(1.0, ValueType(Scalar.F64)))
    assert edge == InsertEdge("Link", Constant("a", STRING), ParameterValue("b", STRING), (weight,))
    assert isinstance(statement('insert Link { name: "a" }', catalog=MEASURES), InsertNode)
    assert isinstance(statement('delete Link where from = "a"', catalog=MEASURES), DeleteEdges)
    assert isinstance(statement('delete Link where name = "a"', catalog=MEASURES), DeleteNodes)


def test_deletes() -> None:
    nodes = statement('delete Port where name != "Kiel"')
    assert isinstance(nodes, DeleteNodes)
    assert nodes.cascades == ("CallsAt", "HomePort")
    edges = statement('delete Tows where to = "v1"')
    assert edges == DeleteEdges(
        "Tows", Compare(PropertyValue("_", "dst", STRING), ast.ComparisonOperator.EQUAL, Constant("v1", STRING))
    )


def test_update_compares_by_value() -> None:
    update = statement("update Vessel set { score: $s } where tonnage > 2.5", "$s: I32")
    tonnage = PropertyValue("_", "tonnage", ValueType(Scalar.I32, nullable=True))
    assert update == UpdateNodes(
        "Vessel",
        (AssignedValue("score", ParameterValue("s", ValueType(Scalar.I32))),),
        Compare(tonnage, ast.ComparisonOperator.GREATER, Constant(2.5, ValueType(Scalar.F64))),
    )


# ------------------------------------------------------------------------------------------------ what no text can say


def test_an_insert_of_nothing_is_a_problem() -> None:
    query = ast.Query("q", (), ast.MutationBody((ast.Insert("Leg", (), Span(0, 6), Span(0, 6)),)))
    found = check_query(query, VESSELS, Source("insert"))
    assert isinstance(found, list)
    assert [problem.code for problem in found] == ["T10", "T12"]


def test_a_negative_limit_is_a_problem() -> None:
    body = ast.ReadBody(
        (ast.BindingClause("v", "Vessel"),), (ast.Projection(ast.Variable("v")),), limit=ast.ScalarLiteral(-1)
    )
    found = check_query(ast.Query("q", (), body), VESSELS, Source("q"))
    assert isinstance(found, list)
    assert [problem.code for problem in found] == ["Q012"]


def test_a_file_gives_the_problems_of_all_its_queries() -> None:
    source = Source(
        "query a() { match { $v: Ship } return { $v } }\n"
        "query a() { match { $v: Vessel } return { $x } }\n"
        "query b() { match { $v: Vessel } return { $v } }\n"
    )
    found = [problem for _, problem in lint_queries(source, VESSELS, "vessels.pg").problems]
    assert [(problem.code, problem.position.line) for problem in found] == [("T1", 1), ("Q006", 2), ("Q002", 2)]
