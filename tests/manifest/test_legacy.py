"""Graphs of older formats: what readers show without a write, and what the first writers keep of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import pytest

import omnigraph
from omnigraph.errors import FormatError, FormatTooNew, FormatTooOld, StorageError
from omnigraph.graph import Graph, Mode
from omnigraph.manifest.migrations import CURRENT
from tests.manifest.legacy_graphs import (
    BRANCH,
    SHAPES,
    STAMP,
    Legacy,
    Shape,
    assert_tells,
    build,
    rows_of,
    told_by,
)
from tests.manifest.publishing import commit_rows, names
from tests.model.files import contents, traces
from tests.selection import daily

MODES: tuple[Mode, ...] = ("ro", "rw")


@pytest.fixture(params=daily(SHAPES, [SHAPES[0], SHAPES[2]]))
def legacy(request: pytest.FixtureRequest, tmp_path: Path) -> Legacy:
    return build(tmp_path / "graph.og", request.param)


@pytest.fixture
def v3(tmp_path: Path) -> Legacy:
    return build(tmp_path / "graph.og", Shape(3))


def test_a_reader_sees_the_whole_story_and_writes_nothing(legacy: Legacy) -> None:
    before = traces(legacy.root)
    graph = omnigraph.open(legacy.root, "ro")
    assert_tells(graph, legacy)
    assert graph.info().format == legacy.shape.stamp
    assert traces(legacy.root) == before


def test_a_read_write_open_shows_the_same_story_in_the_newest_format(legacy: Legacy) -> None:
    graph = omnigraph.open(legacy.root)
    assert graph.info().format == CURRENT
    assert_tells(graph, legacy)
    assert_tells(omnigraph.open(legacy.root, "ro"), legacy)


def test_history_goes_on_where_it_was_on_every_branch(legacy: Legacy) -> None:
    graph = omnigraph.open(legacy.root)
    for branch, history in legacy.history.items():
        commit = commit_rows(graph, {"City": ["Rome"]}, branch).commit
        for reader in (graph, omnigraph.open(legacy.root, "ro")):
            first, *rest = told_by(reader, branch)
            assert (first.id, first.parents) == (commit.id, (history[0].id,))
            assert rest == list(history)
            assert names(reader, "City", branch) == sorted([*legacy.heads[branch]["City"], "Rome"])
            assert all(rows_of(reader, branch, told.id) == legacy.rows[told.id] for told in history)


@pytest.mark.parametrize("mode", MODES)
def test_the_past_is_found_by_version_and_by_time(legacy: Legacy, mode: Mode) -> None:
    graph = omnigraph.open(legacy.root, mode)
    for told in legacy.history["main"]:
        for reference in (told.manifest_version, f"v{told.manifest_version}", told.created_at):
            snapshot = graph.snapshot(at=reference)
            assert snapshot.commit is not None
            assert (snapshot.commit.id, snapshot.manifest_version) == (told.id, told.manifest_version)
            assert rows_of(graph, "main", reference) == legacy.rows[told.id]


def test_a_reader_that_was_there_before_the_migration_sees_each_commit_once(legacy: Legacy) -> None:
    reader = omnigraph.open(legacy.root, "ro")
    assert_tells(reader, legacy)
    writer = omnigraph.open(legacy.root)
    assert_tells(reader, legacy)
    for branch in legacy.history:
        commit_rows(writer, {"City": ["Rome"]}, branch)
        assert told_by(reader, branch)[1:] == tuple(legacy.history[branch])


@pytest.mark.parametrize("shape", daily([Shape(1), Shape(1, stable_row_ids=False), Shape(3)], [Shape(3)]))
def test_a_branch_from_an_old_commit_has_the_history_up_to_it(tmp_path: Path, shape: Shape) -> None:
    legacy = build(tmp_path / "graph.og", shape)
    _, started, genesis = legacy.history["main"]
    graph = omnigraph.open(legacy.root)
    graph.create_branch("late", from_=started.id)
    assert told_by(graph, "late") == (started, genesis)
    commit_rows(graph, {"Person": ["Ida"]}, "late")
    assert told_by(graph, "late")[1:] == (started, genesis)
    assert names(graph, "Person", "late") == ["Ann", "Bob", "Ida"]


# --------------------------------------------------------------------------------------------- trouble with the tables


@pytest.mark.parametrize("missing", [["_graph_commits.lance"], ["_graph_commits.lance", "_graph_commit_actors.lance"]])
def test_tables_that_never_were_are_no_history(v3: Legacy, missing: list[str]) -> None:
    for name in missing:
        shutil.rmtree(v3.root / name)
    assert omnigraph.open(v3.root, "ro").commits() == []
    graph = omnigraph.open(v3.root)
    assert (graph.info().format, graph.info().head) == (CURRENT, None)
    assert rows_of(graph, "main") == v3.heads["main"]
    assert commit_rows(graph, {"Person": ["Ida"]}).commit.parent is None


def test_a_missing_table_of_actors_costs_the_actors_only(v3: Legacy) -> None:
    shutil.rmtree(v3.root / "_graph_commit_actors.lance")
    expected = tuple(replace(told, actor=None) for told in v3.history["main"])
    assert told_by(omnigraph.open(v3.root), "main") == expected


def cut(table: Path) -> None:
    for manifest in table.glob("_versions/*.manifest"):
        manifest.write_bytes(manifest.read_bytes()[:40])


def overwrite(table: Path) -> None:
    for manifest in table.glob("_versions/*.manifest"):
        manifest.write_bytes(b"\xff" * 200)


def lose_versions(table: Path) -> None:
    shutil.rmtree(table / "_versions")


def lose_rows(table: Path) -> None:
    shutil.rmtree(table / "data")


DAMAGES = [cut, overwrite, lose_versions, lose_rows]


@pytest.mark.parametrize(
    ("table", "damage"),
    [
        *(pytest.param("_graph_commits.lance", damage) for damage in DAMAGES),
        *(pytest.param("_graph_commit_actors.lance", damage, marks=pytest.mark.slow) for damage in DAMAGES),
    ],
)
def test_unreadable_history_stops_the_migration_and_changes_nothing(
    v3: Legacy, table: str, damage: Callable[[Path], None]
) -> None:
    copy = shutil.copytree(v3.root / table, v3.root.parent / "copy")
    damage(v3.root / table)
    before = contents(v3.root)
    with pytest.raises(StorageError, match=table):
        omnigraph.open(v3.root)
    with pytest.raises(StorageError, match=table):
        omnigraph.open(v3.root, "ro").commits()
    assert contents(v3.root) == before
    shutil.rmtree(v3.root / table)
    shutil.copytree(copy, v3.root / table)
    assert_tells(omnigraph.open(v3.root), v3)


@pytest.mark.parametrize(
    "damage", [cut, *(pytest.param(each, marks=pytest.mark.slow) for each in (overwrite, lose_rows))]
)
def test_unreadable_history_of_a_branch_stops_the_write_there(v3: Legacy, damage: Callable[[Path], None]) -> None:
    graph = omnigraph.open(v3.root)
    table = v3.root / "_graph_commits.lance" / "tree" / BRANCH
    copy = shutil.copytree(table, v3.root.parent / "copy")
    damage(table)
    manifest = contents(v3.root / "__manifest")
    with pytest.raises(StorageError, match=r"_graph_commits\.lance"):
        graph.commits(BRANCH)
    with pytest.raises(StorageError, match=r"_graph_commits\.lance"):
        graph._manifest.writable_view(BRANCH)
    assert contents(v3.root / "__manifest") == manifest
    shutil.rmtree(table)
    shutil.copytree(copy, table)
    commit_rows(graph, {"City": ["Rome"]}, BRANCH)
    assert told_by(graph, BRANCH)[1:] == tuple(v3.history[BRANCH])


# --------------------------------------------------------------------------------------------- floor and ceiling


OUTSIDE: list[tuple[str, type[FormatError], str]] = [
    ("5", FormatTooNew, "upgrade omnigraph"),
    ("0", FormatTooOld, "export it with the release that wrote it"),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("stamp", "error", "advice"), OUTSIDE)
def test_a_format_outside_the_bounds_is_refused(
    tmp_path: Path, mode: Mode, stamp: str, error: type[FormatError], advice: str
) -> None:
    legacy = build(tmp_path / "graph.og", Shape(4))
    lance.dataset(legacy.root / "__manifest").update_schema_metadata({STAMP: stamp})
    before = contents(legacy.root)
    with pytest.raises(error, match=advice) as raised:
        omnigraph.open(legacy.root, mode)
    assert raised.value.details == {"format": int(stamp), "supported": [1, CURRENT]}
    assert contents(legacy.root) == before


@pytest.mark.parametrize("read", [Graph.snapshot, Graph.commits])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("stamp", "error", "advice"), OUTSIDE)
def test_a_branch_outside_the_bounds_is_refused_and_main_is_not(
    tmp_path: Path,
    mode: Mode,
    stamp: str,
    error: type[FormatError],
    advice: str,
    read: Callable[[Graph, str], object],
) -> None:
    legacy = build(tmp_path / "graph.og", Shape(4))
    lance.dataset(f"{legacy.root}/__manifest/tree/{BRANCH}").update_schema_metadata({STAMP: stamp})
    graph = omnigraph.open(legacy.root, mode)
    before = contents(legacy.root)
    with pytest.raises(error, match=advice):
        read(graph, BRANCH)
    with pytest.raises(error, match=advice):
        graph._manifest.writable_view(BRANCH)
    assert rows_of(graph, "main") == legacy.heads["main"]
    assert contents(legacy.root) == before
