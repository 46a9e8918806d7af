"""How many rows Lance gives when tables are scanned: what a cost test counts instead of time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pytest

from omnigraph.storage import tables
from omnigraph.storage.tables import Table


@contextmanager
def counting_scans() -> Generator[Callable[[], int]]:
    """How many rows scans of tables and of small fragments give inside the block; those of large fragments apart."""
    counted = 0
    take = tables.take_fragment
    batches_of = Table._batches

    def counting(self: Table, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        nonlocal counted
        for batch in batches_of(self, reader):
            counted += batch.num_rows
            yield batch

    def counting_fragment(table: Table, fragment: tables.TableFragment, columns: Sequence[str]) -> pa.Table:
        nonlocal counted
        counted += fragment.num_rows
        return take(table, fragment, columns)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "_batches", counting)
        patch.setattr(tables, "take_fragment", counting_fragment)
        yield lambda: counted
