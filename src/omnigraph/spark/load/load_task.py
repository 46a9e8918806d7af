"""What an executor does with its part of a load: rows are read, checked one by one, and written as fragments.

Nothing that a task writes belongs to a version, so a task that fails, is repeated or runs twice leaves files that
nobody sees. Only what it hands back counts, and Spark takes that of one attempt: its receipts, a few lines of JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from typing import Final, cast
from urllib.parse import unquote, urlsplit

import numpy as np
import orjson
import pyarrow as pa

from omnigraph.errors import Violation
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.storage import table_writes as tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import absent, column_of, to_list, value_codes
from omnigraph.storage.staging import FragmentText
from omnigraph.storage.table import Access, Table, open_table
from omnigraph.storage.table_writes import WriteMode
from omnigraph.write.load import (
    BATCH_ROWS,
    MAX_BUFFERED_BYTES,
    ColumnMapping,
    LineBlock,
    RawBatch,
    RejectedRecord,
    ValidatedBatch,
    parse_block,
    to_rejects_line,
    validate_batch,
)
from omnigraph.write.rules import type_of_table

LINE: Final = "__omnigraph_line"
FILE: Final = "__omnigraph_file"
BLOCK: Final = "__omnigraph_block"
"""The columns of a source that tell where a row stands. A block is where in its file a part begins, in bytes."""

REPORT_COLUMNS: Final = "partition long, kind string, body string"

PLACES: Final = pa.schema([pa.field("file", pa.string()), pa.field("block", pa.int64()), pa.field("line", pa.int64())])
"""Where rows with lines stand: a file, a block of it, and a line of the block, from 1. One row for each of them."""

REJECTED: Final = pa.schema(
    [
        pa.field("record", pa.string()),
        *cast("Iterable[pa.Field[pa.DataType]]", PLACES),
        *(pa.field(name, pa.string()) for name in ("type", "id", "rule", "message")),
    ]
)
_BOM: Final = b"\xef\xbb\xbf"
_REPORT_SCHEMA: Final = pa.schema(
    [pa.field("partition", pa.int64()), pa.field("kind", pa.string()), pa.field("body", pa.string())]
)
_MAX_BUFFERED_REJECTED: Final = 10_000
"""So many rejected records are held by a task at most."""


class ReportKind(StrEnum):
    """What a task tells about its part."""

    ROWS = "rows"
    """Rows of one table, in fragments."""
    BLOCK = "block"
    """How many lines a block of a file has."""
    VIOLATION = "violation"
    """One example of what is wrong."""
    COUNTS = "counts"
    """How often each rule was broken, whether there is an example of it or not."""
    REJECTED = "rejected"
    """Rejected records, in fragments."""


@dataclass(frozen=True, slots=True)
class TableAddress:
    """A pinned table that a task opens if it has a row for it, and in which way it writes there."""

    uri: str
    branch: str | None
    version: int
    access: Access
    mode: WriteMode

    def open(self) -> Table:
        """The table itself."""
        return open_table(self.uri, self.branch, self.version, self.access)


def address_of(table: Table, mode: WriteMode) -> TableAddress:
    """Where a task finds a table."""
    return TableAddress(table.uri, table.branch, table.version, table.access, mode)


@dataclass(frozen=True, slots=True)
class LoadTask:
    """What every task of a load is told: where the rows of each table go, and everything else goes to ``scratch``.

    ``samples``: how many violations a task describes, None for all; with a quarantine it writes down the records.
    """

    catalog: Catalog
    homes: Mapping[str, TableAddress]
    scratch: TableAddress
    keeps_rejected: bool
    max_violations: int | None
    names: Mapping[str, str]
    """Files as the user named them, by path."""

    def read_records(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The task of one partition of lines of graph records."""
        part = _PartitionWriter(self)
        for run in _split_by_block(batches):
            lines = cast("list[bytes]", to_list(column_of(run.rows, LINE)))
            block = LineBlock(
                self.display_name(run.file), part.count_lines(run, len(lines)), _strip_byte_order_mark(run, lines, part)
            )
            for found in parse_block(self.catalog, block):
                part.add(found, run.block)
        yield part.finish()

    def read_frame(
        self, table_key: str, name: str, files: Mapping[int, str], batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """The task of one partition of a frame, whose columns were found to be right; its files by their numbers."""
        part, type_ = _PartitionWriter(self), type_of_table(self.catalog, table_key)
        for number, rows in _split_by_file(batches):
            draft = ColumnMapping(self.catalog, type_, rows.schema).to_raw_batch(name, 1, rows)
            file = None if number is None else self.display_name(files.get(number))
            # The rows of a distributed frame have no numbers.
            part.add(replace(draft, file=file or name, lines=absent(rows.num_rows, pa.int64())), None)
        yield part.finish()

    def display_name(self, file: str | None) -> str | None:
        """A file that Spark names by its URI, as the user named it."""
        if not file:
            return None
        parts = urlsplit(file)
        path = unquote(parts.path) if parts.scheme == "file" else unquote(file)
        return self.names.get(path, path)


# --------------------------------------------------------------------------------------------- runs of one file


@dataclass(frozen=True, slots=True)
class _BlockRows:
    """Rows that stand one after the other in one block of one file."""

    file: str | None
    block: int | None
    rows: pa.RecordBatch


def _split_by_block(batches: Iterable[pa.RecordBatch]) -> Iterator[_BlockRows]:
    for batch in batches:
        files = column_of(batch, FILE)
        blocks = column_of(batch, BLOCK) if BLOCK in batch.schema.names else absent(batch.num_rows, pa.int64())
        moved = np.diff(value_codes(files)) | np.diff(value_codes(blocks))
        bounds = [0, *(np.flatnonzero(moved) + 1).tolist(), batch.num_rows] if batch.num_rows else []
        for start, end in pairwise(bounds):
            file, block = (to_list(each.slice(start, 1))[0] for each in (files, blocks))
            yield _BlockRows(cast("str | None", file), cast("int | None", block), batch.slice(start, end - start))


def _split_by_file(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int | None, pa.RecordBatch]]:
    """Rows that stand one after the other in one file, by its number; in larger pieces than those of Spark."""
    held: list[pa.RecordBatch] = []
    before: int | None = None
    for batch in batches:
        numbers, rows = column_of(batch, FILE), batch.remove_column(batch.schema.get_field_index(FILE))
        bounds = [0, *(np.flatnonzero(np.diff(value_codes(numbers))) + 1).tolist(), batch.num_rows]
        for start, end in pairwise(bounds if batch.num_rows else []):
            number = cast("int | None", to_list(numbers.slice(start, 1))[0])
            if held and (number != before or sum(each.num_rows for each in held) >= BATCH_ROWS):
                yield before, _combine_batches(held)
                held = []
            before = number
            held.append(rows.slice(start, end - start))
    if held:
        yield before, _combine_batches(held)


