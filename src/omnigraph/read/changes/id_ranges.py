"""Rows of two sides by their ids, of which more may come than memory holds.

As long as there are few they are kept. Beyond that they go into files of this machine, each for a range of ids, and
come back range by range. How the ids spread is found by a look at some of them beforehand, so that the ranges hold
about as many rows each. The files are gone when the last range was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc as ipc

from omnigraph.storage.columns import Values, column_of, compute, truths

HELD_BYTES: Final = 64 * 1024 * 1024
"""So much is kept in memory, of both sides together, before it goes into files; a range holds about half of it."""

_MOST_RANGES: Final = 200
_LOOKS: Final = 256
"""For each range, so many ids are looked at beforehand."""


class RangeRows(NamedTuple):
    """The rows of both sides whose ids lie in one range. A side that has none has no other column than ``id``."""

    before: pa.Table
    after: pa.Table


class RowStream(NamedTuple):
    """One side: its rows with a column ``id``, how many they are, and only their ids, read on their own."""

    rows: Iterator[pa.RecordBatch]
    num_rows: int
    ids: Callable[[], Iterator[pa.RecordBatch]]


def group_by_id_range(before: RowStream, after: RowStream) -> Iterator[RangeRows]:
    """The rows of both sides, one range of ids after the other, lower ids first; not sorted within a range."""
    streams = (before, after)
    arriving = chain.from_iterable(((side, batch) for batch in stream.rows) for side, stream in enumerate(streams))
    held: list[tuple[int, pa.RecordBatch]] = []
    nbytes = 0
    for side, batch in arriving:
        held.append((side, batch))
        nbytes += batch.nbytes
        if nbytes > HELD_BYTES:
            break
    else:
        if held:
            yield RangeRows(*(_table(batch for side, batch in held if side == wanted) for wanted in (0, 1)))
        return
    rows_held = sum(batch.num_rows for _, batch in held)
    total = sum(stream.num_rows for stream in streams)
    ranges = min(_MOST_RANGES, 1 + int(2 * nbytes / rows_held * total / HELD_BYTES))
    bounds = _bounds(streams, total, ranges)
    yield from _through_files(chain(_drained(held), arriving), bounds)


def _table(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    found = list(batches)
    return pa.Table.from_batches(found) if found else _none()


def _none() -> pa.Table:
    return pa.table({"id": pa.array([], pa.string())})


def _drained(held: list[tuple[int, pa.RecordBatch]]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """What is held, let go one by one."""
    held.reverse()
    while held:
        yield held.pop()


def _bounds(streams: Iterable[RowStream], total: int, ranges: int) -> Values:
    """The ids that begin a range, the lowest one apart."""
    step = max(1, total // (ranges * _LOOKS))
    looked_at: list[Values] = []
    seen = 0
    for batch in chain.from_iterable(stream.ids() for stream in streams):
        looked_at.append(column_of(batch, "id").take(np.arange(-seen % step, batch.num_rows, step)))
        seen += batch.num_rows
    ids = pa.concat_arrays(looked_at)
    ids = ids.take(compute("array_sort_indices", ids).to_numpy())
    ends = np.arange(1, ranges) * len(ids) // ranges
    return ids.take(np.unique(ends)).unique()


def _through_files(arriving: Iterator[tuple[int, pa.RecordBatch]], bounds: Values) -> Iterator[RangeRows]:
    with TemporaryDirectory(prefix="omnigraph-rows-") as folder:
        paths = [[Path(folder, f"{number}-{side}.arrow") for side in (0, 1)] for number in range(len(bounds) + 1)]
        with ExitStack() as stack:
            files: dict[Path, ipc.RecordBatchFileWriter] = {}
            for side, batch in arriving:
                for number, part in _divided(batch, bounds):
                    path = paths[number][side]
                    if path not in files:
                        files[path] = stack.enter_context(ipc.new_file(str(path), part.schema))
                    files[path].write_batch(part)
        for pair in paths:
            yield RangeRows(*(_read(path) if path in files else _none() for path in pair))
            for path in pair:
                path.unlink(missing_ok=True)


def _divided(batch: pa.RecordBatch, bounds: Values) -> Iterator[tuple[int, pa.RecordBatch]]:
    ranges = _range_of(column_of(batch, "id"), bounds)
    order = np.argsort(ranges, kind="stable")
    numbers, starts = np.unique(ranges[order], return_index=True)
    for number, places in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
        yield number, batch.take(places)


def _range_of(ids: Values, bounds: Values) -> npt.NDArray[np.int64]:
    """The number of the range that each id lies in: one step of a binary search for all of them at a time."""
    low, high = np.zeros(len(ids), np.int64), np.full(len(ids), len(bounds), np.int64)
    for _ in range(len(bounds).bit_length()):
        middle = (low + high) >> 1
        begun = truths(compute("less_equal", bounds.take(np.minimum(middle, len(bounds) - 1)), ids))
        open_ = low < high
        low, high = np.where(open_ & begun, middle + 1, low), np.where(open_ & ~begun, middle, high)
    return low


def _read(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as file:
        return ipc.open_file(file).read_all()
