"""A whole graph on an object store: with conditional put alone, and with Lance's versions listed in DynamoDB."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import cast

import pytest

import omnigraph
from omnigraph.errors import (
    AlreadyExists,
    ConflictError,
    ExpectedVersionMismatch,
    NotFound,
    ParameterError,
    PreconditionFailed,
    ReadOnly,
)
from omnigraph.graph import Graph, Mode
from omnigraph.manifest import handle
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects
from tests.manifest.publishing import SCHEMA, commit_rows, make_graph, manifest_of, names


@pytest.fixture(params=["s3", pytest.param("ddb", marks=pytest.mark.slow)])
def location(request: pytest.FixtureRequest) -> Location:
    return cast("Location", request.getfixturevalue(f"{request.param}_location"))


@pytest.fixture
def graph(location: Location) -> Graph:
    return make_graph(location)


def opened(location: Location, mode: Mode = "rw") -> Graph:
    """The graph as another process would open it: nothing is shared with the handle that wrote it."""
    return omnigraph.open(location.uri, mode, storage_options=dict(location.storage_options))


def objects_of(location: Location) -> dict[str, str]:
    return {info.path: info.etag for info in Objects(location).list()}


# --------------------------------------------------------------------------------------------- init and open


@pytest.mark.slow
def test_a_new_graph_is_empty_and_whole(graph: Graph, location: Location) -> None:
    info = opened(location).info()
    assert info.head is not None
    assert (info.uri, info.branches, info.head.id) == (location.uri, ("main",), graph.commits()[0].id)
    assert info.nodes == {"Person": 0, "City": 0, "Firm": 0}
    assert opened(location).schema.text == SCHEMA


@pytest.mark.slow
def test_a_second_init_changes_nothing(graph: Graph, location: Location) -> None:
    commit_rows(graph, {"Person": ["ann"]})
    before = {path: etag for path, etag in objects_of(location).items() if not path.startswith("__locks/")}
    with pytest.raises(AlreadyExists, match="there is a graph at"):
        make_graph(location)
    after = {path: etag for path, etag in objects_of(location).items() if not path.startswith("__locks/")}
    assert after == before


def test_nothing_there_is_no_graph(location: Location) -> None:
    with pytest.raises(NotFound, match="there is no graph at"):
        opened(location)
    assert objects_of(location) == {}


def test_read_only_never_writes_an_object(graph: Graph, location: Location) -> None:
    first = commit_rows(graph, {"Person": ["ann"]}).commit
    graph.create_branch("review/1")
    before = objects_of(location)
    reader = opened(location, "ro")
    assert names(reader, "Person", "review/1") == ["ann"]
    assert (reader.commit(first.id).id, len(reader.branches())) == (first.id, 2)
    refusals: list[Callable[[], None]] = [
        lambda: reader.create_branch("x"),
        lambda: reader.delete_branch("review/1"),
    ]
    for refused in refusals:
        with pytest.raises(ReadOnly):
            refused()
    assert objects_of(location) == before


@pytest.mark.slow
def test_a_pickled_graph_opens_again_with_its_options(graph: Graph) -> None:
    commit_rows(graph, {"Person": ["ann"]})
    assert names(cast("Graph", pickle.loads(pickle.dumps(graph))), "Person") == ["ann"]  # noqa: S301  our own bytes


# --------------------------------------------------------------------------------------------- publish and read


def test_one_commit_shows_all_tables_at_once(graph: Graph, location: Location) -> None:
    reader = opened(location, "ro")
    before = reader.snapshot()
    published = commit_rows(graph, {"Person": ["ann", "bob"], "City": ["rome"]})
    assert published.status == "published"
    after = reader.snapshot()
    assert after.commit is not None
    assert (after.commit.id, after.commit.parents) == (published.commit.id, (graph.commits()[1].id,))
    assert {pin.type_name: pin.row_count for pin in after.pins.values()} == {
        "Person": 2,
        "City": 1,
        "Firm": 0,
        "Knows": 0,
    }
    assert before.table("Person").count_rows() == 0


@pytest.mark.slow
def test_time_travel(graph: Graph, location: Location) -> None:
    first = commit_rows(graph, {"Person": ["ann"]}).commit
    second = commit_rows(graph, {"Person": ["bob"]}).commit
    late = opened(location)
    assert names(late, "Person", at=first.id) == ["ann"]
    assert names(late, "Person", at=first.manifest_version) == ["ann"]
    assert names(late, "Person", at=f"v{second.manifest_version}") == ["ann", "bob"]
    at_first = late.snapshot(at=late.commit(first.id).created_at)
    assert at_first.commit is not None
    assert at_first.commit.id == first.id
    with pytest.raises(NotFound, match="has no manifest version 99"):
        late.snapshot(at=99)


@pytest.mark.slow
def test_a_repeated_txn_changes_nothing(graph: Graph, location: Location) -> None:
    first = commit_rows(graph, {"Person": ["ann"]}, txn=("feed", 7))
    again = commit_rows(opened(location), {"City": ["rome"]}, txn=("feed", 7))
    assert (again.status, again.commit.id) == ("replayed", first.commit.id)
    assert names(graph, "City") == []


def test_if_commit_and_expected_versions_are_compared(graph: Graph, location: Location) -> None:
    first = commit_rows(graph, {"Person": ["ann"]}).commit
    second = commit_rows(graph, {"Person": ["bob"]}, if_commit=first.id).commit
    with pytest.raises(PreconditionFailed) as stale:
        commit_rows(opened(location), {"City": ["rome"]}, if_commit=first.id)
    assert (stale.value.expected, stale.value.actual) == (first.id, second.id)
    with pytest.raises(ExpectedVersionMismatch) as moved:
        commit_rows(opened(location), {"Firm": ["acme"]}, expected={"node:Person": 2})
    assert (moved.value.table_key, moved.value.expected, moved.value.actual) == ("node:Person", 2, 3)
    assert [commit.id for commit in graph.commits(limit=1)] == [second.id]


def test_the_manifest_compacts_itself_and_keeps_its_history(
    graph: Graph, location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handle, "COMPACT_AT_FRAGMENTS", 4)
    follower = opened(location)
    made = [commit_rows(graph, {"Person": [f"p{number}"]}).commit for number in range(6)]
    fragments = manifest_of(graph).open("main").fragment_rows()
    assert len(fragments) <= 4
    for reader in (follower, opened(location)):
        assert [commit.id for commit in reader.commits()][:-1] == [commit.id for commit in reversed(made)]
        assert names(reader, "Person", at=made[1].id) == ["p0", "p1"]
        assert len(names(reader, "Person")) == 6
    assert commit_rows(follower, {"City": ["rome"]}).commit.parent == made[-1].id


# --------------------------------------------------------------------------------------------- branches


@pytest.mark.slow
def test_a_branch_forks_a_table_on_its_first_write(graph: Graph, location: Location) -> None:
    commit_rows(graph, {"Person": ["ann"], "City": ["rome"]})
    graph.create_branch("review/june/1")
    assert names(opened(location), "Person", "review/june/1") == ["ann"]
    assert graph.snapshot("review/june/1").pin("Person").branch is None
    commit_rows(graph, {"Person": ["bob"]}, "review/june/1")
    commit_rows(graph, {"Person": ["cid"]})
    late = opened(location)
    pins = late.snapshot("review/june/1").pins
    assert (pins["node:Person"].branch, pins["node:City"].branch) == ("review/june/1", None)
    assert names(late, "Person", "review/june/1") == ["ann", "bob"]
    assert names(late, "Person") == ["ann", "cid"]
    assert names(late, "City", "review/june/1") == ["rome"]


@pytest.mark.slow
def test_a_branch_of_a_branch_and_of_an_old_commit(graph: Graph, location: Location) -> None:
    first = commit_rows(graph, {"Person": ["ann"]}).commit
    commit_rows(graph, {"Person": ["bob"]})
    graph.create_branch("old", from_=first.id)
    commit_rows(graph, {"Person": ["cid"]}, "old")
    graph.create_branch("older", from_="old")
    commit_rows(graph, {"Person": ["dan"]}, "older")
    late = opened(location)
    assert names(late, "Person", "old") == ["ann", "cid"]
    assert names(late, "Person", "older") == ["ann", "cid", "dan"]
    assert [(branch.name, branch.parent) for branch in late.branches()] == [
        ("main", None),
        ("old", "main"),
        ("older", "old"),
    ]


@pytest.mark.slow
def test_names_that_cannot_stand_side_by_side_are_refused(graph: Graph) -> None:
    graph.create_branch("review/1")
    with pytest.raises(AlreadyExists):
        graph.create_branch("review/1")
    for name in ("review", "review/1/2"):
        with pytest.raises(ParameterError, match="path prefix"):
            graph.create_branch(name)


@pytest.mark.slow
def test_a_deleted_branch_takes_its_forks_along(graph: Graph, location: Location) -> None:
    commit_rows(graph, {"Person": ["ann"]})
    graph.create_branch("a/b")
    commit_rows(graph, {"Person": ["bob"]}, "a/b")
    graph.create_branch("child", from_="a/b")
    with pytest.raises(ConflictError, match="'child' still depends on it"):
        graph.delete_branch("a/b")
    graph.delete_branch("child")
    graph.delete_branch("a/b")
    assert not [path for path in objects_of(location) if "/tree/" in path or "/_refs/branches/" in path]
    late = opened(location)
    with pytest.raises(NotFound, match="no branch 'a/b'"):
        late.snapshot("a/b")
    assert names(late, "Person") == ["ann"]
