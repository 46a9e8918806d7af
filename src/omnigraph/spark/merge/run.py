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
    Blocks,
    DistributedRows,
    PartRows,
    Reading,
    Run,
    StagedPlaces,
    check_on_spark,
    scratch_table,
    stage_on_spark,
)
from omnigraph.spark.merge.merge_task import (
    IDS,
    RECEIPTS,
    Orders,
    OverlaidRows,
    PartReceipt,
    Stream,
    TableOrders,
    TableReceipt,
)
from omnigraph.spark.merge.shuffle import Origin, TouchedRows, divided, in_parts, number_of_parts
from omnigraph.spark.spark_errors import spark_failures
from omnigraph.storage import table as tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values
from omnigraph.storage.pinned import Table
from omnigraph.storage.staging import Staged
from omnigraph.write.commit import TableChange
from omnigraph.write.legacy_ids import may_have_legacy_ids, refuse_legacy_ids
from omnigraph.write.load import FragmentTarget, IncomingRows, IncomingTable, InMemoryRows
from omnigraph.write.merge import (
    HERE,
    Base,
    By,
    Choices,
    Counts,
    MergeEngine,
    MergePlan,
    Sides,
    TableMergePlan,
    tables_to_merge,
    takes_long,
)
from omnigraph.write.rules import Arrival, type_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEW_ROWS: Final = 100_000
"""So few rows, counted on all sides, this process brings together itself: until then jobs take longer to begin than it
takes to end."""
_NONE: Final[Values] = cast("Values", pa.array([], pa.string()))


@contextmanager
def executors(session: SparkSession, manifest: Manifest) -> Generator[MergeEngine]:
    """The executors of a session, as long as one merge takes."""
    with ExitStack() as stack:
        yield _OnSpark(session, cache(lambda: stack.enter_context(scratch_table(manifest))))


@dataclass(frozen=True, slots=True)
class _OnSpark:
    """The executors do the work on all rows, unless they are few."""

    session: SparkSession
    scratch: Callable[[], Table]
    """The table beside the graph, made when it is first asked for."""

    def bring(self, sides: Sides, base: Base, by: By, choices: Choices) -> MergePlan:
        """Bring the sides together on the executors; in this process, if there is little to do or a rule is broken."""
        job = _Job(sides, base)
        if job.num_rows <= FEW_ROWS:
            return HERE.bring(sides, base, by, choices)
        with spark_failures("merging"):
            receipts = self._told(job, by, choices)
        changed: dict[str, _ChangedTable] = {}
        for number, key in enumerate(job.keys):
            told = tuple(each for each in receipts if each.table == number)
            table = _ChangedTable(self.session, self.scratch(), type_of(sides.catalog, key), told)
            if table.changes_anything:
                _refuse_legacy_ids(sides, table.type)
                changed[key] = table
        with spark_failures("checking a merge"):
            reads = self._reads(sides, changed)
        if reads is None:
            return HERE.bring(sides, base, by, choices)
        brought = {
            key: TableMergePlan(
                table.counts,
                table.decided,
                TableChange(key, partial(_stage, self.session, table), is_long=takes_long(table.num_rows)),
            )
            for key, table in changed.items()
        }
        return MergePlan(brought, _in_order(receipts), reads | {*job.keys})

    def _told(self, job: _Job, by: By, choices: Choices) -> list[TableReceipt]:
        """Do the work on all rows, once: each time the tasks run they write files."""
        parts = number_of_parts(job.sides, self.session.sparkContext.defaultParallelism)
        orders = Orders(tuple(job.orders()), by, choices, self.scratch())
        told = in_parts(self.session, list(job.items()), parts).mapInArrow(orders.bring, RECEIPTS).collect()
        found: list[TableReceipt] = []
        for (body,) in cast("list[tuple[bytes]]", told):
            receipt = cast("PartReceipt", pickle.loads(bytes(body)))  # noqa: S301  made by our own tasks
            choices.add(receipt.notes)
            found += receipt.tables
        return found

    def _reads(self, sides: Sides, changed: Mapping[str, _ChangedTable]) -> frozenset[str] | None:
        """The tables that were read to know that no rule is broken; None if one is."""
        if any(table.broken for table in changed.values()):
            return None
        coming = [table.coming for table in changed.values()]
        removed = {key: table.removed for key, table in changed.items() if table.removed is not None}
        checked = check_on_spark(self.session, sides.catalog, sides.ours, coming, 1, removed)
        return None if checked.violations else checked.reads


