"""The rows of small fragments that this process has just written, so that the next read need not fetch them again.

Lance never changes a file and names each uniquely, so an entry is never wrong. Whether the fragment was ever committed
does not matter: nobody asks for one that no version shows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Final, cast

import pyarrow as pa
from lance.dataset import LanceDataset
from lance.fragment import FragmentMetadata

from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.lance_internals import identify_data_file, read_field_ids

_MOST_ROWS: Final = 64
_MOST_BYTES: Final = 64 * 1024
_MOST_FRAGMENTS: Final = 64
"""A table with about so many small fragments is compacted."""


@dataclass(frozen=True, slots=True, eq=False)
class _WrittenFragment:
    """The rows as they were given, and the table that they were written for."""

    rows: pa.Table
    dataset: LanceDataset


class WrittenRows:
    """The newest small fragments by their files, safe to share between threads."""

    def __init__(self) -> None:
        self._fragments: OrderedDict[str, _WrittenFragment] = OrderedDict()
        self._lock = Lock()

    def note(self, dataset: LanceDataset, rows: pa.Table, fragments: Sequence[FragmentMetadata]) -> None:
        """Note rows that were written as one fragment, if they are few."""
        if len(fragments) != 1 or rows.num_rows > _MOST_ROWS or rows.nbytes > _MOST_BYTES:
            return
        (file,) = fragments[0].files
        with self._lock:
            self._fragments[identify_data_file(file)] = _WrittenFragment(rows, dataset)
            while len(self._fragments) > _MOST_FRAGMENTS:
                self._fragments.popitem(last=False)

    def find(self, files: Sequence[str], dataset: LanceDataset, columns: Sequence[str]) -> pa.Table | None:
        """Return columns of the rows of a fragment, as a table shows them now; None if they are not known."""
        if len(files) != 1:
            return None
        with self._lock:
            found = self._fragments.get(files[0])
        if found is None or not set(columns).issubset(found.rows.schema.names):
            return None
        # A column that was dropped and added again, or converted, has another number or type.
        # Lance's class has an untyped base, so a type checker takes the field for a descriptor.
        numbers = read_field_ids(cast("LanceDataset", found.dataset)), read_field_ids(dataset)
        chosen, stored = found.rows.select(list(columns)), dataset.schema
        is_same = all(
            numbers[0].get(name) == numbers[1].get(name) and _type_of(chosen.schema, name) == _type_of(stored, name)
            for name in columns
        )
        return chosen if is_same else None


def _type_of(schema: pa.Schema, column: str) -> pa.DataType:
    return cast("pa.DataType", schema.field(column).type)
