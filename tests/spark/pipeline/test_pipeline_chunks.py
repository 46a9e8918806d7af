"""Long texts in a pipeline: documents with their pieces, whose ids a second run finds again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import omnigraph as og
from omnigraph.errors import OmniGraphError
from omnigraph.pipeline import split_text
from omnigraph.pipeline.file import read_pipeline
from omnigraph.pipeline.planner import plan_pipeline
from omnigraph.spark.pipeline.run import PipelineResult, run_pipeline
from tests.graphs import rows_of
from tests.spark.pipeline.test_pipeline_run import Watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Document { code: String @key  body: String? }
node Chunk { code: String @key  text: String  start: I32 }
edge HasChunk: Document -> Chunk
"""
PIPELINE = """
version: 1
graph: papers.og
load: {mode: merge}
sources:
  documents: {format: json, path: documents.jsonl}
views:
  pieces: SELECT code, inline(split_text(body, SIZE, 8)) FROM documents
nodes:
  Document: {view: documents, columns: {code: code, body: body}}
  Chunk: {view: pieces, columns: {code: "concat(code, '#', number)", text: text, start: start}}
edges:
  HasChunk: {view: pieces, from: code, to: "concat(code, '#', number)", columns: {}}
"""
BODIES = {"a": "One two. Three four. Five six seven.", "b": "Short."}


def run(folder: Path, spark: SparkSession, bodies: Mapping[str, str | None], size: int = 20) -> PipelineResult:
    lines = [json.dumps({"code": code, "body": body}) for code, body in bodies.items()]
    (folder / "documents.jsonl").write_text("\n".join(lines))
    path = folder / "papers.pipeline.yaml"
    path.write_text(PIPELINE.replace("SIZE", str(size)))
    graph = og.open(folder / "papers.og")
    return run_pipeline(plan_pipeline(read_pipeline(path), graph), lambda: graph.spark(spark), Watched())


def test_documents_and_their_pieces(tmp_path: Path, spark: SparkSession) -> None:
    graph = og.init(tmp_path / "papers.og", SCHEMA)
    run(tmp_path, spark, {**BODIES, "c": None})
    expected = {
        f"{code}#{each.number}": (each.text, each.start)
        for code, body in BODIES.items()
        for each in split_text(body, 20, 8)
    }
    assert {str(row["code"]): (row["text"], row["start"]) for row in rows_of(graph, "Chunk")} == expected
    assert sorted((row["src"], row["dst"]) for row in rows_of(graph, "HasChunk")) == sorted(
        (code.partition("#")[0], code) for code in expected
    )
    before = len(graph.commits())
    run(tmp_path, spark, {**BODIES, "c": None})
    assert len(graph.commits()) == before
    assert not spark.catalog.functionExists("split_text")


def test_a_size_that_makes_no_sense_is_told(tmp_path: Path, spark: SparkSession) -> None:
    graph = og.init(tmp_path / "papers.og", SCHEMA)
    with pytest.raises(OmniGraphError, match="size is 5 and overlap is 8"):
        run(tmp_path, spark, {"a": "One."}, size=5)
    assert rows_of(graph, "Document") == []
    assert not spark.catalog.functionExists("split_text")
