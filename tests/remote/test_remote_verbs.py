"""Every verb gives the same through a server as on the disk: results, types, errors, and what it leaves behind."""

from __future__ import annotations

import inspect
import io
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph.errors import (
    AlreadyExists,
    DeadlineExceeded,
    MergeConflicts,
    NotFound,
    OmniGraphError,
    ParameterError,
    PreconditionFailed,
    QueryError,
    ReadOnly,
    Unsupported,
    ValidationError,
)
from omnigraph.graph import Graph
from omnigraph.read.rows import Format
from omnigraph.remote import RemoteGraph
from omnigraph.remote.base import RemoteBase
from omnigraph.storage.location import locate
from omnigraph.storage.locks import branch_lock
from tests.remote.conftest import ADD, SCHEMA
from tests.remote.served import ServerProcess

ALL = """query all() {
  match { $p: Person }
  return { $p.name, $p.age, $p.big, $p.score, $p.born, $p.seen, $p.tags, $p.place }
  order { $p.name }
}"""
ONE = "query one($name: String) { match { $p: Person { name: $name } } return { $p.age } }"
AT = """query at($seen: DateTime, $big: I64) {
  match { $p: Person  $p.seen <= $seen  $p.big = $big }
  return { $p.name }
}"""
UPDATE = 'query u($age: I32) { update Person set { age: $age } where name = "ann" }'

