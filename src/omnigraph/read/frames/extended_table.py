"""A table version as an older version in memory, the base, and the few rows that differ from it.

Positions below the length of the base are those of the base. A row that the version has under an id of the base keeps
its position, so an update moves no node. New rows come after the base. What was derived from the base stays valid for
all positions whose rows are the same, so a small commit costs what it changed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, TypeAlias, cast

import numpy as np
import pyarrow as pa

from omnigraph.errors import HistoryGone
from omnigraph.language.schema import EdgeType, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.frames.bases import list_bases
from omnigraph.read.frames.cache import Cache
from omnigraph.read.frames.contents import TableContents
from omnigraph.read.frames.entity_sets import FullTable, cast_values, open_full_table
from omnigraph.read.frames.frame import Positions
from omnigraph.read.frames.lookup import ChunkedValues, find_positions, find_sorted
from omnigraph.read.frames.version_delta import AddedRows, DeltaKey, VersionDelta, extend_parts, find_delta
from omnigraph.storage import tables
from omnigraph.storage.columns import Values, column_of, make_nulls
from omnigraph.storage.lagging_columns import fill_missing_column
from omnigraph.storage.tables import ROW_ADDRESS, Numbers, Table, are_few_small

_DENSE: Final = 4
"""With more positions than one row in so many, an array over all rows is faster than binary searches."""


@dataclass(frozen=True, slots=True, eq=False)
class _RowPlaces:
    """Where the rows of a version are: the position of each added row, and the base positions without a row."""

    added: Positions
    order: Positions
    """Sorts ``added``."""
    gone: Positions
    num_new: int
    """How many positions come after the base."""

    @property
    def nbytes(self) -> int:
        return self.added.nbytes + self.order.nbytes + self.gone.nbytes


class ExtendedTable:
    """All rows of a table version, as far as possible those of a base. Equal if both versions are.

    Rows of an edge table that were updated count as new ones: nothing refers to an edge by its position in the base
    but the arrays, which are corrected for removed and added edges anyway.
    """

    def __init__(self, base: FullTable, own: FullTable, delta: VersionDelta, cache: Cache) -> None:
        self.base = base
        self.delta = delta
        self._own = own
        self._cache = cache
        self._key = DeltaKey(delta.base, delta.contents)

    @cached_property
    def _places(self) -> _RowPlaces:
        return self._cache.get_or_make((self._key, "placement"), self._place_rows, lambda made: made.nbytes)

    @property
    def table_key(self) -> str:
        """The table of the entities."""
        return self.base.table_key

    @property
    def contents(self) -> TableContents:
        """The contents of the version."""
        return self.delta.contents

    def __len__(self) -> int:
        return len(self.base) + self._places.num_new

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExtendedTable) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def is_key(self, column: str) -> bool:
        """Whether a column alone is the key."""
        return self.base.is_key(column)

    def all_positions(self) -> Positions:
        """Return the positions that have a row, sorted."""
        kept = np.arange(len(self.base))
        kept = np.delete(kept, self._places.gone) if len(self._places.gone) else kept
        return np.concatenate([kept, len(self.base) + np.arange(self._places.num_new)])

    @property
    def added_positions(self) -> Positions:
        """The positions of the rows that the base does not have."""
        return self._places.added

    def take_ids(self, positions: Positions) -> pa.StringArray:
        """Return the ids at some positions."""
        return cast("pa.StringArray", self.take_values("id", positions))

    def take_values(self, column: str, positions: Positions) -> Values:
        """Return the values of a property at some positions, of which each has a row."""
        at = self._find_added(positions)
        is_added = at >= 0
        if not is_added.any():
            return self._take_from_base(column, positions)
        added = self.load_added(column).take(at[is_added])
        if len(added) == len(positions):
            return added
        kept = self._take_from_base(column, positions[~is_added])
        order = np.empty(len(positions), np.int64)
        order[~is_added] = np.arange(len(kept))
        order[is_added] = len(kept) + np.arange(len(added))
        return pa.concat_arrays([kept, added]).take(order)

    def locate(self, ids: Values | pa.StringArray | ChunkedValues) -> Positions:
        """Return the position of each id, -1 if the table does not have it."""
        return self.correct_positions(self.base.locate(ids), ids)

    def locate_one(self, id_: str) -> int:
        """Return the position of an id, -1 if the table does not have it."""
        return int(self.locate(pa.array([id_], pa.string()))[0])

    def correct_positions(self, in_base: Positions, ids: Values | pa.StringArray | ChunkedValues) -> Positions:
        """Turn the positions of some ids in the base, or -1, into those in the version."""
        at = in_base
        if len(self._places.gone):
            at = np.where(find_sorted(at, self._places.gone), -1, at)
        missing = np.flatnonzero(at < 0)
        if not len(missing) or not self._places.num_new:
            return at
        # Positions after the base are given in the order of the added rows.
        found = find_positions(cast("Values", ids).take(missing), self._new_ids)
        at = at.copy()
        at[missing] = np.where(found < 0, -1, len(self.base) + found)
        return at

    @cached_property
    def _new_ids(self) -> Values:
        """The ids of the rows that have positions after the base, in the order of these positions."""
        ids = self.load_added("id")
        if self._places.num_new == len(ids):
            return ids
        return ids.filter(pa.array(self._places.added >= len(self.base)))

    def rank_ids(self) -> Positions:
        """Return numbers that order the positions as the bytes of their ids do; they are kept in the cache."""
        return self._cache.get_or_make((self._key, "ranks of ids"), self._rank_ids, lambda made: made.nbytes)

    def _rank_ids(self) -> Positions:
        ranks, new = self.base.rank_ids(), self._new_ids
        if not len(new):
            return ranks
        order = np.argsort(np.array(cast("pa.StringArray", new).to_pylist(), object))
        # Between two neighbours of the base there is a number for each new id.
        step = len(new) + 1
        of_new = np.empty(len(new), np.int64)
        of_new[order] = self.base.count_ids_below(new.take(order)) * step + 1 + np.arange(len(new))
        return np.concatenate([(ranks + 1) * step, of_new])

    # ----------------------------------------------------------------------------------------- placing rows

    def _place_rows(self) -> _RowPlaces:
        count = sum(part.num_rows for part in self.delta.added)
        removed = self.delta.removed
        added = np.full(count, -1, np.int64)
        if isinstance(self.base.type, NodeType) and len(removed) and count:
            # An edge ends at the position of its node, so an updated node keeps it.
            found = find_positions(self.load_added("id"), cast("Values", self.base.take_ids(removed)))
            added = np.where(found < 0, -1, removed[found])
        is_new = added < 0
        added[is_new] = len(self.base) + np.arange(np.count_nonzero(is_new))
        order = np.argsort(added)
        gone = removed[~find_sorted(removed, added[order])]
        return _RowPlaces(added, order, gone, int(np.count_nonzero(is_new)))

    def _find_added(self, positions: Positions) -> Positions:
        """Return the number of the added row at each position; -1 for rows of the base."""
        added, order = self._places.added, self._places.order
        if not len(added):
            return np.full(len(positions), -1, np.int64)
        if len(positions) * _DENSE > len(self):
            numbers = np.full(len(self), -1, np.int64)
            numbers[added] = np.arange(len(added))
            return numbers[positions]
        at = np.minimum(np.searchsorted(added, positions, sorter=order), len(added) - 1)
        return np.where(added[order[at]] == positions, order[at], -1)

    # ----------------------------------------------------------------------------------------- reading

    def _take_from_base(self, column: str, positions: Positions) -> Values:
        try:
            return self.base.take_values(column, positions)
        except HistoryGone:
            return self._take_kept(column, positions)

    def _take_kept(self, column: str, positions: Positions) -> Values:
        """Return values of rows of the base from the version itself, because cleanup has removed the base."""
        table = self._own.open_table()
        whole = {part.fragment.fragment for part in self.delta.added if part.offsets is None}
        kept = [each.fragment for each in self.contents.fragments if each.fragment not in whole]
        if column not in table.column_types:
            return fill_missing_column(self.base.type, table.lag, column, len(positions))
        rows = _AddressedRows.of(table.scan([column], with_row_address=True, in_fragments=kept), [column])
        came = {part.fragment.fragment: part.offsets for part in self.delta.added if part.offsets is not None}
        at = [rows.find(each.fragment, came.get(each.fragment)) for each in self.delta.base.fragments]
        # Without its removed rows, the base has these rows in this order.
        numbers = positions - np.searchsorted(self.delta.removed, positions)
        return cast_values(rows.take(column, np.concatenate(at)[numbers]), self.base.type_of(column))

    def load_added(self, column: str) -> Values:
        """Return the values of all added rows, and keep those of each fragment in the cache."""
        return extend_parts(
            (self._key.base, "added", column, str(self.base.type_of(column))),
            self.delta,
            self._cache,
            lambda known, parts: pa.concat_arrays([*known, self._collect_added(column, parts)]),
        )

    def load_all_added(self) -> None:
        """Place the added rows, and load their values of all columns that are in memory of the base."""
        for column in ("id", *self.base.loaded_columns()):
            self.load_added(column)
        self._cache.get_or_make((self._key, "placement"), self._place_rows, lambda made: made.nbytes)

    def locate_added(self, column: str, nodes: FullTable) -> Positions:
        """Return the position of the text in a column of each added row among nodes, or -1."""

        def extend(known: Sequence[Positions], parts: Sequence[AddedRows]) -> Positions:
            count = sum(part.num_rows for part in parts)
            texts = self.load_added(column)
            return np.concatenate([*known, nodes.locate(texts.slice(len(texts) - count))])

        return extend_parts((self._key.base, "located", column, nodes.contents), self.delta, self._cache, extend)

    def _collect_added(self, column: str, parts: Sequence[AddedRows]) -> Values:
        type_ = self.base.type_of(column)
        kept = {part.key: self._cache.peek(self._key_of(part, column)) for part in parts}
        missing = [part for part in parts if kept[part.key] is None]
        if missing:
            kept |= {key: columns[column] for key, columns in self._read_added(missing, column).items()}
        found = [cast("Values", kept[part.key]) for part in parts]
        return pa.concat_arrays([make_nulls(0, type_), *found])

    def _key_of(self, part: AddedRows, column: str) -> Hashable:
        type_ = str(self.base.type_of(column))
        return "added rows", self.table_key, self.contents.columns, part.key, column, type_

    def _read_added(self, parts: Sequence[AddedRows], column: str) -> dict[Hashable, dict[str, Values]]:
        """Read a column of some fragments, together with all columns of the base that are in memory."""
        table = self._own.open_table()
        ends = ("src", "dst") if isinstance(self.base.type, EdgeType) else ()
        wanted = dict.fromkeys((column, *ends, *self.base.loaded_columns()))
        stored = [name for name in wanted if name in table.schema.names]
        found: dict[Hashable, dict[str, Values]] = {}
        for part, rows in self._fetch_added(parts, table, stored):
            columns = {
                name: cast_values(column_of(rows, name), self.base.type_of(name))
                if name in stored
                else fill_missing_column(self.base.type, table.lag, name, part.num_rows)
                for name in wanted
            }
            self._keep_added(part, columns)
            found[part.key] = columns
        return found

    def _fetch_added(
        self, parts: Sequence[AddedRows], table: Table, columns: Sequence[str]
    ) -> Iterator[tuple[AddedRows, pa.Table]]:
        """Yield the rows of each part, in order."""
        whole = [part.fragment.source for part in parts if part.offsets is None]
        if columns and len(whole) == len(parts) and are_few_small(whole):
            for part in parts:
                yield part, tables.take_fragment(table, part.fragment.source, columns)
            return
        numbers = {each.id for each in whole}
        scanned = table.scan(columns, with_row_address=True, in_fragments=numbers) if whole else ()
        few = [(part.fragment.source, part.offsets) for part in parts if part.offsets is not None]
        rows = _AddressedRows.of((*scanned, *tables.read_rows(table, few, columns)), columns)
        for part in parts:
            yield part, rows.rows.take(rows.find(part.fragment.fragment))

    def _keep_added(self, part: AddedRows, columns: Mapping[str, Values]) -> None:
        for name, values in columns.items():
            self._cache.replace(self._key_of(part, name), values, values.nbytes + 300)


@dataclass(frozen=True, slots=True, eq=False)
class _AddressedRows:
    """Rows in the order of their addresses: a fragment and an offset in it."""

    rows: pa.Table
    addresses: Numbers

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> _AddressedRows:
        tables = [pa.Table.from_batches([batch]).select([*columns, ROW_ADDRESS]) for batch in batches]
        if not tables:
            return cls(pa.table({}), np.zeros(0, np.uint64))
        rows = pa.concat_tables(tables)
        addresses = column_of(rows, ROW_ADDRESS).to_numpy(zero_copy_only=False).astype(np.uint64)
        order = np.argsort(addresses)
        return cls(rows.take(order), addresses[order])

    def find(self, fragment: int, without: Numbers | None = None) -> Positions:
        """Return the numbers of the rows of a fragment, without those at some offsets."""
        bounds = np.array([fragment << 32, (fragment + 1) << 32], np.uint64)
        begin, end = map(int, np.searchsorted(self.addresses, bounds))
        at = np.arange(begin, end, dtype=np.int64)
        if without is None:
            return at
        return at[~np.isin(self.addresses[begin:end] & np.uint64(0xFFFFFFFF), without)]

    def take(self, column: str, at: Positions) -> Values:
        """Return the values of a column in some rows."""
        return column_of(self.rows, column).take(at)


# --------------------------------------------------------------------------------------------- choosing a base

WholeTable: TypeAlias = FullTable | ExtendedTable
"""All rows of a table version, in memory as far as they were needed."""


def open_node_table(snapshot: Snapshot, type_: NodeType, cache: Cache) -> WholeTable:
    """Return all nodes of a type: from a base if the ids of one, but not those of the version, are in memory."""
    own = open_full_table(snapshot, type_.table_key, type_, cache)
    if own.is_loaded():
        return own
    bases = (base for base in list_bases(own.contents, cache) if base.is_loaded())
    extended = (extend_table(base, own, cache) for base in bases)
    return next((each for each in extended if each is not None), own)


def extend_table(base: FullTable, own: FullTable, cache: Cache) -> ExtendedTable | None:
    """Return a version as an extension of a base; None if it differs in more than a few rows."""
    delta = find_delta(base.contents, own.contents, base.open_table, own.open_table, cache)
    if delta is None:
        return None
    # The schema may have changed in what does not concern the table.
    return ExtendedTable(FullTable(base.contents, own.type, cache, base.open_table), own, delta, cache)


def base_of(table: WholeTable) -> FullTable:
    """Return the version that positions in a table are derived from."""
    return table.base if isinstance(table, ExtendedTable) else table
