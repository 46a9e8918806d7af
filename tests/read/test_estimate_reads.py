"""How much a query would read in this process: by id little, else the tables that it names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.manifest.references import take_snapshot
from omnigraph.manifest.rows import MAIN
from omnigraph.read.estimate import ReadCost, estimate_read_cost
from omnigraph.read.query import QueryOptions, QueryRequest, plan_query

SCHEMA = """
node Ship { code: String @key  name: String  at: Vector(64)? }
edge Tows: Ship -> Ship
"""
SHIPS = 30_000


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """A line of ships, more than are always held in memory."""
    made = omnigraph.init(tmp_path_factory.mktemp("ships") / "ships.og", SCHEMA)
    made.load(_records())
    made.ensure_indexes()
    return made


def _records() -> Iterator[dict[str, object]]:
    for number in range(SHIPS):
        yield {"type": "Ship", "data": {"code": f"s{number}", "name": f"ship {number % 7}"}}
    for number in range(SHIPS - 1):
        yield {"edge": "Tows", "from": f"s{number}", "to": f"s{number + 1}"}


def cost_of(graph: Graph, match: str, result: str) -> ReadCost:
    request = QueryRequest(f"query q() {{ match {{ {match} }} return {{ {result} }} }}")
    planned = plan_query(graph._manifest, take_snapshot(graph._manifest, MAIN), request, QueryOptions())
    return estimate_read_cost(planned.plan, planned.context)


def test_a_lookup_by_key_reads_a_few_rows(graph: Graph) -> None:
    assert cost_of(graph, '$s: Ship { code: "s7" }', "$s.name").read_rows == 1
    assert cost_of(graph, '$s: Ship { code: "s7" }  $s tows $t', "$t.name").read_rows <= 5


def test_other_conditions_read_the_table(graph: Graph) -> None:
    assert cost_of(graph, '$s: Ship { name: "ship 3" }', "$s.code").read_rows == SHIPS
    assert cost_of(graph, "$s: Ship  $s tows $t", "$t.name").read_rows >= 3 * SHIPS - 1


def test_bytes_are_those_of_the_columns_that_are_used(graph: Graph) -> None:
    names, vectors = cost_of(graph, "$s: Ship", "$s.name"), cost_of(graph, "$s: Ship", "$s.at")
    assert vectors.read_bytes - names.read_bytes >= SHIPS * (64 * 4 - 32)


def test_a_product_has_many_rows(graph: Graph) -> None:
    assert cost_of(graph, "$s: Ship  $t: Ship", "$s.code, $t.code").match_rows == SHIPS * SHIPS


def test_a_type_without_a_table_reads_nothing(tmp_path: Path) -> None:
    graph = omnigraph.init(Path(tmp_path, "none.og"), SCHEMA)
    assert cost_of(graph, "$s: Ship  $s tows $t", "$t.name") == ReadCost(0, 0, 0)
