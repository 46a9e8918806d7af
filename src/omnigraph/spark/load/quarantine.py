"""Collect the rejected records of a load on Spark from the scratch table into one Parquet file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, cast

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.spark.load.incoming_rows import BlockLines
from omnigraph.spark.load.load_task import REJECTED
from omnigraph.storage import table_writes as tables
from omnigraph.storage.columns import column_of, to_list
from omnigraph.storage.staging import FragmentText
from omnigraph.storage.table import Table
from omnigraph.write.load import RejectedRecord, RejectsLine, RejectsTarget, to_rejects_line

_FILE: Final = pa.schema(
    [
        pa.field(name, pa.int64() if name == "line" else pa.string())
        for name in ("record", "file", "line", "type", "id", "rule", "message")
    ]
)
_ROWS_AT_ONCE: Final = 10_000


@dataclass(frozen=True, slots=True)
class ParquetQuarantine:
    """The rejected records of all tasks, in fragments of the scratch table."""

    scratch: Table
    fragments: tuple[FragmentText, ...]
    blocks: BlockLines
    count: int
    target: RejectsTarget

    def deliver(self, more: Iterable[RejectedRecord]) -> str:
        """Write them and ``more`` to the target file, which replaces an earlier delivery."""
        with TemporaryDirectory(prefix="omnigraph-load-") as folder:
            file = Path(folder, "rejected.parquet")
            with pq.ParquetWriter(str(file), _FILE) as writer:
                for rows in self._read_rejected():
                    writer.write_table(rows)
                for rows in _batch_rows(to_rejects_line(each) for each in more):
                    writer.write_table(pa.Table.from_pylist(rows, _FILE))
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


def _batch_rows(rows: Iterable[RejectsLine]) -> Iterator[list[dict[str, object]]]:
    batch_: list[dict[str, object]] = []
    for row in rows:
        batch_.append(dict(row))
        if len(batch_) == _ROWS_AT_ONCE:
            yield batch_
            batch_ = []
    if batch_:
        yield batch_
