"""What answers the queries of a case: an executor, in each of its ways. All of them give the rows that JSON shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import pyarrow as pa

from omnigraph.graph import Graph
from omnigraph.manifest.references import Reference
from omnigraph.read.frames import Strategy
from omnigraph.read.query import QueryOptions, QueryRequest, run_query
from omnigraph.read.rows.public_values import to_json_rows
from omnigraph.storage.columns import Values
from omnigraph.write.load import Engine
from omnigraph.write.mutation import MutationResult
from tests.case_files import Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Mutate: TypeAlias = Callable[[Graph, QueryRequest, str], MutationResult]
Way: TypeAlias = Callable[[Graph, QueryRequest, str, Reference | None], list[Row]]


def _stay_here(graph: Graph) -> Graph:
    return graph


@dataclass(frozen=True, slots=True)
class Executor:
    """One of those that ``only=`` can name, and its ways by what a failure calls them.

    ``reach`` gives the graph that the other steps are sent to, such as the same graph on a server.
    """

    name: str
    ways: Mapping[str, Way]
    mutate: Mutate
    reach: Callable[[Graph], Graph] = _stay_here


def _locally(
    strategy: Strategy, graph: Graph, question: QueryRequest, branch: str, at: Reference | None = None
) -> list[Row]:
    result = run_query(graph._manifest, question, branch, at, QueryOptions(strategy=strategy))
    return cast("list[Row]", result.to_json()["rows"])


def _on_spark(
    session: SparkSession,
    engine: Engine,
    graph: Graph,
    question: QueryRequest,
    branch: str,
    at: Reference | None = None,
) -> list[Row]:
    sg = graph.spark(session)
    found = sg.query(question.source, question.name, question.params, branch=branch, at=at, engine=engine)
    return rows_as_json(found, run_query(graph._manifest, question, branch, at).schema)


def rows_as_json(found: DataFrame, shown: pa.Schema) -> list[Row]:
    """The rows of a DataFrame by the renderer of results, whose columns and types are these."""
    table = found.toArrow()
    assert table.column_names == shown.names
    columns = [
        cast("Values", column.combine_chunks()).cast(type_)
        for column, type_ in zip(table.columns, shown.types, strict=True)
    ]
    return cast("list[Row]", to_json_rows(pa.RecordBatch.from_arrays(columns, schema=shown)))


def _mutate_locally(graph: Graph, mutation: QueryRequest, branch: str) -> MutationResult:
    return graph.mutate(mutation.source, mutation.name, mutation.params, branch=branch)


def _mutate_on_spark(session: SparkSession, graph: Graph, mutation: QueryRequest, branch: str) -> MutationResult:
    sg = graph.spark(session)
    return sg.mutate(mutation.source, mutation.name, mutation.params, branch=branch, engine="spark")


LOCAL: Final = Executor(
    "local", {f"by {strategy}": partial(_locally, strategy) for strategy in Strategy}, _mutate_locally
)
EXECUTORS: Final = (LOCAL.name, "spark")


def on_spark(session: SparkSession) -> Executor:
    """The executor that a Spark session is."""
    engines: Mapping[str, Engine] = {"on executors": "spark", "in the driver": "local"}
    ways = {name: partial(_on_spark, session, engine) for name, engine in engines.items()}
    return Executor("spark", ways, partial(_mutate_on_spark, session))
