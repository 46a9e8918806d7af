"""One request from its route to its answer: authorize, read the body, admit, and work in a thread under a deadline.

A client that goes away cancels the deadline: a read stops at its next piece, a write before it begins to commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar, cast

import anyio.to_thread
import orjson
from anyio import CapacityLimiter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive

from omnigraph.deadlines import MOST_SECONDS, Deadline
from omnigraph.errors import Json, MergeConflicts, OmniGraphError, ParameterError, ResultTooLarge
from omnigraph.manifest.rows import MAIN, WriteKey
from omnigraph.server.access import PLACE, Gate, RouteAccess, Token, check_access, require_types_asked
from omnigraph.server.config import Limits
from omnigraph.server.deferred import defer, read_preference, wants_representation
from omnigraph.server.errors import ErrorContext, RequestError, to_error_answer
from omnigraph.server.hosting import HostedGraph, Hosting, RunningRequest, ServerState
from omnigraph.server.messages import (
    CHUNK_BYTES,
    KEY_HEADER,
    CountedStream,
    Fields,
    NoFields,
    ReadPlace,
    RequestModel,
    build_model,
    media_type_of,
    parse_query_string,
    read_json,
    read_write_key,
    save_upload,
    send_chunks,
)
from omnigraph.server.messages import JSON as JSON  # routes name formats beside their work
from omnigraph.server.operations import RunningOperation
from omnigraph.server.request_log import RequestRecord
from omnigraph.server.tracing import trace_work
from omnigraph.write.commit import make_write_key

NDJSON: Final = "application/x-ndjson"
CSV: Final = "text/csv"
ARROW: Final = "application/vnd.apache.arrow.stream"
TAR: Final = "application/x-tar"
UPLOADS: Final = (NDJSON, TAR)
"""The bodies that are saved to a file."""
EVENTS: Final = "text/event-stream"
BYTES: Final = "application/octet-stream"

Kind: TypeAlias = Literal["read", "write", "stream", "feed"]
"""What a request is to the limits. A feed waits for others, for as long as its client likes."""
Value = TypeVar("Value")

_TIMEOUT_HEADER: Final = "omnigraph-timeout-ms"
_COMMIT_ID_LENGTH: Final = 26


@dataclass(frozen=True, slots=True)
class Answer:
    """What a route gives back: the fields of a JSON object, or a stream of bytes."""

    fields: Mapping[str, Json] = field(default_factory=dict[str, Json])
    commit: str | None = None
    """The commit that was read or made."""
    status: int = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    stream: Iterator[bytes] | None = None
    media_type: str = JSON
    is_cacheable: bool = False


@dataclass(frozen=True, slots=True)
class ServerCall:
    """A request that may do what it asks for."""

    hosting: Hosting
    state: ServerState
    """The state of the server when the request began."""
    hosted: HostedGraph | None
    token: Token
    path: Mapping[str, str]
    query: RequestModel
    body: RequestModel
    upload: Path | None
    """The file that holds the body, of a route that takes uploads."""
    accept: str
    request_id: str
    gate: Gate
    key: WriteKey | None = None
    """What repeats of the request have in common, if it has a key."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The headers of the request, by their names in lower case."""

    @property
    def graph(self) -> HostedGraph:
        """The graph that the path names."""
        assert self.hosted is not None, "only routes below a graph ask for it"
        return self.hosted

    @property
    def limits(self) -> Limits:
        """What the request may cost: as the graph says, or else the server."""
        return _limits_of(self.state, self.hosted)

    @property
    def wants_commit(self) -> bool:
        """Whether the answer to a write has the commit itself, and not only its id."""
        return wants_representation(self.headers.get("prefer"))

    def fields(self, model: type[Fields]) -> Fields:
        """The fields of the request, from the body or else from the query string."""
        found = self.body if isinstance(self.body, model) else self.query
        assert isinstance(found, model)
        return found


