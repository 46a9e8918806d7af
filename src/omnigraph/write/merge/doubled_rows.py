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
from omnigraph.storage.columns import Values, column_of, compute, is_among, is_not_among
from omnigraph.write.merge.rules import MergeSnapshots
from omnigraph.write.row_digests import digest_rows
from omnigraph.write.rules import type_of_table
from omnigraph.write.spill import spill_partitions

_DIGESTS: Final = pa.schema([pa.field("digest", pa.string()), pa.field("id", pa.string())])
_ROWS_PER_PARTITION: Final = 1_000_000
"""Digests of about this many rows are in memory at a time."""
_MAX_PARTITIONS: Final = 256
"""Each partition is a file, and all are open while they are written."""


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
    rows = max(inserted, sides.ours.pins[type_.table_key].row_count)
    partitions = min(_MAX_PARTITIONS, 1 + rows // _ROWS_PER_PARTITION)
    names = _list_cheap_columns(type_) if inserted <= _ROWS_PER_PARTITION else []
    values: dict[str, list[Values]] = {name: [] for name in names}

    def record_values(parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for part in parts:
            for name in names:
                values[name].append(compute("unique", column_of(part, name)))
            yield part

    theirs = _spill_digests(type_, record_values(_read_inserted(sides.base, sides.theirs, type_)), partitions)
    # A digest costs far more than these comparisons, and ours may have many more rows than theirs.
    known = {name: pa.concat_arrays(arrays) for name, arrays in values.items() if arrays}
    similar = (_keep_similar(part, known) for part in _read_inserted(sides.base, sides.ours, type_))
    ours = _spill_digests(type_, similar, partitions)
    return sum(_count_pairs(*pair) for pair in zip(theirs, ours, strict=True))


def _list_cheap_columns(type_: NodeType | EdgeType) -> list[str]:
    """Return the columns whose values are compared fast, and are equal if their digests are."""
    fields = zip(arrow_schema(type_).names, arrow_schema(type_).types, strict=True)
    return [name for name, kind in fields if name != "id" and (pa.types.is_string(kind) or pa.types.is_integer(kind))]


def _keep_similar(rows: pa.Table, known: Mapping[str, Values]) -> pa.Table:
    """Return the rows that have one of the known values in each of these columns; null is a value too."""
    for name, values in known.items():
        rows = rows.filter(is_among(column_of(rows, name), values))
    return rows


def _read_inserted(base: Snapshot, side: Snapshot, type_: NodeType | EdgeType) -> Iterator[pa.Table]:
    """Yield the rows that a side inserted."""
    parts = (part for group in read_changes(base, side, type_.table_key) for part in group)
    return (pa.table(part.rows) for part in parts if part.op is Op.INSERTED)


def _spill_digests(type_: NodeType | EdgeType, parts: Iterator[pa.Table], partitions: int) -> list[pa.Table]:
    """Write the ids of rows to files, with the digests of all other columns."""
    columns = [name for name in arrow_schema(type_).names if name != "id"]
    digests = (
        pa.Table.from_arrays([digest_rows(part, columns), column_of(part, "id")], schema=_DIGESTS) for part in parts
    )
    return spill_partitions(_DIGESTS, digests, "digest", partitions)


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
