"""Graphs that were moved or copied: main is there at once, branches say what is wrong, and repair makes them whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import GraphMoved, StorageError
from omnigraph.graph import Graph
from omnigraph.maintain.verify import FindingKind
from omnigraph.storage.failpoints import record_writes
from omnigraph.storage.lance_internals.base_folders import read_base_folders, replace_base_folders
from omnigraph.storage.location import locate
from omnigraph.storage.objects import Objects
from omnigraph.write.commit.sidecars import list_sidecars
from tests.crash import kill_at
from tests.maintain.ports import AT_ONCE, add, cleanup_now, remove, shown
from tests.s3 import S3Server

SCHEMA = "node Port { code: String @key  name: String? @index }\nedge Near: Port -> Port"


def with_branches(root: Path) -> Graph:
    """A graph with a branch, a branch of that branch, and one that has nothing of its own."""
    graph = omnigraph.init(root, SCHEMA)
    for code in ("oslo", "kiel", "riga"):
        add(graph, code)
    for name, parent in (("dev", "main"), ("team/long-name", "dev"), ("idle", "main")):
        graph.create_branch(name, parent)
        if name != "idle":
            add(graph, name.replace("/", "-"), name)
    remove(graph, "kiel", "team/long-name")
    return graph


def everything(graph: Graph) -> dict[str, object]:
    """What every branch shows, and every commit did."""
    names = [branch.name for branch in graph.branches()]
    heads: dict[str, object] = {name: shown(graph, name) for name in names}
    return heads | {commit.id: shown(graph, at=commit.id) for name in names for commit in graph.commits(name)}


def is_whole(graph: Graph, before: dict[str, object]) -> None:
    """Everything is there, can be written, merged, cleaned up and proven."""
    assert everything(graph) == before
    add(graph, "next", "team/long-name")
    graph.merge("team/long-name", "dev")
    graph.optimize("dev")
    graph.delete_branch("idle")
    cleanup_now(graph, 1, stale_after=AT_ONCE)
    assert "next" in shown(graph, "dev")[0]
    assert graph.verify().findings == ()


@pytest.mark.parametrize("original", ["gone", pytest.param("still there", marks=pytest.mark.slow)])
def test_a_graph_that_was_moved_is_repaired(tmp_path: Path, original: str) -> None:
    graph = with_branches(tmp_path / "a.og")
    before = everything(graph)
    place = tmp_path / "somewhere else" / "with a longer name.og"
    shutil.copytree(tmp_path / "a.og", place)
    if original == "gone":
        shutil.rmtree(tmp_path / "a.og")
    moved = omnigraph.open(place)
    assert shown(moved) == before["main"]
    with pytest.raises(GraphMoved, match="repair --yes"):
        shown(moved, "dev")
    (found,) = moved.verify().findings
    assert found.kind is FindingKind.MOVED
    preview = moved.repair()
    assert preview.moved > 3
    with pytest.raises(GraphMoved):
        shown(moved, "dev")
    assert moved.repair(confirm=True).moved == preview.moved
    assert moved.repair().moved == 0
    # Whoever had it open goes on, and so does whoever comes.
    assert everything(moved) == before
    is_whole(omnigraph.open(place), before)
    if original == "still there":
        assert everything(omnigraph.open(tmp_path / "a.og")) == before


def test_another_way_to_the_same_folder_is_no_move(tmp_path: Path) -> None:
    before = everything(with_branches(tmp_path / "a.og"))
    (tmp_path / "link.og").symlink_to(tmp_path / "a.og")
    again = omnigraph.open(tmp_path / "link.og")
    assert everything(again) == before
    assert again.repair().moved == 0
    assert again.verify().findings == ()


def repair_at(uri: str) -> None:
    omnigraph.open(uri).repair(confirm=True)


def test_a_repair_that_died_is_repeated(tmp_path: Path) -> None:
    before = everything(with_branches(tmp_path / "a.og"))
    place = str(shutil.move(tmp_path / "a.og", tmp_path / "b.og"))
    kill_at(repair_at, (place,), 3, "after")
    graph = omnigraph.open(place)
    assert graph.verify().findings
    graph.repair(confirm=True)
    assert everything(graph) == before
    assert graph.verify().findings == ()


def write_at(uri: str) -> None:
    add(omnigraph.open(uri), "half", "dev")


def test_what_a_dead_writer_left_on_a_branch_is_finished_after_the_move(tmp_path: Path) -> None:
    graph = with_branches(tmp_path / "a.og")
    before = everything(graph)
    with record_writes() as steps:
        add(omnigraph.open(shutil.copytree(tmp_path / "a.og", tmp_path / "clean.og")), "half")
    last = max(step.number for step in steps if step.name == "table.commit")
    kill_at(write_at, (str(tmp_path / "a.og"),), last, "before")
    shutil.move(tmp_path / "a.og", tmp_path / "b.og")
    moved = omnigraph.open(tmp_path / "b.og")
    assert len(list_sidecars(moved._manifest.objects)) == 1
    moved.repair(confirm=True)
    assert list_sidecars(moved._manifest.objects) == []
    assert shown(moved, "dev") == before["dev"]
    assert moved.verify().findings == ()


@pytest.mark.slow
def test_a_prefix_of_a_bucket_is_copied(s3_server: S3Server) -> None:
    bucket = s3_server.create_bucket()
    graph = omnigraph.init(f"s3://{bucket}/a", "node Port { code: String @key }", storage_options=s3_server.options)
    graph.create_branch("dev")
    graph.mutate('query q() { insert Port { code: "oslo" } }', branch="dev")
    objects = graph._manifest.objects
    copy = Objects(locate(f"s3://{bucket}/copies/b", s3_server.options))
    for info in objects.list():
        copy.put(info.path, objects.get(info.path) or b"")
    moved = omnigraph.open(f"s3://{bucket}/copies/b", storage_options=s3_server.options)
    with pytest.raises(GraphMoved):
        moved.get("Port", "oslo", branch="dev")
    assert moved.repair(confirm=True).moved
    assert moved.get("Port", "oslo", branch="dev") is not None


def test_only_the_folders_of_a_manifest_file_change(tmp_path: Path) -> None:
    with_branches(tmp_path / "a.og")
    files = sorted(tmp_path.glob("a.og/**/tree/**/_versions/*.manifest"))
    assert files
    for file in files:
        data = file.read_bytes()
        noted = read_base_folders(data)
        assert noted
        assert all(Path(each).is_dir() for each in noted)
        assert replace_base_folders(data, str) == data
        longer = replace_base_folders(data, lambda at: at + "/" + "x" * 300)
        assert read_base_folders(longer) == [each + "/" + "x" * 300 for each in noted]
        assert replace_base_folders(longer, lambda at: at.removesuffix("/" + "x" * 300)) == data
        for broken in (b"", data[:-1], data[:40], data[:-20] + data[-16:]):
            with pytest.raises(StorageError):
                read_base_folders(broken)
