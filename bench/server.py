"""What HTTP adds: a warm query and a mutation over a server beside the same call in the process, and rows as Arrow.

``python -m bench.server`` prints CPU milliseconds of the server and of the client: waiting depends on the machine.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

import omnigraph
from omnigraph.graph import Graph

SCHEMA = "node Person { name: String @key  age: I64  score: F64 }\nnode Note { text: String }"
QUERY = "query old($age: I64) { match { $p: Person  $p.age = $age } return { $p.name, $p.score } limit 20 }"
ADD = "query add($text: String) { insert Note { text: $text } }"
ROWS = int(os.environ.get("OMNIGRAPH_BENCH_ROWS", "2000000"))
ROUNDS = int(os.environ.get("OMNIGRAPH_BENCH_ROUNDS", "200"))
_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(path: Path) -> Generator[tuple[str, int]]:
    """Serve a graph in a process of its own; yield its URL and the id of the process."""
    command = [
        sys.executable,
        "-m",
        "omnigraph",
        "serve",
        "-g",
        str(path),
        "--bind",
        "127.0.0.1:0",
        "--unauthenticated",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"at (http://\S+)", process.stderr.readline())
        assert found is not None
        try:
            yield found.group(1), process.pid
        finally:
            process.terminate()


def cpu_of(pid: int) -> float:
    """The CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def measure(call: Callable[[int], object], pid: int | None) -> tuple[float, float]:
    """The CPU milliseconds of a call: of this process, and of the server."""
    for number in range(20):
        call(-number - 1)
    here, there = time.process_time(), 0.0 if pid is None else cpu_of(pid)
    for number in range(ROUNDS):
        call(number)
    spent = time.process_time() - here, 0.0 if pid is None else cpu_of(pid) - there
    return spent[0] * 1000 / ROUNDS, spent[1] * 1000 / ROUNDS


def print_pair(
    name: str, make: Callable[[Graph], Callable[[int], object]], local: Graph, remote: Graph, pid: int
) -> None:
    """Print a call in this process beside the same call over HTTP."""
    inside, _ = measure(make(local), None)
    client, server = measure(make(remote), pid)
    print(
        f"{name:<22} in process {inside:7.2f} ms   over HTTP: server {server:7.2f} ms, client {client:7.2f} ms   "
        f"added to the server {server - inside:+6.2f} ms"
    )


def print_rows(local: Graph, remote: Graph, pid: int) -> None:
    """Print how fast the rows of a type come as Arrow."""
    began = time.process_time()
    megabytes = local.nodes("Person").to_arrow().nbytes / 1e6
    inside = time.process_time() - began
    clock, cpu = time.perf_counter(), cpu_of(pid)
    remote.nodes("Person").to_arrow()
    clock, cpu = time.perf_counter() - clock, cpu_of(pid) - cpu
    print(
        f"Arrow rows, {megabytes:.0f} MB: in process {megabytes / inside:.0f} MB per CPU second; over HTTP "
        f"{megabytes / cpu:.0f} MB per CPU second of the server, {megabytes / clock:.0f} MB/s on the clock"
    )


def main() -> None:
    """Build a graph, serve it, and print the lines."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "g.og"
        local = omnigraph.init(path, SCHEMA)
        numbers = np.arange(ROWS)
        columns = {
            "name": pa.array(numbers.astype(str)),
            "age": pa.array(numbers % 5000),
            "score": pa.array(numbers / 7),
        }
        table = pa.table(columns)
        local.load(nodes={"Person": table}, indexes="never")
        with serving(path) as (url, pid), omnigraph.open(url, timeout=600) as remote:
            print_pair(
                "warm query, 20 rows",
                lambda g: lambda n: g.query(QUERY, params={"age": n % 3}).rows,
                local,
                remote,
                pid,
            )
            print_pair(
                "mutation, 1 row", lambda g: lambda n: g.mutate(ADD, params={"text": str(n)}), local, remote, pid
            )
            print_rows(local, remote, pid)


if __name__ == "__main__":
    main()
