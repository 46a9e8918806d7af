"""Files that Arrow reads, Parquet and Arrow: their columns, their rows in batches, and parts that tasks read.

A part of a Parquet file is some of its row groups: each is read by itself, so no task reads what another one does.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
import pyarrow.ipc as ipc

from omnigraph.errors import StorageError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.write.load.inputs.sources import ByteCounter
from omnigraph.write.load.inputs.table_files import DataFile

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_ARROW_FILE: Final = b"ARROW1"
_FILE_BATCH_ROWS: Final = 65_536
_FILE_BATCH_BYTES: Final = 16 * 1024 * 1024
"""Batches of a Parquet file have fewer rows, if its rows are wide: about as many as have this size in the file."""

ArrowReader: TypeAlias = "ipc.RecordBatchFileReader | ipc.RecordBatchStreamReader"


def read_file_schema(file: DataFile) -> pa.Schema:
    """Return the schema of a Parquet or Arrow file."""
    with translate_table_errors(file.path), pa.memory_map(file.path) as opened:
        return _open_parquet(opened).schema_arrow if file.format == "parquet" else open_arrow(opened).schema


def read_file_batches(
    file: DataFile, columns: Collection[str] | None, count_bytes: ByteCounter
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet or Arrow file in batches, with at least these columns, or with all."""
    size = Path(file.path).stat().st_size
    reported = 0
    for done, batch in _read_with_progress(FilePart(file), columns):
        yield batch
        # Rows are all that is known of the progress through a compressed file.
        count_bytes(int(size * done) - reported)
        reported = int(size * done)
    count_bytes(size - reported)


# --------------------------------------------------------------------------------------------- parts


@dataclass(frozen=True, slots=True)
class FilePart:
    """Some row groups of a Parquet file, or all rows of a file.

    ``first`` is the number of its first row in the file. ``size`` is about that of the columns that are read, in bytes.
    """

    file: DataFile
    row_groups: tuple[int, ...] | None = None
    first: int = 1
    size: int = 0


def divide_file(file: DataFile, columns: Collection[str]) -> list[FilePart]:
    """Return the smallest parts of a file in order; ``columns`` are those that will be read."""
    if file.format != "parquet":
        return [FilePart(file, size=Path(file.path).stat().st_size)]
    with translate_table_errors(file.path), pa.memory_map(file.path) as opened:
        metadata = _open_parquet(opened).metadata
        parts: list[FilePart] = []
        first = 1
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            chunks = [group.column(at) for at in range(group.num_columns)]
            size = sum(each.total_uncompressed_size for each in chunks if _is_of(each.path_in_schema, columns))
            parts.append(FilePart(file, (number,), first, size))
            first += group.num_rows
    return parts


def _is_of(path: str, columns: Collection[str]) -> bool:
    """Return whether a path in a Parquet schema belongs to one of some columns: ``tags.list.element`` to ``tags``."""
    return path in columns or path.partition(".")[0] in columns


def join_parts(parts: Collection[FilePart]) -> list[FilePart]:
    """Join parts: those of one file that follow each other are read together."""
    joined: list[FilePart] = []
    for part in parts:
        before = joined[-1] if joined else None
        # A file may be given twice, and so be its own neighbour.
        if before and part.row_groups and (part.file, part.row_groups[0]) == (before.file, _next_group(before)):
            groups = (*(before.row_groups or ()), *part.row_groups)
            joined[-1] = replace(before, row_groups=groups, size=before.size + part.size)
        else:
            joined.append(part)
    return joined


def _next_group(part: FilePart) -> int | None:
    return part.row_groups[-1] + 1 if part.row_groups else None


def read_part_batches(part: FilePart, columns: Collection[str] | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part in batches, with at least these columns, or with all."""
    return (batch for _, batch in _read_with_progress(part, columns))


def _read_with_progress(part: FilePart, columns: Collection[str] | None) -> Iterator[tuple[float, pa.RecordBatch]]:
    """Yield the rows of a part in batches, and how much of it was read then, at most 1."""
    with translate_table_errors(part.file.path), pa.memory_map(part.file.path) as opened:
        yield from _read_parquet(opened, part, columns) if part.file.format == "parquet" else _read_arrow(opened)


# --------------------------------------------------------------------------------------------- formats


def _open_parquet(opened: pa.NativeFile) -> pq.ParquetFile:
    # Imported here: it is slow, and few loads need it.
    import pyarrow.parquet as pq

    # Timestamps of 96 bits, which Spark writes, hold years that nanoseconds cannot: they would silently wrap around.
    return pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")


def _read_parquet(
    opened: pa.MemoryMappedFile, part: FilePart, columns: Collection[str] | None
) -> Iterator[tuple[float, pa.RecordBatch]]:
    parquet = _open_parquet(opened)
    groups = range(parquet.metadata.num_row_groups) if part.row_groups is None else part.row_groups
    total, rows = max(1, sum(parquet.metadata.row_group(number).num_rows for number in groups)), 0
    chosen = None if columns is None else list(columns)
    batch_rows = _choose_batch_rows(parquet.metadata, groups)
    for batch in parquet.iter_batches(batch_rows, row_groups=list(groups), columns=chosen):
        rows += batch.num_rows
        yield rows / total, batch


def _choose_batch_rows(metadata: pq.FileMetaData, groups: Iterable[int]) -> int:
    sizes = [metadata.row_group(number) for number in groups]
    row_bytes = max((each.total_byte_size // max(1, each.num_rows) for each in sizes), default=0)
    return max(1, min(_FILE_BATCH_ROWS, _FILE_BATCH_BYTES // max(1, row_bytes)))


def _read_arrow(opened: pa.MemoryMappedFile) -> Iterator[tuple[float, pa.RecordBatch]]:
    size = max(1, opened.size())
    for batch in read_arrow_batches(open_arrow(opened)):
        yield min(1.0, opened.tell() / size), batch


def open_arrow(opened: pa.NativeFile) -> ArrowReader:
    """Open an Arrow file in either of its two forms: with a footer, or as a stream."""
    has_footer = opened.read(len(_ARROW_FILE)) == _ARROW_FILE
    opened.seek(0)
    return ipc.open_file(opened) if has_footer else ipc.open_stream(opened)


def read_arrow_batches(reader: ArrowReader) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an Arrow file."""
    if isinstance(reader, ipc.RecordBatchFileReader):
        yield from (reader.get_batch(number) for number in range(reader.num_record_batches))
    else:
        yield from reader


@contextmanager
def translate_table_errors(path: str) -> Generator[None]:
    """Raise errors of Arrow from the block as errors that name the file."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise StorageError(
            f"{path} cannot be read: {reason}", hint="it may be damaged, or have another format"
        ) from error
