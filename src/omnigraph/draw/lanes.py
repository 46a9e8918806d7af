"""Lanes of a history: one lane per line of commits that is open at a row. Text and pictures share this placement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import Generic, Protocol, TypeVar

from omnigraph.lazy_dataclass import dataclass


class CommitNode(Protocol):
    """What the placement needs to know of a commit."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def parents(self) -> tuple[str, ...]:
        """The ids of its parents, the one that it followed first."""
        ...


Node = TypeVar("Node", bound=CommitNode)


class LaneEvent(Enum):
    """What happens in a row of the drawing."""

    JOIN = auto()
    """Another lane ends in that of the next commit."""
    COMMIT = auto()
    OPEN = auto()
    """A lane to a merged parent opens."""
    MEET = auto()
    """A merged parent is reached by a lane that is open already."""


@dataclass(frozen=True, slots=True)
class LaneStep(Generic[Node]):
    """One row of the drawing: the lanes that are open, the lane of the commit, and the other lane that it touches."""

    event: LaneEvent
    is_open: tuple[bool, ...]
    lane: int
    other: int
    commit: Node


def assign_lanes(commits: Sequence[Node]) -> Iterator[LaneStep[Node]]:
    """Place commits, children before parents, in lanes; yield the rows between them too where lanes open or join."""
    known = {commit.id for commit in commits}
    lanes: list[str | None] = []
    """For each lane the commit that it leads to; None for a lane that is free."""
    for commit in commits:
        here = [lane for lane, expected in enumerate(lanes) if expected == commit.id]
        lane = here[0] if here else _find_free(lanes, 0)
        for meeting in here[1:]:
            yield _step(LaneEvent.JOIN, lanes, lane, meeting, commit)
            lanes[meeting] = None
        lanes[lane] = commit.id
        yield _step(LaneEvent.COMMIT, lanes, lane, lane, commit)
        # A first parent that is not drawn comes further down; a merged one may be deleted with its branch.
        lanes[lane] = next(iter(commit.parents), None)
        for parent in commit.parents[1:]:
            if parent not in known:
                continue
            event = LaneEvent.MEET if parent in lanes else LaneEvent.OPEN
            other = lanes.index(parent) if parent in lanes else _find_free(lanes, lane + 1)
            lanes[other] = parent
            yield _step(event, lanes, lane, other, commit)
        while lanes and lanes[-1] is None:
            lanes.pop()


def _step(event: LaneEvent, lanes: Sequence[str | None], lane: int, other: int, commit: Node) -> LaneStep[Node]:
    return LaneStep(event, tuple(expected is not None for expected in lanes), lane, other, commit)


def _find_free(lanes: list[str | None], start: int) -> int:
    """Return the first free lane at or after ``start``; append one if there is none."""
    for lane in range(start, len(lanes)):
        if lanes[lane] is None:
            return lane
    lanes.append(None)
    return len(lanes) - 1
