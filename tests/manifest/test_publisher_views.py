"""What a handle keeps: always equal to a full read, and never dearer as history grows."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest

import omnigraph
from omnigraph.errors import StorageError
from omnigraph.graph import Graph
from omnigraph.language.schema import TableKey
from omnigraph.manifest.handle import COMPACT_AT_FRAGMENTS, Manifest
from omnigraph.manifest.history import Commit
from omnigraph.manifest.rows import MAIN, Registration, Tombstone, encode_rows
from omnigraph.manifest.snapshot import list_pins
from omnigraph.manifest.state import read_view
from omnigraph.storage import tables
from omnigraph.storage.location import Location
from omnigraph.storage.tables import StorageCalls, create_table_branch
from tests.manifest.fence import advance, compact, facts, read_from_nothing, send, version_row
from tests.manifest.publishing import commit_rows, make_graph, manifest_of, names
from tests.selection import LARGE, sized

LONG_HISTORIES = (200, 400) if LARGE else (200,)
TYPES = ("node:Person", "node:City", "node:Firm")


@pytest.fixture
def graph(local_location: Location) -> Graph:
    return make_graph(local_location)


def versions(graph: Graph, branch: str) -> dict[str, int]:
    return {key: manifest_of(graph).view(branch).tables.version_of(key) for key in TYPES}


# --------------------------------------------------------------------------------------------- what a view says


def test_a_snapshot_shows_the_greatest_version_of_each_table_that_is_not_dropped(graph: Graph) -> None:
    manifest = manifest_of(graph)
    # As no publisher would write them: out of order, and a tombstone below and at the greatest version.
    rows = [version_row("node:Person", number) for number in (9, 10, 2)]
    rows += [version_row("node:City", 4), version_row("node:Firm", 5, "dev", row_count=3)]
    merged = tables.merge_rows(
        manifest.open(MAIN),
        encode_rows([*rows, Tombstone(TableKey("node:Person"), 9), Tombstone(TableKey("node:City"), 4)]),
    )
    pins = list_pins(read_view(merged, MAIN, None, with_lineage=False))
    shown = [(pin.table_key, pin.version, pin.branch, pin.row_count) for pin in pins.values()]
    assert shown == [("edge:Knows", 1, None, 0), ("node:Firm", 5, "dev", 3), ("node:Person", 10, None, 0)]


def test_a_version_of_a_table_that_nobody_registered_is_a_hard_error(graph: Graph) -> None:
    manifest = manifest_of(graph)
    tables.merge_rows(manifest.open(MAIN), encode_rows([version_row("node:Stray", 2)]))
    for view in (lambda: manifest.view(MAIN), lambda: read_from_nothing(manifest)):
        with pytest.raises(StorageError, match="malformed row 'node:Stray'"):
            view()
    tables.merge_rows(manifest.open(MAIN), encode_rows([Registration(TableKey("node:Stray"), "nodes/stray")]))
    assert manifest.view(MAIN).tables.version_of("node:Stray") == 2


def test_a_view_without_lineage_reads_none(graph: Graph) -> None:
    view = manifest_of(omnigraph.open(graph.uri, "ro")).view(MAIN)
    with pytest.raises(ValueError, match="without its lineage"):
        _ = view.history


# --------------------------------------------------------------------------------------------- extended == fresh


@pytest.mark.parametrize("seed", range(sized(1, 4)))
def test_a_kept_view_is_what_a_full_read_says_whatever_happened_since(graph: Graph, seed: int) -> None:
    """Random work by this handle and by another, on main and on a branch that comes and goes."""
    chance = random.Random(seed)  # noqa: S311  not a secret
    other = omnigraph.open(graph.uri)
    graph.create_branch("dev")
    for _ in range(25):
        branch, actor = chance.choice((MAIN, "dev")), chance.choice((graph, other))
        match chance.randrange(6):
            case 0:
                compact(actor, branch)
            case 1:
                actor.delete_branch("dev")
                begin_at(actor, chance.choice(actor.commits()))
            case _:
                chosen = chance.sample(TYPES, chance.randint(1, 3))
                send(actor, advance(actor, {key: versions(actor, branch)[key] for key in chosen}, branch), branch)
        # The handle under test looks now and then only, so that it has more or less to catch up with.
        if chance.random() < 0.5:
            with_lineage = chance.random() < 0.5
            view = manifest_of(graph).view(branch, with_lineage=with_lineage)
            assert view.tables == read_from_nothing(manifest_of(other), branch).tables
    for branch in (MAIN, "dev"):
        manifest = manifest_of(graph)
        assert facts(manifest.view(branch, with_lineage=True)) == facts(read_from_nothing(manifest, branch))


def begin_at(graph: Graph, commit: Commit) -> None:
    """Create the branch in the manifest alone: the versions that these commits name are of no real table."""
    manifest = manifest_of(graph)
    create_table_branch(manifest.open(MAIN, commit.manifest_version), "dev")
    manifest.forget("dev")


# --------------------------------------------------------------------------------------------- threads


def test_a_snapshot_is_of_one_moment_while_others_publish(graph: Graph) -> None:
    """The commit that a snapshot names is the one that made its pins."""
    done = Event()

    def publish_all() -> dict[int, str]:
        try:
            commits = [send(graph, advance(graph, {"node:Person": number})).commit for number in range(1, 61)]
        finally:
            done.set()
        return {number: commit.id for number, commit in enumerate(commits, start=2)}

    reader = omnigraph.open(graph.uri, "ro")
    seen: list[tuple[int, str]] = []
    with ThreadPoolExecutor(1) as pool:
        published = pool.submit(publish_all)
        while not done.is_set():
            snapshot = reader.snapshot()
            assert snapshot.commit is not None
            seen.append((snapshot.pin("Person").version, snapshot.commit.id))
        made = published.result()
    assert len(set(seen)) > 3
    assert [commit_id for version, commit_id in seen if version > 1] == [
        made[version] for version, _ in seen if version > 1
    ]


def test_threads_share_one_graph(graph: Graph) -> None:
    together = Barrier(3)

    def write(type_name: str) -> None:
        together.wait()
        for number in range(6):
            commit_rows(graph, {type_name: [f"{type_name}{number}"]})
            assert len(names(graph, type_name)) == number + 1

    with ThreadPoolExecutor(3) as pool:
        for outcome in [pool.submit(write, name) for name in ("Person", "City", "Firm")]:
            outcome.result()
    assert len(graph.commits()) == 19
    assert [len(names(omnigraph.open(graph.uri, "ro"), name)) for name in ("Person", "City", "Firm")] == [6, 6, 6]
    assert facts(manifest_of(graph).view(MAIN)) == facts(read_from_nothing(manifest_of(graph)))


# --------------------------------------------------------------------------------------------- cost


def calls_of(manifest: Manifest) -> StorageCalls:
    """What the handle's newest table asked of the storage since it was last asked."""
    view = manifest.view(MAIN)
    return manifest._table(view).storage_calls()


