"""A crowd of clients, bodies without an end, and readers that do not read: nothing is lost, and memory stays flat.

What is asserted are counts and the order of service. How long anything takes depends on the machine.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import os
import socket
import threading
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import httpx
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.server import Limits, Role, create_token
from tests.server.live import WAIT, LiveServer, start_server, wait_until

pytestmark = [pytest.mark.costly, pytest.mark.slow]

CLIENTS = 200
ACTORS = 20
READS_PER_WRITE = 5
CROWD_SECONDS = 60
SLOW_QUERIES = 32
ROWS = 400_000
EXPORTED_ROWS = 10_000_000
LOADS = 1_000
MIB = 1 << 20
SCHEMA = "node Person { name: String @key  text: String? }\nnode Note { name: String @key }"
ADD = "query add($n: String) { insert Note { name: $n } }"
READ = "query some($n: String) { match { $p: Person { name: $n } } return { $p.text } }"
PAIRS = "query pairs() { match { $a: Person  $b: Person  $a.text < $b.name } return { count($a) as n } }"
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
    admin: str
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
    admin = create_token(folder / "tokens.json", "act-admin", Role.ADMIN, None, None)[1]
    (folder / "server.yaml").write_text(
        "version: 1\nbind: 127.0.0.1:0\ntokens: tokens.json\nlimits: {estimate_rows: 0, read_seconds: 600}\n"
        f"graphs: {{brain: {{uri: {folder / 'brain.og'}}}}}\n"
    )
    with start_server("--config", str(folder / "server.yaml")) as server:
        assert server.url
        yield Crowded(server, tokens, admin, folder / "brain.og")


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


async def act(crowded: Crowded, number: int, count: Count, end: float) -> None:
    """One client: five reads for each write, until the crowd leaves."""
    headers = {"Authorization": f"Bearer {crowded.tokens[number % ACTORS]}"}
    async with httpx.AsyncClient(base_url=crowded.server.url, headers=headers, timeout=10 * WAIT) as http:
        for turn in itertools.count(number):
            if monotonic() > end:
                return
            if turn % (READS_PER_WRITE + 1) == 0:
                name = f"n{number}-{turn}"
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
    """Two hundred clients read and write for a minute."""
    count, is_over, probes = Count(), threading.Event(), list[tuple[int, int]]()
    prober = threading.Thread(target=lambda: probes.extend(probe(crowded.server, count, is_over)))
    prober.start()

    async def come() -> None:
        end = monotonic() + CROWD_SECONDS
        await asyncio.gather(*(act(crowded, number, count, end) for number in range(CLIENTS)))

    asyncio.run(come())
    is_over.set()
    prober.join(WAIT)
    assert set(count.statuses) <= EXPECTED, count.statuses
    assert count.statuses[200] > CLIENTS
    assert count.written
    with crowded.client() as http:
        lines = http.post("/graphs/brain/query", json={"query": NOTES}, headers={"Accept": "application/x-ndjson"})
    stored = [json.loads(line)["name"] for line in lines.text.splitlines()]
    # No write that was told is lost, none is doubled, and none that was refused is there.
    assert sorted(stored) == sorted(count.written)
    assert len(probes) > 1
    assert {status for status, _ in probes} == {200}
    # It stands in no queue: far fewer are served while it waits than are waiting.
    meanwhile = sorted(served for _, served in probes)
    assert meanwhile[len(meanwhile) // 2] < CLIENTS // 4, meanwhile


def test_others_answer_beside_slow_queries(crowded: Crowded) -> None:
    """One actor's slow queries leave threads to others; those of many leave writes, and the means to end them."""
    limits = Limits()
    share = limits.read_threads - limits.read_threads // 4
    with crowded.client() as http, crowded.server.client(crowded.admin) as admin:
        with send_slow_queries(crowded, actors=1):
            wait_until(lambda: len(list_slow(admin)) == share)
            for number in range(10):
                assert ask(http, f"p{number}") == 200
                assert add(http, f"beside-one-{number}") == 200
        wait_until(lambda: not list_slow(admin))
        with send_slow_queries(crowded, actors=8):
            wait_until(lambda: len(list_slow(admin)) == limits.read_threads)
            for number in range(10):
                assert http.get("/healthz").status_code == 200
                assert add(http, f"beside-many-{number}") == 200
            assert ask(http, "p1") == 429
            for running in list_slow(admin):
                assert admin.delete(f"/graphs/brain/requests/{running}").status_code == 202
            wait_until(lambda: ask(http, "p1") == 200)


