"""Routes that show, plan and change the schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from omnigraph.errors import Json, Problem
from omnigraph.language.schema import parse_schema
from omnigraph.manifest.rows import MAIN
from omnigraph.server.access import Action, RouteAsk, ask_all, ask_graph, ask_place
from omnigraph.server.calls import Answer, Route, ServerCall
from omnigraph.server.errors import RequestError
from omnigraph.server.messages import (
    ReadPlace,
    RequestModel,
    catalog_to_wire,
    id_of,
    made_commit_to_wire,
    read_txn,
    to_schema_source,
)


class SchemaPlace(ReadPlace):
    """Which schema to show, and how."""

    view: Literal["source", "catalog"] = "source"


class SchemaPlanFields(RequestModel):
    """A new schema."""

    schema_source: str
    allow_data_loss: bool = False


class SchemaApplyFields(SchemaPlanFields):
    """A new schema to change to."""

    rewrite_ids: bool = False
    message: str | None = None
    if_commit: str | None = None
    txn: str | None = None


def get_schema(call: ServerCall) -> Answer:
    """Show the schema, as text or as a list of types."""
    asked = call.fields(SchemaPlace)
    branch, at = asked.place
    graph = call.graph.graph
    snapshot = graph.snapshot(branch, at)
    schema = graph.schema if at is None else graph.schema_at(at, branch)
    commit = id_of(snapshot.commit)
    shown: dict[str, Json] = (
        {"schema_source": schema.text} if asked.view == "source" else catalog_to_wire(schema.catalog)
    )
    return Answer({**shown, "hash": schema.hash, "branch": snapshot.branch, "commit": commit}, commit)


def plan_new_schema(call: ServerCall) -> Answer:
    """Show the steps to a new schema. Nothing is changed."""
    asked = call.fields(SchemaPlanFields)
    plan = call.graph.graph.plan_schema(to_schema_source(asked.schema_source), allow_data_loss=asked.allow_data_loss)
    return Answer({**plan.to_json(), "breaks": list(_find_breakage(call, asked))})


def apply_new_schema(call: ServerCall) -> Answer:
    """Change the schema in one commit on main."""
    asked = call.fields(SchemaApplyFields)
    graph = call.graph.graph
    broken = _find_breakage(call, asked)
    if broken:
        raise RequestError(
            422,
            "breaks_queries",
            f"the new schema breaks stored queries: {', '.join(broken)}",
            hint="change their files first, or together with the schema",
            details={
                "queries": list(broken),
                "problems": [problem.to_json() for problems in broken.values() for problem in problems],
            },
        )
    applied = graph.apply_schema(
        to_schema_source(asked.schema_source),
        allow_data_loss=asked.allow_data_loss,
        rewrite_ids=asked.rewrite_ids,
        message=asked.message,
        actor=call.token.actor,
        if_commit=asked.if_commit,
        txn=read_txn(asked.txn),
        key=call.key,
    )
    commit = id_of(applied.commit)
    return Answer(
        {
            "uri": call.graph.uri,
            "supported": True,
            "applied": applied.applied,
            "step_count": len(applied.steps),
            "manifest_version": graph.snapshot().manifest_version,
            "steps": [step.to_json() for step in applied.steps],
            "actor_id": call.token.actor,
            **made_commit_to_wire(applied.commit, is_whole=call.wants_commit),
            "replayed": applied.replayed,
        },
        commit,
    )


def _find_breakage(call: ServerCall, asked: SchemaPlanFields) -> Mapping[str, list[Problem]]:
    """Return the stored queries that fit the schema of main and not the new one, with their problems."""
    queries = call.graph.queries
    if not len(queries):
        return {}
    new = parse_schema(to_schema_source(asked.schema_source)).catalog
    return queries.find_breakage(call.graph.graph.schema.catalog, new)


_G: Final = "/graphs/{graph_id}/schema"
_APPLY: Final = ask_all(RouteAsk(Action.SCHEMA_APPLY, fixed_target=MAIN))
ROUTES: Final = (
    Route("GET", _G, get_schema, ask_place(), query=SchemaPlace),
    Route("POST", f"{_G}/plan", plan_new_schema, ask_graph(Action.READ), body=SchemaPlanFields),
    Route("POST", f"{_G}/apply", apply_new_schema, _APPLY, "write", body=SchemaApplyFields, keeps_key=True),
)
