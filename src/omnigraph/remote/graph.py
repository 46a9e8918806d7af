"""``RemoteGraph``: a graph on a server, with the verbs, results and errors of a graph on a disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from omnigraph.deadlines import Timeout, observe
from omnigraph.errors import ParameterError
from omnigraph.graph import Graph, Mode
from omnigraph.read.memory import MemoryLimit
from omnigraph.remote.connection import Connection
from omnigraph.remote.credentials import find_token
from omnigraph.remote.graph_url import parse_graph_url
from omnigraph.remote.history import RemoteHistory
from omnigraph.remote.reads import RemoteReads
from omnigraph.remote.refs import RemoteReferences
from omnigraph.remote.upkeep import RemoteUpkeep
from omnigraph.remote.wire_values import refuse_given
from omnigraph.remote.writes import RemoteWrites

DEFAULT_SECONDS: Final = 30.0
_SERVER_REASON: Final = "the server opens the graph, and has its own settings"


class RemoteGraph(RemoteReads, RemoteHistory, RemoteReferences, RemoteWrites, RemoteUpkeep):
    """A graph on a server. Safe to share between threads; unpickling connects again."""

    def __reduce__(self) -> tuple[object, ...]:
        return open_remote, (self.uri, self.mode, self._token, self.timeout)


def open_remote(uri: str, mode: Mode = "rw", token: str | None = None, timeout: Timeout = None) -> RemoteGraph:
    """Connect to a graph on a server, and look whether it is there."""
    if mode not in ("rw", "ro"):
        raise ParameterError(f"mode is {mode!r}", hint='use "rw" or "ro"')
    url = parse_graph_url(uri)
    limit = DEFAULT_SECONDS if timeout is None else timeout
    connection = Connection(url, find_token(url.origin, token))
    graph = RemoteGraph(connection, mode, token, limit)
    try:
        with observe(limit):
            connection.read("")
    except BaseException:
        connection.close()
        raise
    return graph


def refuse_local_settings(given: Mapping[str, object]) -> None:
    """Refuse settings of a graph on a disk."""
    refuse_given(_SERVER_REASON, **given)


def open_url(
    uri: str | Path, mode: Mode, token: str | None, timeout: Timeout, memory: MemoryLimit, local: Mapping[str, object]
) -> Graph:
    """Open a URL as the public interface takes it. ``local`` are the settings of a graph on a disk."""
    refuse_local_settings({**local, "memory": memory})
    return open_remote(str(uri), mode, token, timeout)
