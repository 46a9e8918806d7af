"""A task of a load holds a bounded number of bytes, however wide the rows are. No Spark is needed for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Final, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.spark.load import load_task
from omnigraph.spark.load.load_task import BLOCK, LINE, PLACES, LoadTask, address_of
from omnigraph.spark.load.table_task import read_file_parts
from omnigraph.spark.scratch import create_table_in, open_scratch_folder
from omnigraph.storage.columns import column_of, to_list
from omnigraph.storage.internal_columns import InternalColumn
from omnigraph.write.load import DataFile, LoadInput, divide_file, resolve_tables
from omnigraph.write.load.inputs import arrow_files

KEY: Final = "node:Page"
WIDE: Final = 10_000
ROWS: Final = 2_000
"""20 MB in all, of which a task may hold a part."""
LIMIT: Final = 1024 * 1024


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return omnigraph.init(tmp_path / "g.og", "node Page { name: String @key  text: String  n: I32? }")


@pytest.fixture
def task(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> Generator[LoadTask]:
    """A task with small limits, which keeps rejected records."""
    for name, limit in (("MAX_BATCH_BYTES", LIMIT), ("MAX_BUFFERED_BYTES", 4 * LIMIT), ("MAX_REJECTED_BYTES", LIMIT)):
        monkeypatch.setattr(load_task, name, limit)
    monkeypatch.setattr(arrow_files, "_FILE_BATCH_BYTES", LIMIT)
    with open_scratch_folder(graph._manifest) as folder:
        scratch = create_table_in(folder, graph._manifest, PLACES)
        targets = {KEY: address_of(graph.snapshot().table(KEY), "append")}
        yield LoadTask(graph.schema.catalog, targets, address_of(scratch, "overwrite"), True, None, {})


def pages(first: int, count: int) -> dict[str, list[str]]:
    return {
        "name": [f"p{number}" for number in range(first, first + count)],
        "text": [f"{number:09}-" * (WIDE // 10) for number in range(first, first + count)],
    }


def frame_batch(first: int, count: int) -> pa.RecordBatch:
    """A batch as Spark hands it to the task of a frame."""
    return pa.record_batch({**pages(first, count), InternalColumn.FILE: pa.array([None] * count, pa.int64())})


def line_batch(first: int, count: int, kind: str = "Page") -> pa.RecordBatch:
    """A batch as Spark hands it to the task of a file of records."""
    rows = pages(first, count)
    lines = [
        json.dumps({"type": kind, "data": {"name": name, "text": text}}).encode()
        for name, text in zip(rows["name"], rows["text"], strict=True)
    ]
    places = {InternalColumn.FILE: ["file:/pages.jsonl"] * count, BLOCK: pa.array([0] * count, pa.int64())}
    return pa.record_batch({LINE: pa.array(lines, pa.binary()), **places})


def in_batches(make: Callable[[int, int], pa.RecordBatch], rows: int, held: list[int]) -> Iterator[pa.RecordBatch]:
    """Yield all rows in batches, and note how many bytes Arrow holds before each."""
    for first in range(0, ROWS, rows):
        held.append(pa.total_allocated_bytes())
        yield make(first, rows)


def reports(batches: Iterator[pa.RecordBatch]) -> dict[str, Mapping[str, object]]:
    (batch,) = batches
    kinds, bodies = (cast("list[str]", to_list(column_of(batch, name))) for name in ("kind", "body"))
    return {kind: json.loads(body) for kind, body in zip(kinds, bodies, strict=True)}


def count_parts(report: Mapping[str, object]) -> int:
    return len(cast("list[str]", report["fragments"]))


@pytest.mark.parametrize("rows", [50, ROWS], ids=["many-batches", "one-batch"])
def test_a_frame_with_wide_rows_is_written_in_parts(task: LoadTask, rows: int) -> None:
    held: list[int] = []
    written = reports(task.read_frame(KEY, "pages", {}, "UTC", in_batches(frame_batch, rows, held)))["rows"]
    assert written["rows"] == ROWS
    assert count_parts(written) >= 4
    assert max(held) - held[0] < 12 * LIMIT, "the task waits for more rows than it writes at once"


def test_lines_with_wide_records_are_written_in_parts(task: LoadTask) -> None:
    written = reports(task.read_records(None, in_batches(line_batch, ROWS, [])))
    assert (written["rows"]["rows"], written["block"]["lines"]) == (ROWS, ROWS)
    assert count_parts(written["rows"]) >= 4


def test_wide_rejected_records_are_written_in_parts(task: LoadTask) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield line_batch(0, ROWS, "Pgae")

    rejected = reports(task.read_records(None, batches()))["rejected"]
    assert sum(cast("dict[str, int]", rejected["counts"]).values()) == ROWS
    assert count_parts(rejected) >= 10


def test_a_file_with_wide_rows_is_written_in_parts(task: LoadTask, tmp_path: Path) -> None:
    path = str(tmp_path / "pages.parquet")
    pq.write_table(pa.table(pages(0, ROWS)), path)
    (table,) = resolve_tables(task.catalog, LoadInput(nodes={"Page": path}))
    parts = divide_file(cast("DataFile", table.rows), ["name", "text"])
    written = reports(read_file_parts(task, table.selection, parts))["rows"]
    assert written["rows"] == ROWS
    assert count_parts(written) >= 4
