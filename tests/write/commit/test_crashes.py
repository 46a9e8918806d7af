"""Writers die by SIGKILL before and after every durable write; the next writer finds all of it or nothing, and writes.

Complete by construction: one clean run numbers the writes, and every number is killed twice. The next process makes
no special call: it writes to the same tables. The second level kills that process too, inside its recovery of every
distinct state that the first level leaves on disk, and lets two of them recover at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TypeAlias, cast

import pytest

from omnigraph.manifest.rows import MAIN
from omnigraph.storage.failpoints import When, WriteStep
from omnigraph.storage.tables import open_table
from omnigraph.write.commit.audit import RecoveryKind, list_recoveries
from omnigraph.write.commit.section import WriteOperation
from omnigraph.write.commit.sidecars import Sidecar, list_sidecars
from tests.crash import Pipe, every_crash, kill_at, pipe, record, run, start
from tests.selection import daily
from tests.write.writers import (
    BY_LAST,
    BY_NEXT,
    LAST,
    NEXT,
    WRITERS,
    GraphState,
    assert_settled,
    copy_template,
    make_template,
    open_manifest,
    read_state,
    read_states_around,
    write_commit,
    write_in_process,
)

BRANCHES = [MAIN, "dev"]
Left: TypeAlias = tuple[object, ...]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("crashes"))


@dataclass(frozen=True, slots=True)
class Death:
    """A graph whose writer died, what it may show, and which of the two is right."""

    root: str
    work: WriteOperation[None]
    branch: str
    number: int
    when: When
    states: tuple[GraphState, GraphState]
    complete: bool
    place: str

    @property
    def outcome(self) -> GraphState:
        """What the next writer must find: all of it, once every table was committed."""
        return self.states[self.complete]


def list_deaths(template: Path, work: WriteOperation[None], branch: str) -> Iterator[Death]:
    """Kill the writer everywhere."""
    states = read_states_around(template, work, branch)
    steps = record(write_in_process, str(copy_template(template, branch)), work, branch)
    last_commit = max(step.number for step in steps if step.name == "table.commit")
    for number, when in every_crash(steps):
        root = str(copy_template(template, branch))
        kill_at(write_in_process, (root, work, branch), number, when)
        complete = number > last_commit or (number, when) == (last_commit, "after")
        yield Death(root, work, branch, number, when, states, complete, _place(steps, number, when))


def _place(steps: list[WriteStep], number: int, when: When) -> str:
    return f"killed {when} write {number} of {len(steps)}: {steps[number - 1].name}"


def list_unfinished(death: Death) -> list[Sidecar]:
    """The operations that somebody else than their writer has to finish."""
    manifest = open_manifest(death.root)
    history = manifest.view(death.branch, with_lineage=True).history
    return [left for left in list_sidecars(manifest.objects) if history.find(left.commit_id or "") is None]


def go_on_after_each(found: list[Death]) -> None:
    """What the next process does, for every death."""
    for death in found:
        try:
            go_on(death)
        except BaseException as error:
            error.add_note(death.place)
            raise


def go_on(death: Death) -> None:
    """Read, write to the same tables, and look at what was left and what was written down."""
    left = list_unfinished(death)
    manifest = open_manifest(death.root)
    assert read_state(manifest, death.branch) in death.states
    write_commit(manifest, NEXT, death.branch)
    assert read_state(manifest, death.branch) == death.outcome + BY_NEXT
    assert_settled(manifest, death.branch)
    kind = RecoveryKind.ROLLED_FORWARD if death.complete else RecoveryKind.ROLLED_BACK
    audited = [(found.operation_id, found.kind, found.for_actor) for found in list_recoveries(manifest)]
    assert audited == [(each.operation_id, kind, "tests") for each in left]


@pytest.mark.parametrize(
    ("name", "branch"),
    daily(product(WRITERS, BRANCHES), [(name, BRANCHES[at % 2]) for at, name in enumerate(WRITERS)]),
)
def test_killed_anywhere_the_next_writer_goes_on(
    template: Path,
    name: str,
    branch: str,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    found = list(list_deaths(template, WRITERS[name], branch))
    assert {death.complete for death in found} == {True, False}
    run(go_on_after_each, found)
    with capsys.disabled():
        sys.stdout.write(f"\n{request.node.name}: {len(found)} deaths\n")


# --------------------------------------------------------------------------------------------- the second level


def describe_leftovers(death: Death) -> Left:
    """What a recovery can tell of a dead writer: its decision, and how far each of its tables is beyond its pin."""
    manifest = open_manifest(death.root)
    view = manifest.view(death.branch, with_lineage=True)
    found: list[object] = []
    for sidecar in list_sidecars(manifest.objects):
        landed = view.history.find(sidecar.commit_id or "") is not None
        beyond: list[int] = []
        for pin in sidecar.tables:
            location = manifest.location.join(view.tables.locations[pin.table_key])
            head = open_table(location, pin.table_branch, None, manifest.access)
            beyond.append(head.version - view.tables.version_of(pin.table_key))
        found.append((landed, sidecar.decision, sidecar.writer_kind, tuple(beyond)))
    return tuple(found)


def list_distinct_deaths(template: Path, branch: str) -> list[Death]:
    """One death for each state on disk that has something to recover."""
    found: dict[Left, Death] = {}
    for work in WRITERS.values():
        for death in list_deaths(template, work, branch):
            found.setdefault(describe_leftovers(death), death)
    found.pop((), None)
    return list(found.values())


@pytest.mark.slow
@pytest.mark.parametrize("branch", BRANCHES)
def test_killed_again_inside_the_recovery(template: Path, branch: str, capsys: pytest.CaptureFixture[str]) -> None:
    kills = 0
    states = list_distinct_deaths(template, branch)
    for death in states:
        steps = record(write_in_process, death.root, NEXT, branch)
        again: list[tuple[str, str]] = []
        for second, second_when in every_crash(steps):
            root = str(copy_template(template, branch))
            kill_at(write_in_process, (root, death.work, branch), death.number, death.when)
            kill_at(write_in_process, (root, NEXT, branch), second, second_when)
            again.append((root, f"{death.place}; the next one {_place(steps, second, second_when)}"))
        run(go_on_after_two, again, branch, death.outcome)
        kills += len(again)
    with capsys.disabled():
        sys.stdout.write(f"\n{branch}: {len(states)} states, {kills} deaths inside their recovery\n")
    assert len(states) > len(WRITERS)


def go_on_after_two(found: list[tuple[str, str]], branch: str, outcome: GraphState) -> None:
    """The first writer's outcome is fixed; the second one's write is all there or not at all."""
    for root, place in found:
        manifest = open_manifest(root)
        write_commit(manifest, LAST, branch)
        assert read_state(manifest, branch) in (outcome + BY_LAST, outcome + BY_NEXT + BY_LAST), place
        assert_settled(manifest, branch)


@pytest.mark.slow
@pytest.mark.parametrize("branch", BRANCHES)
def test_two_processes_recover_at_once(template: Path, branch: str) -> None:
    for death in list_distinct_deaths(template, branch):
        ends = [pipe() for _ in range(2)]
        writers = [
            start(write_when_told, theirs, death.root, work, branch)
            for (_, theirs), work in zip(ends, (NEXT, LAST), strict=True)
        ]
        for ours, _ in ends:
            assert ours.recv() == "ready"
        for ours, _ in ends:
            ours.send("go")
        answers = [cast("str | None", ours.recv()) for ours, _ in ends]
        for writer in writers:
            writer.join()
        assert None not in answers
        manifest = open_manifest(death.root)
        assert read_state(manifest, branch) == death.outcome + BY_NEXT + BY_LAST, death.place
        assert_settled(manifest, branch)


def write_when_told(end: Pipe, root: str, work: WriteOperation[None], branch: str) -> None:
    """Both have their modules loaded before either begins."""
    end.send("ready")
    assert end.recv() == "go"
    end.send(write_in_process(root, work, branch))
