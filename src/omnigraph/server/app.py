"""The application: routing, and what holds for every request before and after its route.

Every answer has a request id and the headers that keep browsers from guessing. A request is authenticated before it is
routed, so that a stranger learns nothing about what exists.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from http import HTTPStatus
from typing import Final, cast

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from ulid import ULID

from omnigraph.errors import NotFound, OmniGraphError, ServerUnavailable, Unauthorized
from omnigraph.server.access import Token, answer_preflight, check_origin, find_address, make_cors_headers
from omnigraph.server.calls import Route
from omnigraph.server.config import LOOPBACK
from omnigraph.server.dispatch import answer_request, error_response
from omnigraph.server.errors import ErrorContext, RequestError
from omnigraph.server.hosting import Hosting, ServerState
from omnigraph.server.mcp import McpResponse, connect_app, make_tool_server
from omnigraph.server.messages import WIRE_VERSION
from omnigraph.server.openapi import describe_mcp, describe_route, describe_server
from omnigraph.server.page import is_page_path, serve_asset, serve_page
from omnigraph.server.request_log import RequestRecord
from omnigraph.server.routes import ROUTES
from omnigraph.server.tracing import trace_request

OPENAPI_PATH: Final = "/openapi.json"
MCP_PATH: Final = "/graphs/{graph_id}/mcp"
_GRAPH: Final = "{graph_id}"
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PUBLIC: Final = frozenset({OPENAPI_PATH, *(route.path for route in ROUTES if route.is_public)})
_SESSION_PATH: Final = "/session"
_HEALTH: Final = frozenset({"/healthz", "/readyz"})
_HEADERS: Final[Mapping[str, str]] = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_log = logging.getLogger("omnigraph.server")


def build_app(hosting: Hosting) -> ASGIApp:
    """Build the application that serves a state."""
    app = make_described_app()
    add_routes(app, hosting)
    _add_page(app)
    app.add_exception_handler(HTTPException, _make_http_error_handler(app))
    return RequestFrame(app, hosting)


def make_described_app() -> FastAPI:
    """Make an application without routes. It describes itself at one path, and has no pages."""
    return FastAPI(
        title="OmniGraph",
        version=WIRE_VERSION,
        openapi_url=OPENAPI_PATH,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )


def add_routes(app: FastAPI, hosting: Hosting) -> None:
    """Add all routes to an application, with their descriptions."""
    for route in ROUTES:
        endpoint = _make_endpoint(route, hosting)
        app.add_api_route(
            route.path, endpoint, methods=[route.method], response_class=Response, **describe_route(route)
        )
        if route.method == "GET":
            app.add_api_route(route.path, endpoint, methods=["HEAD"], include_in_schema=False)
    app.add_api_route(MCP_PATH, _make_mcp_endpoint(app, hosting), methods=["POST"], **describe_mcp())
    describe_server(app)


def _add_page(app: FastAPI) -> None:
    for path, serve in (("/", serve_page), ("/ui/{path:path}", serve_page), ("/assets/{file}", serve_asset)):
        app.add_route(path, _serve_if_wanted(serve), ["GET"], include_in_schema=False)


def _serve_if_wanted(serve: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        if not cast("ServerState", request.scope["omnigraph.state"]).settings.has_page:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return await serve(request)

    return endpoint


def _make_endpoint(route: Route, hosting: Hosting) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return await answer_request(route, request, hosting)

    return endpoint


def _make_mcp_endpoint(app: ASGIApp, hosting: Hosting) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        state = cast("ServerState", request.scope["omnigraph.state"])
        request_id = str(request.scope["omnigraph.request_id"])
        record = cast("RequestRecord", request.scope["omnigraph.record"])
        record.route = MCP_PATH
        settings = state.settings
        try:
            hosted = state.find_graph(request.path_params["graph_id"])
            if not settings.agents.is_enabled:
                raise NotFound("this server does not serve agents", hint="mcp: {enabled: true} in its configuration")
        except OmniGraphError as error:
            return error_response(error, ErrorContext(request_id))
        record.graph = hosted.id
        caller = CallerFrame(app, hosting, state, cast("Token", request.scope["omnigraph.token"]), request_id)
        server = make_tool_server(connect_app(caller, hosted.id), settings.agents)
        return McpResponse(server, (*LOOPBACK, *settings.hosts), settings.limits.body_bytes)

    return endpoint


def _make_http_error_handler(app: FastAPI) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def handle(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        request_id = str(request.scope["omnigraph.request_id"])
        if error.status_code == 405:
            allowed = ", ".join(sorted(_list_methods(app, request.scope)))
            refused = RequestError(
                405,
                "method_not_allowed",
                f"this path has no {request.method}",
                hint=f"it has {allowed}" if allowed else None,
                headers={"Allow": allowed},
            )
            return error_response(refused, ErrorContext(request_id))
        return error_response(
            RequestError(error.status_code, "not_found", "no such path", hint=f"{OPENAPI_PATH} lists them"),
            ErrorContext(request_id),
        )

    return handle


def _list_methods(app: FastAPI, scope: Scope) -> set[str]:
    """Return all methods of a path. The router itself names those of its first match."""
    found: set[str] = set()
    for route in app.routes:
        matches, _ = route.matches(scope)
        if matches is not Match.NONE:
            found |= set(getattr(route, "methods", None) or ())
    return found


class DirectRoutes:
    """Finds most routes by their path without a search: those that have no parameter, or only the graph.

    The router of the application finds the others, and says what is wrong with paths and methods that nobody has.
    """

    def __init__(self) -> None:
        found = {(route.method, route.path): route for route in ROUTES if "{" not in route.path.replace(_GRAPH, "", 1)}
        self._routes: Final = found

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]] | None:
        """Return a route and the parameters in its path."""
        if not path.startswith("/graphs/"):
            fixed = self._routes.get((method, path))
            return None if fixed is None else (fixed, {})
        graph_id, slash, rest = path[len("/graphs/") :].partition("/")
        route = self._routes.get((method, f"/graphs/{_GRAPH}{slash}{rest}")) if graph_id else None
        return None if route is None else (route, {"graph_id": graph_id})


class RequestFrame:
    """Plain ASGI, so that a client that goes away is noticed inside: ids, hosts, draining, tokens and headers."""

    def __init__(self, app: ASGIApp, hosting: Hosting) -> None:
        self._app = app
        self._hosting = hosting
        self._direct = DirectRoutes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        given = request.headers.get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else str(ULID())
        scope["omnigraph.request_id"] = request_id
        state = scope["omnigraph.state"] = self._hosting.state
        record = scope["omnigraph.record"] = RequestRecord(request_id, str(scope["method"]))
        framed = _FramedSend(send, request_id, make_cors_headers(request, state.settings))
        record.address = find_address(request, state.settings.trusted_proxies)
        is_health = scope["path"] in _HEALTH
        counting = nullcontext() if is_health else self._hosting.traffic.count()
        with counting, trace_request(request.headers, record):
            await self._answer(request, receive, framed, state, record, is_health=is_health)

    async def _answer(
        self,
        request: Request,
        receive: Receive,
        framed: _FramedSend,
        state: ServerState,
        record: RequestRecord,
        *,
        is_health: bool,
    ) -> None:
        scope, request_id = request.scope, record.request_id
        try:
            refusal = self._refuse(request, state, is_health=is_health)
            await (refusal or self._dispatch)(scope, receive, framed)
        except Exception as error:
            if framed.is_started:
                # The status is sent: only a connection that ends early can say that the answer is not whole.
                _log.exception("request %s failed while it was answered", request_id)
                raise
            await error_response(error, ErrorContext(request_id))(scope, receive, framed)
        finally:
            if framed.status == HTTPStatus.UNAUTHORIZED:
                state.admission.record_failed_login(record.address)
            state.log.record_end(record, framed.status)

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._direct.find(str(scope["method"]), str(scope["path"]))
        if found is None:
            await self._app(scope, receive, send)
            return
        route, scope["path_params"] = found
        response = await answer_request(route, Request(scope, receive, send), self._hosting)
        await response(scope, receive, send)

    def _refuse(self, request: Request, state: ServerState, *, is_health: bool) -> Response | None:
        """Return the answer to a request that goes no further; otherwise note whose it is."""
        request_id = str(request.scope["omnigraph.request_id"])
        try:
            check_origin(request, state.settings)
            preflight = answer_preflight(request, state.settings)
            if preflight is not None:
                return preflight
            if self._hosting.is_draining and not is_health:
                raise ServerUnavailable("the server is about to stop", hint="send the request to another one")
            token = request.scope["omnigraph.token"] = _authenticate(request, state)
            if token is not None:
                record = cast("RequestRecord", request.scope["omnigraph.record"])
                record.actor, record.token_id = token.actor, token.id
        except (RequestError, ServerUnavailable, Unauthorized) as error:
            response = error_response(error, ErrorContext(request_id))
            if isinstance(error, ServerUnavailable):
                response.headers["Connection"] = "close"
            return response
        except Exception as error:  # noqa: BLE001  too many failed logins, or a defect: both have a body
            return error_response(error, ErrorContext(request_id))
        return None


class CallerFrame:
    """Answers requests that the server makes for a caller who has been let in: those of the tools of an agent."""

    def __init__(self, app: ASGIApp, hosting: Hosting, state: ServerState, token: Token, request_id: str) -> None:
        self._app = app
        self._hosting = hosting
        self._state = state
        self._token = token
        self._request_id = request_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        record = RequestRecord(self._request_id, str(scope["method"]))
        record.actor, record.token_id = self._token.actor, self._token.id
        scope["omnigraph.request_id"] = self._request_id
        scope["omnigraph.state"] = self._state
        scope["omnigraph.token"] = self._token
        scope["omnigraph.record"] = record
        framed = _FramedSend(send, self._request_id)
        try:
            await self._app(scope, receive, framed)
        finally:
            self._state.log.record_end(record, framed.status)


def _authenticate(request: Request, state: ServerState) -> Token | None:
    if state.everybody is not None:
        return state.everybody
    path = str(request.scope["path"])
    is_public = path in _PUBLIC or (state.settings.has_page and is_page_path(path))
    if is_public and path != _SESSION_PATH:
        return None
    state.admission.check_logins(find_address(request, state.settings.trusted_proxies))
    if is_public:
        return None
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    token = state.tokens.find(text.strip()) if scheme.lower() == "bearer" else None
    if token is None:
        raise Unauthorized("a valid token is needed", hint="send it as Authorization: Bearer TOKEN")
    state.tokens.record_use(token)
    return token


class _FramedSend:
    """Adds the headers that every answer has."""

    def __init__(self, send: Send, request_id: str, more: Mapping[str, str] | None = None) -> None:
        self._send = send
        self._more = more or {}
        self._request_id = request_id
        self.status: int | None = None

    @property
    def is_started(self) -> bool:
        """Whether the status is sent."""
        return self.status is not None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            message["headers"] = [
                *message["headers"],
                *_encode({**_HEADERS, **self._more, "X-Request-Id": self._request_id}),
            ]
        await self._send(message)


def _encode(headers: Mapping[str, str]) -> Sequence[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]
