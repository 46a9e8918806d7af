"""Verify: a sound graph has no findings, and each thing that can be wrong has one that names it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.maintain import verify as module
from omnigraph.maintain.verify import FindingKind
from omnigraph.write.commit.audit import DIRECTORY, Recovery, RecoveryKind, record_recovery
from tests.graphs import written
from tests.maintain.ports import add, append_by_another_program, cleanup_now, uri_of
from tests.write.conftest import FLEET


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.0)


def data_files(graph: Graph) -> list[Path]:
    return sorted(Path(uri_of(graph, "node:Port"), "data").glob("*.lance"))


def test_a_sound_graph(ports: Graph) -> None:
    ports.create_branch("dev")
    add(ports, "q1", "dev")
    ports.create_tag("first", ports.commits()[-2].id)
    ports.optimize()
    reader = omnigraph.open(ports.uri, "ro")
    before = written(ports)
    found = reader.verify()
    assert found.findings == ()
    assert (found.branches, found.rows, found.tags) == (2, 24 + 26, 1)
    assert found.commits == len(ports.commits(upkeep=True)) + 1
    assert written(ports) == before


def test_commits_that_cleanup_took_are_no_finding(ports: Graph) -> None:
    cleanup_now(ports, 2)
    found = ports.verify()
    assert (found.findings, found.commits, found.commits_gone) == ((), 2, 11)


def publish_foreign(graph: Graph, code: str, key: str | None = None) -> None:
    append_by_another_program(graph, code, key)
    graph.repair(confirm=True, force=True)


def lose_a_data_file(graph: Graph) -> None:
    data_files(graph)[3].unlink()


def damage_a_data_file(graph: Graph) -> None:
    file = data_files(graph)[3]
    file.write_bytes(b"\0" * file.stat().st_size)


def lose_the_head(graph: Graph) -> None:
    version = graph.snapshot().pins["node:Port"].version
    versions = Path(uri_of(graph, "node:Port"), "_versions")
    (versions / f"{2**64 - 1 - version:020}.manifest").unlink()


def leave_an_orphan(graph: Graph) -> None:
    file = data_files(graph)[0].with_name("orphan.lance")
    file.write_bytes(b"1234")
    long_ago = time.time() - 8 * 86_400
    os.utime(file, (long_ago, long_ago))


def tag_nothing(graph: Graph) -> None:
    graph.create_tag("t")
    file = Path(graph.uri, "__tags", "t.json")
    file.write_text(file.read_text().replace(graph.commits()[0].id, "0" * 26))


def damage_a_tag(graph: Graph) -> None:
    graph.create_tag("t")
    Path(graph.uri, "__tags", "t.json").write_text("{")


def lose_the_schema(graph: Graph) -> None:
    Path(graph.uri, "__schema_state.json").unlink()


def leave_a_sidecar(graph: Graph) -> None:
    folder = Path(graph.uri, "__recovery")
    folder.mkdir(exist_ok=True)
    (folder / "x.json").write_text("[")


def count_wrongly(graph: Graph) -> None:
    uri = f"{graph.uri}/__manifest"
    lance.dataset(uri).update({"row_count": "row_count + 1"}, where="object_type = 'table_version' AND row_count = 12")


def detach_an_edge(graph: Graph) -> None:
    uri = uri_of(graph, "edge:Near")
    row = {"id": "e", "src": "p01", "dst": "nowhere"}
    lance.write_dataset(pa.Table.from_pylist([row], schema=lance.dataset(uri).schema), uri, mode="append")
    graph.repair(confirm=True, force=True)


WRONG: dict[str, tuple[Callable[[Graph], None], FindingKind, str]] = {
    "a key twice": (lambda graph: publish_foreign(graph, "p03"), FindingKind.RULE, "p03"),
    "an id that is not that of the key": (lambda graph: publish_foreign(graph, "x", "y"), FindingKind.RULE, "Port x"),
    "an edge to nowhere": (detach_an_edge, FindingKind.RULE, "Near e"),
    "a data file is lost": (lose_a_data_file, FindingKind.MISSING_FILE, "data/"),
    "a data file is damaged": (damage_a_data_file, FindingKind.UNREADABLE, "node:Port"),
    "the newest version is lost": (lose_the_head, FindingKind.UNREADABLE, "node:Port"),
    "an orphan": (leave_an_orphan, FindingKind.ORPHAN, "nodes/"),
    "a tag of no commit": (tag_nothing, FindingKind.TAG, "tag t"),
    "a damaged tag": (damage_a_tag, FindingKind.TAG, "tag t"),
    "a root file is lost": (lose_the_schema, FindingKind.SCHEMA, "__schema_state.json"),
    "drift": (lambda graph: append_by_another_program(graph, "x"), FindingKind.DRIFT, "node:Port"),
    "a damaged sidecar": (leave_a_sidecar, FindingKind.UNFINISHED, "recovery"),
    "a wrong row count": (count_wrongly, FindingKind.ROW_COUNT, "node:Port"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found(ports: Graph, name: str) -> None:
    break_it, kind, where = WRONG[name]
    break_it(ports)
    found = omnigraph.open(ports.uri, "ro").verify()
    assert [(each.kind, each.remedy != "") for each in found.findings if each.kind is kind and where in each.where], (
        found
    )


def test_every_rule_of_a_larger_schema(fleet: Graph) -> None:
    assert fleet.verify().findings == ()
    assert fleet.verify().rows == len(FLEET)


# --------------------------------------------------------------------------------------------- blobs, audit, feed


@pytest.fixture
def docs(tmp_path: Path) -> Graph:
    """A blob among the rows, one in a file of its own, one that is empty, one outside of the graph, and none."""
    outside = tmp_path / "outside.bin"
    outside.write_bytes(b"o" * 7)
    graph = omnigraph.init(tmp_path / "docs.og", "node Doc { name: String @key  file: Blob? }")
    contents = {"small": b"s" * 100, "large": os.urandom(5 * 1024 * 1024), "empty": b"", "none": None}
    rows = [{"name": name, "file": data} for name, data in contents.items()]
    graph.load(
        nodes={"Doc": pa.Table.from_pylist(rows, schema=pa.schema([("name", pa.string()), ("file", pa.binary())]))}
    )
    insert = 'query q($file: Blob) { insert Doc { name: "outside", file: $file } }'
    graph.mutate(insert, params={"file": outside.as_uri()})
    return graph


def test_every_blob_is_read(docs: Graph) -> None:
    found = docs.verify()
    assert (found.findings, found.blobs, found.blob_bytes) == ((), 4, 100 + 5 * 1024 * 1024 + 7)


def test_a_blob_that_lost_its_bytes_is_found(docs: Graph, tmp_path: Path) -> None:
    (tmp_path / "outside.bin").unlink()
    large = max((tmp_path / "docs.og").rglob("*.blob"), key=lambda file: file.stat().st_size)
    large.write_bytes(large.read_bytes()[: 1024 * 1024])
    found = [(each.kind, each.where) for each in docs.verify().findings]
    assert (FindingKind.BLOB, "main: Doc outside, file") in found
    assert (FindingKind.BLOB, "main: Doc large, file") in found
    assert len(found) == 2


def test_the_audit_is_read(ports: Graph) -> None:
    row = Recovery("c", RecoveryKind.ROLLED_BACK, None, "one", "Load", (), datetime(2026, 1, 1, tzinfo=UTC))
    record_recovery(ports._manifest, row)
    found = ports.verify()
    assert (found.findings, found.recoveries) == ((), 1)
    audit = str(Path(ports.uri, DIRECTORY))
    lance.write_dataset(lance.dataset(audit).to_table(), audit, mode="append")
    assert [(each.kind, each.where) for each in ports.verify().findings] == [(FindingKind.AUDIT, "operation one")]
    lance.dataset(audit).update({"per_table_outcomes_json": "'Nonsense'"})
    (finding,) = ports.verify().findings
    assert "Nonsense" in finding.what


def test_a_commit_that_does_not_follow_the_one_before_it_is_found(ports: Graph) -> None:
    commits = ports.commits()
    manifest = lance.dataset(str(Path(ports.uri, "__manifest")))
    metadata = f"replace(metadata, '{commits[1].id}', '{commits[2].id}')"
    manifest.update({"metadata": metadata}, where=f"object_id = '{commits[0].id}'")
    findings = omnigraph.open(ports.uri, "ro").verify().findings
    assert (FindingKind.HISTORY, f"commit {commits[0].id}") in [(each.kind, each.where) for each in findings]
