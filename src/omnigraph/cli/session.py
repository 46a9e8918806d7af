"""The session of one command, made from the global options: the output, the graph and the actor."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

import omnigraph
from omnigraph.cli.render.output import Output
from omnigraph.errors import ServerUnavailable
from omnigraph.lazy_dataclass import dataclass
from omnigraph.progress import watch_progress

if TYPE_CHECKING:
    from omnigraph.deadlines import Deadline
    from omnigraph.graph import Graph, Mode
    from omnigraph.storage.durability import Durability

VARIABLE = "OMNIGRAPH_GRAPH"
DURABILITY_VARIABLE = "OMNIGRAPH_DURABILITY"
NOTHING_CHANGED = "nothing was changed"
_HOLDS_A_GRAPH = "__manifest"


@dataclass(frozen=True, slots=True)
class Session:
    """One run of one command."""

    output: Output
    graph: str | None = None
    """The value of ``-g``. :meth:`target` also looks at the environment and the working directory."""
    actor: str | None = None
    # Credentials may be in here: never printed.
    storage_options: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    assume_yes: bool = False
    durability: Durability | None = None
    deadline: Deadline | None = None
    memory: str | None = None
    default_graph: str | None = None
    """The graph that a file of defaults names."""
    other_graphs: tuple[str, ...] = ()
    """The values of further ``-g``, for a command that takes several."""

    def list_targets(self) -> tuple[str, ...]:
        """Return the graphs to work on, of a command that takes several."""
        return (replace(self, other_graphs=()).target(), *self.other_graphs)

    def target(self) -> str:
        """Return the graph to work on: the named one, or the nearest at or above the working directory."""
        if self.other_graphs:
            raise typer.TyperException("-g is given more than once; this command takes one graph")
        named = self.graph if self.graph is not None else os.environ.get(VARIABLE) or self.default_graph
        return named if named is not None else _nearest_graph(Path.cwd())

    def open(self, mode: Mode) -> Graph:
        """Open the target graph: a folder, an object store, or a URL of a server."""
        target = self.target()
        is_remote = target.lower().startswith(("http://", "https://"))
        if is_remote and self.actor is not None:
            raise typer.TyperException("--as cannot be used with a URL: the actor is that of the token")
        graph = omnigraph.open(
            target,
            mode,
            actor=self.actor,
            storage_options=self.storage_options,
            # The environment sets it for graphs on a disk; a server has its own.
            durability=None if is_remote else self.durability,
            timeout=self.deadline,
            memory=self.memory,
        )
        graph.delegate_upkeep(self._start_upkeep)
        return graph

    def _start_upkeep(self, branch: str) -> None:
        from omnigraph.cli.detached_upkeep import start_upkeep  # late, since few commands make it due

        start_upkeep(self.target(), self.storage_options, branch)

    @contextmanager
    def watch(self) -> Generator[None]:
        """Show the steps of a long call, if somebody watches."""
        with self.output.watch() as watcher, watch_progress(watcher):
            yield

    def confirm(self, question: str) -> bool:
        """Ask before an operation that cannot be undone. Where nobody can be asked, ``--yes`` is needed."""
        if self.assume_yes:
            return True
        if not self.output.can_ask:
            raise typer.TyperException(f"{question} Nobody can be asked here: --yes does it")
        if self.output.ask(question):
            return True
        self.output.say(NOTHING_CHANGED)
        return False


def session_of(context: typer.Context) -> Session:
    """Return the session of a command."""
    return cast(Session, context.obj)


def read_storage_options(pairs: Sequence[str]) -> dict[str, str]:
    """Parse ``--storage-option K=V``; the last value of a name wins. Errors never show the text: it may be a secret."""
    options: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise typer.TyperException(
                "--storage-option takes KEY=VALUE, for example --storage-option region=eu-west-1"
            )
        options[key] = value
    return options


def _nearest_graph(directory: Path) -> str:
    for folder in (directory, *directory.parents):
        if (folder / _HOLDS_A_GRAPH).is_dir():
            return str(folder)
    raise typer.TyperException(
        f"No graph is named. Give -g URI, set ${VARIABLE}, or run this inside the folder of a graph"
    )


def require_server_extra() -> None:
    """Raise an error that says what to install, if the packages of the server are missing."""
    missing = [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]
    if missing:
        raise ServerUnavailable(
            f"the server needs {' and '.join(missing)}", hint="install it: pip install 'omnigraph[server]'"
        )
