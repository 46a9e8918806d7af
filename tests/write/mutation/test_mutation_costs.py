"""The storage calls of a small mutation, counted: each further call costs a millisecond in every write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import lance
import obstore
import pytest
from lance.dataset import ScannerBuilder

import omnigraph
from omnigraph.graph import Graph

SCHEMA = """
node Person { name: String @key  email: String? }
node City { name: String @key }
edge Knows: Person -> Person
edge LivesIn: Person -> City @card(0..1)
"""
ADD = """query add($name: String) {
  insert Person { name: $name }
  insert Knows { from: $name, to: "ann" }
}"""
MOVE = """query move($name: String) {
  insert Person { name: $name }
  insert Knows { from: $name, to: "ann" }
  insert Knows { from: "ann", to: $name }
  insert LivesIn { from: $name, to: "oslo" }
}"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraph.init(tmp_path / "graph.og", SCHEMA)
    graph.mutate('query first() { insert Person { name: "ann" } insert City { name: "oslo" } }')
    return graph


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls to the libraries below, by kind."""
    calls: Counter[str] = Counter()
    for owner, name in ((lance, "dataset"), (ScannerBuilder, "to_scanner"), (obstore, "list")):
        monkeypatch.setattr(owner, name, _counting(getattr(owner, name), name, calls))
    return calls


def _counting(call: Callable[..., object], name: str, calls: Counter[str]) -> Callable[..., object]:
    def counting(*arguments: object, **options: object) -> object:
        calls[name] += 1
        return call(*arguments, **options)

    return counting


def test_each_table_is_opened_once_and_looked_into_once(graph: Graph, counted: Counter[str]) -> None:
    """One scan looks for ann as an end and for bob as a row to replace. Sidecars are listed twice.

    The table of people is open already: the commit before wrote it.
    """
    graph.mutate(ADD, params={"name": "bob"})
    assert counted == {"dataset": 1, "to_scanner": 1, "list": 2}


def test_several_rules_on_one_column_share_a_scan(graph: Graph, counted: Counter[str]) -> None:
    """One scan in each node table, and one for the homes that bob already has. The edge tables are opened."""
    graph.mutate(MOVE, params={"name": "bob"})
    assert counted == {"dataset": 2, "to_scanner": 3, "list": 2}


def test_history_costs_no_calls(graph: Graph, counted: Counter[str]) -> None:
    for number in range(12):
        graph.mutate(ADD, params={"name": f"p{number}"})
    counted.clear()
    graph.mutate(ADD, params={"name": "bob"})
    assert counted == {"to_scanner": 1, "list": 2}
