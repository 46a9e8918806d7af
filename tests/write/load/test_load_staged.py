"""Loads of many rows: staged while they are read, on main and on branches that do not own their tables yet."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import pytest

import omnigraph
from omnigraph.errors import ConflictError, ValidationError
from omnigraph.graph import Graph
from omnigraph.storage.failpoints import InjectedFault, When, fail_at, record_writes
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects
from omnigraph.write.commit.section import HANDOFF_MESSAGE
from omnigraph.write.load import LoadMode
from omnigraph.write.load.inputs import sources
from omnigraph.write.load.rows import incoming_rows
from omnigraph.write.load.rows import row_buffer as gathering
from omnigraph.write.load.run import LoadResult
from omnigraph.write.rules import check, proofs
from omnigraph.write.spill import spill_rows
from tests import crash
from tests.graphs import rows_of, written
from tests.write.mutation.interleaving import meanwhile

PORT_SCHEMA = "node Port { code: String @key  name: String }"
MODES: tuple[LoadMode, ...] = ("append", "merge", "overwrite")


@pytest.fixture(autouse=True)
def every_record_is_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stage each record by itself, as if it were a block of a large file."""
    monkeypatch.setattr(gathering, "MAX_BUFFERED_BYTES", 0)
    monkeypatch.setattr(gathering, "MAX_STREAM_BYTES", 0)
    monkeypatch.setattr(sources, "BLOCK_RECORDS", 1)


def port(code: str, name: str = "n", **more: object) -> Mapping[str, object]:
    return {"type": "Port", "data": {"code": code, "name": name, **more}}


def ports(graph: Graph, branch: str = "main") -> dict[str, str]:
    rows = cast("list[dict[str, str]]", rows_of(graph, "Port", branch))
    assert len({row["id"] for row in rows}) == len(rows), "an id is there twice"
    return {row["code"]: row["name"] for row in rows}


def data_files(graph: Graph) -> set[Path]:
    """Return the files with rows of the graph's tables, whether a version shows them or not."""
    found = (path for kind in ("nodes", "edges") for path in Path(graph.uri, kind).rglob("*"))
    return {path for path in found if path.is_file() and "data" in path.parts}


PORTS = {"p1": "Oslo", "p2": "Kiel"}


# --------------------------------------------------------------------------------------------- fragments


