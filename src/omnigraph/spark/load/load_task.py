"""The task of a load on an executor: read rows of one partition, check the row rules, write fragments.

No version contains what a task writes, so a task that fails, is repeated or runs twice leaves files that nobody sees.
Only its reports count, a few lines of JSON, and Spark returns those of one attempt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from enum import StrEnum
from functools import partial
from itertools import pairwise
from typing import Final, cast
from urllib.parse import unquote, urlsplit

import numpy as np
import orjson
import pyarrow as pa

from omnigraph.errors import Violation
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage import tables
from omnigraph.storage.columns import column_of, encode_values, make_nulls, to_list
from omnigraph.storage.external_objects import find_missing_objects
from omnigraph.storage.internal_columns import InternalColumn
from omnigraph.storage.tables import Access, FragmentText, Table, WriteMode, open_table
from omnigraph.violation_groups import ViolationCounts, encode_counts
from omnigraph.write.load import (
    BATCH_ROWS,
    MAX_BUFFERED_BYTES,
    ArrowValues,
    ColumnMapping,
    ConversionReport,
    GeneratedIds,
    LineBlock,
    ObjectReader,
    RawBatch,
    RejectedRecord,
    RoundingPolicy,
    RowForm,
    ValidatedBatch,
    parse_block,
    schema_of,
    table_key_of,
    to_rejects_line,
    validate_batch,
)
from omnigraph.write.rules import type_of_table

LINE: Final = "line"
BLOCK: Final = "block"
ENDS_FILE: Final = "ends_file"
"""The columns of lines, with their file. A block is the byte offset at which a split of a file starts."""

PATH: Final = "path"
CONTENT: Final = "content"
"""The columns of a whole file, as Spark's ``binaryFile`` has them."""

REPORT_COLUMNS: Final = "partition long, kind string, body string"

PLACES: Final = pa.schema([pa.field("file", pa.string()), pa.field("block", pa.int64()), pa.field("line", pa.int64())])
"""The place of a row that has a line: the file, the block, and the line in the block, from 1."""

REJECTED: Final = pa.schema(
    [
        pa.field("record", pa.string()),
        *cast("Iterable[pa.Field[pa.DataType]]", PLACES),
        *(pa.field(name, pa.string()) for name in ("type", "id", "rule", "message", "table_key")),
    ]
)
_BOM: Final = b"\xef\xbb\xbf"
_REPORT_SCHEMA: Final = pa.schema(
    [pa.field("partition", pa.int64()), pa.field("kind", pa.string()), pa.field("body", pa.string())]
)
MAX_BATCH_BYTES: Final = 16 * 1024 * 1024
"""Rows are read and checked in batches of at most about this size, whatever one batch of Spark holds."""
_MAX_BUFFERED_REJECTED: Final = 10_000
"""The most rejected records that a task buffers."""
MAX_REJECTED_BYTES: Final = 8 * 1024 * 1024
"""The most characters of rejected records that a task buffers."""


class ReportKind(StrEnum):
    """What a report of a task is about."""

    ROWS = "rows"
    """Rows of one table, in fragments."""
    BLOCK = "block"
    """The number of lines in a block of a file."""
    VIOLATION = "violation"
    """One example of a violation."""
    COUNTS = "counts"
    """The counts of all violations, with or without examples."""
    DIVIDED = "divided"
    """A file with a record that spans two blocks. It has to be read as a whole."""
    ROUNDED = "rounded"
    """The rounded values of a column, and the first of them."""
    TIMES = "times"
    """The integers of a column that were taken as times."""
    REJECTED = "rejected"
    """Rejected records, in fragments."""


@dataclass(frozen=True, slots=True)
class TableAddress:
    """A pinned table that a task opens when it has rows for it, and how it writes there."""

    uri: str
    branch: str | None
    version: int
    access: Access
    mode: WriteMode

    def open(self) -> Table:
        """Open the table."""
        return open_table(self.uri, self.branch, self.version, self.access)


def address_of(table: Table, mode: WriteMode) -> TableAddress:
    """The address of an open table."""
    return TableAddress(table.uri, table.branch, table.version, table.access, mode)


