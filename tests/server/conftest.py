"""A server to talk to, in this process: its whole application, without a socket."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Generator
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import pytest

import omnigraph
from omnigraph.server import Limits, Role, ServedGraph, ServerSettings
from tests.server.client import Client, open_client

SCHEMA = """
node Person { name: String @key  age: I32?  big: I64?  photo: Blob? }
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City
"""
RECORDS = [
    {"type": "Person", "data": {"name": "ann", "age": 4, "big": 2**60}},
    {"type": "Person", "data": {"name": "bob", "age": 7}},
    {"type": "Person", "data": {"name": "cid"}},
    {"type": "City", "data": {"name": "ulm"}},
    {"edge": "Knows", "from": "ann", "to": "bob", "data": {"since": 3}},
    {"edge": "Knows", "from": "ann", "to": "cid"},
    {"edge": "LivesIn", "from": "ann", "to": "ulm"},
]
# A busy machine must not matter.
LIMITS = Limits(failed_logins=100_000, read_wait_ms=600_000, write_wait_ms=600_000, read_seconds=600, write_seconds=600)

# It comes with the extra `dev`; an environment that was made before it was needed has none.
collect_ignore = [] if find_spec("opentelemetry.sdk") else ["test_server_tracing.py"]

Serve: TypeAlias = Callable[..., Client]


@pytest.fixture(scope="session")
def graph_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served") / "template.og"
    omnigraph.init(path, SCHEMA, actor="act-ann").load(RECORDS, message="the first records", actor="act-ann")
    return path


@pytest.fixture(scope="module")
def graph_path(graph_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("brain") / "secret-place" / "Brain.og"
    shutil.copytree(graph_template, path)
    return path


@pytest.fixture(scope="module")
def runner() -> Generator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def serve(graph_path: Path, runner: asyncio.Runner) -> Generator[Serve]:
    """Serve the graph of this module: ``serve(limits=Limits(rows=2))``."""
    clients: list[Client] = []

    def start(limits: Limits = LIMITS, *, read_only: bool = False, audit: Path | None = None) -> Client:
        graph = ServedGraph("brain", str(graph_path), read_only)
        settings = ServerSettings((graph,), actor="act-test", limits=limits, audit=audit)
        clients.append(open_client(settings, runner))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.fixture(scope="module")
def client(serve: Serve) -> Client:
    """The server of this module, with a token that may do everything."""
    return serve()


@pytest.fixture(scope="module")
def reader(client: Client) -> Client:
    """The same server, with a token that may only read."""
    return client.with_role(Role.READ)
