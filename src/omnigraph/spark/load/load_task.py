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
from omnigraph.storage import table as tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import absent, column_of, to_list, value_codes
from omnigraph.storage.pinned import Access, Table, open_table
from omnigraph.storage.staging import FragmentText
from omnigraph.storage.table import WriteMode
from omnigraph.write.load import (
    BATCH_ROWS,
    MAX_BUFFERED_BYTES,
    Lines,
    RawBatch,
    RejectedRecord,
    Shape,
    ValidatedBatch,
    found_in,
    rejected_row,
    validate_batch,
)
from omnigraph.write.rules import type_of

LINE: Final = "__omnigraph_line"
FILE: Final = "__omnigraph_file"
BLOCK: Final = "__omnigraph_block"
"""The columns of a source that tell where a row stands. A block is where in its file a part begins, in bytes."""

RECEIPTS: Final = "partition long, kind string, body string"

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
_RECEIPTS: Final = pa.schema(
    [pa.field("partition", pa.int64()), pa.field("kind", pa.string()), pa.field("body", pa.string())]
)
_MOST_REJECTED: Final = 10_000
"""So many rejected records are held by a task at most."""


class Receipt(StrEnum):
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
class Address:
    """A pinned table that a task opens if it has a row for it, and in which way it writes there."""

    uri: str
    branch: str | None
    version: int
    access: Access
    mode: WriteMode

    def open(self) -> Table:
        """The table itself."""
        return open_table(self.uri, self.branch, self.version, self.access)


def address_of(table: Table, mode: WriteMode) -> Address:
    """Where a task finds a table."""
    return Address(table.uri, table.branch, table.version, table.access, mode)


