"""The changes of a branch as a stream of Spark: the rows of ``graph.changes``, commit by commit and never twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast
from uuid import uuid4

import orjson
import pytest

from omnigraph.graph import Graph
from omnigraph.storage import table as tables
from tests.write.merging import edit, knows, make, person

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return make(tmp_path, {"ann": person(30), "bob": person(31)}, {"a-b": knows("ann", "bob")})


def streamed(spark: SparkSession, graph: Graph, checkpoint: Path, **options: str) -> list[dict[str, object]]:
    """What a query gives that goes on until now."""
    frame = spark.readStream.format("omnigraph").options(**{"changes": "true", **options}).load(graph.uri)
    name = f"feed_{uuid4().hex}"
    query = (
        frame.writeStream.format("memory")
        .queryName(name)
        .option("checkpointLocation", str(checkpoint))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = [row.asDict() for row in spark.table(name).collect()]
    return sorted(rows, key=lambda row: [str(row[name]) for name in ("commit", "kind", "type", "id")])


def fed(graph: Graph, start: str, branch: str = "main") -> Iterator[dict[str, object]]:
    """The same from this process."""
    for block in graph.changes(start, branch=branch):
        commit = block.commit
        for record in block.records():
            images = {
                name: None if record[name] is None else orjson.dumps(record[name]).decode()
                for name in ("before", "after")
            }
            yield {
                "commit": commit.id,
                "parents": list(commit.parents),
                "branch": commit.branch,
                "actor": commit.actor,
                "message": commit.message,
                "created_at": commit.created_at.replace(tzinfo=None),
                **record,
                **images,
            }


def in_order(rows: Iterator[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=lambda row: [str(row[name]) for name in ("commit", "kind", "type", "id")])


def test_a_stream_gives_what_the_feed_gives(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    graph.create_branch("dev")
    edit(graph, "dev", people={"ann": person(40), "cid": person(1)})
    graph.merge("dev", actor="ines")
    found = streamed(spark, graph, tmp_path / "all", start="beginning")
    assert len(found) == 5
    assert found == in_order(fed(graph, "beginning"))
    # A memory sink does not go on from a checkpoint, so the next query stands where this commit was the newest.
    head = graph.commits()[0].id
    edit(graph, people={"bob": None}, knows={"a-b": None})
    edit(graph, people={"cid": person(2)})
    later = streamed(spark, graph, tmp_path / "later", start=f"after:{head}")
    assert [row["op"] for row in later].count("deleted") == 2
    assert later == in_order(fed(graph, f"after:{head}"))
    only = streamed(spark, graph, tmp_path / "one", start="beginning", type="Knows")
    assert [row["op"] for row in only] == ["inserted", "deleted"]
    assert streamed(spark, graph, tmp_path / "now") == []
    own = streamed(spark, graph, tmp_path / "dev", start="beginning", branch="dev")
    assert own == in_order(fed(graph, "beginning", "dev"))


def test_a_query_goes_on_from_its_checkpoint(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    target, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")

    def follow() -> None:
        frame = spark.readStream.format("omnigraph").options(changes="true", start="beginning").load(graph.uri)
        sink = frame.select("commit", "id", "op").writeStream.format("parquet").option("checkpointLocation", checkpoint)
        sink.trigger(availableNow=True).start(target).awaitTermination()

    follow()
    assert spark.read.parquet(target).count() == 3
    for age in (1, 2):
        edit(graph, people={"ann": person(age)})
    follow()
    follow()
    rows = cast("list[tuple[str, str, str]]", [tuple(row) for row in spark.read.parquet(target).collect()])
    expected = [
        (block.commit.id, each.id, str(each.op)) for block in graph.changes("beginning") for each in block.entities()
    ]
    assert sorted(rows) == sorted(expected)


def test_a_gap_says_the_way_out(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    edit(graph, people={"ann": person(1)})
    edit(graph, people={"ann": person(2)})
    table = graph.snapshot().table("Person")
    tables.drop_versions(table, [table.version - 1])
    with pytest.raises(Exception, match=r"ChangeGap: what commit \w+ changed is no longer known.*changes baseline"):
        streamed(spark, graph, tmp_path / "gap", start="beginning")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": "sometimes"}, "start is 'sometimes'"),
        ({"types": "Person"}, "no option 'types', did you mean 'type'"),
        ({"type": "Persn"}, "no type 'Persn' in this graph"),
        ({"branch": "gone"}, "gone"),
        ({"changes": "no"}, "no option 'changes'"),
    ],
)
def test_bad_options_are_refused(
    spark: SparkSession, graph: Graph, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        streamed(spark, graph, tmp_path / "bad", **{"changes": "true", **options})


def test_changes_are_no_table_and_rows_no_stream(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="changes are a stream"):
        spark.read.format("omnigraph").option("changes", "true").load(graph.uri).count()
    with pytest.raises(Exception, match="the rows of a type are no stream"):
        spark.readStream.format("omnigraph").option("type", "Person").load(graph.uri).writeStream.format("noop").option(
            "checkpointLocation", str(tmp_path / "rows")
        ).start().awaitTermination()
