"""``omnigraph serve``: serve a graph over HTTP until a signal comes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from omnigraph.cli.session import require_server_extra, session_of
from omnigraph.errors import ParameterError


def serve(
    context: typer.Context,
    bind: Annotated[str, typer.Option("--bind", metavar="HOST:PORT", help="Where to listen.")] = "127.0.0.1:8080",
    tokens: Annotated[
        Path | None,
        typer.Option(
            "--tokens",
            metavar="FILE",
            help="The tokens that may be used; `omnigraph token` makes the file. Default: one token for this run.",
            show_default=False,
        ),
    ] = None,
    public_url: Annotated[
        str | None,
        typer.Option(
            "--public-url", metavar="URL", help="How clients elsewhere address this server.", show_default=False
        ),
    ] = None,
    *,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse all writes.")] = False,
    unauthenticated: Annotated[
        bool, typer.Option("--unauthenticated", help="Ask for no token. Only on a loopback address.")
    ] = False,
) -> int:
    """Serve a graph over HTTP until Ctrl-C or SIGTERM.

    Without --tokens one token with all rights is made for this run, and printed once. On SIGTERM requests under way
    have 25 seconds to end. Exits with 2 if some had to be left.

    \b
    Example:
      omnigraph serve -g brain.og --bind 127.0.0.1:8080
    """
    require_server_extra()
    from omnigraph import server

    session = session_of(context)
    uri = session.target()
    graph = server.ServedGraph(server.make_graph_id(uri), uri, read_only, session.storage_options)
    settings = server.ServerSettings(
        (graph,), bind, tokens, session.actor, unauthenticated, () if public_url is None else (_host_of(public_url),)
    )
    try:
        settings.check()
    except ParameterError as error:
        # A start that would open the graph to strangers is a wrong command line.
        raise typer.TyperException(f"{error.message} ({error.hint})") from error
    return server.serve(settings, lambda line: print(line, file=sys.stderr, flush=True))  # noqa: T201  read by scripts


def _host_of(url: str) -> str:
    host = urlsplit(url).hostname
    if host is None:
        raise typer.TyperException(f"--public-url is '{url}'; give a URL such as https://graphs.example.org")
    return host
