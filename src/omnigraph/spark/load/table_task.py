"""Tasks over files of rows of one type: lines of CSV files, parts that Arrow reads, and whole files.

They report like the tasks over records: the rows that pass the row rules are written as fragments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import cast

import pyarrow as pa

from omnigraph.lazy_dataclass import dataclass
from omnigraph.spark.load.load_task import (
    CONTENT,
    ENDS_FILE,
    LINE,
    PATH,
    BlockRows,
    LoadTask,
    PartitionWriter,
    split_by_block,
)
from omnigraph.storage.columns import column_of, to_list
from omnigraph.write.load import (
    ColumnSelection,
    CsvParser,
    FilePart,
    RecordIsOpen,
    TextPart,
    TypedTable,
    count_lines,
    ignore_bytes,
    map_columns,
    open_chunks,
    read_file_part,
    read_file_schema,
    read_table_content,
)


def read_csv_lines(task: LoadTask, parser: CsvParser, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read one partition of lines of CSV files that have the same columns; yield the reports.

    A block that ends inside a record is reported: the next part of the file is read by another task.
    """
    writer = PartitionWriter(task)
    for (file, block, ends_file), runs in groupby(split_by_block(batches), _locate_run):
        text = _join_lines(writer, runs)
        part = TextPart(starts_file=block == 0, ends_file=ends_file)
        try:
            for found in parser.read(task.display_name(file) or "", text, part):
                writer.add(found, block)
        except RecordIsOpen:
            writer.divided.add(file or "")
    yield writer.finish()


def _locate_run(run: BlockRows) -> tuple[str | None, int | None, bool]:
    return run.file, run.block, cast("bool", to_list(column_of(run.rows, ENDS_FILE).slice(0, 1))[0])


def _join_lines(writer: PartitionWriter, runs: Iterable[BlockRows]) -> Iterator[bytes]:
    """Yield the text of the lines of a block, and count them."""
    for run in runs:
        text = b"\n".join([*cast("list[bytes]", to_list(column_of(run.rows, LINE))), b""])
        writer.count_lines(run, count_lines(text))
        yield text


def read_csv_files(task: LoadTask, parser: CsvParser, paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read whole local CSV files that have the same columns; yield the reports."""
    writer = PartitionWriter(task)
    for path in paths:
        with open_chunks(Path(path), ignore_bytes) as chunks:
            for found in parser.read(task.names.get(path, path), chunks):
                writer.add(found, None)
    yield writer.finish()


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