@dataclass(frozen=True, slots=True)
class LoadTask:
    """What every task of a load needs: where the rows of each table go; everything else goes to ``scratch``.

    A task describes at most ``max_violations``, None for all. With ``keeps_rejected`` it writes the records instead.
    """

    catalog: Catalog
    targets: Mapping[str, TableAddress]
    scratch: TableAddress
    keeps_rejected: bool
    max_violations: int | None
    names: Mapping[str, str]
    """The names of files as the user gave them, by path."""
    form: RowForm = RowForm.WHOLE
    allow_missing_blobs: bool = False
    """Whether blobs may refer to objects that are not there."""
    policy: RoundingPolicy = field(default_factory=RoundingPolicy)

    def read_records(
        self, to_record: ObjectReader | None, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Read one partition of lines of graph records, or of objects that become records; yield the reports."""
        writer = PartitionWriter(self)
        for run in split_by_block(batches):
            lines = cast("list[bytes]", to_list(column_of(run.rows, LINE)))
            block = LineBlock(
                self.display_name(run.file),
                writer.count_lines(run, len(lines)),
                _strip_byte_order_mark(run, lines, writer),
            )
            for found in parse_block(self.catalog, block, to_record, self.form):
                writer.add(found, run.block)
        yield writer.finish()

    def read_frame(
        self, table_key: str, name: str, files: Mapping[int, str], zone: str, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Read one partition of a frame whose columns were checked; yield the reports.

        ``files`` are by number. ``zone`` is the time zone of times without one.
        """
        values = ArrowValues(zone)
        writer, type_ = PartitionWriter(self), type_of_table(self.catalog, table_key)
        for number, rows in _split_by_file(batches):
            file = None if number is None else self.display_name(files.get(number))
            # Rows of a distributed frame have no row numbers.
            lines = make_nulls(rows.num_rows, pa.int64())
            columns = ColumnMapping(self.catalog, type_, rows.schema, values, self.form)
            writer.add(columns.to_raw_batch(file or name, lines, rows), None)
        yield writer.finish()

    def display_name(self, file: str | None) -> str | None:
        """Return the name that the user gave for a file, from the URI that Spark gives."""
        if not file:
            return None
        parts = urlsplit(file)
        path = unquote(parts.path) if parts.scheme == "file" else unquote(file)
        return self.names.get(path, path)


# --------------------------------------------------------------------------------------------- rows of one file


@dataclass(frozen=True, slots=True)
class BlockRows:
    """Consecutive rows of one block of one file."""

    file: str | None
    block: int | None
    rows: pa.RecordBatch


def split_by_block(batches: Iterable[pa.RecordBatch]) -> Iterator[BlockRows]:
    """Yield consecutive rows of one block."""
    for batch in _split_large(batches):
        files = column_of(batch, InternalColumn.FILE)
        blocks = column_of(batch, BLOCK) if BLOCK in batch.schema.names else make_nulls(batch.num_rows, pa.int64())
        changed = np.diff(encode_values(files)) | np.diff(encode_values(blocks))
        bounds = [0, *(np.flatnonzero(changed) + 1).tolist(), batch.num_rows] if batch.num_rows else []
        for start, end in pairwise(bounds):
            file, block = (to_list(each.slice(start, 1))[0] for each in (files, blocks))
            yield BlockRows(cast("str | None", file), cast("int | None", block), batch.slice(start, end - start))


def _split_by_file(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int | None, pa.RecordBatch]]:
    """Yield consecutive rows of one file with its number, in larger batches than those of Spark."""
    buffer: list[pa.RecordBatch] = []
    before: int | None = None
    for batch in _split_large(batches):
        numbers, rows = (
            column_of(batch, InternalColumn.FILE),
            batch.remove_column(batch.schema.get_field_index(InternalColumn.FILE)),
        )
        bounds = [0, *(np.flatnonzero(np.diff(encode_values(numbers))) + 1).tolist(), batch.num_rows]
        for start, end in pairwise(bounds if batch.num_rows else []):
            number = cast("int | None", to_list(numbers.slice(start, 1))[0])
            following = rows.slice(start, end - start)
            if buffer and (number != before or _is_full([*buffer, following])):
                yield before, _combine_batches(buffer)
                buffer = []
            before = number
            buffer.append(following)
    if buffer:
        yield before, _combine_batches(buffer)


def _is_full(batches: Sequence[pa.RecordBatch]) -> bool:
    return sum(each.num_rows for each in batches) > BATCH_ROWS or sum(each.nbytes for each in batches) > MAX_BATCH_BYTES