Work: TypeAlias = Callable[[ServerCall], Answer]


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path: what it needs, what it takes and what it does. ``work`` runs in a thread."""

    method: str
    path: str
    work: Work
    access: RouteAccess
    """What is asked of the gate."""
    kind: Kind = "read"
    query: type[RequestModel] = NoFields
    body: type[RequestModel] | None = None
    upload: type[RequestModel] | None = None
    """The fields in the query string if the body is an upload of lines."""
    formats: tuple[str, ...] = (JSON,)
    successor: str | None = None
    """The route that replaces this deprecated one."""
    keeps_key: bool = False
    """Whether its commit keeps the idempotency key of the request."""
    find_kind: Callable[[ServerCall], Kind] | None = None
    """Which kind a request is of, where the path alone does not say."""

    def kind_of(self, call: ServerCall) -> Kind:
        """Return the kind of a request: its limits and its turn depend on it."""
        return self.kind if self.find_kind is None else self.find_kind(call)

    def __post_init__(self) -> None:
        check_access(self.access, self._list_names(), self.path)

    @property
    def is_public(self) -> bool:
        """Whether it needs no token."""
        return self.access.level == "public"

    @property
    def is_of_graph(self) -> bool:
        """Whether it lies below a graph."""
        return "{graph_id}" in self.path

    def _list_names(self) -> set[str]:
        """The names of the fields that a request may have."""
        models = [model for model in (self.query, self.body, self.upload) if model is not None]
        names = {name for model in models for name in model.model_fields}
        names |= {part[1:-1].partition(":")[0] for part in self.path.split("/") if part.startswith("{")}
        return names | ({PLACE} if any(issubclass(model, ReadPlace) for model in models) else set[str]())


# --------------------------------------------------------------------------------------------- one request


async def answer_request(route: Route, request: Request, hosting: Hosting) -> Response:
    """Answer a request, or turn what went wrong into the body of an error."""
    hosted: HostedGraph | None = None
    request_id = cast(str, request.scope["omnigraph.request_id"])
    record = _record_of(request)
    record.route = route.path
    record.action = str(route.access.asks[0].action) if route.access.asks else None
    try:
        token = cast("Token", request.scope["omnigraph.token"])
        if route.is_public:
            return await _answer_at_once(route, request, hosting)
        hosted = _state_of(request).find_graph(request.path_params["graph_id"]) if route.is_of_graph else None
        record.graph = None if hosted is None else hosted.id
        gate = make_gate(_state_of(request), hosted, token, record)
        gate.check_first(route.access)
        return await _answer(route, request, hosting, hosted, gate)
    except Exception as error:  # noqa: BLE001  every error has a body; unexpected ones are logged there
        return error_response(error, _describe_context(error, request_id, hosted))


def make_gate(
    state: ServerState, hosted: HostedGraph | None, token: Token, record: RequestRecord | None = None
) -> Gate:
    """Return the gate of a request: to a graph, or to the server."""
    if hosted is None:
        return Gate(token, state.settings.server_policy, record=record)
    return Gate(token, hosted.settings.policy, hosted.uri, record)


def _limits_of(state: ServerState, hosted: HostedGraph | None) -> Limits:
    own = None if hosted is None else hosted.settings.limits
    return state.settings.limits if own is None else own


def _state_of(request: Request) -> ServerState:
    return cast("ServerState", request.scope["omnigraph.state"])


def _record_of(request: Request) -> RequestRecord:
    return cast("RequestRecord", request.scope["omnigraph.record"])


async def _answer_at_once(route: Route, request: Request, hosting: Hosting) -> Response:
    """Answer what needs no token, no thread and no turn: whether the server lives, and who signs in."""
    request_id = cast(str, request.scope["omnigraph.request_id"])
    nobody = cast("Token", request.scope["omnigraph.token"])
    state = _state_of(request)
    body: RequestModel = NoFields()
    if route.body is not None:
        body, _ = await read_json(route.body, request, state.settings.limits, state.settings.limits.body_bytes)
    query = build_model(route.query, parse_query_string(request), is_text=True)
    answer = route.work(
        ServerCall(hosting, state, None, nobody, {}, query, body, None, JSON, request_id, Gate(nobody, None))
    )
    data = orjson.dumps({**answer.fields, "request_id": request_id})
    return Response(data, answer.status, {"Cache-Control": "no-store"}, JSON)


def _describe_context(error: Exception, request_id: str, hosted: HostedGraph | None) -> ErrorContext:
    if hosted is None:
        return ErrorContext(request_id)
    # The schema is read only where a body needs it.
    edge_types = hosted.edge_types if isinstance(error, MergeConflicts) else ()
    return ErrorContext(request_id, hosted.secrets, edge_types)


def error_response(error: Exception, context: ErrorContext) -> Response:
    """Return the response for an error."""
    answer = to_error_answer(error, context)
    return Response(orjson.dumps(answer.body), answer.status, dict(answer.headers), JSON)


async def _answer(route: Route, request: Request, hosting: Hosting, hosted: HostedGraph | None, gate: Gate) -> Response:
    accept = choose_format(request.headers.get("accept"), route.formats)
    call = await _read_call(route, request, hosting, hosted, gate, accept)
    seconds = read_preference(request.headers.get("prefer")) if route.kind_of(call) == "write" else None
    if seconds is None or not route.keeps_key or hosted is None:
        return await _perform(route, request, request.receive, call, call.request_id)
    running = begin_operation(call, route.path.rpartition("/")[2])
    operation = running.operation
    if call.key is None:
        # Whoever asks for its fate finds the commit by the id of the operation.
        call = replace(call, key=make_write_key(operation.id, gate.token.actor, ()))

    async def perform(receive: Receive) -> Response:
        try:
            return await _perform(route, request, receive, call, operation.id)
        except Exception as error:  # noqa: BLE001  the operation keeps it
            return error_response(error, _describe_context(error, call.request_id, hosted))

    return await defer(hosting, running, seconds, hosted.uri, perform)


def begin_operation(call: ServerCall, kind: str) -> RunningOperation:
    """Begin an operation of a caller on a graph."""
    branch = getattr(call.body, "branch", None) or getattr(call.query, "branch", None)
    key = call.headers.get(KEY_HEADER)
    return call.hosting.operations.begin(call.graph.id, kind, call.token.actor, branch, key)


async def _perform(route: Route, request: Request, receive: Receive, call: ServerCall, name: str) -> Response:
    """Do what a request asks for, when it is its turn. ``name`` is the id under which it can be cancelled."""
    hosting, accept = call.hosting, call.accept
    seconds = _find_seconds(route, request, call, streams=accept != JSON or route.kind_of(call) == "stream")
    deadline = Deadline(seconds)
    graph_id = None if call.hosted is None else call.hosted.id
    try:
        async with AsyncExitStack() as admitted:
            await admitted.enter_async_context(_admit(route, call, accept, seconds))
            hosting.running[deadline] = RunningRequest(name, graph_id, call.token.actor, route.path, seconds)
            admitted.callback(hosting.running.pop, deadline, None)
            etag = await _find_etag(route, request, call)
            if etag is not None and etag in _parse_etags(request.headers.get("if-none-match")):
                return Response(None, HTTPStatus.NOT_MODIFIED, {"ETag": etag, **_cache_headers(call)})
            call = _check_conditions(call, etag)
            answer, body = await run_watched(receive, deadline, lambda: _work(route, call, deadline))
            _record_answer(_record_of(request), call, answer)
            headers = _list_headers(route, call, answer, etag)
            if answer.stream is None:
                return Response(body, answer.status, headers, answer.media_type)
            chunks = send_chunks(body, answer.stream, deadline)
            return CountedStream(chunks, answer.status, headers, answer.media_type, deadline, admitted.pop_all())
    finally:
        if call.upload is not None:
            call.upload.unlink(missing_ok=True)


def _record_answer(record: RequestRecord, call: ServerCall, answer: Answer) -> None:
    record.commit = answer.commit
    record.branch = getattr(call.body, "branch", None) or getattr(call.query, "branch", None)
    count = answer.fields.get("row_count")
    record.rows = count if isinstance(count, int) else None


def _work(route: Route, call: ServerCall, deadline: Deadline) -> tuple[Answer, bytes]:
    """Do the work, in a thread. JSON is written here too: it may be large."""
    with deadline, trace_work(route.work.__name__):
        answer = route.work(call)
        require_types_asked(route.access, call.gate)
        if answer.stream is not None:
            return _begin_stream(answer, answer.stream)
    body = orjson.dumps({**answer.fields, "request_id": call.request_id})
    most = call.limits.result_bytes
    if route.kind_of(call) == "read" and len(body) > most:
        raise too_large(f"the answer has {len(body):,} bytes; at most {most:,} are sent as JSON")
    return answer, body


def _begin_stream(answer: Answer, stream: Iterator[bytes]) -> tuple[Answer, bytes]:
    """Compute the first piece before the status is sent, so that most errors still have a body.

    A short stream ends with it: it is sent whole, and needs no thread of its own. Events come when they come.
    """
    first = next(stream, b"")
    if answer.media_type == EVENTS or len(first) >= CHUNK_BYTES:
        return answer, first
    second = next(stream, None)
    return replace(answer, stream=None if second is None else chain((second,), stream)), first


def too_large(message: str) -> ResultTooLarge:
    """Return the error for an answer that is too large as JSON."""
    return ResultTooLarge(message, hint=f"give a limit, or ask for a stream with Accept: {NDJSON} or {ARROW}")


async def run_watched(receive: Receive, deadline: Deadline, function: Callable[[], Value]) -> Value:
    """Run a function in a thread. If the client goes away meanwhile, cancel the deadline."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        deadline.cancel()

    watcher = asyncio.create_task(watch())
    try:
        return await anyio.to_thread.run_sync(function, limiter=CapacityLimiter(1))
    finally:
        watcher.cancel()
        with suppress(asyncio.CancelledError):
            await watcher


