"""The state of a running server: its graphs, its tokens and its counts."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from omnigraph.deadlines import Deadline
from omnigraph.errors import NotFound
from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph
from omnigraph.server.admission import Admission
from omnigraph.server.settings import DEFAULT_GRAPH, ServedGraph, ServerSettings
from omnigraph.server.tokens import Role, Token, TokenBook, make_token

_log = logging.getLogger("omnigraph.server")


@dataclass(frozen=True, slots=True)
class HostedGraph:
    """A graph under its public name."""

    id: str
    graph: Graph
    read_only: bool
    format: int
    secrets: tuple[str, ...] = field(repr=False)
    """The texts that no answer may contain: its location, as given and as an absolute path."""

    @property
    def uri(self) -> str:
        """What clients see as its location."""
        return f"/graphs/{self.id}"

    @property
    def edge_types(self) -> Collection[str]:
        """The names of its edge types."""
        return self.graph.schema.catalog.edges


@dataclass(slots=True)
class Hosting:
    """Everything that requests share."""

    settings: ServerSettings
    graphs: Mapping[str, HostedGraph]
    tokens: TokenBook
    everybody: Token | None
    """Who every request comes from, if the server asks for no token."""
    uploads: Path
    admission: Admission
    is_draining: bool = False
    requests_under_way: int = 0
    deadlines: set[Deadline] = field(default_factory=set[Deadline])
    """Those of the work under way."""
    _folder: TemporaryDirectory[str] | None = None

    def find_graph(self, graph_id: str) -> HostedGraph:
        """Return a graph by its id. The id is looked up, and never part of a path."""
        found = self.graphs.get(graph_id)
        if found is None and graph_id == DEFAULT_GRAPH and len(self.graphs) == 1:
            found = next(iter(self.graphs.values()))
        if found is None:
            raise NotFound("no graph of this name is served", hint="GET /graphs lists them")
        return found

    def cancel_work(self) -> None:
        """Cancel what is under way. A write that has begun to commit goes on."""
        for deadline in tuple(self.deadlines):
            deadline.cancel()

    def close(self) -> None:
        """Free the graphs and remove uploads."""
        for hosted in self.graphs.values():
            hosted.graph.close()
        if self._folder is not None:
            self._folder.cleanup()


def open_hosting(settings: ServerSettings) -> tuple[Hosting, str | None]:
    """Open everything that the settings name. Return the state, and the text of the token that was made for the run."""
    settings.check()
    graphs = {each.id: open_hosted_graph(each) for each in settings.graphs}
    made, text, everybody = None, None, None
    if settings.is_unauthenticated:
        everybody, _ = make_token(settings.actor or "anonymous", Role.ADMIN)
    elif settings.tokens is None:
        made, text = make_token(settings.actor or "local", Role.ADMIN, "made for this run")
    book = TokenBook(settings.tokens, () if made is None else (made,))
    folder = TemporaryDirectory(prefix="omnigraph-server-")
    hosting = Hosting(settings, graphs, book, everybody, Path(folder.name), Admission(settings.limits), _folder=folder)
    _log_rights(hosting)
    return hosting, text


def open_hosted_graph(settings: ServedGraph) -> HostedGraph:
    """Open one graph."""
    graph = open_graph(
        settings.uri, "ro" if settings.read_only else "rw", storage_options=settings.storage_options or None
    )
    texts = {settings.uri, graph.uri, str(Path(graph.uri).resolve())}
    # The longest first: a part of a path must not be replaced before the whole.
    secrets = tuple(sorted((text for text in texts if len(text) > 1), key=len, reverse=True))
    return HostedGraph(settings.id, graph, settings.read_only, graph.info().format, secrets)


def _log_rights(hosting: Hosting) -> None:
    writers = sum(token.role is not Role.READ for token in hosting.tokens.list_tokens()) + bool(hosting.everybody)
    for hosted in hosting.graphs.values():
        count = 0 if hosted.read_only else writers
        _log.info("%s: %d token(s) may write", hosted.uri, count)