Read = Callable[[Graph], object]
READS: dict[str, Read] = {
    "query": lambda g: (repr(g.query(ALL).rows), g.query(ALL).schema, g.query(ALL).commit, g.query(ALL).query_name),
    "query again": lambda g: [result.row_count for result in [g.query(ALL)] for _ in range(2)],
    "query batches": lambda g: [batch.num_rows for batch in g.query(ALL).batches(2)],
    "query page": lambda g: g.query(ALL).page(1, 1).rows.column("p.name").to_pylist(),
    "query json": lambda g: g.query(ALL).to_json(),
    "query parameters": lambda g: g.query(AT, params={"seen": datetime(2024, 6, 1, tzinfo=UTC), "big": 2**60}).rows,
    "query branch": lambda g: (
        g.query(ONE, params={"name": "eve"}, branch="dev/a").rows,
        g.query(ALL, at="start/here").row_count,
    ),
    "query at": lambda g: g.query(ALL, at=g.commits()[1].id).to_arrow().select(["p.name", "p.age"]),
    "query nothing": lambda g: g.query(ONE, params={"name": "nobody"}).to_arrow(),
    "explain": lambda g: g.explain(ALL),
    "profile": lambda g: (
        g.profile(ALL).row_count,
        g.profile(ALL).seconds > 0,
        str(g.profile(ALL)).splitlines()[0].split()[0],
    ),
    "nodes": lambda g: g.nodes("Person", [("big", ">", 2**59)], ["name", "big"]).to_arrow(),
    "nodes by text": lambda g: g.nodes("Person", [("name", "starts_with", "a")], ["name"]).to_arrow(),
    "nodes all": lambda g: g.nodes("Slot").to_arrow(),
    "scan twice": lambda g: [len(list(scan)) for scan in [g.nodes("Person")] for _ in range(2)],
    "edges": lambda g: g.edges("Knows", at="start/here").to_arrow(),
    "get": lambda g: repr(g.get("Person", "ann")),
    "get by key": lambda g: g.get("Slot", {"line": "x", "seq": 1}),
    "get nothing": lambda g: g.get("Person", "nobody"),
    "neighbors": lambda g: (
        g.neighbors("Person", "ann", direction="both", at="start/here"),
        g.neighbors("Person", "ann", limit=1),
    ),
    "degrees": lambda g: (g.degrees("Person", "ann", at="start/here"), g.degrees("Person", "nobody")),
    "blob": lambda g: (
        g.blob("Person", "ann", "photo"),
        g.blob("Person", "ann", "photo", 1, 3),
        g.blob("Person", "eve", "photo", branch="dev/a"),
    ),
    "export": lambda g: list(g.export()),
    "export types": lambda g: list(g.export(types=["Slot"], branch="dev/a")),
    "commits": lambda g: (g.commits(), g.commits("dev/a", 1), g.commits(actor="act-bob"), g.commits(upkeep=True)),
    "commits since": lambda g: g.commits(since=g.commits()[1].created_at, until=datetime.now(UTC)),
    "ancestry": lambda g: (g.ancestry(), g.ancestry("dev/a", 2)),
    "commit": lambda g: (g.commit(g.commits()[1].id), g.commit("start/here"), g.commit(2), g.commit(datetime.now(UTC))),
    "find_commit": lambda g: (g.find_commit("dev/a", txn=("app", 1)), g.find_commit("dev/a", txn=("app", 2))),
    "snapshot": lambda g: [
        (s.branch, s.manifest_version, s.commit, s.schema_ir_hash, dict(s.pins)) for s in [g.snapshot("dev/a")]
    ],
    "snapshot catalog": lambda g: sorted(g.snapshot().catalog().nodes),
    "schema": lambda g: (g.schema.hash, g.schema_at("start/here").hash),
    "diff": lambda g: [
        (d.summary(), list(d.entities()), list(d.records()), d.to_arrow("Person")) for d in [g.diff("start/here")]
    ],
    "diff branch": lambda g: (g.diff("dev/a").to_json(), list(g.diff("dev/a", types=["Slot"]).entities())),
    "diff tips": lambda g: (g.diff("dev/a", tips=True).to_json(), g.diff("dev/a", tips=True).to_arrow("Person")),
    "changes": lambda g: [(b.commit, b.cursor, list(b.entities()), b.summary()) for b in g.changes("beginning")],
    "changes cursors": lambda g: [
        (c.cursor, c.newest, list(c.cursors())) for c in [g.changes("after:start/here", types=["Knows"])]
    ],
    "history": lambda g: (g.history("Person", "ann"), g.history("Person", "bob"), g.history("Person", "nobody")),
    "history page": lambda g: g.history("Person", "ann", limit=1, before=g.history("Person", "ann")[0].commit.id),
    "branches": lambda g: g.branches(),
    "tags": lambda g: g.tags(),
    "info": lambda g: [(i.format, i.branches, i.head, dict(i.nodes), dict(i.edges), i.mode) for i in [g.info()]],
    "baseline": lambda g: [
        (b.commit, b.cursor, b.summary(), list(b.entities()), list(b.records()), b.diff.to_arrow("Person"))
        for b in [g.baseline(), g.baseline("start/here", types=["Person"])]
    ],
    "changes after a baseline": lambda g: [
        block.commit for block in g.changes(cursor=g.baseline("start/here", types=["Person"]).cursor, types=["Person"])
    ],
    "health": lambda g: (g.health(), g.health("dev/a").tables[0].uncovered_rows),
    "recoveries": lambda g: g.recoveries(),
    "verify": lambda g: replace(g.verify(), seconds=0.0),
    "plan_schema": lambda g: g.plan_schema(SCHEMA.replace("age: I32?", "")),
}
ERRORS: dict[str, tuple[type[OmniGraphError], Read]] = {
    "unknown type": (QueryError, lambda g: g.query("query q() { match { $p: Persn } return { $p.name } }")),
    "unknown name": (NotFound, lambda g: g.nodes("Persn")),
    "unknown branch": (NotFound, lambda g: g.query(ALL, branch="nope")),
    "unknown tag": (NotFound, lambda g: g.query(ALL, at="nope")),
    "no head": (NotFound, lambda g: g.diff("HEAD~1", "HEAD")),
    "unknown commit": (NotFound, lambda g: g.commit("01ARZ3NDEKTSV4RRFFQ69G5FAV")),
    "wrong parameter": (ParameterError, lambda g: g.query(ONE, params={"nam": "x"})),
    "wrong type": (ParameterError, lambda g: g.query(ONE, params={"name": 7})),
    "wrong filter": (ParameterError, lambda g: g.nodes("Person", [("agee", ">", 3)])),
    "naive time": (ParameterError, lambda g: g.query(ALL, at=datetime(2024, 1, 1))),
    "read only": (ReadOnly, lambda g: g.mutate(ADD, params={"name": "x"})),
    "wrong source": (ParameterError, lambda g: g.query("people")),
    "missing file": (NotFound, lambda g: g.query(Path("/nowhere/q.gq"))),
}


