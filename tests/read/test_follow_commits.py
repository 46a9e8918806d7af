"""A commit leaves what the process has in memory extended: the next query makes nothing that it could have found."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from threading import enumerate as threads
from typing import TypeVar

import pytest

import omnigraph
from omnigraph.errors import HistoryGone
from omnigraph.graph import Graph
from omnigraph.read import follow_commits
from omnigraph.read.follow_commits import wait_for_followers
from omnigraph.read.frames.cache import Cache, _PendingValue, shared_cache
from tests.counting import counting_scans
from tests.read.walked_graphs import SCHEMA, Links, people
from tests.selection import daily

T = TypeVar("T")

NAMES = [f"p{number:02}" for number in range(30)]
ASKED = (
    "match { $a: Person { name: $who } } return { $a.name, $a.age }",
    "match { $a: Person { name: $who }  $a knows $b } return { $b.name, $b.age }",
    "match { $a: Person { name: $who }  $b knows $a } return { $b.name }",
    "match { $a: Person { name: $who }  $a $e:knows $b } return { $b.name, $e.since }",
)
COMMITS = {
    "insert": "insert Person { name: $new, age: 5 } insert Knows { from: $new, to: $who }",
    "insert edge": 'insert Knows { from: $who, to: "p07", since: 3 }',
    "update": "update Person set { age: 9 } where name = $who",
    "delete edges": "delete Knows where from = $who",
    "delete node": "delete Person where name = $who",
}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = omnigraph.init(tmp_path / "followed.og", SCHEMA)
    pairs = [(NAMES[at], NAMES[(at * step + step) % 30]) for at in range(30) for step in (1, 2, 7)]
    made.load(nodes={"Person": people(NAMES)}, edges={"Knows": Links(pairs).table()})
    made.create_branch("side")
    return made


def ask(graph: Graph, who: str, branch: str = "main") -> list[list[dict[str, object]]]:
    return [
        graph.query(f"query q($who: String) {{ {each} }}", params={"who": who}, branch=branch).rows for each in ASKED
    ]


def commit(graph: Graph, kind: str, who: str, branch: str = "main") -> None:
    text, given = COMMITS[kind], {"who": who, "new": f"new {who}"}
    params = {name: value for name, value in given.items() if f"${name}" in text}
    declared = ", ".join(f"${name}: String" for name in params)
    graph.mutate(f"query m({declared}) {{ {text} }}", params=params, branch=branch)


@contextmanager
def counting_made() -> Generator[Callable[[], int]]:
    """How many values this thread makes for the cache inside the block."""
    made: list[Hashable] = []
    make_value = Cache._make

    def make(self: Cache, key: Hashable, building: _PendingValue, make: Callable[[], T], size: Callable[[T], int]) -> T:
        if current_thread() is main_thread():
            made.append(key)
        return make_value(self, key, building, make, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cache, "_make", make)
        yield lambda: len(made)


@pytest.mark.parametrize(
    ("branch", "kind"),
    daily(
        [(branch, kind) for branch in ("main", "side") for kind in COMMITS],
        [("main", "insert"), ("main", "delete node"), ("side", "update"), ("side", "delete edges")],
    ),
)
def test_the_first_query_after_a_commit_finds_everything_in_memory(graph: Graph, branch: str, kind: str) -> None:
    for _ in range(2):
        ask(graph, NAMES[3], branch)
    for who in (NAMES[4], NAMES[5]):
        commit(graph, kind, who, branch)
        wait_for_followers()
        with counting_made() as made, counting_scans() as rows_read:
            found = ask(graph, NAMES[4], branch)
            assert (made(), rows_read()) == (0, 0)
        assert found == ask(omnigraph.open(graph.uri), NAMES[4], branch)


def test_commits_that_nobody_reads_are_not_followed_for_long(graph: Graph) -> None:
    ask(graph, NAMES[3])
    for number in range(follow_commits._PATIENCE + 1):
        commit(graph, "update", NAMES[number])
        wait_for_followers()
    with counting_made() as made:
        ask(graph, NAMES[3])
        assert made()
    commit(graph, "update", NAMES[9])
    wait_for_followers()
    with counting_made() as made:
        ask(graph, NAMES[3])
        assert not made()


def test_what_cannot_be_followed_fails_nobody(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ask(graph, NAMES[3], "side")

    def refuse(*_: object) -> None:
        raise HistoryGone("the version was removed")

    with monkeypatch.context() as patch, caplog.at_level("INFO", "omnigraph"):
        patch.setattr(follow_commits, "extend_memory", refuse)
        commit(graph, "update", NAMES[3], "side")
        wait_for_followers()
    assert "what is in memory of branch 'side' is not extended" in caplog.text
    commit(graph, "update", NAMES[4], "side")
    wait_for_followers()
    assert ask(graph, NAMES[4], "side") == ask(omnigraph.open(graph.uri), NAMES[4], "side")


def test_it_gives_way_to_a_query(graph: Graph) -> None:
    for _ in range(2):
        ask(graph, NAMES[3])
    manifest, cache = graph._manifest, shared_cache()
    manifest.on_commit = None
    commit(graph, "insert", NAMES[3])
    keys, answers = graph.snapshot().pins, iter((True, False))
    with counting_made() as made:
        follow_commits.extend_memory(manifest, "main", keys, cache, lambda: next(answers))
        begun = made()
        follow_commits.extend_memory(manifest, "main", keys, cache)
        assert 0 < begun < made()
    with counting_made() as made:
        ask(graph, NAMES[3])
        assert not made()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_after_an_error_that_nobody_expected_the_next_commit_is_followed(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        ask(graph, NAMES[3])

    def fail(*_: object) -> None:
        raise RuntimeError("an error in our own code")

    with monkeypatch.context() as patch:
        patch.setattr(follow_commits, "extend_memory", fail)
        commit(graph, "update", NAMES[3])
        wait_for_followers()
    for thread in threads():
        if thread.name == "omnigraph-follow":
            thread.join()
    commit(graph, "update", NAMES[4])
    wait_for_followers()
    with counting_made() as made:
        ask(graph, NAMES[3])
        assert not made()
