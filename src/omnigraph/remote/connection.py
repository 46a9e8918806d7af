"""Requests to a server: authenticated, in time, repeated where that is safe. What goes wrong is an error of ours."""

from __future__ import annotations

import io
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import IO, Final, Self, TypeAlias, TypeVar, cast
from uuid import uuid4

import httpx
import orjson
import pyarrow as pa
from typing_extensions import Buffer

from omnigraph.arguments import check_text
from omnigraph.deadlines import check_deadline, find_remaining_seconds, observe
from omnigraph.errors import (
    DeadlineExceeded,
    Json,
    OmniGraphError,
    OutcomeUnknown,
    ParameterError,
    ServerUnavailable,
)
from omnigraph.lazy_dataclass import dataclass
from omnigraph.remote.error_bodies import UNREACHABLE_HINT, make_unreachable, to_error
from omnigraph.remote.graph_url import GraphUrl

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
OCTETS: Final = "application/octet-stream"
ARROW: Final = "application/vnd.apache.arrow.stream"
Fields: TypeAlias = Mapping[str, Json]
Value = TypeVar("Value")

_READ_RETRIES: Final = 2
_CONNECT_SECONDS: Final = 10.0
_LONGEST_SECONDS: Final = 3600.0
_GRACE_SECONDS: Final = 5.0
"""The server ends work in time by itself: it is asked what happened before the connection is given up."""
_PAUSES: Final = (0.2, 1.0)
_LONGEST_PAUSE: Final = 10.0
_AHEAD_BYTES: Final = 1 << 20
_UNAVAILABLE: Final = 503
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent to the graph. ``content`` makes the body again for each attempt."""

    method: str
    path: str
    query: Mapping[str, Json] = field(default_factory=dict[str, Json])
    body: Fields | None = None
    accept: str = JSON
    content: Callable[[], IO[bytes]] | None = None
    content_type: str = NDJSON
    byte_range: str | None = None


class Connection:
    """A graph on a server. Safe to share between threads."""

    def __init__(self, url: GraphUrl, token: str | None) -> None:
        self.url = url
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._guard = threading.Lock()
        self._client = self._make_client()

    def _make_client(self) -> httpx.Client:
        # A redirect is never followed: it would carry the token to another place.
        client = httpx.Client(base_url=self.url.origin, headers=self._headers, follow_redirects=False, trust_env=True)
        self._finalizer = weakref.finalize(self, client.close)
        return client

    def close(self) -> None:
        """Close the connections. It happens by itself with the end of the last reference; a later call opens others."""
        self._finalizer()

    def _open_client(self) -> httpx.Client:
        with self._guard:
            if self._client.is_closed:
                self._client = self._make_client()
            return self._client

    # ----------------------------------------------------------------------------------------- reads

    def read(self, path: str, query: Mapping[str, Json] | None = None, *, below_graph: bool = True) -> Fields:
        """Return the JSON of a GET."""
        request = Request("GET", self._full(path) if below_graph else path, query or {})
        return _parse(self._retry(lambda: self._send(request, None, is_read=True)))

    def ask(self, path: str, body: Fields) -> Fields:
        """Return the JSON of a POST that only reads."""
        request = Request("POST", self._full(path), body=body)
        return _parse(self._retry(lambda: self._send(request, None, is_read=True)))

    def open_stream(self, request: Request) -> ByteStream:
        """Open an answer that is read piece by piece. A stream that has begun is not repeated."""
        full = replace(request, path=self._full(request.path))
        return ByteStream(self._retry(lambda: self._send(full, None, stream=True, is_read=True)))

    def _retry(self, attempt: Callable[[], Value]) -> Value:
        """Repeat a read on connection errors, and while the server is unavailable."""
        for pause in _PAUSES[:_READ_RETRIES]:
            try:
                return attempt()
            except ServerUnavailable as error:
                check_deadline()
                wanted = max(pause, error.retry_after)
                left = find_remaining_seconds()
                if wanted > _LONGEST_PAUSE or (left is not None and wanted > left):
                    # The server says when: waiting for less would be in vain.
                    raise
                time.sleep(wanted)
        return attempt()

    # ----------------------------------------------------------------------------------------- writes

    def write(self, request: Request, key: str | None = None) -> Fields:
        """Send a write. With a key it is sent once more if the connection broke: the key keeps it from happening twice.

        Raise ``OutcomeUnknown`` if the server cannot be reached to ask.
        """
        full = replace(request, path=self._full(request.path))
        try:
            return _parse(self._send(full, key))
        except _Broken as broken:
            if not broken.was_sent:
                raise make_unreachable(broken.message, broken.hint) from broken
            return self._ask_again(full, key, broken)

    def send_once(self, request: Request, seconds: float) -> None:
        """Send a request whose answer does not matter, and wait for at most so long."""
        with observe(seconds):
            self._send(replace(request, path=self._full(request.path)), None)

    def _ask_again(self, request: Request, key: str | None, broken: _Broken) -> Fields:
        unknown = OutcomeUnknown(None, f"the connection broke before the answer came: {broken.message}", key=key)
        if key is None:
            raise unknown from broken
        try:
            return _parse(self._send(request, key))
        except (_Broken, ServerUnavailable) as error:
            raise unknown from error

    # ----------------------------------------------------------------------------------------- one request

    def _full(self, path: str) -> str:
        return f"{self.url.path}/{path}" if path else self.url.path

    def _send(self, asked: Request, key: str | None, *, stream: bool = False, is_read: bool = False) -> httpx.Response:
        """Send a request and return a good answer; anything else is raised."""
        check_deadline()
        remaining = find_remaining_seconds()
        # Before it is opened: what cannot be sent has opened nothing.
        parameters, body = httpx.QueryParams(_to_parameters(asked.query)), _encode_body(asked.body)
        content = body if asked.content is None else asked.content()
        wait = min(_LONGEST_SECONDS, (remaining or _LONGEST_SECONDS) + _GRACE_SECONDS)
        timeout = httpx.Timeout(wait, connect=min(_CONNECT_SECONDS, wait))
        try:
            client = self._open_client()
            request = client.build_request(
                asked.method,
                asked.path,
                params=parameters,
                content=content,
                headers=_list_headers(asked, key, remaining),
                timeout=timeout,
            )
            answer = client.send(request, stream=stream)
            if not answer.is_success:
                answer.read()
        except httpx.InvalidURL as error:
            raise ParameterError(
                f"the request for '{asked.path.rpartition('/')[2]:.200}' does not fit into a URL: {error}",
                hint="use query() with a parameter for long values",
            ) from error
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise _Broken(
                f"{self.url.origin} cannot be reached: {error}", was_sent=False, hint=_hint_at(error)
            ) from error
        except httpx.TimeoutException as error:
            if remaining is not None and is_read:
                raise DeadlineExceeded(remaining) from error
            raise _Broken(f"{self.url.origin} did not answer in time", was_sent=True) from error
        except httpx.TransportError as error:
            raise _Broken(f"{self.url.origin} broke the connection: {error}", was_sent=True) from error
        finally:
            if content is not None and not isinstance(content, bytes):
                content.close()
        if not answer.is_success:
            raise _read_error(answer)
        return answer


def _encode_body(body: Fields | None) -> bytes | None:
    return None if body is None else encode_json(body)


def encode_json(value: Json) -> bytes:
    """Return a value as JSON. Half of a surrogate pair and a number of more than 64 bits cannot be sent."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise ParameterError(
            f"a value cannot be sent: {error}", hint="give whole characters and smaller numbers"
        ) from error


