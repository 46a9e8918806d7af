"""The commit graph, drawn as lanes beside the commits: one lane per line of history that is open at that row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from omnigraph.manifest.history import Commit

COLOURS = ("green", "cyan", "magenta", "yellow", "blue", "red")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the drawing. A row that only connects lanes has no commit."""

    lanes: Text
    commit: Commit | None


def draw_lanes(commits: Sequence[Commit]) -> Iterator[Row]:
    """Yield a row per commit, children before parents, and rows between them where lanes split or join."""
    known = {commit.id for commit in commits}
    lanes: list[str | None] = []
    """For each lane the commit that it leads to; None for a lane that is free."""
    for commit in commits:
        here = [lane for lane, expected in enumerate(lanes) if expected == commit.id]
        lane = here[0] if here else _free(lanes, 0)
        for meeting in here[1:]:
            yield Row(_draw_crossing(lanes, lane, meeting, "╯"), None)
            lanes[meeting] = None
        lanes[lane] = commit.id
        yield Row(_row(lanes, {lane: "●"}), commit)
        # A first parent that is not drawn comes further down; a merged one may be deleted with its branch.
        lanes[lane] = next(iter(commit.parents), None)
        for parent in commit.parents[1:]:
            if parent in known:
                yield Row(_draw_split(lanes, lane, parent), None)
        while lanes and lanes[-1] is None:
            lanes.pop()


def _draw_split(lanes: list[str | None], lane: int, parent: str) -> Text:
    """Draw the line from a merge commit to its second parent: into a lane that leads there, or into a new one."""
    if parent in lanes:
        return _draw_crossing(lanes, lane, lanes.index(parent), "┤")
    other = _free(lanes, lane + 1)
    lanes[other] = parent
    return _draw_crossing(lanes, lane, other, "╮")


def _free(lanes: list[str | None], start: int) -> int:
    """Return the first free lane at or after ``start``; append one if there is none."""
    for lane in range(start, len(lanes)):
        if lanes[lane] is None:
            return lane
    lanes.append(None)
    return len(lanes) - 1


def _draw_crossing(lanes: Sequence[str | None], lane: int, other: int, end: str) -> Text:
    """Draw a line from one lane to another; the lanes in between pass below it."""
    left, right = sorted((lane, other))
    marks = {left: "├", right: "┤" if other < lane else end}
    return _row(lanes, marks, across=range(left, right))


def _row(lanes: Sequence[str | None], marks: dict[int, str], across: Iterable[int] = ()) -> Text:
    row = Text()
    crossed = set(across)
    for lane, expected in enumerate(lanes):
        blank = "─" if lane in crossed and lane not in marks else " "
        row.append(marks.get(lane) or ("│" if expected is not None else blank), COLOURS[lane % len(COLOURS)])
        row.append("─" if lane in crossed else " ")
    row.rstrip()
    return row
