"""A worker dies by SIGKILL at durable writes of requests, or the connection is cut: a repeated key is one commit."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest

import omnigraph
from omnigraph.server import Role, create_token
from omnigraph.storage.failpoints import When, record_writes
from tests.crash import every_crash
from tests.server.live import WAIT, LiveServer, list_workers, start_server, wait_until
from tests.warm_programs import start_interpreter

pytestmark = pytest.mark.costly

ADD = "query add($n: String) { insert City { name: $n } }"
CITIES = "query all() { match { $c: City } return { $c.name as name } }"
LOAD = '{"type": "City", "data": {"name": "bonn"}}\n{"edge": "LivesIn", "from": "bob", "to": "bonn"}\n'
BODIES: dict[str, dict[str, object]] = {
    "mutate": {"query": ADD, "params": {"n": "bonn"}},
    "load": {"data": LOAD, "mode": "merge"},
    "merges": {"source": "review"},
}


# Each worker that is started gets the failpoint of the next file, once that is there: no worker comes unasked.
ARMED = """
import itertools, os, pathlib, sys, time
from omnigraph.cli.app import main
from omnigraph.server.process import workers
plans = pathlib.Path(sys.argv.pop(1))
numbers = itertools.count()
start = workers._Worker.start
def start_armed(self):
    plan = plans / str(next(numbers))
    while not plan.exists():
        time.sleep(0.01)
    os.environ["OMNIGRAPH_FAILPOINT"] = plan.read_text()
    start(self)
    del os.environ["OMNIGRAPH_FAILPOINT"]
workers._Worker.start = start_armed
sys.exit(main(sys.argv[1:]))
"""
FAR = 1_000_000
"""The number of a write that is never made."""


@dataclass(frozen=True)
class Kill:
    """Where in a request a worker dies."""

    route: str
    number: int
    when: When

    @property
    def graph_id(self) -> str:
        return f"{self.route}-{self.number}-{self.when}"


def prepare(template: Path, path: Path) -> Path:
    shutil.copytree(template, path)
    graph = omnigraph.open(path)
    graph.create_branch("review")
    graph.mutate(ADD, params={"n": "bonn"}, branch="review")
    graph.close()
    return path


def list_kills(template: Path, folder: Path, route: str) -> list[Kill]:
    """The durable writes of the same verb in this process, and where to die at them. Opening a graph makes none."""
    path = prepare(template, folder / f"{route}-recorded.og")
    lines = folder / "lines.jsonl"
    lines.write_text(LOAD)
    with record_writes() as steps, omnigraph.open(path) as graph:
        assert not steps
        if route == "mutate":
            graph.mutate(ADD, params={"n": "bonn"})
        elif route == "load":
            graph.load(lines, mode="merge")
        else:
            graph.merge("review")
    return [Kill(route, number, when) for number, when in every_crash(steps)]


@contextmanager
def pause(pid: int) -> Generator[None]:
    """Stop a process for a while."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def post(server: LiveServer, kill: Kill, token: str) -> httpx.Response | None:
    """Send the request of a kill over a connection of its own; None if it was cut off."""
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "the-key"}
    url = f"{server.url}/graphs/{kill.graph_id}/{kill.route}"
    try:
        return httpx.post(url, json=BODIES[kill.route], headers=headers, timeout=WAIT)
    except httpx.TransportError:
        return None


def die_one_after_the_other(template: Path, folder: Path, kills: Sequence[Kill]) -> None:
    """Kill a worker at each point, on a graph of its own; the other worker goes on and is the same all the time."""
    plans = folder / "plans"
    plans.mkdir()
    paths = {kill: prepare(template, folder / f"{kill.graph_id}.og") for kill in kills}
    token = create_token(folder / "tokens.json", "act-me", Role.WRITE, None, None)[1]
    graphs = "".join(f"  {kill.graph_id}: {{uri: {path}}}\n" for kill, path in paths.items())
    config = folder / "server.yaml"
    config.write_text(f"version: 1\nbind: 127.0.0.1:0\nworkers: 2\ntokens: tokens.json\ngraphs:\n{graphs}")

    def plan(worker: int, number: int, when: When) -> None:
        made = plans / f"{worker}.made"
        made.write_text(f"kill:{when}:{number}")
        made.rename(plans / str(worker))

    plan(0, kills[0].number, kills[0].when)
    plan(1, FAR, "before")
    armed = partial(start_server, program=ARMED, arguments=(str(plans),), start=start_interpreter)
    with armed("--config", str(config)) as server:
        assert server.url
        mortal, other = list_workers(server)
        for number, kill in enumerate(kills):
            with pause(other):
                assert post(server, kill, token) is None, f"not killed: {kill}"
                server.wait_for(f"worker {mortal} ended with -9 and is replaced")
            # Nobody but the other worker is there.
            again = post(server, kill, token)
            assert again is not None, kill
            assert again.status_code == 200, (kill, again.text)
            third = post(server, kill, token)
            assert third is not None, kill
            assert (third.json()["commit"], third.json()["replayed"]) == (again.json()["commit"], True), kill
            assert list_cities(paths[kill]) == ["bonn", "ulm"], kill
            assert list_workers(server) == [other]
            for following in kills[number + 1 : number + 2]:
                plan(number + 2, following.number, following.when)
                wait_until(lambda: len(list_workers(server)) == 2)
                mortal = next(pid for pid in list_workers(server) if pid != other)


def list_cities(path: Path) -> list[str]:
    return sorted(str(row["name"]) for row in omnigraph.open(path).query(CITIES).rows)


def test_killed_at_a_write_the_repeated_key_is_one_commit(graph_template: Path, tmp_path: Path) -> None:
    """In the middle of a load, right before the end of a merge, and when a mutation has ended but not answered."""
    mutation, load, merge = (list_kills(graph_template, tmp_path, route) for route in BODIES)
    die_one_after_the_other(graph_template, tmp_path, [mutation[-1], load[len(load) // 2], merge[-2]])


@pytest.mark.slow
@pytest.mark.parametrize("route", BODIES)
def test_killed_at_every_write_the_repeated_key_is_one_commit(graph_template: Path, tmp_path: Path, route: str) -> None:
    kills = list_kills(graph_template, tmp_path, route)
    # Every worker opens every graph, so not too many of them.
    for first in range(0, len(kills), 8):
        folder = tmp_path / str(first)
        folder.mkdir()
        die_one_after_the_other(graph_template, folder, kills[first : first + 8])


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
