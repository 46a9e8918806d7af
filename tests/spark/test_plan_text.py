"""What the text of a plan tells: whether Spark could name the file of each row. Spark itself is asked too."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Final

import pytest
from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import functions as fn

from omnigraph.spark.plan_text import has_joined_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHAPES: Final[Mapping[str, Callable[[SparkSession, DataFrame, DataFrame], DataFrame]]] = {
    "one": lambda _, ships, __: ships,
    "join": lambda _, ships, ports: ships.join(ports, "code"),
    "self join": lambda _, ships, __: ships.join(ships.select("code"), "code"),
    "cached join": lambda _, ships, ports: ships.join(ports, "code").cache(),
    "join with rows of memory": lambda spark, ships, _: ships.join(spark.range(2), ships.code == fn.col("id")),
    "union": lambda _, ships, ports: ships.union(ports),
    "join with a union": lambda _, ships, ports: ships.join(ships.union(ports).select("code"), "code"),
    "union of a join": lambda _, ships, ports: ships.join(ports.select("code"), "code").union(ports),
    "aggregate": lambda _, ships, __: ships.groupBy("code").agg(fn.max("name").alias("name")),
    "subquery": lambda spark, ships, ports: spark.sql(
        "SELECT * FROM {ships} WHERE code IN (SELECT code FROM {ports})", ships=ships, ports=ports
    ),
    "line breaks in a text": lambda _, ships, __: ships.where(
        "name = 'x\n+- Relation [code] csv\n+- Relation [b] csv'"
    ),
    "shared table": lambda spark, ships, _: spark.sql(
        "WITH x AS (SELECT * FROM {ships}) SELECT a.code FROM x a JOIN x b ON a.code = b.code", ships=ships
    ),
    "shared table, used once": lambda spark, ships, _: spark.sql(
        "WITH x AS (SELECT * FROM {ships}), y AS (SELECT * FROM x) SELECT a.code FROM y a", ships=ships
    ),
    "many columns": lambda _, ships, ports: ships.select(
        "code", *(fn.lit(number).alias(f"c{number}") for number in range(60))
    ).join(ports, "code"),
}


@pytest.fixture(scope="module")
def frames(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[DataFrame, DataFrame]:
    """Files of ships as CSV, and of ports as JSON."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "ships.csv").write_text("code,name\na,A\n", "utf-8")
    (folder / "ports.json").write_text('{"code": "a", "name": "P"}\n', "utf-8")
    columns = "code string, name string"
    return (
        spark.read.csv(str(folder / "ships.csv"), header=True, schema=columns),
        spark.read.schema(columns).json(str(folder / "ports.json")),
    )


@pytest.fixture(autouse=True)
def quiet() -> Generator[None]:
    """PySpark logs what Spark refuses."""
    logger = PySparkLogger.getLogger("DataFrameQueryContextLogger")
    logger.disabled = True
    yield
    logger.disabled = False


@pytest.mark.parametrize("shape", SHAPES)
def test_files_are_joined_where_spark_says_so(
    spark: SparkSession, frames: tuple[DataFrame, DataFrame], shape: str
) -> None:
    frame = SHAPES[shape](spark, *frames)
    assert has_joined_files(frame) == is_refused(frame)


def is_refused(frame: DataFrame) -> bool:
    try:
        frame.withColumn("file", fn.input_file_name())
    except AnalysisException as error:
        return error.getCondition() == "MULTI_SOURCES_UNSUPPORTED_FOR_EXPRESSION"
    return False
