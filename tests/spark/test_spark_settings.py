"""Spark as clusters have it: several shuffle partitions, adaptive plans, generated code; many rows in the long run."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import omnigraph
from tests.selection import sized

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDINARY: Final = {
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
}
SHIPS: Final = sized(2_000, 1_000_000)


@pytest.fixture
def ordinary(spark: SparkSession) -> Generator[SparkSession]:
    """The one session, with other settings meanwhile."""
    before = {name: spark.conf.get(name, None) for name in ORDINARY}
    for name, value in ORDINARY.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


@pytest.mark.slow
def test_a_load_a_merge_and_a_query(ordinary: SparkSession, tmp_path: Path) -> None:
    graph = omnigraph.init(
        tmp_path / "ships.og", "node Ship { code: String @key  name: String }  edge Tows: Ship -> Ship"
    )
    sg = graph.spark(ordinary)
    ships = ordinary.range(0, SHIPS, 1, 6).selectExpr("concat('s', id) as code", "concat('ship ', id) as name")
    tows = ordinary.range(0, SHIPS - 1, 1, 6).selectExpr("concat('s', id) as `from`", "concat('s', id + 1) as `to`")
    loaded = sg.load(nodes={"Ship": ships}, edges={"Tows": tows})
    assert (loaded.nodes, loaded.edges) == ({"Ship": SHIPS}, {"Tows": SHIPS - 1})
    changed = ships.where(f"code in ('s0', 's{SHIPS - 1}')").selectExpr("code", "'other' as name")
    more = ordinary.range(SHIPS, SHIPS + 500, 1, 3).selectExpr("concat('s', id) as code", "'more' as name")
    sg.load(nodes={"Ship": changed.unionByName(more)}, mode="merge")
    assert sg.nodes("Ship").count() == SHIPS + 500
    assert sg.nodes("Ship", filter={"name": "other"}).count() == 2
    walked = sg.query(
        "query q() { match { $a: Ship  $a tows{2,3} $b } return { count($b) as n } }", engine="spark"
    ).collect()
    assert walked[0]["n"] == 2 * SHIPS - 5
