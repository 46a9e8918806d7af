"""Tags: names for commits, usable wherever a commit is, which keep the branch that they depend on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import cast

import orjson
import pytest
from ulid import ULID

import omnigraph
from omnigraph.errors import (
    AlreadyExists,
    ConflictError,
    HistoryGone,
    NotFound,
    ParameterError,
    ReadOnly,
    StorageError,
)
from omnigraph.graph import Graph
from omnigraph.manifest.publisher import CommitIntent, PublishRequest, publish
from omnigraph.manifest.snapshot import make_entry
from omnigraph.manifest.tags import Tag, encode_tag, path_of
from omnigraph.storage.location import Location
from omnigraph.storage.locks import branch_lock
from tests.manifest.publishing import commit_rows, make_graph, manifest_of, names


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.slow)])
def location(request: pytest.FixtureRequest) -> Location:
    return cast("Location", request.getfixturevalue(f"{request.param}_location"))


@pytest.fixture
def local(local_location: Location) -> Graph:
    return make_graph(local_location)


def reopened(location: Location) -> Graph:
    return omnigraph.open(location.uri, "ro", storage_options=dict(location.storage_options))


def test_a_tag_names_a_commit_wherever_one_can_be_named(location: Location) -> None:
    graph = make_graph(location)
    first = commit_rows(graph, {"Person": ["ann"]}).commit
    tag = graph.create_tag("release/1", actor="act-ann")
    commit_rows(graph, {"Person": ["bob"]})
    assert (tag.name, tag.commit, tag.branch, tag.actor) == ("release/1", first.id, "main", "act-ann")
    assert datetime.now(UTC) - tag.created_at < timedelta(minutes=1)
    late = reopened(location)
    assert late.tags() == [tag]
    assert late.commit("release/1").id == first.id
    assert names(late, "Person", at="release/1") == ["ann"]
    graph.create_branch("old", from_="release/1")
    assert names(reopened(location), "Person", "old") == ["ann"]
    graph.delete_tag("release/1")
    assert reopened(location).tags() == []
    with pytest.raises(NotFound, match="no commit, version, date or tag 'release/1'"):
        late.snapshot(at="release/1")


def test_each_kind_of_reference_can_be_tagged(local: Graph) -> None:
    first = local.commit(commit_rows(local, {"Person": ["ann"]}).commit.id)
    local.create_branch("dev")
    second = local.commit(commit_rows(local, {"Person": ["bob"]}, "dev").commit.id)
    third = local.commit(commit_rows(local, {"Person": ["cid"]}, "dev").commit.id)
    made = [
        local.create_tag("by-branch", "dev"),
        local.create_tag("by-id", second.id),
        local.create_tag("by-version", f"v{second.manifest_version}", branch="dev"),
        local.create_tag("by-number", first.manifest_version),
        local.create_tag("by-time", second.created_at, branch="dev"),
        local.create_tag("by-tag", "by-id"),
    ]
    assert [(tag.commit, tag.branch) for tag in made] == [
        (third.id, "dev"),
        (second.id, "dev"),
        (second.id, "dev"),
        (first.id, "main"),
        (second.id, "dev"),
        (second.id, "dev"),
    ]
    assert [tag.name for tag in local.tags()] == sorted(tag.name for tag in made)
    # Read as it was on its own branch, whichever branch is asked.
    assert names(local, "Person", "main", "by-id") == ["ann", "bob"]


def test_the_object_is_what_the_format_says(local: Graph) -> None:
    tag = local.create_tag("a/b", actor=None)
    stored = cast("dict[str, object]", orjson.loads(manifest_of(local).objects.get("__tags/a/b.json") or b""))
    micros = (tag.created_at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert stored == {"name": "a/b", "commit_id": tag.commit, "branch": "main", "created_at": micros, "actor": None}


def test_a_tag_is_never_moved(local: Graph) -> None:
    tag = local.create_tag("release")
    commit_rows(local, {"Person": ["ann"]})
    with pytest.raises(AlreadyExists, match="there is a tag 'release' already"):
        local.create_tag("release")
    assert local.tags() == [tag]


def test_a_branch_and_a_tag_never_share_a_name(local: Graph) -> None:
    local.create_branch("review/june")
    local.create_tag("release/1")
    with pytest.raises(AlreadyExists, match="there is a branch 'review/june' already"):
        local.create_tag("review/june")
    with pytest.raises(AlreadyExists, match="there is a tag 'release/1' already"):
        local.create_branch("release/1")
    for name in ("review", "review/june/2"):
        with pytest.raises(ParameterError, match="cannot stand beside the branch 'review/june'"):
            local.create_tag(name)
    for name in ("release", "release/1/2"):
        with pytest.raises(ParameterError, match="cannot stand beside the tag 'release/1'"):
            local.create_branch(name)
    # Tags may stand in each other's folder.
    local.create_tag("release/1/2")
    assert [tag.name for tag in local.tags()] == ["release/1", "release/1/2"]


@pytest.mark.parametrize("name", ["main", "", "__x", "v1", "2024-05-01", "a b", "../x", "a.json/b", "a/b.json/c"])
def test_a_name_that_a_tag_cannot_have(local: Graph, name: str) -> None:
    with pytest.raises(ParameterError, match="cannot be the name of a"):
        local.create_tag(name)
    assert local.tags() == []


def test_a_last_segment_may_end_as_the_objects_do(local: Graph) -> None:
    local.create_tag("a")
    local.create_tag("a.json")
    assert [tag.name for tag in local.tags()] == ["a", "a.json"]


@pytest.mark.parametrize("reference", ["nope", "../x", "01J00000000000000000000000", "v99", "2001-01-01"])
def test_what_is_not_there_cannot_be_tagged(local: Graph, reference: str) -> None:
    with pytest.raises(NotFound):
        local.create_tag("x", reference)
    assert local.tags() == []


def test_a_commit_that_can_no_longer_be_read_is_not_tagged(local: Graph) -> None:
    old = commit_rows(local, {"Person": ["ann"]}).commit
    commit_rows(local, {"Person": ["bob"]})
    pin = local.snapshot(at=old.id).pins["node:Person"]
    # As cleanup does.
    manifest_of(local).objects.delete(f"{pin.location}/_versions/{2**64 - 1 - pin.version:020}.manifest")
    with pytest.raises(HistoryGone, match="version 2 of 'node:Person' cannot be read"):
        local.create_tag("old", old.id)
    assert local.create_tag("new").name == "new"
    assert [tag.name for tag in local.tags()] == ["new"]


def test_a_name_that_is_nearly_right_is_suggested(local: Graph) -> None:
    local.create_tag("release-1")
    local.create_branch("dev")
    doubtful: list[tuple[Callable[[], object], str]] = [
        (lambda: local.snapshot(at="relase-1"), "did you mean 'release-1'?"),
        (lambda: local.delete_tag("relase-1"), "did you mean 'release-1'?"),
        (lambda: local.snapshot(at="dev"), "'dev' is a branch"),
    ]
    for ask, advice in doubtful:
        with pytest.raises(NotFound) as missing:
            ask()
        assert advice in (missing.value.hint or "")


def test_read_only_makes_and_deletes_no_tag(local: Graph) -> None:
    local.create_tag("x")
    reader = omnigraph.open(local.uri, "ro")
    with pytest.raises(ReadOnly):
        reader.create_tag("y")
    with pytest.raises(ReadOnly):
        reader.delete_tag("x")
    assert [tag.name for tag in reader.tags()] == ["x"]


@pytest.mark.parametrize(
    ("tag", "data"),
    [
        (
            Tag("v1/ü", "01C", "main", datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC), None),
            '{"name":"v1/ü","commit_id":"01C","branch":"main","created_at":1714979289123456,"actor":null}',
        ),
        (
            Tag("r", "01C", "dev", datetime(2024, 5, 6, 7, 8, 9, tzinfo=timezone(timedelta(hours=2))), "act-ann"),
            '{"name":"r","commit_id":"01C","branch":"dev","created_at":1714972089000000,"actor":"act-ann"}',
        ),
    ],
)
def test_the_bytes_of_a_tag_on_disk_are_these(tag: Tag, data: str) -> None:
    assert encode_tag(tag).decode() == data


def test_a_damaged_tag_is_named_and_can_be_deleted(local: Graph) -> None:
    local.create_tag("x")
    for damage in (b"{", b"[]", b'{"name": "x"}', b'{"commit_id":"c","branch":"main","created_at":"y","actor":null}'):
        manifest_of(local).objects.put(path_of("x"), damage)
        with pytest.raises(StorageError, match="the tag 'x' is damaged"):
            local.tags()
    local.delete_tag("x")
    assert local.tags() == []


# --------------------------------------------------------------------------------------------- branches that tags keep


def test_a_branch_stays_while_a_tag_names_a_commit_of_it(location: Location) -> None:
    graph = make_graph(location)
    graph.create_branch("dev")
    commit_rows(graph, {"Person": ["ann"]}, "dev")
    graph.create_tag("kept", "dev")
    with pytest.raises(ConflictError, match="'dev' cannot be deleted: the tag 'kept' still depends on it") as refused:
        graph.delete_branch("dev")
    assert refused.value.details == {"branch": "dev", "tag": "kept"}
    assert names(reopened(location), "Person", at="kept") == ["ann"]
    graph.delete_tag("kept")
    graph.delete_branch("dev")


def test_a_branch_stays_for_a_tagged_commit_that_shows_no_fork_of_it(local: Graph) -> None:
    local.create_branch("dev")
    manifest = manifest_of(local)
    with branch_lock(manifest.location, "dev", manifest.locks) as held:
        publish(manifest, held, "dev", PublishRequest(CommitIntent(str(ULID()), None)))
    local.create_tag("kept", "dev")
    with pytest.raises(ConflictError, match="the tag 'kept' still depends on it"):
        local.delete_branch("dev")


def test_a_tag_of_what_a_branch_began_with_does_not_keep_it(local: Graph) -> None:
    commit_rows(local, {"Person": ["ann"]})
    local.create_branch("dev")
    local.create_tag("kept", "dev")
    local.delete_branch("dev")
    assert names(local, "Person", at="kept") == ["ann"]


def adopt(graph: Graph, source: str, target: str, table_key: str) -> None:
    """Publish the source's version of a table on the target, by pointer, as a merge may."""
    manifest = manifest_of(graph)
    pin = graph.snapshot(source).pins[table_key]
    with branch_lock(manifest.location, target, manifest.locks) as held:
        intent = CommitIntent(str(ULID()), graph.schema.hash, actor="tests")
        update = make_entry(manifest, pin, graph.snapshot(source).table(table_key))
        publish(manifest, held, target, PublishRequest(intent, updates=(update,)))


def test_a_branch_stays_while_a_tagged_commit_elsewhere_shows_a_fork_of_it(local: Graph) -> None:
    local.create_branch("dev")
    local.create_branch("other")
    commit_rows(local, {"Person": ["ann"]}, "dev")
    before = local.create_tag("before", "other")
    adopt(local, "dev", "other", "node:Person")
    local.create_tag("shows-dev", "other")
    # A later write takes the table away from dev; only the tag still shows dev's fork.
    commit_rows(local, {"Person": ["bob"]}, "other")
    assert local.snapshot("other").pin("Person").branch == "other"
    with pytest.raises(ConflictError, match="the tag 'shows-dev' still depends on it"):
        local.delete_branch("dev")
    local.delete_tag("shows-dev")
    local.delete_branch("dev")
    assert local.tags() == [before]
