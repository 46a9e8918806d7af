"""A diff drawn on the graph: what came, went and changed, with the unchanged ends of edges faded beside it.

A sign and a shape repeat what a colour says. Places follow from names and edges alone: equal diffs look the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from omnigraph.draw.svg import INK, LINE, MUTED, PAPER, arrow_head, document, element, fit_line, hint, label, width_of
from omnigraph.lazy_dataclass import dataclass

DRAWN_ENTITIES: Final = 200
"""The most changed entities that are drawn; callers show counts beyond."""
ROUNDS: Final = 160
DISTANCE: Final = 92.0
RADIUS: Final = 9.0
MARGIN: Final = 24.0
LEGEND: Final = 30.0
LEGEND_WIDTH: Final = 640.0
NAME_CHARACTERS: Final = 24
LABELLED_EDGES: Final = 60
ROW_WIDTH: Final = 760.0
BETWEEN_NODES: Final = 96.0
BETWEEN_NAMES: Final = 12.0
BETWEEN_ROWS: Final = 84.0
LABEL_SPOTS: Final = (0.5, 0.62, 0.38, 0.72, 0.28)
"""Where along an edge its label may be, the best first."""


class DiffMark(Enum):
    """What happened to an entity: its sign and its colour."""

    INSERTED = ("+", "#1a7f37", "came")
    DELETED = ("-", "#c2303a", "went")
    UPDATED = ("~", "#8f5a00", "changed")
    SAME = ("", "#8c959f", "unchanged")

    @property
    def sign(self) -> str:
        """The sign in front of the name."""
        return self.value[0]

    @property
    def colour(self) -> str:
        """The colour of lines and text."""
        return self.value[1]

    @property
    def word(self) -> str:
        """The word of the legend."""
        return self.value[2]


@dataclass(frozen=True, slots=True)
class DiffNode:
    """A node of the drawing. ``details`` is shown when the pointer rests on it."""

    type: str
    id: str
    mark: DiffMark
    details: str = ""


@dataclass(frozen=True, slots=True)
class DiffEdge:
    """An edge of the drawing; its ends are types and ids of nodes, which are drawn faded if they are not given."""

    type: str
    from_node: tuple[str, str]
    to_node: tuple[str, str]
    mark: DiffMark
    details: str = ""


class Box(NamedTuple):
    """A rectangle that something takes up."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        """Whether two rectangles have a point in common."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def draw_diff(nodes: Sequence[DiffNode], edges: Sequence[DiffEdge]) -> str:
    """Return an SVG of changed nodes and edges."""
    known = {(node.type, node.id): node for node in nodes}
    for edge in edges:
        for end in (edge.from_node, edge.to_node):
            known.setdefault(end, DiffNode(*end, DiffMark.SAME))
    if not known:
        return document(260, 48, "No changes", [label(MARGIN, 29, "no changes", fill=MUTED)])
    order = sorted(known)
    index = {name: number_ for number_, name in enumerate(order)}
    links = sorted({tuple(sorted((index[edge.from_node], index[edge.to_node]))) for edge in edges})
    half = max(RADIUS, *(_measure_name(node) / 2 for node in known.values()))
    places = _place(len(order), [(a, b) for a, b in links if a != b], 2 * half + BETWEEN_NAMES)
    left, top = MARGIN + half, MARGIN + LEGEND + RADIUS
    at = {name: (left + x, top + y) for name, (x, y) in zip(order, places, strict=True)}
    width = max(x for x, _ in at.values()) + half + MARGIN
    height = max(y for _, y in at.values()) + RADIUS + 26 + MARGIN
    drawn = [
        *_draw_edges(edges, at, [_find_name_box(known[name], *at[name]) for name in order]),
        *(_draw_node(known[name], *at[name]) for name in order),
        _draw_legend(nodes, edges),
    ]
    return document(
        max(width, LEGEND_WIDTH), height, f"{len(nodes)} changed nodes and {len(edges)} changed edges", drawn
    )


def _measure_name(node: DiffNode) -> float:
    return max(width_of(fit_line(node.id, NAME_CHARACTERS), 11), width_of(fit_line(node.type, NAME_CHARACTERS), 9.5))


def _find_name_box(node: DiffNode, x: float, y: float) -> Box:
    """Return the room of a node with its name and type below it."""
    half = max(RADIUS + 3, _measure_name(node) / 2)
    return Box(x - half, y - RADIUS - 3, x + half, y + RADIUS + 28)


