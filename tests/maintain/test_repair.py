"""Repair: what moved without the graph is told apart, shown, and ended only when that is confirmed."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import DriftDetected, RecoveryError
from omnigraph.graph import Graph
from omnigraph.maintain.repair import FORCE_ACTOR, REPAIR_ACTOR, DriftKind
from omnigraph.storage import tables
from omnigraph.write.commit.audit import RecoveryKind
from tests.crash import kill_at, record
from tests.deleting import delete_where
from tests.graphs import written
from tests.maintain.ports import add, append_by_another_program, fragments, shown, uri_of
from tests.write.fleet import open_unhealed


def kinds(graph: Graph) -> dict[str, DriftKind]:
    return {drift.table_key: drift.kind for drift in graph.repair().drifts}


def test_a_graph_without_drift(ports: Graph) -> None:
    before = written(ports)
    result = ports.repair(confirm=True, force=True)
    assert (result.drifts, result.commits) == ((), ())
    assert written(ports) == before


def test_a_compaction_by_another_program_is_published(ports: Graph) -> None:
    lance.dataset(uri_of(ports, "node:Port")).optimize.compact_files()
    before, rows = written(ports), shown(ports)
    (drift,) = ports.repair().drifts
    assert (drift.kind, drift.remedy) == (DriftKind.MAINTENANCE, "published")
    assert written(ports) == before, "a preview changes nothing"
    result = ports.repair(confirm=True)
    assert [commit.actor for commit in result.commits] == [REPAIR_ACTOR]
    assert (fragments(ports)["node:Port"], shown(ports)) == (1, rows)
    assert ports.repair().drifts == ()


def test_an_indexed_table_that_another_program_compacted(ports: Graph) -> None:
    ports.ensure_indexes()
    lance.dataset(uri_of(ports, "node:Port")).optimize.compact_files()
    assert kinds(ports) == {"node:Port": DriftKind.MAINTENANCE}
    ports.repair(confirm=True)
    assert ports.repair().drifts == ()
    add(ports, "q1")


def test_rows_of_another_program_need_force(ports: Graph) -> None:
    append_by_another_program(ports, "x1")
    with pytest.raises(DriftDetected, match="repair"):
        add(ports, "q1")
    assert kinds(ports) == {"node:Port": DriftKind.SUSPICIOUS}
    before = written(ports)
    assert ports.repair(confirm=True).commits == ()
    assert written(ports) == before
    result = ports.repair(confirm=True, force=True)
    assert [commit.actor for commit in result.commits] == [FORCE_ACTOR]
    assert "x1" in shown(ports)[0]
    add(ports, "q1")


def test_other_columns_are_taken_back_even_with_force(ports: Graph) -> None:
    rows = shown(ports)
    lance.write_dataset(pa.table({"id": ["x"]}), uri_of(ports, "node:Port"), mode="overwrite")
    (drift,) = ports.repair(force=True).drifts
    assert (drift.kind, drift.remedy) == (DriftKind.SUSPICIOUS, "taken back")
    ports.repair(confirm=True, force=True)
    assert shown(ports) == rows
    assert [found.kind for found in ports.recoveries()] == [RecoveryKind.DRIFT_DISCARDED]
    add(ports, "q1")


def test_what_a_dead_writer_left_without_a_sidecar_is_taken_back(ports: Graph) -> None:
    rows = shown(ports)
    table = ports.snapshot().table("Port")
    staged = delete_where(table, "id = 'p01'")
    assert staged is not None
    tables.commit(table, staged, "op-of-the-dead")
    (drift,) = ports.repair().drifts
    assert (drift.kind, drift.remedy) == (DriftKind.OURS, "taken back")
    ports.repair(confirm=True, force=True)
    assert shown(ports) == rows
    assert ports.repair().drifts == ()


def test_on_a_branch(ports: Graph) -> None:
    ports.create_branch("dev")
    add(ports, "q1", "dev")
    lance.dataset(uri_of(ports, "node:Port", "dev")).optimize.compact_files()
    (drift,) = ports.repair(confirm=True).drifts
    assert (drift.branch, drift.kind) == ("dev", DriftKind.MAINTENANCE)
    assert fragments(ports, "dev")["node:Port"] == 1
    assert fragments(ports)["node:Port"] == 12


def test_a_table_below_its_pin_is_only_told_of(ports: Graph) -> None:
    pin = ports.snapshot().pins["node:Port"]
    versions = Path(uri_of(ports, "node:Port"), "_versions")
    for file in versions.iterdir():
        if file.name.startswith(f"{2**64 - 1 - pin.version:020}") or file.name.startswith("latest"):
            file.unlink()
    graph = omnigraph.open(ports.uri)
    (drift,) = graph.repair(confirm=True, force=True).drifts
    assert (drift.kind, drift.head, drift.remedy) == (DriftKind.LOST, pin.version - 1, None)


def test_refused_while_a_write_is_unfinished(ports_template: Path, tmp_path: Path) -> None:
    uri = str(shutil.copytree(ports_template, tmp_path / "other.og"))
    steps = record(add_at, str(shutil.copytree(ports_template, tmp_path / "recorded.og")))
    publish = next(step.number for step in steps if step.name == "table.merge")
    kill_at(add_at, (uri,), publish, "before")
    graph = open_unhealed(uri)
    before = written(graph)
    with pytest.raises(RecoveryError, match="unfinished"):
        graph.repair(confirm=True, force=True)
    assert written(graph) == before
    assert omnigraph.open(uri).repair().drifts == (), "opening it finished the write"
    assert "q1" in shown(graph)[0]


def add_at(uri: str) -> None:
    add(open_unhealed(uri), "q1")
