"""Cleanup in turns: between two of them others take the refs lock, and what they begin to need then stays."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import omnigraph
from omnigraph.errors import HistoryGone
from omnigraph.graph import Graph
from omnigraph.maintain import cleanup as cleanups
from omnigraph.maintain import cleanup_turns
from tests.maintain.ports import add, cleanup_now, remove, shown
from tests.write.writers import run_right_after


@pytest.fixture
def between_turns(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What others do between two turns, one after another. A turn removes one version."""
    waiting: list[Callable[[], object]] = []

    def let_others_act(_seconds: float) -> None:
        if waiting:
            waiting.pop(0)()

    monkeypatch.setattr(cleanup_turns, "sleep", let_others_act)
    monkeypatch.setattr(cleanups, "_FILES_AT_ONCE", 1)
    monkeypatch.setattr(cleanups, "TURN_SECONDS", 0.0)
    return waiting


def create_until_it_works(graph: Graph, create: Callable[[str], object], created: list[str]) -> None:
    """Refer to the oldest commit that can still be read, if nobody did so before."""
    for commit in reversed(graph.commits()[1:]):
        if created:
            return
        try:
            create(commit.id)
        except HistoryGone:
            continue
        created.append(commit.id)


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_what_is_referred_to_between_two_turns_stays(
    ports: Graph, between_turns: list[Callable[[], object]], kind: str
) -> None:
    other, created = omnigraph.open(ports.uri), list[str]()
    before = {commit.id: shown(ports, at=commit.id) for commit in ports.commits()}
    create = other.create_branch if kind == "branch" else other.create_tag
    between_turns += [lambda: None] * 6 + [lambda: create_until_it_works(other, lambda at: create("late", at), created)]
    cleanup_now(ports, 1)
    assert between_turns == []
    (commit,) = created
    assert commit != ports.commits()[0].id
    assert (shown(ports, "late") if kind == "branch" else shown(ports, at="late")) == before[commit]
    assert ports.verify().findings == ()
    if kind == "branch":
        add(ports, "next", "late")
        ports.merge("late")
        assert "next" in shown(ports)[0]


def test_what_a_merge_adopts_between_two_turns_stays(ports: Graph, between_turns: list[Callable[[], object]]) -> None:
    ports.create_branch("dev")
    merged = add(ports, "q1")
    adopted = shown(ports, at=merged)
    add(ports, "q2")
    other = omnigraph.open(ports.uri)
    between_turns += [lambda: None] * 4 + [lambda: other.merge(merged, "dev")]
    cleanup_now(ports, 1)
    assert shown(ports, "dev") == adopted
    add(ports, "d1", "dev")
    add(ports, "q3")
    cleanup_now(ports, 1)
    ports.merge("dev")
    assert {"q1", "q2", "q3", "d1"} <= set(shown(ports)[0])
    assert ports.verify().findings == ()


def test_writers_write_between_all_turns(ports: Graph, between_turns: list[Callable[[], object]]) -> None:
    ports.create_branch("dev")
    other = omnigraph.open(ports.uri)
    made: dict[str, str] = {}

    def write(number: int) -> None:
        branch = ("main", "dev")[number % 2]
        made[add(other, f"w{number:02}", branch)] = branch
        if number == 6:
            remove(other, "p01", "dev")
        if number == 9:
            other.optimize()

    between_turns += [lambda number=number: write(number) for number in range(14)]
    cleanup_now(ports, 1)
    assert len(made) == 14
    # No commit that was made after the plan is taken.
    for commit, branch in made.items():
        shown(ports, branch, at=commit)
    assert ports.verify().findings == ()


def test_a_type_that_comes_back_between_two_turns_keeps_its_rows(
    ports: Graph, between_turns: list[Callable[[], object]]
) -> None:
    schema = ports.schema.text
    ports.apply_schema(schema.replace("edge Near: Port -> Port", ""))
    other = omnigraph.open(ports.uri)

    def bring_back() -> None:
        other.apply_schema(schema)
        other.mutate('query near() { insert Near { from: "p00", to: "p01" } }')

    between_turns += [lambda: None] * 1 + [bring_back]
    cleanup_now(ports, 1)
    assert between_turns == []
    assert shown(ports)[1] == [("p00", "p01")]
    assert ports.verify().findings == ()


def test_two_cleanups_at_once(ports: Graph, between_turns: list[Callable[[], object]]) -> None:
    before, other = shown(ports), omnigraph.open(ports.uri)
    between_turns += [lambda: None] * 3 + [lambda: cleanup_now(other, 1)]
    cleanup_now(ports, 2)
    assert shown(ports) == before
    assert cleanup_now(ports, 1).reclaimed == ()
    assert ports.verify().findings == ()


def test_a_branch_is_created_by_another_thread_while_cleanup_runs(
    ports: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanups, "_FILES_AT_ONCE", 1)
    monkeypatch.setattr(cleanups, "TURN_SECONDS", 0.0)
    waiter = threading.Thread(target=omnigraph.open(ports.uri).create_branch, args=("late",))
    with run_right_after("objects.delete_all", "_versions", waiter.start):
        cleanup_now(ports, 1)
    waiter.join(60)
    assert shown(ports, "late") == shown(ports)
    assert ports.verify().findings == ()