@pytest.mark.parametrize("name", READS)
def test_a_read_gives_the_same(local: Graph, remote: Graph, name: str) -> None:
    read = READS[name]
    assert read(remote) == read(local)


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_the_same(local: Graph, remote: Graph, name: str) -> None:
    kind, read = ERRORS[name]
    found: list[OmniGraphError] = []
    for graph in (local, remote):
        with pytest.raises(OmniGraphError) as caught:
            read(graph)
        found.append(caught.value)
    assert [type(each) for each in found] == [kind, kind]
    assert found[1].hint == found[0].hint
    shown = found[1].message.replace(remote.uri, "the graph")
    assert shown == found[0].message.replace(local.uri, "the graph")


# --------------------------------------------------------------------------------------------- writes


def test_writes_of_all_kinds(graph: Graph) -> None:
    made = graph.mutate(ADD, params={"name": "new"}, message="one more")
    assert made.commit is not None
    assert (made.affected_nodes, made.affected_edges, made.replayed) == (1, 0, False)
    assert (made.commit.actor, made.commit.message, made.commit) == ("act-test", "one more", graph.commits()[0])
    with graph.transaction(message="two") as transaction:
        for name in ("t1", "t2"):
            transaction.mutate(ADD, params={"name": name})
    assert transaction.result is not None
    assert (transaction.result.affected_nodes, transaction.result.commit) == (2, graph.commits()[0])
    records = [{"type": "Slot", "data": {"line": "y", "seq": 2}}]
    loaded = graph.load(records, mode="merge", message="slots")
    assert (loaded.nodes, loaded.rejected, loaded.commit) == ({"Slot": 1}, 0, graph.commits()[0])
    assert graph.load(records, mode="merge").commit is None
    edges = pa.table({"from": ["new"], "to": ["t1"], "since": pa.array([7], pa.int32())})
    nodes = pa.table({"name": ["f1", "f2"], "big": pa.array([2**60 + 1, None])})
    framed = graph.load(nodes={"Person": nodes}, edges={"Knows": edges})
    assert (framed.nodes, framed.edges) == ({"Person": 2}, {"Knows": 1})
    assert graph.nodes("Person", {"name": "f1"}, ["big"]).to_arrow().to_pylist() == [{"big": 2**60 + 1}]
    lines = io.BytesIO(b'{"type": "Slot", "data": {"line": "z", "seq": 3}}\n')
    assert graph.load(lines, check=True).commit is None
    assert graph.snapshot().pins["node:Slot"].row_count == 2


def test_branches_merges_tags_and_reverts(graph: Graph) -> None:
    graph.create_branch("more/b", "dev/a")
    graph.mutate(UPDATE, params={"age": 9}, branch="more/b")
    graph.mutate(UPDATE, params={"age": 8})
    dry = graph.merge("more/b", dry_run=True)
    assert [(each.kind, each.type, each.id, each.properties) for each in dry.conflicts] == [
        ("DivergentUpdate", "Person", "ann", ("age",))
    ]
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("more/b")
    assert [each.key for each in caught.value.conflicts] == [each.key for each in dry.conflicts]
    merged = graph.merge("more/b", prefer="theirs", delete_branch=True)
    assert merged.commit == graph.commits()[0]
    assert (merged.outcome, merged.branch_kept) == ("merged", None)
    assert [branch.name for branch in graph.branches()] == ["main", "dev/a"]
    tag = graph.create_tag("t/1")
    assert tag == graph.tags()[-1]
    undone = graph.revert("t/1", side=1)
    assert undone.commit == graph.commits()[0]
    graph.delete_tag("t/1")
    with pytest.raises(NotFound):
        graph.delete_tag("t/1")
    with pytest.raises(AlreadyExists):
        graph.create_branch("dev/a")
    graph.delete_branch("dev/a")


