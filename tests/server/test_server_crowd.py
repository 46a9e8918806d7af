"""A crowd of clients, bodies without an end, and readers that do not read: nothing is lost, and memory stays flat.

What is asserted are counts and the order of service. How long anything takes depends on the machine.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import socket
import threading
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.server import Role, create_token
from tests.server.live import WAIT, LiveServer, start_server

pytestmark = [pytest.mark.costly, pytest.mark.slow]

CLIENTS = 200
ACTORS = 20
ROUNDS = 6
ROWS = 400_000
MIB = 1 << 20
SCHEMA = "node Person { name: String @key  text: String? }\nnode Note { name: String @key }"
ADD = "query add($n: String) { insert Note { name: $n } }"
READ = "query some($n: String) { match { $p: Person { name: $n } } return { $p.text } }"
NOTES = "query all() { match { $n: Note } return { $n.name as name } }"
EXPECTED = {200, 409, 412, 429}
# It waits a second, not half a minute, for a reader that takes nothing.
HURRIED = """
import sys
from omnigraph.server.messages import streams
streams._IDLE_SECONDS = 1
from omnigraph.cli.app import main
sys.exit(main(sys.argv[1:]))
"""


@dataclass(frozen=True)
class Crowded:
    """A server, and the tokens of its actors."""

    server: LiveServer
    tokens: list[str]
    path: Path

    def client(self) -> httpx.Client:
        return self.server.client(self.tokens[0])


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Generator[Crowded]:
    folder = tmp_path_factory.mktemp("crowd")
    graph = omnigraph.init(folder / "brain.og", SCHEMA)
    texts = pa.array([f"{number:>200}" for number in range(ROWS)])
    graph.load(nodes={"Person": pa.table({"name": pa.array([f"p{n}" for n in range(ROWS)]), "text": texts})})
    graph.close()
    tokens = [create_token(folder / "tokens.json", f"act-{n}", Role.WRITE, None, None)[1] for n in range(ACTORS)]
    (folder / "server.yaml").write_text(
        f"version: 1\nbind: 127.0.0.1:0\ntokens: tokens.json\ngraphs: {{brain: {{uri: {folder / 'brain.og'}}}}}\n"
    )
    with start_server("--config", str(folder / "server.yaml")) as server:
        assert server.url
        yield Crowded(server, tokens, folder / "brain.og")


def read_resident(server: LiveServer) -> int:
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) << 10


# --------------------------------------------------------------------------------------------- the crowd


@dataclass
class Count:
    """What the crowd has been told so far."""

    statuses: Counter[int] = field(default_factory=Counter[int])
    written: set[str] = field(default_factory=set[str])

    @property
    def finished(self) -> int:
        return self.statuses.total()


async def act(crowded: Crowded, number: int, count: Count) -> None:
    """One client: five reads for each write."""
    headers = {"Authorization": f"Bearer {crowded.tokens[number % ACTORS]}"}
    async with httpx.AsyncClient(base_url=crowded.server.url, headers=headers, timeout=10 * WAIT) as http:
        for turn in range(ROUNDS):
            name = f"n{number}-{turn}"
            if turn == number % ROUNDS:
                sent = {"query": ADD, "params": {"n": name}}
                answer = await http.post(
                    "/graphs/brain/mutate",
                    json=sent,
                    headers={"Idempotency-Key": name, "Omnigraph-Timeout-Ms": "90000"},
                )
                if answer.status_code == 200:
                    count.written.add(name)
            else:
                sent = {"query": READ, "params": {"n": f"p{number}"}}
                answer = await http.post("/graphs/brain/query", json=sent)
            count.statuses[answer.status_code] += 1


def probe(server: LiveServer, count: Count, is_over: threading.Event) -> list[tuple[int, int]]:
    """Ask for /healthz until the crowd is gone: the status, and how many of the crowd were served meanwhile."""
    found: list[tuple[int, int]] = []
    with httpx.Client(base_url=server.url, timeout=10 * WAIT) as http:
        while not is_over.is_set():
            before = count.finished
            found.append((http.get("/healthz").status_code, count.finished - before))
    return found


def test_two_hundred_clients(crowded: Crowded) -> None:
    count, is_over, probes = Count(), threading.Event(), list[tuple[int, int]]()
    prober = threading.Thread(target=lambda: probes.extend(probe(crowded.server, count, is_over)))
    prober.start()

    async def come() -> None:
        await asyncio.gather(*(act(crowded, number, count) for number in range(CLIENTS)))

    asyncio.run(come())
    is_over.set()
    prober.join(WAIT)
    assert set(count.statuses) <= EXPECTED, count.statuses
    assert count.finished == CLIENTS * ROUNDS
    assert count.written
    with crowded.client() as http:
        stored = [row["name"] for row in http.post("/graphs/brain/query", json={"query": NOTES}).json()["rows"]]
    # No write that was told is lost, none is doubled, and none that was refused is there.
    assert sorted(stored) == sorted(count.written)
    assert len(probes) > 1
    assert {status for status, _ in probes} == {200}
    # It stands in no queue: far fewer are served while it waits than are waiting.
    meanwhile = sorted(served for _, served in probes)
    assert meanwhile[len(meanwhile) // 2] < CLIENTS // 4, meanwhile


@contextmanager
def open_export(server: LiveServer, token: str) -> Generator[socket.socket]:
    """A bare connection that asks for all rows, as lines of 100 MB."""
    url = httpx.URL(server.url)
    body = b'{"type_names": ["Person"]}'
    head = (
        f"POST /graphs/brain/export HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nAccept: application/x-ndjson\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((url.host, url.port or 0), WAIT) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        connection.sendall(head.encode() + body)
        yield connection


def test_slow_readers_of_many_rows_leave_room_for_others(crowded: Crowded) -> None:
    """Streams that nobody reads hold four places; other reads go on beside them."""
    with crowded.client() as http:
        http.post("/graphs/brain/query", json={"query": READ, "params": {"n": "p1"}})
        before = read_resident(crowded.server)
        with open_export(crowded.server, crowded.tokens[0]) as slow:
            assert slow.recv(12) == b"HTTP/1.1 200"
            for number in range(30):
                answer = http.post("/graphs/brain/query", json={"query": READ, "params": {"n": f"p{number}"}})
                assert answer.status_code == 200
                slow.recv(1 << 16)
            grown = read_resident(crowded.server) - before
    # The rows are 100 MB as lines of JSON.
    assert grown < 64 * MIB, f"{grown / MIB:.0f} MiB"


def test_readers_that_take_nothing_are_dropped(crowded: Crowded) -> None:
    """Four streams are all that a graph gives at a time: whoever takes nothing must not keep them."""
    with start_server(graph=crowded.path, program=HURRIED) as server, server.client() as http, ExitStack() as silent:
        for _ in range(4):
            connection = silent.enter_context(open_export(server, server.token))
            assert connection.recv(12) == b"HTTP/1.1 200"
        for _ in range(30):
            with http.stream("POST", "/graphs/brain/export", json={"type_names": ["Note"]}) as answer:
                if answer.status_code == 200:
                    break
                assert answer.status_code == 429
        else:
            raise AssertionError("the silent readers are still served")


# --------------------------------------------------------------------------------------------- bodies


def repeat(part: bytes, count: int) -> Iterator[bytes]:
    return itertools.repeat(part, count)


def test_bodies_without_an_end(crowded: Crowded) -> None:
    """A large body, one endless line, and 10 GiB in 10 MB: all are refused, and none is held in memory."""
    lines = {"Content-Type": "application/x-ndjson"}
    zeros = gzip.compress(b"0" * (64 * MIB))
    before = read_resident(crowded.server)
    with crowded.client() as http:
        for path, content, headers, statuses in (
            ("query", repeat(b"0" * MIB, 64), {"Content-Type": "application/json"}, {413}),
            ("load", repeat(b'{"type": "Note", "data": {"name": "', 1), lines, {400, 422}),
            ("load", repeat(b"0" * MIB, 200), lines, {400, 413, 422}),
            ("load", repeat(zeros, 160), {**lines, "Content-Encoding": "gzip"}, {400, 413}),
            ("load", repeat(zeros, 160), lines, {400, 413}),
        ):
            try:
                status = http.post(f"/graphs/brain/{path}", content=content, headers=headers).status_code
            except (httpx.WriteError, httpx.RemoteProtocolError):
                # The server has closed the connection before everything was sent.
                continue
            assert status in statuses, (path, status)
            grown = read_resident(crowded.server) - before
            assert grown < 64 * MIB, f"{path}: {grown / MIB:.0f} MiB"
        assert http.get("/graphs/brain").status_code == 200
