"""A schema as a picture: node types as boxes with their properties, edge types as arrows between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from omnigraph.draw.layers import LayeredPlaces, place_in_layers
from omnigraph.draw.svg import (
    BORDER,
    INK,
    LINE,
    MUTED,
    PAPER,
    arrow_head,
    document,
    element,
    fit_line,
    hint,
    hue_of,
    label,
    number,
    width_of,
)
from omnigraph.lazy_dataclass import dataclass

MARGIN: Final = 20.0
HEADER: Final = 26.0
FIELD: Final = 17.0
BELOW_FIELDS: Final = 9.0
BETWEEN_BOXES: Final = 26.0
WAY_POINT: Final = 14.0
SHOWN_FIELDS: Final = 12
NAME_CHARACTERS: Final = 36
LABEL_SPACE: Final = 15.0


@dataclass(frozen=True, slots=True)
class TypeField:
    """A property of a type. ``mark`` says what it is besides a value, such as key or unique."""

    name: str
    type: str
    mark: str = ""


@dataclass(frozen=True, slots=True)
class TypeBox:
    """A node type. ``rows`` is the number of its nodes, if it is known."""

    name: str
    fields: tuple[TypeField, ...]
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class TypeArrow:
    """An edge type between two node types."""

    name: str
    from_type: str
    to_type: str
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class _Rectangle:
    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


def draw_schema(boxes: Sequence[TypeBox], arrows: Sequence[TypeArrow]) -> str:
    """Return an SVG of the types of a schema."""
    if not boxes:
        return document(260, 48, "A schema without types", [label(MARGIN, 29, "no node types", fill=MUTED)])
    index = {box.name: number_ for number_, box in enumerate(boxes)}
    between = [arrow for arrow in arrows if arrow.from_type != arrow.to_type]
    places = place_in_layers(len(boxes), [(index[arrow.from_type], index[arrow.to_type]) for arrow in between])
    loops: dict[str, list[TypeArrow]] = defaultdict(list)
    for arrow in arrows:
        if arrow.from_type == arrow.to_type:
            loops[arrow.from_type].append(arrow)
    rectangles = _place(boxes, between, places, loops)
    drawn = [
        *_draw_arrows(between, places, rectangles),
        *(part for name, own in loops.items() for part in _draw_loops(own, rectangles[index[name]])),
        *(_draw_box(box, rectangles[number_]) for number_, box in enumerate(boxes)),
    ]
    width = (
        max(each.right + _loop_space(loops.get(_name_at(boxes, slot))) for slot, each in rectangles.items()) + MARGIN
    )
    height = max(each.y + each.height for each in rectangles.values()) + MARGIN
    title = f"Schema of {len(boxes)} node types and {len(arrows)} edge types"
    return document(width, height, title, drawn)


def _name_at(boxes: Sequence[TypeBox], slot: int) -> str:
    return boxes[slot].name if slot < len(boxes) else ""


def _name_with_rows(name: str, rows: int | None) -> str:
    short = fit_line(name, NAME_CHARACTERS)
    return short if rows is None else f"{short} {rows:,}".replace(",", "\u2009")


def _loop_space(loops: Sequence[TypeArrow] | None) -> float:
    """Return the room to the right of a box that its arrows to itself need."""
    return 44 + max(width_of(_name_with_rows(each.name, each.rows), 11) for each in loops) if loops else 0.0


def _width_of_box(box: TypeBox) -> float:
    widths = [width_of(_name_with_rows(box.name, box.rows), 13) + 26]
    for each in box.fields[:SHOWN_FIELDS]:
        parts = (fit_line(each.name, NAME_CHARACTERS), fit_line(each.type, 28), each.mark)
        widths.append(sum(width_of(part, 11.5, mono=True) + 12 for part in parts if part) + 8)
    return max(widths)


def _height_of_box(box: TypeBox) -> float:
    shown = min(len(box.fields), SHOWN_FIELDS) + (len(box.fields) > SHOWN_FIELDS)
    return HEADER + FIELD * shown + (BELOW_FIELDS if shown else 0)


def _place(
    boxes: Sequence[TypeBox],
    arrows: Sequence[TypeArrow],
    places: LayeredPlaces,
    loops: Mapping[str, Sequence[TypeArrow]],
) -> dict[int, _Rectangle]:
    """Return where each slot of the layout is: columns from left to right, centred against the tallest."""
    heights = {
        slot: _height_of_box(boxes[slot]) if slot < len(boxes) else WAY_POINT
        for column in places.columns
        for slot in column
    }
    column_height = [sum(heights[slot] + BETWEEN_BOXES for slot in column) - BETWEEN_BOXES for column in places.columns]
    gaps = _gaps_after(arrows, places)
    found: dict[int, _Rectangle] = {}
    x = MARGIN
    for column, height, gap in zip(places.columns, column_height, gaps, strict=True):
        width = max((_width_of_box(boxes[slot]) for slot in column if slot < len(boxes)), default=10.0)
        y = MARGIN + (max(column_height) - height) / 2
        for slot in column:
            found[slot] = _Rectangle(x, y, width, heights[slot])
            y += heights[slot] + BETWEEN_BOXES
        x += width + gap + max((_loop_space(loops.get(_name_at(boxes, slot))) for slot in column), default=0.0)
    return found


def _gaps_after(arrows: Sequence[TypeArrow], places: LayeredPlaces) -> list[float]:
    """Return the room after each column: enough for the labels of the arrows that leave it."""
    column_of = {slot: number_ for number_, column in enumerate(places.columns) for slot in column}
    widest = [0.0] * len(places.columns)
    for arrow, route in zip(arrows, places.routes, strict=True):
        at = column_of[route[0]]
        widest[at] = max(widest[at], width_of(_name_with_rows(arrow.name, arrow.rows), 11))
    return [each + 70 for each in widest]


def _draw_arrows(arrows: Sequence[TypeArrow], places: LayeredPlaces, rectangles: Mapping[int, _Rectangle]) -> list[str]:
    """Draw the arrows between boxes. Each has a port of its own, ordered by where the other end is."""
    out: dict[int, list[int]] = defaultdict(list)
    into: dict[int, list[int]] = defaultdict(list)
    for each, route in enumerate(places.routes):
        out[route[0]].append(each)
        into[route[-1]].append(each)
    leave: dict[int, float] = {}
    arrive: dict[int, float] = {}
    for ports, routes_of, neighbour in ((leave, out, 1), (arrive, into, -2)):
        for slot, routes in routes_of.items():
            box = rectangles[slot]
            routes.sort(key=lambda each, at=neighbour: (rectangles[places.routes[each][at]].middle, each))
            for order, each in enumerate(routes):
                ports[each] = box.y + box.height * (order + 1) / (len(routes) + 1)
    lines: list[str] = []
    labels: list[tuple[float, float, TypeArrow]] = []
    for each, (arrow, route) in enumerate(zip(arrows, places.routes, strict=True)):
        first = rectangles[route[0]]
        points = [(first.right, leave[each])]
        for point in route[1:-1]:
            points += [
                (rectangles[point].x, rectangles[point].middle),
                (rectangles[point].right, rectangles[point].middle),
            ]
        points.append((rectangles[route[-1]].x, arrive[each]))
        lines.append(_draw_line(points, backwards=each in places.reversed_arrows))
        (x, y), (to_x, to_y) = points[0], points[1]
        labels.append(((x + to_x) / 2, (y + to_y) / 2, arrow))
    return [*lines, *_draw_labels(labels)]


def _draw_line(points: Sequence[tuple[float, float]], *, backwards: bool) -> str:
    path = [f"M{number(points[0][0])},{number(points[0][1])}"]
    for (x, y), (to_x, to_y) in pairwise(points):
        middle = (x + to_x) / 2
        path.append(f"C{number(middle)},{number(y)} {number(middle)},{number(to_y)} {number(to_x)},{number(to_y)}")
    (x, y), direction = (points[0], -1.0) if backwards else (points[-1], 1.0)
    return element("path", d=" ".join(path), fill="none", stroke=LINE, stroke_width=1.4) + arrow_head(
        x, y, direction, 0, LINE
    )


def _draw_labels(labels: Sequence[tuple[float, float, TypeArrow]]) -> list[str]:
    """Draw the names of arrows; those of one column are moved apart."""
    by_column: dict[float, list[tuple[float, TypeArrow]]] = defaultdict(list)
    for x, y, arrow in labels:
        by_column[round(x)].append((y, arrow))
    drawn: list[str] = []
    for x, column in sorted(by_column.items()):
        lowest = float("-inf")
        for y, arrow in sorted(column, key=lambda each: (each[0], each[1].name)):
            lowest = max(y, lowest + LABEL_SPACE)
            drawn.append(_draw_name(x, lowest - 4, arrow, anchor="middle"))
    return drawn


def _draw_name(x: float, y: float, arrow: TypeArrow, *, anchor: str | None = None) -> str:
    text = _name_with_rows(arrow.name, arrow.rows)
    return element(
        "g",
        hint(f"{arrow.name}: {arrow.from_type} -> {arrow.to_type}")
        + label(x, y, text, size=11, fill=INK, anchor=anchor, halo=True),
    )


def _draw_loops(arrows: Sequence[TypeArrow], box: _Rectangle) -> list[str]:
    """Draw arrows from a type to itself: one bow at its right side, with all their names."""
    top, bottom, right = box.y + 8, box.y + 8 + 18, box.right
    bow = element(
        "path",
        d=f"M{number(right)},{number(top)} C{number(right + 34)},{number(top - 4)} "
        f"{number(right + 34)},{number(bottom + 4)} {number(right)},{number(bottom)}",
        fill="none",
        stroke=LINE,
        stroke_width=1.4,
    )
    names = [_draw_name(right + 32, top + 6 + order * LABEL_SPACE, arrow) for order, arrow in enumerate(arrows)]
    return [bow + arrow_head(right, bottom, -1, 0, LINE), *names]


def _draw_box(box: TypeBox, place: _Rectangle) -> str:
    colour = hue_of(box.name)
    frame = {"x": place.x, "y": place.y, "width": place.width, "rx": 5.0}
    parts = [
        hint(box.name),
        element("rect", **frame, height=place.height, fill=PAPER, stroke=BORDER),
        element("rect", **frame, height=HEADER, fill=colour),
        label(place.x + 10, place.y + 17.5, fit_line(box.name, NAME_CHARACTERS), size=13, fill=PAPER, weight="600"),
    ]
    if box.rows is not None:
        rows = f"{box.rows:,}".replace(",", "\u2009")
        parts.append(label(place.right - 10, place.y + 17.5, rows, size=11.5, fill=PAPER, anchor="end"))
    y = place.y + HEADER + 15
    for each in box.fields[:SHOWN_FIELDS]:
        name = fit_line(each.name, NAME_CHARACTERS)
        parts.append(label(place.x + 10, y, name, size=11.5, mono=True, weight="600" if each.mark == "key" else None))
        after = f"{fit_line(each.type, 28)} {each.mark}".rstrip()
        parts.append(label(place.right - 10, y, after, size=11.5, fill=MUTED, anchor="end", mono=True))
        y += FIELD
    if len(box.fields) > SHOWN_FIELDS:
        parts.append(label(place.x + 10, y, f"and {len(box.fields) - SHOWN_FIELDS} more", size=11.5, fill=MUTED))
    return element("g", "".join(parts))
