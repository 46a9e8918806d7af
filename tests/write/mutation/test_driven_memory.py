"""The match of a mutation works within the memory that a query has, and its rows count too."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

import omnigraph
from omnigraph.errors import MemoryExceeded
from omnigraph.graph import Graph
from tests.graphs import written

SCHEMA: Final = "node Person { name: String @key  age: I32 }\nedge Knows: Person -> Person"
PEOPLE: Final = 400
PAIRS: Final = (
    "query q() { match { $a: Person  $b: Person  $a.age = $b.age  $a != $b } insert Knows { from: $a, to: $b } }"
)
ENOUGH: Final = 2_000_000
TOO_LITTLE: Final = 150_000
"""Enough for the steps of the match, in pieces, but not for the 15,600 pairs that it finds."""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = omnigraph.init(tmp_path / "people.og", SCHEMA)
    made.load([{"type": "Person", "data": {"name": f"p{number:04}", "age": number % 10}} for number in range(PEOPLE)])
    return made


def test_a_match_that_fits_is_written(graph: Graph) -> None:
    assert graph.mutate(PAIRS, memory=ENOUGH).affected_edges == PEOPLE * 39


@pytest.mark.parametrize("memory", [500, TOO_LITTLE])
def test_one_that_does_not_fit_is_refused_and_changes_nothing(graph: Graph, memory: int) -> None:
    before = written(graph, "main")
    with pytest.raises(MemoryExceeded) as caught:
        graph.mutate(PAIRS, memory=memory)
    assert caught.value.budget == memory
    assert (caught.value.step == "keeping the rows of the match") == (memory == TOO_LITTLE)
    assert written(graph, "main") == before


def test_the_bound_of_the_graph_holds_for_mutations_and_transactions(graph: Graph) -> None:
    bound = omnigraph.open(graph.uri, memory=TOO_LITTLE)
    with pytest.raises(MemoryExceeded):
        bound.mutate(PAIRS)
    with bound.transaction() as transaction, pytest.raises(MemoryExceeded):
        transaction.mutate(PAIRS)
    assert bound.mutate(PAIRS, memory="2MB").affected_edges == PEOPLE * 39
