"""Routes about the server, the caller and a graph as a whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from omnigraph.errors import Json, Unauthorized
from omnigraph.graph import GraphInfo
from omnigraph.language.schema import TableKey
from omnigraph.manifest.rows import MAIN
from omnigraph.server.access import ANY_TOKEN, PUBLIC, Action, Gate, ask_graph, ask_place, ask_server, list_actions
from omnigraph.server.calls import Answer, Route, ServerCall, make_gate
from omnigraph.server.config import REQUEST_LIMITS, ServedGraph
from omnigraph.server.messages import (
    RELEASE,
    WIRE_VERSION,
    ReadPlace,
    RequestModel,
    id_of,
    info_to_wire,
    snapshot_to_wire,
)
from omnigraph.server.request_log import METRICS_TYPE


def get_health(call: ServerCall) -> Answer:
    """Say that the process is alive."""
    formats = [hosted.format for hosted in call.state.graphs.values()]
    return Answer(
        {
            "status": "ok",
            "version": WIRE_VERSION,
            "server_version": RELEASE,
            "internal_schema_version": max(formats, default=0),
            "source_version": RELEASE,
        }
    )


def get_readiness(call: ServerCall) -> Answer:
    """Say whether requests are taken."""
    hosting, state = call.hosting, call.state
    return Answer(
        {
            "ready": not hosting.is_draining,
            "status": "draining" if hosting.is_draining else "serving",
            "graphs": {"serving": len(state.graphs), "quarantined": len(state.quarantined)},
            "config_stale": state.is_stale or state.tokens.is_stale,
        },
        status=503 if hosting.is_draining else 200,
    )


class SessionFields(RequestModel):
    """The one-time code of a link."""

    code: str


def begin_session(call: ServerCall) -> Answer:
    """Exchange the one-time code of the link that the server printed for a token."""
    found = call.hosting.sessions.exchange(call.fields(SessionFields).code)
    if found is None:
        raise Unauthorized("the code was used already, or is too old", hint="start the server again for a new link")
    token, text = found
    return Answer({"token": text, "actor": token.actor, "role": token.role, "expires_at": token.expires_at})


def get_caller(call: ServerCall) -> Answer:
    """Say who the token is, and what it may do with each graph."""
    token = call.token
    graphs: list[Json] = []
    for hosted in call.state.graphs.values():
        actions = list_actions(make_gate(call.state, hosted, token))
        graphs += [{"graph_id": hosted.id, "actions": actions}] if actions else []
    return Answer(
        {
            "actor": token.actor,
            "role": token.role,
            "token": {"id": token.id, "name": token.name, "expires_at": token.expires_at},
            "graphs": graphs,
        }
    )


def get_metrics(call: ServerCall) -> Answer:
    """Give the counts of requests to Prometheus."""
    return Answer(stream=iter([call.state.log.export_metrics()]), media_type=METRICS_TYPE)


def may_see_graph(call: ServerCall, served: ServedGraph) -> bool:
    """Whether the caller may read something of a graph."""
    gate = Gate(call.token, served.policy)
    return gate.allows(gate.question(Action.READ))


def list_graphs(call: ServerCall) -> Answer:
    """List the graphs that are served, and of which the caller may read something."""
    return Answer(
        {
            "graphs": [
                {
                    "graph_id": each.id,
                    "uri": each.public_uri,
                    "state": "serving" if each.id in call.state.graphs else "quarantined",
                    "read_only": each.read_only,
                }
                for each in call.state.settings.graphs
                if may_see_graph(call, each)
            ]
        }
    )


def _hidden_on_main(call: ServerCall) -> frozenset[TableKey]:
    return call.gate.hidden_types(call.graph.graph.schema.catalog, MAIN)


def _hide_parts(call: ServerCall, info: GraphInfo) -> GraphInfo:
    """Return what a graph has, without the branches and the types that the caller may not read."""
    branches = tuple(name for name in info.branches if call.gate.may_read_branch(name))
    if MAIN not in branches:
        return replace(info, branches=branches, head=None, nodes={}, edges={})
    hidden = _hidden_on_main(call)
    nodes = {name: count for name, count in info.nodes.items() if TableKey.of_node(name) not in hidden}
    edges = {name: count for name, count in info.edges.items() if TableKey.of_edge(name) not in hidden}
    return replace(info, branches=branches, nodes=nodes, edges=edges)


def get_graph(call: ServerCall) -> Answer:
    """Describe a graph: branches, head, and row counts on main."""
    hosted, limits = call.graph, call.limits
    info = _hide_parts(call, hosted.graph.info())
    shown = {name: getattr(limits, name) for name in REQUEST_LIMITS}
    return Answer(
        {
            "graph_id": hosted.id,
            "uri": hosted.uri,
            **info_to_wire(info),
            "types_hidden": bool(_hidden_on_main(call)),
            "read_only": hosted.read_only,
            "limits": shown,
        },
        id_of(info.head),
    )


def get_snapshot(call: ServerCall) -> Answer:
    """List the version of every table."""
    branch, at = call.fields(ReadPlace).place
    snapshot = call.graph.graph.snapshot(branch, at)
    hidden = call.gate.hidden_types(snapshot.catalog(), call.gate.branch)
    shown = snapshot_to_wire(snapshot, call.graph.format, hidden)
    return Answer({**shown, "types_hidden": bool(hidden)}, id_of(snapshot.commit))


ROUTES: Final = (
    Route("GET", "/healthz", get_health, PUBLIC),
    Route("GET", "/readyz", get_readiness, PUBLIC),
    Route("POST", "/session", begin_session, PUBLIC, body=SessionFields),
    Route("GET", "/whoami", get_caller, ANY_TOKEN, "control"),
    Route("GET", "/metrics", get_metrics, ask_server(Action.ADMIN), "control", formats=(METRICS_TYPE,)),
    Route("GET", "/graphs", list_graphs, ask_server(Action.GRAPH_LIST), "control"),
    Route("GET", "/graphs/{graph_id}", get_graph, ask_graph(Action.READ, "hide")),
    Route("GET", "/graphs/{graph_id}/snapshot", get_snapshot, ask_place(types="hide"), query=ReadPlace),
)
