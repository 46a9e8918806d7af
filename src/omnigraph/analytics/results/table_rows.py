"""The rows of a result as a table in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import pyarrow as pa

from omnigraph.analytics.result_rows import FrameMaker, RowSelection, rank_values, select_table
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.columns import column_of, compute, to_list


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows that are a table."""

    table: pa.Table

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self.table.schema

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self.table.num_rows

    @property
    def types(self) -> list[str]:
        """The types that the nodes of the rows have, sorted."""
        return sorted(cast("list[str]", to_list(column_of(self.table, "type").unique())))

    def read_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows."""
        return iter(self.table.to_batches())

    def find_largest(self, column: str, count: int) -> pa.Table:
        """Return the rows with the largest values of a column, equal ones in their order."""
        return self.table.take(rank_values(self.table, column).slice(0, count))

    def select_nodes(self, type_name: str, columns: Mapping[str, str]) -> RowSelection:
        """Return some columns of the rows of one type, with new names."""
        mask = cast("pa.BooleanArray", compute("equal", column_of(self.table, "type"), pa.scalar(type_name)))
        return select_table(self.table.filter(mask).select(list(columns)).rename_columns(list(columns.values())))

    def make_frame(self, make: FrameMaker) -> Any:
        """Return the rows as a DataFrame of Spark."""
        return make(self.table)
