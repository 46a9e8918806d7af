"""Who brings the sides of a merge together: this process, or others that it leads.

Whoever does decides by the same functions, so the same comes of it: what each table gets, and what is at odds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from omnigraph.errors import Conflict
from omnigraph.read.changes import ChangedRows, read_changes
from omnigraph.read.frames import find_positions
from omnigraph.storage.columns import Values, column_of
from omnigraph.storage.fragments import carried_over
from omnigraph.storage.row_search import addresses_of
from omnigraph.storage.staging import Addresses
from omnigraph.write.commit import TableChange
from omnigraph.write.merge.alignment import MergeBase, align_ranges, find_tables_to_merge
from omnigraph.write.merge.deltas import Counts, TableDelta, TableMerger, combine_deltas
from omnigraph.write.merge.resolver import ConflictResolver
from omnigraph.write.merge.rules import MergeSnapshots, apply_rules
from omnigraph.write.merge.three_way import MergeBy
from omnigraph.write.rules import RowLocations, type_of_table

LONG_STAGING_ROWS: Final = 100_000
"""Staging more rows than this takes so long that a fork is published before."""


def is_long_staging(rows: int) -> bool:
    """Whether staging so many rows does."""
    return rows > LONG_STAGING_ROWS


@dataclass(frozen=True, slots=True)
class TableMergePlan:
    """What one table gets. ``decided``: it is not simply what theirs changed."""

    counts: Counts
    is_decided: bool
    change: TableChange


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What came of the three sides: the tables that change, what is open, and the tables that were read."""

    tables: Mapping[str, TableMergePlan]
    open: tuple[Conflict, ...]
    reads: frozenset[str]


class MergeEngine(Protocol):
    """Who does the work on all rows of a merge."""

    def merge_tables(self, sides: MergeSnapshots, base: MergeBase, by: MergeBy, choices: ConflictResolver) -> MergePlan:
        """Bring the sides together, and hold what comes of it against the rules."""
        ...


class BaseAddresses:
    """Where the base has the rows of one table that theirs changed, noted while they pass."""

    def __init__(self) -> None:
        self._ids: list[Values] = [pa.array([], pa.string())]
        self._addresses: list[Addresses] = [np.zeros(0, np.uint64)]

    def record(self, came: Iterator[tuple[ChangedRows, ...]]) -> Iterator[tuple[ChangedRows, ...]]:
        """The same rows."""
        for parts in came:
            for part in parts:
                if part.before is not None and part.addresses is not None:
                    self._ids.append(column_of(part.before, "id"))
                    self._addresses.append(part.addresses)
            yield parts

    def locate_replaced(self, sides: MergeSnapshots, delta: TableDelta) -> RowLocations | None:
        """Where the rows lie that make room for a delta; None where the base or ours has no such table."""
        key = delta.type.table_key
        if key not in sides.base.pins or key not in sides.ours.pins:
            return None
        base, ours = sides.base.table(key), sides.ours.table(key)
        gone = pa.concat_arrays([column_of(delta.rows, "id").filter(pa.array(~delta.is_new)), delta.deleted_ids])
        addresses, there = carried_over(np.concatenate(self._addresses), base, ours)
        at = find_positions(gone, pa.concat_arrays(self._ids).filter(pa.array(there)))
        found = addresses[there][at[at >= 0]]
        moved = gone.filter(pa.array(at < 0))
        if len(moved):
            found = np.concatenate([found, addresses_of(ours, pa.table({"id": moved}))])
        return RowLocations(ours, found)


class LocalMergeEngine:
    """Everything is done in this process."""

    def merge_tables(self, sides: MergeSnapshots, base: MergeBase, by: MergeBy, choices: ConflictResolver) -> MergePlan:
        open_: list[Conflict] = []
        deltas: dict[str, TableDelta] = {}
        seen: dict[str, BaseAddresses] = {}
        for key in find_tables_to_merge(sides.catalog, base, sides.theirs):
            type_, merger, seen[key] = (
                type_of_table(sides.catalog, key),
                TableMerger(by, choices.choose),
                BaseAddresses(),
            )
            came, mine = (read_changes(base.snapshot, side, key) for side in (sides.theirs, sides.ours))
            rows = align_ranges(seen[key].record(came), mine, base.overlays.get(key), type_)
            deltas[key] = combine_deltas(type_, merger.merge_ranges(type_, rows))
            open_ += merger.sorted_conflicts()
        ruled = apply_rules(sides, deltas, choices.choose)
        tables: dict[str, TableMergePlan] = {}
        for pending in ruled.pending:
            key = pending.type.table_key
            delta = ruled.deltas[key]
            known = ruled.checked.locations.get(key)
            change = pending.to_change(known or partial(seen.get(key, BaseAddresses()).locate_replaced, sides, delta))
            change = replace(change, is_long=is_long_staging(delta.rows.num_rows))
            tables[key] = TableMergePlan(delta.counts, delta.is_decided, change)
        return MergePlan(tables, (*open_, *ruled.open), ruled.checked.reads | ruled.deltas.keys())


LOCAL_MERGE_ENGINE: Final = LocalMergeEngine()
