"""A server in a thread of this process: real sockets and real requests, and graphs that are added while it runs."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import uvicorn

import omnigraph
from omnigraph.graph import Graph, Mode
from omnigraph.server import Hosting, Limits, ServedGraph, ServerSettings, build_app, open_hosting
from omnigraph.server.hosting import open_hosted_graph

# A busy machine must not matter.
LIMITS = Limits(failed_logins=100_000, read_wait_ms=600_000, write_wait_ms=600_000, read_seconds=600, write_seconds=600)
SECONDS = 600


@dataclass(frozen=True)
class RunningServer:
    """A server that listens, and its one token."""

    hosting: Hosting
    server: uvicorn.Server
    thread: threading.Thread
    token: str

    @property
    def origin(self) -> str:
        port = self.server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    def add(self, path: Path | str) -> str:
        """Serve one more graph, and return its URL."""
        name = f"g{len(self.hosting.state.graphs)}"
        hosted = open_hosted_graph(ServedGraph(name, str(path)))
        self.hosting.state = replace(self.hosting.state, graphs={**self.hosting.state.graphs, name: hosted})
        return f"{self.origin}/graphs/{name}"

    def open(self, path: Path | str, mode: Mode = "rw") -> Graph:
        """Open a graph on a disk through the server."""
        return omnigraph.open(self.add(path), mode, token=self.token, timeout=SECONDS)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(60)
        self.hosting.close()


def start_server(first: Path) -> RunningServer:
    """Start a server in a thread. It stops with :meth:`RunningServer.stop`."""
    settings = ServerSettings((ServedGraph("first", str(first)),), actor="act-test", limits=LIMITS)
    hosting, token = open_hosting(settings)
    assert token is not None
    server = uvicorn.Server(uvicorn.Config(build_app(hosting), "127.0.0.1", 0, log_config=None, lifespan="off"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        thread.join(0.01)
    return RunningServer(hosting, server, thread, token)
