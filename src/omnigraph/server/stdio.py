"""MCP over stdin and stdout: one agent, one graph, until the input ends.

A local graph is served by the whole application inside this process, without a socket, so that the same gate and
limits hold. A graph behind a URL is asked over HTTP.
"""

from __future__ import annotations

from dataclasses import replace

import anyio
from mcp.server.stdio import stdio_server

from omnigraph.errors import NotFound
from omnigraph.server.app import build_app
from omnigraph.server.config import DEFAULT_BIND, AgentSettings, ServerSettings
from omnigraph.server.hosting import open_hosting
from omnigraph.server.mcp import GraphClient, connect_app, connect_url, make_tool_server


def serve_agent(settings: ServerSettings, graph_id: str) -> None:
    """Serve one graph of the settings to the agent at stdin, as their actor. Their tokens do not matter here."""
    chosen = tuple(each for each in settings.graphs if each.id == graph_id)
    if not chosen:
        known = ", ".join(each.id for each in settings.graphs)
        raise NotFound(f"the configuration has no graph '{graph_id}'", hint=f"it has {known}")
    alone = replace(
        settings,
        graphs=chosen,
        bind=DEFAULT_BIND,
        tokens=None,
        is_unauthenticated=True,
        is_agent=True,
        is_quarantining=False,
    )
    hosting, _ = open_hosting(alone)
    try:
        anyio.run(_serve, connect_app(build_app(hosting), graph_id), settings.agents)
    finally:
        hosting.close()


def serve_remote_agent(url: str, token: str | None, agents: AgentSettings) -> None:
    """Serve a graph behind a URL to the agent at stdin."""
    anyio.run(_serve, connect_url(url, token), agents)


async def _serve(client: GraphClient, agents: AgentSettings) -> None:
    server = make_tool_server(client, agents)
    async with client.http, stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
