"""A real process: it says where it listens, follows its tokens file, and drains when it is asked to stop."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import httpx

from omnigraph.server import Role, create_token, revoke_token
from tests.server.live import MAIN, WAIT, start_server
from tests.warm_programs import start_interpreter, start_program

# The child serves a query that ends when a file appears: the test, not the clock, says when.
SLOW = """
import sys, pathlib
from omnigraph.cli.app import main
from omnigraph.graph import Graph
from omnigraph.deadlines import check_deadline
gate = pathlib.Path(sys.argv.pop(1))
read = Graph.query
def query(self, *args, **kwargs):
    (gate / "began").touch()
    while not (gate / "go").exists():
        check_deadline()
    return read(self, *args, **kwargs)
Graph.query = query
sys.exit(main(sys.argv[1:]))
"""


def test_a_token_revoked_and_a_stop_that_waits_for_work(graph_path: Path, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    kept, text = create_token(tokens, "act-ines", Role.READ, None, None)
    gone, other = create_token(tokens, "act-bob", Role.READ, None, None)
    with (
        start_server("--tokens", str(tokens), graph=graph_path, program=SLOW, arguments=(str(tmp_path),)) as server,
        httpx.Client(timeout=WAIT) as http,
    ):

        def get(path: str, token: str) -> httpx.Response:
            return http.get(f"{server.url}{path}", headers={"Authorization": f"Bearer {token}"})

        assert get("/whoami", other).json()["actor"] == "act-bob"
        revoke_token(tokens, gone.id)
        assert get("/whoami", other).status_code == 401
        assert get("/graphs/brain/rows?type=City", text).json()["row_count"] == 1
        body = {"type_names": ["Person", "City"]}
        headers = {"Authorization": f"Bearer {text}"}
        with http.stream("POST", f"{server.url}/graphs/brain/export", json=body, headers=headers) as stream:
            # What fits into one piece is sent whole.
            assert "content-length" in stream.headers
            assert len(list(stream.iter_lines())) == 4
        query = "query q() { match { $c: City } return { $c.name } }"
        program = (
            "import sys, httpx; a = httpx.post(sys.argv[1] + '/graphs/brain/query', json={'query': sys.argv[3]}, "
            "headers={'Authorization': 'Bearer ' + sys.argv[2]}, timeout=60); print(a.status_code, a.json()['rows'])"
        )
        asking = subprocess.Popen(
            [sys.executable, "-c", program, server.url, text, query], stdout=subprocess.PIPE, text=True
        )
        with asking:
            while not (tmp_path / "began").exists():
                assert asking.poll() is None
            server.process.send_signal(signal.SIGTERM)
            while (ready := get("/readyz", text)).status_code == 200:
                pass
            assert ready.json()["status"] == "draining"
            refused = get("/whoami", text)
            assert (refused.status_code, refused.headers["connection"]) == (503, "close")
            (tmp_path / "go").touch()
            answered, _ = asking.communicate(timeout=WAIT)
        assert answered == "200 [{'c.name': 'ulm'}]\n"
        assert server.process.wait(WAIT) == 0
        assert kept.actor == "act-ines"


# A query that reads without end, and does not look whether it shall stop.
ENDLESS = """
import sys
from omnigraph.cli.app import main
from omnigraph.graph import Graph
def query(self, *args, **kwargs):
    dataset = self.snapshot().table("node:Person").dataset
    print("it began", file=sys.stderr, flush=True)
    while True:
        dataset.count_rows("name LIKE '%a%'")
Graph.query = query
sys.exit(main(sys.argv[1:]))
"""


def test_a_second_signal_leaves_work_and_says_so(graph_path: Path) -> None:
    with start_server(graph=graph_path, program=ENDLESS) as server, server.client() as http:

        def ask() -> None:
            with suppress(httpx.TransportError):
                http.post("/graphs/brain/query", json={"query": "query q() { match { $c: City } return { $c.name } }"})

        asking = threading.Thread(target=ask)
        asking.start()
        server.wait_for("it began")
        server.process.send_signal(signal.SIGTERM)
        while httpx.get(f"{server.url}/readyz", timeout=WAIT).status_code == 200:
            pass
        assert server.stop() == 2
        asking.join(WAIT)


def test_zero_configuration_and_a_taken_port(graph_path: Path) -> None:
    with start_server("--as", "act-me", graph=graph_path, start=start_interpreter) as server:
        headers = {"Authorization": f"Bearer {server.token}"}
        me = httpx.get(f"{server.url}/whoami", headers=headers, timeout=WAIT).json()
        assert (me["actor"], me["role"]) == ("act-me", "admin")
        port = server.url.rpartition(":")[2]
        other = subprocess.run(
            [sys.executable, "-m", "omnigraph", "serve", "-g", str(graph_path), "--bind", f"127.0.0.1:{port}"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert other.returncode == 1
        assert "cannot listen at" in other.stderr
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(WAIT) == 0


# The child gets a signal to read its configuration as soon as it has said that it serves.
HURRIED = """
import os, signal, sys
from omnigraph.cli.app import main
from omnigraph.server.process import listen
announce = listen._announce_start
def announce_and_hurry(*args):
    announce(*args)
    os.kill(os.getpid(), signal.SIGHUP)
listen._announce_start = announce_and_hurry
sys.exit(main(sys.argv[1:]))
"""


def test_a_server_that_says_it_serves_can_be_told_to_reload(graph_path: Path) -> None:
    with start_server(graph=graph_path, program=HURRIED) as server, httpx.Client(timeout=WAIT) as http:
        assert http.get(f"{server.url}/healthz").status_code == 200
        assert server.stop() == 0


def test_several_graphs_are_served_by_their_names(graph_path: Path, tmp_path: Path) -> None:
    other = tmp_path / "Trials.og"
    shutil.copytree(graph_path, other)
    with start_server("-g", str(other), graph=graph_path) as server, server.client() as http:
        found = http.get("/graphs").json()["graphs"]
        assert [each["graph_id"] for each in found] == ["brain", "trials"]
        assert http.get("/graphs/trials/rows?type=City").json()["row_count"] == 1
    for words in (["serve", "-g", str(graph_path)], ["info"]):
        refused = start_program(MAIN, [*words, "-g", str(graph_path), "-g", str(other)])
        assert refused.stderr is not None
        with refused.stderr as told:
            assert refused.wait(WAIT) == 2, told.read()
