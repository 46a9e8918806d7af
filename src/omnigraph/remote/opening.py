"""Open a graph by its location: a folder, an object store, or a URL of a server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.arguments import check_arguments
from omnigraph.deadlines import Timeout
from omnigraph.errors import ParameterError
from omnigraph.graph import Graph, Mode, StorageOptions
from omnigraph.graph import open as open_local
from omnigraph.read.memory import MemoryLimit
from omnigraph.remote.graph_url import is_url
from omnigraph.storage.durability import Durability
from omnigraph.storage.locks import LockKind

if TYPE_CHECKING:
    from omnigraph.policy import Policy
    from omnigraph.read.search import EmbeddingSettings


@check_arguments
def open_location(
    uri: str | Path,
    mode: Mode = "rw",
    *,
    actor: str | None = None,
    storage_options: StorageOptions = None,
    lock: LockKind | None = None,
    durability: Durability | None = None,
    embed: EmbeddingSettings | Mapping[str, object] | None = None,
    timeout: Timeout = None,
    memory: MemoryLimit = None,
    token: str | None = None,
    policy: str | Path | Policy | None = None,
    keep: str | None = None,
) -> Graph:
    """Open a graph. Read-only never writes a byte; read-write migrates older formats and ends interrupted writes.

    ``durability`` holds for what is written through this handle; the default is that of the graph. ``timeout`` is how
    long opening it, and each later call, may take: seconds, or a ``Deadline``. ``memory`` is how much each query
    may use: bytes, or a text such as "512MB". ``keep`` is the age from which this handle removes history
    automatically, such as "30d", or "off"; the default is that of the graph.

    A URL such as ``https://host/graphs/brain`` opens a graph on a server, with 30 seconds for each call unless
    ``timeout`` says otherwise. ``token`` is the one to use there: else that of ``OMNIGRAPH_TOKEN``, or of
    ``omnigraph login``.

    With a ``policy``, a file, its text or a ``Policy``, every write is asked for under the name
    of its actor, and refused with ``Forbidden``. Reads are not: whoever holds the files can read them.

    Examples:
        >>> with og.open(graph.uri, "ro", timeout=30) as opened:
        ...     opened.info().nodes
        {'Person': 3}
    """
    if is_url(uri):
        # A late import: only this needs an HTTP client.
        from omnigraph.remote.graph import open_url

        local: dict[str, object] = {"actor": actor, "storage_options": storage_options or None, "lock": lock}
        local |= {"durability": durability, "embed": embed, "policy": policy, "keep": keep}
        return open_url(uri, mode, token, timeout, memory, local)
    if token is not None:
        raise ParameterError("a token is for a graph on a server", hint="give the URL of the graph")
    return open_local(
        uri,
        mode,
        actor=actor,
        storage_options=storage_options,
        lock=lock,
        durability=durability,
        embed=embed,
        timeout=timeout,
        memory=memory,
        policy=policy,
        keep=keep,
    )
