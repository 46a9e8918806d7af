"""``omnigraph serve``: serve a graph over HTTP until a signal comes."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from omnigraph.cli.render.policy_report import ServerCheckReport
from omnigraph.cli.session import Session, require_server_extra, session_of
from omnigraph.errors import ParameterError
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.server import LogSettings, ServedGraph, ServerSettings


class LogChoice(StrEnum):
    """How the log is written."""

    TEXT = "text"
    JSON = "json"


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
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, max=64, help="How many processes serve.", show_default="1")
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option("--tls-cert", metavar="FILE", help="A certificate, to serve HTTPS.", show_default=False),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of the certificate.", show_default=False)
    ] = None,
    log: Annotated[
        LogChoice, typer.Option("--log", help="Lines for people, or one JSON object each, with the audit.")
    ] = LogChoice.TEXT,
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
    Examples:
      omnigraph serve -g brain.og -g trials.og --bind 127.0.0.1:8080
      omnigraph serve --config server.yaml --check
    """
    require_server_extra()
    from omnigraph import server

    session = session_of(context)
    logging_ = _start_log(log)
    if config is not None:
        given = (bind, tokens, policy, public_url, queries, state, workers, tls_cert, tls_key, no_ui, no_mcp)
        if any((*given, read_only, unauthenticated, session.graph)):
            raise typer.TyperException("--config has the graphs and all settings; give no others beside it")
        # The environment does not change while a server runs, and workers need a copy.
        read_settings = partial(server.read_config, config, dict(os.environ), session.actor)
    else:
        if (tls_cert is None) != (tls_key is None):
            raise typer.TyperException("--tls-cert and --tls-key go together")
        command = _ServeCommand(
            session.list_targets(),
            session.storage_options,
            read_only,
            policy,
            queries,
            server.ServerSettings(
                (),
                bind or server.DEFAULT_BIND,
                tokens,
                session.actor,
                unauthenticated,
                hosts=() if public_url is None else (_host_of(public_url),),
                workers=workers or 1,
                tls=None if tls_cert is None or tls_key is None else server.TlsFiles(tls_cert, tls_key),
                state=state,
                agents=server.AgentSettings(is_enabled=not no_mcp),
                has_page=not no_ui,
            ),
        )
        read_settings = command.read_settings
    settings = read_settings()
    _check(settings)
    return _report(session, settings) if check else server.serve(settings, _announce, read_settings, logging_)


@dataclass(frozen=True, slots=True)
class _ServeCommand:
    """A command line that names graphs. Its policy and its queries are files, which are read again and again."""

    uris: tuple[str, ...]
    storage_options: Mapping[str, str] = field(repr=False)
    read_only: bool
    policy: Path | None
    queries: Path | None
    settings: ServerSettings

    def read_settings(self) -> ServerSettings:
        """Return the settings with the files as they are now."""
        from omnigraph import server
        from omnigraph.policy import load_policy

        folder = server.QueryFolder() if self.queries is None else server.read_query_folder(self.queries)
        graphs: dict[str, ServedGraph] = {}
        for uri in self.uris:
            graph_id = server.make_graph_id(uri)
            if graph_id in graphs:
                raise typer.TyperException(
                    f"two graphs would be served as '{graph_id}': --config FILE names them apart"
                )
            rules = None if self.policy is None else load_policy(self.policy, graph_id)
            graphs[graph_id] = server.ServedGraph(
                graph_id, uri, self.read_only, self.storage_options, folder, rules, self.policy
            )
        return replace(self.settings, graphs=tuple(graphs.values()))


def _start_log(choice: LogChoice) -> LogSettings:
    """Log as JSON if that is wanted; what is for machines has all lines."""
    from omnigraph import server

    if choice is LogChoice.TEXT:
        return server.LogSettings("text", logging.getLogger("omnigraph").level)
    settings = server.LogSettings("json", logging.INFO)
    server.start_log(settings)
    return settings


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
