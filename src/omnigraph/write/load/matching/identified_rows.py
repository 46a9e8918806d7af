"""Incoming rows after a merge has looked for their stored rows: what is the same is left out, what differs takes an id.

Nothing is copied: the rows stay where they were staged, and are filtered and given their ids when they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage import tables
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import Values, column_of, compute, find_true, is_among, take_where
from omnigraph.storage.tables import FragmentText, Table, WriteMode
from omnigraph.write.load.rows import NumberedRows, RowNumbers, RowStorage, exclude_ids, to_reader

TAKEN_IDS: Final = pa.schema([pa.field("staged_id", pa.string()), pa.field("id", pa.string())])
"""The id that a row was staged with, and that of the stored row which it replaces."""


@dataclass(frozen=True, slots=True, eq=False)
class IdentityMatch:
    """What became of incoming rows, by row number: 9 bytes each, and the taken ids."""

    unchanged: npt.NDArray[np.bool_]
    """Whether the graph has the row already."""
    places: npt.NDArray[np.int64]
    """The place of the row among the taken ids; -1 if it keeps the id that it was staged with."""
    taken: pa.Table
    """See :data:`TAKEN_IDS`."""

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, IdentityMatch)
            and np.array_equal(self.unchanged, other.unchanged)
            and np.array_equal(self.places, other.places)
            and bool(self.taken.equals(other.taken))
        )

    __hash__ = None  # pyright: ignore[reportAssignmentType]  its arrays have none


@dataclass(frozen=True, slots=True)
class IdentifiedRows:
    """Rows without those that are unchanged, and with the ids of the stored rows that they replace."""

    type: NodeType | EdgeType
    staged: RowStorage
    match: IdentityMatch

    @property
    def is_in_memory(self) -> bool:
        """Whether the staged rows are in memory."""
        return self.staged.is_in_memory

    def read_columns(self, names: Sequence[str], excluded_ids: Values) -> pa.Table:
        """Return some columns of the rows except the excluded ids."""
        schema = arrow_schema(self.type).empty_table().select(list(names)).schema
        pieces = (rows for _, rows in self._identify(self.staged.scan(names)))
        return self.staged.collect(schema, (exclude_ids(rows, excluded_ids) for rows in pieces))

    def find_rows(self, ids: Values, names: Sequence[str] | None) -> Iterator[NumberedRows]:
        """Yield the rows of some ids with their row numbers."""
        is_taken = find_true(cast("Values", is_among(column_of(self.match.taken, "id"), ids)))
        staged_ids = column_of(self.match.taken, "staged_id").take(is_taken)
        for numbers, rows in self._identify(self.staged.find_rows(pa.concat_arrays([ids, staged_ids]), names)):
            found = find_true(cast("Values", is_among(column_of(rows, "id"), ids)))
            yield numbers[found], rows.take(found)

    def scan(self, names: Sequence[str] | None) -> Iterator[NumberedRows]:
        """Yield some columns of all rows with their row numbers, in pieces, in order."""
        return self._identify(self.staged.scan(names))

    def read_blobs(self, column: str, numbers: RowNumbers) -> list[bytes | None]:
        """Return the bytes of a blob column in some rows."""
        return self.staged.read_blobs(column, numbers)

    def collect(self, schema: pa.Schema, pieces: Iterable[pa.Table]) -> pa.Table:
        """Return pieces of these rows as one table."""
        return self.staged.collect(schema, pieces)

    def write_to(self, table: Table, mode: WriteMode, excluded_ids: Values) -> tuple[FragmentText, ...]:
        """Write the rows except the excluded ids into the folder of a table."""
        pieces = (rows for _, rows in self.scan(None))
        return tables.write_rows(table, to_reader(arrow_schema(self.type), pieces, excluded_ids), mode)

    def _identify(self, pieces: Iterable[NumberedRows]) -> Iterator[NumberedRows]:
        for numbers, rows in pieces:
            changed = np.flatnonzero(~self.match.unchanged[numbers])
            kept = rows if len(changed) == len(numbers) else rows.take(changed)
            yield numbers[changed], self._take_ids(numbers[changed], kept)

    def _take_ids(self, numbers: RowNumbers, rows: pa.Table) -> pa.Table:
        places = self.match.places[numbers]
        if "id" not in rows.column_names or not (places >= 0).any():
            return rows
        ids = compute("coalesce", take_where(column_of(self.match.taken, "id"), places), column_of(rows, "id"))
        columns = {**dict(zip(rows.column_names, rows.columns, strict=True)), "id": ids}
        return pa.Table.from_arrays(list(columns.values()), schema=rows.schema)
