"""The result of a query: rows in named columns, computed lazily.

A result may be larger than memory: iteration and ``batches`` compute it piece by piece and keep nothing. Everything
else reads it whole, once. A DateTime is a UTC timestamp in milliseconds, a vector a list of fixed size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa

from omnigraph.errors import Json, ParameterError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.history import Commit
from omnigraph.read.rows import to_json_rows, to_public_batch, to_public_schema, to_python_rows

if TYPE_CHECKING:
    import pandas
    import polars
    from pandas.api.extensions import ExtensionDtype

BATCH_ROWS: Final = 65_536
_SHOWN_ROWS: Final = 20
_SHOWN_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class ResultPage:
    """Some consecutive rows of a result. ``more``: there are others after them."""

    rows: pa.Table
    more: bool


class Result:
    """The rows of one query on one snapshot. ``commit`` is the newest commit of that snapshot."""

    def __init__(
        self,
        query_name: str,
        schema: pa.Schema,
        make: Callable[[], Iterator[pa.RecordBatch]],
        *,
        branch: str,
        commit: Commit | None,
    ) -> None:
        self.query_name = query_name
        self.schema = to_public_schema(schema)
        self.branch = branch
        self.commit = commit
        self._make = make

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return self.schema.names

    @cached_property
    def rows(self) -> list[dict[str, object]]:
        """Every row as a dict of Python values; a datetime is aware, in UTC."""
        return [row for batch in self._computed for row in to_python_rows(batch)]

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return sum(batch.num_rows for batch in self._computed)

    def __len__(self) -> int:
        return self.row_count

    def __iter__(self) -> Iterator[dict[str, object]]:
        """Iterate over the rows, computed in batches that are not kept."""
        for batch in self.batches():
            yield from to_python_rows(batch)

    def batches(self, size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the rows in Arrow batches of this size, the last one smaller. They are computed lazily."""
        if size < 1:
            raise ParameterError(f"a batch of {size} rows", hint="give the number of rows, at least 1")
        return self._batches(size)

    def head(self, limit: int) -> Result:
        """Return the first ``limit`` rows as a result of its own. Without an order, the others are not computed."""
        if limit < 0:
            raise ParameterError(f"limit is {limit}", hint="give a number of rows, 0 or more")
        return Result(self.query_name, self.schema, lambda: self._first(limit), branch=self.branch, commit=self.commit)

    def _first(self, limit: int) -> Iterator[pa.RecordBatch]:
        if not limit:
            return
        for piece in self._pieces():
            yield piece.slice(0, min(limit, piece.num_rows))
            limit -= piece.num_rows
            if limit <= 0:
                return

    def page(self, offset: int = 0, limit: int = BATCH_ROWS) -> ResultPage:
        """Return up to ``limit`` rows from ``offset`` on. Without an order, only one row more is computed."""
        for name, number in (("offset", offset), ("limit", limit)):
            if number < 0:
                raise ParameterError(f"{name} is {number}", hint="give a number of rows, 0 or more")
        skip, wanted = offset, limit + 1
        found: list[pa.RecordBatch] = []
        for piece in self._pieces():
            part = piece.slice(min(skip, piece.num_rows), min(wanted, piece.num_rows))
            skip -= min(skip, piece.num_rows)
            wanted -= part.num_rows
            found.append(part)
            if not wanted:
                break
        rows = pa.Table.from_batches(found, self.schema)
        return ResultPage(rows.slice(0, min(limit, rows.num_rows)), rows.num_rows > limit)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Hand the rows to any library that reads Arrow, without a copy: ``polars.DataFrame(result)``."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self._pieces())
        return cast(object, reader.__arrow_c_stream__(requested_schema))

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table."""
        return self._table

    def to_pandas(self) -> pandas.DataFrame:
        """Return all rows as a pandas frame. Integers stay integers, even if some are null."""
        from omnigraph.read.rows import require_package

        require_package("pandas")
        import pandas as pd

        nullable: dict[pa.DataType, ExtensionDtype] = {
            pa.int32(): pd.Int32Dtype(),
            pa.int64(): pd.Int64Dtype(),
            pa.uint32(): pd.UInt32Dtype(),
            pa.uint64(): pd.UInt64Dtype(),
        }
        columns = {name: self._table.column(name) for name in self.columns}
        return pd.DataFrame(
            {
                name: column.to_pandas(types_mapper=nullable.get if column.null_count else None)
                for name, column in columns.items()
            }
        )

    def to_polars(self) -> polars.DataFrame:
        """Return all rows as a polars frame."""
        from omnigraph.read.rows import require_package

        require_package("polars")
        import polars as pl

        return cast("polars.DataFrame", pl.from_arrow(self._table))

    def to_json(self) -> dict[str, Json]:
        """Return the JSON object that the command line and the server print for a query."""
        rows = [row for batch in self._computed for row in to_json_rows(batch)]
        return {
            "query_name": self.query_name,
            "columns": self.columns,
            "rows": rows,
            "row_count": len(rows),
            "branch": self.branch,
            "commit": None if self.commit is None else self.commit.id,
        }

    def __repr__(self) -> str:
        return f"Result({self.query_name!r}, columns={self.columns}, branch={self.branch!r})"

    def _repr_html_(self) -> str:
        """Return the first rows as an HTML table, for notebooks."""
        # A late import: only notebooks ask for it.
        from html import escape

        first = next(self.batches(_SHOWN_ROWS + 1), None)
        rows = [] if first is None else to_json_rows(first)
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(_shorten(value))}</td>' for value in row.values())}</tr>"
            for row in rows[:_SHOWN_ROWS]
        )
        more = f"the first {_SHOWN_ROWS} rows" if len(rows) > _SHOWN_ROWS else f"{len(rows)} rows"
        return f"<table><caption>{escape(self.query_name)}: {more}</caption><tr>{head}</tr>{body}</table>"

    @cached_property
    def _table(self) -> pa.Table:
        return pa.Table.from_batches(self._computed, self.schema)

    @cached_property
    def _computed(self) -> list[pa.RecordBatch]:
        """All rows, once they are computed."""
        return list(self._compute())

    def _pieces(self) -> Iterator[pa.RecordBatch]:
        return iter(self._computed) if "_computed" in self.__dict__ else self._compute()

    def _compute(self) -> Iterator[pa.RecordBatch]:
        for batch in self._make():
            yield to_public_batch(batch, self.schema)

    def _batches(self, size: int) -> Iterator[pa.RecordBatch]:
        waiting = self.schema.empty_table()
        for piece in self._pieces():
            waiting = pa.concat_tables([waiting, pa.Table.from_batches([piece])])
            whole = waiting.num_rows - waiting.num_rows % size
            for begin in range(0, whole, size):
                yield from waiting.slice(begin, size).combine_chunks().to_batches()
            waiting = waiting.slice(whole)
        yield from waiting.combine_chunks().to_batches()


def _shorten(value: Json) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
