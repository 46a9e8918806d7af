"""A file that is loaded is never in memory as a whole."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import omnigraph
from tests import crash

SCHEMA = "node Page { text: String }"
MEGABYTE = 1024 * 1024


def _private_memory() -> int:
    """The memory of this process that no file stands for."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon"))


def load_and_watch(graph: str, source: str) -> int:
    """How much memory a load took at most, beyond what was in use before it."""
    opened = omnigraph.open(graph)
    opened.load([{"type": "Page", "data": {"text": "warm"}}])
    before, peak, done = _private_memory(), 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.01):
            peak = max(peak, _private_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    opened.load(source)
    done.set()
    watcher.join()
    return peak - before


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    omnigraph.init(tmp_path / "g.og", SCHEMA)
    used: list[int] = []
    for megabytes in (100, 600):
        source = tmp_path / f"{megabytes}.jsonl"
        line = b'{"type": "Page", "data": {"text": "%s"}}\n' % (b"x" * 10_000)
        with source.open("wb") as file:
            file.writelines(line for _ in range(megabytes * 100))
        used.append(crash.run(load_and_watch, str(tmp_path / "g.og"), str(source)))
        source.unlink()
    small, large = used
    assert large < small + 150 * MEGABYTE, [size // MEGABYTE for size in used]
