"""Equal rows that both sides inserted into a type without a key: both stay, and the merge counts them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.storage.columns import Rows
from omnigraph.write.merge import doubled_rows
from omnigraph.write.merge.deltas import Counts
from omnigraph.write.row_digests import digest_rows
from tests.graphs import rows_of

SCHEMA = """
node Person { name: String @key  age: I32? }
node Note { text: String  tags: [String]?  vec: Vector(2)?  at: DateTime? }
edge Knows: Person -> Person { since: I32? }
"""
NOTE: dict[str, object] = {"text": "a", "tags": ["x", "y"], "vec": [0.0, 1.0], "at": "2024-01-02T03:04:05Z"}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Two people, who know each other, and a note, on two branches."""
    graph = omnigraph.init(tmp_path / "g.og", SCHEMA)
    load(graph, "main", notes=[NOTE], since=[1], people=["ann", "bob"])
    graph.create_branch("dev")
    return graph


def load(
    graph: Graph,
    branch: str,
    notes: list[dict[str, object]] | None = None,
    since: list[int | None] | None = None,
    people: list[str] | None = None,
) -> None:
    graph.load(
        [
            *({"type": "Person", "data": {"name": name}} for name in people or ()),
            *({"type": "Note", "data": note} for note in notes or ()),
            *({"edge": "Knows", "from": "ann", "to": "bob", "data": {"since": each}} for each in since or ()),
        ],
        branch=branch,
    )


def test_rows_that_double_are_counted(graph: Graph) -> None:
    load(graph, "dev", [NOTE, NOTE, {"text": "b"}, {**NOTE, "tags": ["x,y"]}], [2, 2, 3, None], ["cid"])
    load(graph, "main", [NOTE, {"text": "b"}, {"text": "c"}], [2, 2, 2, 4, None], ["cid"])
    tried, result = graph.merge("dev", dry_run=True), graph.merge("dev")
    assert tried.nodes == result.nodes == {"Note": Counts(4, doubled=2)}
    assert tried.edges == result.edges == {"Knows": Counts(4, doubled=3)}
    assert (len(rows_of(graph, "Note")), len(rows_of(graph, "Knows"))) == (1 + 4 + 3, 1 + 4 + 5)


def test_an_edge_that_both_sides_inserted_with_its_id_is_one(graph: Graph) -> None:
    edge = {"edge": "Knows", "from": "ann", "to": "bob", "data": {"id": "k", "since": 5}}
    for branch in ("main", "dev"):
        graph.load([edge], branch=branch)
    load(graph, "dev", since=[6])
    assert graph.merge("dev").edges == {"Knows": Counts(1)}


def test_what_only_one_side_inserted_does_not_double(graph: Graph) -> None:
    load(graph, "dev", [{"text": "d"}, {"text": "d"}], [7])
    assert graph.merge("dev").nodes == {"Note": Counts(2)}


def test_rows_of_the_target_that_equal_none_of_the_source_cost_no_digest(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []

    def count_digests(rows: Rows, columns: Sequence[str]) -> pa.StringArray:
        counts.append(rows.num_rows)
        return digest_rows(rows, columns)

    load(graph, "dev", [{"text": "n5"}, {"text": "d"}], [7])
    load(graph, "main", [{"text": f"n{number}"} for number in range(1_000)], [8, 7, *range(100, 200)])
    monkeypatch.setattr(doubled_rows, "digest_rows", count_digests)
    result = graph.merge("dev")
    assert (result.nodes["Note"].doubled, result.edges["Knows"].doubled) == (1, 1)
    assert sum(counts) == 3 + 2
