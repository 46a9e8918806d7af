"""Files of numbered ends and of hops while processes die, write the same ones at once, or delete what one reads."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.storage import tables
from tests import crash
from tests.read.topology.test_stored_ends import end_files, new_graph, walk, walk_without_files
from tests.selection import sized

pytestmark = pytest.mark.costly


@pytest.fixture(autouse=True)
def _every_fragment_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LEAST_NUMBERED_ROWS", 1)


def write_ends(folder: Path) -> None:
    """Build what is missing beside the tables, in a process of its own."""
    tables.LEAST_NUMBERED_ROWS = 1  # pyright: ignore[reportConstantRedefinition]  the process ends with this function
    omnigraph.open(folder).ensure_indexes()


def write_ends_again_and_again(folder: Path, times: int) -> None:
    """Delete all files and build them, so that others find them whole, on their way and gone."""
    for _ in range(times):
        delete_ends(folder)
        write_ends(folder)


def delete_ends(folder: Path) -> None:
    for ends in folder.glob("edges/*/_ends"):
        shutil.rmtree(ends, ignore_errors=True)


def are_written(graph: Graph) -> bool:
    """Whether each fragment of edges has a file that is whole and its own, and each table two files of hops."""
    found: list[object] = []
    for name in ("Knows", "LivesIn"):
        table = graph.snapshot().table(name)
        fragments = tables.list_fragments(table)
        found += [tables.read_end_file(table, each) for each in fragments]
        found += [tables.read_hop_file(table, fragments[0], "out"), tables.read_hop_file(table, fragments[0], "in")]
    return None not in found


def test_killed_at_every_file_the_rows_are_the_same_and_the_next_build_writes_the_rest(tmp_path: Path) -> None:
    template = Path(new_graph(tmp_path).uri)
    delete_ends(template)
    steps = crash.record(write_ends, crash.fresh_copy(template))
    files = [step for step in steps if "_ends/" in step.detail]
    assert len(files) == 2 * 3
    for number, when in crash.every_crash(files):
        folder = crash.fresh_copy(template)
        crash.kill_at(write_ends, (folder,), number, when)
        graph = omnigraph.open(folder)
        there = len(end_files(graph))
        assert there == files.index(next(step for step in files if step.number == number)) + (when == "after")
        assert walk(graph) == walk_without_files(graph)
        crash.run(write_ends, folder)
        assert are_written(graph)
        assert walk(graph) == walk_without_files(graph)


def test_what_a_dead_writer_left_beside_the_files_is_not_read(tmp_path: Path) -> None:
    """A put writes under another name first, which is all that a kill in the midst of it leaves."""
    graph = new_graph(tmp_path)
    expected, file = walk(graph), end_files(graph)[0]
    unfinished = file.with_name(f"{file.name}#1")
    unfinished.write_bytes(file.read_bytes()[:50])
    file.unlink()
    assert walk(graph) == expected
    graph.ensure_indexes()
    assert are_written(graph)
    assert walk(graph) == expected


def test_two_processes_write_and_delete_the_same_files_under_a_reader(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    folder, expected, times = Path(graph.uri), walk_without_files(graph), sized(8, 60)
    writers = [crash.start(write_ends_again_and_again, folder, times) for _ in range(2)]
    seen = set[int]()
    while any(writer.is_alive() for writer in writers):
        seen.add(len(end_files(graph)))
        assert walk(graph) == expected
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert len(seen) > 1
    crash.run(write_ends, folder)
    assert are_written(graph)
    assert walk(graph) == expected
    assert not graph.verify().findings
