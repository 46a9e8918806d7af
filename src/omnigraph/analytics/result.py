"""The result of an algorithm: a row for each node, with what it was computed from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import Json, ParameterError
from omnigraph.language.source import suggest_name
from omnigraph.manifest.history import Commit
from omnigraph.read.result import Result
from omnigraph.read.rows import to_json_rows


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a result comes from: the algorithm with its parameters, the projection, and the engine."""

    algorithm: str
    parameters: Mapping[str, Json]
    projection: Mapping[str, Json]
    engine: str
    version: str


class AnalyticsResult(Result):
    """The values of an algorithm in rows of (type, id, values), ordered by type and id.

    ``commit`` is the newest commit of the snapshot that it was computed on.
    """

    def __init__(self, provenance: Provenance, table: pa.Table, *, branch: str, commit: Commit | None) -> None:
        super().__init__(
            provenance.algorithm, table.schema, lambda: iter(table.to_batches()), branch=branch, commit=commit
        )
        self.provenance = provenance

    @property
    def algorithm(self) -> str:
        """The name of the algorithm."""
        return self.provenance.algorithm

    @property
    def values(self) -> list[str]:
        """The names of the columns with values."""
        return self.columns[2:]

    def top(self, count: int = 10, by: str | None = None) -> AnalyticsResult:
        """Return the rows with the largest values of a column, by default the first; equal ones by type and id."""
        if count < 0:
            raise ParameterError(f"count is {count}", hint="give the number of rows")
        column = self.values[0] if by is None else by
        if column not in self.values:
            raise ParameterError(f"no column '{column}'", hint=suggest_name(column, self.values, "columns"))
        table = self.to_arrow()
        # Rows are ordered by type and id already, and the sort is stable.
        order = pc.sort_indices(table, sort_keys=[(column, "descending")]).slice(0, count)
        return AnalyticsResult(self.provenance, table.take(order), branch=self.branch, commit=self.commit)

    def to_json(self) -> dict[str, Json]:
        """Return the JSON object that the command line prints."""
        rows: list[Json] = [row for batch in self.to_arrow().to_batches() for row in to_json_rows(batch)]
        return {**self.describe(), "rows": rows, "row_count": self.row_count}

    def describe(self) -> dict[str, Json]:
        """Return everything but the rows."""
        found = self.provenance
        return {
            "algorithm": found.algorithm,
            "parameters": dict(found.parameters),
            "projection": dict(found.projection),
            "engine": found.engine,
            "columns": list[Json](self.columns),
            "branch": self.branch,
            "commit": None if self.commit is None else self.commit.id,
        }

    def __repr__(self) -> str:
        return f"AnalyticsResult({self.algorithm!r}, columns={self.columns}, branch={self.branch!r})"
