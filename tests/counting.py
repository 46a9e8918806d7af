"""How many rows Lance gives when tables are scanned: what a cost test counts instead of time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from omnigraph.storage.table import Table


@contextmanager
def counting_scans() -> Generator[Callable[[], int]]:
    """How many rows scans of whole tables give inside the block; those of single fragments apart."""
    counted = 0
    batches_of = Table._batches

    def counting(self: Table, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        nonlocal counted
        for batch in batches_of(self, reader):
            counted += batch.num_rows
            yield batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "_batches", counting)
        yield lambda: counted
