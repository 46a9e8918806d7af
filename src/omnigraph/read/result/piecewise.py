"""Group and sort matches that are too large for one frame, piece by piece.

A group keeps what its aggregates need, and not its rows. Rows are sorted as columns, because pieces may number the same
entities differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.deadlines import check_deadline
from omnigraph.errors import MemoryExceeded
from omnigraph.language.query import Aggregate, ColumnValue, TypedOrderKey
from omnigraph.language.query.plan import Group, Limit, Project, Sort, TopRows
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import Frame, arrow_type_of, evaluate
from omnigraph.read.match import Piece
from omnigraph.read.memory import Holding
from omnigraph.read.result.aggregate import Groups, find_groups, finish_groups, merge_groups
from omnigraph.read.result.order import list_ties, sort_rows
from omnigraph.read.result.row_sorter import RowSorter, SortColumn
from omnigraph.read.result.spilled_groups import SpilledGroups
from omnigraph.storage.columns import Values, column_of

SORT_BYTES: Final = 96
"""What it takes to sort a row in memory."""
_GROUP_BYTES: Final = 64
"""What it takes to encode one column of a row, or to aggregate it."""
_LEAST_ROWS: Final = 128
"""Groups are spilled before the rows that are grouped at a time become fewer."""
_BATCH_ROWS: Final = 65_536
_WEIGHT: Final = "weight"


# --------------------------------------------------------------------------------------------- groups


def group_pieces(plan: Group, pieces: Iterable[Piece], context: QueryContext) -> Iterator[pa.Table]:
    """Yield one row for each group of a match: in one table, or in several if memory does not hold all groups."""
    gathered = _GatheredGroups(plan, context, Holding(context.memory))
    try:
        for piece in pieces:
            with context.recorder.measure(plan) as stats:
                table = gathered.try_at_once(piece.frame) if piece.is_only else None
                if table is not None:
                    stats.add_rows(table.num_rows)
                else:
                    gathered.add(piece.frame)
            if table is not None:
                yield table
                return
        yield from _finish_groups(gathered.read(), plan, context)
    finally:
        gathered.close()


def _finish_groups(found: Iterator[Groups], plan: Group, context: QueryContext) -> Iterator[pa.Table]:
    while True:
        with context.recorder.measure(plan) as stats:
            groups = next(found, None)
            if groups is None:
                return
            table = finish_groups(groups, plan.columns)
            stats.add_rows(table.num_rows)
        yield table


@dataclass(slots=True)
class _GatheredGroups:
    """The groups of the rows so far, in parts that are merged when they are many, or spilled to files."""

    plan: Group
    context: QueryContext
    held: Holding
    parts: list[Groups] = field(default_factory=list[Groups])
    spilled: SpilledGroups | None = None

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
        memory, begin = self.context.memory, 0
        while begin < max(1, frame.num_rows):
            check_deadline()
            size = max(1, min(frame.num_rows, memory.left // (2 * self.row_bytes)))
            part = frame.slice(begin, begin + size)
            if size < min(_LEAST_ROWS, frame.num_rows - begin) and self._spill():
                continue
            try:
                self._add_part(part)
            except MemoryExceeded:
                if not self._spill():
                    raise
                continue
            begin += size

    def _add_part(self, part: Frame) -> None:
        with self.context.memory.hold(part.num_rows * self.row_bytes):
            found = find_groups(part, self.plan.columns, self.context.evaluation, is_part=True)
        # Twice, because they are merged.
        self.held.add(2 * found.nbytes)
        self.parts.append(found)
        if sum(each.count for each in self.parts[1:]) >= self.parts[0].count:
            self.parts[:] = [merge_groups(self.parts, self.plan.columns)]
            self.held.resize(2 * self.parts[0].nbytes)

    def _spill(self) -> bool:
        """Write the groups so far to a file. False if there are none, or if all rows are one group."""
        keys = [column for column in self.plan.columns if not isinstance(column.expression, Aggregate)]
        if not self.parts or not keys:
            return False
        if self.spilled is None:
            self.spilled = SpilledGroups(self.plan.columns, len(keys), self.context.memory)
        self.spilled.write(self.parts)
        self.parts.clear()
        self.held.resize(0)
        return True

    def read(self) -> Iterator[Groups]:
        """Yield the groups of all rows."""
        if self.spilled is None:
            yield merge_groups(self.parts, self.plan.columns)
            return
        self._spill()
        yield from self.spilled.read()

    def close(self) -> None:
        """Free the memory and the files."""
        self.held.resize(0)
        if self.spilled is not None:
            self.spilled.close()


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


# --------------------------------------------------------------------------------------------- groups in order


def sort_tables(plan: Sort, tables: Iterable[pa.Table], most: int | None, context: QueryContext) -> Iterator[pa.Table]:
    """Yield the rows of tables that are too large for one in order, or the first of them. All columns break ties."""
    sorter: RowSorter | None = None
    try:
        for table in tables:
            with context.recorder.measure(plan):
                if sorter is None:
                    sorter = RowSorter(_list_group_keys(plan, table.column_names), most, context.memory)
                _add_table(sorter, table, context)
        seen = 0
        for ordered in _measure_sort(sorter.finish(), plan, context) if sorter is not None else ():
            kept = ordered if most is None else ordered.slice(0, most - seen)
            seen += kept.num_rows
            yield kept
            if most is not None and seen >= most:
                return
    finally:
        if sorter is not None:
            sorter.close()


def _add_table(sorter: RowSorter, table: pa.Table, context: QueryContext) -> None:
    for begin in range(0, table.num_rows, _BATCH_ROWS):
        rows = table.slice(begin, _BATCH_ROWS)
        try:
            sorter.add(rows)
        except MemoryExceeded:
            sorter.spill()
            sorter.write_run(rows)
        # What is below needs memory too, for the groups of the next table.
        if 2 * context.memory.left < context.memory.budget:
            sorter.spill()


def _list_group_keys(plan: Sort, names: Sequence[str]) -> list[SortColumn]:
    stated = [(key.expression, key.descending) for key in plan.keys if isinstance(key, TypedOrderKey)]
    keys = [SortColumn(each.name, down) for each, down in stated if isinstance(each, ColumnValue)]
    return [*keys, *(SortColumn(name, descending=False) for name in names)]