@dataclass(frozen=True, slots=True)
class Orders:
    """What every task of a load is told: where the rows of each table go, and everything else goes to ``scratch``.

    ``samples``: how many violations a task describes, None for all; with a quarantine it writes down the records.
    """

    catalog: Catalog
    homes: Mapping[str, Address]
    scratch: Address
    quarantine: bool
    samples: int | None
    names: Mapping[str, str]
    """Files as the user named them, by path."""

    def records(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The task of one partition of lines of graph records."""
        part = _Part(self)
        for run in _runs(batches):
            lines = cast("list[bytes]", to_list(column_of(run.rows, LINE)))
            block = Lines(self.name(run.file), part.counted(run, len(lines)), _without_mark(run, lines, part))
            for found in found_in(self.catalog, block):
                part.take(found, run.block)
        yield part.receipts()

    def frame(
        self, table_key: str, name: str, files: Mapping[int, str], batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """The task of one partition of a frame, whose columns were found to be right; its files by their numbers."""
        part, type_ = _Part(self), type_of(self.catalog, table_key)
        for number, rows in _frame_runs(batches):
            draft = Shape(self.catalog, type_, rows.schema).draft(name, 1, rows)
            file = None if number is None else self.name(files.get(number))
            # The rows of a distributed frame have no numbers.
            part.take(replace(draft, file=file or name, lines=absent(rows.num_rows, pa.int64())), None)
        yield part.receipts()

    def name(self, file: str | None) -> str | None:
        """A file that Spark names by its URI, as the user named it."""
        if not file:
            return None
        parts = urlsplit(file)
        path = unquote(parts.path) if parts.scheme == "file" else unquote(file)
        return self.names.get(path, path)


# --------------------------------------------------------------------------------------------- runs of one file


@dataclass(frozen=True, slots=True)
class _Run:
    """Rows that stand one after the other in one block of one file."""

    file: str | None
    block: int | None
    rows: pa.RecordBatch


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[_Run]:
    for batch in batches:
        files = column_of(batch, FILE)
        blocks = column_of(batch, BLOCK) if BLOCK in batch.schema.names else absent(batch.num_rows, pa.int64())
        moved = np.diff(value_codes(files)) | np.diff(value_codes(blocks))
        bounds = [0, *(np.flatnonzero(moved) + 1).tolist(), batch.num_rows] if batch.num_rows else []
        for start, end in pairwise(bounds):
            file, block = (to_list(each.slice(start, 1))[0] for each in (files, blocks))
            yield _Run(cast("str | None", file), cast("int | None", block), batch.slice(start, end - start))


def _frame_runs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int | None, pa.RecordBatch]]:
    """Rows that stand one after the other in one file, by its number; in larger pieces than those of Spark."""
    held: list[pa.RecordBatch] = []
    before: int | None = None
    for batch in batches:
        numbers, rows = column_of(batch, FILE), batch.remove_column(batch.schema.get_field_index(FILE))
        bounds = [0, *(np.flatnonzero(np.diff(value_codes(numbers))) + 1).tolist(), batch.num_rows]
        for start, end in pairwise(bounds if batch.num_rows else []):
            number = cast("int | None", to_list(numbers.slice(start, 1))[0])
            if held and (number != before or sum(each.num_rows for each in held) >= BATCH_ROWS):
                yield before, _in_one(held)
                held = []
            before = number
            held.append(rows.slice(start, end - start))
    if held:
        yield before, _in_one(held)


def _in_one(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    rows = pa.Table.from_batches(batches)
    return pa.RecordBatch.from_arrays([column_of(rows, name) for name in rows.schema.names], schema=rows.schema)


def _without_mark(run: _Run, lines: list[bytes], part: _Part) -> list[bytes]:
    """The lines, without the byte order mark that a file may begin with."""
    first_of_all = run.block == 0 and part.lines[run.file or "", 0] == len(lines)
    return [lines[0].removeprefix(_BOM), *lines[1:]] if first_of_all else lines


# --------------------------------------------------------------------------------------------- the part of one task


@dataclass(slots=True)
class _Held:
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

    def ran(self, file: str | None, count: int) -> None:
        """Take note of rows of a file that has no lines."""
        if self.runs and self.runs[-1][0] == file:
            count += self.runs.pop()[1]
        self.runs.append((file, count))


class _Part:
    """What comes of one partition."""

    def __init__(self, orders: Orders) -> None:
        self.lines: Counter[tuple[str, int]] = Counter()
        self._orders = orders
        self._held: dict[str, _Held] = {}
        self._samples: list[Mapping[str, object]] = []
        self._counts: Counter[tuple[str, str]] = Counter()
        self._rejected: list[Mapping[str, object]] = []
        self._rejected_count = 0
        self._rejected_fragments: list[FragmentText] = []
        self._opened: dict[str, Table] = {}

    def counted(self, run: _Run, count: int) -> int:
        """The number of the first line of a run in its block, from 1."""
        key = (run.file or "", run.block or 0)
        self.lines[key] += count
        return self.lines[key] - count + 1

    def take(self, found: RawBatch | RejectedRecord, block: int | None) -> None:
        """Check rows one by one; those that pass are held until there are enough to be written."""
        if isinstance(found, RejectedRecord):
            self._reject(found, block)
            return
        admitted = validate_batch(found)
        for rejected in admitted.rejected:
            self._reject(rejected, block)
        self._hold(admitted, block)
        while sum(held.bytes for held in self._held.values()) > MAX_BUFFERED_BYTES:
            self._write(*max(self._held.items(), key=lambda item: item[1].bytes))

    def receipts(self) -> pa.RecordBatch:
        """Write what is left; what there is to tell about all of it."""
        from pyspark import TaskContext

        for key, held in self._held.items():
            self._write(key, held)
        self._write_rejected()
        told = list(self._told())
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        columns = [
            pa.array([partition] * len(told), pa.int64()),
            pa.array([kind.value for kind, _ in told], pa.string()),
            pa.array([orjson.dumps(body).decode() for _, body in told], pa.string()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_RECEIPTS)

    def _told(self) -> Iterator[tuple[Receipt, Mapping[str, object]]]:
        for key, held in self._held.items():
            rows = {"fragments": held.fragments, "places": held.place_fragments, "runs": held.runs, "fresh": held.fresh}
            yield Receipt.ROWS, {"table_key": key, "rows": held.rows, **rows}
        for (file, block), lines in self.lines.items():
            yield Receipt.BLOCK, {"file": self._orders.name(file), "block": block, "lines": lines}
        for sample in self._samples:
            yield Receipt.VIOLATION, sample
        for (type_, rule), count in self._counts.items():
            yield Receipt.COUNTS, {"type": type_, "rule": rule, "count": count}
        if self._rejected_count:
            yield Receipt.REJECTED, {"rows": self._rejected_count, "fragments": self._rejected_fragments}

    def _hold(self, admitted: ValidatedBatch, block: int | None) -> None:
        count = admitted.rows.num_rows
        if not count:
            return
        held = self._held.setdefault(admitted.type.table_key, _Held(admitted.type))
        held.batches.append(admitted.rows)
        held.bytes += admitted.rows.nbytes
        held.rows += count
        held.fresh = held.fresh and admitted.fresh
        if block is None:
            held.ran(admitted.file, count)
            return
        repeated = np.zeros(count, np.int64)
        file, at = pa.array([admitted.file], pa.string()), pa.array([block], pa.int64())
        columns = [file.take(repeated), at.take(repeated), admitted.lines.cast(pa.int64())]
        held.places.append(pa.RecordBatch.from_arrays(columns, schema=PLACES))

    def _write(self, key: str, held: _Held) -> None:
        if not held.batches:
            return
        address = self._orders.homes[key]
        rows = pa.Table.from_batches(held.batches, arrow_schema(held.type))
        held.fragments += tables.write_rows(self._table(address), rows, address.mode)
        if held.places:
            held.place_fragments += self._scratched(pa.Table.from_batches(held.places, PLACES))
        held.batches, held.places, held.bytes = [], [], 0

    def _reject(self, rejected: RejectedRecord, block: int | None) -> None:
        for violation in rejected.violations:
            self._counts[violation.type, violation.rule] += 1
        if self._orders.quarantine:
            self._rejected.append({**rejected_row(rejected), "block": block})
            if len(self._rejected) >= _MOST_REJECTED:
                self._write_rejected()
            return
        wanted = self._orders.samples
        left = None if wanted is None else max(0, wanted - len(self._samples))
        self._samples += [{**asdict(each), "block": block} for each in rejected.violations[:left]]

    def _write_rejected(self) -> None:
        if self._rejected:
            self._rejected_count += len(self._rejected)
            self._rejected_fragments += self._scratched(pa.Table.from_pylist(list(self._rejected), REJECTED))
            self._rejected = []

    def _scratched(self, rows: pa.Table) -> tuple[FragmentText, ...]:
        return tables.write_rows(self._table(self._orders.scratch), rows, "overwrite")

    def _table(self, address: Address) -> Table:
        key = f"{address.uri} {address.branch}"
        return self._opened.get(key) or self._opened.setdefault(key, address.open())


def violation_from(sample: Mapping[str, object]) -> Violation:
    """A violation as a task told of it; its line is still that in its block."""
    fields = {name: value for name, value in sample.items() if name != "block"}
    return Violation(**{**fields, "ids": tuple(cast("list[str]", fields["ids"]))})  # pyright: ignore[reportArgumentType]  the fields of one that was taken apart
