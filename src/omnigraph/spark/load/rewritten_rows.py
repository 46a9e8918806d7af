"""Fragments of incoming rows that are written again beside the graph: row numbers, and the positions of their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from itertools import accumulate
from typing import Final, cast

import numpy as np
import pyarrow as pa

from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage import tables
from omnigraph.storage.columns import Values, column_of
from omnigraph.storage.lance_internals import translate_errors
from omnigraph.storage.tables import FragmentText, Table
from omnigraph.write.load import RecordPosition, RowNumbers, RowPositions

_ELSEWHERE: Final = -1
"""The start of a run whose row numbers are in the scratch table."""
_OFFSET: Final = np.uint64(0xFFFFFFFF)
ORIGINS: Final = pa.schema([pa.field("number", pa.int64())])
"""The row numbers that rewritten rows had before."""


@dataclass(frozen=True)
class FragmentLayout:
    """The fragments of incoming rows with their row counts: a row number is a fragment and an offset in it."""

    rows: Mapping[int, int]

    @cached_property
    def ids(self) -> RowNumbers:
        """The fragment ids, sorted."""
        return np.array(sorted(self.rows), np.int64)

    @cached_property
    def starts(self) -> RowNumbers:
        """The number of the first row of each fragment."""
        return np.array([0, *accumulate(self.rows[int(each)] for each in self.ids)], np.int64)[:-1]

    def number_rows(self, addresses: Values) -> RowNumbers:
        """Return the row numbers of addresses."""
        found = addresses.to_numpy(zero_copy_only=False).astype(np.uint64)
        at = np.searchsorted(self.ids, (found >> np.uint64(32)).astype(np.int64))
        return self.starts[at] + (found & _OFFSET).astype(np.int64)

    def locate_rows(self, numbers: RowNumbers) -> tuple[RowNumbers, RowNumbers]:
        """Return the fragments of row numbers, and the offsets in them."""
        at = np.searchsorted(self.starts, numbers, side="right") - 1
        return self.ids[at], numbers - self.starts[at]


def write_origins(scratch: Table, numbers: RowNumbers) -> tuple[FragmentText, ...]:
    """Write the row numbers that rewritten rows had before."""
    return tables.write_rows(scratch, pa.table([pa.array(numbers)], schema=ORIGINS), "overwrite")


@dataclass
class RewrittenPositions:
    """The positions of rows after some fragments were written again: runs of rows, by their earlier row numbers.

    A run is a range of numbers, or as many rows of the scratch table as say which numbers they had.
    """

    before: RowPositions
    scratch: Table
    _starts: list[int] = field(default_factory=list[int])
    _counts: list[int] = field(default_factory=list[int])
    _origins: list[FragmentText] = field(default_factory=list[FragmentText])

    def add_kept(self, first: int, count: int) -> None:
        """Add the rows of a fragment that stays, whose first row had this number."""
        self._starts.append(first)
        self._counts.append(count)

    def add_rewritten(self, count: int, origins: Sequence[FragmentText]) -> None:
        """Add rows that were written again; the numbers that they had are in fragments of the scratch table."""
        self._starts.append(_ELSEWHERE)
        self._counts.append(count)
        self._origins += origins

    @property
    def count(self) -> int:
        """The number of rows."""
        return sum(self._counts)

    def find(self, numbers: RowNumbers) -> list[RecordPosition]:
        """Return the positions of some rows."""
        counts, starts = np.array(self._counts, np.int64), np.array(self._starts, np.int64)
        runs = np.searchsorted(np.cumsum(counts), numbers, side="right")
        within = numbers - (np.cumsum(counts) - counts)[runs]
        rewritten = np.where(starts < 0, counts, 0)
        places = (np.cumsum(rewritten) - rewritten)[runs] + within
        earlier = starts[runs] + within
        looked_up = np.flatnonzero(starts[runs] < 0)
        earlier[looked_up] = self._read_origins(cast("list[int]", places[looked_up].tolist()))
        return self.before.find(earlier)

    def _read_origins(self, places: Sequence[int]) -> RowNumbers:
        if not places:
            return np.zeros(0, np.int64)
        staged = tables.overwrite_fragments(self.scratch, ORIGINS, self._origins)
        origins = tables.audit_version(self.scratch, staged)
        with translate_errors(origins.subject):
            found = origins.dataset.take(list(places))
        return column_of(found, "number").to_numpy(zero_copy_only=False)
