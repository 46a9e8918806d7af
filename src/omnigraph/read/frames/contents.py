"""The contents of a table version: its fragments, by which versions are compared without reading rows.

Lance never changes a file and names each uniquely. Two versions with the same fragments therefore hold the same rows
in the same order, on any branch and in any copy of a graph. A version whose fragments begin with those of another
holds the other's rows first. A version number says less: a branch that was deleted and re-created reuses numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import field
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, cast
from weakref import WeakKeyDictionary

import numpy as np

from omnigraph.derived_values import keep_derived
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames.cache import Cache
from omnigraph.read.frames.parts import Positions
from omnigraph.storage.columns import Values
from omnigraph.storage.lagging_columns import ColumnLag
from omnigraph.storage.tables import IndexKind, Table, TableFragment, TableIndex, list_fragments, read_deleted_offsets

if TYPE_CHECKING:
    from lance.dataset import LanceDataset

_KNOWN_FRAGMENTS: Final = 4096
"""A version has most fragments of the one before it: so many are kept, whatever they belong to."""
_BYTES_PER_FRAGMENT: Final = 400
"""Estimated memory of one :class:`FragmentContents`."""


@dataclass(frozen=True, slots=True)
class FragmentContents:
    """One fragment: the names of its files, and the number of its rows that are not deleted."""

    fragment: int
    files: tuple[str, ...]
    deletions: str | None
    num_rows: int
    source: TableFragment = field(compare=False, repr=False)
    """The fragment in the table that this was read from. In a copy of the graph it lies elsewhere."""
    digest: bytes = field(init=False, compare=False, repr=False)
    """The digest of all that counts for equality."""

    def __post_init__(self) -> None:
        text = repr((self.fragment, self.files, self.deletions, self.num_rows)).encode()
        object.__setattr__(self, "digest", blake2b(text, digest_size=16).digest())

    def has_files_of(self, other: FragmentContents) -> bool:
        """Whether both hold the same rows, apart from those that are deleted."""
        return (self.fragment, self.files) == (other.fragment, other.files)


@dataclass(frozen=True, slots=True, eq=False)
class TableContents:
    """The contents of one table version. Equal for versions with the same rows in the same order and columns."""

    table_key: str
    columns: tuple[str, ...]
    """Name, type and number of each column, and the defaults that a lagging table has instead of columns."""
    fragments: tuple[FragmentContents, ...]
    list_indexes: Callable[[], tuple[TableIndex, ...]] = field(default=tuple[TableIndex, ...], repr=False)
    """Reads the indexes of the table, which do not count for equality. What is answered from memory needs none."""
    num_rows: int = field(init=False)
    _digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        digest = blake2b(repr((self.table_key, self.columns)).encode(), digest_size=16)
        digest.update(b"".join(part.digest for part in self.fragments))
        object.__setattr__(self, "_digest", digest.digest())
        object.__setattr__(self, "num_rows", sum(part.num_rows for part in self.fragments))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableContents) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    @property
    def digest(self) -> bytes:
        """Equal for equal contents, in any process."""
        return self._digest

    @property
    def newest_fragment(self) -> int:
        """The id of the fragment that was added last."""
        return max((part.fragment for part in self.fragments), default=-1)

    @property
    def indexed(self) -> frozenset[str]:
        """The columns with a BTREE index."""
        return _list_btree_columns(self.list_indexes())

    def count_indexed(self, kind: IndexKind, column: str) -> int:
        """Return how many rows the index of a column covers; 0 if there is none of that kind."""
        return sum(index.rows for index in self.list_indexes() if (index.kind, index.columns) == (kind, (column,)))

    def extends(self, older: TableContents) -> bool:
        """Whether the rows of ``older`` come first here, so that a position there is the same row here."""
        if self == older:
            return True
        shared = len(older.fragments)
        return (
            (self.table_key, self.columns) == (older.table_key, older.columns)
            and self.fragments[:shared] == older.fragments
            # Compaction puts younger fragments before older ones; then ids do not tell what was added.
            and all(part.fragment > older.newest_fragment for part in self.fragments[shared:])
        )


@keep_derived(1024)
def _list_btree_columns(indexes: tuple[TableIndex, ...]) -> frozenset[str]:
    return frozenset(index.columns[0] for index in indexes if index.kind == IndexKind.BTREE)


def read_contents(snapshot: Snapshot, table_key: str, cache: Cache) -> TableContents:
    """Return the contents of a table of a snapshot, from the cache if possible. A missing table has no rows."""
    known = cast("TableContents | None", snapshot.described.get(table_key))
    if known is None:
        known = snapshot.described[table_key] = _find_contents(snapshot, table_key, cache)
    return known


def _find_contents(snapshot: Snapshot, table_key: str, cache: Cache) -> TableContents:
    pin = snapshot.pins.get(table_key)
    if pin is None:
        return TableContents(table_key, (), ())

    if snapshot.commit is None:
        # Only a commit id tells this graph from an earlier one at the same location.
        return read_table_contents(table_key, snapshot.table(table_key))

    lag = snapshot.column_lag(table_key)
    key: Hashable = (
        "contents",
        # A copy of a graph has the same commits, and may outlive the graph that it was copied from.
        snapshot.table_uri(pin),
        snapshot.commit.id,
        table_key,
        pin.branch,
        pin.version,
        lag.hidden,
        lag.describe_defaults(),
    )
    return cache.get_or_make(key, lambda: _read_open_table(table_key, snapshot.table(table_key)), _estimate_bytes)


def _estimate_bytes(contents: TableContents) -> int:
    return _BYTES_PER_FRAGMENT * (1 + len(contents.fragments))


_open_tables: WeakKeyDictionary[LanceDataset, tuple[ColumnLag, TableContents]] = WeakKeyDictionary()
"""The contents of tables that are open, by their handles."""


def _read_open_table(table_key: str, table: Table) -> TableContents:
    """Read the contents of a table once. The head of a branch keeps those open that a commit did not change."""
    known = _open_tables.get(table.dataset)
    if known is None or known[0] != table.lag:
        known = _open_tables[table.dataset] = table.lag, read_table_contents(table_key, table)
    return known[1]


def read_table_contents(table_key: str, table: Table) -> TableContents:
    """Return the contents of a table, by its fragments."""
    parts = tuple(_to_contents(fragment) for fragment in list_fragments(table))
    columns = (*table.describe_columns(), *table.lag.describe_defaults())
    # Contents are kept for longer than versions are read: they must not keep their tables open.
    reopen = table.make_opener()
    return TableContents(table_key, columns, parts, lru_cache(1)(lambda: tuple(reopen().list_indexes().values())))


@lru_cache(_KNOWN_FRAGMENTS)
def _to_contents(fragment: TableFragment) -> FragmentContents:
    return FragmentContents(fragment.id, fragment.files, fragment.deletions, fragment.num_rows, fragment)


def locate_addresses(addresses: Values, contents: TableContents, table: Table) -> Positions:
    """Return the positions of rows of a table by their addresses: a fragment and an offset in it."""
    numbers = addresses.to_numpy(zero_copy_only=False).astype(np.int64)
    fragments, offsets = numbers >> 32, numbers & 0xFFFFFFFF
    counts = [part.num_rows for part in contents.fragments]
    starts = np.zeros(contents.newest_fragment + 1, np.int64)
    starts[[part.fragment for part in contents.fragments]] = np.cumsum([0, *counts])[:-1]
    positions = starts[fragments] + offsets
    changed = [part for part in contents.fragments if part.deletions is not None]
    for part, deleted in zip(changed, read_deleted_offsets(table, [each.source for each in changed]), strict=True):
        here = np.flatnonzero(fragments == part.fragment)
        positions[here] -= np.searchsorted(deleted.astype(np.int64), offsets[here])
    return positions
