"""Vectors that tasks of Spark fill: the same as in one process, in commits, and a failed call is not repeated."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from omnigraph.errors import EmbeddingError, ReadOnly
from tests import crash
from tests.graphs import rows_of
from tests.read.search.embedding_server import Answer, ReceivedRequest, serve_embeddings, vectors
from tests.spark.drivers import Java, java_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = 'node Paper { code: String @key  title: String?  gist: Vector(4)? @embed("title", model="m1") }'


def make_papers(root: Path) -> None:
    og.init(root, SCHEMA).load([{"type": "Paper", "data": {"code": f"p{n}", "title": f"title {n}"}} for n in range(7)])


def test_tasks_of_spark_fill_what_one_process_fills(tmp_path: Path, spark: SparkSession) -> None:
    roots = [tmp_path / "here.og", tmp_path / "there.og"]
    for root in roots:
        make_papers(root)
    here, there = (og.open(root, embed={"provider": "mock"}) for root in roots)
    here.embed("Paper")
    with there.spark(spark) as opened:
        found = opened.embed("Paper", batch=2, texts_per_commit=4, max_texts=6, calls_per_second=1_000)
        assert (found.embedded, len(found.commits)) == ({"gist": 6}, 2)
        assert opened.embed("Paper").embedded == {"gist": 1}
    assert rows_of(there, "Paper") == rows_of(here, "Paper")
    with og.open(roots[0], "ro").spark(spark) as reader, pytest.raises(ReadOnly):
        reader.embed("Paper")


def test_a_failed_call_is_made_once_and_others_are_kept(tmp_path: Path, spark: SparkSession) -> None:
    make_papers(tmp_path / "papers.og")

    def respond(asked: ReceivedRequest, number: int) -> Answer:
        del number
        return Answer(400) if "title 3" in asked.texts else vectors([[1.0, 0.0, 0.0, 2.0] for _ in asked.texts])

    with serve_embeddings(respond) as server:
        graph = og.open(tmp_path / "papers.og", embed={"provider": "openai-compatible", "url": server.url})
        with graph.spark(spark) as opened, pytest.raises(EmbeddingError, match="1 of 7 calls failed") as caught:
            opened.embed("Paper", batch=1)
    assert caught.value.message.endswith("; it was sent 'title' of Paper p3")
    assert caught.value.details["ids"] == ["p3"]
    assert len(server.asked) == 7
    assert [row["code"] for row in rows_of(graph, "Paper") if row["gist"] is None] == ["p3"]


def embed_and_die(java: Java, root: Path, url: str) -> None:
    """Fill vectors in front of the Java of all tests, two in a commit, in a driver that may die."""
    graph = og.open(root, embed={"provider": "openai-compatible", "url": url})
    graph.spark(java.session()).embed("Paper", batch=1, texts_per_commit=2)


def test_a_killed_driver_pays_again_only_for_what_was_in_flight(tmp_path: Path, spark: SparkSession) -> None:
    make_papers(tmp_path / "papers.og")

    def respond(asked: ReceivedRequest, number: int) -> Answer:
        del number
        return vectors([[1.0, 0.0, 0.0, 2.0] for _ in asked.texts])

    with serve_embeddings(respond) as server:
        # The fourth staged change is that of the second commit, whose texts were sent already.
        crash.kill_at(embed_and_die, (java_of(spark), tmp_path / "papers.og", server.url), 8, "before")
        graph = og.open(tmp_path / "papers.og", embed={"provider": "openai-compatible", "url": server.url})
        missing = [row["code"] for row in rows_of(graph, "Paper") if row["gist"] is None]
        assert 0 < len(missing) < 7
        with graph.spark(spark) as opened:
            assert opened.embed("Paper", batch=1).embedded == {"gist": len(missing)}
    sent = Counter(text for asked in server.asked for text in asked.texts)
    assert set(sent) == {f"title {n}" for n in range(7)}
    assert sum(sent.values()) <= 9
