"""The result part of a plan: from the rows of a match to named columns, in order and as many as asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.language.query import ResultColumn
from omnigraph.language.query.plan import Group, Limit, Project, ReadPlan, Sort
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import Frame, arrow_type_of, evaluate
from omnigraph.read.match import execute_match, needed_variables, stream_match
from omnigraph.read.result.aggregate import group_rows
from omnigraph.read.result.order import sort_groups, sort_rows

_BATCH: Final = 65_536


def output_schema(plan: ReadPlan) -> pa.Schema:
    """The columns of a result and their types, whether it has rows or not."""
    return pa.schema([pa.field(column.name, arrow_type_of(column.expression)) for column in _columns(plan)])


def execute_read(plan: ReadPlan, reading: QueryContext) -> Iterator[pa.RecordBatch]:
    """The rows of a result, a bounded number of them at a time."""
    if isinstance(plan, Project):
        schema = output_schema(plan)
        for frame in _stream_frames(plan, reading):
            for begin in range(0, frame.num_rows, _BATCH):
                piece = frame.take(np.arange(begin, min(begin + _BATCH, frame.num_rows)))
                yield _project(plan, piece, schema, reading)
    else:
        yield from _execute_groups(plan, reading).to_batches(max_chunksize=_BATCH)


def _columns(plan: ReadPlan) -> tuple[ResultColumn, ...]:
    while not isinstance(plan, Project | Group):
        assert isinstance(plan.input, Group | Sort)
        plan = plan.input
    return plan.columns


# --------------------------------------------------------------------------------------------- one row per match


def _stream_frames(plan: Project, reading: QueryContext) -> Iterator[Frame]:
    needed = needed_variables(plan)
    below, limit = plan.input, None
    if isinstance(below, Limit):
        assert not isinstance(below.input, Group)
        below, limit = below.input, reading.resolve_count(below.count)
    if isinstance(below, Sort):
        assert not isinstance(below.input, Group)
        frame = execute_match(below.input, needed, reading)
        with reading.recorder.measure(below) as note:
            # Equal rows stay together, so they can be made after they are sorted.
            order = sort_rows(frame, below.keys, below.tie_break, reading.evaluation, limit)
            frame = note.add_frame(frame.take(order))
        yield from _take_first([frame], limit)
        return
    yield from _take_first(stream_match(below, needed, reading), limit)


def _take_first(frames: Iterable[Frame], limit: int | None) -> Iterator[Frame]:
    """The rows of frames until there are enough; what comes after is never computed."""
    left = limit
    for frame in frames if left != 0 else ():
        for rows in _repeat_rows(frame):
            if left is None:
                yield rows
                continue
            yield rows.take(np.arange(min(left, rows.num_rows)))
            left -= rows.num_rows
            if left <= 0:
                return


def _repeat_rows(frame: Frame) -> Iterator[Frame]:
    """Every row as often as it stands for, a bounded number of them at a time."""
    if frame.weights is None:
        yield frame
        return
    ends = np.cumsum(frame.weights)
    for begin in range(0, frame.total_rows, _BATCH):
        numbers = np.arange(begin, min(begin + _BATCH, frame.total_rows))
        yield replace(frame.take(np.searchsorted(ends, numbers, "right")), weights=None)


def _project(plan: Project, frame: Frame, schema: pa.Schema, reading: QueryContext) -> pa.RecordBatch:
    with reading.recorder.measure(plan) as note:
        note.add_frame(frame)
        arrays = [evaluate(column.expression, frame, reading.evaluation) for column in plan.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


# --------------------------------------------------------------------------------------------- one row per group


def _execute_groups(plan: Group | Sort | Limit, reading: QueryContext) -> pa.Table:
    limit = None
    if isinstance(plan, Limit):
        assert isinstance(plan.input, Group | Sort)
        limit, plan = reading.resolve_count(plan.count), plan.input
    sort = plan if isinstance(plan, Sort) else None
    group = plan.input if isinstance(plan, Sort) else plan
    assert isinstance(group, Group)
    frame = execute_match(group.input, needed_variables(group), reading)
    with reading.recorder.measure(group) as note:
        table = group_rows(frame, group.columns, reading.evaluation)
        note.rows = note.frame_rows = table.num_rows
    if sort is not None:
        with reading.recorder.measure(sort) as note:
            table = table.take(sort_groups(table, sort.keys, limit))
            note.rows = note.frame_rows = table.num_rows
    return table if limit is None else table.slice(0, limit)
