"""The route that reads blobs: as bytes to save, never as a page that a browser would run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Final

from omnigraph.errors import NotFound
from omnigraph.language.schema import TableKey
from omnigraph.lazy_dataclass import dataclass
from omnigraph.server.access import ask_place
from omnigraph.server.calls import BYTES, Answer, Route, ServerCall
from omnigraph.server.errors import RequestError
from omnigraph.server.messages import ReadPlace, id_of
from omnigraph.server.routes.rows import EntityKind

_PIECE: Final = 1 << 20
_RANGE: Final = re.compile(r"bytes=(\d{1,18})-(\d{0,18})")
_HARMLESS: Final = {"Content-Disposition": "attachment", "Content-Security-Policy": "sandbox", "Accept-Ranges": "bytes"}


class BlobFields(ReadPlace):
    """One blob of a node or an edge."""

    entity: EntityKind = "node"
    type: str
    id: str
    property: str


@dataclass(frozen=True, slots=True)
class _ByteRange:
    first: int = 0
    last: int | None = None


def read_one_blob(call: ServerCall) -> Answer:
    """Read a blob, or one range of it."""
    asked = call.fields(BlobFields)
    graph = call.graph.graph
    branch, at = asked.place
    call.gate.check_types([TableKey.of(asked.entity, asked.type)], call.gate.branch)
    snapshot = graph.snapshot(branch, at)
    commit = id_of(snapshot.commit)
    wanted = _parse_range(call.headers.get("range"))

    def read(offset: int, length: int) -> bytes:
        # Later pieces are of the same commit, whatever is written meanwhile.
        found = graph.blob(asked.type, asked.id, asked.property, offset, length, branch, commit or at)
        if found is None:
            raise NotFound(
                f"'{asked.property}' of {asked.type} '{asked.id}' is null",
                hint="it has no blob",
                details={"absent": True},
            )
        return found

    if wanted is None:
        return Answer(commit=commit, stream=_read_pieces(read), media_type=BYTES, headers=_HARMLESS)
    # One answer has at most a piece of a range: the client goes on with the next.
    most = _PIECE if wanted.last is None else min(_PIECE, wanted.last - wanted.first + 1)
    data = read(wanted.first, most)
    if not data:
        raise RequestError(416, "range_not_satisfiable", "the range begins after the end of the blob")
    place = f"bytes {wanted.first}-{wanted.first + len(data) - 1}/*"
    return Answer(
        commit=commit,
        stream=iter([data]),
        media_type=BYTES,
        status=HTTPStatus.PARTIAL_CONTENT,
        headers={**_HARMLESS, "Content-Range": place},
    )


def _read_pieces(read: Callable[[int, int], bytes]) -> Iterator[bytes]:
    offset = 0
    while True:
        piece = read(offset, _PIECE)
        yield piece
        if len(piece) < _PIECE:
            return
        offset += len(piece)


def _parse_range(header: str | None) -> _ByteRange | None:
    """Return the range that is asked for. What is no single range from a first byte is ignored, as HTTP allows."""
    found = None if header is None else _RANGE.fullmatch(header.strip())
    if found is None:
        return None
    first, last = int(found.group(1)), found.group(2)
    if last and int(last) < first:
        return None
    return _ByteRange(first, int(last) if last else None)


ROUTES: Final = (
    Route("GET", "/graphs/{graph_id}/blob", read_one_blob, ask_place(types="ask"), query=BlobFields, formats=(BYTES,)),
)
