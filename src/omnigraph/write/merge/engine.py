"""Who brings the sides of a merge together: this process, or others that it leads.

Whoever does decides by the same functions, so the same comes of it: what each table gets, and what is at odds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

from omnigraph.errors import Conflict
from omnigraph.read.changes import changed_stretches
from omnigraph.write.commit import Change
from omnigraph.write.merge.choices import Choices
from omnigraph.write.merge.deltas import Counts, Delta, Merger, delta_of
from omnigraph.write.merge.locations import Seen
from omnigraph.write.merge.rules import Sides, apply_rules
from omnigraph.write.merge.sides import Base, stretches_of, tables_to_merge
from omnigraph.write.merge.three_way import By
from omnigraph.write.rules import type_of

MANY_ROWS: Final = 100_000
"""Staging more rows than this takes so long that a fork is published before."""


def takes_long(rows: int) -> bool:
    """Whether staging so many rows does."""
    return rows > MANY_ROWS


@dataclass(frozen=True, slots=True)
class TableMergePlan:
    """What one table gets. ``decided``: it is not simply what theirs changed."""

    counts: Counts
    decided: bool
    change: Change


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What came of the three sides: the tables that change, what is open, and the tables that were read."""

    tables: Mapping[str, TableMergePlan]
    open: tuple[Conflict, ...]
    reads: frozenset[str]


class MergeEngine(Protocol):
    """Who does the work on all rows of a merge."""

    def bring(self, sides: Sides, base: Base, by: By, choices: Choices) -> MergePlan:
        """Bring the sides together, and hold what comes of it against the rules."""
        ...


class _Here:
    """Everything is done in this process."""

    def bring(self, sides: Sides, base: Base, by: By, choices: Choices) -> MergePlan:
        open_: list[Conflict] = []
        deltas: dict[str, Delta] = {}
        seen: dict[str, Seen] = {}
        for key in tables_to_merge(sides.catalog, base, sides.theirs):
            type_, merger, seen[key] = type_of(sides.catalog, key), Merger(by, choices.choose), Seen()
            came, mine = (changed_stretches(base.snapshot, side, key) for side in (sides.theirs, sides.ours))
            rows = stretches_of(seen[key].passing(came), mine, base.overlays.get(key), type_)
            deltas[key] = delta_of(type_, merger.settle(type_, rows))
            open_ += merger.in_order()
        ruled = apply_rules(sides, deltas, choices.choose)
        tables: dict[str, TableMergePlan] = {}
        for pending in ruled.pending:
            key = pending.type.table_key
            delta = ruled.deltas[key]
            known = ruled.checked.standing.get(key)
            change = pending.change(known or partial(seen.get(key, Seen()).where_they_lie, sides, delta))
            change = replace(change, is_long=takes_long(delta.rows.num_rows))
            tables[key] = TableMergePlan(delta.counts, delta.decided, change)
        return MergePlan(tables, (*open_, *ruled.open), ruled.checked.reads | ruled.deltas.keys())


HERE: Final = _Here()
