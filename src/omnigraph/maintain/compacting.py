"""Compacting one table: larger fragments in place of small ones, piece by piece, wherever a runner runs the pieces."""

from __future__ import annotations

from functools import partial
from typing import Final

from lance.optimize import CompactionTask

from omnigraph.storage import table as tables
from omnigraph.storage.pinned import Table
from omnigraph.storage.staging import Staged
from omnigraph.write.executor import Executor

_MANY_FRAGMENTS: Final = 8
_WORTH: Final = 10


def stage_compaction(table: Table, runner: Executor, target_rows: int | None = None) -> Staged | None:
    """Stage the compaction of a table; the rows stay the same. None when there is nothing to gain."""
    pieces = plan_worthwhile_tasks(table, target_rows)
    return tables.compacted(table, runner.run(partial(tables.run_compaction, table), pieces))


def plan_worthwhile_tasks(table: Table, target_rows: int | None = None) -> tuple[CompactionTask, ...]:
    """The pieces of a compaction that are worth the rows that they write again."""
    return tuple(task for task in tables.plan_compaction(table, target_rows) if _pays(task))


def _pays(task: CompactionTask) -> bool:
    """Whether enough comes together: a large fragment is not written again for the sake of a few rows."""
    fragments = sorted(task.fragments, key=lambda fragment: fragment.physical_rows)
    if len(fragments) == 1 or len(fragments) >= _MANY_FRAGMENTS:
        return True
    *small, largest = fragments
    added = sum(fragment.num_rows for fragment in small) + largest.num_deletions
    return added * _WORTH >= largest.num_rows
