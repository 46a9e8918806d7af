"""A real server behind TLS, and clients that mean no good: slow, large, malformed, with forged names and addresses."""

from __future__ import annotations

import gzip
import io
import socket
import ssl
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import orjson
import pytest

from omnigraph.server import Role, create_token
from omnigraph.server.routes import ROUTES
from tests.server.live import WAIT, LiveServer, start_server, wait_until

pytestmark = pytest.mark.costly

# Whatever the process connects to is told on stderr.
WATCHED = """
import sys
def watch(event, arguments):
    if event == "socket.connect":
        print("CONNECT", arguments[1], file=sys.stderr, flush=True)
sys.addaudithook(watch)
from omnigraph.cli.app import main
sys.exit(main(sys.argv[1:]))
"""
PAGE = "https://tools.example.org"
CONFIG = """
version: 1
bind: 127.0.0.1:0
tokens: tokens.json
tls: {{cert: cert.pem, key: key.pem}}
cors: [{page}]
trusted_proxies: [127.0.0.0/8]
audit: {{file: audit.jsonl}}
limits: {{header_seconds: 1, body_window_seconds: 1, failed_logins: 3, load_decoded_bytes: 1000000}}
graphs: {{brain: {{uri: {graph}}}}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, graph_path: Path) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    words = "req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    subprocess.run(["openssl", *words.split(), *files], check=True, capture_output=True)
    (folder / "server.yaml").write_text(CONFIG.format(page=PAGE, graph=graph_path))
    return folder


@pytest.fixture(scope="module")
def token(folder: Path) -> str:
    return create_token(folder / "tokens.json", "act-ann", Role.ADMIN, None, None)[1]


@pytest.fixture(scope="module")
def server(folder: Path, token: str) -> Generator[LiveServer]:
    assert token
    with start_server("--config", str(folder / "server.yaml"), program=WATCHED) as server:
        yield server


@pytest.fixture(scope="module")
def http(server: LiveServer, folder: Path, token: str) -> Generator[httpx.Client]:
    trust = ssl.create_default_context(cafile=str(folder / "cert.pem"))
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=server.url, timeout=WAIT, headers=headers, verify=trust) as http:
        yield http


@contextmanager
def connect(server: LiveServer) -> Generator[socket.socket]:
    """A bare connection: what goes over it need not be HTTP."""
    url = httpx.URL(server.url)
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((url.host, url.port or 0), WAIT) as plain,
        trust.wrap_socket(plain) as connection,
    ):
        yield connection


def read_answer(connection: socket.socket) -> tuple[int, dict[str, object]]:
    """The status and the JSON of an answer, after which the server ends the connection."""
    data = b""
    while part := connection.recv(1 << 16):
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), orjson.loads(body)


def test_it_speaks_tls(server: LiveServer, http: httpx.Client) -> None:
    assert server.url.startswith("https://")
    assert http.get("/whoami").json()["actor"] == "act-ann"
    with pytest.raises(httpx.TransportError):
        httpx.get(server.url.replace("https", "http"), timeout=WAIT)


@pytest.mark.parametrize(
    "sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: 127", b"GET /healthz HTTP/1.1\r\nHost: l\r\nX: 1"]
)
def test_headers_that_do_not_come_to_an_end(server: LiveServer, sent: bytes) -> None:
    with connect(server) as connection:
        connection.sendall(sent)
        status, body = read_answer(connection)
    assert (status, body["type"]) == (408, "headers_too_slow")


def test_a_second_request_has_its_time_too(server: LiveServer) -> None:
    with connect(server) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        first = b""
        while b'"request_id"' not in first:
            first += connection.recv(1 << 16)
        connection.sendall(b"GET /healthz HTTP/1.1\r\n")
        status, body = read_answer(connection)
    assert (status, body["type"]) == (408, "headers_too_slow")


def test_a_body_that_trickles(server: LiveServer, token: str) -> None:
    lines = ["POST /graphs/brain/query HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}"]
    head = "\r\n".join([*lines, "Content-Type: application/json", "Content-Length: 100000", "", ""])
    with connect(server) as connection:
        connection.sendall(head.encode() + b'{"query": "')
        status, body = read_answer(connection)
    assert (status, body["type"]) == (408, "body_too_slow")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /" + b"x" * 2_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", {431}),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 2_000_000 + b"\r\n\r\n", {431}),
        (b"\x16\x03\x01 nonsense\r\n\r\n", {400}),
        # One parser of uvicorn asks for a host itself, the other leaves it to our check of its name.
        (b"GET /healthz HTTP/1.1\r\n\r\n", {400, 421}),
        (b"POST /session HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", {400}),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n", {400, 421}),
    ],
    ids=["line", "header", "bytes", "no-host", "length", "two-hosts"],
)
def test_what_is_no_proper_request(server: LiveServer, sent: bytes, status: set[int]) -> None:
    with connect(server) as connection:
        connection.sendall(sent)
        found, body = read_answer(connection)
    assert found in status
    assert {"error", "code", "type", "request_id"} <= set(body)


def test_a_name_that_is_not_ours(http: httpx.Client) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "xn--lcalhost-54a"):
        for path in ("/", "/healthz", "/graphs/brain", "/graphs/brain/mcp", "/assets/icon.svg"):
            answer = http.get(path, headers={"Host": host})
            assert (answer.status_code, answer.json()["type"]) == (421, "wrong_host")


def test_which_pages_may_ask(http: httpx.Client) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    nobody = {"Authorization": ""}
    for path in ("/graphs/brain/query", "/graphs/brain/mcp", "/graphs/nowhere"):
        allowed = http.options(path, headers={**asked, **nobody, "Origin": PAGE})
        assert allowed.status_code == 204
        assert allowed.headers["access-control-allow-origin"] == PAGE
        assert "Authorization" in allowed.headers["access-control-allow-headers"]
        for other in ("https://evil.example", f"{PAGE}.evil.example", "http://tools.example.org", "null"):
            refused = http.options(path, headers={**asked, **nobody, "Origin": other})
            assert refused.status_code == 403
            assert "access-control-allow-origin" not in refused.headers
    answer = http.get("/graphs/brain", headers={"Origin": PAGE})
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert answer.headers["access-control-expose-headers"] == "ETag, X-Request-Id, Omnigraph-Commit"
    assert "access-control-allow-credentials" not in answer.headers
    assert "Origin" in answer.headers["vary"]
    assert "access-control-allow-origin" not in http.get("/graphs/brain").headers


def test_a_bomb_is_not_unpacked(server: LiveServer, http: httpx.Client) -> None:
    before = read_resident(server)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=9) as file:
        for _ in range(256):
            file.write(b"0" * (1 << 20))
    answer = http.post(
        "/graphs/brain/load", content=packed.getvalue(), headers={"Content-Type": "application/x-ndjson"}
    )
    assert answer.status_code == 413, answer.text
    deep = http.post(
        "/graphs/brain/query", content=b'{"params": ' + b"[" * 100_000, headers={"Content-Type": "application/json"}
    )
    assert deep.status_code == 400
    assert read_resident(server) - before < 64 << 20


def read_resident(server: LiveServer) -> int:
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) << 10


def test_whose_word_about_addresses_counts(http: httpx.Client, folder: Path) -> None:
    # The client is a trusted proxy here: what it says last that is no proxy is who asked.
    for _ in range(3):
        wrong = {"Authorization": "Bearer x", "X-Forwarded-For": "10.9.9.9, 203.0.113.7"}
        assert http.get("/whoami", headers=wrong).status_code == 401
    limited = http.get("/whoami", headers={"X-Forwarded-For": "1.2.3.4, 203.0.113.7"})
    assert limited.status_code == 429
    assert http.get("/whoami", headers={"X-Forwarded-For": "10.9.9.9"}).status_code == 200

    def list_addresses() -> list[str]:
        lines = (folder / "audit.jsonl").read_bytes().splitlines(keepends=True)
        return [orjson.loads(line)["address"] for line in lines if line.endswith(b"\n")]

    # A line is written when its answer has been sent.
    wait_until(lambda: "10.9.9.9" in list_addresses())
    assert list_addresses()[-5:] == ["203.0.113.7"] * 4 + ["10.9.9.9"]


def test_every_answer_keeps_browsers_from_guessing(http: httpx.Client) -> None:
    for route in ROUTES:
        path = route.path.replace("{graph_id}", "brain").replace(":path", "")
        # Without a token: the walk shall change nothing.
        answer = http.request(route.method, path, headers={"Authorization": "", "X-Forwarded-For": "198.51.100.1"})
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["x-request-id"]
    page = http.get("/ui/brain")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"


def test_the_token_is_nowhere_in_clear(http: httpx.Client, server: LiveServer, folder: Path, token: str) -> None:
    wrong = http.post("/graphs/brain/query", json={"query": token})
    # What a client sends as a query comes back to it, in the line that is wrong, and to nobody else.
    assert wrong.status_code == 400
    texts = [http.get("/metrics").text, http.get("/graphs/brain").text, "\n".join(server.lines)]
    texts += [file.read_text("utf-8", "replace") for file in folder.rglob("*") if file.is_file()]
    texts += [Path(f"/proc/{server.pid}/{name}").read_text() for name in ("cmdline", "environ")]
    assert any("act-ann" in text for text in texts)
    assert not any(token in text for text in texts)


def test_nothing_calls_out(http: httpx.Client, server: LiveServer) -> None:
    body = {"query": "query q() { match { $p: Person } return { $p.name } }"}
    assert http.post("/graphs/brain/query", json=body).status_code == 200
    assert (
        http.post("/graphs/brain/load", json={"data": '{"type": "City", "data": {"name": "kiel"}}'}).status_code == 200
    )
    assert not [line for line in server.lines if line.startswith("CONNECT")]
