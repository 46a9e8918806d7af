"""What a merge asks of the storage, counted: it follows the rows that changed, not those that are there."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pyarrow as pa

import omnigraph
from omnigraph.graph import Graph
from omnigraph.write.merge_deltas import Counts

SCHEMA = "node P { code: String @key  n: I32?  text: String? }\nedge K: P -> P { n: I32? }"
SIZE = 200_000


def large_graph(folder: Path) -> Graph:
    """Two tables of so many rows that they cannot be read unnoticed."""
    graph = omnigraph.init(folder / "large.og", SCHEMA)
    codes = [f"p{number}" for number in range(SIZE)]
    texts = [sha256(code.encode()).hexdigest() for code in codes]
    people = pa.table({"code": codes, "n": pa.array(range(SIZE), pa.int32()), "text": texts})
    edges = pa.table({"id": [f"k{number}" for number in range(SIZE)], "from": codes, "to": codes[::-1]})
    graph.load(nodes={"P": people}, edges={"K": edges}, indexes="always")
    return graph


def ten(first: int, n: int) -> pa.Table:
    """Ten rows far apart, with another number."""
    codes = [f"p{number}" for number in range(first, SIZE, SIZE // 10)]
    return pa.table({"code": codes, "n": pa.array([n] * 10, pa.int32()), "text": [None] * 10})


def test_ten_rows_are_merged_without_reading_the_tables(tmp_path: Path) -> None:
    graph = large_graph(tmp_path)
    graph.create_branch("dev")
    graph.load(
        nodes={"P": ten(1, -1)}, edges={"K": pa.table({"from": ["p5"], "to": ["p6"]})}, mode="merge", branch="dev"
    )
    graph.load(nodes={"P": ten(2, -2)}, mode="merge")
    whole = omnigraph.open(graph.uri)
    size = sum(_read_whole(whole, name) for name in ("P", "K"))
    fresh = omnigraph.open(graph.uri)
    counter = fresh.snapshot().table("P")
    counter.storage_calls()
    result = fresh.merge("dev")
    read = counter.storage_calls().read_bytes
    assert result.nodes == {"P": Counts(0, 10, 0)}
    assert result.edges == {"K": Counts(1, 0, 0)}
    assert read < size / 10, f"{read:,} of {size:,} bytes"


def _read_whole(graph: Graph, name: str) -> int:
    table = graph.snapshot().table(name)
    table = table.at(table.version)
    table.storage_calls()
    for _ in table.scan():
        pass
    return table.storage_calls().read_bytes
