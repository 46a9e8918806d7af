"""Run a query in a Spark session: on the executors, or in this process if it is small.

Every job on Spark takes a second or more, however few rows it reads. The snapshot knows how many rows its tables have,
so a query that reads little is answered by the local engine, and its rows become a DataFrame. Both engines give the
same rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from omnigraph.language.query.plan import ReadPlan
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.handle import Manifest
from omnigraph.read.estimate import estimate_read_cost
from omnigraph.read.explain import explain_plan
from omnigraph.read.query import PlannedQuery, QueryOptions, QueryRequest, plan_query, read_columns
from omnigraph.read.result import execute_read, output_schema, result_columns_of
from omnigraph.read.search import EmbeddingSettings
from omnigraph.spark.query.result import run_on_executors
from omnigraph.spark.source import SparkSnapshot, arrow_schema_of, from_spark, to_spark, to_spark_type
from omnigraph.storage.columns import Values
from omnigraph.write.load import Engine

MAX_LOCAL_BYTES: Final = 64 * 1024 * 1024
"""With ``auto``, a query that reads more, or whose result is larger, runs on the executors."""
MAX_LOCAL_ROWS: Final = 1_000_000
"""With ``auto``, a query with a match of more rows runs on the executors."""
_log = logging.getLogger("omnigraph")


@dataclass(frozen=True, slots=True)
class SparkQueryOptions:
    """How to run a query in a Spark session."""

    embedding: EmbeddingSettings | None = None
    engine: Engine = "auto"


def run_query(
    manifest: Manifest,
    tables: SparkSnapshot,
    request: QueryRequest,
    options: SparkQueryOptions,
    keep_open: Callable[[ExitStack], object],
) -> DataFrame:
    """Return the rows of a query on a snapshot as a DataFrame; ``now()`` is the time of this call.

    If the DataFrame reads temporary files, ``keep_open`` gets the stack that deletes them.
    """
    query = _plan(manifest, tables, request, options)
    engine = _choose_engine(query, options.engine)
    if engine.is_local:
        _log.info("the query is answered in this process: %s", engine.reason)
        found = _answer_here(query, tables.session, MAX_LOCAL_BYTES if options.engine == "auto" else None)
        if found is not None:
            return found
        _log.info("the query runs on Spark: its result is larger than %d bytes", MAX_LOCAL_BYTES)
    return run_on_executors(query, manifest, tables, keep_open)


def read_match(query: PlannedQuery, manifest: Manifest, session: SparkSession, engine: Engine) -> pa.Table:
    """Return the rows of the match of a mutation, in the Arrow types of tables."""
    choice = _choose_engine(query, engine)
    _log.info("the match is evaluated %s: %s", "in this process" if choice.is_local else "on Spark", choice.reason)
    if choice.is_local:
        return read_columns(query)
    tables = SparkSnapshot(session, query.context.snapshot, query.context.catalog, manifest.location)
    with ExitStack() as files:
        found = run_on_executors(query, manifest, tables, files.push).toArrow()
    schema, columns = output_schema(query.plan), result_columns_of(query.plan)
    values = [
        from_spark(cast("Values", column.combine_chunks()), each.expression.type)
        for each, column in zip(columns, found.columns, strict=True)
    ]
    return pa.Table.from_arrays(values, schema=schema)


def explain_query(manifest: Manifest, tables: SparkSnapshot, request: QueryRequest, options: SparkQueryOptions) -> str:
    """Return where a query would run and why, and its plan with estimates, as text. No row is read."""
    query = _plan(manifest, tables, request, options)
    engine = _choose_engine(query, options.engine)
    place = "in this process" if engine.is_local else "on Spark"
    return f"runs {place}: {engine.reason}\n{explain_plan(query.plan, query.context)}"


def _plan(manifest: Manifest, tables: SparkSnapshot, request: QueryRequest, options: SparkQueryOptions) -> PlannedQuery:
    return plan_query(manifest, tables.snapshot, request, QueryOptions(options.embedding))


# --------------------------------------------------------------------------------------------- which engine


@dataclass(frozen=True, slots=True)
class _EngineChoice:
    """Whether a query runs in this process, and why."""

    is_local: bool
    reason: str


def _choose_engine(query: PlannedQuery, engine: Engine) -> _EngineChoice:
    if engine != "auto":
        return _EngineChoice(engine == "local", f'engine="{engine}" was asked for')
    cost = estimate_read_cost(query.plan, query.context)
    return _EngineChoice(
        cost.read_bytes <= MAX_LOCAL_BYTES and cost.match_rows <= MAX_LOCAL_ROWS,
        f"it reads about {cost.read_rows:,} rows of {_print_size(cost.read_bytes)} in total, and its match has about "
        f"{cost.match_rows:,} rows; up to {_print_size(MAX_LOCAL_BYTES)} and {MAX_LOCAL_ROWS:,} rows are few",
    )


def _print_size(size: int) -> str:
    return f"{size / 1_000_000:,.1f} MB"


# --------------------------------------------------------------------------------------------- in this process


def _answer_here(query: PlannedQuery, session: SparkSession, max_bytes: int | None) -> DataFrame | None:
    """Return the result of the local engine as a DataFrame; None if it is larger than ``max_bytes``."""
    schema = _spark_schema_of(query.plan)
    target = arrow_schema_of(schema)
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in execute_read(query.plan, query.context):
        batches.append(to_spark(batch, target))
        size += batches[-1].nbytes
        if max_bytes is not None and size > max_bytes:
            return None
    if not any(batch.num_rows for batch in batches):
        return session.createDataFrame([], schema)
    return session.createDataFrame(pa.Table.from_batches(batches, target), schema)


def _spark_schema_of(plan: ReadPlan) -> StructType:
    return StructType(
        [StructField(column.name, to_spark_type(column.expression.type)) for column in result_columns_of(plan)]
    )