def _combine_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    rows = pa.Table.from_batches(batches)
    return pa.RecordBatch.from_arrays([column_of(rows, name) for name in rows.schema.names], schema=rows.schema)


def _strip_byte_order_mark(run: _BlockRows, lines: list[bytes], part: _PartitionWriter) -> list[bytes]:
    """The lines, without the byte order mark that a file may begin with."""
    first_of_all = run.block == 0 and part.lines[run.file or "", 0] == len(lines)
    return [lines[0].removeprefix(_BOM), *lines[1:]] if first_of_all else lines


# --------------------------------------------------------------------------------------------- the part of one task


@dataclass(slots=True)
class _TableBuffer:
    """Rows of one table that wait to be written, and what was written of it before."""

    type: NodeType | EdgeType
    batches: list[pa.RecordBatch] = field(default_factory=list[pa.RecordBatch])
    places: list[pa.RecordBatch] = field(default_factory=list[pa.RecordBatch])
    runs: list[tuple[str | None, int]] = field(default_factory=list["tuple[str | None, int]"])
    bytes: int = 0
    rows: int = 0
    fresh: bool = True
    fragments: list[FragmentText] = field(default_factory=list[FragmentText])
    place_fragments: list[FragmentText] = field(default_factory=list[FragmentText])

    def add_run(self, file: str | None, count: int) -> None:
        """Take note of rows of a file that has no lines."""
        if self.runs and self.runs[-1][0] == file:
            count += self.runs.pop()[1]
        self.runs.append((file, count))


