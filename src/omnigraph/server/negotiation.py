"""What is sent to a client that says what it takes and what it has: formats, tags of states, and conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Final

import orjson

from omnigraph.server.calls import NDJSON, Answer, Route, ServerCall
from omnigraph.server.errors import RequestError
from omnigraph.server.messages import ReadPlace

_COMMIT_ID_LENGTH: Final = 26


def choose_format(accept: str | None, offered: tuple[str, ...]) -> str:
    """Choose the first format that a client accepts, by its weights; the first offered one if it does not say."""
    if accept is None or accept == "*/*" or not accept.strip():
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


def wants_end_line(accept: str | None) -> bool:
    """Whether a client asks for a last line that tells the end of the others: ``application/x-ndjson; end=1``."""
    parts = ([piece.strip().lower() for piece in part.split(";")] for part in (accept or "").split(","))
    return any(name == NDJSON and "end=1" in parameters for name, *parameters in parts)


def add_end_line(lines: Iterator[bytes], commit: str | None) -> Iterator[bytes]:
    """Yield lines, and then one that says how many they were and which commit they are from."""
    count = 0
    for piece in lines:
        count += piece.count(b"\n")
        yield piece
    yield orjson.dumps({"end": {"commit": commit, "rows": count}}, option=orjson.OPT_APPEND_NEWLINE)


def find_etag(route: Route, call: ServerCall) -> str | None:
    """Return the tag of what would be read. It costs no read of rows."""
    if route.method != "GET" or not isinstance(call.query, ReadPlace) or call.hosted is None:
        return None
    branch, at = call.query.place
    snapshot = call.hosted.graph.snapshot(branch, at)
    if snapshot.commit is None:
        return None
    view = f"{call.gate.view} {snapshot.schema_ir_hash} {call.accept}"
    parts = (call.query_string, view)
    return f'"{"-".join([snapshot.commit.id, *(sha256(part.encode()).hexdigest()[:12] for part in parts)])}"'


def has_current_state(call: ServerCall, etag: str | None) -> bool:
    """Whether a client has what it asks for."""
    return etag is not None and etag in _parse_etags(call.headers.get("if-none-match"))


def check_conditions(call: ServerCall, etag: str | None) -> Mapping[str, str]:
    """Refuse a request for another state than the one that is there.

    Return the headers to answer by: without the range of another state.
    """
    wanted = call.headers.get("if-match")
    if wanted is not None and etag is not None and wanted.strip() != "*" and etag not in _parse_etags(wanted):
        raise RequestError(412, "precondition_failed", "the state is another one than If-Match names")
    if call.headers.get("if-range", etag) != etag:
        return {name: each for name, each in call.headers.items() if name != "range"}
    return call.headers


def _parse_etags(header: str | None) -> set[str]:
    return {part.strip().removeprefix("W/") for part in (header or "").split(",")}


def make_cache_headers(call: ServerCall) -> dict[str, str]:
    """Return how long an answer with a tag may be kept, and by whom."""
    at = call.query.place[1] if isinstance(call.query, ReadPlace) else None
    # A rule about types may change what is seen of a commit.
    is_fixed = at is not None and len(at) == _COMMIT_ID_LENGTH and at.isalnum() and not call.gate.asks_types
    kept = "private, max-age=31536000, immutable" if is_fixed else "private, no-cache"
    return {"Cache-Control": kept, "Vary": "Authorization, Accept"}


def list_headers(route: Route, call: ServerCall, answer: Answer, etag: str | None) -> dict[str, str]:
    """Return the headers of an answer."""
    headers = dict(answer.headers)
    if answer.commit is not None:
        headers["Omnigraph-Commit"] = answer.commit
    # A commit that was made after the tag was computed has another one.
    if etag is not None and answer.commit is not None and etag.startswith(f'"{answer.commit}-'):
        headers |= {"ETag": etag, **make_cache_headers(call)}
    else:
        headers["Cache-Control"] = "no-store"
    if route.successor is not None:
        headers |= {"Deprecation": "true", "Link": f'<{route.successor}>; rel="successor-version"'}
    return headers
