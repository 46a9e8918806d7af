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
from omnigraph.read.frames import CompactPositions, FragmentContents, FullTable, Positions, find_rows, take_rows
from omnigraph.storage import tables
from omnigraph.storage.columns import column_of
from omnigraph.storage.tables import ROW_ADDRESS, NodeRows, StoredEnds, Table

MOST_MISSING: Final = 8
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

    def read(self, part: FragmentContents) -> StoredEnds | None:
        """Return the content of the file of a fragment; None if it has none."""
        if part.source.physical_rows < tables.LEAST_NUMBERED_ROWS:
            return None
        return wait_for(lambda: tables.read_end_file(self.edges, part.source))

    def locate_ends(self, part: FragmentContents) -> LocatedEnds | None:
        """Return the ends of a fragment; None if it has no file, or one that is of little use by now."""
        stored = self.read(part)
        if stored is None:
            return None
        offsets = self._list_offsets(part)
        if part.num_rows != (len(stored.sources) if offsets is None else len(offsets)):
            return None
        begins, ends = self.to_positions(stored, offsets)
        missing = find_rows((begins < 0) | (ends < 0))
        if len(missing) * MOST_MISSING > part.num_rows:
            return None
        outside = self._find_by_id(part, missing if offsets is None else offsets[missing], missing, begins, ends)
        return LocatedEnds(begins, ends, outside)

    def _list_offsets(self, part: FragmentContents) -> Positions | None:
        """Return the offsets of the remaining rows; None if nothing was deleted."""
        deleted = self.read_deleted(part)
        return np.delete(np.arange(part.source.physical_rows), deleted) if len(deleted) else None

    def read_deleted(self, part: FragmentContents) -> Positions:
        """Return the offsets of the deleted rows of a fragment, sorted."""
        if part.deletions is None:
            return np.zeros(0, np.int64)
        return tables.read_deleted_offsets(self.edges, [part.source])[0].astype(np.int64)

    def to_positions(self, stored: StoredEnds, offsets: Positions | None) -> tuple[CompactPositions, CompactPositions]:
        """Return the positions of the sources and the destinations of some rows, or of all; -1 if they are gone."""
        sources, destinations = (
            take_rows(map_, cast("Positions", numbers if offsets is None else take_rows(numbers, offsets)))
            for map_, numbers in zip(self.map_ends(stored), (stored.sources, stored.destinations), strict=True)
        )
        return sources, destinations

    def map_ends(self, stored: StoredEnds) -> tuple[CompactPositions, CompactPositions]:
        """Return the position of each number of a source and of a destination, -1 if it is gone; at the end a -1."""
        return self.map_rows(stored.source_rows, self.sources), self.map_rows(
            stored.destination_rows, self.destinations
        )

    def map_rows(self, listed: tuple[NodeRows, ...], nodes: FullTable) -> CompactPositions:
        """As the function of that name, once for each list."""
        key = (nodes.table_key, listed)
        if key not in self._maps:
            self._maps[key] = map_rows(listed, nodes)
        return self._maps[key]

    def _find_by_id(
        self,
        part: FragmentContents,
        offsets: Positions,
        missing: Positions,
        begins: CompactPositions,
        ends: CompactPositions,
    ) -> pa.Table:
        """Find ends that have no number by their ids, and return the edges with an end that is in no node table."""
        if not len(missing):
            return NONE_OUTSIDE
        rows, begins[missing], ends[missing] = self.locate_by_id(part, offsets)
        are_outside = np.flatnonzero((begins[missing] < 0) | (ends[missing] < 0))
        outside = rows.select(["src", "dst"]).take(are_outside)
        return outside.add_column(0, "edge", pa.array(missing[are_outside], pa.int64())).cast(NONE_OUTSIDE.schema)

    def locate_by_id(self, part: FragmentContents, offsets: Positions) -> tuple[pa.Table, Positions, Positions]:
        """Read the ends of some rows, and find their positions by their ids; -1 if they are in no node table."""
        batches = tables.read_rows(self.edges, [(part.source, offsets.astype(np.uint64))], ["src", "dst"])
        rows = pa.Table.from_batches(list(batches)).sort_by(ROW_ADDRESS)
        sources, destinations = column_of(rows, "src"), column_of(rows, "dst")
        return rows, self.sources.locate(sources), self.destinations.locate(destinations)


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
