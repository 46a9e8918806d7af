"""What the rows of a table version are made of, so that versions can be told apart and compared without reading them.

Lance never changes a file and gives each a name of its own. So the fragments of a version say what its rows are:
two versions of the same fragments hold the same rows in the same order, on whatever branch and in whatever copy of a
graph, and one that has the fragments of another and more after them holds its rows and more after them. A version
number says less: a branch that was deleted and made again counts from the same number.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, cast

import pyarrow as pa

from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames.cache import Cache
from omnigraph.storage.fragments import Fragment, fragments_of
from omnigraph.storage.staging import IndexKind
from omnigraph.storage.table import Table

_BYTES_OF_PART: Final = 400
"""About what one fragment takes here."""


@dataclass(frozen=True, slots=True)
class FragmentContents:
    """One fragment: its files by name, and the rows that are left of it."""

    fragment: int
    files: tuple[str, ...]
    num_rows: int


@dataclass(frozen=True, slots=True, eq=False)
class TableContents:
    """The rows of one table version; equal for versions that hold the same rows in the same order and columns."""

    table_key: str
    columns: tuple[str, ...]
    """Name and type of each column of the table, which may lag behind the schema."""
    fragments: tuple[FragmentContents, ...]
    indexed: frozenset[str] = frozenset()
    """The columns with a BTREE index; rows are the same without it."""
    num_rows: int = field(init=False)
    _digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        text = repr((self.table_key, self.columns, self.fragments)).encode()
        object.__setattr__(self, "_digest", blake2b(text, digest_size=16).digest())
        object.__setattr__(self, "num_rows", sum(part.num_rows for part in self.fragments))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableContents) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    @property
    def newest_fragment(self) -> int:
        """The fragment that was added last."""
        return max((part.fragment for part in self.fragments), default=-1)

    def extends(self, older: TableContents) -> bool:
        """Whether these are the rows of the other and then perhaps more: positions there mean the same rows here."""
        if self == older:
            return True
        shared = len(older.fragments)
        return (
            (self.table_key, self.columns) == (older.table_key, older.columns)
            and self.fragments[:shared] == older.fragments
            # Compaction puts younger fragments before older ones, and then ids do not tell what was added.
            and all(part.fragment > older.newest_fragment for part in self.fragments[shared:])
        )


def read_contents(snapshot: Snapshot, table_key: str, cache: Cache) -> TableContents:
    """What a table of a snapshot holds. The table is opened only the first time; one that is not there has no rows."""
    pin = snapshot.pins.get(table_key)
    if pin is None:
        return TableContents(table_key, (), ())

    def make() -> TableContents:
        return _read_table(table_key, snapshot.table(table_key))

    if snapshot.commit is None:
        # Nothing but the id of a commit tells a graph from an earlier one at the same place.
        return make()
    key: Hashable = ("contents", snapshot.commit.id, table_key, pin.branch, pin.version, snapshot.hidden(table_key))
    return cache.get_or_make(key, make, lambda made: _BYTES_OF_PART * (1 + len(made.fragments)))


def _read_table(table_key: str, table: Table) -> TableContents:
    parts = tuple(_to_contents(fragment) for fragment in fragments_of(table))
    columns = tuple(f"{column.name} {column.type}" for column in cast("list[pa.Field[pa.DataType]]", table.schema))
    indexed = {index.columns[0] for index in table.indexes().values() if index.kind == IndexKind.BTREE}
    return TableContents(table_key, columns, parts, frozenset(indexed))


def _to_contents(fragment: Fragment) -> FragmentContents:
    deletions = () if fragment.deletions is None else (fragment.deletions,)
    return FragmentContents(fragment.id, (*fragment.files, *deletions), fragment.num_rows)
