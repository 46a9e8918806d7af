"""The result part of a plan: group, sort and limit the rows of a match, and evaluate the named columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.derived_values import keep_derived
from omnigraph.errors import MemoryExceeded
from omnigraph.language.query import ResultColumn
from omnigraph.language.query.plan import Count, Group, Keep, Limit, Project, ReadPlan, Sort, TopRows, Union
from omnigraph.late_imports import LateModule
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import Frame, arrow_type_of, convert_number, evaluate, evaluate_predicate, frame_of_columns
from omnigraph.read.match import Piece, needed_variables, run_match, stream_match
from omnigraph.read.result.order import sort_groups, sort_rows
from omnigraph.storage.columns import Values

if TYPE_CHECKING:
    from omnigraph.read.result import piecewise
else:
    # Most queries neither sort nor group.
    piecewise = LateModule("omnigraph.read.result.piecewise")

_BATCH_ROWS: Final = 65_536


@keep_derived(256)
def output_schema(plan: ReadPlan) -> pa.Schema:
    """The names and the Arrow types of the columns of a result."""
    return pa.schema([pa.field(column.name, arrow_type_of(column.expression)) for column in result_columns_of(plan)])


def execute_read(plan: ReadPlan, context: QueryContext) -> Iterator[pa.RecordBatch]:
    """Execute a plan, and yield the rows of its result in batches."""
    match plan:
        case Project() if _reads_columns(plan):
            assert isinstance(plan.input, ReadPlan)
            yield from _select_columns(plan, execute_read(plan.input, context), context)
        case Project():
            yield from _project_match(plan, context)
        case Union():
            yield from _stream_union(plan, context)
        case Limit() if isinstance(plan.input, Union):
            yield from _take_first_rows(plan, execute_read(plan.input, context), context)
        case _:
            for table in _stream_tables(plan, context):
                yield from table.to_batches(max_chunksize=_BATCH_ROWS)


def result_columns_of(plan: ReadPlan) -> tuple[ResultColumn, ...]:
    """The columns of a result."""
    while not isinstance(plan, Project | Group | Union):
        assert isinstance(plan.input, ReadPlan)
        plan = plan.input
    if isinstance(plan, Union):
        return tuple(ResultColumn(column.name, column) for column in plan.columns)
    return plan.columns


def _reads_columns(plan: Project) -> bool:
    """Whether a projection selects columns of a union, and does not show the rows of a match."""
    below = plan.input
    while isinstance(below, Limit | Sort | TopRows):
        below = below.input
    return isinstance(below, Union)


# --------------------------------------------------------------------------------------------- one row per match


def _project_match(plan: Project, context: QueryContext) -> Iterator[pa.RecordBatch]:
    """Yield the rows that a projection shows, sorted and limited."""
    needed = needed_variables(plan)
    limit = plan.input if isinstance(plan.input, Limit | TopRows) else None
    below = plan.input if limit is None else limit.input
    assert not isinstance(below, ReadPlan) or isinstance(below, Sort)
    if not isinstance(below, Sort):
        yield from _project_frames(plan, stream_match(below, needed, context), limit, context)
        return
    assert not isinstance(below.input, Group | Keep | Union)
    most = None if limit is None else context.resolve_total(_count_of(limit), limit.skip)
    pieces = run_match(below.input, needed, context)
    first = next(pieces)
    ordered = _sort_frame(below, first.frame, most, context) if first.is_only else None
    if ordered is not None:
        yield from _project_frames(plan, [ordered], limit, context)
    else:
        frames = chain([first.frame], (piece.frame for piece in pieces))
        del first
        yield from piecewise.sort_pieces(piecewise.SortedProject(plan, below, limit, most), frames, context)


def _project_frames(
    plan: Project, frames: Iterable[Frame], limit: Limit | TopRows | None, context: QueryContext
) -> Iterator[pa.RecordBatch]:
    schema = output_schema(plan)
    for frame in _repeat_rows(frames) if limit is None else _take_first(frames, limit, context):
        for begin in range(0, frame.num_rows, _BATCH_ROWS):
            yield _project(plan, frame.slice(begin, begin + _BATCH_ROWS), schema, context)


def _count_of(limit: Limit | TopRows) -> Count | None:
    return limit.count if isinstance(limit, Limit) else limit.limit


def _sort_frame(plan: Sort, frame: Frame, most: int | None, context: QueryContext) -> Frame | None:
    """Return the rows of a frame in order, or the first of them; None if memory does not suffice to sort them."""
    with context.recorder.measure(plan) as stats:
        try:
            # Equal rows stay together, so weighted rows are repeated after they are sorted.
            with context.memory.hold(frame.num_rows * piecewise.SORT_BYTES):
                order = sort_rows(frame, plan.keys, plan.tie_break, context.evaluation, most)
                return stats.add_frame(frame.take(order))
        except MemoryExceeded:
            return None


def _take_first(frames: Iterable[Frame], limit: Limit | TopRows, context: QueryContext) -> Iterator[Frame]:
    """Yield rows until the limit is reached; the rest of the match is not computed."""
    skip = limit.skip if isinstance(limit, Limit) else None
    skipped = 0 if skip is None else context.resolve_count(skip)
    end = context.resolve_total(_count_of(limit), limit.skip)
    with context.recorder.measure(limit) as stats:
        pass
    seen = 0
    for rows in _repeat_rows(frames) if end != skipped else ():
        with context.recorder.measure(limit):
            last = rows.num_rows if end is None else min(end - seen, rows.num_rows)
            shown = stats.add_frame(rows.slice(min(max(0, skipped - seen), last), last))
        yield shown
        seen += rows.num_rows
        if end is not None and seen >= end:
            return


def _repeat_rows(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Repeat each row as often as its weight says, a bounded number of rows at a time."""
    for frame in frames:
        if frame.weights is None:
            yield frame
            continue
        ends = np.cumsum(frame.weights)
        for begin in range(0, frame.total_rows, _BATCH_ROWS):
            numbers = np.arange(begin, min(begin + _BATCH_ROWS, frame.total_rows))
            yield replace(frame.take(np.searchsorted(ends, numbers, "right")), weights=None)


