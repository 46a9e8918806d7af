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
    NodeScan,
    Outer,
    Select,
    TopRanked,
    Without,
    variables_of,
)
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import Frame, Positions, evaluate_predicate, number_tuples
from omnigraph.read.match.counting import reduce_frame
from omnigraph.read.match.expand import execute_connect, execute_connect_edges, execute_expand, execute_expand_edges
from omnigraph.read.match.join import cross_frames, find_join_comparison, join_frames
from omnigraph.read.match.liveness import Leaf, MatchSpine, SpineStep, StepPlan, Variables, build_spine
from omnigraph.read.match.scan_nodes import execute_scan
from omnigraph.read.search import execute_fuse, execute_top_ranked

_PIECE: Final = 65_536
"""Rows of the leaf that are carried through the plan together, where a match runs in pieces."""
_FIRST_PIECE: Final = 1_024


def execute_match(plan: MatchPlan, needed: Variables, reading: QueryContext, outer: Frame | None = None) -> Frame:
    """All rows of a match, with the variables that are needed."""
    spine = build_spine(plan, needed)
    frame = _execute_leaf(spine, reading, outer)
    for task in _group_into_tasks(spine.steps):
        frame = _execute_task(task, frame, reading)
    return frame


def stream_match(plan: MatchPlan, needed: Variables, reading: QueryContext) -> Iterator[Frame]:
    """The rows of a match, a bounded number of them at a time; small pieces come first, in case they are enough."""
    spine = build_spine(plan, needed)
    ranked = 1 + max((n for n, step in enumerate(spine.steps) if isinstance(step.plan, TopRanked)), default=-1)
    frame = _execute_leaf(spine, reading, None)
    for task in _group_into_tasks(spine.steps[:ranked]):
        frame = _execute_task(task, frame, reading)
    tasks = _group_into_tasks(spine.steps[ranked:])
    size, begin = _FIRST_PIECE, 0
    while begin < frame.num_rows:
        piece = frame.take(np.arange(begin, min(begin + size, frame.num_rows)))
        begin, size = begin + size, min(size * 4, _PIECE)
        yield from _run_tasks(piece, tasks, reading)


def _run_tasks(piece: Frame, tasks: Sequence[_Task], reading: QueryContext) -> Iterator[Frame]:
    for number, task in enumerate(tasks):
        if isinstance(task.plan, Cross) and task.join is None:
            for product in _stream_products(piece, task.plan, task.needed, reading):
                yield from _run_tasks(product, tasks[number + 1 :], reading)
            return
        piece = _execute_task(task, piece, reading)
        if not piece.num_rows:
            return
    yield piece


def _stream_products(left: Frame, plan: Cross, needed: Variables, reading: QueryContext) -> Iterator[Frame]:
    """The product of two frames, a bounded part of it at a time."""
    right = _execute_right(plan, needed, reading)
    at_once = max(1, _PIECE // max(1, right.num_rows))
    for begin in range(0, left.num_rows, at_once):
        with reading.recorder.measure(plan) as note:
            product = cross_frames(left.take(np.arange(begin, min(begin + at_once, left.num_rows))), right)
            product = note.add_frame(reduce_frame(product, needed))
        yield product


# --------------------------------------------------------------------------------------------- one operator


@dataclass(frozen=True, slots=True)
class _Task:
    """A step that is done at once: an operator, or a product with the comparison above it that makes it a join."""

    plan: StepPlan
    needed: Variables
    join: Compare | None = None


def _group_into_tasks(steps: Sequence[SpineStep]) -> list[_Task]:
    tasks: list[_Task] = []
    for step in steps:
        below = tasks[-1] if tasks else None
        compare = None
        if below is not None and below.join is None and isinstance(below.plan, Cross):
            compare = find_join_comparison(below.plan, step.plan)
        if below is not None and compare is not None:
            tasks[-1] = _Task(below.plan, step.needed, compare)
        else:
            tasks.append(_Task(step.plan, step.needed))
    return tasks


def _execute_leaf(spine: MatchSpine, reading: QueryContext, outer: Frame | None) -> Frame:
    with reading.recorder.measure(spine.leaf) as note:
        return note.add_frame(reduce_frame(_read_leaf(spine.leaf, spine.needed, reading, outer), spine.needed))


def _read_leaf(leaf: Leaf, needed: Variables, reading: QueryContext, outer: Frame | None) -> Frame:
    match leaf:
        case NodeScan():
            return execute_scan(leaf, reading)
        case Outer():
            return Frame(1) if outer is None else outer
        case Fuse():
            first, second = (execute_match(arm, needed | {leaf.variable}, reading) for arm in (leaf.first, leaf.second))
            return execute_fuse(first, second, leaf, reading)


def _execute_task(task: _Task, frame: Frame, reading: QueryContext) -> Frame:
    with reading.recorder.measure(task.plan) as note:
        return note.add_frame(reduce_frame(_execute_operator(task, frame, reading), task.needed))


def _execute_operator(task: _Task, frame: Frame, reading: QueryContext) -> Frame:
    plan = task.plan
    match plan:
        case Expand():
            return execute_expand(frame, plan, task.needed, reading)
        case ExpandEdges():
            return execute_expand_edges(frame, plan, reading)
        case Connect():
            return execute_connect(frame, plan, reading)
        case ConnectEdges():
            return execute_connect_edges(frame, plan, reading)
        case Cross():
            return _execute_cross(frame, plan, task, reading)
        case Select():
            return frame.filter(evaluate_predicate(plan.predicate, frame, reading.evaluation))
        case Without():
            return _execute_without(frame, plan, reading)
        case TopRanked():
            return execute_top_ranked(frame, plan, reading)


def _execute_cross(frame: Frame, plan: Cross, task: _Task, reading: QueryContext) -> Frame:
    if task.join is None:
        return cross_frames(frame, _execute_right(plan, task.needed, reading))
    right = _execute_right(plan, task.needed | variables_of(task.join), reading)
    return join_frames(frame, right, task.join, reading)


def _execute_right(plan: Cross, needed: Variables, reading: QueryContext) -> Frame:
    return execute_match(plan.right, needed, reading)


def _execute_without(frame: Frame, plan: Without, reading: QueryContext) -> Frame:
    """The rows for whose outer entities the inner plan finds nothing; equal ones are asked about once."""
    if not frame.num_rows:
        return frame
    first, numbers = _number_outer_tuples(frame, plan.outer)
    asked = frame.take(first).select(plan.outer)
    tagged = Frame(len(first), asked.bindings, tags=np.arange(len(first)))
    found = execute_match(plan.inner, frozenset(), reading, tagged)
    is_free = np.ones(len(first), np.bool_)
    if found.tags is not None:
        is_free[found.tags] = False
    return frame.filter(is_free[numbers])


def _number_outer_tuples(frame: Frame, variables: Sequence[str]) -> tuple[Positions, Positions]:
    if not variables:
        return np.zeros(1, np.int64), np.zeros(frame.num_rows, np.int64)
    return number_tuples([frame.bindings[name].positions for name in variables])
