"""Merges and reverts die by SIGKILL before and after every durable write; the next writer finds all of it or nothing.

As in ``test_crashes.py`` the matrix is complete by construction: a clean run numbers the writes, and every number is
killed twice. A commit that recovery finishes has both parents, like the one its writer would have made.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

from omnigraph.graph import Graph
from omnigraph.manifest.history import Commit
from omnigraph.storage.failpoints import When, WriteStep
from omnigraph.storage.locks import LockSettings
from omnigraph.write.commit.audit import RecoveryKind, list_recoveries
from omnigraph.write.commit.sidecars import list_sidecars
from tests.crash import every_crash, fresh_copy, kill_at, record, run, some_crashes
from tests.model.merge_model import Entity
from tests.selection import daily
from tests.write.merge.social_graph import edit, knows, make, person, state
from tests.write.writers import LEASE, assert_settled, open_manifest

if TYPE_CHECKING:
    from omnigraph.spark.graph import SparkGraph

State = dict[tuple[str, str], Entity]
NEXT = {"next": person(1)}
LAST = {"last": person(2)}


def graph_at(root: str, locks: LockSettings | None = None) -> Graph:
    """Open a graph as a writer that finds the traces of a dead one: opening heals nothing."""
    return Graph(open_manifest(root, locks or LockSettings()), "rw", "tests")


# --------------------------------------------------------------------------------------------- scenarios


def changed_people_and_edges(graph: Graph) -> None:
    """Both sides change both tables."""
    graph.create_branch("dev")
    edit(graph, "dev", people={"eve": person(5)}, knows={"a-c": knows("ann", "cid")})
    edit(graph, people={"dan": person(4)}, knows={"a-b": knows("ann", "bob", 1999)})


def changed_edges_on_the_branch(graph: Graph) -> None:
    """People can be adopted from main."""
    graph.create_branch("dev")
    edit(graph, "dev", knows={"a-c": knows("ann", "cid")})
    edit(graph, people={"dan": person(4)}, knows={"a-b": knows("ann", "bob", 1999)})


def changed_nothing_on_the_branch(graph: Graph) -> None:
    """All tables can be adopted from main."""
    graph.create_branch("dev")
    edit(graph, people={"dan": person(4)})


def changed_to_and_fro(graph: Graph) -> None:
    """The branch shows what it started with."""
    graph.create_branch("dev")
    edit(graph, "dev", people={"bob": person(31)})
    edit(graph, "dev", people={"bob": person(30)})


def changed_people(graph: Graph) -> None:
    """Make a commit to revert."""
    edit(graph, people={"dan": person(4), "ann": person(99)})


@dataclass(frozen=True, slots=True)
class Scenario:
    """A writer on a graph: it merges one branch into another, or reverts the last commit."""

    given: Callable[[Graph], None]
    branch: str
    source: str | None


SCENARIOS = {
    "two tables into main": Scenario(changed_people_and_edges, "main", "dev"),
    "one table into a fork, one adopted": Scenario(changed_edges_on_the_branch, "dev", "main"),
    "only adopted": Scenario(changed_nothing_on_the_branch, "dev", "main"),
    "no change": Scenario(changed_to_and_fro, "main", "dev"),
    "revert": Scenario(changed_people, "main", None),
}


def act(root: str, scenario: Scenario, locks: LockSettings | None = None) -> None:
    """Run the scenario in a process that dies."""
    graph = graph_at(root, locks)
    do(graph, graph, scenario)


def do(graph: Graph, by: Graph | SparkGraph, scenario: Scenario) -> None:
    """Run the scenario, in this process or on executors."""
    if scenario.source is None:
        by.revert(graph.commits(limit=1)[0].id)
    else:
        by.merge(scenario.source, scenario.branch)


Acting: TypeAlias = Callable[[str, Scenario, LockSettings | None], None]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    people = {"ann": person(30), "bob": person(30), "cid": person(30)}
    return Path(make(tmp_path_factory.mktemp("dying"), people, {"a-b": knows("ann", "bob")}).uri)


def fresh(template: Path, scenario: Scenario) -> str:
    """Create a graph with branches. A copy of a graph with branches would share files with it."""
    root = str(fresh_copy(template))
    scenario.given(graph_at(root))
    return root


# --------------------------------------------------------------------------------------------- the matrix


@dataclass(frozen=True, slots=True)
class Death:
    """A graph whose writer died, the two states it may show, and which one is right."""

    root: str
    scenario: Scenario
    states: tuple[State, State]
    complete: bool
    place: str


def deaths(
    template: Path, scenario: Scenario, locks: LockSettings | None = None, acting: Acting = act
) -> Iterator[Death]:
    """Kill the writer at every durable write."""
    clean = fresh(template, scenario)
    before = state(graph_at(clean), scenario.branch)
    steps = record(acting, clean, scenario, locks)
    states = before, state(graph_at(clean), scenario.branch)
    last = max(_decides(steps))
    for number, when in some_crashes(steps):
        root = fresh(template, scenario)
        kill_at(acting, (root, scenario, locks), number, when)
        complete = number > last or (number, when) == (last, "after")
        yield Death(root, scenario, states, complete, _place(steps, number, when))


def _decides(steps: list[WriteStep]) -> list[int]:
    """Return the steps that decide the outcome: the commits of tables, or else the publish."""
    commits = [step.number for step in steps if step.name == "table.commit"]
    return commits or [step.number for step in steps if step.name == "table.merge" and "__manifest" in step.detail]


def _place(steps: list[WriteStep], number: int, when: When) -> str:
    return f"killed {when} write {number} of {len(steps)}: {steps[number - 1].name}"


def go_on_after_each(found: list[Death], locks: LockSettings | None = None) -> None:
    """Run the next process after every death."""
    for death in found:
        try:
            go_on(death, locks)
        except BaseException as error:
            error.add_note(death.place)
            raise


def go_on(death: Death, locks: LockSettings | None) -> None:
    """Read, write to the same branch, check what is left, and merge again if needed."""
    graph, branch = graph_at(death.root, locks), death.scenario.branch
    landed = {commit.id for commit in graph.commits(branch)}
    left = [each for each in list_sidecars(graph._manifest.objects) if each.commit_id not in landed]
    assert state(graph, branch) in death.states
    edit(graph, branch, people=NEXT)
    outcome = death.states[death.complete]
    assert state(graph, branch) == {**outcome, ("Person", "next"): person(1)}
    assert_settled(graph._manifest, branch)
    kind = RecoveryKind.ROLLED_FORWARD if death.complete else RecoveryKind.ROLLED_BACK
    assert [(each.operation_id, each.kind) for each in list_recoveries(graph._manifest)] == [
        (each.operation_id, kind) for each in left
    ]
    source = death.scenario.source
    if source is None:
        return
    assert (_joined(graph, branch, source) is not None) == death.complete
    again = graph.merge(source, branch)
    assert (again.outcome == "already-up-to-date") == death.complete
    assert state(graph, branch) == {**death.states[True], ("Person", "next"): person(1)}


def _joined(graph: Graph, branch: str, source: str) -> Commit | None:
    head = graph.commits(source)[0].id
    return next((each for each in graph.commits(branch) if head in each.parents[1:]), None)


@pytest.mark.parametrize("name", daily(SCENARIOS, ["two tables into main", "revert"]))
def test_killed_anywhere_the_next_writer_goes_on(template: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = list(deaths(template, SCENARIOS[name]))
    assert {death.complete for death in found} == {True, False}
    run(go_on_after_each, found)
    with capsys.disabled():
        sys.stdout.write(f"\nmerge {name}: {len(found)} deaths\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two tables into main", "one table into a fork, one adopted"])
def test_killed_anywhere_under_a_lease(template: Path, name: str) -> None:
    # The next writer uses another kind of lock, so that it need not wait for the dead writer's lease.
    run(go_on_after_each, list(deaths(template, SCENARIOS[name], LEASE)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two tables into main", "one table into a fork, one adopted"])
def test_killed_again_inside_the_recovery(template: Path, name: str) -> None:
    """Once for each state that a dead merge can leave: after its sidecar, a commit, the confirmation, the publish."""
    scenario = SCENARIOS[name]
    clean = fresh(template, scenario)
    steps = record(act, clean, scenario)
    merged = state(graph_at(clean), scenario.branch)
    for first in (step.number for step in steps if step.name in ("objects.put", "table.commit", "table.merge")):
        root = fresh(template, scenario)
        kill_at(act, (root, scenario, None), first, "after")
        for second, when in every_crash(record(write_next, root, scenario.branch)):
            again = fresh(template, scenario)
            kill_at(act, (again, scenario, None), first, "after")
            kill_at(write_next, (again, scenario.branch), second, when)
            run(go_on_after_two, again, scenario, merged)


def write_next(root: str, branch: str) -> None:
    """Run a small write, which heals first."""
    edit(graph_at(root), branch, people=NEXT)


def go_on_after_two(root: str, scenario: Scenario, merged: State) -> None:
    """Check that the merge and the second write are each complete or absent, and that the merge can be repeated."""
    graph = graph_at(root)
    edit(graph, scenario.branch, people=LAST)
    assert_settled(graph._manifest, scenario.branch)
    assert scenario.source is not None
    graph.merge(scenario.source, scenario.branch)
    written = {key: found for key, found in state(graph, scenario.branch).items() if key != ("Person", "next")}
    assert written == {**merged, ("Person", "last"): person(2)}
