"""Keep a frame that several steps read: executors write it as Parquet beside the graph, and it is read from there.

Where the lineage of a frame would be long, or where it would be computed again for each of its readers, it is spooled.
A lost executor takes nothing with it. A frame of few rows returns to this process and needs no files afterwards; the
files of others are there until the scratch folder is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Final, cast
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.lazy_dataclass import dataclass
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.scratch import ScratchFolder
from omnigraph.spark.sized_frames import MAX_BROADCAST_BYTES, PARTITION_BYTES, SizedFrame
from omnigraph.spark.task_errors import map_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_REPORT: Final = pa.schema([pa.field("file", pa.string()), pa.field("rows", pa.int64()), pa.field("bytes", pa.int64())])
_REPORT_COLUMNS: Final = "file string, rows long, bytes long"


@dataclass(frozen=True, slots=True)
class SpooledFile:
    """One file of a frame."""

    path: str
    rows: int
    size: int


class Spool:
    """Writes frames to a scratch folder. ``folder`` returns it; the first call creates it."""

    def __init__(self, executor: SparkExecutor, folder: Callable[[], ScratchFolder]) -> None:
        self._executor = executor
        self._folder = folder
        self._files: dict[SizedFrame, list[SpooledFile]] = {}

    @property
    def has_files(self) -> bool:
        """Whether a frame still reads files of the folder."""
        return any(self._files.values())

    @property
    def parallelism(self) -> int:
        """The number of tasks that run at the same time."""
        return self._executor.parallelism

    def keep(self, frame: DataFrame) -> SizedFrame:
        """Compute a frame, once; return one that reads the result, with its number of rows."""
        folder = self._folder()
        reports = self._executor.collect(map_batches(frame, partial(_write_parquet, folder), _REPORT_COLUMNS))
        files = [SpooledFile(*cast("tuple[str, int, int]", report)) for report in reports]
        rows, size = sum(each.rows for each in files), sum(each.size for each in files)
        is_small = size <= MAX_BROADCAST_BYTES
        found = self._bring_home(frame, folder, files) if is_small else self._read(frame, folder, files)
        kept = SizedFrame(found, rows, max(1, size // max(1, rows)))
        self._files[kept] = [] if is_small else files
        return kept

    def release(self, frames: Iterable[SizedFrame]) -> None:
        """Delete the files of frames that nobody reads any more."""
        for frame in frames:
            for each in self._files.pop(frame):
                self._folder().delete(each.path)

    def _read(self, frame: DataFrame, folder: ScratchFolder, files: Sequence[SpooledFile]) -> DataFrame:
        return self._executor.map_items(partial(read_frame_files, folder), list(_group_files(files)), frame.schema)

    def _bring_home(self, frame: DataFrame, folder: ScratchFolder, files: Sequence[SpooledFile]) -> DataFrame:
        """Read a few rows into this process, and delete their files: the frame outlives the folder."""
        session = frame.sparkSession
        if not files:
            return session.createDataFrame([], frame.schema)
        batches = list(read_frame_files(folder, [each.path for each in files]))
        for each in files:
            folder.delete(each.path)
        # Spark would divide even three rows among all cores.
        return session.createDataFrame(pa.Table.from_batches(batches), frame.schema).coalesce(1)


def _group_files(files: Iterable[SpooledFile]) -> Iterator[list[str]]:
    """Group small files, so that a task has enough to do."""
    group: list[str] = []
    size = 0
    for each in files:
        if group and size + each.size > PARTITION_BYTES:
            yield group
            group, size = [], 0
        group.append(each.path)
        size += each.size
    yield group


# --------------------------------------------------------------------------------------------- on executors


def _write_parquet(folder: ScratchFolder, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Task over one partition: write its rows to files, and report them. An attempt that fails leaves unnamed ones."""
    for file in write_frame_files(folder, batches):
        yield pa.RecordBatch.from_pylist([{"file": file.path, "rows": file.rows, "bytes": file.size}], _REPORT)


def write_frame_files(folder: ScratchFolder, batches: Iterable[pa.RecordBatch]) -> Iterator[SpooledFile]:
    """Write rows as Parquet files of moderate size, and yield each file when it is written."""
    pending: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            pending.append(batch)
            size += batch.nbytes
        if size > PARTITION_BYTES:
            yield _write_file(folder, pending, size)
            pending, size = [], 0
    if pending:
        yield _write_file(folder, pending, size)


def _write_file(folder: ScratchFolder, batches: Sequence[pa.RecordBatch], size: int) -> SpooledFile:
    sink, path, rows = BytesIO(), f"{uuid4().hex}.parquet", pa.Table.from_batches(batches)
    pq.write_table(rows, sink)
    folder.put(path, sink.getvalue())
    return SpooledFile(path, rows.num_rows, size)


def read_frame_files(folder: ScratchFolder, paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read the rows of files, one file after the other."""
    for path in paths:
        yield from pq.read_table(BytesIO(folder.get(path))).to_batches()
