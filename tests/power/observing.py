"""What a process finds on a disk after a power cut, and what of it breaks a promise.

``observe`` runs in a child process and reports everything that it saw or was told; it judges nothing. ``Promises`` are
read from the marks of the writer up to the cut. ``find_violations`` compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar, cast

import omnigraph
from omnigraph.errors import AlreadyExists, NotFound, OmniGraphError
from omnigraph.graph import Graph
from tests.power.recorder import Event, Kind
from tests.power.workloads import MAIN, SCHEMA, Row, Rows, port, read_rows, rows

AFTERWARDS: Final = (port("yyz"), port("zrh"))
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Failed:
    """An error instead of a value."""

    error: str
    is_ours: bool
    """Whether it is one of the public errors of the project."""


@dataclass(slots=True)
class Observation:
    """What one process found on a disk, step by step."""

    opened: Failed | None = None
    was_missing: bool = False
    """There was no finished graph, and it was made again."""
    listed: Failed | None = None
    """Why the branches could not be listed; main was looked at."""
    heads: dict[str, list[Row] | Failed] = field(default_factory=dict[str, "list[Row] | Failed"])
    commits: dict[str, list[Row] | Failed] = field(default_factory=dict[str, "list[Row] | Failed"])
    writes: dict[str, list[Row] | Failed] = field(default_factory=dict[str, "list[Row] | Failed"])
    findings: list[str] | Failed = field(default_factory=list[str])

    def failures(self) -> list[Failed]:
        """List everything that raised."""
        seen = (
            self.opened,
            self.listed,
            *self.heads.values(),
            *self.commits.values(),
            *self.writes.values(),
            self.findings,
        )
        return [value for value in seen if isinstance(value, Failed)]


def observe(uri: str, commits: list[str]) -> Observation:
    """Open, read every branch and these commits, write to every branch, verify."""
    seen = Observation()
    graph = _attempt(lambda: _open(uri, seen))
    if isinstance(graph, Failed):
        seen.opened = graph
        return seen
    branches = _attempt(lambda: [branch.name for branch in graph.branches()])
    if isinstance(branches, Failed):
        seen.listed, branches = branches, [MAIN]
    for name in branches:
        seen.heads[name] = _attempt(lambda name=name: read_rows(graph, name))
    for commit in commits:
        seen.commits[commit] = _attempt(lambda commit=commit: read_rows(graph, MAIN, commit))
    for name in branches:
        seen.writes[name] = _attempt(lambda name=name: _write(graph, name))
    seen.findings = _attempt(lambda: [f"{found.kind} {found.where}: {found.what}" for found in graph.verify().findings])
    return seen


def _open(uri: str, seen: Observation) -> Graph:
    try:
        return omnigraph.open(uri)
    except NotFound as missing:
        try:
            graph = omnigraph.init(uri, SCHEMA)
        except AlreadyExists:
            raise missing from None
        seen.was_missing = True
        return graph


def _write(graph: Graph, branch: str) -> list[Row]:
    for record in AFTERWARDS:
        graph.load([record], branch=branch)
    return read_rows(graph, branch)


def _attempt(work: Callable[[], Value]) -> Value | Failed:
    try:
        return work()
    except Exception as error:  # noqa: BLE001  what was raised is the observation
        return Failed(f"{type(error).__name__}: {error}", isinstance(error, OmniGraphError))


# --------------------------------------------------------------------------------------------- promises


@dataclass(slots=True)
class BranchPromise:
    """The states of a branch that the writer began, oldest first, and how many of them it was told are committed."""

    states: list[Rows]
    acknowledged: int = 0


@dataclass(slots=True)
class Promises:
    """What the writer was told before the cut."""

    branches: dict[str, BranchPromise] = field(default_factory=dict[str, BranchPromise])
    commits: dict[str, Rows] = field(default_factory=dict[str, Rows])

    def add(self, event: Event) -> None:
        """Take one mark in."""
        mark = cast("dict[str, object]", json.loads(event.path))
        name = str(mark["branch"])
        if mark["event"] == "begin":
            promise = self.branches.setdefault(name, BranchPromise([]))
            promise.states.append(frozenset(cast("list[Row]", mark["rows"])))
        elif mark["event"] == "done":
            promise = self.branches[name]
            promise.acknowledged = len(promise.states)
            if mark["commit"] is not None:
                self.commits[str(mark["commit"])] = promise.states[-1]


def promises_of(events: Iterable[Event]) -> Promises:
    """Read the marks."""
    made = Promises()
    for event in events:
        if event.kind is Kind.MARK:
            made.add(event)
    return made


class Damage(StrEnum):
    """How a promise is broken."""

    CANNOT_OPEN = "cannot be opened"
    CANNOT_LIST = "the branches cannot be listed"
    UNREADABLE = "a branch is unreadable"
    LOST = "an acknowledged commit is lost"
    BROKEN = "an acknowledged commit is unreadable"
    WRONG = "rows that nobody committed are shown"
    WEDGED = "a branch cannot be written"
    UNSOUND = "verify has findings"
    FOREIGN = "an error is not one of ours"


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise."""

    damage: Damage
    detail: str


def find_violations(promises: Promises, seen: Observation) -> list[Violation]:
    """List every broken promise. Loss of what nobody was told is none."""
    found = [Violation(Damage.FOREIGN, failed.error) for failed in seen.failures() if not failed.is_ours]
    if seen.opened is not None:
        return [Violation(Damage.CANNOT_OPEN, seen.opened.error), *found]
    if seen.listed is not None:
        found.append(Violation(Damage.CANNOT_LIST, seen.listed.error))
    for name, promise in promises.branches.items():
        if seen.listed is None or name in seen.heads:
            found += _judge_branch(name, promise, seen)
    for commit, expected in promises.commits.items():
        found += _judge_commit(commit, expected, seen.commits.get(commit))
    for name, after in seen.writes.items():
        before = seen.heads[name]
        if isinstance(after, Failed):
            found.append(Violation(Damage.WEDGED, f"{name}: {after.error}"))
        elif not isinstance(before, Failed) and set(after) != {*before, *rows(*AFTERWARDS)}:
            found.append(Violation(Damage.WRONG, f"{name} after a write"))
    if isinstance(seen.findings, Failed):
        found.append(Violation(Damage.UNSOUND, seen.findings.error))
    else:
        found += [Violation(Damage.UNSOUND, finding) for finding in seen.findings]
    return found


def _judge_branch(name: str, promise: BranchPromise, seen: Observation) -> list[Violation]:
    head = seen.heads.get(name)
    if head is None:
        return [Violation(Damage.LOST, f"branch {name}")] if promise.acknowledged else []
    if isinstance(head, Failed):
        return [Violation(Damage.UNREADABLE, f"{name}: {head.error}")]
    shown = frozenset(head)
    if len(shown) != len(head) or shown not in promise.states:
        return [Violation(Damage.WRONG, f"head of {name}")]
    newest = max(number for number, state in enumerate(promise.states, 1) if state == shown)
    if newest < promise.acknowledged or (promise.acknowledged and seen.was_missing):
        return [Violation(Damage.LOST, f"head of {name}")]
    return []


def _judge_commit(commit: str, expected: Rows, shown: list[Row] | Failed | None) -> list[Violation]:
    if isinstance(shown, Failed):
        damage = Damage.LOST if shown.error.startswith("NotFound: no commit") else Damage.BROKEN
        return [Violation(damage, f"{commit}: {shown.error}")]
    if shown is None or frozenset(shown) != expected or len(shown) != len(expected):
        return [Violation(Damage.WRONG, f"commit {commit}")]
    return []
