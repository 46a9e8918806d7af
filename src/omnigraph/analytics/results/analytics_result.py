"""The result of an algorithm: a row for each node, with what it was computed from."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa

from omnigraph.analytics.result_rows import ResultRows, find_column_type
from omnigraph.analytics.results.algorithms import ALGORITHMS
from omnigraph.analytics.results.pair_writes import PairWrite, write_pairs
from omnigraph.analytics.results.provenance import Provenance
from omnigraph.analytics.results.table_rows import TableRows
from omnigraph.analytics.results.write_back import ColumnWrite, Destination, WriteTarget, write_column
from omnigraph.arguments import check_calls
from omnigraph.deadlines import Timeout, observe_timeouts
from omnigraph.errors import Json, ParameterError, Unsupported
from omnigraph.language.source import suggest_name
from omnigraph.manifest.history import Commit
from omnigraph.manifest.references import Reference
from omnigraph.manifest.rows import MAIN
from omnigraph.read.result import Result
from omnigraph.read.rows import to_json_rows
from omnigraph.write.load import LoadResult


@observe_timeouts
@check_calls
class AnalyticsResult(Result):
    """The values of an algorithm in rows of (type, id, values), ordered by type and id.

    ``commit`` is the newest commit of the snapshot that it was computed on.
    """

    def __init__(
        self, provenance: Provenance, rows: ResultRows, target: WriteTarget, *, branch: str, commit: Commit | None
    ) -> None:
        super().__init__(provenance.algorithm, rows.schema, rows.read_batches, branch=branch, commit=commit)
        self.provenance = provenance
        self._stored = rows
        self._target = target
        self.timeout: Timeout = None

    @property
    def algorithm(self) -> str:
        """The name of the algorithm."""
        return self.provenance.algorithm

    @property
    def row_count(self) -> int:
        """The number of rows. None is read for it."""
        return self._stored.num_rows

    @property
    def values(self) -> list[str]:
        """The names of the columns with values."""
        return self.columns[2:]

    @property
    def df(self) -> Any:
        """The rows as a DataFrame of Spark, if the algorithm was called on a graph in a Spark session."""
        if self._target.make_frame is None:
            raise Unsupported(
                "the result was computed without Spark",
                hint="use to_pandas() or to_arrow(), or graph.spark().analytics",
            )
        return self._stored.make_frame(self._target.make_frame)

    def top(self, count: int = 10, by: str | None = None) -> AnalyticsResult:
        """Return the rows with the largest values of a column, by default the first; equal ones by type and id."""
        if count < 0:
            raise ParameterError(f"count is {count}", hint="give the number of rows")
        column = self._choose_column(by)
        if pa.types.is_nested(find_column_type(self._stored, column)):
            raise ParameterError(f"'{column}' has lists, which have no order", hint="take rows by their ids")
        top = TableRows(self._stored.find_largest(column, count))
        return AnalyticsResult(self.provenance, top, self._target, branch=self.branch, commit=self.commit)

    def write(
        self,
        property: str | None = None,  # noqa: A002  as the schema calls it
        *,
        edge: str | None = None,
        column: str | None = None,
        branch: str = MAIN,
        from_: Reference | None = None,
        create: bool = False,
        overwrite: bool = False,
        message: str | None = None,
        actor: str | None = None,
        timeout: Timeout = None,  # noqa: ARG002  observe_timeouts takes it
    ) -> LoadResult:
        """Write a column into a property of the nodes, or pairs of nodes as edges of a type: one commit on a branch.

        Without ``column``, the one that matters most. All other properties stay; edges replace all edges of their type.
        The message of the commit says where the values come from. ``from_`` creates the branch; ``create`` adds what
        the schema lacks, by a commit on main; ``overwrite`` allows to replace what people edited.
        """
        if (property is None) == (edge is None):
            raise ParameterError("write takes a property or an edge type", hint='give "rank", or edge="SimilarTo"')
        known = ALGORITHMS.get(self.algorithm)
        # A program of the user gives one row for each node, whatever its columns are called.
        columns = () if known is None else known.columns
        if "walk" in columns:
            raise ParameterError(f"{self.algorithm} gives several rows for a node", hint="write them to a file")
        has_pairs = "other_id" in columns
        if has_pairs != (edge is not None):
            what = "pairs of nodes" if has_pairs else "one row for each node"
            hint = 'write it as edges: edge="SimilarTo"' if has_pairs else 'write it as a property: "rank"'
            raise ParameterError(f"{self.algorithm} gives {what}", hint=hint)
        chosen = self._choose_column(column)
        if self.commit is None:
            raise ParameterError("the graph has no commits", hint="there is nothing to write")
        who = actor or self._target.actor
        destination = Destination(self.commit, branch, from_, message, who, create=create, overwrite=overwrite)
        if edge is not None:
            pairs = PairWrite(self.to_arrow(), chosen, edge, self.provenance, destination)
            return write_pairs(self._target, pairs)
        write = ColumnWrite(self._stored, chosen, cast(str, property), self.provenance, destination)
        return write_column(self._target, write)

    def _choose_column(self, name: str | None) -> str:
        """Return the column of a name, or the one that matters most."""
        known = ALGORITHMS.get(self.algorithm)
        # A program of one's own has the columns that it returns.
        default = known.value if known is not None else next(iter(self.values), "")
        column = default if name is None else name
        if column not in self.values:
            raise ParameterError(f"no column '{column}'", hint=suggest_name(column, self.values, "columns"))
        return column

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