def _list_headers(asked: Request, key: str | None, remaining: float | None) -> dict[str, str]:
    has_content = asked.content is not None
    found = {
        "Accept": asked.accept,
        "Content-Type": asked.content_type if has_content else None if asked.body is None else JSON,
        "Idempotency-Key": key,
        # The commit comes with the answer, and need not be asked for.
        "Prefer": None if key is None else "return=representation",
        "Omnigraph-Timeout-Ms": None if remaining is None else str(max(1, int(remaining * 1000))),
        "Range": asked.byte_range,
    }
    return {name: value for name, value in found.items() if value is not None}


class _Broken(ServerUnavailable):
    """The connection failed. ``was_sent``: the request may have reached the server."""

    def __init__(self, message: str, *, was_sent: bool, hint: str = UNREACHABLE_HINT) -> None:
        super().__init__(message, hint=hint)
        self.was_sent = was_sent

    code = "server_unavailable"


def _hint_at(error: httpx.TransportError) -> str:
    """Say what to look at when no connection comes about."""
    if "CERTIFICATE" in str(error).upper():
        return "the certificate is not trusted here: SSL_CERT_FILE names a file with that of its authority"
    if "SSL" in str(error).upper():
        return "the server may speak http:// there, or the other way round: check the URL"
    proxies = [name for name in _PROXIES if os.environ.get(name) or os.environ.get(name.lower())]
    return (
        f"{UNREACHABLE_HINT}; {' and '.join(proxies)} is set: requests go through it" if proxies else UNREACHABLE_HINT
    )


