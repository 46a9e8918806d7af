"""Walks over hops that are stored in order, with files that are new, older than commits, of older versions or gone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.graph import Graph
from omnigraph.read.frames.cache import Cache
from omnigraph.read.topology import derived_adjacency, edge_ends
from omnigraph.read.topology.adjacency import Adjacency, Hops
from omnigraph.storage import tables
from tests import crash
from tests.read.topology.test_stored_ends import CHANGES, PAIRS, end_files, new_graph, walk, walk_without_files
from tests.read.walked_graphs import Links, people
from tests.selection import sized


@pytest.fixture(autouse=True)
def _every_table_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LEAST_NUMBERED_ROWS", 1)


class Sorts:
    """How many adjacencies in which a neighbour is listed once were sorted since the last look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._count = 0
        build = derived_adjacency.build_adjacency

        def counted(hops: Hops, sizes: tuple[int, int], *, distinct: bool) -> Adjacency:
            self._count += distinct
            return build(hops, sizes, distinct=distinct)

        monkeypatch.setattr(derived_adjacency, "build_adjacency", counted)

    def taken(self) -> int:
        count, self._count = self._count, 0
        return count


def hop_files(graph: Graph) -> list[Path]:
    return [file for file in end_files(graph) if file.suffix in (".out", ".in")]


def read_all(files: Iterable[Path]) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in files}


def test_a_cold_walk_sorts_no_hops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, sorts = new_graph(tmp_path), Sorts(monkeypatch)
    expected = walk_without_files(graph)
    assert sorts.taken() == 3
    assert walk(graph) == expected
    assert sorts.taken() == 0
    for file in hop_files(graph):
        file.unlink()
    assert walk(graph) == expected
    assert sorts.taken() == 3


def walk_without_sorting(folder: Path, expected: list[list[str]]) -> None:
    """Walk in a process of its own, which must not sort anything."""
    tables.LEAST_NUMBERED_ROWS = 1  # pyright: ignore[reportConstantRedefinition]  the process ends with this function
    with pytest.MonkeyPatch.context() as patch:
        sorts = Sorts(patch)
        assert walk(omnigraph.open(folder, mode="ro")) == expected
        assert sorts.taken() == 0


def test_another_process_sorts_no_hops(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    crash.run(walk_without_sorting, Path(graph.uri), walk_without_files(graph))


@pytest.mark.parametrize(
    ("change", "sorted_again"),
    [
        ("update a node", 0),
        ("delete a node", 0),
        ("delete edges", 0),
        ("delete parallel edges", 0),
        ("update edges", 0),
        ("insert", 0),
        ("optimize", 0),
        ("indexes", 0),
        ("a new column", 0),
        ("update many", 3),
        ("overwrite", 1),
    ],
)
def test_a_file_is_of_use_after_small_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, sorted_again: int
) -> None:
    graph = new_graph(tmp_path)
    files = read_all(hop_files(graph))
    CHANGES[change](graph)
    if change not in ("optimize", "indexes"):
        assert read_all(files) == files
    expected, sorts = walk_without_files(graph), Sorts(monkeypatch)
    assert walk(graph) == expected
    assert sorts.taken() == sorted_again


@settings(max_examples=sized(4, 80))
@given(st.lists(st.sampled_from(list(CHANGES)), min_size=1, max_size=6), st.data())
def test_after_any_commits_the_rows_are_those_without_files(
    tmp_path_factory: pytest.TempPathFactory, changes: list[str], data: st.DataObject
) -> None:
    """Cold and warm, with the files as they were left, and with older ones in their place."""
    graph, warm = new_graph(tmp_path_factory.mktemp("changed")), Cache(2**28)
    graph.create_branch("side")
    older = [read_all(end_files(graph))]
    walk(graph, cache=warm)
    for change in changes:
        CHANGES[change](graph)
        branch = data.draw(st.sampled_from(["main", "side"]))
        if branch == "side" and not data.draw(st.integers(0, 2)):
            graph.load(edges={"Knows": Links(PAIRS[:2]).table()}, branch="side", indexes="always")
        expected = walk_without_files(graph, branch)
        assert walk(graph, branch) == expected
        assert walk(graph, branch, warm) == expected
        older.append(read_all(end_files(graph)))
        for file, content in data.draw(st.sampled_from(older)).items():
            if data.draw(st.booleans()):
                file.write_bytes(content)
        assert walk(graph, branch) == expected


def test_files_that_are_not_right_are_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = new_graph(tmp_path)
    files, expected = read_all(hop_files(graph)), walk(graph)
    assert len(files) == 4
    broken, cut, old, gone = files
    broken.write_bytes(files[broken].replace(b'"parallel"', b'"Parallel"'))
    cut.write_bytes(files[cut][:-8])
    old.write_bytes(files[old].replace(b"OGHOPS01", b"OGHOPS00"))
    gone.unlink()
    assert walk(graph) == expected
    graph.ensure_indexes()
    assert read_all(hop_files(graph)) == files
    sorts = Sorts(monkeypatch)
    assert walk(graph) == expected
    assert sorts.taken() == 0


def test_whole_files_of_something_else_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = new_graph(tmp_path)
    files, expected, sorts = read_all(hop_files(graph)), walk_without_files(graph), Sorts(monkeypatch)
    for others in (["in", "out"], ["out", "out"], ["in", "in"]):
        for file, other in zip(files, [*others, *others], strict=True):
            sources = [each for each in files if each.suffix == f".{other}" and each != file]
            file.write_bytes(files[sources[0]])
        sorts.taken()
        assert walk(graph) == expected
        assert sorts.taken() == 3


def test_a_file_is_replaced_once_much_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = new_graph(tmp_path)
    names, files = {file.name for file in hop_files(graph)}, read_all(hop_files(graph))
    graph.load(edges={"Knows": Links(PAIRS[:2]).table()}, indexes="always")
    assert read_all(hop_files(graph)) == files
    graph.load(nodes={"Person": people(["new"])}, edges={"Knows": Links([("new", "p01")] * 5).table()})
    graph.ensure_indexes()
    changed = read_all(hop_files(graph))
    assert {file.name for file in changed} == names
    assert sum(changed[file] != files[file] for file in files) == 2
    expected, sorts = walk_without_files(graph), Sorts(monkeypatch)
    assert walk(graph) == expected
    assert sorts.taken() == 0


def test_after_a_commit_a_process_with_stored_hops_reads_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither files of ends nor those of hops: the ends of a few edges that are gone are read by their rows."""
    graph, warm, sorts = new_graph(tmp_path), Cache(2**28), Sorts(monkeypatch)
    distinct = 'match { $a: Person { name: "p06" }  $b knows{1,2} $a } return { $b.name as b }'
    walk(graph, cache=warm, walks=[distinct])
    for change in ("insert", "update a node", "delete edges", "delete parallel edges", "update edges"):
        CHANGES[change](graph)
        with monkeypatch.context() as patch:
            patch.setattr(tables, "read_end_file", None)
            patch.setattr(tables, "read_hop_file", None)
            found = walk(graph, cache=warm, walks=[distinct])
        assert sorts.taken() == 0
        assert found == walk_without_files(graph, walks=[distinct])
        sorts.taken()
    with monkeypatch.context() as patch:
        patch.setattr(edge_ends, "_FEW_ENDS", 0)
        graph.mutate('query m() { delete Knows where from = "p09" }')
        assert walk(graph, cache=warm, walks=[distinct]) == walk_without_files(graph, walks=[distinct])
