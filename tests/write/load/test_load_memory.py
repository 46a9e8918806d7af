"""A load never holds a whole file in memory."""

from __future__ import annotations

import threading
from pathlib import Path

import orjson
import pytest

import omnigraph
from tests import crash

SCHEMA = """
node Page { text: String }
node Person { name: String @key  age: I64? }
edge Knows: Person -> Person { since: I64? }
"""
MEGABYTE = 1024 * 1024


def _private_memory() -> int:
    """Return the memory of this process that is not backed by a file."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon"))


def load_and_watch(graph: str, source: str) -> int:
    """Return how much memory a load took at most, beyond what was in use before."""
    opened = omnigraph.open(graph)
    opened.load([{"type": "Page", "data": {"text": "warm"}}])
    opened.load([person(0), person(1), knows(0, 1)], check=True)
    before, peak, done = _private_memory(), 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.01):
            peak = max(peak, _private_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    opened.load(source, indexes="never")
    done.set()
    watcher.join()
    return peak - before


def person(number: int) -> dict[str, object]:
    return {"type": "Person", "data": {"name": f"person-{number}", "age": number % 90}}


def knows(one: int, other: int) -> dict[str, object]:
    return {"edge": "Knows", "from": f"person-{one}", "to": f"person-{other}", "data": {"since": 1}}


def write_people(path: Path, count: int) -> None:
    """Write people, and five edges for each, some to people that come later in the file."""
    with path.open("wb") as file:
        for number in range(count):
            ends = [(number * 7 + step * 1_003) % count for step in range(5)]
            file.writelines(orjson.dumps(knows(number, end), option=orjson.OPT_APPEND_NEWLINE) for end in ends)
            file.write(orjson.dumps(person(number), option=orjson.OPT_APPEND_NEWLINE))


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


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows_that_rules_compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Six million rows take long.
    monkeypatch.setattr(crash, "_PATIENCE", 900.0)
    used: list[int] = []
    for people in (250_000, 1_000_000):
        graph, source = tmp_path / f"{people}.og", tmp_path / f"{people}.jsonl"
        omnigraph.init(graph, SCHEMA)
        write_people(source, people)
        used.append(crash.run(load_and_watch, str(graph), str(source)))
        source.unlink()
    small, large = used
    # The ids of up to a million nodes are held in memory, and a table of their hashes: 130 to 150 MB more than for a
    # quarter of them. Rows that were held would take four times as much.
    assert large < small + 200 * MEGABYTE, [size // MEGABYTE for size in used]