def test_a_schema_change_and_what_breaks_a_rule(graph: Graph) -> None:
    applied = graph.apply_schema(SCHEMA.replace("age: I32?", "age: I32?  nick: String?"))
    assert applied.applied
    assert applied.commit == graph.commits()[0]
    assert len(applied.steps) == 1
    assert "nick" in graph.schema.catalog.nodes["Person"].properties
    head = graph.commits()[0]
    with pytest.raises(ValidationError) as caught:
        graph.load([{"type": "Person", "data": {"name": "x", "age": "old"}}])
    assert [(each.type, each.property) for each in caught.value.violations] == [("Person", "age")]
    with pytest.raises(PreconditionFailed) as failed:
        graph.mutate(ADD, params={"name": "x"}, if_commit=graph.commits()[1].id)
    assert (failed.value.expected, failed.value.actual) == (graph.commits()[1].id, head.id)
    assert graph.commits()[0] == head


def test_changes_over_a_rename(server: ServerProcess, folder: Path) -> None:
    graph, here = server.open(folder), omnigraph.open(folder)
    graph.delete_branch("dev/a")
    schema = graph.schema.text.replace("Person", "Human").replace("node Human", 'node Human @rename_from("Person")')
    graph.apply_schema(schema)
    graph.mutate('query u() { update Human set { age: 6 } where name = "ann" }')
    revisions = graph.history("Human", "ann")
    assert [each.change.type for each in revisions] == ["Human", "Person", "Person"]
    assert revisions == here.history("Human", "ann")
    assert list(graph.diff("start/here").entities()) == list(here.diff("start/here").entities())


def test_upkeep_of_all_kinds(graph: Graph) -> None:
    for number in range(3):
        graph.mutate(ADD, params={"name": f"n{number}"})
    before = graph.health()
    people = next(table for table in before.tables if table.table_key == "node:Person")
    assert (people.rows, people.uncovered_rows) == (5, 5)
    indexed = graph.ensure_indexes(types=["Person"])
    assert ("node:Person", "id") in {(index.table_key, index.column) for index in indexed.built}
    assert indexed.commit == graph.commits(upkeep=True)[0]
    assert graph.ensure_indexes(types=["Person"]).built == ()
    optimized = graph.optimize()
    assert optimized.commits[0].actor == "act-test"
    table = next(table for table in optimized.tables if table.table_key == "node:Person")
    assert (table.fragments, table.fragments_before > 1) == (1, True)
    after = next(table for table in graph.health().tables if table.table_key == "node:Person")
    assert (after.rows, after.fragments, after.deleted_rows, after.uncovered_rows) == (5, 1, 0, 0)
    preview = graph.cleanup(1, timedelta(seconds=0))
    assert not preview.confirmed
    assert graph.health().last_cleanup is None, "it was only looked at"
    began = datetime.now(UTC)
    assert graph.cleanup(keep=1, older_than="0s", confirm=True).confirmed
    cleaned = graph.health().last_cleanup
    assert cleaned is not None
    assert began <= cleaned <= datetime.now(UTC)
    assert graph.repair().drifts == ()
    assert graph.verify().findings == ()
    with pytest.raises(ParameterError, match="keep"):
        graph.cleanup(None)
    with pytest.raises(NotFound, match="branch 'nope'"):
        graph.optimize("nope")
    with pytest.raises(ParameterError, match="no property with @embed"):
        graph.embed("Person")


def test_who_stops_waiting_for_upkeep_cancels_it(server: ServerProcess, folder: Path) -> None:
    with server.open(folder) as graph:
        # Whoever holds the lock of the branch keeps the operation from its end.
        with branch_lock(locate(folder), "main"), pytest.raises(DeadlineExceeded):
            graph.ensure_indexes(timeout=0.5)
        assert graph.ensure_indexes().built


def test_a_key_and_a_txn_make_one_commit(graph: Graph) -> None:
    first, again = (graph.mutate(ADD, params={"name": "k"}, key="k-1") for _ in range(2))
    assert (again.commit, again.affected_nodes, again.replayed) == (first.commit, 1, True)
    assert graph.find_commit(key="k-1") == first.commit
    loads = [graph.load([{"type": "Slot", "data": {"line": "q", "seq": 1}}], txn=("app", 5)) for _ in range(2)]
    assert [load.replayed for load in loads] == [False, True]


