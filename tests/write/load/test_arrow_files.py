"""Parquet and Arrow files: what is read of them, and how they are divided among tasks."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

from omnigraph.storage.columns import column_of, to_list
from omnigraph.write.load.inputs.arrow_files import (
    FilePart,
    divide_file,
    join_parts,
    read_file_batches,
    read_part_batches,
)
from omnigraph.write.load.inputs.table_files import DataFile


@pytest.fixture
def numbers(tmp_path: Path) -> DataFile:
    """Ten rows in four row groups."""
    path = tmp_path / "numbers.parquet"
    columns = {"a.b": range(10), "tags": [["x"]] * 10, "rest": ["y" * 1000] * 10}
    pq.write_table(pa.table(columns), path, row_group_size=3, use_dictionary=False)
    return DataFile(str(path), "parquet")


def read(part: FilePart, column: str) -> list[object]:
    return [value for batch in read_part_batches(part, [column]) for value in to_list(column_of(batch, column))]


def test_parts_of_a_parquet_file_have_all_rows_once_and_know_their_numbers(numbers: DataFile) -> None:
    parts = divide_file(numbers, ["a.b"])
    assert [(part.row_groups, part.first) for part in parts] == [((0,), 1), ((1,), 4), ((2,), 7), ((3,), 10)]
    assert [read(part, "a.b") for part in parts] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert read(FilePart(numbers), "a.b") == list(range(10))


def test_only_columns_that_are_read_count(numbers: DataFile) -> None:
    small, nested, all_ = (
        sum(part.size for part in divide_file(numbers, columns))
        for columns in (["a.b"], ["a.b", "tags"], ["a.b", "tags", "rest"])
    )
    assert small < nested < 2_000 < 10_000 < all_
    (batch,) = read_file_batches(numbers, ["tags"], lambda _: None)
    assert batch.schema.names == ["tags"]


def test_neighbours_are_joined_but_not_a_file_with_itself(numbers: DataFile, tmp_path: Path) -> None:
    first, second, third, last = divide_file(numbers, ["a.b"])
    assert join_parts([first, second, last, first]) == [
        FilePart(numbers, (0, 1), 1, first.size + second.size), last, first,
    ]  # fmt: skip
    assert [part.row_groups for part in join_parts([third, last, third])] == [(2, 3), (2,)]
    path = tmp_path / "a.arrow"
    with ipc.new_file(str(path), pa.schema([("a", pa.int64())])) as writer:
        writer.write_table(pa.table({"a": [1, 2]}))
    whole = divide_file(DataFile(str(path), "arrow"), ["a"])
    assert join_parts([*whole, *whole]) == [*whole, *whole]
    assert read(whole[0], "a") == [1, 2]


def test_timestamps_of_96_bits_keep_every_year(tmp_path: Path) -> None:
    times = [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)]
    table = pa.table({"at": pa.array(times, pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "t.parquet", use_deprecated_int96_timestamps=True)
    assert read(FilePart(DataFile(str(tmp_path / "t.parquet"), "parquet")), "at") == times
