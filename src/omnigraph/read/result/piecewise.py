"""Group and sort matches that are too large for one frame, piece by piece.

A group keeps what its aggregates need, and not its rows. Rows are sorted as columns, because pieces may number the same
entities differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.deadlines import check_deadline
from omnigraph.errors import MemoryExceeded
from omnigraph.language.query import TypedOrderKey
from omnigraph.language.query.plan import Group, Limit, Project, Sort, TopRows
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import Frame, arrow_type_of, evaluate
from omnigraph.read.match import Piece
from omnigraph.read.memory import Holding
from omnigraph.read.result.aggregate import Groups, find_groups, finish_groups, merge_groups
from omnigraph.read.result.order import list_ties, sort_rows
from omnigraph.read.result.row_sorter import RowSorter, SortColumn
from omnigraph.storage.columns import Values, column_of

SORT_BYTES: Final = 96
"""What it takes to sort a row in memory."""
_GROUP_BYTES: Final = 64
"""What it takes to encode one column of a row, or to aggregate it."""
_BATCH_ROWS: Final = 65_536
_WEIGHT: Final = "weight"


# --------------------------------------------------------------------------------------------- groups


def group_pieces(plan: Group, pieces: Iterable[Piece], context: QueryContext) -> pa.Table:
    """Return one row for each group of a match."""
    gathered = _GatheredGroups(plan, context, Holding(context.memory), [])
    try:
        for piece in pieces:
            with context.recorder.measure(plan) as stats:
                table = gathered.try_at_once(piece.frame) if piece.is_only else None
                if table is not None:
                    stats.add_rows(table.num_rows)
                    return table
                gathered.add(piece.frame)
        with context.recorder.measure(plan) as stats:
            table = finish_groups(merge_groups(gathered.parts, plan.columns), plan.columns)
            stats.add_rows(table.num_rows)
            return table
    finally:
        gathered.held.resize(0)


@dataclass(frozen=True, slots=True)
class _GatheredGroups:
    """The groups of the rows so far, in parts that are merged when they are many."""

    plan: Group
    context: QueryContext
    held: Holding
    parts: list[Groups]

    @property
    def row_bytes(self) -> int:
        """What it takes to group one row."""
        return _GROUP_BYTES * (1 + len(self.plan.columns))

    def try_at_once(self, frame: Frame) -> pa.Table | None:
        """Return the groups of all rows; None if memory does not suffice to find them at once."""
        columns = self.plan.columns
        try:
            with self.context.memory.hold(frame.num_rows * self.row_bytes):
                return finish_groups(find_groups(frame, columns, self.context.evaluation), columns)
        except MemoryExceeded:
            return None

    def add(self, frame: Frame) -> None:
        """Add the rows of a frame."""
        size = max(1, min(frame.num_rows, self.context.memory.left // (2 * self.row_bytes)))
        for begin in range(0, max(1, frame.num_rows), size):
            check_deadline()
            part = frame.slice(begin, begin + size)
            with self.context.memory.hold(part.num_rows * self.row_bytes):
                found = find_groups(part, self.plan.columns, self.context.evaluation, is_part=True)
            # Twice, because they are merged.
            self.held.add(2 * found.nbytes)
            self.parts.append(found)
            if sum(each.count for each in self.parts[1:]) >= self.parts[0].count:
                self.parts[:] = [merge_groups(self.parts, self.plan.columns)]
                self.held.resize(2 * self.parts[0].nbytes)


# --------------------------------------------------------------------------------------------- rows in order


@dataclass(frozen=True, slots=True)
class SortedProject:
    """A projection of sorted rows: its limit, and how many rows are needed to know the first of them."""

    project: Project
    sort: Sort
    limit: Limit | TopRows | None
    most: int | None


def sort_pieces(plan: SortedProject, frames: Iterable[Frame], context: QueryContext) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a projection in order, for a match that comes in several frames."""
    schema = pa.schema([pa.field(each.name, arrow_type_of(each.expression)) for each in plan.project.columns])
    sorter = RowSorter(_list_keys(plan.sort), plan.most, context.memory)
    try:
        for frame in frames:
            with context.recorder.measure(plan.sort):
                _add_rows(sorter, frame, plan, context)
        for batch in _take_rows(_repeat(_measure_sort(sorter.finish(), plan.sort, context)), plan, context):
            arrays = [cast("Values", batch.column(place)) for place in range(len(schema))]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
    finally:
        sorter.close()


