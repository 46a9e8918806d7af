"""Merge on Spark: executors compare and merge the rows, and this process makes one commit of the result.

This process finds the rows that may have changed, from metadata. One job partitions these rows by id, merges them with
the same code as in one process, and writes the result to a table beside the graph. Jobs like those of a load check set
rules and find the rows that are replaced or deleted. This process holds the conflicts, also those by which a rule is
broken, and the locations of candidate rows (see ``read/changes/candidates.py``), but no rows other than those of
conflicts.

A merge of few rows runs in this process.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Final, cast

from omnigraph.errors import Conflict
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.handle import Manifest
from omnigraph.read.changes import CandidateRows, DiffSide, find_table_candidates
from omnigraph.spark.diagnosis import translate_spark_errors
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.load import stage_rows
from omnigraph.spark.merge.candidate_rows import (
    CandidateInput,
    StreamSource,
    choose_partition_count,
    split_candidates,
)
from omnigraph.spark.merge.merge_task import (
    IDS,
    MERGE_REPORT_COLUMNS,
    MergeReport,
    MergeStream,
    MergeTask,
    MergeTaskTable,
    OverlayInput,
    TableMergeReport,
)
from omnigraph.spark.merge.merged_rows import DistributedDelta, SparkRuleChecker
from omnigraph.spark.scratch import create_scratch_table
from omnigraph.spark.shuffle import shuffle_rows
from omnigraph.spark.task_errors import map_batches
from omnigraph.storage.tables import StagedChange, Table
from omnigraph.write.commit import TableChange
from omnigraph.write.merge import (
    LOCAL_MERGE_ENGINE,
    ConflictResolver,
    MergeBase,
    MergeBy,
    MergeEngine,
    MergePlan,
    MergeSnapshots,
    TableMergePlan,
    apply_rules,
    find_tables_to_merge,
    is_long_staging,
)
from omnigraph.write.row_values import can_have_legacy_ids, refuse_legacy_ids
from omnigraph.write.rules import type_of_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MERGE_ROWS: Final = 100_000
"""Up to this many rows, counted on all sides, this process merges: starting jobs would take longer."""


@contextmanager
def open_merge_engine(session: SparkSession, manifest: Manifest) -> Generator[MergeEngine]:
    """Open the Spark engine of one merge; its temporary files are deleted after the block."""
    with ExitStack() as stack:
        yield _SparkMergeEngine(
            SparkExecutor(session, "merging"), cache(lambda: stack.enter_context(create_scratch_table(manifest, IDS)))
        )


@dataclass(frozen=True, slots=True)
class _SparkMergeEngine:
    """Merges rows on executors, or in this process if there are few."""

    executor: SparkExecutor
    scratch: Callable[[], Table]
    """Returns the scratch table, which the first call creates."""

    def merge_tables(
        self, sides: MergeSnapshots, base: MergeBase, by: MergeBy, resolver: ConflictResolver
    ) -> MergePlan:
        """Merge the sides on executors; in this process if there are few rows."""
        candidates = _MergeCandidates(sides, base)
        if candidates.num_rows <= LOCAL_MERGE_ROWS:
            return LOCAL_MERGE_ENGINE.merge_tables(sides, base, by, resolver)
        with translate_spark_errors("merging"):
            reports = self._run_merge_job(candidates, by, resolver)
        changed: dict[str, DistributedDelta] = {}
        checker = SparkRuleChecker(self.executor.doing("staging a merge"), sides, self.scratch())
        for number, key in enumerate(candidates.keys):
            own = tuple(each for each in reports if each.table == number)
            table = replace(checker.make_empty(type_of_table(sides.catalog, key)), reports=own)
            if table.has_changes:
                _refuse_legacy_ids(sides, table.type)
                changed[key] = table
        ruled = apply_rules(sides, changed, resolver.choose, checker)
        merged = {
            key: TableMergePlan(
                table.counts,
                table.is_decided,
                TableChange(key, partial(_stage_table, table), is_long=is_long_staging(table.num_rows)),
            )
            for key, table in ruled.tables.items()
            if table.has_changes
        }
        unresolved = (*_sort_conflicts(reports), *ruled.open)
        resolved: Counter[str] = Counter()
        for report in reports:
            resolved[candidates.keys[report.table]] += report.resolved
        resolved.update(ruled.resolved)
        return MergePlan(merged, unresolved, ruled.reads | {*candidates.keys, *ruled.tables}, resolved)

    def _run_merge_job(
        self, candidates: _MergeCandidates, by: MergeBy, resolver: ConflictResolver
    ) -> list[TableMergeReport]:
        """Merge all candidate rows in one job. It is collected once: tasks write files each time they run."""
        partitions = choose_partition_count(candidates.sides, self.executor.parallelism)
        task = MergeTask(tuple(candidates.task_tables()), by, resolver, self.scratch())
        shuffled = shuffle_rows(self.executor, list(candidates.shuffle_inputs()), partitions)
        rows = self.executor.collect(map_batches(shuffled, task.merge_partition, MERGE_REPORT_COLUMNS))
        tables: list[TableMergeReport] = []
        for (body,) in cast("list[tuple[bytes]]", rows):
            report = cast("MergeReport", pickle.loads(bytes(body)))  # noqa: S301  pickled by our own tasks
            resolver.add_notes(report.notes)
            tables += report.tables
        return tables


def _sort_conflicts(reports: Sequence[TableMergeReport]) -> tuple[Conflict, ...]:
    """Return all conflicts, by table and id."""
    found = [(each.table, conflict) for each in reports for conflict in each.open]
    return tuple(conflict for _, conflict in sorted(found, key=lambda each: (each[0], each[1].id)))


def _refuse_legacy_ids(sides: MergeSnapshots, type_: NodeType | EdgeType) -> None:
    if isinstance(type_, NodeType) and can_have_legacy_ids(type_):
        refuse_legacy_ids(type_, sides.ours.table(type_.table_key))


def _stage_table(changed: DistributedDelta, table: Table) -> StagedChange | None:
    with translate_spark_errors("staging a merge"):
        return stage_rows(changed.executor, table, changed.incoming, changed.removed)


# --------------------------------------------------------------------------------------------- rows to merge


class _MergeCandidates:
    """The rows of all tables that may have changed on either side."""

    def __init__(self, sides: MergeSnapshots, base: MergeBase) -> None:
        self.keys = find_tables_to_merge(sides.catalog, base, sides.theirs)
        self._types = [type_of_table(sides.catalog, key) for key in self.keys]
        self._overlays = [base.overlays.get(key) for key in self.keys]
        self._theirs = [find_table_candidates(base.snapshot, sides.theirs, key) for key in self.keys]
        self._ours = [find_table_candidates(base.snapshot, sides.ours, key) for key in self.keys]

    @property
    def sides(self) -> list[DiffSide]:
        """The candidate rows of both sides, before and after."""
        return [side for pair in (*self._theirs, *self._ours) for side in pair.sides()]

    @property
    def num_rows(self) -> int:
        """The number of candidate rows."""
        overlaid = sum(len(overlay.ids) for overlay in self._overlays if overlay is not None)
        return overlaid + sum(side.num_rows for side in self.sides)

    def shuffle_inputs(self) -> Iterator[CandidateInput | OverlayInput]:
        """Yield the inputs of the shuffle, one for each task that reads rows."""
        for number, overlay in enumerate(self._overlays):
            for stream, (candidates, type_) in self._streams(number).items():
                for piece in split_candidates(candidates):
                    yield CandidateInput(number, stream, DiffSide(piece, type_))
            if overlay is not None:
                yield OverlayInput(number, overlay)

    def task_tables(self) -> Iterator[MergeTaskTable]:
        """Yield what the merge tasks need to know of each table."""
        for number, type_ in enumerate(self._types):
            streams = self._streams(number).items()
            sources = {
                stream: StreamSource(None if each is None else each.table, known) for stream, (each, known) in streams
            }
            yield MergeTaskTable(type_, sources)

    def _streams(self, number: int) -> dict[MergeStream, tuple[CandidateRows | None, NodeType | EdgeType]]:
        theirs, ours = self._theirs[number], self._ours[number]
        return {
            MergeStream.BEFORE_THEIRS: (theirs.before, theirs.pair.types[0]),
            MergeStream.THEIRS: (theirs.after, theirs.pair.types[1]),
            MergeStream.BEFORE_OURS: (ours.before, ours.pair.types[0]),
            MergeStream.OURS: (ours.after, ours.pair.types[1]),
        }
