"""The result part of a plan: group, sort and limit the rows of a match, and evaluate the named columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.language.query import ResultColumn
from omnigraph.language.query.plan import Group, Keep, Limit, Project, ReadPlan, Sort
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import Frame, arrow_type_of, evaluate, evaluate_predicate, frame_of_columns
from omnigraph.read.match import Variables, execute_match, needed_variables, stream_match
from omnigraph.read.result.aggregate import group_rows
from omnigraph.read.result.order import sort_groups, sort_rows

_BATCH_ROWS: Final = 65_536


def output_schema(plan: ReadPlan) -> pa.Schema:
    """The names and the Arrow types of the columns of a result."""
    return pa.schema([pa.field(column.name, arrow_type_of(column.expression)) for column in result_columns_of(plan)])


def execute_read(plan: ReadPlan, context: QueryContext) -> Iterator[pa.RecordBatch]:
    """Execute a plan, and yield the rows of its result in batches."""
    if isinstance(plan, Project):
        schema = output_schema(plan)
        for frame in _stream_frames(plan, context):
            for begin in range(0, frame.num_rows, _BATCH_ROWS):
                batch = frame.take(np.arange(begin, min(begin + _BATCH_ROWS, frame.num_rows)))
                yield _project(plan, batch, schema, context)
    else:
        yield from _execute_groups(plan, context).to_batches(max_chunksize=_BATCH_ROWS)


def result_columns_of(plan: ReadPlan) -> tuple[ResultColumn, ...]:
    """The columns of a result."""
    while not isinstance(plan, Project | Group):
        assert isinstance(plan.input, Group | Keep | Sort)
        plan = plan.input
    return plan.columns


# --------------------------------------------------------------------------------------------- one row per match


def _stream_frames(plan: Project, context: QueryContext) -> Iterator[Frame]:
    """Yield the rows that a projection shows, sorted and limited."""
    needed = needed_variables(plan)
    limit = plan.input if isinstance(plan.input, Limit) else None
    below = plan.input if limit is None else limit.input
    assert not isinstance(below, Limit | Group | Keep)
    if isinstance(below, Sort):
        frames: Iterable[Frame] = [_sort_match(below, needed, limit, context)]
    else:
        frames = stream_match(below, needed, context)
    yield from _repeat_rows(frames) if limit is None else _take_first(frames, limit, context)


def _sort_match(plan: Sort, needed: Variables, limit: Limit | None, context: QueryContext) -> Frame:
    assert not isinstance(plan.input, Group | Keep)
    frame = execute_match(plan.input, needed, context)
    most = None if limit is None else context.resolve_total(limit.count, limit.skip)
    with context.recorder.measure(plan) as stats:
        # Equal rows stay together, so weighted rows are repeated after they are sorted.
        order = sort_rows(frame, plan.keys, plan.tie_break, context.evaluation, most)
        return stats.add_frame(frame.take(order))


def _take_first(frames: Iterable[Frame], limit: Limit, context: QueryContext) -> Iterator[Frame]:
    """Yield rows until the limit is reached; the rest of the match is not computed."""
    skipped = 0 if limit.skip is None else context.resolve_count(limit.skip)
    end = context.resolve_total(limit.count, limit.skip)
    with context.recorder.measure(limit) as stats:
        pass
    seen = 0
    for rows in _repeat_rows(frames) if end != skipped else ():
        with context.recorder.measure(limit):
            last = rows.num_rows if end is None else min(end - seen, rows.num_rows)
            shown = stats.add_frame(rows.take(np.arange(min(max(0, skipped - seen), last), last)))
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


# --------------------------------------------------------------------------------------------- one row per group


def _execute_groups(plan: Group | Keep | Sort | Limit, context: QueryContext) -> pa.Table:
    limit = plan if isinstance(plan, Limit) else None
    below = plan if limit is None else limit.input
    sort = below if isinstance(below, Sort) else None
    below = below if sort is None else sort.input
    keep = below if isinstance(below, Keep) else None
    group = below if keep is None else keep.input
    assert isinstance(group, Group)
    frame = execute_match(group.input, needed_variables(group), context)
    with context.recorder.measure(group) as stats:
        table = group_rows(frame, group.columns, context.evaluation)
        stats.add_rows(table.num_rows)
    if keep is not None:
        with context.recorder.measure(keep) as stats:
            rows = frame_of_columns(table)
            table = table.filter(pa.array(evaluate_predicate(keep.predicate, rows, context.evaluation)))
            stats.add_rows(table.num_rows)
    if sort is not None:
        with context.recorder.measure(sort) as stats:
            most = None if limit is None else context.resolve_total(limit.count, limit.skip)
            table = table.take(sort_groups(table, sort.keys, most))
            stats.add_rows(table.num_rows)
    return table if limit is None else _slice_groups(table, limit, context)


def _slice_groups(table: pa.Table, limit: Limit, context: QueryContext) -> pa.Table:
    skipped = 0 if limit.skip is None else context.resolve_count(limit.skip)
    with context.recorder.measure(limit) as stats:
        kept = table.slice(skipped, None if limit.count is None else context.resolve_count(limit.count))
        stats.add_rows(kept.num_rows)
    return kept
