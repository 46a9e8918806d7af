"""The storage calls of a merge, counted: they grow with the changed rows, not with the tables."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.write.merge.deltas import Counts
from tests.counting import counting_scans

SCHEMA = "node P { code: String @key  n: I32?  text: String? }\nedge K: P -> P { n: I32? }"
SIZE = 200_000


def large_graph(folder: Path) -> Graph:
    """Create two tables with so many rows that reading them all would be noticed."""
    graph = omnigraph.init(folder / "large.og", SCHEMA)
    codes = [f"p{number}" for number in range(SIZE)]
    texts = [sha256(code.encode()).hexdigest() for code in codes]
    people = pa.table({"code": codes, "n": pa.array(range(SIZE), pa.int32()), "text": texts})
    edges = pa.table({"id": [f"k{number}" for number in range(SIZE)], "from": codes, "to": codes[::-1]})
    graph.load(nodes={"P": people}, edges={"K": edges}, indexes="always")
    return graph


def ten(first: int, n: int) -> pa.Table:
    """Return ten rows far apart, with another number."""
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


@pytest.mark.parametrize("into", ["main", "a branch", "a branch that has the table of main"])
def test_many_rows_are_merged_without_a_search_for_them(tmp_path: Path, into: str) -> None:
    """More rows than a filter lists, without an index, beside other changes of ours: no scan grows with the table."""
    scanned: list[int] = []
    for size in (6_000, 24_000):
        graph = omnigraph.init(tmp_path / f"{size}.og", "node P { code: String @key  n: I32? }")
        graph.load(nodes={"P": numbered(range(size), 0)}, indexes="never")
        target = into if into == "main" else "target"
        if target != "main":
            graph.create_branch(target)
        graph.create_branch("dev")
        graph.load(nodes={"P": numbered(range(0, 5_000, 2), 1)}, mode="merge", branch="dev", indexes="never")
        if into != "a branch that has the table of main":
            graph.load(nodes={"P": numbered(range(1, 5_000, 500), 2)}, mode="merge", branch=target, indexes="never")
        with counting_scans() as count:
            result = graph.merge("dev", target)
        scanned.append(count())
        assert result.nodes == {"P": Counts(0, 2_500, 0)}
        ages = cast("list[int]", graph.nodes("P", branch=target).to_arrow()["n"].to_pylist())
        assert (len(ages), ages.count(1)) == (size, 2_500)
    assert scanned[0] == scanned[1]


@pytest.mark.parametrize("compacted", [False, True])
def test_rows_that_ours_has_moved_are_found_all_the_same(tmp_path: Path, compacted: bool) -> None:
    """Some rows were rewritten unchanged, and perhaps all moved to another file: none appears twice."""
    graph = omnigraph.init(tmp_path / "moved.og", "node P { code: String @key  n: I32? }")
    for begin in (0, 2_000):
        graph.load(nodes={"P": numbered(range(begin, begin + 2_000), 0)})
    graph.create_branch("dev")
    graph.load(nodes={"P": numbered(range(0, 4_000, 2), 1)}, mode="merge", branch="dev")
    graph.mutate('query q() { delete P where code = "p3999" }', branch="dev")
    graph.load(nodes={"P": numbered(range(1_000), 0)}, mode="merge")
    if compacted:
        graph.optimize()
        assert len(graph.snapshot().table("P").fragment_rows()) == 1
    assert graph.merge("dev").nodes == {"P": Counts(0, 2_000, 1)}
    rows = graph.nodes("P").to_arrow()
    assert rows.num_rows == 3_999
    assert dict(zip(rows["code"].to_pylist(), rows["n"].to_pylist(), strict=True)) == {
        f"p{number}": 1 - number % 2 for number in range(3_999)
    }


def numbered(numbers: range, n: int) -> pa.Table:
    """Return rows by their numbers."""
    codes = [f"p{number}" for number in numbers]
    return pa.table({"code": codes, "n": pa.array([n] * len(codes), pa.int32())})


def _read_whole(graph: Graph, name: str) -> int:
    table = graph.snapshot().table(name)
    table = table.open_at(table.version)
    table.storage_calls()
    for _ in table.scan():
        pass
    return table.storage_calls().read_bytes
