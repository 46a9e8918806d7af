"""The rows of a result: what a result asks of them, whether they are a table here or files that executors read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.columns import Values

FrameMaker: TypeAlias = Callable[[pa.Table], Any]
"""Makes a DataFrame of Spark of a table."""


@dataclass(frozen=True, slots=True)
class RowSelection:
    """Some rows and columns of a result, which are made anew each time they are read."""

    schema: pa.Schema
    num_rows: int
    read: Callable[[], Iterator[pa.RecordBatch]] = field(repr=False)

    def open(self) -> pa.RecordBatchReader:
        """Return the rows as a stream, for a load."""
        return pa.RecordBatchReader.from_batches(self.schema, self.read())


def select_table(table: pa.Table) -> RowSelection:
    """Return the rows of a table."""
    return RowSelection(table.schema, table.num_rows, lambda: iter(table.to_batches()))


class ResultRows(Protocol):
    """Rows of (type, id, values), ordered by type and id."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        ...

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        ...

    @property
    def types(self) -> list[str]:
        """The types that the nodes of the rows have, sorted."""
        ...

    def read_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows."""
        ...

    def find_largest(self, column: str, count: int) -> pa.Table:
        """Return the rows with the largest values of a column, equal ones in their order."""
        ...

    def select_nodes(self, type_name: str, columns: Mapping[str, str]) -> RowSelection:
        """Return some columns of the rows of one type, with new names."""
        ...

    def make_frame(self, make: FrameMaker) -> Any:
        """Return the rows as a DataFrame of Spark; ``make`` takes a table."""
        ...


def rank_values(rows: pa.Table, column: str) -> pa.UInt64Array:
    """Return the places of rows, the largest value of a column first, equal ones in their order."""
    return pc.sort_indices(rows, sort_keys=[(column, "descending")])


def find_column_type(rows: ResultRows, name: str) -> pa.DataType:
    """Return the type of a column."""
    return rows.schema.types[rows.schema.names.index(name)]


RowsMaker: TypeAlias = Callable[[Mapping[str, Values], str | None], ResultRows]
"""Makes rows of the values of all nodes. The values of the named column are numbers of nodes, which are to be named."""
