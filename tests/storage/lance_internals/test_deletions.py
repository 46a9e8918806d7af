"""Deletion files, read beside Lance: what they take away is exactly what Lance does not show."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.storage.lance_internals.deletions import decode_deletions, encode_offsets, read_deletions
from omnigraph.storage.location import Location
from omnigraph.storage.tables import (
    Access,
    Table,
    create_table,
    create_table_branch,
    delete_at,
    list_fragments,
    read_deleted_offsets,
    read_row_offsets,
)
from tests.storage.tables.sample_tables import put

SIZE = 70_000
FEW = np.array([0, 7, SIZE - 1], np.uint64)
MANY = np.arange(1, SIZE, 3, dtype=np.uint64)
"""So many that Lance writes a bitmap: one container of bits, and one with few numbers in it."""


def numbers(uri: str, access: Access | None = None) -> Table:
    return create_table(uri, pa.table({"n": range(SIZE)}), "op", access)


def check(table: Table, ending: str) -> None:
    """The file says what Lance says, and is really what was read."""
    (fragment,) = list_fragments(table)
    file = fragment.deletion_file
    assert file is not None
    assert file.path.endswith(ending)
    (found,) = read_deletions([file], table.access.storage_options)
    assert found is not None
    assert np.array_equal(found, np.setdiff1d(np.arange(SIZE), read_row_offsets(table, fragment)))


def check_forks(table: Table) -> None:
    """Files of main, of a fork, and of a fork of the fork, each where it was written."""
    (whole,) = list_fragments(table)
    assert whole.deletion_file is None
    assert [each.tolist() for each in read_deleted_offsets(table, [whole])] == [[]]
    table = put(table, delete_at(table, FEW))
    check(table, ".arrow")
    fork = create_table_branch(table, "review/1")
    check(fork, ".arrow")
    fork = put(fork, delete_at(fork, MANY))
    check(fork, ".bin")
    second = create_table_branch(fork, "second")
    check(second, ".bin")
    check(put(second, delete_at(second, np.array([3], np.uint64))), ".bin")


def test_on_main_and_on_forks(tmp_path: Path) -> None:
    check_forks(numbers(str(tmp_path / "numbers")))


def test_on_an_object_store(s3_location: Location) -> None:
    check_forks(numbers(s3_location.join("nodes/numbers"), Access(s3_location.options())))


def test_with_versions_in_a_database(ddb_location: Location) -> None:
    """The addresses of such tables have a query at their end."""
    table = numbers(ddb_location.join("nodes/numbers"), Access(ddb_location.options()))
    fork = create_table_branch(put(table, delete_at(table, FEW)), "review")
    check(fork, ".arrow")
    check(put(fork, delete_at(fork, np.array([1], np.uint64))), ".arrow")


def test_what_is_not_found_as_a_file_is_asked_of_lance(tmp_path: Path) -> None:
    table = numbers(str(tmp_path / "numbers"))
    table = put(table, delete_at(table, FEW))
    (fragment,) = list_fragments(table)
    file = fragment.deletion_file
    assert file is not None
    other_format = file.path.replace(".arrow", ".bin")
    Path(file.root, other_format).write_bytes(Path(file.root, file.path).read_bytes())
    for odd in (
        replace(file, root="gs://elsewhere/table"),
        replace(file, root=f"{file.root}/elsewhere"),
        replace(file, path=other_format),
        replace(file, num_rows=file.num_rows + 1),
    ):
        assert read_deletions([odd], table.access.storage_options) == [None]
        moved = replace(fragment, deletion_file=odd, num_rows=SIZE - odd.num_rows)
        assert [each.tolist() for each in read_deleted_offsets(table, [moved])] == [FEW.tolist()]


# --------------------------------------------------------------------------------------------- the format itself


def in_runs(containers: dict[int, Iterable[tuple[int, int]]]) -> bytes:
    """A Roaring bitmap of runs only, each as its first and its last number, by the public specification."""
    flags = np.packbits(np.ones(len(containers), np.bool_), bitorder="little").tobytes()
    head = struct.pack("<I", 12347 | (len(containers) - 1) << 16) + flags
    bodies: list[bytes] = []
    for upper, runs in containers.items():
        listed = list(runs)
        head += struct.pack("<HH", upper, sum(last - first + 1 for first, last in listed) - 1)
        bodies.append(
            struct.pack("<H", len(listed)) + b"".join(struct.pack("<HH", first, last - first) for first, last in listed)
        )
    if len(containers) >= 4:
        start = len(head) + 4 * len(containers)
        for body in bodies:
            head += struct.pack("<I", start)
            start += len(body)
    return head + b"".join(bodies)


@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_runs(count: int) -> None:
    runs = [(0, 0), (5, 9), (65_530, 65_535)]
    found = decode_deletions(in_runs(dict.fromkeys(range(0, 2 * count, 2), runs)), "x.bin")
    lower = [number for first, last in runs for number in range(first, last + 1)]
    assert found.tolist() == [upper * 65_536 + number for upper in range(0, 2 * count, 2) for number in lower]


@pytest.mark.parametrize("data", [b"", b"1234", in_runs({0: [(0, 3)]})[:-1]], ids=["empty", "no bitmap", "cut off"])
def test_what_is_no_bitmap_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"bitmap|buffer"):
        decode_deletions(data, "x.bin")


@pytest.mark.parametrize("offsets", [FEW, MANY, np.arange(SIZE, dtype=np.uint64), np.array([1 << 31], np.uint64)])
def test_a_set_of_rows_is_read_back(offsets: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> None:
    assert np.array_equal(decode_deletions(encode_offsets(offsets), "set.bin"), offsets)
