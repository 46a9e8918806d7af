"""Spills rows to temporary files that are mapped into memory, so that their number does not matter.

The files are unlinked once they are written; the disk space is free again when the rows are released.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc as ipc

from omnigraph.storage.columns import column_of

_ROWS_AT_ONCE: Final = 65_536
_HASHED_BYTES: Final = 12


def spill_rows(schema: pa.Schema, pieces: Iterable[pa.Table]) -> pa.Table:
    """Write a stream of rows to a file and return them, mapped from there."""
    with TemporaryDirectory(prefix="omnigraph-rows-") as folder:
        path = Path(folder, "rows.arrow")
        with ipc.new_file(str(path), schema) as file:
            for piece in pieces:
                file.write_table(piece)
        return _map_file(path)


def spill_partitions(schema: pa.Schema, pieces: Iterable[pa.Table], column: str, count: int) -> list[pa.Table]:
    """Write a stream of rows to ``count`` files: rows with the same string in a column go to the same file."""
    with TemporaryDirectory(prefix="omnigraph-rows-") as folder:
        paths = [Path(folder, f"{number}.arrow") for number in range(count)]
        with ExitStack() as stack:
            files = [stack.enter_context(ipc.new_file(str(path), schema)) for path in paths]
            for piece in _combine_pieces(schema, pieces):
                partition_of = _assign_partitions(cast("pa.StringArray", column_of(piece, column)), count)
                sorted_ = piece.take(np.argsort(partition_of, kind="stable"))
                ends = np.cumsum(np.bincount(partition_of, minlength=count)).tolist()
                for file, start, end in zip(files, [0, *ends], ends, strict=False):
                    if end > start:
                        file.write_table(sorted_.slice(start, end - start))
        return [_map_file(path) for path in paths]


def spill_array(count: int, type_: np.dtype[np.bytes_]) -> npt.NDArray[np.bytes_]:
    """Return an array of zero bytes that lies in a file if it is large."""
    if count <= _ROWS_AT_ONCE:
        return np.zeros(count, type_)
    with TemporaryDirectory(prefix="omnigraph-rows-") as folder:
        return np.memmap(Path(folder, "array"), type_, "w+", shape=(count,))


def _map_file(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as file:
        return ipc.open_file(file).read_all()


def _combine_pieces(schema: pa.Schema, pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Combine small pieces, so that dividing them pays."""
    pending: list[pa.Table] = []
    row_count = 0
    for piece in pieces:
        pending.append(piece)
        row_count += piece.num_rows
        if row_count >= _ROWS_AT_ONCE:
            yield pa.concat_tables(pending)
            pending, row_count = [], 0
    yield pa.concat_tables([schema.empty_table(), *pending])


def _assign_partitions(texts: pa.StringArray, count: int) -> npt.NDArray[np.int64]:
    """Hash each string to a number below ``count``, by its length and its last bytes."""
    _, offsets, data = texts.buffers()
    if offsets is None or data is None or not data.size:
        return np.zeros(len(texts), np.int64)
    bounds = np.frombuffer(memoryview(offsets), np.int32)[texts.offset : texts.offset + len(texts) + 1]
    starts, ends, content = bounds[:-1], bounds[1:], np.frombuffer(memoryview(data), np.uint8)
    hashes = (ends - starts).astype(np.uint64)
    for back in range(1, _HASHED_BYTES + 1):
        at = ends - back
        byte = np.where(at >= starts, content[np.maximum(at, 0)], 0).astype(np.uint64)
        hashes = (hashes ^ byte) * np.uint64(0x100000001B3)
    return ((hashes >> np.uint64(17)) % np.uint64(count)).astype(np.int64)
