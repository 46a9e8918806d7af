"""Upkeep that follows commits by itself: few fragments however many commits, and nobody sees it who does not ask."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph
from omnigraph.cli import detached_upkeep
from omnigraph.cli.app import main
from omnigraph.errors import HistoryGone, OmniGraphError, ParameterError, PreconditionFailed, ReadOnly
from omnigraph.graph import Graph
from omnigraph.maintain.upkeep import BackgroundUpkeep, do_upkeep
from omnigraph.storage import tables
from omnigraph.storage.location import Location
from omnigraph.storage.locks import LOCK_KINDS, LockKind, branch_lock
from omnigraph.storage.tables import Table, upkeep
from tests.maintain.ports import SCHEMA, add, cleanup_now, fragments, remove, shown
from tests.s3 import S3Server
from tests.s3_proxy import Proxy
from tests.selection import daily, sized
from tests.write.writers import run_right_after

FEW = 4
"""How many small fragments in a row are merged in these tests; 64 without them."""
RENAME = "query rename($code: String, $name: String) { update Port set { name: $name } where code = $code }"
FIND = "query find($code: String) { match { $p: Port { code: $code } } return { $p.name } }"
NAMED = "query named($word: String) { match { $p: Port  search($p.name, $word) } return { $p.code } order { $p.code } }"


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "MANY_SMALL_FRAGMENTS", FEW)


@pytest.fixture
def young(tmp_path: Path) -> Graph:
    return omnigraph.init(tmp_path / "young.og", SCHEMA, durability="process")


def settle(graph: Graph) -> None:
    """Wait until no upkeep is going on."""
    if graph._background is not None:
        graph._background.join(60)


def add_all(graph: Graph, codes: list[str], branch: str = "main") -> list[str]:
    """One commit for each, with upkeep in between. Their ids."""
    made: list[str] = []
    for code in codes:
        made.append(add(graph, code, branch))
        settle(graph)
    return made


# --------------------------------------------------------------------------------------------- what it does


@pytest.mark.costly
def test_fragments_stay_few_however_many_commits(young: Graph) -> None:
    seen: list[int] = []
    for number in range(30):
        add_all(young, [f"p{number:02}"])
        seen.append(max(fragments(young).values()))
    assert max(seen) <= FEW + 2
    assert len(young.commits(upkeep=True)) > 31
    assert shown(young)[0] == [f"p{number:02}" for number in range(30)]
    assert young.verify().findings == ()


@pytest.mark.costly
def test_large_fragments_are_left_alone(young: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "TAIL_SIZES", (10, 20))
    young.load([{"type": "Port", "data": {"code": f"a{number:02}"}} for number in range(25)])
    seen: list[list[int]] = []
    for number in range(sized(50, 80)):
        young.load([{"type": "Port", "data": {"code": f"b{number:02}"}}])
        settle(young)
        seen.append([*young.snapshot().table("Port").fragment_rows().values()])
    assert all(rows[0] == 25 for rows in seen)
    assert max(len(rows) for rows in seen) <= 2 * (FEW + 2)
    # First to the first size. Many of that size are merged again, but not for each of the smaller ones.
    merged = {max(rows[1:]) for rows in seen}
    assert {each for each in merged if each >= 10} <= {*range(10, 10 + FEW + 2), *range(20, 50)}


def test_a_branch_merges_its_own_fragments(young: Graph) -> None:
    add_all(young, ["p00", "p01"])
    young.create_branch("dev")
    before = fragments(young)
    add_all(young, [f"q{number}" for number in range(9)], "dev")
    assert max(fragments(young, "dev").values()) <= FEW + 2
    assert fragments(young) == before
    assert young.merge("dev").commit is not None
    assert len(shown(young)[0]) == 11
    assert young.verify().findings == ()


@pytest.mark.costly
def test_indexes_cover_what_was_merged(young: Graph) -> None:
    add_all(young, [f"p{number:02}" for number in range(3)])
    young.ensure_indexes()
    for number in range(3, 40):
        add_all(young, [f"p{number:02}"])
    table = young.snapshot().table("Port")
    indexes = table.list_indexes()
    uncovered = {name: table.count_rows() - index.rows for name, index in indexes.items()}
    assert uncovered.keys() == {"id_idx", "code_idx", "name_idx"}
    assert max(uncovered.values()) <= 40 // 8 + FEW + 2
    segments = len(tables.index_segments(table, "id_idx"))
    assert 1 < segments <= 4, "a few segments, since a row is not indexed again for each commit"
    for number in range(40):
        assert young.query(FIND, params={"code": f"p{number:02}"}).rows == [{"p.name": f"p{number:02}"}]
        assert len(young.query(NAMED, params={"word": f"p{number:02}"}).rows) == 1


def test_missing_indexes_are_not_built(young: Graph) -> None:
    add_all(young, [f"p{number:02}" for number in range(9)])
    assert young.snapshot().table("Port").list_indexes() == {}


@pytest.mark.costly
@pytest.mark.parametrize("seed", daily(range(12), {0}))
def test_any_writes_between_upkeep_give_the_rows_of_a_dict(young: Graph, seed: int) -> None:
    chance, names = random.Random(seed), dict[str, str]()  # noqa: S311  no secret
    for step in range(sized(40, 60)):
        code = f"p{chance.randrange(25):02}"
        if code not in names:
            add(young, code)
            names[code] = code
        elif chance.random() < 0.3:
            remove(young, code)
            del names[code]
        else:
            names[code] = f"n{step}"
            young.mutate(RENAME, params={"code": code, "name": names[code]})
        if step == 20:
            young.ensure_indexes()
        if step % 3 == 0:
            settle(young)
        if step % 10 == 9:
            for graph in (young, omnigraph.open(young.uri, "ro")):
                assert shown(graph)[0] == sorted(names)
                for each in {*names, "none"}:
                    found = graph.query(FIND, params={"code": each}).rows
                    assert found == ([{"p.name": names[each]}] if each in names else [])
                    text = graph.query(NAMED, params={"word": names.get(each, "none")}).rows
                    assert text == [{"p.code": key} for key in sorted(names) if names[key] == names.get(each)]
    settle(young)
    assert any(commit.upkeep for commit in young.commits(upkeep=True))
    assert young.verify().findings == ()


# --------------------------------------------------------------------------------------------- who sees it


def test_history_does_not_show_it(young: Graph) -> None:
    first = young.commits()[0]
    made = add_all(young, [f"p{number:02}" for number in range(FEW + 2)])
    every = young.commits(upkeep=True)
    hidden = [commit for commit in every if commit.upkeep]
    assert [commit.message for commit in reversed(hidden)] == ["merge small fragments"]
    assert [commit.id for commit in young.commits()] == [*reversed(made), first.id]
    assert [commit.id for commit in young.ancestry()] == [*reversed(made), first.id]
    assert {commit.id for commit in young.ancestry(upkeep=True)} == {commit.id for commit in every}
    # It is a leaf: the next commit follows the commit before it.
    before = dict(zip(made[1:], made, strict=False))
    assert all(commit.parents == (before[commit.id],) for commit in young.commits(limit=len(made) - 1))
    for graph in (young, omnigraph.open(young.uri, "ro")):
        newest = graph.snapshot().commit
        assert newest is not None
        assert newest.id == made[-1] == graph.branches()[0].head
        assert graph.query(FIND, params={"code": "p00"}).commit == newest
        assert shown(graph, at=f"v{graph.snapshot().manifest_version}") == shown(graph, at=made[-1]) == shown(graph)
    assert young.commit(hidden[0].id).upkeep, "by its id it can be looked at"
    assert shown(young, at=hidden[0].id)[0] == shown(young, at=hidden[0].parents[0])[0]


def test_a_condition_on_the_head_does_not_see_it(young: Graph) -> None:
    made = add_all(young, [f"p{number:02}" for number in range(FEW + 1)])
    top = young.commits(upkeep=True)[0]
    assert top.upkeep
    for if_commit in (made[-1], top.id):
        other = omnigraph.open(young.uri)
        other.create_branch(f"b-{if_commit}")
        other.mutate(RENAME, params={"code": "p00", "name": "x"}, branch=f"b-{if_commit}", if_commit=if_commit)
        other.mutate(RENAME, params={"code": "none", "name": "x"}, if_commit=if_commit)
    young.mutate(RENAME, params={"code": "p00", "name": "x"}, if_commit=made[-1])
    for if_commit in (made[-1], top.id):
        with pytest.raises(PreconditionFailed):
            young.mutate(RENAME, params={"code": "p00", "name": "y"}, if_commit=if_commit)


def test_followers_do_not_see_it(young: Graph) -> None:
    cursor = young.changes("now").cursor
    made = add_all(young, [f"p{number:02}" for number in range(2 * FEW)])
    feed = young.changes(cursor=cursor)
    blocks = [(block.commit.id, [change.id for change in block.entities() if change.kind == "node"]) for block in feed]
    assert blocks == [(commit, [f"p{number:02}"]) for number, commit in enumerate(made)]
    do_nothing = young.changes(cursor=feed.cursor)
    assert list(do_nothing) == []
    assert do_nothing.cursor == do_nothing.newest == feed.cursor
    young.optimize()
    assert list(young.changes(cursor=feed.cursor)) == []
    assert young.changes("now").cursor == feed.cursor


def test_merges_do_not_see_it(young: Graph) -> None:
    add_all(young, ["p00", "p01"])
    young.create_branch("dev")
    young.optimize()
    assert young.merge("main", into="dev").outcome == "already-up-to-date"
    add_all(young, ["q00"], "dev")
    young.optimize("dev")
    result = young.merge("dev", delete_branch=True)
    assert (result.outcome, result.branch_kept) == ("fast-forward", None)


def test_cleanup_keeps_the_commit_below_it(young: Graph) -> None:
    made = add_all(young, [f"p{number:02}" for number in range(FEW + 1)])
    assert young.commits(upkeep=True)[0].upkeep
    cleanup_now(young, keep=1)
    assert shown(young, at=made[-1]) == shown(young)
    young.create_tag("last", made[-1])
    assert young.verify().findings == ()


def test_a_hard_drop_is_not_refused_because_of_the_commit_below_it(young: Graph) -> None:
    made = add_all(young, [f"p{number:02}" for number in range(FEW + 1)])
    assert young.commits(upkeep=True)[0].upkeep
    cleanup_now(young, keep=1)
    young.apply_schema(SCHEMA.replace("depth: F64?  @range(depth, 0..100)", ""), allow_data_loss=True)
    assert len(shown(young)[0]) == FEW + 1
    with pytest.raises(HistoryGone):
        shown(young, at=made[-1])
    assert young.verify().findings == ()


# --------------------------------------------------------------------------------------------- beside writers


def test_a_write_that_was_staged_before_it_goes_through(young: Graph) -> None:
    add_all(young, [f"p{number:02}" for number in range(FEW)])
    other = omnigraph.open(young.uri)
    young.delegate_upkeep(lambda _branch: None)

    def overtake() -> None:
        other.load([{"type": "Port", "data": {"code": "late"}}])
        settle(other)

    # Compaction moves the rows that an update is about to change: strict work is re-based on it.
    with run_right_after("table.stage", "nodes", lambda: do_upkeep(other._manifest, "main")):
        young.mutate(RENAME, params={"code": "p01", "name": "x"})
    overtake()
    assert young.query(FIND, params={"code": "p01"}).rows == [{"p.name": "x"}]
    assert "late" in shown(young)[0]


def test_nothing_is_computed_under_the_lock(young: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    young.ensure_indexes()
    computed: list[str] = []

    def watch(name: str, compute: Callable[..., object]) -> Callable[..., object]:
        def watched(table: Table, *arguments: object) -> object:
            if not table.uri.endswith("__manifest"):
                with branch_lock(young._manifest.location, "main", young._manifest.locks):
                    computed.append(name)
            return compute(table, *arguments)

        return watched

    for name in ("run_compaction", "build_segment"):
        monkeypatch.setattr(tables, name, watch(name, getattr(tables, name)))
    add_all(young, ["p00"])
    young.ensure_indexes()
    computed.clear()
    young.delegate_upkeep(lambda _branch: None)
    add_all(young, [f"q{number:02}" for number in range(FEW + 1)])
    do_upkeep(young._manifest, "main")
    assert {*computed} == {"run_compaction", "build_segment"}
    assert fragments(young)["node:Port"] <= 3


def test_what_others_changed_is_dropped_and_tried_again_after_a_later_commit(young: Graph) -> None:
    young.delegate_upkeep(lambda _branch: None)
    add_all(young, [f"p{number:02}" for number in range(FEW + 1)])
    other = omnigraph.open(young.uri)
    with run_right_after("table.stage", "nodes", lambda: remove(other, "p02")):
        do_upkeep(young._manifest, "main")
    assert fragments(young)["node:Port"] == FEW
    add(young, "next")
    do_upkeep(young._manifest, "main")
    assert fragments(young)["node:Port"] == 1


def test_an_error_is_nobody_s_problem(young: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> object:
        raise OmniGraphError("the disk is on fire")

    monkeypatch.setattr(tables, "run_compaction", fail)
    add_all(young, [f"p{number:02}" for number in range(2 * FEW)])
    assert fragments(young)["node:Port"] == 2 * FEW
    monkeypatch.undo()
    monkeypatch.setattr(upkeep, "MANY_SMALL_FRAGMENTS", FEW)
    add_all(young, ["next"])
    assert fragments(young)["node:Port"] == 1


def test_what_cannot_be_merged_is_not_tried_after_each_commit(young: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    monkeypatch.setattr(upkeep, "_MAX_TAIL_BYTES", 2)

    def count(self: BackgroundUpkeep, branch: str) -> frozenset[str]:
        tried.append(branch)
        return do_upkeep(self._manifest, branch)

    monkeypatch.setattr(BackgroundUpkeep, "_do", count)
    add_all(young, [f"p{number:02}" for number in range(20)])
    assert fragments(young)["node:Port"] == 20
    # Both tables are crowded by the same commits. Nothing helps, so the next try waits for 64 more.
    assert tried == ["main"]


@pytest.mark.parametrize("lock", daily(LOCK_KINDS, {"lease"}))
def test_with_every_kind_of_lock(tmp_path: Path, lock: LockKind) -> None:
    graph = omnigraph.init(tmp_path / "g.og", SCHEMA, lock=lock)
    add_all(graph, [f"p{number:02}" for number in range(3 * FEW)])
    assert max(fragments(graph).values()) <= FEW + 2
    assert graph.verify().findings == ()


# --------------------------------------------------------------------------------------------- where it runs


def test_it_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_UPKEEP", "off")
    graph = omnigraph.init(tmp_path / "g.og", SCHEMA)
    add_all(graph, [f"p{number:02}" for number in range(FEW + 2)])
    assert fragments(graph)["node:Port"] == FEW + 2
    graph.do_upkeep()
    assert fragments(graph)["node:Port"] == 1
    with pytest.raises(ReadOnly):
        omnigraph.open(graph.uri, "ro").do_upkeep()
    monkeypatch.setenv("OMNIGRAPH_UPKEEP", "sometimes")
    with pytest.raises(ParameterError, match="OMNIGRAPH_UPKEEP is 'sometimes'"):
        omnigraph.open(graph.uri)


def test_closing_waits_for_it(young: Graph) -> None:
    for number in range(FEW + 1):
        add(young, f"p{number:02}")
    young.close()
    assert fragments(young)["node:Port"] < FEW


def test_a_command_leaves_it_to_a_child(young: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[object, ...]] = []

    def start(*task: object) -> None:
        started.append(task)

    monkeypatch.setattr(detached_upkeep, "start_upkeep", start)
    add_all(young, [f"p{number:02}" for number in range(FEW)])
    query = tmp_path / "add.gq"
    query.write_text('query add() { insert Port { code: "cli" } }')
    assert main(["mutate", str(query), "-g", young.uri, "--storage-option", "region=x"]) == 0
    assert started == [(young.uri, {"region": "x"}, "main")]
    assert fragments(young)["node:Port"] == FEW + 1
    detached_upkeep.run_upkeep(b'{"uri": "%b", "storage_options": {}, "branch": "main"}' % young.uri.encode())
    assert fragments(young)["node:Port"] == 1
    detached_upkeep.run_upkeep(b'{"uri": "/gone", "storage_options": {}, "branch": "main"}')


@pytest.mark.costly
def test_a_child_reads_its_task(young: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[detached_upkeep.subprocess.Popen[bytes]] = []
    popen = detached_upkeep.subprocess.Popen

    def start(*arguments: object, **options: object) -> detached_upkeep.subprocess.Popen[bytes]:
        children.append(popen(*arguments, **options))  # pyright: ignore[reportCallIssue, reportArgumentType]
        return children[-1]

    monkeypatch.setattr(detached_upkeep.subprocess, "Popen", start)
    detached_upkeep.start_upkeep(young.uri, {}, "main")
    assert children[0].wait(60) == 0


# --------------------------------------------------------------------------------------------- what it costs


@pytest.mark.slow
def test_requests_to_tables_do_not_grow_with_history_on_s3(s3_location: Location, s3_proxy: Proxy) -> None:
    graph = omnigraph.init(s3_location.uri, SCHEMA, storage_options=S3Server(s3_proxy.endpoint).options)
    counted: dict[int, list[int]] = {}
    for number in range(5 * FEW):
        settle(graph)
        pieces = fragments(graph)["node:Port"]
        with s3_proxy.counting() as seen:
            graph.load([{"type": "Port", "data": {"code": f"p{number:02}"}}])
        counted.setdefault(pieces, []).append(sum("/nodes/" in request.target for request in seen))
    settle(graph)
    assert max(counted) <= FEW
    # The commit that makes upkeep due is left out, since its requests are counted too.
    again = {pieces: requests[1:] for pieces, requests in counted.items() if len(requests) > 2 and pieces < FEW}
    assert min(min(requests) for requests in again.values()) > 0
    assert {pieces: len(set(requests)) for pieces, requests in again.items()} == dict.fromkeys(again, 1)
    assert omnigraph.open(graph.uri, "ro", storage_options=s3_location.options()).verify().findings == ()


# Upkeep that reads without end, and does not begin anew once it is told to stop.
ENDLESS = """
import sys, threading, omnigraph
from omnigraph.deadlines import check_deadline
from omnigraph.maintain import upkeep
began = threading.Event()
def read(manifest, branch):
    while True:
        began.set()
        check_deadline()
        graph.snapshot().table("Port").count_rows("code LIKE '%a%'")
upkeep.do_upkeep, upkeep.SECONDS_AT_CLOSE = read, 0.1
graph = omnigraph.open(sys.argv[1])
graph._do_in_background().request("main", ["node:Port"])
began.wait()
"""


def test_a_process_that_ends_meanwhile_ends_well(young: Graph) -> None:
    """A thread in the middle of Lance would make it abort."""
    ended = subprocess.run([sys.executable, "-c", ENDLESS, young.uri], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
