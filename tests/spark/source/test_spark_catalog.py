"""Types of a graph are no tables of Spark's catalog: whatever would make one is refused, and nothing is committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException

import omnigraph
from omnigraph.graph import Graph
from tests.graphs import rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def small_graph(folder: Path) -> Graph:
    graph = omnigraph.init(folder / "small.og", "node Ship { name: String @key }")
    graph.load([{"type": "Ship", "data": {"name": "a"}}])
    return graph


TABLES: Final[Mapping[str, Callable[[SparkSession, DataFrame, str], object]]] = {
    "saveAsTable": lambda _, rows, uri: (
        rows.write.format("omnigraph").option("type", "Ship").option("path", uri).mode("append").saveAsTable("ships")
    ),
    "overwriting": lambda _, rows, uri: (
        rows.write.format("omnigraph").option("type", "Ship").option("path", uri).mode("overwrite").saveAsTable("ships")
    ),
    "without rows": lambda _, rows, uri: (
        rows.limit(0).write.format("omnigraph").option("type", "Ship").option("path", uri).saveAsTable("ships")
    ),
    "writeTo": lambda _, rows, uri: (
        rows.writeTo("ships").using("omnigraph").option("type", "Ship").option("path", uri).create()
    ),
    "CREATE TABLE": lambda spark, _, uri: spark.sql(
        f"CREATE TABLE ships USING omnigraph OPTIONS (path '{uri}', type 'Ship')"
    ),
    "AS SELECT": lambda spark, _, uri: spark.sql(
        f"CREATE TABLE ships USING omnigraph OPTIONS (path '{uri}', type 'Ship') AS SELECT 'z' AS name"
    ),
}


@pytest.mark.parametrize("way", TABLES)
def test_a_table_of_the_catalog_is_refused(spark: SparkSession, tmp_path: Path, way: str) -> None:
    graph = small_graph(tmp_path)
    commits, before = graph.commits(), rows_of(graph, "Ship")
    rows = spark.createDataFrame([("new",)], "name string")
    with pytest.raises((PySparkException, Py4JJavaError), match=r"CREATE TEMPORARY VIEW \.\.\. USING omnigraph"):
        TABLES[way](spark, rows, graph.uri)
    assert (graph.commits(), rows_of(graph, "Ship")) == (commits, before)
    assert "ships" not in {table.name for table in spark.catalog.listTables()}


@pytest.mark.slow
def test_a_table_with_columns_of_its_own_is_refused_when_it_is_read(spark: SparkSession, tmp_path: Path) -> None:
    graph = small_graph(tmp_path)
    # Spark asks the source nothing.
    spark.sql(f"CREATE TABLE ships (name string) USING omnigraph OPTIONS (path '{graph.uri}', type 'Ship')")
    try:
        with pytest.raises(AnalysisException, match=r"CREATE TEMPORARY VIEW \.\.\. USING omnigraph"):
            spark.table("ships").collect()
        with pytest.raises(AnalysisException, match=r"CREATE TEMPORARY VIEW \.\.\. USING omnigraph"):
            spark.sql("INSERT INTO ships VALUES ('new')")
    finally:
        spark.sql("DROP TABLE ships")


@pytest.mark.slow
def test_a_batch_of_a_stream_can_be_saved(spark: SparkSession, tmp_path: Path) -> None:
    graph = small_graph(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.json").write_text('{"name": "new"}\n', "utf-8")

    def save(batch: DataFrame, _: int) -> None:
        batch.write.format("omnigraph").option("type", "Ship").mode("append").save(graph.uri)

    stream = spark.readStream.schema("name string").json(str(tmp_path / "in")).writeStream.foreachBatch(save)
    stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert "new" in [row["name"] for row in rows_of(graph, "Ship")]
