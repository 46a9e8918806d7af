"""Read frames and files of rows of one type. Their columns are checked first, all of them together.

Files are read one after the other, in blocks or batches, so memory does not grow with them.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol, cast

import pyarrow as pa

from omnigraph.errors import ParameterError, Violation
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.columns import Values, column_of
from omnigraph.write.load.inputs.arrow_files import (
    FilePart,
    open_arrow,
    read_arrow_batches,
    read_file_batches,
    read_file_schema,
    read_part_batches,
    translate_table_errors,
)
from omnigraph.write.load.inputs.column_selection import ColumnSelection
from omnigraph.write.load.inputs.csv_format import CsvFormat
from omnigraph.write.load.inputs.data_frames import (
    ARROW_VALUES,
    TEXT_VALUES,
    ArrowStream,
    ColumnMapping,
    ColumnValues,
    is_schema_known,
    number_rows,
    open_frame,
    read_frame,
    split_batches,
)
from omnigraph.write.load.inputs.delimited_text import find_header, parse_records, skip_header, to_utf8
from omnigraph.write.load.inputs.load_input import TypedTable, refuse_problems
from omnigraph.write.load.inputs.record_splitter import CsvBlock, RecordIsOpen, split_records
from omnigraph.write.load.inputs.records import RECORD, ObjectReader, parse_block
from omnigraph.write.load.inputs.sources import ByteCounter, ignore_bytes, open_chunks, read_blocks, read_chunks
from omnigraph.write.load.inputs.table_files import DataFile
from omnigraph.write.load.rows import RawBatch, RejectedRecord
from omnigraph.write.rules import shorten


class OpenedTable(Protocol):
    """A frame or a file whose columns were checked."""

    def read(self, count_bytes: ByteCounter) -> Iterator[RawBatch | RejectedRecord]:
        """Yield its rows in batches, and its invalid records. Call it once."""
        ...


def open_tables(catalog: Catalog, tables: Iterable[TypedTable]) -> list[OpenedTable]:
    """Open frames and files, and check their columns. All problems are reported together."""
    opened: list[OpenedTable] = []
    problems: list[str] = []
    for table in tables:
        found, wrong = _open_table(catalog, table)
        opened.append(found)
        problems += [f"{table.name}: {problem}" for problem in wrong]
    refuse_problems(problems)
    return opened


def _open_table(catalog: Catalog, table: TypedTable) -> tuple[OpenedTable, list[str]]:
    file = table.rows
    if not isinstance(file, DataFile):
        if not is_schema_known(file):
            return LazyFrameReader(catalog, table.name, file, table.selection), []
        reader = open_frame(table.name, file)
        columns, problems = map_columns(catalog, table.selection, reader.schema)
        return FrameReader(table.name, reader, columns), problems
    if not file.is_local:
        raise ParameterError(f"{file.path} is not a file of this machine", hint='only Spark reads it: engine="spark"')
    match file.format:
        case "csv":
            parser, problems = open_csv_file(catalog, table.selection, file)
            return CsvFileReader(file, parser), problems
        case "jsonl":
            return ObjectFileReader(catalog, file, table.selection), []
        case "parquet" | "arrow":
            columns, problems = map_columns(catalog, table.selection, read_file_schema(file))
            return BatchFileReader(file, columns), problems


# --------------------------------------------------------------------------------------------- columns


@dataclass(frozen=True, slots=True)
class SelectedColumns:
    """The columns of a table that are read: the column of each target, and how its values are converted."""

    chosen: Mapping[str, str]
    mapping: ColumnMapping

    def read(self, name: str | None, lines: Values, rows: pa.RecordBatch) -> RawBatch:
        """Convert rows of the table."""
        columns = [column_of(rows, column) for column in self.chosen.values()]
        return self.mapping.to_raw_batch(name, lines, _to_batch(columns, list(self.chosen), rows.num_rows))


def _to_batch(columns: list[Values], names: list[str], count: int) -> pa.RecordBatch:
    # A batch without columns has no rows, but all properties of the rows may have defaults.
    found = columns or [cast("Values", pa.nulls(count))]
    return pa.RecordBatch.from_arrays(found, names=names or [""])


def map_columns(
    catalog: Catalog, selection: ColumnSelection, schema: pa.Schema, values: ColumnValues = ARROW_VALUES
) -> tuple[SelectedColumns, list[str]]:
    """Choose the columns of a table; return the problems too. A table without columns has no rows, and no problems."""
    chosen, problems = selection.choose(schema.names)
    # A name that occurs twice is a problem already.
    types = dict(zip(schema.names, schema.types, strict=True))
    selected = pa.schema([(target, types[column]) for target, column in chosen.items()])
    mapping = ColumnMapping(catalog, selection.type, selected, values, selection.form)
    found = mapping.find_problems(selection.columns, chosen) if schema.names else ()
    return SelectedColumns(chosen, mapping), [*problems, *found]


# --------------------------------------------------------------------------------------------- frames and batches


@dataclass(frozen=True, slots=True)
class FrameReader:
    """Reads a frame of this process."""

    name: str
    reader: pa.RecordBatchReader
    columns: SelectedColumns

    def read(self, count_bytes: ByteCounter) -> Iterator[RawBatch | RejectedRecord]:  # noqa: ARG002  no file is read
        """Yield the rows of the frame."""
        return _read_batches(self.name, read_frame(self.name, self.reader), self.columns)


@dataclass(frozen=True, slots=True)
class LazyFrameReader:
    """Reads a frame that computes its rows when it is opened. Its columns are checked then."""

    catalog: Catalog
    name: str
    frame: ArrowStream
    selection: ColumnSelection

    def read(self, count_bytes: ByteCounter) -> Iterator[RawBatch | RejectedRecord]:  # noqa: ARG002  no file is read
        """Yield the rows of the frame."""
        reader = open_frame(self.name, self.frame)
        columns, problems = map_columns(self.catalog, self.selection, reader.schema)
        refuse_problems(f"{self.name}: {problem}" for problem in problems)
        yield from _read_batches(self.name, read_frame(self.name, reader), columns)


@dataclass(frozen=True, slots=True)
class BatchFileReader:
    """Reads a Parquet or Arrow file."""

    file: DataFile
    columns: SelectedColumns

    def read(self, count_bytes: ByteCounter) -> Iterator[RawBatch | RejectedRecord]:
        """Yield the rows of the file."""
        batches = read_file_batches(self.file, list(self.columns.chosen.values()), count_bytes)
        return _read_batches(self.file.path, batches, self.columns)


def read_file_part(name: str, part: FilePart, columns: SelectedColumns) -> Iterator[RawBatch]:
    """Yield the rows of a part of a Parquet or Arrow file, with their numbers in the file."""
    return _read_batches(name, read_part_batches(part, list(columns.chosen.values())), columns, part.first)


def _read_batches(
    name: str, batches: Iterable[pa.RecordBatch], columns: SelectedColumns, first: int = 1
) -> Iterator[RawBatch]:
    for batch in split_batches(batches):
        yield columns.read(name, number_rows(first, batch.num_rows), batch)
        first += batch.num_rows


# --------------------------------------------------------------------------------------------- CSV


@dataclass(frozen=True, slots=True)
class TextPart:
    """Where a text lies in its file."""

    starts_file: bool = True
    ends_file: bool = True


_WHOLE_FILE: Final = TextPart()


@dataclass(frozen=True, slots=True)
class CsvParser:
    """Parses CSV files with the same columns."""

    type: NodeType | EdgeType
    names: tuple[str, ...]
    format: CsvFormat
    columns: SelectedColumns

    def read(
        self, name: str, chunks: Iterator[bytes], part: TextPart = _WHOLE_FILE
    ) -> Iterator[RawBatch | RejectedRecord]:
        """Yield the rows of a text. If it is a part of a file and ends inside a record: ``RecordIsOpen``."""
        text = to_utf8(name, chunks, self.format.encoding, starts_file=part.starts_file)
        has_header = part.starts_file and self.format.has_header
        for block in split_records(name, text, self.format, ends_file=part.ends_file):
            records: CsvBlock | None = block
            if has_header:
                records = self._skip_header(name, block)
                has_header = records is None
            if records is not None and records.data:
                yield from self._parse(name, records)
        if has_header and not part.ends_file:
            raise RecordIsOpen

    def _skip_header(self, name: str, block: CsvBlock) -> CsvBlock | None:
        """Return the records after the header; None if it comes later. On Spark, other files may have other columns."""
        header = find_header(name, block, self.format)
        if header is None:
            return None
        if header.names != self.names:
            listed = ", ".join(self.names)
            raise ParameterError(
                f"{name} has other columns than the first file: {', '.join(header.names)}; not {listed}"
            )
        return skip_header(block, header)

    def _parse(self, name: str, block: CsvBlock) -> Iterator[RawBatch | RejectedRecord]:
        parsed = parse_records(block, self.names, self.format)
        for row in parsed.malformed:
            violation = Violation(
                self.type.name,
                RECORD,
                row.problem,
                name,
                block.first + row.line,
                value=shorten(row.text),
                table_key=self.type.table_key,
            )
            yield RejectedRecord(row.text, (violation,))
        if parsed.rows.num_rows:
            yield self.columns.read(name, cast("Values", pa.array(parsed.lines + block.first)), parsed.rows)


def open_csv(
    catalog: Catalog, selection: ColumnSelection, file: DataFile, chunks: Iterator[bytes]
) -> tuple[CsvParser, list[str]]:
    """Read the header of a CSV file, and choose its columns; return the problems too."""
    names = read_csv_names(file, chunks)
    schema = pa.schema([(name, pa.string()) for name in names])
    columns, problems = map_columns(catalog, selection, schema, TEXT_VALUES)
    return CsvParser(selection.type, names, file.csv, columns), problems


def read_csv_names(file: DataFile, chunks: Iterator[bytes]) -> tuple[str, ...]:
    """Return the names of the columns of a CSV file; none if it has no record."""
    text = to_utf8(file.path, chunks, file.csv.encoding)
    for block in split_records(file.path, text, file.csv):
        header = find_header(file.path, block, file.csv)
        if header is not None:
            return header.names
    return ()


def open_csv_file(catalog: Catalog, selection: ColumnSelection, file: DataFile) -> tuple[CsvParser, list[str]]:
    """Read the header of a CSV file of this machine, as :func:`open_csv` does."""
    with open_chunks(Path(file.path), ignore_bytes) as chunks:
        return open_csv(catalog, selection, file, chunks)


@dataclass(frozen=True, slots=True)
class CsvFileReader:
    """Reads a CSV file."""

    file: DataFile
    parser: CsvParser

    def read(self, count_bytes: ByteCounter) -> Iterator[RawBatch | RejectedRecord]:
        """Yield the rows of the file."""
        with open_chunks(Path(self.file.path), count_bytes) as chunks:
            yield from self.parser.read(self.file.path, chunks)


# --------------------------------------------------------------------------------------------- lines of objects


@dataclass(frozen=True, slots=True)
class ObjectFileReader:
    """Reads a file of JSON objects, one in each line."""

    catalog: Catalog
    file: DataFile
    selection: ColumnSelection

    def read(self, count_bytes: ByteCounter) -> Iterator[RawBatch | RejectedRecord]:
        """Yield the rows of the file."""
        to_record = ObjectReader(self.catalog, self.selection)
        for block in read_blocks(self.file.path, count_bytes):
            yield from parse_block(self.catalog, block, to_record, self.selection.form)


# --------------------------------------------------------------------------------------------- contents of files


def read_table_content(
    catalog: Catalog, table: TypedTable, name: str, content: bytes
) -> Iterator[RawBatch | RejectedRecord]:
    """Yield the rows of a whole file, which is in memory. Its columns are checked here, since nobody has seen them."""
    file = replace(cast("DataFile", table.rows), path=name)
    match file.format:
        case "csv":
            parser, problems = open_csv(catalog, table.selection, file, read_chunks(io.BytesIO(content)))
            refuse_problems(f"{name}: {problem}" for problem in problems)
            yield from parser.read(name, read_chunks(io.BytesIO(content)))
        case "jsonl":
            to_record = ObjectReader(catalog, table.selection)
            for block in read_blocks(_NamedContent(name, content)):
                yield from parse_block(catalog, block, to_record, table.selection.form)
        case "parquet" | "arrow":
            with translate_table_errors(name):
                reader = open_arrow(pa.BufferReader(content))
                columns, problems = map_columns(catalog, table.selection, reader.schema)
                refuse_problems(f"{name}: {problem}" for problem in problems)
                yield from _read_batches(name, read_arrow_batches(reader), columns)


class _NamedContent(io.BytesIO):
    """Bytes with the name of their file."""

    def __init__(self, name: str, content: bytes) -> None:
        super().__init__(content)
        self.name = name
