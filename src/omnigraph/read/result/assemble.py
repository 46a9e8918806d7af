"""The result part of a plan: from the rows of a match to named columns, in order and as many as asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.language.query import Column
from omnigraph.language.query.plan import Group, Limit, Project, ReadPlan, Sort
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import Frame, evaluate, shown_type
from omnigraph.read.match import matched, matched_in_pieces, needed_by
from omnigraph.read.result.aggregate import grouped
from omnigraph.read.result.order import sorted_groups, sorted_rows

_BATCH: Final = 65_536


def answer_schema(plan: ReadPlan) -> pa.Schema:
    """The columns of a result and their types, whether it has rows or not."""
    return pa.schema([pa.field(column.name, shown_type(column.expression)) for column in _columns(plan)])


def answered(plan: ReadPlan, reading: QueryContext) -> Iterator[pa.RecordBatch]:
    """The rows of a result, a bounded number of them at a time."""
    if isinstance(plan, Project):
        schema = answer_schema(plan)
        for frame in _frames(plan, reading):
            for begin in range(0, frame.num_rows, _BATCH):
                piece = frame.take(np.arange(begin, min(begin + _BATCH, frame.num_rows)))
                yield _projected(plan, piece, schema, reading)
    else:
        yield from _groups(plan, reading).to_batches(max_chunksize=_BATCH)


def _columns(plan: ReadPlan) -> tuple[Column, ...]:
    while not isinstance(plan, Project | Group):
        assert isinstance(plan.input, Group | Sort)
        plan = plan.input
    return plan.columns


# --------------------------------------------------------------------------------------------- one row per match


def _frames(plan: Project, reading: QueryContext) -> Iterator[Frame]:
    needed = needed_by(plan)
    below, limit = plan.input, None
    if isinstance(below, Limit):
        assert not isinstance(below.input, Group)
        below, limit = below.input, reading.number(below.count)
    if isinstance(below, Sort):
        assert not isinstance(below.input, Group)
        frame = matched(below.input, needed, reading)
        with reading.recorder.measuring(below) as note:
            # Equal rows stay together, so they can be made after they are sorted.
            order = sorted_rows(frame, below.keys, below.tie_break, reading.request, limit)
            frame = note.counted(frame.take(order))
        yield from _first([frame], limit)
        return
    yield from _first(matched_in_pieces(below, needed, reading), limit)


def _first(frames: Iterable[Frame], limit: int | None) -> Iterator[Frame]:
    """The rows of frames until there are enough; what comes after is never computed."""
    left = limit
    for frame in frames if left != 0 else ():
        for rows in _repeated(frame):
            if left is None:
                yield rows
                continue
            yield rows.take(np.arange(min(left, rows.num_rows)))
            left -= rows.num_rows
            if left <= 0:
                return


def _repeated(frame: Frame) -> Iterator[Frame]:
    """Every row as often as it stands for, a bounded number of them at a time."""
    if frame.weights is None:
        yield frame
        return
    ends = np.cumsum(frame.weights)
    for begin in range(0, frame.total, _BATCH):
        numbers = np.arange(begin, min(begin + _BATCH, frame.total))
        yield replace(frame.take(np.searchsorted(ends, numbers, "right")), weights=None)


def _projected(plan: Project, frame: Frame, schema: pa.Schema, reading: QueryContext) -> pa.RecordBatch:
    with reading.recorder.measuring(plan) as note:
        note.counted(frame)
        arrays = [evaluate(column.expression, frame, reading.request) for column in plan.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


# --------------------------------------------------------------------------------------------- one row per group


def _groups(plan: Group | Sort | Limit, reading: QueryContext) -> pa.Table:
    limit = None
    if isinstance(plan, Limit):
        assert isinstance(plan.input, Group | Sort)
        limit, plan = reading.number(plan.count), plan.input
    sort = plan if isinstance(plan, Sort) else None
    group = plan.input if isinstance(plan, Sort) else plan
    assert isinstance(group, Group)
    frame = matched(group.input, needed_by(group), reading)
    with reading.recorder.measuring(group) as note:
        table = grouped(frame, group.columns, reading.request)
        note.rows = note.kept = table.num_rows
    if sort is not None:
        with reading.recorder.measuring(sort) as note:
            table = table.take(sorted_groups(table, sort.keys, limit))
            note.rows = note.kept = table.num_rows
    return table if limit is None else table.slice(0, limit)
