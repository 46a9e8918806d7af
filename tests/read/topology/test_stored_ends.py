"""Walks over edges whose ends are stored as numbers, with files that are whole, stale, broken, foreign or gone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.graph import Graph
from omnigraph.maintain.cleanup import cleanup
from omnigraph.maintain.orphans import ReclaimKind
from omnigraph.read import query as queries
from omnigraph.read.frames import Strategy
from omnigraph.read.frames.cache import Cache
from omnigraph.read.query import QueryOptions, QueryRequest, run_query
from omnigraph.storage import tables
from tests.read.walked_graphs import SCHEMA, Links, Scans, people
from tests.selection import sized

NAMES = [f"p{number:02}" for number in range(20)]
PAIRS = [(NAMES[at], NAMES[(at * step + step) % 20]) for at in range(20) for step in (1, 3, 7)]
WALKS = (
    "match { $a: Person  $a $e:knows $b } return { $a.name as a, $b.name as b, $e.since as s }",
    "match { $a: Person  $a knows{1,2} $b } return { $a.name as a, $b.name as b }",
    "match { $a: Person  $a livesIn $c } return { $a.name as a, $c.name as b }",
    'match { $b: Person { name: "p06" }  $a knows{1,3} $b } return { $a.name as a, $b.name as b }',
    "match { $a: Person  $a knows $b  $b knows $c } return { count($c) as n }",
)


@pytest.fixture(autouse=True)
def _every_fragment_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LEAST_NUMBERED_ROWS", 1)


def new_graph(folder: Path) -> Graph:
    graph = omnigraph.init(folder / "g.og", SCHEMA)
    graph.load(
        nodes={"Person": people(NAMES), "City": pa.table({"name": ["here", "there"]})},
        edges={
            "Knows": Links([*PAIRS, *PAIRS[:5], (NAMES[1], NAMES[1])]).table(),
            "LivesIn": Links([(name, "here" if at % 3 else "there") for at, name in enumerate(NAMES)]).table(),
        },
        indexes="always",
    )
    return graph


def end_files(graph: Graph) -> list[Path]:
    """The files of ends, one for each fragment of edges, and of hops, two for each table."""
    # A glob fails where another process deletes a folder under it.
    folders = ((Path(folder), files) for folder, _, files in os.walk(Path(str(graph.uri)) / "edges"))
    return sorted(folder / file for folder, files in folders for file in files if folder.name == "_ends")


def walk(
    graph: Graph, branch: str = "main", cache: Cache | None = None, walks: Sequence[str] = WALKS
) -> list[list[str]]:
    """The rows of all walks, computed with nothing in memory, or with what a cache holds."""
    found: list[list[str]] = []
    with pytest.MonkeyPatch.context() as patch:
        used = cache or Cache(2**28)
        patch.setattr(queries, "shared_cache", lambda: used)
        for text in walks:
            request = QueryRequest(f"query q() {{ {text} }}")
            rows = run_query(graph._manifest, request, branch, None, QueryOptions(strategy=Strategy.ARRAYS))
            found.append(sorted(map(str, rows.to_arrow().to_pylist())))
    return found


def walk_without_files(graph: Graph, branch: str = "main", walks: Sequence[str] = WALKS) -> list[list[str]]:
    """The same rows, found by ids."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "LEAST_NUMBERED_ROWS", 2**62)
        return walk(graph, branch, walks=walks)


def test_a_cold_walk_reads_no_texts_of_edges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, scans = new_graph(tmp_path), Scans(monkeypatch)
    expected = walk_without_files(graph)
    read = scans.taken()
    assert len(end_files(graph)) == 2 * 3
    assert walk(graph) == expected
    assert sum(scans.taken()) <= sum(read) - 66 - 20
    reader = omnigraph.open(graph.uri, mode="ro")
    assert walk(reader) == expected


CHANGES: dict[str, Callable[[Graph], object]] = {
    "update a node": lambda graph: graph.mutate('query m() { update Person set { age: 9 } where name = "p03" }'),
    "delete a node": lambda graph: graph.mutate('query m() { delete Person where name = "p04" }'),
    "delete edges": lambda graph: graph.mutate('query m() { delete Knows where from = "p05" }'),
    "delete parallel edges": lambda graph: graph.mutate('query m() { delete Knows where from = "p00" }'),
    "update edges": lambda graph: graph.mutate(
        'query m() { match { $a: Person { name: "p08" }  $a $e:knows $b } update $e set { since: 9 } }'
    ),
    "insert": lambda graph: graph.mutate(
        'query m() { insert Person { name: "new" } insert Knows { from: "new", to: "p06" } }'
    ),
    "update many": lambda graph: graph.load(nodes={"Person": people(NAMES[6:])}, mode="merge"),
    "optimize": lambda graph: graph.optimize(),
    "indexes": lambda graph: graph.ensure_indexes(),
    "a new column": lambda graph: graph.apply_schema(SCHEMA.replace("since: I32?", "since: I32?  until: I32?")),
    "overwrite": lambda graph: graph.load(edges={"LivesIn": Links([("p07", "here")]).table()}, mode="overwrite"),
}


