"""What HTTP and a policy add: each call over a server beside the same call in this process, with its ceiling.

``python -m bench.server`` prints CPU milliseconds of the server and of the client: waiting depends on the machine. Each
figure is the median of several rounds. The two calls of a line take turns one by one: a call right after its like finds
the caches of the processor as it left them, and one that alternates with another process does not.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median

import httpx
import numpy as np
import orjson
import pyarrow as pa
from starlette.types import ASGIApp, Message

import omnigraph
from omnigraph.graph import Graph
from omnigraph.policy import Action, PolicyQuestion, load_policy
from omnigraph.server import Role, ServedGraph, ServerSettings, build_app, create_token, open_hosting

SCHEMA = "node Person { name: String @key  age: I64  score: F64 }\nnode Note { text: String }"
FIND = "query one($name: String) { match { $p: Person  $p.name = $name } return { $p.name, $p.score } }"
QUERY = "query old($age: I64) { match { $p: Person  $p.age = $age } return { $p.name, $p.score } limit 20 }"
ADD = "query add($text: String) { insert Note { text: $text } }"
POLICY = """
version: 1
groups: {team: [act-ines]}
protected_branches: [release]
rules:
  - {id: team-reads, allow: {actors: {group: team}, actions: [read, export, invoke_query]}}
  - {id: team-writes, allow: {actors: {group: team}, actions: [change], branch_scope: unprotected}}
  - {id: no-secrets, deny: {actors: {any: true}, actions: [read, change], types: ["node:Secret"]}}
