"""Routes that run, explain and check queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import monotonic
from typing import Annotated, Any, Final, cast

from pydantic import AliasChoices, Field

from omnigraph.errors import Json
from omnigraph.language.query import SchemaSource, compile_query, lint_queries
from omnigraph.language.source import Source
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.estimate import estimate_read_cost
from omnigraph.read.query import plan_compiled
from omnigraph.read.query_limits import QueryLimits, estimate_most_rows, find_most_hops, limit_queries
from omnigraph.read.result import Result
from omnigraph.server.access import ask_place
from omnigraph.server.calls import ARROW, CSV, JSON, NDJSON, Answer, Route, ServerCall, too_large
from omnigraph.server.messages import (
    Count,
    Milliseconds,
    Numbers,
    ReadPlace,
    id_of,
    join_chunks,
    list_types,
    rows_to_wire,
    to_query_source,
    write_arrow,
    write_csv_rows,
    write_ndjson,
)

ROW_FORMATS: Final = (JSON, NDJSON, CSV, ARROW)


class QueryFields(ReadPlace):
    """A query and where to run it."""

    query: Annotated[str, Field(validation_alias=AliasChoices("query", "query_source"))]
    name: Annotated[str | None, Field(validation_alias=AliasChoices("name", "query_name"))] = None
    params: dict[str, Any] | None = None
    offset: Count = 0
    limit: Count | None = None
    timeout_ms: Milliseconds | None = None
    numbers: Numbers = "native"


class LintFields(ReadPlace):
    """Queries to check."""

    query: str


def run_read_query(call: ServerCall) -> Answer:
    """Run a query on one snapshot. JSON is one page of rows; the other formats stream all of them."""
    asked = call.fields(QueryFields)
    branch, at = asked.place
    began = monotonic()
    source = to_query_source(asked.query)
    check_query_types(call, source, asked)
    result = call.graph.graph.query(source, asked.name, asked.params, branch=branch, at=at)
    if call.accept != JSON:
        return stream_rows(call, result, is_safe=asked.numbers == "safe")
    fields = page_of_rows(call, result, asked.offset, asked.limit, is_safe=asked.numbers == "safe")
    elapsed = round((monotonic() - began) * 1000, 3)
    return Answer(
        {
            "query_name": result.query_name,
            "target": {"branch": result.branch, "snapshot": asked.snapshot},
            **fields,
            "elapsed_ms": elapsed,
        },
        id_of(result.commit),
    )


def check_query_types(call: ServerCall, source: Source, asked: QueryFields) -> None:
    """Ask for each type that a query reads or writes, before a row is read."""
    call.gate.are_types_asked = True
    if call.gate.asks_types:
        catalog = call.graph.graph.snapshot(*asked.place).catalog()
        call.gate.check_query_types(compile_query(source, catalog, asked.name), catalog, call.gate.branch)


def page_of_rows(call: ServerCall, result: Result, offset: int, limit: int | None, *, is_safe: bool) -> dict[str, Json]:
    """Return a page of rows as fields of an answer. Without a limit, all rows or an error."""
    limits = call.limits
    page = result.page(offset, limits.rows if limit is None else min(limit, limits.rows))
    if page.more and limit is None:
        raise too_large(f"the result has more than {limits.rows:,} rows")
    if page.rows.nbytes > limits.result_bytes:
        raise too_large(f"the rows have {page.rows.nbytes:,} bytes; at most {limits.result_bytes:,} are sent as JSON")
    following = {"at": id_of(result.commit), "offset": offset + page.rows.num_rows} if page.more else None
    return {
        "row_count": page.rows.num_rows,
        "columns": result.columns,
        "rows": cast("Json", rows_to_wire(page.rows, is_safe=is_safe)),
        "types": list_types(result.schema),
        "branch": result.branch,
        "commit": id_of(result.commit),
        "next": following,
    }


def stream_rows(call: ServerCall, result: Result, *, is_safe: bool) -> Answer:
    """Stream all rows in the format that the client accepts."""
    writers: Mapping[str, Iterator[bytes]] = {
        NDJSON: write_ndjson(result.batches(), is_safe=is_safe),
        CSV: write_csv_rows(result.schema, result.batches()),
        ARROW: write_arrow(result.schema, result.batches()),
    }
    return Answer(
        commit=id_of(result.commit),
        stream=join_chunks(writers[call.accept]),
        media_type=call.accept,
        headers={"Omnigraph-Branch": result.branch, "Omnigraph-Query": result.query_name},
    )


def explain_read_query(call: ServerCall) -> Answer:
    """Return the plan of a query. Nothing is read."""
    asked = call.fields(QueryFields)
    branch, at = asked.place
    graph = call.graph.graph
    source = to_query_source(asked.query)
    check_query_types(call, source, asked)
    snapshot = graph.snapshot(branch, at)
    # What is only shown may cost anything.
    with limit_queries(QueryLimits()):
        plan = graph.explain(source, asked.name, asked.params, branch=branch, at=at)
        estimate = _estimate_query(source, asked, snapshot)
    commit = id_of(snapshot.commit)
    fields = {"query_name": asked.name, "plan": plan, "estimate": estimate, "branch": branch, "commit": commit}
    return Answer(fields, commit)


def _estimate_query(source: Source, asked: QueryFields, snapshot: Snapshot) -> dict[str, Json]:
    """Return what a query, or the match of a mutation, is estimated to cost."""
    catalog = snapshot.catalog()
    compiled = compile_query(source, catalog, asked.name)
    planned = plan_compiled(compiled, catalog, snapshot, compiled.bind_parameters(asked.params))
    cost = estimate_read_cost(planned.plan, planned.context)
    return {
        "rows": estimate_most_rows(planned.plan, snapshot, catalog),
        "hops": find_most_hops(planned.plan),
        "read_rows": cost.read_rows,
        "read_bytes": cost.read_bytes,
    }


def profile_read_query(call: ServerCall) -> Answer:
    """Run a query and measure its steps."""
    asked = call.fields(QueryFields)
    branch, at = asked.place
    graph = call.graph.graph
    source = to_query_source(asked.query)
    check_query_types(call, source, asked)
    profile = graph.profile(source, asked.name, asked.params, branch=branch, at=at)
    commit = id_of(graph.snapshot(branch, at).commit)
    shown = {**cast("dict[str, Json]", profile.to_json()), "text": str(profile)}
    return Answer({"query_name": asked.name, **shown, "branch": branch, "commit": commit}, commit)


def lint_query_text(call: ServerCall) -> Answer:
    """Check queries against the schema. Problems are no error here."""
    asked = call.fields(LintFields)
    branch, at = asked.place
    snapshot = call.graph.graph.snapshot(branch, at)
    report = lint_queries(to_query_source(asked.query), snapshot.catalog(), SchemaSource("graph", call.graph.uri))
    commit = id_of(snapshot.commit)
    return Answer({**report.to_json(), "branch": snapshot.branch, "commit": commit}, commit)


ROUTES: Final = (
    Route(
        "POST",
        "/graphs/{graph_id}/query",
        run_read_query,
        ask_place(types="ask"),
        body=QueryFields,
        formats=ROW_FORMATS,
    ),
    Route(
        "POST",
        "/graphs/{graph_id}/read",
        run_read_query,
        ask_place(types="ask"),
        body=QueryFields,
        formats=ROW_FORMATS,
        successor="query",
    ),
    Route("POST", "/graphs/{graph_id}/explain", explain_read_query, ask_place(types="ask"), body=QueryFields),
    Route("POST", "/graphs/{graph_id}/profile", profile_read_query, ask_place(types="ask"), body=QueryFields),
    Route("POST", "/graphs/{graph_id}/lint", lint_query_text, ask_place(), body=LintFields),
)