@settings(max_examples=sized(4, 60))
@given(st.lists(st.sampled_from(list(CHANGES)), min_size=1, max_size=6, unique=True))
def test_after_any_commits_the_rows_are_those_without_files(
    tmp_path_factory: pytest.TempPathFactory, changes: list[str]
) -> None:
    graph = new_graph(tmp_path_factory.mktemp("changed"))
    graph.create_branch("side")
    before = walk(graph, "side")
    for change in changes:
        CHANGES[change](graph)
        assert walk(graph) == walk_without_files(graph)
        assert walk(graph, "side") == before == walk_without_files(graph, "side")


def test_nodes_that_were_rewritten_get_new_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = new_graph(tmp_path)
    files = {file.name: file.read_bytes() for file in end_files(graph)}
    CHANGES["update many"](graph)
    graph.optimize()
    assert {file.name: file.read_bytes() for file in end_files(graph)} != files
    graph.load(nodes={"Person": people(NAMES)}, mode="merge", indexes="always")
    scans = Scans(monkeypatch)
    walk_without_files(graph)
    read = scans.taken()
    walk(graph)
    assert sum(scans.taken()) < sum(read)


# --------------------------------------------------------------------------------------------- files that are not right


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Graph, list[list[str]]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "LEAST_NUMBERED_ROWS", 1)
        graph = new_graph(tmp_path_factory.mktemp("stored"))
    return graph, walk_without_files(graph)


@settings(max_examples=sized(20, 300))
@given(st.data())
def test_a_broken_file_counts_as_missing(stored: tuple[Graph, list[list[str]]], data: st.DataObject) -> None:
    graph, expected = stored
    files = end_files(graph)
    file = data.draw(st.sampled_from(files))
    whole = file.read_bytes()
    kind = data.draw(st.sampled_from(["cut", "flipped", "longer", "another", "gone", "folder"]))
    at = data.draw(st.integers(0, len(whole) - 1))
    try:
        match kind:
            case "cut":
                file.write_bytes(whole[:at])
            case "flipped":
                file.write_bytes(
                    bytes([*whole[:at], whole[at] ^ (1 << data.draw(st.integers(0, 7))), *whole[at + 1 :]])
                )
            case "longer":
                file.write_bytes(whole + whole[-8:])
            case "another":
                file.write_bytes(next(each for each in files if each != file).read_bytes())
            case _:
                file.unlink()
                if kind == "folder":
                    file.mkdir()
        assert walk(graph) == expected
    finally:
        if file.is_dir():
            file.rmdir()
        file.write_bytes(whole)


def test_files_that_cannot_be_written_delay_nobody(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    for file in end_files(graph):
        shutil.rmtree(file.parent, ignore_errors=True)
        file.parent.write_bytes(b"in the way")
    expected = walk(graph)
    graph.load(edges={"Knows": Links(PAIRS[:3]).table()}, indexes="always")
    assert len(walk(graph)[0]) == len(expected[0]) + 3


def test_cleanup_removes_the_files_of_removed_rows(tmp_path: Path) -> None:
    graph, at_once = new_graph(tmp_path), timedelta(0)
    before = {file.name for file in end_files(graph)}
    CHANGES["overwrite"](graph)
    graph.ensure_indexes()
    expected = walk(graph)
    cleanup(graph._manifest, 1, confirm=True, stale_after=at_once, grace=at_once)
    after = {file.name for file in end_files(graph)}
    assert len(after) == 2 * 3
    assert len(before & after) == 3
    assert walk(graph) == expected
    assert not graph.verify().findings
    file = end_files(graph)[0]
    file.with_name(f"gone.{file.suffix}").write_bytes(b"of rows that nobody has")
    again = cleanup(graph._manifest, 1, confirm=True, stale_after=at_once, grace=at_once)
    assert {each.kind: each.count for each in again.reclaimed} == {ReclaimKind.DERIVED: 1}
