"""The history of one entity: the commits that changed it, newest first, and what each of them changed."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import NotFound, ParameterError
from omnigraph.graph import Graph
from omnigraph.read.changes import EntityRevision

SCHEMA = """
node Person { name: String @key  age: I64?  photo: Blob? }
node City { name: String @key }
edge Knows: Person -> Person { since: I64? }
"""
ADD = "query add($name: String, $age: I64?) { insert Person { name: $name, age: $age } }"
AGE = "query age($name: String, $age: I64?) { update Person set { age: $age } where name = $name }"
DROP = "query drop($name: String) { delete Person where name = $name }"
CITY = "query city($name: String) { insert City { name: $name } }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return omnigraph.init(tmp_path / "g.og", SCHEMA)


def describe(found: list[EntityRevision]) -> list[tuple[object, ...]]:
    ages = [
        (each.change.before and each.change.before["age"], each.change.after and each.change.after["age"])
        for each in found
    ]
    return [(str(each.change.op), *age, each.change.changed) for each, age in zip(found, ages, strict=True)]


def test_every_change_with_its_commit(graph: Graph) -> None:
    made = [graph.mutate(ADD, params={"name": "ann", "age": 1})]
    graph.mutate(CITY, params={"name": "ulm"})
    graph.mutate(ADD, params={"name": "bob", "age": 5})
    made.append(graph.mutate(AGE, params={"name": "ann", "age": 2}))
    graph.mutate(AGE, params={"name": "ann", "age": 2})
    graph.optimize()
    made.append(graph.mutate(DROP, params={"name": "ann"}))
    made.append(graph.mutate(ADD, params={"name": "ann", "age": None}))
    found = graph.history("Person", "ann")
    assert describe(found) == [
        ("inserted", None, None, ()),
        ("deleted", 2, None, ()),
        ("updated", 1, 2, ("age",)),
        ("inserted", None, 1, ()),
    ]
    assert [each.commit for each in found] == [result.commit for result in reversed(made)]
    assert graph.history("Person", "nobody") == []
    assert graph.history("Person", "ann", limit=2) == found[:2]
    assert graph.history("Person", "ann", limit=2, before=found[1].commit.id) == found[2:]
    assert graph.history("Person", "ann", at=found[2].commit.id) == found[2:]


def test_branches_merges_and_edges(graph: Graph) -> None:
    graph.load(
        [
            {"type": "Person", "data": {"name": "ann", "age": 1, "photo": "base64:aGVsbG8="}},
            {"type": "Person", "data": {"name": "bob"}},
            {"edge": "Knows", "from": "ann", "to": "bob", "data": {"id": "k", "since": 3}},
        ]
    )
    graph.create_branch("dev")
    graph.mutate(AGE, params={"name": "ann", "age": 2}, branch="dev")
    graph.mutate(AGE, params={"name": "ann", "age": 3}, branch="dev")
    assert describe(graph.history("Person", "ann", branch="dev"))[:2] == [
        ("updated", 2, 3, ("age",)),
        ("updated", 1, 2, ("age",)),
    ]
    merged = graph.merge("dev")
    found = graph.history("Person", "ann")
    assert describe(found) == [("updated", 1, 3, ("age",)), ("inserted", None, 1, ())]
    assert found[0].commit == merged.commit
    assert found[1].change.after is not None
    assert found[1].change.after["photo"] == b"hello"
    (edge,) = graph.history("Knows", "k")
    assert (edge.change.kind, edge.change.from_, edge.change.to) == ("edge", "ann", "bob")


def test_a_schema_change_shows_only_what_it_changed(graph: Graph) -> None:
    graph.mutate(ADD, params={"name": "ann", "age": 1})
    graph.apply_schema(SCHEMA.replace("age: I64?", "age: I64?  city: String?"))
    graph.mutate('query move() { update Person set { city: "Ulm" } where name = "ann" }')
    graph.apply_schema(SCHEMA)
    assert [(str(each.change.op), each.change.changed) for each in graph.history("Person", "ann")] == [
        ("updated", ("city",)),
        ("inserted", ()),
    ]


def test_wrong_arguments(graph: Graph) -> None:
    with pytest.raises(NotFound):
        graph.history("Persn", "ann")
    with pytest.raises(ParameterError):
        graph.history("Person", "ann", limit=-1)
    with pytest.raises(NotFound):
        graph.history("Person", "ann", before="01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_a_limit_beyond_every_list_is_none(graph: Graph) -> None:
    assert graph.history("Person", "ann", limit=2**63) == graph.history("Person", "ann")
