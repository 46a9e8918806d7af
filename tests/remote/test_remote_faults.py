"""Connections that break, servers that are not there, and tokens that must not leak."""

from __future__ import annotations

import os
import re
import socket
import socketserver
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

import omnigraph
from omnigraph.errors import OmniGraphError, OutcomeUnknown, ParameterError, ServerUnavailable, Unauthorized
from omnigraph.graph import Graph
from omnigraph.remote import credentials_path, forget_token, keep_token, parse_graph_url
from tests.remote.conftest import ADD
from tests.remote.served import SECONDS, ServerProcess

ALL = "query all() { match { $p: Person } return { $p.name } }"
LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


class _Proxy(socketserver.ThreadingTCPServer):
    """Passes requests on, one for each connection. ``plan`` says what becomes of the next ones."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = ("127.0.0.1", int(upstream.rpartition(":")[2]))
        self.plan: list[str] = []
        self.seen: list[str] = []

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        proxy = cast("_Proxy", self.server)
        request = _read_request(self.request)
        if not request:
            return
        fate = proxy.plan.pop(0) if proxy.plan else "pass"
        proxy.seen.append(f"{fate} {request.split(b' ', 2)[0].decode()}")
        if fate == "refuse":
            return
        head, _, body = request.partition(b"\r\n\r\n")
        head = re.sub(rb"\r\nconnection: [^\r]*", b"", head, flags=re.IGNORECASE)
        with socket.create_connection(proxy.upstream) as upstream:
            upstream.sendall(head + b"\r\nConnection: close\r\n\r\n" + body)
            answer = b"".join(iter(lambda: upstream.recv(1 << 16), b""))
        if fate == "cut":
            return
        self.request.sendall(answer[: len(answer) // 2] if fate == "half" else answer)


def _read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(1 << 16)
        if not part:
            return b""
        data += part
    found = LENGTH.search(data)
    wanted = data.index(b"\r\n\r\n") + 4 + (int(found.group(1)) if found else 0)
    while len(data) < wanted:
        data += connection.recv(1 << 16)
    return data


@pytest.fixture
def proxy(server: ServerProcess) -> Generator[_Proxy]:
    with _Proxy(server.origin) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def cut_graph(proxy: _Proxy, server: ServerProcess, folder: Path) -> Graph:
    url = server.add(folder).replace(server.origin, proxy.origin)
    return omnigraph.open(url, token=server.token, timeout=SECONDS)


WRITES: dict[str, Callable[[Graph], object]] = {
    "mutate": lambda graph: graph.mutate(ADD, params={"name": "new"}),
    "load": lambda graph: graph.load([{"type": "Slot", "data": {"line": "n", "seq": 1}}]),
    "merge": lambda graph: graph.merge("dev/a", delete_branch=True),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_whose_answer_is_lost_happens_once(cut_graph: Graph, proxy: _Proxy, folder: Path, name: str) -> None:
    before = len(cut_graph.commits())
    proxy.plan = ["cut"]
    result = WRITES[name](cut_graph)
    made = omnigraph.open(folder, "ro").commits()
    assert len(made) == before + 1
    assert getattr(result, "commit") == made[0]  # noqa: B009  of all kinds
    assert getattr(result, "replayed")  # noqa: B009
    assert proxy.seen.count("cut POST") == 1


def test_a_write_is_unknown_only_if_nobody_can_be_asked(cut_graph: Graph, proxy: _Proxy, folder: Path) -> None:
    proxy.plan = ["cut", "refuse"]
    with pytest.raises(OutcomeUnknown) as caught:
        cut_graph.mutate(ADD, params={"name": "new"}, key="k-7")
    assert caught.value.key == "k-7"
    found = cut_graph.find_commit(key="k-7")
    assert found == omnigraph.open(folder, "ro").commits()[0]
    again = cut_graph.mutate(ADD, params={"name": "new"}, key="k-7")
    assert (again.commit, again.replayed) == (found, True)


def test_a_write_without_a_key_is_not_repeated(cut_graph: Graph, proxy: _Proxy) -> None:
    proxy.plan = ["cut"]
    with pytest.raises(OutcomeUnknown):
        cut_graph.create_branch("more")
    assert "more" in {branch.name for branch in cut_graph.branches()}


@pytest.mark.parametrize("fate", ["refuse", "cut"])
def test_a_read_is_repeated_twice(cut_graph: Graph, proxy: _Proxy, fate: str) -> None:
    proxy.plan = [fate, fate]
    assert cut_graph.query(ALL).row_count == 2
    proxy.plan = [fate, fate, fate]
    with pytest.raises(ServerUnavailable):
        cut_graph.query(ALL)
    assert cut_graph.query(ALL).row_count == 2


def test_half_an_answer_is_no_answer(cut_graph: Graph, proxy: _Proxy) -> None:
    proxy.plan = ["half"] * 3
    with pytest.raises(ServerUnavailable):
        list(cut_graph.export())


def test_a_server_that_is_not_there() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(ServerUnavailable, match="cannot be reached"):
            omnigraph.open(f"http://127.0.0.1:{port}/graphs/g", token="t", timeout=5)  # noqa: S106  no secret


# --------------------------------------------------------------------------------------------- tokens and URLs


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("OMNIGRAPH_TOKEN", raising=False)
    return tmp_path


def test_where_a_token_comes_from(
    home: Path, server: ServerProcess, template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.add(template)
    with pytest.raises(Unauthorized):
        omnigraph.open(url)
    keep_token(server.origin, server.token)
    assert credentials_path().is_relative_to(home)
    assert credentials_path().stat().st_mode & 0o777 == 0o600
    assert omnigraph.open(url).info().format == 4
    monkeypatch.setenv("OMNIGRAPH_TOKEN", "wrong")
    with pytest.raises(Unauthorized):
        omnigraph.open(url)
    assert server.token not in repr(omnigraph.open(url, token=server.token))
    monkeypatch.delenv("OMNIGRAPH_TOKEN")
    credentials_path().chmod(0o640)
    with pytest.raises(ParameterError, match="others can read"):
        omnigraph.open(url)
    credentials_path().chmod(0o600)
    assert forget_token(server.origin)
    assert not forget_token(server.origin)
    with pytest.raises(Unauthorized):
        omnigraph.open(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://graphs.example.org/graphs/brain",
        "http://10.0.0.1/graphs/brain",
        "https://user:secret@host/graphs/brain",
        "https:///graphs/brain",
        "https://host:port/graphs/brain",
        "https://host/graphs/",
        "https://host/graphs/a/b",
        "https://host/brain",
        "https://host/graphs/brain?x=1",
    ],
)
def test_urls_that_are_refused(home: Path, url: str) -> None:
    del home
    with pytest.raises(ParameterError) as caught:
        omnigraph.open(url, token="t")  # noqa: S106  no secret
    assert "secret" not in str(caught.value)


def test_urls_that_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_graph_url("http://localhost:8080").text == "http://localhost:8080/graphs/default"
    assert parse_graph_url("HTTPS://host/prefix/graphs/brain/").text == "https://host/prefix/graphs/brain"
    assert parse_graph_url("http://[::1]:80/graphs/b").origin == "http://[::1]:80"
    monkeypatch.setenv("OMNIGRAPH_INSECURE", "1")
    assert parse_graph_url("http://graphs.example.org/graphs/b").origin == "http://graphs.example.org"


@contextmanager
def answering(text: bytes) -> Generator[str]:
    """A server that gives the same answer to everything."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            _read_request(self.request)
            self.request.sendall(text)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as running:
        running.daemon_threads = True
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}/graphs/g"
        running.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "text",
    [
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
        b"HTTP/1.1 500 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]",
        b"nonsense",
    ],
)
def test_answers_of_other_servers(text: bytes) -> None:
    with answering(text) as url, pytest.raises(OmniGraphError) as caught:
        omnigraph.open(url, token="t", timeout=SECONDS)  # noqa: S106  no secret
    assert isinstance(caught.value, ServerUnavailable)


def test_settings_of_a_graph_on_a_disk_are_refused(server: ServerProcess) -> None:
    for given in ({"actor": "x"}, {"storage_options": {"a": "b"}}, {"durability": "process"}, {"memory": "1GB"}):
        with pytest.raises(OmniGraphError):
            omnigraph.open(f"{server.origin}/graphs/first", token=server.token, **given)  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        omnigraph.open(os.curdir, token="t")  # noqa: S106  no secret
