"""Where a query runs: a small one in this process, a large one on executors, where Lance applies its conditions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.spark import sized_frames
from omnigraph.spark.query import run
from omnigraph.spark.source import SparkSnapshot
from omnigraph.storage.filters import Condition
from tests.selection import daily

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = """
node Ship { code: String @key  name: String  crew: I32?  built: Date?  seen: DateTime? }
edge Tows: Ship -> Ship { since: I32? }
"""
LOOKUP = 'query q() { match { $s: Ship { code: "s3" } } return { $s.name as name, $s.seen as seen } }'


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """A chain of ships that no test changes."""
    return fleet(tmp_path_factory.mktemp("fleet"))


def fleet(folder: Path) -> Graph:
    made = omnigraph.init(folder / "fleet.og", SCHEMA)
    ships = [
        {
            "code": f"s{at}",
            "name": f"ship {at}",
            "crew": at,
            "built": f"19{at:02}-01-01",
            "seen": "2024-05-01T08:00:00Z",
        }
        for at in range(60)
    ]
    tows = [{"edge": "Tows", "from": f"s{at}", "to": f"s{at + 1}", "data": {"since": 2000 + at}} for at in range(59)]
    made.load([*({"type": "Ship", "data": ship} for ship in ships), *tows])
    return made


@pytest.fixture
def no_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Never:
        raise AssertionError("the query runs on executors")

    monkeypatch.setattr(run, "run_on_executors", refuse)


# ------------------------------------------------------------------------------------------------ in this process


@pytest.mark.usefixtures("no_executors")
def test_a_small_query_is_answered_here_and_keeps_to_its_moment(tmp_path: Path, spark: SparkSession) -> None:
    graph = fleet(tmp_path)
    text = "query q() { match { $s: Ship  $s.crew > 55 } return { $s.code as code } order { $s.crew desc } }"
    frame = graph.spark(spark).query(text)
    graph.mutate('query q() { delete Ship where code = "s58" }')
    assert [row.code for row in frame.collect()] == ["s59", "s58", "s57", "s56"]
    assert [row.code for row in graph.spark(spark).query(text).collect()] == ["s59", "s57", "s56"]
    nobody = graph.spark(spark).query(text.replace("55", "99"))
    assert (nobody.columns, nobody.count()) == (["code"], 0)


def test_both_ways_have_the_same_columns_and_rows(graph: Graph, spark: SparkSession) -> None:
    sg = graph.spark(spark)
    here, there = (sg.query(LOOKUP, engine=engine) for engine in ("local", "spark"))
    assert [(field.name, field.dataType) for field in here.schema] == [
        (field.name, field.dataType) for field in there.schema
    ]
    assert here.collect() == there.collect() != []


# ------------------------------------------------------------------------------------------------ which way


def test_explain_says_where_a_query_runs_and_why(
    graph: Graph, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    sg = graph.spark(spark)
    here = sg.explain(LOOKUP)
    assert here.startswith("runs in this process: it reads about 60 rows of 0.0 MB in total")
    assert here.partition("\n")[2] == graph.explain(LOOKUP)
    assert sg.explain(LOOKUP, engine="spark").startswith('runs on Spark: engine="spark" was asked for\n')
    monkeypatch.setattr(run, "MAX_LOCAL_BYTES", 1_000)
    assert sg.explain(LOOKUP).startswith("runs on Spark: it reads about 60 rows")
    monkeypatch.setattr(run, "MAX_LOCAL_BYTES", 10_000_000)
    product = "query q() { match { $s: Ship  $t: Ship } return { $s.code, $t.code } }"
    assert sg.explain(product).startswith("runs in this process: ")
    monkeypatch.setattr(run, "MAX_LOCAL_ROWS", 3_599)
    assert sg.explain(product).startswith("runs on Spark: ")


def test_a_result_that_is_larger_than_estimated_comes_from_executors(
    graph: Graph, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    executed = run.run_on_executors

    def watch(*given: Any) -> DataFrame:
        asked.append(given[0].name)
        return executed(*given)

    monkeypatch.setattr(run, "run_on_executors", watch)
    monkeypatch.setattr(run, "MAX_LOCAL_BYTES", 20_000)
    found = graph.spark(spark).query("query q() { match { $s: Ship  $t: Ship } return { $s.code as a, $t.code as b } }")
    assert asked == ["q"]
    assert found.count() == 60 * 60


# ------------------------------------------------------------------------------------------------ what a scan reads


def test_conditions_and_columns_of_the_plan_go_into_the_scan(
    graph: Graph, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans: list[tuple[str, list[str], list[str | None]]] = []
    rows = SparkSnapshot.rows

    def watch(
        tables: SparkSnapshot, type_: NodeType | EdgeType, columns: Any, *, conditions: Sequence[Condition]
    ) -> DataFrame:
        scans.append((type_.name, list(columns), [each.to_sql() for each in conditions]))
        return rows(tables, type_, columns, conditions=conditions)

    monkeypatch.setattr(SparkSnapshot, "rows", watch)
    text = """query q($since: I32, $until: Date) {
      match { $a: Ship { code: "s3" }  $a $t:tows $b  $t.since >= $since  $b.built < $until  $b.name contains "ship" }
      return { $b.code as code }
    }"""
    found = graph.spark(spark).query(text, params={"since": 2003, "until": "1950-01-01"}, engine="spark")
    assert [row.code for row in found.collect()] == ["s4"]
    assert sorted(scans) == [
        ("Ship", ["id"], ["`id` IN ('s3')"]),
        ("Ship", ["id", "code"], ["`built` < DATE '1950-01-01'", "contains(`name`, 'ship')"]),
        ("Tows", ["from", "to", "id"], ["`since` >= 2003"]),
    ]


WALKS = (
    ("$a: Ship  $a $t:tows $b } return { $t.since as since, count($a) as n", 0),
    ("$a: Ship  $a tows $b } return { $a.id as a, $b.id as b", 0),
    ("$b: Ship  $a tows $b } return { $b.id as b, $a.id as a", 0),
    ("$a: Ship  $a <tows> $b } return { $a.id as a, $b.id as b", 0),
    ("$a: Ship  $a tows $b } return { $a.id as a, $b.name as name", 1),
    ("$a: Ship { crew: 7 }  $a tows $b } return { $a.id as a, $b.id as b", 1),
    ("$a: Ship  $a tows{2,3} $b } return { $a.id as a, $b.id as b", 1),
)
"""What is matched and returned, and how often ships are read."""


@pytest.mark.parametrize(("text", "nodes"), daily(WALKS, WALKS[1:5:3], lambda each: each[0]))
def test_nodes_of_which_only_the_ids_are_used_are_not_read_beside_their_edges(
    graph: Graph, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, text: str, nodes: int
) -> None:
    scans: list[str] = []
    rows = SparkSnapshot.rows

    def watch(tables: SparkSnapshot, type_: NodeType | EdgeType, *given: Any, **options: Any) -> DataFrame:
        scans.append(type_.name)
        return rows(tables, type_, *given, **options)

    monkeypatch.setattr(SparkSnapshot, "rows", watch)
    query = f"query q() {{ match {{ {text} }} }}"
    found = graph.spark(spark).query(query, engine="spark").collect()
    assert scans.count("Ship") == nodes
    assert sorted(tuple(row.asDict().values()) for row in found) == sorted(
        tuple(row.values()) for row in graph.query(query).rows
    )


# ------------------------------------------------------------------------------------------------ how rows are joined


def test_joins_follow_the_size_of_the_data_and_not_the_settings_of_the_session(
    graph: Graph, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    sg, before = graph.spark(spark), dict(spark.conf.getAll)
    text = (
        "query q() { match { $a: Ship  $a $t:tows $b } return { $a.crew as crew, $b.code as code, $t.since as since } }"
    )
    few = plan_of(sg.query(text, engine="spark"))
    assert "Exchange hashpartitioning" not in few
    assert few.count("BroadcastHashJoin") == 2
    monkeypatch.setattr(sized_frames, "MAX_BROADCAST_BYTES", 0)
    for size, partitions in ((2_538, "6"), (5_076, "3")):
        monkeypatch.setattr(sized_frames, "PARTITION_BYTES", size)
        many = sg.query(text, engine="spark")
        plan = plan_of(many)
        assert plan.count("SortMergeJoin") == 2
        assert re.findall(r"Exchange hashpartitioning\(c\d+#\d+, (\d+)\)", plan) == [partitions] * 4
    many = sg.query(text, engine="spark")
    assert sorted(row.since for row in many.collect()) == list(range(2000, 2059))
    assert dict(spark.conf.getAll) == before


def plan_of(frame: DataFrame) -> str:
    """The physical plan."""
    text = StringIO()
    with redirect_stdout(text):
        frame.explain()
    return text.getvalue()
