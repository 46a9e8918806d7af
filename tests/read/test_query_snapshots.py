"""A query sees one moment of the graph, however long its rows are being read, and never needs them all at once."""

from __future__ import annotations

import pickle
import resource
import shutil
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.read.frames import Strategy, read_contents
from omnigraph.read.frames.cache import shared_cache
from omnigraph.read.match import execute, pieces
from omnigraph.read.query import QueryOptions, QueryRequest, run_query
from tests import crash
from tests.read.walked_graphs import Links, new_graph, people
from tests.selection import daily

MEGABYTE = 1024  # in the kilobytes of getrusage
MANY = 30_000
TWO_HOPS = """query q() {
  match { $a: Person  $a.age >= 0  $a knows $b  $b knows $c  not { $c.age < 0 } }
  return { $a.name, $a.age, $b.age, $c, $c.note }
}"""

CHANGES = [
    'query q($code: String) { update Person set { age: -1, note: "new" } where name = $code }',
    "query q($code: String) { delete Person where name = $code }",
    """query q($code: String, $new: String) {
      insert Person { name: $new, age: 5 }
      insert Knows { from: $new, to: $code }
    }""",
]


def ring(folder: Path, size: int) -> Graph:
    """People in a ring, each of whom knows the next two."""
    graph = new_graph(folder)
    names = [f"p{number}" for number in range(size)]
    links = Links([(names[at], names[(at + step) % size]) for at in range(size) for step in (1, 2)])
    graph.load(nodes={"Person": people(names)}, edges={"Knows": links.table()})
    return graph


def change(graph: Graph, number: int) -> None:
    """A small commit that a query running over it would see in every way: values, rows and edges."""
    text, code = CHANGES[number % len(CHANGES)], f"p{number}"
    graph.mutate(text, params={"code": code, "new": f"new {code}"} if "$new" in text else {"code": code})


@pytest.mark.parametrize("strategy", daily(Strategy, [Strategy.AUTO]))
@pytest.mark.parametrize("commits", [12, pytest.param(1_000, marks=pytest.mark.slow)])
def test_commits_that_land_meanwhile_are_not_seen(
    tmp_path: Path, strategy: Strategy, commits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "_FIRST_PIECE", 1)
    monkeypatch.setattr(pieces, "PIECE_ROWS", 2)
    graph = ring(tmp_path, commits)
    asked = QueryRequest(TWO_HOPS)
    before = run_query(graph._manifest, asked, "main").to_arrow()
    result = run_query(graph._manifest, asked, "main", options=QueryOptions(strategy=strategy))
    head = graph.commits()[0].id
    found: list[pa.RecordBatch] = []
    for number, batch in enumerate(result.batches(4)):
        found.append(batch)
        if number < commits:
            change(graph, number)
            # What is in memory would hide a look at the wrong version.
            shared_cache().clear()
    assert len(graph.commits()) > commits
    assert _sorted(pa.Table.from_batches(found)) == _sorted(before)
    assert before.num_rows == 4 * commits
    assert result.commit is not None
    assert result.commit.id == head
    assert _sorted(graph.query(TWO_HOPS, at=head).to_arrow()) == _sorted(before)
    assert graph.query(TWO_HOPS).row_count != before.num_rows


def _sorted(rows: pa.Table) -> list[str]:
    return sorted(map(str, rows.to_pylist()))


# ------------------------------------------------------------------------------------------------ memory


def product_in_batches(uri: str) -> tuple[int, int, int]:
    """Of all pairs of people and people: rows in the first batches, with a limit, and how much memory grew."""
    graph = omnigraph.open(uri, "ro")
    pairs = "query q() { match { $a: Person  $b: Person } return { $a.name, $b.name, $b.age } %s }"
    assert graph.query(pairs % "limit 10").row_count == 10
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = sum(batch.num_rows for batch in islice(graph.query(pairs % "").batches(10_000), 30))
    limited = sum(batch.num_rows for batch in graph.query(pairs % "limit 200000").batches())
    return taken, limited, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


def test_a_product_that_no_memory_holds_is_read_in_batches(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    graph.load(nodes={"Person": people([f"person {number}" for number in range(MANY)])})
    taken, limited, grown = crash.run(product_in_batches, graph.uri)
    assert (taken, limited) == (300_000, 200_000)
    assert grown < 300 * MEGABYTE, grown


def test_such_a_product_is_counted_and_sorted_without_being_made_at_once(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    graph.load(nodes={"Person": people([f"person {number}" for number in range(50_000)])})
    pairs = "query q() { match { $a: Person  $b: Person%s } return { %s } }"
    assert graph.query(pairs % ("", "count($a) as n")).rows == [{"n": 2_500_000_000}]
    few = '  $a.name < "person 1001"'
    query = (pairs % (few, "$a.name as a, $b.name as b")).replace("} }", "} order { $b.name desc } limit 1 }")
    assert graph.query(query, memory="8MB").rows == [{"a": "person 0", "b": "person 9999"}]


def test_a_snapshot_that_was_read_can_be_sent_to_another_process(tmp_path: Path) -> None:
    snapshot = ring(tmp_path, 3).snapshot()
    contents = read_contents(snapshot, "node:Person", shared_cache())
    sent = pickle.loads(pickle.dumps(snapshot))  # noqa: S301  our own bytes
    assert (sent, sent.described) == (snapshot, {})
    assert read_contents(sent, "node:Person", shared_cache()) == contents


def test_a_copy_outlives_the_graph_that_it_was_copied_from(tmp_path: Path) -> None:
    graph = ring(tmp_path, 3)
    copy = shutil.copytree(graph.uri, tmp_path / "copy.og")
    assert len(graph.query("query q() { match { $a: Person } return { $a.name } }")) == 3
    graph.close()
    shutil.rmtree(graph.uri)
    by_key = 'query q() { match { $a: Person { name: "p1" }  $a knows $b } return { $b.name } order { $b.name } }'
    assert [row["b.name"] for row in omnigraph.open(copy).query(by_key)] == ["p0", "p2"]
