"""What is different where DynamoDB lists the versions, and what happens on a store that ignores conditions."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

import pytest

import omnigraph
from omnigraph.errors import AlreadyExists, ConflictError, HistoryGone, StorageError, Unsupported
from omnigraph.graph import Graph
from omnigraph.maintain.cleanup import ReclaimKind, cleanup
from omnigraph.storage.lance_internals import CommitRefused, HeadMoved
from omnigraph.storage.location import Location, locate
from omnigraph.storage.objects import Objects
from tests.crash import Pipe, pipe, start
from tests.manifest.publishing import commit_rows, make_graph, names
from tests.s3 import S3Server
from tests.s3_proxy import Proxy

PATIENCE = 60.0


def opened(location: Location) -> Graph:
    return omnigraph.open(location.uri, storage_options=dict(location.storage_options))


# --------------------------------------------------------------------------------------------- what DynamoDB lists


def test_the_commits_of_every_table_and_branch_are_items(
    ddb_location: Location, s3_server: S3Server, ddb_table: str
) -> None:
    graph = make_graph(ddb_location)
    graph.create_branch("review/1")
    commit_rows(graph, {"Person": ["ann"]}, "review/1")
    person = graph.snapshot().pin("Person").location
    manifest = f"{ddb_location.prefix}/__manifest"
    # Version 1 has the rows, 2 the configuration, 3 the stamp.
    assert s3_server.listed_versions(ddb_table, manifest) == [1, 2, 3]
    assert s3_server.listed_versions(ddb_table, f"{manifest}/tree/review/1") == [3, 4]
    assert s3_server.listed_versions(ddb_table, f"{ddb_location.prefix}/{person}/tree/review/1") == [1, 2]


@pytest.mark.slow
def test_the_name_of_a_deleted_branch_is_used_up_until_its_items_are_deleted(
    ddb_location: Location, s3_server: S3Server, ddb_table: str
) -> None:
    graph = make_graph(ddb_location)
    commit_rows(graph, {"Person": ["ann"]})
    graph.create_branch("review/1")
    commit_rows(graph, {"Person": ["bob"]}, "review/1")
    graph.delete_branch("review/1")
    remembered = f"{ddb_location.prefix}/__manifest/tree/review/1"
    assert s3_server.listed_versions(ddb_table, remembered) == [4, 5], "Lance deletes them now: simplify this"
    with pytest.raises(AlreadyExists, match="deleted branch 'review/1'") as raised:
        graph.create_branch("review/1")
    assert raised.value.hint is not None
    assert f"base_uri '{remembered}'" in raised.value.hint
    assert [branch.name for branch in opened(ddb_location).branches()] == ["main"]
    graph.create_branch("review/2")

    fork = f"{ddb_location.prefix}/{graph.snapshot().pin('Person').location}/tree/review/1"
    s3_server.forget_versions(ddb_table, remembered)
    graph.create_branch("review/1")
    with pytest.raises(AlreadyExists) as raised:
        commit_rows(graph, {"Person": ["cid"]}, "review/1")
    assert raised.value.hint is not None
    assert f"base_uri '{fork}'" in raised.value.hint
    s3_server.forget_versions(ddb_table, fork)
    commit_rows(graph, {"Person": ["cid"]}, "review/1")
    assert names(opened(ddb_location), "Person", "review/1") == ["ann", "cid"]


@pytest.mark.slow
def test_one_table_of_dynamodb_serves_one_bucket(ddb_location: Location, s3_server: S3Server, ddb_table: str) -> None:
    """Lance lists versions by prefix alone: the same prefix in another bucket is the same dataset to it."""
    graph = make_graph(ddb_location)
    other = f"{s3_server.create_bucket()}/{ddb_location.prefix}"
    elsewhere = locate(f"s3+ddb://{other}?ddbTableName={ddb_table}", s3_server.options)
    with pytest.raises(AlreadyExists, match="that are not in this bucket"):
        make_graph(elsewhere)
    assert Objects(elsewhere).list() == []
    assert len(graph.commits()) == 1
    own_table = locate(f"s3+ddb://{other}?ddbTableName={s3_server.create_version_table()}", s3_server.options)
    assert len(make_graph(own_table).commits()) == 1


def test_a_missing_table_is_named_before_anything_is_written(s3_location: Location, s3_server: S3Server) -> None:
    location = locate(f"s3+ddb://{s3_location.base}?ddbTableName=nowhere", s3_server.options)
    for attempt in (make_graph, opened):
        with pytest.raises(StorageError, match=r"ddbTableName=nowhere: there is no such DynamoDB table") as raised:
            attempt(location)
        assert raised.value.hint is not None
        assert "base_uri (string)" in raised.value.hint
    assert Objects(location).list() == []


# --------------------------------------------------------------------------------------------- no conditional put


def through(proxy: Proxy, location: Location) -> Location:
    """The same place on a store that ignores conditions; DynamoDB heeds its own."""
    proxy.ignores_conditions = True
    return locate(location.uri, {**dict(location.storage_options), "aws_endpoint": proxy.endpoint})


def test_a_store_that_ignores_conditions_cannot_keep_a_graph_alone(s3_location: Location, s3_proxy: Proxy) -> None:
    with pytest.raises(Unsupported, match="ignores conditional puts") as raised:
        make_graph(through(s3_proxy, s3_location))
    assert raised.value.hint is not None
    assert "s3+ddb://" in raised.value.hint
    assert Objects(s3_location).list() == []


def commit_what_goes(line: Pipe, location: Location, type_name: str, rounds: int) -> None:
    """Commit rows one by one, leave out those that met a conflict, and send the ids of the others."""
    graph = opened(location)
    made: list[str] = []
    for number in range(rounds):
        try:
            made.append(commit_rows(graph, {type_name: [f"{type_name}{number}"]}).commit.id)
        except (ConflictError, CommitRefused, HeadMoved):
            continue
    line.send(made)


def test_with_dynamodb_no_commit_is_lost_there_though_leases_exclude_nobody(
    ddb_location: Location, s3_proxy: Proxy
) -> None:
    types = ("Person", "City")
    location = through(s3_proxy, ddb_location)
    graph = make_graph(location)
    lines = [pipe() for _ in range(2)]
    children = [
        start(commit_what_goes, theirs, location, type_name, 6)
        for (_, theirs), type_name in zip(lines, types, strict=True)
    ]
    made: dict[str, list[str]] = {}
    for (ours, _), type_name, child in zip(lines, types, children, strict=True):
        assert ours.poll(PATIENCE)
        made[type_name] = cast("list[str]", ours.recv())
        child.join()
    commits = opened(ddb_location).commits()
    assert {commit.id for commit in commits[:-1]} == {*made["Person"], *made["City"]}
    assert [commit.parents for commit in commits] == [*((older.id,) for older in commits[1:]), ()]
    for type_name in types:
        assert made[type_name], "not one commit in six went through"
        assert len(set(names(graph, type_name))) == len(made[type_name])


@pytest.mark.slow
def test_cleanup_takes_versions_whose_items_stay(ddb_location: Location, s3_server: S3Server, ddb_table: str) -> None:
    graph = make_graph(ddb_location)
    for name in ("ann", "bob", "cid"):
        commit_rows(graph, {"Person": [name]})
    old = graph.commits()[1].id
    person = graph.snapshot().pin("Person").location
    before = s3_server.listed_versions(ddb_table, f"{ddb_location.prefix}/{person}")
    cleaned = cleanup(graph._manifest, 1, grace=timedelta(0), confirm=True)
    assert {each.kind for each in cleaned.reclaimed} >= {ReclaimKind.TABLE_VERSIONS, ReclaimKind.MANIFEST_VERSIONS}
    assert s3_server.listed_versions(ddb_table, f"{ddb_location.prefix}/{person}") == before, "deleted now: say so"
    again = opened(ddb_location)
    assert names(again, "Person") == ["ann", "bob", "cid"]
    with pytest.raises(HistoryGone):
        again.nodes("Person", at=old).to_arrow()
    commit_rows(again, {"Person": ["dee"]})
    assert names(opened(ddb_location), "Person") == ["ann", "bob", "cid", "dee"]
    assert again.verify().findings == ()
