"""Several workers: one that dies is replaced, what it was doing is healed, and signals reach all of them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
from pathlib import Path

import httpx
import pytest

import omnigraph
from tests.selection import sized
from tests.server.live import WAIT, LiveServer, list_workers, read_command, start_server, wait_until
from tests.warm_programs import start_interpreter

ADD = "query add($n: String) { insert City { name: $n } }"
CITIES = "query all() { match { $c: City } return { $c.name as name } }"


def send(server: LiveServer, method: str, path: str, token: str, **options: object) -> httpx.Response | None:
    """Send a request over a connection of its own, to whichever worker takes it; None if it was cut off."""
    headers = {"Authorization": f"Bearer {token}", **options.pop("headers", {})}  # type: ignore[dict-item]
    try:
        return httpx.request(method, f"{server.url}{path}", headers=headers, timeout=WAIT, **options)  # type: ignore[arg-type]
    except httpx.TransportError:
        return None


def count_requests(server: LiveServer, token: str) -> float:
    answer = send(server, "GET", "/metrics", token)
    assert answer is not None
    found = re.findall(r'^omnigraph_requests_total\{[^}]*route="/whoami"[^}]*\} (\S+)$', answer.text, re.M)
    return sum(map(float, found))


def test_workers_are_replaced_and_share_what_they_know(graph_path: Path, tmp_path: Path) -> None:
    config = tmp_path / "server.yaml"
    text = f"version: 1\nbind: 127.0.0.1:0\nworkers: 2\nstate: state\ngraphs: {{brain: {{uri: {graph_path}}}}}\n"
    config.write_text(text)
    with start_server("--config", str(config), start=start_interpreter) as server:
        token = httpx.post(f"{server.url}/session", json={"code": server.code}, timeout=WAIT).json()["token"]
        workers = list_workers(server)
        assert len(workers) == 2
        for _ in range(10):
            answer = send(server, "GET", "/whoami", token)
            assert answer is not None
            assert answer.status_code == 200
        assert count_requests(server, token) == 10
        # A configuration that cannot be used keeps a new worker out, and the old ones go on.
        config.write_text(text + "grafs: {}\n")
        os.kill(workers[0], signal.SIGKILL)
        server.wait_for("a worker cannot start; it is tried again")
        ready = send(server, "GET", "/readyz", token)
        assert ready is not None
        assert ready.status_code == 200
        config.write_text(text + "limits: {rows: 1}\n")
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: len(list_workers(server)) == 2)
        assert list_workers(server)[0] != workers[0]

        # Each worker, old or new, has the new limit and knows the session; counts of dead workers are kept.
        def is_limited() -> bool:
            found = send(server, "POST", "/graphs/brain/query", token, json={"query": CITIES.replace("City", "Person")})
            return found is not None and found.status_code == 413

        wait_until(is_limited)
        assert count_requests(server, token) == 10
        with (
            server.client(token) as http,
            http.stream("GET", "/graphs/brain/changes?start=now", headers={"Accept": "text/event-stream"}) as events,
        ):
            lines = events.iter_lines()
            assert next(lines).startswith("retry")
            server.process.send_signal(signal.SIGTERM)
            assert "event: bye" in list(lines)
        assert server.process.wait(WAIT) == 0
        assert not list((tmp_path / "state" / "metrics").iterdir())


@pytest.mark.slow
def test_no_write_is_lost_or_doubled_when_workers_die(graph_path: Path, tmp_path: Path) -> None:
    graph = tmp_path / "brain.og"
    shutil.copytree(graph_path, graph)
    writers, writes, kills = 3, sized(4, 40), sized(2, 12)
    made = threading.Semaphore(0)
    problems: list[str] = []
    with start_server("--workers", "2", graph=graph, start=start_interpreter) as server:
        token = server.token

        def write(writer: int) -> None:
            for number in range(writes):
                name = f"w{writer}-{number}"
                body = {"query": ADD, "params": {"n": name}, "retries": 20}
                while True:
                    answer = send(
                        server, "POST", "/graphs/brain/mutate", token, json=body, headers={"Idempotency-Key": name}
                    )
                    if answer is not None and answer.status_code == 200:
                        made.release()
                        break
                    if answer is not None and answer.status_code not in (409, 429, 503):
                        problems.append(answer.text)
                        break

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
        for thread in threads:
            thread.start()
        for _ in range(kills):
            # The oldest worker: it is in the middle of something.
            assert made.acquire(timeout=WAIT)
            os.kill(list_workers(server)[0], signal.SIGKILL)
        for thread in threads:
            thread.join(WAIT)
        assert not problems
        assert server.stop() == 0
    names = [row["name"] for row in omnigraph.open(graph).query(CITIES).rows]
    expected = {f"w{writer}-{number}" for writer in range(writers) for number in range(writes)}
    assert set(names) - {"ulm"} == expected
    assert len(names) == len(expected) + 1


@pytest.mark.slow
def test_workers_do_not_outlive_their_supervisor(graph_path: Path) -> None:
    with start_server("--workers", "2", graph=graph_path, start=start_interpreter) as server:
        assert server.url
        workers = list_workers(server)
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: not any(read_command(pid) for pid in workers))


@pytest.mark.parametrize("words", [("--workers", "0"), ("--tls-cert", "cert.pem")])
def test_wrong_words_are_refused(graph_path: Path, words: tuple[str, ...]) -> None:
    with start_server(*words, graph=graph_path) as server:
        assert server.process.wait(WAIT) == 2
