"""The commit graph, drawn as lanes beside the commits: one lane per line of history that is open at that row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich.text import Text

from omnigraph.draw import LaneEvent, assign_lanes
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.manifest.history import Commit

COLOURS = ("green", "cyan", "magenta", "yellow", "blue", "red")
ENDS: Final = {LaneEvent.JOIN: "╯", LaneEvent.OPEN: "╮", LaneEvent.MEET: "┤"}


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the drawing. A row that only connects lanes has no commit."""

    lanes: Text
    commit: Commit | None


def draw_lanes(commits: Sequence[Commit]) -> Iterator[Row]:
    """Yield a row per commit, children before parents, and rows between them where lanes split or join."""
    for step in assign_lanes(commits):
        if step.event is LaneEvent.COMMIT:
            yield Row(_row(step.is_open, {step.lane: "●"}), step.commit)
        else:
            yield Row(_draw_crossing(step.is_open, step.lane, step.other, ENDS[step.event]), None)


def _draw_crossing(is_open: Sequence[bool], lane: int, other: int, end: str) -> Text:
    """Draw a line from one lane to another; the lanes in between pass below it."""
    left, right = sorted((lane, other))
    marks = {left: "├", right: "┤" if other < lane else end}
    return _row(is_open, marks, across=range(left, right))


def _row(is_open: Sequence[bool], marks: dict[int, str], across: Iterable[int] = ()) -> Text:
    row = Text()
    crossed = set(across)
    for lane, leads_on in enumerate(is_open):
        blank = "─" if lane in crossed and lane not in marks else " "
        row.append(marks.get(lane) or ("│" if leads_on else blank), COLOURS[lane % len(COLOURS)])
        row.append("─" if lane in crossed else " ")
    row.rstrip()
    return row
