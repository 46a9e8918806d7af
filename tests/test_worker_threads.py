"""Threads that write while the interpreter exits: Python starts no new work in pools then."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import omnigraph
from omnigraph.worker_threads import WorkerThreads

PROGRAM = """
import sys, threading
import omnigraph

schema = "node Port { code: String @key @index }  edge Leg: Port -> Port"
graph = omnigraph.init(sys.argv[1], schema, durability="power")

def write_late():
    threading.main_thread().join()
    graph.mutate('query add() { insert Port { code: "ams" } }')
    rows = [{"type": "Port", "data": {"code": code}} for code in ("bcn", "cph")]
    graph.load([*rows, {"edge": "Leg", "from": "bcn", "to": "cph"}])
    graph.ensure_indexes()

threading.Thread(target=write_late).start()
"""


def test_a_thread_that_writes_while_the_interpreter_exits_commits(tmp_path: Path) -> None:
    root = tmp_path / "graph.og"
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(root)], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    info = omnigraph.open(root, "ro").info()
    assert (info.nodes, info.edges) == ({"Port": 3}, {"Leg": 1})


def test_a_pool_that_was_ended_takes_no_more_work() -> None:
    with WorkerThreads(1) as threads:
        assert threads.submit(len, "work").result() == 4
    with pytest.raises(RuntimeError, match="after shutdown"):
        threads.submit(len, "work")


def test_work_for_which_no_thread_can_be_started_runs_once_at_most() -> None:
    is_free, runs = threading.Event(), list[str]()
    with WorkerThreads(2) as threads:
        threads.submit(is_free.wait, 60)
        size = threading.stack_size(1 << 46)
        try:
            with pytest.raises(RuntimeError, match="can't start new thread"):
                threads.submit(lambda: runs.append(threading.current_thread().name))
        finally:
            threading.stack_size(size)
            is_free.set()
    assert len(runs) <= 1
