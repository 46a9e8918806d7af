"""``df.write.format("omnigraph")``: rows of one type become one commit, each row once, or nothing is left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StringType, StructField, StructType

import omnigraph
from omnigraph.errors import NotFound, OmniGraphError, ParameterError, Unsupported, ValidationError
from omnigraph.graph import Graph
from omnigraph.spark.data_source import OmniGraphSource
from omnigraph.spark.source import type_writer
from omnigraph.spark.source.type_writer import TypeWriter
from omnigraph.storage.durability import WriteBarrier
from tests.graphs import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Ship { code: String @key  crew: I64? }
node Port { code: String @key }
edge Tows: Ship -> Ship { since: I64? }
"""
COLUMNS = StructType([StructField("code", StringType()), StructField("crew", LongType())])


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return omnigraph.init(tmp_path / "ships.og", SCHEMA)


def writer_of(graph: Graph, type_: str = "Ship", *, overwrite: bool = False, **options: str) -> TypeWriter:
    """The writer as Spark gets it, in this process."""
    given = {"path": graph.uri, "type": type_, **options}
    return cast("TypeWriter", OmniGraphSource(given).writer(COLUMNS, overwrite))


def rows(*codes: str) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"code": list(codes), "crew": pa.array([len(codes)] * len(codes), pa.int64())})


def codes_of(graph: Graph, branch: str = "main") -> list[str]:
    return sorted(cast("list[str]", [row["code"] for row in rows_of(graph, "Ship", branch=branch)]))


def beside(graph: Graph) -> Path:
    return Path(f"{graph.uri.removeprefix('file://')}.loading")


# ------------------------------------------------------------------------------------------------ tasks and the commit


def test_attempts_that_spark_does_not_report_are_not_read(graph: Graph) -> None:
    writer = writer_of(graph, message="from Spark", actor="act-ann")
    # Two tasks; the first was started again, because it was slow or because it failed after it had written its file.
    writer.write(rows("a", "b"))
    reported = [writer.write(rows("a", "b")), writer.write(rows("c"))]
    assert codes_of(graph) == []
    writer.commit([*reported, writer.write(iter(()))])
    assert codes_of(graph) == ["a", "b", "c"]
    made = graph.commits()[0]
    assert (made.message, made.actor, len(graph.commits())) == ("from Spark", "act-ann", 2)
    assert not beside(graph).exists()


def test_a_write_keeps_to_the_lock_and_the_durability_of_the_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMNIGRAPH_DURABILITY", raising=False)
    graph = omnigraph.init(tmp_path / "kept.og", SCHEMA, lock="lease", durability="power")
    synced: list[object] = []
    sync_written = WriteBarrier.wait
    monkeypatch.setattr(WriteBarrier, "wait", lambda self: (synced.append(self), sync_written(self))[1])  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    writer = writer_of(graph)
    writer.commit([writer.write(rows("a"))])
    assert codes_of(graph) == ["a"]
    assert synced
    # A file that is locked would exclude nobody who waits for a lease.
    assert not list((tmp_path / "kept.og").glob("__locks/*.lock"))


def test_nothing_is_left_of_an_aborted_job(graph: Graph) -> None:
    writer = writer_of(graph)
    message = writer.write(rows("a"))
    assert list(beside(graph).glob("*/*.parquet"))
    writer.abort([message, None])
    assert not beside(graph).exists()
    # Spark aborts after a failed commit too.
    writer.abort([])
    assert (codes_of(graph), len(graph.commits())) == ([], 1)


def test_nothing_is_left_of_rows_that_break_a_rule(graph: Graph) -> None:
    writer = writer_of(graph)
    with pytest.raises(ValidationError) as caught:
        writer.commit([writer.write(rows("a", "b")), writer.write(rows("b"))])
    assert {each.rule for each in caught.value.violations} == {"@key(code)"}
    assert (codes_of(graph), len(graph.commits())) == ([], 1)
    assert not beside(graph).exists()


