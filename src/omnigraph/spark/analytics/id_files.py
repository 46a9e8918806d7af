"""Files of ids in ascending order, by their bytes, in pieces that can be read alone.

Whoever knows the first id of each piece finds an id, and whoever knows a place finds its id, by reading one piece.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, cast

import numpy as np
import pyarrow as pa
from ulid import ULID

from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import Positions
from omnigraph.spark.scratch import ScratchFolder
from omnigraph.storage.columns import Values, column_of, compute, to_list

IDS: Final = pa.schema([pa.field("id", pa.large_string())])
PLACED_IDS: Final = pa.schema([pa.field("id", pa.large_string()), pa.field("row", pa.int32())])
"""Ids with their rows in the table."""


@dataclass(frozen=True, slots=True)
class IdFile:
    """A file of sorted ids. Python compares texts by code points, which is the order of their bytes."""

    path: str
    lows: tuple[str, ...]
    """The first id of each piece."""
    begins: tuple[int, ...]
    """The place of the first id of each piece, and their number."""
    offsets: tuple[int, ...]
    """The byte that each piece begins at, and their number."""

    def __len__(self) -> int:
        return self.begins[-1]

    def find_pieces(self, low: str | None, high: str | None) -> tuple[int, int]:
        """Return the range of pieces that may have ids from ``low`` on and below ``high``."""
        first = 0 if low is None else max(0, bisect_right(self.lows, low) - 1)
        return first, len(self.lows) if high is None else bisect_left(self.lows, high)

    def group_pieces(self, most: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of pieces with about so many ids each."""
        step = max(1, most * len(self.lows) // max(1, len(self)))
        for begin in range(0, len(self.lows), step):
            yield begin, min(begin + step, len(self.lows))

    def read(self, folder: ScratchFolder, schema: pa.Schema, pieces: tuple[int, int]) -> pa.Table:
        """Read a range of pieces."""
        begin, end = pieces
        if begin >= end:
            return schema.empty_table()
        data = folder.get_range(self.path, self.offsets[begin], self.offsets[end])
        return read_messages(data, schema, end - begin)

    def read_ids(self, folder: ScratchFolder) -> Values:
        """Read all ids."""
        return column_of(self.read(folder, IDS, (0, len(self.lows))), "id")


def read_messages(data: bytes, schema: pa.Schema, count: int) -> pa.Table:
    """Read so many batches that :func:`dump_batch` made, one behind the other."""
    source = pa.BufferReader(data)
    batches = [pa.ipc.read_record_batch(pa.ipc.read_message(source), schema) for _ in range(count)]
    return pa.Table.from_batches(batches, schema)


def dump_batch(rows: pa.Table) -> bytes:
    """Return rows as one batch of Arrow, without their schema."""
    if not rows.num_rows:
        return b""
    (batch,) = rows.combine_chunks().to_batches()
    return batch.serialize().to_pybytes()


def write_id_file(folder: ScratchFolder, rows: pa.Table, piece: int) -> IdFile:
    """Write sorted ids, and columns beside them, so many in a piece. No file is written if there are none."""
    path = f"ids-{ULID()}.bin"
    begins = [*range(0, rows.num_rows, piece), rows.num_rows]
    bodies = [dump_batch(rows.slice(begin, end - begin)) for begin, end in pairwise(begins)]
    if bodies:
        folder.put(path, b"".join(bodies))
    lows = cast("list[str]", to_list(column_of(rows, "id").take(pa.array(begins[:-1], pa.int64()))))
    return IdFile(path, tuple(lows), tuple(begins), (0, *np.cumsum([len(body) for body in bodies]).tolist()))


def sort_rows_by_id(rows: pa.Table) -> pa.Table:
    """Sort rows by the bytes of their ids, as nodes are numbered everywhere."""
    return rows.take(cast("pa.UInt64Array", compute("array_sort_indices", column_of(rows, "id"))))


def keep_between(rows: pa.Table, low: str | None, high: str | None) -> pa.Table:
    """Return the rows with ids from ``low`` on and below ``high``."""
    for how, bound in (("greater_equal", low), ("less", high)):
        if bound is not None:
            mask = compute(how, column_of(rows, "id"), pa.scalar(bound, pa.large_string()))
            rows = rows.filter(cast("pa.BooleanArray", mask))
    return rows


def find_places(starts: Positions, places: Positions) -> tuple[Positions, Positions]:
    """Return which part each place is in, and where in it; ``starts`` has the first place of each part."""
    parts = np.searchsorted(starts, places, "right") - 1
    return parts, places - starts[parts]
