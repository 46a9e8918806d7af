"""What the benchmarks of Spark are given: people and whom they know, as files of Parquet and CSV, always the same.

from spark_rows import Size, write_files
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from omnigraph.storage.columns import as_text, join_texts

SCHEMA = """
node Person { name: String @key  age: I64? }
edge Knows: Person -> Person { since: I64? }
"""
PEOPLE = pa.schema([pa.field("name", pa.string()), pa.field("age", pa.int64())])
KNOWS = pa.schema([pa.field("from", pa.string()), pa.field("to", pa.string()), pa.field("since", pa.int64())])
COLUMNS = {"Person": "name string, age long", "Knows": "`from` string, `to` string, since long"}
"""The columns of the files by type, as Spark declares them for CSV."""

SEED = 7
_AT_ONCE = 500_000


@dataclass(frozen=True, slots=True)
class Size:
    """How many rows there are."""

    nodes: int
    edges: int

    @property
    def rows(self) -> int:
        """Nodes and edges alike."""
        return self.nodes + self.edges

    def part(self, share: int) -> Size:
        """One part of as many."""
        return Size(max(1, self.nodes // share), max(1, self.edges // share))

    def people(self) -> Iterator[pa.RecordBatch]:
        """The nodes, a piece at a time."""
        for start in range(0, self.nodes, _AT_ONCE):
            numbers = np.arange(start, min(start + _AT_ONCE, self.nodes))
            yield pa.RecordBatch.from_arrays([_names(numbers), pa.array(numbers % 90)], schema=PEOPLE)

    def knows(self) -> Iterator[pa.RecordBatch]:
        """The edges, a piece at a time: any two people."""
        random = np.random.default_rng(SEED)
        for start in range(0, self.edges, _AT_ONCE):
            count = min(_AT_ONCE, self.edges - start)
            ends = [_names(random.integers(0, self.nodes, count)) for _ in range(2)]
            yield pa.RecordBatch.from_arrays([*ends, pa.array(random.integers(1970, 2026, count))], schema=KNOWS)


def _names(numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.StringArray:
    return join_texts("person-", as_text(pa.array(numbers)))


def write_files(folder: Path, size: Size, *, csv: bool) -> None:
    """The rows as files: ``Person.parquet`` and ``Knows.parquet``, and the same as CSV where that is wanted."""
    for name, schema, pieces in (("Person", PEOPLE, size.people), ("Knows", KNOWS, size.knows)):
        with pq.ParquetWriter(str(folder / f"{name}.parquet"), schema) as parquet:
            for piece in pieces():
                parquet.write_batch(piece)
        if csv:
            with pa_csv.CSVWriter(str(folder / f"{name}.csv"), schema) as text:
                for piece in pieces():
                    text.write_batch(piece)
