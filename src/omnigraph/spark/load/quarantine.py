"""Collect the rejected records of a load on Spark from the scratch table into one Parquet file, which a task writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, cast

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.load import incoming_rows as load_incoming
from omnigraph.spark.load.incoming_rows import BlockLines
from omnigraph.spark.load.load_task import REJECTED
from omnigraph.storage import table_writes as tables
from omnigraph.storage.columns import column_of, to_list
from omnigraph.storage.staging import FragmentText
from omnigraph.storage.table import Table
from omnigraph.write.load import RejectedRecord, RejectsTarget, to_rejects_line

_FILE: Final = pa.schema(
    [
        pa.field(name, pa.int64() if name == "line" else pa.string())
        for name in ("record", "file", "line", "type", "id", "rule", "message")
    ]
)


@dataclass(frozen=True, slots=True)
class ParquetQuarantine:
    """The rejected records of all tasks, in fragments of the scratch table."""

    executor: SparkExecutor
    rejected: _RejectedRows
    count: int

    def deliver(self, more: Iterable[RejectedRecord]) -> str:
        """Write them and ``more`` to the target file, which replaces an earlier delivery.

        A task of an executor writes it, unless the records are few or executors cannot reach the file.
        """
        others = pa.Table.from_pylist([dict(to_rejects_line(each)) for each in more], _FILE)
        if self.rejected.target.is_shared and self.count + others.num_rows > load_incoming.LOCAL_LOAD_ROWS:
            (path,) = self.executor.run(self.rejected.write_file, [others])
            return path
        return self.rejected.write_file(others)


def collect_rejected(
    executor: SparkExecutor,
    scratch: Table,
    fragments: tuple[FragmentText, ...],
    blocks: BlockLines,
    count: int,
    target: RejectsTarget,
) -> ParquetQuarantine:
    """Return the quarantine of rejected records that tasks wrote to fragments of the scratch table."""
    return ParquetQuarantine(executor, _RejectedRows(scratch, fragments, blocks, target), count)


@dataclass(frozen=True, slots=True)
class _RejectedRows:
    """What a task needs to write the file."""

    scratch: Table
    fragments: tuple[FragmentText, ...]
    blocks: BlockLines
    target: RejectsTarget

    def write_file(self, others: pa.Table) -> str:
        """Task: write the rejected records and some others as one file. Memory does not grow with the former."""
        with TemporaryDirectory(prefix="omnigraph-load-") as folder:
            file = Path(folder, "rejected.parquet")
            with pq.ParquetWriter(str(file), _FILE) as writer:
                for rows in self._read_rejected():
                    writer.write_table(rows)
                writer.write_table(others)
            return self.target.put(file)

    def _read_rejected(self) -> Iterator[pa.Table]:
        if not self.fragments:
            return
        staged = tables.overwrite_fragments(self.scratch, REJECTED, self.fragments)
        for batch in tables.audit_version(self.scratch, staged).scan(one_by_one=True):
            places = (to_list(column_of(batch, name)) for name in ("file", "block", "line"))
            lines = [
                self.blocks.line_in_file(*cast("tuple[str, int, int]", place)) for place in zip(*places, strict=True)
            ]
            rows = batch.set_column(batch.schema.get_field_index("line"), "line", pa.array(lines, pa.int64()))
            yield pa.Table.from_batches([rows]).select(_FILE.names)
