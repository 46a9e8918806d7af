"""The remote graph: the verbs of a graph, over HTTP. ``open_location`` opens a graph, wherever it is."""

from typing import TYPE_CHECKING

from omnigraph.remote.credentials import credentials_path, forget_token, keep_token
from omnigraph.remote.graph_url import is_url, parse_graph_url
from omnigraph.remote.opening import open_location

if TYPE_CHECKING:
    from omnigraph.remote.graph import RemoteGraph
    from omnigraph.remote.who import ask_who

__all__ = [
    "RemoteGraph",
    "ask_who",
    "credentials_path",
    "forget_token",
    "is_url",
    "keep_token",
    "open_location",
    "parse_graph_url",
]


def __getattr__(name: str) -> object:
    # The HTTP client takes a tenth of a second to import: only who talks to a server waits.
    if name == "RemoteGraph":
        from omnigraph.remote.graph import RemoteGraph

        return RemoteGraph
    if name == "ask_who":
        from omnigraph.remote.who import ask_who

        return ask_who
    raise AttributeError(f"module 'omnigraph.remote' has no attribute {name!r}")
