"""Indexes on ids and ends: a commit of their own, once, and only where they pay."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.errors import ConflictError
from omnigraph.graph import Graph
from omnigraph.write import indexes, load
from omnigraph.write.indexes import ensure_indexes
from tests.graphs import written
from tests.write.interleaving import meanwhile


def indexed(graph: Graph, name: str, branch: str = "main") -> dict[str, int]:
    return {index.columns[0]: index.rows for index in graph.snapshot(branch).table(name).indexes().values()}


def ports(first: int, count: int) -> pa.Table:
    codes = [f"x{number}" for number in range(first, first + count)]
    return pa.table({"code": codes, "name": codes})


def test_all_tables_with_rows_in_one_commit(fleet: Graph) -> None:
    before = fleet.snapshot()
    made = ensure_indexes(fleet._manifest, "main", actor="act-ann")
    assert made is not None
    assert (made, made.actor) == (fleet.commits()[0], "act-ann")
    assert indexed(fleet, "Vessel") == {"id": 3}
    assert indexed(fleet, "Tows") == {"id": 1, "src": 1, "dst": 1}
    assert indexed(fleet, "HomePort") == {}
    after = fleet.snapshot()
    assert after.pins["edge:Tows"].version == before.pins["edge:Tows"].version + 1


def test_a_second_time_there_is_nothing_to_do(fleet: Graph) -> None:
    ensure_indexes(fleet._manifest, "main")
    before = written(fleet)
    assert ensure_indexes(fleet._manifest, "main") is None
    assert written(fleet) == before


def test_an_index_is_built_anew_when_many_rows_lie_beyond_it(fleet: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "MOST_UNCOVERED", 10)
    ensure_indexes(fleet._manifest, "main")
    fleet.load(nodes={"Port": ports(0, 10)})
    assert ensure_indexes(fleet._manifest, "main") is None
    fleet.load(nodes={"Port": ports(10, 1)})
    assert ensure_indexes(fleet._manifest, "main") is not None
    assert indexed(fleet, "Port") == {"id": 13}
    assert fleet.snapshot().table("Port").count_rows("id = 'x10'") == 1


def test_a_branch_is_not_forked_for_an_index(fleet: Graph) -> None:
    fleet.create_branch("b")
    fleet.load(nodes={"Port": ports(0, 5)}, branch="b")
    ensure_indexes(fleet._manifest, "b")
    assert indexed(fleet, "Port", "b") == {"id": 7}
    assert fleet.snapshot("b").pins["node:Vessel"].branch is None
    assert indexed(fleet, "Port") == {}


def test_large_loads_are_indexed_afterwards(fleet: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "INDEXED_FROM", 5)
    fleet.load(nodes={"Port": ports(0, 5)})
    assert indexed(fleet, "Port") == {}
    result = fleet.load(nodes={"Port": ports(5, 6)})
    assert indexed(fleet, "Port") == {"id": 13}
    assert result.commit == fleet.commits()[1]
    fleet.load(nodes={"Leg": pa.table({"line": ["a"] * 9, "seq": list(range(9))})}, indexes="never")
    assert indexed(fleet, "Leg") == {}
    fleet.load(nodes={"Leg": pa.table({"line": ["b"], "seq": [1]})}, indexes="always")
    assert indexed(fleet, "Leg") == {"id": 10}


def test_rows_that_come_meanwhile_are_not_lost(fleet: Graph) -> None:
    with meanwhile(lambda: fleet.load(nodes={"Port": ports(0, 5)})):
        ensure_indexes(fleet._manifest, "main", ["node:Port"])
    assert fleet.snapshot().pins["node:Port"].row_count == 7
    assert indexed(fleet, "Port") == {"id": 7}


def test_an_index_that_fails_does_not_fail_the_load(
    fleet: Graph, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def busy(*_: object) -> None:
        raise ConflictError("busy")

    monkeypatch.setattr(load, "ensure_indexes", busy)
    assert fleet.load(nodes={"Port": ports(0, 1)}, indexes="always").commit is not None
    assert "were not built: busy" in caplog.text
