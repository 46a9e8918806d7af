"""One request from its route to its answer: authorize, read the body, admit, and work in a thread under a deadline.

A client that goes away cancels the deadline: a read stops at its next piece, a write before it begins to commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import Final, cast

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive

from omnigraph.deadlines import MOST_SECONDS, Deadline
from omnigraph.errors import Cancelled, OmniGraphError, ParameterError
from omnigraph.manifest.rows import MAIN
from omnigraph.read.query_limits import QueryLimits, limit_queries
from omnigraph.server.access import Gate, Token, require_types_asked
from omnigraph.server.calls import (
    EVENTS,
    JSON,
    NDJSON,
    UPLOADS,
    Answer,
    Route,
    ServerCall,
    begin_operation,
    find_limits,
    make_gate,
    too_large,
)
from omnigraph.server.deferred import defer, read_preference
from omnigraph.server.errors import ErrorContext, to_error_answer
from omnigraph.server.hosting import HostedGraph, Hosting, RunningRequest, ServerState
from omnigraph.server.kept_answers import KeptAnswer
from omnigraph.server.messages import (
    CHUNK_BYTES,
    KEY_HEADER,
    CountedStream,
    NoFields,
    RequestModel,
    build_model,
    media_type_of,
    parse_query_string,
    read_json,
    read_write_key,
    save_upload,
    send_chunks,
)
from omnigraph.server.negotiation import (
    add_end_line,
    check_conditions,
    choose_format,
    find_etag,
    has_current_state,
    list_headers,
    make_cache_headers,
    wants_end_line,
)
from omnigraph.server.request_log import RequestRecord
from omnigraph.server.tracing import trace_work
from omnigraph.server.work_threads import has_left, run_in_thread, run_watched
from omnigraph.write.commit import make_write_key

_TIMEOUT_HEADER: Final = "omnigraph-timeout-ms"
_NO_FIELDS: Final = NoFields()
_PATIENCE_SECONDS: Final = 0.05
"""How long a request waits for its turn before somebody looks whether its client is still there."""


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
        return error_response(error, _describe_context(request_id, hosted))


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


def _describe_context(request_id: str, hosted: HostedGraph | None) -> ErrorContext:
    if hosted is None:
        return ErrorContext(request_id)
    return ErrorContext(request_id, hosted.secrets)


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
            return error_response(error, _describe_context(call.request_id, hosted))

    return await defer(hosting, running, seconds, hosted.uri, perform)


async def _perform(route: Route, request: Request, receive: Receive, call: ServerCall, name: str) -> Response:
    """Do what a request asks for, when it is its turn. ``name`` is the id under which it can be cancelled."""
    hosting, accept = call.hosting, call.accept
    seconds = _find_seconds(route, request, call, streams=accept != JSON or route.kind_of(call) == "stream")
    deadline = Deadline(seconds)
    graph_id = None if call.hosted is None else call.hosted.id
    try:
        async with AsyncExitStack() as admitted:
            asked = monotonic()
            await admitted.enter_async_context(_admit(route, call, accept, seconds))
            if monotonic() - asked > _PATIENCE_SECONDS and await has_left(receive):
                raise Cancelled
            hosting.running[deadline] = RunningRequest(name, graph_id, call.token.actor, route.path, seconds)
            admitted.callback(hosting.running.pop, deadline, None)
            answer, body, etag = await run_watched(receive, deadline, lambda: _work(route, call, deadline))
            _record_answer(_record_of(request), call, answer)
            if answer.status == HTTPStatus.NOT_MODIFIED:
                return Response(None, answer.status, {"ETag": str(etag), **make_cache_headers(call)})
            headers = list_headers(route, call, answer, etag)
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


def _work(route: Route, call: ServerCall, deadline: Deadline) -> tuple[Answer, bytes, str | None]:
    """Do the work, in a thread: return the answer, its first bytes and the tag of what was read.

    JSON is written here too: it may be large.
    """
    limits = call.limits
    costs = QueryLimits(limits.hops, limits.estimate_rows)
    with deadline, trace_work(route.work.__name__), limit_queries(costs):
        etag = find_etag(route, call)
        if has_current_state(call, etag):
            return Answer(status=HTTPStatus.NOT_MODIFIED), b"", etag
        headers = check_conditions(call, etag)
        call = call if headers is call.headers else replace(call, headers=headers)
        answer = _work_once(route, call) if route.keeps_answer else route.work(call)
        require_types_asked(route.access, call.gate)
        if answer.stream is not None:
            stream = _end_lines(call, answer, answer.stream)
            return *_begin_stream(replace(answer, stream=stream), stream), etag
    body = orjson.dumps({**answer.fields, "request_id": call.request_id})
    most = limits.result_bytes
    if route.kind_of(call) == "read" and len(body) > most:
        raise too_large(f"the answer has {len(body):,} bytes; at most {most:,} are sent as JSON")
    return answer, body, etag


def _work_once(route: Route, call: ServerCall) -> Answer:
    """Do the work of a write without a commit, unless the answer to its key is known."""
    if call.key is None:
        return route.work(call)
    answers, graph_id = call.hosting.answers, call.graph.id
    kept = answers.find(graph_id, call.key)
    if kept is not None:
        return Answer({**kept.fields, "replayed": True}, kept.commit, kept.status, kept.headers)
    answer = route.work(call)
    fields = {**answer.fields, "replayed": False}
    answers.keep(
        graph_id,
        call.key,
        KeptAnswer(call.key.fingerprint, int(answer.status), answer.commit, fields, dict(answer.headers)),
    )
    return replace(answer, fields=fields)


def _end_lines(call: ServerCall, answer: Answer, stream: Iterator[bytes]) -> Iterator[bytes]:
    """Add a last line, if the client wants one. Without it a stream that was cut cannot be told from a whole one."""
    is_told = answer.media_type != NDJSON or answer.has_end_line
    return stream if is_told or not wants_end_line(call.headers.get("accept")) else add_end_line(stream, answer.commit)


def _begin_stream(answer: Answer, stream: Iterator[bytes]) -> tuple[Answer, bytes]:
    """Compute the first piece before the status is sent, so that most errors still have a body.

    A short stream ends with it: it is sent whole, and needs no thread of its own. Events come when they come.
    """
    first = next(stream, b"")
    if answer.media_type == EVENTS or len(first) >= CHUNK_BYTES:
        return answer, first
    second = next(stream, None)
    return replace(answer, stream=None if second is None else chain((second,), stream)), first


async def _read_call(
    route: Route, request: Request, hosting: Hosting, hosted: HostedGraph | None, gate: Gate, accept: str
) -> ServerCall:
    state = _state_of(request)
    limits = find_limits(state, hosted)
    body: RequestModel = _NO_FIELDS
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
    query = _read_query_string(query_model, request)
    await _check_branches(route, request, hosted, gate, (body, query))
    if query_model is route.upload:
        upload = await save_upload(request, limits, hosting.uploads.path)
    try:
        header = request.headers.get(KEY_HEADER)
        key = None
        if header is not None:
            asked = (request.url.path, request.url.query)
            key = read_write_key(
                header, gate.token.actor, asked, upload or data, is_kept=route.keeps_key or route.keeps_answer
            )
    except OmniGraphError:
        if upload is not None:
            upload.unlink(missing_ok=True)
        raise
    request_id = cast(str, request.scope["omnigraph.request_id"])
    return ServerCall(
        hosting,
        state,
        hosted,
        gate.token,
        request.path_params,
        query,
        body,
        upload,
        accept,
        request_id,
        gate,
        key,
        dict(request.headers),
        _query_string_of(request),
    )


def _query_string_of(request: Request) -> str:
    return cast("bytes", request.scope["query_string"]).decode("latin-1")


def _read_query_string(model: type[RequestModel], request: Request) -> RequestModel:
    given = parse_query_string(request) if request.scope["query_string"] else {}
    return _NO_FIELDS if model is NoFields and not given else build_model(model, given, is_text=True)


async def _check_branches(
    route: Route, request: Request, hosted: HostedGraph | None, gate: Gate, models: tuple[RequestModel, ...]
) -> None:
    """Ask for the branches that a request names. References to the past are looked up in a thread."""
    if hosted is None:
        return

    def look_up(name: str) -> object:
        found = (getattr(model, name, None) for model in models if name in type(model).model_fields)
        return next((value for value in found if value is not None), request.path_params.get(name))

    def check() -> None:
        gate.check_branches(route.access, look_up, hosted.graph)

    if gate.needs_look_up(route.access, look_up):
        await run_in_thread(check)
    else:
        check()


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
    if kind == "control":
        return admission.admit_control(actor)
    if call.hosted is not None and kind == "feed":
        return admission.admit_subscriber(call.hosted.id)
    if call.hosted is not None and (kind == "stream" or accept != JSON):
        return admission.admit_stream(actor, call.hosted.id)
    return admission.admit_read(actor)