async def _read_call(
    route: Route, request: Request, hosting: Hosting, hosted: HostedGraph | None, gate: Gate, accept: str
) -> ServerCall:
    state = _state_of(request)
    limits = _limits_of(state, hosted)
    given = parse_query_string(request)
    body: RequestModel = NoFields()
    data = b""
    upload: Path | None = None
    query_model = route.query
    if route.body is not None:
        if route.upload is None:
            body, data = await read_json(route.body, request, limits, limits.body_bytes)
        elif media_type_of(request) in UPLOADS:
            query_model = route.upload
        else:
            body, data = await read_json(
                route.body, request, limits, limits.json_load_bytes, " or ".join((JSON, *UPLOADS))
            )
    query = build_model(query_model, given, is_text=True)
    await _check_branches(route, request, hosted, gate, (body, query))
    if query_model is route.upload:
        upload = await save_upload(request, limits, hosting.uploads)
    try:
        header = request.headers.get(KEY_HEADER)
        asked = (request.url.path, request.url.query)
        key = read_write_key(header, gate.token.actor, asked, upload or data, is_kept=route.keeps_key)
    except OmniGraphError:
        if upload is not None:
            upload.unlink(missing_ok=True)
        raise
    request_id = cast(str, request.scope["omnigraph.request_id"])
    path, headers = request.path_params, dict(request.headers)
    return ServerCall(
        hosting, state, hosted, gate.token, path, query, body, upload, accept, request_id, gate, key, headers
    )


