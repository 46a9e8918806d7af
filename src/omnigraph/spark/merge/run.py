"""Merges on Spark: the executors compare the rows and bring them together, and this process makes one commit of it.

Which rows may have changed at all is found here, in metadata. One job sends these to parts by their ids, where they
are decided about as everywhere else and written to a table beside the graph. Set rules, and the rows that are replaced
or go, are found by jobs as for a load. In this process are what is at odds, and the places of the rows to look at (see
``read/changes/candidates.py``), but no row.

A merge that breaks a rule is brought together once more in this process, which says what is broken and does what was
decided about it. So is one of few rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa

from omnigraph.errors import Conflict
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.manifest.handle import Manifest
from omnigraph.read.changes import CandidateRows, DiffSide, find_table_candidates
from omnigraph.spark.load import (
    BlockLines,
    DistributedRows,
    FragmentRows,
    RowReader,
    SourceRun,
    StagedPlaces,
    check_changes,
    create_scratch_table,
    stage_rows,
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
from omnigraph.spark.merge.shuffle import (
    CandidateInput,
    StreamSource,
    choose_partition_count,
    shuffle_rows,
    split_candidates,
)
from omnigraph.spark.spark_errors import translate_spark_errors
from omnigraph.storage import table_writes as tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values
from omnigraph.storage.staging import Staged
from omnigraph.storage.table import Table
from omnigraph.write.commit import TableChange
from omnigraph.write.load import FragmentTarget, IncomingRows, IncomingTable, InMemoryRows
from omnigraph.write.merge import (
    LOCAL_MERGE_ENGINE,
    ConflictResolver,
    Counts,
    MergeBase,
    MergeBy,
    MergeEngine,
    MergePlan,
    MergeSnapshots,
    TableMergePlan,
    find_tables_to_merge,
    is_long_staging,
)
from omnigraph.write.row_values import can_have_legacy_ids, refuse_legacy_ids
from omnigraph.write.rules import IncomingMode, type_of_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MERGE_ROWS: Final = 100_000
"""So few rows, counted on all sides, this process brings together itself: until then jobs take longer to begin than it
takes to end."""
_NONE: Final[Values] = cast("Values", pa.array([], pa.string()))


@contextmanager
def open_merge_engine(session: SparkSession, manifest: Manifest) -> Generator[MergeEngine]:
    """The executors of a session, as long as one merge takes."""
    with ExitStack() as stack:
        yield _SparkMergeEngine(session, cache(lambda: stack.enter_context(create_scratch_table(manifest))))


@dataclass(frozen=True, slots=True)
class _SparkMergeEngine:
    """The executors do the work on all rows, unless they are few."""

    session: SparkSession
    scratch: Callable[[], Table]
    """The table beside the graph, made when it is first asked for."""

    def merge_tables(
        self, sides: MergeSnapshots, base: MergeBase, by: MergeBy, resolver: ConflictResolver
    ) -> MergePlan:
        """Bring the sides together on the executors; in this process, if there is little to do or a rule is broken."""
        job = _MergeCandidates(sides, base)
        if job.num_rows <= LOCAL_MERGE_ROWS:
            return LOCAL_MERGE_ENGINE.merge_tables(sides, base, by, resolver)
        with translate_spark_errors("merging"):
            receipts = self._run_merge_job(job, by, resolver)
        changed: dict[str, _MergedTable] = {}
        for number, key in enumerate(job.keys):
            told = tuple(each for each in receipts if each.table == number)
            table = _MergedTable(self.session, self.scratch(), type_of_table(sides.catalog, key), told)
            if table.changes_anything:
                _refuse_legacy_ids(sides, table.type)
                changed[key] = table
        with translate_spark_errors("checking a merge"):
            reads = self._check_rules(sides, changed)
        if reads is None:
            return LOCAL_MERGE_ENGINE.merge_tables(sides, base, by, resolver)
        brought = {
            key: TableMergePlan(
                table.counts,
                table.decided,
                TableChange(key, partial(_stage_table, self.session, table), is_long=is_long_staging(table.num_rows)),
            )
            for key, table in changed.items()
        }
        return MergePlan(brought, _sort_conflicts(receipts), reads | {*job.keys})

    def _run_merge_job(self, job: _MergeCandidates, by: MergeBy, choices: ConflictResolver) -> list[TableMergeReport]:
        """Do the work on all rows, once: each time the tasks run they write files."""
        parts = choose_partition_count(job.sides, self.session.sparkContext.defaultParallelism)
        orders = MergeTask(tuple(job.task_tables()), by, choices, self.scratch())
        told = (
            shuffle_rows(self.session, list(job.shuffle_inputs()), parts)
            .mapInArrow(orders.merge_partition, MERGE_REPORT_COLUMNS)
            .collect()
        )
        found: list[TableMergeReport] = []
        for (body,) in cast("list[tuple[bytes]]", told):
            receipt = cast("MergeReport", pickle.loads(bytes(body)))  # noqa: S301  made by our own tasks
            choices.add_notes(receipt.notes)
            found += receipt.tables
        return found

    def _check_rules(self, sides: MergeSnapshots, changed: Mapping[str, _MergedTable]) -> frozenset[str] | None:
        """The tables that were read to know that no rule is broken; None if one is."""
        if any(table.breaks_rule for table in changed.values()):
            return None
        coming = [table.incoming for table in changed.values()]
        removed = {key: table.removed for key, table in changed.items() if table.removed is not None}
        checked = check_changes(self.session, sides.catalog, sides.ours, coming, 1, removed)
        return None if checked.violations else checked.reads


def _sort_conflicts(receipts: Sequence[TableMergeReport]) -> tuple[Conflict, ...]:
    """All conflicts, table by table and by id."""
    found = [(each.table, conflict) for each in receipts for conflict in each.open]
    return tuple(conflict for _, conflict in sorted(found, key=lambda each: (each[0], each[1].id)))


def _refuse_legacy_ids(sides: MergeSnapshots, type_: NodeType | EdgeType) -> None:
    if isinstance(type_, NodeType) and can_have_legacy_ids(type_):
        refuse_legacy_ids(type_, sides.ours.table(type_.table_key))


def _stage_table(session: SparkSession, changed: _MergedTable, table: Table) -> Staged | None:
    with translate_spark_errors("staging a merge"):
        return stage_rows(session, table, changed.incoming, changed.removed)


# --------------------------------------------------------------------------------------------- what is to be done


class _MergeCandidates:
    """The rows of all tables that may have changed, on either side."""

    def __init__(self, sides: MergeSnapshots, base: MergeBase) -> None:
        self.keys = find_tables_to_merge(sides.catalog, base, sides.theirs)
        self._types = [type_of_table(sides.catalog, key) for key in self.keys]
        self._overlays = [base.overlays.get(key) for key in self.keys]
        self._theirs = [find_table_candidates(base.snapshot, sides.theirs, key) for key in self.keys]
        self._ours = [find_table_candidates(base.snapshot, sides.ours, key) for key in self.keys]

    @property
    def sides(self) -> list[DiffSide]:
        """The rows of both, before and after."""
        return [side for pair in (*self._theirs, *self._ours) for side in pair.sides()]

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        overlaid = sum(len(overlay.ids) for overlay in self._overlays if overlay is not None)
        return overlaid + sum(side.num_rows for side in self.sides)

    def shuffle_inputs(self) -> Iterator[CandidateInput | OverlayInput]:
        """The rows, as tasks read them."""
        for number, overlay in enumerate(self._overlays):
            for stream, (touched, type_) in self._streams(number).items():
                for few in split_candidates(touched):
                    yield CandidateInput(number, stream, DiffSide(few, type_))
            if overlay is not None:
                yield OverlayInput(number, overlay)

    def task_tables(self) -> Iterator[MergeTaskTable]:
        """What the parts have to know of each table."""
        for number, type_ in enumerate(self._types):
            streams = self._streams(number).items()
            origins = {
                stream: StreamSource(None if each is None else each.table, known) for stream, (each, known) in streams
            }
            yield MergeTaskTable(type_, origins)

    def _streams(self, number: int) -> dict[MergeStream, tuple[CandidateRows | None, NodeType | EdgeType]]:
        theirs, ours = self._theirs[number], self._ours[number]
        return {
            MergeStream.BEFORE_THEIRS: (theirs.before, theirs.types[0]),
            MergeStream.THEIRS: (theirs.after, theirs.types[1]),
            MergeStream.BEFORE_OURS: (ours.before, ours.types[0]),
            MergeStream.OURS: (ours.after, ours.types[1]),
        }


# --------------------------------------------------------------------------------------------- what came of it


@dataclass(frozen=True)
class _MergedTable:
    """What one table gets, as all parts tell."""

    session: SparkSession
    scratch: Table
    type: NodeType | EdgeType
    reports: tuple[TableMergeReport, ...]

    @property
    def counts(self) -> Counts:
        """How many rows come, change and go."""
        return sum((each.counts for each in self.reports), Counts())

    @property
    def num_rows(self) -> int:
        """How many rows are written."""
        return self.counts.inserted + self.counts.updated

    @property
    def changes_anything(self) -> bool:
        """Whether there is something to write."""
        return self.counts != Counts()

    @property
    def decided(self) -> bool:
        """Whether it is not simply what theirs changed."""
        return any(each.decided for each in self.reports)

    @property
    def breaks_rule(self) -> bool:
        """Whether a row breaks a rule by itself."""
        return any(each.breaks_rule for each in self.reports)

    @cached_property
    def incoming(self) -> IncomingTable:
        """The rows that are written, as loads have them."""
        fragments = tuple(text for each in self.reports for text in each.rows)
        source = (
            DistributedRows(self.type, FragmentTarget(self.scratch, "overwrite"), fragments, session=self.session)
            if fragments
            else InMemoryRows(arrow_schema(self.type).empty_table())
        )
        places = StagedPlaces(self.scratch, [SourceRun(self.num_rows)], (), BlockLines({}))
        return IncomingTable(
            IncomingRows(self.type, has_generated_ids=False, positions=places, storage=source),
            IncomingMode.UPSERT,
            _NONE,
        )

    @cached_property
    def removed(self) -> FragmentRows | None:
        """The ids of the rows that go."""
        fragments = tuple(text for each in self.reports for text in each.removed)
        if not fragments:
            return None
        audit = tables.audit_version(self.scratch, tables.overwrite_fragments(self.scratch, IDS, fragments))
        return FragmentRows(audit, audit.fragment_rows(), RowReader(IDS, _NONE))
