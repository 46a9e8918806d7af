"""One connection: how long its headers may take, how large they may be, and what is said to bytes that are no HTTP.

uvicorn has a time limit between requests only. Without one for headers, a client that sends a byte a minute would hold
a connection for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast

import orjson
from ulid import ULID

if TYPE_CHECKING:
    # Both protocols of uvicorn have what is used here.
    from uvicorn.protocols.http.h11_impl import H11Protocol as _Protocol
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle
else:
    from uvicorn.protocols.http.auto import AutoHTTPProtocol as _Protocol

HEADER_BYTES: Final = 64 << 10
"""The request line and the headers together."""
_LINGER_SECONDS: Final = 2.0
"""How long a client that was refused may go on sending what nobody reads."""
_QUIET_SECONDS: Final = 0.2
"""How long nothing arrives of one that has ended."""
_STATUS_LINE: Final = b"HTTP/1.1 "
_WORDS: Final = {
    400: ("bad_http", "this is not a request of HTTP/1.1", "see RFC 9112"),
    408: ("headers_too_slow", "the headers did not arrive in time", "send them at once"),
    431: ("headers_too_large", f"the request line and the headers have more than {HEADER_BYTES:,} bytes", "send less"),
}


def make_protocol(find_seconds: Callable[[], float]) -> type[asyncio.Protocol]:
    """Return the class of connections. ``find_seconds`` says how long headers may take, as the settings are now."""

    class Connection(_GuardedConnection):
        """A connection with the limits of this server."""

        def find_header_seconds(self) -> float:
            return find_seconds()

    return Connection


class _JoinedWrites(asyncio.Transport):
    """Sends the head of an answer together with the first bytes of its body: in one packet, by one system call.

    uvicorn writes them one after the other. A head whose body comes later is sent without it.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._head: bytes | None = None
        self._flush_soon: asyncio.Handle | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes, or keep a head until the bytes after it are there."""
        if self._head is not None:
            self._forget_flush()
            head, self._head = self._head, None
            self._transport.write(b"".join((head, data)))
        elif bytes(data[: len(_STATUS_LINE)]) == _STATUS_LINE:
            self._head = bytes(data)
            self._flush_soon = self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def _flush(self) -> None:
        self._forget_flush()
        if self._head is not None:
            head, self._head = self._head, None
            self._transport.write(head)

    def _forget_flush(self) -> None:
        if self._flush_soon is not None:
            self._flush_soon.cancel()
            self._flush_soon = None

    def close(self) -> None:
        """Send what is kept, and end the connection after it."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """End the connection at once."""
        self._forget_flush()
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether the connection ends."""
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return what is known of the connection, such as its addresses."""
        return cast("object", self._transport.get_extra_info(name, default))

    def pause_reading(self) -> None:
        """Take no bytes for now."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take bytes again."""
        self._transport.resume_reading()


class _GuardedConnection(_Protocol):
    """A connection that ends if the headers of a request do not arrive in time, or are too large."""

    _limit: asyncio.TimerHandle | None = None
    _pending: int = 0
    """Bytes of headers that are not complete."""
    _refused_at: float | None = None

    def find_header_seconds(self) -> float:
        """Return how long headers may take."""
        raise NotImplementedError

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(_JoinedWrites(transport, self.loop))
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take bytes. While they are part of headers, time runs."""
        if self._refused_at is not None:
            self._linger(self._refused_at)
            return
        # There is none before the first request.
        before = cast("RequestResponseCycle | None", self.cycle)
        self._pending += len(data)
        super().data_received(data)
        now = cast("RequestResponseCycle | None", self.cycle)
        if self._refused_at is not None:
            return
        if self.transport.is_closing():
            self._stop_waiting()
        elif now is not before or (now is not None and not now.response_complete):
            # A request began, or its body goes on.
            self._stop_waiting()
            self._pending = 0
        elif self._pending <= HEADER_BYTES:
            self._wait()
        elif now is not None and now.more_body:
            # The request is answered: a second answer to the rest of its body would be taken for that of the next one.
            self._refused_at = self.loop.time()
            self._linger(self._refused_at)
        else:
            self._refuse(431)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the time."""
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  as uvicorn calls it
        """Say in the body of all errors that bytes are not understood."""
        self._refuse(431 if self._pending > HEADER_BYTES else 400)

    def _wait(self) -> None:
        if self._limit is None:
            self._limit = self.loop.call_later(self.find_header_seconds(), self._refuse, 408)

    def _stop_waiting(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _refuse(self, status: int) -> None:
        self._stop_waiting()
        if self._refused_at is not None or self.transport.is_closing():
            return
        self._refused_at = self.loop.time()
        type_, sentence, hint = _WORDS[status]
        request_id = str(ULID())
        body = orjson.dumps(
            {"error": sentence, "code": "bad_request", "type": type_, "hint": hint, "request_id": request_id}
        )
        headers = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "X-Request-Id": request_id,
            "X-Content-Type-Options": "nosniff",
            "Connection": "close",
        }
        lines = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            *(f"{name}: {each}" for name, each in headers.items()),
        ]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)
        self._linger(self._refused_at)

    def _linger(self, began: float) -> None:
        """End the connection when nothing arrives any more.

        One that is closed while bytes arrive is reset, and the answer is lost on its way.
        """
        self._stop_waiting()
        end = min(self.loop.time() + _QUIET_SECONDS, began + _LINGER_SECONDS)
        self._limit = self.loop.call_at(end, self.transport.close)
