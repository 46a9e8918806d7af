"""A client of a server in this process, for tests that are not asynchronous."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

import httpx
from pydantic import TypeAdapter

from omnigraph.server import Hosting, Role, ServerSettings, build_app, open_hosting
from omnigraph.server.access.tokens import TokenBook, make_token
from omnigraph.server.hosting import ReadSettings
from omnigraph.server.messages import ANSWERS, FailureAnswer

BASE = "http://127.0.0.1"


@dataclass(frozen=True)
class Client:
    """Sends requests with one token, and returns whole answers."""

    hosting: Hosting
    http: httpx.AsyncClient
    runner: asyncio.Runner
    token: str | None

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> httpx.Response:
        """Send a request to a path; one that does not begin with ``/`` lies below the graph."""
        url = path if path.startswith("/") else f"/graphs/brain/{path}".rstrip("/")
        sent = dict(headers or {})
        if self.token is not None:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        if content is not None:
            return self.runner.run(self.http.request(method, url, content=content, headers=sent))
        return self.runner.run(self.http.request(method, url, json=body, headers=sent))

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.send("GET", path, headers=_with_dashes(headers))

    def post(self, path: str, body: object = None, **headers: str) -> httpx.Response:
        return self.send(
            "POST", path, body or {}, headers={name.replace("_", "-"): each for name, each in headers.items()}
        )

    def ok(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Send a request that must succeed, and return the JSON of its answer."""
        answer = self.send(method, path, body)
        assert answer.status_code == 200, answer.text
        body = cast("dict[str, Any]", answer.json())
        check_described(method, answer.request.url.path, body)
        return body

    def fails(self, status: int, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Send a request that must fail with a status, and return the JSON of its answer."""
        answer = self.send(method, path, body)
        assert answer.status_code == status, answer.text
        return error_of(answer)

    def with_role(self, role: Role, actor: str = "act-other") -> Client:
        """Return a client of the same server whose token has another role."""
        token, text = make_token(actor, role)
        book = self.hosting.state.tokens
        self.hosting.state = replace(self.hosting.state, tokens=TokenBook(book._path, (*book._made, token)))
        return replace(self, token=text)

    def close(self) -> None:
        self.runner.run(self.http.aclose())
        self.hosting.close()


@cache
def _find_answer(method: str, path: str) -> TypeAdapter[object] | None:
    """What the description of the routes says that a path answers."""
    for (known, template), answer in ANSWERS.items():
        pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template))
        if known == method.lower() and re.fullmatch(pattern, path):
            return TypeAdapter(cast("Any", answer))
    return None


_FAILURE = TypeAdapter(FailureAnswer)


def check_described(method: str, path: str, body: object) -> None:
    """Check that an answer is what the description of the routes says."""
    described = _find_answer(method, path)
    if described is not None:
        described.validate_python(body, strict=True)


def _with_dashes(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def error_of(answer: httpx.Response) -> dict[str, Any]:
    """The body of an error, which has what every error has."""
    body = cast("dict[str, Any]", answer.json())
    _FAILURE.validate_python(body, strict=True)
    assert body["request_id"] == answer.headers["x-request-id"]
    return body


def open_client(settings: ServerSettings, runner: asyncio.Runner, read_settings: ReadSettings | None = None) -> Client:
    hosting, token = open_hosting(settings, read_settings)
    transport = httpx.ASGITransport(build_app(hosting))
    return Client(hosting, httpx.AsyncClient(transport=transport, base_url=BASE), runner, token)