def test_a_small_load_is_one_fragment_of_each_table(fleet: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(sources, "BLOCK_RECORDS", 1)
    before = data_files(fleet)
    fleet.load([port("a"), port("b"), {"edge": "CallsAt", "from": "v1", "to": "a"}])
    assert len(data_files(fleet) - before) == 2


def test_rows_are_staged_while_the_input_is_read(fleet: Graph) -> None:
    before = data_files(fleet)
    seen: list[int] = []

    def read() -> Iterator[Mapping[str, object]]:
        for number in range(4):
            yield port(f"new{number}")
            seen.append(len(data_files(fleet) - before))

    fleet.load(read())
    # One write may still be in flight.
    assert [count >= number for number, count in enumerate(seen)] == [True] * 4
    assert len(data_files(fleet) - before) == 4
    assert len(fleet.snapshot().table("Port").fragment_rows()) == 5


def test_the_rows_of_a_type_stream_into_one_fragment(fleet: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "MAX_STREAM_BYTES", 1 << 20)
    before = data_files(fleet)
    with record_writes() as steps:
        fleet.load(port(f"new{number}") for number in range(20))
    assert [step.name for step in steps].count("table.stage") == 1
    assert len(data_files(fleet) - before) == 1
    assert list(ports(fleet)) == [*PORTS, *(f"new{number}" for number in range(20))]


def test_types_that_alternate_stream_in_turn(fleet: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "MAX_STREAM_BYTES", 1 << 20)
    vessels = [{"type": "Vessel", "data": {"code": f"w{number}", "name": "n", "kind": "tug"}} for number in range(6)]
    pairs = zip(vessels, (port(f"new{number}") for number in range(6)), strict=True)
    result = fleet.load(record for pair in pairs for record in pair)
    assert result.nodes == {"Port": 6, "Vessel": 6}
    assert list(ports(fleet)) == [*PORTS, *(f"new{number}" for number in range(6))]
    assert [row["code"] for row in rows_of(fleet, "Vessel")][-6:] == [f"w{number}" for number in range(6)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_write_that_fails_while_its_rows_are_read_ends_the_load(
    fleet: Graph, monkeypatch: pytest.MonkeyPatch, when: When
) -> None:
    monkeypatch.setattr(gathering, "MAX_STREAM_BYTES", 1 << 20)
    # No more than one batch waits, so that reading goes on only as far as the write does.
    monkeypatch.setattr(gathering, "MANY_BYTES", 0)
    before, state = data_files(fleet), written(fleet)
    seen: list[int] = []

    def read() -> Iterator[Mapping[str, object]]:
        for number in range(200):
            seen.append(number)
            yield port(f"new{number}")

    with fail_at(1, when), pytest.raises(InjectedFault, match=r"table\.stage"):
        fleet.load(read())
    # After the write there is nothing left to read.
    assert (len(seen) == 200) == (when == "after")
    assert written(fleet) == state
    # Nobody learnt the names of fragments whose write was not answered: they are for cleanup.
    assert len(data_files(fleet) - before) == (when == "after")
    assert fleet.load([port("x")]).nodes == {"Port": 1}


@pytest.mark.parametrize("mode", MODES)
def test_the_ends_of_many_edges_are_checked_as_they_are_read(
    fleet: Graph, monkeypatch: pytest.MonkeyPatch, mode: LoadMode
) -> None:
    monkeypatch.setattr(check, "MANY_ROWS", 0)
    # Each edge is looked at by itself.
    monkeypatch.setattr(proofs, "_EDGES_AT_ONCE", 1)
    spilled: list[object] = []

    def note(*given: object) -> object:
        spilled.append(given)
        return spill_rows(*given)  # pyright: ignore[reportArgumentType]  whatever was given

    monkeypatch.setattr(incoming_rows, "spill_rows", note)
    tows = [{"edge": "Tows", "from": "v1", "to": code} for code in ("v2", "v3", "v2", "v3")]
    assert fleet.load(tows, mode=mode).edges == {"Tows": 4}
    # Generated ids need no look, so the ends are all that is read.
    assert mode != "append" or not spilled
    before = written(fleet)
    with pytest.raises(ValidationError) as caught:
        fleet.load([*tows, {"edge": "Tows", "from": "v1", "to": "nobody"}, tows[0]], mode=mode)
    assert [(each.rule, each.line, each.value) for each in caught.value.violations] == [
        ("edge Tows: Vessel -> Vessel", 5, "nobody")
    ]
    assert written(fleet) == before


def test_a_node_that_many_edges_lose_is_a_violation(fleet: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "MANY_ROWS", 0)
    calls = [{"edge": "CallsAt", "from": "v1", "to": code} for code in ("p1", "p2", "p2")]
    with pytest.raises(ValidationError) as caught:
        fleet.load([port("p1"), *calls], mode="overwrite")
    assert {(each.line, each.value) for each in caught.value.violations if each.line} == {(3, "p2"), (4, "p2")}


# Rows that are merged into a table with rows wait on this machine until it is known which of them are new.
@pytest.mark.parametrize(("mode", "files"), [("append", 3), ("merge", 1)])
def test_rows_are_not_written_again_on_a_newer_version(fleet: Graph, mode: LoadMode, files: int) -> None:
    before = data_files(fleet)
    with meanwhile(lambda: fleet.mutate('query q() { insert Port { code: "other", name: "o" } }'), "table.audit"):
        fleet.load([port("a"), port("b"), port("c")], mode=mode)
    assert ports(fleet) == {**PORTS, "other": "o", "a": "n", "b": "n", "c": "n"}
    assert len(data_files(fleet) - before) == files + 1


def test_a_problem_names_its_line_in_whichever_fragment(fleet: Graph, tmp_path: Path) -> None:
    files = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    files[0].write_text("\n".join(json.dumps(record) for record in (port("a"), port("p1"), port("b"))))
    files[1].write_text("\n".join(json.dumps(record) for record in (port("c"), port("b"), port("p2"))))
    with pytest.raises(ValidationError) as caught:
        fleet.load(files)
    found = [(Path(each.file or "").name, each.line, each.id) for each in caught.value.violations]
    assert found == [("one.jsonl", 2, "p1"), ("two.jsonl", 2, "b"), ("two.jsonl", 3, "p2")]
    assert f"first in {files[0]}:3" in caught.value.violations[1].message


def test_a_load_that_is_interrupted_while_it_reads_removes_what_it_staged(fleet: Graph) -> None:
    before, state = data_files(fleet), written(fleet)

    def read() -> Iterator[Mapping[str, object]]:
        yield port("a")
        yield port("b")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fleet.load(read())
    assert (data_files(fleet), written(fleet)) == (before, state)


def test_a_check_of_many_rows_writes_nothing(fleet: Graph) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path(fleet.uri).rglob("*") if path.is_file()}
    with record_writes() as steps:
        assert fleet.load([port("a"), port("b")], check=True).nodes == {"Port": 2}
        with pytest.raises(ValidationError):
            fleet.load([port("a"), port("p1")], check=True)
    assert {path: path.stat().st_mtime_ns for path in Path(fleet.uri).rglob("*") if path.is_file()} == before
    assert not [step for step in steps if fleet.uri in step.detail]


# --------------------------------------------------------------------------------------------- first touch of a branch


@pytest.mark.parametrize("mode", MODES)
def test_a_branch_takes_its_tables_over_before_many_rows_are_staged(fleet: Graph, mode: LoadMode) -> None:
    fleet.create_branch("june")
    before = written(fleet)
    records = [port("a"), {"edge": "CallsAt", "from": "v1", "to": "a"}]
    result = fleet.load(records, mode=mode, branch="june", actor="act-ann")
    loaded, forked, *_ = fleet.commits("june")
    assert result.commit == loaded
    assert (forked.message, forked.actor, forked.txn) == (HANDOFF_MESSAGE, "act-ann", None)
    assert ports(fleet, "june") == ({"a": "n"} if mode == "overwrite" else {**PORTS, "a": "n"})
    assert [fleet.snapshot("june").pins[key].branch for key in ("node:Port", "edge:CallsAt", "node:Vessel")] == [
        "june",
        "june",
        None,
    ]
    assert rows_of(fleet, "Port", "june", forked.id) == rows_of(fleet, "Port")
    assert written(fleet) == before
    fleet.load([port("b")], branch="june")
    assert [each.message for each in fleet.commits("june")].count(HANDOFF_MESSAGE) == 1


def test_a_load_that_fails_takes_no_table_over(fleet: Graph) -> None:
    fleet.create_branch("june")
    before, state = data_files(fleet), written(fleet, "june")
    with pytest.raises(ValidationError):
        fleet.load([port("a"), port("p1")], branch="june")
    assert (data_files(fleet), written(fleet, "june")) == (before, state)
    assert fleet.snapshot("main").table("Port").list_branches() == {}


def test_a_first_write_by_somebody_else_comes_before_the_fork(fleet: Graph) -> None:
    fleet.create_branch("june")
    insert = 'query q() { insert Port { code: "other", name: "o" } }'
    with meanwhile(lambda: fleet.mutate(insert, branch="june"), "table.audit"):
        fleet.load([port("a")], branch="june")
    assert ports(fleet, "june") == {**PORTS, "other": "o", "a": "n"}
    assert ports(fleet) == PORTS


def test_a_missing_branch_is_made_when_the_rows_are_known_to_be_good(fleet: Graph) -> None:
    with pytest.raises(ValidationError):
        fleet.load([port("p1")], branch="june", from_branch="main")
    assert [branch.name for branch in fleet.branches()] == ["main"]
    fleet.load([port("a")], branch="june", from_branch="main")
    assert ports(fleet, "june") == {**PORTS, "a": "n"}


def test_a_branch_that_is_re_created_while_rows_are_staged_is_a_conflict(fleet: Graph) -> None:
    fleet.create_branch("june")
    fleet.load([port("a")], branch="june")

    def read() -> Iterator[Mapping[str, object]]:
        yield port("b")
        yield port("c")
        fleet.delete_branch("june")
        fleet.create_branch("june")
        fleet.load([port("z")], branch="june")

    with pytest.raises(ConflictError, match="re-created"):
        fleet.load(read(), branch="june")
    assert ports(fleet, "june") == {**PORTS, "z": "n"}


def load_a_lot(uri: str, branch: str) -> LoadResult:
    """Load many rows, in a process that may die."""
    gathering.MAX_STREAM_BYTES = 0  # pyright: ignore[reportConstantRedefinition]  the process is made for this call
    gathering.MAX_BUFFERED_BYTES = 0  # pyright: ignore[reportConstantRedefinition]  the process is made for this call
    records = [port("a"), port("p1", "new"), {"edge": "CallsAt", "from": "v1", "to": "a"}]
    return omnigraph.open(uri).load(records, mode="merge", branch=branch, txn=("import", 1))


@pytest.mark.parametrize("branch", ["main", pytest.param("june", marks=pytest.mark.slow)])
def test_a_txn_that_died_anywhere_is_loaded_once_by_its_retry(fleet: Graph, branch: str) -> None:
    if branch != "main":
        fleet.create_branch(branch)
    template = Path(fleet.uri)
    steps = crash.record(load_a_lot, str(crash.fresh_copy(template)), branch)
    assert "table.audit" in {step.name for step in steps}
    for number, when in crash.some_crashes(steps):
        uri = str(crash.fresh_copy(template))
        crash.kill_at(load_a_lot, (uri, branch), number, when)
        crash.run(load_a_lot, uri, branch)
        graph = omnigraph.open(uri)
        assert ports(graph, branch) == {"p1": "new", "p2": "Kiel", "a": "n"}, (when, steps[number - 1])
        assert [each.txn for each in graph.commits(branch)].count(("import", 1)) == 1


def merge_calls(uri: str) -> LoadResult:
    """Merge a few rows without a txn: one is there already, one is moved, one is new."""
    calls = [("v1", "p2", "2024-01-01T08:00:00Z"), ("v2", "p1", "2024-01-01T08:00:00Z")]
    edges = [{"edge": "CallsAt", "from": vessel, "to": to, "data": {"at": at}} for vessel, to, at in calls]
    identity = {"CallsAt": ["from", "at"]}
    return omnigraph.open(uri).load([port("p1", "Oslo", depth=12.5), *edges], mode="merge", identity=identity)


def test_a_merge_that_died_anywhere_is_finished_by_the_next_one(fleet: Graph) -> None:
    template = Path(fleet.uri)
    steps = crash.record(merge_calls, str(crash.fresh_copy(template)))
    for number, when in crash.some_crashes(steps):
        uri = str(crash.fresh_copy(template))
        crash.kill_at(merge_calls, (uri,), number, when)
        crash.run(merge_calls, uri)
        graph = omnigraph.open(uri)
        found = sorted((str(row["src"]), str(row["dst"])) for row in rows_of(graph, "CallsAt"))
        assert (found, ports(graph)) == ([("v1", "p2"), ("v2", "p1")], PORTS), (when, steps[number - 1])
        assert merge_calls(uri).commit is None


def load_what_is_good(uri: str) -> LoadResult:
    return omnigraph.open(uri).load([port("a")], txn=("import", 1), on_error="quarantine")


def test_what_a_dead_load_committed_is_not_in_the_way_of_its_retry(fleet: Graph) -> None:
    """The retry uses a handle that was open all the time, so that nobody else has healed the branch."""
    steps = crash.record(load_what_is_good, str(crash.fresh_copy(Path(fleet.uri))))
    committed = next(number for number, step in enumerate(steps, 1) if step.name == "table.commit")
    crash.kill_at(load_what_is_good, (fleet.uri,), committed, "after")
    again = fleet.load([port("a")], txn=("import", 1), on_error="quarantine")
    assert (again.replayed, again.rejected) == (True, 0)
    assert ports(fleet) == {**PORTS, "a": "n"}


# --------------------------------------------------------------------------------------------- object stores


# With DynamoDB, and in a merge, rows are kept locally until they are checked, and then written at once.
@pytest.mark.parametrize(("store", "fragments"), [("s3_location", 2), ("ddb_location", 1)])
def test_many_rows_on_an_object_store(store: str, fragments: int, request: pytest.FixtureRequest) -> None:
    location = cast(Location, request.getfixturevalue(store))
    graph = omnigraph.init(location.uri, PORT_SCHEMA, storage_options=dict(location.storage_options))
    graph.load([port("a"), port("b")])
    graph.load([port("b", "new"), port("c")], mode="merge")
    with pytest.raises(ValidationError):
        graph.load([port("d"), port("a")])
    assert ports(graph) == {"a": "n", "b": "new", "c": "n"}
    table = graph.snapshot().table("Port")
    assert table.head_version() == table.version == 3
    files = [found for found in Objects(location).list("nodes") if "/data/" in found.path]
    assert len(files) == fragments + 1


# --------------------------------------------------------------------------------------------- blobs

FILES = "node File { name: String @key  body: Blob? }"
BODIES = {"none": None, "small": b"x" * 10, "large": b"y" * 200_000, "huge": b"z" * 5_000_000}


def bodies(graph: Graph, branch: str) -> dict[str, bytes | None]:
    table = graph.snapshot(branch).table("File")
    rows = table.scan(["name", "body"], with_row_address=True).read_all()
    found: dict[str, bytes | None] = {}
    for name, body, address in zip(*(rows[column].to_pylist() for column in rows.column_names), strict=True):
        read = [] if body is None else table.dataset.read_blobs("body", addresses=[address])
        found[name] = read[0][1] if read else None
    return found


def test_blobs_come_along_wherever_their_rows_are_staged(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "files.og", FILES)
    graph.create_branch("june")
    texts = {name: body and "base64:" + base64.b64encode(body).decode() for name, body in BODIES.items()}
    records = [{"type": "File", "data": {"name": name, "body": text}} for name, text in texts.items()]
    for branch in ("main", "june"):
        graph.load(records, branch=branch)
        assert bodies(graph, branch) == BODIES
    before = data_files(graph)
    with pytest.raises(ValidationError):
        graph.load([*records[2:], records[2]], mode="merge")
    assert data_files(graph) == before
    result = graph.load([records[1], {"type": "File", "data": {"name": "new"}}], on_error="quarantine")
    assert (result.nodes, result.rejected) == ({"File": 1}, 1)
    (rejected,) = Path(result.rejects_path or "").read_text().splitlines()
    assert json.loads(json.loads(rejected)["record"])["data"] == {"name": "small", "body": texts["small"]}
