"""A graph on a disk, and the same graph through a server."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

import omnigraph
from omnigraph.graph import Graph
from tests import crash
from tests.remote.served import ServerProcess, start_process

SCHEMA = """
node Person {
  name: String @key  age: I32?  big: I64?  score: F64?  photo: Blob?
  born: Date?  seen: DateTime?  tags: [String]?  place: Vector(3)?
}
node Slot { line: String  seq: I32  @key(line, seq) }
edge Knows: Person -> Person { since: I32? }
edge In: Person -> Slot
"""
RECORDS = [
    {
        "type": "Person",
        "data": {
            "name": "ann",
            "age": 4,
            "big": 2**60,
            "score": 0.1,
            "photo": "base64:aGVsbG8=",
            "born": "2001-02-03",
            "seen": "2024-05-01T10:00:00.123Z",
            "tags": ["a", "b"],
            "place": [0.5, 1.0, -2.0],
        },
    },
    {"type": "Person", "data": {"name": "bob", "score": 1.5}},
    {"type": "Person", "data": {"name": "ä/ö 漢"}},
    {"type": "Slot", "data": {"line": "x", "seq": 1}},
    {"edge": "Knows", "from": "ann", "to": "bob", "data": {"since": 3}},
    {"edge": "Knows", "from": "bob", "to": "ann"},
    {"edge": "In", "from": "ann", "to": {"line": "x", "seq": 1}},
]
ADD = "query add($name: String) { insert Person { name: $name } }"


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "g.og"
    graph = omnigraph.init(path, SCHEMA, actor="act-ann")
    graph.load(RECORDS, message="the first records")
    graph.create_tag("start/here")
    graph.create_branch("dev/a")
    graph.mutate(ADD, params={"name": "eve"}, branch="dev/a", message="eve comes", txn=("app", 1))
    graph.mutate('query u() { update Person set { age: 5 } where name = "ann" }', actor="act-bob")
    graph.mutate('query d() { delete Person where name = "bob" }')
    return path


@pytest.fixture(scope="session")
def server(template: Path) -> Generator[ServerProcess]:
    """One server for all tests of this process."""
    running = start_process(template)
    yield running
    running.stop()


@pytest.fixture
def folder(template: Path) -> Path:
    """A copy of the graph for one test."""
    return crash.fresh_copy(template)


@pytest.fixture(scope="session")
def local(template: Path) -> Graph:
    return omnigraph.open(template, "ro")


@pytest.fixture(scope="session")
def remote(server: ServerProcess, template: Path) -> Graph:
    return server.open(template, "ro")


@pytest.fixture(params=["local", "remote"])
def graph(request: pytest.FixtureRequest, folder: Path, server: ServerProcess) -> Graph:
    """A graph to write to: on the disk, or through a server."""
    if request.param == "local":
        return omnigraph.open(folder, actor="act-test")
    return server.open(folder)
