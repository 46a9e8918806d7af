"""A server of embeddings on this machine, that answers what a test tells it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

from typing_extensions import override


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One request as it came."""

    path: str
    authorization: str | None
    body: dict[str, object]

    @property
    def texts(self) -> list[str]:
        return cast("list[str]", self.body["input"])


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back. ``pieces`` come one after another, each when the function before it lets it."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    wait: Callable[[], object] | None = None
    """Called before the answer begins: the server is as slow as this is."""
    trickle: Callable[[], object] | None = None
    """Called before each byte of the body."""


def vectors(of: Sequence[Sequence[object]], order: Sequence[int] | None = None) -> Answer:
    """An answer with vectors, which may come in another order than that of the texts."""
    places = range(len(of)) if order is None else order
    return Answer(body=json.dumps({"data": [{"index": at, "embedding": of[at]} for at in places]}).encode())


Respond = Callable[[ReceivedRequest, int], Answer]
"""From a request and how many came before it to its answer."""


class EmbeddingServer:
    """Where it listens, and what it was asked."""

    def __init__(self, respond: Respond) -> None:
        self.asked: list[ReceivedRequest] = []
        self.respond = respond
        self.url = ""


@contextmanager
def serve_embeddings(respond: Respond) -> Generator[EmbeddingServer]:
    """A server for the time of a block."""
    server = EmbeddingServer(respond)
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
    http.daemon_threads = True
    server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def _handler(server: EmbeddingServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = cast("dict[str, object]", json.loads(self.rfile.read(length)))
            asked = ReceivedRequest(self.path, self.headers["Authorization"], body)
            server.asked.append(asked)
            self._send(server.respond(asked, len(server.asked) - 1))

        def _send(self, answer: Answer) -> None:
            if answer.wait is not None:
                answer.wait()
            try:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                for at in range(len(answer.body)) if answer.trickle else ():
                    cast("Callable[[], object]", answer.trickle)()
                    self.wfile.write(answer.body[at : at + 1])
                    self.wfile.flush()
                if answer.trickle is None:
                    self.wfile.write(answer.body)
            except OSError:
                # The client has given up: that is what some tests are about.
                self.close_connection = True

        @override
        def log_message(self, format: str, *args: object) -> None:
            del format, args

    return Handler
