"""How tools reach a graph: requests to the routes of a server, in this process or behind a URL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final, Literal, cast
from urllib.parse import quote

import httpx
import orjson
from starlette.types import ASGIApp

from omnigraph.errors import Json, OmniGraphError, ParameterError, ServerUnavailable
from omnigraph.lazy_dataclass import dataclass

TOOL_SECONDS: Final = 20
_LOCAL: Final = "http://127.0.0.1"
_GRAPHS: Final = "/graphs/"


class FailedRequest(OmniGraphError):
    """A route answered with an error; ``body`` is what it sent."""

    code = "failed_request"

    def __init__(self, status: int, body: Mapping[str, Json]) -> None:
        super().__init__(str(body.get("error", f"the server answered {status}")))
        self.status = status
        self.body = body


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A request to a route below a graph."""

    method: Literal["GET", "POST"]
    path: str
    query: Mapping[str, Json] = field(default_factory=dict[str, Json])
    body: Mapping[str, Json] | None = None
    key: str | None = None
    """The idempotency key of a write."""


@dataclass(frozen=True, slots=True)
class GraphClient:
    """Sends requests to the routes of one graph, as one caller."""

    http: httpx.AsyncClient
    graph_id: str

    async def send(self, request: ToolRequest) -> dict[str, Json]:
        """Send a request; return the fields of the answer, or raise what the server answered."""
        headers = {"Omnigraph-Timeout-Ms": str(TOOL_SECONDS * 1000)}
        content: bytes | None = None
        if request.body is not None:
            headers["Content-Type"] = "application/json"
            content = orjson.dumps({name: each for name, each in request.body.items() if each is not None})
        if request.key is not None:
            headers["Idempotency-Key"] = request.key
        query = {name: each for name, each in request.query.items() if each is not None}
        path = f"{_GRAPHS}{quote(self.graph_id)}/{request.path}".rstrip("/")
        return await self._request(request.method, path, query, content, headers)

    async def list_actions(self) -> frozenset[str]:
        """Return what the caller may do with the graph."""
        found = await self._request("GET", "/whoami", {}, None, {})
        graphs = cast("list[dict[str, Json]]", found.get("graphs", []))
        names = {self.graph_id} if len(graphs) > 1 else {str(each["graph_id"]) for each in graphs}
        allowed = [cast("list[str]", each["actions"]) for each in graphs if each["graph_id"] in names]
        return frozenset(action for actions in allowed for action in actions)

    async def _request(
        self, method: str, path: str, query: Mapping[str, Json], content: bytes | None, headers: Mapping[str, str]
    ) -> dict[str, Json]:
        try:
            answer = await self.http.request(
                method, path, params=cast("dict[str, str]", query), content=content, headers=headers
            )
            found = cast("Json", orjson.loads(answer.content))
        except (httpx.HTTPError, orjson.JSONDecodeError) as error:
            raise ServerUnavailable(f"no answer of the server: {error}", hint="check its address") from error
        if not isinstance(found, dict):
            raise ServerUnavailable("the server did not answer with a JSON object", hint="check its address")
        if answer.status_code >= httpx.codes.BAD_REQUEST:
            raise FailedRequest(answer.status_code, found)
        return found


def connect_app(app: ASGIApp, graph_id: str) -> GraphClient:
    """Connect to an application in this process. It says itself who the caller is."""
    transport = httpx.ASGITransport(app)
    return GraphClient(httpx.AsyncClient(transport=transport, base_url=_LOCAL, timeout=2 * TOOL_SECONDS), graph_id)


def connect_url(url: str, token: str | None) -> GraphClient:
    """Connect to a graph of a server, such as ``https://host/graphs/brain``."""
    base, found, graph_id = url.rstrip("/").rpartition(_GRAPHS)
    if not found or not graph_id or "/" in graph_id:
        raise ParameterError(f"'{url}' is no graph of a server", hint="give a URL such as https://host/graphs/brain")
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return GraphClient(httpx.AsyncClient(base_url=base, headers=headers, timeout=2 * TOOL_SECONDS), graph_id)
