"""Execute the match part of a plan, from its leaf upwards, on whole frames or on pieces of them.

Every operator but a ranking looks at one row at a time, so a match can run in pieces: a streamed result never has to
fit into memory, and a limit stops the work when it is reached. Sorting and grouping need the match in one piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from omnigraph.language.query import Compare
from omnigraph.language.query.plan import (
    Connect,
    ConnectEdges,
    Cross,
    Expand,
    ExpandEdges,
    Fuse,
    Mark,
    MatchPlan,
    NodeScan,
    Optional,
    Outer,
    Select,
    TopRanked,
    With,
    Without,
    variables_of,
)
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import Frame, Mask, Positions, evaluate_predicate, number_tuples
from omnigraph.read.match.counting import reduce_frame
from omnigraph.read.match.expand import execute_connect, execute_connect_edges, execute_expand, execute_expand_edges
from omnigraph.read.match.join import (
    cross_frames,
    find_join_comparison,
    join_frames,
    outer_join_frames,
    restrict_join,
)
from omnigraph.read.match.liveness import Leaf, MatchSpine, SpineStep, StepPlan, Variables, build_spine
from omnigraph.read.match.ranked_scan import IN_RANKING, RANKED_BY_STORAGE, execute_ranked_scan, plan_ranked_scan
from omnigraph.read.match.scan_nodes import execute_scan
from omnigraph.read.search import execute_fuse, execute_top_ranked
from omnigraph.storage.filters import Condition

_FIRST_PIECE: Final = 1_024
_PIECE: Final = 65_536
"""A match that runs in pieces takes this many leaf rows at a time, fewer at first."""


def execute_match(
    plan: MatchPlan,
    needed: Variables,
    context: QueryContext,
    outer: Frame | None = None,
    restrictions: Sequence[Condition] = (),
) -> Frame:
    """Return all rows of a match, with the variables that are needed.

    ``outer`` is the input of an inner plan. Rows whose leaf does not satisfy the ``restrictions`` may be left out.
    """
    frame, steps = _execute_start(build_spine(plan, needed), context, outer, restrictions)
    for task in _group_into_tasks(steps):
        frame = _execute_task(task, frame, context)
    return frame


def stream_match(plan: MatchPlan, needed: Variables, context: QueryContext) -> Iterator[Frame]:
    """Yield the rows of a match in pieces of bounded size. The first are small, because a limit may need no more."""
    frame, steps = _execute_start(build_spine(plan, needed), context, None)
    # A ranking needs all rows below it, so pieces begin above the last one.
    ranked = 1 + max((n for n, step in enumerate(steps) if isinstance(step.plan, TopRanked)), default=-1)
    for task in _group_into_tasks(steps[:ranked]):
        frame = _execute_task(task, frame, context)
    tasks = _group_into_tasks(steps[ranked:])
    size, begin = _FIRST_PIECE, 0
    while begin < frame.num_rows:
        piece = frame.take(np.arange(begin, min(begin + size, frame.num_rows)))
        begin, size = begin + size, min(size * 4, _PIECE)
        yield from _run_tasks(piece, tasks, context)


def _run_tasks(piece: Frame, tasks: Sequence[_Task], context: QueryContext) -> Iterator[Frame]:
    for number, task in enumerate(tasks):
        if isinstance(task.plan, Cross) and task.join is None:
            for product in _stream_products(piece, task.plan, task.needed, context):
                yield from _run_tasks(product, tasks[number + 1 :], context)
            return
        piece = _execute_task(task, piece, context)
        if not piece.num_rows:
            return
    yield piece


def _stream_products(left: Frame, plan: Cross, needed: Variables, context: QueryContext) -> Iterator[Frame]:
    right = execute_match(plan.right, needed, context)
    left_rows = max(1, _PIECE // max(1, right.num_rows))
    for begin in range(0, left.num_rows, left_rows):
        with context.recorder.measure(plan) as stats:
            product = cross_frames(left.take(np.arange(begin, min(begin + left_rows, left.num_rows))), right)
            product = stats.add_frame(reduce_frame(product, needed))
        yield product


# --------------------------------------------------------------------------------------------- one operator


@dataclass(frozen=True, slots=True)
class _Task:
    """One operator to execute, or a product together with the selection above it that makes it a join."""

    plan: StepPlan
    needed: Variables
    join: Select | None = None


def _group_into_tasks(steps: Sequence[SpineStep]) -> list[_Task]:
    tasks: list[_Task] = []
    for step in steps:
        below = tasks[-1] if tasks else None
        if below is not None and below.join is None and _is_join(below.plan, step.plan):
            tasks[-1] = _Task(below.plan, step.needed, cast(Select, step.plan))
        else:
            tasks.append(_Task(step.plan, step.needed))
    return tasks


def _is_join(below: StepPlan, above: StepPlan) -> bool:
    return isinstance(below, Cross) and find_join_comparison(below, above) is not None


def _execute_start(
    spine: MatchSpine, context: QueryContext, outer: Frame | None, restrictions: Sequence[Condition] = ()
) -> tuple[Frame, tuple[SpineStep, ...]]:
    """Return the rows of the leaf and the steps that are left: all of them, or all but a ranking of the leaf."""
    first = spine.steps[0] if spine.steps else None
    if first is not None and isinstance(first.plan, TopRanked):
        frame = _execute_ranked_leaf(first.plan, first.needed, context)
        if frame is not None:
            return frame, spine.steps[1:]
    return _execute_leaf(spine, context, outer, restrictions), spine.steps


def _execute_ranked_leaf(plan: TopRanked, needed: Variables, context: QueryContext) -> Frame | None:
    scan = plan_ranked_scan(plan, context)
    if scan is None:
        return None
    with context.recorder.measure(plan) as stats:
        frame = execute_ranked_scan(scan, context)
        if frame is None:
            return None
        stats.add_frame(reduce_frame(frame, needed))
        stats.add_access_path(RANKED_BY_STORAGE)
    with context.recorder.measure(plan.input) as below:
        below.add_frame(frame)
        below.add_access_path(IN_RANKING)
    return reduce_frame(frame, needed)


def _execute_leaf(
    spine: MatchSpine, context: QueryContext, outer: Frame | None, restrictions: Sequence[Condition]
) -> Frame:
    with context.recorder.measure(spine.leaf) as stats:
        frame = _read_leaf(spine.leaf, spine.needed, context, outer, restrictions)
        return stats.add_frame(reduce_frame(frame, spine.needed))


def _read_leaf(
    leaf: Leaf, needed: Variables, context: QueryContext, outer: Frame | None, restrictions: Sequence[Condition]
) -> Frame:
    match leaf:
        case NodeScan():
            return execute_scan(leaf, context, restrictions)
        case Outer():
            return Frame(1) if outer is None else outer
        case Fuse():
            return execute_fuse(
                [execute_match(arm, needed | {leaf.variable}, context) for arm in leaf.arms], leaf, context
            )


def _execute_task(task: _Task, frame: Frame, context: QueryContext) -> Frame:
    with context.recorder.measure(task.plan) as stats:
        result = stats.add_frame(reduce_frame(_execute_operator(task, frame, context), task.needed))
    if task.join is not None:
        with context.recorder.measure(task.join) as stats:
            stats.add_frame(result)
            stats.add_access_path("in the join below")
    return result


def _execute_operator(task: _Task, frame: Frame, context: QueryContext) -> Frame:
    plan = task.plan
    match plan:
        case Expand() | ExpandEdges() | Connect() | ConnectEdges():
            return _execute_traversal(frame, plan, task, context)
        case Optional():
            return _execute_optional(frame, plan, context)
        case Cross():
            return _execute_cross(frame, plan, task, context)
        case Select():
            return frame.filter(evaluate_predicate(plan.predicate, frame, context.evaluation))
        case With():
            return frame.filter(_find_witnesses(frame, plan, context))
        case Without():
            return frame.filter(~_find_witnesses(frame, plan, context))
        case Mark():
            return frame.mark(plan.name, _find_witnesses(frame, plan, context))
        case TopRanked():
            return execute_top_ranked(frame, plan, context)


def _execute_traversal(
    frame: Frame, plan: Expand | ExpandEdges | Connect | ConnectEdges, task: _Task, context: QueryContext
) -> Frame:
    # Inside a block, an outer variable may be absent: nothing leads from there.
    ends = (plan.source, plan.destination) if isinstance(plan, Connect | ConnectEdges) else (plan.source,)
    for end in ends:
        frame = frame.drop_absent(end)
    match plan:
        case Expand():
            return execute_expand(frame, plan, task.needed, context)
        case ExpandEdges():
            return execute_expand_edges(frame, plan, context)
        case Connect():
            return execute_connect(frame, plan, task.needed, context)
        case ConnectEdges():
            return execute_connect_edges(frame, plan, context)


def _execute_optional(frame: Frame, plan: Optional, context: QueryContext) -> Frame:
    """Join the rows with the matches of the inner plan, which runs once for equal outer entities."""
    first, numbers = _number_outer_tuples(frame, plan.outer)
    outer = frame.take(first[: frame.num_rows]).select(plan.outer)
    tagged = Frame(outer.num_rows, outer.bindings, tags=np.arange(outer.num_rows))
    found = execute_match(plan.inner, frozenset(plan.variables), context, tagged)
    return outer_join_frames(frame, numbers, found, plan.variables)


def _execute_cross(frame: Frame, plan: Cross, task: _Task, context: QueryContext) -> Frame:
    if task.join is None:
        return cross_frames(frame, execute_match(plan.right, task.needed, context))
    comparison = task.join.predicate
    assert isinstance(comparison, Compare)
    restrictions = restrict_join(frame, plan, comparison, context)
    right = execute_match(plan.right, task.needed | variables_of(comparison), context, restrictions=restrictions)
    return join_frames(frame, right, comparison, context)


def _find_witnesses(frame: Frame, plan: With | Without | Mark, context: QueryContext) -> Mask:
    """Return for each row whether the inner plan finds something; it runs once for equal outer entities."""
    if not frame.num_rows:
        return np.zeros(0, np.bool_)
    first, numbers = _number_outer_tuples(frame, plan.outer)
    outer = frame.take(first).select(plan.outer)
    tagged = Frame(len(first), outer.bindings, tags=np.arange(len(first)))
    found = execute_match(plan.inner, frozenset(), context, tagged)
    has_witness = np.zeros(len(first), np.bool_)
    if found.tags is not None:
        has_witness[found.tags] = True
    return has_witness[numbers]


def _number_outer_tuples(frame: Frame, variables: Sequence[str]) -> tuple[Positions, Positions]:
    if not variables:
        return np.zeros(1, np.int64), np.zeros(frame.num_rows, np.int64)
    return number_tuples([frame.bindings[name].positions for name in variables])