def test_a_transaction_is_written_once(graph: Graph) -> None:
    for _ in range(2):
        writer = writer_of(graph, txn_app="nightly", txn_version="7")
        writer.commit([writer.write(rows("a"))])
    assert (codes_of(graph), len(graph.commits())) == (["a"], 2)


def test_many_rows_are_refused_and_the_load_is_named(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type_writer, "MAX_WRITTEN_ROWS", 3)
    writer = writer_of(graph)
    with pytest.raises(Unsupported, match=r"at most 3 rows, which one process checks; here are 4 .*spark\(\)\.load"):
        writer.commit([writer.write(rows("a", "b")), writer.write(rows("c", "d"))])
    assert not beside(graph).exists()
    with pytest.raises(Unsupported, match="here are 4"):
        writer_of(graph).write(rows("a", "b", "c", "d"))


# ------------------------------------------------------------------------------------------------ before a task runs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mesage": "x"}, "no option 'mesage', did you mean 'message'?"),
        ({"columns": "code"}, "no option 'columns', the options of a write are path, type, branch, message"),
        ({"txn_app": "x"}, "txn_app and txn_version belong together"),
        ({"txn_app": "x", "txn_version": "-1"}, "txn_version is '-1', which is not a number"),
        ({"path": ""}, "the path of the graph is missing"),
        ({"type": "Shp"}, "NotFound: no type 'Shp' in this snapshot"),
        ({"branch": "dev"}, "NotFound: "),
        ({"type": "Port"}, "no property 'crew'"),
        ({"type": "Tows"}, "'from'"),
    ],
)
def test_what_is_wrong_is_told_before_a_task_runs(graph: Graph, options: Mapping[str, str], message: str) -> None:
    with pytest.raises((ParameterError, NotFound)) as caught:
        OmniGraphSource({"path": graph.uri, "type": "Ship", **options}).writer(COLUMNS, overwrite=False)
    assert message in f"{type(caught.value).__name__}: {caught.value}"
    assert not beside(graph).exists()


def test_nodes_that_edges_point_to_are_not_overwritten_alone(graph: Graph) -> None:
    ships = [{"type": "Ship", "data": {"code": code}} for code in "ab"]
    graph.load(ships)
    first = writer_of(graph, overwrite=True)
    first.commit([first.write(rows("b", "c"))])
    assert codes_of(graph) == ["b", "c"]
    graph.load([{"edge": "Tows", "from": "b", "to": "c"}])
    with pytest.raises(Unsupported) as caught:
        writer_of(graph, overwrite=True)
    assert "Ship cannot be overwritten alone: edges point to it (1 of Tows)" in str(caught.value)
    assert 'load(nodes={"Ship": df}, edges={"Tows": df2}, mode="overwrite")' in str(caught.value)
    assert not beside(graph).exists()


# ------------------------------------------------------------------------------------------------ with Spark


def test_spark_appends_and_overwrites(spark: SparkSession, graph: Graph) -> None:
    graph.create_branch("dev")
    ships = spark.range(0, 40, 1, 4).selectExpr("concat('s', id) as code", "id as crew")
    ships.write.format("omnigraph").option("type", "Ship").option("branch", "dev").mode("append").save(graph.uri)
    assert (len(codes_of(graph)), len(codes_of(graph, "dev"))) == (0, 40)
    tows = ships.selectExpr("code as `from`", "'s0' as `to`", "crew as since")
    writer = tows.write.format("omnigraph").option("path", graph.uri).option("type", "Tows").option("branch", "dev")
    writer.option("message", "tows").mode("append").save()
    # What was read is written again, without the rows that it is written over.
    read = spark.read.format("omnigraph").option("type", "Tows").option("branch", "dev").load(graph.uri)
    read.where("since < 7").drop("id").write.format("omnigraph").option("type", "Tows").option("branch", "dev").mode(
        "overwrite"
    ).save(graph.uri)
    assert sorted(cast("list[int]", [row["since"] for row in rows_of(graph, "Tows", branch="dev")])) == list(range(7))
    assert [commit.message for commit in graph.commits("dev")][1:3] == ["tows", None]
    with pytest.raises(PySparkException, match="Ship cannot be overwritten alone"):
        ships.write.format("omnigraph").option("type", "Ship").option("branch", "dev").mode("overwrite").save(graph.uri)
    none = spark.createDataFrame([], "`from` string, `to` string").write.format("omnigraph").option("type", "Tows")
    with pytest.raises(PySparkException, match="the overwrite has no rows of Tows"):
        none.option("branch", "dev").mode("overwrite").save(graph.uri)
    none.option("branch", "dev").option("allow_empty", "true").mode("overwrite").save(graph.uri)
    assert rows_of(graph, "Tows", branch="dev") == []


