"""Runs the match of a plan: from its leaf upwards, whole frames or pieces of them, until the rows are there.

Every operator but a ranking looks at one row at a time, so a match can run in pieces: a result that is only passed on
never has to fit into memory, and a limit stops the work when it is reached. What needs all rows at once, sorting and
grouping, takes the match in one piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from omnigraph.language.query import Compare
from omnigraph.language.query.plan import (
    Connect,
    ConnectEdges,
    Cross,
    Expand,
    ExpandEdges,
    Fuse,
    MatchPlan,
    Outer,
    Scan,
    Select,
    TopRanked,
    Without,
    variables_of,
)
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import Frame, Positions, distinct, holds
from omnigraph.read.match.counting import reduced
from omnigraph.read.match.expand import connected_edges, expanded, expanded_edges
from omnigraph.read.match.join import comparison_of, crossed, joined
from omnigraph.read.match.liveness import Leaf, Spine, Step, StepPlan, Variables, spine_of
from omnigraph.read.match.scan_nodes import scanned
from omnigraph.read.match.traverse import connect
from omnigraph.read.search import fuse, top_ranked

_PIECE: Final = 65_536
"""Rows of the leaf that are carried through the plan together, where a match runs in pieces."""
_FIRST_PIECE: Final = 1_024


def matched(plan: MatchPlan, needed: Variables, reading: QueryContext, outer: Frame | None = None) -> Frame:
    """All rows of a match, with the variables that are needed."""
    spine = spine_of(plan, needed)
    frame = _leaf(spine, reading, outer)
    for task in _tasks(spine.steps):
        frame = _done(task, frame, reading)
    return frame


def matched_in_pieces(plan: MatchPlan, needed: Variables, reading: QueryContext) -> Iterator[Frame]:
    """The rows of a match, a bounded number of them at a time; small pieces come first, in case they are enough."""
    spine = spine_of(plan, needed)
    ranked = 1 + max((n for n, step in enumerate(spine.steps) if isinstance(step.plan, TopRanked)), default=-1)
    frame = _leaf(spine, reading, None)
    for task in _tasks(spine.steps[:ranked]):
        frame = _done(task, frame, reading)
    tasks = _tasks(spine.steps[ranked:])
    size, begin = _FIRST_PIECE, 0
    while begin < frame.num_rows:
        piece = frame.take(np.arange(begin, min(begin + size, frame.num_rows)))
        begin, size = begin + size, min(size * 4, _PIECE)
        yield from _through(piece, tasks, reading)


def _through(piece: Frame, tasks: Sequence[_Task], reading: QueryContext) -> Iterator[Frame]:
    for number, task in enumerate(tasks):
        if isinstance(task.plan, Cross) and task.join is None:
            for product in _products(piece, task.plan, task.needed, reading):
                yield from _through(product, tasks[number + 1 :], reading)
            return
        piece = _done(task, piece, reading)
        if not piece.num_rows:
            return
    yield piece


def _products(left: Frame, plan: Cross, needed: Variables, reading: QueryContext) -> Iterator[Frame]:
    """The product of two frames, a bounded part of it at a time."""
    right = _right(plan, needed, reading)
    at_once = max(1, _PIECE // max(1, right.num_rows))
    for begin in range(0, left.num_rows, at_once):
        with reading.recorder.measuring(plan) as note:
            product = crossed(left.take(np.arange(begin, min(begin + at_once, left.num_rows))), right)
            product = note.counted(reduced(product, needed))
        yield product


# --------------------------------------------------------------------------------------------- one operator


@dataclass(frozen=True, slots=True)
class _Task:
    """A step that is done at once: an operator, or a product with the comparison above it that makes it a join."""

    plan: StepPlan
    needed: Variables
    join: Compare | None = None


def _tasks(steps: Sequence[Step]) -> list[_Task]:
    tasks: list[_Task] = []
    for step in steps:
        below = tasks[-1] if tasks else None
        compare = None
        if below is not None and below.join is None and isinstance(below.plan, Cross):
            compare = comparison_of(below.plan, step.plan)
        if below is not None and compare is not None:
            tasks[-1] = _Task(below.plan, step.needed, compare)
        else:
            tasks.append(_Task(step.plan, step.needed))
    return tasks


def _leaf(spine: Spine, reading: QueryContext, outer: Frame | None) -> Frame:
    with reading.recorder.measuring(spine.leaf) as note:
        return note.counted(reduced(_leaf_rows(spine.leaf, spine.needed, reading, outer), spine.needed))


def _leaf_rows(leaf: Leaf, needed: Variables, reading: QueryContext, outer: Frame | None) -> Frame:
    match leaf:
        case Scan():
            return scanned(leaf, reading)
        case Outer():
            return Frame(1) if outer is None else outer
        case Fuse():
            first, second = (matched(arm, needed | {leaf.variable}, reading) for arm in (leaf.first, leaf.second))
            return fuse(first, second, leaf, reading)


def _done(task: _Task, frame: Frame, reading: QueryContext) -> Frame:
    with reading.recorder.measuring(task.plan) as note:
        return note.counted(reduced(_operated(task, frame, reading), task.needed))


def _operated(task: _Task, frame: Frame, reading: QueryContext) -> Frame:
    plan = task.plan
    match plan:
        case Expand():
            return expanded(frame, plan, task.needed, reading)
        case ExpandEdges():
            return expanded_edges(frame, plan, reading)
        case Connect():
            return connect(frame, plan, reading.tables)
        case ConnectEdges():
            return connected_edges(frame, plan, reading)
        case Cross():
            return _combined(frame, plan, task, reading)
        case Select():
            return frame.filter(holds(plan.predicate, frame, reading.request))
        case Without():
            return _without(frame, plan, reading)
        case TopRanked():
            return top_ranked(frame, plan, reading)


def _combined(frame: Frame, plan: Cross, task: _Task, reading: QueryContext) -> Frame:
    if task.join is None:
        return crossed(frame, _right(plan, task.needed, reading))
    right = _right(plan, task.needed | variables_of(task.join), reading)
    return joined(frame, right, task.join, reading)


def _right(plan: Cross, needed: Variables, reading: QueryContext) -> Frame:
    return matched(plan.right, needed, reading)


def _without(frame: Frame, plan: Without, reading: QueryContext) -> Frame:
    """The rows for whose outer entities the inner plan finds nothing; equal ones are asked about once."""
    if not frame.num_rows:
        return frame
    first, numbers = _tuples(frame, plan.outer)
    asked = frame.take(first).only(plan.outer)
    tagged = Frame(len(first), asked.bindings, tags=np.arange(len(first)))
    found = matched(plan.inner, frozenset(), reading, tagged)
    is_free = np.ones(len(first), np.bool_)
    if found.tags is not None:
        is_free[found.tags] = False
    return frame.filter(is_free[numbers])


def _tuples(frame: Frame, variables: Sequence[str]) -> tuple[Positions, Positions]:
    if not variables:
        return np.zeros(1, np.int64), np.zeros(frame.num_rows, np.int64)
    return distinct([frame.bindings[name].positions for name in variables])
