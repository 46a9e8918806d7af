"""How many Python functions a small question calls, from its text to its rows.

A question about a few rows is Python from end to end, so this count is what it costs: there is no step to wait for.
A bound is what was counted, and a little more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.graph import Graph
from omnigraph.manifest.rows import MAIN
from omnigraph.read.frames import Strategy
from omnigraph.read.query import QueryOptions, QueryRequest, run_query

SCHEMA = """
node Person { name: String @key  age: I64  about: String @index  vec: Vector(2) @index }
edge Knows: Person -> Person
"""
LOOKUP = "query q($who: String) { match { $p: Person { name: $who } } return { $p.name, $p.age } }"
ONE_HOP = "query q($who: String) { match { $p: Person { name: $who }  $p knows $f } return { $f.name, $f.age } }"
BEST = """query q($who: String) {
  match { $p: Person } return { $p.name, bm25($p.about, $who) as score } order { bm25($p.about, $who) } limit 3
}"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = og.init(tmp_path_factory.mktemp("calls") / "g.og", SCHEMA)
    people = [
        {"name": f"p{number}", "age": number, "about": f"p1 {'x ' * number}", "vec": [float(number), 0.0]}
        for number in range(50)
    ]
    edges = [{"from": "p1", "to": f"p{number}"} for number in (2, 3, 4)]
    graph.load(nodes={"Person": pa.Table.from_pylist(people)}, edges={"Knows": pa.Table.from_pylist(edges)})
    graph.ensure_indexes()
    return graph


def count_calls(work: Callable[[], object]) -> int:
    """Count the calls of Python functions, once everything that is kept is there."""
    counted = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal counted
        counted += event == "call"

    for _ in range(3):
        work()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted


@pytest.mark.parametrize(
    ("text", "strategy", "rows", "most"),
    [
        (LOOKUP, Strategy.ARRAYS, 1, 290),
        (LOOKUP, Strategy.INDEX, 1, 320),
        (ONE_HOP, Strategy.ARRAYS, 3, 565),
        (ONE_HOP, Strategy.INDEX, 3, 710),
        (BEST, Strategy.AUTO, 3, 455),
    ],
)
def test_a_small_question_calls_few_functions(
    graph: Graph, text: str, strategy: Strategy, rows: int, most: int
) -> None:
    def ask() -> list[dict[str, object]]:
        request, options = QueryRequest(text, params={"who": "p1"}), QueryOptions(strategy=strategy)
        return run_query(graph._manifest, request, MAIN, options=options).rows

    assert len(ask()) == rows
    assert count_calls(ask) <= most


def test_the_verb_adds_few_calls(graph: Graph) -> None:
    assert count_calls(lambda: graph.query(LOOKUP, params={"who": "p1"}).rows) <= 310
