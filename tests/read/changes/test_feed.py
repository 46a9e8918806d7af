"""The change feed: one block for each commit, cursors between commits, gaps that are said, nothing lost or doubled."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import islice
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import ChangeGap, NotFound, ParameterError
from omnigraph.graph import Graph
from omnigraph.maintain.cleanup import cleanup
from omnigraph.manifest import handle
from omnigraph.read.changes.compare_rows import Op
from omnigraph.read.changes.feed import ChangeBlock
from omnigraph.storage.location import Location
from tests.manifest.fence import compact
from tests.manifest.publishing import manifest_of
from tests.model.comparing import rows_in
from tests.model.files import traces
from tests.model.graph_writes import SCHEMA, Insert, Link, Load, Mutate, Remove, Resize, Unlink
from tests.model.replica import Replica

TYPES = ("Person", "City", "Firm")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return omnigraph.init(tmp_path / "graph.og", SCHEMA)


def make_history(graph: Graph) -> None:
    """A story with every kind of write on main, and on a branch that begins in the middle of it."""
    Load("append", {"Person": {"p": 1, "q": None, "r": 3}, "City": {"p": 0}}, (("p", "q"),)).run(graph, "main")
    Mutate((Insert("Person", "s", 4), Link("s", "p"), Resize("Person", 2, 9))).run(graph, "main")
    graph.create_branch("dev")
    Mutate((Insert("Firm", "d", 1), Insert("City", "p", 5))).run(graph, "dev")
    Mutate((Remove("Person", "q"),)).run(graph, "main")
    Load("merge", {"Person": {"p": 9, "t": 7}}).run(graph, "main")
    Mutate((Unlink("s"),)).run(graph, "dev")
    graph.ensure_indexes(types=["Person"])
    Load("overwrite", {"Person": {"p": 9, "z": None}}, ()).run(graph, "main")
    compact(graph)
    Mutate((Insert("Person", "last", 0),)).run(graph, "main")


def commits_of(blocks: Iterator[ChangeBlock]) -> list[str]:
    return [block.commit.id for block in blocks]


def history(graph: Graph, branch: str = "main") -> list[str]:
    return [commit.id for commit in reversed(graph.commits(branch))]


# --------------------------------------------------------------------------------------------- blocks


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_from_the_beginning_it_gives_every_commit_as_it_was_and_then_the_head(graph: Graph, branch: str) -> None:
    make_history(graph)
    replica = Replica()
    for block in graph.changes("beginning", branch=branch):
        replica.apply(block)
        assert replica.rows(TYPES) == rows_in(graph.snapshot(at=block.commit.id))
        assert block.commit == graph.commit(block.commit.id)
    assert replica.commits == history(graph, branch)
    assert replica.rows(TYPES) == rows_in(graph.snapshot(branch))


def test_a_block_has_exact_images_in_a_fixed_order(graph: Graph) -> None:
    Load("append", {"Person": {"b": 1, "a": 2}, "City": {"z": None}}, (("b", "a"),)).run(graph, "main")
    made = Mutate((Insert("Person", "a", 5), Insert("Person", "c", 6), Insert("City", "y", 0))).run(graph, "main")
    Mutate((Remove("Person", "b"),)).run(graph, "main")
    assert made is not None
    _, _, changed, removed = graph.changes("beginning")
    assert [(each.kind, each.type, each.id, each.op, each.before, each.after) for each in changed.entities()] == [
        ("node", "City", "y", Op.INSERTED, None, {"name": "y", "size": 0}),
        ("node", "Person", "a", Op.UPDATED, {"name": "a", "size": 2}, {"name": "a", "size": 5}),
        ("node", "Person", "c", Op.INSERTED, None, {"name": "c", "size": 6}),
    ]
    assert [(each["type"], each["op"], each["before"]) for each in removed.records()] == [
        ("Person", "deleted", {"name": "b", "size": 1}),
        ("Knows", "deleted", {"from": "b", "to": "a"}),
    ]
    assert [(each.type, each.inserted, each.updated, each.deleted) for each in changed.summary()] == [
        ("City", 1, 0, 0),
        ("Person", 1, 1, 0),
    ]
    assert (changed.commit.id, changed.commit.parents) == (made.id, made.parents)


def test_what_a_merge_brought_is_the_block_of_the_merge(graph: Graph) -> None:
    make_history(graph)
    before = history(graph)
    graph.merge("dev", into="main")
    cursor = graph.changes(f"after:{before[-1]}").cursor
    (block,) = graph.changes(cursor=cursor)
    assert len(block.commit.parents) == 2
    assert {(each.type, each.id) for each in block.entities()} == {("City", "p"), ("Firm", "d")}
    replica = Replica().take(graph.changes("beginning"))
    assert replica.commits == [*before, block.commit.id]
    assert replica.rows(TYPES) == rows_in(graph.snapshot())


def test_commits_without_rows_are_blocks_and_upkeep_is_none(graph: Graph) -> None:
    Load("append", {"Person": {"p": 1}}).run(graph, "main")
    assert graph.ensure_indexes().commit is not None
    # Rows that are there already make no commit, except to keep a txn.
    Load("merge", {"Person": {"p": 1}}).run(graph, "main")
    graph.load([], txn=("feed", 1))
    counts = {block.commit.id: len(list(block.entities())) for block in graph.changes("beginning")}
    assert list(counts) == history(graph)
    assert list(counts.values()) == [0, 1, 0]


def test_the_manifest_may_be_compacted_in_between(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handle, "COMPACT_AT_FRAGMENTS", 3)
    for number in range(8):
        Mutate((Insert(TYPES[number % 3], f"p{number}", number),)).run(graph, "main")
    blocks = list(omnigraph.open(graph.uri, "ro").changes("beginning"))
    assert len(blocks) == 9
    for block in blocks:
        shown = graph.snapshot(at=block.commit.id)
        assert (block.diff.after.pins, block.diff.after.manifest_version) == (shown.pins, shown.manifest_version)
        assert block.diff.after.schema_ir_hash == shown.schema_ir_hash


def test_only_some_types_are_followed(graph: Graph) -> None:
    make_history(graph)
    replica = Replica().take(graph.changes("beginning", types=["City", "node:Firm"], branch="dev"))
    assert replica.commits == history(graph, "dev")
    assert {key[1] for key in replica.entities} == {"City", "Firm"}
    wrong: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: graph.changes(types=["Cities"]), NotFound, "did you mean 'City'?"),
        (lambda: graph.changes(types="City"), ParameterError, "give a list"),
    ]
    for ask, kind, advice in wrong:
        with pytest.raises(kind, match=advice):
            ask()


def test_reading_writes_nothing(graph: Graph) -> None:
    make_history(graph)
    before = traces(Path(graph.uri))
    reader = omnigraph.open(graph.uri, "ro")
    Replica().take(reader.changes("beginning"))
    list(reader.baseline().entities())
    assert traces(Path(graph.uri)) == before


def test_on_an_object_store(s3_location: Location) -> None:
    options = dict(s3_location.storage_options)
    graph = omnigraph.init(s3_location.uri, SCHEMA, storage_options=options)
    cursor = graph.changes().cursor
    Mutate((Insert("Person", "p", 1), Link("p", "p"))).run(graph, "main")
    Mutate((Remove("Person", "p"),)).run(graph, "main")
    reader = omnigraph.open(s3_location.uri, "ro", storage_options=options)
    made, removed = reader.changes(cursor=cursor)
    for block, op in ((made, Op.INSERTED), (removed, Op.DELETED)):
        assert [(each.type, each.op) for each in block.entities()] == [("Person", op), ("Knows", op)]


# --------------------------------------------------------------------------------------------- where to begin


def test_where_it_begins(graph: Graph) -> None:
    first = Mutate((Insert("Person", "p", 1),)).run(graph, "main")
    assert first is not None
    graph.create_tag("release", first.id)
    following = graph.changes()
    assert commits_of(iter(following)) == []
    second = Mutate((Insert("Person", "q", 1),)).run(graph, "main")
    assert second is not None
    # What was asked before the commit ends before it; its cursor goes on after that.
    assert commits_of(iter(following)) == []
    for begun in (
        graph.changes(cursor=following.cursor),
        graph.changes(f"after:{first.id}"),
        graph.changes("after:release"),
        graph.changes(f"after:v{first.manifest_version}"),
    ):
        assert commits_of(iter(begun)) == [second.id]
    assert commits_of(iter(graph.changes("beginning"))) == history(graph)


def test_a_start_that_makes_no_sense_says_why(graph: Graph) -> None:
    graph.create_branch("dev")
    elsewhere = Mutate((Insert("Person", "p", 1),)).run(graph, "dev")
    assert elsewhere is not None
    wrong: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: graph.changes("yesterday"), ParameterError, "use now, beginning, or after:COMMIT"),
        (lambda: graph.changes("after:nope"), NotFound, "no commit, version, date or tag 'nope'"),
        (lambda: graph.changes(f"after:{elsewhere.id}"), ParameterError, "is not a commit in the history of 'main'"),
        (lambda: graph.baseline(elsewhere.id), ParameterError, "is not a commit in the history of 'main'"),
        (lambda: graph.changes("now", graph.changes().cursor), ParameterError, "both say where to start"),
        (lambda: graph.changes(branch="nope"), NotFound, "no branch 'nope'"),
    ]
    for ask, kind, complaint in wrong:
        with pytest.raises(kind, match=complaint):
            ask()


def test_a_cursor_moves_only_past_whole_blocks(graph: Graph) -> None:
    make_history(graph)
    found = graph.changes("beginning")
    *_, stopped = islice(found, 3)
    assert found.cursor == graph.changes(f"after:{history(graph)[1]}").cursor
    # The last one was begun and perhaps not finished: it comes again.
    assert commits_of(iter(found))[0] == stopped.commit.id
    assert found.cursor == graph.changes("now").cursor
    resumed = graph.changes(cursor=stopped.cursor)
    assert commits_of(iter(resumed)) == history(graph)[3:]
    assert list(graph.changes(cursor=resumed.cursor)) == []


def test_a_cursor_before_everything_is_one_too(graph: Graph) -> None:
    make_history(graph)
    assert commits_of(iter(graph.changes(cursor=graph.changes("beginning").cursor))) == history(graph)


# --------------------------------------------------------------------------------------------- cursors that do not fit


def test_a_cursor_of_something_else_is_refused(graph: Graph, tmp_path: Path) -> None:
    graph.create_branch("dev")
    on_dev = graph.changes(branch="dev").cursor
    with pytest.raises(ParameterError, match="the cursor belongs to branch 'dev', not to 'main'"):
        graph.changes(cursor=on_dev)
    graph.delete_branch("dev")
    graph.create_branch("dev")
    with pytest.raises(ParameterError, match="'dev' was deleted and re-created"):
        graph.changes(cursor=on_dev, branch="dev")
    other = omnigraph.init(tmp_path / "other.og", SCHEMA)
    with pytest.raises(ParameterError, match="the cursor belongs to another graph"):
        graph.changes(cursor=other.changes().cursor)
    some = graph.changes(types=["Person", "City"]).cursor
    assert list(graph.changes(cursor=some, types=["City", "Person"])) == []
    with pytest.raises(ParameterError, match="the cursor follows node:City, node:Person, not all types"):
        graph.changes(cursor=some)
    with pytest.raises(ParameterError, match="the cursor follows all types, not node:City"):
        graph.changes(cursor=graph.changes().cursor, types=["City"])


def test_a_text_that_is_no_cursor_is_refused(graph: Graph) -> None:
    good = graph.changes().cursor
    for text in ("", "nope", good[:-1], good[5:], good.replace(good[20], "-" if good[20] != "-" else "_"), "ogc1.é"):
        with pytest.raises(ParameterError, match="is not a cursor, or is damaged"):
            graph.changes(cursor=text)


def test_a_cursor_outlives_the_handle_and_the_place_of_the_graph(graph: Graph, tmp_path: Path) -> None:
    cursor = graph.changes().cursor
    Mutate((Insert("Person", "p", 1),)).run(graph, "main")
    moved = shutil.copytree(graph.uri, tmp_path / "moved.og")
    assert commits_of(iter(omnigraph.open(moved, "ro").changes(cursor=cursor))) == history(graph)[1:]


# --------------------------------------------------------------------------------------------- gaps and baselines


def forget_version(graph: Graph, table_key: str, at: str) -> None:
    """Take a version of a table away, as cleanup does."""
    pin = graph.snapshot(at=at).pins[table_key]
    manifest_of(graph).objects.delete(f"{pin.location}/_versions/{2**64 - 1 - pin.version:020}.manifest")


def test_after_a_gap_a_baseline_is_the_way_on(graph: Graph) -> None:
    make_history(graph)
    genesis, _, second, third, fourth, *_ = history(graph)
    cursor = graph.changes(f"after:{genesis}").cursor
    forget_version(graph, "node:Person", third)
    late = omnigraph.open(graph.uri, "ro")
    replica = Replica()
    with pytest.raises(ChangeGap, match=f"the changes of commit {third} are gone") as gap:
        replica.take(late.changes(cursor=cursor))
    assert gap.value.details == {"commit": third}
    assert "omnigraph changes baseline" in (gap.value.hint or "")
    # What comes before the gap is given whole, and nothing of what lies behind it.
    assert replica.commits[-1] == second
    with pytest.raises(ChangeGap):
        list(late.changes(f"after:{third}"))
    base = late.baseline(fourth)
    anew = Replica()
    anew.apply(base)
    assert anew.rows(TYPES) == rows_in(graph.snapshot(at=fourth))
    anew.take(late.changes(cursor=base.cursor))
    assert anew.rows(TYPES) == rows_in(graph.snapshot())
    # Whoever does not follow that type has no gap.
    assert commits_of(iter(late.changes("beginning", types=["City"]))) == history(graph)


def test_after_a_cleanup_a_follower_is_told_or_goes_on(graph: Graph) -> None:
    make_history(graph)
    made = history(graph)
    graph.create_tag("kept", made[2])
    cursors = [graph.changes(f"after:{commit}").cursor for commit in made]
    cleanup(manifest_of(graph), keep=2, grace=timedelta(0), confirm=True)
    late = omnigraph.open(graph.uri, "ro")
    assert rows_in(late.snapshot(at="kept")) == rows_in(late.baseline("kept").diff.after)
    outcomes: list[str] = []
    for cursor, commit in zip(cursors, made, strict=True):
        try:
            followed = commits_of(iter(late.changes(cursor=cursor)))
            assert followed == made[made.index(commit) + 1 :]
            outcomes.append("goes on")
        except ChangeGap:
            outcomes.append("is told")
    # The last two commits were kept: whoever has seen the first of them needs nothing else.
    assert outcomes[-2:] == ["goes on"] * 2
    assert outcomes[: len(made) // 2] == ["is told"] * (len(made) // 2)
    base = late.baseline()
    Mutate((Insert("Person", "anew", 0),)).run(graph, "main")
    replica = Replica().take([base]).take(late.changes(cursor=base.cursor))
    assert replica.rows(TYPES) == rows_in(late.snapshot())


def test_a_follower_goes_on_where_cleanup_took_only_upkeep(graph: Graph) -> None:
    for name in ("a", "b"):
        Mutate((Insert("Person", name, 1),)).run(graph, "main")
    feed = graph.changes("beginning")
    known = commits_of(iter(feed))
    upkeep = graph.optimize(types=["Person"]).commits
    assert upkeep
    Mutate((Insert("Person", "c", 1),)).run(graph, "main")
    for version in {graph.snapshot(at=commit.id).pins["node:Person"].version: commit.id for commit in upkeep}.values():
        forget_version(graph, "node:Person", version)
    late = omnigraph.open(graph.uri, "ro")
    (block,) = late.changes(cursor=feed.cursor)
    assert block.commit.parents == (known[-1],)
    assert [(change.op, change.id) for change in block.entities()] == [(Op.INSERTED, "c")]


def test_files_that_go_while_a_block_is_read_are_a_gap_too(graph: Graph) -> None:
    make_history(graph)
    first = history(graph)[1]
    (block,) = islice(omnigraph.open(graph.uri, "ro").changes(f"after:{history(graph)[0]}"), 1)
    assert block.commit.id == first
    pin = graph.snapshot(at=first).pins["node:Person"]
    manifest_of(graph).objects.delete_prefix(f"{pin.location}/data")
    with pytest.raises(ChangeGap, match=f"the changes of commit {first} are gone"):
        list(block.entities())
    forget_version(graph, "node:Person", first)
    with pytest.raises(ChangeGap, match=f"the changes of commit {first} are gone"):
        list(block.records())


def test_a_graph_that_was_put_back_to_an_older_state_is_a_gap(graph: Graph, tmp_path: Path) -> None:
    backup = shutil.copytree(graph.uri, tmp_path / "backup.og")
    Mutate((Insert("Person", "p", 1),)).run(graph, "main")
    cursor = graph.changes().cursor
    with pytest.raises(ChangeGap, match="is not in the history of 'main'"):
        omnigraph.open(backup, "ro").changes(cursor=cursor)


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_a_baseline_is_all_that_is_there_and_the_feed_goes_on_from_it(graph: Graph, branch: str) -> None:
    make_history(graph)
    for at in (None, *history(graph, branch)):
        base = graph.baseline(at, branch=branch)
        replica = Replica()
        replica.apply(base)
        assert replica.rows(TYPES) == rows_in(graph.snapshot(branch, at))
        assert base.commit.id == (at or history(graph, branch)[-1])
    begun = graph.baseline(history(graph, branch)[2], branch=branch)
    replica = Replica().take([begun]).take(graph.changes(cursor=begun.cursor, branch=branch))
    assert replica.rows(TYPES) == rows_in(graph.snapshot(branch))


# --------------------------------------------------------------------------------------------- beside writers


def test_nothing_is_lost_or_doubled_while_others_write(graph: Graph) -> None:
    writers, each = 3, 6
    done = threading.Event()

    def write(name: str) -> None:
        own = omnigraph.open(graph.uri)
        for number in range(each):
            Load("append", {"Person": {f"{name}{number}": number}}).run(own, "main")

    def follow() -> Replica:
        reader = omnigraph.open(graph.uri, "ro")
        replica, cursor = Replica(), None
        while True:
            last_look = done.is_set()
            found = reader.changes("beginning") if cursor is None else reader.changes(cursor=cursor)
            replica.take(found)
            cursor = found.cursor
            if last_look:
                return replica

    with ThreadPoolExecutor(writers + 1) as pool:
        followed = pool.submit(follow)
        for writing in [pool.submit(write, name) for name in "abc"[:writers]]:
            writing.result()
        done.set()
        replica = followed.result()
    assert replica.commits == history(graph)
    assert len(replica.commits) == writers * each + 1
    assert replica.rows(TYPES) == rows_in(graph.snapshot())
