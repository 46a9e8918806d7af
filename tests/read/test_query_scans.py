"""How often a query reads a table: each table once, whatever number of properties it returns."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.graph import Graph
from omnigraph.language.query import compile_query
from omnigraph.manifest.rows import MAIN
from omnigraph.read.frames import Strategy
from omnigraph.read.match import join, walk_context
from omnigraph.read.query import QueryOptions, QueryRequest, plan_query, run_query
from omnigraph.storage.tables import Access, Table, table
from tests.counting import count_reads, counting_scans

SCHEMA = """
node Person { name: String @key  age: I64  city: String? }
edge Knows: Person -> Person { since: I64? }
"""
PEOPLE = 50


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = og.init(tmp_path / "g.og", SCHEMA)
    people = [{"name": f"p{number}", "age": number, "city": None} for number in range(PEOPLE)]
    edges = [{"from": "p1", "to": f"p{number}", "since": number} for number in range(2, 9)]
    graph.load(nodes={"Person": pa.Table.from_pylist(people)}, edges={"Knows": pa.Table.from_pylist(edges)})
    return graph


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The scans of each table, by the last part of its path."""
    return count_reads(monkeypatch)


def ask(graph: Graph, text: str) -> list[dict[str, object]]:
    options = QueryOptions(strategy=Strategy.INDEX)
    return run_query(graph._manifest, QueryRequest(f"query q() {{ {text} }}"), MAIN, options=options).rows


def test_a_lookup_by_key_is_one_scan(graph: Graph, scans: Counter[str]) -> None:
    rows = ask(graph, 'match { $p: Person { name: "p7" } } return { $p.name, $p.age, $p.city }')
    assert rows == [{"p.name": "p7", "p.age": 7, "p.city": None}]
    assert list(scans.values()) == [1]


def test_one_hop_is_one_scan_of_each_side_and_of_the_edges(graph: Graph, scans: Counter[str]) -> None:
    rows = ask(graph, 'match { $p: Person { name: "p1" }  $p knows $q  $q.age > 6 } return { $p.age, $q.age, $q.name }')
    assert sorted((row["q.age"], row["q.name"], row["p.age"]) for row in rows) == [(7, "p7", 1), (8, "p8", 1)]
    assert sorted(scans.values()) == [1, 2]


def test_a_name_that_only_another_type_has_is_not_read(graph: Graph, scans: Counter[str]) -> None:
    rows = ask(graph, 'match { $p: Person { name: "p1" }  $p $k:knows $q  $k.since = 3 } return { $q, $k.since }')
    assert rows == [{"q": "p3", "k.since": 3}]
    assert sum(scans.values()) == 2, "the edges, and since when they are"


@pytest.mark.parametrize(
    ("clauses", "found", "read"),
    [
        ("$p knows $q", 7, 2),
        ("$p $k:knows $q", 7, 2),
        ("$p knows{1,2} $q", 7, 3),
        ("$q knows $p", 0, 1),
        # These need the node itself: a condition, a walk that may stay there, a block without a match.
        ("$p.age < 7  $p knows $q", 7, 3),
        ("$p knows{0,1} $q", 8, 3),
        ("optional { $p knows $q }", 7, 3),
    ],
)
def test_a_node_that_is_known_by_its_id_is_not_read_before_its_edges_are(
    graph: Graph, scans: Counter[str], clauses: str, found: int, read: int
) -> None:
    rows = ask(graph, f'match {{ $p: Person {{ name: "p1" }}  {clauses} }} return {{ $q.age }}')
    assert (len(rows), sum(scans.values())) == (found, read)


@pytest.mark.parametrize("is_looked_up", [True, False])
def test_a_node_that_does_not_exist_has_no_edges(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, *, is_looked_up: bool
) -> None:
    """Whether its edges are looked up, or arrays turn out to be cheaper after the node was left unread."""

    def decide(*_: object) -> bool:
        return is_looked_up

    monkeypatch.setattr(walk_context, "should_look_up", decide)
    for name, ages in (("p1", list(range(2, 9))), ("nobody", [])):
        for clauses in ("$p knows $q", "$p $k:knows $q", "$p knows{1,3} $q", "exists { $p knows $_ }  $p knows $q"):
            rows = ask(graph, f'match {{ $p: Person {{ name: "{name}" }}  {clauses} }} return {{ $q.age }}')
            assert sorted(cast("int", row["q.age"]) for row in rows) == ages
        (count,) = ask(graph, f'match {{ $p: Person {{ name: "{name}" }}  $p knows $q }} return {{ count($q) as n }}')
        assert count == {"n": len(ages)}


def test_a_branch_that_lags_is_read_with_its_defaults(graph: Graph) -> None:
    graph.create_branch("old")
    graph.apply_schema(SCHEMA.replace("age: I64", 'age: I64  kind: String @default("new")'))
    options = QueryOptions(strategy=Strategy.INDEX)
    text = 'query q() { match { $p: Person { name: "p7" } } return { $p.kind, $p.age } }'
    rows = run_query(graph._manifest, QueryRequest(text), "old", options=options).rows
    assert rows == [{"p.kind": "new", "p.age": 7}]


def test_a_snapshot_of_the_head_is_kept_until_something_changes(graph: Graph) -> None:
    before = graph.snapshot()
    assert graph.snapshot() is before
    graph.mutate('query q() { update Person set { age: 1 } where name = "p7" }')
    after = graph.snapshot()
    assert after is not before
    assert after.commit != before.commit
    graph.create_branch("b")
    assert graph.snapshot("b").pins == after.pins


