"""Merge engines: merge all tables in this process, or on others such as Spark's executors.

Every engine decides with the same functions, so all give the same changes and the same conflicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from omnigraph.errors import Conflict
from omnigraph.lazy_dataclass import dataclass
from omnigraph.progress import follow_steps
from omnigraph.read.changes import ChangedRows, read_changes
from omnigraph.read.frames import find_positions
from omnigraph.storage.columns import Values, column_of
from omnigraph.storage.tables import Addresses, find_addresses, map_addresses
from omnigraph.write.commit import TableChange
from omnigraph.write.executor import LOCAL, Executor
from omnigraph.write.merge.alignment import MergeBase, align_ranges, find_tables_to_merge
from omnigraph.write.merge.deltas import Counts, TableDelta, TableMerger, combine_deltas
from omnigraph.write.merge.resolver import ConflictResolver
from omnigraph.write.merge.rules import LocalRuleChecker, MergeSnapshots, apply_rules
from omnigraph.write.merge.three_way import MergeBy
from omnigraph.write.rules import PreparedRows, RowLocations, type_of_table

LONG_STAGING_ROWS: Final = 100_000
"""Staging more rows than this takes so long that the fork of a table is published first."""


def is_long_staging(rows: int) -> bool:
    """Whether staging so many rows takes long."""
    return rows > LONG_STAGING_ROWS


@dataclass(frozen=True, slots=True)
class TableMergePlan:
    """The change of one table. ``is_decided``: it differs from what theirs changed, since something was merged."""

    counts: Counts
    is_decided: bool
    change: TableChange


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The result of merging all tables: their changes, the unresolved conflicts, and the tables that were read.

    ``resolved`` is how many rows of each table have a change of theirs that lost a conflict. ``prepared`` are the rows
    that it depends on, if they are in this process.
    """

    tables: Mapping[str, TableMergePlan]
    open: tuple[Conflict, ...]
    reads: frozenset[str]
    resolved: Mapping[str, int]
    prepared: PreparedRows | None = None


class MergeEngine(Protocol):
    """Does the work that touches every changed row of a merge."""

    @property
    def executor(self) -> Executor:
        """Rewrites the rows of a branch that lags behind the schema, before it is merged into."""
        ...

    def merge_tables(
        self, sides: MergeSnapshots, base: MergeBase, by: MergeBy, resolver: ConflictResolver
    ) -> MergePlan:
        """Merge the sides and check the rules on the result."""
        ...


class BaseAddresses:
    """The addresses in the base of the rows of one table that theirs changed.

    They are recorded while the changes are read. Most of these rows have the same address in ours, so only rows that
    ours has moved are searched for.
    """

    def __init__(self) -> None:
        self._changed_ids: list[Values] = [pa.array([], pa.string())]
        self._ids: list[Values] = [pa.array([], pa.string())]
        self._addresses: list[Addresses] = [np.zeros(0, np.uint64)]

    def record(self, changed_in_theirs: Iterator[tuple[ChangedRows, ...]]) -> Iterator[tuple[ChangedRows, ...]]:
        """Pass changed rows through and record their addresses."""
        for parts in changed_in_theirs:
            for part in parts:
                self._changed_ids.append(column_of(part.rows, "id"))
                if part.before is not None and part.addresses is not None:
                    self._ids.append(column_of(part.before, "id"))
                    self._addresses.append(part.addresses)
            yield parts

    @property
    def changed_ids(self) -> Values:
        """The ids of all rows that theirs changed."""
        return pa.concat_arrays(self._changed_ids)

    def locate_replaced(self, sides: MergeSnapshots, delta: TableDelta) -> RowLocations | None:
        """Locate the rows in ours that a delta replaces or deletes; None if the base or ours has no such table."""
        key = delta.type.table_key
        if key not in sides.base.pins or key not in sides.ours.pins:
            return None
        base, ours = sides.base.table(key), sides.ours.table(key)
        replaced_ids = pa.concat_arrays(
            [column_of(delta.rows, "id").filter(pa.array(~delta.is_new)), delta.deleted_ids]
        )
        addresses, is_kept = map_addresses(np.concatenate(self._addresses), base, ours)
        positions = find_positions(replaced_ids, pa.concat_arrays(self._ids).filter(pa.array(is_kept)))
        found = addresses[is_kept][positions[positions >= 0]]
        moved = replaced_ids.filter(pa.array(positions < 0))
        if len(moved):
            found = np.concatenate([found, find_addresses(ours, pa.table({"id": moved}))])
        return RowLocations(ours, found)


class LocalMergeEngine:
    """Merges in this process."""

    executor: Executor = LOCAL

    def merge_tables(
        self, sides: MergeSnapshots, base: MergeBase, by: MergeBy, resolver: ConflictResolver
    ) -> MergePlan:
        """Merge table by table, then check the rules."""
        unresolved: list[Conflict] = []
        deltas: dict[str, TableDelta] = {}
        base_addresses: dict[str, BaseAddresses] = {}
        for key in follow_steps("merging", list(find_tables_to_merge(sides.catalog, base, sides.theirs))):
            base_addresses[key] = BaseAddresses()
            type_, merger = type_of_table(sides.catalog, key), TableMerger(by, resolver.choose)
            changed_in_theirs, changed_in_ours = (
                read_changes(base.snapshot, side, key) for side in (sides.theirs, sides.ours)
            )
            rows = align_ranges(
                base_addresses[key].record(changed_in_theirs), changed_in_ours, base.overlays.get(key), type_
            )
            deltas[key] = combine_deltas(type_, merger.merge_ranges(type_, rows))
            unresolved += merger.sort_conflicts()
        checker = LocalRuleChecker(sides)
        ruled = apply_rules(sides, deltas, resolver.choose, checker)
        tables: dict[str, TableMergePlan] = {}
        for pending in checker.pending:
            key = pending.type.table_key
            delta = ruled.tables[key]
            known = ruled.result.locations.get(key)
            change = pending.to_change(
                known or partial(base_addresses.get(key, BaseAddresses()).locate_replaced, sides, delta)
            )
            change = replace(change, is_long=is_long_staging(delta.rows.num_rows))
            tables[key] = TableMergePlan(delta.counts, delta.is_decided, change)
        resolved = Counter({key: delta.resolved for key, delta in deltas.items()})
        resolved.update(ruled.resolved)
        prepared = PreparedRows(
            tuple(pending.to_row_changes() for pending in checker.pending),
            {key: addresses.changed_ids for key, addresses in base_addresses.items()},
        )
        reads = ruled.reads | ruled.tables.keys()
        return MergePlan(tables, (*unresolved, *ruled.open), reads, resolved, prepared)


LOCAL_MERGE_ENGINE: Final = LocalMergeEngine()
