"""A layered layout of a directed graph: boxes in columns, arrows mostly from left to right.

The steps are those of Sugiyama: cycles are broken, each box gets a column, arrows over several columns get way points,
and columns are ordered to cross few arrows. Equal input gives an equal layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from omnigraph.lazy_dataclass import dataclass

SWEEPS: Final = 8


@dataclass(frozen=True, slots=True)
class LayeredPlaces:
    """The places of a layout: for each column its slots from top to bottom. A slot is a box or a way point."""

    columns: tuple[tuple[int, ...], ...]
    routes: tuple[tuple[int, ...], ...]
    """For each arrow the slots that it visits, from left to right."""
    reversed_arrows: frozenset[int]
    """The arrows that run from right to left, to break a cycle."""


def place_in_layers(boxes: int, arrows: Sequence[tuple[int, int]]) -> LayeredPlaces:
    """Place boxes, numbered from 0, and arrows between different ones. Way points get the numbers after the boxes."""
    turned = _find_back_arrows(boxes, arrows)
    forward = [(to, from_) if each in turned else (from_, to) for each, (from_, to) in enumerate(arrows)]
    column = _assign_columns(boxes, forward)
    columns: list[list[int]] = [[] for _ in range(max(column, default=-1) + 1)]
    for box in range(boxes):
        columns[column[box]].append(box)
    routes: list[tuple[int, ...]] = []
    slots = boxes
    for from_, to in forward:
        between = range(column[from_] + 1, column[to])
        points = list(range(slots, slots + len(between)))
        for point, place in zip(points, between, strict=True):
            columns[place].append(point)
        slots += len(points)
        routes.append((from_, *points, to))
    _order_columns(columns, routes, slots)
    return LayeredPlaces(tuple(tuple(each) for each in columns), tuple(routes), frozenset(turned))


def _find_back_arrows(boxes: int, arrows: Sequence[tuple[int, int]]) -> set[int]:
    """Return the arrows that close a cycle in a depth-first walk, begun at boxes that few arrows reach."""
    leaving: list[list[int]] = [[] for _ in range(boxes)]
    reached = [0] * boxes
    for each, (from_, to) in enumerate(arrows):
        leaving[from_].append(each)
        reached[to] += 1
    back: set[int] = set()
    state = [0] * boxes
    for root in sorted(range(boxes), key=lambda box: (reached[box] - len(leaving[box]), box)):
        if state[root]:
            continue
        state[root] = 1
        path = [(root, iter(leaving[root]))]
        while path:
            box, rest = path[-1]
            each = next(rest, None)
            if each is None:
                state[box] = 2
                path.pop()
                continue
            to = arrows[each][1]
            if state[to] == 1:
                back.add(each)
            elif state[to] == 0:
                state[to] = 1
                path.append((to, iter(leaving[to])))
    return back


def _assign_columns(boxes: int, arrows: Iterable[tuple[int, int]]) -> list[int]:
    """Return the column of each box: one past the furthest of those that point to it."""
    leaving: list[list[int]] = [[] for _ in range(boxes)]
    waiting = [0] * boxes
    for from_, to in arrows:
        leaving[from_].append(to)
        waiting[to] += 1
    column = [0] * boxes
    ready = [box for box in range(boxes) if not waiting[box]]
    for box in ready:
        for to in leaving[box]:
            column[to] = max(column[to], column[box] + 1)
            waiting[to] -= 1
            if not waiting[to]:
                ready.append(to)
    return column


def _order_columns(columns: list[list[int]], routes: Sequence[Sequence[int]], slots: int) -> None:
    """Order each column by the mean place of its neighbours, sweeping to the right and back."""
    left: list[list[int]] = [[] for _ in range(slots)]
    right: list[list[int]] = [[] for _ in range(slots)]
    for route in routes:
        for one, next_one in pairwise(route):
            right[one].append(next_one)
            left[next_one].append(one)
    place = [0.0] * slots
    for column in columns:
        _number(column, place)
    for sweep in range(SWEEPS):
        neighbours, order = (left, columns) if sweep % 2 == 0 else (right, columns[::-1])
        for column in order:
            means = {
                slot: sum(place[other] for other in neighbours[slot]) / len(neighbours[slot])
                if neighbours[slot]
                else place[slot]
                for slot in column
            }
            column.sort(key=lambda slot: (means[slot], slot))
            _number(column, place)


def _number(column: Sequence[int], place: list[float]) -> None:
    for index, slot in enumerate(column):
        place[slot] = (index + 0.5) / len(column)
