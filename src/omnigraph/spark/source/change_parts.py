"""Divide the changes of one commit into tasks: a large load or a rewritten table does not wait for one worker.

How many rows may have changed is known from the fragments of both versions. If only one side has such rows, each task
reads some of its fragments. Otherwise all rows of an id must meet: a task reads the ids of all rows that may differ,
keeps those of its hash partition, and reads the other columns of these alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import Json
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.changes import (
    CandidateFragment,
    CandidateRows,
    Diff,
    DiffSide,
    TypePair,
    find_type_candidates,
    read_diff_records,
)
from omnigraph.spark.shuffle import assign_partitions
from omnigraph.storage.columns import column_of
from omnigraph.storage.tables import ROW_ADDRESS, Numbers, list_fragments

ROWS_PER_TASK: Final = 250_000
"""A commit that changed more rows of a table, by its metadata, is read by several tasks."""
_MAX_PARTS: Final = 256
_OFFSET_MASK: Final = np.uint64(0xFFFFFFFF)
"""The lower half of a row address is the offset of the row in its fragment."""


@dataclass(frozen=True, slots=True)
class DiffPart:
    """One of ``count`` shares of the changes of a type."""

    pair: TypePair
    number: int
    count: int


def divide_diff(diff: Diff) -> list[DiffPart]:
    """Divide the changes of a commit into tasks; a single one for each table if they are few. Only metadata is read."""
    counts = [(pair, min(_MAX_PARTS, -(-_bound_changes(diff, pair) // ROWS_PER_TASK))) for pair in diff.types]
    return [DiffPart(pair, number, max(1, count)) for pair, count in counts for number in range(max(1, count))]


def _bound_changes(diff: Diff, pair: TypePair) -> int:
    """Return how many rows of a type may have changed, on the side that has more of them."""
    olds, news = (
        _list_sizes(snapshot, type_.table_key)
        for snapshot, type_ in zip((diff.before, diff.after), pair.types, strict=True)
    )
    # A fragment that both have differs in the rows that were deleted from it.
    before = sum(max(0, rows - news.get(files, 0)) for files, rows in olds.items())
    after = sum(max(0, rows - olds.get(files, 0)) for files, rows in news.items())
    return max(before, after)


def _list_sizes(snapshot: Snapshot, table_key: str) -> dict[object, int]:
    fragments = list_fragments(snapshot.table(table_key)) if table_key in snapshot.pins else ()
    return {fragment.files: fragment.num_rows for fragment in fragments}


def read_part_records(diff: Diff, part: DiffPart) -> Iterator[dict[str, Json]]:
    """Yield the changes of one share as JSON objects."""
    found = find_type_candidates(diff.before, diff.after, part.pair)
    sides = found.before, found.after
    if part.count > 1:
        one_sided = not all(side is not None and side.num_rows for side in sides)
        take = _take_fragments if one_sided else _take_ids
        sides = tuple(None if side is None else take(side, part) for side in sides)
    before, after = (DiffSide(side, type_) for side, type_ in zip(sides, part.pair.types, strict=True))
    return read_diff_records(part.pair, before, after)


def _take_fragments(rows: CandidateRows, part: DiffPart) -> CandidateRows:
    return CandidateRows(rows.table, rows.parts[part.number :: part.count])


def _take_ids(rows: CandidateRows, part: DiffPart) -> CandidateRows:
    """Keep the rows whose ids are in the hash partition of a part."""
    kept = (CandidateFragment(each.fragment, _find_offsets(rows, each, part)) for each in rows.parts)
    return CandidateRows(rows.table, tuple(each for each in kept if each.num_rows))


def _find_offsets(rows: CandidateRows, fragment: CandidateFragment, part: DiffPart) -> Numbers:
    found = [np.zeros(0, np.uint64)]
    for batch in CandidateRows(rows.table, (fragment,)).read(["id"]):
        partitions = assign_partitions(cast("pa.StringArray", column_of(batch, "id")), part.count)
        addresses = column_of(batch, ROW_ADDRESS).to_numpy(zero_copy_only=False).astype(np.uint64)
        found.append(addresses[partitions == part.number] & _OFFSET_MASK)
    return np.concatenate(found)
