"""Graphs on S3 in the hands of Spark, with Lance's own commits and with those of DynamoDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import omnigraph
from omnigraph.errors import ValidationError
from omnigraph.spark.load import incoming_rows as load_incoming
from omnigraph.spark.merge import run as merge
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects
from omnigraph.write.merge.deltas import Counts
from tests.s3 import S3Server
from tests.spark.merge.test_spark_merge import NOBODY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "node Ship { code: String @key  name: String }  edge Tows: Ship -> Ship"


@pytest.mark.slow
@pytest.mark.parametrize("store", ["s3_location", "ddb_location"])
def test_loads_and_reads(
    spark: SparkSession,
    s3_server: S3Server,
    store: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Few rows are handled like many.
    monkeypatch.setattr(load_incoming, "LOCAL_LOAD_ROWS", 0)
    location: Location = request.getfixturevalue(store)
    graph = omnigraph.init(location.uri, SCHEMA, storage_options=s3_server.options)
    graph.load([{"type": "Ship", "data": {"code": "a", "name": "old"}}])
    sg = graph.spark(spark)
    ships = spark.createDataFrame([("a", "A"), ("b", "B")], "code string, name string")
    tows = spark.createDataFrame([("a", "b")], "`from` string, `to` string")
    result = sg.load(nodes={"Ship": ships}, edges={"Tows": tows}, mode="merge")
    assert (result.nodes, result.edges) == ({"Ship": 2}, {"Tows": 1})
    with pytest.raises(ValidationError, match="'b' exists already"):
        sg.load(nodes={"Ship": ships.where("code = 'b'")})
    # On a table that was audited in a wrong way nobody could commit any more.
    graph.load([{"type": "Ship", "data": {"code": "c", "name": "C"}}])
    ships = sg.nodes("Ship", ["code", "name"]).toArrow().sort_by("code")
    assert ships.to_pydict() == {"code": ["a", "b", "c"], "name": ["A", "B", "C"]}
    reader = spark.read.format("omnigraph").option("type", "Tows").option("columns", "from,to")
    for name, value in s3_server.options.items():
        reader = reader.option(f"storage.{name}", value)
    assert reader.load(location.uri).toArrow().to_pylist() == [{"from": "a", "to": "b"}]
    assert Objects(location.sibling("loading")).list() == []


@pytest.mark.slow
@pytest.mark.usefixtures("eight_partitions")
@pytest.mark.parametrize("store", ["s3_location", "ddb_location"])
def test_updates(
    spark: SparkSession,
    s3_server: S3Server,
    store: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load_incoming, "LOCAL_LOAD_ROWS", 0)
    location: Location = request.getfixturevalue(store)
    schema = SCHEMA.replace("name: String", "name: String  crew: I32?")
    graph = omnigraph.init(location.uri, schema, storage_options=s3_server.options)
    graph.load([{"type": "Ship", "data": {"code": code, "name": code.upper(), "crew": 1}} for code in "abcd"])
    sg = graph.spark(spark)
    crews = spark.createDataFrame([("a", 7), ("b", 1), ("c", None), ("z", 5)], "code string, crew int").repartition(3)
    with pytest.raises(ValidationError, match="there is no Ship to update with the key 'z'"):
        sg.load(nodes={"Ship": crews}, mode="update")
    assert sg.load(nodes={"Ship": crews.where("code < 'z'")}, mode="update").commit is not None
    found = {row["code"]: (row["name"], row["crew"]) for row in graph.nodes("Ship").to_arrow().to_pylist()}
    assert found == {"a": ("A", 7), "b": ("B", 1), "c": ("C", None), "d": ("D", 1)}
    assert sg.load(nodes={"Ship": crews.where("code < 'z'")}, mode="update").commit is None, "nothing is new"
    assert graph.verify().findings == ()
    assert Objects(location.sibling("loading")).list() == []


@pytest.mark.slow
@pytest.mark.parametrize("store", ["s3_location", "ddb_location"])
def test_merges_and_compares(
    spark: SparkSession,
    s3_server: S3Server,
    store: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load_incoming, "LOCAL_LOAD_ROWS", 0)
    monkeypatch.setattr(merge, "LOCAL_MERGE_ROWS", 0)
    monkeypatch.setattr(merge, "LOCAL_MERGE_ENGINE", NOBODY)
    location: Location = request.getfixturevalue(store)
    graph = omnigraph.init(location.uri, SCHEMA, storage_options=s3_server.options)
    graph.load([{"type": "Ship", "data": {"code": code, "name": "old"}} for code in "abc"])
    graph.create_branch("dev")
    graph.load([{"type": "Ship", "data": {"code": code, "name": "new"}} for code in "bd"], mode="merge", branch="dev")
    graph.mutate('query q() { delete Ship where code = "c" }', branch="dev")
    graph.mutate('query q() { update Ship set { name: "mine" } where code = "a" }')
    sg = graph.spark(spark)
    assert {(row.op, row.id) for row in sg.diff("dev").select("op", "id").collect()} == {
        ("updated", "a"),
        ("updated", "b"),
        ("deleted", "c"),
        ("inserted", "d"),
    }
    assert sg.merge("dev").nodes == {"Ship": Counts(1, 1, 1)}
    # On a table that was audited in a wrong way nobody could commit any more.
    graph.load([{"type": "Ship", "data": {"code": "e", "name": "E"}}])
    ships = graph.nodes("Ship").to_arrow().sort_by("id")
    assert ships.select(["code", "name"]).to_pydict() == {
        "code": ["a", "b", "d", "e"],
        "name": ["mine", "new", "new", "E"],
    }
    assert Objects(location.sibling("loading")).list() == []
    reader = spark.readStream.format("omnigraph").option("changes", "true").option("start", "beginning")
    for name, value in s3_server.options.items():
        reader = reader.option(f"storage.{name}", value)
    writer = reader.load(location.uri).writeStream.format("memory").queryName(f"feed_{store}")
    writer.trigger(availableNow=True).start().awaitTermination()
    assert spark.table(f"feed_{store}").count() == 3 + 4 + 1
