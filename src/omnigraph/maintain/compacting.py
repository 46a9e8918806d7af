"""Compacting one table: larger fragments in place of small ones, piece by piece, wherever a runner runs the pieces."""

from __future__ import annotations

from functools import partial

from omnigraph.storage import table as tables
from omnigraph.storage.pinned import Table
from omnigraph.storage.staging import Staged
from omnigraph.write.running import Runner


def compacted(table: Table, runner: Runner, target_rows: int | None = None) -> Staged | None:
    """Stage the compaction of a table; the rows stay the same. None when there is nothing to gain."""
    pieces = tables.plan_compaction(table, target_rows)
    return tables.compacted(table, runner.run(partial(tables.run_compaction, table), pieces))
