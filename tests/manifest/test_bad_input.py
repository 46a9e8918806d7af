"""What is no graph, what was damaged, and names that no branch may have: a clear error each, and nothing changes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import (
    AlreadyExists,
    ConflictError,
    InputError,
    NotFound,
    OmniGraphError,
    ParameterError,
    SchemaError,
    StorageError,
)
from omnigraph.graph import Graph, Mode
from omnigraph.language.schema import table_directory
from omnigraph.maintain.orphans import ReclaimKind
from omnigraph.maintain.verify import FindingKind
from omnigraph.manifest.branches import fork_table
from omnigraph.storage.location import Location
from omnigraph.storage.locks import branch_lock
from tests.manifest.legacy_graphs import Shape, build
from tests.manifest.publishing import SCHEMA, commit_rows, make_graph, names
from tests.model.files import contents
from tests.selection import daily

PERSON = table_directory("node:Person")


@pytest.fixture
def graph(local_location: Location) -> Graph:
    """Ann on main, and a branch that was written to and one that was not."""
    graph = make_graph(local_location)
    commit_rows(graph, {"Person": ["Ann"]})
    graph.create_branch("dev")
    commit_rows(graph, {"Person": ["Bob"]}, "dev")
    graph.create_branch("idle")
    return graph


@pytest.fixture
def root(graph: Graph) -> Path:
    return Path(graph.uri)


def assert_refused(root: Path, kind: type[OmniGraphError], said: str, call: Callable[[], object]) -> None:
    """The call raises exactly this kind of error, with these words in it, and no file is other than before."""
    before = contents(root)
    with pytest.raises(kind, match=said) as raised:
        call()
    assert type(raised.value) is kind
    assert contents(root) == before


# --------------------------------------------------------------------------------------------- init


@pytest.mark.parametrize("schema", [SCHEMA, "node Other { name: String @key }"])
def test_init_where_a_graph_is(root: Path, schema: str) -> None:
    assert_refused(root, AlreadyExists, "there is a graph at", lambda: omnigraph.init(root, schema))


@pytest.mark.parametrize("shape", [Shape(1), Shape(3), Shape(4)], ids=str)
def test_init_where_an_old_graph_is(tmp_path: Path, shape: Shape) -> None:
    root = build(tmp_path / "graph.og", shape).root
    assert_refused(root, AlreadyExists, "there is a graph at", lambda: omnigraph.init(root, SCHEMA))


def test_init_where_a_graph_lost_its_schema_file(root: Path) -> None:
    (root / "_schema.pg").unlink()
    assert_refused(root, AlreadyExists, "there is a graph at", lambda: omnigraph.init(root, SCHEMA))


def test_init_where_a_graph_lost_its_manifest(root: Path) -> None:
    shutil.rmtree(root / "__manifest")
    assert_refused(root, StorageError, "'node:Person' has rows", lambda: omnigraph.init(root, SCHEMA))


def test_init_where_another_schema_was_begun(tmp_path: Path) -> None:
    (tmp_path / "_schema.pg").write_text("node Other { name: String @key }")
    assert_refused(tmp_path, ConflictError, "unfinished init", lambda: omnigraph.init(tmp_path, SCHEMA))


def test_init_with_a_wrong_schema(tmp_path: Path) -> None:
    assert_refused(tmp_path, SchemaError, "Nobody", lambda: omnigraph.init(tmp_path, "edge E: Nobody -> Nobody\n"))
    assert list(tmp_path.iterdir()) == []


# --------------------------------------------------------------------------------------------- open


def nothing(_: Path) -> None:
    pass


def a_folder(root: Path) -> None:
    root.mkdir()
    (root / "notes.txt").write_text("mine")


def a_file(root: Path) -> None:
    root.write_text("mine")


def a_begun_graph(root: Path) -> None:
    root.mkdir()
    (root / "_schema.pg").write_text(SCHEMA)


@pytest.mark.parametrize("mode", ["ro", "rw"])
@pytest.mark.parametrize(
    ("make", "kind", "said"),
    [
        (nothing, NotFound, "there is no graph at"),
        (a_folder, NotFound, "there is no graph at"),
        (a_file, ParameterError, "is a file; a graph is a folder"),
        (a_begun_graph, NotFound, r"unfinished.*run `omnigraph init` again"),
    ],
)
def test_open_of_what_is_no_graph(
    tmp_path: Path, mode: Mode, make: Callable[[Path], None], kind: type[OmniGraphError], said: str
) -> None:
    make(tmp_path / "graph.og")
    assert_refused(tmp_path, kind, said, lambda: omnigraph.open(tmp_path / "graph.og", mode))


def test_init_on_a_file(tmp_path: Path) -> None:
    a_file(tmp_path / "graph.og")
    assert_refused(tmp_path, ParameterError, "is a file", lambda: omnigraph.init(tmp_path / "graph.og", SCHEMA))


# --------------------------------------------------------------------------------------------- manifest rows


def edit_row(root: Path, object_id: str, **cells: object) -> None:
    """Change cells of one row of the manifest, as a hand with Lance would."""
    dataset = lance.dataset(root / "__manifest")
    [row] = dataset.to_table(filter=f"object_id = '{object_id}'").to_pylist()
    merge = dataset.merge_insert("object_id").when_matched_update_all()
    merge.execute(pa.Table.from_pylist([{**row, **cells}], schema=dataset.schema))


ANN = f"node:Person${2:020}"


@pytest.mark.parametrize(
    ("object_id", "cells", "said"),
    [
        (ANN, {"metadata": None}, "metadata is missing"),
        (ANN, {"metadata": '{"manifest_path"'}, "no JSON"),
        (ANN, {"metadata": "[]"}, "no JSON object"),
        (ANN, {"table_version": None}, "table_version is missing"),
        (ANN, {"row_count": None}, "row_count is missing"),
        ("node:Person", {"location": None}, "location is None"),
        ("node:Person", {"object_type": "newer"}, "no table row"),
        ("schema_head", {"metadata": "{}"}, "schema_ir_hash is None"),
    ],
)
def test_a_damaged_row_of_a_table_is_named(root: Path, object_id: str, cells: dict[str, object], said: str) -> None:
    edit_row(root, object_id, **cells)
    reader = omnigraph.open(root, "ro")
    damaged = rf"malformed row '{object_id.replace('$', '[$]')}' in __manifest: .*{said}"
    assert_refused(root, StorageError, damaged, reader.snapshot)
    assert_refused(root, StorageError, damaged, lambda: omnigraph.open(root))


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"metadata": None}, "metadata is missing"),
        ({"metadata": "{"}, "no JSON"),
        ({"metadata": "{}"}, "created_at is None"),
        ({"metadata": f'{{"created_at":{2**63 - 1}}}'}, "which is not a time"),
        ({"metadata": '{"created_at":1,"txn":["app"]}'}, "txn is"),
        ({"table_version": None}, "table_version is missing"),
    ],
)
def test_a_damaged_row_of_a_commit_is_named(graph: Graph, root: Path, cells: dict[str, object], said: str) -> None:
    head = graph.commits()[0].id
    edit_row(root, head, **cells)
    damaged = rf"malformed row '{head}' in __manifest: .*{said}"
    assert_refused(root, StorageError, damaged, lambda: omnigraph.open(root, "ro").commits())
    assert_refused(root, StorageError, damaged, lambda: omnigraph.open(root).commits())


def test_a_row_of_an_unknown_kind_is_passed_over(root: Path) -> None:
    edit_row(root, ANN, object_type="newer")
    assert names(omnigraph.open(root), "Person") == []


def test_a_manifest_without_a_whole_version_is_that_of_an_interrupted_init(root: Path) -> None:
    for file in (root / "__manifest" / "_versions").glob("*.manifest"):
        file.write_bytes(file.read_bytes()[:30])
    assert_refused(root, NotFound, "is unfinished", lambda: omnigraph.open(root))


# --------------------------------------------------------------------------------------------- tables and refs


def lose_folder(root: Path) -> None:
    shutil.rmtree(root / PERSON)


def lose_version(root: Path) -> None:
    min((root / PERSON / "_versions").glob("*.manifest")).unlink()


@pytest.mark.parametrize("lose", [lose_folder, lose_version])
def test_a_table_that_is_gone_is_listed_and_named(root: Path, lose: Callable[[Path], None]) -> None:
    lose(root)
    snapshot = omnigraph.open(root).snapshot()
    assert snapshot.pin("Person").row_count == 1
    assert_refused(root, NotFound, "version 2 of 'node:Person' cannot be read", lambda: snapshot.table("Person"))
    assert snapshot.table("City").count_rows() == 0


DAMAGED_REFS = pytest.mark.parametrize(
    "data", daily([b"", b'{"parentBranch": null, "ident', b"[1]", b"{}"], [b'{"parentBranch": null, "ident'], repr)
)


@DAMAGED_REFS
def test_a_damaged_ref_of_a_branch_with_commits_fails_that_branch_alone(root: Path, data: bytes) -> None:
    (root / "__manifest/_refs/branches/dev.json").write_bytes(data)
    graph = omnigraph.open(root)
    for call in (
        lambda: graph.snapshot("dev"),
        lambda: graph.commits("dev"),
        graph.branches,
        lambda: graph.create_branch("new"),
        lambda: graph.delete_branch("dev"),
        lambda: graph.cleanup(confirm=True),
    ):
        assert_refused(root, StorageError, "the ref of branch 'dev' is damaged", call)
    assert [(found.kind, found.where) for found in graph.verify().findings] == [
        (FindingKind.UNREADABLE, "the branches"),
    ]
    assert names(graph, "Person", "idle") == ["Ann"]
    commit = commit_rows(graph, {"Person": ["Cid"]}).commit
    assert names(graph, "Person", at=commit.id) == names(graph, "Person", at=commit.manifest_version) == ["Ann", "Cid"]


@DAMAGED_REFS
def test_a_branch_without_commits_whose_ref_is_damaged_was_never_made(root: Path, data: bytes) -> None:
    ref = root / "__manifest/_refs/branches/idle.json"
    ref.write_bytes(data)
    graph = omnigraph.open(root)
    assert_refused(root, StorageError, "the ref of branch 'idle' is damaged", lambda: graph.snapshot("idle"))
    assert [branch.name for branch in graph.branches()] == ["main", "dev"]
    assert graph.verify().findings == ()
    assert {each.kind: each.count for each in graph.cleanup().reclaimed}[ReclaimKind.FORKS] == 1
    graph.create_branch("new")
    graph.create_branch("idle", "dev")
    assert names(graph, "Person", "idle") == ["Ann", "Bob"]
    ref.write_bytes(data)
    assert {each.kind: each.count for each in graph.cleanup(confirm=True).reclaimed}[ReclaimKind.FORKS] == 1
    assert not ref.exists()
    assert graph.cleanup().reclaimed == ()


def lose_fork_ref_content(root: Path, table: str) -> None:
    (root / table / "_refs/branches/idle.json").write_bytes(b"")


def lose_half_of_fork_ref(root: Path, table: str) -> None:
    ref = root / table / "_refs/branches/idle.json"
    ref.write_bytes(ref.read_bytes()[:20])


def lose_fork_folder(root: Path, table: str) -> None:
    shutil.rmtree(root / table / "tree/idle")


@pytest.mark.parametrize(
    ("lose", "clean"),
    [
        pytest.param(lose_fork_ref_content, False),
        pytest.param(lose_fork_ref_content, True, marks=pytest.mark.slow),
        pytest.param(lose_half_of_fork_ref, False, marks=pytest.mark.slow),
        pytest.param(lose_half_of_fork_ref, True, marks=pytest.mark.slow),
        pytest.param(lose_fork_folder, False, marks=pytest.mark.slow),
        pytest.param(lose_fork_folder, True),
    ],
)
def test_a_fork_that_was_never_finished_is_in_nobodys_way(
    graph: Graph, root: Path, lose: Callable[[Path, str], None], clean: bool
) -> None:
    """A power cut can lose one half of a fork that no commit shows yet."""
    manifest = graph._manifest
    with branch_lock(manifest.location, "idle") as held:
        fork_table(manifest, held, "idle", graph.snapshot("idle").pin("Person"))
    lose(root, PERSON)
    graph = omnigraph.open(root)
    assert [branch.name for branch in graph.branches()] == ["main", "dev", "idle"]
    assert graph.verify().findings == ()
    assert {each.kind: each.count for each in graph.cleanup().reclaimed}[ReclaimKind.FORKS] == 1
    assert graph.diff("main", "idle").summary() == ()
    commit_rows(graph, {"Person": ["Cid"]}, "dev")
    if clean:
        assert {each.kind: each.count for each in graph.cleanup(confirm=True).reclaimed}[ReclaimKind.FORKS] == 1
        assert ReclaimKind.FORKS not in {each.kind for each in graph.cleanup().reclaimed}
    commit_rows(graph, {"Person": ["Dan"]}, "idle")
    assert names(graph, "Person", "idle") == ["Ann", "Dan"]
    graph.delete_branch("idle")
    graph.cleanup(confirm=True)
    assert graph.verify().findings == ()


def test_a_damaged_ref_of_a_fork_that_commits_need_is_kept(root: Path) -> None:
    ref = root / PERSON / "_refs/branches/dev.json"
    ref.write_bytes(b"")
    graph = omnigraph.open(root)
    assert names(graph, "Person", "dev") == ["Ann", "Bob"]
    for confirm in (False, True):
        with pytest.raises(StorageError, match="'node:Person' on 'dev' is damaged, and commits need the fork"):
            graph.cleanup(confirm=confirm)
    assert ref.exists()
    assert names(graph, "Person", "dev") == ["Ann", "Bob"]


def test_a_missing_ref_of_a_fork_fails_no_read(root: Path) -> None:
    (root / PERSON / "_refs/branches/dev.json").unlink()
    assert names(omnigraph.open(root, "ro"), "Person", "dev") == ["Ann", "Bob"]


# --------------------------------------------------------------------------------------------- branch names


@pytest.mark.parametrize(
    ("name", "kind", "why"),
    [
        ("", ParameterError, "it is empty"),
        ("..", ParameterError, "begins with '.'"),
        ("a/../b", ParameterError, "begins with '.'"),
        ("a//b", ParameterError, "is empty"),
        ("/a", ParameterError, "is empty"),
        ("a b", ParameterError, "not allowed"),
        ("a\n", ParameterError, "not allowed"),
        ("a\ud800", ParameterError, "not allowed"),
        ("a\\b", ParameterError, "not allowed"),
        ("ä", ParameterError, "not allowed"),
        ("x" * 300, ParameterError, "longer than 200 bytes"),
        ("main", ParameterError, "every graph has a 'main' already"),
        ("01HWSSN5E0PFJQ7C7KD8VGTPGV", ParameterError, "looks like a commit id"),
        ("01hwssn5e0pfjq7c7kd8vgtpgv", ParameterError, "looks like a commit id"),
        ("v12", ParameterError, "looks like a manifest version"),
        ("2024-05-01", ParameterError, "looks like a date"),
        ("2024-05-01T10:00Z", ParameterError, "looks like a date"),
        ("__x", ParameterError, "reserved"),
        ("a.lock", ParameterError, "ends in '.lock'"),
        ("a.lock/b", ParameterError, "ends in '.lock'"),
        ("dev/a", ParameterError, "path prefix"),
        ("dev", AlreadyExists, "there is a branch 'dev' already"),
    ],
)
def test_a_name_that_no_branch_may_have(graph: Graph, root: Path, name: str, kind: type[InputError], why: str) -> None:
    assert_refused(root, kind, why, lambda: graph.create_branch(name))


def test_the_longest_and_oddest_names_that_are_allowed(graph: Graph) -> None:
    wanted = ["x" * 200, "a/b/c", "A.b_c-d", "main/x", "v1x"]
    for name in wanted:
        graph.create_branch(name)
        commit_rows(graph, {"Person": [name]}, name)
        assert names(graph, "Person", name) == sorted(["Ann", name])
    assert {branch.name for branch in graph.branches()} == {"main", "dev", "idle", *wanted}


@pytest.mark.parametrize("name", ["nope", "..", "../..", "", "__manifest", "x" * 300, "ä" * 60, "a\0b", "a\ud800"])
def test_a_branch_that_is_not_there(graph: Graph, root: Path, name: str) -> None:
    for call in (graph.snapshot, graph.commits, graph.delete_branch):
        assert_refused(root, NotFound, "no branch", lambda call=call: call(name))


def test_main_is_never_deleted(graph: Graph, root: Path) -> None:
    assert_refused(root, ParameterError, "main cannot be deleted", lambda: graph.delete_branch("main"))
