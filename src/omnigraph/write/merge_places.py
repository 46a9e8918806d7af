"""Where the rows lie in ours that a merge replaces or removes, without a search through the table.

Most of them lie where the base had them, in the same files, and the diff between base and theirs has told where that
is. Their ids are read there, and only the rows that ours has moved meanwhile are looked up.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa

from omnigraph.read.lookup import places_of
from omnigraph.read.touched import still_there, touched_rows
from omnigraph.storage.columns import Values, column_of
from omnigraph.storage.locating import addresses_of
from omnigraph.storage.pinned import ROW_ADDRESS, Table
from omnigraph.storage.staging import Addresses
from omnigraph.write.images import Standing
from omnigraph.write.merge_deltas import Delta
from omnigraph.write.merge_rules import Sides


def where_they_lie(sides: Sides, delta: Delta) -> Standing | None:
    """Where the rows lie that make room for a delta; None where not all sides have the table."""
    key = delta.type.table_key
    if not all(key in side.pins for side in (sides.base, sides.ours, sides.theirs)):
        return None
    base, ours, theirs = (side.table(key) for side in (sides.base, sides.ours, sides.theirs))
    known = column_of(delta.rows, "id").filter(pa.array(~delta.new))
    gone = pa.concat_arrays([known, delta.removed])
    if not len(gone):
        return Standing(ours, np.zeros(0, np.uint64))
    ids, addresses = _left_in(ours, base, theirs)
    at = places_of(gone, ids)
    moved = gone.filter(pa.array(at < 0))
    found = addresses[at[at >= 0]]
    if len(moved):
        found = np.concatenate([found, addresses_of(ours, pa.table({"id": moved}))])
    return Standing(ours, found)


def _left_in(ours: Table, base: Table, theirs: Table) -> tuple[Values, Addresses]:
    """The rows that theirs touched, as far as ours has them where the base had them: their ids and addresses."""
    touched, _ = touched_rows(base, theirs)
    batches = list(still_there(touched, ours).read(["id"]))
    ids = pa.concat_arrays([pa.array([], pa.string()), *(column_of(batch, "id") for batch in batches)])
    addresses = [column_of(batch, ROW_ADDRESS).to_numpy() for batch in batches]
    return ids, cast("Addresses", np.concatenate([np.zeros(0, np.uint64), *addresses]))
