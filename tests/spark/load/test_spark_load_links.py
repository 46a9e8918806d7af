"""Rows that wait beside the graph, for a branch that is new or has no tables of its own, are not written twice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.spark.load import incoming_rows as load_incoming
from omnigraph.storage.durability import DURABILITIES, Durability
from omnigraph.write.load import LoadMode
from tests.graphs import rows_of
from tests.selection import daily

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA: Final = """
node Ship { code: String @key  tags: [String]?  shape: Vector(2)? }
edge Tows: Ship -> Ship
"""


def written_again(*_: object, **__: object) -> None:
    """Stands where staged rows would be written once more."""
    pytest.fail("rows are written again")


def load_fleet(spark: SparkSession, graph: Graph, branch: str, first: int, mode: LoadMode = "append") -> None:
    ships = spark.range(first, first + 500, 1, 3).selectExpr(
        "concat('s', id) as code", "array('x', cast(id as string)) as tags", "array(cast(id as float), 0.5f) as shape"
    )
    tows = ships.selectExpr("code as `from`", "code as `to`")
    done = graph.spark(spark).load(
        nodes={"Ship": ships}, edges={"Tows": tows}, mode=mode, branch=branch, from_branch="main"
    )
    assert (done.nodes, done.edges) == ({"Ship": 500}, {"Tows": 500})


@pytest.mark.parametrize("durability", daily(DURABILITIES, ["power"]))
def test_rows_for_a_new_branch_are_written_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: Durability
) -> None:
    graph = omnigraph.init(tmp_path / "ships.og", SCHEMA, durability=durability)
    graph.load([{"type": "Ship", "data": {"code": "first"}}])
    monkeypatch.setattr(load_incoming, "rewrite_fragments", written_again)
    load_fleet(spark, graph, "june", 0)
    # Half of these are there; the branch has tables of its own now.
    load_fleet(spark, graph, "june", 250, "merge")
    ships = {str(row["code"]): row for row in rows_of(graph, "Ship", "june")}
    assert ships.keys() == {"first", *(f"s{number}" for number in range(750))}
    assert (ships["s700"]["tags"], ships["s700"]["shape"]) == (["x", "700"], [700.0, 0.5])
    assert len(rows_of(graph, "Tows", "june")) == 750
    assert len(rows_of(graph, "Ship")) == 1
    assert not list(tmp_path.glob("*.loading"))
    graph.optimize(branch="june")
    assert graph.verify().findings == ()


def test_a_table_that_numbers_its_columns_otherwise_gets_rows_of_its_own(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = omnigraph.init(tmp_path / "ships.og", SCHEMA.replace("tags: [String]?", "old: I32?"))
    graph.load([{"type": "Ship", "data": {"code": "first", "old": 1}}])
    graph.apply_schema(SCHEMA, allow_data_loss=True)
    monkeypatch.setattr(load_incoming, "LOCAL_LOAD_ROWS", 0)
    load_fleet(spark, graph, "june", 0)
    ships = {str(row["code"]): row for row in rows_of(graph, "Ship", "june")}
    assert (len(ships), ships["s7"]["tags"], ships["s7"]["shape"]) == (501, ["x", "7"], [7.0, 0.5])
