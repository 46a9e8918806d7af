"""A proxy in front of the S3 server that counts requests and injects the faults of a network, on real sockets.

Faults are those that a client cannot tell apart by itself: an answer that is lost after the request has landed, a
refusal before it has, a request that arrives late. A store without conditional writes is imitated by dropping the
conditions on the way.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from socketserver import BaseServer
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

_PATIENCE = 60.0
_POLL = 0.01  # how soon a stopped proxy notices
_CONDITIONS = frozenset({"if-match", "if-none-match"})
_OF_ONE_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding"})


class Request(NamedTuple):
    """One request as the store sees it: its path, or the operation of DynamoDB, and what a listing asks for."""

    method: str
    target: str
    prefix: str = ""


class Act(Enum):
    """What a fault does to the requests that it meets."""

    LOSE_ANSWER = auto()
    REFUSE_500 = auto()
    REFUSE_503 = auto()
    HOLD_REQUEST = auto()


@dataclass(slots=True)
class Fault:
    """Something that happens to the first ``times`` requests of a method whose target matches a pattern."""

    method: str
    pattern: str
    act: Act
    times: int
    met: int = 0
    on_its_way: threading.Event = field(default_factory=threading.Event)
    """Set when the first request was met."""
    released: threading.Event = field(default_factory=threading.Event)
    """Set by the test: a held request may reach the store now."""

    def meets(self, request: Request) -> bool:
        wanted = request.method == self.method and re.search(self.pattern, request.target) is not None
        return wanted and self.met < self.times


class Proxy:
    """A running proxy. Made by :func:`proxying`."""

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream).netloc
        self.ignores_conditions = False
        self._requests: list[Request] = []
        self._faults: list[Fault] = []
        self._guard = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._connected)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(_POLL,), daemon=True).start()

    @property
    def endpoint(self) -> str:
        """Where the proxy listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def fault(self, method: str, pattern: str, act: Act, times: int = 1) -> Generator[Fault]:
        """Inject a fault; a test that leaves the block without having met it is wrong."""
        fault = Fault(method, pattern, act, times)
        with self._guard:
            self._faults.append(fault)
        try:
            yield fault
        finally:
            fault.released.set()
            with self._guard:
                self._faults.remove(fault)
        assert fault.met == times, f"{method} {pattern} was met {fault.met} times, not {times}"

    @contextmanager
    def counting(self) -> Generator[list[Request]]:
        """The requests that pass inside the block, known when it ends."""
        with self._guard:
            before = len(self._requests)
        seen: list[Request] = []
        yield seen
        with self._guard:
            seen += self._requests[before:]

    def notes(self, request: Request) -> Fault | None:
        """Count a request, and give the fault that it meets."""
        with self._guard:
            self._requests.append(request)
            fault = next((fault for fault in self._faults if fault.meets(request)), None)
            if fault is not None:
                fault.met += 1
                fault.on_its_way.set()
            return fault

    def _connected(self, request: socket, client: tuple[str, int], server: BaseServer) -> BaseHTTPRequestHandler:
        return _Connection(self, request, client, server)

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def proxying(upstream: str) -> Generator[Proxy]:
    """Start a proxy in front of a server, and stop it at the end."""
    proxy = Proxy(upstream)
    try:
        yield proxy
    finally:
        proxy.close()


class _Answer(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    body: bytes


class _Connection(BaseHTTPRequestHandler):
    """One connection of a client, with one of its own to the store."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes, and the second would wait for the first

    def __init__(self, proxy: Proxy, request: socket, client: tuple[str, int], server: BaseServer) -> None:
        self.proxy = proxy
        self.store = HTTPConnection(proxy.upstream, timeout=_PATIENCE)
        super().__init__(request, client, server)

    def finish(self) -> None:
        super().finish()
        self.store.close()

    def pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        operation = self.headers.get("x-amz-target")
        url = urlsplit(self.path)
        prefix = parse_qs(url.query).get("prefix", [""])[0]
        fault = self.proxy.notes(Request(self.command, operation or unquote(url.path), prefix))
        match None if fault is None else fault.act:
            case None:
                self.answer(self.ask(body))
            case Act.REFUSE_500:
                self.answer(_refusal(500, "InternalError"))
            case Act.REFUSE_503:
                self.answer(_refusal(503, "SlowDown"))
            case Act.LOSE_ANSWER:
                self.ask(body)
                self.close_connection = True
            case Act.HOLD_REQUEST:
                assert fault is not None
                fault.released.wait(_PATIENCE)
                self.answer(self.ask(body))

    # The names that the base class calls.
    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = pass_on  # noqa: N815

    def ask(self, body: bytes) -> _Answer:
        dropped = _CONDITIONS if self.proxy.ignores_conditions else frozenset[str]()
        headers = {name: value for name, value in self.headers.items() if name.lower() not in dropped}
        self.store.request(self.command, self.path, body, headers)
        found = self.store.getresponse()
        return _Answer(found.status, found.getheaders(), found.read())

    def answer(self, answer: _Answer) -> None:
        self.send_response_only(answer.status)
        headers = {name.lower(): value for name, value in answer.headers}
        if self.command != "HEAD":
            headers["content-length"] = str(len(answer.body))
        for name, value in headers.items():
            if name not in _OF_ONE_CONNECTION:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name of the base class
        """Say nothing."""


def _refusal(status: int, code: str) -> _Answer:
    return _Answer(status, [], f"<Error><Code>{code}</Code></Error>".encode())
