"""Mutations that update, delete or match next to other writers: they are run again, at last while the others wait."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

import omnigraph
from omnigraph.errors import ConflictError, PreconditionFailed
from omnigraph.graph import Graph
from omnigraph.storage.failpoints import When, WriteStep, _arm
from omnigraph.write.commit import section

SCHEMA: Final = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
NAMES: Final = ("ann", "bob", "cid")
MUTATIONS: Final = {
    "delete": 'query q() { delete Person where name = "cid" }',
    "update": 'query q() { update Person set { age: 7 } where name = "cid" }',
    "match": "query q() { match { $p: Person } insert Knows { from: $p, to: $p } }",
}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraph.init(tmp_path / "graph.og", SCHEMA)
    graph.load([{"type": "Person", "data": {"name": name}} for name in NAMES])
    return graph


@contextmanager
def overtaken(uri: str, times: int) -> Generator[list[int]]:
    """Let another writer change people and edges each time that something was staged, so many times."""
    other = omnigraph.open(uri)
    left, busy = list(range(times)), list[bool]()

    def act(when: When, step: WriteStep) -> None:
        if when == "after" and step.name == "table.stage" and left and not busy:
            number = left.pop()
            busy.append(True)
            new = {"type": "Person", "data": {"name": f"new{number}"}}
            other.load([new, {"edge": "Knows", "from": "ann", "to": "bob"}])
            busy.pop()

    with _arm(act):
        yield left


@pytest.mark.parametrize("text", MUTATIONS.values(), ids=MUTATIONS)
def test_a_mutation_commits_however_often_others_are_first(graph: Graph, text: str) -> None:
    with overtaken(graph.uri, section.VALIDATION_ROUNDS - 1) as left:
        done = graph.mutate(text)
    assert left == []
    assert done.commit is not None
    assert graph.commits()[0].id == done.commit.id


@pytest.mark.parametrize("text", MUTATIONS.values(), ids=MUTATIONS)
def test_without_retries_the_first_change_is_a_conflict(graph: Graph, text: str) -> None:
    with overtaken(graph.uri, 1), pytest.raises(ConflictError):
        graph.mutate(text, retries=0)


def test_a_mutation_that_names_the_commit_it_saw_is_not_run_on_another(graph: Graph) -> None:
    seen = graph.commits()[0].id
    with overtaken(graph.uri, 1), pytest.raises(PreconditionFailed):
        graph.mutate(MUTATIONS["delete"], if_commit=seen)