def _project(plan: Project, frame: Frame, schema: pa.Schema, context: QueryContext) -> pa.RecordBatch:
    with context.recorder.measure(plan) as stats:
        stats.add_frame(frame)
        arrays = [evaluate(column.expression, frame, context.evaluation) for column in plan.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


# --------------------------------------------------------------------------------------------- columns


def _stream_tables(
    plan: Group | Keep | Sort | Limit | TopRows | Union, context: QueryContext, most: int | None = None
) -> Iterator[pa.Table]:
    """Execute operators that read columns: on one table, or on several if groups are larger than the memory.

    Of sorted rows only the first ``most`` are needed.
    """
    match plan:
        case Union():
            yield pa.Table.from_batches(_stream_union(plan, context), output_schema(plan))
        case Group():
            yield from _group(plan, context)
        case Keep():
            for table in _stream_tables(plan.input, context):
                yield _keep_rows(plan, table, context)
        case Sort():
            assert isinstance(plan.input, Group | Keep | Union)
            yield from _sort_tables(plan, _stream_tables(plan.input, context), most, context)
        case Limit():
            assert isinstance(plan.input, Group | Keep | Sort | Union)
            total = context.resolve_total(plan.count, plan.skip)
            yield from _slice_tables(plan, _stream_tables(plan.input, context, total), context)
        case TopRows():
            total = context.resolve_total(plan.limit, plan.skip)
            for table in _stream_tables(plan.input, context, total):
                with context.recorder.measure(plan) as stats:
                    stats.add_rows(table.num_rows)
                yield table


def _group(plan: Group, context: QueryContext) -> Iterator[pa.Table]:
    if isinstance(plan.input, Union):
        # The whole table is there already.
        (table,) = _stream_tables(plan.input, context)
        pieces = iter([Piece(frame_of_columns(table.combine_chunks()), is_only=True)])
    else:
        pieces = run_match(plan.input, needed_variables(plan), context)
    return piecewise.group_pieces(plan, pieces, context)


def _keep_rows(plan: Keep, table: pa.Table, context: QueryContext) -> pa.Table:
    with context.recorder.measure(plan) as stats:
        rows = frame_of_columns(table)
        kept = table.filter(pa.array(evaluate_predicate(plan.predicate, rows, context.evaluation)))
        stats.add_rows(kept.num_rows)
    return kept


def _sort_tables(plan: Sort, tables: Iterator[pa.Table], most: int | None, context: QueryContext) -> Iterator[pa.Table]:
    first = next(tables)
    second = next(tables, None)
    if second is not None:
        yield from piecewise.sort_tables(plan, chain([first, second], tables), most, context)
        return
    with context.recorder.measure(plan) as stats:
        ordered = first.take(sort_groups(first.combine_chunks(), plan.keys, most))
        stats.add_rows(ordered.num_rows)
    yield ordered


def _slice_tables(plan: Limit, tables: Iterator[pa.Table], context: QueryContext) -> Iterator[pa.Table]:
    begin = 0 if plan.skip is None else context.resolve_count(plan.skip)
    left = None if plan.count is None else context.resolve_count(plan.count)
    for table in tables:
        with context.recorder.measure(plan) as stats:
            kept = table.slice(min(begin, table.num_rows), left)
            stats.add_rows(kept.num_rows)
        yield kept
        begin = max(0, begin - table.num_rows)
        left = None if left is None else left - kept.num_rows
        if left == 0:
            return


# --------------------------------------------------------------------------------------------- united rows


def _stream_union(plan: Union, context: QueryContext) -> Iterator[pa.RecordBatch]:
    """Yield the rows of each branch, one branch after the other. A branch runs when its first row is needed."""
    schema = output_schema(plan)
    for branch in plan.branches:
        for batch in execute_read(branch, context):
            with context.recorder.measure(plan) as stats:
                stats.add_rows(batch.num_rows)
                arrays = [
                    convert_number(cast("Values", batch.column(place)), arrow_type_of(column))
                    for place, column in enumerate(plan.columns)
                ]
                united = pa.RecordBatch.from_arrays(arrays, schema=schema)
            yield united


def _select_columns(
    plan: Project, batches: Iterable[pa.RecordBatch], context: QueryContext
) -> Iterator[pa.RecordBatch]:
    names = [column.name for column in plan.columns]
    for batch in batches:
        with context.recorder.measure(plan) as stats:
            stats.add_rows(batch.num_rows)
            selected = batch.select(names)
        yield selected


def _take_first_rows(plan: Limit, batches: Iterable[pa.RecordBatch], context: QueryContext) -> Iterator[pa.RecordBatch]:
    """Yield the first rows; what is beyond the limit is not computed."""
    assert plan.skip is None, "an offset needs an order"
    left = None if plan.count is None else context.resolve_count(plan.count)
    with context.recorder.measure(plan) as stats:
        pass
    if left == 0:
        return
    for batch in batches:
        shown = batch if left is None else batch.slice(0, left)
        stats.add_rows(shown.num_rows)
        yield shown
        left = None if left is None else left - shown.num_rows
        if left == 0:
            return
