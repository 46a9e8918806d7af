"""Count the equal rows that both sides inserted into a type without a key: both stay, since their ids differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.changes import Op, find_changed_tables, read_changes
from omnigraph.storage.arrow_schema import arrow_schema
from omnigraph.storage.columns import column_of, is_not_among
from omnigraph.write.merge.rules import MergeSnapshots
from omnigraph.write.row_digests import digest_rows
from omnigraph.write.rules import type_of_table
from omnigraph.write.spill import spill_partitions

_DIGESTS: Final = pa.schema([pa.field("digest", pa.string()), pa.field("id", pa.string())])
_ROWS_PER_PARTITION: Final = 1_000_000
"""Digests of about this many rows are in memory at a time."""


def count_doubled_rows(sides: MergeSnapshots, inserted: Mapping[str, int]) -> Mapping[str, int]:
    """Return by table key how many rows of theirs equal a row that ours inserted too, under another id.

    ``inserted`` is how many rows the merge inserts into each table.
    """
    changed = find_changed_tables(sides.base, sides.ours)
    counts: dict[str, int] = {}
    for key in changed:
        type_ = sides.catalog.find_type(key)
        if inserted.get(key) and type_ is not None and not (isinstance(type_, NodeType) and type_.key):
            counts[key] = _count_doubled(sides, type_of_table(sides.catalog, key), inserted[key])
    return counts


def _count_doubled(sides: MergeSnapshots, type_: NodeType | EdgeType, inserted: int) -> int:
    partitions = 1 + inserted // _ROWS_PER_PARTITION
    theirs, ours = (
        spill_partitions(_DIGESTS, _digest_inserted(sides.base, side, type_), "digest", partitions)
        for side in (sides.theirs, sides.ours)
    )
    return sum(_count_pairs(*pair) for pair in zip(theirs, ours, strict=True))


def _digest_inserted(base: Snapshot, side: Snapshot, type_: NodeType | EdgeType) -> Iterator[pa.Table]:
    """Yield the ids of the rows that a side inserted, with the digests of all other columns."""
    columns = [name for name in arrow_schema(type_).names if name != "id"]
    for part in (part for parts in read_changes(base, side, type_.table_key) for part in parts):
        if part.op is Op.INSERTED:
            digests = digest_rows(part.rows, columns)
            yield pa.Table.from_arrays([digests, column_of(part.rows, "id")], schema=_DIGESTS)


def _count_pairs(theirs: pa.Table, ours: pa.Table) -> int:
    """Count the pairs of equal digests. A row that both sides inserted with the same id is one row."""
    if not theirs.num_rows or not ours.num_rows:
        return 0
    ids = column_of(theirs, "id"), column_of(ours, "id")
    new_theirs = theirs.filter(is_not_among(ids[0], ids[1]))
    new_ours = ours.filter(is_not_among(ids[1], ids[0]))
    both = pa.concat_tables([new_theirs, new_ours])
    codes = pc.call_function("dictionary_encode", [column_of(both, "digest")]).indices.to_numpy(zero_copy_only=False)
    size = int(codes.max(initial=-1)) + 1
    split = new_theirs.num_rows
    counts = (np.bincount(part, minlength=size) for part in (codes[:split], codes[split:]))
    return int(np.minimum(*counts).sum())