def _place(nodes: int, links: Sequence[tuple[int, int]], between: float) -> list[tuple[float, float]]:
    """Return places from (0, 0) on: connected nodes together, the largest group first, groups in rows."""
    groups = _find_groups(nodes, links)
    widest = ROW_WIDTH * max(1.0, math.sqrt(nodes / 12))
    found = [(0.0, 0.0)] * nodes
    x = y = tallest = 0.0
    for group in groups:
        local = {node: number_ for number_, node in enumerate(group)}
        own = [(local[a], local[b]) for a, b in links if a in local]
        places = _relax(len(group), own)
        width = max(across for across, _ in places)
        if x and x + width > widest:
            x, y, tallest = 0.0, y + tallest, 0.0
        for node, (across, down) in zip(group, places, strict=True):
            found[node] = (x + across, y + down)
        x += width + max(BETWEEN_NODES, between)
        tallest = max(tallest, max(down for _, down in places) + BETWEEN_ROWS)
    return found


def _find_groups(nodes: int, links: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the connected groups of nodes, the largest first."""
    near: list[list[int]] = [[] for _ in range(nodes)]
    for a, b in links:
        near[a].append(b)
        near[b].append(a)
    seen: set[int] = set()
    groups: list[list[int]] = []
    for start in range(nodes):
        if start in seen:
            continue
        seen.add(start)
        group = [start]
        for node in group:
            fresh = [other for other in near[node] if other not in seen]
            seen.update(fresh)
            group += dict.fromkeys(fresh)
        groups.append(sorted(group))
    return sorted(groups, key=lambda group: (-len(group), group))


def _relax(nodes: int, links: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """Place one group: from a spiral, moved by springs along edges and by repulsion between all."""
    if nodes == 1:
        return [(0.0, 0.0)]
    # A late import: whoever draws nothing does not wait for it.
    import numpy as np

    turn = math.pi * (3 - math.sqrt(5))
    numbers = np.arange(nodes)
    radius = DISTANCE * 0.6 * np.sqrt(numbers + 0.5)
    places = np.stack((radius * np.cos(numbers * turn), radius * np.sin(numbers * turn)), axis=1)
    ends = np.array(links, dtype=np.int64).reshape(-1, 2)
    for round_ in range(ROUNDS):
        apart = places[:, None, :] - places[None, :, :]
        squares = np.maximum((apart**2).sum(axis=2), 1.0)
        moves = (apart * (DISTANCE**2 / squares)[:, :, None]).sum(axis=1)
        along = places[ends[:, 0]] - places[ends[:, 1]]
        pull = along * (np.sqrt((along**2).sum(axis=1)) / DISTANCE)[:, None]
        np.add.at(moves, ends[:, 0], -pull)
        np.add.at(moves, ends[:, 1], pull)
        length = np.maximum(np.sqrt((moves**2).sum(axis=1)), 1e-9)
        step = DISTANCE * 0.25 * (1 - round_ / ROUNDS)
        places += moves / length[:, None] * np.minimum(length, step)[:, None]
    # Names are wider than high, so nodes need more room across than down.
    places[:, 0] *= 1.4
    places -= places.min(axis=0)
    return [(float(across), float(down)) for across, down in places]


def _draw_edges(
    edges: Sequence[DiffEdge], at: Mapping[tuple[str, str], tuple[float, float]], taken: list[Box]
) -> list[str]:
    """Draw lines, and the names of few. A name that would cover another one is left to the hint of its line."""
    lines: list[str] = []
    names: list[str] = []
    parallel: dict[tuple[tuple[str, str], tuple[str, str]], int] = {}
    for edge in edges:
        pair = min((edge.from_node, edge.to_node), (edge.to_node, edge.from_node))
        order = parallel[pair] = parallel.get(pair, -1) + 1
        lines.append(_draw_edge(edge, at[edge.from_node], at[edge.to_node], order))
        if len(edges) <= LABELLED_EDGES:
            text = f"{edge.mark.sign} {fit_line(edge.type, NAME_CHARACTERS)}".lstrip()
            spot = _find_spot(at[edge.from_node], at[edge.to_node], order * 12 - 3, width_of(text, 10), taken)
            if spot is not None:
                names.append(label(*spot, text, size=10, fill=edge.mark.colour, anchor="middle", halo=True))
    return [*lines, *names]


def _find_spot(
    start: tuple[float, float], end: tuple[float, float], below: float, width: float, taken: list[Box]
) -> tuple[float, float] | None:
    """Return a place for a name along an edge where nothing is yet, and take it."""
    (x, y), (to_x, to_y) = start, end
    is_loop = start == end
    spots = (
        [(x, y - RADIUS * 3.2)] if is_loop else [(x + (to_x - x) * t, y + (to_y - y) * t + below) for t in LABEL_SPOTS]
    )
    for across, down in spots:
        box = Box(across - width / 2, down - 9, across + width / 2, down + 3)
        if is_loop or not any(box.overlaps(other) for other in taken):
            taken.append(box)
            return across, down
    return None


def _draw_edge(edge: DiffEdge, start: tuple[float, float], end: tuple[float, float], order: int) -> str:
    """Draw a line between two circles, bent if there are several; what went is dashed."""
    (x, y), (to_x, to_y) = start, end
    dashes = "5 4" if edge.mark is DiffMark.DELETED else None
    stroke = 1.2 if edge.mark is DiffMark.DELETED else 1.8
    tip = hint(f"{edge.mark.word}: {edge.type} {edge.from_node[1]} -> {edge.to_node[1]}\n{edge.details}".strip())
    length = math.hypot(to_x - x, to_y - y)
    if length < 1:
        bow = f"M{x - 6:.1f},{y - 7:.1f} C{x - 26:.1f},{y - 40:.1f} {x + 26:.1f},{y - 40:.1f} {x + 6:.1f},{y - 7:.1f}"
        return element("path", tip, d=bow, fill="none", stroke=edge.mark.colour, stroke_width=stroke)
    dx, dy = (to_x - x) / length, (to_y - y) / length
    bend = 16.0 * ((order + 1) // 2) * (1 if order % 2 else -1)
    from_x, from_y = x + dx * RADIUS, y + dy * RADIUS
    tip_x, tip_y = to_x - dx * (RADIUS + 3), to_y - dy * (RADIUS + 3)
    middle_x, middle_y = (x + to_x) / 2 - dy * bend * 2, (y + to_y) / 2 + dx * bend * 2
    path = f"M{from_x:.1f},{from_y:.1f} Q{middle_x:.1f},{middle_y:.1f} {tip_x:.1f},{tip_y:.1f}"
    line = element(
        "path", tip, d=path, fill="none", stroke=edge.mark.colour, stroke_width=stroke, stroke_dasharray=dashes
    )
    return line + arrow_head(tip_x, tip_y, dx, dy, edge.mark.colour)


def _draw_node(node: DiffNode, x: float, y: float) -> str:
    """Draw a circle: filled if it came, hollow if it went, ringed if it changed, faint if it is the same."""
    colour = node.mark.colour
    parts = [hint(f"{node.mark.word}: {node.type} {node.id}\n{node.details}".strip())]
    if node.mark is DiffMark.UPDATED:
        parts.append(element("circle", cx=x, cy=y, r=RADIUS + 2.5, fill="none", stroke=colour, stroke_width=1.5))
    filled = node.mark in (DiffMark.INSERTED, DiffMark.UPDATED)
    parts.append(
        element("circle", cx=x, cy=y, r=RADIUS, fill=colour if filled else PAPER, stroke=colour, stroke_width=2)
    )
    if node.mark.sign:
        sign_fill = PAPER if filled else colour
        parts.append(label(x, y + 4.5, node.mark.sign, size=13, fill=sign_fill, weight="700", anchor="middle"))
    name_fill = MUTED if node.mark is DiffMark.SAME else INK
    for below, size, fill, text in ((14, 11, name_fill, node.id), (25, 9.5, MUTED, node.type)):
        name = fit_line(text, NAME_CHARACTERS)
        parts.append(label(x, y + RADIUS + below, name, size=size, fill=fill, anchor="middle", halo=True))
    return element("g", "".join(parts))


def _draw_legend(nodes: Sequence[DiffNode], edges: Sequence[DiffEdge]) -> str:
    parts: list[str] = []
    x = MARGIN
    for mark in (DiffMark.INSERTED, DiffMark.DELETED, DiffMark.UPDATED):
        counts = (sum(each.mark is mark for each in nodes), sum(each.mark is mark for each in edges))
        text = f"{mark.sign} {mark.word}: {_count(counts[0], 'node')}, {_count(counts[1], 'edge')}"
        parts.append(label(x, MARGIN + 4, text, size=11.5, fill=mark.colour, weight="600"))
        x += width_of(text, 11.5) + 22
    parts.append(element("line", x1=MARGIN, x2=x, y1=MARGIN + 14, y2=MARGIN + 14, stroke=LINE, stroke_width=0.5))
    return element("g", "".join(parts))


def _count(number_: int, noun: str) -> str:
    return f"{number_} {noun}" if number_ == 1 else f"{number_} {noun}s"
