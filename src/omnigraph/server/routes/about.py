"""Routes about the server, the caller and a graph as a whole."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from omnigraph.server.calls import Answer, Route, ServerCall
from omnigraph.server.gate import Action, list_actions
from omnigraph.server.request_log import METRICS_TYPE
from omnigraph.server.requests import ReadPlace
from omnigraph.server.wire import id_of, info_to_wire, snapshot_to_wire

WIRE_VERSION: Final = "0.8.0"
"""The release whose clients understand our answers."""


def get_health(call: ServerCall) -> Answer:
    """Say that the process is alive."""
    formats = [hosted.format for hosted in call.state.graphs.values()]
    return Answer(
        {
            "status": "ok",
            "version": WIRE_VERSION,
            "server_version": version("omnigraph"),
            "internal_schema_version": max(formats, default=0),
            "source_version": version("omnigraph"),
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


def get_caller(call: ServerCall) -> Answer:
    """Say who the token is, and what it may do with each graph."""
    token = call.token
    return Answer(
        {
            "actor": token.actor,
            "role": token.role,
            "token": {"id": token.id, "name": token.name, "expires_at": token.expires_at},
            "graphs": [{"graph_id": name, "actions": list_actions(token)} for name in call.state.graphs],
        }
    )


def get_metrics(call: ServerCall) -> Answer:
    """Give the counts of requests to Prometheus."""
    return Answer(stream=iter([call.state.log.export_metrics()]), media_type=METRICS_TYPE)


def list_graphs(call: ServerCall) -> Answer:
    """List the graphs that are served."""
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
            ]
        }
    )


def get_graph(call: ServerCall) -> Answer:
    """Describe a graph: branches, head, and row counts on main."""
    hosted, limits = call.graph, call.state.settings.limits
    info = hosted.graph.info()
    shown = {name: getattr(limits, name) for name in ("rows", "result_bytes", "body_bytes", "load_bytes")}
    return Answer(
        {
            "graph_id": hosted.id,
            "uri": hosted.uri,
            **info_to_wire(info),
            "read_only": hosted.read_only,
            "limits": shown,
        },
        id_of(info.head),
    )


def get_snapshot(call: ServerCall) -> Answer:
    """List the version of every table."""
    branch, at = call.fields(ReadPlace).place
    snapshot = call.graph.graph.snapshot(branch, at)
    return Answer(snapshot_to_wire(snapshot, call.graph.format), id_of(snapshot.commit))


ROUTES: Final = (
    Route("GET", "/healthz", get_health, None, is_public=True),
    Route("GET", "/readyz", get_readiness, None, is_public=True),
    Route("GET", "/whoami", get_caller, None),
    Route("GET", "/metrics", get_metrics, Action.ADMIN, formats=(METRICS_TYPE,)),
    Route("GET", "/graphs", list_graphs, Action.GRAPH_LIST),
    Route("GET", "/graphs/{graph_id}", get_graph, Action.READ),
    Route("GET", "/graphs/{graph_id}/snapshot", get_snapshot, Action.READ, query=ReadPlace),
)
