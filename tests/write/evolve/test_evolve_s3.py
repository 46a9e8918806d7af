"""Schema changes on an object store, where locks are leases: the same result, and the holder is named."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import omnigraph
from omnigraph.errors import LockTimeout
from omnigraph.graph import Graph
from omnigraph.manifest.opening import SCHEMA_APPLY_LOCK
from omnigraph.storage.location import Location
from omnigraph.storage.locks import LockSettings, refs_lock
from tests.write.evolve.people_graph import BEFORE, RECORDS, load, people, with_change

FILLED = with_change("age: I32?", 'age: I64?\n  rank: I32 @default("7")')


@pytest.fixture
def graph(s3_location: Location) -> Graph:
    """A graph on S3 with some rows."""
    graph = omnigraph.init(s3_location.uri, BEFORE, storage_options=dict(s3_location.storage_options))
    load(graph, *RECORDS)
    return graph


@pytest.mark.slow
def test_a_schema_is_applied_and_a_branch_catches_up(graph: Graph) -> None:
    graph.create_branch("dev")
    before = graph.commits()[0].id
    graph.apply_schema(FILLED)
    assert {row["rank"] for row in people(graph, "dev").values()} == {7}
    load(graph, {"type": "Person", "data": {"name": "dev", "rank": 1}}, branch="dev")
    graph.merge("dev", delete_branch=True)
    assert {name: row["rank"] for name, row in people(graph).items()} == {"ann": 7, "bob": 7, "cid": 7, "dev": 1}
    assert people(graph, at=before)["ann"] == {"name": "ann", "age": 30, "nick": "a", "mood": "calm"}
    graph.apply_schema(FILLED.replace("Person", "Human").replace("node Human", 'node Human @rename_from("Person")'))
    assert graph.get("Human", "ann", ["age", "rank"]) == {"age": 30, "rank": 7}
    assert SCHEMA_APPLY_LOCK not in graph._manifest.list_refs()
    assert graph.verify().findings == ()


def test_while_one_applies_another_learns_who(graph: Graph) -> None:
    other = omnigraph.open(graph.uri, storage_options=dict(graph._manifest.location.storage_options))
    other._manifest.locks = LockSettings(timeout=0.2)
    with refs_lock(graph._manifest.location), ThreadPoolExecutor(1) as pool:
        with pytest.raises(LockTimeout) as caught:
            pool.submit(other.apply_schema, FILLED).result()
        assert caught.value.holder is not None
    assert graph.schema.text == BEFORE
    assert other.apply_schema(FILLED).applied