def test_an_export_to_a_file(graph: Graph, tmp_path: Path) -> None:
    result = graph.export(tmp_path / "out.jsonl", types=["Person", "Knows"])
    lines = (tmp_path / "out.jsonl").read_text("utf-8").splitlines(keepends=True)
    assert lines == list(graph.export(types=["Person", "Knows"]))
    assert (result.nodes, result.edges, result.commit) == ({"Person": 2}, {"Knows": 0}, graph.commits()[0])


def test_an_export_to_parquet_is_the_same_files(local: Graph, remote: Graph, tmp_path: Path) -> None:
    results = [
        graph.export(tmp_path / name, branch="dev/a", format="parquet")
        for name, graph in (("local", local), ("remote", remote))
    ]
    assert [replace(result, path=None) for result in results[1:]] == [replace(results[0], path=None)]
    files = sorted(path.relative_to(tmp_path / "local") for path in (tmp_path / "local").rglob("*.parquet"))
    assert [str(path.parent) for path in files] == ["edge/In", "edge/Knows", "node/Person", "node/Slot"]
    for path in files:
        ours, theirs = (pq.read_table(tmp_path / name / path) for name in ("local", "remote"))
        assert ours.equals(theirs, check_metadata=True), path
    people = pq.read_table(tmp_path / "remote" / "node" / "Person" / "00000.parquet")
    assert "base64:aGVsbG8=" in people.column("photo").to_pylist()


def test_an_export_that_is_refused_leaves_nothing(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(AlreadyExists):
        graph.export(tmp_path / "full", format="parquet")
    with pytest.raises(ParameterError, match="tables are a folder of files"):
        graph.export(io.BytesIO(), format="parquet")
    with pytest.raises(ParameterError, match="format is 'xml'"):
        graph.export(tmp_path / "out", format=cast("Format", "xml"))
    with pytest.raises(NotFound, match="no type 'Nobody'"):
        graph.export(tmp_path / "out", types=["Nobody"], format="parquet")
    assert {path.name for path in tmp_path.iterdir()} == {"full"}


def test_settings_are_read_and_changed(graph: Graph) -> None:
    before = graph.settings()
    assert (before.keep, before.lock) == ("off", "flock")
    changed = graph.change_settings(keep="30d")
    assert changed == replace(before, keep="30d") == graph.settings() == graph.change_settings()
    with pytest.raises(ParameterError, match="keep is 'soon'"):
        graph.change_settings(keep="soon")
    assert graph.settings() == changed


# --------------------------------------------------------------------------------------------- the class


def list_public(kind: type) -> dict[str, object]:
    return {name: member for name, member in inspect.getmembers(kind) if not name.startswith("_")}


def test_the_signatures_are_the_same() -> None:
    verbs = {name: member for name, member in list_public(Graph).items() if inspect.isfunction(member)}
    for name, member in verbs.items():
        assert spell(getattr(RemoteGraph, name)) == spell(member), name


def spell(member: object) -> str:
    """The signature; where a type is imported from does not matter."""
    return re.sub(r"\b[a-z_]+\.", "", str(inspect.signature(cast("Callable[..., object]", member))))


def test_every_verb_is_its_own() -> None:
    own = {name for kind in RemoteGraph.__mro__ if issubclass(kind, RemoteBase) for name in vars(kind)}
    assert set(list_public(Graph)) - own == set()


UNSUPPORTED: dict[str, Read] = {
    "spark": lambda g: g.spark(),
    "analytics": lambda g: g.analytics,
    "to_networkx": lambda g: g.to_networkx(["Person"]),
    "table": lambda g: g.snapshot().table("Person"),
    "actor": lambda g: g.mutate(ADD, params={"name": "x"}, actor="other"),
    "memory": lambda g: g.query(ALL, memory="1GB"),
    "engine": lambda g: g.load([], engine="spark"),
    "rejects": lambda g: g.load([], on_error="quarantine", rejects="r.jsonl"),
    "transaction query": lambda g: g.transaction().query(ALL),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_a_server_does_not_do_is_said(remote: Graph, name: str) -> None:
    writable = pickle.loads(pickle.dumps(remote))  # noqa: S301  our own
    writable.mode = "rw"
    with pytest.raises(Unsupported) as caught:
        UNSUPPORTED[name](cast("Graph", writable))
    assert caught.value.hint
