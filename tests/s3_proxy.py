"""A proxy in front of the S3 server that counts requests and injects the faults of a network, on real sockets.

Faults are those that a client cannot tell apart by itself: an answer that is lost after the request has landed, a
refusal before it has, a request that arrives late. A store without conditional writes is imitated by dropping the
conditions on the way.
"""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_PATIENCE = 60.0
_CONDITIONS = {"if-match", "if-none-match"}
_OF_ONE_CONNECTION = {"connection", "keep-alive", "transfer-encoding", "content-length"}


class Request(NamedTuple):
    """One request as the store sees it. ``target`` is the object's path, or the operation of DynamoDB."""

    method: str
    target: str


class Answer(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Act(Enum):
    """What a fault does to the request that it meets."""

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
    times: int = 1
    met: list[Request] = field(default_factory=list[Request])
    on_its_way: threading.Event = field(default_factory=threading.Event)
    """Set when the first request was met."""
    released: threading.Event = field(default_factory=threading.Event)
    """Set by the test: a held request may reach the store now."""

    def meets(self, request: Request) -> bool:
        return (
            len(self.met) < self.times
            and request.method == self.method
            and re.search(self.pattern, request.target) is not None
        )


class Proxy:
    """A running proxy. Everything that passes it is kept in ``requests``, in the order of arrival."""

    def __init__(self, upstream: str) -> None:
        self.requests: list[Request] = []
        self.ignores_conditions = False
        self._faults: list[Fault] = []
        self._guard = threading.Lock()
        self._upstream = urlsplit(upstream).netloc
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    @contextmanager
    def fault(self, method: str, pattern: str, act: Act, times: int = 1) -> Generator[Fault]:
        """Inject a fault; leaving the block without having met it is an error of the test."""
        fault = Fault(method, pattern, act, times)
        with self._guard:
            self._faults.append(fault)
        try:
            yield fault
        finally:
            fault.released.set()
            with self._guard:
                self._faults.remove(fault)
        assert len(fault.met) == times, f"{method} {pattern} was met {len(fault.met)} times"

    @contextmanager
    def counting(self) -> Generator[list[Request]]:
        """The requests that pass inside the block."""
        with self._guard:
            before = len(self.requests)
        seen: list[Request] = []
        yield seen
        with self._guard:
            seen += self.requests[before:]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def met(self, request: Request) -> Fault | None:
        """Note a request, and give the fault that it meets."""
        with self._guard:
            self.requests.append(request)
            fault = next((fault for fault in self._faults if fault.meets(request)), None)
            if fault is not None:
                fault.met.append(request)
                fault.on_its_way.set()
            return fault

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # two small writes per answer would wait for each other

            def setup(self) -> None:
                super().setup()
                self.store = http.client.HTTPConnection(proxy._upstream, timeout=_PATIENCE)

            def finish(self) -> None:
                super().finish()
                self.store.close()

            def pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                operation = self.headers.get("x-amz-target")
                fault = proxy.met(Request(self.command, operation or unquote(urlsplit(self.path).path)))
                if fault is None:
                    self.answer(self.forward(body))
                    return
                match fault.act:
                    case Act.REFUSE_500:
                        self.answer(Answer(500, [], b"<Error><Code>InternalError</Code></Error>"))
                    case Act.REFUSE_503:
                        self.answer(Answer(503, [], b"<Error><Code>SlowDown</Code></Error>"))
                    case Act.LOSE_ANSWER:
                        self.forward(body)
                        self.close_connection = True
                    case Act.HOLD_REQUEST:
                        fault.released.wait(_PATIENCE)
                        self.answer(self.forward(body))

            def forward(self, body: bytes) -> Answer:
                dropped = _CONDITIONS if proxy.ignores_conditions else set[str]()
                headers = {name: value for name, value in self.headers.items() if name.lower() not in dropped}
                self.store.request(self.command, self.path, body, headers)
                found = self.store.getresponse()
                return Answer(found.status, found.getheaders(), found.read())

            def answer(self, answer: Answer) -> None:
                self.send_response_only(answer.status)
                for name, value in _kept(answer.headers):
                    self.send_header(name, value)
                length = dict((name.lower(), value) for name, value in answer.headers).get("content-length")
                is_head = self.command == "HEAD"
                self.send_header("content-length", (length or "0") if is_head else str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name of the base class
                pass

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = pass_on

        return Handler


def _kept(headers: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    return ((name, value) for name, value in headers if name.lower() not in _OF_ONE_CONNECTION)


@contextmanager
def proxying(upstream: str) -> Generator[Proxy]:
    """Start a proxy in front of a server, and stop it at the end."""
    proxy = Proxy(upstream)
    try:
        yield proxy
    finally:
        proxy.close()
