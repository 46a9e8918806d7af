"""Where the rows lie in ours that a merge replaces or removes, without a search through the table.

Most of them lie where the base had them, in the same files, and the diff between base and theirs has told on its way
where that is. Only rows that ours has moved meanwhile are looked up.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from omnigraph.read.changes import ChangedRows
from omnigraph.read.frames import places_of
from omnigraph.storage.columns import Values, column_of
from omnigraph.storage.fragments import carried_over
from omnigraph.storage.locating import addresses_of
from omnigraph.storage.staging import Addresses
from omnigraph.write.merge.deltas import Delta
from omnigraph.write.merge.rules import Sides
from omnigraph.write.rules import RowLocations


class Seen:
    """Where the base has the rows of one table that theirs changed, noted while they pass."""

    def __init__(self) -> None:
        self._ids: list[Values] = [pa.array([], pa.string())]
        self._addresses: list[Addresses] = [np.zeros(0, np.uint64)]

    def passing(self, came: Iterator[tuple[ChangedRows, ...]]) -> Iterator[tuple[ChangedRows, ...]]:
        """The same rows."""
        for parts in came:
            for part in parts:
                if part.before is not None and part.addresses is not None:
                    self._ids.append(column_of(part.before, "id"))
                    self._addresses.append(part.addresses)
            yield parts

    def where_they_lie(self, sides: Sides, delta: Delta) -> RowLocations | None:
        """Where the rows lie that make room for a delta; None where the base or ours has no such table."""
        key = delta.type.table_key
        if key not in sides.base.pins or key not in sides.ours.pins:
            return None
        base, ours = sides.base.table(key), sides.ours.table(key)
        gone = pa.concat_arrays([column_of(delta.rows, "id").filter(pa.array(~delta.new)), delta.removed])
        addresses, there = carried_over(np.concatenate(self._addresses), base, ours)
        at = places_of(gone, pa.concat_arrays(self._ids).filter(pa.array(there)))
        found = addresses[there][at[at >= 0]]
        moved = gone.filter(pa.array(at < 0))
        if len(moved):
            found = np.concatenate([found, addresses_of(ours, pa.table({"id": moved}))])
        return RowLocations(ours, found)
