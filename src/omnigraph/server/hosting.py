"""The state of a running server: its graphs, its tokens and its counts, and how it follows its configuration.

A state is built and checked whole, then swapped: a request keeps the state that it began with. A graph that cannot be
opened is quarantined alone, and tried again for ever.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Final

from starlette.responses import Response
from ulid import ULID

from omnigraph.deadlines import Deadline
from omnigraph.errors import NotFound, OmniGraphError
from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph
from omnigraph.lazy_dataclass import dataclass
from omnigraph.server.access import Role, SessionStore, Token, TokenBook, make_token
from omnigraph.server.admission import Admission
from omnigraph.server.config import DEFAULT_GRAPH, ServedGraph, ServerSettings, StoredQueries
from omnigraph.server.errors import RequestError
from omnigraph.server.kept_answers import AnswerStore
from omnigraph.server.operations import OperationStore
from omnigraph.server.request_log import RequestLog
from omnigraph.server.upload_folders import UploadFolder

ReadSettings = Callable[[], ServerSettings]

_LONGEST_PAUSE: Final = 60
_FIXED: Final = ("bind", "audit", "state", "workers", "tls")
"""Settings that hold until a restart."""
_log = logging.getLogger("omnigraph.server")


@dataclass(frozen=True, slots=True)
class HostedGraph:
    """A graph under its public name."""

    settings: ServedGraph
    graph: Graph
    format: int
    secrets: tuple[str, ...] = field(repr=False)
    """The texts that no answer may contain: its location, as given and as an absolute path."""
    queries: StoredQueries = field(repr=False)

    @property
    def id(self) -> str:
        """Its name in URLs."""
        return self.settings.id

    @property
    def read_only(self) -> bool:
        """Whether writes are refused."""
        return self.settings.read_only

    @property
    def uri(self) -> str:
        """What clients see as its location."""
        return self.settings.public_uri


@dataclass(frozen=True, slots=True)
class UnopenedGraph:
    """A graph that could not be opened: when it is tried again, and how long to wait after that."""

    settings: ServedGraph
    pause: int
    next_try: float


@dataclass(frozen=True, slots=True)
class ServerState:
    """What requests see, all of one moment."""

    settings: ServerSettings
    graphs: Mapping[str, HostedGraph]
    quarantined: Mapping[str, UnopenedGraph]
    tokens: TokenBook
    everybody: Token | None
    """Who every request comes from, if the server asks for no token."""
    admission: Admission
    log: RequestLog
    is_stale: bool = False
    """Whether the configuration changed to something that cannot be used; this state still holds."""

    def find_graph(self, graph_id: str) -> HostedGraph:
        """Return a graph by its id. The id is looked up, and never part of a path."""
        names = {*self.graphs, *self.quarantined}
        name = next(iter(names)) if graph_id == DEFAULT_GRAPH and len(names) == 1 else graph_id
        if name in self.quarantined:
            raise RequestError(
                503,
                "graph_unavailable",
                f"the graph '{name}' cannot be opened at the moment",
                hint="it is tried again; the log of the server says why",
            )
        if name not in self.graphs:
            raise NotFound("no graph of this name is served", hint="GET /graphs lists them")
        return self.graphs[name]


@dataclass(frozen=True, slots=True)
class RunningRequest:
    """A request or an operation that is worked on."""

    id: str
    graph_id: str | None
    actor: str
    route: str
    seconds: float | None
    """How long it may take."""
    began: float = field(default_factory=monotonic)


@dataclass(slots=True)
class Traffic:
    """How many requests and operations are under way in this process."""

    tell: Callable[[int], object]
    """Is told each new number."""
    requests: int = 0
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def count(self) -> Generator[None]:
        """Count one while the block runs. Operations of upkeep do so in threads of their own."""
        self._add(1)
        try:
            yield
        finally:
            self._add(-1)

    def _add(self, number: int) -> None:
        with self._guard:
            self.requests += number
            self.tell(self.requests)


@dataclass(frozen=True, slots=True)
class ServerRun:
    """One start of a server, and what its workers have in common."""

    id: str
    state: Path
    """The folder of operations, codes and sessions."""
    made: Token | None
    """The token that was made for the run."""


def begin_run(settings: ServerSettings, state: Path) -> tuple[ServerRun, str | None]:
    """Begin a run. Return the text of the token that was made for it too, if one was."""
    if settings.tokens is not None or settings.is_unauthenticated:
        return ServerRun(str(ULID()), state, None), None
    made, text = make_token(settings.actor or "local", Role.ADMIN, "made for this run")
    return ServerRun(str(ULID()), state, made), text


@dataclass(slots=True)
class Hosting:
    """A running server: its current state, and what is under way."""

    state: ServerState
    uploads: UploadFolder
    traffic: Traffic
    operations: OperationStore
    answers: AnswerStore
    sessions: SessionStore
    run: ServerRun
    is_draining: bool = False
    running: dict[Deadline, RunningRequest] = field(default_factory=dict[Deadline, "RunningRequest"])
    """The requests and operations that this process works on."""
    tasks: set[asyncio.Task[Response]] = field(default_factory=set["asyncio.Task[Response]"])
    """Work that goes on without a client."""
    read_settings: ReadSettings | None = None
    """Reads the configuration again; None if there is none."""
    _folder: TemporaryDirectory[str] | None = None
    _changing: threading.Lock = field(default_factory=threading.Lock)
    _followed: ServerSettings | None = None
    """The settings that were read last and hold."""
    _told: str | None = None
    """The error that was logged last."""

    def reload(self) -> None:
        """Take over the configuration as it is now. On an error everything stays as it was."""
        if self.read_settings is None:
            return
        with self._changing:
            try:
                settings = self.read_settings()
                if settings != self._followed:
                    self.state = _follow_settings(self.state, settings)
                self.state = replace(self.state, is_stale=False)
                self._followed, self._told = settings, None
            except OmniGraphError as error:
                # It is read every second: the same error is told once.
                if str(error) != self._told:
                    _log.error("the configuration stays as it was: %s", error)
                self._told = str(error)
                self.state = replace(self.state, is_stale=True)

    def retry_quarantined(self) -> None:
        """Try to open the graphs whose turn it is."""
        with self._changing:
            due = [each for each in self.state.quarantined.values() if each.next_try <= monotonic()]
            for each in due:
                opened = _open_or_quarantine(each.settings, min(2 * each.pause, _LONGEST_PAUSE))
                self.state = _with_graph(self.state, opened)

    def cancel_work(self) -> None:
        """Cancel what is under way. A write that has begun to commit goes on."""
        for deadline in tuple(self.running):
            deadline.cancel()

    def list_running(self, graph_id: str) -> list[RunningRequest]:
        """Return the requests for a graph that this process works on, the oldest first."""
        return [each for each in tuple(self.running.values()) if each.graph_id == graph_id]

    def cancel_running(self, name: str) -> bool:
        """Cancel a request or an operation of this process; return whether it has one of this id."""
        found = [deadline for deadline, each in tuple(self.running.items()) if each.id == name]
        for deadline in found:
            deadline.cancel()
        return bool(found)

    def obey_cancels(self) -> None:
        """Cancel what other workers were asked to cancel, and this one works on."""
        for name in self.operations.take_cancels([each.id for each in tuple(self.running.values())]):
            self.cancel_running(name)

    def close(self) -> None:
        """Free the graphs and remove uploads."""
        for hosted in self.state.graphs.values():
            hosted.graph.close()
        self.uploads.remove()
        if self._folder is not None:
            self._folder.cleanup()


def open_hosting(
    settings: ServerSettings, read_settings: ReadSettings | None = None, run: ServerRun | None = None
) -> tuple[Hosting, str | None]:
    """Open everything that the settings name. Return the state, and the text of the token that was made for the run.

    ``read_settings`` reads them again: they are followed. ``run`` is given to a worker.
    """
    settings.check()
    everybody = None
    if settings.is_unauthenticated:
        everybody, _ = make_token(settings.actor or "anonymous", Role.ADMIN)
    opened = [
        _open_or_quarantine(each, 1) if settings.is_quarantining else open_hosted_graph(each)
        for each in settings.graphs
    ]
    folder = TemporaryDirectory(prefix="omnigraph-server-")
    text = None
    if run is None:
        run, text = begin_run(settings, Path(folder.name) if settings.state is None else settings.state)
    sessions = SessionStore(run.state, run.id)
    book = TokenBook(settings.tokens, () if run.made is None else (run.made,), sessions.find)
    log = RequestLog(settings.audit)
    state = ServerState(settings, {}, {}, book, everybody, Admission(settings.limits), log)
    for each in opened:
        state = _with_graph(state, each)
    hosting = Hosting(
        state,
        UploadFolder(run.state),
        Traffic(log.set_under_way),
        OperationStore(run.state),
        AnswerStore(run.state),
        sessions,
        run,
        read_settings=read_settings,
        _folder=folder,
        _followed=settings,
    )
    _log_rights(state)
    return hosting, text


def open_hosted_graph(settings: ServedGraph) -> HostedGraph:
    """Open one graph."""
    queries = StoredQueries(settings.queries)
    graph = open_graph(
        settings.uri,
        "ro" if settings.read_only else "rw",
        storage_options=settings.storage_options or None,
        policy=settings.policy,
        embed=settings.embed,
    )
    texts = {settings.uri, graph.uri, str(Path(graph.uri).resolve())}
    # The longest first: a part of a path must not be replaced before the whole.
    secrets = tuple(sorted((text for text in texts if len(text) > 1), key=len, reverse=True))
    queries.check(graph.schema)
    return HostedGraph(settings, graph, graph.info().format, secrets, queries)


def _open_or_quarantine(settings: ServedGraph, pause: int) -> HostedGraph | UnopenedGraph:
    try:
        return open_hosted_graph(settings)
    except OmniGraphError as error:
        _log.error("the graph '%s' cannot be opened, and is tried again in %d s: %s", settings.id, pause, error)
        return UnopenedGraph(settings, pause, monotonic() + pause)


def _with_graph(state: ServerState, opened: HostedGraph | UnopenedGraph) -> ServerState:
    name = opened.settings.id
    graphs = {key: value for key, value in state.graphs.items() if key != name}
    quarantined = {key: value for key, value in state.quarantined.items() if key != name}
    if isinstance(opened, HostedGraph):
        return replace(state, graphs={**graphs, name: opened}, quarantined=quarantined)
    return replace(state, graphs=graphs, quarantined={**quarantined, name: opened})


def _follow_settings(state: ServerState, settings: ServerSettings) -> ServerState:
    """Return the state for new settings. Graphs that did not change stay open."""
    old = state.settings
    for name in _FIXED:
        if getattr(settings, name) != getattr(old, name):
            _log.warning("'%s' changed to %s: it needs a restart", name, getattr(settings, name))
    settings = replace(settings, bind=old.bind, audit=old.audit, state=old.state, workers=old.workers, tls=old.tls)
    settings.check()
    tokens = state.tokens if settings.tokens == old.tokens else TokenBook(settings.tokens)
    admission = state.admission if settings.limits == old.limits else Admission(settings.limits)
    found = ServerState(settings, {}, {}, tokens, state.everybody, admission, state.log)
    for each in settings.graphs:
        found = _with_graph(found, _follow_graph(state.graphs.get(each.id), each))
    _log_rights(found)
    return found


def _follow_graph(kept: HostedGraph | None, settings: ServedGraph) -> HostedGraph | UnopenedGraph:
    """Return a graph for new settings. If only queries or limits differ it stays open, with what it has in memory."""
    if kept is None or replace(kept.settings, queries=settings.queries, limits=settings.limits) != settings:
        return _open_or_quarantine(settings, 1)
    if kept.settings.queries == settings.queries:
        return kept if kept.settings == settings else replace(kept, settings=settings)
    queries = StoredQueries(settings.queries)
    queries.check(kept.graph.schema)
    return replace(kept, settings=settings, queries=queries)


def _log_rights(state: ServerState) -> None:
    writers = sum(token.role is not Role.READ for token in state.tokens.list_tokens()) + bool(state.everybody)
    for hosted in state.graphs.values():
        count = 0 if hosted.read_only else writers
        _log.info("%s: %d token(s) may write", hosted.uri, count)
