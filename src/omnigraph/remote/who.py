"""Ask a server who a token is."""

from __future__ import annotations

from contextlib import closing

from omnigraph.deadlines import observe
from omnigraph.remote.connection import Connection
from omnigraph.remote.graph_url import GraphUrl

_SECONDS = 30.0


def ask_who(url: GraphUrl, token: str) -> tuple[str, str]:
    """Return the actor and the role of a token; raise ``Unauthorized`` if the server does not know it."""
    with closing(Connection(url, token)) as connection, observe(_SECONDS):
        found = connection.read("/whoami", below_graph=False)
    return str(found["actor"]), str(found["role"])
