"""The candidate rows of a diff or a merge as input of a shuffle by id, and what a partition receives of them.

Candidates are the rows that may have changed, according to metadata (``read/changes/candidates.py``). They are shuffled
by id, so that all sides of an id are in one partition. Sections are tables, streams are their sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.changes import CandidateFragment, CandidateRows, DiffSide
from omnigraph.spark.shuffle import Packer, ReceivedRows
from omnigraph.spark.sized_frames import MAX_PARTITIONS, PARTITION_BYTES
from omnigraph.storage.tables import ROW_ADDRESS, Table, estimate_row_bytes

MIN_ROWS_PER_PARTITION: Final = 5_000
_ROWS_PER_TASK: Final = 250_000


def choose_partition_count(sides: Sequence[DiffSide], parallelism: int) -> int:
    """Choose the number of partitions: none is very large, and all executors have work."""
    rows = sum(side.num_rows for side in sides)
    size = sum(side.num_rows * estimate_row_bytes(side.schema) for side in sides)
    busy = min(parallelism, rows // MIN_ROWS_PER_PARTITION)
    return max(1, min(MAX_PARTITIONS, max(busy, size // PARTITION_BYTES)))


def split_candidates(candidates: CandidateRows | None) -> Iterator[CandidateRows]:
    """Split candidate rows into pieces for one task each."""
    if candidates is None:
        return
    pending: list[CandidateFragment] = []
    for part in candidates.parts:
        pending.append(part)
        if sum(each.num_rows for each in pending) >= _ROWS_PER_TASK:
            yield CandidateRows(candidates.table, tuple(pending))
            pending = []
    if pending:
        yield CandidateRows(candidates.table, tuple(pending))


@dataclass(frozen=True, slots=True)
class CandidateInput:
    """Shuffle input: candidate rows of one side of a table. Table and stream are numbers that tasks know."""

    table: int
    stream: int
    side: DiffSide

    def pack(self, partitions: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows, packed by hash partition of their ids."""
        packer = Packer(self.table, self.stream, "id", partitions)
        return packer.pack_batches(self.side.open_stream(self.side.schema.names).rows)


@dataclass(frozen=True, slots=True)
class _ReceivedCandidates:
    """The candidate rows of one side, in a file of this executor."""

    table: Table
    received: ReceivedRows

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self.received.num_rows

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows with their addresses."""
        return (batch.select([*columns, ROW_ADDRESS]) for batch in self.received.batches())


@dataclass(frozen=True, slots=True)
class StreamSource:
    """Where the rows of a stream come from: the table, if it exists, and its type in that snapshot."""

    table: Table | None
    type: NodeType | EdgeType

    def to_side(self, received: ReceivedRows | None) -> DiffSide:
        """Return the received rows as one side of a comparison."""
        if self.table is None or received is None:
            return DiffSide(None, self.type)
        return DiffSide(_ReceivedCandidates(self.table, received), self.type)
