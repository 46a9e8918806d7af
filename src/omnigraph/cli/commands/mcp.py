"""``omnigraph mcp``: tools for an agent, over stdin and stdout."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from omnigraph.cli.session import require_server_extra, session_of

_TOKEN: Final = "OMNIGRAPH_TOKEN"


def mcp(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="server.yaml", help="Take the graph and its queries from a file.", show_default=False
        ),
    ] = None,
    graph_id: Annotated[
        str | None, typer.Option("--for", metavar="GRAPH", help="Which graph of the file.", show_default=False)
    ] = None,
    write: Annotated[
        Literal["off", "branch", "any"],
        typer.Option("--write", help="Where the agent may write: nowhere, on branches other than main, or anywhere."),
    ] = "branch",
    queries: Annotated[
        Path | None,
        typer.Option("--queries", metavar="DIR", help="A folder of .gq files to offer as tools.", show_default=False),
    ] = None,
) -> int:
    """Serve a graph to an agent over stdin and stdout, by the Model Context Protocol.

    The graph is a location, or a URL of a server such as https://host/graphs/brain; its token is $OMNIGRAPH_TOKEN.
    Commits are recorded under --as. Ends when its input ends.

    \b
    Examples:
      omnigraph mcp -g brain.og --as act-agent
      omnigraph mcp --config server.yaml --for brain --write branch
    """
    require_server_extra()
    from omnigraph import server

    session = session_of(context)
    agents = server.AgentSettings(write=write)
    if (config is None) != (graph_id is None):
        raise typer.TyperException("--config and --for go together")
    if config is not None and graph_id is not None:
        if session.graph is not None or queries is not None:
            raise typer.TyperException("--config has the graph and its queries; give no others beside it")
        settings = server.read_config(config, os.environ, session.actor)
        server.serve_agent(replace(settings, agents=replace(settings.agents, write=write)), graph_id)
        return 0
    uri = session.target()
    if uri.startswith(("http://", "https://")):
        if session.actor is not None or queries is not None:
            raise typer.TyperException("the actor and the queries of a served graph are those of its server")
        server.serve_remote_agent(uri, os.environ.get(_TOKEN), agents)
        return 0
    folder = server.QueryFolder() if queries is None else server.read_query_folder(queries)
    graph = server.ServedGraph(server.make_graph_id(uri), uri, storage_options=session.storage_options, queries=folder)
    server.serve_agent(server.ServerSettings((graph,), actor=session.actor, agents=agents), graph.id)
    return 0
