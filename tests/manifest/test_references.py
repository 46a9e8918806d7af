"""What a reference means: commits, versions, dates and moments, on main and on branches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path

import pytest

from omnigraph.errors import NotFound, ParameterError
from omnigraph.graph import Graph
from omnigraph.manifest.history import Commit
from omnigraph.manifest.references import Reference
from omnigraph.storage.location import Location, locate
from tests.manifest.publishing import commit_rows, make_graph, names

MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class History:
    """Ann, then bob on main; cid and dan on dev, which began between the two."""

    graph: Graph
    commits: Mapping[str, Commit]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    graph = make_graph(locate(tmp_path_factory.mktemp("history") / "graph.og"))
    commits = {"genesis": graph.commits()[0]}

    def add(name: str, branch: str = "main") -> None:
        commits[name] = graph.commit(commit_rows(graph, {"Person": [name]}, branch).commit.id)

    add("ann")
    graph.create_branch("dev")
    for name in ("cid", "dan"):
        add(name, "dev")
    add("bob")
    return History(graph, commits)


def test_nothing_means_now(history: History) -> None:
    assert names(history.graph, "Person") == ["ann", "bob"]
    assert names(history.graph, "Person", "dev") == ["ann", "cid", "dan"]
    assert history.graph.snapshot("dev").commit == history.commits["dan"]


def test_a_commit_is_read_as_it_was_on_its_own_branch(history: History) -> None:
    for branch in ("main", "dev"):
        snapshot = history.graph.snapshot(branch, at=history.commits["cid"].id)
        assert (snapshot.branch, snapshot.commit) == ("dev", history.commits["cid"])
        assert names(history.graph, "Person", branch, history.commits["cid"].id) == ["ann", "cid"]
        assert names(history.graph, "Person", branch, history.commits["ann"].id) == ["ann"]
        assert names(history.graph, "Person", branch, history.commits["genesis"].id) == []


def test_a_part_of_an_id_is_enough_if_it_is_unique(history: History) -> None:
    for name, commit in history.commits.items():
        for part in (commit.id[-6:], commit.id[-10:].lower(), commit.id[:-1], commit.id[1:]):
            assert history.graph.commit(part) == commit, (name, part)
            assert history.graph.snapshot("dev", at=part).commit == commit
    # The start of an id is its time, and these were made one after the other.
    start = history.commits["ann"].id[:6]
    same = sorted(commit.id for commit in history.commits.values() if commit.id.startswith(start))
    with pytest.raises(ParameterError, match=f"is a part of {len(same)} commit ids") as error:
        history.graph.commit(start)
    assert error.value.details["commits"] == same
    with pytest.raises(NotFound, match="no commit, version, date or tag"):
        history.graph.commit(history.commits["ann"].id[-5:])
    with pytest.raises(NotFound, match="no commit, version, date or tag"):
        history.graph.commit("000000")


def test_a_tag_wins_over_a_part_of_an_id(tmp_path: Path) -> None:
    graph = make_graph(locate(tmp_path / "graph.og"))
    (genesis,) = graph.commits()
    newest = graph.commit(commit_rows(graph, {"Person": ["ann"]}).commit.id)
    graph.create_tag(newest.id[-6:], genesis.id)
    assert graph.commit(newest.id[-6:]) == genesis
    assert graph.commit(newest.id[-7:]) == newest


def test_a_tilde_goes_back_along_first_parents(history: History) -> None:
    graph, commits = history.graph, history.commits
    meant = {
        "main~": "ann",
        "main~0": "bob",
        "main~1": "ann",
        "main~2": "genesis",
        "dev~1": "cid",
        "dev~2": "ann",
        "dev~3": "genesis",
        f"{commits['cid'].id}~1": "ann",
        f"{commits['cid'].id[-6:]}~1": "ann",
        "v5~1": "ann",
        "2099-01-01~1~1": "genesis",
    }
    for reference, name in meant.items():
        assert graph.commit(reference) == commits[name], reference
    assert names(graph, "Person", "main", "dev~1") == ["ann", "cid"]
    with pytest.raises(NotFound, match="no commit at 'main~3'") as error:
        graph.commit("main~3")
    assert error.value.hint == "there are 2 commits before 'main'"
    with pytest.raises(NotFound, match="'nobody'"):
        graph.commit("nobody~1")


def test_nothing_is_checked_out(history: History) -> None:
    graph = history.graph
    for reference in ("HEAD", "HEAD~1", "HEAD^", "@"):
        for ask in (graph.commit, graph.diff, partial(graph.create_branch, "new")):
            with pytest.raises(NotFound) as error:
                ask(reference)
            assert (error.value.hint or "").startswith("there is no HEAD: a branch, such as main,"), reference


def test_a_tilde_steps_over_upkeep(tmp_path: Path) -> None:
    graph = make_graph(locate(tmp_path / "graph.og"))
    first = graph.commit(commit_rows(graph, {"Person": ["ann"]}).commit.id)
    graph.optimize()
    commit_rows(graph, {"Person": ["bob"]})
    assert graph.commit("main~1") == first


@pytest.mark.parametrize(
    ("branch", "version", "shown"),
    [
        ("main", 1, []),
        ("main", 3, []),
        ("main", 4, ["ann"]),
        ("main", 5, ["ann", "bob"]),
        ("dev", 1, []),  # from before the branch began: it lies on main
        ("dev", 4, ["ann"]),
        ("dev", 5, ["ann", "cid"]),
        ("dev", 6, ["ann", "cid", "dan"]),
    ],
)
def test_a_version_is_one_of_the_branch(history: History, branch: str, version: int, shown: list[str]) -> None:
    assert names(history.graph, "Person", branch, version) == shown
    assert names(history.graph, "Person", branch, f"v{version}") == shown
    newest = history.commits[shown[-1]] if shown else history.commits["genesis"]
    assert history.graph.snapshot(branch, at=version).commit == newest


@pytest.mark.parametrize("version", [0, -1, 7, 2**63, 2**64])
def test_a_version_that_never_was_is_not_found(history: History, version: int) -> None:
    with pytest.raises(NotFound, match=f"branch 'dev' has no manifest version {version}"):
        history.graph.snapshot("dev", at=version)


def test_a_moment_means_the_newest_commit_at_or_before_it(history: History) -> None:
    ann, bob = history.commits["ann"], history.commits["bob"]
    exact = history.graph.snapshot(at=ann.created_at)
    assert (exact.commit, exact.manifest_version) == (ann, ann.manifest_version)
    assert history.graph.snapshot(at=bob.created_at - MICROSECOND).commit == ann
    assert history.graph.snapshot(at=datetime(9999, 1, 1, tzinfo=UTC)).commit == bob
    with pytest.raises(NotFound, match="no commit at or before"):
        history.graph.snapshot(at=history.commits["genesis"].created_at - MICROSECOND)


def test_a_moment_on_a_branch_before_it_began_is_read_where_it_was(history: History) -> None:
    snapshot = history.graph.snapshot("dev", at=history.commits["ann"].created_at)
    assert (snapshot.branch, snapshot.commit) == ("main", history.commits["ann"])
    # Bob came to main after dev began: no moment of dev shows him.
    assert history.graph.snapshot("dev", at=history.commits["bob"].created_at).commit == history.commits["dan"]


def test_a_time_zone_counts_and_a_text_without_one_is_utc(history: History) -> None:
    moment = history.commits["ann"].created_at
    elsewhere = moment.astimezone(timezone(timedelta(hours=5, minutes=30)))
    same: list[Reference] = [
        elsewhere,
        elsewhere.isoformat(),
        moment.isoformat().replace("+00:00", "Z"),
        moment.replace(tzinfo=None).isoformat(),
        moment.replace(tzinfo=None).isoformat(" "),
    ]
    for reference in same:
        assert history.graph.snapshot(at=reference).commit == history.commits["ann"], reference


def test_a_date_is_its_first_moment(history: History) -> None:
    day = history.commits["bob"].created_at
    assert history.graph.snapshot(at=(day + timedelta(days=1)).date().isoformat()).commit == history.commits["bob"]
    with pytest.raises(NotFound, match="no commit at or before"):
        history.graph.snapshot(at=(day - timedelta(days=1)).date().isoformat())


@pytest.mark.parametrize("reference", ["2024-13-45", "2024-05-01T99:00", "2024-05-01 or so"])
def test_a_date_that_is_none_says_how_to_write_one(history: History, reference: str) -> None:
    with pytest.raises(ParameterError, match="is no date or time"):
        history.graph.snapshot(at=reference)


def test_a_naive_datetime_is_refused_everywhere(history: History) -> None:
    naive = datetime(2024, 5, 1)
    for ask in (
        lambda: history.graph.snapshot(at=naive),
        lambda: history.graph.commit(naive),
        lambda: history.graph.create_branch("late", from_=naive),
        lambda: history.graph.commits(since=naive),
        lambda: history.graph.commits(until=naive),
    ):
        with pytest.raises(ParameterError, match="has no time zone"):
            ask()


@pytest.mark.parametrize("reference", ["nobody", "", "V4", "v", "v-1", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "2024", "main"])
def test_what_is_nothing_of_these_is_not_found(history: History, reference: str) -> None:
    with pytest.raises(NotFound):
        history.graph.snapshot(at=reference)


def test_an_unknown_branch_is_not_found(history: History) -> None:
    for at in (None, 4, "v4", history.commits["ann"].id, history.commits["ann"].created_at):
        with pytest.raises(NotFound, match="no branch 'nobody'"):
            history.graph.snapshot("nobody", at=at)


# --------------------------------------------------------------------------------------------- commits


def test_commits_are_listed_newest_first_and_filtered(history: History) -> None:
    graph, commits = history.graph, history.commits
    assert graph.commits() == [commits["bob"], commits["ann"], commits["genesis"]]
    assert graph.commits("dev") == [commits["dan"], commits["cid"], commits["ann"], commits["genesis"]]
    assert graph.commits("dev", limit=2) == [commits["dan"], commits["cid"]]
    assert graph.commits(limit=0) == []
    assert graph.commits(actor="tests", limit=1) == [commits["bob"]]
    assert graph.commits(actor="nobody") == []
    assert graph.commits(since=commits["ann"].created_at, until=commits["ann"].created_at) == [commits["ann"]]


def test_a_negative_limit_is_refused(history: History) -> None:
    with pytest.raises(ParameterError, match="limit is -1"):
        history.graph.commits(limit=-1)


def test_a_commit_is_shown_by_any_reference(history: History) -> None:
    ann = history.commits["ann"]
    shown = [history.graph.commit(reference) for reference in (ann.id, "v4", 4, ann.created_at)]
    assert shown == [ann] * 4
    assert history.graph.commit(history.commits["cid"].id).branch == "dev"
    assert (ann.parents, ann.branch, ann.actor) == ((history.commits["genesis"].id,), "main", "tests")


# --------------------------------------------------------------------------------------------- snapshots


def test_a_snapshot_says_of_each_type_where_it_stands(history: History) -> None:
    snapshot = history.graph.snapshot("dev")
    person, city = snapshot.pin("Person"), snapshot.pin("City")
    assert (person.kind, person.type_name, person.version, person.branch, person.row_count) == (
        "node",
        "Person",
        4,
        "dev",
        3,
    )
    assert (city.version, city.branch, city.row_count) == (1, None, 0)
    assert snapshot.pin("edge:Knows") == snapshot.pin("Knows")
    with pytest.raises(NotFound, match="no type 'Persn'") as caught:
        snapshot.table("Persn")
    assert "Person" in (caught.value.hint or "")


def test_a_snapshot_stays_while_the_graph_moves_on(local_location: Location) -> None:
    graph = make_graph(local_location)
    commit_rows(graph, {"Person": ["ann"]})
    snapshot = graph.snapshot()
    commit_rows(graph, {"Person": ["bob"]})
    assert snapshot.table("Person").count_rows() == 1
    assert graph.snapshot().table("Person").count_rows() == 2
