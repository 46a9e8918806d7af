"""The merged rows of one table in fragments that executors wrote, and what decisions about broken rules change in them.

Such decisions concern few ids. The rows that they give to these ids are in this process; all other rows stay where they
are, and executors leave the decided ones out when they write the fragments again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from typing import Final, cast

import pyarrow as pa

from omnigraph.errors import Violation
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames import Mask
from omnigraph.spark.diagnosis import translate_spark_errors
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.load import BlockLines, DistributedRows, SourceRun, StagedPlaces, rewrite_fragments
from omnigraph.spark.merge.merge_task import IDS, TableMergeReport
from omnigraph.spark.rules import FragmentRows, RowReader, check_changes
from omnigraph.spark.sized_frames import divide_fragments
from omnigraph.storage import tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, is_among, is_not_among, to_list
from omnigraph.storage.tables import FragmentText, Table, estimate_row_bytes
from omnigraph.write.load import FragmentTarget, GeneratedIds, IncomingRows, IncomingTable, InMemoryRows
from omnigraph.write.merge import BrokenRules, Counts, MergeSnapshots, TableDelta, empty_delta, exists_in
from omnigraph.write.rules import IncomingMode, check_rows

NO_IDS: Final[Values] = cast("Values", pa.array([], pa.string()))


@dataclass(slots=True)
class _RowCache:
    """Rows that were looked up in fragments, so that one job finds the rows of many ids."""

    ids: set[str] = field(default_factory=set[str])
    rows: list[pa.Table] = field(default_factory=list[pa.Table])

    def find(self, ids: Iterable[str], look_up: Callable[[Values], Iterable[pa.Table]]) -> list[pa.Table]:
        """Return the rows of some ids; look up those that nobody has asked for."""
        given = set(ids)
        unknown = given - self.ids
        if unknown:
            self.rows += look_up(_to_values(unknown))
            self.ids |= unknown
        return [rows.filter(is_among(column_of(rows, "id"), _to_values(given))) for rows in self.rows]


@dataclass(frozen=True)
class DistributedDelta:
    """The changes of one table of a merge: the reports of all tasks, and the ids that were decided after them.

    ``decided`` has the rows of decided ids as they are now.
    """

    executor: SparkExecutor
    ours: Snapshot
    scratch: Table
    type: NodeType | EdgeType
    reports: tuple[TableMergeReport, ...] = ()
    decided_ids: frozenset[str] = frozenset()
    decided: TableDelta | None = None
    _cache: _RowCache = field(default_factory=_RowCache, repr=False, compare=False)

    # ----------------------------------------------------------------------------------------- decisions

    def without(self, ids: Values) -> DistributedDelta:
        """Return it without the rows of these ids: they stay as in ours."""
        known = self.decided_ids.union(_to_texts(ids))
        return replace(self, decided_ids=known, decided=self._decided.without(ids))

    def with_rows(self, rows: pa.Table, new: Mask) -> DistributedDelta:
        """Return it with these rows added. Their ids must not be in it."""
        return replace(self, decided=self._decided.with_rows(rows, new))

    def with_deleted(self, ids: Values) -> DistributedDelta:
        """Return it with these ids deleted."""
        return replace(self, decided=self._decided.with_deleted(ids))

    def count_ids(self, ids: Values) -> int:
        """Return how many of some ids are written or deleted; executors count."""
        merged = ids.filter(is_not_among(ids, _to_values(self.decided_ids)))
        written = self.rows_of(_to_texts(merged)).num_rows
        return written + sum(self._count_deletes(merged)) + self._decided.count_ids(ids)

    def rows_of(self, ids: Sequence[str]) -> pa.Table:
        """Return the rows to write that have some ids; executors find them."""
        found = self._cache.find(set(ids) - self.decided_ids, self._look_up_rows)
        return pa.concat_tables([self._decided.rows_of(ids), *found])

    @property
    def _decided(self) -> TableDelta:
        return self.decided or empty_delta(self.type)

    # ----------------------------------------------------------------------------------------- what it comes to

    @property
    def is_decided(self) -> bool:
        """Whether a conflict was resolved, so that the table gets more than the changes of theirs."""
        return self.decided is not None or any(each.is_decided for each in self.reports)

    @property
    def violations(self) -> list[Violation]:
        """The violations of row rules."""
        found = (each for report in self.reports for each in report.violations if each.id not in self.decided_ids)
        return [*found, *check_rows(self.type, self._decided.rows)]

    @cached_property
    def counts(self) -> Counts:
        """The numbers of inserted, updated and deleted rows."""
        merged = sum((each.counts for each in self.reports), self._decided.counts)
        if not self.decided_ids:
            return merged
        dropped = _to_values(each for rows in self._look_up_ids() for each in _to_texts(column_of(rows, "id")))
        updated = int(exists_in(self.ours, self.type, dropped).sum()) if len(dropped) else 0
        return Counts(
            merged.inserted - (len(dropped) - updated),
            merged.updated - updated,
            merged.deleted - sum(self._count_deletes(_to_values(self.decided_ids))),
        )

    @property
    def num_rows(self) -> int:
        """The number of rows to write."""
        return self.counts.inserted + self.counts.updated

    @property
    def has_changes(self) -> bool:
        """Whether the table changes."""
        return self.counts != Counts()

    @cached_property
    def incoming(self) -> IncomingTable:
        """The inserted and updated rows, like those of a load."""
        merged = self._merged_rows
        excluded, target = _to_values(self.decided_ids), FragmentTarget(self.scratch, "overwrite")
        fragments = () if merged is None else merged.fragments
        if merged is not None and len(excluded):
            fragments = merged.write_to(target.table, target.mode, excluded)
        if self._decided.rows.num_rows:
            fragments += tables.write_rows(self.scratch, self._decided.rows, "overwrite")
        storage = self._to_storage(fragments) if fragments else InMemoryRows(arrow_schema(self.type).empty_table())
        places = StagedPlaces(self.scratch, [SourceRun(self.num_rows)], (), BlockLines({}))
        return IncomingTable(
            IncomingRows(self.type, GeneratedIds(), positions=places, storage=storage), IncomingMode.UPSERT, NO_IDS
        )

    @cached_property
    def removed(self) -> FragmentRows | None:
        """The ids of the deleted rows."""
        merged = self._merged_deletes
        fragments = tuple(text for each in self.reports for text in each.removed)
        if merged is not None and self.decided_ids:
            fragments = rewrite_fragments(
                self.executor,
                merged.table,
                dict(zip(sorted(merged.fragments), fragments, strict=True)),
                FragmentTarget(self.scratch, "overwrite"),
                IDS,
                _to_values(self.decided_ids),
                in_place=True,
            )
        if len(self._decided.deleted_ids):
            ids = pa.Table.from_arrays([self._decided.deleted_ids], schema=IDS)
            fragments += tables.write_rows(self.scratch, ids, "overwrite")
        return self._to_removed(fragments)

    # ----------------------------------------------------------------------------------------- the fragments

    @cached_property
    def _merged_rows(self) -> DistributedRows | None:
        """The rows that tasks wrote."""
        fragments = tuple(text for each in self.reports for text in each.rows)
        return self._to_storage(fragments) if fragments else None

    @cached_property
    def _merged_deletes(self) -> FragmentRows | None:
        """The ids of deleted rows that tasks wrote."""
        return self._to_removed(tuple(text for each in self.reports for text in each.removed))

    def _to_storage(self, fragments: tuple[FragmentText, ...]) -> DistributedRows:
        target = FragmentTarget(self.scratch, "overwrite")
        return DistributedRows(self.type, arrow_schema(self.type), target, fragments, executor=self.executor)

    def _to_removed(self, fragments: tuple[FragmentText, ...]) -> FragmentRows | None:
        if not fragments:
            return None
        audit = tables.audit_version(self.scratch, tables.overwrite_fragments(self.scratch, IDS, fragments))
        return FragmentRows(audit, audit.fragment_rows(), RowReader(IDS, NO_IDS))

    def _look_up_rows(self, ids: Values) -> Iterable[pa.Table]:
        return () if self._merged_rows is None else (rows for _, rows in self._merged_rows.find_rows(ids, None))

    def _look_up_ids(self) -> Iterable[pa.Table]:
        merged, ids = self._merged_rows, _to_values(self.decided_ids)
        return () if merged is None else (rows for _, rows in merged.find_rows(ids, ["id"]))

    def _count_deletes(self, ids: Values) -> Iterable[int]:
        """Return how many of some ids tasks deleted, in each group of fragments."""
        merged = self._merged_deletes
        if merged is None:
            return ()
        groups = divide_fragments(merged.fragments, estimate_row_bytes(IDS), self.executor.parallelism)
        return self.executor.run(partial(_count_ids, merged.table, ids), groups)


def _count_ids(table: Table, ids: Values, fragments: Sequence[int]) -> int:
    """Task over fragments: count the rows that have one of some ids."""
    batches = table.scan(["id"], in_fragments=fragments)
    return sum(is_among(column_of(batch, "id"), ids).true_count for batch in batches)


def _to_values(ids: Collection[str] | Iterable[str]) -> Values:
    return cast("Values", pa.array(sorted(ids), pa.string()))


def _to_texts(ids: Values) -> list[str]:
    return cast("list[str]", to_list(ids))


# --------------------------------------------------------------------------------------------- rules


@dataclass(frozen=True, slots=True)
class SparkRuleChecker:
    """Checks the merged tables on executors. Only violations come to this process."""

    executor: SparkExecutor
    sides: MergeSnapshots
    scratch: Table

    def check(self, tables: Mapping[str, DistributedDelta]) -> BrokenRules:
        """Find all violations."""
        executor = self.executor.doing("checking a merge")
        with translate_spark_errors(executor.activity):
            changed = {key: table for key, table in tables.items() if table.has_changes}
            removed = {key: table.removed for key, table in changed.items() if table.removed is not None}
            incoming = [table.incoming for table in changed.values()]
            result = check_changes(executor, self.sides.catalog, self.sides.ours, incoming, None, removed)
            return BrokenRules({key: table.violations for key, table in changed.items()}, result)

    def make_empty(self, type_: NodeType | EdgeType) -> DistributedDelta:
        """Return a table without changes."""
        return DistributedDelta(self.executor, self.sides.ours, self.scratch, type_)
