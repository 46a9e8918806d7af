"""``sg.sql``: types as tables, at any moment, and only the columns that a query uses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import omnigraph
from omnigraph.errors import NotFound, ParameterError
from omnigraph.graph import Graph
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.spark.source import SparkSnapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = """
node Ship { code: String @key  crew: I32?  home: String? }
edge Tows: Ship -> Ship { since: I32? }
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Three ships, of which the third came later; the first was renamed on a branch. No test changes it."""
    made = omnigraph.init(tmp_path_factory.mktemp("sql") / "ships.og", SCHEMA)
    made.load([{"type": "Ship", "data": {"code": code, "crew": crew}} for code, crew in (("a", 1), ("b", 2))])
    made.load([{"type": "Ship", "data": {"code": "c", "crew": 3, "home": "{x}"}}])
    made.load([{"edge": "Tows", "from": "a", "to": "b", "data": {"since": 2001}}])
    made.create_branch("dev")
    made.mutate('query q() { update Ship set { crew: 9 } where code = "a" }', branch="dev")
    return made


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str] | None]]:
    """What is read: types, and their columns, None for all."""
    found: list[tuple[str, list[str] | None]] = []
    rows = SparkSnapshot.rows

    def watch(tables: SparkSnapshot, type_: NodeType | EdgeType, columns: Any = None) -> DataFrame:
        found.append((type_.name, columns))
        return rows(tables, type_, columns)

    monkeypatch.setattr(SparkSnapshot, "rows", watch)
    return found


def second_version(graph: Graph) -> int:
    """The manifest version with the first two ships."""
    return graph.commits()[-2].manifest_version


def rows_of(frame: DataFrame) -> list[tuple[object, ...]]:
    return [tuple(row) for row in frame.collect()]


def test_a_count_reads_no_column(graph: Graph, spark: SparkSession, reads: list[tuple[str, list[str] | None]]) -> None:
    sg = graph.spark(spark)
    counted = sg.sql("SELECT count(*) AS n FROM Ship")
    assert (rows_of(counted), counted.columns, reads) == ([(3,)], ["n"], [])
    assert rows_of(sg.sql(f"SELECT count(*) FROM Ship VERSION AS OF {second_version(graph)}, Tows")) == [(2,)]  # noqa: S608
    assert reads == []


def test_only_columns_that_are_used_are_read(
    graph: Graph, spark: SparkSession, reads: list[tuple[str, list[str] | None]]
) -> None:
    sg = graph.spark(spark)
    text = "SELECT s.CODE, t.since FROM ship s JOIN Tows t ON t.`from` = s.code WHERE s.crew > :crew"
    assert rows_of(sg.sql(text, {"crew": 0})) == [("a", 2001)]
    assert set(map(str, reads)) == {"('Ship', ['code', 'crew'])", "('Tows', ['from', 'since'])"}
    reads.clear()
    # Braces and names in strings are texts, and all columns are all columns.
    assert rows_of(sg.sql("SELECT * FROM Ship WHERE home = '{x}' OR home = 'Ship'")) == [("c", "c", 3, "{x}")]
    assert reads == [("Ship", None)]


def test_a_query_of_many_columns_does_not_read_the_others(
    tmp_path: Path, spark: SparkSession, reads: list[tuple[str, list[str] | None]]
) -> None:
    names = [f"c{number}" for number in range(40)]
    columns = "  ".join(f"{name}: I32?" for name in names)
    made = omnigraph.init(tmp_path / "wide.og", f"node Ship {{ code: String @key  {columns}  shape: Vector(2)? }}")
    before = spark.conf.get("spark.sql.debug.maxToStringFields")
    assert rows_of(made.spark(spark).sql(f"SELECT {', '.join(names)} FROM Ship")) == []  # noqa: S608
    # Once for the plan, and once for the rows.
    assert [sorted(columns or ()) for _, columns in reads] == [sorted(names), sorted(names)]
    assert spark.conf.get("spark.sql.debug.maxToStringFields") == before


def test_a_column_that_is_used_without_its_name_is_read(
    graph: Graph, spark: SparkSession, reads: list[tuple[str, list[str] | None]]
) -> None:
    # The columns that both sides have are not in the text.
    found = graph.spark(spark).sql("SELECT count(*) FROM Ship NATURAL JOIN (SELECT * FROM Ship WHERE crew > 1)")
    assert rows_of(found) == [(1,)], "null is equal to nothing"
    assert reads[-1] == ("Ship", None)
    text = "SELECT code FROM Ship a NATURAL JOIN Ship b"
    assert rows_of(graph.spark(spark).sql(text)) == [("c",)]
    assert reads[-1] == ("Ship", None)


def test_moments_and_branches(graph: Graph, spark: SparkSession) -> None:
    sg, commits = graph.spark(spark), graph.commits()
    views = spark.catalog.listTables()
    before = f"SELECT code FROM Ship VERSION AS OF {second_version(graph)}"  # noqa: S608
    assert rows_of(sg.sql(f"SELECT Ship.code FROM Ship WHERE code NOT IN ({before})")) == [("c",)]  # noqa: S608
    moment = commits[-2].created_at.isoformat()
    then = f"SELECT sum(crew) FROM Ship TIMESTAMP AS OF '{moment}'"  # noqa: S608
    assert rows_of(sg.sql(then)) == [(3,)]
    assert rows_of(sg.sql("SELECT sum(crew) FROM Ship", branch="dev")) == [(14,)]
    assert rows_of(sg.sql("SELECT sum(crew) FROM Ship", at=commits[-2].id)) == [(3,)]
    assert rows_of(sg.sql("SELECT 1 AS one")) == [(1,)]
    assert spark.catalog.listTables() == views


def test_what_is_wrong_is_told(graph: Graph, spark: SparkSession, tmp_path: Path) -> None:
    sg = graph.spark(spark)
    with pytest.raises(NotFound, match="no manifest version 999"):
        sg.sql("SELECT 1 FROM Ship VERSION AS OF 999")
    with pytest.raises(ParameterError, match=r"sg\.sql takes a query"):
        sg.sql("INSERT INTO Ship VALUES (1)")
    with pytest.raises(ParameterError, match=r"name `cde` cannot be resolved\. Did you mean .*`code`") as caught:
        sg.sql("SELECT cde FROM Ship")
    assert caught.value.details["condition"] == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    with pytest.raises(ParameterError, match="rejects the SQL: Syntax error at or near 'Ship'"):
        sg.sql("SELECT code FORM Ship")
    grown = omnigraph.init(tmp_path / "grown.og", "node Ship { code: String @key }")
    grown.apply_schema("node Ship { code: String @key }\nnode Port { code: String @key }")
    first = grown.commits()[-1].manifest_version
    with pytest.raises(NotFound, match=f"there was no type 'port' at v{first}"):
        grown.spark(spark).sql(f"SELECT count(*) FROM Port VERSION AS OF {first}")  # noqa: S608
