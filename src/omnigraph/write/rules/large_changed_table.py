"""What a table looks like after a large change, in the parts that set rules speak of, and in no memory that grows.

Nothing is looked up by value here. The columns that a rule needs are streamed into files; which rows make room for
incoming ones is known by their addresses, eight bytes each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from omnigraph.storage.locating import addresses_of
from omnigraph.storage.pinned import ROW_ADDRESS, Table
from omnigraph.storage.staging import Addresses
from omnigraph.write.rules.changed_table import ChangedTable, IncomingMode, RequiredValues
from omnigraph.write.spill import spill_rows


class LargeChangedTable(ChangedTable):
    """One table before and after a change of many rows. Kept rows are given whether they are wanted or not."""

    def _kept(self, columns: Sequence[str], wanted: RequiredValues | None) -> pa.Table:  # noqa: ARG002  see the class
        if self._image.mode is IncomingMode.OVERWRITE:
            return self._none(columns)
        return self._streamed(columns, met=False)

    def _gone(self, columns: Sequence[str]) -> pa.Table:
        return self._streamed(columns, met=None if self._image.mode is IncomingMode.OVERWRITE else True)

    def _lost(self, columns: Sequence[str]) -> pa.Table:
        if self._image.mode is IncomingMode.OVERWRITE:
            return self._streamed(columns, met=False)
        return super()._lost(columns)

    def _streamed(self, columns: Sequence[str], *, met: bool | None) -> pa.Table:
        """The rows of the pin, or those of them that the change meets, or those that it does not."""
        self.was_read = True
        if self._pinned is None or not self._pinned.count_rows():
            return self._none(columns)
        return spill_rows(self._none(columns).schema, self._pieces(self._pinned, columns, met=met))

    def _pieces(self, pinned: Table, columns: Sequence[str], *, met: bool | None) -> Iterator[pa.Table]:
        for batch in pinned.scan(self._there(columns), with_row_address=True, one_by_one=True):
            piece = pa.Table.from_batches([batch])
            if met is not None and len(self._met):
                addresses = piece[ROW_ADDRESS].to_numpy()
                at = np.minimum(np.searchsorted(self._met, addresses), len(self._met) - 1)
                piece = piece.take(np.flatnonzero((self._met[at] == addresses) == met))
            elif met:
                continue
            yield self._shaped(piece, columns).cast(self._none(columns).schema)

    @cached_property
    def _met(self) -> Addresses:
        """Where the rows lie, in order, whose ids come in or are removed; of an insert only the latter can be there."""
        removed, incoming = pa.table({"id": self._image.removed}), self._image.incoming.select(["id"])
        comes_in = self._image.mode in (IncomingMode.UPSERT, IncomingMode.OVERWRITE)
        ids = pa.concat_tables([removed, incoming.cast(removed.schema)]) if comes_in else removed
        return np.zeros(0, np.uint64) if self._pinned is None else np.sort(addresses_of(self._pinned, ids))
