"""A history as a picture: commits in lanes, newest on top, with their names, actors and messages beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from omnigraph.draw.lanes import LaneEvent, assign_lanes
from omnigraph.draw.svg import HUES, INK, MUTED, PAPER, document, element, fit_line, hint, label, number, width_of
from omnigraph.lazy_dataclass import dataclass

ROW: Final = 28.0
LANE: Final = 18.0
MARGIN: Final = 16.0
BETWEEN: Final = 8.0
MESSAGE_CHARACTERS: Final = 72


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A commit with what stands beside it. ``names`` are the branches and tags that point to it."""

    id: str
    parents: tuple[str, ...]
    when: str
    actor: str | None = None
    message: str | None = None
    names: tuple[str, ...] = ()


def draw_history(entries: Sequence[HistoryEntry]) -> str:
    """Return an SVG of commits, which come children before parents."""
    if not entries:
        return document(260, 48, "No commits", [label(MARGIN, 29, "no commits", fill=MUTED)])
    row_of = {entry.id: row for row, entry in enumerate(entries)}
    lane_of: dict[str, int] = {}
    merged: Iterator[str] = iter(())
    merge_lane: dict[tuple[str, str], int] = {}
    lanes = 1
    for step in assign_lanes(entries):
        lanes = max(lanes, len(step.is_open))
        if step.event is LaneEvent.COMMIT:
            lane_of[step.commit.id] = step.lane
            merged = (parent for parent in step.commit.parents[1:] if parent in row_of)
        elif step.event in (LaneEvent.OPEN, LaneEvent.MEET):
            merge_lane[step.commit.id, next(merged)] = step.other
    lines = [
        _draw_link(entry, parent, row_of, lane_of, merge_lane)
        for entry in entries
        for parent in entry.parents
        if parent in row_of or parent == entry.parents[0]
    ]
    left = MARGIN * 2 + lanes * LANE
    right = left + max(_width_of(_texts_of(entry)) for entry in entries) + BETWEEN
    rows = [_draw_entry(entry, row_of[entry.id], lane_of[entry.id], (left, right)) for entry in entries]
    width = right + max(width_of(_signature_of(entry), 11.5) for entry in entries) + MARGIN
    height = MARGIN * 2 + ROW * len(entries)
    return document(width, height, f"History of {len(entries)} commits", [*lines, *rows])


def _x(lane: int) -> float:
    return MARGIN + LANE / 2 + lane * LANE


def _y(row: int) -> float:
    return MARGIN + ROW / 2 + row * ROW


def _draw_link(
    entry: HistoryEntry,
    parent: str,
    row_of: dict[str, int],
    lane_of: dict[str, int],
    merge_lane: dict[tuple[str, str], int],
) -> str:
    """Draw the line from a commit down to a parent; one to a parent that is not drawn fades out below."""
    row, lane = row_of[entry.id], lane_of[entry.id]
    along = merge_lane.get((entry.id, parent), lane)
    x, y, via = _x(lane), _y(row), _x(along)
    colour = HUES[along % len(HUES)]
    path = [f"M{number(x)},{number(y)}"]
    if via != x:
        path.append(_curve(x, y, via, y + ROW))
        y += ROW
    if parent not in row_of:
        end = y + ROW * 0.6
        return element(
            "path",
            d=" ".join([*path, f"V{number(end)}"]),
            fill="none",
            stroke=colour,
            stroke_width=2,
            stroke_dasharray="2 3",
        )
    to_x, to_y = _x(lane_of[parent]), _y(row_of[parent])
    if to_x == via:
        path.append(f"V{number(to_y)}")
    else:
        path.append(f"V{number(max(y, to_y - ROW))}")
        path.append(_curve(via, max(y, to_y - ROW), to_x, to_y))
    return element("path", d=" ".join(path), fill="none", stroke=colour, stroke_width=2)


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    middle = (y + to_y) / 2
    return f"C{number(x)},{number(middle)} {number(to_x)},{number(middle)} {number(to_x)},{number(to_y)}"


def _draw_entry(entry: HistoryEntry, row: int, lane: int, columns: tuple[float, float]) -> str:
    x, y = _x(lane), _y(row)
    merges = len(entry.parents) > 1
    colour = HUES[lane % len(HUES)]
    parts = [
        hint("\n".join(part for part in (entry.id, entry.when, entry.actor, entry.message) if part)),
        element("circle", cx=x, cy=y, r=5, fill=PAPER if merges else colour, stroke=colour, stroke_width=2.5),
    ]
    at, base = columns[0], y + 4
    for text in _texts_of(entry):
        if text.is_name:
            parts.append(
                element("rect", x=at, y=y - 9, width=text.width - 6, height=18, rx=9, fill=PAPER, stroke=colour)
            )
        inset = 7 if text.is_name else 0
        weight = "600" if text.is_name else None
        parts.append(label(at + inset, base, text.text, size=text.size, fill=text.fill, weight=weight, mono=text.mono))
        at += text.width
    parts.append(label(columns[1], base, _signature_of(entry), size=11.5, fill=MUTED))
    return element("g", "".join(parts))


@dataclass(frozen=True, slots=True)
class _EntryText:
    """A text beside a commit. A name of a branch or tag has a frame."""

    text: str
    size: float
    fill: str
    mono: bool = False
    is_name: bool = False

    @property
    def width(self) -> float:
        return width_of(self.text, self.size, mono=self.mono) + (24 if self.is_name else 12)


def _texts_of(entry: HistoryEntry) -> list[_EntryText]:
    texts = [_EntryText(f"…{entry.id[-6:]}", 11.5, MUTED, mono=True)]
    texts += [_EntryText(fit_line(name, 32), 11, INK, is_name=True) for name in entry.names]
    if entry.message:
        texts.append(_EntryText(fit_line(entry.message.splitlines()[0], MESSAGE_CHARACTERS), 12.5, INK))
    return texts


def _width_of(texts: Sequence[_EntryText]) -> float:
    return sum(text.width for text in texts)


def _signature_of(entry: HistoryEntry) -> str:
    return ", ".join(part for part in (entry.actor and fit_line(entry.actor, 32), entry.when) if part)
