"""What is Spark's own in queries: types, names, numbers of any types side by side, pinned moments, long plans."""

from __future__ import annotations

import math
import operator as operators
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

import omnigraph
from omnigraph.errors import ParameterError, WalkTooLong
from omnigraph.graph import Graph
from omnigraph.language.query.ast import ComparisonOperator
from omnigraph.language.types import Scalar, ValueType
from omnigraph.language.values import ConstantValue
from omnigraph.spark.query.match_rows import MAX_WALK_ROUNDS
from omnigraph.write.load import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Ship { code: String @key  size: I32?  serial: U64?  mass: U32?  debt: I64?  draft: F32?  depth: F64?  safe: Bool?
            built: Date?  seen: DateTime?  tags: [String]?  marks: [U64]?  at: Vector(2)? }
edge Tows: Ship -> Ship
"""
SHIPS = "abcdef"
TOWS = ["ab", "bc", "cd", "de", "ea", "cc"]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """A ring of five with one loop, and one ship alone. No test changes it."""
    return fleet(tmp_path_factory.mktemp("fleet"))


def fleet(folder: Path) -> Graph:
    made = omnigraph.init(folder / "fleet.og", SCHEMA)
    ships: list[dict[str, object]] = [
        {"type": "Ship", "data": {"code": code, "debt": 2**62 + number}} for number, code in enumerate(SHIPS)
    ]
    made.load([*ships, *({"edge": "Tows", "from": begin, "to": end} for begin, end in TOWS)])
    return made


def rows(graph: Graph, spark: SparkSession, text: str, **params: object) -> list[tuple[object, ...]]:
    return [tuple(row) for row in graph.spark(spark).query(text, params=params, engine="spark").collect()]


# ------------------------------------------------------------------------------------------------ columns


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_columns_have_the_types_and_names_of_the_query(graph: Graph, spark: SparkSession, engine: Engine) -> None:
    found = graph.spark(spark).query(
        "query q($x: U64) { match { $s: Ship } return { $s, $s.size, $s.serial, $s.mass, $s.debt, $s.draft, $s.depth, "
        "$s.safe, $s.built, $s.seen, $s.tags, $s.marks, $s.at, $x, 1 as one, now() as now } }",
        params={"x": 2**64 - 1},
        engine=engine,
    )
    assert [(field.name, field.dataType.simpleString()) for field in found.schema] == [
        ("s", "string"),
        ("s.size", "int"),
        ("s.serial", "decimal(20,0)"),
        ("s.mass", "bigint"),
        ("s.debt", "bigint"),
        ("s.draft", "float"),
        ("s.depth", "double"),
        ("s.safe", "boolean"),
        ("s.built", "date"),
        ("s.seen", "timestamp"),
        ("s.tags", "array<string>"),
        ("s.marks", "array<decimal(20,0)>"),
        ("s.at", "array<float>"),
        ("x", "decimal(20,0)"),
        ("one", "bigint"),
        ("now", "timestamp"),
    ]
    first = found.select("`s.serial`", "x").first()
    assert first is not None
    assert tuple(first) == (None, Decimal(2**64 - 1))


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_groups_have_the_types_of_their_aggregates(graph: Graph, spark: SparkSession, engine: Engine) -> None:
    found = graph.spark(spark).query(
        "query q() { match { $s: Ship } return { count($s) as n, sum($s.size), avg($s.size), min($s.serial), "
        "max($s.code), count(distinct $s.tags) } }",
        engine=engine,
    )
    types = ["bigint", "double", "double", "decimal(20,0)", "string", "bigint"]
    assert [field.dataType.simpleString() for field in found.schema] == types


def test_names_that_differ_only_in_case_stay_apart(graph: Graph, spark: SparkSession) -> None:
    text = """query q() { match { $aB: Ship { code: "a" } $ab: Ship { code: "b" } }
              return { $aB.code as xY, $ab.code as xy } }"""
    assert rows(graph, spark, text) == [("a", "b")]


def test_a_match_that_binds_nothing_has_one_row_or_none(graph: Graph, spark: SparkSession) -> None:
    text = "query q($x: I32) { match { $x > 1 } return { $x, 7 as seven } order { seven } }"
    assert rows(graph, spark, text, x=2) == [(2, 7)]
    assert rows(graph, spark, text, x=1) == []


# ------------------------------------------------------------------------------------------------ moments


def test_a_frame_keeps_to_its_moment(tmp_path: Path, spark: SparkSession) -> None:
    graph = fleet(tmp_path)
    graph.load([{"type": "Ship", "data": {"code": "g"}}])
    text = "query q() { match { $s: Ship $s.debt is null } return { $s, now() as now } order { $s.code } }"
    before = graph.spark(spark).query(text, engine="spark")
    first = before.collect()
    assert [row[0] for row in first] == ["g"]
    graph.load([{"type": "Ship", "data": {"code": "h"}}])
    assert before.collect() == first
    assert [row[0] for row in graph.spark(spark).query(text, engine="spark").collect()] == ["g", "h"]


# ------------------------------------------------------------------------------------------------ plans


@pytest.mark.slow
def test_a_walk_ends_where_nothing_is_left(graph: Graph, spark: SparkSession) -> None:
    text = "query q() { match { $s: Ship { code: $from } $s tows{2,4000000000} $t } return { $t } order { $t.code } }"
    asked = text.replace("q()", "q($from: String)")
    assert rows(graph, spark, asked, **{"from": "b"}) == [("a",), ("c",), ("d",), ("e",)], "c by its loop"
    assert rows(graph, spark, asked, **{"from": "f"}) == []


@pytest.mark.slow
def test_a_walk_without_an_upper_bound_is_never_cut_short(graph: Graph, spark: SparkSession) -> None:
    text = 'query q() { match { $s: Ship { code: "a" } $s tows{1,} $t } return { count($t) as n } }'
    spark.conf.set(MAX_WALK_ROUNDS, "3")
    try:
        with pytest.raises(WalkTooLong, match="after 3 hops") as refused:
            rows(graph, spark, text)
        assert refused.value.hint == "write an upper bound, or run it locally"
        spark.conf.set(MAX_WALK_ROUNDS, "none")
        with pytest.raises(ParameterError, match="maxWalkRounds is 'none'"):
            rows(graph, spark, text)
        spark.conf.set(MAX_WALK_ROUNDS, "5")
        assert rows(graph, spark, text) == [(4,)]
    finally:
        spark.conf.unset(MAX_WALK_ROUNDS)


@pytest.mark.slow
def test_negations_do_not_multiply_each_other(
    graph: Graph, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    def scans(negations: int) -> int:
        inner = " ".join(f'not {{ $s tows $t{n} $t{n}.code = "{SHIPS[n]}" }}' for n in range(negations))
        found = graph.spark(spark).query(
            f"query q() {{ match {{ $s: Ship {inner} }} return {{ $s }} }}", engine="spark"
        )
        towing = {begin for begin, end in TOWS if end in SHIPS[:negations]}
        assert {row[0] for row in found.collect()} == set(SHIPS) - towing
        capsys.readouterr()
        found.explain()
        return capsys.readouterr().out.count("Scan ExistingRDD")

    two, three, four = scans(2), scans(3), scans(4)
    assert four - three == three - two > 0


# ------------------------------------------------------------------------------------------------ numbers

NUMBERS: dict[Scalar, list[int | float]] = {
    Scalar.I32: [-(2**31), -1, 0, 3, 2**31 - 1],
    Scalar.U32: [0, 3, 2**32 - 1],
    Scalar.I64: [-(2**63), -(2**53) - 1, -1, 0, 3, 2**53, 2**53 + 1, 2**63 - 1],
    Scalar.U64: [0, 3, 2**53 + 1, 2**63, 2**63 + 1, 2**64 - 1],
    Scalar.F32: [-math.inf, -1.5, -0.0, 0.5, 3.0, 2.0**31, 2.0**63, math.inf, math.nan],
    Scalar.F64: [
        *(-math.inf, -1e300, -(2.0**63), -(2.0**53), -1.5, -1e-300, -0.0, 0.1, 3.0, 3.5, 2.0**53, 2.0**63),
        *(2.0**63 - 1024, 2.0**64, 2.0**64 - 2048, 1e300, math.inf, math.nan),
    ],
}
OPERATORS: dict[ComparisonOperator, Callable[[object, object], bool]] = {
    ComparisonOperator.EQUAL: operators.eq,
    ComparisonOperator.NOT_EQUAL: operators.ne,
    ComparisonOperator.LESS: cast("Callable[[object, object], bool]", operators.lt),
    ComparisonOperator.LESS_OR_EQUAL: cast("Callable[[object, object], bool]", operators.le),
    ComparisonOperator.GREATER: cast("Callable[[object, object], bool]", operators.gt),
    ComparisonOperator.GREATER_OR_EQUAL: cast("Callable[[object, object], bool]", operators.ge),
}


@pytest.mark.slow
@pytest.mark.parametrize("scalar", NUMBERS)
def test_numbers_of_all_types_are_compared_by_value(spark: SparkSession, scalar: Scalar) -> None:
    from pyspark.sql import functions as fn

    from omnigraph.spark.query.comparisons import compare
    from omnigraph.spark.query.evaluation import to_literal

    left_type = ValueType(scalar)
    for other, values in NUMBERS.items():
        right_type = ValueType(other)
        pairs = [(left, right) for left in [*NUMBERS[scalar], None] for right in [*values, None]]
        # From a table and not as constants, which Spark would compute while it plans.
        frame = spark.range(len(pairs)).select(
            *(
                fn.element_at(fn.array(*(to_literal(cast("ConstantValue", pair[side]), type_) for pair in pairs)), at)
                for side, type_ in ((0, left_type), (1, right_type))
                for at in [(fn.col("id") + 1).cast("int")]
            )
        )
        compared = frame.toDF("x", "y").select(
            "x", "y", *(compare(fn.col("x"), left_type, each, fn.col("y"), right_type) for each in OPERATORS)
        )
        for (left, right), row in zip(pairs, compared.collect(), strict=True):
            unknown = left is None or right is None
            stated = [None if unknown else meaning(left, right) for meaning in OPERATORS.values()]
            found = [truth or None if unknown else truth for truth in row[2:]]
            assert found == stated, f"{scalar} {left!r} beside {other} {right!r}: {list(OPERATORS)}"


def test_means_of_large_integers_are_rounded_once(graph: Graph, spark: SparkSession) -> None:
    text = "query q() { match { $s: Ship } return { sum($s.debt) as sum, avg($s.debt) as mean } }"
    debts = [2**62 + number for number in range(len(SHIPS))]
    assert rows(graph, spark, text) == [(float(sum(debts)), float(Fraction(sum(debts), len(debts))))]


# ------------------------------------------------------------------------------------------------ computed values


@pytest.mark.slow
def test_large_expressions_are_computed_by_the_kernels(graph: Graph, spark: SparkSession) -> None:
    total = " + ".join(["length($s.code)"] * 1_000 + ["0"] * 1_000)
    arms = ", ".join(f"$s.debt - {2**62} = {number}: {number}" for number in range(500))
    nested = "(1 / " * 40 + "2" + ")" * 40
    text = (
        f"query q() {{ match {{ $s: Ship  {total} = 1000 }} return {{ case {{ {arms} }} as place, {nested} as x }} "
        "order { place } limit 2 }"
    )
    assert rows(graph, spark, text) == [tuple(row.values()) for row in graph.query(text).rows]


@pytest.mark.slow
def test_all_computed_columns_are_one_step_of_python(
    graph: Graph, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows go to Python and back once, however many functions the local kernels compute."""
    text = (
        'query q() { match { $s: Ship } return { upper($s.code) as u, lower(concat($s.code, "X")) as l, '
        'length($s.code) as n, truncate($s.built, "year") as y, $s.code matches "^a" as m, $s.size + 1 as z } }'
    )
    found = graph.spark(spark).query(text, engine="spark")
    found.explain()
    plan = capsys.readouterr().out
    assert plan.count("EvalPython") == 1, plan
    assert len(found.collect()) == len(SHIPS)


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["America/St_Johns", "Pacific/Kiritimati"])
def test_parts_of_dates_are_those_of_utc(graph: Graph, spark: SparkSession, zone: str) -> None:
    text = (
        "query q($at: DateTime) { match { $s: Ship  coalesce($s.seen, $at) = $at } return { "
        "year(coalesce($s.seen, $at)) as y, day(coalesce($s.seen, $at)) as d, "
        'truncate(coalesce($s.seen, $at), "day") = datetime("2023-12-31") as t } limit 1 }'
    )
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for moment in ("2023-12-31T00:10:00Z", "2023-12-31T23:50:00Z"):
            assert rows(graph, spark, text, at=moment) == [(2023, 31, True)]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")
