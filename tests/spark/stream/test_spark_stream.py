"""Streams: each micro-batch is one commit, and what is wrong is refused before the first or stops the query."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

import omnigraph
from omnigraph.errors import NotFound, ParameterError, ReadOnly, StorageError
from omnigraph.graph import Graph
from omnigraph.spark.stream.checkpoint import StreamBinding, bind_checkpoint, resolve_checkpoint
from omnigraph.spark.stream.sink import AVAILABLE_NOW, RoutedFrames, start_query
from omnigraph.storage.location import locate
from omnigraph.write.load import RecordCounts
from tests.graphs import rows_of
from tests.spark.load.spark_loads import codes, new_graph, ship
from tests.spark.stream.spark_streams import arrive, batches, ended, streamed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return new_graph(tmp_path / "ships.og")


# --------------------------------------------------------------------------------------------- the start


class SlowWriter:
    """A writer of Spark whose Python process is late some times, as on a busy machine."""

    def __init__(self, text: str, failures: int) -> None:
        self.text = text
        self.failures = failures
        self.starts = 0

    def start(self) -> str:
        self.starts += 1
        if self.starts <= self.failures:
            raise PySparkException(self.text)
        return "started"


@pytest.mark.parametrize(
    "text",
    [
        "org.apache.spark.SparkException: Python worker failed to connect back.",
        "[STREAMING_PYTHON_RUNNER_INITIALIZATION_TIMEOUT_FAILURE] Streaming Runner initialization failed",
    ],
)
def test_a_start_that_took_too_long_is_repeated(text: str) -> None:
    late, never = SlowWriter(text, 2), SlowWriter(text, 99)
    assert str(start_query(cast("DataStreamWriter", late))) == "started"
    with pytest.raises(StorageError, match="did not start in time"):
        start_query(cast("DataStreamWriter", never))
    assert (late.starts, never.starts) == (3, 5)


def test_a_start_that_fails_for_another_reason_is_not_repeated() -> None:
    writer = SlowWriter("[STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE] ImportError: no module", 1)
    with pytest.raises(StorageError):
        start_query(cast("DataStreamWriter", writer))
    assert writer.starts == 1


# --------------------------------------------------------------------------------------------- batches become commits


def test_each_batch_is_one_commit(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    folder, sg = tmp_path / "in", graph.spark(spark)
    checkpoint = tmp_path / "check [1] {a}"

    def run() -> None:
        query = sg.stream(
            streamed(spark, folder),
            node="Ship",
            checkpoint=checkpoint,
            trigger=AVAILABLE_NOW,
            actor="ann",
            message="m",
            app="ships",
        )
        assert ended(query) is None

    arrive(folder, "0.json", [{"code": "a", "name": "A"}, {"code": "b", "name": "B"}])
    arrive(folder, "1.json", [])
    arrive(folder, "2.json", [{"code": "a", "name": "Anna"}])
    run()
    assert codes(graph) == {"a": "Anna", "b": "B"}
    # A batch without rows is a batch of Spark, and no commit.
    assert batches(graph) == [0, 2]
    newest = graph.commits()[0]
    assert (newest.actor, newest.message) == ("ann", "m")
    assert newest.txn is not None
    assert newest.txn[0].startswith("ships:")
    arrive(folder, "3.json", [{"code": "c", "name": "C"}])
    run()
    assert codes(graph) == {"a": "Anna", "b": "B", "c": "C"}
    assert batches(graph) == [0, 2, 3]
    assert {commit.txn[0] for commit in graph.commits() if commit.txn} == {newest.txn[0]}


def test_a_function_routes_a_batch_to_several_types_on_a_branch(
    spark: SparkSession, graph: Graph, tmp_path: Path
) -> None:
    graph.create_branch("in")
    arrive(tmp_path / "in", "0.json", [{"code": "a", "name": "A"}, {"code": "b", "name": "B", "tug": "a"}])
    seen: list[int] = []

    def route(batch: DataFrame) -> RoutedFrames:
        seen.append(batch.count())
        tows = batch.where("tug is not null").selectExpr("tug as `from`", "code as `to`")
        return cast("RoutedFrames", {"nodes": {"Ship": batch.select("code", "name")}, "edges": {"tows": tows}})

    frame = streamed(spark, tmp_path / "in", "code string, name string, tug string")
    query = graph.spark(spark).stream(
        frame, route=route, mode="append", branch="in", checkpoint=tmp_path / "check", trigger=AVAILABLE_NOW
    )
    assert ended(query) is None
    # First without rows, to see whether what it gives fits.
    assert seen == [0, 2]
    assert (codes(graph), codes(graph, "in")) == ({}, {"a": "A", "b": "B"})
    assert [(row["src"], row["dst"]) for row in rows_of(graph, "Tows", "in")] == [("a", "b")]
    assert batches(graph, "in") == [0]


def test_a_batch_that_breaks_a_rule_stops_the_query_and_goes_on_with_a_quarantine(
    spark: SparkSession, graph: Graph, tmp_path: Path
) -> None:
    folder, sg, rejects = tmp_path / "in", graph.spark(spark), tmp_path / "rejects"
    results: list[tuple[int, RecordCounts]] = []
    arrive(folder, "0.json", [{"code": "a", "name": "A", "crew": 1}])
    arrive(folder, "1.json", [{"code": "b", "name": "B", "crew": 100}, {"code": "c", "name": "C", "crew": 3}])
    frame = streamed(spark, folder, "code string, name string, crew int")
    query = sg.stream(frame, node="Ship", checkpoint=tmp_path / "check", trigger=AVAILABLE_NOW)
    problem = ended(query)
    assert problem is not None
    assert "omnigraph.errors.ValidationError: " in problem
    assert "batch 1 was not loaded" in problem
    assert "Ship @range(crew, 0..99): " in problem
    assert codes(graph) == {"a": "A"}
    # What an attempt delivered that died before its commit.
    file = rejects / f"{query.id}-00000001.parquet"
    rejects.mkdir()
    file.write_bytes(b"half")
    query = sg.stream(
        frame,
        node="Ship",
        checkpoint=tmp_path / "check",
        trigger=AVAILABLE_NOW,
        on_error="quarantine",
        rejects=rejects,
        on_batch=lambda number, result: results.append((number, result.total)),
    )
    assert ended(query) is None
    assert results == [(1, RecordCounts(inserted=1, rejected=1))]
    assert codes(graph) == {"a": "A", "c": "C"}
    assert batches(graph) == [0, 1]
    assert pq.read_table(file)["id"].to_pylist() == ["b"]
    assert list(rejects.iterdir()) == [file]


# --------------------------------------------------------------------------------------------- refused


def _batch(spark: SparkSession, folder: Path) -> DataFrame:
    arrive(folder, "0.json", [{"code": "a", "name": "A"}])
    return spark.read.schema("code string, name string").json(str(folder))


def _routed(given: object) -> Callable[[DataFrame], object]:
    return lambda _: given


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "no target": ({}, "no target is given"),
    "two targets": ({"node": "Ship", "edge": "Tows"}, "node and edge are given"),
    "overwrite": ({"node": "Ship", "mode": "overwrite"}, "each batch would replace"),
    "no checkpoint": ({"node": "Ship", "checkpoint": None}, "no checkpoint is given"),
    "inside": ({"node": "Ship", "checkpoint": "ships.og/check"}, "inside the graph"),
    "no such type": ({"node": "Shop"}, "no node type 'Shop', did you mean 'Ship'?"),
    "columns": ({"node": "Note"}, "column 'text' is missing"),
    "no such word": ({"node": "Ship", "on_error": "quarantaine"}, "on_error is 'quarantaine'"),
    "rejects": ({"node": "Ship", "on_error": "quarantine", "rejects": "ships.og/x"}, "inside the graph"),
    "trigger": ({"node": "Ship", "trigger": "often"}, "a time such as"),
    "route": ({"route": _routed({"node": {}})}, "returned 'node' (did you mean 'nodes'?)"),
    "nothing": ({"route": _routed(None)}, "returned NoneType"),
    "no mapping": ({"route": _routed({"nodes": [1]})}, "returned nodes as list"),
}


@pytest.mark.parametrize(("given", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_streamed_is_refused_before(
    spark: SparkSession,
    graph: Graph,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, object],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    stream = cast("Callable[..., object]", graph.spark(spark).stream)
    with pytest.raises(ParameterError) as caught:
        stream(streamed(spark, tmp_path / "in"), **{"checkpoint": "check", **given})
    assert message in str(caught.value)
    assert spark.streams.active == []
    assert not list(tmp_path.glob("check/offsets/*"))


def test_what_does_not_stream_and_what_cannot_be_written_to(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    sg, frame = graph.spark(spark), _batch(spark, tmp_path / "in")
    with pytest.raises(ParameterError, match="is not streaming"):
        sg.stream(frame, node="Ship", checkpoint=tmp_path / "check")
    with pytest.raises(ParameterError, match=r"frame is \{\}"):
        sg.stream(cast("DataFrame", {}), node="Ship", checkpoint=tmp_path / "check")
    there = streamed(spark, tmp_path / "in")
    with pytest.raises(NotFound, match="no branch 'nowhere'"):
        sg.stream(there, node="Ship", checkpoint=tmp_path / "check", branch="nowhere")
    readers = omnigraph.open(graph.uri, mode="ro").spark(spark)
    with pytest.raises(ReadOnly):
        readers.stream(there, node="Ship", checkpoint=tmp_path / "check")
    assert not (tmp_path / "check").exists()


@pytest.mark.parametrize(
    ("uri", "checkpoint", "inside"),
    [
        ("/data/a.og", "file:/data/a.og/check", True),
        ("/data/a.og", "file:///data/b/../a.og", True),
        ("/data/a.og", "file:/data/a.ogre", False),
        ("/data/a.og", "hdfs://name/data/a.og/check", False),
        ("s3://b/a.og", "s3a://b/a.og/check", True),
        ("s3+ddb://b/a.og?ddbTableName=t", "s3://b/a.og", True),
        ("s3://b/a.og", "s3a://b/a.ogre/check", False),
        ("s3://b/a.og", "/b/a.og", False),
    ],
)
def test_a_checkpoint_inside_the_graph(uri: str, checkpoint: str, inside: bool) -> None:
    if inside:
        with pytest.raises(ParameterError, match="inside the graph"):
            resolve_checkpoint(locate(uri), checkpoint)
    else:
        assert resolve_checkpoint(locate(uri), checkpoint) == checkpoint


# --------------------------------------------------------------------------------------------- another's checkpoint


def test_a_checkpoint_is_of_one_graph_one_branch_and_one_target(
    spark: SparkSession, graph: Graph, tmp_path: Path
) -> None:
    check = str(tmp_path / "check [1]")

    first = StreamBinding("main", "node Ship", "stream", "edge:Tows=from")

    def bound(graph: Graph, **changed: str) -> None:
        bind_checkpoint(spark, graph.spark(spark).manifest, check, replace(first, **changed))

    def refused(graph: Graph, **changed: str) -> str:
        with pytest.raises(ParameterError, match="the checkpoint '") as caught:
            bound(graph, **changed)
        return caught.value.message

    graph.create_branch("side")
    copy = shutil.copytree(graph.uri, tmp_path / "copy.og")
    bound(graph)
    graph.load([ship("a")])
    bound(graph)
    assert "whose graph is" in refused(omnigraph.open(copy))
    assert "whose branch is main, not side" in refused(graph, branch="side")
    assert "whose target is node Ship, not node Note" in refused(graph, target="node Note")
    # The batch that comes again would not be known under another name.
    assert "whose app is stream, not ships" in refused(graph, app="ships")
    assert "whose identity is edge:Tows=from, not none" in refused(graph, identity="")
    shutil.rmtree(graph.uri)
    assert "is older than branch 'main', which was re-created" in refused(new_graph(Path(graph.uri)))


def test_a_branch_that_was_made_anew(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    manifest, check = graph.spark(spark).manifest, str(tmp_path / "check")
    graph.create_branch("side")
    bind_checkpoint(spark, manifest, check, StreamBinding("side", "route", "stream", ""))
    graph.delete_branch("side")
    graph.create_branch("side")
    with pytest.raises(ParameterError, match="branch 'side', which was re-created"):
        bind_checkpoint(spark, manifest, check, StreamBinding("side", "route", "stream", ""))


def test_the_checkpoint_of_another_query_or_one_that_was_damaged(
    spark: SparkSession, graph: Graph, tmp_path: Path
) -> None:
    manifest, check = graph.spark(spark).manifest, tmp_path / "check"
    check.mkdir()
    (check / "omnigraph.json").write_text('{"graph": 1}')
    with pytest.raises(ParameterError, match="does not record where its rows went"):
        bind_checkpoint(spark, manifest, str(check), StreamBinding("main", "route", "stream", ""))
    (check / "omnigraph.json").unlink()
    (check / "metadata").write_text('{"id": "another"}')
    with pytest.raises(ParameterError, match="belongs to a query that writes elsewhere"):
        bind_checkpoint(spark, manifest, str(check), StreamBinding("main", "route", "stream", ""))
    # As one leaves it who died at the first moment.
    (check / "metadata").unlink()
    (check / ".omnigraph.json.unfinished").write_text("{")
    bind_checkpoint(spark, manifest, str(check), StreamBinding("main", "route", "stream", ""))
    bind_checkpoint(spark, manifest, str(check), StreamBinding("main", "route", "stream", ""))


def test_a_checkpoint_of_an_older_release_does_not_know_its_identity(
    spark: SparkSession, graph: Graph, tmp_path: Path
) -> None:
    manifest, check = graph.spark(spark).manifest, tmp_path / "check"
    check.mkdir()
    incarnation = manifest.view("main", with_lineage=True).incarnation
    record = {"graph": manifest.location.objects, "branch": "main", "target": "route", "app": "stream"}
    (check / "omnigraph.json").write_text(json.dumps({**record, "incarnation": incarnation, "begun_on": None}))
    bind_checkpoint(spark, manifest, str(check), StreamBinding("main", "route", "stream", "edge:Tows=from"))


@pytest.mark.slow
def test_a_stream_goes_on_with_its_identity_only(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    graph.load([ship(code) for code in "abc"])
    folder, check = tmp_path / "in", tmp_path / "check"

    def start(identity: list[str] | None) -> str | None:
        rows = streamed(spark, folder, "from string, to string")
        named = None if identity is None else {"tows": identity}
        stream = graph.spark(spark).stream
        return ended(stream(rows, edge="Tows", identity=named, checkpoint=check, trigger=AVAILABLE_NOW))

    arrive(folder, "0.json", [{"from": "a", "to": "b"}])
    assert start(["from", "to"]) is None
    arrive(folder, "1.json", [{"from": "a", "to": "c"}])
    for other in (["from"], None):
        with pytest.raises(ParameterError, match="whose identity is edge:Tows=from,to, not"):
            start(other)
    assert start(["to", "from"]) is None
    assert sorted((row["src"], row["dst"]) for row in rows_of(graph, "Tows")) == [("a", "b"), ("a", "c")]


@pytest.mark.slow
def test_a_checkpoint_that_was_set_back(spark: SparkSession, graph: Graph, tmp_path: Path) -> None:
    folder, check = tmp_path / "in", tmp_path / "check"

    def start() -> str | None:
        query = graph.spark(spark).stream(
            streamed(spark, folder), node="Ship", mode="append", checkpoint=check, trigger=AVAILABLE_NOW
        )
        return ended(query)

    arrive(folder, "0.json", [{"code": "a", "name": "A"}])
    assert start() is None
    before = shutil.copytree(check, tmp_path / "before")
    arrive(folder, "1.json", [{"code": "b", "name": "B"}])
    assert start() is None
    saved = shutil.copytree(check, tmp_path / "saved")
    arrive(folder, "2.json", [{"code": "c", "name": "C"}])
    assert start() is None
    shutil.rmtree(check)
    shutil.copytree(saved, check)
    # The newest batch may be one that Spark never heard the end of: it comes again, and is there.
    assert start() is None
    assert batches(graph) == [0, 1, 2]
    shutil.rmtree(check)
    shutil.copytree(before, check)
    assert "the checkpoint is behind the graph: it is at batch 1, but batch 2 was loaded" in str(start())
    assert codes(graph) == {"a": "A", "b": "B", "c": "C"}