def _split_large(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches, divided so that no batch has more bytes than the limit, unless it is one row."""
    for batch in batches:
        if batch.nbytes <= MAX_BATCH_BYTES or batch.num_rows <= 1:
            yield batch
            continue
        half = batch.num_rows // 2
        yield from _split_large((batch.slice(0, half), batch.slice(half)))


def _combine_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    rows = pa.Table.from_batches(batches)
    return pa.RecordBatch.from_arrays([column_of(rows, name) for name in rows.schema.names], schema=rows.schema)


def _strip_byte_order_mark(run: BlockRows, lines: list[bytes], writer: PartitionWriter) -> list[bytes]:
    """Remove the byte order mark from the first line of a file."""
    is_first = run.block == 0 and writer.lines[run.file or "", 0] == len(lines)
    return [lines[0].removeprefix(_BOM), *lines[1:]] if is_first else lines


# --------------------------------------------------------------------------------------------- one partition


@dataclass(frozen=True, slots=True)
class SourceRun:
    """Consecutive rows that come from one file, or whose places are in the scratch table.

    ``first`` is the number of the first of them in the file, if it is known; the others follow it.
    """

    count: int
    file: str | None = None
    first: int | None = None
    has_places: bool = False

    def join(self, following: SourceRun) -> SourceRun | None:
        """Return one run for this and the rows that follow; None if they do not come from the same place."""
        continued = None if self.first is None else self.first + self.count
        expected = (self.file, continued, self.has_places)
        if (following.file, following.first, following.has_places) != expected:
            return None
        return replace(self, count=self.count + following.count)


@dataclass(slots=True)
class _TableBuffer:
    """The rows of one table that are not written yet, and the fragments that are."""

    type: NodeType | EdgeType
    batches: list[pa.RecordBatch] = field(default_factory=list[pa.RecordBatch])
    places: list[pa.RecordBatch] = field(default_factory=list[pa.RecordBatch])
    runs: list[SourceRun] = field(default_factory=list[SourceRun])
    bytes: int = 0
    rows: int = 0
    generated: GeneratedIds = field(default_factory=GeneratedIds)
    fragments: list[FragmentText] = field(default_factory=list[FragmentText])
    place_fragments: list[FragmentText] = field(default_factory=list[FragmentText])

    def add_run(self, run: SourceRun) -> None:
        """Add the source of the next rows."""
        joined = self.runs[-1].join(run) if self.runs else None
        if joined is None:
            self.runs.append(run)
        else:
            self.runs[-1] = joined


class PartitionWriter:
    """Checks, buffers and writes the rows of one partition."""

    def __init__(self, task: LoadTask) -> None:
        self.lines: Counter[tuple[str, int]] = Counter()
        self.divided: set[str] = set()
        self._task = task
        self._find_missing = None
        if not task.allow_missing_blobs:
            self._find_missing = partial(find_missing_objects, storage_options=task.scratch.access.storage_options)
        self._buffers: dict[str, _TableBuffer] = {}
        self._violations: list[Mapping[str, object]] = []
        self._counts = ViolationCounts()
        self._blocks_of_rounded: dict[tuple[str, str], int | None] = {}
        self._conversions = ConversionReport()
        self._rejected: list[Mapping[str, object]] = []
        self._rejected_bytes = 0
        self._rejected_counts: Counter[str] = Counter()
        self._rejected_fragments: list[FragmentText] = []
        self._opened: dict[str, Table] = {}

    def count_lines(self, run: BlockRows, count: int) -> int:
        """Count the lines of a run; return the number of its first line in the block, from 1."""
        key = (run.file or "", run.block or 0)
        self.lines[key] += count
        return self.lines[key] - count + 1

    def add(self, found: RawBatch | RejectedRecord, block: int | None) -> None:
        """Check rows against the row rules; buffer those that pass, and write full buffers."""
        if isinstance(found, RejectedRecord):
            self._reject(found, block)
            return
        validated = validate_batch(found, self._find_missing, self._task.policy)
        self._conversions.add(validated)
        for column in validated.rounded:
            self._blocks_of_rounded.setdefault((column.table_key or "", column.property), block)
        for rejected in validated.rejected:
            self._reject(rejected, block)
        self._buffer(validated, block)
        while sum(buffer.bytes for buffer in self._buffers.values()) > MAX_BUFFERED_BYTES:
            self._write(*max(self._buffers.items(), key=lambda item: item[1].bytes))

    def finish(self) -> pa.RecordBatch:
        """Write the remaining rows and return the reports."""
        from pyspark import TaskContext

        for key, buffer in self._buffers.items():
            self._write(key, buffer)
        self._write_rejected()
        reports = list(self._reports())
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        columns = [
            pa.array([partition] * len(reports), pa.int64()),
            pa.array([kind.value for kind, _ in reports], pa.string()),
            pa.array([orjson.dumps(body).decode() for _, body in reports], pa.string()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_REPORT_SCHEMA)

    def _reports(self) -> Iterator[tuple[ReportKind, Mapping[str, object]]]:
        for key, buffer in self._buffers.items():
            rows = {
                "fragments": buffer.fragments,
                "places": buffer.place_fragments,
                "runs": [asdict(run) for run in buffer.runs],
                "generated": list(buffer.generated.iterate_runs()),
            }
            yield ReportKind.ROWS, {"table_key": key, "rows": buffer.rows, **rows}
        for (file, block), lines in self.lines.items():
            yield ReportKind.BLOCK, {"file": self._task.display_name(file), "block": block, "lines": lines}
        for file in self.divided:
            yield ReportKind.DIVIDED, {"file": self._task.display_name(file)}
        for sample in self._violations:
            yield ReportKind.VIOLATION, sample
        if self._counts.total:
            yield ReportKind.COUNTS, {"counts": encode_counts(self._counts)}
        for key, column in self._conversions.rounded.items():
            yield ReportKind.ROUNDED, {**asdict(column), "block": self._blocks_of_rounded[key]}
        for (table_key, name), times in self._conversions.times.items():
            yield ReportKind.TIMES, {"table_key": table_key, "property": name, **asdict(times)}
        if self._rejected_counts:
            yield ReportKind.REJECTED, {"counts": self._rejected_counts, "fragments": self._rejected_fragments}

    def _buffer(self, validated: ValidatedBatch, block: int | None) -> None:
        count = validated.rows.num_rows
        if not count:
            return
        buffer = self._buffers.setdefault(validated.type.table_key, _TableBuffer(validated.type))
        buffer.batches.append(validated.rows)
        buffer.bytes += validated.rows.nbytes
        buffer.rows += count
        buffer.generated.add(count - validated.generated, generated=False)
        buffer.generated.add(validated.generated, generated=True)
        run = None if block is not None else _find_run(validated)
        buffer.add_run(run or SourceRun(count, has_places=True))
        if run is not None:
            return
        repeated = np.zeros(count, np.int64)
        file, at = pa.array([validated.file], pa.string()), pa.array([block], pa.int64())
        columns = [file.take(repeated), at.take(repeated), validated.lines.cast(pa.int64())]
        buffer.places.append(pa.RecordBatch.from_arrays(columns, schema=PLACES))

    def _write(self, key: str, buffer: _TableBuffer) -> None:
        if not buffer.batches:
            return
        address = self._task.targets[key]
        rows = pa.Table.from_batches(buffer.batches, schema_of(self._task.form, buffer.type))
        buffer.fragments += tables.write_rows(self._open(address), rows, address.mode)
        if buffer.places:
            buffer.place_fragments += self._write_scratch(pa.Table.from_batches(buffer.places, PLACES))
        buffer.batches, buffer.places, buffer.bytes = [], [], 0

    def _reject(self, rejected: RejectedRecord, block: int | None) -> None:
        if self._task.keeps_rejected:
            self._rejected.append({**to_rejects_line(rejected), "block": block})
            self._rejected_counts[table_key_of(rejected)] += 1
            self._rejected_bytes += len(rejected.record)
            if len(self._rejected) >= _MAX_BUFFERED_REJECTED or self._rejected_bytes > MAX_REJECTED_BYTES:
                self._write_rejected()
            return
        for violation in rejected.violations:
            self._counts.add(violation, block)
        limit = self._task.max_violations
        left = None if limit is None else max(0, limit - len(self._violations))
        self._violations += [{**asdict(each), "block": block} for each in rejected.violations[:left]]

    def _write_rejected(self) -> None:
        if self._rejected:
            self._rejected_fragments += self._write_scratch(pa.Table.from_pylist(list(self._rejected), REJECTED))
            self._rejected, self._rejected_bytes = [], 0

    def _write_scratch(self, rows: pa.Table) -> tuple[FragmentText, ...]:
        return tables.write_rows(self._open(self._task.scratch), rows, "overwrite")

    def _open(self, address: TableAddress) -> Table:
        key = f"{address.uri} {address.branch}"
        return self._opened.get(key) or self._opened.setdefault(key, address.open())


def _find_run(validated: ValidatedBatch) -> SourceRun | None:
    """Return rows of a file as a run; None if rows between them are missing, or they are in another order."""
    count, lines = validated.rows.num_rows, validated.lines
    if lines.null_count:
        return SourceRun(count, validated.file)
    numbers = lines.to_numpy(zero_copy_only=False)
    is_consecutive = bool((np.diff(numbers) == 1).all())
    return SourceRun(count, validated.file, int(numbers[0])) if is_consecutive else None


def decode_violation(sample: Mapping[str, object]) -> Violation:
    """Decode the violation of a report; its line is still relative to the block."""
    fields = {name: value for name, value in sample.items() if name != "block"}
    return Violation(**{**fields, "ids": tuple(cast("list[str]", fields["ids"]))})  # pyright: ignore[reportArgumentType]  the fields come from asdict
