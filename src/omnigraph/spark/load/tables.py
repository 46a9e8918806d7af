"""Read frames and files of rows of one type. Files of one format are read together.

Tasks read the Parquet and Arrow files of a local path themselves, by row groups. Spark reads those of any file system
that it knows, and the lines of CSV and JSON files. What it cannot read comes to a task as a whole file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar, cast

from omnigraph.language.schema import Catalog
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.inputs import is_spark_frame
from omnigraph.spark.load.load_task import REPORT_COLUMNS, LoadTask
from omnigraph.spark.load.sources import (
    find_session_zone,
    number_files,
    read_first_lines,
    read_lines,
    read_whole_files,
    to_dataframe,
    to_spark_path,
)
from omnigraph.spark.load.table_task import WholeFileTask, read_csv_files, read_csv_lines, read_file_parts
from omnigraph.spark.sized_frames import count_partitions
from omnigraph.spark.task_errors import map_batches
from omnigraph.storage.internal_columns import InternalColumn
from omnigraph.write.load import (
    UTC,
    ColumnSelection,
    CsvParser,
    DataFile,
    FilePart,
    ObjectReader,
    TypedTable,
    divide_file,
    join_parts,
    map_columns,
    open_csv,
    open_csv_file,
    read_file_schema,
    refuse_problems,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Item = TypeVar("Item")


def map_tables(
    executor: SparkExecutor, catalog: Catalog, tables: Sequence[TypedTable], task: LoadTask
) -> list[DataFrame]:
    """Return the DataFrames whose rows are the reports of all tables. All problems of columns are reported together."""
    mapper = _TableMapper(executor, catalog, task)
    found = [frame for group in _group(tables, _table_group).values() for frame in mapper.map_group(group[0], group)]
    refuse_problems(mapper.problems)
    return found


def _table_group(table: TypedTable) -> Hashable:
    """Files of one format that are given together are read together; a frame is a group of its own."""
    if not isinstance(table.rows, DataFile):
        return id(table)
    file = table.rows
    return id(table.selection), file.format, file.csv, file.is_local, _is_read_whole(file)


def _is_read_by_arrow(file: DataFile) -> bool:
    return file.is_local and file.format in ("parquet", "arrow")


def _is_read_whole(file: DataFile) -> bool:
    if _is_read_by_arrow(file):
        return False
    if file.format == "csv" and (file.csv.spans_lines or not _has_ascii_lines(file.csv.encoding)):
        return True
    # Spark has no reader for Arrow files, and none for zstd without a native library.
    return file.format == "arrow" or (file.format != "parquet" and file.path.lower().endswith(".zst"))


def _has_ascii_lines(encoding: str) -> bool:
    """Whether the bytes of a line end are those of ASCII wherever they are: Spark divides a text into lines by them."""
    characters = bytes(range(128))
    try:
        return characters.decode(encoding) == characters.decode("ascii")
    except UnicodeError:
        return False


def _group(items: Iterable[Item], key: Callable[[Item], Hashable]) -> dict[Hashable, list[Item]]:
    found: dict[Hashable, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


class _TableMapper:
    """Maps tables to DataFrames of reports, and collects the problems of their columns."""

    def __init__(self, executor: SparkExecutor, catalog: Catalog, task: LoadTask) -> None:
        self.problems: list[str] = []
        self._executor = executor
        self._session = executor.session
        self._catalog = catalog
        self._task = task

    def map_group(self, first: TypedTable, tables: Sequence[TypedTable]) -> Iterator[DataFrame]:
        """Yield the DataFrames of one group."""
        file = first.rows
        paths = [table.name for table in tables]
        if not isinstance(file, DataFile):
            zone = find_session_zone(self._session) if is_spark_frame(file) else UTC
            yield from self._map_frame(first, to_dataframe(self._session, first.name, file), zone)
        elif _is_read_whole(file) and file.is_local and file.format == "csv":
            yield from self._map_whole_csv(tables)
        elif _is_read_whole(file):
            rows = read_whole_files(self._session, paths)
            yield map_batches(rows, WholeFileTask(self._task, first).read, REPORT_COLUMNS)
        elif file.format == "jsonl":
            to_record = ObjectReader(self._catalog, first.selection)
            lines = read_lines(self._session, paths)
            yield map_batches(lines, partial(self._task.read_records, to_record), REPORT_COLUMNS)
        elif file.format == "csv":
            yield from self._map_csv(tables)
        elif _is_read_by_arrow(file):
            yield from self._map_file_parts(first.selection, tables)
        else:
            yield from self._map_frame(first, self._session.read.parquet(*map(to_spark_path, paths)), UTC)

    def _map_frame(self, table: TypedTable, rows: DataFrame, zone: str) -> Iterator[DataFrame]:
        from omnigraph.spark.source import arrow_schema_of

        columns, problems = map_columns(self._catalog, table.selection, arrow_schema_of(rows.schema))
        if problems:
            self._add_problems(table.name, problems)
            return
        # By place: Spark takes names that differ in case only for one name.
        names = [f"@{place}" for place in range(len(rows.columns))]
        places, placed = dict(zip(rows.columns, names, strict=True)), rows.toDF(*names)
        file_number, files = number_files(placed)
        targets = _select_targets({target: places[column] for target, column in columns.chosen.items()})
        selected = placed.select(*targets, file_number.alias(InternalColumn.FILE))
        read = partial(self._task.read_frame, table.type.table_key, table.name, files, zone)
        yield map_batches(selected, read, REPORT_COLUMNS)

    def _map_file_parts(self, selection: ColumnSelection, tables: Sequence[TypedTable]) -> Iterator[DataFrame]:
        """Yield the reports of tasks that read row groups of local files."""
        parts: list[FilePart] = []
        for table in tables:
            file = cast("DataFile", table.rows)
            columns, problems = map_columns(self._catalog, selection, read_file_schema(file))
            self._add_problems(table.name, problems)
            # Executors may have another working directory.
            absolute = replace(file, path=os.path.abspath(file.path))  # noqa: PTH100  as names_by_path has it
            parts += () if problems else divide_file(absolute, columns.chosen.values())
        items = _group_parts(parts, self._executor.parallelism) if parts else []
        if items:
            yield self._executor.map_items(partial(read_file_parts, self._task, selection), items, REPORT_COLUMNS)

    # ------------------------------------------------------------------------------------- CSV

    def _map_csv(self, tables: Sequence[TypedTable]) -> Iterator[DataFrame]:
        for parser, names in self._open_csv(tables):
            lines = read_lines(self._session, names)
            yield map_batches(lines, partial(read_csv_lines, self._task, parser), REPORT_COLUMNS)

    def _map_whole_csv(self, tables: Sequence[TypedTable]) -> Iterator[DataFrame]:
        """Yield the reports of tasks that read whole local files."""
        for parser, names in self._open_csv(tables):
            # Executors may have another working directory.
            paths = [[os.path.abspath(name)] for name in names]  # noqa: PTH100  as names_by_path has it
            yield self._executor.map_items(partial(read_csv_files, self._task, parser), paths, REPORT_COLUMNS)

    def _open_csv(self, tables: Sequence[TypedTable]) -> Iterator[tuple[CsvParser, list[str]]]:
        """Yield the parser of the files that have the same columns, and their names, if nothing is wrong with them."""
        parsers: dict[tuple[str, ...], tuple[CsvParser, list[str]]] = {}
        for table in tables:
            file = cast("DataFile", table.rows)
            parser, problems = (
                open_csv_file(self._catalog, table.selection, file)
                if file.is_local
                else open_csv(self._catalog, table.selection, file, iter([read_first_lines(self._session, file.path)]))
            )
            self._add_problems(table.name, problems)
            if not problems:
                parsers.setdefault(parser.names, (parser, []))[1].append(table.name)
        yield from parsers.values()

    def _add_problems(self, name: str, problems: Iterable[str]) -> None:
        self.problems += [f"{name}: {problem}" for problem in problems]


def _group_parts(parts: Sequence[FilePart], parallelism: int) -> list[list[FilePart]]:
    """Divide parts of files among tasks by size, in order: none is large, and all cores have work."""
    total = sum(part.size for part in parts)
    count = count_partitions(total, parallelism)
    starts = accumulate((part.size for part in parts), initial=0)
    places = [start * count // max(1, total) for start in starts]
    tasks = _group(zip(parts, places, strict=False), lambda each: each[1])
    return [join_parts([part for part, _ in task]) for task in tasks.values()]


def _select_targets(chosen: Mapping[str, str]) -> Iterator[Column]:
    """Yield the column of each target. The parts of a key become a struct: Spark does not map columns with a dot."""
    from pyspark.sql import functions

    ends: dict[str, list[Column]] = {}
    for target, column in chosen.items():
        end, dot, part = target.partition(".")
        value = functions.col(column)
        if dot:
            ends.setdefault(end, []).append(value.alias(part))
        else:
            yield value.alias(target)
    yield from (functions.struct(*parts).alias(end) for end, parts in ends.items())
