"""Load on Spark: executors read, check and write the rows, and this process makes one commit of them.

One job reads the input, checks each row against the row rules and writes fragments that no version contains yet; its
tasks return short reports. Further jobs over those fragments and the pinned snapshot check the set rules and find the
rows that a merge replaces. Everything else is :mod:`omnigraph.write.load.run` and the ordinary commit section. The
memory of this process does not grow with the rows.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import orjson

from omnigraph.errors import ParameterError, Violation
from omnigraph.language.schema import Catalog, Schema
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.spark.diagnosis import translate_spark_errors
from omnigraph.spark.executor import SparkExecutor, union_all
from omnigraph.spark.inputs import list_paths
from omnigraph.spark.load import incoming_rows as load_incoming
from omnigraph.spark.load.identity_matching import match_stored_rows
from omnigraph.spark.load.incoming_rows import BlockLines, DistributedRows, StagedPlaces
from omnigraph.spark.load.load_task import (
    PLACES,
    REPORT_COLUMNS,
    LoadTask,
    ReportKind,
    SourceRun,
    address_of,
    decode_violation,
)
from omnigraph.spark.load.quarantine import collect_rejected
from omnigraph.spark.load.rejected_rows import reject_rows
from omnigraph.spark.load.row_updates import complete_rows
from omnigraph.spark.load.sources import names_by_path, read_lines
from omnigraph.spark.load.staging import stage_rows
from omnigraph.spark.load.tables import map_tables
from omnigraph.spark.rules import ViolationFrame, check_changes, find_all_violations
from omnigraph.spark.scratch import ScratchFolder, create_table_in, open_scratch_folder
from omnigraph.spark.spool import Spool
from omnigraph.spark.task_errors import map_batches
from omnigraph.storage.tables import FragmentText, StagedChange, Table
from omnigraph.violation_groups import ViolationCounts, decode_counts
from omnigraph.write import load as loads
from omnigraph.write.commit import CommitOptions
from omnigraph.write.load import (
    LOCAL_LOAD_ENGINE,
    MAX_VIOLATIONS,
    NO_TYPE,
    ConversionReport,
    DataFile,
    FragmentTarget,
    GeneratedIds,
    IncomingRows,
    IncomingTable,
    InMemoryRows,
    IntegerTimes,
    LoadContext,
    LoadInput,
    LoadOptions,
    LoadResult,
    ParsedInput,
    RejectedRows,
    RowAdmission,
    RowIdentity,
    TypedTable,
    ViolationCollector,
    choose_rejects_target,
    refuse_empty_reader,
    resolve_tables,
    schema_of,
)
from omnigraph.write.rounding import RoundedColumn
from omnigraph.write.rules import IncomingMode, NodeIds, RowChanges, RuleCheckResult, type_of_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log: Final = logging.getLogger(__name__)


def load(
    session: SparkSession,
    manifest: Manifest,
    schema: Schema,
    given: LoadInput,
    options: LoadOptions,
    commit_options: CommitOptions,
) -> LoadResult:
    """Load everything as one commit, or nothing."""
    options = replace(options, engine="spark")
    executor = SparkExecutor(session, "bringing a branch to the schema")
    return loads.load(manifest, schema, given, options, commit_options, partial(_read_input, session), executor)


@dataclass(frozen=True, slots=True)
class _SparkLoadEngine:
    """Checks and stages rows on executors, or in this process if there are few."""

    executor: SparkExecutor
    folder: ScratchFolder
    scratch: Table

    def check(
        self,
        catalog: Catalog,
        snapshot: Snapshot,
        incoming: Sequence[IncomingTable],
        limit: int | None,
        rejected: NodeIds,
    ) -> RuleCheckResult:
        if _is_small(snapshot, incoming):
            return LOCAL_LOAD_ENGINE.check(catalog, snapshot, incoming, limit, rejected)
        with translate_spark_errors("checking a load"):
            executor = self.executor.doing("checking a load")
            return check_changes(executor, catalog, snapshot, incoming, limit, rejected=rejected)

    def reject(
        self, catalog: Catalog, snapshot: Snapshot, admission: RowAdmission
    ) -> tuple[Mapping[str, RejectedRows], frozenset[str]]:
        if not admission.rejects_rows or _is_small(snapshot, list(admission.tables.values())):
            return admission.reject_violating()
        executor = self.executor.doing("checking a load")
        spool = Spool(executor, lambda: self.folder)

        def find(incoming: Sequence[IncomingTable]) -> ViolationFrame:
            return find_all_violations(executor, catalog, snapshot, incoming, spool.keep)

        with translate_spark_errors(executor.activity):
            return reject_rows(executor, self.scratch, admission, find)

    def match(self, table: Table, rows: IncomingRows, identity: RowIdentity | None) -> IncomingRows:
        executor = self.executor.doing("matching a load")
        with translate_spark_errors(executor.activity):
            return match_stored_rows(executor, self.scratch, table, rows, identity)

    def complete(self, table: Table | None, rows: IncomingRows, identity: RowIdentity | None) -> IncomingRows:
        executor = self.executor.doing("matching a load")
        with translate_spark_errors(executor.activity):
            return complete_rows(executor, self.scratch, table, rows, identity)

    def stage(self, table: Table, incoming: IncomingTable) -> StagedChange | None:
        if incoming.rows.count <= load_incoming.LOCAL_LOAD_ROWS:
            return LOCAL_LOAD_ENGINE.stage(table, incoming)
        with translate_spark_errors("staging a load"):
            return stage_rows(self.executor.doing("staging a load"), table, incoming)

    def list_row_changes(self, catalog: Catalog, incoming: Sequence[IncomingTable]) -> tuple[RowChanges, ...] | None:
        """Return the rows if they are few. Others are on executors, where they are checked again."""
        if any(each.rows.given > load_incoming.LOCAL_LOAD_ROWS for each in incoming):
            return None
        return LOCAL_LOAD_ENGINE.list_row_changes(catalog, incoming)


def _is_small(snapshot: Snapshot, incoming: Sequence[IncomingTable]) -> bool:
    """Return whether the rules only have to look up a few values. The rules of an overwrite read all replaced rows."""
    overwrites = any(each.mode is IncomingMode.OVERWRITE for each in incoming)
    replaced = sum(pin.row_count for pin in snapshot.pins.values()) if overwrites else 0
    return replaced + sum(each.rows.count for each in incoming) <= load_incoming.LOCAL_LOAD_ROWS


# --------------------------------------------------------------------------------------------- reading


@contextmanager
def _read_input(session: SparkSession, context: LoadContext) -> Generator[ParsedInput]:
    """Read the input on executors into fragments: in the folders of the tables where possible, else in the scratch."""
    options, manifest = context.options, context.manifest
    quarantined = options.on_error == "quarantine"
    target = choose_rejects_target(manifest.location, options.rejects, ".parquet") if quarantined else None
    executor = SparkExecutor(session, "reading a load")
    typed = resolve_tables(context.catalog, context.input)
    with open_scratch_folder(manifest) as folder:
        scratch = create_table_in(folder, manifest, PLACES)
        targets = _choose_targets(context, typed, scratch)
        report = _read_all(executor, context, typed, targets, scratch)
        collected = ViolationCollector(None if options.check else MAX_VIOLATIONS)
        collected.violations = report.violations(None if options.check else MAX_VIOLATIONS)
        collected.counts, collected.locate = report.counts, report.locate
        quarantine = None
        if target is not None:
            rejected = tuple(report.rejected)
            writer = executor.doing("writing rejected records")
            quarantine = collect_rejected(writer, scratch, rejected, report.blocks, report.rejected_counts, target)
        tables = _incoming_tables(executor, context, typed, targets, scratch, report)
        try:
            _refuse_empty_readers(context.input, typed, report)
        except ParameterError:
            _discard_fragments(manifest, tables)
            raise
        yield ParsedInput(
            tables,
            collected,
            quarantine,
            _SparkLoadEngine(executor, folder, scratch),
            partial(_discard_fragments, manifest, tables),
            executor.doing("building indexes"),
            report.collect_conversions(),
        )


def _refuse_empty_readers(given: LoadInput, typed: Iterable[TypedTable], report: _LoadReport) -> None:
    for table in typed:
        key = table.type.table_key
        if key not in report.rows and not report.rejected_counts[key]:
            refuse_empty_reader(given, table)


def _choose_targets(context: LoadContext, typed: Iterable[TypedTable], scratch: Table) -> Mapping[str, FragmentTarget]:
    """Choose where the rows of each type that the input may have are written."""
    if context.input.source is None:
        keys = [each.type.table_key for each in typed]
    else:
        keys = [type_.table_key for type_ in context.catalog.types()]
    return {key: context.targets.find(key) or FragmentTarget(scratch, "overwrite") for key in keys}


def _read_all(
    executor: SparkExecutor,
    context: LoadContext,
    typed: Sequence[TypedTable],
    targets: Mapping[str, FragmentTarget],
    scratch: Table,
) -> _LoadReport:
    """Read the input. If a record spans two parts of a CSV file, read it again, and such a file as a whole."""
    report = _run_read_job(executor, context, typed, targets, scratch)
    if not report.divided:
        return report
    _log.info("read again, since a record spans two parts of a file: %s", ", ".join(sorted(report.divided)))
    for key, rows in report.rows.items():
        targets[key].discard(context.manifest.objects, rows.fragments)
    return _run_read_job(executor, context, _read_whole(typed, report.divided), targets, scratch)


def _read_whole(typed: Iterable[TypedTable], names: Collection[str]) -> list[TypedTable]:
    """Let one task read each CSV file that is named. A remote path may be a pattern, so all remote ones are meant."""
    found: list[TypedTable] = []
    for table in typed:
        file = table.rows
        if isinstance(file, DataFile) and (file.path in names or not file.is_local):
            file = replace(file, csv=replace(file.csv, spans_lines=True))
        found.append(replace(table, rows=file))
    return found


def _run_read_job(
    executor: SparkExecutor,
    context: LoadContext,
    typed: Sequence[TypedTable],
    targets: Mapping[str, FragmentTarget],
    scratch: Table,
) -> _LoadReport:
    """Read the input in one job. It is collected once: tasks write files each time they run."""
    given, options = context.input, context.options
    paths = [] if given.source is None else list_paths(given.source)
    task = LoadTask(
        context.catalog,
        {key: address_of(target.table, target.mode) for key, target in targets.items()},
        address_of(scratch, "overwrite"),
        options.on_error == "quarantine",
        None if options.check else MAX_VIOLATIONS,
        names_by_path([*paths, *(each.name for each in typed if isinstance(each.rows, DataFile))]),
        given.form,
        options.allow_missing_blobs,
        context.policy,
    )
    with translate_spark_errors("reading a load"):
        records = partial(task.read_records, None)
        parts = [map_batches(read_lines(executor.session, paths), records, REPORT_COLUMNS)] if paths else []
        parts += map_tables(executor, context.catalog, typed, task)
        rows = executor.collect(union_all(parts)) if parts else []
    report = _LoadReport()
    for _, kind, body in sorted(cast("list[tuple[int, str, str]]", rows), key=lambda each: each[0]):
        report.add(ReportKind(kind), orjson.loads(body))
    return report


# --------------------------------------------------------------------------------------------- reports of tasks


@dataclass
class _TableReport:
    """The rows of one table that all tasks wrote."""

    count: int = 0
    generated: GeneratedIds = field(default_factory=GeneratedIds)
    fragments: list[FragmentText] = field(default_factory=list[FragmentText])
    places: list[FragmentText] = field(default_factory=list[FragmentText])
    runs: list[SourceRun] = field(default_factory=list[SourceRun])


class _LoadReport:
    """The reports of all tasks, in the order of their partitions."""

    def __init__(self) -> None:
        self.rows: dict[str, _TableReport] = {}
        self.rejected: list[FragmentText] = []
        self.rejected_counts: Counter[str] = Counter()
        self.divided: set[str] = set()
        self._lines: dict[tuple[str, int], int] = {}
        self._samples: list[Mapping[str, object]] = []
        self.counts = ViolationCounts()
        self._rounded: list[tuple[RoundedColumn, int | None]] = []
        self._conversions = ConversionReport()

    def add(self, kind: ReportKind, body: Mapping[str, object]) -> None:
        """Add one report."""
        match kind:
            case ReportKind.ROWS:
                rows = self.rows.setdefault(cast(str, body["table_key"]), _TableReport())
                rows.count += cast(int, body["rows"])
                for count, generated in cast("list[tuple[int, bool]]", body["generated"]):
                    rows.generated.add(count, generated=generated)
                rows.fragments += cast("list[FragmentText]", body["fragments"])
                rows.places += cast("list[FragmentText]", body["places"])
                rows.runs += [SourceRun(**each) for each in cast("list[dict[str, Any]]", body["runs"])]
            case ReportKind.BLOCK:
                self._lines[cast(str, body["file"]), cast(int, body["block"])] = cast(int, body["lines"])
            case ReportKind.DIVIDED:
                self.divided.add(cast(str, body["file"]))
            case ReportKind.VIOLATION:
                self._samples.append(body)
            case ReportKind.COUNTS:
                self.counts.merge(decode_counts(cast(str, body["counts"])))
            case ReportKind.ROUNDED:
                fields = {name: value for name, value in body.items() if name != "block"}
                self._rounded.append((RoundedColumn(**cast("Any", fields)), cast("int | None", body["block"])))
            case ReportKind.TIMES:
                times = IntegerTimes(cast(int, body["count"]), cast(int, body["january"]))
                self._conversions.add_times(cast(str, body["table_key"]), cast(str, body["property"]), times)
            case ReportKind.REJECTED:
                self.rejected_counts.update(cast("Mapping[str, int]", body["counts"]))
                self.rejected += cast("list[FragmentText]", body["fragments"])

    @property
    def blocks(self) -> BlockLines:
        """The number of lines in all blocks."""
        return BlockLines(self._lines)

    def locate(self, violation: Violation, block: int | None) -> Violation:
        """Return a violation with the line number in its file, which was relative to a block."""
        return replace(violation, line=self.blocks.line_in_file(violation.file, block, violation.line))

    def collect_conversions(self) -> ConversionReport:
        """Return what all tasks changed in values, with line numbers in their files. Call it once."""
        blocks = self.blocks
        placed = [
            replace(column, line=blocks.line_in_file(column.file, block, column.line))
            for column, block in self._rounded
        ]
        for column in sorted(placed, key=lambda column: (column.file or "", column.line or 0)):
            self._conversions.add_rounded(column)
        return self._conversions

    def violations(self, limit: int | None) -> list[Violation]:
        """Return examples of violations of row rules, with line numbers in their files."""
        found = (self.locate(decode_violation(sample), cast("int | None", sample["block"])) for sample in self._samples)
        return sorted(found, key=lambda each: (each.file or "", each.line or 0))[:limit]


def _incoming_tables(
    executor: SparkExecutor,
    context: LoadContext,
    typed: Iterable[TypedTable],
    targets: Mapping[str, FragmentTarget],
    scratch: Table,
    report: _LoadReport,
) -> Mapping[str, IncomingRows]:
    """Return the rows of each table that the input touches; a frame touches its table even if it is empty."""
    rejected = {key for key in report.rejected_counts if key != NO_TYPE}
    keys = sorted({*report.rows, *rejected, *(each.type.table_key for each in typed)})
    found: dict[str, IncomingRows] = {}
    for key in keys:
        type_, rows = type_of_table(context.catalog, key), report.rows.get(key, _TableReport())
        schema = schema_of(context.input.form, type_)
        places = StagedPlaces(scratch, rows.runs, tuple(rows.places), report.blocks)
        if rows.count:
            source = DistributedRows(
                type_, schema, targets[key], tuple(rows.fragments), executor=executor.doing("staging a load")
            )
        else:
            source = InMemoryRows(schema.empty_table())
        found[key] = IncomingRows(type_, rows.generated, places, source)
    return found


def _discard_fragments(manifest: Manifest, tables: Mapping[str, IncomingRows]) -> None:
    for rows in tables.values():
        if isinstance(rows.storage, DistributedRows):
            rows.storage.target.discard(manifest.objects, rows.storage.fragments)
