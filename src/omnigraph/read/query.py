"""Compile a query for the schema of a snapshot, plan it for the sizes of its tables, and run, explain or profile it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from omnigraph.errors import ParameterError
from omnigraph.language.query import CompiledQuery, PropertyValue, TypedMutation, TypedRead, compile_query
from omnigraph.language.query.plan import ReadPlan, expressions_of, plan_read, tables_of, walk_expression, walk_plan
from omnigraph.language.schema import Catalog
from omnigraph.language.source import Source
from omnigraph.language.values import now_milliseconds
from omnigraph.manifest.contract import load_schema_of
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.references import Reference, take_snapshot
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.context import QueryContext
from omnigraph.read.estimate import TableSizes
from omnigraph.read.explain import explain_plan
from omnigraph.read.frames import EvaluationContext, QueryTables, Strategy, shared_cache
from omnigraph.read.profile import Profile, ProfileRecorder
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


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query that is ready to run on its snapshot."""

    name: str
    plan: ReadPlan
    context: QueryContext


def plan_query(manifest: Manifest, snapshot: Snapshot, request: QueryRequest, options: QueryOptions) -> PlannedQuery:
    """Compile and plan a query. Raises every error in its text and in its parameters."""
    catalog = load_schema_of(manifest, snapshot.schema_ir_hash).catalog
    compiled = compile_query(request.source, catalog, request.name)
    if isinstance(compiled.typed, TypedMutation):
        raise ParameterError(f"'{compiled.name}' is a mutation", hint="run it with mutate")
    parameters = compiled.bind_parameters(request.params)
    search = Search(snapshot, catalog, shared_cache(), parameters, options.embed)
    evaluation = EvaluationContext(parameters, now_milliseconds(), search)
    plan = _plan_for_sizes(compiled, catalog, snapshot)
    tables = QueryTables(snapshot, catalog, shared_cache(), options.strategy, _properties_of(plan))
    context = QueryContext(tables, evaluation, search, ProfileRecorder())
    return PlannedQuery(compiled.name, plan, context)


def _properties_of(plan: ReadPlan) -> frozenset[str]:
    """Return the names of all properties that a plan reads."""
    expressions = (each for operator in walk_plan(plan) for each in expressions_of(operator))
    parts = (part for each in expressions for part in walk_expression(each))
    return frozenset(part.name for part in parts if isinstance(part, PropertyValue))


def _plan_for_sizes(compiled: CompiledQuery, catalog: Catalog, snapshot: Snapshot) -> ReadPlan:
    """Return the plan for the sizes of the tables.

    Sizes are rounded up to a power of two, so that a plan can be kept while tables grow a little.
    """
    assert isinstance(compiled.typed, TypedRead), "mutations are refused before"
    assert not isinstance(compiled.plan, TypedMutation)
    counts = {key: snapshot.pins[key].row_count for key in tables_of(compiled.plan) if key in snapshot.pins}
    size_class = tuple(sorted((key, count.bit_length()) for key, count in counts.items()))
    if size_class not in compiled.sized_plans:
        sizes = TableSizes(catalog, {key: (1 << bits) - 1 for key, bits in size_class})
        compiled.sized_plans[size_class] = plan_read(compiled.typed, sizes.estimate_scan)
    return compiled.sized_plans[size_class]


def execute_query(query: PlannedQuery) -> Result:
    """Return the result of a planned query. Its rows are computed lazily, from the snapshot of the query."""
    snapshot = query.context.snapshot
    return Result(
        query.name,
        output_schema(query.plan),
        lambda: execute_read(query.plan, query.context),
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
    return execute_query(_plan_at(manifest, request, branch, at, options))


def explain_query(
    manifest: Manifest,
    request: QueryRequest,
    branch: str,
    at: Reference | None = None,
    options: QueryOptions | None = None,
) -> str:
    """Return the plan that would run, with estimates, as text. No row is read."""
    query = _plan_at(manifest, request, branch, at, options)
    return explain_plan(query.plan, query.context)


def profile_query(
    manifest: Manifest,
    request: QueryRequest,
    branch: str,
    at: Reference | None = None,
    options: QueryOptions | None = None,
) -> Profile:
    """Run a query, drop its rows, and return what each operator did."""
    started = time.perf_counter()
    query = _plan_at(manifest, request, branch, at, options)
    row_count = sum(batch.num_rows for batch in execute_read(query.plan, query.context))
    return Profile(query.plan, row_count, time.perf_counter() - started, query.context.recorder)


def _plan_at(
    manifest: Manifest, request: QueryRequest, branch: str, at: Reference | None, options: QueryOptions | None
) -> PlannedQuery:
    return plan_query(manifest, take_snapshot(manifest, branch, at), request, options or QueryOptions())
