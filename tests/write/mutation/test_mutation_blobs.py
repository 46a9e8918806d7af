"""Blobs in mutations: inline or by reference, and kept when another property of their row changes."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import cast

import pytest

import omnigraph
from omnigraph.errors import ParameterError
from omnigraph.graph import Graph
from tests.graphs import written

SCHEMA = "node File { name: String @key  body: Blob?  size: I32? }\n"
ADD = "query add($name: String, $body: Blob) { insert File { name: $name, body: $body } }"
SIZES = {"empty": 0, "small": 10, "large": 200_000, "huge": 5_000_000}


@pytest.fixture
def files(tmp_path: Path) -> Graph:
    """Create one file of each size, one outside of the graph, and one without content."""
    graph = omnigraph.init(tmp_path / "files.og", SCHEMA)
    outside = tmp_path / "outside.bin"
    outside.write_bytes(b"elsewhere")
    with graph.transaction() as tx:
        for name, size in SIZES.items():
            tx.mutate(ADD, params={"name": name, "body": inline(name, size)})
        tx.mutate(ADD, params={"name": "outside", "body": outside.as_uri()})
        tx.mutate('query add() { insert File { name: "none" } }')
    return graph


def inline(name: str, size: int) -> str:
    return "base64:" + base64.b64encode(content(name, size)).decode()


def content(name: str, size: int) -> bytes:
    return (name.encode() * size)[:size]


def bodies(graph: Graph) -> dict[str, bytes | None]:
    dataset = graph.snapshot().table("File").dataset
    rows = dataset.scanner(columns=["id"], with_row_id=True).to_table()
    names, row_ids = cast("list[str]", rows["id"].to_pylist()), cast("list[int]", rows["_rowid"].to_pylist())
    read = dataset.read_blobs("body", ids=row_ids, preserve_order=True)
    return {name: body for name, (_, body) in zip(names, read, strict=True)}


EXPECTED: dict[str, bytes | None] = {
    **{name: content(name, size) for name, size in SIZES.items()},
    "outside": b"elsewhere",
    "none": None,
}


def test_blobs_are_stored(files: Graph) -> None:
    assert bodies(files) == EXPECTED


def test_an_update_of_something_else_keeps_them(files: Graph, tmp_path: Path) -> None:
    assert files.mutate('query grow() { update File set { size: 1 } where name >= "a" }').affected_nodes == 6
    assert bodies(files) == EXPECTED
    # A blob by reference was not copied.
    (tmp_path / "outside.bin").write_bytes(b"elsewhere too"[:9])
    scanned = files.snapshot().table("File").scan(["id", "body"]).read_all().to_pylist()
    (outside,) = [row["body"] for row in scanned if row["id"] == "outside"]
    assert outside["blob_uri"] == (tmp_path / "outside.bin").as_uri()


def test_a_pending_blob_survives_an_update_too(files: Graph) -> None:
    with files.transaction() as tx:
        tx.mutate(ADD, params={"name": "new", "body": "base64:bmV3"})
        tx.mutate('query grow() { update File set { size: 1 } where name = "new" }')
    assert bodies(files) == {**EXPECTED, "new": b"new"}


def test_a_blob_is_replaced_and_removed(files: Graph) -> None:
    change = "query change($name: String, $body: Blob?) { update File set { body: $body } where name = $name }"
    files.mutate(change, params={"name": "large", "body": "base64:eA=="})
    files.mutate(change, params={"name": "small", "body": None})
    assert bodies(files) == {**EXPECTED, "large": b"x", "small": None}


@pytest.mark.parametrize("body", ["base64:x", "base64:!!!!", "base64:YQ"])
def test_what_is_no_base64_is_refused(files: Graph, body: str) -> None:
    state = written(files)
    with pytest.raises(ParameterError, match="param 'body' for 'body'"):
        files.mutate(ADD, params={"name": "bad", "body": body})
    assert written(files) == state
