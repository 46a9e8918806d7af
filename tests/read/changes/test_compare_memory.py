"""What changed is never in memory as a whole, however much it is."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.read.changes.compare_snapshots import read_changes
from omnigraph.storage import tables
from tests import crash
from tests.storage.tables.sample_tables import put

KEY = "node:Page"
MEGABYTE = 1024 * 1024
_ROWS_AT_ONCE = 20_000


def _private_memory() -> int:
    """The memory of this process that no file stands for."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon"))


def diff_and_watch(uri: str, before: int, after: int) -> tuple[int, int]:
    """How many rows changed, and how much memory it took at most to see that, beyond what was in use before."""
    graph = omnigraph.open(uri)
    table = graph.snapshot().table("Page")
    older, newer = (graph.snapshot().with_tables({KEY: table.open_at(version)}) for version in (before, after))
    list(read_changes(graph.snapshot().with_tables({KEY: table.open_at(before + 1)}), older, KEY))
    start, peak, done = _private_memory(), 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.01):
            peak = max(peak, _private_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    changed = sum(part.num_rows for parts in read_changes(older, newer, KEY) for part in parts)
    done.set()
    watcher.join()
    return changed, peak - start


def _pages(count: int, seed: int) -> pa.RecordBatchReader:
    """Pages of about 600 bytes, in an order that says nothing about their ids."""
    chance = Random(seed)  # noqa: S311  no secret
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("name", pa.string(), nullable=False)])
    schema = schema.append(pa.field("text", pa.string()))

    def batches() -> list[pa.RecordBatch]:
        numbers = list(range(count))
        chance.shuffle(numbers)
        parts = [numbers[begin : begin + _ROWS_AT_ONCE] for begin in range(0, count, _ROWS_AT_ONCE)]
        return [_batch(part, seed, schema) for part in parts]

    return pa.RecordBatchReader.from_batches(schema, batches())


def _batch(numbers: list[int], seed: int, schema: pa.Schema) -> pa.RecordBatch:
    ids = pa.array([f"page-{number:08}" for number in numbers])
    texts = pa.array([f"{number % 2 * seed} {number} " * 60 for number in numbers])
    return pa.RecordBatch.from_arrays([ids, ids, texts], schema=schema)


def _history(graph: Graph, count: int) -> tuple[int, int]:
    """Some pages, one more, and all of them anew: every second one as it was."""
    table = graph.snapshot().table("Page")
    table = put(table, tables.overwrite(table, _pages(count, 1)))
    before = table.version
    one = pa.table({"id": ["new"], "name": ["new"], "text": ["new"]}, schema=table.schema)
    table = put(table, tables.append(table, one))
    return before, put(table, tables.overwrite(table, _pages(count, 2))).version


@pytest.mark.slow
def test_memory_does_not_grow_with_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash, "_PATIENCE", 600.0)
    used: list[int] = []
    few, many = 100_000, 700_000
    for count in (few, many):
        graph = omnigraph.init(tmp_path / f"{count}.og", "node Page { name: String @key  text: String? }")
        before, after = _history(graph, count)
        changed, memory = crash.run(diff_and_watch, graph.uri, before, after)
        assert changed == count // 2
        used.append(memory)
    small, large = used
    some = _pages(_ROWS_AT_ONCE, 1).read_all()
    more_to_compare = 2 * some.nbytes // some.num_rows * (many - few)
    # Lance frees memory in other threads than it was taken in, and the system keeps some of it: on a busy machine more.
    assert large < small + more_to_compare / 2, [size // MEGABYTE for size in (*used, more_to_compare)]
