"""Group the rows of two sides by ranges of ids, with bounded memory.

Few rows are kept in memory and form a single range. Larger inputs are spilled to local files, one for each range and
side, and are read back range by range. A sample of the ids, read beforehand, gives ranges of about equal size. The
files are deleted when their range has been read.
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

from omnigraph.storage.columns import Values, column_of, compute, to_bool_array

HELD_BYTES: Final = 64 * 1024 * 1024
"""The bytes of both sides that are kept in memory before rows are spilled; a range holds about half as much."""

_MAX_RANGES: Final = 200
_SAMPLES_PER_RANGE: Final = 256


class RangeRows(NamedTuple):
    """The rows of both sides whose ids lie in one range. A side without rows has only the column ``id``."""

    before: pa.Table
    after: pa.Table


class RowStream(NamedTuple):
    """The rows of one side with a column ``id``, their number, and a function that reads the ids alone."""

    rows: Iterator[pa.RecordBatch]
    num_rows: int
    ids: Callable[[], Iterator[pa.RecordBatch]]


def group_by_id_range(before: RowStream, after: RowStream) -> Iterator[RangeRows]:
    """Yield the rows of both sides by ranges of ids, lower ids first; rows within a range are not sorted."""
    streams = (before, after)
    batches = chain.from_iterable(((side, batch) for batch in stream.rows) for side, stream in enumerate(streams))
    held: list[tuple[int, pa.RecordBatch]] = []
    nbytes = 0
    for side, batch in batches:
        held.append((side, batch))
        nbytes += batch.nbytes
        if nbytes > HELD_BYTES:
            break
    else:
        if held:
            yield RangeRows(*(_to_table(batch for side, batch in held if side == number) for number in (0, 1)))
        return
    rows_held = sum(batch.num_rows for _, batch in held)
    total = sum(stream.num_rows for stream in streams)
    ranges = min(_MAX_RANGES, 1 + int(2 * nbytes / rows_held * total / HELD_BYTES))
    bounds = _choose_bounds(streams, total, ranges)
    yield from _spill_by_range(chain(_drain(held), batches), bounds)


def _to_table(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    found = list(batches)
    return pa.Table.from_batches(found) if found else _empty_table()


def _empty_table() -> pa.Table:
    return pa.table({"id": pa.array([], pa.string())})


def _drain(held: list[tuple[int, pa.RecordBatch]]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the held batches and release each of them."""
    held.reverse()
    while held:
        yield held.pop()


def _choose_bounds(streams: Iterable[RowStream], total: int, ranges: int) -> Values:
    """Choose the lowest id of each range except the first, from a sample of the ids."""
    step = max(1, total // (ranges * _SAMPLES_PER_RANGE))
    samples: list[Values] = []
    seen = 0
    for batch in chain.from_iterable(stream.ids() for stream in streams):
        samples.append(column_of(batch, "id").take(np.arange(-seen % step, batch.num_rows, step)))
        seen += batch.num_rows
    ids = pa.concat_arrays(samples)
    ids = ids.take(compute("array_sort_indices", ids).to_numpy())
    ends = np.arange(1, ranges) * len(ids) // ranges
    return ids.take(np.unique(ends)).unique()


def _spill_by_range(batches: Iterator[tuple[int, pa.RecordBatch]], bounds: Values) -> Iterator[RangeRows]:
    """Write all batches to a file for each range and side, then yield the ranges."""
    with TemporaryDirectory(prefix="omnigraph-rows-") as folder:
        paths = [[Path(folder, f"{number}-{side}.arrow") for side in (0, 1)] for number in range(len(bounds) + 1)]
        with ExitStack() as stack:
            files: dict[Path, ipc.RecordBatchFileWriter] = {}
            for side, batch in batches:
                for number, part in _split_by_range(batch, bounds):
                    path = paths[number][side]
                    if path not in files:
                        files[path] = stack.enter_context(ipc.new_file(str(path), part.schema))
                    files[path].write_batch(part)
        for pair in paths:
            yield RangeRows(*(_read_file(path) if path in files else _empty_table() for path in pair))
            for path in pair:
                path.unlink(missing_ok=True)


def _split_by_range(batch: pa.RecordBatch, bounds: Values) -> Iterator[tuple[int, pa.RecordBatch]]:
    ranges = _find_ranges(column_of(batch, "id"), bounds)
    order = np.argsort(ranges, kind="stable")
    numbers, starts = np.unique(ranges[order], return_index=True)
    for number, places in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
        yield number, batch.take(places)


def _find_ranges(ids: Values, bounds: Values) -> npt.NDArray[np.int64]:
    """Return the number of the range of each id, by a binary search that advances all ids together."""
    low, high = np.zeros(len(ids), np.int64), np.full(len(ids), len(bounds), np.int64)
    for _ in range(len(bounds).bit_length()):
        middle = (low + high) >> 1
        begun = to_bool_array(compute("less_equal", bounds.take(np.minimum(middle, len(bounds) - 1)), ids))
        open_ = low < high
        low, high = np.where(open_ & begun, middle + 1, low), np.where(open_ & ~begun, middle, high)
    return low


def _read_file(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as file:
        return ipc.open_file(file).read_all()