class _PartitionWriter:
    """What comes of one partition."""

    def __init__(self, orders: LoadTask) -> None:
        self.lines: Counter[tuple[str, int]] = Counter()
        self._task = orders
        self._buffers: dict[str, _TableBuffer] = {}
        self._violations: list[Mapping[str, object]] = []
        self._counts: Counter[tuple[str, str]] = Counter()
        self._rejected: list[Mapping[str, object]] = []
        self._rejected_count = 0
        self._rejected_fragments: list[FragmentText] = []
        self._opened: dict[str, Table] = {}

    def count_lines(self, run: _BlockRows, count: int) -> int:
        """The number of the first line of a run in its block, from 1."""
        key = (run.file or "", run.block or 0)
        self.lines[key] += count
        return self.lines[key] - count + 1

    def add(self, found: RawBatch | RejectedRecord, block: int | None) -> None:
        """Check rows one by one; those that pass are held until there are enough to be written."""
        if isinstance(found, RejectedRecord):
            self._reject(found, block)
            return
        admitted = validate_batch(found)
        for rejected in admitted.rejected:
            self._reject(rejected, block)
        self._buffer(admitted, block)
        while sum(held.bytes for held in self._buffers.values()) > MAX_BUFFERED_BYTES:
            self._write(*max(self._buffers.items(), key=lambda item: item[1].bytes))

    def finish(self) -> pa.RecordBatch:
        """Write what is left; what there is to tell about all of it."""
        from pyspark import TaskContext

        for key, held in self._buffers.items():
            self._write(key, held)
        self._write_rejected()
        told = list(self._reports())
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        columns = [
            pa.array([partition] * len(told), pa.int64()),
            pa.array([kind.value for kind, _ in told], pa.string()),
            pa.array([orjson.dumps(body).decode() for _, body in told], pa.string()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_REPORT_SCHEMA)

    def _reports(self) -> Iterator[tuple[ReportKind, Mapping[str, object]]]:
        for key, held in self._buffers.items():
            rows = {"fragments": held.fragments, "places": held.place_fragments, "runs": held.runs, "fresh": held.fresh}
            yield ReportKind.ROWS, {"table_key": key, "rows": held.rows, **rows}
        for (file, block), lines in self.lines.items():
            yield ReportKind.BLOCK, {"file": self._task.display_name(file), "block": block, "lines": lines}
        for sample in self._violations:
            yield ReportKind.VIOLATION, sample
        for (type_, rule), count in self._counts.items():
            yield ReportKind.COUNTS, {"type": type_, "rule": rule, "count": count}
        if self._rejected_count:
            yield ReportKind.REJECTED, {"rows": self._rejected_count, "fragments": self._rejected_fragments}

    def _buffer(self, admitted: ValidatedBatch, block: int | None) -> None:
        count = admitted.rows.num_rows
        if not count:
            return
        held = self._buffers.setdefault(admitted.type.table_key, _TableBuffer(admitted.type))
        held.batches.append(admitted.rows)
        held.bytes += admitted.rows.nbytes
        held.rows += count
        held.fresh = held.fresh and admitted.has_generated_ids
        if block is None:
            held.add_run(admitted.file, count)
            return
        repeated = np.zeros(count, np.int64)
        file, at = pa.array([admitted.file], pa.string()), pa.array([block], pa.int64())
        columns = [file.take(repeated), at.take(repeated), admitted.lines.cast(pa.int64())]
        held.places.append(pa.RecordBatch.from_arrays(columns, schema=PLACES))

    def _write(self, key: str, held: _TableBuffer) -> None:
        if not held.batches:
            return
        address = self._task.homes[key]
        rows = pa.Table.from_batches(held.batches, arrow_schema(held.type))
        held.fragments += tables.write_rows(self._open(address), rows, address.mode)
        if held.places:
            held.place_fragments += self._write_scratch(pa.Table.from_batches(held.places, PLACES))
        held.batches, held.places, held.bytes = [], [], 0

    def _reject(self, rejected: RejectedRecord, block: int | None) -> None:
        for violation in rejected.violations:
            self._counts[violation.type, violation.rule] += 1
        if self._task.keeps_rejected:
            self._rejected.append({**to_rejects_line(rejected), "block": block})
            if len(self._rejected) >= _MAX_BUFFERED_REJECTED:
                self._write_rejected()
            return
        wanted = self._task.max_violations
        left = None if wanted is None else max(0, wanted - len(self._violations))
        self._violations += [{**asdict(each), "block": block} for each in rejected.violations[:left]]

    def _write_rejected(self) -> None:
        if self._rejected:
            self._rejected_count += len(self._rejected)
            self._rejected_fragments += self._write_scratch(pa.Table.from_pylist(list(self._rejected), REJECTED))
            self._rejected = []

    def _write_scratch(self, rows: pa.Table) -> tuple[FragmentText, ...]:
        return tables.write_rows(self._open(self._task.scratch), rows, "overwrite")

    def _open(self, address: TableAddress) -> Table:
        key = f"{address.uri} {address.branch}"
        return self._opened.get(key) or self._opened.setdefault(key, address.open())


def decode_violation(sample: Mapping[str, object]) -> Violation:
    """A violation as a task told of it; its line is still that in its block."""
    fields = {name: value for name, value in sample.items() if name != "block"}
    return Violation(**{**fields, "ids": tuple(cast("list[str]", fields["ids"]))})  # pyright: ignore[reportArgumentType]  the fields of one that was taken apart