async def _check_branches(
    route: Route, request: Request, hosted: HostedGraph | None, gate: Gate, models: tuple[RequestModel, ...]
) -> None:
    """Ask for the branches that a request names. References are resolved in a thread."""
    if hosted is None:
        return

    def look_up(name: str) -> object:
        found = (getattr(model, name, None) for model in models if name in type(model).model_fields)
        return next((value for value in found if value is not None), request.path_params.get(name))

    def check() -> None:
        gate.check_branches(route.access, look_up, hosted.graph)

    if gate.policy is None:
        check()
    else:
        await anyio.to_thread.run_sync(check)


def _find_seconds(route: Route, request: Request, call: ServerCall, *, streams: bool) -> float:
    """Return the seconds that a request has: those of its kind, or fewer if it asks for fewer."""
    limits = call.limits
    kind = route.kind_of(call)
    if kind == "feed":
        return MOST_SECONDS
    most = limits.write_seconds if kind == "write" else limits.stream_seconds if streams else limits.read_seconds
    wanted = cast("int | None", getattr(call.body, "timeout_ms", None))
    header = request.headers.get(_TIMEOUT_HEADER)
    if header is not None:
        if not (header.isascii() and header.isdigit() and int(header)):
            raise ParameterError(f"{_TIMEOUT_HEADER} is '{header}'", hint="give a number of milliseconds")
        wanted = min(int(header), wanted or int(header))
    return most if wanted is None else min(most, wanted / 1000)


