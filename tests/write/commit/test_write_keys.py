"""A write that is repeated with its key, or its ``txn``, finds the commit that it made, and is not done twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

import omnigraph
from omnigraph.errors import KeyReused, ParameterError
from omnigraph.graph import Graph
from omnigraph.manifest.history import Commit
from omnigraph.manifest.lineage import KEY_MICROSECONDS, build_lineage
from omnigraph.manifest.rows import CommitRecord, WriteKey
from tests import crash
from tests.selection import daily

SCHEMA = "node Person { name: String @key\n age: I64? }\nedge Knows: Person -> Person"
WIDER = SCHEMA.replace("age: I64?", "age: I64?\n nick: String?")
ADD = "query add($name: String) { insert Person { name: $name } }"
AGE = 'query age($age: I64) { update Person set { age: $age } where name = "ann" }'
DROP = 'query drop() { delete Person where name = "nobody" }'
PEOPLE = [
    {"type": "Person", "data": {"name": "ann"}},
    {"type": "Person", "data": {"name": "bob"}},
    {"edge": "Knows", "from": "ann", "to": "bob"},
]


class _Result(Protocol):
    @property
    def commit(self) -> Commit | None: ...

    @property
    def replayed(self) -> bool: ...


def build(root: Path) -> Graph:
    graph = omnigraph.init(root, SCHEMA, actor="act-ann")
    graph.load(PEOPLE)
    graph.create_branch("dev")
    graph.mutate(ADD, params={"name": "dev"}, branch="dev")
    return graph


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return build(tmp_path / "g.og")


def in_transaction(graph: Graph, txn: tuple[str, int] | None, key: str | None) -> _Result:
    with graph.transaction(txn=txn, key=key) as transaction:
        transaction.mutate(ADD, params={"name": "cid"})
        transaction.mutate(AGE, params={"age": 3})
    assert transaction.result is not None
    return transaction.result


Write = Callable[[Graph, tuple[str, int] | None, str | None], _Result]
WRITES: dict[str, Write] = {
    "mutate": lambda graph, txn, key: graph.mutate(ADD, params={"name": "cid"}, txn=txn, key=key),
    "update": lambda graph, txn, key: graph.mutate(AGE, params={"age": 7}, txn=txn, key=key),
    "transaction": in_transaction,
    "load": lambda graph, txn, key: graph.load([{"type": "Person", "data": {"name": "cid"}}], txn=txn, key=key),
    "merge": lambda graph, txn, key: graph.merge("dev", delete_branch=True, txn=txn, key=key),
    "revert": lambda graph, txn, key: graph.revert(graph.commits()[-2].id, txn=txn, key=key),
    "apply_schema": lambda graph, txn, key: graph.apply_schema(WIDER, txn=txn, key=key),
}


@pytest.mark.parametrize(
    ("name", "by"),
    daily(
        ((name, by) for name in WRITES for by in ("key", "txn")),
        [("mutate", "key"), ("mutate", "txn"), ("load", "key"), ("merge", "key"), ("apply_schema", "key")],
        "-".join,
    ),
)
def test_a_repetition_finds_the_commit(graph: Graph, name: str, by: str) -> None:
    write = WRITES[name]
    txn, key = (("app", 1), None) if by == "txn" else (None, "k-1")
    first = write(graph, txn, key)
    again = write(omnigraph.open(graph.uri, actor="act-ann"), txn, key)
    assert first.commit is not None
    assert (again.commit, again.replayed, first.replayed) == (first.commit, True, False)
    assert graph.commits()[0].id == first.commit.id


def test_the_counts_of_the_first_call_are_kept(graph: Graph) -> None:
    first, again = (graph.mutate(ADD, params={"name": "cid"}, key="k-1") for _ in range(2))
    assert again == replace(first, replayed=True)
    assert (first.affected_nodes, first.affected_edges) == (1, 0)


def test_a_key_belongs_to_one_write_of_one_actor(graph: Graph) -> None:
    made = graph.mutate(ADD, params={"name": "cid"}, key="k-1")
    before = graph.commits()
    with pytest.raises(KeyReused) as caught:
        graph.mutate(ADD, params={"name": "dan"}, key="k-1")
    assert made.commit is not None
    assert caught.value.commit_id == made.commit.id
    assert graph.commits() == before
    assert not graph.mutate(ADD, params={"name": "dan"}, key="k-1", actor="act-bob").replayed


def test_a_write_that_changed_nothing_is_kept_by_txn_only(graph: Graph) -> None:
    assert [graph.mutate(DROP, key="k-1").commit for _ in range(2)] == [None, None]
    first, again = (graph.mutate(DROP, txn=("app", 1)) for _ in range(2))
    assert first.commit is not None
    assert (again.commit, again.replayed) == (first.commit, True)


@pytest.mark.parametrize("key", ["", "a b", "é", "x" * 201, "\n"])
def test_a_key_that_no_header_can_hold_is_refused(graph: Graph, key: str) -> None:
    before = graph.commits()
    with pytest.raises(ParameterError, match="key"):
        graph.mutate(ADD, params={"name": "cid"}, key=key)
    assert graph.commits() == before


def test_writers_with_one_key_at_the_same_time_make_one_commit(graph: Graph) -> None:
    count = 4
    barrier, results = threading.Barrier(count), list[_Result]()

    def run() -> None:
        own = omnigraph.open(graph.uri, actor="act-ann")
        barrier.wait()
        results.append(own.mutate(ADD, params={"name": "cid"}, key="k-1"))

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({result.commit and result.commit.id for result in results}) == 1
    assert sorted(result.replayed for result in results) == [False, *[True] * (count - 1)]


def test_a_key_is_known_for_a_day() -> None:
    commits = [
        CommitRecord(f"c{number}", None, number, number * KEY_MICROSECONDS // 2, key=WriteKey(f"k{number}", "f"))
        for number in range(5)
    ]
    whole = build_lineage(commits)
    grown = build_lineage(commits[:1])
    assert grown.find_key("k0", 0) == commits[0]
    for commit in commits[1:]:
        grown = grown.extend(build_lineage([commit]))
    for lineage in (whole, grown):
        assert lineage.find_key("k4", 0) == commits[4]
        assert lineage.find_key("k3", commits[3].created_at) == commits[3]
        assert lineage.find_key("k3", commits[3].created_at + 1) is None
        assert lineage.find_key("other", 0) is None
    # What is too old is forgotten while the history grows.
    assert "k0" not in grown._keyed.positions


def mutate_with_key(root: str) -> tuple[str | None, bool]:
    result = omnigraph.open(root, actor="act-ann").mutate(ADD, params={"name": "cid"}, key="k-1")
    return result.commit and result.commit.id, result.replayed


def test_a_key_is_applied_once_across_a_death(tmp_path: Path) -> None:
    template = tmp_path / "template" / "g.og"
    before = len(build(template).commits())
    steps = crash.record(mutate_with_key, str(crash.fresh_copy(template)))
    for number, when in crash.some_crashes(steps):
        root = str(crash.fresh_copy(template))
        crash.kill_at(mutate_with_key, (root,), number, when)
        commit, _ = mutate_with_key(root)
        fresh = omnigraph.open(root)
        assert len(fresh.commits()) == before + 1, f"killed {when} write {number}"
        assert fresh.commits()[0].id == commit
        assert fresh.nodes("Person", {"name": "cid"}).to_arrow().num_rows == 1
