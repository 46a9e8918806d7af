"""Tasks over files of rows of one type: lines of CSV files, parts that Arrow reads, and whole files.

They report like the tasks over records: the rows that pass the row rules are written as fragments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, cast

import pyarrow as pa

from omnigraph.errors import ParameterError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.spark.load.load_task import (
    CONTENT,
    LINE,
    PATH,
    BlockRows,
    LoadTask,
    PartitionWriter,
    split_by_block,
    starts_file,
)
from omnigraph.storage.columns import column_of, to_list
from omnigraph.write.load import (
    ColumnSelection,
    CsvParser,
    FilePart,
    TypedTable,
    find_record_end,
    map_columns,
    read_file_part,
    read_file_schema,
    read_table_content,
)

_BOM: Final = b"\xef\xbb\xbf"
_SPLIT_HINT: Final = "a quote may not be closed; if quoted values span lines, give the option multiLine"


@dataclass(slots=True)
class _OpenBlock:
    """The part of a block that was read, but ends inside a record."""

    run: BlockRows
    file: str | None
    line: int
    rest: bytes = b""


def read_csv_lines(task: LoadTask, parser: CsvParser, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read one partition of lines of CSV files that have the same columns; yield the reports."""
    writer = PartitionWriter(task)
    block: _OpenBlock | None = None
    for run in split_by_block(batches):
        lines = cast("list[bytes]", to_list(column_of(run.rows, LINE)))
        first = writer.count_lines(run, len(lines))
        if block is None or (block.run.file, block.run.block) != (run.file, run.block):
            _refuse_rest(block)
            block = _OpenBlock(run, task.display_name(run.file), first)
        data = block.rest + _decode(parser, block, b"\n".join([*lines, b""]))
        if starts_file(run, len(lines), writer):
            data = _skip_header(parser, block, data.removeprefix(_BOM))
        end = find_record_end(data, parser.format)
        if end:
            for found in parser.parse(block.file, block.line, data[:end]):
                writer.add(found, run.block)
        block.line += data.count(b"\n", 0, end)
        block.rest = data[end:]
    _refuse_rest(block)
    yield writer.finish()


def _decode(parser: CsvParser, block: _OpenBlock, data: bytes) -> bytes:
    if parser.format.encoding == "utf-8":
        return data
    try:
        return data.decode(parser.format.encoding).encode()
    except UnicodeDecodeError as error:
        place = f"{block.file}, after line {block.line}"
        raise ParameterError(f"{place}: the text is not {parser.format.encoding}: {error.reason}") from error


def _skip_header(parser: CsvParser, block: _OpenBlock, data: bytes) -> bytes:
    """Remove the header of a file. The columns were chosen for the header of another file, if this one is remote."""
    if not parser.header_lines:
        return data
    header, _, rest = data.partition(b"\n")
    names = parser.parse_names(str(block.file), header)
    if names != parser.names:
        listed = ", ".join(parser.names)
        raise ParameterError(f"{block.file} has other columns than the first file: {', '.join(names)}; not {listed}")
    block.line += 1
    return rest


def _refuse_rest(block: _OpenBlock | None) -> None:
    """Refuse a block that ends inside a record: the next part of the file is read by another task."""
    if block is not None and block.rest:
        raise ParameterError(
            f"{block.file}: a quoted value does not end where a part of the file ends: {block.rest[:60]!r}",
            hint=_SPLIT_HINT,
        )


# --------------------------------------------------------------------------------------------- parts that Arrow reads


def read_file_parts(task: LoadTask, selection: ColumnSelection, parts: Sequence[FilePart]) -> Iterator[pa.RecordBatch]:
    """Read parts of local Parquet or Arrow files, whose columns were checked; yield the reports.

    The rows never leave this process: Spark would take longer to hand them to Python than all the rest takes.
    """
    writer = PartitionWriter(task)
    for part in parts:
        columns, _ = map_columns(task.catalog, selection, read_file_schema(part.file))
        for found in read_file_part(task.names.get(part.file.path, part.file.path), part, columns):
            writer.add(found, None)
    yield writer.finish()


# --------------------------------------------------------------------------------------------- whole files


@dataclass(frozen=True, slots=True)
class WholeFileTask:
    """Reads whole files of one type, which may be compressed. ``table`` says how."""

    task: LoadTask
    table: TypedTable

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read one partition of whole files; yield the reports."""
        writer = PartitionWriter(self.task)
        for batch in batches:
            paths = cast("list[str]", to_list(column_of(batch, PATH)))
            for number, path in enumerate(paths):
                content = cast("list[bytes]", to_list(column_of(batch, CONTENT).slice(number, 1)))[0]
                name = self.task.display_name(path) or path
                # The file is one block, so lines in the block are lines in the file.
                writer.lines[path, 0] = 1
                for found in read_table_content(self.task.catalog, self.table, name, content):
                    writer.add(found, 0)
        yield writer.finish()
