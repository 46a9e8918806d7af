"""Rows in a temporary file, as Arrow batches, for results that are larger than the memory of their query.

The file has no name: its space is free as soon as nobody reads it any more, also after the process was killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from io import IOBase
from tempfile import TemporaryFile
from typing import IO, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from omnigraph.errors import StorageError
from omnigraph.read.memory import Holding
from omnigraph.storage.columns import column_of
from omnigraph.storage.internal_columns import InternalColumn


class SpilledRows:
    """Rows that are written once, in pieces, and then read in batches."""

    def __init__(self, schema: pa.Schema, batch_rows: int) -> None:
        self._batch_rows = batch_rows
        with _translate_errors():
            self._file: IO[bytes] = TemporaryFile(prefix="omnigraph-query-")  # noqa: SIM115  it is closed with the rows
        self._handle = cast("IOBase", self._file)
        self._writer: ipc.RecordBatchFileWriter | None = ipc.new_file(pa.PythonFile(self._handle, "w"), schema)

    def write(self, rows: pa.Table) -> None:
        """Append rows."""
        assert self._writer is not None, "rows are written before they are read"
        with _translate_errors():
            self._writer.write_table(rows, max_chunksize=self._batch_rows)

    def read(self) -> Iterator[pa.Table]:
        """Yield the rows in batches, in the order in which they were written."""
        with _translate_errors():
            if self._writer is not None:
                self._writer.close()
                self._file.flush()
                self._writer = None
            reader = ipc.open_file(pa.PythonFile(self._handle, "r"))
        for number in range(reader.num_record_batches):
            with _translate_errors():
                batch = reader.get_batch(number)
            yield pa.Table.from_batches([batch])

    def close(self) -> None:
        """Free the space."""
        self._file.close()


@contextmanager
def _translate_errors() -> Generator[None]:
    try:
        yield
    except OSError as error:
        folder = os.environ.get("TMPDIR", "the folder for temporary files")
        raise StorageError(
            f"rows of a query do not fit into {folder}: {error}",
            hint="free some space there, set TMPDIR to a larger disk, or allow the query more memory",
        ) from error


SortTable: TypeAlias = Callable[[pa.Table], pa.Table]


def merge_sorted(runs: Sequence[SpilledRows], sort: SortTable, held: Holding) -> Iterator[pa.Table]:
    """Yield the rows of sorted runs as one sorted run, a bounded number of rows at a time."""
    batches = [run.read() for run in runs]
    heads = [next(each, None) for each in batches]
    while True:
        present = [(number, head) for number, head in enumerate(heads) if head is not None]
        if not present:
            return
        # Four times: the batches, the rows put together, their order, and the rows in order.
        held.resize(4 * sum(head.nbytes for _, head in present))
        rows = sort(pa.concat_tables([_mark_run(head, number) for number, head in present]))
        origin = column_of(rows, InternalColumn.RUN).to_numpy(zero_copy_only=False)
        # Rows up to the end of the batch that ends first are not larger than any row that was not read yet.
        count = 1 + min(int(np.flatnonzero(origin == number)[-1]) for number, _ in present)
        yield rows.slice(0, count).remove_column(rows.schema.get_field_index(InternalColumn.RUN))
        taken = np.bincount(origin[:count], minlength=len(runs))
        for number, head in present:
            rest = head.slice(int(taken[number]))
            heads[number] = rest if rest.num_rows else next(batches[number], None)


def _mark_run(rows: pa.Table, number: int) -> pa.Table:
    return rows.append_column(InternalColumn.RUN, pa.array(np.full(rows.num_rows, number, np.int32)))
