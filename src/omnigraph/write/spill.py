"""Rows in files of this machine: mapped into memory they take none of it, however many they are.

The files have no names any more once they are written; the space is free again when the rows are not needed.
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
    """The rows of a stream, in a file."""
    with TemporaryDirectory(prefix="omnigraph-rows-") as folder:
        path = Path(folder, "rows.arrow")
        with ipc.new_file(str(path), schema) as file:
            for piece in pieces:
                file.write_table(piece)
        return _mapped(path)


def spill_partitions(schema: pa.Schema, pieces: Iterable[pa.Table], column: str, parts: int) -> list[pa.Table]:
    """The rows of a stream in so many files: rows that have the same text in a column lie in the same one."""
    with TemporaryDirectory(prefix="omnigraph-rows-") as folder:
        paths = [Path(folder, f"{part}.arrow") for part in range(parts)]
        with ExitStack() as stack:
            files = [stack.enter_context(ipc.new_file(str(path), schema)) for path in paths]
            for piece in _larger(schema, pieces):
                part_of = _parts(cast("pa.StringArray", column_of(piece, column)), parts)
                sorted_ = piece.take(np.argsort(part_of, kind="stable"))
                ends = np.cumsum(np.bincount(part_of, minlength=parts)).tolist()
                for file, start, end in zip(files, [0, *ends], ends, strict=False):
                    if end > start:
                        file.write_table(sorted_.slice(start, end - start))
        return [_mapped(path) for path in paths]


def _mapped(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as file:
        return ipc.open_file(file).read_all()


def _larger(schema: pa.Schema, pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in pieces that are worth being divided."""
    together: list[pa.Table] = []
    for piece in pieces:
        together.append(piece)
        if sum(each.num_rows for each in together) >= _ROWS_AT_ONCE:
            yield pa.concat_tables(together)
            together = []
    yield pa.concat_tables([schema.empty_table(), *together])


def _parts(texts: pa.StringArray, parts: int) -> npt.NDArray[np.int64]:
    """A number below ``parts`` for each text, equal for equal texts: made of its length and its last bytes."""
    _, offsets, data = texts.buffers()
    if offsets is None or data is None or not data.size:
        return np.zeros(len(texts), np.int64)
    bounds = np.frombuffer(memoryview(offsets), np.int32)[texts.offset : texts.offset + len(texts) + 1]
    starts, ends, content = bounds[:-1], bounds[1:], np.frombuffer(memoryview(data), np.uint8)
    mixed = (ends - starts).astype(np.uint64)
    for back in range(1, _HASHED_BYTES + 1):
        at = ends - back
        byte = np.where(at >= starts, content[np.maximum(at, 0)], 0).astype(np.uint64)
        mixed = (mixed ^ byte) * np.uint64(0x100000001B3)
    return ((mixed >> np.uint64(17)) % np.uint64(parts)).astype(np.int64)
