"""Forks of tables: made by the first write on a branch, used again, made anew, or refused when they hold data."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import RecoveryError, StorageError
from omnigraph.graph import Graph
from omnigraph.manifest.branches import fork_table, has_rows_where
from omnigraph.manifest.publisher import PublishRequest
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.snapshot import list_pins
from omnigraph.storage import tables
from omnigraph.storage.lance_internals import BranchRef
from omnigraph.storage.location import Location
from omnigraph.storage.locks import branch_lock
from omnigraph.storage.tables import StagedChange, Table
from tests.manifest.fence import intent, send
from tests.manifest.publishing import commit_rows, make_graph, manifest_of, names


@pytest.fixture
def graph(local_location: Location) -> Graph:
    """Ann is on main, and there is a branch dev."""
    graph = make_graph(local_location)
    commit_rows(graph, {"Person": ["ann"]})
    graph.create_branch("dev")
    return graph


def fork(graph: Graph, branch: str, type_name: str = "Person") -> Table:
    """Fork a table as a write does that dies before it publishes."""
    manifest = manifest_of(graph)
    with branch_lock(manifest.location, branch, manifest.locks) as held:
        return fork_table(manifest, held, branch, list_pins(manifest.view(branch))[f"node:{type_name}"])


def more_people(table: Table) -> StagedChange:
    """Stage the same rows once more."""
    staged = tables.append(table, table.scan().read_all())
    assert staged is not None
    return staged


def forks(graph: Graph, type_name: str = "Person") -> dict[str, BranchRef]:
    return graph.snapshot().table(type_name).list_branches()


def folder(graph: Graph) -> Path:
    return Path(graph.uri) / graph.snapshot().pin("Person").location


def test_only_what_is_written_is_forked(graph: Graph) -> None:
    commit_rows(graph, {"City": ["rome"]}, "dev")
    pins = graph.snapshot("dev").pins
    assert (pins["node:City"].branch, pins["node:Person"].branch) == ("dev", None)
    assert (set(forks(graph, "City")), set(forks(graph))) == ({"dev"}, set())
    assert names(graph, "Person", "dev") == ["ann"]


def test_main_never_forks(graph: Graph) -> None:
    assert fork(graph, MAIN).branch is None
    assert forks(graph) == {}


def test_a_second_write_on_a_branch_uses_its_fork(graph: Graph) -> None:
    commit_rows(graph, {"Person": ["bob"]}, "dev")
    before = forks(graph)["dev"]
    commit_rows(graph, {"Person": ["cid"]}, "dev")
    assert forks(graph)["dev"] == before
    assert names(graph, "Person", "dev") == ["ann", "bob", "cid"]


def test_a_branch_of_a_branch_forks_from_the_owner(graph: Graph) -> None:
    commit_rows(graph, {"Person": ["bob"]}, "dev")
    graph.create_branch("child", from_="dev")
    commit_rows(graph, {"Person": ["cid"]}, "child")
    assert forks(graph)["child"].parent == "dev"
    assert names(graph, "Person", "child") == ["ann", "bob", "cid"]
    assert names(graph, "Person", "dev") == ["ann", "bob"]


def test_an_orphan_at_the_pin_is_used_again(graph: Graph) -> None:
    fork(graph, "dev")
    before = forks(graph)["dev"].identifier
    commit_rows(graph, {"Person": ["bob"]}, "dev")
    assert forks(graph)["dev"].identifier == before
    assert names(graph, "Person", "dev") == ["ann", "bob"]


def test_an_orphan_with_unpublished_rows_is_made_anew(graph: Graph) -> None:
    orphan = fork(graph, "dev")
    tables.commit(orphan, more_people(orphan), "of a dead writer")
    commit_rows(graph, {"Person": ["bob"]}, "dev")
    assert names(graph, "Person", "dev") == ["ann", "bob"]


def test_an_orphan_of_another_version_is_made_anew(graph: Graph) -> None:
    fork(graph, "dev")
    graph.delete_branch("dev")
    commit_rows(graph, {"Person": ["bob"]})
    graph.create_branch("dev")
    commit_rows(graph, {"Person": ["cid"]}, "dev")
    assert names(graph, "Person", "dev") == ["ann", "bob", "cid"]


@pytest.mark.parametrize("lost", ["ref", "storage"])
def test_half_an_orphan_is_made_anew(graph: Graph, lost: str) -> None:
    fork(graph, "dev")
    if lost == "ref":
        (folder(graph) / "_refs" / "branches" / "dev.json").unlink()
    else:
        shutil.rmtree(folder(graph) / "tree" / "dev")
    commit_rows(graph, {"Person": ["bob"]}, "dev")
    assert names(omnigraph.open(graph.uri), "Person", "dev") == ["ann", "bob"]


def test_a_fork_that_the_manifest_names_is_never_made_anew(graph: Graph) -> None:
    """The visible row points back at main, but history names the fork: it holds data."""
    commit_rows(graph, {"Person": ["bob"]}, "dev")
    for name in ("cid", "dan"):
        on_main = commit_rows(graph, {"Person": [name]}).view.tables.latest["node:Person"]
    send(graph, PublishRequest(intent(graph), updates=(on_main,)), "dev")
    with pytest.raises(RecoveryError, match="the fork of 'node:Person' on 'dev' is in use") as caught:
        fork(graph, "dev")
    assert caught.value.details == {"table_key": "node:Person", "branch": "dev", "named_by": "dev"}
    assert "dev" in forks(graph)


def test_a_lost_ref_fails_no_read_and_no_write(graph: Graph) -> None:
    """The ref of a fork is derived: the manifest says where its versions lie."""
    commit_rows(graph, {"Person": ["bob"]}, "dev")
    (folder(graph) / "_refs" / "branches" / "dev.json").unlink()
    fresh = omnigraph.open(graph.uri)
    assert names(fresh, "Person", "dev") == ["ann", "bob"]
    commit_rows(fresh, {"Person": ["cid"]}, "dev")
    assert names(graph, "Person", "dev") == ["ann", "bob", "cid"]


def test_deleting_a_branch_removes_its_forks_published_or_not(graph: Graph) -> None:
    commit_rows(graph, {"Person": ["bob"]}, "dev")
    fork(graph, "dev", "City")
    graph.delete_branch("dev")
    assert (forks(graph), forks(graph, "City")) == ({}, {})
    assert not (folder(graph) / "tree" / "dev").exists()


def test_what_dead_branches_forked_from_each_other_blocks_nobody(graph: Graph) -> None:
    """A writer on child died after its fork; a deletion of child died before it removed that fork."""
    commit_rows(graph, {"Person": ["bob"]}, "dev")
    graph.create_branch("child", from_="dev")
    fork(graph, "child")
    tables.delete_table_branch(manifest_of(graph).open(MAIN), "child")
    assert forks(graph)["child"].parent == "dev"
    graph.delete_branch("dev")
    assert forks(graph) == {}
    graph.create_branch("dev")
    commit_rows(graph, {"Person": ["cid"]}, "dev")
    assert names(graph, "Person", "dev") == ["ann", "cid"]


def test_a_late_writer_on_a_fork_cannot_harm_the_next_fork_of_the_name(graph: Graph) -> None:
    stale = fork(graph, "dev")
    staged = more_people(stale)
    graph.delete_branch("dev")
    tables.commit(stale, staged, "late")
    assert graph.snapshot().table("Person").is_leftover_branch("dev")
    graph.create_branch("dev")
    assert names(graph, "Person", "dev") == ["ann"]
    commit_rows(graph, {"Person": ["bob"]}, "dev")
    assert names(graph, "Person", "dev") == ["ann", "bob"]


@pytest.mark.parametrize("stays", [True, False])
def test_a_branch_that_is_deleted_while_its_rows_are_counted_names_nothing(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, *, stays: bool
) -> None:
    def fail(_: Table, filter: str | None = None) -> int:  # noqa: A002  as in Table
        monkeypatch.undo()
        if not stays:
            graph.delete_branch("dev")
        raise StorageError(f"a file is gone while {filter} is counted")

    monkeypatch.setattr(Table, "count_rows", fail)
    if stays:
        with pytest.raises(StorageError, match="a file is gone"):
            has_rows_where(manifest_of(graph), "dev", "true")
    else:
        assert not has_rows_where(manifest_of(graph), "dev", "true")