def _admit(route: Route, call: ServerCall, accept: str, seconds: float) -> AbstractAsyncContextManager[None]:
    admission, actor = call.state.admission, call.token.actor
    kind = route.kind_of(call)
    if kind == "write" and call.hosted is not None:
        branch = getattr(call.body, "branch", None) or getattr(call.query, "branch", None) or MAIN
        return admission.admit_write(actor, call.hosted.id, str(branch), seconds)
    if call.hosted is not None and kind == "feed":
        return admission.admit_subscriber(call.hosted.id)
    if call.hosted is not None and (kind == "stream" or accept != JSON):
        return admission.admit_stream(actor, call.hosted.id)
    return admission.admit_read(actor)


# --------------------------------------------------------------------------------------------- formats and caches


def choose_format(accept: str | None, offered: tuple[str, ...]) -> str:
    """Choose the first format that a client accepts, by its weights; the first offered one if it does not say."""
    if accept is None or not accept.strip():
        return offered[0]
    wanted: list[tuple[float, int, str]] = []
    for place, part in enumerate(accept.split(",")):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        weights = [piece.removeprefix("q=") for piece in parameters if piece.startswith("q=")]
        with suppress(ValueError):
            weight = float(weights[0]) if weights else 1.0
            if weight > 0:
                wanted.append((-weight, place, name))
    for _, _, name in sorted(wanted):
        for format_ in offered:
            if name in ("*/*", format_, f"{format_.partition('/')[0]}/*"):
                return format_
    raise RequestError(
        406, "not_acceptable", "no format of the answer is acceptable", hint=f"accept {', '.join(offered)}"
    )


async def _find_etag(route: Route, request: Request, call: ServerCall) -> str | None:
    """Return the tag of what would be read. It costs no read of rows."""
    if route.method != "GET" or not isinstance(call.query, ReadPlace) or call.hosted is None:
        return None
    branch, at = call.query.place
    graph = call.hosted.graph

    def find() -> str | None:
        snapshot = graph.snapshot(branch, at)
        if snapshot.commit is None:
            return None
        view = f"{call.gate.view} {snapshot.schema_ir_hash} {call.accept}"
        parts = (request.url.query, view)
        return f'"{"-".join([snapshot.commit.id, *(sha256(part.encode()).hexdigest()[:12] for part in parts)])}"'

    return await anyio.to_thread.run_sync(find)


def _check_conditions(call: ServerCall, etag: str | None) -> ServerCall:
    """Refuse a request for another state than the one that is there; leave out the range of another state."""
    wanted = call.headers.get("if-match")
    if wanted is not None and etag is not None and wanted.strip() != "*" and etag not in _parse_etags(wanted):
        raise RequestError(412, "precondition_failed", "the state is another one than If-Match names")
    if call.headers.get("if-range", etag) != etag:
        return replace(call, headers={name: each for name, each in call.headers.items() if name != "range"})
    return call


def _parse_etags(header: str | None) -> set[str]:
    return {part.strip().removeprefix("W/") for part in (header or "").split(",")}


def _cache_headers(call: ServerCall) -> dict[str, str]:
    at = call.query.place[1] if isinstance(call.query, ReadPlace) else None
    # A rule about types may change what is seen of a commit.
    is_fixed = at is not None and len(at) == _COMMIT_ID_LENGTH and at.isalnum() and not call.gate.asks_types
    kept = "private, max-age=31536000, immutable" if is_fixed else "private, no-cache"
    return {"Cache-Control": kept, "Vary": "Authorization, Accept"}


def _list_headers(route: Route, call: ServerCall, answer: Answer, etag: str | None) -> dict[str, str]:
    headers = dict(answer.headers)
    if answer.commit is not None:
        headers["Omnigraph-Commit"] = answer.commit
    # A commit that was made after the tag was computed has another one.
    if etag is not None and answer.commit is not None and etag.startswith(f'"{answer.commit}-'):
        headers |= {"ETag": etag, **_cache_headers(call)}
    else:
        headers["Cache-Control"] = "no-store"
    if route.successor is not None:
        headers |= {"Deprecation": "true", "Link": f'<{route.successor}>; rel="successor-version"'}
    return headers
