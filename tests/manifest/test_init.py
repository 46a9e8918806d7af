"""How a graph begins, what is on disk then, and what opening it does and does not do."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import cast

import pytest

import omnigraph
from omnigraph.errors import AlreadyExists, ConflictError, NotFound, ParameterError
from omnigraph.graph import Graph, Mode
from omnigraph.language.schema import TableKey
from omnigraph.manifest.migrations import CURRENT, STAMP
from omnigraph.manifest.rows import (
    MAIN,
    SCHEMA,
    CommitRecord,
    HeadPointer,
    Registration,
    SchemaHead,
    TableVersion,
    decode_rows,
    locate_manifest_file,
)
from omnigraph.storage import tables
from omnigraph.storage.location import Location
from omnigraph.storage.tables import Table
from tests.manifest.publishing import SCHEMA as PEOPLE
from tests.manifest.publishing import commit_rows, make_graph, manifest_of, names

Files = dict[str, tuple[int, bytes]]


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.slow)])
def location(request: pytest.FixtureRequest) -> Location:
    return cast("Location", request.getfixturevalue(f"{request.param}_location"))


@pytest.fixture
def graph(local_location: Location) -> Graph:
    return make_graph(local_location)


def manifest_at(graph: Graph, version: int) -> Table:
    return manifest_of(graph).open(MAIN, version)


def files(root: str) -> Files:
    """Every file and folder with its time of change, and what is in it."""
    found = sorted(Path(root).rglob("*"))
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"") for path in found}


# --------------------------------------------------------------------------------------------- genesis


def test_the_first_rows_are_those_of_the_format(location: Location) -> None:
    graph = omnigraph.init(location.uri, PEOPLE, actor="act-ann", storage_options=dict(location.storage_options))
    table = manifest_at(graph, 1)
    rows = list(decode_rows(table.scan().read_all()))
    registered: dict[str, str] = {row.table_key: row.location for row in rows if isinstance(row, Registration)}
    assert registered.keys() == {"node:Person", "node:City", "node:Firm", "edge:Knows"}
    # The two whose hashes the format gives as examples.
    assert registered["node:Person"] == "nodes/40d76f1f51639ec0"
    assert registered["edge:Knows"] == "edges/602a25a3bd0b455b"
    versions = [row for row in rows if isinstance(row, TableVersion)]
    assert {row.table_key: row for row in versions} == {
        key: TableVersion(TableKey(key), 1, None, 0, locate_manifest_file(location, directory, None, 1))
        for key, directory in registered.items()
    }
    commit = next(row for row in rows if isinstance(row, CommitRecord))
    assert (commit.parent, commit.branch, commit.manifest_version, commit.actor) == (None, None, 1, "act-ann")
    assert commit.schema_ir_hash == graph.schema.hash
    assert HeadPointer(MAIN, commit.id, None) in rows
    assert SchemaHead(graph.schema.hash) in rows
    assert len(rows) == 2 * 4 + 3


def test_each_table_row_is_followed_by_its_version_nodes_before_edges(graph: Graph) -> None:
    keys = [str(row["object_id"]) for row in manifest_at(graph, 1).scan(["object_id"]).read_all().to_pylist()][:8]
    assert keys[1::2] == [f"{key}${1:020}" for key in keys[::2]]
    assert [key.partition(":")[0] for key in keys[::2]] == ["node", "node", "node", "edge"]


def test_init_makes_three_versions_and_the_first_publish_is_the_fourth(graph: Graph) -> None:
    stamps = [(manifest_at(graph, version).schema.metadata or {}).get(STAMP.encode()) for version in (1, 2, 3)]
    assert stamps == [None, None, str(CURRENT).encode()]
    configured = [manifest_at(graph, version).dataset.config() for version in (1, 2)]
    assert [config.get("table_version_management") for config in configured] == [None, "true"]
    assert manifest_of(graph).open(MAIN).version == 3
    assert commit_rows(graph, {"Person": ["ann"]}).commit.manifest_version == 4


def test_every_dataset_has_what_other_readers_need(graph: Graph) -> None:
    manifest = manifest_at(graph, 3)
    assert manifest.schema.remove_metadata().equals(SCHEMA.remove_metadata())
    assert (manifest.schema.field("object_id").metadata or {}) == {b"lance-schema:unenforced-primary-key": b"true"}
    for table in (manifest, *(graph.snapshot().table(name) for name in ("Person", "Knows"))):
        assert table.has_stable_row_ids
        assert table.dataset.data_storage_version == "2.2"
    person, knows = graph.snapshot().table("Person"), graph.snapshot().table("Knows")
    assert (person.version, person.count_rows(), person.schema.names) == (1, 0, ["id", "name"])
    assert (knows.version, knows.count_rows(), knows.schema.names) == (1, 0, ["id", "src", "dst"])


def test_a_new_graph_says_what_it_is(graph: Graph) -> None:
    info = graph.info()
    assert (info.uri, info.mode, info.format, info.branches) == (graph.uri, "rw", 4, ("main",))
    assert (info.nodes, info.edges) == ({"City": 0, "Firm": 0, "Person": 0}, {"Knows": 0})
    assert (info.head, info.schema_ir_hash) == (graph.commits()[0], graph.schema.hash)


# --------------------------------------------------------------------------------------------- init again


def test_init_over_a_graph_is_refused_and_changes_nothing(graph: Graph) -> None:
    commit_rows(graph, {"Person": ["ann"]})
    before = {path: found for path, found in files(graph.uri).items() if "__locks" not in path}
    for schema in (PEOPLE, "node Other { name: String @key }"):
        with pytest.raises(AlreadyExists, match="there is a graph at"):
            omnigraph.init(graph.uri, schema)
    assert {path: found for path, found in files(graph.uri).items() if "__locks" not in path} == before


@pytest.mark.parametrize("step", ["claimed", "configured"])
def test_an_unfinished_init_is_told_and_finished_by_the_same_schema_only(graph: Graph, step: str) -> None:
    """Taken back to two of its steps here; the crash tests stop it at all of them."""
    if step == "claimed":
        shutil.rmtree(Path(graph.uri) / "__manifest")
    else:
        without_stamp = manifest_of(graph).open(MAIN)
        tables.commit(without_stamp, tables.restore(without_stamp, 2), "back")
    for mode in ("rw", "ro"):
        with pytest.raises(NotFound, match="is unfinished: its init was interrupted") as caught:
            omnigraph.open(graph.uri, mode)
        assert "init` again with the same schema" in (caught.value.hint or "")
    with pytest.raises(ConflictError, match="has another schema"):
        omnigraph.init(graph.uri, "node Other { name: String @key }")
    finished = omnigraph.init(graph.uri, PEOPLE)
    commit_rows(finished, {"Person": ["ann"]})
    assert names(omnigraph.open(graph.uri), "Person") == ["ann"]


# --------------------------------------------------------------------------------------------- open


def test_a_read_only_graph_writes_not_a_byte(graph: Graph) -> None:
    first = commit_rows(graph, {"Person": ["ann"], "City": ["rome"]}).commit.id
    graph.create_branch("review/june")
    commit_rows(graph, {"Person": ["bob"]}, "review/june")
    before = files(graph.uri)
    reader = omnigraph.open(graph.uri, "ro")
    assert names(reader, "Person", "review/june") == ["ann", "bob"]
    assert names(reader, "Person", at=first) == ["ann"]
    assert [branch.name for branch in reader.branches()] == ["main", "review/june"]
    assert reader.info().mode == "ro"
    assert reader.schema == graph.schema
    assert [reader.commit(found.id) for found in reader.commits("review/june")] == reader.commits("review/june")
    assert files(graph.uri) == before


def test_an_unknown_mode_is_refused(graph: Graph) -> None:
    with pytest.raises(ParameterError, match="mode is 'w'"):
        omnigraph.open(graph.uri, cast("Mode", "w"))


@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_a_pickled_graph_is_opened_again(location: Location, mode: str) -> None:
    made = make_graph(location)
    commit_rows(made, {"Person": ["ann"]})
    options = dict(location.storage_options)
    graph = omnigraph.open(location.uri, cast("Mode", mode), actor="act-ann", storage_options=options)
    assert names(graph, "Person") == ["ann"]
    revived = cast("Graph", pickle.loads(pickle.dumps(graph)))  # noqa: S301  our own bytes
    assert (revived.uri, revived.mode, revived.actor) == (graph.uri, mode, "act-ann")
    commit_rows(made, {"Person": ["bob"]})
    assert names(revived, "Person") == ["ann", "bob"]


def test_a_pickled_graph_that_is_gone_is_not_found(graph: Graph) -> None:
    pickled = pickle.dumps(graph)
    Path(graph.uri).rename(f"{graph.uri}-elsewhere")
    with pytest.raises(NotFound, match="there is no graph at"):
        pickle.loads(pickled)  # noqa: S301  our own bytes


def test_a_closed_graph_reads_again_when_asked(graph: Graph) -> None:
    with graph:
        commit_rows(graph, {"Person": ["ann"]})
    assert names(graph, "Person") == ["ann"]