def _in_order(receipts: Sequence[TableReceipt]) -> tuple[Conflict, ...]:
    """All conflicts, table by table and by id."""
    found = [(each.table, conflict) for each in receipts for conflict in each.open]
    return tuple(conflict for _, conflict in sorted(found, key=lambda each: (each[0], each[1].id)))


def _refuse_legacy_ids(sides: Sides, type_: NodeType | EdgeType) -> None:
    if isinstance(type_, NodeType) and may_have_legacy_ids(type_):
        refuse_legacy_ids(type_, sides.ours.table(type_.table_key))


def _stage(session: SparkSession, changed: _ChangedTable, table: Table) -> Staged | None:
    with spark_failures("staging a merge"):
        return stage_on_spark(session, table, changed.coming, changed.removed)


# --------------------------------------------------------------------------------------------- what is to be done


class _Job:
    """The rows of all tables that may have changed, on either side."""

    def __init__(self, sides: Sides, base: Base) -> None:
        self.keys = tables_to_merge(sides.catalog, base, sides.theirs)
        self._types = [type_of(sides.catalog, key) for key in self.keys]
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

    def items(self) -> Iterator[TouchedRows | OverlaidRows]:
        """The rows, as tasks read them."""
        for number, overlay in enumerate(self._overlays):
            for stream, (touched, type_) in self._streams(number).items():
                for few in divided(touched):
                    yield TouchedRows(number, stream, DiffSide(few, type_))
            if overlay is not None:
                yield OverlaidRows(number, overlay)

    def orders(self) -> Iterator[TableOrders]:
        """What the parts have to know of each table."""
        for number, type_ in enumerate(self._types):
            streams = self._streams(number).items()
            origins = {stream: Origin(None if each is None else each.table, known) for stream, (each, known) in streams}
            yield TableOrders(type_, origins)

    def _streams(self, number: int) -> dict[Stream, tuple[CandidateRows | None, NodeType | EdgeType]]:
        theirs, ours = self._theirs[number], self._ours[number]
        return {
            Stream.BEFORE_THEIRS: (theirs.before, theirs.types[0]),
            Stream.THEIRS: (theirs.after, theirs.types[1]),
            Stream.BEFORE_OURS: (ours.before, ours.types[0]),
            Stream.OURS: (ours.after, ours.types[1]),
        }


# --------------------------------------------------------------------------------------------- what came of it


@dataclass(frozen=True)
class _ChangedTable:
    """What one table gets, as all parts tell."""

    session: SparkSession
    scratch: Table
    type: NodeType | EdgeType
    told: tuple[TableReceipt, ...]

    @property
    def counts(self) -> Counts:
        """How many rows come, change and go."""
        return sum((each.counts for each in self.told), Counts())

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
        return any(each.decided for each in self.told)

    @property
    def broken(self) -> bool:
        """Whether a row breaks a rule by itself."""
        return any(each.broken for each in self.told)

    @cached_property
    def coming(self) -> IncomingTable:
        """The rows that are written, as loads have them."""
        fragments = tuple(text for each in self.told for text in each.rows)
        source = (
            DistributedRows(self.type, FragmentTarget(self.scratch, "overwrite"), fragments, session=self.session)
            if fragments
            else InMemoryRows(arrow_schema(self.type).empty_table())
        )
        places = StagedPlaces(self.scratch, [Run(self.num_rows)], (), Blocks({}))
        return IncomingTable(
            IncomingRows(self.type, fresh=False, positions=places, storage=source), Arrival.UPSERT, _NONE
        )

    @cached_property
    def removed(self) -> PartRows | None:
        """The ids of the rows that go."""
        fragments = tuple(text for each in self.told for text in each.removed)
        if not fragments:
            return None
        audit = tables.audit_version(self.scratch, tables.overwrite_fragments(self.scratch, IDS, fragments))
        return PartRows(audit, audit.fragment_rows(), Reading(IDS, _NONE))
