"""What a diff looks at, counted: it follows the rows that changed, however large the fragments are that they lie in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.read.changes.candidates import find_candidates
from omnigraph.storage import tables
from omnigraph.storage.location import Location
from omnigraph.storage.tables import Access, Table, open_table
from tests.counting import counting_scans
from tests.s3_proxy import Proxy
from tests.storage.tables.sample_tables import put

SIZES = (2_000, 40_000)
CHANGED = 10


def large(uri: str, size: int, access: Access | None = None) -> Table:
    """One fragment of that many rows, of which some were deleted already, few enough for every size."""
    ids = [f"p{number}" for number in range(size)]
    table = tables.create_table(uri, pa.table({"id": ids, "text": ids}), "test", access)
    return put(table, tables.delete_at(table, np.array([1, 2, size - 1], np.uint64)))


def changed(table: Table) -> Table:
    """Some rows replaced by others, far apart."""
    size = sum(table.fragment_rows().values())
    offsets = 5 + np.arange(CHANGED, dtype=np.uint64) * np.uint64(size // CHANGED)
    ids = [f"p{number}" for number in offsets.tolist()]
    first = min(table.fragment_rows())
    new = pa.table({"id": ids, "text": ["new"] * len(ids)})
    return put(table, tables.replace_rows(table, offsets | np.uint64(first << 32), new))


def looked_at(before: Table, after: Table) -> int:
    """How many rows a diff makes Lance give, of both sides, when nothing is cached."""
    access = Access(before.access.storage_options)
    sides = [open_table(each.uri, each.branch, each.version, access) for each in (before, after)]
    with counting_scans() as counted:
        touched = find_candidates(*sides)
        found = [sum(batch.num_rows for batch in side.read(["id", "text"])) for side in touched]
    assert found == [CHANGED, CHANGED]
    return counted() + sum(found)


@pytest.mark.parametrize("size", SIZES)
def test_on_main_on_a_fork_and_after_a_compaction(tmp_path: Path, size: int) -> None:
    table = large(str(tmp_path / "people"), size)
    assert looked_at(table, changed(table)) == 2 * CHANGED
    fork = tables.create_table_branch(table, "review")
    edited = changed(fork)
    for before, after in ((table, edited), (fork, edited), (edited, table)):
        assert looked_at(before, after) == 2 * CHANGED
    compacted = put(edited, tables.compact(edited))
    assert list(compacted.fragment_rows()) == [max(edited.fragment_rows()) + 1]
    assert looked_at(compacted, changed(compacted)) == 2 * CHANGED


def test_on_an_object_store(s3_proxy: Proxy, s3_location: Location) -> None:
    access = Access({**s3_location.options(), "aws_endpoint": s3_proxy.endpoint})
    asked: list[int] = []
    for size in SIZES:
        table = large(s3_location.join(f"nodes/people-{size}"), size, access)
        after = changed(table)
        with s3_proxy.counting() as requests:
            assert looked_at(table, after) == 2 * CHANGED
        asked.append(sum("/_deletions/" in request.target for request in requests))
    # Each of the two as a file, and the older one by Lance too, for the rows that it has beyond the newer one.
    assert asked == [3, 3]
