"""What a route is, and what it is given and gives back. ``dispatch`` takes requests through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from http import HTTPStatus
from pathlib import Path
from typing import Final, Literal, TypeAlias

from omnigraph.errors import Json, ResultTooLarge
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.rows import WriteKey
from omnigraph.server.access import PLACE, Gate, RouteAccess, Token, check_access
from omnigraph.server.config import Limits
from omnigraph.server.deferred import wants_representation
from omnigraph.server.hosting import HostedGraph, Hosting, ServerState
from omnigraph.server.messages import JSON as JSON  # routes name formats beside their work
from omnigraph.server.messages import KEY_HEADER, Fields, NoFields, ReadPlace, RequestModel
from omnigraph.server.operations import RunningOperation
from omnigraph.server.request_log import RequestRecord

NDJSON: Final = "application/x-ndjson"
CSV: Final = "text/csv"
ARROW: Final = "application/vnd.apache.arrow.stream"
TAR: Final = "application/x-tar"
UPLOADS: Final = (NDJSON, TAR)
"""The bodies that are saved to a file."""
EVENTS: Final = "text/event-stream"
BYTES: Final = "application/octet-stream"

Kind: TypeAlias = Literal["read", "write", "stream", "feed", "control"]
"""What a request is to the limits. A feed waits for others, for as long as its client likes. A control looks at the
server itself and waits for nobody: who cannot see and cancel slow queries while they run cannot end them."""


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
    has_end_line: bool = False
    """Whether its lines tell their end themselves."""


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
    query_string: str = ""
    """The fields of the query string as they were sent."""

    @property
    def graph(self) -> HostedGraph:
        """The graph that the path names."""
        assert self.hosted is not None, "only routes below a graph ask for it"
        return self.hosted

    @property
    def limits(self) -> Limits:
        """What the request may cost: as the graph says, or else the server."""
        return find_limits(self.state, self.hosted)

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
    keeps_answer: bool = False
    """Whether it changes something without a commit, and its answer is kept with the idempotency key."""
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


def make_gate(
    state: ServerState, hosted: HostedGraph | None, token: Token, record: RequestRecord | None = None
) -> Gate:
    """Return the gate of a request: to a graph, or to the server."""
    if hosted is None:
        return Gate(token, state.settings.server_policy, record=record)
    return Gate(token, hosted.settings.policy, hosted.uri, record)


def find_limits(state: ServerState, hosted: HostedGraph | None) -> Limits:
    """Return what a request may cost: as its graph says, or else the server."""
    own = None if hosted is None else hosted.settings.limits
    return state.settings.limits if own is None else own


def begin_operation(call: ServerCall, kind: str) -> RunningOperation:
    """Begin an operation of a caller on a graph."""
    branch = getattr(call.body, "branch", None) or getattr(call.query, "branch", None)
    key = call.headers.get(KEY_HEADER)
    return call.hosting.operations.begin(call.graph.id, kind, call.token.actor, branch, key)


def too_large(message: str) -> ResultTooLarge:
    """Return the error for an answer that is too large as JSON."""
    return ResultTooLarge(message, hint=f"give a limit, or ask for a stream with Accept: {NDJSON} or {ARROW}")