def test_when_their_clients_have_gone_slow_queries_end(crowded: Crowded) -> None:
    """A second later the server does nothing: all that it still did fits into one second of each core."""
    with crowded.server.client(crowded.admin) as admin:
        with send_slow_queries(crowded, actors=8):
            wait_until(lambda: len(list_slow(admin)) == Limits().read_threads)
        used = [read_cpu(crowded.server)]
        pause = threading.Event()
        while len(used) < 2 or used[-1] - used[-2] > 0.1:
            pause.wait(1)
            used.append(read_cpu(crowded.server))
        assert used[-1] - used[0] < (os.cpu_count() or 1), used
        assert not list_slow(admin)


def read_cpu(server: LiveServer) -> float:
    """The seconds of CPU that a server has used."""
    times = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def send_slow_queries(crowded: Crowded, actors: int) -> Generator[None]:
    """Queries that would take hours, each over a connection of its own, of so many actors."""
    body = json.dumps({"query": PAIRS}).encode()
    with ExitStack() as sent:
        for number in range(SLOW_QUERIES):
            token = crowded.tokens[1 + number % actors]
            sent.enter_context(open_request(crowded.server, token, "query", body, "application/json"))
        yield


def list_slow(admin: httpx.Client) -> list[str]:
    """The ids of the queries of all actors that run now."""
    running = admin.get("/graphs/brain/requests").json()["requests"]
    return [each["request_id"] for each in running if each["route"].endswith("/query")]


def ask(http: httpx.Client, name: str) -> int:
    return http.post("/graphs/brain/query", json={"query": READ, "params": {"n": name}}).status_code


def add(http: httpx.Client, name: str) -> int:
    return http.post("/graphs/brain/mutate", json={"query": ADD, "params": {"n": name}}).status_code


@contextmanager
def open_request(server: LiveServer, token: str, route: str, body: bytes, accept: str) -> Generator[socket.socket]:
    """A bare connection that has sent a request."""
    url = httpx.URL(server.url)
    head = (
        f"POST /graphs/brain/{route} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nAccept: {accept}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((url.host, url.port or 0), WAIT) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        connection.sendall(head.encode() + body)
        yield connection


def open_export(server: LiveServer, token: str, type_name: str = "Person") -> AbstractContextManager[socket.socket]:
    """A bare connection that asks for all rows of a type, as lines."""
    body = json.dumps({"type_names": [type_name]}).encode()
    return open_request(server, token, "export", body, "application/x-ndjson")


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


# --------------------------------------------------------------------------------------------- memory


def test_ten_million_rows_for_a_slow_reader(tmp_path: Path) -> None:
    """An export of ten million rows at a megabyte a second. It would take ten minutes: the reader leaves after two."""
    graph = omnigraph.init(tmp_path / "brain.og", SCHEMA)
    names = pa.array(range(EXPORTED_ROWS)).cast(pa.string())
    graph.load(nodes={"Note": pa.table({"name": names})})
    graph.close()
    with start_server(graph=tmp_path / "brain.og") as server, server.client() as http:
        assert http.get("/graphs/brain/rows?type=Note&limit=1").json()["row_count"] == 1
        before, most, received = read_resident(server), 0, 0
        pause = threading.Event()
        with open_export(server, server.token, "Note") as slow:
            began = monotonic()
            while received < 120 * MIB:
                part = slow.recv(1 << 16)
                assert part, "the stream ended"
                received += len(part)
                most = max(most, read_resident(server))
                pause.wait(max(0.0, began + received / 1e6 - monotonic()))
        assert most - before < 64 * MIB, f"{(most - before) / MIB:.0f} MiB"


def test_a_thousand_loads(tmp_path: Path) -> None:
    """Loads of a mebibyte that write the same nodes again and again: the graph stays, and so does the memory."""
    omnigraph.init(tmp_path / "brain.og", SCHEMA).close()
    sizes = list[int]()
    with start_server(graph=tmp_path / "brain.og") as server, server.client() as http:
        for number in range(LOADS):
            lines = (
                json.dumps({"type": "Person", "data": {"name": f"p{number % 8}-{row}", "text": f"{number:>200}"}})
                for row in range(MIB // 262)
            )
            body = "\n".join(lines).encode()
            answer = http.post(
                "/graphs/brain/load?mode=merge", content=body, headers={"Content-Type": "application/x-ndjson"}
            )
            assert answer.status_code == 200, answer.text
            sizes.append(read_resident(server))
    settled = max(sizes[: LOADS // 4])
    grown = max(sizes[-LOADS // 4 :]) - settled
    assert grown < 64 * MIB, f"{grown / MIB:.0f} MiB: {[size // MIB for size in sizes[:: LOADS // 20]]}"