def test_a_publish_costs_the_same_calls_however_many_commits_and_a_warm_read_two_more(graph: Graph) -> None:
    manifest, reader = manifest_of(graph), manifest_of(omnigraph.open(graph.uri, "ro"))
    publishes: list[StorageCalls] = []
    catch_ups: list[StorageCalls] = []
    person = 1
    for commits in (10, *LONG_HISTORIES):
        while len(manifest.view(MAIN, with_lineage=True).history) < commits:
            person = send(graph, advance(graph, {"node:Person": person})).view.tables.version_of("node:Person")
        assert len(manifest.open(MAIN).fragment_rows()) <= COMPACT_AT_FRAGMENTS
        # Between two compactions the cost depends on how many small fragments there are: compare at the same number.
        compact(graph)
        reader.view(MAIN, with_lineage=True)
        calls_of(reader)
        calls_of(manifest)
        send(graph, advance(graph, {"node:City": versions(graph, MAIN)["node:City"]}))
        publishes.append(calls_of(manifest))
        reader.view(MAIN)
        catch_ups.append(calls_of(reader))
        reader.view(MAIN)
        assert calls_of(reader) == StorageCalls(0, 0, 0, 0)
    assert len({(calls.reads, calls.writes) for calls in publishes}) == 1
    assert publishes[0].writes > 0
    assert [calls.writes for calls in catch_ups] == [0] * len(catch_ups)
    # A reader that is one commit behind reads that commit alone. The two reads more are of Lance's own manifest file,
    # which grows with the row versions that it lists and no longer comes in one piece.
    assert [calls.reads for calls in catch_ups] == [4, *(6 for _ in LONG_HISTORIES)]
