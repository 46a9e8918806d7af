"""A query from its text to its result: compiled for the schema of the snapshot, planned for its sizes, run on it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from omnigraph.errors import ParameterError
from omnigraph.language.query import TypedMutation, compile_query
from omnigraph.language.query.plan import ReadPlan, plan_read
from omnigraph.language.source import Source
from omnigraph.language.values import now_milliseconds
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.opening import schema_of
from omnigraph.manifest.references import Reference, take_snapshot
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.context import QueryContext
from omnigraph.read.estimate import table_sizes_of
from omnigraph.read.explain import Profile, explain_plan
from omnigraph.read.frames import EvaluationContext, QueryTables, Strategy, shared_cache
from omnigraph.read.profile import ProfileRecorder
from omnigraph.read.result import Result, execute_read, output_schema
from omnigraph.read.search import EmbeddingSettings, Search


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """What is asked: a query of a text, with the values of its parameters."""

    source: str | Path | Source
    name: str | None = None
    params: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """How it is answered. A strategy other than ``AUTO`` is for tests that compare them."""

    embed: EmbeddingSettings | None = None
    strategy: Strategy = Strategy.AUTO


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query that is ready to run on its snapshot."""

    name: str
    plan: ReadPlan
    context: QueryContext


def plan_query(manifest: Manifest, snapshot: Snapshot, question: QueryRequest, manner: QueryOptions) -> PlannedQuery:
    """Compile and plan a query; raises everything that is wrong with it and with its parameters."""
    catalog = schema_of(manifest, snapshot.schema_ir_hash).catalog
    compiled = compile_query(question.source, catalog, question.name)
    if isinstance(compiled.typed, TypedMutation):
        raise ParameterError(f"'{compiled.name}' is a mutation", hint="run it with mutate")
    parameters = compiled.bind_parameters(question.params)
    search = Search(snapshot, catalog, shared_cache(), parameters, manner.embed)
    request = EvaluationContext(parameters, now_milliseconds(), search)
    reach = QueryTables(snapshot, catalog, shared_cache(), manner.strategy)
    reading = QueryContext(reach, request, search, ProfileRecorder())
    return PlannedQuery(
        compiled.name, plan_read(compiled.typed, table_sizes_of(snapshot, catalog).estimate_scan), reading
    )


def run_query(
    manifest: Manifest,
    question: QueryRequest,
    branch: str,
    at: Reference | None = None,
    manner: QueryOptions | None = None,
) -> Result:
    """Answer a query on one snapshot. The rows are made when they are asked for, from that same snapshot."""
    return execute_query(plan_query(manifest, take_snapshot(manifest, branch, at), question, manner or QueryOptions()))


def execute_query(asked: PlannedQuery) -> Result:
    """The result of a planned query."""
    snapshot = asked.context.snapshot
    return Result(
        asked.name,
        output_schema(asked.plan),
        lambda: execute_read(asked.plan, asked.context),
        branch=snapshot.branch,
        commit=snapshot.commit,
    )


def explain_query(
    manifest: Manifest,
    question: QueryRequest,
    branch: str,
    at: Reference | None = None,
    manner: QueryOptions | None = None,
) -> str:
    """The plan that would run, with guesses; no row is read."""
    asked = plan_query(manifest, take_snapshot(manifest, branch, at), question, manner or QueryOptions())
    return explain_plan(asked.plan, asked.context)


def profile_query(
    manifest: Manifest,
    question: QueryRequest,
    branch: str,
    at: Reference | None = None,
    manner: QueryOptions | None = None,
) -> Profile:
    """Run a query and tell what each step of it took."""
    begun = time.perf_counter()
    asked = plan_query(manifest, take_snapshot(manifest, branch, at), question, manner or QueryOptions())
    rows = sum(batch.num_rows for batch in execute_read(asked.plan, asked.context))
    return Profile(asked.plan, rows, time.perf_counter() - begun, asked.context.recorder)