def test_spark_tells_which_rows_are_wrong_and_leaves_nothing(spark: SparkSession, graph: Graph) -> None:
    ships = spark.range(0, 4, 1, 2).selectExpr("'twice' as code", "id as crew")
    with pytest.raises(PySparkException) as caught:
        ships.write.format("omnigraph").option("type", "Ship").mode("append").save(graph.uri)
    assert "ValidationError" in str(caught.value)
    assert "@key(code)" in str(caught.value)
    broken = spark.range(0, 4, 1, 2).selectExpr("cast(raise_error('no more rows') as string) as code")
    with pytest.raises(PySparkException, match="no more rows"):
        broken.write.format("omnigraph").option("type", "Ship").mode("append").save(graph.uri)
    assert (codes_of(graph), len(graph.commits())) == ([], 1)
    assert not beside(graph).exists()


EVERY_TYPE = """
node Thing { code: String @key  a: Bool?  b: I32?  c: U32?  d: U64?  e: F32?  f: F64?  g: Date?  h: DateTime?
             i: Vector(2)?  j: [String]?  k: [U64]?  l: enum(one, two)? }
"""


@pytest.mark.slow
def test_every_value_that_was_read_can_be_written(spark: SparkSession, tmp_path: Path) -> None:
    given, taken = (omnigraph.init(tmp_path / f"{name}.og", EVERY_TYPE) for name in ("given", "taken"))
    values = {
        "a": True,
        "b": -(2**31),
        "c": 2**32 - 1,
        "d": 2**64 - 1,
        "e": 0.1,
        "f": -0.0,
        "g": "0001-01-01",
        "h": "9999-12-31T23:59:59.999Z",
        "i": [0.5, -1.5],
        "j": ["", "é"],
        "k": [0, 2**63],
        "l": "two",
    }
    given.load([{"type": "Thing", "data": each} for each in ({"code": "all", **values}, {"code": "none"})])
    frame = spark.read.format("omnigraph").option("type", "Thing").load(given.uri)
    frame.write.format("omnigraph").option("type", "Thing").mode("append").save(taken.uri)
    assert rows_of(taken, "Thing") == rows_of(given, "Thing")


RETRIES = """
import sys
from pathlib import Path
from pyspark import TaskContext
from pyspark.sql import SparkSession

folder = Path(sys.argv[1])
builder = SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
session = builder.config("spark.speculation", "true").getOrCreate()

def unsteady(batches):
    context = TaskContext.get()
    (folder / f"{context.partitionId()}.{context.attemptNumber()}").touch()
    yield from batches
    if context.partitionId() == 1 and context.attemptNumber() < 2:
        raise ValueError("not yet")

ships = session.range(0, 6, 1, 3).selectExpr("concat('s', id) as code").mapInArrow(unsteady, "code string")
ships.write.format("omnigraph").option("type", "Ship").mode("append").save(str(folder / "ships.og"))
session.stop()
"""


@pytest.mark.slow
def test_a_task_that_fails_twice_is_written_once(tmp_path: Path, graph: Graph) -> None:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-c", RETRIES, str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.glob("1.*")) == ["1.0", "1.1", "1.2"]
    assert codes_of(graph) == [f"s{number}" for number in range(6)]
    assert not beside(graph).exists()


def test_errors_are_errors_of_the_graph() -> None:
    with pytest.raises(OmniGraphError, match="the type is missing"):
        OmniGraphSource({"path": "x"}).writer(COLUMNS, overwrite=False)