def _measure_sort(tables: Iterator[pa.Table], plan: Sort, context: QueryContext) -> Iterator[pa.Table]:
    while True:
        with context.recorder.measure(plan) as stats:
            table = next(tables, None)
            if table is None:
                return
            stats.add_rows(table.num_rows)
        yield table


def _add_rows(sorter: RowSorter, frame: Frame, plan: SortedProject, context: QueryContext) -> None:
    """Add the rows of a frame to those that are sorted, as many at a time as memory allows."""
    begin, size = 0, max(1, min(frame.num_rows, context.memory.left // (4 * SORT_BYTES)))
    while begin < frame.num_rows:
        check_deadline()
        try:
            sorter.add(_to_columns(frame.slice(begin, begin + size), plan, context))
        except MemoryExceeded:
            if not sorter.spill():
                if size == 1:
                    raise
                size = max(1, min(size, frame.num_rows - begin) // 2)
            continue
        begin += size


def _list_keys(plan: Sort) -> list[SortColumn]:
    stated = [
        SortColumn(f"key {n}", isinstance(key, TypedOrderKey) and key.descending) for n, key in enumerate(plan.keys)
    ]
    return [*stated, *(SortColumn(f"id {variable}", descending=False) for variable in plan.tie_break)]


def _to_columns(frame: Frame, plan: SortedProject, context: QueryContext) -> pa.Table:
    """Return what is shown of the first rows of a frame, the values that they are sorted by, and their weights."""
    evaluation, sort = context.evaluation, plan.sort
    with context.memory.hold(frame.num_rows * SORT_BYTES):
        if plan.most is not None:
            frame = frame.take(sort_rows(frame, sort.keys, sort.tie_break, evaluation, plan.most))
        shown = [evaluate(column.expression, frame, evaluation) for column in plan.project.columns]
        ranks = np.zeros(frame.num_rows, np.int64) if frame.ranks is None else frame.ranks
        sorted_by = [
            evaluate(key.expression, frame, evaluation)
            if isinstance(key, TypedOrderKey)
            else cast("Values", pa.array(ranks))
            for key in (*sort.keys, *list_ties(frame, sort.tie_break))
        ]
        weights = np.ones(frame.num_rows, np.int64) if frame.weights is None else frame.weights
    names = [*(f"column {n}" for n in range(len(shown))), *(key.name for key in _list_keys(sort)), _WEIGHT]
    return pa.Table.from_arrays([*shown, *sorted_by, cast("Values", pa.array(weights))], names=names)


def _repeat(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Repeat each row as often as its weight says, a bounded number of rows at a time."""
    for table in tables:
        ends = np.cumsum(column_of(table, _WEIGHT).to_numpy(zero_copy_only=False))
        total = int(ends[-1]) if len(ends) else 0
        for begin in range(0, total, _BATCH_ROWS):
            numbers = np.arange(begin, min(begin + _BATCH_ROWS, total))
            rows = table.take(np.searchsorted(ends, numbers, "right")).combine_chunks()
            yield from rows.to_batches()


def _take_rows(
    batches: Iterable[pa.RecordBatch], plan: SortedProject, context: QueryContext
) -> Iterator[pa.RecordBatch]:
    """Yield the rows between the offset and the limit."""
    limit, seen = plan.limit, 0
    # The best of an offset are known only with those before them.
    skipped = 0 if not isinstance(limit, Limit) or limit.skip is None else context.resolve_count(limit.skip)
    if plan.most is not None and plan.most == skipped:
        return
    for batch in batches:
        end = batch.num_rows if plan.most is None else min(batch.num_rows, plan.most - seen)
        begin = min(max(0, skipped - seen), end)
        with context.recorder.measure(plan.project if limit is None else limit) as stats:
            stats.add_rows(end - begin)
        if end > begin:
            yield batch.slice(begin, end - begin)
        seen += batch.num_rows
        if plan.most is not None and seen >= plan.most:
            return
