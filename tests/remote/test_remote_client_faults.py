"""What a client meets between two answers: a stream that is cut, a server that went, tokens that end, wrong TLS."""

from __future__ import annotations

import socketserver
import ssl
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import DeadlineExceeded, OmniGraphError, ServerUnavailable, Unauthorized
from omnigraph.graph import Graph
from omnigraph.server import Role, create_token, revoke_token
from tests import crash
from tests.remote.conftest import ADD
from tests.remote.served import SECONDS, TOKENS, ServerProcess, start_process
from tests.remote.test_remote_faults import _Proxy as Proxy
from tests.remote.test_remote_faults import answering

ALL = "query all() { match { $p: Person } return { $p.name } }"
ROWS = 400_000
# In this order: the body of a server that will be back, and of a graph.
BUSY = b'{"error": "the server is about to stop", "type": "server_unavailable", "retry_after": 1, "request_id": "r"}'


@contextmanager
def proxying(origin: str) -> Generator[Proxy]:
    with Proxy(origin) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def check_hint(error: OmniGraphError) -> None:
    assert error.hint, error


def test_a_stream_of_arrow_that_is_cut(server: ServerProcess, folder: Path) -> None:
    with omnigraph.open(folder) as local:
        local.load(nodes={"Person": pa.table({"name": [f"person {number}" for number in range(ROWS)]})})
    with proxying(server.origin) as proxy:
        url = server.add(folder).replace(server.origin, proxy.origin)
        graph = omnigraph.open(url, token=server.token, timeout=SECONDS)
        proxy.plan = ["half"]
        rows = graph.nodes("Person", columns=["name"])
        with pytest.raises(ServerUnavailable, match="ended early") as caught:
            rows.to_arrow()
        check_hint(caught.value)
        # The same rows can be read again.
        assert rows.to_arrow().num_rows > ROWS


def test_a_server_that_is_restarted_between_two_pages(template: Path) -> None:
    """A feed goes on at the new process from where it was: cursors are with the client."""
    root = crash.fresh_copy(template)
    first = start_process(root)
    with proxying(first.origin) as proxy:
        graph = omnigraph.open(f"{proxy.origin}/graphs/first", token=first.token, timeout=SECONDS)
        feed = graph.changes("beginning")
        blocks = iter(feed)
        begun = next(blocks)
        first.stop()
        second = start_process(root)
        proxy.upstream = ("127.0.0.1", int(second.origin.rpartition(":")[2]))
        try:
            again = omnigraph.open(f"{proxy.origin}/graphs/first", token=second.token, timeout=SECONDS)
            with pytest.raises(Unauthorized) as caught:
                list(graph.changes("beginning"))
            check_hint(caught.value)
            rest = [block.commit.id for block in again.changes(cursor=begun.cursor)]
            local = [block.commit.id for block in omnigraph.open(root, "ro").changes("beginning")]
            assert [begun.commit.id, *rest] == local
        finally:
            second.stop()


def test_a_token_that_is_revoked_meanwhile(server: ServerProcess, folder: Path) -> None:
    token, text = create_token(server.folder / TOKENS, "act-guest", Role.READ, None, None)
    graph = omnigraph.open(server.add(folder), token=text, timeout=SECONDS)
    assert graph.query(ALL).row_count == 2
    revoke_token(server.folder / TOKENS, token.id)
    with pytest.raises(Unauthorized) as caught:
        graph.query(ALL)
    check_hint(caught.value)


def test_a_server_that_says_when_to_come_back() -> None:
    busy = b"HTTP/1.1 503 No\r\nContent-Length: %d\r\nRetry-After: 1\r\nConnection: close\r\n\r\n" % len(BUSY)
    with answering(busy + BUSY) as url, pytest.raises(ServerUnavailable, match="about to stop"):
        omnigraph.open(url, token="t", timeout=SECONDS)  # noqa: S106  no secret
    # There is no time to wait for it: that is told at once, as what the server said.
    with answering(busy + BUSY) as url, pytest.raises(ServerUnavailable, match="about to stop"):
        omnigraph.open(url, token="t", timeout=0.9)  # noqa: S106  no secret


class _Silent(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while self.request.recv(1 << 16):
            pass


def test_a_server_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.remote.connection._GRACE_SECONDS", 0.1)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Silent) as running:
        running.daemon_threads = True
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        with pytest.raises(DeadlineExceeded):
            omnigraph.open(f"http://127.0.0.1:{running.server_address[1]}/graphs/g", token="t", timeout=0.3)  # noqa: S106
        running.shutdown()
        thread.join()


def test_a_proxy_that_is_not_there(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(ServerUnavailable) as caught:
        omnigraph.open(f"{server.origin}/graphs/first", token=server.token, timeout=SECONDS)
    assert "HTTP_PROXY" in str(caught.value.hint)


def test_a_certificate_that_nobody_vouches_for(tmp_path: Path) -> None:
    words = "req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    subprocess.run(["openssl", *words.split(), *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Silent) as running:
        running.daemon_threads = True
        running.handle_error = lambda *_: None  # type: ignore[method-assign]
        running.socket = context.wrap_socket(running.socket, server_side=True)
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        port = running.server_address[1]
        with pytest.raises(ServerUnavailable) as caught:
            omnigraph.open(f"https://127.0.0.1:{port}/graphs/g", token="t", timeout=SECONDS)  # noqa: S106  no secret
        assert "SSL_CERT_FILE" in str(caught.value.hint)
        running.shutdown()
        thread.join()


def test_a_write_with_a_key_that_is_cut_and_repeated_happens_once(server: ServerProcess, folder: Path) -> None:
    def add(graph: Graph) -> object:
        return graph.mutate(ADD, params={"name": "once"}, key="k-once").commit

    with proxying(server.origin) as proxy:
        graph = omnigraph.open(server.add(folder).replace(server.origin, proxy.origin), token=server.token, timeout=60)
        before = len(graph.commits())
        proxy.plan = ["cut"]
        assert add(graph) == add(graph)
        assert len(graph.commits()) == before + 1
