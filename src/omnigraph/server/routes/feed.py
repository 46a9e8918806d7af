"""Routes that follow changes: pages of commits from a cursor, a stream of events, and the state to begin with.

A stream is one thread that looks for new commits. It ends when the server drains, with the cursor to go on from at
another server.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict
from itertools import islice
from time import monotonic, sleep
from typing import Annotated, Final

import orjson
from pydantic import Field

from omnigraph.deadlines import check_deadline
from omnigraph.errors import Json
from omnigraph.language.schema import Catalog, TableKey
from omnigraph.manifest.rows import MAIN
from omnigraph.read.changes import ChangeBlock, Changes
from omnigraph.server.access import Action, RouteAsk, ask_all, ask_place
from omnigraph.server.calls import ARROW, EVENTS, JSON, NDJSON, Answer, Kind, Route, ServerCall
from omnigraph.server.messages import ReadPlace, RequestModel, commit_to_wire, id_of, join_chunks
from omnigraph.server.routes.history import Texts, stream_changed_rows

_COMMITS: Final = 100
_LONGEST_WAIT: Final = 30_000
_COMMENT_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.25


class FeedFields(RequestModel):
    """Where to follow a branch from: a cursor, or ``now``, ``beginning`` or ``after:REF``."""

    branch: str = MAIN
    cursor: str | None = None
    start: str | None = None
    type: Texts = None
    limit: Annotated[int, Field(ge=0, le=_COMMITS)] = _COMMITS
    wait_ms: Annotated[int, Field(ge=0, le=_LONGEST_WAIT)] = 0


class BaselineFields(ReadPlace):
    """The state to begin with."""

    type: Texts = None


def follow_branch(call: ServerCall) -> Answer:
    """List the changes of each commit after a cursor; as events, go on with every new commit."""
    asked = call.fields(FeedFields)
    if call.accept == EVENTS:
        resumed = call.headers.get("last-event-id") or asked.cursor
        feed = _open_feed(call, asked, resumed)
        return Answer(stream=_write_events(call, asked, feed), media_type=EVENTS)
    feed = _open_feed(call, asked, asked.cursor)
    end = monotonic() + asked.wait_ms / 1000
    while True:
        blocks = list(islice(feed, asked.limit + 1))
        if blocks or monotonic() >= end or call.hosting.is_draining:
            break
        _pause()
        feed = _open_feed(call, asked, feed.cursor)
    shown = blocks[: asked.limit]
    cursor = shown[-1].cursor if shown else feed.cursor
    return Answer(
        {
            "branch": asked.branch,
            "blocks": [block_to_wire(block) for block in shown],
            "cursor": cursor,
            "types_hidden": bool(call.gate.hidden_types(call.graph.graph.schema.catalog, asked.branch)),
            "at_end": len(blocks) <= asked.limit,
        },
        shown[-1].commit.id if shown else None,
    )


def _open_feed(call: ServerCall, asked: FeedFields, cursor: str | None) -> Changes:
    """Open the feed at a cursor, of the types that the caller may read. Their rights may change while it runs."""
    start = asked.start if cursor is None else None
    graph = call.graph.graph
    catalog = graph.schema.catalog
    hidden = call.gate.hidden_types(catalog, asked.branch)
    call.gate.check_types([key for key in _list_keys(catalog, asked.type) if asked.type is not None], asked.branch)
    visible = [key for key in _list_keys(catalog, asked.type) if key not in hidden]
    return graph.changes(start, cursor, branch=asked.branch, types=visible if hidden else asked.type)


def _list_keys(catalog: Catalog, names: Collection[str] | None) -> list[TableKey]:
    """Return the tables of some types, given by their names or keys; of all types without names."""
    keys = [type_.table_key for type_ in catalog.types()]
    return [key for key in keys if names is None or key in names or key.type_name in names]


def _pause() -> None:
    """Wait a moment for other writers, unless the request is over."""
    check_deadline()
    sleep(_POLL_SECONDS)
    check_deadline()


def block_to_wire(block: ChangeBlock) -> dict[str, Json]:
    """Return the changes of one commit."""
    return {"commit": commit_to_wire(block.commit), "changes": list(block.records()), "cursor": block.cursor}


def _write_events(call: ServerCall, asked: FeedFields, feed: Changes) -> Iterator[bytes]:
    """Write an event for each commit, now and later, until the server drains or the client is gone."""
    cursor = feed.cursor
    yield b"retry: 2000\n\n"
    spoke = monotonic()
    while not call.hosting.is_draining:
        for block in feed:
            cursor = block.cursor
            yield _format_event("block", cursor, block_to_wire(block))
            spoke = monotonic()
        if monotonic() - spoke >= _COMMENT_SECONDS:
            # Proxies end connections on which nothing is sent.
            yield b": still here\n\n"
            spoke = monotonic()
        _pause()
        feed = _open_feed(call, asked, cursor)
    yield _format_event("bye", cursor, {"cursor": cursor})


def _format_event(name: str, cursor: str, data: dict[str, Json]) -> bytes:
    return b"event: %s\nid: %s\ndata: %s\n\n" % (name.encode(), cursor.encode(), orjson.dumps(data))


def _find_kind(call: ServerCall) -> Kind:
    """Whoever waits for others is no reader that is under way."""
    is_waiting = call.accept == EVENTS or call.fields(FeedFields).wait_ms > 0
    return "feed" if is_waiting else "read"


def export_baseline(call: ServerCall) -> Answer:
    """Stream the state at a commit as inserts; the last line has the cursor to follow from. JSON has the counts."""
    asked = call.fields(BaselineFields)
    branch, at = asked.place
    catalog = call.graph.graph.snapshot(branch, at).catalog()
    call.gate.check_types(_list_keys(catalog, asked.type), call.gate.branch, Action.EXPORT)
    block = call.graph.graph.baseline(at, branch=branch, types=asked.type)
    if call.accept == JSON:
        begun: dict[str, Json] = {"branch": branch, "commit": block.commit.id, "cursor": block.cursor}
        return Answer({**begun, "summary": [asdict(each) for each in block.summary()]}, block.commit.id)
    if call.accept == ARROW:
        return stream_changed_rows(block.diff, asked.type)

    def write_lines() -> Iterator[bytes]:
        for record in block.records():
            yield orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
        end = {"end": {"commit": block.commit.id, "cursor": block.cursor}}
        yield orjson.dumps(end, option=orjson.OPT_APPEND_NEWLINE)

    return Answer(commit=id_of(block.commit), stream=join_chunks(write_lines()), media_type=NDJSON, has_end_line=True)


_G: Final = "/graphs/{graph_id}/changes"
_FOLLOW: Final = ask_all(RouteAsk(Action.READ, branch="branch"), types="hide")
_BASELINE: Final = ask_place(Action.EXPORT, "ask")
ROUTES: Final = (
    Route("GET", _G, follow_branch, _FOLLOW, query=FeedFields, formats=(JSON, EVENTS), find_kind=_find_kind),
    Route(
        "GET",
        f"{_G}/baseline",
        export_baseline,
        _BASELINE,
        "stream",
        query=BaselineFields,
        formats=(NDJSON, JSON, ARROW),
    ),
)
