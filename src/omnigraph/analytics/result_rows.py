"""The rows of a result: what a result asks of them, whether they are a table here or files that executors read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.schema import Catalog, Schema
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.columns import Values
from omnigraph.write.commit import CommitOptions
from omnigraph.write.load import LoadInput, LoadOptions, LoadResult, TableInput

FrameMaker: TypeAlias = Callable[[pa.Table], Any]
"""Makes a DataFrame of Spark of a table."""


@dataclass(frozen=True, slots=True)
class ResultLoader:
    """How the rows of a result are written to a graph, and compared with what it has."""

    load: Callable[[Manifest, Schema, LoadInput, LoadOptions, CommitOptions], LoadResult]
    are_kept: Callable[[Manifest, Snapshot, Catalog, LoadInput], bool]
    """Whether a snapshot has the given values already."""


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

    @property
    def loader(self) -> ResultLoader:
        """Writes what :meth:`select_nodes` returns."""
        ...

    def read_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows."""
        ...

    def find_largest(self, column: str, count: int) -> pa.Table:
        """Return the rows with the largest values of a column, equal ones in their order."""
        ...

    def select_nodes(self, type_name: str, columns: Mapping[str, str]) -> TableInput:
        """Return some columns of the rows of one type, with new names, for a load."""
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
