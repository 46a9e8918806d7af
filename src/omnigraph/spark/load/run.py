"""Loads on Spark: the executors read, check and write the rows, and this process makes one commit of them.

One job reads the input, holds each row against the row rules and writes fragments that nobody sees; only what its
tasks tell of them comes here. Set rules and the rows that a merge replaces are found by jobs over those fragments and
the pinned snapshot. The rest is the same as for every other load: :mod:`omnigraph.write.load.run` leads, and the commit
section is the ordinary one. Memory of this process does not grow with the rows.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, cast

import orjson

from omnigraph.errors import OmniGraphError, Violation
from omnigraph.language.schema import Catalog, Schema
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.inputs import paths_of
from omnigraph.spark.load import incoming as load_incoming
from omnigraph.spark.load.incoming import Blocks, DistributedRows, Run, StagedPlaces
from omnigraph.spark.load.load_task import RECEIPTS, Orders, Receipt, address_of, violation_from
from omnigraph.spark.load.rejects import ParquetQuarantine
from omnigraph.spark.load.scratch import scratch_table
from omnigraph.spark.load.set_rules import check_on_spark
from omnigraph.spark.load.sources import frame_of, lines_of, names_of, with_files
from omnigraph.spark.load.staging import stage_on_spark
from omnigraph.spark.spark_errors import spark_failures
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.pinned import Table
from omnigraph.storage.staging import FragmentText, Staged, discard
from omnigraph.write import load as loads
from omnigraph.write.commit import CommitOptions
from omnigraph.write.load import (
    HERE,
    MOST_VIOLATIONS,
    Collected,
    FragmentTarget,
    IncomingRows,
    IncomingTable,
    InMemoryRows,
    LoadContext,
    LoadInput,
    LoadOptions,
    LoadResult,
    ParsedInput,
    frame_types,
    shape_of,
    target_of,
)
from omnigraph.write.rules import Arrival, Checked, Counts, type_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("omnigraph")


def load(
    session: SparkSession,
    manifest: Manifest,
    schema: Schema,
    given: LoadInput,
    manner: LoadOptions,
    terms: CommitOptions,
) -> LoadResult:
    """Load everything as one commit, or nothing."""
    manner = replace(manner, engine="spark")
    return loads.load(manifest, schema, given, manner, terms, partial(_read_on_spark, session))


@dataclass(frozen=True, slots=True)
class _OnSpark:
    """The executors do the work on all rows, unless they are few."""

    session: SparkSession

    def check(
        self, catalog: Catalog, snapshot: Snapshot, coming: Sequence[IncomingTable], limit: int | None
    ) -> Checked:
        if _are_few(snapshot, coming):
            found = HERE.check(catalog, snapshot, coming, None)
            counts = Counter((each.type, each.rule) for each in found.violations)
            return replace(found, violations=found.violations[:limit], counts=counts)
        with spark_failures("checking a load"):
            return check_on_spark(self.session, catalog, snapshot, coming, limit)

    def stage(self, table: Table, coming: IncomingTable) -> Staged | None:
        if coming.rows.count <= load_incoming.FEW_ROWS:
            return HERE.stage(table, coming)
        with spark_failures("staging a load"):
            return stage_on_spark(self.session, table, coming)


def _are_few(snapshot: Snapshot, coming: Sequence[IncomingTable]) -> bool:
    """Whether rules find what they need by looking up a few values. An overwrite is compared with all that it ends."""
    ends_all = any(each.arrival is Arrival.OVERWRITE for each in coming)
    ended = sum(pin.row_count for pin in snapshot.pins.values()) if ends_all else 0
    return ended + sum(each.rows.count for each in coming) <= load_incoming.FEW_ROWS


# --------------------------------------------------------------------------------------------- reading


@contextmanager
def _read_on_spark(session: SparkSession, intake: LoadContext) -> Generator[ParsedInput]:
    """Read the input on the executors, into fragments: of the tables that may be written to, or of the scratch."""
    manner, manifest = intake.options, intake.manifest
    quarantined = manner.on_error == "quarantine"
    target = target_of(manifest.location, manner.rejects, ".parquet") if quarantined else None
    with scratch_table(manifest) as scratch:
        homes = _homes(intake, scratch)
        told = _told(session, intake, homes, scratch)
        collected = Collected(None if manner.check else MOST_VIOLATIONS)
        collected.violations = told.violations(None if manner.check else MOST_VIOLATIONS)
        collected.counts = told.counts
        quarantine = None
        if target is not None:
            rejected = tuple(told.rejected)
            quarantine = ParquetQuarantine(scratch, rejected, told.blocks, told.rejected_count, target)
        tables = _tables(session, intake, homes, scratch, told)
        runner = SparkExecutor(session, "building indexes")
        yield ParsedInput(tables, collected, quarantine, _OnSpark(session), partial(_discard, manifest, tables), runner)


def _homes(intake: LoadContext, scratch: Table) -> Mapping[str, FragmentTarget]:
    """Where the rows of each type that may come are written."""
    if intake.input.source is None:
        frames = frame_types(intake.catalog, intake.input.nodes, intake.input.edges)
        keys = [type_.table_key for type_, _, _ in frames]
    else:
        keys = [type_.table_key for type_ in intake.catalog.types()]
    return {key: intake.targets.find(key) or FragmentTarget(scratch, "overwrite") for key in keys}


def _told(session: SparkSession, intake: LoadContext, homes: Mapping[str, FragmentTarget], scratch: Table) -> _Told:
    """Read everything, once: each time the tasks run they write files."""
    given, manner = intake.input, intake.options
    paths = [] if given.source is None else paths_of(given.source)
    orders = Orders(
        intake.catalog,
        {key: address_of(home.table, home.mode) for key, home in homes.items()},
        address_of(scratch, "overwrite"),
        manner.on_error == "quarantine",
        None if manner.check else MOST_VIOLATIONS,
        names_of(paths),
    )
    with spark_failures("reading a load"):
        parts = [lines_of(session, paths).mapInArrow(orders.records, RECEIPTS)] if paths else []
        parts += _frame_parts(session, intake, orders)
        receipts = reduce(lambda some, others: some.unionByName(others), parts).collect() if parts else []
    told = _Told()
    for _, kind, body in sorted(cast("list[tuple[int, str, str]]", receipts), key=lambda each: each[0]):
        told.add(Receipt(kind), orjson.loads(body))
    return told


def _frame_parts(session: SparkSession, intake: LoadContext, orders: Orders) -> list[DataFrame]:
    from omnigraph.spark.source import arrow_of

    found: list[DataFrame] = []
    for type_, name, frame in frame_types(intake.catalog, intake.input.nodes, intake.input.edges):
        rows = frame_of(session, name, frame)
        shape_of(intake.catalog, type_, name, arrow_of(rows.schema))
        numbered, files = with_files(rows)
        found.append(numbered.mapInArrow(partial(orders.frame, type_.table_key, name, files), RECEIPTS))
    return found


# --------------------------------------------------------------------------------------------- what tasks tell


@dataclass
class _Rows:
    """The rows of one table, as all tasks tell."""

    count: int = 0
    fresh: bool = True
    fragments: list[FragmentText] = field(default_factory=list[FragmentText])
    places: list[FragmentText] = field(default_factory=list[FragmentText])
    runs: list[Run] = field(default_factory=list[Run])


class _Told:
    """What all tasks tell, in the order of their partitions."""

    def __init__(self) -> None:
        self.rows: dict[str, _Rows] = {}
        self.rejected: list[FragmentText] = []
        self.rejected_count = 0
        self._lines: dict[tuple[str, int], int] = {}
        self._samples: list[Mapping[str, object]] = []
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, kind: Receipt, body: Mapping[str, object]) -> None:
        """Take note of one receipt."""
        match kind:
            case Receipt.ROWS:
                rows = self.rows.setdefault(cast(str, body["table_key"]), _Rows())
                rows.count += cast(int, body["rows"])
                rows.fresh = rows.fresh and cast(bool, body["fresh"])
                rows.fragments += cast("list[FragmentText]", body["fragments"])
                rows.places += cast("list[FragmentText]", body["places"])
                runs = [Run(count, file) for file, count in cast("list[tuple[str | None, int]]", body["runs"])]
                rows.runs += runs or [Run(cast(int, body["rows"]), noted=True)]
            case Receipt.BLOCK:
                self._lines[cast(str, body["file"]), cast(int, body["block"])] = cast(int, body["lines"])
            case Receipt.VIOLATION:
                self._samples.append(body)
            case Receipt.COUNTS:
                self._counts[cast(str, body["type"]), cast(str, body["rule"])] += cast(int, body["count"])
            case Receipt.REJECTED:
                self.rejected_count += cast(int, body["rows"])
                self.rejected += cast("list[FragmentText]", body["fragments"])

    @property
    def blocks(self) -> Blocks:
        """The lines of all blocks."""
        return Blocks(self._lines)

    @property
    def counts(self) -> Counts:
        """How often each rule was broken."""
        return self._counts

    def violations(self, limit: int | None) -> list[Violation]:
        """Examples of what is wrong with single rows, with their lines in their files."""
        blocks = self.blocks
        found = (
            replace(each, line=blocks.line(each.file, cast("int | None", sample["block"]), each.line))
            for sample, each in ((sample, violation_from(sample)) for sample in self._samples)
        )
        return sorted(found, key=lambda each: (each.file or "", each.line or 0))[:limit]


def _tables(
    session: SparkSession, intake: LoadContext, homes: Mapping[str, FragmentTarget], scratch: Table, told: _Told
) -> Mapping[str, IncomingRows]:
    """The rows of each table that the input touches; a frame touches its table even without rows."""
    frames = frame_types(intake.catalog, intake.input.nodes, intake.input.edges)
    keys = sorted({*told.rows, *(type_.table_key for type_, _, _ in frames)})
    found: dict[str, IncomingRows] = {}
    for key in keys:
        type_, rows = type_of(intake.catalog, key), told.rows.get(key, _Rows())
        places = StagedPlaces(scratch, rows.runs, tuple(rows.places), told.blocks)
        if rows.count:
            source = DistributedRows(type_, homes[key], tuple(rows.fragments), session=session)
        else:
            source = InMemoryRows(arrow_schema(type_).empty_table())
        found[key] = IncomingRows(type_, rows.fresh and bool(rows.count), places, source)
    return found


def _discard(manifest: Manifest, tables: Mapping[str, IncomingRows]) -> None:
    for rows in tables.values():
        source = rows.storage
        if isinstance(source, DistributedRows) and source.target.folder is not None:
            try:
                discard(manifest.objects, source.target.folder, source.fragments)
            except OmniGraphError as error:
                # It belongs to no version, so cleanup takes it when it is old.
                _log.warning("what a failed load wrote to %s stays for now: %s", source.target.folder, error)
