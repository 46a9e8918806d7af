"""The schema that a graph keeps: by hash, by its head row, and as three files for readers that know only those."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import FormatError, NotFound, StorageError
from omnigraph.graph import Graph
from omnigraph.language.schema import (
    STRICTER_THAN_0_8,
    Schema,
    check_schema,
    encode_ir,
    encode_state,
    parse_schema,
)
from omnigraph.language.source import Source
from omnigraph.manifest import contract, genesis, opening, settings
from omnigraph.manifest.publisher import PublishRequest
from omnigraph.storage.location import Location
from tests.manifest.fence import intent, send
from tests.manifest.publishing import SCHEMA, commit_rows, make_graph, manifest_of

NEWER = SCHEMA + "node Ship { name: String @key }\n"
ROOT_FILES = (contract.SOURCE_FILE, contract.IR_FILE, contract.STATE_FILE)


@pytest.fixture
def graph(local_location: Location) -> Graph:
    return make_graph(local_location)


def root_files(graph: Graph) -> dict[str, str | None]:
    found = {name: Path(graph.uri) / name for name in ROOT_FILES}
    return {name: path.read_text("utf-8") if path.exists() else None for name, path in found.items()}


def projection(schema: Schema) -> dict[str, str]:
    return {
        contract.SOURCE_FILE: schema.text,
        contract.IR_FILE: encode_ir(schema.ir),
        contract.STATE_FILE: encode_state(schema.ir),
    }


def kept(graph: Graph, schema_hash: str) -> Path:
    return Path(graph.uri) / "__schemas" / schema_hash.removeprefix("sha256:")


def apply(graph: Graph, text: str) -> Schema:
    """Move the head row to another schema: its history first, then the publish. The root files stay behind."""
    schema = parse_schema(text)
    contract.keep_schema(manifest_of(graph).objects, schema)
    commit = replace(intent(graph), schema_ir_hash=schema.hash)
    send(graph, PublishRequest(commit, new_schema=schema.hash))
    return schema


def test_init_keeps_the_schema_by_hash_and_as_three_files(graph: Graph) -> None:
    schema = parse_schema(SCHEMA)
    assert root_files(graph) == projection(schema)
    folder = kept(graph, schema.hash)
    assert (folder / "schema.pg").read_text("utf-8") == SCHEMA
    assert (folder / "schema.ir.json").read_text("utf-8") == encode_ir(schema.ir)
    assert graph.schema == schema


def test_the_head_row_decides_and_a_writer_repairs_the_files(graph: Graph) -> None:
    newer = apply(graph, NEWER)
    stale = root_files(graph)
    assert graph.schema == newer
    assert omnigraph.open(graph.uri, "ro").schema == newer
    assert root_files(graph) == stale
    omnigraph.open(graph.uri)
    assert root_files(graph) == projection(newer)


@pytest.mark.parametrize("name", ROOT_FILES)
def test_a_lost_file_is_missed_by_nobody_and_made_again_by_a_writer(graph: Graph, name: str) -> None:
    (Path(graph.uri) / name).unlink()
    assert omnigraph.open(graph.uri, "ro").schema == parse_schema(SCHEMA)
    assert root_files(graph)[name] is None
    omnigraph.open(graph.uri)
    assert root_files(graph) == projection(parse_schema(SCHEMA))


def test_files_that_are_right_are_left_alone(graph: Graph) -> None:
    before = [(Path(graph.uri) / name).stat().st_mtime_ns for name in ROOT_FILES]
    omnigraph.open(graph.uri)
    assert [(Path(graph.uri) / name).stat().st_mtime_ns for name in ROOT_FILES] == before


def test_a_missing_ir_is_compiled_in_memory(graph: Graph) -> None:
    """As in a graph of 0.8 whose two JSON files were removed: no history by hash either."""
    shutil.rmtree(Path(graph.uri) / "__schemas")
    for name in (contract.IR_FILE, contract.STATE_FILE):
        (Path(graph.uri) / name).unlink()
    assert omnigraph.open(graph.uri, "ro").schema.hash == parse_schema(SCHEMA).hash
    assert not (Path(graph.uri) / contract.IR_FILE).exists()


def test_a_commit_is_read_with_its_own_schema_and_the_head_with_the_current_one(graph: Graph) -> None:
    old = commit_rows(graph, {"Person": ["ann"]}).commit
    graph.create_branch("dev")
    newer = apply(graph, NEWER)
    assert graph.snapshot(at=old.id).schema_ir_hash == parse_schema(SCHEMA).hash
    assert graph.snapshot("dev", at="v4").schema_ir_hash == parse_schema(SCHEMA).hash
    assert graph.snapshot().schema_ir_hash == newer.hash
    assert graph.snapshot("dev").schema_ir_hash == newer.hash
    objects = manifest_of(graph).objects
    assert contract.load_schema(objects, parse_schema(SCHEMA).hash) == parse_schema(SCHEMA)


def test_a_kept_schema_is_never_written_twice(graph: Graph) -> None:
    file = kept(graph, graph.schema.hash) / "schema.pg"
    before = file.stat().st_mtime_ns
    contract.keep_schema(manifest_of(graph).objects, graph.schema)
    assert file.stat().st_mtime_ns == before


def test_a_schema_that_was_changed_on_disk_is_refused(graph: Graph) -> None:
    schema_hash = graph.schema.hash
    (kept(graph, schema_hash) / "schema.ir.json").write_text(encode_ir(parse_schema(NEWER).ir), "utf-8")
    with pytest.raises(StorageError, match=f"the stored schema {schema_hash} was changed"):
        _ = omnigraph.open(graph.uri, "ro").schema


def test_an_unknown_schema_is_not_found(graph: Graph) -> None:
    with pytest.raises(NotFound, match="is not in the graph's history"):
        contract.load_schema(manifest_of(graph).objects, "sha256:" + "0" * 64)


def test_a_stored_schema_that_does_not_compile_is_a_format_error(graph: Graph) -> None:
    shutil.rmtree(Path(graph.uri) / "__schemas")
    (Path(graph.uri) / contract.IR_FILE).unlink()
    (Path(graph.uri) / contract.SOURCE_FILE).write_text("node {", "utf-8")
    with pytest.raises(FormatError, match="the stored schema does not compile"):
        _ = omnigraph.open(graph.uri, "ro").schema


def test_a_graph_whose_node_types_differ_only_in_case_still_opens(local_location: Location) -> None:
    text = "node Port { code: String @key }\nnode PORT { code: String @key }\n"
    assert [(each.code, each.position.line) for each in check_schema(Source(text))] == [("S106", 2)]
    chosen = settings.choose_new_settings(local_location, None, None, None)
    manifest = opening.create_manifest(local_location, chosen)
    genesis.init_graph(manifest, parse_schema(Source(text), tolerated=STRICTER_THAN_0_8), chosen, None)
    with omnigraph.open(local_location.uri) as graph:
        graph.load([{"type": "Port", "data": {"code": "a"}}, {"type": "PORT", "data": {"code": "b"}}])
    with omnigraph.open(local_location.uri, mode="ro") as graph:
        assert [row["p.code"] for row in graph.query("query q() { match { $p: PORT } return { $p.code } }").rows] == [
            "b"
        ]
