"""Branches of the graph: where they begin, what they show, what may be deleted, and what a crash may leave behind."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

import omnigraph
from omnigraph.errors import AlreadyExists, ConflictError, NotFound, ParameterError, ReadOnly
from omnigraph.graph import Graph
from omnigraph.manifest.branches import MAX_BYTES, check_free, check_name
from omnigraph.manifest.handle import DIRECTORY
from omnigraph.manifest.rows import HeadPointer, encode_rows
from omnigraph.storage import tables
from omnigraph.storage.location import Location
from tests.manifest.fence import advance, send
from tests.manifest.publishing import commit_rows, make_graph, manifest_of, names


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.slow)])
def location(request: pytest.FixtureRequest) -> Location:
    return cast("Location", request.getfixturevalue(f"{request.param}_location"))


@pytest.fixture
def graph(local_location: Location) -> Graph:
    return make_graph(local_location)


def branch_names(graph: Graph) -> list[str]:
    return [branch.name for branch in graph.branches()]


# --------------------------------------------------------------------------------------------- create, list, delete


def test_a_branch_shows_what_it_began_with_and_then_its_own(location: Location) -> None:
    graph = make_graph(location)
    commit_rows(graph, {"Person": ["ann"]})
    graph.create_branch("review/june")
    commit_rows(graph, {"Person": ["bob"]}, "review/june")
    commit_rows(graph, {"Person": ["cid"]})
    fresh = omnigraph.open(location.uri, "ro", storage_options=dict(location.storage_options))
    assert names(fresh, "Person", "review/june") == ["ann", "bob"]
    assert names(fresh, "Person") == ["ann", "cid"]
    graph.delete_branch("review/june")
    assert branch_names(graph) == ["main"]
    with pytest.raises(NotFound, match="no branch 'review/june'"):
        graph.snapshot("review/june")
    with pytest.raises(NotFound, match="no branch 'review/june'"):
        fresh.snapshot("review/june")
    assert names(graph, "Person") == ["ann", "cid"]


def test_branches_are_listed_with_head_parent_and_time(graph: Graph) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    first = commit_rows(graph, {"Person": ["ann"]}).commit.id
    graph.create_branch("b")
    graph.create_branch("a", from_="b")
    own = commit_rows(graph, {"Person": ["bob"]}, "a").commit.id
    main, a, b = graph.branches()
    assert (main.name, main.head, main.parent, main.created_at) == ("main", first, None, None)
    assert (a.name, a.head, a.parent) == ("a", own, "b")
    assert (b.name, b.head, b.parent) == ("b", first, "main")
    assert a.created_at is not None
    assert before <= a.created_at <= datetime.now(UTC)


def test_a_branch_may_begin_at_a_branch_a_commit_a_version_or_a_time(graph: Graph) -> None:
    first = commit_rows(graph, {"Person": ["ann"]}).commit
    commit_rows(graph, {"Person": ["bob"]})
    graph.create_branch("dev")
    on_dev = commit_rows(graph, {"Person": ["cid"]}, "dev").commit
    commit_rows(graph, {"Person": ["dan"]}, "dev")
    beginnings = {
        "branch": "dev",
        "commit": first.id,
        "foreign": on_dev.id,
        "version": "v4",
        "number": 4,
        "time": graph.commit(first.id).created_at.isoformat(),
        "datetime": graph.commit(first.id).created_at,
    }
    for name, beginning in beginnings.items():
        graph.create_branch(name, from_=beginning)
    assert names(graph, "Person", "branch") == ["ann", "bob", "cid", "dan"]
    assert names(graph, "Person", "foreign") == ["ann", "bob", "cid"]
    for name in ("commit", "version", "number", "time", "datetime"):
        assert names(graph, "Person", name) == ["ann"], name
    assert graph.snapshot("commit").commit == graph.commit(first.id)


def test_a_branch_from_the_very_first_commit_can_be_written(graph: Graph) -> None:
    """That commit lies at a manifest version from before the stamp."""
    first = graph.commits()[0]
    commit_rows(graph, {"Person": ["ann"]})
    graph.create_branch("origin", from_=first.id)
    assert omnigraph.open(graph.uri, "ro").commits("origin") == [first]
    commit_rows(graph, {"Person": ["bob"]}, "origin")
    assert names(omnigraph.open(graph.uri), "Person", "origin") == ["bob"]
    assert [commit.parents for commit in graph.commits("origin")] == [(first.id,), ()]


def test_creating_copies_nothing(graph: Graph) -> None:
    commit_rows(graph, {"Person": ["ann"], "City": ["rome"]})
    before = set(Path(graph.uri).rglob("*"))
    graph.create_branch("dev")
    new = set(Path(graph.uri).rglob("*")) - before
    assert {path.relative_to(graph.uri).parts[0] for path in new} - {"__locks"} == {DIRECTORY}


def test_a_name_is_used_once(graph: Graph) -> None:
    graph.create_branch("dev")
    with pytest.raises(AlreadyExists, match="a branch 'dev' already"):
        graph.create_branch("dev")


@pytest.mark.parametrize("beginning", ["nobody", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "v99", "1999-01-01"])
def test_a_branch_from_nowhere_is_not_found(graph: Graph, beginning: str) -> None:
    with pytest.raises(NotFound):
        graph.create_branch("dev", from_=beginning)
    assert branch_names(graph) == ["main"]


def test_neighbours_in_one_folder_do_not_touch_each_other(graph: Graph) -> None:
    for name in ("review/a", "review/b"):
        graph.create_branch(name)
        commit_rows(graph, {"Person": [name]}, name)
    graph.delete_branch("review/a")
    assert names(graph, "Person", "review/b") == ["review/b"]
    graph.create_branch("review/a")
    assert names(graph, "Person", "review/a") == []


def test_main_and_strangers_are_not_deleted(graph: Graph) -> None:
    with pytest.raises(ParameterError, match="main cannot be deleted"):
        graph.delete_branch("main")
    with pytest.raises(NotFound, match="no branch 'dev'"):
        graph.delete_branch("dev")


def test_a_branch_that_others_depend_on_is_not_deleted(graph: Graph) -> None:
    graph.create_branch("dev")
    commit_rows(graph, {"Person": ["ann"]}, "dev")
    graph.create_branch("child", from_="dev")
    with pytest.raises(ConflictError, match="'child' still depends on it") as caught:
        graph.delete_branch("dev")
    assert caught.value.details == {"branch": "dev", "dependent": "child"}
    assert names(graph, "Person", "child") == ["ann"]
    graph.delete_branch("child")
    graph.delete_branch("dev")
    assert branch_names(graph) == ["main"]


def test_a_branch_whose_table_another_shows_is_not_deleted(graph: Graph) -> None:
    """As a merge by pointer leaves it: main shows a version that lies on the branch."""
    graph.create_branch("dev")
    row = commit_rows(graph, {"Person": ["ann"]}, "dev").view.tables.latest["node:Person"]
    pointing = advance(graph, {"node:Person": 1})
    send(graph, type(pointing)(pointing.intent, updates=(row,), expected=pointing.expected))
    with pytest.raises(ConflictError, match="'main' still depends on it"):
        graph.delete_branch("dev")
    assert names(graph, "Person") == ["ann"]


def test_a_read_only_graph_refuses_both(graph: Graph) -> None:
    graph.create_branch("dev")
    reader = omnigraph.open(graph.uri, "ro")
    with pytest.raises(ReadOnly):
        reader.create_branch("other")
    with pytest.raises(ReadOnly):
        reader.delete_branch("dev")


# --------------------------------------------------------------------------------------------- leftovers


def test_a_branch_made_anew_shows_nothing_of_the_old_one_to_a_warm_reader(graph: Graph) -> None:
    """The new branch has the same name, the same version numbers and the same paths as the old one."""
    reader = omnigraph.open(graph.uri, "ro")
    graph.create_branch("dev")
    commit_rows(graph, {"Person": ["old"]}, "dev")
    assert names(reader, "Person", "dev") == ["old"]
    graph.delete_branch("dev")
    graph.create_branch("dev")
    new = commit_rows(graph, {"Person": ["new"]}, "dev").commit
    assert names(reader, "Person", "dev") == ["new"]
    assert [commit.id for commit in reader.commits("dev")] == [new.id, graph.commits()[0].id]


def test_a_late_writer_cannot_harm_the_next_branch_of_the_name(location: Location) -> None:
    """It brings back the folder of the deleted branch, below the ref, with a commit of its own in it."""
    graph = make_graph(location)
    graph.create_branch("dev")
    stale = manifest_of(graph).open("dev")
    graph.delete_branch("dev")
    tables.merge_rows(stale, encode_rows([HeadPointer("dev", "late", None)]))
    assert manifest_of(graph).open("main").is_leftover_branch("dev")
    assert branch_names(graph) == ["main"]
    graph.create_branch("dev")
    assert manifest_of(graph).open("dev").count_rows("object_id = 'graph_head:dev'") == 0
    commit_rows(graph, {"Person": ["ann"]}, "dev")
    assert names(graph, "Person", "dev") == ["ann"]


def test_a_creation_that_died_inside_lance_is_made_good(graph: Graph) -> None:
    """The folder of the branch was written, its ref was not."""
    graph.create_branch("dev")
    (Path(graph.uri) / DIRECTORY / "_refs" / "branches" / "dev.json").unlink()
    assert branch_names(graph) == ["main"]
    graph.create_branch("dev")
    commit_rows(graph, {"Person": ["ann"]}, "dev")
    assert names(graph, "Person", "dev") == ["ann"]


def test_a_branch_that_goes_between_its_ref_and_its_rows_is_not_listed(graph: Graph) -> None:
    """What a listing meets when another process deletes the branch meanwhile, held still."""
    graph.create_branch("going")
    graph.create_branch("staying")
    shutil.rmtree(Path(graph.uri) / DIRECTORY / "tree" / "going")
    fresh = omnigraph.open(graph.uri, "ro")
    assert branch_names(fresh) == ["main", "staying"]
    with pytest.raises(NotFound, match="no commit 01ARZ3NDEKTSV4RRFFQ69G5FAV"):
        fresh.commit("01ARZ3NDEKTSV4RRFFQ69G5FAV")


# --------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    "name",
    [
        "dev",
        "review/june",
        "a.b-c_d",
        "v1.0",
        "v",
        "2024",
        "2024-05",
        "x" * MAX_BYTES,
        "mainly",
        "a/__b",
        "7" * 26 + "x",
    ],
)
def test_good_names(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "it is empty"),
        ("x" * (MAX_BYTES + 1), "longer than 200 bytes"),
        ("é" * MAX_BYTES, "longer than 200 bytes"),
        ("main", "has a 'main' already"),
        ("__run__1", "reserved"),
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "a commit id"),
        ("01arz3ndektsv4rrffq69g5fav", "a commit id"),
        ("v12", "a manifest version"),
        ("2024-05-01", "a date"),
        ("2024-05-01T10:00Z", "a date"),
        ("/a", "is empty"),
        ("a/", "is empty"),
        ("a//b", "is empty"),
        ("a b", "not allowed"),
        ("a\\b", "not allowed"),
        ("é", "not allowed"),
        ("a\n", "not allowed"),
        ("..", "begins with '.'"),
        ("a/../b", "begins with '.'"),
        (".hidden", "begins with '.'"),
        ("a/b.lock", "ends in '.lock'"),
        ("a.lock/b", "ends in '.lock'"),
    ],
)
def test_bad_names_say_which_rule_they_break(name: str, reason: str) -> None:
    with pytest.raises(ParameterError, match=reason) as caught:
        check_name(name)
    assert caught.value.details == {"name": name}


@pytest.mark.parametrize(("name", "live"), [("review", "review/june"), ("review/june", "review"), ("a/b/c", "a/b")])
def test_a_name_is_no_path_prefix_of_a_live_one_nor_the_other_way_round(name: str, live: str) -> None:
    with pytest.raises(ParameterError, match="path prefix"):
        check_free(name, ["other", live])
    check_free(name, ["other", f"{name}2", "rev"])


def test_a_deleted_branch_frees_its_folder_for_a_prefix(graph: Graph) -> None:
    graph.create_branch("review/june")
    with pytest.raises(ParameterError, match="path prefix"):
        graph.create_branch("review")
    graph.delete_branch("review/june")
    graph.create_branch("review")
    commit_rows(graph, {"Person": ["ann"]}, "review")
    assert names(graph, "Person", "review") == ["ann"]
