"""Servers to talk to over real sockets: ``omnigraph serve`` as a process, and a server in a thread of this process.

Graphs are added to the process by its configuration, which it follows. The thread is for tests that kill a server at a
durable write: there the process of the test is the server.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import httpx
import uvicorn

import omnigraph
from omnigraph.deadlines import Timeout
from omnigraph.graph import Graph, Mode
from omnigraph.server import (
    Hosting,
    Limits,
    Role,
    ServedGraph,
    ServerSettings,
    build_app,
    create_token,
    open_hosting,
)
from omnigraph.server.hosting import open_hosted_graph
from tests.server.live import MAIN
from tests.warm_programs import Program, start_program

# A busy machine must not matter, and cases have walks of any length.
LIMITS = Limits(
    failed_logins=100_000,
    read_wait_ms=600_000,
    write_wait_ms=600_000,
    read_seconds=600,
    write_seconds=600,
    hops=0,
    estimate_rows=0,
)
SECONDS = 600
ACTOR = "act-test"
TOKENS = "tokens.json"


@dataclass
class ServerProcess:
    """``omnigraph serve --config`` in a process of its own, and its one token."""

    folder: Path
    process: Program
    origin: str
    token: str
    graphs: dict[str, str] = field(default_factory=dict[str, str])
    made: int = 0

    def add(self, path: Path | str) -> str:
        """Serve one more graph, and return its URL."""
        name = self._make_name()
        self.graphs[name] = str(path)
        return self._follow(name, self.graphs)

    def add_for_now(self, path: Path | str) -> str:
        """Serve one more graph until the next one comes, and return its URL."""
        name = self._make_name()
        return self._follow(name, {**self.graphs, name: str(path)})

    def _make_name(self) -> str:
        self.made += 1
        return f"g{self.made}"

    def _follow(self, name: str, graphs: Mapping[str, str]) -> str:
        write_config(self.folder, graphs)
        self.process.send_signal(signal.SIGHUP)
        url = f"{self.origin}/graphs/{name}"
        with httpx.Client(headers={"Authorization": f"Bearer {self.token}"}, timeout=SECONDS) as http:
            while (answer := http.get(url)).status_code != 200:
                assert (answer.status_code, self.process.poll()) == (404, None), answer.text
        return url

    def open(self, path: Path | str, mode: Mode = "rw", timeout: Timeout = SECONDS) -> Graph:
        """Open a graph on a disk through the server."""
        return omnigraph.open(self.add(path), mode, token=self.token, timeout=timeout)

    def open_for_now(self, path: Path | str) -> Graph:
        """Open a graph on a disk through the server, until the next one comes."""
        return omnigraph.open(self.add_for_now(path), token=self.token, timeout=SECONDS)

    def stop(self) -> None:
        """Stop it at once."""
        self.process.kill()
        self.process.wait(SECONDS)
        assert self.process.stderr is not None
        self.process.stderr.close()
        shutil.rmtree(self.folder)


def write_config(folder: Path, graphs: Mapping[str, str], limits: Limits = LIMITS) -> Path:
    """Write the configuration of a server, all at once; JSON is YAML."""
    settings = {
        "version": 1,
        "bind": "127.0.0.1:0",
        "tokens": TOKENS,
        "limits": {name: value for name, value in asdict(limits).items() if value != getattr(Limits(), name)},
        "graphs": {name: {"uri": uri} for name, uri in graphs.items()},
    }
    part, path = folder / "server.yaml.part", folder / "server.yaml"
    part.write_text(json.dumps(settings, indent=1), "utf-8")
    return part.replace(path)


def start_process(first: Path, limits: Limits = LIMITS) -> ServerProcess:
    """Start a server as users do. It stops with :meth:`ServerProcess.stop`."""
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-served-"))
    graphs = {"first": str(first)}
    _, token = create_token(folder / TOKENS, ACTOR, Role.ADMIN, None, None)
    config = write_config(folder, graphs, limits)
    environment = {**os.environ, "OMNIGRAPH_LOG": "ERROR"}
    process = start_program(MAIN, ["serve", "--config", str(config)], environment)
    assert process.stderr is not None
    said = process.stderr.readline()
    found = re.search(r"at (http://127\.0\.0\.1:\d+)\n", said)
    if found is None:
        process.kill()
        raise AssertionError(said + process.stderr.read())
    # It follows SIGHUP from the time on at which it answers.
    assert httpx.get(f"{found.group(1)}/healthz", timeout=SECONDS).status_code == 200
    return ServerProcess(folder, process, found.group(1), token, graphs)


@dataclass(frozen=True)
class RunningServer:
    """A server in a thread of this process, and its one token."""

    hosting: Hosting
    server: uvicorn.Server
    thread: threading.Thread
    token: str

    @property
    def origin(self) -> str:
        port = self.server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    def open(self, path: Path | str) -> Graph:
        """Open a graph on a disk through the server."""
        hosted = open_hosted_graph(ServedGraph("more", str(path)))
        self.hosting.state = replace(self.hosting.state, graphs={**self.hosting.state.graphs, "more": hosted})
        return omnigraph.open(f"{self.origin}/graphs/more", token=self.token, timeout=SECONDS)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(60)
        self.hosting.close()


def start_server(first: Path) -> RunningServer:
    """Start a server in a thread. It stops with :meth:`RunningServer.stop`."""
    settings = ServerSettings((ServedGraph("first", str(first)),), actor=ACTOR, limits=LIMITS)
    hosting, token = open_hosting(settings)
    assert token is not None
    server = uvicorn.Server(uvicorn.Config(build_app(hosting), "127.0.0.1", 0, log_config=None, lifespan="off"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        thread.join(0.01)
    return RunningServer(hosting, server, thread, token)
