"""The server dies by SIGKILL at durable writes of requests, or the connection is cut: a repeated key is one commit."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

import omnigraph
from omnigraph.server import ServedGraph, ServerSettings
from omnigraph.storage.failpoints import WriteStep, record_writes
from tests.crash import every_crash
from tests.selection import LARGE
from tests.server.client import open_client
from tests.server.conftest import LIMITS
from tests.server.live import WAIT, LiveServer, start_server

pytestmark = pytest.mark.costly

ADD = "query add($n: String) { insert City { name: $n } }"
CITIES = "query all() { match { $c: City } return { $c.name as name } }"
LOAD = '{"type": "City", "data": {"name": "bonn"}}\n{"edge": "LivesIn", "from": "bob", "to": "bonn"}\n'
BODIES: dict[str, dict[str, object]] = {
    "mutate": {"query": ADD, "params": {"n": "bonn"}},
    "load": {"data": LOAD, "mode": "merge"},
    "merges": {"source": "review"},
}


def prepare(template: Path, path: Path) -> Path:
    shutil.copytree(template, path)
    graph = omnigraph.open(path)
    graph.create_branch("review")
    graph.mutate(ADD, params={"n": "bonn"}, branch="review")
    graph.close()
    return path


def record_steps(template: Path, folder: Path, route: str) -> Sequence[WriteStep]:
    """The durable writes of the same verb in this process, numbered from opening the graph on."""
    path = prepare(template, folder / f"{route}-recorded.og")
    with record_writes() as steps:
        graph = omnigraph.open(path)
        opened = len(steps)
        if route == "mutate":
            graph.mutate(ADD, params={"n": "bonn"})
        elif route == "load":
            graph.load(omnigraph_lines(folder), mode="merge")
        else:
            graph.merge("review")
        graph.close()
    return steps[opened:]


def omnigraph_lines(folder: Path) -> Path:
    path = folder / "lines.jsonl"
    path.write_text(LOAD)
    return path


def post(server: LiveServer, route: str, key: str) -> httpx.Response | None:
    headers = {"Authorization": f"Bearer {server.token}", "Idempotency-Key": key}
    try:
        return httpx.post(f"{server.url}/graphs/brain/{route}", json=BODIES[route], headers=headers, timeout=WAIT)
    except httpx.TransportError:
        return None


def list_cities(path: Path) -> list[str]:
    return sorted(str(row["name"]) for row in omnigraph.open(path).query(CITIES).rows)


@pytest.mark.parametrize(
    "route", ["mutate", pytest.param("load", marks=pytest.mark.slow), pytest.param("merges", marks=pytest.mark.slow)]
)
def test_killed_at_a_write_the_repeated_key_is_one_commit(
    graph_template: Path, tmp_path: Path, runner: asyncio.Runner, route: str
) -> None:
    crashes = list(every_crash(record_steps(graph_template, tmp_path, route)))
    # The commit section dies at every state elsewhere. Here: in the middle, and each day right before the end.
    chosen = crashes if LARGE else [crashes[-2], *([crashes[len(crashes) // 2]] if route != "mutate" else [])]
    for number, when in chosen:
        path = prepare(graph_template, tmp_path / f"{number}-{when}" / "brain.og")
        died = {**os.environ, "OMNIGRAPH_FAILPOINT": f"kill:{when}:{number}"}
        with start_server("--as", "act-me", graph=path, environment=died) as server:
            answer = post(server, route, "the-key")
            assert answer is None, f"not killed {when} write {number}"
            assert server.process.wait(WAIT) == -signal.SIGKILL
        # The key is in the graph: any server on any machine knows it.
        settings = ServerSettings((ServedGraph("brain", str(path)),), actor="act-me", limits=LIMITS)
        client = open_client(settings, runner)
        again = client.send("POST", route, BODIES[route], headers={"Idempotency-Key": "the-key"})
        assert again.status_code == 200, again.text
        third = client.send("POST", route, BODIES[route], headers={"Idempotency-Key": "the-key"}).json()
        assert (third["commit"], third["replayed"]) == (again.json()["commit"], True)
        client.close()
        assert list_cities(path) == ["bonn", "ulm"]


def test_a_connection_that_is_cut_after_the_request(graph_template: Path, tmp_path: Path) -> None:
    """The client goes away without the answer: it asks by its key, or sends the request again."""
    path = tmp_path / "brain.og"
    shutil.copytree(graph_template, path)
    with start_server("--as", "act-me", graph=path) as server, server.client() as http:
        url = httpx.URL(server.url)
        body = b'{"query": "%s", "params": {"n": "bonn"}}' % ADD.encode()
        head = (
            f"POST /graphs/brain/mutate HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n"
            f"Content-Type: application/json\r\nIdempotency-Key: cut\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        with socket.create_connection((url.host, url.port or 0), WAIT) as connection:
            connection.sendall(head.encode() + body)
        # It may have committed, or been cancelled before: either way the key tells.
        commits = http.get("/graphs/brain/commits?key=cut").json()["commits"]
        again = http.post(
            "/graphs/brain/mutate", json={"query": ADD, "params": {"n": "bonn"}}, headers={"Idempotency-Key": "cut"}
        )
        # The same bytes: a body with other spaces is another request.
        assert again.status_code in (200, 409)
        same = http.post(
            "/graphs/brain/mutate",
            content=body,
            headers={"Idempotency-Key": "cut", "Content-Type": "application/json"},
        )
        made = [each.json()["commit"] for each in (again, same) if each.status_code == 200]
        assert made, (again.text, same.text)
        assert all(each["id"] in made for each in commits)
        assert server.stop() == 0
    assert list_cities(path) == ["bonn", "ulm"]
