"""What a process that never ends keeps: as much after many commits, branches, schemas and callers as after a few."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from lance.dataset import LanceDataset

import omnigraph
from omnigraph import Graph
from omnigraph.manifest import handle
from omnigraph.manifest.handle import Manifest
from omnigraph.server import Limits, admission
from omnigraph.server.admission import Admission
from omnigraph.server.request_log import RequestLog, RequestRecord
from omnigraph.storage.locks import lock
from omnigraph.storage.tables import Access, append, commit, create_table
from omnigraph.storage.tables.access import make_session

SCHEMA = "node Note { name: String @key  text: String? }"
ADD = "query add($n: String) { insert Note { name: $n } }"
COUNT = "query count() { match { $n: Note } return { count($n) as n } }"
NAMES = "query names() { match { $n: Note } return { $n.name as name } order { name } }"


def manifest_of(graph: Graph) -> Manifest:
    return graph._manifest  # pyright: ignore[reportPrivateUsage]


def test_lance_keeps_no_more_versions_than_there_is_room_for(tmp_path: Path) -> None:
    rows = pa.table({"id": ["a"]})
    room = 2_000
    access = Access(session=make_session(room))
    table = create_table(str(tmp_path / "t"), rows, "op", access)
    sizes = list[int]()
    for _ in range(20):
        staged = append(table, rows)
        assert staged is not None
        table = commit(table, staged, "op")
        table.scan(["id"]).read_all()
        sizes.append(access.session.size_bytes() - access.session.index_cache_size_bytes())
    # The names of what is kept count too, but not toward the limit.
    assert max(sizes[10:]) < 2 * 16 * room


def test_a_graph_that_outgrows_its_caches_gets_larger_ones(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "brain.og", SCHEMA)
    manifest = manifest_of(graph)
    first = manifest.access = replace(manifest.access, room=3)
    for number in range(3):
        graph.mutate(ADD, params={"n": f"n{number}"})
        assert graph.query(COUNT).rows == [{"n": number + 1}]
    assert manifest.access is first
    for number in range(3, 7):
        graph.mutate(ADD, params={"n": f"n{number}"})
        assert graph.query(NAMES).rows == [{"name": f"n{each}"} for each in range(number + 1)]
    # At four rows there was room for eight, once.
    assert (manifest.access.room, manifest.access.session is first.session) == (8, False)
    assert graph.snapshot().table("Note").access.session is manifest.access.session


def test_versions_that_nobody_reads_are_closed(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "brain.og", SCHEMA)
    # Of fewer rows the process keeps what it wrote, with the handle that wrote them.
    rows = pa.table({"name": [f"n{number}" for number in range(100)]})

    def count_open(commits: int) -> int:
        for number in range(commits):
            graph.load(nodes={"Note": rows.append_column("text", pa.array([f"{number}"] * 100))}, mode="merge")
            assert graph.query(COUNT).rows == [{"n": 100}]
        gc.collect()
        return sum(isinstance(each, LanceDataset) for each in gc.get_objects())

    assert count_open(8) >= count_open(8)


def test_branches_of_the_past_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handle, "_MOST_BRANCHES", 3)
    graph = omnigraph.init(tmp_path / "brain.og", SCHEMA)
    with omnigraph.open(tmp_path / "brain.og") as other:
        manifest = manifest_of(other)
        for number in range(6):
            graph.create_branch(f"b{number}")
            other.mutate(ADD, params={"n": "a"}, branch=f"b{number}")
            # This handle is not told.
            graph.delete_branch(f"b{number}")
        kept = {"main", "b4", "b5"}
        assert set(manifest._views) == kept  # pyright: ignore[reportPrivateUsage]
        assert set(manifest._view_files) == kept  # pyright: ignore[reportPrivateUsage]
        assert {branch for branch, _ in manifest._committed} == {"b4", "b5"}  # pyright: ignore[reportPrivateUsage]
        for of_branches in (manifest.head_snapshots, manifest.lease_chains, manifest.examined):
            assert set(of_branches) <= kept
        assert other.query(COUNT).rows == [{"n": 0}]
    manifest = manifest_of(graph)
    for of_branches in (manifest.head_snapshots, manifest.lease_chains, manifest.examined):
        assert set(of_branches) <= {"main"}
    gc.collect()
    root = manifest.location.base
    assert [name for where, name in lock._between_threads if where == root] == []  # pyright: ignore[reportPrivateUsage]


def test_schemas_of_the_past_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handle, "_MOST_SCHEMAS", 2)
    graph = omnigraph.init(tmp_path / "brain.og", SCHEMA)
    graph.mutate(ADD, params={"n": "a"})
    for number in range(4):
        graph.apply_schema(f"{SCHEMA}\nnode T{number} {{ name: String @key }}", allow_data_loss=True)
        assert graph.query(COUNT).rows == [{"n": 1}]
    manifest = manifest_of(graph)
    assert (len(manifest.schemas), len(manifest.schema_lags)) <= (2, 2)


def test_callers_of_the_past_are_forgotten(runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_MOST_BRANCHES", 4)
    monkeypatch.setattr(admission, "_MOST_ADDRESSES", 4)

    async def scenario() -> None:
        admitted = Admission(Limits())
        for number in range(9):
            async with admitted.admit_read(f"act-{number}"), admitted.admit_write("ann", "brain", f"b{number}", 60):
                pass
            admitted.record_failed_login(f"10.0.0.{number}")
        assert not admitted._actor_slots  # pyright: ignore[reportPrivateUsage]
        assert len(admitted._branches) == 4  # pyright: ignore[reportPrivateUsage]
        assert list(admitted._failures) == [f"10.0.0.{number}" for number in range(5, 9)]  # pyright: ignore[reportPrivateUsage]

    runner.run(scenario())


def test_invented_methods_are_one_count(tmp_path: Path) -> None:
    log = RequestLog(tmp_path / "audit.jsonl")
    for number in range(5):
        log.record_end(RequestRecord(f"r{number}", f"METHOD{number}"), 405)
    lines = log.export_metrics().decode().splitlines()
    counted = [line for line in lines if line.startswith("omnigraph_requests_total{")]
    assert counted == ['omnigraph_requests_total{method="other",route="none",status="405"} 5.0']
