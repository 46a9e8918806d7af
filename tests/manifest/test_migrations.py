"""The steps from format 1 to 4: what each leaves behind, when a branch takes them, and how they meet other writers."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import lance
import pytest

import omnigraph
from omnigraph.errors import FormatError, FormatTooNew, PublishContention
from omnigraph.graph import Mode
from omnigraph.manifest import migrations
from omnigraph.manifest.rows import HeadPointer, encode_rows
from omnigraph.storage import failpoints, tables
from omnigraph.storage.failpoints import When, WriteStep
from omnigraph.storage.location import locate
from omnigraph.storage.locks import branch_lock
from omnigraph.storage.tables import open_table
from tests.crash import Pipe, fresh_copy, kill_at, pipe, record, run, some_crashes, start
from tests.manifest.legacy_graphs import BRANCH, STAMP, Shape, assert_tells, build, told_by
from tests.manifest.publishing import commit_rows, make_graph, manifest_of
from tests.model.files import contents, traces
from tests.selection import daily

RUNS = ("__run__01", "__run__02/x")
WHOLE_CHAIN = [Shape(1, runs=RUNS), Shape(1, stable_row_ids=False, runs=RUNS)]
CRASHED = [WHOLE_CHAIN[0], pytest.param(WHOLE_CHAIN[1], marks=pytest.mark.slow)]


def manifest_uri(root: Path, branch: str = "main") -> str:
    return f"{root}/__manifest" + ("" if branch == "main" else f"/tree/{branch}")


def stamp(root: Path, branch: str = "main") -> str | None:
    metadata = lance.dataset(manifest_uri(root, branch)).schema.metadata or {}
    found = metadata.get(STAMP.encode())
    return None if found is None else found.decode()


def assert_whole(root: Path, branch: str = "main") -> None:
    """The manifest has the newest format, each row once, and a head row that names the newest commit."""
    assert stamp(root, branch) == "4"
    rows = lance.dataset(manifest_uri(root, branch)).to_table().to_pylist()
    assert [key for key, count in Counter(row["object_id"] for row in rows).items() if count > 1] == []
    commits = [row for row in rows if row["object_type"] == "graph_commit"]
    [head] = [row["metadata"] for row in rows if row["object_id"] == f"graph_head:{branch}"]
    newest = max(commits, key=lambda row: row["table_version"])
    assert json.loads(head)["head_commit_id"] == newest["object_id"]


# --------------------------------------------------------------------------------------------- what children do


def open_it(root: Path) -> None:
    omnigraph.open(root)


def migrate_branch(root: Path, branch: str) -> None:
    """What a publish does first, and nothing else."""
    manifest = manifest_of(omnigraph.open(root, "ro"))
    with branch_lock(manifest.location, branch, manifest.locks):
        manifest.writable_view(branch)


def migrate_without_lock(root: Path, branch: str) -> None:
    """As a holder whose lease was lost without notice."""
    migrations.migrate(manifest_of(omnigraph.open(root, "ro")), branch)


def open_when_told(root: Path, parent: Pipe) -> None:
    parent.send("ready")
    parent.recv()
    omnigraph.open(root)
    parent.send("opened")


# --------------------------------------------------------------------------------------------- one step after another


@pytest.mark.parametrize("shape", WHOLE_CHAIN, ids=str)
def test_a_read_write_open_walks_the_whole_chain_on_main_alone(tmp_path: Path, shape: Shape) -> None:
    legacy = build(tmp_path / "graph.og", shape)
    omnigraph.open(legacy.root)
    assert_whole(legacy.root)
    assert list(lance.dataset(manifest_uri(legacy.root)).branches.list()) == [BRANCH]
    assert stamp(legacy.root, BRANCH) is None


@pytest.mark.parametrize("shape", [*WHOLE_CHAIN, Shape(3), Shape(4)], ids=str)
def test_a_branch_migrates_with_its_first_write(tmp_path: Path, shape: Shape) -> None:
    legacy = build(tmp_path / "graph.og", shape)
    graph = omnigraph.open(legacy.root)
    before = traces(legacy.root / "__manifest" / "tree")
    assert_tells(graph, legacy)
    assert traces(legacy.root / "__manifest" / "tree") == before
    commit_rows(graph, {"City": ["Rome"]}, BRANCH)
    assert_whole(legacy.root, BRANCH)


@pytest.mark.parametrize("shape", [*WHOLE_CHAIN, Shape(3), Shape(4)], ids=str)
def test_a_second_open_changes_nothing(tmp_path: Path, shape: Shape) -> None:
    legacy = build(tmp_path / "graph.og", shape)
    omnigraph.open(legacy.root)
    before = contents(legacy.root)
    omnigraph.open(legacy.root)
    assert contents(legacy.root) == before


@pytest.mark.parametrize("shape", WHOLE_CHAIN, ids=str)
def test_after_the_first_step_one_new_row_has_one_writer(tmp_path: Path, shape: Shape) -> None:
    legacy = build(tmp_path / "graph.og", shape)
    table = manifest_of(omnigraph.open(legacy.root)).open("main")
    row = encode_rows([HeadPointer("new", "x", None)])
    tables.merge_rows(table, row)
    with pytest.raises(PublishContention):
        tables.merge_rows(table, row)


def test_a_branch_from_the_first_commit_has_no_stamp_and_takes_the_chain_too(tmp_path: Path) -> None:
    graph = make_graph(locate(tmp_path / "graph.og"))
    first = graph.commits()[0].id
    graph.create_branch("early", first)
    reader = omnigraph.open(graph.uri, "ro")
    assert stamp(tmp_path / "graph.og", "early") is None
    assert [branch.head for branch in reader.branches()] == [first, first]
    commit = commit_rows(graph, {"City": ["Rome"]}, "early").commit
    assert [branch.head for branch in reader.branches()] == [first, commit.id]
    assert [told.id for told in reader.commits("early")] == [commit.id, first]
    assert_whole(tmp_path / "graph.og", "early")


def test_a_foreign_primary_key_is_refused(tmp_path: Path) -> None:
    legacy = build(tmp_path / "graph.og", Shape(1))
    table = open_table(manifest_uri(legacy.root))
    tables.set_field_metadata(table, "table_key", {"lance-schema:unenforced-primary-key": "true"})
    before = contents(legacy.root)
    with pytest.raises(FormatError, match=r"\['table_key'\], not object_id"):
        omnigraph.open(legacy.root)
    assert contents(legacy.root) == before


def test_a_graph_of_0_8_is_adopted_with_its_schema(tmp_path: Path) -> None:
    legacy = build(tmp_path / "graph.og", Shape(4))
    graph = omnigraph.open(legacy.root)
    kept = f"__schemas/{graph.schema.hash.removeprefix('sha256:')}"
    assert {f"{kept}/schema.pg", f"{kept}/schema.ir.json"} <= contents(legacy.root).keys()
    assert graph._manifest.schema_hash() is None
    assert graph.snapshot().schema_ir_hash == graph.schema.hash
    commit_rows(graph, {"City": ["Rome"]})
    assert omnigraph.open(legacy.root)._manifest.schema_hash() == graph.schema.hash


# --------------------------------------------------------------------------------------------- crashes


@pytest.mark.parametrize("shape", CRASHED, ids=str)
def test_killed_at_any_write_the_next_open_finishes(tmp_path: Path, shape: Shape) -> None:
    legacy = build(tmp_path / "template", shape)
    steps = record(open_it, fresh_copy(legacy.root))
    assert Counter(step.name for step in steps)["table.metadata"] == 4
    for number, when in some_crashes(steps):
        root = fresh_copy(legacy.root)
        kill_at(open_it, (root,), number, when)
        assert told_by(omnigraph.open(root, "ro"), "main") == tuple(legacy.history["main"])
        assert_tells(omnigraph.open(root), legacy)
        assert_whole(root)


@pytest.mark.parametrize("shape", CRASHED, ids=str)
def test_killed_at_any_write_on_a_branch_the_next_write_finishes(tmp_path: Path, shape: Shape) -> None:
    legacy = build(tmp_path / "template", shape)
    omnigraph.open(legacy.root)
    steps = record(migrate_branch, fresh_copy(legacy.root), BRANCH)
    assert [step.name for step in steps] == ["locks.flock", *["table.metadata"] * 3, "table.merge", "table.metadata"]
    for number, when in some_crashes(steps):
        root = fresh_copy(legacy.root)
        kill_at(migrate_branch, (root, BRANCH), number, when)
        graph = omnigraph.open(root)
        assert told_by(graph, BRANCH) == tuple(legacy.history[BRANCH])
        commit_rows(graph, {"City": ["Rome"]}, BRANCH)
        assert told_by(graph, BRANCH)[1:] == tuple(legacy.history[BRANCH])
        assert_whole(root, BRANCH)


# --------------------------------------------------------------------------------------------- two at once


def test_four_processes_that_open_at_once_all_succeed(tmp_path: Path) -> None:
    legacy = build(tmp_path / "graph.og", Shape(1, runs=RUNS))
    ends: list[Pipe] = []
    for _ in range(4):
        ours, theirs = pipe()
        start(open_when_told, legacy.root, theirs)
        theirs.close()
        ends.append(ours)
    assert [end.recv() for end in ends] == ["ready"] * 4
    for end in ends:
        end.send("go")
    assert [end.recv() for end in ends] == ["opened"] * 4
    assert_tells(omnigraph.open(legacy.root), legacy)
    assert_whole(legacy.root)


def interrupted(work: Callable[[], object], at: Callable[[WriteStep], bool], by: Callable[[], object]) -> None:
    """Do the work, and let somebody else act right before each write that is asked for."""

    def act(when: When, step: WriteStep) -> None:
        if when == "before" and at(step):
            by()

    with failpoints._arm(act):
        work()


@pytest.mark.parametrize("branch", daily(["main", BRANCH], ["main"]))
def test_a_migrator_that_is_overtaken_before_any_of_its_writes_converges(tmp_path: Path, branch: str) -> None:
    legacy = build(tmp_path / "template", Shape(1, runs=RUNS))
    numbers = len(record(migrate_without_lock, fresh_copy(legacy.root), branch))
    assert numbers == (7 if branch == "main" else 5)
    for number in range(1, numbers + 1):
        root = fresh_copy(legacy.root)
        interrupted(
            lambda root=root: migrate_without_lock(root, branch),
            at=lambda step, number=number: step.number == number,
            by=lambda root=root: run(migrate_without_lock, root, branch),
        )
        assert_whole(root, branch)
        assert_tells(omnigraph.open(root), legacy)


def meddle_with_metadata(root: Path) -> None:
    lance.dataset(manifest_uri(root)).update_schema_metadata({"somebody": "else"})


def meddle_with_rows(root: Path, branch: str = "main") -> None:
    dataset = lance.dataset(manifest_uri(root, branch))
    merge = dataset.merge_insert("object_id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(encode_rows([HeadPointer(branch, "x", None)]))


MEDDLERS: list[tuple[str, Callable[[Path], None]]] = [
    ("table.metadata", meddle_with_metadata),
    ("table.merge", meddle_with_rows),
]


@pytest.mark.parametrize(("name", "meddle"), MEDDLERS)
def test_one_lost_race_is_repeated(tmp_path: Path, name: str, meddle: Callable[[Path], None]) -> None:
    legacy = build(tmp_path / "graph.og", Shape(3))
    met = iter([True])
    interrupted(
        lambda: migrate_without_lock(legacy.root, "main"),
        at=lambda step: step.name == name and next(met, False),
        by=lambda: meddle(legacy.root),
    )
    assert_tells(omnigraph.open(legacy.root), legacy)
    assert_whole(legacy.root)


@pytest.mark.parametrize(("name", "meddle"), MEDDLERS)
def test_races_that_are_always_lost_end_as_contention(
    tmp_path: Path, name: str, meddle: Callable[[Path], None]
) -> None:
    legacy = build(tmp_path / "graph.og", Shape(3))
    with pytest.raises(PublishContention, match="too many attempts collided"):
        interrupted(
            lambda: migrate_without_lock(legacy.root, "main"),
            at=lambda step: step.name == name,
            by=lambda: meddle(legacy.root),
        )
    assert stamp(legacy.root) == "3"
    assert_tells(omnigraph.open(legacy.root), legacy)


def test_a_publish_takes_up_a_migration_that_lost_its_races(tmp_path: Path) -> None:
    legacy = build(tmp_path / "graph.og", Shape(3))
    graph = omnigraph.open(legacy.root)
    lost = iter([True] * migrations._RETRY_BUDGET)
    interrupted(
        lambda: commit_rows(graph, {"City": ["Rome"]}, BRANCH),
        at=lambda step: step.name == "table.merge" and next(lost, False),
        by=lambda: meddle_with_rows(legacy.root, BRANCH),
    )
    assert next(lost, None) is None
    assert told_by(graph, BRANCH)[1:] == tuple(legacy.history[BRANCH])
    assert_whole(legacy.root, BRANCH)


def test_an_open_takes_up_a_migration_that_lost_its_races(tmp_path: Path) -> None:
    legacy = build(tmp_path / "graph.og", Shape(3))
    lost = iter([True] * migrations._RETRY_BUDGET)
    interrupted(
        lambda: open_it(legacy.root),
        at=lambda step: step.name == "table.merge" and next(lost, False),
        by=lambda: meddle_with_rows(legacy.root),
    )
    assert next(lost, None) is None
    assert_whole(legacy.root)


# --------------------------------------------------------------------------------------------- stamps of other releases

NO_PLAIN_DECIMAL = ["5.0", "v9", "+5", " 7", "-1", "", "4 ", "04", "\u0664", "1e1"]


@pytest.mark.parametrize("text", NO_PLAIN_DECIMAL)
@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_a_stamp_that_is_no_plain_decimal_is_refused_and_kept(tmp_path: Path, mode: Mode, text: str) -> None:
    make_graph(locate(tmp_path / "graph.og"))
    lance.dataset(manifest_uri(tmp_path / "graph.og")).update_schema_metadata({STAMP: text})
    before = contents(tmp_path)
    with pytest.raises(FormatTooNew, match=re.escape(f"format '{text}'")) as refused:
        omnigraph.open(tmp_path / "graph.og", mode)
    assert refused.value.details["format"] == text
    assert contents(tmp_path) == before


def test_a_branch_with_such_a_stamp_is_neither_read_nor_written(tmp_path: Path) -> None:
    graph = make_graph(locate(tmp_path / "graph.og"))
    graph.create_branch("dev")
    commit_rows(graph, {"City": ["Rome"]}, "dev")
    lance.dataset(manifest_uri(tmp_path / "graph.og", "dev")).update_schema_metadata({STAMP: "5.0"})
    fresh = omnigraph.open(tmp_path / "graph.og")
    with pytest.raises(FormatTooNew):
        fresh.query("query q() { match { $c: City } return { $c.name } }", branch="dev")
    with pytest.raises(FormatTooNew):
        commit_rows(fresh, {"City": ["Oslo"]}, "dev")
    assert stamp(tmp_path / "graph.og", "dev") == "5.0"