"""
ROWS = int(os.environ.get("OMNIGRAPH_BENCH_ROWS", "2000000"))
ROUNDS = int(os.environ.get("OMNIGRAPH_BENCH_ROUNDS", "9"))
CALLS = 25
"""Calls of one round."""
WARM_CALLS = 300
"""Calls before the first round: the engine builds what pays off after some hundred of the same kind."""
CLIENTS = 200


@contextmanager
def serving(path: Path, *words: str) -> Generator[tuple[str, int]]:
    """Serve a graph in a process of its own; yield its URL and the id of the process."""
    command = [sys.executable, "-m", "omnigraph", "serve", "-g", str(path), "--bind", "127.0.0.1:0", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"at (http://\S+)", process.stderr.readline())
        assert found is not None
        try:
            yield found.group(1), process.pid
        finally:
            process.terminate()


def cpu_of(pid: int) -> float:
    """The CPU seconds of a process so far, of all its threads, also of those that ended."""
    # The clock of a process, as clock_getcpuclockid(3) makes its number.
    return time.clock_gettime((~pid << 3) | 2)


def print_pair(name: str, call: Callable[[Graph, int], object], local: Graph, remote: Graph, pid: int) -> None:
    """Print a call in this process beside the same call over HTTP."""
    numbers = count()
    for _ in range(WARM_CALLS):
        call(local, next(numbers))
        call(remote, next(numbers))
    inside, client, server = list[float](), list[float](), list[float]()
    for _ in range(ROUNDS):
        here = there = 0.0
        before = cpu_of(pid)
        for _ in range(CALLS):
            began = time.process_time()
            call(local, next(numbers))
            middle = time.process_time()
            call(remote, next(numbers))
            here += middle - began
            there += time.process_time() - middle
        inside.append(here * 1000 / CALLS)
        client.append(there * 1000 / CALLS)
        # All that the server did meanwhile, also what it does on its own.
        server.append((cpu_of(pid) - before) * 1000 / CALLS)
    added = median(server) - median(inside)
    ceiling = 3.0 if "mutation" in name else 1.5
    print(
        f"{name:<40} in process {median(inside):6.2f} ms   server {median(server):6.2f} ms, client "
        f"{median(client):5.2f} ms   added {added:+6.2f} ms   {judge(added <= ceiling, f'ceiling {ceiling} ms')}"
    )


def judge(is_kept: bool, ceiling: str) -> str:  # noqa: FBT001  one place
    """Say whether a ceiling holds."""
    return f"{ceiling} {'ok' if is_kept else 'MISSED'}"


def print_rows(local: Graph, remote: Graph, pid: int) -> None:
    """Print how fast the rows of a type come as Arrow."""
    inside, cpu, clock = list[float](), list[float](), list[float]()
    megabytes = local.nodes("Person").to_arrow().nbytes / 1e6
    remote.nodes("Person").to_arrow()
    for _ in range(3):
        began = time.process_time()
        local.nodes("Person").to_arrow()
        inside.append(time.process_time() - began)
        at, spent = time.perf_counter(), cpu_of(pid)
        remote.nodes("Person").to_arrow()
        clock.append(time.perf_counter() - at)
        cpu.append(cpu_of(pid) - spent)
    rate = megabytes / median(cpu)
    print(
        f"{f'Arrow rows, {megabytes:.0f} MB':<32} in process {megabytes / median(inside):.0f} MB per CPU second   "
        f"server {rate:.0f} MB per CPU second, {megabytes / median(clock):.0f} MB/s on the clock   "
        f"{judge(rate >= 300, 'ceiling 300 MB per CPU second')}"
    )


async def _send_query(app: ASGIApp, token: str, body: bytes) -> None:
    """Send one request to the application itself, without a socket."""
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/graphs/g/query",
        "query_string": b"",
        "headers": [
            (b"host", b"127.0.0.1"),
            (b"authorization", f"Bearer {token}".encode()),
            (b"content-type", b"application/json"),
            (b"accept", b"application/vnd.apache.arrow.stream"),
        ],
        "client": ("127.0.0.1", 1),
    }
    parts = iter([{"type": "http.request", "body": body, "more_body": False}])
    answers: list[Message] = []

    async def receive() -> Message:
        # After the body nothing comes: the client stays.
        part = next(parts, None)
        return part if part is not None else await asyncio.Future[Message]()

    async def send(message: Message) -> None:
        answers.append(message)

    await app(scope, receive, send)
    assert answers[0]["status"] == 200


def print_application(path: Path) -> None:
    """Print what the application adds to a warm query, in this process: without sockets and the parsing of HTTP."""
    hosting, token = open_hosting(ServerSettings((ServedGraph("g", str(path), read_only=True),)))
    assert token is not None
    app, graph = build_app(hosting), hosting.state.graphs["g"].graph
    body = orjson.dumps({"query": FIND, "params": {"name": "1"}})
    inside, served = list[float](), list[float]()

    with asyncio.Runner() as runner:
        for _ in range(WARM_CALLS // CALLS + ROUNDS):
            here = there = 0.0
            for _ in range(CALLS):
                began = time.process_time()
                list(graph.query(FIND, params={"name": "1"}).batches())
                middle = time.process_time()
                runner.run(_send_query(app, token, body))
                here += middle - began
                there += time.process_time() - middle
            inside.append(here * 1000 / CALLS)
            served.append(there * 1000 / CALLS)
    hosting.close()
    engine, whole = median(inside[-ROUNDS:]), median(served[-ROUNDS:])
    print(
        f"{'warm query, application alone':<32} in process {engine:6.2f} ms   application {whole:6.2f} ms   "
        f"added {whole - engine:+6.2f} ms   {judge(whole - engine <= 1.5, 'ceiling 1.5 ms')}"
    )


async def _crowd(url: str, tokens: list[str]) -> None:
    """Ask queries as many clients, each one after the other, until the process ends."""

    async def ask(number: int) -> None:
        token = tokens[number % len(tokens)]
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=600) as http:
            while True:
                query = {"query": FIND, "params": {"name": str(number % 3)}}
                answer = await http.post(f"{url}/graphs/g/query", json=query)
                assert answer.status_code in (200, 429), answer.text
                # As the server says when it has too much to do.
                await asyncio.sleep(float(answer.headers.get("retry-after", 0)))

    await asyncio.gather(*(ask(number) for number in range(CLIENTS)))


def _run_crowd(url: str, tokens: list[str]) -> None:
    asyncio.run(_crowd(url, tokens))


def print_health(url: str, tokens: list[str], pid: int) -> None:
    """Print what /healthz costs, and how long it takes while a crowd asks queries.

    The crowd is a process of its own: what it waits for itself is not the server's.
    """
    with httpx.Client(base_url=url, timeout=600) as http:
        for _ in range(CALLS):
            http.get("/healthz")
        spent = cpu_of(pid)
        for _ in range(10 * CALLS):
            http.get("/healthz")
        alone = (cpu_of(pid) - spent) * 1000 / (10 * CALLS)
        waits: list[float] = []
        crowd = multiprocessing.get_context("spawn").Process(target=_run_crowd, args=(url, tokens), daemon=True)
        crowd.start()
        spent = cpu_of(pid)
        while cpu_of(pid) < spent + 3:
            # Until the crowd is at work.
            http.get("/healthz")
        for _ in range(40 * CALLS):
            began = time.perf_counter()
            http.get("/healthz")
            waits.append((time.perf_counter() - began) * 1000)
            time.sleep(0.005)
        crowd.terminate()
        crowd.join()
    slow = sorted(waits)[int(0.99 * len(waits))]
    print(
        f"{'/healthz':<32} server {alone:6.2f} ms   beside {CLIENTS} clients: median {median(waits):.1f} ms, "
        f"p99 {slow:.1f} ms on the clock   {judge(slow <= 50, 'ceiling 50 ms')}"
    )


def print_questions() -> None:
    """Print what a question to a policy costs."""
    policy = load_policy(POLICY, "g")
    for name, branch in (("a new question", "branch-{}"), ("asked before", "main")):
        spent: list[float] = []
        for number in range(ROUNDS):
            began = time.process_time()
            for each in range(CALLS):
                policy.decide(PolicyQuestion("act-ines", Action.READ, branch.format(number * CALLS + each)))
            spent.append((time.process_time() - began) * 1000 / CALLS)
        least = median(spent)
        print(f"{f'ask the policy, {name}':<32} {least:8.3f} ms   {judge(least <= 0.3, 'ceiling 0.3 ms')}")


def build(path: Path) -> Graph:
    """Build the graph that is read."""
    graph = omnigraph.init(path, SCHEMA)
    numbers = np.arange(ROWS)
    columns = {
        "name": pa.array(numbers.astype(str)),
        "age": pa.array(numbers % 5000),
        "score": pa.array(numbers / 7),
    }
    graph.load(nodes={"Person": pa.table(columns)}, indexes="never")
    return graph


def main() -> None:
    """Build a graph, serve it with and without a policy, and print the lines."""
    print(f"load of the machine: {os.getloadavg()[0]:.0f}; {ROWS:,} rows; medians of {ROUNDS} x {CALLS} calls")
    print_questions()
    with tempfile.TemporaryDirectory() as folder:
        path, tokens, policy = (Path(folder) / name for name in ("g.og", "tokens.json", "policy.yaml"))
        # A graph of its own: two processes that write one graph in turns read each other's commits.
        local = build(Path(folder) / "local.og")
        build(path).close()
        policy.write_text(POLICY)
        print_application(path)
        token = create_token(tokens, "act-ines", Role.WRITE, None, None)[1]
        crowd = [create_token(tokens, f"act-{number}", Role.READ, None, None)[1] for number in range(20)]
        for name, words in (
            ("", ("--tokens", str(tokens))),
            (", policy", ("--tokens", str(tokens), "--policy", str(policy))),
        ):
            with serving(path, *words) as (url, pid), omnigraph.open(url, token=token, timeout=600) as remote:
                print_pair(
                    f"warm query, 1 row by its key{name}",
                    lambda g, n: g.query(FIND, params={"name": str(n % 3)}).rows,
                    local,
                    remote,
                    pid,
                )
                print_pair(
                    f"warm query, 20 rows of a scan{name}",
                    lambda g, n: g.query(QUERY, params={"age": n % 3}).rows,
                    local,
                    remote,
                    pid,
                )
                print_pair(
                    f"mutation, 1 row{name}", lambda g, n: g.mutate(ADD, params={"text": str(n)}), local, remote, pid
                )
                if not name:
                    print_rows(local, remote, pid)
                    print_health(url, crowd, pid)


if __name__ == "__main__":
    main()
