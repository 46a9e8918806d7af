"""Compile a query for the schema of a snapshot, plan it for the sizes of its tables, and run, explain or profile it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa

from omnigraph.deadlines import CarriedDeadlines
from omnigraph.errors import MemoryExceeded, ParameterError
from omnigraph.language.query import (
    CompiledQuery,
    TypedMutation,
    compile_query,
)
from omnigraph.language.query.plan import ReadPlan, plan_read
from omnigraph.language.schema import Catalog
from omnigraph.language.source import Source
from omnigraph.language.values import ConstantValue, now_milliseconds
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.contract import load_schema_of
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.references import Reference, take_snapshot
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.context import QueryContext
from omnigraph.read.estimate import TableSizes
from omnigraph.read.frames import EvaluationContext, QueryTables, Strategy, shared_cache
from omnigraph.read.memory import QueryMemory, shared_pool
from omnigraph.read.profile import Profile, ProfileRecorder
from omnigraph.read.query_limits import check_query_limits
from omnigraph.read.result import Result, execute_read, output_schema
from omnigraph.read.search import EmbeddingSettings, Search


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """One query of a source text, and the values of its parameters."""

    source: str | Path | Source
    name: str | None = None
    params: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """How to run a query. Tests compare strategies; everything else uses ``AUTO``."""

    embed: EmbeddingSettings | None = None
    strategy: Strategy = Strategy.AUTO
    memory: int | None = None
    """How many bytes it may use; all of the pool, if None."""


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query that is ready to run on its snapshot; of a mutation, its match."""

    name: str
    plan: ReadPlan
    context: QueryContext


def plan_query(manifest: Manifest, snapshot: Snapshot, request: QueryRequest, options: QueryOptions) -> PlannedQuery:
    """Compile and plan a query. Raises every error in its text and in its parameters."""
    compiled, catalog = _compile(manifest, snapshot, request)
    if isinstance(compiled.typed, TypedMutation):
        raise ParameterError(f"'{compiled.name}' is a mutation", hint="run it with mutate")
    return plan_compiled(compiled, catalog, snapshot, compiled.bind_parameters(request.params), options=options)


def _plan_match(
    manifest: Manifest, snapshot: Snapshot, request: QueryRequest, options: QueryOptions
) -> tuple[CompiledQuery, PlannedQuery]:
    """Compile a query or a mutation with a match, and plan what it reads."""
    compiled, catalog = _compile(manifest, snapshot, request)
    if isinstance(compiled.typed, TypedMutation) and not compiled.typed.is_driven:
        raise ParameterError(f"'{compiled.name}' is a mutation without a match", hint="run it with mutate")
    parameters = compiled.bind_parameters(request.params)
    return compiled, plan_compiled(compiled, catalog, snapshot, parameters, options=options)


def _compile(manifest: Manifest, snapshot: Snapshot, request: QueryRequest) -> tuple[CompiledQuery, Catalog]:
    catalog = load_schema_of(manifest, snapshot.schema_ir_hash).catalog
    return compile_query(request.source, catalog, request.name), catalog


def plan_compiled(
    compiled: CompiledQuery,
    catalog: Catalog,
    snapshot: Snapshot,
    parameters: Mapping[str, ConstantValue],
    now: int | None = None,
    options: QueryOptions | None = None,
) -> PlannedQuery:
    """Plan a compiled read, or the match of a mutation, for a snapshot and bound parameters."""
    options = options or QueryOptions()
    search = Search(snapshot, catalog, shared_cache(), parameters, options.embed)
    evaluation = EvaluationContext(parameters, now_milliseconds() if now is None else now, search)
    plan = _plan_for_sizes(compiled, catalog, snapshot)
    check_query_limits(plan, snapshot, catalog)
    tables = QueryTables(snapshot, catalog, shared_cache(), options.strategy, compiled.read_properties)
    recorder = ProfileRecorder()
    memory = QueryMemory(shared_pool(), options.memory, recorder.name_running)
    context = QueryContext(tables, evaluation, search, recorder, memory)
    return PlannedQuery(compiled.name, plan, context)


def _plan_for_sizes(compiled: CompiledQuery, catalog: Catalog, snapshot: Snapshot) -> ReadPlan:
    """Return the plan for the sizes of the tables.

    Sizes are rounded up to a power of two, so that a plan can be kept while tables grow a little.
    """
    assert compiled.read is not None, "a mutation without a match has no plan"
    pins = snapshot.pins
    size_class = tuple((key, pins[key].row_count.bit_length()) for key in compiled.read_tables if key in pins)
    if size_class not in compiled.sized_plans:
        sizes = TableSizes(catalog, {key: (1 << bits) - 1 for key, bits in size_class})
        compiled.sized_plans[size_class] = plan_read(compiled.read, sizes.estimate_scan)
    return compiled.sized_plans[size_class]


def read_columns(query: PlannedQuery) -> pa.Table:
    """Return all rows of a planned query at once, in the Arrow types of tables.

    Raises ``MemoryExceeded`` if they need more than the query may use.
    """
    return pa.Table.from_batches(_count_bytes(query), output_schema(query.plan))


def _count_bytes(query: PlannedQuery) -> Iterator[pa.RecordBatch]:
    memory, kept = query.context.memory, 0
    for batch in _iterate_rows(query):
        if memory.held + kept + batch.nbytes > memory.budget:
            raise MemoryExceeded("keeping the rows of the match", batch.nbytes, memory.held + kept, memory.budget)
        kept += batch.nbytes
        yield batch


def _iterate_rows(query: PlannedQuery) -> Iterator[pa.RecordBatch]:
    return query.context.memory.iterate(lambda: execute_read(query.plan, query.context))


def execute_query(query: PlannedQuery) -> Result:
    """Return the result of a planned query. Its rows are computed lazily, from the snapshot of the query."""
    snapshot = query.context.snapshot
    return Result(
        query.name,
        output_schema(query.plan),
        CarriedDeadlines().carry_to(partial(_iterate_rows, query)),
        branch=snapshot.branch,
        commit=snapshot.commit,
    )


def run_query(
    manifest: Manifest,
    request: QueryRequest,
    branch: str,
    at: Reference | None = None,
    options: QueryOptions | None = None,
) -> Result:
    """Plan and execute a query on one snapshot."""
    snapshot = take_snapshot(manifest, branch, at)
    return execute_query(plan_query(manifest, snapshot, request, options or QueryOptions()))


def explain_query(
    manifest: Manifest,
    request: QueryRequest,
    branch: str,
    at: Reference | None = None,
    options: QueryOptions | None = None,
) -> str:
    """Return the plan that would run, with estimates, as text; of a mutation, with its match. No row is read."""
    snapshot = take_snapshot(manifest, branch, at)
    compiled, query = _plan_match(manifest, snapshot, request, options or QueryOptions())
    mutation = compiled.typed if isinstance(compiled.typed, TypedMutation) else None
    # A late import: few queries are explained.
    from omnigraph.read.explain import explain_plan

    return explain_plan(query.plan, query.context, mutation)


def profile_query(
    manifest: Manifest,
    request: QueryRequest,
    branch: str,
    at: Reference | None = None,
    options: QueryOptions | None = None,
) -> Profile:
    """Run a query, drop its rows, and return what each operator did. Of a mutation only the match runs."""
    started = time.perf_counter()
    snapshot = take_snapshot(manifest, branch, at)
    _, query = _plan_match(manifest, snapshot, request, options or QueryOptions())
    row_count = sum(batch.num_rows for batch in _iterate_rows(query))
    return Profile(query.plan, row_count, time.perf_counter() - started, query.context.recorder)
