"""Loads on Spark change values as loads in this process do; times without a zone in a DataFrame follow the session."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph.errors import ValidationError
from omnigraph.graph import Graph
from omnigraph.write.load.run import Engine
from tests.graphs import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "node Event { name: String @key  at: DateTime?  f: F64?  i: I64?  day: Date? }"
ZONE = "spark.sql.session.timeZone"
LOCAL_TIMES = ("2024-07-01 10:00:00", "2024-10-27 02:30:00", "2024-03-31 02:30:00", "2024-07-01")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return omnigraph.init(tmp_path / "g.og", SCHEMA)


@pytest.fixture
def berlin(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, "Europe/Berlin")
    yield spark
    spark.conf.set(ZONE, before or "UTC")


def stored_times(graph: Graph) -> dict[object, object]:
    return {row["name"]: row["at"] for row in rows_of(graph, "Event")}


def test_times_without_a_zone_in_a_dataframe_are_cast_as_spark_casts_them(graph: Graph, berlin: SparkSession) -> None:
    from pyspark.sql import functions as fn

    texts = berlin.createDataFrame([(f"text {text}", text) for text in LOCAL_TIMES], "name string, at string")
    plain = texts.select(fn.regexp_replace("name", "text", "plain").alias("name"), fn.col("at").cast("timestamp_ntz"))
    instants = texts.select(fn.regexp_replace("name", "text", "cast").alias("name"), fn.col("at").cast("timestamp"))
    for frame in (texts, plain, instants):
        assert graph.spark(berlin).load(nodes={"Event": frame}).rounded == ()
    found = stored_times(graph)
    for text in LOCAL_TIMES:
        assert found[f"text {text}"] == found[f"plain {text}"] == found[f"cast {text}"], text
    assert found["text 2024-07-01 10:00:00"] == "2024-07-01T08:00:00+00:00"
    assert found["text 2024-10-27 02:30:00"] == "2024-10-27T00:30:00+00:00"


def test_files_mean_utc_on_both_engines(graph: Graph, berlin: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,at\ncsv,2024-07-01T10:00:00\n")
    local = datetime(2024, 7, 1, 10)
    pq.write_table(pa.table({"name": ["parquet"], "at": [local]}), tmp_path / "a.parquet")
    frame = pa.table({"name": ["arrow"], "at": [local]})
    for rows in (tmp_path / "a.csv", tmp_path / "a.parquet", frame):
        graph.spark(berlin).load(nodes={"Event": rows})
    assert set(stored_times(graph).values()) == {"2024-07-01T10:00:00+00:00"}


def test_rounded_values_and_decimals_are_reported_as_in_this_process(
    graph: Graph, spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "events.csv"
    path.write_text("name,at,f\na,2024-05-01,1\nb,2024-05-01T00:00:00.0001,9007199254740993\nc,,1e-400\n")
    frame = pa.table(
        {
            "name": ["d", "e", "f"],
            "at": pa.array([1, 1_000_000, 1_000_001], pa.timestamp("ns")),
            "i": pa.array([Decimal("5.0"), None, None]),
            "f": pa.array([Decimal("19.99"), None, None]),
        }
    )
    seconds = pa.table({"name": ["g"], "at": [1_700_000_000]})

    def report(engine: Engine) -> list[object]:
        results = [graph.load(nodes={"Event": rows}, mode="merge", engine=engine) for rows in (path, frame, seconds)]
        places = [(one.property, one.count, one.line) for one in results[0].rounded]
        return [places, [(one.property, one.count) for one in results[1].rounded], results[2].notes]

    expected = report("local")
    rows = rows_of(graph, "Event")
    assert expected[:2] == [[("at", 1, 3), ("f", 2, 3)], [("at", 2)]]
    assert report("spark") == expected
    assert rows_of(graph, "Event") == rows
    with pytest.raises(ValidationError, match="exact values: 'at'"):
        graph.spark(spark).load(nodes={"Event": path}, mode="merge", strict=True)


def test_a_strict_write_of_a_dataframe_refuses_rounded_values(graph: Graph, spark: SparkSession) -> None:
    from pyspark.errors import PySparkException

    frame = spark.createDataFrame([("a", 2**53 + 1)], "name string, f long")
    write = frame.write.format("omnigraph").mode("append").option("type", "Event").option("strict", "true")
    with pytest.raises(PySparkException, match="exact values: 'f': no F64 is 9007199254740993"):
        write.save(graph.uri)
    assert len(graph.commits()) == 1
