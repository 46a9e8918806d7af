"""The address of a graph on a server, and whether a token may be sent there."""

from __future__ import annotations

import os
from ipaddress import ip_address
from typing import Final
from urllib.parse import quote, urlsplit

from omnigraph.errors import ParameterError
from omnigraph.lazy_dataclass import dataclass

INSECURE_VARIABLE: Final = "OMNIGRAPH_INSECURE"
_SCHEMES: Final = ("http://", "https://")
_ONLY_GRAPH: Final = "/graphs/default"


@dataclass(frozen=True, slots=True)
class GraphUrl:
    """A graph on a server: ``origin`` is the server, ``path`` the graph there."""

    origin: str
    path: str

    @property
    def text(self) -> str:
        """The whole URL."""
        return f"{self.origin}{self.path}"


def is_url(uri: object) -> bool:
    """Whether a location is a graph on a server."""
    return isinstance(uri, str) and uri.lower().startswith(_SCHEMES)


def parse_graph_url(text: str) -> GraphUrl:
    """Parse the URL of a graph: ``https://host/graphs/brain``, or a server that serves one graph."""
    parts = urlsplit(text)
    try:
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _wrong_url(text, str(error)) from None
    if not host:
        raise _wrong_url(text, "it names no host")
    if parts.username is not None or parts.password is not None:
        # The text itself is not shown: it holds a secret.
        raise ParameterError("the URL holds a user name or a password", hint="give the token as token=")
    if parts.query or parts.fragment:
        raise _wrong_url(text, "it has more than a path")
    if parts.scheme.lower() == "http" and not _is_loopback(host) and os.environ.get(INSECURE_VARIABLE) != "1":
        raise ParameterError(
            f"http would send the token to {host} for all to read",
            hint=f"use https; or set {INSECURE_VARIABLE}=1 if the network is safe",
        )
    shown = f"[{host}]" if ":" in host else host
    origin = f"{parts.scheme.lower()}://{shown}" + ("" if port is None else f":{port}")
    path = parts.path.rstrip("/") or _ONLY_GRAPH
    prefix, slash, name = path.rpartition("/graphs/")
    if not slash or not name or "/" in name:
        raise _wrong_url(text, "its path is not that of a graph")
    return GraphUrl(origin, f"{prefix}/graphs/{quote(name, safe='%')}")


def _wrong_url(text: str, why: str) -> ParameterError:
    return ParameterError(f"'{text}' is not the URL of a graph: {why}", hint="such as https://host/graphs/brain")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
