"""How many rows Lance gives when tables are scanned: what a cost test counts instead of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

from omnigraph.storage import tables
from omnigraph.storage.tables import Table


def count_reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each table is scanned or looked up in from now on, by the last part of its path."""
    counted: Counter[str] = Counter()

    def count(name: str) -> None:
        method = cast("Callable[..., object]", getattr(Table, name))

        def counting(self: Table, *arguments: object, **options: object) -> object:
            counted[Path(self.uri).name] += 1
            return method(self, *arguments, **options)

        monkeypatch.setattr(Table, name, counting)

    for name in ("scan", "read"):
        count(name)
    return counted


@contextmanager
def counting_scans() -> Generator[Callable[[], int]]:
    """How many rows scans of tables and of small fragments give inside the block; those of large fragments apart."""
    counted = 0
    take = tables.take_fragment
    read, batches_of = Table.read, Table._batches

    def counting(self: Table, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        nonlocal counted
        for batch in batches_of(self, reader):
            counted += batch.num_rows
            yield batch

    def counting_rows(self: Table, columns: Sequence[str], filter: str) -> pa.Table:  # noqa: A002  as there
        nonlocal counted
        found = read(self, columns, filter)
        counted += found.num_rows
        return found

    def counting_fragment(table: Table, fragment: tables.TableFragment, columns: Sequence[str]) -> pa.Table:
        nonlocal counted
        counted += fragment.num_rows
        return take(table, fragment, columns)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "_batches", counting)
        patch.setattr(Table, "read", counting_rows)
        patch.setattr(tables, "take_fragment", counting_fragment)
        yield lambda: counted
