"""Routes for stored queries: the catalog, and running one by its name.

Whoever may not invoke a query cannot tell it from one that is not there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from omnigraph.errors import ParameterError
from omnigraph.manifest.rows import MAIN
from omnigraph.server.access import Action, ask_graph
from omnigraph.server.calls import Answer, Kind, Route, ServerCall
from omnigraph.server.config import StoredQuery, describe_query, refuse_broken
from omnigraph.server.messages import Count, Milliseconds, Numbers, ReadPlace
from omnigraph.server.routes.query import ROW_FORMATS, QueryFields, run_read_query
from omnigraph.server.routes.write import MutateFields, run_mutation


class InvokeFields(ReadPlace):
    """Where to run a stored query, with which parameters. ``message``, ``if_commit`` and ``txn`` are for writes."""

    params: dict[str, Any] | None = None
    expect_mutation: bool | None = None
    offset: Count = 0
    limit: Count | None = None
    timeout_ms: Milliseconds | None = None
    numbers: Numbers = "native"
    message: str | None = None
    if_commit: str | None = None
    txn: str | None = None


def list_stored_queries(call: ServerCall) -> Answer:
    """List the stored queries that the caller may invoke, with the schemas of their parameters."""
    queries = call.graph.queries
    checked = queries.check(call.graph.graph.schema)
    shown = [each for each in queries.list_queries() if _may_invoke(call, each)]
    return Answer({"queries": [describe_query(each, checked[each.name]) for each in shown]})


def get_stored_query(call: ServerCall) -> Answer:
    """Describe one stored query, with its text."""
    stored = _find_stored(call)
    checked = call.graph.queries.check(call.graph.graph.schema)
    return Answer({**describe_query(stored, checked[stored.name]), "source": stored.text})


def invoke_stored_query(call: ServerCall) -> Answer:
    """Run a stored query, and answer as a query or a mutation does."""
    stored = _find_stored(call)
    asked = call.fields(InvokeFields)
    if asked.expect_mutation not in (None, stored.is_mutation):
        found = "writes" if stored.is_mutation else "reads"
        raise ParameterError(f"the stored query '{stored.name}' {found}", hint="correct 'expect_mutation'")
    if stored.is_mutation:
        branch = asked.branch or MAIN
        with call.gate.invoke(stored.name, Action.CHANGE, branch, mutates=True):
            return _invoke_mutation(call, stored, asked)
    branch = call.gate.find_branch(*asked.place, graph=call.graph.graph)
    with call.gate.invoke(stored.name, Action.READ, branch, asked.place[1], mutates=False):
        return _invoke_read(call, stored, asked)


def _invoke_read(call: ServerCall, stored: StoredQuery, asked: InvokeFields) -> Answer:
    branch, at = asked.place
    # The schema of the state that is read decides, whatever that of main says.
    checked = call.graph.queries.check_snapshot(call.graph.graph.snapshot(branch, at))
    refuse_broken(stored.name, checked[stored.name].problems)
    fields = QueryFields(
        query=stored.source.text,
        name=stored.name,
        params=asked.params,
        branch=asked.branch,
        at=asked.at,
        snapshot=asked.snapshot,
        offset=asked.offset,
        limit=asked.limit,
        timeout_ms=asked.timeout_ms,
        numbers=asked.numbers,
    )
    return run_read_query(replace(call, body=fields))


def _invoke_mutation(call: ServerCall, stored: StoredQuery, asked: InvokeFields) -> Answer:
    if asked.at is not None or asked.snapshot is not None:
        raise ParameterError(f"the stored query '{stored.name}' writes: it has no 'at'", hint="give a 'branch'")
    checked = call.graph.queries.check(call.graph.graph.schema)[stored.name]
    refuse_broken(stored.name, checked.problems)
    fields = MutateFields(
        query=stored.source.text,
        name=stored.name,
        params=asked.params,
        branch=asked.branch or MAIN,
        message=asked.message,
        if_commit=asked.if_commit,
        txn=asked.txn,
    )
    return run_mutation(replace(call, body=fields))


def _find_stored(call: ServerCall) -> StoredQuery:
    stored = call.graph.queries.find(call.path["name"])
    mutates = stored is not None and stored.is_mutation
    call.gate.check_stored_query(call.path["name"], is_known=stored is not None, mutates=mutates)
    assert stored is not None, "what is not known was refused"
    return stored


def _may_invoke(call: ServerCall, stored: StoredQuery) -> bool:
    question = call.gate.question(Action.INVOKE_QUERY, query=stored.name, mutates=stored.is_mutation)
    return call.gate.allows(question)


def _find_kind(call: ServerCall) -> Kind:
    stored = call.graph.queries.find(call.path["name"])
    return "write" if stored is not None and stored.is_mutation else "read"


_G: Final = "/graphs/{graph_id}/queries"
ROUTES: Final = (
    Route("GET", _G, list_stored_queries, ask_graph(Action.INVOKE_QUERY)),
    Route("GET", f"{_G}/{{name}}", get_stored_query, ask_graph(Action.INVOKE_QUERY)),
    Route(
        "POST",
        f"{_G}/{{name}}",
        invoke_stored_query,
        ask_graph(Action.INVOKE_QUERY, "ask"),
        body=InvokeFields,
        formats=ROW_FORMATS,
        find_kind=_find_kind,
        keeps_key=True,
    ),
)
