"""``omnigraph serve``: serve a graph over HTTP until a signal comes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from omnigraph.cli.render.policy_report import ServerCheckReport
from omnigraph.cli.session import Session, require_server_extra, session_of
from omnigraph.errors import ParameterError

if TYPE_CHECKING:
    from omnigraph.server import ServerSettings


def serve(
    context: typer.Context,
    bind: Annotated[
        str | None,
        typer.Option("--bind", metavar="HOST:PORT", help="Where to listen.", show_default="127.0.0.1:8080"),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(
            "--tokens",
            metavar="FILE",
            help="The tokens that may be used; `omnigraph token` makes the file. Default: one token for this run.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="server.yaml",
            help="A file with all of this, for several graphs. It is followed while the server runs.",
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="Who may do what. Needs --tokens.", show_default=False),
    ] = None,
    public_url: Annotated[
        str | None,
        typer.Option(
            "--public-url", metavar="URL", help="How clients elsewhere address this server.", show_default=False
        ),
    ] = None,
    queries: Annotated[
        Path | None,
        typer.Option(
            "--queries",
            metavar="DIR",
            help="A folder of .gq files, whose queries are offered by name.",
            show_default=False,
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="DIR",
            help="Where operations are kept, so that they outlive the process.",
            show_default=False,
        ),
    ] = None,
    *,
    no_ui: Annotated[bool, typer.Option("--no-ui", help="Serve no web page.")] = False,
    no_mcp: Annotated[bool, typer.Option("--no-mcp", help="Serve no tools for agents.")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse all writes.")] = False,
    unauthenticated: Annotated[
        bool, typer.Option("--unauthenticated", help="Ask for no token. Only on a loopback address.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Check everything, say who may do what, and serve nothing.")
    ] = False,
) -> int:
    """Serve a graph over HTTP until Ctrl-C or SIGTERM.

    Without --tokens one token with all rights is made for this run, and printed once, with a link that signs in to the
    web page. On SIGTERM requests under way
    have 25 seconds to end. Exits with 2 if some had to be left.

    \b
    Example:
      omnigraph serve -g brain.og --bind 127.0.0.1:8080
    """
    require_server_extra()
    from omnigraph import server
    from omnigraph.policy import load_policy

    session = session_of(context)
    if config is not None:
        given = (bind, tokens, policy, public_url, queries, state, no_ui, no_mcp, read_only, unauthenticated)
        if any((*given, session.graph)):
            raise typer.TyperException("--config has the graphs and all settings; give no others beside it")

        def read_settings() -> server.ServerSettings:
            return server.read_config(config, os.environ, session.actor)

        settings = read_settings()
        _check(settings)
        if check:
            return _report(session, settings)
        return server.serve(settings, _announce, read_settings)
    uri = session.target()
    hosts = () if public_url is None else (_host_of(public_url),)

    def make_settings() -> server.ServerSettings:
        folder = server.QueryFolder() if queries is None else server.read_query_folder(queries)
        graph_id = server.make_graph_id(uri)
        rules = None if policy is None else load_policy(policy, graph_id)
        graph = server.ServedGraph(graph_id, uri, read_only, session.storage_options, folder, rules, policy)
        address = bind or server.DEFAULT_BIND
        agents = server.AgentSettings(is_enabled=not no_mcp)
        return server.ServerSettings(
            (graph,),
            address,
            tokens,
            session.actor,
            unauthenticated,
            hosts=hosts,
            state=state,
            agents=agents,
            has_page=not no_ui,
        )

    settings = make_settings()
    _check(settings)
    return _report(session, settings) if check else server.serve(settings, _announce, make_settings)


def _report(session: Session, settings: ServerSettings) -> int:
    from omnigraph import server

    found = server.check_server(settings)
    session.output.show(ServerCheckReport(found))
    return 1 if found.problems else 0


def _check(settings: ServerSettings) -> None:
    try:
        settings.check()
    except ParameterError as error:
        # A start that would open the graph to strangers is a wrong command line.
        raise typer.TyperException(f"{error.message} ({error.hint})") from error


def _announce(line: str) -> None:
    # Scripts wait for these lines: --quiet does not leave them out.
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def _host_of(url: str) -> str:
    host = urlsplit(url).hostname
    if host is None:
        raise typer.TyperException(f"--public-url is '{url}'; give a URL such as https://graphs.example.org")
    return host
