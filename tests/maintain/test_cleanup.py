"""Cleanup: what is kept reads as it did, what is gone says so, and nothing goes before it is confirmed."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import HistoryGone, ParameterError
from omnigraph.graph import Graph
from omnigraph.maintain.cleanup import Cleaned, cleanup
from omnigraph.maintain.orphans import ReclaimKind
from omnigraph.manifest.branches import fork_table
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.settings import parse_age
from omnigraph.storage import tables
from omnigraph.storage.location import Location
from omnigraph.storage.locks import branch_lock
from omnigraph.storage.tables import list_versions
from tests.maintain.ports import AT_ONCE, add, cleanup_now, remove, shown
from tests.write.writers import run_right_after


def sizes(graph: Graph) -> dict[str, int]:
    """Every file of a graph, but those that tell of locks and of the last cleanup."""
    notes = ("__locks", "__cleanup.json")
    return {info.path: info.size for info in graph._manifest.objects.list() if not info.path.startswith(notes)}


def counts(result: Cleaned) -> dict[ReclaimKind, int]:
    return {each.kind: each.count for each in result.reclaimed}


def readable(graph: Graph) -> list[str]:
    found: list[str] = []
    for commit in graph.commits():
        try:
            shown(graph, at=commit.id)
        except HistoryGone:
            continue
        found.append(commit.id)
    return found


def test_the_newest_stay_and_the_others_say_that_they_are_gone(ports: Graph) -> None:
    commits = [commit.id for commit in ports.commits()]
    before = {commit: shown(ports, at=commit) for commit in commits[:3]}
    result = cleanup_now(ports, 3)
    assert (result.commits_kept, result.commits_gone) == (3, len(commits) - 3)
    assert readable(ports) == commits[:3]
    assert {commit: shown(ports, at=commit) for commit in before} == before
    again = omnigraph.open(ports.uri)
    assert [commit.id for commit in again.commits()] == commits, "their times and messages are kept"
    assert add(again, "q1")
    assert shown(ports) == shown(again)


def test_a_preview_says_what_goes_and_changes_nothing(ports: Graph) -> None:
    before = sizes(ports)
    preview = cleanup(ports._manifest, 3, grace=AT_ONCE)
    assert sizes(ports) == before
    done = cleanup_now(ports, 3)
    assert (preview.confirmed, done.confirmed) == (False, True)
    assert preview.reclaimed == done.reclaimed
    assert sum(before.values()) - sum(sizes(ports).values()) == done.bytes > 0
    assert counts(cleanup_now(ports, 3)) == {}


def test_readers_have_an_hour(ports: Graph) -> None:
    assert counts(ports.cleanup(keep=1, confirm=True)).get(ReclaimKind.TABLE_VERSIONS) is None
    assert len(readable(ports)) == len(ports.commits())


def test_what_was_the_head_when_the_hour_began_stays(ports: Graph) -> None:
    time.sleep(0.01)
    cut = datetime.now(UTC)
    heads = [ports.commits()[0].id]
    heads.append(add(ports, "q1"))
    result = cleanup(ports._manifest, 1, confirm=True, grace=datetime.now(UTC) - cut)
    assert (result.commits_kept, sorted(readable(ports))) == (2, sorted(heads))


def test_either_reason_keeps(ports: Graph) -> None:
    young = ports.commits()[5].created_at
    age = datetime.now(UTC) - young
    result = cleanup(ports._manifest, 2, age, confirm=True, grace=AT_ONCE)
    assert 5 <= result.commits_kept <= 6
    result = cleanup(ports._manifest, None, age, confirm=True, grace=AT_ONCE)
    assert result.commits_kept <= 6


def test_tags_and_branches_keep_what_they_show(ports: Graph) -> None:
    commits = [commit.id for commit in ports.commits()]
    ports.create_tag("old", commits[8])
    ports.create_branch("dev", from_=commits[6])
    add(ports, "q1", "dev")
    ports.create_branch("kid", from_="dev")
    remove(ports, "p00", "kid")
    before = shown(ports, at="old"), shown(ports, "dev"), shown(ports, "kid"), shown(ports)
    cleanup_now(ports, 1)
    again = omnigraph.open(ports.uri)
    assert (shown(again, at="old"), shown(again, "dev"), shown(again, "kid"), shown(again)) == before
    assert set(readable(again)) >= {commits[0], commits[6], commits[8]}, (
        "a branch can still be merged from where it began"
    )
    assert commits[3] not in readable(again)
    again.delete_tag("old")
    assert counts(cleanup_now(again, 1))[ReclaimKind.TABLE_VERSIONS] > 0
    assert shown(again, "kid") == before[2]


def test_a_branch_keeps_the_newest_of_its_own(ports: Graph) -> None:
    ports.create_branch("dev")
    for number in range(4):
        add(ports, f"q{number}", "dev")
    commits = [commit.id for commit in ports.commits("dev")]
    before = {commit: shown(ports, "dev", at=commit) for commit in commits[:2]}
    cleanup_now(ports, 2)
    assert {commit: shown(ports, "dev", at=commit) for commit in commits[:2]} == before
    with pytest.raises(HistoryGone):
        shown(ports, "dev", at=commits[3])


def test_what_a_fork_was_made_from_stays_whole(ports: Graph) -> None:
    ports.create_branch("dev")
    add(ports, "dev", "dev")
    ports.create_branch("child", "dev")
    add(ports, "child", "child")
    ports.merge("child", "dev")
    add(ports, "last", "dev")
    cleanup_now(ports, 1)
    assert ports.verify().findings == ()


def test_a_branch_that_was_merged_can_be_merged_again(ports: Graph) -> None:
    ports.create_branch("dev")
    add(ports, "q1", "dev")
    ports.merge("dev")
    for number in range(3):
        add(ports, f"m{number}")
        add(ports, f"d{number}", "dev")
    cleanup_now(ports, 1)
    versions = list_versions(ports._manifest.open(MAIN))
    assert versions == list(range(versions[0], versions[-1] + 1)), "readers look for the next version"
    ports.merge("dev")
    assert {"q1", "m0", "m1", "m2", "d0", "d1", "d2"} <= set(shown(ports)[0])


def test_files_that_nobody_committed_go_when_they_are_old(ports: Graph) -> None:
    table = ports.snapshot().table("Port")
    rows = pa.Table.from_pylist([{"id": "x", "code": "x", "name": None, "depth": None}], schema=table.schema)
    staged = tables.append(table, rows)
    assert staged is not None
    tables.audit_version(table, staged)
    before = sizes(ports)
    assert counts(ports.cleanup(keep=100, confirm=True)).get(ReclaimKind.STAGED) is None, (
        "somebody may be about to commit them"
    )
    result = cleanup_now(ports, 100, stale_after=AT_ONCE)
    assert counts(result)[ReclaimKind.DETACHED] == 1
    assert counts(result)[ReclaimKind.STAGED] >= 1
    gone = before.keys() - sizes(ports).keys()
    assert {Path(path).parent.name for path in gone} >= {"data", "_versions"}
    assert len(shown(ports)[0]) == 12
    assert ports.verify().is_sound


def test_indexes_and_blobs_are_no_leftovers(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.og", "node Doc { code: String @key  body: String @index  file: Blob? }")
    for number in range(3):
        add_doc = 'query add($c: String, $f: Blob) { insert Doc { code: $c, body: "two words", file: $f } }'
        large = "base64:" + "A" * 8_000_000
        graph.mutate(add_doc, params={"c": f"d{number}", "f": large if number == 1 else "base64:QUJD"})
    graph.ensure_indexes()
    before = [graph.blob("Doc", f"d{number}", "file") for number in range(3)]
    graph.optimize()
    cleanup_now(graph, 1, stale_after=AT_ONCE)
    assert [graph.blob("Doc", f"d{number}", "file") for number in range(3)] == before
    assert graph.snapshot().table("Doc").list_indexes().keys() == {"id_idx", "code_idx", "body_idx"}
    question = 'query q() { match { $d: Doc { code: "d1" } search($d.body, "word") } return { $d.code } }'
    assert len(graph.query(question).rows) == 1


def test_loads_that_died_beside_the_graph(ports: Graph) -> None:
    beside = Path(f"{ports.uri}.loading")
    dead, alive = beside / "01J00000000000000000000000", beside / "01J00000000000000000000001"
    other = beside / "notes"
    for folder in (dead, alive, other):
        folder.mkdir(parents=True)
        (folder / "part").write_bytes(b"12345")
    week_ago = time.time() - timedelta(days=8).total_seconds()
    os.utime(dead / "part", (week_ago, week_ago))
    os.utime(other / "part", (week_ago, week_ago))
    result = ports.cleanup(confirm=True)
    assert {each.kind: each.bytes for each in result.reclaimed}[ReclaimKind.LOADS] == 5
    assert not (dead / "part").exists()
    assert (alive / "part").exists()
    assert (other / "part").exists(), "it is not ours"


def test_forks_of_dead_writers_and_dead_branches(ports: Graph) -> None:
    manifest = ports._manifest
    ports.create_branch("dev")
    ports.create_branch("gone")
    add(ports, "q1", "gone")
    near, port = (ports.snapshot().pins[key] for key in ("edge:Near", "node:Port"))
    with branch_lock(manifest.location, "dev") as held:
        fork_table(manifest, held, "dev", near)
    forked = ports.snapshot().table("Port")
    ports.delete_branch("gone")
    tables.create_table_branch(forked, "gone")
    before = shown(ports, "dev"), shown(ports)
    assert counts(ports.cleanup(keep=100))[ReclaimKind.FORKS] == 2
    assert counts(ports.cleanup(keep=100, confirm=True))[ReclaimKind.FORKS] == 2
    assert ports.snapshot().table("Near").list_branches() == {}
    assert ports.snapshot().table("Port").list_branches() == {}
    assert (shown(ports, "dev"), shown(ports)) == before
    assert (near.branch, port.branch) == (None, None)
    add(ports, "q2", "dev")
    assert counts(ports.cleanup(keep=100, confirm=True)).get(ReclaimKind.FORKS) is None, "a fork in use stays"
    assert "q2" in shown(ports, "dev")[0]


def test_a_handle_that_slept_through_it_wakes_up(ports: Graph) -> None:
    sleeper = omnigraph.open(ports.uri)
    old = sleeper.snapshot()
    for number in range(3):
        add(ports, f"q{number}")
    cleanup_now(ports, 1)
    assert shown(sleeper) == shown(ports)
    add(sleeper, "q9")
    assert shown(sleeper) == shown(ports)
    with pytest.raises(HistoryGone, match="removed by cleanup"):
        old.table("Port")


def test_a_writer_that_took_too_long_begins_again(ports: Graph) -> None:
    other = omnigraph.open(ports.uri)

    def overtake() -> None:
        add(other, "q1")
        add(other, "q2")
        cleanup_now(other, 1)

    with run_right_after("table.stage", "nodes", overtake):
        add(ports, "late")
    assert {"q1", "q2", "late"} <= set(shown(ports)[0])


@pytest.mark.parametrize(
    ("keep", "older_than", "says"),
    [
        (0, None, "keep is 0"),
        (-1, None, "keep is -1"),
        (None, None, "needs to know what to keep"),
        (1, "soon", "'soon' is not an age"),
        (1, "99999999999d", "too long an age"),
        (1, timedelta(days=-1), "older_than is -1 day"),
    ],
)
def test_what_it_is_not_asked_to_do(ports: Graph, keep: int | None, older_than: str | None, says: str) -> None:
    before = sizes(ports)
    with pytest.raises(ParameterError, match=says):
        ports.cleanup(keep, older_than, confirm=True)
    assert sizes(ports) == before


def test_ages() -> None:
    assert [parse_age(text) for text in ("90s", "2 m", "12h", "7d", "1w")] == [
        timedelta(seconds=90),
        timedelta(minutes=2),
        timedelta(hours=12),
        timedelta(days=7),
        timedelta(weeks=1),
    ]


@pytest.mark.slow
def test_on_an_object_store(s3_location: Location) -> None:
    options = dict(s3_location.storage_options)
    graph = omnigraph.init(s3_location.uri, "node Port { code: String @key }", storage_options=options)
    for number in range(4):
        graph.load(nodes={"Port": pa.table({"code": [f"p{number}"]})})
    graph.create_branch("dev")
    graph.load(nodes={"Port": pa.table({"code": ["q"]})}, branch="dev")
    before = sizes(graph)
    result = cleanup_now(graph, 2, stale_after=AT_ONCE)
    assert counts(result)[ReclaimKind.TABLE_VERSIONS] > 0
    assert sum(before.values()) - sum(sizes(graph).values()) == result.bytes > 0
    again = omnigraph.open(s3_location.uri, storage_options=options)
    assert (again.info().nodes, again.nodes("Port", branch="dev").to_arrow().num_rows) == ({"Port": 4}, 5)
    with pytest.raises(HistoryGone):
        again.snapshot(at=again.commits()[3].id).table("Port")
    assert MAIN in {branch.name for branch in again.branches()}
    assert again.verify().findings == ()
