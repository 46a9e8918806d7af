"""Where a request comes from and which name it uses for this server: hosts, origins, proxies.

A page of another origin must not reach the server through the browser of somebody who may. No cookies are used, so
nothing is sent along that a page did not have; this is the second wall.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from omnigraph.server.config import LOOPBACK, Network, ServerSettings
from omnigraph.server.errors import RequestError

_EXPOSED: Final = "ETag, X-Request-Id, Omnigraph-Commit"
_METHODS: Final = "GET, HEAD, POST, DELETE"
_REQUEST_HEADERS: Final = (
    "Accept, Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, If-Range, Last-Event-ID, "
    "Omnigraph-Timeout-Ms, Prefer, Range, X-Request-Id"
)
_PREFLIGHT_SECONDS: Final = 600


def check_origin(request: Request, settings: ServerSettings) -> None:
    """Refuse names that are not this server's, and pages of other origins that are not listed."""
    known = (*LOOPBACK, *settings.hosts)
    if _host_of(request.headers.get("host", "")) not in known:
        raise RequestError(
            421, "wrong_host", "this server does not answer to that host name", hint="start it with --public-url"
        )
    origin = request.headers.get("origin")
    if origin is None or origin in settings.cors or _host_of(origin.partition("://")[2]) in known:
        return
    raise RequestError(403, "wrong_origin", "pages of that origin may not use this server")


def make_cors_headers(request: Request, settings: ServerSettings) -> Mapping[str, str]:
    """Return the headers that let a page of a listed origin read the answer. Never those for all origins."""
    origin = request.headers.get("origin")
    if origin is None or origin not in settings.cors:
        return {"Vary": "Origin"} if settings.cors else {}
    return {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": _EXPOSED, "Vary": "Origin"}


def answer_preflight(request: Request, settings: ServerSettings) -> Response | None:
    """Answer the question of a browser whether a page of a listed origin may send a request; None if it is none."""
    is_preflight = request.method == "OPTIONS" and "access-control-request-method" in request.headers
    if not is_preflight or request.headers.get("origin") not in settings.cors:
        return None
    headers = {
        "Access-Control-Allow-Methods": _METHODS,
        "Access-Control-Allow-Headers": _REQUEST_HEADERS,
        "Access-Control-Max-Age": str(_PREFLIGHT_SECONDS),
    }
    return Response(None, HTTPStatus.NO_CONTENT, headers)


def find_address(request: Request, trusted: Sequence[Network]) -> str:
    """Return the address that a request comes from. What proxies say counts only if they are trusted."""
    address = request.client.host if request.client else ""
    forwarded = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    # From the nearest proxy to the farthest: the first that is not trusted is the client.
    for each in reversed([part.strip() for part in forwarded if part.strip()]):
        if not _is_trusted(address, trusted):
            break
        address = each
    return address


def _is_trusted(address: str, trusted: Sequence[Network]) -> bool:
    try:
        found = ip_address(address)
    except ValueError:
        return False
    return any(found in network for network in trusted)


def _host_of(authority: str) -> str:
    """Return the host of ``host:port``, without the brackets of an IPv6 address."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return authority.partition(":")[0].lower()
