"""The web page: static files of the package, and the headers under which a browser may run them.

The page has no right of its own: it sends the token of whoever uses it to the routes that everybody uses.
"""

from __future__ import annotations

import secrets
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_ASSETS: Final = "/assets/"
_VIEWS: Final = "/ui/"
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_NONCE: Final = "{{nonce}}"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; connect-src 'self'; "
    "img-src 'self' data: blob:; font-src 'self'; worker-src 'self'; form-action 'none'; frame-ancestors 'none'; "
    "base-uri 'none'"
)


def is_page_path(path: str) -> bool:
    """Whether a path is one of the page, which anybody may load: without a token it shows nothing of a graph."""
    return path == "/" or path.startswith((_ASSETS, _VIEWS))


async def serve_page(request: Request) -> Response:
    """Answer with the page, whichever view of it the path names."""
    nonce = secrets.token_urlsafe(18)
    headers = {
        "Cache-Control": "no-store",
        "Content-Security-Policy": _POLICY.format(nonce=nonce),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    }
    body = "" if request.method == "HEAD" else _read_index().replace(_NONCE, nonce)
    return Response(body, HTTPStatus.OK, headers, "text/html; charset=utf-8")


async def serve_asset(request: Request) -> Response:
    """Answer with a file of the page. Its name holds a hash, so it never changes."""
    name = request.path_params["file"]
    contents = _read_assets().get(name)
    if contents is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    media_type = next((type_ for ending, type_ in _TYPES.items() if name.endswith(ending)), "text/plain")
    lasting = "public, max-age=31536000, immutable" if "-" in name else "public, max-age=3600"
    return Response(contents, HTTPStatus.OK, {"Cache-Control": lasting}, media_type)


@cache
def _read_index() -> str:
    return (files("omnigraph.server") / "static" / "index.html").read_text("utf-8")


@cache
def _read_assets() -> dict[str, bytes]:
    """Return all files by name, so that a name in a request is never joined into a path."""
    folder = files("omnigraph.server") / "static"
    found = {file.name: file.read_bytes() for file in (folder / "assets").iterdir()}
    return {**found, "icon.svg": (folder / "icon.svg").read_bytes()}
