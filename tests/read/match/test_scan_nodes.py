"""Nodes that the storage finds: many of them become positions in the whole table by their addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.read import query as queries
from omnigraph.read.frames import Positions, Strategy, TableContents
from omnigraph.read.frames.cache import Cache
from omnigraph.read.match import scan_nodes
from omnigraph.read.query import QueryOptions, QueryRequest, run_query
from omnigraph.storage.columns import Values
from omnigraph.storage.tables import Table

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
WALK = "query q($age: I32) { match { $a: Person  $a.age < $age  $a knows $b } return { $a.name as a, $b.age as b } }"


@pytest.fixture
def located(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows were located by their addresses, one time after the other."""
    counts: list[int] = []
    locate = scan_nodes.locate_addresses

    def counted(addresses: Values, contents: TableContents, table: Table) -> Positions:
        counts.append(len(addresses))
        return locate(addresses, contents, table)

    monkeypatch.setattr(scan_nodes, "locate_addresses", counted)
    monkeypatch.setattr(scan_nodes, "_SMALL", 0)
    monkeypatch.setattr(scan_nodes, "_LEAST_LOCATED", 4)
    return counts


def walk(graph: Graph, age: int, strategy: Strategy) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        cache = Cache(2**26)
        patch.setattr(queries, "shared_cache", lambda: cache)
        request = QueryRequest(WALK, params={"age": age})
        found = run_query(graph._manifest, request, "main", None, QueryOptions(strategy=strategy))
        return sorted(map(str, found.rows))


def test_many_rows_are_located_by_their_addresses_in_any_history(tmp_path: Path, located: list[int]) -> None:
    graph = omnigraph.init(tmp_path / "g.og", SCHEMA)
    for begin in (0, 20, 40):
        names = [f"p{number:02}" for number in range(begin, begin + 20)]
        graph.load(
            [
                *({"type": "Person", "data": {"name": name, "age": int(name[1:])}} for name in names),
                *({"edge": "Knows", "from": name, "to": names[0]} for name in names),
            ]
        )
    changes = [
        'insert Person { name: "new"  age: 5 } insert Knows { from: "new", to: "p03" }',
        'delete Person where name = "p01"',
        "delete Person where age = 22",
        'update Person set { age: 1 } where name = "p41"',
    ]
    for change in changes:
        graph.mutate(f"query m() {{ {change} }}")
        for age in (3, 10, 30, 100):
            found = walk(graph, age, Strategy.AUTO)
            assert found == walk(graph, age, Strategy.ARRAYS) == walk(graph, age, Strategy.INDEX)
    assert located == [11, 31, 61, 10, 30, 60, 10, 29, 59, 11, 30, 59]
