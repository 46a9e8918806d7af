"""The ends of the edges of a fragment from its file of numbers, as positions in the node tables of a snapshot.

The numbers name rows of node fragments. Rows that are still there have a position; an end at a row that was updated,
deleted or moved since is found by its id, like one that was never numbered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.deadlines import wait_for
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.frames import CompactPositions, FragmentContents, FullTable, Positions, take_rows
from omnigraph.storage import tables
from omnigraph.storage.columns import column_of
from omnigraph.storage.tables import ROW_ADDRESS, NodeRows, RowNumbers, Table

_MOST_MISSING: Final = 8
"""If more than one end in so many must be found by its id, all of them are."""


@dataclass(frozen=True, slots=True, eq=False)
class LocatedEnds:
    """The ends of the remaining rows of a fragment, in order; -1 where a node table does not have it."""

    sources: CompactPositions
    destinations: CompactPositions
    outside: pa.Table
    """The number, ``src`` and ``dst`` of the rows with an end that is not in the node tables."""


@dataclass(frozen=True, slots=True)
class StoredEndsReader:
    """Reads the files of one edge table, for two node tables."""

    edges: Table
    sources: FullTable
    destinations: FullTable
    _maps: dict[tuple[str, tuple[NodeRows, ...]], CompactPositions] = field(
        default_factory=dict[tuple[str, tuple[NodeRows, ...]], CompactPositions]
    )

    def locate_ends(self, part: FragmentContents) -> LocatedEnds | None:
        """Return the ends of a fragment; None if it has no file, or one that is of little use by now."""
        if part.source.physical_rows < tables.LEAST_NUMBERED_ROWS:
            return None
        stored = wait_for(lambda: tables.read_end_file(self.edges, part.source))
        if stored is None:
            return None
        offsets = np.arange(len(stored.sources))
        if part.deletions is not None:
            offsets = np.delete(offsets, tables.read_deleted_offsets(self.edges, [part.source])[0].astype(np.int64))
        if len(offsets) != part.num_rows:
            return None
        begins = self._to_positions(stored.sources, stored.source_rows, self.sources, offsets)
        ends = self._to_positions(stored.destinations, stored.destination_rows, self.destinations, offsets)
        missing = np.flatnonzero((begins < 0) | (ends < 0))
        if len(missing) * _MOST_MISSING > len(offsets):
            return None
        return LocatedEnds(begins, ends, self._find_by_id(part, offsets, missing, begins, ends))

    def _to_positions(
        self, numbers: RowNumbers, listed: tuple[NodeRows, ...], nodes: FullTable, offsets: Positions
    ) -> CompactPositions:
        key = (nodes.table_key, listed)
        if key not in self._maps:
            self._maps[key] = map_rows(listed, nodes)
        rows = numbers if len(offsets) == len(numbers) else take_rows(numbers, offsets)
        return take_rows(self._maps[key], cast("Positions", rows))

    def _find_by_id(
        self,
        part: FragmentContents,
        offsets: Positions,
        missing: Positions,
        begins: CompactPositions,
        ends: CompactPositions,
    ) -> pa.Table:
        """Find ends that have no number by their ids, and return the edges with an end that is in no node table."""
        wanted = [(part.source, offsets[missing].astype(np.uint64))] if len(missing) else []
        batches = list(tables.read_rows(self.edges, wanted, ["src", "dst"]))
        if not batches:
            return NONE_OUTSIDE
        rows = pa.Table.from_batches(batches).sort_by(ROW_ADDRESS)
        begins[missing] = self.sources.locate(column_of(rows, "src"))
        ends[missing] = self.destinations.locate(column_of(rows, "dst"))
        are_outside = np.flatnonzero((begins[missing] < 0) | (ends[missing] < 0))
        outside = rows.select(["src", "dst"]).take(are_outside)
        return outside.add_column(0, "edge", pa.array(missing[are_outside], pa.int64())).cast(NONE_OUTSIDE.schema)


def map_rows(listed: Sequence[NodeRows], nodes: FullTable) -> CompactPositions:
    """Return the position of each row of some fragments in a version, -1 if it is not there; at the end a -1."""
    starts = np.cumsum([0, *(part.num_rows for part in nodes.contents.fragments)]).tolist()
    known = {
        NodeRows.of(part.source): (part, start) for part, start in zip(nodes.contents.fragments, starts, strict=False)
    }
    # A number of -1 means the last entry.
    found = np.full(sum(each.count for each in listed) + 1, -1, np.int32)
    at = 0
    for each in listed:
        part, start = known.get(each, (None, 0))
        if part is not None:
            there = np.arange(each.count)
            if part.deletions is not None:
                there = np.delete(
                    there, tables.read_deleted_offsets(nodes.open_table(), [part.source])[0].astype(np.int64)
                )
            found[at + there] = start + np.arange(part.num_rows)
        at += each.count
    return found


NONE_OUTSIDE: Final = pa.table(
    {"edge": pa.array([], pa.int64()), "src": pa.array([], pa.string()), "dst": pa.array([], pa.string())}
)
"""No edges, with their numbers and the ids of their ends."""
