"""Sort rows that come in pieces. With a limit only the first are kept; else sorted runs are spilled and merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from omnigraph.deadlines import check_deadline
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.memory import Holding, QueryMemory
from omnigraph.read.result.order import sort_columns
from omnigraph.read.result.spilled_rows import SpilledRows, merge_sorted

_MOST_RUNS: Final = 32
"""So many runs are merged at a time."""
_BATCH_ROWS: Final = 8_192
_LEAST_ROWS: Final = 65_536
"""So many rows are gathered before those beyond the limit are dropped."""


@dataclass(frozen=True, slots=True)
class SortColumn:
    """A column that rows are sorted by."""

    name: str
    descending: bool


class RowSorter:
    """Takes tables with the same columns, and gives their rows in order."""

    def __init__(self, keys: Sequence[SortColumn], limit: int | None, memory: QueryMemory) -> None:
        self._keys = keys
        self._limit = limit
        self._pending: list[pa.Table] = []
        self._held = Holding(memory)
        self._runs: list[SpilledRows] = []

    def add(self, rows: pa.Table) -> None:
        """Add rows, in any order. Raises ``MemoryExceeded``, and keeps nothing of them, if they are too many."""
        # Twice, because they are put together.
        self._held.add(2 * rows.nbytes)
        self._pending.append(rows)
        if self._limit is not None and self._count_pending() > max(2 * self._limit, _LEAST_ROWS):
            self._pending = [self._sort(pa.concat_tables(self._pending), self._limit)]
            self._held.resize(2 * self._pending[0].nbytes)

    def finish(self) -> Iterator[pa.Table]:
        """Yield all rows in order, or at least the first."""
        if not self._runs:
            if self._pending:
                yield self._sort(pa.concat_tables(self._pending), self._limit)
            return
        self.spill()
        while len(self._runs) > _MOST_RUNS:
            merged, self._runs = self._runs[:_MOST_RUNS], self._runs[_MOST_RUNS:]
            self._write_run(merge_sorted(merged, self._sort, self._held))
            for run in merged:
                run.close()
        yield from merge_sorted(self._runs, self._sort, self._held)

    def close(self) -> None:
        """Free the memory and the files."""
        self._pending.clear()
        self._held.resize(0)
        for run in self._runs:
            run.close()

    def _count_pending(self) -> int:
        return sum(rows.num_rows for rows in self._pending)

    def spill(self) -> bool:
        """Write the rows so far to a file. False if there are none."""
        is_needed = bool(self._pending)
        if is_needed:
            self._write_run([self._sort(pa.concat_tables(self._pending), self._limit)])
            self._pending = []
            self._held.resize(0)
        return is_needed

    def write_run(self, rows: pa.Table) -> None:
        """Sort rows, and write them to a file at once: they need no memory any more."""
        self._write_run([self._sort(rows)])

    def _write_run(self, tables: Iterable[pa.Table]) -> None:
        run: SpilledRows | None = None
        for rows in tables:
            check_deadline()
            if run is None:
                row_bytes = max(1, rows.nbytes // max(1, rows.num_rows))
                # The batches of all runs that are merged fit into half of the memory.
                most = self._held.memory.budget // (8 * _MOST_RUNS * row_bytes)
                run = SpilledRows(rows.schema, max(1, min(_BATCH_ROWS, most)))
                self._runs.append(run)
            run.write(rows)

    def _sort(self, rows: pa.Table, limit: int | None = None) -> pa.Table:
        order = sort_columns(rows.combine_chunks(), [(key.name, key.descending) for key in self._keys], limit)
        return rows.take(order)
