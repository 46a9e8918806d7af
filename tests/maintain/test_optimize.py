"""Optimize: fewer pieces and whole indexes, the same rows, one commit for each of the two, nobody has to wait."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import NotFound, ReadOnly, StorageError
from omnigraph.graph import Graph
from omnigraph.maintain import optimize as module
from omnigraph.maintain.optimize import CompactionOperation, optimize
from omnigraph.read.search.top_k import find_best_rows
from omnigraph.read.search.vectors import fetch_nearest
from omnigraph.storage.location import Location
from omnigraph.storage.tables import search_vectors
from omnigraph.write.commit.section import CommitOptions, commit_operation
from tests.maintain.ports import REMOVE, add, append_by_another_program, fragments, remove, shown
from tests.write.writers import fail_first_write, run_right_after


def test_the_same_rows_in_fewer_pieces_with_whole_indexes(ports: Graph) -> None:
    before, depth = shown(ports), len(ports.commits())
    at = {commit.id: shown(ports, at=commit.id) for commit in ports.commits()}
    result = ports.optimize(actor="act-ines")
    assert [commit.message for commit in result.commits] == ["compact tables", "ensure indexes"]
    assert {commit.actor for commit in result.commits} == {"act-ines"}
    assert len(ports.commits(upkeep=True)) == depth + 2
    assert fragments(ports) == {"edge:Near": 1, "node:Port": 1}
    assert {table.table_key: table.indexed for table in result.tables} == {
        "node:Port": ("id", "name", "code"),
        "edge:Near": ("id", "src", "dst"),
    }
    assert all(index.rows == 12 for index in ports.snapshot().table("Port").list_indexes().values())
    assert result.manifest_compacted
    assert shown(ports) == before
    assert {commit: shown(ports, at=commit) for commit in at} == at


def test_twice_in_a_row_is_nothing_to_do(ports: Graph) -> None:
    ports.optimize()
    head = ports.snapshot()
    result = ports.optimize()
    assert (result.commits, result.manifest_compacted) == ((), False)
    assert ports.snapshot().manifest_version == head.manifest_version


def test_rows_keep_their_ids_and_the_versions_they_came_with(ports: Graph) -> None:
    remove(ports, "p03")
    columns = ["id", "_row_created_at_version", "_row_last_updated_at_version"]

    def facts() -> list[dict[str, object]]:
        rows = ports.snapshot().table("Port").scan(columns, with_row_id=True).read_all()
        return rows.sort_by("id").to_pylist()

    before = facts()
    ports.optimize()
    assert facts() == before


def test_a_large_fragment_is_not_written_again_for_a_few_rows(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.og", "node Port { code: String @key }")
    graph.load(nodes={"Port": pa.table({"code": [f"p{number}" for number in range(100)]})})
    for number in range(3):
        graph.load(nodes={"Port": pa.table({"code": [f"q{number}"]})})
    assert [commit.message for commit in graph.optimize().commits] == ["ensure indexes"]
    for number in range(3, 10):
        graph.load(nodes={"Port": pa.table({"code": [f"q{number}"]})})
    # Lance puts rows that an index covers and rows that none covers into different pieces.
    # An index grows by a segment for a few rows, and fragments of different segments stay apart until there are more.
    assert [graph.optimize().tables[0].fragments for _ in range(2)] == [5, 5]
    graph.load(nodes={"Port": pa.table({"code": [f"r{number}" for number in range(60)]})})
    assert [graph.optimize().tables[0].fragments for _ in range(2)] == [6, 1]


def test_only_the_types_that_are_named(ports: Graph) -> None:
    result = ports.optimize(types=["Near"])
    assert [table.table_key for table in result.tables] == ["edge:Near"]
    assert fragments(ports) == {"edge:Near": 1, "node:Port": 12}
    with pytest.raises(NotFound, match="no type 'Nea'"):
        ports.optimize(types=["Nea"])


def test_a_branch_has_only_what_it_owns_optimized(ports: Graph) -> None:
    ports.create_branch("dev")
    nothing = ports.optimize("dev")
    assert nothing.commits == ()
    assert {table.skipped for table in nothing.tables} == {
        "branch 'main' owns the table until this branch writes to it"
    }
    add(ports, "q1", "dev")
    before = shown(ports, "dev"), shown(ports)
    ports.optimize("dev")
    assert fragments(ports, "dev") == {"edge:Near": 1, "node:Port": 1}
    assert fragments(ports) == {"edge:Near": 12, "node:Port": 12}
    assert (shown(ports, "dev"), shown(ports)) == before


def test_rows_that_came_meanwhile_are_left_for_the_next_run(ports: Graph) -> None:
    other = omnigraph.open(ports.uri)
    with run_right_after("table.stage", "nodes", lambda: add(other, "late")):
        result = ports.optimize()
    assert [table.skipped for table in result.tables] == [None, None]
    assert fragments(ports) == {"edge:Near": 2, "node:Port": 2}
    assert "late" in shown(ports)[0]


def test_a_table_that_never_rests_is_left_and_said(ports: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    other, count = omnigraph.open(ports.uri), iter(range(100))
    compacted = module.stage_compaction

    def overtaken(*arguments: object, **more: object) -> object:
        staged = compacted(*arguments, **more)  # pyright: ignore[reportArgumentType]  as it was called
        other.mutate(REMOVE, params={"code": f"p{next(count):02}"}, retries=9)
        return staged

    monkeypatch.setattr(module, "stage_compaction", overtaken)
    depth = len(ports.commits(upkeep=True))
    result = optimize(ports._manifest)
    skipped = {table.table_key: table.skipped for table in result.tables}
    assert all(reason is not None and "others changed its rows" in reason for reason in skipped.values())
    removed = next(count)
    assert len(shown(ports)[0]) == 12 - removed
    assert len(ports.commits(upkeep=True)) == depth + removed + 1, "the writers' commits, and one for the indexes"


def test_a_strict_writer_that_began_before_is_not_disturbed(ports: Graph) -> None:
    other = omnigraph.open(ports.uri)
    with ports.transaction() as tx:
        tx.mutate('query deeper() { update Port set { depth: 3.0 } where code = "p01" }')
        other.optimize()
    assert ports.get("Port", "p01", ["depth"]) == {"depth": 3.0}
    assert len(shown(ports)[0]) == 12


def test_what_another_program_did_is_left_for_repair(ports: Graph) -> None:
    append_by_another_program(ports, "x")
    result = ports.optimize()
    assert {table.table_key: table.skipped for table in result.tables} == {
        "node:Port": "it was changed by another program; run `omnigraph repair`",
        "edge:Near": None,
    }
    assert fragments(ports)["edge:Near"] == 1


def test_a_failed_compaction_is_taken_back(ports: Graph) -> None:
    before = shown(ports)
    with fail_first_write("table.commit", "before", "edges"), pytest.raises(StorageError, match="injected"):
        ports.optimize()
    assert shown(ports) == before
    assert fragments(ports) == {"edge:Near": 12, "node:Port": 12}
    ports.optimize()
    assert (shown(ports), fragments(ports)) == (before, {"edge:Near": 1, "node:Port": 1})


def test_a_reader_may_not(ports: Graph) -> None:
    graph = omnigraph.open(ports.uri, "ro")
    for upkeep in (graph.optimize, graph.cleanup, graph.repair):
        with pytest.raises(ReadOnly):
            upkeep()


def test_deleted_vectors_do_not_take_the_places_of_others(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.og", "node Spot { code: String @key  at: Vector(2) @index }")
    spots = range(60)
    rows = pa.table({"code": [f"s{at:02}" for at in spots], "at": [[float(at), 0.0] for at in spots]})
    graph.load(nodes={"Spot": rows})
    graph.ensure_indexes()
    graph.mutate('query gone() { delete Spot where code < "s30" }')
    # What an optimize that died before the indexes leaves.
    terms = CommitOptions(schema_ir_hash=graph._manifest.schema_hash())
    assert commit_operation(graph._manifest, CompactionOperation(("node:Spot",)), terms).commit is not None
    table, origin = graph.snapshot().table("Spot"), np.zeros(2, np.float32)
    assert table.list_indexes()["at_idx"].rows, "it is older than the compaction"
    assert search_vectors(table, "at", origin, 19).num_rows < 19
    found = find_best_rows(fetch_nearest(table, "at", origin), 3)
    assert found is not None
    assert found.rows["id"].take(found.order_best(3)).to_pylist() == ["s30", "s31", "s32"]
    near = "query near($q: Vector(2)) { match { $s: Spot } return { $s.code } order { nearest($s.at, $q) } limit 3 }"
    assert [row["s.code"] for row in graph.query(near, params={"q": [0.0, 0.0]}).rows] == ["s30", "s31", "s32"]


def test_on_an_object_store(s3_location: Location) -> None:
    options = dict(s3_location.storage_options)
    graph = omnigraph.init(s3_location.uri, "node Port { code: String @key }", storage_options=options)
    for number in range(3):
        graph.load(nodes={"Port": pa.table({"code": [f"p{number}"]})})
    assert graph.optimize().tables[0].fragments == 1
    assert graph.info().nodes == {"Port": 3}
