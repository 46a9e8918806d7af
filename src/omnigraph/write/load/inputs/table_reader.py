"""Read frames and files of rows of one type. Their columns are checked first, all of them together.

Files are read one after the other, in blocks or batches, so memory does not grow with them.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol, cast

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
from omnigraph.write.load.inputs.data_frames import (
    ARROW_VALUES,
    TEXT_VALUES,
    ColumnMapping,
    ColumnValues,
    number_rows,
    open_frame,
    split_batches,
)
from omnigraph.write.load.inputs.delimited_text import (
    CsvFormat,
    MalformedRow,
    NotUtf8,
    parse_header,
    parse_records,
    split_records,
    to_utf8,
)
from omnigraph.write.load.inputs.load_input import TypedTable, refuse_problems
from omnigraph.write.load.inputs.records import RECORD, ObjectReader, parse_block
from omnigraph.write.load.inputs.sources import ByteCounter, ignore_bytes, open_chunks, read_blocks, read_chunks
from omnigraph.write.load.inputs.table_files import DataFile
from omnigraph.write.load.rows import RawBatch, RejectedRecord


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
        return _read_batches(self.name, self.reader, self.columns)


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
class CsvParser:
    """Parses records of CSV files with the same columns. ``header_lines`` is the number of lines before the records."""

    type: NodeType | EdgeType
    names: tuple[str, ...]
    header_lines: int
    format: CsvFormat
    columns: SelectedColumns

    def parse(self, file: str | None, first: int, data: bytes) -> Iterator[RawBatch | RejectedRecord]:
        """Parse whole records; ``first`` is the number of their first line."""
        try:
            block = parse_records(data, self.names, self.format)
        except NotUtf8 as error:
            raise ParameterError(
                f"{file}, line {first + error.line}: the text is not UTF-8",
                hint="save the file as UTF-8, or give the option encoding",
            ) from None
        for each in block.malformed:
            violation = Violation(
                self.type.name, RECORD, self._describe(each), file, first + each.line, table_key=self.type.table_key
            )
            yield RejectedRecord(each.text, (violation,))
        if block.rows.num_rows:
            yield self.columns.read(file, cast("Values", pa.array(block.lines + first)), block.rows)

    def parse_names(self, file: str, header: bytes) -> tuple[str, ...]:
        """Return the names of the columns in the header of another file."""
        return tuple(parse_header(file, header, self.format)[0])

    def _describe(self, record: MalformedRow) -> str:
        quote = self.format.quote
        is_open = quote is not None and record.text.count(quote) % 2 == 1
        hint = "; a quote is not closed" if is_open else ""
        return f"{record.values} values in a file with {len(self.names)} columns{hint}"


def open_csv(
    catalog: Catalog, selection: ColumnSelection, file: DataFile, chunks: Iterator[bytes]
) -> tuple[CsvParser, list[str]]:
    """Read the header of a CSV file, and choose its columns; return the problems too."""
    head = next(split_records(file.path, to_utf8(file.path, chunks, file.csv.encoding), file.csv), b"")
    names, lines = parse_header(file.path, head, file.csv)
    schema = pa.schema([(name, pa.string()) for name in names])
    columns, problems = map_columns(catalog, selection, schema, TEXT_VALUES)
    return CsvParser(selection.type, tuple(names), lines, file.csv, columns), problems


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
            yield from read_csv_chunks(self.file.path, chunks, self.parser)


def read_csv_chunks(path: str, chunks: Iterator[bytes], parser: CsvParser) -> Iterator[RawBatch | RejectedRecord]:
    """Yield the rows of a whole CSV file, from its bytes."""
    first, skipped = parser.header_lines + 1, parser.header_lines
    for block in split_records(path, to_utf8(path, chunks, parser.format.encoding), parser.format):
        data = block
        for _ in range(skipped):
            data = data[data.index(b"\n") + 1 :] if b"\n" in data else b""
        skipped = 0
        if data:
            yield from parser.parse(path, first, data)
            first += data.count(b"\n")


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
            yield from read_csv_chunks(name, read_chunks(io.BytesIO(content)), parser)
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
