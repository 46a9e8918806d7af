"""What is newest is found without reading or listing history: the next version of a table, the head of a branch."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import NotFound
from omnigraph.graph import Graph
from omnigraph.manifest.rows import MAIN
from omnigraph.storage import tables
from omnigraph.storage.location import Location
from omnigraph.storage.locks import branch_lock
from omnigraph.storage.tables import Table, open_newest, open_table
from tests.manifest.publishing import commit_rows, make_graph, manifest_of


def append_row(table: Table) -> Table:
    staged = tables.append(table, pa.table({"id": ["a"]}))
    assert staged is not None
    return tables.commit(table, staged, "test")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return tables.create_table(str(tmp_path / "table"), pa.table({"id": ["a"]}), "test")


@pytest.mark.parametrize("hint", ['{"version":1}', '{"version":99}', "{}", "damaged", None])
def test_the_newest_version_is_found_whatever_the_hint_says(table: Table, hint: str | None) -> None:
    newest = append_row(append_row(table))
    file = Path(table.uri, "_versions", "latest_version_hint.json")
    assert file.exists()
    if hint is None:
        file.unlink()
    else:
        file.write_text(hint)
    assert open_newest(table.uri, None, table.access).version == newest.version == 3


def test_a_commit_makes_a_successor(table: Table) -> None:
    assert not table.has_successor()
    newer = append_row(table)
    assert table.has_successor()
    assert not newer.has_successor()


def test_each_branch_has_successors_of_its_own(table: Table) -> None:
    fork = tables.create_table_branch(table, "dev/one")
    append_row(fork)
    assert fork.has_successor()
    assert not table.has_successor()
    assert not open_table(table.uri, "dev/one").has_successor()


def test_a_version_whose_file_has_another_name_is_looked_for_in_the_listing(table: Table) -> None:
    # Old releases of Lance called the file of version 1 simply so.
    versions = Path(table.uri, "_versions")
    (versions / f"{2**64 - 2:020}.manifest").rename(versions / "1.manifest")
    assert not table.has_successor()


def test_a_table_that_is_gone_has_no_answer(table: Table) -> None:
    shutil.rmtree(table.uri)
    with pytest.raises(NotFound):
        table.has_successor()


def test_the_newest_version_of_an_open_table_is_that_table_until_something_is_committed(table: Table) -> None:
    assert table.refresh() is table
    newer = append_row(table)
    assert table.refresh() == newer
    assert newer.refresh() is newer


def test_the_newest_version_is_found_after_the_next_one_was_dropped(table: Table) -> None:
    newest = append_row(append_row(table))
    assert tables.drop_versions(newest, [2]) > 0
    assert not table.has_successor()
    assert table.refresh() == newest


def heads(graph: Graph, branch: str = MAIN) -> set[str | None]:
    """The head as every way of reading finds it: kept, read anew, and from the whole history."""
    fresh = manifest_of(
        omnigraph.open(graph.uri, "ro", storage_options=dict(manifest_of(graph).location.storage_options))
    )
    found = [manifest_of(graph).view(branch).head, fresh.view(branch).head]
    found.append(manifest_of(graph).view(branch, with_lineage=True).history.head())
    return {None if commit is None else commit.id for commit in found}


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.slow)])
def location(request: pytest.FixtureRequest) -> Location:
    return request.getfixturevalue(f"{request.param}_location")


def test_the_head_is_the_same_however_it_is_read(location: Location) -> None:
    graph = make_graph(location)
    assert heads(graph) == {graph.commits()[0].id}
    reader = omnigraph.open(graph.uri, "ro", storage_options=dict(location.storage_options))
    reader.snapshot()
    first = commit_rows(graph, {"Person": ["ann"]}).commit
    graph.create_branch("dev")
    second = commit_rows(graph, {"City": ["bonn"]}, "dev").commit
    assert heads(graph) == {first.id}
    assert heads(graph, "dev") == {second.id}
    seen = reader.snapshot().commit
    assert seen is not None
    assert seen.id == first.id


def test_a_compaction_leaves_the_head(local_location: Location) -> None:
    graph = make_graph(local_location)
    head = [commit_rows(graph, {"Person": [name]}).commit for name in ("ann", "bob", "cem")][-1]
    manifest = manifest_of(graph)
    with branch_lock(manifest.location, MAIN, manifest.locks):
        compacted = manifest.compact(manifest.view(MAIN, with_lineage=True))
    assert compacted.version > head.manifest_version
    assert heads(graph) == {head.id}


def test_a_branch_from_the_very_first_version_has_its_head(local_location: Location) -> None:
    # The stamp comes after the first rows, so this branch looks like one of an older format.
    graph = make_graph(local_location)
    first = graph.commits()[0]
    commit_rows(graph, {"Person": ["ann"]})
    graph.create_branch("dev", from_=first.id)
    assert heads(graph, "dev") == {first.id}
