"""``omnigraph login`` and ``omnigraph logout``: the tokens of servers, kept for later commands."""

from __future__ import annotations

import sys
from getpass import getpass
from typing import Annotated

import typer

from omnigraph.cli.render.login import LoggedIn, LoggedOut
from omnigraph.cli.session import session_of
from omnigraph.errors import ParameterError

_URL = typer.Argument(metavar="URL", help="The server, or a graph there.", show_default=False)


def login(context: typer.Context, url: Annotated[str, _URL]) -> int:
    """Keep the token of a server in a file that only you can read.

    The token is read from the terminal, without showing it, or from stdin. The server is asked whether it is valid.

    \b
    Examples:
      omnigraph login https://graphs.example.org/graphs/brain
      omnigraph login http://127.0.0.1:8080/graphs/brain
    """
    from omnigraph import remote

    found = remote.parse_graph_url(url)
    token = (getpass("token: ") if sys.stdin.isatty() else sys.stdin.readline()).strip()
    if not token:
        raise ParameterError("no token was given", hint="`omnigraph token create` makes one, where the server runs")
    actor, role = remote.ask_who(found, token)
    path = remote.keep_token(found.origin, token)
    session_of(context).output.show(LoggedIn(found.origin, actor, role, str(path)))
    return 0


def logout(context: typer.Context, url: Annotated[str, _URL]) -> int:
    """Forget the token of a server. The token itself stays valid until it is revoked.

    \b
    Examples:
      omnigraph logout https://graphs.example.org
      omnigraph logout http://127.0.0.1:8080
    """
    from omnigraph import remote

    origin = remote.parse_graph_url(url).origin
    session_of(context).output.show(LoggedOut(origin, was_known=remote.forget_token(origin)))
    return 0