def test_after_a_commit_no_table_is_opened_again(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer hands over what it committed, and what did not change stays open."""
    text = 'match { $p: Person { name: "p1" }  $p knows $q } return { $q.name }'
    assert len(ask(graph, text)) == 7
    people, opened, open_ = graph.snapshot().table("Person"), list[str](), table._open

    def counting(uri: str, branch: str | None, version: int | None, access: Access) -> Table:
        opened.append(Path(uri).name)
        return open_(uri, branch, version, access)

    graph.mutate('query q() { insert Knows { from: "p1", to: "p9" } }')
    monkeypatch.setattr(table, "_open", counting)
    assert len(ask(graph, text)) == 8
    assert graph.snapshot().table("Person").dataset is people.dataset
    assert opened == []
    # Another handle has nothing to hand over.
    there = og.open(graph.uri)
    assert len(ask(there, text)) == 8
    assert len(opened) > 1


def test_tables_of_a_branch_that_was_created_anew_are_opened_again(graph: Graph) -> None:
    """Both branches have the same versions of the same tables, and other rows in them."""
    other, found = og.open(graph.uri), list[object]()
    update = 'query q($age: I64) { update Person set { age: $age } where name = "p7" }'
    for age in (1, 2):
        # Through another handle, so that this one is not told.
        other.create_branch("b")
        other.mutate(update, params={"age": age}, branch="b")
        found += graph.query('query q() { match { $p: Person { name: "p7" } } return { $p.age } }', branch="b").rows
        other.delete_branch("b")
    assert found == [{"p.age": 1}, {"p.age": 2}]


def test_a_plan_is_kept_for_sizes_and_not_beyond_its_query(graph: Graph) -> None:
    request = QueryRequest("query q() { match { $p: Person  $p knows $q } return { $q.age } }")
    compiled = compile_query(request.source, graph.snapshot().catalog())
    before = plan_query(graph._manifest, graph.snapshot(), request, QueryOptions()).plan
    graph.mutate('query q() { insert Person { name: "one more", age: 1 } }')
    assert plan_query(graph._manifest, graph.snapshot(), request, QueryOptions()).plan is before
    assert list(compiled.sized_plans.values()) == [before]
    # A text that is too long for the cache is planned each time, so that nothing of it stays in memory.
    long = QueryRequest(f"{request.source}  // {'long ' * 20_000}")
    plans = [plan_query(graph._manifest, graph.snapshot(), long, QueryOptions()).plan for _ in range(2)]
    assert plans[0] is not plans[1]


# --------------------------------------------------------------------------------------------- conditions in the scan


@pytest.mark.parametrize(
    ("clauses", "found"),
    [
        ('$p: Person  $p.name contains "p4"', 11),
        ('$p: Person  $p.name starts_with "p4"', 11),
        ('$p: Person  $p.name ends_with "4"', 5),
        ('$p: Person  $p.name contains "p4"  $p.age > 44', 5),
        ('$p: Person  $p.name contains "p4" or $p.age = 7', 12),
        ("$p: Person  $p.city is null  $p.age < 3", 3),
        ("$p: Person  $p.city is not null", 0),
        ("$p: Person  $p.name contains $none", 0),
        # Equal to a value of what is bound already.
        ('$q: Person { name: "p7" }  $p: Person  $p.age = $q.age', 1),
        ("$q: Person  $q.age in [3, 5]  $p: Person  $p.name = $q.name", 2),
        ("$q: Person  $q.age in [3, 5]  $p: Person  $q.name = $p.name  $p.age > 3", 1),
    ],
)
def test_a_scan_reads_only_what_satisfies_the_conditions(graph: Graph, clauses: str, found: int) -> None:
    text = f"query q($none: String?) {{ match {{ {clauses} }} return {{ $p.age }} }}"
    options = QueryOptions(strategy=Strategy.INDEX)
    with counting_scans() as rows_read:
        rows = run_query(graph._manifest, QueryRequest(text), MAIN, options=options).rows
    in_memory = run_query(graph._manifest, QueryRequest(text), MAIN, options=QueryOptions(strategy=Strategy.ARRAYS))
    assert sorted(map(str, rows)) == sorted(map(str, in_memory.rows))
    assert len(rows) == found
    bound = 2 if "$q" in clauses else 0
    assert rows_read() <= 2 * (found + bound) < PEOPLE, "ids are read first, and then what is shown of these rows"


def test_a_join_with_many_values_and_one_below_a_ranking_are_not_restricted(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "match { $q: Person  $p: Person  $p.age = $q.age } return { $p.name, $q.name }"
    monkeypatch.setattr(join, "MAX_LISTED_VALUES", 3)
    assert len(ask(graph, text)) == PEOPLE
    far = f"{text.replace('$q: Person ', '$q: Person { age: 7 } ')} order {{ $p.name }}"
    assert ask(graph, far) == [{"p.name": "p7", "q.name": "p7"}]


def test_a_condition_on_a_column_that_a_branch_lacks_leaves_the_others_to_the_storage(graph: Graph) -> None:
    graph.create_branch("old")
    graph.apply_schema(SCHEMA.replace("age: I64", 'age: I64  kind: String @default("new")  note: String?'))
    options = QueryOptions(strategy=Strategy.INDEX)
    for clause, count in (('$p.kind starts_with "n"', 11), ("$p.note is null", 11), ('$p.kind contains "x"', 0)):
        text = f'query q() {{ match {{ $p: Person  $p.name contains "p4"  {clause} }} return {{ $p.age }} }}'
        with counting_scans() as rows_read:
            rows = run_query(graph._manifest, QueryRequest(text), "old", options=options).rows
        assert len(rows) == count
        assert rows_read() <= 22, "the nodes that the other condition finds, and their ages"
