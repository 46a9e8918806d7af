"""What blocks, conditions and pages cost: counted in scans, rows and entities, never in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import cast

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.graph import Graph
from omnigraph.language.query import Predicate
from omnigraph.manifest.rows import MAIN
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import EntitySet, Mask, Positions, Strategy
from omnigraph.read.match import expand
from omnigraph.read.query import QueryOptions, QueryRequest, run_query
from tests.counting import count_reads
from tests.read.profiles import list_operators

SCHEMA = """
node Person { name: String @key  age: I64  city: String? }
edge Knows: Person -> Person { since: I64? }
"""
PEOPLE = 400
HUBS = 3
"""The first people know everybody; each of the others knows the first hub."""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = og.init(tmp_path_factory.mktemp("hubs") / "g.og", SCHEMA)
    names = [f"p{number:03}" for number in range(PEOPLE)]
    people = [{"name": name, "age": number, "city": None} for number, name in enumerate(names)]
    edges = [{"from": hub, "to": name, "since": 1} for hub in names[:HUBS] for name in names]
    edges += [{"from": name, "to": names[0], "since": 2} for name in names[HUBS:]]
    graph.load(nodes={"Person": pa.Table.from_pylist(people)}, edges={"Knows": pa.Table.from_pylist(edges)})
    return graph


def count(graph: Graph, match: str) -> int:
    (row,) = graph.query(f"query q() {{ match {{ {match} }} return {{ count($p) as n }} }}").rows
    return cast(int, row["n"])


def operators(graph: Graph, text: str) -> dict[str, tuple[int, int]]:
    """The rows that each operator gave, and how many were kept, by the first words of how it is shown."""
    return {
        cast(str, each["operator"]): (cast(int, each["rows"]), cast(int, each["kept"]))
        for each in list_operators(graph.profile(f"query q() {{ {text} }}"))
    }


@pytest.fixture
def tested(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entities the conditions of a traversal were asked about, each time."""
    asked: list[int] = []
    evaluate = expand.evaluate_entity_predicates

    def counting(
        entities: EntitySet, positions: Positions, variable: str, predicates: Sequence[Predicate], context: QueryContext
    ) -> Mask:
        asked.append(len(positions))
        return evaluate(entities, positions, variable, predicates, context)

    monkeypatch.setattr(expand, "evaluate_entity_predicates", counting)
    monkeypatch.setattr(expand, "_TESTED_AT_ONCE", 16)
    return asked


@pytest.mark.parametrize("block", ["$p knows $q  $q.age < 50", "$p $k:knows $q  $k.since = 1  $q.age < 50"])
def test_existence_stops_at_the_first_witness_also_under_conditions(
    graph: Graph, tested: list[int], block: str
) -> None:
    count(graph, "$p: Person  $p knows $_")
    assert count(graph, f'$p: Person {{ name: "p001" }}  exists {{ {block} }}') == 1
    assert sum(tested) <= 2 * 16


def test_a_witness_that_comes_last_is_found(graph: Graph, tested: list[int]) -> None:
    count(graph, "$p: Person  $p knows $_")
    last = f"$q.age >= {PEOPLE - 1}"
    assert count(graph, f'$p: Person {{ name: "p001" }}  exists {{ $p knows $q  {last} }}') == 1
    assert sum(tested) == PEOPLE
    assert len(tested) < 6
    assert count(graph, f"$p: Person  exists {{ $p knows $q  {last} }}") == HUBS
    assert count(graph, f"$p: Person  not {{ $p knows $q  {last} }}") == PEOPLE - HUBS


def test_existence_of_a_walk_takes_one_hop(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(expand, "count_reached")
    assert count(graph, "$p: Person  exists { $p knows{1,} $q }") == PEOPLE
    assert count(graph, "$p: Person  not { $p knows{0,3} $q }") == 0


def test_an_optional_runs_once_for_equal_outer_entities(graph: Graph) -> None:
    text = "match { $p: Person  $p knows $q  optional { $q knows $r  $r.age > 390 } } return { $p, $q, $r }"
    seen = operators(graph, text)
    pairs = HUBS * PEOPLE + PEOPLE - HUBS
    assert seen["Optional $q"][0] > pairs
    assert seen["Outer $q"] == (PEOPLE, PEOPLE), "everybody is known, by many"
    (found,) = (rows for name, rows in seen.items() if name.startswith("Expand $q"))
    assert found[1] == HUBS * 9, "each match of the block is found once, not for each row"


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The scans of each table."""
    return count_reads(monkeypatch)


def test_or_over_one_variable_is_one_scan(graph: Graph, scans: Counter[str]) -> None:
    text = '$p.age < 3 or $p.name = "p100" or not ($p.age < 398) and $p.city is null'
    request = QueryRequest(f"query q() {{ match {{ $p: Person  {text} }} return {{ $p }} }}")
    options = QueryOptions(strategy=Strategy.INDEX)
    assert len(run_query(graph._manifest, request, MAIN, options=options).rows) == 6
    assert [number for name, number in scans.items() if name != "__manifest"] == [1]
    (first, second) = operators(graph, f"match {{ $p: Person  {text} }} return {{ count($p) as n }}")
    assert first.startswith("Group")
    assert second.startswith("Scan $p: Person where")


def test_an_offset_computes_the_rows_once(graph: Graph) -> None:
    page = "match { $p: Person  $p knows $q } return { $p.name as a, $q.name as b } order { $q.age desc, $p.age }"
    first, later = operators(graph, f"{page} limit 5"), operators(graph, f"{page} limit 5 offset 400")
    below = [name for name in first if not name.startswith(("Limit", "Project", "Sort"))]
    assert below
    assert [later[name] for name in below] == [first[name] for name in below]
    assert {rows[0] for name, rows in later.items() if name.startswith("Limit")} == {5}
