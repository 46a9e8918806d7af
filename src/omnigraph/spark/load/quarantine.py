"""Collect the rejected records of a load on Spark from the scratch table into one file, which a task writes.

It is Parquet, or JSON lines as without Spark if its name ends so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pyarrow as pa

from omnigraph.lazy_dataclass import dataclass
from omnigraph.spark.executor import SparkExecutor
from omnigraph.spark.load import incoming_rows as load_incoming
from omnigraph.spark.load.incoming_rows import BlockLines
from omnigraph.spark.load.load_task import REJECTED
from omnigraph.spark.load.rejected_rows import DistributedRejects
from omnigraph.spark.load.row_updates import StagedUnmatched
from omnigraph.storage import tables
from omnigraph.storage.columns import column_of, to_list
from omnigraph.storage.tables import FragmentText, Table
from omnigraph.write.load import (
    LINES_SUFFIXES,
    REJECTS_SCHEMA,
    RecordedPart,
    RejectedPart,
    RejectedRecord,
    RejectsTarget,
    UnmatchedPart,
    to_rejects_line,
    to_rejects_table,
    write_rejects_lines,
    write_rejects_parquet,
)


@dataclass(frozen=True, slots=True)
class SparkQuarantine:
    """The rejected records of all tasks, in fragments of the scratch table."""

    executor: SparkExecutor
    rejected: _RejectedRows
    counts: Mapping[str, int]

    def deliver(self, more: Iterable[RejectedPart]) -> str:
        """Write them and ``more`` to the target file, which replaces an earlier delivery.

        Executors format the records and write the file, unless they are few or executors cannot reach the file.
        """
        fragments, records = list(self.rejected.fragments), list[RejectedRecord]()
        count = sum(self.counts.values())
        for part in more:
            count += part.count
            match part:
                case DistributedRejects():
                    fragments += part.write_records()
                case UnmatchedPart(incoming, StagedUnmatched() as unmatched) if part.count:
                    fragments += unmatched.write_records(self.executor, incoming)
                case _:
                    assert isinstance(part, RecordedPart)
                    records += part.to_records()
        others = to_rejects_table(map(to_rejects_line, records))
        rejected = replace(self.rejected, fragments=tuple(fragments))
        if self.rejected.target.is_shared and count > load_incoming.LOCAL_LOAD_ROWS:
            (path,) = self.executor.run(rejected.write_file, [others])
            return path
        return rejected.write_file(others)


def collect_rejected(
    executor: SparkExecutor,
    scratch: Table,
    fragments: tuple[FragmentText, ...],
    blocks: BlockLines,
    counts: Mapping[str, int],
    target: RejectsTarget,
) -> SparkQuarantine:
    """Return the quarantine of rejected records that tasks wrote to fragments of the scratch table."""
    return SparkQuarantine(executor, _RejectedRows(scratch, fragments, blocks, target), counts)


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
            file = Path(folder, "rejected")
            write = write_rejects_lines if self.target.name.endswith(LINES_SUFFIXES) else write_rejects_parquet
            write(file, chain(self._read_rejected(), [others]))
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
            yield pa.Table.from_batches([rows]).select(REJECTS_SCHEMA.names)
