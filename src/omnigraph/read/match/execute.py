"""Execute the match part of a plan, from its leaf upwards, on whole frames or on pieces of them.

Every operator but a ranking looks at one row at a time, so a match can run in pieces: a streamed result never has to
fit into memory, and a limit stops the work when it is reached. Sorting and grouping take the match in one piece where
the memory of the query allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, cast

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
    variables_bound_by,
    variables_of,
)
from omnigraph.late_imports import LateModule
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import Frame, Mask, Positions, evaluate_predicate, number_tuples
from omnigraph.read.match import pieces
from omnigraph.read.match.counting import reduce_frame
from omnigraph.read.match.join import (
    cross_frames,
    find_join_comparison,
    join_frames,
    outer_join_frames,
    restrict_join,
)
from omnigraph.read.match.liveness import MatchSpine, SpineStep, StepPlan, Variables, build_spine
from omnigraph.read.match.pieces import Piece, PieceRunner, Task, collect_pieces, measure_frame
from omnigraph.read.match.ranked_scan import IN_RANKING, RANKED_BY_STORAGE, execute_ranked_scan, plan_ranked_scan
from omnigraph.read.match.scan_nodes import execute_scan
from omnigraph.read.search import execute_fuse, execute_top_ranked
from omnigraph.storage.filters import Condition

if TYPE_CHECKING:
    from omnigraph.read.match import expand
else:
    # A lookup follows no edge.
    expand = LateModule("omnigraph.read.match.expand")

_VALUE_BYTES: Final = 40
"""What it takes to evaluate a condition for a row."""
_FIRST_PIECE: Final = 1_024
"""A match that is streamed begins with this many leaf rows, because a limit may need no more."""


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
    return collect_pieces(run_match(plan, needed, context, outer, restrictions), context)


def run_match(
    plan: MatchPlan,
    needed: Variables,
    context: QueryContext,
    outer: Frame | None = None,
    restrictions: Sequence[Condition] = (),
) -> Iterator[Piece]:
    """Yield the rows of a match: at once if the memory of the query allows that, else in pieces."""
    frame, steps = _execute_rankings(build_spine(plan, needed), context, outer, restrictions)
    yield from _make_runner(steps, context).run(iter([Piece(frame, is_only=True)]))


def stream_match(plan: MatchPlan, needed: Variables, context: QueryContext) -> Iterator[Frame]:
    """Yield the rows of a match in pieces of bounded size. The first are small, because a limit may need no more."""
    spine = build_spine(plan, needed)
    frame, steps = _execute_rankings(spine, context, None)
    with context.memory.hold(measure_frame(frame)):
        parts = _slice_frame(frame)
        # A part is no copy of the rows, so without an operator above them nothing else is held.
        for piece in _make_runner(steps, context, is_streamed=True).run(parts) if steps else parts:
            yield piece.frame


def _slice_frame(frame: Frame) -> Iterator[Piece]:
    size, begin = _FIRST_PIECE, 0
    while begin < frame.num_rows:
        yield Piece(frame.slice(begin, begin + size), is_only=size >= frame.num_rows)
        begin, size = begin + size, min(size * 4, pieces.PIECE_ROWS)


def _execute_rankings(
    spine: MatchSpine, context: QueryContext, outer: Frame | None, restrictions: Sequence[Condition] = ()
) -> tuple[Frame, Sequence[SpineStep]]:
    """Execute a match up to its last ranking, which needs all rows below it. Return the operators that are left."""
    frame, steps = _execute_start(spine, context, outer, restrictions)
    begin = 0
    for number, step in enumerate(steps):
        if isinstance(step.plan, TopRanked):
            below = _make_runner(steps[begin:number], context).run(iter([Piece(frame, is_only=True)]))
            frame = collect_pieces(below, context)
            with context.memory.hold(measure_frame(frame)):
                frame = _execute_task(Task(step.plan, step.needed), frame, context)
            begin = number + 1
    return frame, steps[begin:]


def _make_runner(
    steps: Sequence[SpineStep],
    context: QueryContext,
    drop_done: Callable[[Frame], Frame] | None = None,
    *,
    is_streamed: bool = False,
) -> PieceRunner:
    tasks = _group_into_tasks(steps, is_test=drop_done is not None)
    return PieceRunner(tasks, _execute_task, _execute_right, context, drop_done, is_streamed)


# --------------------------------------------------------------------------------------------- one operator


def _group_into_tasks(steps: Sequence[SpineStep], *, is_test: bool) -> list[Task]:
    tasks: list[Task] = []
    for step in steps:
        below = tasks[-1] if tasks else None
        if below is not None and below.join is None and _is_join(below.plan, step.plan):
            tasks[-1] = Task(below.plan, step.needed, is_test, cast(Select, step.plan))
        else:
            tasks.append(Task(step.plan, step.needed, is_test))
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
        frame = _read_leaf(spine, context, outer, restrictions)
        return stats.add_frame(reduce_frame(frame, spine.needed))


def _read_leaf(
    spine: MatchSpine, context: QueryContext, outer: Frame | None, restrictions: Sequence[Condition]
) -> Frame:
    leaf = spine.leaf
    match leaf:
        case NodeScan():
            return execute_scan(leaf, context, restrictions, is_proven=spine.is_leaf_proven)
        case Outer():
            return Frame(1) if outer is None else outer
        case Fuse():
            needed = spine.needed | {leaf.variable}
            return execute_fuse([execute_match(arm, needed, context) for arm in leaf.arms], leaf, context)


def _execute_task(task: Task, frame: Frame, context: QueryContext) -> Frame:
    with context.recorder.measure(task.plan) as stats:
        result = stats.add_frame(reduce_frame(_execute_operator(task, frame, context), task.needed))
    if task.join is not None:
        with context.recorder.measure(task.join) as stats:
            stats.add_frame(result)
            stats.add_access_path("in the join below")
    return result


def _execute_operator(task: Task, frame: Frame, context: QueryContext) -> Frame:
    plan = task.plan
    match plan:
        case Expand() | ExpandEdges() | Connect() | ConnectEdges():
            return _execute_traversal(frame, plan, task, context)
        case Optional():
            return _execute_optional(frame, plan, context)
        case Cross():
            return _execute_cross(frame, task, context)
        case Select():
            with context.memory.hold(frame.num_rows * (_VALUE_BYTES + frame.row_bytes)):
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
    frame: Frame, plan: Expand | ExpandEdges | Connect | ConnectEdges, task: Task, context: QueryContext
) -> Frame:
    # Inside a block, an outer variable may be absent: nothing leads from there.
    ends = (plan.source, plan.destination) if isinstance(plan, Connect | ConnectEdges) else (plan.source,)
    for end in ends:
        frame = frame.drop_absent(end)
    if task.is_test and isinstance(plan, Expand | ExpandEdges) and not task.needed & variables_bound_by(plan):
        return expand.keep_rows_that_lead_on(frame, plan, context)
    match plan:
        case Expand():
            return expand.execute_expand(frame, plan, task.needed, context)
        case ExpandEdges():
            return expand.execute_expand_edges(frame, plan, context)
        case Connect():
            return expand.execute_connect(frame, plan, task.needed, context)
        case ConnectEdges():
            return expand.execute_connect_edges(frame, plan, context)


def _execute_optional(frame: Frame, plan: Optional, context: QueryContext) -> Frame:
    """Join the rows with the matches of the inner plan, which runs once for equal outer entities."""
    first, numbers = _number_outer_tuples(frame, plan.outer)
    outer = frame.take(first[: frame.num_rows]).select(plan.outer)
    tagged = Frame(outer.num_rows, outer.bindings, tags=np.arange(outer.num_rows))
    with context.memory.hold(tagged.nbytes + numbers.nbytes) as held:
        found = execute_match(plan.inner, frozenset(plan.variables), context, tagged)
        held.add(measure_frame(found))
        return outer_join_frames(frame, numbers, found, plan.variables, context.memory)


def _execute_right(task: Task, left: Piece, context: QueryContext) -> Frame:
    """Return the right side of a product or of a join. It is the same for all pieces of the left."""
    plan = task.plan
    assert isinstance(plan, Cross)
    if task.join is None:
        return execute_match(plan.right, task.needed, context)
    comparison = task.join.predicate
    assert isinstance(comparison, Compare)
    restrictions = restrict_join(left.frame, plan, comparison, context) if left.is_only else ()
    return execute_match(plan.right, task.needed | variables_of(comparison), context, restrictions=restrictions)


def _execute_cross(frame: Frame, task: Task, context: QueryContext) -> Frame:
    assert task.right is not None
    if task.join is None:
        return cross_frames(frame, task.right, context.memory)
    comparison = task.join.predicate
    assert isinstance(comparison, Compare)
    return join_frames(frame, task.right, comparison, context)


def _find_witnesses(frame: Frame, plan: With | Without | Mark, context: QueryContext) -> Mask:
    """Return for each row whether the inner plan finds something; it runs once for equal outer entities.

    It runs in pieces, and an outer row is left alone as soon as something is found for it.
    """
    if not frame.num_rows:
        return np.zeros(0, np.bool_)
    first, numbers = _number_outer_tuples(frame, plan.outer)
    outer = frame.take(first).select(plan.outer)
    tagged = Frame(len(first), outer.bindings, tags=np.arange(len(first)))
    has_witness = np.zeros(len(first), np.bool_)

    def drop_done(rows: Frame) -> Frame:
        return rows if rows.tags is None else rows.filter(~has_witness[rows.tags])

    spine = build_spine(plan.inner, frozenset())
    with context.memory.hold(tagged.nbytes + numbers.nbytes):
        begin, steps = _execute_rankings(spine, context, tagged)
        for piece in _make_runner(steps, context, drop_done).run(iter([Piece(begin, is_only=True)])):
            if piece.frame.tags is not None:
                has_witness[piece.frame.tags] = True
    return has_witness[numbers]


def _number_outer_tuples(frame: Frame, variables: Sequence[str]) -> tuple[Positions, Positions]:
    if not variables:
        return np.zeros(1, np.int64), np.zeros(frame.num_rows, np.int64)
    return number_tuples([frame.bindings[name].positions for name in variables])