def make_key() -> str:
    """Return a key for one write."""
    return f"og-{uuid4().hex}"


def _to_parameters(query: Mapping[str, Json]) -> list[tuple[str, str | int | float | bool | None]]:
    pairs = (
        (name, each)
        for name, value in query.items()
        # An empty text stands for a list without members: without any, it would not be given.
        for each in (cast("list[Json]", value) or [""] if isinstance(value, list | tuple) else [value])
    )
    found = [
        (name, str(each).lower() if isinstance(each, bool) else str(each)) for name, each in pairs if each is not None
    ]
    for name, text in found:
        check_text(name, text)
    return [(name, text) for name, text in found]


def _parse(answer: httpx.Response) -> Fields:
    try:
        found = cast("object", orjson.loads(answer.read()))
    except (orjson.JSONDecodeError, httpx.TransportError) as error:
        raise make_unreachable(f"{answer.url} did not answer as a server of graphs") from error
    if not isinstance(found, dict):
        raise make_unreachable(f"{answer.url} did not answer as a server of graphs")
    return cast("dict[str, Json]", found)


def _read_error(answer: httpx.Response) -> OmniGraphError:
    if answer.is_redirect:
        return make_unreachable(f"{answer.url} redirects, which is not followed with a token")
    try:
        found = cast("object", orjson.loads(answer.content))
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or "error" not in found:
        if answer.status_code == _UNAVAILABLE:
            return ServerUnavailable("the server is unavailable", hint="try again later")
        return make_unreachable(f"{answer.url} answered with status {answer.status_code}, and not as one of ours")
    return to_error(answer.status_code, cast("dict[str, Json]", found))


# --------------------------------------------------------------------------------------------- streams


class ByteStream(io.RawIOBase):
    """The bytes of an answer, read as they come. A short answer is read at once, so that its connection is free."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__()
        self.headers: Mapping[str, str] = answer.headers
        self._answer = answer
        self._parts = answer.iter_raw() if "content-encoding" not in answer.headers else answer.iter_bytes()
        self._waiting = b""
        self._guard = threading.Lock()
        ahead: list[bytes] = []
        while sum(map(len, ahead)) < _AHEAD_BYTES:
            part = self._next_part()
            if not part:
                break
            ahead.append(part)
        self._waiting = b"".join(ahead)

    def _next_part(self) -> bytes:
        try:
            return next(self._parts, b"")
        except httpx.TimeoutException as error:
            raise make_unreachable("the server stopped in the middle of its answer") from error
        except httpx.TransportError as error:
            raise make_unreachable("the answer ended early: the server failed while it was sent") from error

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        """Read the next bytes."""
        target = memoryview(buffer).cast("B")
        with self._guard:
            if not self._waiting:
                self._waiting = self._next_part()
            count = min(len(target), len(self._waiting))
            target[:count] = self._waiting[:count]
            self._waiting = self._waiting[count:]
        return count

    def close(self) -> None:
        """Give up the rest of the answer."""
        if not self.closed:
            self._answer.close()
        super().close()

    def __enter__(self) -> Self:
        return self

    def lines(self) -> Iterator[bytes]:
        """Yield the lines, without their ends."""
        with io.BufferedReader(self, _AHEAD_BYTES) as reader:
            for line in reader:
                check_deadline()
                yield line.rstrip(b"\n")

    def open_arrow(self) -> pa.RecordBatchReader:
        """Read the bytes as an Arrow stream."""
        return pa.ipc.open_stream(pa.PythonFile(io.BufferedReader(self, _AHEAD_BYTES), "r"))
